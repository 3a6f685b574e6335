//! That another thread than the task keeps a target at its safe value: since when, and why. For those who ask; wait-free for who says it, which is the
//! thread of safe values. No clock is read.

use crate::atomic::{AtomicI64, AtomicU64, Ordering};
use crate::time::Instant;

/// Why a target is held at its safe value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldFor {
    /// Its task does not tick.
    Still,
    /// All safe values were asked for.
    Order,
    /// Its task could not write it when it was disabled, or ended.
    Owed,
}

/// What the thread of safe values says of one output.
#[derive(Debug)]
pub(super) struct Holding {
    since: AtomicI64, // nanoseconds on the monotonic clock
    why: AtomicU64,
}

const NEVER: i64 = i64::MIN;

impl Default for Holding {
    fn default() -> Self {
        Self { since: AtomicI64::new(NEVER), why: AtomicU64::new(0) }
    }
}

impl Holding {
    /// It is to be for this reason, unless it is already.
    pub(super) fn is_for(&self, why: HeldFor) {
        if self.since.load(Ordering::Relaxed) == NEVER {
            self.why.store(why as u64, Ordering::Relaxed);
        }
    }

    /// It is from now on, unless it was already.
    pub(super) fn begins(&self, now: Instant) {
        if self.since.load(Ordering::Relaxed) == NEVER {
            let now = i64::try_from(now.nanos()).unwrap_or(i64::MAX);
            self.since.store(now, Ordering::Release); // who sees it sees why
        }
    }

    pub(super) fn ends(&self) {
        self.since.store(NEVER, Ordering::Relaxed);
    }

    /// Since when it is, and why.
    pub(super) fn get(&self) -> Option<(Instant, HeldFor)> {
        let since = Some(self.since.load(Ordering::Acquire)).filter(|since| *since != NEVER)?;
        let why = match self.why.load(Ordering::Relaxed) {
            0 => HeldFor::Still,
            1 => HeldFor::Order,
            _ => HeldFor::Owed,
        };
        Some((Instant::from_nanos(since.into()), why))
    }
}

/// What ends that, and what is in force until then.
#[derive(Clone, Debug)]
pub(in crate::kinds::output) struct Terms {
    /// What ends it, in a clause.
    pub(in crate::kinds::output) ends: String,
    /// The safe value in the unit of the input; NaN: not known.
    pub(in crate::kinds::output) applied: f64,
}
