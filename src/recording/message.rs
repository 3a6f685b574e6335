//! The messages of `TASK/ticks` and `TASK/overruns`, for reading. Later versions may add keys. Pure.

use super::content::{RecordedTick, Why, Whys};
use crate::metrics::Cause;
use crate::time::{Instant, Span};
use serde::Deserialize;

/// The cause with this word.
pub(super) fn cause(word: &str) -> Option<Cause> {
    Cause::ALL.into_iter().find(|cause| cause.word() == word)
}

/// Upper limits in a message: a time of a hundred years, and 2^40 releases. Even a memory full of messages adds up without overflow.
const MOST_NANOS: i64 = 3_155_760_000_000_000_000;
pub(super) const MOST_SKIPPED: u64 = 1 << 40;

/// A tick.
#[derive(Deserialize)]
pub(super) struct TickMessage {
    pub(super) n: u64,
    pub(super) run_ns: i64,
    pub(super) response_ns: i64,
    pub(super) skipped: u64,
    pub(super) overrun: bool,
    pub(super) woke_ns: Option<i64>,
    pub(super) oversleep_ns: Option<i64>,
    skipped_before: Option<u64>,
    cause_before: Option<String>,
    by_before: Option<Box<str>>,
    skipped_after: Option<u64>,
    cause_after: Option<String>,
    by_after: Option<Box<str>>,
}

/// Why a tick was an overrun. This message follows the message of its tick.
#[derive(Deserialize)]
pub(super) struct Overrun {
    pub(super) n: u64,
    cause: String,
    by: Option<Box<str>>,
}

impl TickMessage {
    /// Parses a tick message of this task.
    pub(super) fn of(data: &[u8], task: &str) -> Result<Self, String> {
        let tick: Self = serde_json::from_slice(data)
            .map_err(|error| format!("{task}/ticks holds what is no tick of hertzd: {error}"))?;
        match tick.is_possible() {
            true => Ok(tick),
            false => Err(format!(
                "{task}/ticks holds what is no tick of hertzd: a time of a hundred years, or as many releases"
            )),
        }
    }

    /// Whether its numbers are small enough to add up: anyone may have changed the file.
    fn is_possible(&self) -> bool {
        let times = [Some(self.run_ns), Some(self.response_ns), self.woke_ns, self.oversleep_ns];
        let in_time = |time: &i64| (-MOST_NANOS..MOST_NANOS).contains(time);
        times.iter().flatten().all(in_time) && self.n < u64::MAX / 2 && self.skipped < MOST_SKIPPED
    }

    /// What was missed in the tick, as far as its message contains it: the cause of an overrun is missing.
    pub(super) fn missed(&mut self) -> Option<Box<Whys>> {
        if !self.overrun && self.skipped == 0 {
            return None;
        }
        let word = |word: Option<String>| word.map(|word| cause(&word).unwrap_or(Cause::Unknown));
        let why = |count: u64, cause, by| (count > 0).then_some(Why { cause, by, count });
        let after = self.skipped_after.unwrap_or(0).min(self.skipped);
        let told = self.skipped_before.unwrap_or(0).saturating_add(after) == self.skipped;
        let before = why(self.skipped - after, word(self.cause_before.take()).filter(|_| told), self.by_before.take());
        let after = why(after, word(self.cause_after.take()), self.by_after.take());
        let overrun = why(u64::from(self.overrun), None, None);
        Some(Box::new(Whys { before, overrun, after }))
    }

    /// The tick, released at this instant in UTC.
    pub(super) fn tick(mut self, release: Instant) -> RecordedTick {
        let missed = self.missed();
        let nanos = Span::from_nanos;
        RecordedTick {
            task: 0,
            n: self.n,
            release,
            lateness: nanos(self.response_ns) - nanos(self.run_ns),
            response: nanos(self.response_ns),
            skipped: self.skipped,
            woke: nanos(self.woke_ns.unwrap_or(0)),
            oversleep: self.oversleep_ns.map(nanos),
            missed,
        }
    }
}

impl Overrun {
    /// Its cause, if this version knows the word.
    pub(super) fn known(&self) -> Option<Cause> {
        cause(&self.cause)
    }

    /// Enters the cause into what was missed in its tick.
    pub(super) fn explain(self, whys: &mut Whys) {
        if let Some(why) = &mut whys.overrun {
            (why.cause, why.by) = (Some(cause(&self.cause).unwrap_or(Cause::Unknown)), self.by);
        }
    }
}
