//! Records since when and why another thread than the task keeps a target at its safe value. Wait-free for the writer, which is the thread
//! of safe values. No clock is read.

use crate::atomic::{AtomicI64, Ordering};
use crate::time::Instant;

/// Why a target is held at its safe value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldFor {
    /// Its task does not tick.
    Still,
    /// All safe values were requested.
    Order,
    /// Its task could not write it when it was disabled or ended.
    Owed,
}

/// One output's hold in one number, set by the thread of safe values. The number divided by 4 is the start in nanoseconds on the monotonic
/// clock, negative if the output is not held; the lowest two bits are the reason.
#[derive(Debug)]
pub(super) struct Holding(AtomicI64);

const NOT_HELD: i64 = -4;

impl Default for Holding {
    fn default() -> Self {
        Self(AtomicI64::new(NOT_HELD))
    }
}

impl Holding {
    /// Sets the reason for the next hold, unless the hold has started.
    pub(super) fn is_for(&self, why: HeldFor) {
        if self.number() < 0 {
            self.0.store(NOT_HELD + why as i64, Ordering::Relaxed);
        }
    }

    /// Starts the hold now, unless it has started.
    pub(super) fn begins(&self, now: Instant) {
        let number = self.number();
        if number < 0 {
            let now = i64::try_from(now.nanos()).unwrap_or(i64::MAX >> 2).max(0);
            self.0.store((now << 2) + (number - NOT_HELD), Ordering::Relaxed);
        }
    }

    pub(super) fn ends(&self) {
        if self.number() >= 0 {
            self.0.store(NOT_HELD, Ordering::Relaxed);
        }
    }

    /// Start and reason of the hold.
    pub(super) fn get(&self) -> Option<(Instant, HeldFor)> {
        let number = Some(self.number()).filter(|number| *number >= 0)?;
        let why = match number & 3 {
            0 => HeldFor::Still,
            1 => HeldFor::Order,
            _ => HeldFor::Owed,
        };
        Some((Instant::from_nanos((number >> 2).into()), why))
    }

    fn number(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What ends a hold, and the value in force until then.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// What ends the hold, as a clause.
    pub(crate) ends: String,
    /// The safe value in the unit of the input; NaN: unknown.
    pub(crate) applied: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_one_beginning_and_one_reason_until_it_ends() {
        let (holding, at) = (Holding::default(), |nanos| Instant::from_nanos(nanos));
        assert_eq!(holding.get(), None);
        for why in [HeldFor::Still, HeldFor::Order, HeldFor::Owed] {
            holding.is_for(HeldFor::Still);
            holding.is_for(why);
            assert_eq!(holding.get(), None, "it is not written yet");
            holding.begins(at(7));
            holding.begins(at(9));
            holding.is_for(HeldFor::Order);
            assert_eq!(holding.get(), Some((at(7), why)));
            holding.ends();
            assert_eq!(holding.get(), None);
        }
    }
}
