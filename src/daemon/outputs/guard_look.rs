//! Decides when the guard thread gets an output's safe value written, based on its checks of the output. Pure: time comes in as the time
//! between two checks.

use crate::safety::was_replaced;
use crate::time::Span;
use std::io;

/// Interval for repeating a write: it failed, or a concurrent write of the task may have come after it.
pub(crate) const AGAIN_EVERY: Span = Span::from_millis(100);

/// How long failing writes are retried at the end of a run.
const RETRY_FOR: Span = Span::from_seconds(1);

/// What to log about a write.
#[derive(Debug)]
pub(crate) enum Said {
    Nothing,
    /// Written because the task has stopped ticking.
    Written,
    Failed(io::Error),
    /// Succeeded after an earlier failure.
    AtLast,
}

/// The state of an output as of the last check.
#[derive(Debug, Default)]
pub(crate) struct Look {
    beats: Option<u64>,                 // as in `act`
    still: Span,                        // time without a tick
    pub(super) still_before: Span,      // `still` when the last write began
    since: Option<Span>,                // time since the last write; None: none since the last tick
    pub(crate) under_way: Option<Span>, // duration of the write in progress
    wanted: bool,                       // a write is wanted, not because the task stands still
    pub(crate) expected: bool,          // the last write was wanted, or the output was already safe
    failed: bool,                       // the last write failed, or a write of the task may have come after it
    said: bool,                         // the failure was logged
    tried: Span,                        // how long writes have been failing
    written: u32,                       // writes since the last tick
}

impl Look {
    /// Whether to write the safe value now, after `passed` since the last check. `wanted`: for another reason than that the task stands
    /// still. `ends`: the process ends, so the task may tick but cannot recover. `beats`: `None` while the first tick is not awaited.
    pub(crate) fn act(&mut self, beats: Option<u64>, safe_after: Span, wanted: bool, ends: bool, passed: Span) -> bool {
        self.wanted |= wanted;
        if beats != self.beats {
            (self.beats, self.still) = (beats, Span::ZERO);
            // While the task ticks and may recover, it repairs a failed write itself.
            if !ends && self.under_way.is_none() {
                *self = Self { beats, wanted: self.wanted, said: self.said, ..Self::default() };
            }
        } else {
            self.still += passed;
        }
        self.since = self.since.map(|since| since + passed);
        if let Some(since) = &mut self.under_way {
            *since += passed;
            return false;
        }
        if self.failed {
            self.tried += passed;
        }
        let stands = beats.is_some() && self.still > safe_after && self.written < 2;
        let due = self.since.is_none_or(|since| since >= AGAIN_EVERY) || self.wanted && !self.failed;
        due && (self.wanted || self.failed || stands)
    }

    /// Notes that a write of the safe value begins. `safe`: the output was safe already.
    pub(crate) fn begins(&mut self, safe: bool) {
        self.expected = self.wanted || safe;
        (self.under_way, self.still_before, self.wanted) = (Some(Span::ZERO), self.still, false);
    }

    /// Whether the write in progress takes longer than `long`. True only once.
    pub(crate) fn hangs(&mut self, long: Span) -> bool {
        self.under_way.is_some_and(|since| since > long) && !std::mem::replace(&mut self.said, true)
    }

    /// Notes the result of a write, and whether a write of the task overlapped it. Returns what to log.
    pub(crate) fn wrote(&mut self, result: io::Result<()>, overlapped: bool) -> Said {
        (self.since, self.under_way) = (Some(Span::ZERO), None);
        self.written += 1;
        self.failed = result.is_err() || overlapped;
        if !self.failed {
            self.tried = Span::ZERO;
        }
        match result {
            Err(error) if was_replaced(&error) => Said::Nothing,
            Err(error) if !std::mem::replace(&mut self.said, true) => Said::Failed(error),
            Err(_) => Said::Nothing,
            Ok(()) if std::mem::take(&mut self.said) => Said::AtLast,
            Ok(()) if self.written == 1 && !self.expected => Said::Written,
            Ok(()) => Said::Nothing,
        }
    }

    /// Whether there is nothing to wait for.
    pub(super) fn is_done(&self, ends: bool) -> bool {
        self.under_way.is_none() && !self.wanted && !(ends && self.failed && self.tried < RETRY_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_millis(10);

    /// The numbers of the checks at which the value is written, for a task that ticks at the checks in `ticks`.
    fn writes(ticks: &[u64], looks: u64, safe_after: Span, fails: impl Fn(u64) -> bool) -> Vec<u64> {
        let (mut look, mut beats) = (Look::default(), None);
        let acts = |at: u64| {
            if ticks.contains(&at) {
                beats = Some(beats.unwrap_or(0) + 1);
            }
            let acts = look.act(beats, safe_after, false, false, STEP);
            if acts {
                look.begins(false);
                look.wrote(if fails(at) { Err(io::Error::other("no")) } else { Ok(()) }, false);
            }
            acts.then_some(at)
        };
        (0..looks).filter_map(acts).collect()
    }

    #[test]
    fn an_output_that_ticks_is_left_alone_and_one_that_does_not_is_made_safe_twice() {
        let every: Vec<u64> = (0..100).collect();
        assert!(writes(&every, 100, STEP, |_| false).is_empty());
        assert!(writes(&[], 100, STEP, |_| false).is_empty(), "before its first tick");
        let mut look = Look::default();
        let acts: Vec<_> = (0..20).map(|_| look.act(Some(0), Span::from_millis(50), false, false, STEP)).collect();
        assert_eq!(acts.iter().position(|acts| *acts), Some(6), "unless that is waited for");
        // Last tick at check 3: more than 50 ms ago at check 9, and again 100 ms later.
        assert_eq!(writes(&[0, 1, 2, 3], 100, Span::from_millis(50), |_| false), [9, 19]);
        // The task ticks again, then stops again.
        assert_eq!(writes(&[3, 40], 100, Span::from_millis(50), |_| false), [9, 19, 46, 56]);
    }

    #[test]
    fn a_write_that_fails_is_made_again_until_it_does_not() {
        assert_eq!(writes(&[0], 60, Span::from_millis(50), |at| at < 30), [6, 16, 26, 36]);
    }

    /// Checks every 10 ms; each write returns `after` checks later. Returns the checks at which a write begins, and those at which all is
    /// done.
    fn wanted(
        wanted: &[u64],
        ticks: bool,
        ends: bool,
        after: u64,
        result: impl Fn(u64) -> (bool, bool),
    ) -> (Vec<u64>, Vec<u64>) {
        let (mut look, mut begun, mut done, mut ending) = (Look::default(), Vec::new(), Vec::new(), None);
        for at in 0..200 {
            if ending == Some(at) {
                let (works, overlapped) = result(at);
                look.wrote(if works { Ok(()) } else { Err(io::Error::other("no")) }, overlapped);
                ending = None;
            }
            let beats = Some(if ticks { at + 1 } else { 1 });
            if look.act(beats, Span::from_seconds(60), wanted.contains(&at), ends, STEP) {
                look.begins(false);
                begun.push(at);
                ending = Some(at + after);
            }
            if look.is_done(ends) {
                done.push(at);
            }
        }
        (begun, done)
    }

    #[test]
    fn what_is_asked_for_is_written_once_and_again_if_it_may_not_be_there() {
        let well = |_| (true, false);
        assert_eq!(wanted(&[5], true, false, 1, well).0, [5]);
        // During another write, and right after one.
        assert_eq!(wanted(&[5, 7], true, false, 4, well).0, [5, 9]);
        assert_eq!(wanted(&[5, 7], false, false, 1, well).0, [5, 7]);
        // A write of the task may have come after it. At the end, that matters even if the task ticks.
        assert_eq!(wanted(&[5], false, false, 1, |at| (true, at < 20)).0, [5, 15, 25]);
        assert_eq!(wanted(&[5], true, true, 1, |at| (true, at < 20)).0, [5, 15, 25]);
        // A task that ticks repairs it itself.
        assert_eq!(wanted(&[5], true, false, 1, |at| (at > 20, false)).0, [5]);
    }

    #[test]
    fn the_end_waits_for_what_is_under_way_and_for_a_second_for_what_fails() {
        let (begun, done) = wanted(&[5], true, true, 30, |_| (true, false));
        assert_eq!((begun, done.contains(&34), done.contains(&35)), (vec![5], false, true));
        let (begun, done) = wanted(&[5], true, true, 1, |_| (false, false));
        assert_eq!(begun[..3], [5, 15, 25]);
        let first = done.iter().find(|at| **at >= 5).unwrap();
        assert!((105..125).contains(first), "{first}");
        let (_, done) = wanted(&[5], true, false, 1, |_| (false, false));
        assert!(done.contains(&6), "where it is not the end, nothing waits");
    }
}
