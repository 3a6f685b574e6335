//! The parts of a delay, and the cause to blame. Arithmetic; the list of blockers may allocate.

use super::cause::{By, Cause};
use crate::time::Span;

/// How much of a delay each cause explains.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    times: [Span; Cause::ALL.len()],
    by: [Option<By>; Cause::ALL.len()],
    blockers: Vec<(u32, Span)>, // by number
}

impl Parts {
    /// Adds `time` that `cause` explains; ignores zero and negative times.
    pub(super) fn add(&mut self, cause: Cause, by: Option<By>, time: Span) {
        if time <= Span::ZERO {
            return;
        }
        self.times[cause.index()] += time;
        match by {
            Some(By::Task(task)) if cause == Cause::Blocked => {
                match self.blockers.binary_search_by_key(&task, |(task, _)| *task) {
                    Ok(index) => self.blockers[index].1 += time,
                    Err(index) => self.blockers.insert(index, (task, time)),
                }
            }
            Some(_) => self.by[cause.index()] = by,
            None => {}
        }
    }

    /// How much of the delay `cause` explains.
    pub(super) fn of(&self, cause: Cause) -> Span {
        self.times[cause.index()]
    }

    /// The winning cause, its culprit, and its part of the delay. A cause that affects the whole machine wins if it explains all of
    /// `excess`, the time by which the deadline was missed. Otherwise the largest part wins; among equal parts, the first.
    pub(super) fn winner(&self, excess: Span) -> (Cause, Option<By>, Span) {
        let machine = [Cause::Stalled, Cause::Throttled];
        let whole = machine.into_iter().reduce(|a, b| if self.of(b) > self.of(a) { b } else { a });
        let whole = whole.filter(|cause| self.of(*cause) > Span::ZERO && self.of(*cause) >= excess);
        let largest = Cause::ALL.into_iter().reduce(|a, b| if self.of(b) > self.of(a) { b } else { a });
        let cause = whole.or(largest).filter(|cause| self.of(*cause) > Span::ZERO).unwrap_or(Cause::Unknown);
        let by = if cause == Cause::Blocked { self.blocker().map(By::Task) } else { self.by[cause.index()] };
        (cause, by, self.of(cause))
    }

    /// The task that blocked for longest; among equals, the one with the highest number.
    fn blocker(&self) -> Option<u32> {
        self.blockers.iter().max_by_key(|(_, time)| *time).map(|(task, _)| *task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: i64) -> Span {
        Span::from_micros(micros)
    }

    #[test]
    fn the_largest_part_wins_and_of_several_blockers_the_one_that_took_longest() {
        let mut parts = Parts::default();
        for (task, time) in [(1, 300), (2, 250), (1, 100), (2, 200)] {
            parts.add(Cause::Blocked, Some(By::Task(task)), micros(time));
        }
        parts.add(Cause::RanLong, None, micros(700));
        parts.add(Cause::WokenLate, None, micros(-9_000));
        assert_eq!(parts.winner(micros(100)), (Cause::Blocked, Some(By::Task(2)), micros(850)));
        assert_eq!(Parts::default().winner(micros(1)), (Cause::Unknown, None, Span::ZERO));
    }

    #[test]
    fn what_befell_the_whole_machine_wins_if_the_deadline_had_been_met_without_it() {
        let parts = |stalled| {
            let mut parts = Parts::default();
            parts.add(Cause::RanLong, None, micros(900));
            parts.add(Cause::Stalled, None, micros(stalled));
            parts.winner(micros(200)).0
        };
        assert_eq!((parts(199), parts(200)), (Cause::RanLong, Cause::Stalled));
    }
}
