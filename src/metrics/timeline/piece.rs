//! A thread's tick, in two forms: as verdicts use it, and as it is stored, since thousands are kept for each worker.
//!
//! Pure; instants are on the worker's clock.

use super::super::cause::{By, Cause, Program};
use crate::time::{Instant, Span};

/// A tick, and the sleep before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::metrics) struct Piece {
    pub(in crate::metrics) task: Option<u32>, // `None`: it ran no tick
    /// When the sleep before the tick was to end, and when it did end; `None`: the tick followed without a sleep.
    pub(in crate::metrics) sleep: Option<(Instant, Instant)>,
    pub(in crate::metrics) started: Instant,
    pub(in crate::metrics) finished: Instant,
    /// How much more than its reserved runtime the thread had used by the end of this tick, if the ticks up to it have evidence. The kernel
    /// checks only at its timer ticks, and subtracts the excess from the following runtime.
    pub(in crate::metrics) owed: Span,
    /// The tick that the thread woke up for, which is this tick if it slept before it. A number as in `Timeline::first`.
    pub(super) wake: Option<u64>,
    /// How long the thread was awake but not on the processor, in the ticks from `wake` to this one; `None`: one of them has no evidence of
    /// its own.
    pub(super) off: Option<Span>,
    /// Why that sleep ended late (`late`), and why the tick did not start immediately after it (`gap`), as far as there is evidence.
    pub(in crate::metrics) late: Cause,
    pub(in crate::metrics) gap: Cause,
    /// The clock was stepped before this tick: earlier instants cannot be compared with its own.
    pub(in crate::metrics) stepped: bool,
    /// What came right before this tick is unknown.
    pub(in crate::metrics) after_loss: bool,
    /// The cause and culprit, if something was missed.
    pub(in crate::metrics) missed: Option<(Cause, Option<By>)>,
}

impl Piece {
    /// The cause assigned to a tick of the same task that waits while this one runs.
    pub(in crate::metrics) fn behind(&self) -> Cause {
        match self.missed {
            None | Some((Cause::RanLong, _)) => Cause::OwnDebt,
            Some((root, _)) => root,
        }
    }
}

/// A piece in less than half its size. 64-bit nanoseconds hold any reading of a real clock for the next 292 years.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    started: i64,
    finished: i64,
    asked: i64, // with SLEPT
    woke: i64,  // with SLEPT
    owed: Span,
    wake: u64, // or NO_NUMBER
    off: i64,  // or NO_TIME
    by: Option<Culprit>,
    task: u32, // with RAN
    late: Cause,
    gap: Cause,
    missed: Option<Cause>,
    flags: u8,
}

const _: () = assert!(size_of::<Stored>() <= 80, "a worker's thread has up to 8,192 of them");

/// Like [`By`], but with its large and rare variant boxed.
#[derive(Clone, Debug)]
enum Culprit {
    Task(u32),
    Worker(usize),
    Program(Box<Program>),
    Steal,
    Interrupts,
}

const NO_NUMBER: u64 = u64::MAX;
const NO_TIME: i64 = i64::MIN;

const RAN: u8 = 1;
const SLEPT: u8 = 2;
const STEPPED: u8 = 4;
const AFTER_LOSS: u8 = 8;

impl Stored {
    #[inline]
    pub(super) fn of(piece: &Piece) -> Self {
        let Piece { task, sleep, started, finished, owed, wake, off, late, gap, stepped, after_loss, missed } = *piece;
        let nanos = |at: Instant| (at - Instant::ZERO).nanos();
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let (asked, woke) = sleep.unwrap_or_default();
        Self {
            started: nanos(started),
            finished: nanos(finished),
            asked: nanos(asked),
            woke: nanos(woke),
            owed,
            wake: wake.unwrap_or(NO_NUMBER),
            off: off.map_or(NO_TIME, Span::nanos),
            by: missed.and_then(|(_, by)| by).map(|by| match by {
                By::Task(task) => Culprit::Task(task),
                By::Worker(worker) => Culprit::Worker(worker),
                By::Program(program) => Culprit::Program(Box::new(program)),
                By::Steal => Culprit::Steal,
                By::Interrupts => Culprit::Interrupts,
            }),
            task: task.unwrap_or(0),
            late,
            gap,
            missed: missed.map(|(cause, _)| cause),
            flags: flag(task.is_some(), RAN)
                | flag(sleep.is_some(), SLEPT)
                | flag(stepped, STEPPED)
                | flag(after_loss, AFTER_LOSS),
        }
    }

    // Accessors for fields that are read on every tick, and on every step of a look-back over thousands of pieces.

    pub(super) fn task(&self) -> Option<u32> {
        (self.flags & RAN != 0).then_some(self.task)
    }

    pub(super) fn off(&self) -> Option<Span> {
        Some(self.off).filter(|off| *off != NO_TIME).map(Span::from_nanos)
    }

    pub(super) fn started(&self) -> Instant {
        Instant::from_nanos(self.started.into())
    }

    pub(super) fn finished(&self) -> Instant {
        Instant::from_nanos(self.finished.into())
    }

    pub(super) fn sleep(&self) -> Option<(Instant, Instant)> {
        let at = |nanos: i64| Instant::from_nanos(nanos.into());
        (self.flags & SLEPT != 0).then(|| (at(self.asked), at(self.woke)))
    }

    pub(super) fn wake(&self) -> Option<u64> {
        Some(self.wake).filter(|wake| *wake != NO_NUMBER)
    }

    pub(super) fn after_loss(&self) -> bool {
        self.flags & AFTER_LOSS != 0
    }

    #[inline]
    pub(super) fn piece(&self) -> Piece {
        let by = self.by.as_ref().map(|by| match by {
            Culprit::Task(task) => By::Task(*task),
            Culprit::Worker(worker) => By::Worker(*worker),
            Culprit::Program(program) => By::Program(**program),
            Culprit::Steal => By::Steal,
            Culprit::Interrupts => By::Interrupts,
        });
        Piece {
            task: self.task(),
            sleep: self.sleep(),
            started: self.started(),
            finished: self.finished(),
            owed: self.owed,
            wake: self.wake(),
            off: self.off(),
            late: self.late,
            gap: self.gap,
            stepped: self.flags & STEPPED != 0,
            after_loss: self.after_loss(),
            missed: self.missed.map(|cause| (cause, by)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_given() {
        let at = |nanos: i64| Instant::from_nanos(nanos.into());
        let by = [
            None,
            Some(By::Task(u32::MAX)),
            Some(By::Worker(usize::MAX)),
            Some(By::Program(Program::new("stress-ng", 7))),
            Some(By::Steal),
            Some(By::Interrupts),
        ];
        for n in 0..256_usize {
            let is = |bit: usize| n & bit != 0;
            let piece = Piece {
                task: is(1).then_some(u32::MAX),
                sleep: is(2).then_some((at(-4), at(i64::MAX))),
                started: at(5),
                finished: at(1 << 62),
                owed: Span::from_nanos(-1),
                wake: is(4).then_some(0),
                off: is(8).then_some(Span::ZERO),
                late: Cause::ALL[n % 11],
                gap: Cause::ALL[(n + 5) % 11],
                stepped: is(16),
                after_loss: is(32),
                missed: is(64).then_some((Cause::ALL[n % 7], by[n % by.len()])),
            };
            assert_eq!(Stored::of(&piece).piece(), piece);
        }
    }
}
