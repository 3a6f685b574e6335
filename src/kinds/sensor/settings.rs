//! What a sensor reads, as its section says. Plain values, valid by their keys; no device is opened here.

use super::find::ByName;
use super::locator::ValueLocator;
use crate::kinds::device::Missing;
use std::path::PathBuf;

/// What a sensor reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SensorSettings {
    /// Where it is.
    pub(crate) source: Source,
    /// The values. Empty: all that the device has, with names, scales and units by the kernel's naming rules; not for
    /// [`Source::Files`].
    pub(crate) values: Vec<ValueSettings>,
    /// Whether the values are in tables of their own, where errors are then reported.
    pub(crate) listed: bool,
    /// What to do if it is missing at the start.
    pub(crate) missing: Missing,
}

/// Where values come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
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
pub(crate) struct ValueSettings {
    /// The file; for a device, its name in the device's folder. It must allow reading at a position, as files of `/proc`
    /// and `/sys` do and pipes do not.
    pub(crate) file: PathBuf,
    /// Where the number is, in the first 64 KiB of the file.
    pub(crate) locator: ValueLocator,
    /// What the number is multiplied by. Finite, not zero. `None`: 1; or by the file's name for a device of hwmon or IIO,
    /// if the unit is `None` too.
    pub(crate) scale: Option<f64>,
    /// What is added after that, in `unit`. Finite. `None`: 0.
    pub(crate) offset: Option<f64>,
    /// Whether the number is a counter and the value its rate per second since the last tick that read it, times `scale`.
    /// No value at the first tick and after a reset.
    pub(crate) per_second: bool,
    /// Name of the value. Not empty, unique in the task. `None`: `value`, or by the file's name.
    pub(crate) name: Option<String>,
    /// Unit of the value after scaling; empty for a plain number.
    pub(crate) unit: Option<String>,
}

/// How an IIO device fills its buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BufferSettings {
    /// The trigger, by its name. `None`: the one that is set, else the device's own.
    pub(crate) trigger: Option<String>,
    /// The channels, as their files begin: `in_accel_x`. Empty: all.
    pub(crate) channels: Vec<String>,
    /// Samples that the kernel keeps until they are read; rounded up to a power of two. Above zero.
    pub(crate) length: u32,
    /// Samples per second, set on the trigger or, if that has no frequency, on the device. `None`: unchanged.
    pub(crate) sampling_frequency: Option<f64>,
}

impl SensorSettings {
    /// The number in a file.
    #[cfg(test)]
    pub(crate) fn file(path: impl Into<PathBuf>) -> Self {
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
}
