//! An alarm, between its task on a hot thread and the threads that report it: a ring of changes, and the current state in a sequence lock.
//! A tick makes no system call, allocates nothing and never waits for the alarm. No clock is read.

use super::Latest;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The most changes that can wait to be reported; further ones are only counted.
const ROOM: usize = 256;

/// How far a value is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    LoLo,
    Low,
    Normal,
    High,
    HiHi,
    /// The condition holds, for an alarm that has a condition instead of limits.
    On,
    /// No good value is available.
    Bad,
}

impl Level {
    const ALL: [Self; 7] = [Self::LoLo, Self::Low, Self::Normal, Self::High, Self::HiHi, Self::On, Self::Bad];

    /// The level as a byte, for an atomic.
    const fn to_byte(self) -> u8 {
        self as u8
    }

    /// The level encoded by a byte.
    fn of_byte(byte: u8) -> Self {
        Self::ALL.get(usize::from(byte)).copied().unwrap_or(Self::Normal)
    }

    /// The name of the limit in a configuration, and of the level in the log.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::LoLo => "lolo",
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::HiHi => "hihi",
            Self::On => "on",
            Self::Bad => "bad",
        }
    }

    /// The level as a value of the task: 0 in range, 1 and 2 above it, -1 and -2 below it. 1 also if the condition holds, 3 without a good
    /// value.
    pub(crate) const fn number(self) -> f64 {
        match self {
            Self::LoLo => -2.0,
            Self::Low => -1.0,
            Self::Normal => 0.0,
            Self::High | Self::On => 1.0,
            Self::HiHi => 2.0,
            Self::Bad => 3.0,
        }
    }

    pub(crate) const fn rank(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Low | Self::High | Self::On => 1,
            Self::LoLo | Self::HiHi => 2,
            Self::Bad => 3,
        }
    }
}

/// How much an alarm matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Notice,
    Warning,
    Error,
}

impl Severity {
    const ALL: [Self; 3] = [Self::Notice, Self::Warning, Self::Error];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A change of an alarm's level, to be reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AlarmChange {
    /// The tick; `None`: a reload ended the alarm.
    pub(crate) n: Option<u64>,
    pub(crate) severity: Severity,
    pub(crate) was: Level,
    pub(crate) is: Level,
    /// NaN if there was no good value.
    pub(crate) value: f64,
}

/// An alarm, as seen by code other than its own task.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Its task.
    pub(crate) task: String,
    sender: Sender<AlarmChange>,
    changes: Receiver<AlarmChange>,
    lost: AtomicU64,
    shown: Latest<2>, // a `Shown`. While one task takes over from another, both may store one; the next tick corrects it
    replaced: AtomicBool, // another alarm has its name
}

/// The state of an alarm after its most recent tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) level: Level,
    pub(crate) worst: Level,
    pub(crate) severity: Severity,
    pub(crate) is_latched: bool,
    pub(crate) value: f64,
}

impl Shown {
    /// Clear until the first tick.
    const HAS_TICKED: u64 = 1 << 8;
    const IS_LATCHED: u64 = 1 << 9;

    /// The value comes first. If the worker is preempted between both stores of the first tick, the alarm appears not to have ticked yet.
    fn to_numbers(self) -> [u64; 2] {
        let latched = if self.is_latched { Self::IS_LATCHED } else { 0 };
        let bytes =
            u64::from_le_bytes([self.level.to_byte(), 0, self.worst.to_byte(), self.severity as u8, 0, 0, 0, 0]);
        [self.value.to_bits(), bytes | latched | Self::HAS_TICKED]
    }

    fn of_numbers([value, state]: [u64; 2]) -> Option<Self> {
        let [level, _, worst, severity, ..] = state.to_le_bytes();
        (state & Self::HAS_TICKED != 0).then(|| Self {
            level: Level::of_byte(level),
            worst: Level::of_byte(worst),
            severity: Severity::ALL.get(usize::from(severity)).copied().unwrap_or(Severity::Error),
            is_latched: state & Self::IS_LATCHED != 0,
            value: f64::from_bits(value),
        })
    }
}

impl Alarm {
    /// The alarm of a task that has not ticked.
    pub(crate) fn new(task: &str) -> Arc<Self> {
        let (sender, changes) = bounded(ROOM);
        let (lost, shown, replaced) = Default::default();
        Arc::new(Self { task: task.to_owned(), sender, changes, lost, shown, replaced })
    }

    /// The state after its most recent tick; `None` before the first one.
    pub(crate) fn shown(&self) -> Option<Shown> {
        Shown::of_numbers(self.shown.read())
    }

    /// Publishes the state after a tick. Call this before a change is [reported](Self::report).
    pub(crate) fn show(&self, shown: Shown) {
        self.shown.store(shown.to_numbers());
    }

    /// Sends a change to the metrics thread, which logs it.
    pub(crate) fn report(&self, change: AlarmChange) {
        if self.sender.try_send(change).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Another alarm has taken its name.
    pub(crate) fn supersede(&self) {
        self.replaced.store(true, Ordering::Release); // whoever sees this also sees the changes reported before it
    }

    /// Whether no task will change it any more.
    pub(crate) fn is_over(self: &Arc<Self>) -> bool {
        let is_over = Arc::strong_count(self) == 1 || self.replaced.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // a task that is gone or replaced made its changes before this
        is_over
    }

    /// The changes not yet taken, and the number of changes lost because the ring was full.
    pub(crate) fn take(&self) -> (impl Iterator<Item = AlarmChange>, u64) {
        (self.changes.try_iter(), self.lost.swap(0, Ordering::Relaxed))
    }

    /// The change to report when a reload ends the alarm; `None` if it was not active.
    pub(crate) fn end(&self) -> Option<AlarmChange> {
        let Shown { level: was, severity, value, .. } = self.shown()?;
        (was != Level::Normal).then_some(AlarmChange { n: None, severity, was, is: Level::Normal, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_what_its_byte_says() {
        assert_eq!(Level::ALL.map(|level| Level::of_byte(level.to_byte())), Level::ALL);
    }
}
