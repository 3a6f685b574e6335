//! The open files through which a task writes its target, and the texts that it writes. A write blocks for as long as the target's driver
//! takes, and allocates nothing.

use super::digits::{Digits, LONGEST, number};
use super::fan;
use super::put;
use super::setting::{Sort, in_force, set_all};
use crate::safety::LastWritten;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where a text is written to.
#[derive(Debug)]
pub(super) enum Port {
    /// A driver's attribute.
    Attribute(Arc<File>),
    /// A regular file that holds the number and nothing after it.
    Regular(Arc<File>),
    /// A requested GPIO line: `1` is high.
    #[cfg(feature = "gpio")]
    Line(Arc<File>),
    /// A register.
    #[cfg(feature = "i2c")]
    Register(crate::kinds::i2c::OpenRegister),
}

impl Port {
    /// The open file.
    pub(super) fn file(&self) -> &Arc<File> {
        match self {
            Self::Attribute(file) | Self::Regular(file) => file,
            #[cfg(feature = "gpio")]
            Self::Line(line) => line,
            #[cfg(feature = "i2c")]
            Self::Register(register) => register.bus(),
        }
    }

    /// Writes the safe state: a text, or a register's stored bytes.
    pub(super) fn put_safe(&self, text: &[u8], _stored: Option<&[u8]>, had: u64) -> io::Result<()> {
        match (self, _stored) {
            #[cfg(feature = "i2c")]
            (Self::Register(register), Some(stored)) => register.write_stored(stored),
            _ => self.put(text, had),
        }
    }

    /// Writes a text. `had`: a regular file is at least this long, because another task may still write to it. Another program may have
    /// changed its length meanwhile, so that is read as well.
    fn put(&self, text: &[u8], had: u64) -> io::Result<()> {
        match self {
            Self::Attribute(file) => put::attribute(&**file, text),
            Self::Regular(file) => put::regular(&**file, had.max((&**file).seek(SeekFrom::End(0))?), text),
            #[cfg(feature = "gpio")]
            Self::Line(line) => crate::kinds::gpio::DrivenLine::set(line, text.first() == Some(&b'1')),
            #[cfg(feature = "i2c")]
            Self::Register(register) => register.write(text),
        }
    }
}

/// The content of a target's files.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    pub(super) value: String,
    pub(super) enable: Option<String>,
    /// A register's bytes, including bits that do not belong to the value; `None` for other targets.
    pub(super) stored: Option<Vec<u8>>,
    /// The PWM period that the duty belongs to; `None` for other targets.
    pub(super) period: Option<String>,
}

impl Content {
    /// Whether the value is a number.
    pub(super) fn is_number(&self) -> bool {
        number(&self.value).is_some()
    }

    /// The texts that restore this content: a regular file gets its exact earlier text, an attribute its number.
    pub(super) fn to_restore(&self, is_regular: bool) -> Self {
        let line = |text: &String| format!("{}\n", text.trim());
        let value = if is_regular { self.value.clone() } else { line(&self.value) };
        Self { value, enable: self.enable.as_ref().map(line), ..self.clone() }
    }
}

/// The number that any thread last wrote to a target. An output that takes the target over continues from it.
#[derive(Debug)]
pub(super) struct PutOut {
    raw: AtomicU64, // NaN: unknown
    is_safe: AtomicBool,
}

impl Default for PutOut {
    fn default() -> Self {
        Self { raw: AtomicU64::new(f64::NAN.to_bits()), is_safe: AtomicBool::default() }
    }
}

impl PutOut {
    pub(super) fn set(&self, raw: f64, is_safe: bool) {
        self.raw.store(raw.to_bits(), Ordering::Relaxed);
        self.is_safe.store(is_safe, Ordering::Relaxed);
    }

    pub(super) fn raw(&self) -> f64 {
        f64::from_bits(self.raw.load(Ordering::Relaxed))
    }

    pub(super) fn is_safe(&self) -> bool {
        self.is_safe.load(Ordering::Relaxed)
    }
}

/// The texts that make a target safe.
#[derive(Clone, Debug)]
pub(super) struct SafeText {
    pub(super) value: String,
    pub(super) enable: Option<String>,
    /// Written in place of the value: a register's earlier content, bit for bit.
    pub(super) stored: Option<Vec<u8>>,
}

/// The task's open end of a target.
#[derive(Debug)]
pub(super) struct Writer {
    port: Port,
    settings: Vec<OpenSetting>,
    length: u64,       // of a regular file, at least
    is_prepared: bool, // the settings were written before the first value, and others' safe writes leave them set
    is_set: bool,      // the settings are as the task sets them, unless another program has changed them
    is_safe: bool,     // the last write was the safe state, and the settings are as it sets them
}

/// A file that must be set for the value to have any effect.
#[derive(Debug)]
pub(super) struct OpenSetting {
    pub(super) file: Arc<File>,
    pub(super) text: String,
    pub(super) number: f64,
    pub(super) sort: Sort,
}

impl SafeText {
    /// The value alone, without settings.
    pub(super) fn of(digits: &Digits) -> Self {
        Self { value: String::from_utf8_lossy(digits.bytes()).into_owned(), enable: None, stored: None }
    }
}

impl Writer {
    pub(super) fn new(port: Port, settings: Vec<OpenSetting>, is_prepared: bool) -> Self {
        // Another task may still write to the file, but nothing longer than this.
        Self { port, settings, length: LONGEST as u64, is_prepared, is_set: is_prepared, is_safe: false }
    }

    /// The open files: the value's, and those of the settings.
    pub(super) fn files(&self) -> OpenFiles {
        (self.port.file().clone(), self.settings.iter().map(|setting| setting.file.clone()).collect())
    }

    /// Writes a value in one system call. A regular file needs one more to get its length, and sometimes a second write. If the settings
    /// are not yet set or have lapsed, writes them and then the value once more.
    pub(super) fn write(&mut self, digits: &Digits, last: &LastWritten) -> io::Result<()> {
        self.is_safe = false;
        self.put(digits.bytes().len(), last, false, |port, had| port.put(digits.bytes(), had))
    }

    /// Makes the next write also write the settings: another program may have changed them.
    pub(super) fn sets_again(&mut self) {
        self.is_set = false;
    }

    /// Writes the safe state, and the settings that give it its effect: another program may have changed them. A repeated write writes only
    /// the value, unless the settings have lapsed.
    pub(super) fn write_safe(&mut self, text: &SafeText, last: &LastWritten) -> io::Result<()> {
        if std::mem::take(&mut self.is_safe) && !last.has_lapsed() {
            self.port.put_safe(text.value.as_bytes(), text.stored.as_deref(), self.length)?;
            (self.length, self.is_safe) = (text.value.len() as u64, true);
            return Ok(());
        }
        if let (Some(mode), [enable, ..]) = (&text.enable, &self.settings[..]) {
            last.forget_settings(); // in case this fails
            let value = |text: &str| self.port.put_safe(text.as_bytes(), None, self.length);
            fan::make_safe(&text.value, mode, value, |text| put::attribute(&*enable.file, text.as_bytes()))?;
            let mode = number(mode).unwrap_or(f64::NAN);
            last.set(std::array::from_fn(|at| if at == 0 { mode } else { f64::NAN }));
            (self.is_set, self.is_safe) = (!fan::gives_back(mode), true);
            return Ok(());
        }
        let value = text.value.as_bytes();
        self.sets_again();
        self.put(value.len(), last, true, |port, had| port.put_safe(value, text.stored.as_deref(), had))?;
        self.is_safe = true;
        Ok(())
    }

    /// Writes a value of this length with `put`. Also writes the settings if they are not yet set or have lapsed. `is_safe`: the value is
    /// safe only with its polarity.
    fn put(
        &mut self,
        length: usize,
        last: &LastWritten,
        is_safe: bool,
        put: impl Fn(&Port, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut value = || {
            put(&self.port, self.length)?;
            self.length = length as u64;
            Ok(())
        };
        match &self.settings[..] {
            _ if self.is_set && !last.has_lapsed() => value(),
            [] => value().map(|()| last.repaired()),
            settings => in_force(value, || set(settings, last, is_safe).map(|()| self.is_set = true)),
        }
    }

    /// Cuts off anything after the number last written to a regular file. Another program, which takes no lock, may have written between
    /// reading the file's length and the write. Every write does this too, so this is only for the end, when no write follows.
    pub(super) fn cut_tail(&self, last: &LastWritten) {
        let Port::Regular(file) = &self.port else { return };
        let mut bytes = [0; 2 * LONGEST];
        let found = file.read_at(&mut bytes, 0).map_or(&[][..], |length| &bytes[..length]);
        let mut parts = found.splitn(2, |byte| *byte == b'\n');
        let (Some(line), Some([_, ..])) = (parts.next(), parts.next()) else { return };
        let is_own = |line| number(line).zip(last.quiet()).is_some_and(|(found, (wrote, _))| found == wrote);
        if std::str::from_utf8(line).is_ok_and(is_own) {
            _ = file.set_len(line.len() as u64 + 1); // if that fails, the number is still right
        }
    }

    /// Another thread has written the safe state: the current length of a regular file is unknown.
    pub(super) fn was_made_safe(&mut self) {
        (self.is_set, self.is_safe, self.length) = (self.is_prepared, false, LONGEST as u64);
    }
}

/// Writes the settings. A polarity that the driver refuses fails only a safe write; otherwise the readback reports it.
fn set(settings: &[OpenSetting], last: &LastWritten, is_safe: bool) -> io::Result<()> {
    last.forget_settings(); // in case one of these writes fails
    let [polarity, others] = set_all(settings, |setting| (setting.sort, &setting.file), OpenSetting::write);
    others.and(if is_safe { polarity } else { Ok(()) })?;
    last.set(std::array::from_fn(|at| settings.get(at).map_or(f64::NAN, |setting| setting.number)));
    Ok(())
}

impl OpenSetting {
    /// Writes the setting. A polarity that already reads right is not written: some drivers refuse it while the channel is on.
    fn write(&self) -> io::Result<()> {
        let mut bytes = [0; 16];
        let found = self.file.read_at(&mut bytes, 0).map_or(&[][..], |length| &bytes[..length]);
        let line = found.split(|byte| *byte == b'\n').next();
        match self.sort {
            Sort::Polarity if line == Some(self.text.trim_end().as_bytes()) => Ok(()),
            _ => put::attribute(&*self.file, self.text.as_bytes()),
        }
    }
}

/// Open files of a target: the value's, and those of its settings.
pub(super) type OpenFiles = (Arc<File>, Vec<Arc<File>>);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_another_program_has_left_behind_the_number_is_cut_off_at_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Writer::new(Port::Regular(Arc::new(file.reopen().unwrap())), Vec::new(), false);
        let last = LastWritten::default();
        let write = last.begin();
        last.end(&write, 1.0);
        // 41.75 was written after the length was read and before the 1 was written.
        for (found, left) in [("1\n.75\n", "1\n"), ("1\n", "1\n"), ("2\n.75\n", "2\n.75\n"), ("1", "1"), ("", "")] {
            std::fs::write(file.path(), found).unwrap();
            writer.cut_tail(&last);
            assert_eq!(std::fs::read_to_string(file.path()).unwrap(), left, "{found:?}");
        }
    }

    fn setting(file: File, text: &str, sort: Sort) -> OpenSetting {
        OpenSetting { file: Arc::new(file), text: text.into(), number: 1.0, sort }
    }

    #[test]
    fn a_polarity_that_may_only_be_read_does_not_switch_its_channel_off() {
        let [mut polarity, enable] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        polarity.write_all(b"normal\n").unwrap();
        let settings = vec![
            setting(File::open(polarity.path()).unwrap(), "inversed\n", Sort::Polarity),
            setting(enable.reopen().unwrap(), "1", Sort::Number),
        ];
        set(&settings, &LastWritten::default(), true).unwrap();
        // Switching the channel off would have left a newline.
        assert_eq!(std::fs::read_to_string(enable.path()).unwrap(), "1");
    }

    #[test]
    fn a_setting_that_is_refused_keeps_no_other_from_being_written() {
        let [period, enable] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        let settings = vec![
            setting(File::open(period.path()).unwrap(), "40000\n", Sort::Number),
            // The kernel refuses this text with EINVAL.
            setting(File::options().write(true).open("/proc/self/oom_score_adj").unwrap(), "normal\n", Sort::Polarity),
            setting(enable.reopen().unwrap(), "1\n", Sort::Number),
        ];
        let last = LastWritten::default();
        last.set([1.0; 3]);
        assert_eq!(set(&settings, &last, true).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(std::fs::read_to_string(enable.path()).unwrap(), "1\n");
        assert!(last.has_lapsed(), "all are written again with the next value");
        assert_eq!(set(&settings[1..], &last, true).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        set(&settings[1..], &last, false).unwrap();
    }
}
