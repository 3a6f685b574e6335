//! What an output does, as its section says. Plain values; no device is opened here.

use super::law::{self, Recover};
use super::place::{Place, RawScale};
use crate::site::Refusal;
use crate::task::Input;
use crate::time::Span;

/// What makes an output safe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Safe {
    Value(f64),
    Restore,
    Hold,
}

/// What is written before the first good value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Start {
    Safe,
    Keep,
}

/// From the unit of the input to the raw number of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Conversion {
    pub(super) scale: f64,
    pub(super) offset: f64,
    pub(super) full: f64, // what 1 of the target's natural unit is
    pub(super) zero: f64, // and what 0 is
}

impl Conversion {
    pub(super) fn raw(self, value: f64) -> f64 {
        (value * self.scale + self.offset) * self.full + self.zero
    }

    /// What a target takes, in the unit of the input: the lower end first.
    pub(super) fn natural(self, raw: &RawScale) -> [f64; 2] {
        // Adding zero makes a negative zero a positive one.
        let ends = raw.range.map(|range| range.map(|end| self.back(end) + 0.0));
        ends.map_or([f64::NEG_INFINITY, f64::INFINITY], |[a, b]| [a.min(b), a.max(b)])
    }

    pub(super) fn back(self, raw: f64) -> f64 {
        ((raw - self.zero) / self.full - self.offset) / self.scale
    }
}

/// What an output does, as its section says.
#[derive(Clone, Debug)]
pub(super) struct OutputSettings {
    pub(super) section: String, // what it says but for the worker
    pub(super) place: Place,
    pub(super) input: Input,
    pub(super) reset: Option<Input>,
    pub(super) conversion: Conversion,
    pub(super) law: law::Settings,
    pub(super) safe: Safe,
    pub(super) start: Start,
    pub(super) always: bool,
    pub(super) readback: Option<Span>, // how often
    pub(super) safe_after: Span,
    pub(super) first_after: Span, // should it take its target over: its first tick, at the latest
}

impl OutputSettings {
    /// What ends its safe state once another thread has brought it about, in a clause.
    pub(super) fn recovery(&self) -> String {
        let then = match (self.law.recover, &self.reset) {
            (Recover::Auto(after), _) => {
                #[expect(clippy::cast_possible_truncation, reason = "it was a duration")]
                let after = Span::from_nanos((after * 1e9) as i64);
                return format!("its task ticks again, and its input has been good for {after}");
            }
            (Recover::Latch, Some(_)) => "`reset` rises above 0 while its input is good",
            (Recover::Latch, None) => "hertzd is restarted, or a reload changes its section",
        };
        format!("its task ticks again, and {then}")
    }

    /// What a target that has to be set up is to hold from then on; `None`: what it holds.
    pub(super) fn level(&self) -> Option<f64> {
        match (self.start, self.safe) {
            (Start::Safe, Safe::Value(value)) => Some(self.conversion.raw(value)),
            _ => None,
        }
    }

    /// Whether the target has to be read before anything is written to it.
    pub(super) fn is_read_at_once(&self) -> bool {
        self.needs_original() || self.readback.is_some() || self.level().is_none()
    }

    pub(super) fn needs_original(&self) -> bool {
        self.safe == Safe::Restore
    }

    /// The same for a target of which only now is known what its raw numbers mean.
    pub(super) fn fitting(mut self, raw: &RawScale) -> Result<Self, Refusal> {
        self.conversion = Conversion { full: raw.full, zero: raw.zero, ..self.conversion };
        let [low, high] = self.conversion.natural(raw);
        if let Safe::Value(value) = self.safe
            && (value < low || value > high)
        {
            return Err(Refusal::new("safe", format!("is not what the target takes, {low} to {high}")));
        }
        let [least, most] = self.law.limits;
        if least > high || most < low {
            return Err(Refusal::new("limits", format!("lies outside what the target takes, {low} to {high}")));
        }
        self.law.limits = [least.max(low), most.min(high)];
        Ok(self)
    }
}
