//! Makes the writes of a plan in a process that has nothing open. May block.

mod check;
mod fan;
mod place;
mod readback;

use super::digits::number;
use super::put;
use super::setting::{keep_polarity, powered_down_by};
use super::target::means::{in_time, keep_others_out, named, not_a_peer};
use crate::kinds::can::find_interface;
use crate::safety::PlannedWrite;
#[cfg(feature = "gpio")]
use crate::site::in_sys;
use crate::sys::can::{self, Frame, Id, Socket};
use crate::sys::lock::{self, Holder, Stranger, named_in_time};
use check::{BUS, CHIP, LONGEST_CONTENT, beside as text_beside, is_device, open_file, shown, shown_text};
pub(crate) use fan::once_more;
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tracing::warn;

/// Where the interfaces of CAN buses are.
const SYS: &str = "/sys";

/// The result of a write that was made.
#[derive(Debug)]
pub(crate) struct MadeWrite {
    /// For a GPIO line: the open file that keeps its level.
    pub(crate) line: Option<File>,
    /// A lock that was ignored to make the write.
    pub(crate) passed_over: Option<PassedOver>,
}

impl MadeWrite {
    /// Logs a lock that was ignored, then returns the line.
    fn said_of(self, task: &str) -> Option<File> {
        self.passed_over.into_iter().for_each(|lock| lock.warn(task));
        self.line
    }
}

/// A lock that was ignored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PassedOver {
    shown: String,
    stranger: Stranger,
}

impl PassedOver {
    fn of(file: &File, path: &Path, holder: Option<Option<Holder>>) -> Option<Self> {
        let stranger = lock::stranger(file, None, holder?);
        Some(Self { shown: path.display().to_string(), stranger })
    }

    fn says(shown: &str, holder: Option<Holder>) -> String {
        format!("{shown} is locked by {}, which keeps nobody out", named(holder))
    }

    /// Describes these locks, with the holders' names as far as they are found in time.
    pub(crate) fn say_all(locks: Vec<Self>) -> Vec<String> {
        let (shown, strangers): (Vec<_>, Vec<_>) = locks.into_iter().map(|lock| (lock.shown, lock.stranger)).unzip();
        shown.iter().zip(named_in_time(strangers)).map(|(shown, holder)| Self::says(shown, holder)).collect()
    }

    fn warn(self, task: &str) {
        let task = task.to_owned();
        self.stranger.name(move |holder| {
            let says = Self::says(&self.shown, holder);
            warn!(task, "{task}: {says}");
        });
    }
}

/// Whether a folder is on the file system with this device number.
pub(super) fn is_on(folder: &Path, file_system: u64) -> bool {
    folder.metadata().is_ok_and(|folder| folder.dev() == file_system)
}

impl PlannedWrite {
    /// Whether the write was to a regular file that no longer exists. A device may come back and still do what it did. So may a file
    /// system: while it is unmounted, the innermost remaining folder of the path is empty, or on another file system.
    pub(crate) fn is_gone_for_good(&self) -> bool {
        let Self::File { path, cut: true, file_system, .. } = self else { return false };
        let is_missing =
            |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let is_filled = |folder: &Path| folder.read_dir().is_ok_and(|mut all| all.next().is_some());
        let is_mounted = |folder: &Path| file_system.is_none_or(|was| is_on(folder, was));
        let there = path.ancestors().skip(1).find(|folder| !is_missing(folder));
        is_missing(path) && there.is_some_and(|folder| is_filled(folder) && is_mounted(folder))
    }

    /// Whether another process would make this write, as far as that is known without making it.
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

    /// Makes the write for a task. For a GPIO line, returns the file that keeps its level: once it is closed, the chip's driver decides
    /// what becomes of the line. `planner`: for a write of a plan, the process that had the targets. If that process was killed but has not
    /// ended yet, its locks are ignored.
    ///
    /// # Errors
    /// The kernel refused the write, its name leads to another device now, or no output would write that.
    pub(crate) fn make_of(&self, task: &str, planner: Option<u32>) -> io::Result<Option<File>> {
        Ok(self.make_by(task, (planner, false))?.said_of(task))
    }

    /// Like [`make_of`](Self::make_of), but also if an output of this process that has not begun may have locked the target: such a lock is
    /// no obstacle.
    ///
    /// # Errors
    /// The errors of [`make_of`](Self::make_of).
    pub(crate) fn make_before_begin(&self, task: &str, planner: Option<u32>) -> io::Result<Option<File>> {
        Ok(self.make_by(task, (planner, true))?.said_of(task))
    }

    /// Like [`make_of`](Self::make_of), without logging an ignored lock.
    pub(crate) fn make_unsaid(&self, task: &str, planner: Option<u32>) -> io::Result<MadeWrite> {
        self.make_by(task, (planner, false))
    }

    fn make_by(&self, task: &str, by: (Option<u32>, bool)) -> io::Result<MadeWrite> {
        self.check()?;
        self.make_there(task, by).map_err(|error| self.unless_known(error))
    }

    fn make_there(&self, task: &str, by: (Option<u32>, bool)) -> io::Result<MadeWrite> {
        let made = |line| MadeWrite { line, passed_over: None };
        match self {
            Self::File { path, witness, text, cut, .. } => {
                is_still(witness.as_ref(), "device")?;
                if let Some((path, wanted)) = self.polarity() {
                    let passed_over = Cell::new(None);
                    let put = |path: &Path, text: &str| {
                        let file = open_file(path, false)?;
                        let lock = is_free(&file, path, text, by)?;
                        put::attribute(&file, text.as_bytes())?;
                        passed_over.set(PassedOver::of(&file, path, lock).or(passed_over.take()));
                        Ok(())
                    };
                    keep_polarity(path, wanted, text_beside, put)?;
                    return Ok(MadeWrite { line: None, passed_over: passed_over.take() });
                }
                let file = open_file(path, *cut)?;
                let lock = is_free(&file, path, text, by)?;
                write(&file, text, *cut)?;
                Ok(MadeWrite { line: None, passed_over: PassedOver::of(&file, path, lock) })
            }
            Self::Line { chip, label, device, offset, high, .. } => {
                is_device(chip, CHIP)?;
                is_at(chip, device.as_deref())?;
                drive(chip, label, *offset, *high).map(Some).map(made)
            }
            Self::Register { bus, adapter, address, force, bytes, .. } => {
                is_device(bus, BUS)?;
                is_still(adapter.as_ref(), "bus")?;
                register(bus, *address, *force, bytes, (task, by.0)).map(|()| made(None))
            }
            Self::Can { interface, adapter, .. } => {
                let find = |socket: &Socket| find_interface(Path::new(SYS), interface, adapter.as_ref(), socket);
                can::send_once(find, &self.frame()?, &mut { can::PATIENCE }).map(|()| made(None))
            }
        }
    }
}

impl PlannedWrite {
    /// The interface and id, if this is a frame.
    pub(crate) fn sends(&self) -> Option<(&str, Id)> {
        let Self::Can { interface, id, extended, .. } = self else { return None };
        Some((interface, Id { number: *id, extended: *extended }))
    }

    /// The frame to send on a CAN bus.
    fn frame(&self) -> io::Result<Frame> {
        let Self::Can { id, extended, fd, bit_rate_switch, data, .. } = self else {
            return Err(io::Error::other("no frame"));
        };
        Frame::new(Id { number: *id, extended: *extended }, *fd, *bit_rate_switch, data)
            .ok_or_else(|| io::Error::other("too long for a frame"))
    }
}

/// Refuses a target that a live process has: that process writes its own values there and would not notice this write. Returns `Some` if a
/// lock was ignored. `by`: the process that planned the write, and whether this process may have the lock.
fn is_free(
    file: &File,
    path: &Path,
    text: &str,
    (planner, may_be_own): (Option<u32>, bool),
) -> io::Result<Option<Option<Holder>>> {
    let is_own = |taken: &lock::Taken| {
        may_be_own && matches!(taken, lock::Taken::Peer(Some(Holder { pid, .. })) if *pid == std::process::id())
    };
    let Some(channels) = powered_down_by(path) else {
        if may_be_own && lock::take(file).is_ok_and(|taken| is_own(&taken)) {
            return Ok(None);
        }
        return keep_others_out(file, None, &path.display(), planner).map_err(busy);
    };
    // This write takes no lock: outputs of several channels may write their 0 there at once. Any other number is an output's own value, and
    // switches off what outputs of the channels drive.
    let channels = if number(text) == Some(0.0) { 0..0 } else { channels };
    let taken = in_time(|| {
        let all = channels.clone().map(|channel| lock::probe_register(file, channel)).chain([lock::probe(file)]);
        // A caller with `may_be_own` has made sure that no task of this process writes to the target.
        let all = all.map(|taken| taken.map(|taken| if is_own(&taken) { lock::Taken::Locked } else { taken }));
        let mut all = all.map(|taken| taken.map(|taken| taken.once_had_by(planner)));
        all.find(|taken| matches!(taken, Ok(lock::Taken::Peer(_)) | Err(_))).unwrap_or(Ok(lock::Taken::Locked))
    });
    let taken = taken.map_err(|error| busy(format!("cannot be locked: {error}")))?;
    not_a_peer(taken, &path.display(), || None).map_err(busy)
}

/// Whether a write was refused because a live process has the target.
pub(crate) fn is_left_to_another(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy && error.raw_os_error().is_none()
}

fn busy(why: String) -> io::Error {
    let text = format!("the target {why}, and cannot be written until that process has ended");
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// Like `is_free`, for the result of asking for a register's lock. Another output of this process does notice the write, so it is no
/// obstacle.
#[cfg(feature = "i2c")]
fn is_free_register(taken: lock::Taken, bus: &Path, task: &str) -> io::Result<()> {
    match taken {
        lock::Taken::Peer(Some(holder)) if holder.pid == std::process::id() => Ok(()),
        taken => {
            let lock = not_a_peer(taken, &bus.display(), || None).map_err(busy)?;
            if let Some(holder) = lock {
                warn!(task, "{task}: {}", PassedOver::says(&bus.display().to_string(), holder));
            }
            Ok(())
        }
    }
}

/// Writes a number. For a regular file (`cut`) it also ends the content, so that no reader finds it empty or with old digits after the
/// number.
fn write(file: &File, text: &str, cut: bool) -> io::Result<()> {
    if !cut {
        return file.write_all_at(text.as_bytes(), 0);
    }
    // Another program may have made the file longer since it was opened; cut that off too.
    let rest = file.metadata()?.len().saturating_sub(text.len() as u64).min(LONGEST_CONTENT);
    let rest = "\n".repeat(usize::try_from(rest).unwrap_or_default());
    file.write_all_at((text.to_owned() + &rest).as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Refuses a path that leads to another device now, judged by a file beside it.
pub(super) fn is_still(witness: Option<&(PathBuf, String)>, what: &str) -> io::Result<()> {
    let Some((beside, wanted)) = witness else { return Ok(()) };
    let unread =
        |error: io::Error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", beside.display()));
    let found = text_beside(beside).map_err(unread)?;
    // Compared as it was read when the output was opened: first line, trimmed.
    let found = found.lines().next().unwrap_or_default().trim();
    if found == wanted.trim() {
        return Ok(());
    }
    let found = shown(found);
    Err(io::Error::other(format!("{} says {found} now, and not {wanted:?}: it is another {what}", beside.display())))
}

/// Refuses a GPIO chip that is in another place than before.
#[cfg(feature = "gpio")]
fn is_at(chip: &Path, wanted: Option<&Path>) -> io::Result<()> {
    match (in_sys(chip), wanted) {
        (Some(found), Some(wanted)) if found != wanted => {
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
fn register(
    bus: &Path,
    address: u8,
    force: bool,
    bytes: &[u8],
    (task, planner): (&str, Option<u32>),
) -> io::Result<()> {
    let is_free = |lock: &dyn Fn() -> io::Result<lock::Taken>| {
        is_free_register(in_time(|| lock().map(|taken| taken.once_had_by(planner)))?, bus, task)
    };
    crate::kinds::i2c::OpenRegister::write_once(bus, address, force, bytes, is_free)
}

#[cfg(not(feature = "i2c"))]
fn register(_: &Path, _: u8, _: bool, _: &[u8], _: (&str, Option<u32>)) -> io::Result<()> {
    Err(io::Error::other("this hertzd was built without the feature i2c"))
}

/// The value and its target: `255 to /sys/…/pwm1`.
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
    use std::fs;

    #[cfg(feature = "i2c")]
    #[test]
    fn a_register_that_a_living_hertzd_has_is_left_to_it() {
        let bus = Path::new("/dev/i2c-1");
        let by = |pid| lock::Taken::Peer(Some(Holder { name: "hertzd".into(), pid }));
        is_free_register(lock::Taken::Locked, bus, "fan").unwrap();
        is_free_register(lock::Taken::Stranger(None), bus, "fan").unwrap();
        is_free_register(by(std::process::id()), bus, "fan").unwrap();
        for taken in [by(1), lock::Taken::Peer(None)] {
            let error = is_free_register(taken, bus, "fan").unwrap_err();
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
            file_system: None,
            original: None,
        };
        fs::write(path.with_file_name("enable"), "0\n").unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        assert_eq!(lock::take(&other).unwrap(), lock::Taken::Locked);
        assert!(is_left_to_another(&write.make_of("fan", None).unwrap_err()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "inversed\n");
        drop(other);
        write.make_of("fan", None).unwrap();
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
    fn a_missing_file_was_deleted_only_where_its_file_system_still_is() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().metadata().unwrap().dev();
        let is_gone = |name: &str, file_system| {
            let (path, text) = (folder.path().join(name), "1\n".into());
            PlannedWrite::File { path, witness: None, text, cut: true, file_system, original: None }.is_gone_for_good()
        };
        assert!(!is_gone("fan", Some(here)), "nothing is mounted in an empty folder");
        fs::write(folder.path().join("other"), "").unwrap();
        for name in ["fan", "folder/fan"] {
            assert!(is_gone(name, Some(here)) && is_gone(name, None), "{name}: the plan of an older hertzd");
            assert!(!is_gone(name, Some(here + 1)), "{name}: something else is there in its place");
        }
        assert!(!is_gone("other", Some(here)));
    }

    #[test]
    fn what_another_program_makes_long_is_cut_behind_the_number() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        write(&file, "5\n", true).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2);
    }
}
