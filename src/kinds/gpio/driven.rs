//! A line that is written, and not read: found like those that are, and made an output in one step, so that it passes through no level
//! but the one that is wanted. Finding and requesting one allocate and may block; setting its level does neither.

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

// The kernel's layouts, which the numbers of its requests are made of.
const _: () = {
    assert!(size_of::<LineRequest>() == 592 && size_of::<LineConfig>() == 272 && size_of::<LineValues>() == 16);
};

/// A line that is there. Levels are those of the line itself: high or low.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kinds) struct DrivenLine {
    /// The chip's device file.
    pub(in crate::kinds) node: PathBuf,
    /// What the chip is called, which stays the same when numbers change.
    pub(in crate::kinds) label: String,
    /// Where the chip is in `/sys`.
    pub(in crate::kinds) device: Option<PathBuf>,
    /// Of the line, on its chip.
    pub(in crate::kinds) offset: u32,
    number: u64, // of the chip's node
}

impl DrivenLine {
    /// Finds it; it is not requested.
    pub(in crate::kinds) fn find(wanted: Option<&str>, line: &LineId) -> Result<Self, Refusal> {
        let (chip, offsets) = find_lines(wanted, std::slice::from_ref(line)).map_err(of_one)?;
        let [offset] = offsets[..] else { return Err(Refusal::new("line", "several lines were found")) };
        let label = label(&chip).map_err(|message| Refusal::new("chip", message))?;
        Ok(Self { node: chip.path().into(), label, device: in_sys(chip.path()), offset, number: number(&chip) })
    }

    /// What makes it one device, however it is named.
    pub(in crate::kinds) fn id(&self) -> DeviceId {
        DeviceId::Line(self.number, self.offset)
    }

    /// What is to be said in place of [`find`](Self::find)'s refusal where only the service may open the chip.
    pub(in crate::kinds) fn hidden(chip: Option<&str>) -> Option<Sight> {
        hidden_chip(chip)
    }

    /// That a hertzd which runs has it; refused where another program or a driver has.
    pub(in crate::kinds) fn taken(&self) -> Result<Option<String>, Refusal> {
        let chip = chip::open(&self.node).map_err(|message| Refusal::new("chip", message))?;
        taken(&chip, &[self.offset]).map_err(of_one)
    }

    /// Requests it as it is: neither its direction nor its level changes. It is ours for as long as a copy of the descriptor is open.
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

    /// What a chip is called, if it may be asked.
    pub(in crate::kinds) fn label_of(node: &Path) -> Option<String> {
        Some(String::from(&get_chip_info(&access::open(node).ok()?).ok()?.label))
    }

    /// Requests it as an output of this level from the first instant on, if the chip is still the one with this label.
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

/// Refusals of the keys of several lines, for the key of one.
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
