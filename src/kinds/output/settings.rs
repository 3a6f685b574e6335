//! An output's behaviour, as its section defines it. Plain values; no device is opened here.

use super::law::{self, Recover};
use super::place::{Place, RawScale};
use crate::site::Refusal;
use crate::task::Input;
use crate::time::Span;

/// The safe state of an output.
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

/// Converts from the unit of the input to the target's raw number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Conversion {
    pub(super) scale: f64,
    pub(super) offset: f64,
    pub(super) full: f64, // raw numbers per natural unit
    pub(super) zero: f64, // raw number at 0
}

impl Conversion {
    pub(super) fn raw(self, value: f64) -> f64 {
        (value * self.scale + self.offset) * self.full + self.zero
    }

    /// The range the target accepts, in the unit of the input, lower end first.
    pub(super) fn natural(self, raw: &RawScale) -> [f64; 2] {
        // Adding zero turns a negative zero into a positive one.
        let ends = raw.range.map(|range| range.map(|end| self.back(end) + 0.0));
        ends.map_or([f64::NEG_INFINITY, f64::INFINITY], |[a, b]| [a.min(b), a.max(b)])
    }

    pub(super) fn back(self, raw: f64) -> f64 {
        ((raw - self.zero) / self.full - self.offset) / self.scale
    }
}

/// An output's behaviour, as its section defines it.
#[derive(Clone, Debug)]
pub(super) struct OutputSettings {
    pub(super) section: String, // the section's text, without `worker`
    pub(super) place: Place,
    pub(super) input: Input,
    pub(super) reset: Option<Input>,
    pub(super) conversion: Conversion,
    pub(super) law: law::Settings,
    pub(super) safe: Safe,
    pub(super) start: Start,
    pub(super) always: bool,
    pub(super) readback: Option<Span>, // interval
    pub(super) safe_after: Span,
    pub(super) first_after: Span, // time limit for the first tick after a takeover
}

impl OutputSettings {
    /// What ends the safe state once another thread has caused it, as a clause.
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

    /// Raw number that a target needing setup holds from then on; `None`: keep its current value.
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

    /// Adapts the settings to a target whose raw scale is known only now.
    ///
    /// # Errors
    /// The safe value or the limits lie outside what the target accepts.
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
