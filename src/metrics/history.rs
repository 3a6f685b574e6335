//! What a worker did before the ticks that are remembered individually: sums over stretches of time, longer for older times.
//!
//! Pure; may allocate. Its size grows with the logarithm of time, so that the culprit of a long delay is known no matter how many ticks it
//! lasted.

use super::cause::{By, Cause};
use super::parts::Parts;
use crate::time::{Instant, Span};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The number of ticks in the shortest stretches.
const SHORTEST: u32 = 64;

/// The maximum number of stretches of each length. When there are more, the oldest two are joined into one of twice the length.
const OF_A_LENGTH: usize = 8;

/// The maximum number of sums in a stretch. If there are more, the time in the smallest ones becomes unknown.
const SUMS: usize = 64;

/// What time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spent {
    /// A run of this task, and the cause that a waiting tick of the same task is assigned meanwhile.
    Run(u32, Cause),
    /// A delay with this cause.
    HeldUp(Cause),
}

/// The stretches of one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    stretches: VecDeque<Stretch>, // the oldest first
    stepped: bool,                // the clock was stepped before the first stretch
    spare: Vec<(Spent, Span)>,    // empty: memory for the next stretch
    both: Vec<(Spent, Span)>,     // empty: memory for joining two stretches
}

#[derive(Clone, Debug)]
struct Stretch {
    from: Instant,
    to: Instant,
    doublings: u32,
    ticks: u32,               // only counted in a stretch of the shortest length
    sums: Vec<(Spent, Span)>, // in the shortest stretches as they came; in others sorted, each once
}

impl Stretch {
    /// Adds to the most recent stretch. Does not search for an existing sum: with thousands of tasks there are as many sums as ticks.
    fn add(&mut self, spent: Spent, time: Span) {
        match self.sums.last_mut() {
            _ if time <= Span::ZERO => {}
            Some((known, sum)) if *known == spent => *sum += time,
            _ => self.sums.push((spent, time)),
        }
    }

    /// Joins the stretch that follows; `both` is scratch memory.
    fn join(&mut self, later: &mut Self, both: &mut Vec<(Spent, Span)>) {
        self.to = later.to;
        self.doublings += 1;
        for sums in [&mut self.sums, &mut later.sums] {
            // The sums of tasks that tick in turns already are sorted.
            if !sums.is_sorted_by_key(|(spent, _)| *spent) {
                sums.sort_unstable_by_key(|(spent, _)| *spent);
            }
        }
        both.clear();
        merge(&self.sums, &later.sums, both);
        if both.len() > SUMS {
            keep_the_largest(both, &mut later.sums);
        }
        // The joined stretch is kept for long, so it should not take more memory than it needs. If its memory fits already, it is reused.
        let needed = both.len();
        if (needed..=2 * needed).contains(&self.sums.capacity()) {
            self.sums.clear();
            self.sums.append(both);
        } else {
            self.sums = both.as_slice().to_vec();
        }
    }
}

/// Merges two sorted lists of sums into one, with each item once.
fn merge(one: &[(Spent, Span)], other: &[(Spent, Span)], into: &mut Vec<(Spent, Span)>) {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let Some(&(spent, time)) = match (one.peek(), other.peek()) {
        (Some((ours, _)), Some((theirs, _))) if theirs < ours => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    } {
        match into.last_mut() {
            Some((known, sum)) if *known == spent => *sum += time,
            _ => into.push((spent, time)),
        }
    }
}

/// Adds up all but the largest sums as unknown. The list stays sorted; `scratch` is scratch memory.
fn keep_the_largest(sums: &mut Vec<(Spent, Span)>, scratch: &mut Vec<(Spent, Span)>) {
    let size = |&(spent, time): &(Spent, Span)| (Reverse(time), spent);
    scratch.clear();
    scratch.extend_from_slice(sums);
    let limit = size(scratch.select_nth_unstable_by_key(SUMS - 1, size).1);
    let (unknown, mut rest) = (Spent::HeldUp(Cause::Unknown), Span::ZERO);
    sums.retain(|sum| {
        let stays = size(sum) < limit && sum.0 != unknown;
        rest += if stays { Span::ZERO } else { sum.1 };
        stays
    });
    sums.insert(sums.partition_point(|(spent, _)| *spent < unknown), (unknown, rest));
}

impl History {
    /// The end of the time it covers; `None` if it is empty.
    pub(super) fn end(&self) -> Option<Instant> {
        self.stretches.back().map(|stretch| stretch.to)
    }

    /// Forgets everything, because the clock was stepped before whatever is added next: earlier instants cannot be compared.
    pub(super) fn forget(&mut self) {
        *self = Self { stepped: true, ..Self::default() };
    }

    /// Adds the next tick, which covers the time from the previous end (or `from`, if it is the first) until `to`. That time was spent as
    /// `spent` says.
    pub(super) fn add(&mut self, from: Instant, to: Instant, spent: impl IntoIterator<Item = (Spent, Span)>) {
        if self.stretches.back().is_none_or(|last| last.ticks == SHORTEST) {
            let from = self.end().unwrap_or(from);
            let mut sums = std::mem::take(&mut self.spare);
            sums.reserve_exact(SHORTEST as usize);
            self.stretches.push_back(Stretch { from, to, doublings: 0, ticks: 0, sums });
            self.join_old();
        }
        let Some(last) = self.stretches.back_mut() else { unreachable!("one was added") };
        (last.to, last.ticks) = (to, last.ticks + 1);
        spent.into_iter().for_each(|(spent, time)| last.add(spent, time));
    }

    /// Joins the oldest two stretches of each length that has too many.
    fn join_old(&mut self) {
        let mut end = self.stretches.len(); // end of the stretches of this length
        while let Some(doublings) = end.checked_sub(1).map(|last| self.stretches[last].doublings) {
            let count = self.stretches.range(..end).rev().take_while(|stretch| stretch.doublings == doublings).count();
            let oldest = end - count;
            if count <= OF_A_LENGTH {
                return;
            }
            if let Some(mut later) = self.stretches.remove(oldest + 1) {
                self.stretches[oldest].join(&mut later, &mut self.both);
                if later.sums.capacity() > self.spare.capacity() {
                    later.sums.clear();
                    self.spare = later.sums;
                }
            }
            end = oldest + 1;
        }
    }

    /// Adds what delayed `task` since `from`. Nothing is known about a stretch that `from` lies within.
    pub(super) fn delays(&self, task: u32, from: Instant, parts: &mut Parts) {
        let unknown = |parts: &mut Parts, to: Instant| parts.add(Cause::Unknown, None, to - from);
        for stretch in self.stretches.iter().rev() {
            if stretch.from < from {
                return unknown(parts, stretch.to);
            }
            for &(spent, time) in &stretch.sums {
                match spent {
                    Spent::HeldUp(cause) | Spent::Run(_, cause @ (Cause::Stalled | Cause::Throttled)) => {
                        parts.add(cause, None, time);
                    }
                    Spent::Run(of, cause) if of == task => parts.add(cause, None, time),
                    Spent::Run(of, _) => parts.add(Cause::Blocked, Some(By::Task(of)), time),
                }
            }
        }
        if let Some(first) = self.stretches.front().filter(|_| !self.stepped) {
            unknown(parts, first.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    /// A million ticks of 2 µs each, of tasks 1, 2, 1, 3 in turn. The first half belongs to a different set of tasks.
    fn long() -> History {
        let mut history = History::default();
        for n in 0..1_000_000 {
            let task = match n % 4 {
                1 => 2,
                3 => 3,
                _ => 1,
            } + if n < 500_000 { 10 } else { 0 };
            history.add(at(2 * n), at(2 * n + 2), [(Spent::Run(task, Cause::OwnDebt), Span::from_micros(2))]);
        }
        history
    }

    fn winner(history: &History, task: u32, from: i64) -> (Cause, Option<By>, Span) {
        let mut parts = Parts::default();
        history.delays(task, at(from), &mut parts);
        parts.winner(Span::MAX)
    }

    #[test]
    fn who_took_longest_is_known_however_many_ticks_that_was() {
        let history = long();
        assert!(history.stretches.len() < 130, "{}", history.stretches.len());
        let span = |(from, to): (Instant, Instant)| to - from;
        let ends =
            history.stretches.iter().zip(history.stretches.iter().skip(1)).map(|(one, next)| (one.to, next.from));
        assert!(ends.into_iter().all(|ends| span(ends) == Span::ZERO), "one begins where the other ends");
        for from in [0, 1_000_100, 1_600_000, 1_990_000] {
            let (cause, by, time) = winner(&history, 9, from);
            let (task, half) = (if from == 0 { 11 } else { 1 }, (2_000_000 - from).min(1_000_000) / 2);
            // Half of a stretch that covers up to an eighth of the time is unknown, and half of the rest belongs to this task.
            assert_eq!((cause, by), (Cause::Blocked, Some(By::Task(task))), "{from}");
            assert!(time >= Span::from_micros(half * 3 / 4), "{from}: {time}");
        }
        assert_eq!(winner(&history, 1, 1_600_000).0, Cause::Blocked, "2 and 3 together");
        assert_eq!(winner(&history, 9, -3_000_000).0, Cause::Unknown, "most of it was before the first tick");
    }

    #[test]
    fn what_held_up_all_is_kept_apart_and_nothing_from_before_a_step() {
        let mut history = long();
        history.forget();
        assert_eq!(winner(&history, 9, 0).0, Cause::Unknown);
        let spent = [
            (Spent::HeldUp(Cause::Preempted), Span::from_micros(60)),
            (Spent::Run(4, Cause::Throttled), Span::from_micros(50)),
            (Spent::Run(5, Cause::OwnDebt), Span::from_micros(-5)),
        ];
        history.add(at(0), at(110), spent);
        let micros = Span::from_micros;
        assert_eq!(winner(&history, 9, -1_000), (Cause::Preempted, None, micros(60)));
        history.add(at(110), at(130), [(Spent::Run(4, Cause::Throttled), micros(20))]);
        assert_eq!(winner(&history, 4, -1_000), (Cause::Throttled, None, micros(70)));
    }

    #[test]
    fn of_many_tasks_the_smallest_are_forgotten() {
        let mut history = History::default();
        for n in 0..100_000_u32 {
            let (now, long) = (i64::from(n) * 10, n % 2 == 0);
            let task = if long { 0 } else { n % 1_000 };
            let time = Span::from_micros(if long { 9 } else { 1 });
            history.add(at(now), at(now + 10), [(Spent::Run(task, Cause::OwnDebt), time)]);
        }
        assert!(history.stretches.iter().all(|stretch| stretch.sums.len() <= SUMS));
        let (cause, by, time) = winner(&history, 9, 0);
        assert_eq!((cause, by), (Cause::Blocked, Some(By::Task(0))));
        assert!(time >= Span::from_micros(450_000), "{time}");
    }
}
