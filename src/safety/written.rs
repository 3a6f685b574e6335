//! What was written to a target last, for those who read it back: wait-free for those who write, who may be several threads at once.
//!
//! Each write begins and ends here. What it wrote is known only if no other one was under way meanwhile: of two at once it is not known which
//! came last. The order of the memory is tried by `tests/loom`, without each of its words too.

use crate::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The raw number that a target was given last.
#[derive(Debug, Default)]
pub(crate) struct LastWritten {
    begun: AtomicU64,  // writes
    ended: AtomicU64,  // of these
    number: AtomicU64, // of the latest one that has ended; NaN: not known
    settings: [AtomicU64; SETTINGS],
    sets: AtomicU64,    // how often the settings were written
    lapsed: AtomicBool, // the target was seen not to be as written, and was not written since
}

/// How many files beside its value a target has at most that decide what effect the value has: `pwmN_enable` of a fan; the period of a
/// PWM channel, its polarity and its `enable`; `powerdown` of a converter.
pub(crate) const SETTINGS: usize = 3;

/// A write that is under way.
#[derive(Debug)]
#[must_use]
pub(crate) struct UnderWay {
    pub(super) number: u64, // of the write
    pub(super) alone: bool, // so far
}

impl LastWritten {
    /// A write begins.
    pub(crate) fn begin(&self) -> UnderWay {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        // Who sees what is written sees that it was begun; and against `end`, and `Watched::begin_takeover`: they see this, or this sees them.
        fence(Ordering::SeqCst);
        UnderWay { number, alone: self.ended.load(Ordering::Acquire) == number }
    }

    /// It has ended; `wrote`: the raw number. NaN: it failed, or that is not known.
    pub(crate) fn end(&self, write: &UnderWay, wrote: f64) {
        self.number.store(if write.alone { wrote } else { f64::NAN }.to_bits(), Ordering::Relaxed);
        fence(Ordering::SeqCst); // against `begin`: a write that is not seen here is not alone, and what it stores comes last
        if self.begun.load(Ordering::Relaxed) != write.number + 1 {
            self.number.store(f64::NAN.to_bits(), Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// The settings were written as well, as these raw numbers; NaN: there is none, or it is not known. By who writes, before the write ends.
    pub(crate) fn set(&self, numbers: [f64; SETTINGS]) {
        for (setting, number) in self.settings.iter().zip(numbers) {
            setting.store(number.to_bits(), Ordering::Relaxed);
        }
        self.sets.fetch_add(1, Ordering::Relaxed);
        self.repaired();
    }

    /// A write of the value has ended, and with it one of the settings, if it has any. `None`: it failed.
    pub(crate) fn was_set(&self, numbers: Option<[f64; SETTINGS]>) {
        match numbers {
            Some(numbers) if !numbers[0].is_nan() => self.set(numbers),
            Some(_) => {}
            None => self.forget_settings(),
        }
    }

    /// What the settings were given last, and how often they were written; `None`: never. As sure as that no write came in between.
    pub(crate) fn settings(&self) -> Option<([f64; SETTINGS], u64)> {
        let sets = self.sets.load(Ordering::Relaxed);
        let numbers = std::array::from_fn(|at| f64::from_bits(self.settings[at].load(Ordering::Relaxed)));
        (sets > 0).then_some((numbers, sets))
    }

    /// What the settings hold is not known any more: they are to be written with the next value. What is not known is compared with nothing.
    pub(crate) fn forget_settings(&self) {
        if self.sets.load(Ordering::Relaxed) > 0 {
            self.settings.iter().for_each(|setting| setting.store(f64::NAN.to_bits(), Ordering::Relaxed));
            self.lapse();
        }
    }

    /// The target is not as it was written: its task is to write all of it again.
    pub(crate) fn lapse(&self) {
        self.lapsed.store(true, Ordering::Relaxed);
    }

    /// Whether that was said, and it was not written again since.
    pub(crate) fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Relaxed)
    }

    /// All of it was written again.
    pub(crate) fn repaired(&self) {
        self.lapsed.store(false, Ordering::Relaxed);
    }

    /// Whether no write is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ended.load(Ordering::Acquire) == self.begun.load(Ordering::Relaxed)
    }

    /// What the target was given last, NaN if that is not known, and how many writes there were; `None`: one is under way.
    pub(crate) fn quiet(&self) -> Option<(f64, u64)> {
        let ended = self.ended.load(Ordering::Acquire);
        let number = f64::from_bits(self.number.load(Ordering::Relaxed));
        // A write whose number this is, or whose effect was read before, is seen to have begun.
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
        // Two at once, of which either ends first.
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
        // Each writer stores its number in the target between the begin and the end of its write.
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
                    // Nothing is to be found any more if the last two writes were at once.
                    _ if done.load(Ordering::SeqCst) == 2 && last.settled().is_none() => break,
                    _ => {}
                }
            }
        });
    }
}
