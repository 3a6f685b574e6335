//! Tasks to be placed and their positions: the parts of a CPU's layout.

use crate::daemon::preview::capacity::Claim;
use crate::pacing::{Rate, Tail, Turn};
use crate::time::Span;
use std::collections::BTreeMap;

/// A task to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) rate: Rate,
    pub(crate) deadline: Span,
    /// The tasks that read its values. On one worker it runs before them.
    pub(crate) feeds: Vec<usize>,
    /// The longest known run; zero if none is known.
    pub(crate) run: Span,
    /// What `hertzd check` counts for it.
    pub(crate) claim: Claim,
    /// Only tasks with the same number may share a worker.
    pub(crate) settings: usize,
    /// Its fixed phase; `None`: any.
    pub(crate) phase: Option<Span>,
    /// The positions of the CPUs that it may use; `None`: any.
    pub(crate) on: Option<Vec<usize>>,
    pub(crate) tail: Tail,
    /// Its current phase.
    pub(crate) now: Span,
    /// Tasks of the same chain stay on one worker, and their phases keep their current distances. `None`: it is in no chain.
    pub(crate) chain: Option<usize>,
}

/// The position of a task, for judging the chain that ends with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Tasks with the same number are on one worker.
    pub(crate) worker: usize,
    pub(crate) phase: Span,
    /// Its worst response.
    pub(crate) worst: Span,
}

/// The chains older than their `max-latency`, and their total excess. Less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TooOld {
    pub(crate) chains: usize,
    pub(crate) by: Span,
}

/// What is known of chains.
#[derive(Clone, Copy)]
pub(crate) struct Chains<'a> {
    /// Other ways to keep tasks together, instead of [`Placed::chain`]. They are tried if a chain exceeds its `max-latency`.
    pub(crate) together: &'a [Vec<Option<usize>>],
    /// Judges the chains that end with the placed tasks. Unplaced tasks count as alone on their workers.
    pub(crate) too_old: &'a dyn Fn(&[Option<Spot>]) -> TooOld,
}

/// The turns of the tasks of one worker.
pub(super) fn turns(tasks: &[Placed], worker: &PlannedWorker) -> Vec<Turn> {
    let mut turns: Vec<Turn> = worker.tasks.iter().map(|(task, _)| tasks[*task].deadline.into()).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (at, (task, _)) in worker.tasks.iter().enumerate() {
            let fed = worker.tasks.iter().zip(&turns).filter(|((other, _), _)| tasks[*task].feeds.contains(other));
            let turn = fed.fold(turns[at], |turn, (_, fed)| turn.before(*fed));
            if turn != turns[at] {
                (turns[at], changed) = (turn, true);
            }
        }
    }
    turns
}

/// These tasks, grouped by chain.
pub(super) fn chains(tasks: &[Placed], of: &[usize]) -> Vec<Vec<usize>> {
    let mut together: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for task in of {
        let key = tasks[*task].chain.map_or((1, *task), |chain| (0, chain));
        together.entry(key).or_default().push(*task);
    }
    let mut chains: Vec<_> = together.into_values().collect();
    chains.iter_mut().for_each(|chain| chain.sort_unstable());
    chains.sort();
    chains
}

/// A worker of a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlannedWorker {
    /// Its tasks, in the order of declaration, each with its phase.
    pub(crate) tasks: Vec<(usize, Span)>,
}

/// The workers of one CPU. Each interrupts those after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuLayout {
    pub(crate) workers: Vec<PlannedWorker>,
}
