//! What a worker did before the ticks that are remembered singly: sums over stretches of time, the longer the older they are.
//!
//! Pure; may allocate. Its size grows with the logarithm of time, so that who held up a task for long is known however many
//! ticks that took.

use super::parts::Parts;
use super::{By, Cause};
use crate::time::{Instant, Span};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Ticks in the shortest stretches.
const SHORTEST: u32 = 64;

/// Stretches of each length, at most: of more, the oldest two become one of twice the length.
const OF_A_LENGTH: usize = 8;

/// Sums in a stretch, at most; what is in the smallest of more is unknown.
const SUMS: usize = 64;

/// What time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spent {
    /// A run of this task; and why a tick of the same task waits behind it.
    Run(u32, Cause),
    /// Held up by this.
    HeldUp(Cause),
}

/// The stretches of one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    stretches: VecDeque<Stretch>, // the oldest first
    stepped: bool,                // before the first of them the clock was stepped
}

#[derive(Clone, Debug)]
struct Stretch {
    from: Instant,
    to: Instant,
    doublings: u32,
    ticks: u32,               // while it is of the shortest
    sums: Vec<(Spent, Span)>, // of the latest stretch as they came, of the others in order and each once
}

impl Stretch {
    /// Adds to the latest stretch. Nothing is looked up: with thousands of tasks there are as many sums as ticks.
    fn add(&mut self, spent: Spent, time: Span) {
        match self.sums.last_mut() {
            _ if time <= Span::ZERO => {}
            Some((known, sum)) if *known == spent => *sum += time,
            _ => self.sums.push((spent, time)),
        }
    }

    /// Brings the sums in order, each once.
    fn gather(&mut self) {
        self.sums.sort_by_key(|(spent, _)| *spent);
        self.sums.dedup_by(|(spent, time), (before, sum)| {
            let same = spent == before;
            *sum += if same { *time } else { Span::ZERO };
            same
        });
    }

    /// Joins the one that follows.
    fn join(&mut self, later: Self) {
        self.to = later.to;
        self.doublings += 1;
        self.sums.extend(later.sums);
        self.gather();
        if self.sums.len() > SUMS {
            self.keep_the_largest();
        }
        self.sums.shrink_to_fit();
    }

    /// Adds all but the largest sums up: who that was is unknown.
    fn keep_the_largest(&mut self) {
        let size = |&(spent, time): &(Spent, Span)| (Reverse(time), spent);
        let mut sizes: Vec<_> = self.sums.iter().map(size).collect();
        let limit = *sizes.select_nth_unstable(SUMS - 1).1;
        let mut rest = Span::ZERO;
        self.sums.retain(|sum| {
            let stays = size(sum) < limit;
            rest += if stays { Span::ZERO } else { sum.1 };
            stays
        });
        self.add(Spent::HeldUp(Cause::Unknown), rest);
        self.gather();
    }
}

impl History {
    /// The end of what it knows; `None`: it knows nothing.
    pub(super) fn end(&self) -> Option<Instant> {
        self.stretches.back().map(|stretch| stretch.to)
    }

    /// Before what is added next the clock was stepped: instants before that cannot be compared.
    pub(super) fn forget(&mut self) {
        *self = Self { stepped: true, ..Self::default() };
    }

    /// Adds the next tick, with the time since `from` at the latest; what happened until `to` took these times.
    pub(super) fn add(&mut self, from: Instant, to: Instant, spent: impl IntoIterator<Item = (Spent, Span)>) {
        if self.stretches.back().is_none_or(|last| last.ticks == SHORTEST) {
            let from = self.end().unwrap_or(from);
            if let Some(last) = self.stretches.back_mut() {
                last.gather();
                last.sums.shrink_to_fit();
            }
            let sums = Vec::with_capacity(SHORTEST as usize);
            self.stretches.push_back(Stretch { from, to, doublings: 0, ticks: 0, sums });
            self.join_old();
        }
        let Some(last) = self.stretches.back_mut() else { unreachable!("one was added") };
        (last.to, last.ticks) = (to, last.ticks + 1);
        spent.into_iter().for_each(|(spent, time)| last.add(spent, time));
    }

    /// Joins the oldest two of each length that there are too many of.
    fn join_old(&mut self) {
        let mut end = self.stretches.len(); // of those of this length
        while let Some(doublings) = end.checked_sub(1).map(|last| self.stretches[last].doublings) {
            let count = self.stretches.range(..end).rev().take_while(|stretch| stretch.doublings == doublings).count();
            let oldest = end - count;
            if count <= OF_A_LENGTH {
                return;
            }
            if let Some(later) = self.stretches.remove(oldest + 1) {
                self.stretches[oldest].join(later);
            }
            end = oldest + 1;
        }
    }

    /// Adds what held up `task` since `from`. Of a stretch that `from` lies in, nothing is known.
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

    /// A million ticks of 2 µs each, of tasks 1, 2, 1, 3 in turn, the first half of them of another set of tasks.
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
            // Half of a stretch that is up to an eighth of the time is unknown, and half of the rest is this task's.
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
