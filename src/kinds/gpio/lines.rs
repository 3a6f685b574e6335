//! Finds a chip and its lines, requests them, and reads them. Opening allocates and may block; reading does neither.

use super::chip::{errno, label, number, open};
use super::list::{chips, stays};
use super::settings::{GpioSettings, LineId};
use crate::kinds::device::{Sight, hidden};
use crate::site::Roots;
use crate::site::{DeviceId, OpenDevice, Refusal};
use crate::sys::fd::set_nonblocking;
use gpiocdev::Request;
use gpiocdev::chip::Chip;
use gpiocdev::line::Info;
use gpiocdev_uapi::v2::{LineValues, get_line_values};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Requested lines, in the order of the configuration.
pub(super) struct LineRequest {
    file: File,
    chip: u64, // number of its node
    offsets: Box<[u32]>,
    mask: u64,
    pub(super) last: u32, // number of the last edge taken; numbers start at 1
}

impl OpenDevice for LineRequest {
    fn exclusive(&self) -> Vec<DeviceId> {
        self.offsets.iter().map(|&offset| DeviceId::Line(self.chip, offset)).collect()
    }
}

impl LineRequest {
    /// Finds and requests the lines.
    pub(super) fn open(wanted: &GpioSettings) -> Result<Self, Refusal> {
        let (chip, offsets) = find_lines(wanted.chip.as_deref(), &wanted.lines)?;
        let mut request = Request::builder();
        request.on_chip(chip.path()).with_consumer(CONSUMER).with_lines(&offsets).as_input();
        request.with_edge_detection(wanted.edges).with_bias(wanted.bias).with_kernel_event_buffer_size(wanted.room);
        if wanted.active_low {
            request.as_active_low();
        }
        if let Some(debounce) = wanted.debounce {
            request.with_debounce_period(Duration::from_nanos(debounce.nanos().unsigned_abs()));
        }
        let request = request.request().map_err(|error| refused(&chip, &offsets, &error))?;
        let failed = |what: &str, error: io::Error| Refusal::new("lines", format!("cannot {what}: {error}"));
        // The lines are ours while a copy of the descriptor is open.
        let file = request.as_fd().try_clone_to_owned();
        let file = File::from(file.map_err(|error| failed("copy the descriptor of the lines", error))?);
        set_nonblocking(&file).map_err(|error| failed("make reading the lines non-blocking", error))?;
        let mask = u64::MAX >> (64 - offsets.len());
        let lines = Self { file, chip: number(&chip), offsets: offsets.into(), mask, last: 0 };
        lines.levels().map_err(|error| failed("read the lines", error))?;
        Ok(lines)
    }

    /// The level of each line, the first one in the lowest bit. One system call.
    pub(super) fn levels(&self) -> io::Result<u64> {
        let mut values = LineValues { bits: 0, mask: self.mask };
        get_line_values(&self.file, &mut values).map_err(io_error)?;
        Ok(values.bits)
    }

    /// Reads edges that are ready, and returns how many words of the buffer they fill. One system call. EAGAIN: none is ready.
    pub(super) fn read(&self, words: &mut [u64]) -> io::Result<usize> {
        gpiocdev_uapi::read_event(&self.file, words).map_err(io_error)
    }

    /// The index, in the configuration's order, of the line with this offset.
    pub(super) fn index(&self, offset: u32) -> Option<usize> {
        self.offsets.iter().position(|&line| line == offset)
    }
}

/// Previews [`LineRequest::open`]; requests no line.
pub(super) fn look(wanted: &GpioSettings) -> Result<Sight, Refusal> {
    let (chip, offsets) = match find_lines(wanted.chip.as_deref(), &wanted.lines) {
        Ok(found) => found,
        Err(refusal) => return hidden_chip(wanted.chip.as_deref()).ok_or(refusal),
    };
    let taken = taken(&chip, &offsets)?;
    let devices = offsets.iter().map(|&offset| DeviceId::Line(number(&chip), offset)).collect();
    let sight =
        Sight::of("lines", devices).unknown(format!("whether {} grants these lines with these settings", chip.name()));
    Ok(Sight { taken, ..sight })
}

/// The report if only the service may open the chip in question.
pub(super) fn hidden_chip(chip: Option<&str>) -> Option<Sight> {
    let nodes: Vec<_> = match chip {
        Some(chip) if is_node(chip) => vec![node(chip)],
        _ => chips(&Roots::under(Path::new("/"))).into_iter().map(|(_, path)| path).collect(),
    };
    nodes.iter().find_map(|node| hidden(node, true))
}

/// That a running hertzd has some of these lines. Refused if another program or a driver has any.
pub(super) fn taken(chip: &Chip, offsets: &[u32]) -> Result<Option<String>, Refusal> {
    let used = in_use(chip, offsets);
    match used.iter().all(|info| info.consumer == CONSUMER) {
        _ if used.is_empty() => Ok(None),
        true => Ok(Some(format!("{} is in use by a hertzd that runs", used_text(chip, &used)))),
        false => Err(used_by_others(chip, &used)),
    }
}

/// Finds the chip and the wanted lines. A line named twice is refused.
pub(super) fn find_lines(chip: Option<&str>, lines: &[LineId]) -> Result<(Chip, Vec<u32>), Refusal> {
    let (chip, offsets) = match chip {
        Some(chip) => {
            let chip = find(chip).map_err(|message| Refusal::new("chip", message))?;
            let offsets: Result<Vec<_>, _> = lines.iter().map(|line| offset(&chip, line)).collect();
            (chip, offsets.map_err(|message| Refusal::new("lines", message))?)
        }
        None => anywhere(lines).map_err(|message| Refusal::new("lines", message))?,
    };
    match (1..offsets.len()).find(|&index| offsets[..index].contains(&offsets[index])) {
        Some(twice) => {
            let message = format!("line {} is line {}, which is named twice", lines[twice], offsets[twice]);
            Err(Refusal::new("lines", message))
        }
        None => Ok((chip, offsets)),
    }
}

/// The consumer name that the kernel shows for our lines.
pub(super) const CONSUMER: &str = "hertzd";

pub(super) fn io_error(error: gpiocdev_uapi::Error) -> io::Error {
    match error {
        gpiocdev_uapi::Error::Os(errno) => io::Error::from_raw_os_error(errno.0),
        gpiocdev_uapi::Error::UnderRead(_) => io::Error::from_raw_os_error(libc::EIO),
    }
}

/// The chip with this device file, name or label, or that belongs to the device of this name.
fn find(wanted: &str) -> Result<Chip, String> {
    if is_node(wanted) {
        return open(&node(wanted));
    }
    let mut found = Vec::new();
    let (seen, refusals) = each(|chip, label| {
        if label == wanted || stays(&Roots::default(), &chip.name()).iter().any(|name| name == wanted) {
            found.push(chip);
        }
    });
    match found.len() {
        0 => Err(format!("no GPIO chip has the name or label {wanted:?}; {}", what_there_is(&seen, &refusals))),
        1 => Ok(found.remove(0)),
        _ => {
            let nodes: Vec<_> = found.iter().map(|chip| chip.name()).collect();
            let has = format!("several GPIO chips have the name {wanted:?}: {}", nodes.join(", "));
            Err(format!("{has}; `hertzd devices` shows how to name each"))
        }
    }
}

/// Whether a chip is named by its device file.
fn is_node(wanted: &str) -> bool {
    wanted.contains('/') || node(wanted).exists()
}

fn node(wanted: &str) -> PathBuf {
    Path::new("/dev").join(wanted) // an absolute path replaces /dev
}

/// The chip that has lines of all these names, and their offsets.
fn anywhere(lines: &[LineId]) -> Result<(Chip, Vec<u32>), String> {
    let mut found = Vec::new();
    let (seen, refusals) = each(|chip, _| {
        let offsets: Vec<_> = lines.iter().map(|line| offsets(&chip, line).unwrap_or_default()).collect();
        if offsets.iter().all(|offsets| !offsets.is_empty()) {
            found.push((chip, offsets));
        }
    });
    match found.len() {
        0 => {
            let names: Vec<_> = lines.iter().map(LineId::to_string).collect();
            let what = what_there_is(&seen, &refusals);
            Err(format!("no GPIO chip has {} {}; {what}", plural(lines.len(), "the line"), names.join(", ")))
        }
        1 => {
            let (chip, offsets) = found.remove(0);
            let only: Result<_, _> =
                lines.iter().zip(offsets).map(|(line, all)| only(&chip.name(), line, &all)).collect();
            only.map(|offsets| (chip, offsets))
        }
        _ => {
            let nodes: Vec<_> = found.iter().map(|(chip, _)| chip.name()).collect();
            Err(format!("several GPIO chips have lines of these names: {}; say which with chip", nodes.join(", ")))
        }
    }
}

/// Opens each chip and passes it to `take` with its label. Returns the names of these chips, and why others could not be opened.
fn each(mut take: impl FnMut(Chip, &str)) -> (Vec<String>, Vec<String>) {
    let (mut seen, mut refusals) = (Vec::new(), Vec::new());
    for (_, path) in chips(&Roots::under(Path::new("/"))) {
        match open(&path).and_then(|chip| Ok((label(&chip)?, chip))) {
            Ok((label, chip)) => {
                seen.push(format!("{} ({label:?})", chip.name()));
                take(chip, &label);
            }
            Err(reason) => refusals.push(reason),
        }
    }
    (seen, refusals)
}

fn what_there_is(seen: &[String], refusals: &[String]) -> String {
    let mut parts = Vec::new();
    match seen {
        [] if refusals.is_empty() => parts.push("there is no GPIO chip".to_owned()),
        [] => {}
        _ => parts.push(format!("there {} {}", if seen.len() == 1 { "is" } else { "are" }, seen.join(", "))),
    }
    parts.extend_from_slice(refusals);
    parts.join("; ")
}

fn offset(chip: &Chip, line: &LineId) -> Result<u32, String> {
    only(&chip.name(), line, &offsets(chip, line)?)
}

/// The lines of a chip that one entry of the configuration may mean: the kernel allows several with the same name.
fn offsets(chip: &Chip, line: &LineId) -> Result<Vec<u32>, String> {
    let cannot = |error| format!("cannot ask {}: {error}", chip.path().display());
    match line {
        LineId::Offset(offset) => {
            let count = chip.info().map_err(cannot)?.num_lines;
            let missing =
                || format!("{} has no line {offset}; its lines are 0 to {}", chip.name(), count.saturating_sub(1));
            if *offset < count { Ok(vec![*offset]) } else { Err(missing()) }
        }
        LineId::Name(name) => {
            let infos = chip.line_info_iter().map_err(cannot)?;
            Ok(infos.filter_map(Result::ok).filter(|info| info.name == *name).map(|info| info.offset).collect())
        }
    }
}

/// The one line that is meant.
fn only(chip: &str, line: &LineId, offsets: &[u32]) -> Result<u32, String> {
    match offsets {
        [offset] => Ok(*offset),
        [] => Err(format!("{chip} has no line called {line}; `hertzd devices` lists those that have names")),
        _ => {
            let all: Vec<_> = offsets.iter().map(u32::to_string).collect();
            let all = all.join(", ");
            Err(format!(
                "{chip} has several lines called {line}: {all}; write `chip` and the offset of the one that is meant"
            ))
        }
    }
}

fn refused(chip: &Chip, offsets: &[u32], error: &gpiocdev::Error) -> Refusal {
    let name = chip.name();
    if errno(error) == Some(libc::EBUSY) {
        return used_by_others(chip, &in_use(chip, offsets));
    }
    let detail = match errno(error) {
        Some(libc::EINVAL | libc::ENXIO | libc::EOPNOTSUPP) => {
            format!("{error}; the chip may not be able to detect edges, to pull lines, or to debounce them")
        }
        _ => error.to_string(),
    };
    let lines: Vec<_> = offsets.iter().map(u32::to_string).collect();
    Refusal::new("lines", format!("{name} refuses {} {}: {detail}", plural(offsets.len(), "line"), lines.join(", ")))
}

/// The lines that are in use.
pub(super) fn in_use(chip: &Chip, offsets: &[u32]) -> Vec<Info> {
    let infos = offsets.iter().filter_map(|&offset| chip.line_info(offset).ok());
    infos.filter(|info| info.used).collect()
}

pub(super) fn used_by_others(chip: &Chip, used: &[Info]) -> Refusal {
    let devices: Vec<_> = used.iter().map(|info| DeviceId::Line(number(chip), info.offset)).collect();
    Refusal::in_use("lines", used_text(chip, used), devices)
}

/// `gpiochip0: line 3 ("button")`.
fn used_text(chip: &Chip, used: &[Info]) -> String {
    let shown: Vec<_> = used.iter().map(|info| format!("{} ({:?})", info.offset, info.consumer)).collect();
    let one_of = if used.len() == 1 { "line" } else { "one of the lines" };
    format!("{}: {one_of} {}", chip.name(), shown.join(", "))
}

fn plural(count: usize, word: &str) -> String {
    format!("{word}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_several_lines_of_a_chip_have_means_none_of_them() {
        let relay = LineId::Name("relay".into());
        assert_eq!(only("gpiochip0", &relay, &[2]), Ok(2));
        let none = only("gpiochip0", &relay, &[]).unwrap_err();
        assert!(none.starts_with("gpiochip0 has no line called \"relay\";"), "{none}");
        let several = only("gpiochip0", &relay, &[1, 2]).unwrap_err();
        assert_eq!(
            several,
            "gpiochip0 has several lines called \"relay\": 1, 2; write `chip` and the offset of the one that is meant"
        );
    }
}
