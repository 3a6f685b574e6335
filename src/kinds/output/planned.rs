//! The writes of a plan, made by a process that finds nothing open. May block.

use super::identity::kind_of;
#[cfg(feature = "gpio")]
use super::identity::same_place;
#[cfg(feature = "i2c")]
use super::means::{in_time, not_a_peer};
use super::means::{keep_others_out, named};
use super::planned_check::{
    BUS, CHIP, LONGEST_CONTENT, beside as text_beside, is_device, open_file, shown, shown_text,
};
use super::put;
use super::setting::keep_polarity;
use crate::safety::PlannedWrite;
#[cfg(feature = "gpio")]
use crate::site::in_sys;
use crate::sys::can::{self, Frame, Id};
use crate::sys::lock::{self, Taken};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

impl PlannedWrite {
    /// The same where its device is now: the kernel gives devices new numbers when they come again, so that the chip of `hwmon3` may have become
    /// `hwmon7`. What stands beside the file is compared when it is written.
    pub(crate) fn followed(mut self) -> Self {
        if let Self::File { path, witness: Some((beside, _)), cut: false, .. } = &mut self
            && let Some(now) = renumbered(path)
        {
            *beside = now.with_file_name(beside.file_name().unwrap_or_default());
            *path = now;
        }
        self
    }

    /// Whether it was to a regular file, which is not there any more. A device may come back, and still do what it did.
    pub(crate) fn is_gone_for_good(&self) -> bool {
        let is_gone = |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        matches!(self, Self::File { path, cut: true, .. } if is_gone(path))
    }

    /// Whether another process would make it, as far as that can be known without doing so.
    ///
    /// # Errors
    /// Why it would not.
    pub(crate) fn can_be_made(&self) -> io::Result<()> {
        self.wrong().map_or(Ok(()), |why| Err(io::Error::other(why)))?;
        match self {
            Self::Line { chip, .. } => is_device(chip, CHIP),
            Self::Register { bus, .. } => is_device(bus, BUS),
            Self::File { .. } | Self::Can { .. } => Ok(()),
        }
    }

    /// Makes it. Of a GPIO line it returns what keeps the level: once that is closed, it is up to the chip's driver what becomes of the line.
    ///
    /// # Errors
    /// The kernel refused it, what it names is another device now, or no output writes that.
    pub(crate) fn make(&self) -> io::Result<Option<File>> {
        self.make_of(None)
    }

    /// The same, where it is of a plan: of this process, which had the targets. If that was killed and has not ended, its locks keep nobody out.
    ///
    /// # Errors
    /// See [`make`](Self::make).
    pub(crate) fn make_of(&self, planner: Option<u32>) -> io::Result<Option<File>> {
        self.check()?;
        match self {
            Self::File { path, witness, text, cut, .. } => {
                is_still(witness.as_ref(), "device")?;
                if let Some((path, wanted)) = self.polarity() {
                    let put = |path: &Path, text: &str| {
                        let file = open_file(path, false)?;
                        is_free(&file, path, planner)?;
                        put::attribute(&file, text.as_bytes())
                    };
                    return keep_polarity(path, wanted, text_beside, put).map(|()| None);
                }
                let file = open_file(path, *cut)?;
                is_free(&file, path, planner)?;
                write(&file, text, *cut).map(|()| None)
            }
            Self::Line { chip, label, device, offset, high, .. } => {
                is_device(chip, CHIP)?;
                is_at(chip, device.as_deref())?;
                drive(chip, label, *offset, *high).map(Some)
            }
            Self::Register { bus, adapter, address, force, bytes, .. } => {
                is_device(bus, BUS)?;
                is_still(adapter.as_ref(), "bus")?;
                register(bus, *address, *force, bytes, planner).map(|()| None)
            }
            Self::Can { interface, .. } => can::send_once(interface, &self.frame()?).map(|()| None),
        }
    }
}

impl PlannedWrite {
    /// If it is a frame, its interface and its id.
    pub(crate) fn sends(&self) -> Option<(&str, Id)> {
        let Self::Can { interface, id, extended, .. } = self else { return None };
        Some((interface, Id { number: *id, extended: *extended }))
    }

    /// That of a CAN bus.
    fn frame(&self) -> io::Result<Frame> {
        let Self::Can { id, extended, fd, bit_rate_switch, data, .. } = self else {
            return Err(io::Error::other("no frame"));
        };
        Frame::new(Id { number: *id, extended: *extended }, *fd, *bit_rate_switch, data)
            .ok_or_else(|| io::Error::other("too long for a frame"))
    }
}

/// Refuses what a process has that lives: it writes its own values there, and would not see that this one has gone.
fn is_free(file: &File, path: &Path, planner: Option<u32>) -> io::Result<()> {
    keep_others_out(file, &path.display(), planner).map(drop).map_err(busy)
}

/// Whether a write was refused because a process that lives has the target.
pub(crate) fn is_left_to_another(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy && error.raw_os_error().is_none()
}

fn busy(why: String) -> io::Error {
    let text = format!("the target {why}, and cannot be written until that process has ended");
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// The same of a register that was asked for. Another output of this process is none that would not see it.
#[cfg(feature = "i2c")]
fn is_free_register(taken: Taken, bus: &Path) -> io::Result<()> {
    match taken {
        Taken::Peer(Some(holder)) if holder.pid == std::process::id() => Ok(()),
        taken => not_a_peer(taken, &bus.display(), || None).map(drop).map_err(busy),
    }
}

impl PlannedWrite {
    /// What is said of a lock on its file that does not keep it from being written.
    pub(crate) fn passes_over(&self, planner: u32) -> Option<String> {
        let Self::File { path, cut, .. } = self else { return None };
        let taken = lock::probe(&open_file(path, *cut).ok()?).ok()?.once_had_by(Some(planner));
        let Taken::Stranger(holder) = taken else { return None };
        Some(format!("{} is locked by {}, which keeps nobody out", path.display(), named(holder)))
    }
}

/// Where a path leads that leads nowhere any more, but for the numbers of devices in it: to the one of its kind in the folder where each was.
fn renumbered(path: &Path) -> Option<PathBuf> {
    let mut now = path.to_owned();
    while !now.exists() {
        let gone = now.ancestors().take_while(|part| !part.exists()).last()?;
        let kind = kind_of(gone.file_name()?.to_str()?)?;
        let names = fs::read_dir(gone.parent()?).ok()?.flatten().map(|entry| entry.file_name());
        let mut others = names.filter(|name| name.to_str().and_then(kind_of) == Some(kind));
        let (Some(other), None) = (others.next(), others.next()) else { return None };
        now = gone.with_file_name(other).join(now.strip_prefix(gone).ok()?);
    }
    (now != path).then_some(now)
}

/// Writes a number, and for a regular file (`cut`) what ends it: no reader finds it empty, or old digits behind the number.
fn write(file: &File, text: &str, cut: bool) -> io::Result<()> {
    if !cut {
        return file.write_all_at(text.as_bytes(), 0);
    }
    // Another program may have made it longer since it was opened: that is cut off as well.
    let rest = file.metadata()?.len().saturating_sub(text.len() as u64).min(LONGEST_CONTENT);
    let rest = "\n".repeat(usize::try_from(rest).unwrap_or_default());
    file.write_all_at((text.to_owned() + &rest).as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Refuses what is another device now, by what a file beside it says.
pub(super) fn is_still(witness: Option<&(PathBuf, String)>, what: &str) -> io::Result<()> {
    let Some((beside, wanted)) = witness else { return Ok(()) };
    let unread =
        |error: io::Error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", beside.display()));
    let found = text_beside(beside).map_err(unread)?;
    // As it was read when the output was opened.
    let found = found.lines().next().unwrap_or_default().trim();
    if found == wanted.trim() {
        return Ok(());
    }
    let found = shown(found);
    Err(io::Error::other(format!("{} says {found} now, and not {wanted:?}: it is another {what}", beside.display())))
}

/// Refuses a GPIO chip at another place than it had.
#[cfg(feature = "gpio")]
fn is_at(chip: &Path, wanted: Option<&Path>) -> io::Result<()> {
    match (in_sys(chip), wanted) {
        (Some(found), Some(wanted)) if !same_place(&found, wanted) => {
            let (found, wanted) = (found.display(), wanted.display());
            Err(io::Error::other(format!("{} is {found} now, and not {wanted}: it is another chip", chip.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(not(feature = "gpio"))]
fn is_at(_: &Path, _: Option<&Path>) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "gpio")]
fn drive(chip: &Path, label: &str, offset: u32, high: bool) -> io::Result<File> {
    crate::kinds::gpio::DrivenLine::request_driven(chip, label, offset, high)
}

#[cfg(not(feature = "gpio"))]
fn drive(_: &Path, _: &str, _: u32, _: bool) -> io::Result<File> {
    Err(io::Error::other("this hertzd was built without the feature gpio"))
}

#[cfg(feature = "i2c")]
fn register(bus: &Path, address: u8, force: bool, bytes: &[u8], planner: Option<u32>) -> io::Result<()> {
    let is_free = |lock: &dyn Fn() -> io::Result<Taken>| {
        is_free_register(in_time(|| lock().map(|taken| taken.once_had_by(planner)))?, bus)
    };
    crate::kinds::i2c::OpenRegister::write_once(bus, address, force, bytes, is_free)
}

#[cfg(not(feature = "i2c"))]
fn register(_: &Path, _: u8, _: bool, _: &[u8], _: Option<u32>) -> io::Result<()> {
    Err(io::Error::other("this hertzd was built without the feature i2c"))
}

/// What is written to what: `255 to /sys/…/pwm1`.
impl fmt::Display for PlannedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, text, .. } => write!(f, "{} to {}", shown_text(text), path.display()),
            Self::Line { chip, offset, high, .. } => {
                write!(f, "{} to line {offset} of {}", if *high { "high" } else { "low" }, chip.display())
            }
            Self::Register { bus, address, bytes, .. } => {
                for byte in bytes.get(1..).unwrap_or_default() {
                    write!(f, "{byte:#04x} ")?;
                }
                let register = bytes.first().copied().unwrap_or_default();
                write!(f, "to register {register:#04x} of chip {address:#04x} on {}", bus.display())
            }
            Self::Can { interface, .. } => match self.frame() {
                Ok(frame) => write!(f, "the frame {frame} to {interface}"),
                Err(error) => write!(f, "a frame to {interface}, which is {error}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "i2c")]
    #[test]
    fn a_register_that_a_living_hertzd_has_is_left_to_it() {
        use crate::sys::lock::Holder;
        let bus = Path::new("/dev/i2c-1");
        let by = |pid| Taken::Peer(Some(Holder { name: "hertzd".into(), pid }));
        is_free_register(Taken::Locked, bus).unwrap();
        is_free_register(Taken::Stranger(None), bus).unwrap();
        is_free_register(by(std::process::id()), bus).unwrap();
        for taken in [by(1), Taken::Peer(None)] {
            let error = is_free_register(taken, bus).unwrap_err();
            assert_eq!((error.kind(), error.raw_os_error()), (io::ErrorKind::ResourceBusy, None), "{error}");
        }
    }

    #[test]
    fn the_polarity_of_a_channel_that_another_has_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("polarity");
        fs::write(&path, "inversed\n").unwrap();
        let write = PlannedWrite::File {
            path: path.clone(),
            witness: None,
            text: "normal\n".into(),
            cut: false,
            original: None,
        };
        fs::write(path.with_file_name("enable"), "0\n").unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        assert_eq!(lock::take(&other).unwrap(), Taken::Locked);
        assert!(is_left_to_another(&write.make().unwrap_err()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "inversed\n");
        drop(other);
        write.make().unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("normal\n"));
    }

    #[test]
    fn a_device_is_the_same_by_the_first_line_beside_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, " nct6775 \nmore\n").unwrap();
        let witness = |name: &str| (file.path().canonicalize().unwrap(), name.to_owned());
        is_still(Some(&witness("nct6775")), "device").unwrap();
        assert!(is_still(Some(&witness("it87")), "device").is_err());
    }

    #[test]
    fn what_another_program_makes_long_is_cut_behind_the_number() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        write(&file, "5\n", true).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2);
    }

    #[test]
    fn a_fan_is_found_under_the_new_number_of_its_chip() {
        let sys = tempfile::tempdir().unwrap();
        let folder = |name: &str| sys.path().join(name);
        let file = |name: &str, path: &str| PlannedWrite::File {
            path: folder(path),
            witness: Some((folder(path).with_file_name("name"), name.into())),
            text: "255\n".into(),
            cut: false,
            original: None,
        };
        for chip in ["1-0018/hwmon/hwmon7", "usb1/0003:1E71:170E.000A/hwmon/hwmon5", "1-0048/iio:device2"] {
            fs::create_dir_all(folder(chip)).unwrap();
            ["name", "pwm1"].iter().for_each(|name| fs::write(folder(chip).join(name), "chip\n").unwrap());
        }
        for (old, new) in [
            ("1-0018/hwmon/hwmon3/pwm1", "1-0018/hwmon/hwmon7/pwm1"),
            ("1-0018/hwmon/hwmon7/pwm1", "1-0018/hwmon/hwmon7/pwm1"),
            ("usb1/0003:1E71:170E.0004/hwmon/hwmon3/pwm1", "usb1/0003:1E71:170E.000A/hwmon/hwmon5/pwm1"),
            ("1-0048/iio:device0/pwm1", "1-0048/iio:device2/pwm1"),
            // A chip at another place is another one, and so is another file.
            ("1-0019/hwmon/hwmon3/pwm1", "1-0019/hwmon/hwmon3/pwm1"),
            ("1-0018/hwmon/hwmon3/pwm2", "1-0018/hwmon/hwmon3/pwm2"),
        ] {
            assert_eq!(file("chip", old).followed(), file("chip", new));
        }
        fs::create_dir(folder("1-0018/hwmon/hwmon8")).unwrap();
        let several = file("chip", "1-0018/hwmon/hwmon3/pwm1");
        assert_eq!(several.clone().followed(), several, "which of the two is not known");
        let other = file("other", "1-0048/iio:device0/pwm1").followed().make().unwrap_err().to_string();
        assert!(other.contains("it is another device"), "{other}");
    }
}
