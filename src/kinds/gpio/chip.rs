//! Opens a GPIO chip and queries its description; requests no line. Allocates and may block.

use crate::kinds::device::access;
use gpiocdev::chip::Chip;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn open(path: &Path) -> Result<Chip, String> {
    Chip::from_path(path).map_err(|error| match errno(&error) {
        Some(errno) => access::refusal(path, &io::Error::from_raw_os_error(errno)),
        None => format!("cannot open {}: {error}", path.display()),
    })
}

pub(super) fn errno(error: &gpiocdev::Error) -> Option<i32> {
    match error {
        gpiocdev::Error::Os(errno) => Some(errno.0),
        gpiocdev::Error::Uapi(_, gpiocdev_uapi::Error::Os(errno)) => Some(errno.0),
        _ => None,
    }
}

pub(super) fn label(chip: &Chip) -> Result<String, String> {
    let info = chip.info().map_err(|error| format!("cannot ask {} for its label: {error}", chip.path().display()))?;
    Ok(info.label)
}

/// The number of the chip's node.
pub(super) fn number(chip: &Chip) -> u64 {
    chip.path().metadata().map_or(0, |node| node.rdev())
}

/// A chip's description of itself.
pub(super) struct ChipFacts {
    pub(super) label: String,                   // may be empty
    pub(super) lines: Vec<(u32, String, bool)>, // offset, name (may be empty), whether it is in use
}

/// Queries a chip's description; takes no line.
pub(super) fn facts(path: &Path) -> Result<ChipFacts, String> {
    let chip = open(path)?;
    let infos = chip.line_info_iter().map_err(|error| format!("cannot list the lines: {error}"))?;
    let lines = infos.filter_map(Result::ok).map(|info| (info.offset, info.name, info.used)).collect();
    Ok(ChipFacts { label: label(&chip)?, lines })
}
