//! The target an output's section names, and what the target's raw numbers mean. Plain values; nothing is opened here.

use crate::config::NumberOrName;
use crate::kinds::register::RegisterSettings;
use crate::kinds::sensor::ByName;
use crate::time::Span;
use std::fmt;
use std::path::PathBuf;

/// A target as its section names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// A file by its path.
    File(PathBuf),
    /// A file of a hwmon device.
    Hwmon(ByName, String),
    /// A file of an IIO device.
    Iio(ByName, String),
    /// A channel of a PWM chip, by the name of the chip or of its parent device.
    Pwm { chip: String, channel: u32, period: Span },
    /// A GPIO line.
    Line { chip: Option<String>, line: NumberOrName, active_low: bool },
    /// A register of a chip on an I²C bus.
    Register(RegisterSettings),
}

/// The scale and range of a target's raw numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RawScale {
    /// Raw numbers per natural unit, and the raw number at 0.
    pub(super) full: f64,
    pub(super) zero: f64,
    /// Accepted raw numbers, lower end first; `None`: unknown.
    pub(super) range: Option<[f64; 2]>,
}

impl RawScale {
    /// Any number, unscaled.
    const PLAIN: Self = Self { full: 1.0, zero: 0.0, range: None };

    fn from_zero_to(full: f64) -> Self {
        Self { full, zero: 0.0, range: Some([0.0, full]) }
    }
}

impl Place {
    /// The scale of its raw numbers, as far as it is known before the target is found.
    pub(super) fn raw(&self) -> RawScale {
        match self {
            Self::Hwmon(_, file) if is_pwm(file) => RawScale::from_zero_to(255.0),
            #[expect(clippy::cast_precision_loss, reason = "a period of 2^53 ns is 104 days")]
            Self::Pwm { period, .. } => RawScale::from_zero_to(period.nanos() as f64),
            Self::Line { active_low: false, .. } => RawScale::from_zero_to(1.0),
            Self::Line { active_low: true, .. } => RawScale { full: -1.0, zero: 1.0, range: Some([0.0, 1.0]) },
            Self::Register(register) => RawScale { range: Some(register.layout.range()), ..RawScale::PLAIN },
            _ => RawScale::PLAIN,
        }
    }

    /// Whether the name contains a number that the kernel may give to another device. Such a name means the same device only in the same
    /// place.
    pub(super) fn is_numbered(&self) -> bool {
        match self {
            Self::File(_) | Self::Pwm { .. } => true,
            Self::Hwmon(wanted, _) | Self::Iio(wanted, _) => wanted.device.is_some(),
            Self::Line { chip, .. } => {
                chip.as_ref().is_some_and(|chip| chip.starts_with('/') || chip.starts_with("gpiochip"))
            }
            Self::Register(RegisterSettings { bus: NumberOrName::Number(_), .. }) => true,
            Self::Register(RegisterSettings { bus: NumberOrName::Name(name), .. }) => {
                name.starts_with('/') || name.starts_with("i2c-")
            }
        }
    }

    /// The key that names the target.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::File(_) => "path",
            Self::Hwmon(..) => "hwmon",
            Self::Iio(..) => "iio",
            Self::Pwm { .. } => "pwm",
            Self::Line { .. } => "line",
            Self::Register(_) => "bus",
        }
    }
}

/// The target's name in messages.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Hwmon(wanted, file) => write!(f, "{file} of hwmon device {}", wanted.name),
            Self::Iio(wanted, file) => write!(f, "{file} of IIO device {}", wanted.name),
            Self::Pwm { chip, channel, .. } => write!(f, "channel {channel} of PWM chip {chip}"),
            Self::Line { chip, line, .. } => {
                write!(f, "GPIO line {}", Shown(line))?;
                chip.as_ref().map_or(Ok(()), |chip| write!(f, " of {chip}"))
            }
            Self::Register(RegisterSettings { bus, address, register, .. }) => {
                write!(f, "register {register:#04x} of chip {address:#04x} on I²C bus {}", Shown(bus))
            }
        }
    }
}

struct Shown<'a>(&'a NumberOrName);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NumberOrName::Number(number) => number.fmt(f),
            NumberOrName::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// Whether the file is `pwmN`.
pub(super) fn is_pwm(file: &str) -> bool {
    file.strip_prefix("pwm")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
