//! What an output writes to: from what its section names to the files that are open. May block and allocate, but for
//! [`Writer`]'s writes, which block for as long as the file's driver takes and allocate nothing.

use super::digits::{Digits, Form, LONGEST};
use super::guard::{PlannedWrite, SafeWrite};
use super::put;
use super::pwm;
use crate::kinds::device::{DeviceId, Refusal, first_line};
use crate::kinds::sensor::{ByName, Class, find};
use crate::time::Span;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// What a section names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// A file by its path.
    File(PathBuf),
    /// A file of a hwmon device.
    Hwmon(ByName, String),
    /// A channel of a PWM chip, by the name of the chip or of its parent device.
    Pwm { chip: String, channel: u32, period: Span },
}

impl Place {
    /// What 1 of its natural unit, which goes from 0 to 1, is as a raw number; `None`: it has no such unit.
    pub(super) fn full(&self) -> Option<f64> {
        match self {
            Self::Hwmon(_, file) if is_pwm(file) => Some(255.0),
            #[expect(clippy::cast_precision_loss, reason = "a period of 2^53 ns is 104 days")]
            Self::Pwm { period, .. } => Some(period.nanos() as f64),
            _ => None,
        }
    }

    /// The key that names it.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::File(_) => "path",
            Self::Hwmon(..) => "hwmon",
            Self::Pwm { .. } => "pwm",
        }
    }
}

/// Whether it is `pwmN`.
fn is_pwm(file: &str) -> bool {
    file.strip_prefix("pwm")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The files of a target, which are there.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) path: PathBuf, // as the kernel names it: no symbolic link
    pub(super) ids: Vec<DeviceId>,
    /// It is no attribute of a driver: it holds any number, and nothing behind it.
    pub(super) is_regular: bool,
    enable: Option<PathBuf>,            // `pwmN_enable`
    witness: Option<(PathBuf, String)>, // shows that the path still leads to this device
}

impl Target {
    /// Finds it, and changes nothing. `None`: it is a regular file that is still to be made.
    pub(super) fn find(place: &Place, sys: &Path) -> Result<Option<Self>, Refusal> {
        match place {
            Place::File(path) => match path.canonicalize() {
                Ok(path) => Self::at(path, "path").map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_makeable(path) => Ok(None),
                Err(error) => Err(Refusal::new("path", format!("cannot find {}: {error}", path.display()))),
            },
            Place::Hwmon(wanted, file) => {
                let device = find(Class::Hwmon, sys, wanted)?;
                let path = device.folder.join(file);
                let real = path
                    .canonicalize()
                    .map_err(|error| Refusal::new("file", format!("cannot find {}: {error}", path.display())))?;
                let enable = real.with_file_name(format!("{file}_enable"));
                let enable = Some(enable).filter(|enable| is_pwm(file) && enable.exists());
                let witness = Some((real.with_file_name("name"), device.name));
                Ok(Some(Self { enable, witness, is_regular: false, ..Self::at(real, "file")? }))
            }
            Place::Pwm { chip, channel, .. } => {
                let chip = pwm::find(chip, *channel, sys)?;
                let of_channel = DeviceId::Named(format!("{} channel {channel}", chip.display()));
                let folder = chip.join(format!("pwm{channel}"));
                let duty = folder.join("duty_cycle");
                let ids = fs::metadata(&duty).ok().map(|duty| DeviceId::of(&duty)).into_iter().chain([of_channel]);
                Ok(Some(Self { path: duty, ids: ids.collect(), is_regular: false, enable: None, witness: None }))
            }
        }
    }

    fn at(path: PathBuf, key: &'static str) -> Result<Self, Refusal> {
        let refuse = |why: String| Refusal::new(key, why);
        let facts = fs::metadata(&path).map_err(|error| refuse(format!("cannot find {}: {error}", path.display())))?;
        if !facts.is_file() {
            return Err(refuse(format!("{} is no file that holds a number", path.display())));
        }
        let is_regular = !path.starts_with("/sys") && !path.starts_with("/proc");
        Ok(Self { ids: vec![DeviceId::of(&facts)], path, is_regular, enable: None, witness: None })
    }

    /// How numbers are written to it.
    pub(super) fn form(&self) -> Form {
        if self.is_regular { Form::Any } else { Form::Whole }
    }

    /// The name of its `pwmN_enable`, if it has one.
    pub(super) fn enable_name(&self) -> String {
        let name = self.enable.as_ref().and_then(|enable| enable.file_name());
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Opens it for writing.
    pub(super) fn open(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(&self.path)
    }

    /// What it and `pwmN_enable` hold.
    pub(super) fn read(&self) -> io::Result<Content> {
        let enable = self.enable.as_ref().map(fs::read_to_string).transpose()?;
        Ok(Content { value: fs::read_to_string(&self.path)?, enable })
    }

    /// What is written to make it safe: by the value alone, or by all that was there.
    pub(super) fn safe_text(&self, content: &Content) -> SafeText {
        let enable = self.enable.is_some().then(|| content.enable.clone().unwrap_or_else(|| MANUAL.to_owned()));
        SafeText { value: content.value.clone(), enable }
    }

    /// What the task writes with.
    pub(super) fn writer(&self) -> io::Result<Writer> {
        let file = self.open()?;
        // Another task may still write to it, and nothing longer than this.
        let length = file.metadata()?.len().max(LONGEST as u64);
        let enable = self.enable.as_ref().map(|path| OpenOptions::new().write(true).open(path)).transpose()?;
        Ok(Writer { file, enable, is_regular: self.is_regular, length, is_manual: false })
    }

    /// What others make it safe with.
    pub(super) fn safe_writer(&self, text: SafeText) -> io::Result<SafeWriter> {
        let enable = match (&self.enable, text.enable) {
            (Some(path), Some(text)) => Some((path.clone(), open_both(path)?, text)),
            _ => None,
        };
        let (path, witness, is_regular) = (self.path.clone(), self.witness.clone(), self.is_regular);
        Ok(SafeWriter { file: self.open()?, path, witness, is_regular, text: text.value, enable })
    }
}

/// Whether a file could be made here.
fn is_makeable(path: &Path) -> bool {
    !path.starts_with("/sys")
        && !path.starts_with("/proc")
        && folder_of(path).is_dir()
        && path.symlink_metadata().is_err()
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_both(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// `pwmN_enable` of a fan that is set by hand, and not by its chip.
const MANUAL: &str = "1\n";

/// What a target's files hold.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) value: String,
    pub(super) enable: Option<String>,
}

/// What is written to them.
#[derive(Clone, Debug)]
pub(super) struct SafeText {
    pub(super) value: String,
    pub(super) enable: Option<String>,
}

/// The hot end of a target.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    enable: Option<File>,
    is_regular: bool,
    length: u64,     // of a regular file
    is_manual: bool, // what `pwmN_enable` was set to
}

impl SafeText {
    /// The value alone.
    pub(super) fn of(digits: &Digits) -> Self {
        Self { value: String::from_utf8_lossy(digits.bytes()).into_owned(), enable: None }
    }
}

impl Writer {
    /// Writes a value: one system call, or two to a regular file whose text gets longer or shorter. The value comes first where
    /// `pwmN_enable` has to follow: the fan does not go by an old one in between.
    pub(super) fn write(&mut self, digits: &Digits) -> io::Result<()> {
        self.put(digits.bytes())?;
        match &self.enable {
            Some(enable) if !self.is_manual => {
                put::attribute(enable, MANUAL.as_bytes())?;
                self.is_manual = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes the safe state.
    pub(super) fn write_safe(&mut self, text: &SafeText) -> io::Result<()> {
        let value = self.put(text.value.as_bytes());
        let (Some(file), Some(enable)) = (&self.enable, &text.enable) else { return value };
        put::attribute(file, enable.as_bytes())?;
        self.is_manual = enable.trim_end() == MANUAL.trim_end();
        // Some chips take a value only when it is set by hand.
        value.or_else(|_| put::attribute(&self.file, text.value.as_bytes()))
    }

    /// Another thread has written the safe state: how long a regular file is now is not known.
    pub(super) fn was_made_safe(&mut self) {
        (self.is_manual, self.length) = (false, LONGEST as u64);
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        if !self.is_regular {
            return put::attribute(&self.file, text);
        }
        put::regular(&self.file, self.length, text)?;
        self.length = text.len() as u64;
        Ok(())
    }
}

/// The safe state of a target, by descriptors of its own: the kernel lets one write at a time through each.
#[derive(Debug)]
pub(super) struct SafeWriter {
    file: File,
    path: PathBuf,
    witness: Option<(PathBuf, String)>,
    is_regular: bool,
    text: String,
    enable: Option<(PathBuf, File, String)>,
}

impl SafeWrite for SafeWriter {
    fn write_safe(&self) -> io::Result<()> {
        let text = self.text.as_bytes();
        let value = match self.is_regular {
            true => put::regular(&self.file, self.file.metadata()?.len(), text),
            false => put::attribute(&self.file, text),
        };
        let Some((path, file, enable)) = &self.enable else { return value };
        put::attribute(file, enable.as_bytes())?;
        // Some chips take a value only when it is set by hand.
        value.or_else(|_| put::attribute(&self.file, text))?;
        match first_line(path) {
            Some(found) if found.trim() != enable.trim() => {
                let path = path.display();
                Err(io::Error::other(format!("{path} holds {} after {} was written", found.trim(), enable.trim())))
            }
            _ => Ok(()),
        }
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        let file = |path: &Path, text: &str, cut| PlannedWrite::File {
            path: path.into(),
            witness: self.witness.clone(),
            text: text.into(),
            cut,
        };
        let enable = self.enable.iter().map(|(path, _, text)| file(path, text, false));
        [file(&self.path, &self.text, self.is_regular)].into_iter().chain(enable).collect()
    }
}
