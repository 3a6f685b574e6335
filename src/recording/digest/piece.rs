//! A part of a recording, summed up: what its recorder keeps until it writes it down. Pure.

use super::tally::{Bin, Known, Tally};
use crate::recording::content::RecordedTick;
use crate::time::{NANOS_PER_SECOND, Span};
use std::collections::BTreeMap;

/// How finely a piece tells what happened when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grain {
    /// By whole seconds, but at least this many ticks at a time: what the recorder keeps is small beside the ticks.
    #[default]
    Second,
    /// By ticks: for a reader.
    Tick,
}

const MINUTE: i64 = 60 * NANOS_PER_SECOND;

/// Ticks of a stretch that is not the last of its piece, at least.
const TICKS: u64 = 64;

/// A part of a recording, by the names of its tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    pub(super) tasks: BTreeMap<String, TaskPiece>,
    grain: Grain,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TaskPiece {
    pub(super) tally: Tally,
    pub(super) stretches: Vec<Stretch>, // in the order of their ticks
    pub(super) before: Option<Known>,   // the last tick before this piece
}

/// Ticks of a task, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) from: i64, // the release of its first tick, in UTC, and that of its last
    pub(super) until: i64,
    pub(super) bin: Bin,
}

impl Piece {
    pub(super) fn new(grain: Grain) -> Self {
        Self { tasks: BTreeMap::new(), grain }
    }

    /// Enters the next tick of a task, released at `at`.
    pub(crate) fn tick(&mut self, task: &str, tick: &RecordedTick, at: i64) {
        if !self.tasks.contains_key(task) {
            self.tasks.insert(task.to_owned(), TaskPiece::default());
        }
        let Some(TaskPiece { tally, stretches, before }) = self.tasks.get_mut(task) else { return };
        tally.enter(tick, at, tally.last.or(*before));
        let second = |at: i64| at.div_euclid(NANOS_PER_SECOND);
        let goes_on = |last: &&mut Stretch| match self.grain {
            Grain::Second => {
                // UTC may have been set.
                let near = (0..MINUTE).contains(&at.saturating_sub(last.until));
                near && (last.bin.ticks < TICKS || second(last.until) == second(at))
            }
            Grain::Tick => false,
        };
        match stretches.last_mut().filter(goes_on) {
            Some(last) => {
                last.until = at;
                last.bin.enter(tick);
            }
            None => {
                let mut bin = Bin::default();
                bin.enter(tick);
                stretches.push(Stretch { from: at, until: at, bin });
            }
        }
    }

    /// What comes next of this task comes after that tick.
    pub(super) fn goes_on(&mut self, task: &str, last: Option<Known>) {
        self.tasks.entry(task.to_owned()).or_default().before = last;
    }

    /// Begins the next one.
    pub(crate) fn turn(&mut self) {
        for task in self.tasks.values_mut() {
            *task = TaskPiece { before: task.tally.last.or(task.before), ..TaskPiece::default() };
        }
    }

    /// The tasks with a tick in it.
    pub(super) fn told(&self) -> impl Iterator<Item = (&String, &TaskPiece)> {
        self.tasks.iter().filter(|(_, task)| task.tally.ticks > 0)
    }
}

impl Stretch {
    pub(super) fn length(&self) -> Span {
        Span::from_nanos(self.until.saturating_sub(self.from))
    }
}
