//! The writes of a plan, made by a process that finds nothing open. May block.

#[cfg(feature = "i2c")]
use super::means::{in_time, not_a_peer};
use super::means::{keep_others_out, named};
use super::planned_check::{BUS, CHIP, beside as text_beside, is_device, open_file, shown, shown_text};
use super::planned_write::PlannedWrite;
use crate::sys::can::{self, Frame, Id};
use crate::sys::lock::{self, Taken};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

impl PlannedWrite {
    /// Whether there is anything that it could be written to.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::File { path, .. } => path.exists(),
            Self::Line { chip, .. } => chip.exists(),
            Self::Register { bus, .. } => bus.exists(),
            Self::Can { interface, .. } => Path::new("/sys/class/net").join(interface).exists(),
        }
    }

    /// Makes it. Of a GPIO line it returns what keeps the level: once that is closed, it is up to the chip's driver what becomes of the line.
    ///
    /// # Errors
    /// The kernel refused it, what it names is another device now, or no output writes that.
    pub(crate) fn make(&self) -> io::Result<Option<File>> {
        self.check()?;
        match self {
            Self::File { path, witness, text, cut, .. } => {
                is_still(witness.as_ref(), "device")?;
                let file = open_file(path, *cut)?;
                is_free(&file, path)?;
                write(&file, text, *cut).map(|()| None)
            }
            Self::Line { chip, label, offset, high, .. } => {
                is_device(chip, CHIP)?;
                drive(chip, label, *offset, *high).map(Some)
            }
            Self::Register { bus, adapter, address, force, bytes, .. } => {
                is_device(bus, BUS)?;
                is_still(adapter.as_ref(), "bus")?;
                register(bus, *address, *force, bytes).map(|()| None)
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
fn is_free(file: &File, path: &Path) -> io::Result<()> {
    keep_others_out(file, &path.display()).map_err(busy)
}

fn busy(why: String) -> io::Error {
    let text = format!("it {why}, which writes the safe value itself when it is stopped");
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// The same of a register that was asked for. Another output of this process is none that would not see it.
#[cfg(feature = "i2c")]
fn is_free_register(taken: Taken, bus: &Path) -> io::Result<()> {
    match taken {
        Taken::Peer(Some(holder)) if holder.pid == std::process::id() => Ok(()),
        taken => not_a_peer(taken, &bus.display(), || None).map_err(busy),
    }
}

impl PlannedWrite {
    /// What is said of a lock on its file that does not keep it from being written.
    pub(crate) fn passes_over(&self) -> Option<String> {
        let Self::File { path, cut, .. } = self else { return None };
        let Ok(Taken::Stranger(holder)) = lock::probe(&open_file(path, *cut).ok()?) else { return None };
        Some(format!("{} is locked by {}, which keeps nobody out", path.display(), named(holder)))
    }
}

/// Writes a number, and for a regular file (`cut`) what ends it: no reader finds it empty, or old digits behind the number.
fn write(file: &File, text: &str, cut: bool) -> io::Result<()> {
    if !cut {
        return file.write_all_at(text.as_bytes(), 0);
    }
    let rest = usize::try_from(file.metadata()?.len()).unwrap_or_default().saturating_sub(text.len());
    file.write_all_at((text.to_owned() + &"\n".repeat(rest)).as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Refuses what is another device now, by what a file beside it says.
pub(super) fn is_still(witness: Option<&(PathBuf, String)>, what: &str) -> io::Result<()> {
    let Some((beside, wanted)) = witness else { return Ok(()) };
    let unread =
        |error: io::Error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", beside.display()));
    let found = text_beside(beside).map_err(unread)?;
    let found = found.trim_end();
    if found == wanted {
        return Ok(());
    }
    let found = shown(found);
    Err(io::Error::other(format!("{} says {found} now, and not {wanted:?}: it is another {what}", beside.display())))
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
fn register(bus: &Path, address: u8, force: bool, bytes: &[u8]) -> io::Result<()> {
    let is_free = |lock: &dyn Fn() -> io::Result<Taken>| is_free_register(in_time(lock)?, bus);
    crate::kinds::i2c::OpenRegister::write_once(bus, address, force, bytes, is_free)
}

#[cfg(not(feature = "i2c"))]
fn register(_: &Path, _: u8, _: bool, _: &[u8]) -> io::Result<()> {
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

#[cfg(all(test, feature = "i2c"))]
mod tests {
    use super::*;
    use crate::sys::lock::Holder;

    #[test]
    fn a_register_that_a_living_hertzd_has_is_left_to_it() {
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
}
