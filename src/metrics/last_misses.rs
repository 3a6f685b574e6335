//! A task's most recent misses: the last few causes, each with the culprit, the count and the worst miss. Time is an argument.
//!
//! Misses with the same cause within a second form one entry, so that an overload does not push out everything before it.

use super::cause::Cause;
use crate::time::{Instant, Span};
use std::collections::VecDeque;

/// The number of entries kept per task.
pub(super) const KEPT: usize = 8;

/// Misses within this time of an entry's first one belong to that entry.
const ONE_ENTRY: Span = Span::from_seconds(1);

/// Releases missed for the same cause within a short time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecentMiss {
    pub(crate) cause: Cause,
    pub(crate) by: Option<Box<str>>,
    pub(crate) count: u64,
    pub(crate) tick: Option<u64>, // the index of the last tick; None: no record has it
    pub(crate) worst: Span,       // from the release to the end of its tick, or until it was given up
    begun: Instant,
    latest: Instant,
}

impl RecentMiss {
    /// How long ago the most recent of them was noticed.
    pub(crate) fn age(&self, now: Instant) -> Span {
        (now - self.latest).max(Span::ZERO)
    }
}

/// A tick that reports missed releases, and the worst lateness among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    pub(super) tick: Option<u64>,
    pub(super) worst: Span,
}

/// The most recent entries, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct LastMisses {
    entries: VecDeque<RecentMiss>, // takes no memory until the first entry
}

impl LastMisses {
    /// Enters `count` missed releases, and keeps at most `kept` entries.
    pub(super) fn note(
        &mut self,
        (cause, by, count): (Cause, Option<&str>, u64),
        Late { tick, worst }: Late,
        kept: usize,
        now: Instant,
    ) {
        let same = |entry: &RecentMiss| {
            entry.cause == cause && entry.by.as_deref() == by && now - entry.begun < ONE_ENTRY && entry.begun <= now
        };
        let entry = match self.entries.iter().position(same).and_then(|position| self.entries.remove(position)) {
            Some(mut entry) => {
                entry.count += count;
                if worst > entry.worst {
                    (entry.tick, entry.worst) = (tick, worst);
                }
                RecentMiss { latest: now, ..entry }
            }
            None => RecentMiss { cause, by: by.map(Box::from), count, tick, worst, begun: now, latest: now },
        };
        self.entries.truncate(kept.saturating_sub(1));
        if self.entries.capacity() == self.entries.len() {
            self.entries.reserve_exact(1); // most tasks miss for only one or two reasons
        }
        self.entries.push_front(entry);
    }

    /// All entries, newest first.
    pub(super) fn all(&self) -> Vec<RecentMiss> {
        self.entries.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn an_overload_is_one_entry_a_second_and_keeps_what_came_before() {
        let mut recent = LastMisses::default();
        let late = |tick: u64, micros| Late { tick: Some(tick), worst: Span::from_micros(micros) };
        recent.note((Cause::WokenLate, None, 1), late(7, 90), KEPT, at(0));
        // Two causes in turn, a thousand times a second, for three seconds.
        for n in 0..3_000 {
            let (cause, by) = if n % 2 == 0 { (Cause::Blocked, Some("report")) } else { (Cause::OwnDebt, None) };
            let worst = if n == 500 { 5_000 } else { 1_000 };
            recent.note((cause, by, 2), late(100 + n, worst), KEPT, at(10 + i64::try_from(n).unwrap()));
        }
        let all = recent.all();
        assert_eq!(all.len(), 1 + 2 * 3);
        assert_eq!(all.iter().map(|entry| entry.count).sum::<u64>(), 1 + 6_000);
        assert_eq!((all[0].cause, all[0].age(at(4_009))), (Cause::OwnDebt, Span::from_seconds(1)));
        assert_eq!(all[6].cause, Cause::WokenLate);
        let worst = all.iter().max_by_key(|entry| entry.worst).unwrap();
        assert_eq!((worst.tick, worst.by.as_deref(), worst.count), (Some(600), Some("report"), 1_000));
    }

    #[test]
    fn only_the_newest_are_kept() {
        let mut recent = LastMisses::default();
        for n in 0..20 {
            recent.note((Cause::Preempted, None, 1), Late::default(), KEPT, at(n * 2_000));
        }
        assert_eq!(recent.all().len(), KEPT);
        assert_eq!(recent.all()[0].age(at(40_000)), Span::from_seconds(2));
        recent.note((Cause::Waited, None, 1), Late::default(), 1, at(50_000));
        assert_eq!(recent.all().iter().map(|entry| entry.cause).collect::<Vec<_>>(), [Cause::Waited]);
    }
}
