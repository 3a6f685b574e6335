//! An alarm, between its task on a hot thread and those who report it: its changes in a ring, and how it is in a sequence lock. A tick makes no
//! system call and allocates nothing for it, and waits for no one. No clock is read.

use super::Latest;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// How many changes wait to be reported, at most; more are counted.
const ROOM: usize = 256;

/// How far a value is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    LoLo,
    Low,
    Normal,
    High,
    HiHi,
    /// The condition holds, where the alarm has one in place of limits.
    On,
    /// There is no good value.
    Bad,
}

impl Level {
    const ALL: [Self; 7] = [Self::LoLo, Self::Low, Self::Normal, Self::High, Self::HiHi, Self::On, Self::Bad];

    /// As a byte, for an atomic.
    const fn to_byte(self) -> u8 {
        self as u8
    }

    /// The level of such a byte.
    fn of_byte(byte: u8) -> Self {
        Self::ALL.get(usize::from(byte)).copied().unwrap_or(Self::Normal)
    }

    /// What a configuration calls its limit, and an entry of the log the level.
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

    /// As a value of the task: 0 for none, 1 and 2 above, -1 and -2 below the range; 1 for a condition that holds, 3 for no good value.
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
    /// The tick; `None`: a reload has ended the alarm.
    pub(crate) n: Option<u64>,
    pub(crate) severity: Severity,
    pub(crate) was: Level,
    pub(crate) is: Level,
    /// NaN: there was no good value.
    pub(crate) value: f64,
}

/// An alarm, as others than its own task see it.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Its task.
    pub(crate) task: String,
    sender: Sender<AlarmChange>,
    changes: Receiver<AlarmChange>,
    lost: AtomicU64,
    shown: Latest<2>, // as `Shown`; while one task takes over from another both may store one, and the next tick sets it right
    replaced: AtomicBool, // another alarm has its name
}

/// What an alarm shows of its latest tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) level: Level,
    pub(crate) worst: Level,
    pub(crate) severity: Severity,
    pub(crate) is_latched: bool,
    pub(crate) value: f64,
}

impl Shown {
    /// Without this bit it has not ticked yet.
    const HAS_TICKED: u64 = 1 << 8;
    const IS_LATCHED: u64 = 1 << 9;

    /// The value comes first: a worker that is preempted between both has not ticked yet, the first time.
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
    /// That of a task which has not ticked.
    pub(crate) fn new(task: &str) -> Arc<Self> {
        let (sender, changes) = bounded(ROOM);
        let (lost, shown, replaced) = Default::default();
        Arc::new(Self { task: task.to_owned(), sender, changes, lost, shown, replaced })
    }

    /// As of its latest tick; `None`: it has not ticked.
    pub(crate) fn shown(&self) -> Option<Shown> {
        Shown::of_numbers(self.shown.read())
    }

    /// What has just come of a tick. To be called before the change is [reported](Self::report), if there is one.
    pub(crate) fn show(&self, shown: Shown) {
        self.shown.store(shown.to_numbers());
    }

    /// Sends a change to the metrics thread, which logs it.
    pub(crate) fn report(&self, change: AlarmChange) {
        if self.sender.try_send(change).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Another alarm has its name from now on.
    pub(crate) fn supersede(&self) {
        self.replaced.store(true, Ordering::Release); // who sees it sees the changes that were reported before
    }

    /// Whether no task will change it any more.
    pub(crate) fn is_over(self: &Arc<Self>) -> bool {
        let is_over = Arc::strong_count(self) == 1 || self.replaced.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // a task that is gone, or has been replaced, has made its changes before
        is_over
    }

    /// The changes that have not been taken, and how many were lost for want of room.
    pub(crate) fn take(&self) -> (impl Iterator<Item = AlarmChange>, u64) {
        (self.changes.try_iter(), self.lost.swap(0, Ordering::Relaxed))
    }

    /// The end that a reload has brought it, if it was active then.
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
