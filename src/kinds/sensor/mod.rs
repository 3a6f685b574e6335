//! The kind `sensor`: values polled from files of `/proc` and `/sys`, from hwmon and IIO devices found by their names, and
//! all samples of an IIO device's buffer.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `keys` | the keys, and how a section becomes [`SensorSettings`] |
//! | `text` | where a number stands in a text file |
//! | `files` | files held open, each read once a tick |
//! | `polled` | the task that polls them |
//! | `find` | devices of `/sys` by name |
//! | `hwmon`, `iio` | what the names of their files say of scales and units |
//! | `buffer` | an IIO device that fills its buffer: set up, and switched off again |
//! | `buffered` | the task that takes all samples of it |
//! | `scan`, `gaps` | how samples lie in memory; how many are missing |
//!
//! A tick reads into memory that was set aside and allocates nothing. A read blocks for as long as the file's driver
//! takes: for a sensor on a bus that can be milliseconds, so such a one belongs on a worker of its own. What is gone is
//! looked for on another thread, by its name, and then read on.

mod keys;

mod text;

mod files;

mod polled;

mod find;

mod hwmon;

mod iio;

mod scan;

mod gaps;

mod buffer;

mod buffered;

pub(super) use keys::kind;

pub use buffer::BufferSettings;
pub use find::ByName;
pub(crate) use text::{Line, Place};

use crate::config::BuildError;
use crate::kinds::device::Missing;
use crate::task::Task;
use buffered::Buffered;
use polled::Polled;
use std::path::{Path, PathBuf};

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
    pub place: Place,
    /// What the number is multiplied by: the worth of one in `unit`. Finite, not zero. `None`: 1; but where neither this
    /// nor the unit is given, the file's name says both for a device of hwmon or IIO.
    pub scale: Option<f64>,
    /// What is added after that, in `unit`. Finite. `None`: 0.
    pub offset: Option<f64>,
    /// Name of the value. Not empty, unique in the task. `None`: `value`, or by the file's name.
    pub name: Option<String>,
    /// Unit of the value after scaling; empty for a plain number.
    pub unit: Option<String>,
}

/// Opens a sensor and reads it once. `what` names it in the log: "file /proc/loadavg of task load".
///
/// # Errors
/// At the key to blame: `path` when the file cannot be opened or read, `line` and `field` when there is no number at that
/// place (with what was found there), `hwmon`, `iio` and `device` when the device is not found, `value` for one of several
/// values; and for settings outside their range.
pub(crate) fn open(settings: SensorSettings, what: &str) -> Result<Box<dyn Task>, BuildError> {
    open_under(settings, what, ["/sys", "/dev"].map(Path::new))
}

/// The same, with other places than `/sys` and `/dev` for devices and their nodes.
///
/// # Errors
/// As [`open`].
pub fn open_under(settings: SensorSettings, what: &str, roots: [&Path; 2]) -> Result<Box<dyn Task>, BuildError> {
    settings.judge()?;
    Ok(match settings.source {
        Source::Buffer(wanted, buffer) => Box::new(Buffered::open(wanted, buffer, settings.missing, roots, what)?),
        _ => Box::new(Polled::open(settings, roots[0], what)?),
    })
}

impl SensorSettings {
    /// The number in a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let values = vec![ValueSettings { file: path.into(), ..ValueSettings::default() }];
        Self { source: Source::Files, values, listed: false, missing: Missing::Refuse }
    }

    fn judge(&self) -> Result<(), BuildError> {
        let refuse = |key, message| Err(BuildError { key, message });
        for value in &self.values {
            if value.place.line == Line::Number(0) {
                return refuse("line", String::from("lines are counted from 1"));
            }
            if matches!(&value.place.line, Line::Text(text) if text.trim().is_empty()) {
                return refuse("line", String::from("the text that the line starts with is empty"));
            }
            if value.place.field == 0 {
                return refuse("field", String::from("fields are counted from 1"));
            }
            if let Some(scale) = value.scale.filter(|scale| !scale.is_finite() || *scale == 0.0) {
                return refuse("scale", format!("{scale} is not a finite number other than 0"));
            }
            if let Some(offset) = value.offset.filter(|offset| !offset.is_finite()) {
                return refuse("offset", format!("{offset} is not a finite number"));
            }
            if value.name.as_deref() == Some("") {
                return refuse("name", String::from("a value needs a name"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
