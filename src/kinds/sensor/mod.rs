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

mod settings;

mod open;

mod locator;

mod number;

mod extractor;

mod follow;

mod files;

mod plan;

mod polled;

mod find;

mod hwmon;

mod iio;

mod layout;

mod gaps;

mod dating;

mod buffer;

mod buffered;

pub(super) use keys::kind;

pub use find::ByName;
pub use open::open_under;
pub use settings::{BufferSettings, SensorSettings, Source};

#[cfg(test)]
mod tests;
