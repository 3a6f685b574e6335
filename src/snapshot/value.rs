//! A value and an input in a snapshot: what they are worth, and why. Plain values and their text.

use crate::time::{Age, Span};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One value of a task. The numbers are those that could be used; all are `null` if there was none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ValueSummary {
    /// The most recent; `null` while the value is bad.
    pub last: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// The unit; empty for a plain number.
    pub unit: String,
    /// Time since the start of the tick that had the most recent usable value.
    pub age_ns: Option<i64>,
    /// What the latest is worth: `good`, `held`, `none` (nothing new, no error) or `bad`; empty if the daemon does not say.
    pub quality: Cow<'static, str>,
    /// Why it is bad, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// For how long it has been bad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<i64>,
    /// While it is bad: the last good one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good: Option<f64>,
    /// While it is bad: the number that is not used, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<f64>,
    /// While it is out of range: the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<[f64; 2]>,
    /// While it is bad: the error of the system, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An input that is bad.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputSummary {
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// For how long.
    pub since_ns: i64,
    /// The age of the value at the task's latest tick; `null` if none has come.
    pub age_ns: Option<i64>,
    /// The age at which it is stale.
    pub max_age_ns: i64,
}

impl ValueSummary {
    /// Its task was disabled: nothing is known of it any more.
    pub(crate) fn end(&mut self) {
        if self.reason.is_none() {
            (self.quality, self.reason) = ("bad".into(), Some("failed".into()));
            (self.last_good, self.since_ns) = (self.last.take(), self.age_ns);
        }
    }

    /// No tick of its task returns: it is stale once it is older than this.
    pub(crate) fn outlive(&mut self, stale_after: Span) {
        let over = self.age_ns.map_or(-1, |age| age - stale_after.nanos());
        if self.reason.is_none() && over >= 0 {
            (self.quality, self.reason) = ("bad".into(), Some("stale".into()));
            (self.last_good, self.since_ns) = (self.last.take(), Some(over));
        }
    }

    /// Another thread has written this instead of its task, this long ago.
    pub(crate) fn replace(&mut self, value: f64, since_ns: i64) {
        let age_ns = Some(self.age_ns.map_or(since_ns, |age| age.min(since_ns)));
        let (min, max) = (self.min.map(|min| min.min(value)), self.max.map(|max| max.max(value)));
        let unit = std::mem::take(&mut self.unit);
        *self = Self { last: Some(value), min, max, unit, age_ns, quality: "good".into(), ..Self::default() };
    }

    /// Why the value is bad, such as "bad for 12 s: 16 is outside valid 0 to 10"; `None` unless it is.
    pub(crate) fn trouble(&self) -> Option<String> {
        let reason = self.reason.as_deref()?;
        let since = self.since_ns.map_or(String::new(), |since| format!(" for {}", Age(Span::from_nanos(since))));
        let why = match (reason, self.refused, self.valid, &self.error) {
            ("out-of-range", Some(value), Some([low, high]), _) => format!("{value} is outside valid {low} to {high}"),
            (_, _, _, Some(error)) => error.clone(),
            _ => meaning(reason).to_owned(),
        };
        Some(format!("bad{since}: {why}"))
    }
}

impl InputSummary {
    /// Why the input is bad, in a clause.
    pub(crate) fn trouble(&self) -> String {
        let since = Age(Span::from_nanos(self.since_ns));
        let limit = Span::from_nanos(self.max_age_ns);
        match (&*self.reason, self.age_ns) {
            ("stale", Some(age)) if age > self.max_age_ns => {
                format!("stale for {since}: {} old, and max-age is {limit}", Age(Span::from_nanos(age)))
            }
            ("stale", _) => format!("stale for {since}: nothing new came for longer than max-age ({limit})"),
            ("unavailable", None) => format!("not there for {since}: none has come for longer than max-age ({limit})"),
            (reason, _) => format!("bad for {since}: {}", meaning(reason)),
        }
    }
}

/// What a reason means. A daemon of another version may have others.
fn meaning(reason: &str) -> &str {
    match reason {
        "failed" => "it could not be read or computed",
        "unavailable" => "its source is not there",
        "out-of-range" => "it is outside its valid range",
        "stuck" => "it has not changed for stuck-after",
        "stale" => "it is too old",
        "not-finite" => "it is infinite or not a number",
        "not-available" => "its source says that it has none",
        "inherited" => "it was computed from a bad value",
        other => other,
    }
}
