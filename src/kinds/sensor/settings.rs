//! What a sensor reads, as its section says it. Plain values: no device is looked for here.

use super::find::ByName;
use super::locator::{FieldSelector, LineSelector, ValueLocator};
use crate::config::{BuildError, refuse_value_name};
use crate::kinds::device::Missing;
use std::path::PathBuf;

/// What a sensor reads.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorSettings {
    /// Where it is.
    pub source: Source,
    /// The values. None: all that the device has, each with the name, scale and unit that the kernel's naming rules give
    /// it; not for [`Source::Files`].
    pub values: Vec<ValueSettings>,
    /// Whether the values stand in tables of their own, where errors are then shown.
    pub listed: bool,
    /// What to do where it is not there at the start.
    pub missing: Missing,
}

/// Where values come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Files by their paths.
    Files,
    /// The files of a hwmon device.
    Hwmon(ByName),
    /// The files of an IIO device.
    Iio(ByName),
    /// The buffer of an IIO device, which has all its samples; the values are its channels.
    Buffer(ByName, BufferSettings),
}

/// Where a value is, and what it means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueSettings {
    /// The file; in the folder of the device, if there is one. It must allow reading at a position, as files of `/proc`
    /// and `/sys` do and pipes do not. Files that several values come from are read once a tick.
    pub file: PathBuf,
    /// Where the number stands. It must lie in the first 64 KiB.
    pub locator: ValueLocator,
    /// What the number is multiplied by: the worth of one in `unit`. Finite, not zero. `None`: 1; but where neither this
    /// nor the unit is given, the file's name says both for a device of hwmon or IIO.
    pub scale: Option<f64>,
    /// What is added after that, in `unit`. Finite. `None`: 0.
    pub offset: Option<f64>,
    /// Whether the number counts up, and the value is its rate per second: between this tick and the last one that read
    /// it, times `scale`. No value at the first tick and after a reset.
    pub per_second: bool,
    /// Name of the value. Not empty, unique in the task. `None`: `value`, or by the file's name.
    pub name: Option<String>,
    /// Unit of the value after scaling; empty for a plain number.
    pub unit: Option<String>,
}

/// How an IIO device fills its buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSettings {
    /// The trigger, by its name; `None`: the one that is set, or else the device's own.
    pub trigger: Option<String>,
    /// The channels, as their files begin: `in_accel_x`. Empty: all there are.
    pub channels: Vec<String>,
    /// Samples that the kernel keeps until they are read; rounded up to a power of two. Above zero.
    pub length: u32,
    /// Samples per second, set on the trigger or, where that has no frequency, on the device. `None`: as it is.
    pub sampling_frequency: Option<f64>,
}

impl SensorSettings {
    /// The number in a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let values = vec![ValueSettings { file: path.into(), ..ValueSettings::default() }];
        Self { source: Source::Files, values, listed: false, missing: Missing::Refuse }
    }

    /// What the log calls the device.
    pub(super) fn device(&self) -> String {
        match &self.source {
            Source::Hwmon(wanted) => format!("hwmon device {}", wanted.name),
            Source::Iio(wanted) | Source::Buffer(wanted, _) => format!("IIO device {}", wanted.name),
            Source::Files => match &self.values[..] {
                [value, ..] if self.values.iter().all(|other| other.file == value.file) => {
                    format!("file {}", value.file.display())
                }
                values => format!("one of {} files", values.len()),
            },
        }
    }

    pub(super) fn judge(&self) -> Result<(), BuildError> {
        let refuse = |key, message| Err(BuildError { key, message });
        for value in &self.values {
            if value.locator.line == LineSelector::Number(0) {
                return refuse("line", String::from("lines are counted from 1"));
            }
            if matches!(&value.locator.line, LineSelector::Prefix(text) if text.trim().is_empty()) {
                return refuse("line", String::from("the text that the line starts with is empty"));
            }
            match &value.locator.field {
                FieldSelector::Number(0) => return refuse("field", String::from("fields are counted from 1")),
                FieldSelector::Name(name) if name.is_empty() => {
                    return refuse("field", String::from("the name of the field is empty"));
                }
                _ => {}
            }
            if let Some(scale) = value.scale.filter(|scale| !scale.is_finite() || *scale == 0.0) {
                return refuse("scale", format!("{scale} is not a finite number other than 0"));
            }
            if let Some(offset) = value.offset.filter(|offset| !offset.is_finite()) {
                return refuse("offset", format!("{offset} is not a finite number"));
            }
            if let Some(problem) = value.name.as_deref().and_then(refuse_value_name) {
                return refuse("name", problem.into());
            }
        }
        Ok(())
    }
}
