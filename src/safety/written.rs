//! Records what was last written to a target, for those who read it back. Wait-free for writers, of which there may be several at once.
//!
//! Each write begins and ends here. Its number is known only if no other write was running at the same time: of two overlapping writes, it
//! is unknown which came last. `tests/loom` tries the memory orderings, and removes each of them in turn.

use crate::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The raw number last written to a target.
#[derive(Debug, Default)]
pub(crate) struct LastWritten {
    begun: AtomicU64,  // writes begun
    ended: AtomicU64,  // writes ended
    number: AtomicU64, // of the write that ended last; NaN: unknown
    settings: [AtomicU64; SETTINGS],
    sets: AtomicU64,    // how often the settings were written
    lapsed: AtomicBool, // the target was found changed, and has not been written again since
    undone: AtomicBool, // a setting was found changed, and has not been found right since
}

/// Maximum number of files beside its value that decide what effect a target's value has: `pwmN_enable` of a fan; period, polarity and
/// `enable` of a PWM channel; `powerdown` of a converter.
pub(crate) const SETTINGS: usize = 3;

/// A running write.
#[derive(Debug)]
#[must_use]
pub(crate) struct UnderWay {
    pub(super) number: u64, // this write's number
    pub(super) alone: bool, // no other write was running so far
}

impl LastWritten {
    /// A write begins.
    pub(crate) fn begin(&self) -> UnderWay {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        // Whoever sees what is written also sees that the write began. Pairs with `end` and `Watched::begin_takeover`: they see this, or
        // this sees them.
        fence(Ordering::SeqCst);
        UnderWay { number, alone: self.ended.load(Ordering::Acquire) == number }
    }

    /// The write has ended. `wrote`: the raw number; NaN: the write failed, or the number is unknown.
    pub(crate) fn end(&self, write: &UnderWay, wrote: f64) {
        self.number.store(if write.alone { wrote } else { f64::NAN }.to_bits(), Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with `begin`: a write not seen here knows that it is not alone, and its store comes last
        if self.begun.load(Ordering::Relaxed) != write.number + 1 {
            self.number.store(f64::NAN.to_bits(), Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// The settings were written too, with these raw numbers; NaN: none, or unknown. Called by the writer before its write ends.
    pub(crate) fn set(&self, numbers: [f64; SETTINGS]) {
        for (setting, number) in self.settings.iter().zip(numbers) {
            setting.store(number.to_bits(), Ordering::Relaxed);
        }
        self.sets.fetch_add(1, Ordering::Relaxed);
        self.repaired();
    }

    /// A write of the value, and of the settings if there are any, has ended. `None`: it failed.
    pub(crate) fn was_set(&self, numbers: Option<[f64; SETTINGS]>) {
        match numbers {
            Some(numbers) if !numbers[0].is_nan() => self.set(numbers),
            Some(_) => {}
            None => self.forget_settings(),
        }
    }

    /// The numbers last written to the settings, and how often they were written; `None`: never. Reliable only if no write came in between.
    pub(crate) fn settings(&self) -> Option<([f64; SETTINGS], u64)> {
        let sets = self.sets.load(Ordering::Relaxed);
        let numbers = std::array::from_fn(|at| f64::from_bits(self.settings[at].load(Ordering::Relaxed)));
        (sets > 0).then_some((numbers, sets))
    }

    /// The settings' content is unknown from now on: they are written with the next value. Unknown settings are compared with nothing.
    pub(crate) fn forget_settings(&self) {
        if self.sets.load(Ordering::Relaxed) > 0 {
            self.settings.iter().for_each(|setting| setting.store(f64::NAN.to_bits(), Ordering::Relaxed));
            self.lapse();
        }
    }

    /// Notes whether the settings, when read back, were as they were written.
    pub(crate) fn found_in_force(&self, is_in_force: bool) {
        self.undone.store(!is_in_force, Ordering::Relaxed);
    }

    /// Whether the settings were still as written at the last readback.
    pub(crate) fn is_in_force(&self) -> bool {
        !self.undone.load(Ordering::Relaxed)
    }

    /// The target is not as it was written: its task has to write everything again.
    pub(crate) fn lapse(&self) {
        self.lapsed.store(true, Ordering::Relaxed);
    }

    /// Whether [`lapse`](Self::lapse) was called and nothing has been rewritten since.
    pub(crate) fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Relaxed)
    }

    /// Everything was written again.
    pub(crate) fn repaired(&self) {
        self.lapsed.store(false, Ordering::Relaxed);
    }

    /// Whether no write is running.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ended.load(Ordering::Acquire) == self.begun.load(Ordering::Relaxed)
    }

    /// The number last written, NaN if unknown, and how many writes there were; `None`: a write is running.
    pub(crate) fn quiet(&self) -> Option<(f64, u64)> {
        let ended = self.ended.load(Ordering::Acquire);
        let number = f64::from_bits(self.number.load(Ordering::Relaxed));
        // Ensures that a write is seen as begun if its number was read here, or its effect before.
        fence(Ordering::Acquire);
        let number = if ended > 0 { number } else { f64::NAN };
        (ended == self.begun.load(Ordering::Relaxed)).then_some((number, ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LastWritten {
        fn settled(&self) -> Option<(f64, u64)> {
            self.quiet().filter(|(number, _)| !number.is_nan())
        }
    }

    #[test]
    fn it_is_known_only_when_no_write_is_under_way_and_only_after_one_that_was_alone() {
        let last = LastWritten::default();
        assert_eq!(last.settled(), None, "nothing was written");
        let first = last.begin();
        assert_eq!(last.settled(), None, "under way");
        last.end(&first, 5.0);
        assert_eq!(last.settled(), Some((5.0, 1)));
        let failed = last.begin();
        last.end(&failed, f64::NAN);
        assert_eq!(last.settled(), None, "what is there after a write that failed is not known");
        // Two at once, either of which ends first.
        for ends in [[0, 1], [1, 0]] {
            let both = [last.begin(), last.begin()];
            last.end(&both[ends[0]], 1.0);
            assert_eq!(last.settled(), None);
            last.end(&both[ends[1]], 2.0);
            assert_eq!(last.settled(), None, "which came last?");
            let one = last.begin();
            last.end(&one, 3.0);
            assert_eq!(last.settled().map(|(number, _)| number), Some(3.0));
        }
    }

    #[test]
    fn what_reads_settled_before_and_after_held_in_between() {
        // Each writer stores its number in the target between the begin and end of its write.
        let (last, target, done) = (LastWritten::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for writer in 1..3_u32 {
                let (last, target, done) = (&last, &target, &done);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let number = f64::from(round * 10 + writer);
                        let write = last.begin();
                        target.store(number.to_bits(), Ordering::SeqCst);
                        last.end(&write, number);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut compared = 0;
            while done.load(Ordering::SeqCst) < 2 || compared == 0 {
                let before = last.settled();
                let found = f64::from_bits(target.load(Ordering::SeqCst));
                match before {
                    Some((written, _)) if last.settled() == before => {
                        assert_eq!(found.to_bits(), written.to_bits());
                        compared += 1;
                    }
                    // If the last two writes overlapped, there is nothing left to find.
                    _ if done.load(Ordering::SeqCst) == 2 && last.settled().is_none() => break,
                    _ => {}
                }
            }
        });
    }
}
