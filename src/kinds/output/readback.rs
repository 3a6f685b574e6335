//! Reads a target back, and compares what it holds with what was written to it last: its value, if that was asked for, and always what
//! decides whether the value has any effect. May block for as long as the target's driver takes; for cool threads.

use super::digits::number;
use super::means::Setting;
use super::reading::{Lapse, ReadBack, Reading};
use super::target::Target;
use super::written::LastWritten;
use crate::kinds::device::Refusal;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// How often the settings of a target are read whose value is not.
const SETTINGS_EVERY: Span = Span::from_seconds(1);

/// How long a setting may read otherwise after it was written: many drivers look at their chip every second or two, and show what they saw then.
const SETTLES: Span = Span::from_seconds(3);

/// The target of an output, as it is read back.
#[derive(Debug)]
pub(super) struct Readback {
    target: Mutex<Target>, // another one when it was opened again
    taken: Option<File>,   // what a line is read by
    written: Arc<LastWritten>,
    every: Span,
    reads_value: bool,
    repairs: bool,                      // what differs is written again
    set: Mutex<Option<(u64, Instant)>>, // since when the settings were seen to have been written that often
}

impl Readback {
    /// Of a target that was taken, and that was given this last. `every`: how often its value is read, if it is; `repairs`: what differs is
    /// written again. `None`: there is nothing to be read.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn of(
        target: &Target,
        taken: &File,
        written: Arc<LastWritten>,
        (every, repairs): (Option<Span>, bool),
    ) -> Result<Option<Arc<Self>>, Refusal> {
        if every.is_none() && target.settings().is_empty() {
            return Ok(None);
        }
        let refuse = |error: io::Error| cannot(target, &error);
        let reads_value = every.is_some();
        if reads_value {
            target.value(Some(taken)).map_err(refuse)?;
        }
        let taken = target.is_read_by_what_was_taken().then(|| taken.try_clone()).transpose().map_err(refuse)?;
        let (target, every) = (Mutex::new(target.clone()), every.unwrap_or(SETTINGS_EVERY));
        Ok(Some(Arc::new(Self { target, taken, written, every, reads_value, repairs, set: Mutex::default() })))
    }

    /// It was opened again, as this.
    pub(super) fn is_now(&self, target: Target) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// What it is read by, if that was taken.
    pub(super) fn taken(&self) -> Option<&File> {
        self.taken.as_ref()
    }

    fn target(&self) -> Target {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is wrong with its settings; `None`: nothing is known to be.
    fn settings(&self, target: &Target) -> Option<Reading> {
        let (numbers, sets) = self.written.settings()?;
        let is_settled = self.has_settled(sets);
        let set = target.settings().iter().zip(numbers).filter(|(_, set)| !set.is_nan());
        let read = |path| fs::read_to_string(path).map(|text| text.lines().next().unwrap_or_default().to_owned());
        let mut compared = set.map(|(setting, set)| (setting, compare(set, read(&setting.path))));
        compared.find_map(|(setting, reading)| match reading {
            Reading::Differs { .. } if !is_settled => Some(Reading::Unsettled),
            Reading::Differs { written, read } => Some(Reading::NotInForce(self.lapse(target, setting, written, read))),
            // Some drivers let such a file only be written: whether it is in force cannot be seen then.
            Reading::Unreadable(_) if !is_readable(&setting.path) => None,
            Reading::Unreadable(why) => Some(Reading::Unreadable(format!("{}: {why}", setting.path.display()))),
            _ => None,
        })
    }

    /// Whether what was written that often was written long enough ago.
    fn has_settled(&self, sets: u64) -> bool {
        let now = KernelClock::monotonic().now();
        let mut seen = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let since = seen.filter(|(seen, _)| *seen == sets).map_or(now, |(_, since)| since);
        *seen = Some((sets, since));
        now - since >= SETTLES
    }

    fn lapse(&self, target: &Target, setting: &Setting, set: f64, read: String) -> Lapse {
        let who = if target.is_prepared() {
            "another program uses the channel"
        } else {
            "the firmware takes fans back after a resume; so do the BIOS and programs such as fancontrol"
        };
        let remedy = if self.repairs {
            "hertzd sets it again at the next tick"
        } else {
            "stop what changes it, or let hertzd set it again: write = \"always\""
        };
        Lapse { file: setting.path.display().to_string(), set, read, advice: format!("{who}; {remedy}") }
    }
}

/// Whether the file has a right to be read at all.
fn is_readable(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |facts| facts.mode() & 0o444 != 0)
}

impl ReadBack for Readback {
    fn every(&self) -> Span {
        self.every
    }

    fn shown(&self) -> String {
        self.target().shown()
    }

    fn read(&self) -> Reading {
        let Some((number, writes)) = self.written.quiet() else { return Reading::Unsettled };
        let target = self.target();
        let settings = self.settings(&target);
        let value = self.reads_value.then(|| target.value(self.taken.as_ref()));
        // What was read may be either where a write came in between.
        if self.written.quiet().is_none_or(|(_, now)| now != writes) {
            return Reading::Unsettled;
        }
        let reading = match (settings, value) {
            (Some(reading), _) => reading,
            (None, Some(_)) if number.is_nan() => Reading::Unsettled,
            (None, Some(value)) => compare(target.as_held(number), value),
            (None, None) => Reading::Agrees(number),
        };
        if self.repairs && matches!(reading, Reading::Differs { .. } | Reading::NotInForce(_)) {
            self.written.lapse();
        }
        reading
    }
}

/// What is said where a target cannot be read.
pub(super) fn cannot(target: &Target, error: &io::Error) -> Refusal {
    let shown = target.shown();
    Refusal::new("readback", format!("{shown} cannot be read: {error}; remove the key, or name a target that can"))
}

/// What came of reading this, where that number was written.
pub(super) fn compare(written: f64, read: io::Result<String>) -> Reading {
    match read {
        Err(error) => Reading::Unreadable(error.to_string()),
        Ok(text) if number(&text).is_some_and(|read| (read + 0.0).total_cmp(&(written + 0.0)).is_eq()) => {
            Reading::Agrees(written)
        }
        Ok(text) => {
            let shown: String = text.trim().chars().take(40).collect();
            let is_number = number(&text).is_some();
            Reading::Differs { written, read: if is_number { shown } else { format!("{shown:?}") } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Place;
    use super::*;
    use crate::kinds::sensor::ByName;
    use std::path::Path;

    /// Files as those of a device, beside which its name is.
    fn tree(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
    }

    /// The target of an output without `readback`, whose settings were written long ago.
    fn settings_of(place: &Place, sys: &Path, repairs: bool) -> (Target, Arc<LastWritten>, Arc<Readback>) {
        let target = Target::find(place, sys).unwrap().unwrap();
        let ((taken, _), last) = (target.take("path").unwrap(), Arc::new(LastWritten::default()));
        let readback = Readback::of(&target, &taken.file, last.clone(), (None, repairs)).unwrap().unwrap();
        (target, last, readback)
    }

    fn long_ago(readback: &Readback) {
        let sets = readback.written.settings().unwrap().1;
        *readback.set.lock().unwrap() = Some((sets, KernelClock::monotonic().now() - SETTLES));
    }

    #[test]
    fn a_fan_that_was_taken_back_is_not_in_force() {
        let sys = tempfile::tempdir().unwrap();
        let hwmon = sys.path().join("class/hwmon/hwmon0");
        tree(&hwmon, &[("name", "nct6798\n"), ("pwm2", "128\n"), ("pwm2_enable", "5\n")]);
        let wanted = ByName { name: "nct6798".into(), device: None };
        for repairs in [false, true] {
            let (target, last, readback) =
                settings_of(&Place::Hwmon(wanted.clone(), "pwm2".into()), sys.path(), repairs);
            assert_eq!(readback.every(), SETTINGS_EVERY);
            assert_eq!(readback.settings(&target), None, "hertzd has not set it");
            let write = last.begin();
            last.set([1.0, f64::NAN]);
            assert_eq!(readback.read(), Reading::Unsettled, "a write is under way");
            last.end(&write, 128.0);
            assert_eq!(readback.read(), Reading::Unsettled, "a driver may show what it saw before");
            long_ago(&readback);
            let Reading::NotInForce(lapse) = readback.read() else { panic!("it is not in force") };
            assert_eq!((lapse.set, &*lapse.read), (1.0, "5"));
            assert!(lapse.file.ends_with("hwmon0/pwm2_enable") && lapse.advice.contains("after a resume"), "{lapse:?}");
            assert_eq!(lapse.advice.contains("hertzd sets it again at the next tick"), repairs, "{}", lapse.advice);
            assert_eq!(last.has_lapsed(), repairs, "the task writes it again only if that was asked for");
            fs::write(hwmon.join("pwm2_enable"), "1\n").unwrap();
            assert_eq!(readback.read(), Reading::Agrees(128.0));
            fs::write(hwmon.join("pwm2_enable"), "5\n").unwrap();
        }
    }

    #[test]
    fn a_channel_needs_its_period_and_to_be_enabled() {
        let sys = tempfile::tempdir().unwrap();
        let chip = sys.path().join("class/pwm/pwmchip0");
        tree(&chip, &[("npwm", "1\n")]);
        let channel = chip.join("pwm0");
        tree(&channel, &[("period", "40000\n"), ("duty_cycle", "9\n"), ("enable", "1\n")]);
        let place = Place::Pwm { chip: "pwmchip0".into(), channel: 0, period: Span::from_micros(40) };
        let (target, last, readback) = settings_of(&place, sys.path(), false);
        last.set(target.settings_numbers());
        long_ago(&readback);
        assert!(matches!(readback.read(), Reading::Agrees(_)), "before its first value");
        for (file, was, other) in [("period", "40000\n", "80000\n"), ("enable", "1\n", "0\n")] {
            fs::write(channel.join(file), other).unwrap();
            let Reading::NotInForce(lapse) = readback.read() else { panic!("{file} is not in force") };
            assert!(lapse.file.ends_with(file) && lapse.read == other.trim(), "{lapse:?}");
            fs::write(channel.join(file), was).unwrap();
        }
        assert!(matches!(readback.read(), Reading::Agrees(_)));
        let text = super::super::port::SafeText { value: "30000\n".into(), enable: None, stored: None };
        let planned: Vec<_> = target.plan(&text, None).iter().map(ToString::to_string).collect();
        assert!(
            planned.len() == 3 && planned[2].ends_with("/enable"),
            "another process makes sure of it too: {planned:?}"
        );
        last.forget_settings();
        fs::remove_dir_all(&channel).unwrap();
        assert_eq!(readback.settings(&target), None, "a channel that is gone is looked for");
    }

    #[test]
    fn raw_numbers_are_compared_and_not_their_texts() {
        for (written, read, agrees) in
            [(128.0, "128\n", true), (128.0, "128", true), (128.0, "1.28e2", true), (128.0, "127\n", false)]
        {
            let reading = compare(written, Ok(read.into()));
            assert_eq!(reading == Reading::Agrees(written), agrees, "{reading:?}");
        }
        let differs = |read: &str| Reading::Differs { written: 1.0, read: read.into() };
        assert_eq!(compare(1.0, Ok("40\n".into())), differs("40"));
        assert_eq!(compare(1.0, Ok("\n".into())), differs("\"\""));
        assert_eq!(compare(1.0, Ok("auto\n".into())), differs("\"auto\""));
        let gone = io::Error::from_raw_os_error(libc::ENODEV);
        assert_eq!(compare(1.0, Err(gone)), Reading::Unreadable("No such device (os error 19)".into()));
    }
}
