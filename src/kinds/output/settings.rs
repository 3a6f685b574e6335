//! What an output does, as its section says. Plain values; no device is opened here.

use super::law;
use super::target::Place;
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
}

impl Conversion {
    pub(super) fn raw(self, value: f64) -> f64 {
        (value * self.scale + self.offset) * self.full
    }

    pub(super) fn back(self, raw: f64) -> f64 {
        (raw / self.full - self.offset) / self.scale
    }
}

/// What an output does, as its section says.
#[derive(Clone, Debug)]
pub(super) struct OutputSettings {
    pub(super) place: Place,
    pub(super) input: Input,
    pub(super) reset: Option<Input>,
    pub(super) conversion: Conversion,
    pub(super) law: law::Settings,
    pub(super) safe: Safe,
    pub(super) start: Start,
    pub(super) always: bool,
    pub(super) safe_after: Span,
}

impl OutputSettings {
    /// What messages call the target.
    pub(super) fn label(&self) -> String {
        match &self.place {
            Place::File(path) => format!("file {}", path.display()),
            Place::Hwmon(wanted, file) => format!("{file} of hwmon device {}", wanted.name),
            Place::Pwm { chip, channel, .. } => format!("channel {channel} of PWM chip {chip}"),
        }
    }

    pub(super) fn needs_original(&self) -> bool {
        self.safe == Safe::Restore
    }
}
