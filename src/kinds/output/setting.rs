//! The files beside a target that decide what effect its value has: their content, the order in which they and the value are written, and
//! how a PWM channel keeps its polarity. Blocks in the closures passed to it, and while it switches a channel off.

use super::digits::number;
use super::put;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file beside a target that decides what effect the target's value has, and the number to set there.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) path: PathBuf,
    pub(super) number: f64,
    pub(super) sort: Sort,
}

/// The meaning of a setting's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// A plain number.
    Number,
    /// The mode in `pwmN_enable`.
    Mode,
    /// The `powerdown` of a converter. Set together with the value.
    Power,
    /// An index into [`POLARITIES`]. Kept as found at the start.
    Polarity,
}

/// The possible texts of a PWM channel's `polarity`.
pub(super) const POLARITIES: [&str; 2] = ["normal", "inversed"];

impl Sort {
    /// The number that a text stands for.
    pub(super) fn number(self, text: &str) -> Option<f64> {
        match self {
            Self::Number | Self::Mode | Self::Power => number(text),
            Self::Polarity => [0.0, 1.0].into_iter().find(|at| text.lines().next() == Some(&*self.text(*at))),
        }
    }

    /// The text of a number, without a newline.
    pub(super) fn text(self, number: f64) -> String {
        match self {
            Self::Number | Self::Mode | Self::Power => number.to_string(),
            Self::Polarity => POLARITIES[usize::from(number > 0.0)].to_owned(),
        }
    }
}

impl Setting {
    /// Whether the setting is written together with the value.
    pub(super) fn is_set_with_value(&self) -> bool {
        matches!(self.sort, Sort::Mode | Sort::Power)
    }

    /// Opens the file for writing, and for reading if its driver allows that. A read-only polarity is opened for reading only.
    pub(super) fn open(&self) -> io::Result<File> {
        let open = |reads, writes| File::options().read(reads).write(writes).open(&self.path);
        open(true, true).or_else(|_| open(false, true)).or_else(|error| match self.sort {
            Sort::Polarity => open(true, false),
            _ => Err(error),
        })
    }

    /// The text that sets it, with a newline.
    pub(super) fn text(&self) -> String {
        self.sort.text(self.number) + "\n"
    }
}

/// The channels of a converter that this file powers down together, if it is the `powerdown` of all of them.
pub(super) fn powered_down_by(path: &Path) -> Option<Range<u32>> {
    let channel = path.file_name().and_then(|name| name.to_str()?.strip_suffix("_powerdown"))?;
    let is_shared = channel.starts_with("out_") && !channel.ends_with(|it: char| it.is_ascii_digit());
    is_shared.then_some(0..1 + u32::from(u8::MAX))
}

/// Writes the value, then the settings, then the value again, whether the first write succeeded or not. Until a device is set to follow its
/// value, it may refuse the value (nct6775), keep it for later, or drop it silently (adt7475). Writing it first ensures that the device
/// never follows an old value in between.
///
/// # Errors
/// The settings write that the kernel refused, or else that of the value.
pub(super) fn in_force(
    mut value: impl FnMut() -> io::Result<()>,
    set: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    _ = value();
    let (set, value) = (set(), value());
    set.and(value)
}

/// Writes all settings in order, even if one fails. Returns the first failure of a polarity, then the first failure of the others. Some
/// drivers change the polarity only while the channel is off; the next setting switches the channel on again. A read-only polarity is not a
/// failure: the readback reports a change.
pub(super) fn set_all<S>(
    settings: &[S],
    parts: impl Fn(&S) -> (Sort, &File),
    write: impl Fn(&S) -> io::Result<()>,
) -> [io::Result<()>; 2] {
    let [mut polarity, mut others] = [Ok(()), Ok(())];
    for (at, setting) in settings.iter().enumerate() {
        if parts(setting).0 != Sort::Polarity {
            others = others.and(write(setting));
            continue;
        }
        polarity = match (write(setting), settings.get(at + 1)) {
            (Err(error), _) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
            (Err(_), Some(enable)) => put::attribute(parts(enable).1, b"0\n").and_then(|()| write(setting)),
            (written, _) => written,
        };
    }
    [polarity, others]
}

/// Restores a channel's polarity if another program changed it. A correct polarity is not written, because permission to write the duty
/// does not imply permission to write the polarity. Some drivers change the polarity only while the channel is off.
pub(super) fn keep_polarity(
    polarity: &Path,
    wanted: &str,
    read: impl Fn(&Path) -> io::Result<String>,
    write: impl Fn(&Path, &str) -> io::Result<()>,
) -> io::Result<()> {
    if read(polarity)?.lines().next() == Some(wanted.trim()) {
        return Ok(());
    }
    write(polarity, wanted).or_else(|error| {
        let enable = polarity.with_file_name("enable");
        if read(&enable)?.trim() != "1" {
            return Err(error);
        }
        write(&enable, "0\n")?;
        let done = write(polarity, wanted);
        write(&enable, "1\n").and(done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_channel_is_switched_off_for_a_polarity_that_it_takes_only_then() {
        let channel = RefCell::new(["normal\n".to_owned(), "1\n".to_owned()]);
        let at = |path: &Path| usize::from(path.ends_with("enable"));
        let read = |path: &Path| Ok(channel.borrow()[at(path)].clone());
        let write = |path: &Path, text: &str| {
            let mut channel = channel.borrow_mut();
            if at(path) == 0 && channel[1] == "1\n" {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            text.clone_into(&mut channel[at(path)]);
            Ok(())
        };
        let polarity = Path::new("/pwm0/polarity");
        keep_polarity(polarity, "inversed\n", read, write).unwrap();
        assert_eq!(*channel.borrow(), ["inversed\n", "1\n"]);
        let never = |_: &Path, _: &str| Err(io::Error::from_raw_os_error(libc::EACCES));
        keep_polarity(polarity, "inversed\n", read, never).unwrap();
        assert!(keep_polarity(polarity, "normal\n", read, never).is_err());
        assert_eq!(Sort::Polarity.number("inversed\n"), Some(1.0));
        assert_eq!([Sort::Polarity.number("1"), Sort::Number.number("normal")], [None; 2]);
    }
}
