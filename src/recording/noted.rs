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
    logged: bool,   // that it is bad
    since: Instant, // the start of the first tick in a row of this quality
    value: f64,
}

impl Noted {
    /// Enters the value of a row, of which `range` is valid.
    pub(super) fn add(&mut self, row: &Row<'_>, value: f64, range: Option<&[f64; 2]>) -> Quality {
        let (quality, at) = (Quality::of(value, row.basis, range), row.release + row.lateness);
        Extremes::add(&mut self.extremes, Extremes::of(row.n, at, value, quality));
        let since = self.latest.filter(|latest| latest.quality == quality).map_or(at, |latest| latest.since);
        let logged = self.latest.is_some_and(|latest| latest.logged);
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
        let is_own = matches!(quality, Quality::Bad(Reason::OutOfRange | Reason::Stuck));
        if !*logged && is_own && now() - since >= LASTING && !is_said() {
            *logged = true;
            return Some(Word::Bad);
        }
        (quality.is_usable() && std::mem::take(logged)).then_some(Word::Back)
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
    /// Whether that was logged.
    pub(crate) logged: bool,
}

/// What is to be logged of a value or an input.
pub(super) enum Word {
    Bad,
    Back,
}

impl WatchedInput {
    /// Looks at it. `now` is on the monotonic clock.
    pub(super) fn look(&mut self, now: Instant) {
        // Only a value that can be used ends it: one that has nothing new does not.
        match self.input.quality() {
            Quality::Bad(reason) => self.bad = Some((reason, self.bad.map_or(now, |(_, since)| since))),
            Quality::None => {}
            Quality::Good | Quality::Held => self.bad = None,
        }
    }

    /// What is to be logged now, if anything. What was only computed from a bad value is not logged.
    pub(super) fn word(&mut self, now: Instant) -> Option<Word> {
        let lasts = self.bad.is_some_and(|(reason, since)| reason != Reason::Inherited && now - since >= LASTING);
        match (self.bad, self.logged) {
            (None, true) => {
                self.logged = false;
                Some(Word::Back)
            }
            (Some(_), false) if lasts => {
                self.logged = true;
                Some(Word::Bad)
            }
            _ => None,
        }
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
