//! A line that is written but not used as an input. It becomes an output in one step, so that it has no level but the wanted one. Finding
//! and requesting a line allocate and may block; setting its level does neither.

use super::chip::{self, label, number};
use super::lines::{CONSUMER, find_lines, hidden_chip, in_use, io_error, taken, used_by_others};
use super::settings::LineId;
use crate::kinds::device::{Sight, access};
use crate::site::{DeviceId, Refusal, in_sys};
use gpiocdev_uapi::v2::{
    LineConfig, LineFlags, LineRequest, LineValues, Offsets, get_chip_info, get_line, get_line_values, set_line_config,
    set_line_values,
};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

// The kernel's layouts; their sizes are part of the ioctl numbers.
const _: () = {
    assert!(size_of::<LineRequest>() == 592 && size_of::<LineConfig>() == 272 && size_of::<LineValues>() == 16);
};

/// A line that was found. Levels are those of the line itself: high or low.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kinds) struct DrivenLine {
    /// The chip's device file.
    pub(in crate::kinds) node: PathBuf,
    /// The chip's label, which stays the same when numbers change.
    pub(in crate::kinds) label: String,
    /// The chip's path in `/sys`.
    pub(in crate::kinds) device: Option<PathBuf>,
    /// The line's offset on its chip.
    pub(in crate::kinds) offset: u32,
    number: u64, // number of the chip's node
}

impl DrivenLine {
    /// Finds the line without requesting it.
    pub(in crate::kinds) fn find(wanted: Option<&str>, line: &LineId) -> Result<Self, Refusal> {
        let (chip, offsets) = find_lines(wanted, std::slice::from_ref(line)).map_err(of_one)?;
        let [offset] = offsets[..] else { return Err(Refusal::new("line", "several lines were found")) };
        let label = label(&chip).map_err(|message| Refusal::new("chip", message))?;
        Ok(Self { node: chip.path().into(), label, device: in_sys(chip.path()), offset, number: number(&chip) })
    }

    /// Its id, independent of how it was named.
    pub(in crate::kinds) fn id(&self) -> DeviceId {
        DeviceId::Line(self.number, self.offset)
    }

    /// Replaces [`find`](Self::find)'s refusal if only the service may open the chip.
    pub(in crate::kinds) fn hidden(chip: Option<&str>) -> Option<Sight> {
        hidden_chip(chip)
    }

    /// That a running hertzd has the line. Refused if another program or a driver has it.
    pub(in crate::kinds) fn taken(&self) -> Result<Option<String>, Refusal> {
        let chip = chip::open(&self.node).map_err(|message| Refusal::new("chip", message))?;
        taken(&chip, &[self.offset]).map_err(of_one)
    }

    /// Requests the line as it is: neither its direction nor its level changes. The line is ours while a copy of the descriptor is open.
    pub(in crate::kinds) fn request(&self) -> Result<File, Refusal> {
        let opened = access::open(&self.node).map_err(|message| Refusal::new("chip", message))?;
        request(&opened, self.offset, LineConfig::default()).map_err(|error| {
            let node = self.node.display();
            match (error.raw_os_error(), chip::open(&self.node)) {
                (Some(libc::EBUSY), Ok(chip)) => of_one(used_by_others(&chip, &in_use(&chip, &[self.offset]))),
                _ => Refusal::new("line", format!("{node} refuses line {}: {error}", self.offset)),
            }
        })
    }

    /// The chip's label, if this process may read it.
    pub(in crate::kinds) fn label_of(node: &Path) -> Option<String> {
        Some(String::from(&get_chip_info(&access::open(node).ok()?).ok()?.label))
    }

    /// Requests the line as an output with this level from the first instant, if the chip still has this label.
    pub(in crate::kinds) fn request_driven(node: &Path, label: &str, offset: u32, high: bool) -> io::Result<File> {
        let chip = access::open(node).map_err(io::Error::other)?;
        let found = String::from(&get_chip_info(&chip).map_err(io_error)?.label);
        if found != label {
            let text = format!("{} is {found:?} now, and not {label:?}: it is another chip", node.display());
            return Err(io::Error::other(text));
        }
        request(&chip, offset, output(high))
    }

    /// The level of a requested line.
    pub(in crate::kinds) fn level(line: &File) -> io::Result<bool> {
        let mut values = LineValues { bits: 0, mask: 1 };
        get_line_values(line, &mut values).map_err(io_error)?;
        Ok(values.bits & 1 == 1)
    }

    /// Makes a requested line an output of this level.
    pub(in crate::kinds) fn drive(line: &File, high: bool) -> io::Result<()> {
        set_line_config(line, output(high)).map_err(io_error)
    }

    /// Sets the level of a line that is an output. One system call.
    pub(in crate::kinds) fn set(line: &File, high: bool) -> io::Result<()> {
        set_line_values(line, &LineValues { bits: u64::from(high), mask: 1 }).map_err(io_error)
    }
}

/// Adapts a refusal for several lines to the key for one line.
fn of_one(refusal: Refusal) -> Refusal {
    Refusal { key: if refusal.key == "lines" { "line" } else { refusal.key }, ..refusal }
}

fn output(high: bool) -> LineConfig {
    let mut config = LineConfig { flags: LineFlags::OUTPUT, ..LineConfig::default() };
    config.add_values(&LineValues { bits: u64::from(high), mask: 1 });
    config
}

fn request(chip: &File, offset: u32, config: LineConfig) -> io::Result<File> {
    let offsets = Offsets::from_slice(&[offset]);
    let request = LineRequest { offsets, consumer: CONSUMER.into(), config, num_lines: 1, ..LineRequest::default() };
    get_line(chip, request).map_err(io_error)
}
