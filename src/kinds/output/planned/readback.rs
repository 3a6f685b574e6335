//! Reads back the result of a planned write and compares raw numbers. May block for as long as the target's driver takes.

use super::super::digits::number;
use super::super::readback::compare;
use super::check::beside;
use super::is_still;
use crate::safety::{PlannedWrite, Reading};
use std::fs::File;
use std::io;
use std::path::Path;

impl PlannedWrite {
    /// What the target held before hertzd wrote to it, if that could be read; a line as `high` or `low`.
    pub(crate) fn original(&self) -> Option<&str> {
        match self {
            Self::File { original, .. } | Self::Register { original, .. } => original.as_deref().map(str::trim_end),
            Self::Line { original, .. } => original.as_deref().map(|level| shown_level(level == "1")),
            Self::Can { .. } => None,
        }
    }

    /// Like `original`, as the text that the target takes.
    pub(in super::super) fn raw_original(&self) -> Option<&str> {
        match self {
            Self::File { original, .. } | Self::Register { original, .. } | Self::Line { original, .. } => {
                original.as_deref()
            }
            Self::Can { .. } => None,
        }
    }

    /// The bytes a register held before, if the plan has them.
    pub(in super::super) fn held(&self) -> Option<Vec<u8>> {
        let Self::Register { held, bytes, .. } = self else { return None };
        Some(held.clone()).filter(|held| held.len() + 1 == bytes.len())
    }

    /// The bits of a byte that hold the register's value.
    pub(in super::super) fn bits_of(&self, byte: usize) -> u8 {
        let Self::Register { bits, .. } = self else { return 0xff };
        bits.get(byte).copied().unwrap_or(0xff)
    }

    /// What is wrong with the target after the write, as a clause: it reads something else, or became unreadable. `None`: it holds what was
    /// written, or is not to be read. `line`: the requested GPIO line, without which it cannot be read.
    pub(crate) fn amiss(&self, line: Option<&File>) -> Option<String> {
        let failed = |target: &str, error: &io::Error| format!("{target} cannot be read back: {error}");
        match self {
            Self::File { path, witness, text, original, .. } => {
                let target = path.display().to_string();
                let read = is_still(witness.as_ref(), "device").and_then(|()| beside(path));
                if self.polarity().is_some() {
                    let read = read.unwrap_or_default();
                    let (read, wanted) = (read.lines().next().unwrap_or_default(), text.trim());
                    return (read != wanted).then(|| differs(&target, read, wanted));
                }
                if read.as_ref().is_ok_and(|read| self.is_mode_in_force(read)) {
                    return None;
                }
                match compare(number(text)?, read) {
                    Reading::Agrees(_) | Reading::GivenBack | Reading::Unsettled | Reading::NotInForce(_) => None,
                    Reading::Differs { written, read } => Some(differs(&target, &read, &written.to_string())),
                    // A target that can only be written was unreadable before, too.
                    Reading::Unreadable(why) => original.is_some().then(|| failed(&target, &io::Error::other(why))),
                }
            }
            Self::Line { chip, offset, high, .. } => {
                let target = format!("line {offset} of {}", chip.display());
                match level(line?) {
                    Ok(found) if found == *high => None,
                    Ok(found) => Some(differs(&target, shown_level(found), shown_level(*high))),
                    Err(error) => Some(failed(&target, &error)),
                }
            }
            // A chip that did not answer the first read is only written; to some chips a read is a command.
            Self::Register { bus, address, force, bytes, original: Some(_), .. } => {
                let (&register, written) = bytes.split_first()?;
                let target = format!("register {register:#04x} of chip {address:#04x} on {}", bus.display());
                match read(bus, *address, *force, (register, written.len())) {
                    Err(error) => Some(failed(&target, &error)),
                    Ok(found) => {
                        let of_value = |bytes: &[u8]| -> Vec<u8> {
                            bytes.iter().enumerate().map(|(at, byte)| byte & self.bits_of(at)).collect()
                        };
                        let (found, written) = (of_value(&found), of_value(written));
                        (found != written).then(|| differs(&target, &shown(&found), &shown(&written)))
                    }
                }
            }
            Self::Register { .. } | Self::Can { .. } => None,
        }
    }
}

fn differs(target: &str, read: &str, written: &str) -> String {
    format!("{target} reads {read} in place of {written}, which was written to it just now")
}

fn shown_level(high: bool) -> &'static str {
    if high { "high" } else { "low" }
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:#04x}")).collect::<Vec<_>>().join(" ")
}

#[cfg(feature = "gpio")]
fn level(line: &File) -> io::Result<bool> {
    crate::kinds::gpio::DrivenLine::level(line)
}

#[cfg(not(feature = "gpio"))]
fn level(_: &File) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "i2c")]
fn read(bus: &Path, address: u8, force: bool, bytes: (u8, usize)) -> io::Result<Vec<u8>> {
    crate::kinds::i2c::OpenRegister::read_once(bus, address, force, bytes)
}

#[cfg(not(feature = "i2c"))]
fn read(_: &Path, _: u8, _: bool, _: (u8, usize)) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(path: &Path, text: &str, original: Option<&str>) -> PlannedWrite {
        let (path, text, original) = (path.into(), text.into(), original.map(str::to_owned));
        PlannedWrite::File { path, witness: None, text, cut: true, file_system: None, original }
    }

    #[test]
    fn a_file_is_compared_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fan");
        for (text, found, agrees) in [("255\n", "255\n", true), ("255\n", "255", true), ("255\n", "250\n", false)] {
            fs::write(&path, found).unwrap();
            let amiss = file(&path, text, None).amiss(None);
            assert_eq!(amiss.is_none(), agrees, "{amiss:?}");
            assert!(amiss.is_none_or(|why| why.contains("fan reads 250 in place of 255, which was written")));
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(file(&path, "1\n", None).amiss(None), None, "it could not be read before either");
        let amiss = file(&path, "1\n", Some("0")).amiss(None).unwrap();
        assert!(amiss.contains("fan cannot be read back: No such file or directory (os error 2)"), "{amiss}");
    }

    #[test]
    fn what_holds_no_number_that_could_be_read_is_left_alone() {
        let (bus, adapter, original) = (Path::new("/nowhere").into(), None, None);
        let (bits, bytes) = (vec![0xff], vec![1, 2]);
        let held = Vec::new();
        let written_only =
            PlannedWrite::Register { bus, adapter, address: 0x48, force: false, bytes, bits, original, held };
        assert_eq!(written_only.amiss(None), None);
        let (chip, label, original) = (Path::new("/nowhere").into(), String::new(), None);
        assert_eq!(PlannedWrite::Line { chip, label, device: None, offset: 1, high: true, original }.amiss(None), None);
    }

    #[test]
    fn a_plan_of_an_older_hertzd_has_no_originals() {
        let old = r#"{"to":"file","path":"/a","witness":null,"text":"1\n","cut":true}"#;
        let read: PlannedWrite = serde_json::from_str(old).unwrap();
        assert_eq!(read, file(Path::new("/a"), "1\n", None));
    }
}
