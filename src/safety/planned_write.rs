//! One write of those that make an output safe, as a plan of safe values has it. Plain values.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One write that makes an output safe, in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "to")]
pub(crate) enum PlannedWrite {
    /// A file, which is written from its start.
    File {
        /// Resolved: what a name led to when the output was opened.
        path: PathBuf,
        /// A file beside it and what that holds, if that shows whether the path still leads to the same device.
        witness: Option<(PathBuf, String)>,
        /// What is written.
        text: String,
        /// It is cut off behind that: it is a regular file, and no attribute of a device.
        cut: bool,
        /// What it held before hertzd wrote to it: of a regular file the very text. `None`: that could not be read.
        #[serde(default)]
        original: Option<String>,
    },
    /// The level of a GPIO line.
    Line {
        /// The chip's device file.
        chip: PathBuf,
        /// What the chip is called, if the device file still leads to the same one.
        label: String,
        /// Where the chip is in `/sys`: others may be called the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<PathBuf>,
        /// Of the line, on its chip.
        offset: u32,
        /// That of the line itself, whatever counts as on.
        high: bool,
        /// Its level before: 0 or 1.
        #[serde(default)]
        original: Option<String>,
    },
    /// A register of a chip on an I²C bus.
    Register {
        /// The bus's device file.
        bus: PathBuf,
        /// A file that names the bus's adapter, and what that holds.
        adapter: Option<(PathBuf, String)>,
        /// The chip's.
        address: u8,
        /// It is written although a driver of the kernel has the address.
        force: bool,
        /// The register's number, and what is written there.
        bytes: Vec<u8>,
        /// Which bits of these, but for the register's number, hold the value. Empty: all.
        #[serde(default)]
        bits: Vec<u8>,
        /// The number that it held before.
        #[serde(default)]
        original: Option<String>,
        /// The bytes that it held before, with those bits that do not hold the value. Empty: they are not known.
        #[serde(default)]
        held: Vec<u8>,
    },
    /// A frame on a CAN bus.
    Can {
        /// The interface.
        interface: String,
        /// Its id, as a number.
        id: u32,
        /// The id has 29 bits.
        extended: bool,
        /// It is of CAN FD.
        fd: bool,
        /// Its data go at the higher bit rate.
        bit_rate_switch: bool,
        /// Its data.
        data: Vec<u8>,
    },
}
