//! One of the writes that make an output safe, as stored in a plan. Plain values.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One write that makes an output safe. An output's writes are made in the order of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "to")]
pub(crate) enum PlannedWrite {
    /// A file, written from its start.
    File {
        /// Resolved: where the name led when the output was opened.
        path: PathBuf,
        /// A file beside it and its content, if that shows whether the path still leads to the same device.
        witness: Option<(PathBuf, String)>,
        /// The text to write.
        text: String,
        /// Cut the file off after the text: it is a regular file, not a device attribute.
        cut: bool,
        /// The device number of the file system that a regular file's folder was on; `None`: unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_system: Option<u64>,
        /// What the file held before hertzd wrote to it; for a regular file, the exact text. `None`: it could not be read.
        #[serde(default)]
        original: Option<String>,
    },
    /// The level of a GPIO line.
    Line {
        /// The chip's device file.
        chip: PathBuf,
        /// The chip's label, to check that the device file still leads to the same chip.
        label: String,
        /// The chip's place in `/sys`: other chips may have the same label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<PathBuf>,
        /// The line's offset on its chip.
        offset: u32,
        /// The level of the line itself, regardless of active-low.
        high: bool,
        /// The level before: 0 or 1.
        #[serde(default)]
        original: Option<String>,
    },
    /// A register of a chip on an I²C bus.
    Register {
        /// The bus's device file.
        bus: PathBuf,
        /// A file that names the bus's adapter, and its content.
        adapter: Option<(PathBuf, String)>,
        /// The chip's address.
        address: u8,
        /// Write even if a kernel driver owns the address.
        force: bool,
        /// The register's number, then the bytes to write there.
        bytes: Vec<u8>,
        /// Which bits of these bytes, without the register's number, hold the value. Empty: all.
        #[serde(default)]
        bits: Vec<u8>,
        /// The number the register held before.
        #[serde(default)]
        original: Option<String>,
        /// The bytes the register held before, including bits outside the value. Empty: unknown.
        #[serde(default)]
        held: Vec<u8>,
    },
    /// A frame on a CAN bus.
    Can {
        /// The interface.
        interface: String,
        /// The path of its hardware in `/sys`, and its numbers there. They find the interface under another name, and keep hertzd away from
        /// any other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        adapter: Option<(PathBuf, String)>,
        /// The frame's id, as a number.
        id: u32,
        /// Whether the id has 29 bits.
        extended: bool,
        /// Whether it is a CAN FD frame.
        fd: bool,
        /// Whether its data are sent at the higher bit rate.
        bit_rate_switch: bool,
        /// Its data.
        data: Vec<u8>,
    },
}
