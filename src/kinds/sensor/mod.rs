//! The kind `sensor`: values polled from files of `/proc` and `/sys` and from hwmon and IIO devices found by name, and all samples of an
//! IIO device's buffer.
//!
//! | file | contents |
//! | --- | --- |
//! | `keys`, `settings`, `open` | from a section to settings to a task |
//! | `polled`, `plan` | the task that polls files, and its files and columns |
//! | `files`, `follow`, `own_file` | open files, each read once a tick; files that are replaced; files of the kernel that come back |
//! | `locator`, `extractor`, `number` | positions of values in a text file, and how one pass finds them all; rates of counters |
//! | `find`, `hwmon`, `iio` | devices of `/sys` by name; scales and units by the names of their files |
//! | `buffered`, `buffer` | the task that takes all samples of an IIO buffer; setting the buffer up |
//! | `gaps`, `dating` | counting missing samples; dating samples without timestamps |
//!
//! A tick allocates nothing and opens nothing. A read blocks for as long as the file's driver takes: milliseconds for a sensor on a bus, so
//! put such a sensor on a worker of its own. Another thread reopens a lost device by its name. Time comes with the tick, except for samples
//! without a timestamp.

mod buffer;
mod buffered;
mod dating;
mod extractor;
mod files;
mod find;
mod follow;
mod gaps;
mod hwmon;
mod iio;
mod keys;
mod list;
mod locator;
mod number;
mod open;
mod own_file;
mod plan;
mod polled;
mod settings;

pub(super) use find::{Class, find, names_of_parent};
pub(super) use iio::{channel as iio_channel, conversion as iio_conversion, is_raw as is_iio_raw};
pub(super) use keys::kind;
pub(super) use list::list;

pub(super) use find::ByName;
#[cfg(test)]
use settings::{BufferSettings, SensorSettings, Source};

#[cfg(test)]
mod tests;
