//! The maximum age of the values that chains act on, and whether `hertzd check` has more warnings for one configuration than for another.
//! Pure.

use crate::cli::graph::Graph;
use crate::cli::{check, latency};
use crate::config::{Config, Problem, Problems};
use crate::daemon::layout::{Spot, TooOld};
use crate::time::Span;
use std::cell::RefCell;

/// The age of a chain when the tick of its last task has finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Age {
    /// The chain's tasks: `imu, control, motor`.
    pub(super) chain: String,
    pub(super) age: Span,
    /// At the release of that tick, as `hertzd check` reports it.
    oldest: Span,
    /// The `max-latency` of its last task.
    pub(super) most: Option<Span>,
}

impl Age {
    fn is_too_old(&self) -> bool {
        self.most.is_some_and(|most| self.age > most || self.oldest >= most)
    }
}

/// Every chain, and every part of one that ends at a task with `max-latency`. `worst` returns a task's worst response.
pub(super) fn ages(config: &Config, worst: impl Fn(usize) -> Span) -> Vec<Age> {
    let graph = Graph::of(config);
    let ends: Vec<usize> = graph.ends().collect();
    let all = (0..config.tasks.len()).filter(|task| ends.contains(task) || config.tasks[*task].max_latency.is_some());
    let age = |end: usize| {
        let names: Vec<_> = graph.chain(end).into_iter().map(|task| config.tasks[task].name.as_str()).collect();
        let (oldest, most) = (graph.oldest(end), config.tasks[end].max_latency);
        Age { chain: names.join(", "), age: oldest + worst(end), oldest, most }
    };
    all.map(age).collect()
}

/// The chains that exceed their `max-latency`, as a sentence. `None`: there are none.
pub(super) fn too_old(ages: &[Age]) -> Option<String> {
    let say = |age: &Age| {
        let most = age.most.unwrap_or_default();
        format!("{} is up to {} old when its last tick has finished, and its max-latency is {most}", age.chain, age.age)
    };
    let all: Vec<_> = ages.iter().filter(|age| age.is_too_old()).map(say).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Judges the chains of a layout. `tasks` are the placed tasks; `scratch` is the configuration, whose workers and phases are overwritten.
pub(super) fn judge<'a>(scratch: &'a RefCell<Config>, tasks: &'a [usize]) -> impl Fn(&[Option<Spot>]) -> TooOld + 'a {
    let has_limit = scratch.borrow().tasks.iter().any(|task| task.max_latency.is_some());
    move |spots| {
        if !has_limit {
            return TooOld::default();
        }
        let mut config = scratch.borrow_mut();
        let workers = config.workers.len();
        for (at, (task, spot)) in tasks.iter().zip(spots).enumerate() {
            let task = &mut config.tasks[*task];
            match spot {
                Some(spot) => (task.worker, task.phase) = (workers + spot.worker, spot.phase),
                None => task.worker = workers + spots.len() + at,
            }
        }
        let graph = Graph::of(&config);
        let mut old = TooOld::default();
        for (task, spot) in tasks.iter().zip(spots) {
            let (Some(spot), Some(most)) = (spot, config.tasks[*task].max_latency) else { continue };
            let (oldest, by) = (graph.oldest(*task), graph.oldest(*task) + spot.worst - most);
            // `check` warns about the second condition.
            if by > Span::ZERO || oldest >= most {
                old = TooOld { chains: old.chains + 1, by: old.by + by };
            }
        }
        old
    }
}

/// The chains that exceed their `max-latency` and are older than without this plan, as a sentence. `None`: there are none.
pub(super) fn older(without: &[Age], with: &[Age]) -> Option<String> {
    let is_older = |(without, with): &(&Age, &Age)| with.is_too_old() && with.age > without.age;
    let say = |(without, with): (&Age, &Age)| {
        let most = with.most.unwrap_or_default();
        let Age { chain, age, .. } = with;
        format!(
            "{chain} would be up to {age} old when its last tick has finished, not {}, and its max-latency is {most}",
            without.age
        )
    };
    let all: Vec<_> = without.iter().zip(with).filter(is_older).map(say).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// What `hertzd check` would warn about.
pub(super) fn warnings(config: &Config) -> Vec<Problem> {
    let all = Problems::joined(check::doubts(&Graph::of(config)));
    all.iter().flat_map(Problems::iter).cloned().collect()
}

/// The warnings for `planned` that do not apply to `config`, and anything that every command would reject.
pub(super) fn new_warnings(config: &Config, planned: &Config) -> Vec<String> {
    let before = warnings(config);
    let is_new = |table: &str, key: &str| before.iter().all(|known| (&*known.table, &*known.key) != (table, key));
    let new = warnings(planned).into_iter().filter(|problem| is_new(&problem.table, &problem.key));
    let refused = latency::refuse(planned).err();
    let refused: Vec<Problem> = refused.iter().flat_map(Problems::iter).cloned().collect();
    new.chain(refused).map(|problem| problem.message).collect()
}
