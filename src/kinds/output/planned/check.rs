//! Checks whether a write of a plan is one that an output could make. A plan is a file: anything with its owner's rights may have written
//! its content. Pure, except for checks on opened targets.

use super::super::digits::number;
use super::super::setting::POLARITIES;
use crate::safety::PlannedWrite;
use crate::sys::can::is_interface;
use crate::sys::dir::effective_user;
use crate::sys::open::{Mode, Opened, without_links};
use crate::sys::trust::may_be_planted;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path};

/// Maximum bytes of a regular file that holds only a number, and of the part read from a file beside a device.
pub(super) const LONGEST_CONTENT: u64 = 512;

/// Maximum characters of a text that a message shows.
const LONGEST_SHOWN: usize = 40;

/// Limits: the bytes of a register including its number, and the lines of a chip.
const REGISTER: std::ops::RangeInclusive<usize> = 2..=9;
const LINES: u32 = 1 << 16;

/// Major number of I²C bus character devices: <https://docs.kernel.org/admin-guide/devices.html>.
const I2C_MAJOR: libc::c_uint = 89;

impl PlannedWrite {
    /// Refuses a write that no output makes: a text that is not a number, an unresolved path, a device outside `/dev`, or numbers that the
    /// target cannot have.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::other(format!("no output writes that: {why}; it is left alone")));
        self.wrong().map_or(Ok(()), refuse)
    }

    /// What is wrong with the write; `None`: nothing.
    pub(super) fn wrong(&self) -> Option<String> {
        match self {
            Self::File { path, text, cut, .. } => wrong_path(path).or_else(|| {
                let of_driver = path.starts_with("/sys") || path.starts_with("/proc");
                match is_written(text) || self.polarity().is_some() {
                    false => Some(format!("{} is no number", shown(text))),
                    true if of_driver && *cut => Some("a file of a driver is not cut off behind a number".to_owned()),
                    true => None,
                }
            }),
            Self::Line { chip, offset, .. } => {
                wrong_device(chip).or_else(|| (*offset >= LINES).then(|| format!("no chip has a line {offset}")))
            }
            Self::Register { bus, address, bytes, .. } => wrong_device(bus).or_else(|| match bytes.len() {
                _ if *address > 0x7f => Some(format!("no chip has the address {address:#04x}")),
                length if REGISTER.contains(&length) => None,
                length => Some(format!("no register has {} bytes", length.saturating_sub(1))),
            }),
            Self::Can { interface, id, extended, .. } => {
                let last = if *extended { libc::CAN_EFF_MASK } else { libc::CAN_SFF_MASK };
                match is_interface(interface) {
                    false => Some(format!("{} is no name of an interface", shown(interface))),
                    true => (*id > last).then(|| format!("no frame has the id {id:#x}")),
                }
            }
        }
    }

    /// The number it writes, if it writes one to a file.
    pub(in super::super) fn number(&self) -> Option<f64> {
        if let Self::File { text, .. } = self { number(text) } else { None }
    }

    /// Whether both write to exactly the same bytes, files or lines.
    pub(crate) fn has_target_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { path, .. }, Self::File { path: theirs, .. }) => path == theirs && self.is_on_device_of(other),
            (Self::Line { offset, .. }, Self::Line { offset: its_offset, .. }) => {
                offset == its_offset && self.is_on_device_of(other)
            }
            (Self::Register { address, bytes, .. }, Self::Register { address: its_address, bytes: its_bytes, .. }) => {
                let same_bytes = bytes.first() == its_bytes.first() && bytes.len() == its_bytes.len();
                address == its_address && same_bytes && self.is_on_device_of(other)
            }
            _ => self.sends().is_some() && self.sends() == other.sends() && self.is_on_device_of(other),
        }
    }

    /// The bytes of this register's value that the other write covers too.
    pub(in super::super) fn shared_with(&self, other: &Self) -> Range<usize> {
        let (Self::Register { address, bytes, .. }, Self::Register { address: its_address, bytes: its_bytes, .. }) =
            (self, other)
        else {
            return 0..0;
        };
        if address != its_address || !self.is_on_device_of(other) {
            return 0..0;
        }
        let [(begin, end), (its_begin, its_end)] = [bytes, its_bytes].map(|bytes| {
            let begin = bytes.first().copied().map_or(0, usize::from);
            (begin, begin + bytes.len().saturating_sub(1))
        });
        its_begin.max(begin) - begin..its_end.min(end).saturating_sub(begin)
    }

    /// Whether both write some of the same register bytes without being the same register.
    pub(in super::super) fn overlaps(&self, other: &Self) -> bool {
        !self.has_target_of(other) && !self.shared_with(other).is_empty()
    }

    /// Whether the other write's output has this target or a part of it.
    pub(crate) fn is_had_by(&self, other: &Self) -> bool {
        self.has_target_of(other) || self.overlaps(other)
    }
}

/// Whether the text is a number as an output writes it: with a newline, or with the white space of a restored file around it.
fn is_written(text: &str) -> bool {
    text.len() as u64 <= LONGEST_CONTENT && number(text.trim_ascii()).is_some()
}

/// A text from a plan, shortened and quoted for a message.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(LONGEST_SHOWN).collect();
    let more = if short.len() < text.len() { " and more" } else { "" };
    format!("{short:?}{more}")
}

/// A text for a message; one that is not a number is quoted so that it cannot pass for one.
pub(super) fn shown_text(text: &str) -> String {
    let is_known = is_written(text) || POLARITIES.contains(&text.trim());
    if is_known { text.trim().to_owned() } else { shown(text) }
}

/// Outputs resolve their paths: a valid one is absolute and has no `.` or `..`.
fn wrong_path(path: &Path) -> Option<String> {
    let is_straight = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (!path.is_absolute() || !is_straight).then(|| format!("{} is no path that was resolved", path.display()))
}

fn wrong_device(node: &Path) -> Option<String> {
    wrong_path(node).or_else(|| (!node.starts_with("/dev")).then(|| format!("{} is not in /dev", node.display())))
}

/// Opens the file of a write: a regular file that holds a number, or a driver's attribute.
pub(super) fn open_file(path: &Path, cut: bool) -> io::Result<File> {
    let mode = if cut { Mode::ReadWrite } else { Mode::Write };
    let Opened { file, folders } = match without_links(path, mode) {
        Err(error) if cut && error.kind() == io::ErrorKind::PermissionDenied => without_links(path, Mode::Write)?,
        opened => opened?,
    };
    let facts = file.metadata()?;
    let is_planted = || folders.last().is_some_and(|(_, folder)| may_be_planted(&facts, folder, effective_user()));
    let refuse = |why: &str| Err(io::Error::other(format!("{why}; it is left alone")));
    match () {
        () if !facts.is_file() => refuse("it is no file that holds a number"),
        () if cut && is_planted() => {
            refuse("it has another name too, in a folder that other users may write to, so it may be another file")
        }
        () if cut && facts.len() > LONGEST_CONTENT => refuse("it holds more than a number, which would be lost"),
        () if cut && !holds_a_number(&file) => refuse("it holds something else than a number, which would be lost"),
        () => Ok(file),
    }
}

/// Whether the file holds only numbers or nothing. An unreadable file passes.
fn holds_a_number(mut file: &File) -> bool {
    let mut content = Vec::new();
    if io::Seek::rewind(&mut file).and_then(|()| file.take(LONGEST_CONTENT).read_to_end(&mut content)).is_err() {
        return true;
    }
    let _ = io::Seek::rewind(&mut file);
    // An output has written this file before. If it was killed during a write, the end of a longer number may follow on a line of its own.
    let text = String::from_utf8_lossy(&content);
    let mut lines = text.lines().map(|line| line.trim_matches(|it: char| it.is_whitespace() || it == '\0'));
    lines.all(|line| line.is_empty() || line.parse::<f64>().is_ok())
}

/// Refuses a device file of another kind: a write to it could mean anything.
pub(super) fn is_device(node: &Path, sort: &str) -> io::Result<()> {
    let refuse = || Err(io::Error::other(format!("{} is no {sort}; it is left alone", node.display())));
    let facts = std::fs::symlink_metadata(node)?;
    if !facts.file_type().is_char_device() {
        return refuse();
    }
    let (major, minor) = (libc::major(facts.rdev()), libc::minor(facts.rdev()));
    if sort == BUS {
        return if major == I2C_MAJOR { Ok(()) } else { refuse() };
    }
    match std::fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem")) {
        Ok(subsystem) if subsystem.file_name().is_some_and(|name| name != "gpio") => refuse(),
        _ => Ok(()), // the chip's label is checked later
    }
}

/// Names of these devices in messages.
pub(super) const BUS: &str = "I\u{b2}C bus";
pub(super) const CHIP: &str = "GPIO chip";

/// The first bytes of the file beside a device that holds its name.
pub(super) fn beside(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    // Paths in /sys contain links to device folders, so only a link at the end is refused. The content decides, and only one text matches.
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is no file", path.display())));
    }
    let mut text = Vec::new();
    file.take(LONGEST_CONTENT).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn file(path: &str, text: &str, cut: bool) -> PlannedWrite {
        let (path, text) = (PathBuf::from(path), text.to_owned());
        PlannedWrite::File { path, witness: None, text, cut, file_system: None, original: None }
    }

    fn why(write: &PlannedWrite) -> String {
        write.check().map_or_else(|error| error.to_string(), |()| "it is fine".into())
    }

    #[test]
    fn only_numbers_are_written_to_files() {
        for text in [
            "0\n",
            "255\n",
            "-1.5e-7\n",
            "1",
            "9223372036854775807\n",
            "-2.2250738585072014e-308\n",
            "42\r\n",
            " 1\n\n",
        ] {
            file("/srv/fan", text, true).check().unwrap();
        }
        let many = "1".repeat(64);
        for text in [
            "ssh-rsa AAAA",
            "1\n2\n",
            "",
            "\n",
            "nan\n",
            "inf",
            "1;reboot",
            "1\0\n",
            "\u{2028}1",
            many.as_str(),
            "0x10",
        ] {
            assert!(why(&file("/srv/fan", text, true)).contains("is no number"), "{text:?}");
        }
        assert!(why(&file("/srv/fan", "\u{1b}[2J", true)).contains("\"\\u{1b}[2J\" is no number"));
        // A start refuses every text that a plan could not restore.
        for text in ["3\u{b}\n", "\u{a0}3\n", "3\u{2028}", "\t3 \r\n\u{c}", " 3 ", "3\0", "+3", "0x3", "3 3", "inf"] {
            assert_eq!(number(text).is_some(), file("/srv/fan", text, true).check().is_ok(), "{text:?}");
        }
        for path in ["srv/fan", "/srv/../etc/fan", "fan"] {
            assert!(why(&file(path, "1\n", true)).contains("no path that was resolved"), "{path}");
        }
        assert!(why(&file("/proc/sys/kernel/panic", "1\n", true)).contains("not cut off"));
        file("/sys/class/hwmon/hwmon0/pwm1", "1\n", false).check().unwrap();
    }

    #[test]
    fn what_no_line_register_or_frame_can_be_is_refused() {
        let line = |chip: &str, offset| {
            let (chip, label) = (PathBuf::from(chip), String::new());
            PlannedWrite::Line { chip, label, device: None, offset, high: true, original: None }
        };
        line("/dev/gpiochip0", 6).check().unwrap();
        assert!(why(&line("/tmp/gpiochip0", 6)).contains("is not in /dev"));
        assert!(why(&line("/dev/../tmp/chip", 6)).contains("resolved"));
        assert!(why(&line("/dev/gpiochip0", 1 << 20)).contains("no chip has a line"));
        let register = |address, bytes: usize| {
            let (bus, bytes) = (PathBuf::from("/dev/i2c-1"), vec![0x10; bytes]);
            PlannedWrite::Register {
                bus,
                adapter: None,
                address,
                force: false,
                bytes,
                bits: Vec::new(),
                original: None,
                held: Vec::new(),
            }
        };
        register(0x48, 2).check().unwrap();
        register(0x48, 9).check().unwrap();
        for (address, bytes) in [(0x80, 2), (0x48, 0), (0x48, 1), (0x48, 10), (0x48, 4096)] {
            assert!(why(&register(address, bytes)).contains("no output writes that"), "{address} {bytes}");
        }
        let can = |interface: &str, id, extended| {
            let (interface, data) = (interface.to_owned(), vec![1]);
            PlannedWrite::Can { interface, adapter: None, id, extended, fd: false, bit_rate_switch: false, data }
        };
        can("can0", 0x7ff, false).check().unwrap();
        can("can0", 0x1fff_ffff, true).check().unwrap();
        for (interface, id, extended) in [
            ("../can0", 1, false),
            ("", 1, false),
            ("a-name-of-16-cha", 1, false),
            ("can0", 0x800, false),
            ("can0", 0x2000_0000, true),
        ] {
            assert!(why(&can(interface, id, extended)).contains("no output writes that"), "{interface} {id}");
        }
    }

    #[test]
    fn a_file_that_is_no_target_is_not_opened() {
        if crate::sys::emulation::cannot_be_emulated(crate::sys::emulation::OTHER_ROOT) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = |name: &str| folder.join(name);
        for (name, content) in [("number", "0.5\n"), ("empty", ""), ("zeros", "\0\0"), ("trailing", "7\n\n\n")] {
            std::fs::write(path(name), content).unwrap();
            open_file(&path(name), true).unwrap();
        }
        std::fs::write(path("text"), "ssh-rsa AAAA\n").unwrap();
        std::fs::write(path("large"), vec![b'\n'; 13 << 20]).unwrap();
        std::fs::create_dir(path("shared")).unwrap();
        std::fs::set_permissions(path("shared"), std::fs::Permissions::from_mode(0o1777)).unwrap();
        for linked in ["linked", "shared/linked"] {
            std::fs::write(path(linked), "1\n").unwrap();
            std::fs::hard_link(path(linked), path(linked).with_file_name("other")).unwrap();
        }
        open_file(&path("linked"), true).unwrap();
        std::os::unix::fs::symlink(path("number"), path("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        for (name, why) in [
            ("text", "something else than a number"),
            ("large", "more than a number"),
            ("shared/linked", "another name"),
            ("link", "symbolic link"),
            ("pipe", "no file that holds a number"),
        ] {
            let error = open_file(&path(name), true).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        assert_eq!(std::fs::metadata(path("large")).unwrap().len(), 13 << 20);
        assert!(is_device(Path::new("/dev/null"), BUS).unwrap_err().to_string().contains("/dev/null is no I"));
    }

    #[test]
    fn targets_are_compared_by_all_of_them() {
        let register = |first, length| {
            let mut bytes = vec![0; length];
            bytes[0] = first;
            let bus = PathBuf::from("/dev/i2c-1");
            PlannedWrite::Register {
                bus,
                adapter: None,
                address: 1,
                force: false,
                bytes,
                bits: Vec::new(),
                original: None,
                held: Vec::new(),
            }
        };
        assert!(register(0x10, 2).has_target_of(&register(0x10, 2)));
        assert!(!register(0x10, 2).has_target_of(&register(0x10, 4)), "other bytes");
        assert!(!register(0x10, 2).has_target_of(&register(0x11, 2)));
        let four = register(0x10, 5);
        assert!(four.is_had_by(&register(0x10, 5)) && !four.overlaps(&register(0x10, 5)));
        for other in [register(0x10, 9), register(0x11, 2), register(0x0c, 6), register(0x13, 9)] {
            assert!(four.overlaps(&other) && four.is_had_by(&other) && other.overlaps(&four), "{other}");
        }
        for other in [register(0x14, 2), register(0x0f, 2), file("/a", "1", true)] {
            assert!(!four.overlaps(&other) && !four.is_had_by(&other), "{other}");
        }
        assert!(file("/a", "1", true).has_target_of(&file("/a", "2", true)));
        assert!(!file("/a", "1", true).has_target_of(&file("/b", "1", true)));
        assert!(!file("/a", "1", true).has_target_of(&register(0x10, 2)));
    }
}
