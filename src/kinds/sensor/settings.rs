//! The settings of a sensor from its section. Plain values, validated by their keys; no device is opened here.

use super::find::ByName;
use super::locator::ValueLocator;
use super::number::Counts;
use crate::kinds::device::Missing;
use crate::time::Span;
use std::path::PathBuf;

/// What a sensor reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SensorSettings {
    /// The source of its values.
    pub(crate) source: Source,
    /// The values. Empty: all values of the device, with names, scales and units by the kernel's naming rules; never empty for
    /// [`Source::Files`].
    pub(crate) values: Vec<ValueSettings>,
    /// Whether the values stand in tables of their own, where errors are then reported.
    pub(crate) listed: bool,
    /// What to do if the device is missing at the start.
    pub(crate) missing: Missing,
    /// How long ago a file may have been written. `None`: any time.
    pub(crate) max_file_age: Option<Span>,
    /// Whether that is the default.
    pub(crate) is_usual_age: bool,
}

/// The source of a sensor's values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// Files by their paths.
    Files,
    /// The files of a hwmon device.
    Hwmon(ByName),
    /// The files of an IIO device.
    Iio(ByName),
    /// The buffer of an IIO device with all its samples; the values are its channels.
    Buffer(ByName, BufferSettings),
}

/// The position of a value, and its meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValueSettings {
    /// The file; for a device, its name in the device's folder. It must allow reading at a position. Files of `/proc` and `/sys` do; pipes
    /// do not.
    pub(crate) file: PathBuf,
    /// The position of the number, within the first 64 KiB of the file.
    pub(crate) locator: ValueLocator,
    /// The factor for the number. Finite, not zero. `None`: 1. For a hwmon or IIO device, if `unit` is also `None`: by the file's name.
    pub(crate) scale: Option<f64>,
    /// The offset added after scaling, in `unit`. Finite. `None`: 0.
    pub(crate) offset: Option<f64>,
    /// The number is a counter. The value is then its rate per second since the last tick that read it, times `scale`. There is no value at
    /// the first tick and after a reset.
    pub(crate) per_second: Option<Counts>,
    /// Name of the value. Not empty, unique in the task. `None`: `value`, or by the file's name.
    pub(crate) name: Option<String>,
    /// Unit of the value after scaling; empty for a plain number.
    pub(crate) unit: Option<String>,
}

/// How an IIO device fills its buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BufferSettings {
    /// The trigger's name. `None`: the trigger already set, or else the device's own.
    pub(crate) trigger: Option<String>,
    /// The channels, named like the beginnings of their files: `in_accel_x`. Empty: all.
    pub(crate) channels: Vec<String>,
    /// Samples that the kernel keeps until they are read; rounded up to a power of two. Above zero.
    pub(crate) length: u32,
    /// Samples per second, set on the trigger or, if the trigger has no frequency, on the device. `None`: unchanged.
    pub(crate) sampling_frequency: Option<f64>,
}

impl SensorSettings {
    /// A sensor that reads one number from a file.
    #[cfg(test)]
    pub(crate) fn file(path: impl Into<PathBuf>) -> Self {
        let values = vec![ValueSettings { file: path.into(), ..ValueSettings::default() }];
        Self {
            source: Source::Files,
            values,
            listed: false,
            missing: Missing::Refuse,
            max_file_age: None,
            is_usual_age: false,
        }
    }

    /// The device's name in the log.
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
}
