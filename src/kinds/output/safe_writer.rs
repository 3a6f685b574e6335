//! The open files with which others than the task make a target safe. A write blocks for as long as the target's driver takes.

use super::fan;
use super::port::{OpenFiles, Port, PutOut};
use super::put;
use super::setting::{Sort, in_force, set_all};
use crate::safety::{PlannedWrite, SETTINGS, SafeWrite, wrong_in_the_end};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Writes a target's safe state through its own descriptors: the kernel allows one write at a time through each.
#[derive(Debug)]
pub(super) struct SafeWriter {
    pub(super) port: Port,
    pub(super) text: String,
    /// Written in place of the text; registers only.
    pub(super) stored: Option<Vec<u8>>,
    /// The number in the text; NaN: none.
    pub(super) number: f64,
    /// Settings that the value needs to have any effect.
    pub(super) settings: Vec<SafeSetting>,
    /// The same writes for another process; replaced when the target is reopened.
    pub(super) plan: Arc<Mutex<Vec<PlannedWrite>>>,
    pub(super) put_out: Arc<PutOut>,
}

/// One setting of a safe state.
#[derive(Debug)]
pub(super) struct SafeSetting {
    pub(super) file: Arc<File>, // open for reading too
    pub(super) name: String,
    pub(super) text: String,
    pub(super) sort: Sort,
    pub(super) value: f64,              // raw value of the target
    pub(super) is_replaced: AtomicBool, // the chip refused the mode; the fan was set to full speed in mode 1
}

impl SafeWriter {
    /// The open files.
    pub(super) fn files(&self) -> OpenFiles {
        (self.port.file().clone(), self.settings.iter().map(|setting| setting.file.clone()).collect())
    }
}

impl SafeSetting {
    /// Writes the setting.
    fn write(&self) -> io::Result<()> {
        self.write_text(&self.text)
    }

    /// Writes a text and checks the readback if it changed. An unchanged reading proves nothing: the driver might not have polled its chip
    /// since.
    fn write_text(&self, text: &str) -> io::Result<()> {
        self.is_replaced.store(text != self.text, Ordering::Relaxed);
        let before = line_of(&self.file);
        if self.sort == Sort::Polarity && before.as_deref().is_some_and(|found| self.is(found, text)) {
            return Ok(());
        }
        put::attribute(&*self.file, text.as_bytes())?;
        match (before, line_of(&self.file)) {
            (Some(before), Some(found)) if found != before => self.expect(&found, text),
            _ => Ok(()),
        }
    }

    fn is(&self, found: &str, written: &str) -> bool {
        match (self.sort, self.sort.number(found), self.sort.number(written)) {
            (Sort::Mode, Some(found), Some(written)) => fan::is_mode(written, found, || Some(self.value)),
            _ => found.trim() == written.trim(),
        }
    }

    fn expect(&self, found: &str, written: &str) -> io::Result<()> {
        if self.is(found, written) {
            return Ok(());
        }
        let (found, written) = (found.trim(), written.trim());
        Err(io::Error::other(format!("{} holds {found} after {written} was written", self.name)))
    }
}

/// The first line of an attribute.
fn line_of(file: &File) -> Option<String> {
    let mut bytes = [0; 64];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Writes all settings.
fn write_all(settings: &[SafeSetting]) -> io::Result<()> {
    let [polarity, others] = set_all(settings, |setting| (setting.sort, &setting.file), SafeSetting::write);
    others.and(polarity)
}

impl SafeWrite for SafeWriter {
    fn write_safe(&self) -> io::Result<()> {
        let put = |text: &str| self.port.put_safe(text.as_bytes(), self.stored.as_deref(), 0);
        match &self.settings[..] {
            [] => put(&self.text)?,
            [mode] if mode.sort == Sort::Mode => {
                fan::make_safe(&self.text, &mode.text, put, |text| mode.write_text(text))?;
            }
            settings => in_force(|| put(&self.text), || write_all(settings))?,
        }
        self.put_out.set(self.number, true);
        Ok(())
    }

    /// Waits until the settings read as they were written.
    fn confirm(&self) -> io::Result<()> {
        let read = |setting: &SafeSetting| {
            let wrote = if setting.is_replaced.load(Ordering::Relaxed) { fan::MANUAL } else { &setting.text };
            line_of(&setting.file).map_or(Ok(()), |found| setting.expect(&found, wrote))
        };
        let wrong = self.settings.iter().find_map(|setting| wrong_in_the_end(|| read(setting).err()));
        wrong.map_or(Ok(()), Err)
    }

    fn number(&self) -> f64 {
        self.number
    }

    fn settings(&self) -> [f64; SETTINGS] {
        std::array::from_fn(|at| {
            self.settings.get(at).and_then(|setting| setting.sort.number(&setting.text)).unwrap_or(f64::NAN)
        })
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn plan_unless_locked(&self) -> Option<Vec<PlannedWrite>> {
        match self.plan.try_lock() {
            Ok(plan) => Some(plan.clone()),
            Err(TryLockError::Poisoned(plan)) => Some(plan.into_inner().clone()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cfg(feature = "gpio")]
    fn line(&self) -> Option<&File> {
        if let Port::Line(line) = &self.port { Some(line) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::Guard;
    use crate::time::Span;

    #[test]
    fn a_setting_that_does_not_stay_is_a_failure_without_a_number_and_full_speed_by_hand_is_none() {
        // The kernel accepts 33 here and shows 00000021.
        let enable = File::options().read(true).write(true).open("/proc/self/coredump_filter").unwrap();
        put::attribute(&enable, b"1\n").unwrap();
        let port = Port::Regular(Arc::new(tempfile::tempfile().unwrap()));
        let settings = vec![SafeSetting {
            file: Arc::new(enable),
            name: "pwm1_enable".into(),
            text: "33\n".into(),
            sort: Sort::Mode,
            value: 255.0,
            is_replaced: AtomicBool::new(false),
        }];
        let (text, plan, put_out) = ("255\n".into(), Arc::default(), Arc::<PutOut>::default());
        let mut writer =
            SafeWriter { port, text, stored: None, number: 255.0, settings, plan, put_out: put_out.clone() };
        // The file rejects "0.0", so full speed is set in mode 1.
        writer.settings[0].text = "0.0\n".into();
        writer.write_safe().and_then(|()| writer.confirm()).unwrap();
        assert_eq!(line_of(&writer.settings[0].file).unwrap(), "00000001");
        assert_eq!((put_out.raw(), put_out.is_safe()), (255.0, true), "an output that takes over continues from it");
        writer.settings[0].text = "33\n".into();
        let guard = Guard::new("fan", Arc::default(), (Span::ZERO, Span::ZERO), Some(Box::new(writer)));
        let error = guard.trip().unwrap_err();
        assert_eq!(error.to_string(), "pwm1_enable holds 00000021 after 33 was written");
        assert_eq!(error.raw_os_error(), None);
        let trouble = guard.trouble().unwrap();
        assert!(trouble.contains("could not be written: it was written, but the device does not hold it"), "{trouble}");
    }

    #[test]
    fn a_polarity_that_may_only_be_read_does_not_fail_or_switch_its_channel_off() {
        let files = [(); 3].map(|()| tempfile::NamedTempFile::new().unwrap());
        let [polarity, enable, duty] = files.each_ref().map(|file| file.path());
        std::fs::write(polarity, "inversed\n").unwrap();
        let setting = |file: File, text: &str, sort| SafeSetting {
            file: Arc::new(file),
            name: String::new(),
            text: text.into(),
            sort,
            value: 0.0,
            is_replaced: AtomicBool::new(false),
        };
        let writable = |path: &std::path::Path| File::options().read(true).write(true).open(path).unwrap();
        let settings = vec![
            setting(File::open(polarity).unwrap(), "normal\n", Sort::Polarity),
            setting(writable(enable), "1", Sort::Number),
        ];
        let port = Port::Attribute(Arc::new(writable(duty)));
        let (plan, put_out) = (Arc::default(), Arc::default());
        let writer = SafeWriter { port, text: "0\n".into(), stored: None, number: 0.0, settings, plan, put_out };
        writer.write_safe().unwrap();
        // Switching the channel off would have left a newline.
        let found = [polarity, enable, duty].map(|file| std::fs::read_to_string(file).unwrap());
        assert_eq!(found, ["inversed\n", "1", "0\n"]);
    }
}
