//! What was seen of a task's values and inputs: extremes, quality, and since when. Plain values; time is an argument.

use crate::channels::{Extremes, Quality, Reason, Row, errno_of};
use crate::snapshot::{InputSummary, LASTING, ValueSummary};
use crate::task::{Column, Input};
use crate::time::{Instant, Span};
use std::io;

/// What was seen of one value.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    extremes: Option<Extremes>,
    latest: Option<Latest>,
}

/// The quality of the latest row.
#[derive(Clone, Copy, Debug)]
struct Latest {
    quality: Quality,
    logged: Option<Reason>, // the reason in the log
    since: Instant,         // the start of the first tick in a row of this quality
    value: f64,
}

impl Noted {
    /// Enters the value of a row, of which `range` is valid.
    pub(super) fn add(&mut self, row: &Row<'_>, value: f64, range: Option<&[f64; 2]>) -> Quality {
        let (quality, at) = (Quality::of(value, row.basis, range), row.release + row.lateness);
        Extremes::add(&mut self.extremes, Extremes::of(row.n, at, value, quality));
        let since = self.latest.filter(|latest| latest.quality == quality).map_or(at, |latest| latest.since);
        let logged = self.latest.and_then(|latest| latest.logged);
        self.latest = Some(Latest { quality, logged, since, value });
        quality
    }

    /// Enters the extremes of rows that found no room.
    pub(super) fn add_unseen(&mut self, unseen: Option<Extremes>) {
        Extremes::add(&mut self.extremes, unseen);
    }

    /// What is to be logged of it, if anything. Only what is out of range or stuck is logged: for the other reasons, what the log says of
    /// its task, its program or its worker tells why. `now` is on the clock of the rows; `is_said`: a task that takes the value says so.
    pub(super) fn word(&mut self, now: impl FnOnce() -> Instant, is_said: impl FnOnce() -> bool) -> Option<Word> {
        let Latest { quality, since, logged, .. } = self.latest.as_mut()?;
        let (quality, since) = (*quality, *since);
        let own = quality.reason().filter(|reason| matches!(reason, Reason::OutOfRange | Reason::Stuck));
        if own.is_some() && *logged != own && now() - since >= LASTING && !is_said() {
            *logged = own;
            return Some(Word::Bad);
        }
        (quality.is_usable() && logged.take().is_some()).then_some(Word::Back)
    }

    /// The value at `now`, on the clock of the rows.
    pub(super) fn summary(&self, column: &Column, range: Option<&[f64; 2]>, now: Instant) -> ValueSummary {
        let part = |part: fn(&Extremes) -> f64| self.extremes.as_ref().map(part);
        let good = part(|seen| seen.last);
        let quality = self.latest.map_or(Quality::None, |latest| latest.quality);
        let is_bad = quality.reason().is_some();
        let refused = self.latest.map(|latest| latest.value);
        ValueSummary {
            last: good.filter(|_| !is_bad),
            last_good: good.filter(|_| is_bad),
            min: part(|seen| seen.min),
            max: part(|seen| seen.max),
            unit: column.unit.clone(),
            age_ns: self.extremes.map(|seen| (now - seen.at).nanos().max(0)),
            quality: quality.word().into(),
            reason: quality.reason().map(|reason| reason.word().into()),
            since_ns: self.latest.filter(|_| is_bad).map(|latest| (now - latest.since).nanos().max(0)),
            refused: refused.filter(|value| is_bad && value.is_finite()),
            valid: range.copied().filter(|_| quality.reason() == Some(Reason::OutOfRange)),
            error: refused
                .filter(|_| is_bad)
                .and_then(errno_of)
                .map(|errno| io::Error::from_raw_os_error(errno).to_string()),
        }
    }
}

/// An input of a task, as another thread sees it.
#[derive(Clone, Debug)]
pub(crate) struct WatchedInput {
    /// The value that it reads, as `TASK.VALUE`.
    pub(crate) name: String,
    /// The input.
    pub(crate) input: Input,
    /// The age at which the value is stale.
    pub(crate) max_age: Span,
    /// Since when it has been bad, and why, as of the last look.
    pub(crate) bad: Option<(Reason, Instant)>,
    /// Since when it has been bad for this reason.
    pub(crate) turned: Instant,
    /// The reason in the log.
    pub(crate) logged: Option<Reason>,
}

/// What is to be logged of a value or an input.
pub(super) enum Word {
    Bad,
    Back,
}

impl WatchedInput {
    /// Looks at it. `now` is on the monotonic clock.
    pub(super) fn look(&mut self, now: Instant) {
        self.see(self.input.quality(), now);
    }

    fn see(&mut self, quality: Quality, now: Instant) {
        // Only a value that can be used ends it: one that has nothing new does not.
        match quality {
            Quality::Bad(reason) => {
                if self.bad.is_none_or(|(before, _)| before != reason) {
                    self.turned = now;
                }
                self.bad = Some((reason, self.bad.map_or(now, |(_, since)| since)));
            }
            Quality::None => {}
            Quality::Good | Quality::Held => self.bad = None,
        }
    }

    /// What is to be logged now, if anything: also another reason that lasts. What was only computed from a bad value is not logged.
    pub(super) fn word(&mut self, now: Instant) -> Option<Word> {
        let Some((reason, since)) = self.bad else { return self.logged.take().map(|_| Word::Back) };
        let begun = if self.logged.is_none() { since } else { self.turned };
        if reason == Reason::Inherited || self.logged == Some(reason) || now - begun < LASTING {
            return None;
        }
        self.logged = Some(reason);
        Some(Word::Bad)
    }

    /// What its task is missing; `None` while it has what it needs.
    pub(super) fn summary(&self, now: Instant) -> Option<InputSummary> {
        let (reason, since) = self.bad?;
        Some(InputSummary {
            reason: reason.word().into(),
            since_ns: (now - since).nanos().max(0),
            age_ns: self.input.age().map(Span::nanos),
            max_age_ns: self.max_age.nanos(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Instant {
        Instant::ZERO + Span::from_seconds(seconds)
    }

    #[test]
    fn another_reason_that_lasts_is_logged_too() {
        let input = Input::number(0.0);
        let mut watched = WatchedInput {
            name: "oven.temp".into(),
            input,
            max_age: Span::from_seconds(1),
            bad: None,
            turned: Instant::ZERO,
            logged: None,
        };
        let mut said = |second: i64, reason: Option<Reason>| {
            watched.see(reason.map_or(Quality::Good, Quality::Bad), at(second));
            watched.word(at(second)).map(|word| matches!(word, Word::Bad))
        };
        assert_eq!([0, 1, 2].map(|second| said(second, Some(Reason::Stuck))), [None, Some(true), None]);
        assert_eq!([3, 4, 5].map(|second| said(second, Some(Reason::Unavailable))), [None, Some(true), None]);
        // One that does not last is not, nor the one before it once more.
        assert_eq!(said(6, Some(Reason::Failed)), None);
        assert_eq!([7, 8, 9].map(|second| said(second, Some(Reason::Unavailable))), [None; 3]);
        assert_eq!([10, 11].map(|second| said(second, None)), [Some(false), None]);
        // For a first word any reasons count together.
        let alternating = [(12, Reason::Stuck), (13, Reason::Stale)];
        assert_eq!(alternating.map(|(second, reason)| said(second, Some(reason))), [None, Some(true)]);
    }

    #[test]
    fn a_value_that_no_task_takes_is_logged_for_each_reason() {
        let mut seen = Noted::default();
        let mut said = |second: i64, value: f64, basis: crate::channels::Basis| {
            let row = Row { n: 0, basis, release: at(second), lateness: Span::ZERO, values: &[value] };
            seen.add(&row, value, Some(&[0.0, 10.0]));
            seen.word(|| at(second), || false).map(|word| matches!(word, Word::Bad))
        };
        let good = crate::channels::Basis::Good;
        let stuck = Reason::Stuck.value();
        assert_eq!([0, 1, 2].map(|second| said(second, 16.0, good)), [None, Some(true), None]);
        assert_eq!([3, 4, 5].map(|second| said(second, stuck, good)), [None, Some(true), None]);
        assert_eq!(said(6, 5.0, good), Some(false));
    }
}
