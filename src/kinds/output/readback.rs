//! Reads a target back, and compares what it holds with what was written to it last: its value, if that was asked for, and always what
//! decides whether the value has any effect. May block for as long as the target's driver takes; for cool threads.

use super::digits;
use super::fan;
use super::setting::{Setting, Sort};
use super::target::Target;
use super::target::files::{is_readable, text_of};
use crate::safety::{Lapse, LastWritten, ReadBack, Reading};
use crate::site::Refusal;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use std::fs::File;
use std::io;
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

    /// What is wrong with its settings, where this number was written to it last; `None`: nothing is known to be.
    fn settings(&self, target: &Target, number: f64) -> Option<Reading> {
        let (numbers, sets) = self.written.settings()?;
        let is_settled = self.has_settled(sets);
        target.settings().iter().zip(numbers).filter(|(_, set)| !set.is_nan()).find_map(|(setting, set)| {
            // Some drivers let such a file only be written: whether it is in force cannot be seen then. So it is written every now and then.
            if !is_readable(&setting.path) {
                if self.repairs && is_settled && !fan::gives_back(set) {
                    self.written.lapse();
                }
                return None;
            }
            match text_of(&setting.path) {
                Ok(text) if is_in_force(target, setting, set, (&text, number)) => None,
                Ok(_) if !is_settled => Some(Reading::Unsettled),
                Ok(text) => Some(Reading::NotInForce(self.lapse(target, setting, set, &text))),
                Err(why) => Some(Reading::Unreadable(format!("{}: {why}", setting.path.display()))),
            }
        })
    }

    /// Whether it is a fan that was given back to its chip.
    fn is_given_back(&self, target: &Target) -> bool {
        let mode = self.written.settings().map(|(numbers, _)| numbers[0]).filter(|mode| !mode.is_nan());
        target.has_mode() && mode.is_some_and(fan::gives_back)
    }

    /// Whether what was written that often was written long enough ago.
    fn has_settled(&self, sets: u64) -> bool {
        let now = KernelClock::monotonic().now();
        let mut seen = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let since = seen.filter(|(seen, _)| *seen == sets).map_or(now, |(_, since)| since);
        *seen = Some((sets, since));
        now - since >= SETTLES
    }

    fn lapse(&self, target: &Target, setting: &Setting, set: f64, read: &str) -> Lapse {
        let shown = target.shown();
        let (who, effect) = match setting.sort {
            Sort::Mode if fan::gives_back(set) => {
                ("another program has taken the fan from its chip", format!("{shown} is not with its chip as before"))
            }
            Sort::Mode => (
                "the firmware takes fans back after a resume; so do the BIOS and programs such as fancontrol",
                format!("{shown} does not follow hertzd"),
            ),
            Sort::Number | Sort::Power => {
                ("another program uses the channel", format!("{shown} does not follow hertzd"))
            }
            Sort::Polarity => (
                "another program uses the channel",
                format!("{shown} does the opposite of what it did when hertzd started: full is off, and off is full"),
            ),
        };
        let remedy = match (setting.sort, self.repairs) {
            (_, true) => "hertzd sets it again at the next tick",
            (Sort::Polarity, false) => {
                "stop what changes it, and write it back while the channel is off; or let hertzd do that: write = \"always\". If it is meant, restart hertzd"
            }
            (_, false) => "stop what changes it, or let hertzd set it again: write = \"always\"",
        };
        let number = (setting.sort != Sort::Polarity).then_some(set);
        Lapse {
            file: setting.path.display().to_string(),
            set: setting.sort.text(set),
            number,
            read: shown_text(read, |text| setting.sort.number(text).is_some()),
            effect,
            advice: format!("{who}; {remedy}"),
        }
    }
}

/// Whether a setting that reads so is in force, where that was set, and this number written to its target last.
fn is_in_force(target: &Target, setting: &Setting, set: f64, (read, number): (&str, f64)) -> bool {
    let Some(read) = setting.sort.number(read.lines().next().unwrap_or_default()) else { return false };
    let holds = || target.value(None).ok().as_deref().and_then(digits::number);
    match setting.sort {
        // A fan at full speed that was told otherwise is not.
        Sort::Mode if !fan::gives_back(set) => fan::is_mode(set, read, || holds().filter(|holds| same(*holds, number))),
        Sort::Mode => fan::is_mode(set, read, holds),
        Sort::Number | Sort::Power | Sort::Polarity => same(read, set),
    }
}

fn same(a: f64, b: f64) -> bool {
    (a + 0.0).total_cmp(&(b + 0.0)).is_eq()
}

/// What was read, for a message: quoted, unless it is one of those that could have been.
fn shown_text(text: &str, is_usual: impl Fn(&str) -> bool) -> String {
    let text = text.lines().next().unwrap_or_default().trim();
    let shown: String = text.chars().take(40).collect();
    if is_usual(text) { shown } else { format!("{shown:?}") }
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
        let settings = self.settings(&target, number);
        let value = self.reads_value.then(|| target.value(self.taken.as_ref()));
        // What was read may be either where a write came in between.
        if self.written.quiet().is_none_or(|(_, now)| now != writes) {
            return Reading::Unsettled;
        }
        let reading = match (settings, value) {
            (Some(reading), _) => reading,
            (None, _) if self.is_given_back(&target) => Reading::GivenBack,
            (None, Some(_)) if number.is_nan() => Reading::Unsettled,
            (None, Some(value)) => compare(target.as_held(number), value),
            // After a write that failed it is not known how they are set.
            (None, None) if self.written.settings().is_some_and(|(numbers, _)| numbers[0].is_nan()) => {
                Reading::Unsettled
            }
            (None, None) => Reading::Agrees(None),
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
        Ok(text) if digits::number(&text).is_some_and(|read| same(read, written)) => Reading::Agrees(Some(written)),
        Ok(text) => Reading::Differs { written, read: shown_text(&text, |text| digits::number(text).is_some()) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::left_writes::LeftWrites;
    use super::super::place::Place;
    use super::super::target::means::Kept;
    use super::*;
    use crate::kinds::sensor::ByName;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// Files as those of a device, beside which its name is.
    fn tree(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
    }

    /// The target of an output without `readback`, whose settings were written long ago.
    fn settings_of(place: &Place, sys: &Path, repairs: bool) -> (Target, Arc<LastWritten>, Arc<Readback>) {
        let target = Target::find(place, sys).unwrap().unwrap();
        let ((Kept { file: taken, .. }, _), last) =
            (target.take(&LeftWrites::default(), "path", "fan").unwrap(), Arc::new(LastWritten::default()));
        let readback = Readback::of(&target, &taken, last.clone(), (None, repairs)).unwrap().unwrap();
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
            assert_eq!(readback.settings(&target, f64::NAN), None, "hertzd has not set it");
            let write = last.begin();
            last.set([1.0, f64::NAN, f64::NAN]);
            assert_eq!(readback.read(), Reading::Unsettled, "a write is under way");
            last.end(&write, 128.0);
            assert_eq!(readback.read(), Reading::Unsettled, "a driver may show what it saw before");
            long_ago(&readback);
            let Reading::NotInForce(lapse) = readback.read() else { panic!("it is not in force") };
            assert_eq!((&*lapse.set, lapse.number, &*lapse.read), ("1", Some(1.0), "5"));
            assert!(lapse.file.ends_with("hwmon0/pwm2_enable") && lapse.advice.contains("after a resume"), "{lapse:?}");
            assert_eq!(lapse.advice.contains("hertzd sets it again at the next tick"), repairs, "{}", lapse.advice);
            assert_eq!(last.has_lapsed(), repairs, "the task writes it again only if that was asked for");
            fs::write(hwmon.join("pwm2_enable"), "1\n").unwrap();
            assert_eq!(readback.read(), Reading::Agrees(None));
            fs::write(hwmon.join("pwm2_enable"), "5\n").unwrap();
            last.forget_settings();
            assert_eq!(readback.read(), Reading::Unsettled, "a write of it has failed");
        }
    }

    #[test]
    fn a_mode_that_can_only_be_written_is_written_every_now_and_then_if_that_was_asked_for() {
        let sys = tempfile::tempdir().unwrap();
        let hwmon = sys.path().join("class/hwmon/hwmon0");
        tree(&hwmon, &[("name", "dell_smm\n"), ("pwm1", "128\n"), ("pwm1_enable", "2\n")]);
        fs::set_permissions(hwmon.join("pwm1_enable"), Permissions::from_mode(0o200)).unwrap();
        let wanted = ByName { name: "dell_smm".into(), device: None };
        for repairs in [false, true] {
            let (target, last, readback) =
                settings_of(&Place::Hwmon(wanted.clone(), "pwm1".into()), sys.path(), repairs);
            let unseen = target.unseen(repairs).unwrap();
            assert!(unseen.starts_with("pwm1_enable can only be written: "), "{unseen}");
            assert_eq!(target.set_with_value().iter().map(|(_, text)| text.clone()).collect::<Vec<_>>(), [None]);
            last.set([1.0, f64::NAN, f64::NAN]);
            assert_eq!((readback.read(), last.has_lapsed()), (Reading::Agrees(None), false), "it was just written");
            long_ago(&readback);
            assert_eq!((readback.read(), last.has_lapsed()), (Reading::Agrees(None), repairs));
            last.set([2.0, f64::NAN, f64::NAN]);
            long_ago(&readback);
            assert_eq!((readback.read(), last.has_lapsed()), (Reading::GivenBack, false), "its chip has it");
        }
    }

    #[test]
    fn of_an_output_that_keeps_what_it_has_nothing_is_asked_once_it_is_switched_off() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), &[("valve", "0\n")]);
        let target = Target::find(&Place::File(folder.path().join("valve")), folder.path()).unwrap().unwrap();
        let ((Kept { file: taken, .. }, _), every) =
            (target.take(&LeftWrites::default(), "path", "fan").unwrap(), Some(Span::from_seconds(1)));
        let readback = Readback::of(&target, &taken, Arc::default(), (every, false)).unwrap().unwrap();
        let guard = crate::safety::Guard::new("valve", Arc::default(), (every.unwrap(), every.unwrap()), None);
        guard.reads_back(readback);
        assert!(guard.readback().is_some());
        guard.end();
        assert!(guard.readback().is_none());
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
        assert_eq!(readback.settings(&target, f64::NAN), None, "a channel that is gone is looked for");
    }

    #[test]
    fn a_fan_at_full_speed_or_with_its_chip_is_in_force() {
        let sys = tempfile::tempdir().unwrap();
        let hwmon = sys.path().join("class/hwmon/hwmon0");
        tree(&hwmon, &[("name", "nct6798\n"), ("pwm2", "255\n"), ("pwm2_enable", "0\n")]);
        let place = Place::Hwmon(ByName { name: "nct6798".into(), device: None }, "pwm2".into());
        let target = Target::find(&place, sys.path()).unwrap().unwrap();
        let ((Kept { file: taken, .. }, _), last) =
            (target.take(&LeftWrites::default(), "path", "fan").unwrap(), Arc::new(LastWritten::default()));
        let every = Some(Span::from_seconds(1));
        let readback = Readback::of(&target, &taken, last.clone(), (every, true)).unwrap().unwrap();
        let reads = |mode: f64, value: f64, files: [&str; 2]| {
            let write = last.begin();
            last.set([mode, f64::NAN, f64::NAN]);
            last.end(&write, value);
            long_ago(&readback);
            tree(&hwmon, &[("pwm2", files[0]), ("pwm2_enable", files[1])]);
            readback.read()
        };
        assert_eq!(reads(1.0, 255.0, ["255\n", "0\n"]), Reading::Agrees(Some(255.0)), "it shows full speed so");
        assert!(matches!(reads(1.0, 128.0, ["255\n", "0\n"]), Reading::NotInForce(_)), "it was told otherwise");
        assert!(matches!(reads(1.0, 128.0, ["128\n", "0\n"]), Reading::NotInForce(_)));
        last.repaired();
        assert_eq!(reads(5.0, 60.0, ["99\n", "5\n"]), Reading::GivenBack, "its chip sets it");
        assert!(!last.has_lapsed(), "nothing is written again");
        let Reading::NotInForce(lapse) = reads(5.0, 60.0, ["99\n", "1\n"]) else {
            panic!("it was taken from its chip")
        };
        assert!(lapse.effect.ends_with("is not with its chip as before"), "{lapse:?}");
    }

    #[test]
    fn the_polarity_is_to_stay_as_it_was_found() {
        let sys = tempfile::tempdir().unwrap();
        let channel = sys.path().join("class/pwm/pwmchip0/pwm0");
        tree(&channel, &[("period", "40000\n"), ("duty_cycle", "9\n"), ("enable", "1\n"), ("polarity", "inversed\n")]);
        tree(&sys.path().join("class/pwm/pwmchip0"), &[("npwm", "1\n")]);
        let by_name = Place::Pwm { chip: "pwmchip0".into(), channel: 0, period: Span::from_micros(40) };
        for place in [by_name, Place::File(channel.join("duty_cycle"))] {
            let (target, last, readback) = settings_of(&place, sys.path(), false);
            last.set(target.settings_numbers());
            long_ago(&readback);
            assert_eq!(readback.read(), Reading::Agrees(None));
            fs::write(channel.join("polarity"), "normal\n").unwrap();
            let Reading::NotInForce(lapse) = readback.read() else { panic!("its polarity is another one") };
            assert_eq!((&*lapse.set, lapse.number, &*lapse.read), ("inversed", None, "normal"));
            assert!(lapse.advice.contains("If it is meant, restart hertzd"), "{lapse:?}");
            let again = Target::find(&place, sys.path()).unwrap().unwrap().with_polarity(Some(1.0));
            assert_eq!(again.polarity().map(|polarity| polarity.number), Some(1.0), "also if it is found again");
            let planned =
                again.plan(&super::super::port::SafeText { value: "0\n".into(), enable: None, stored: None }, None);
            let polarity = planned.iter().find(|write| write.to_string().contains("polarity")).unwrap();
            polarity.check().unwrap();
            polarity.make_of("fan", None).unwrap();
            assert!(fs::read_to_string(channel.join("polarity")).unwrap().starts_with("inversed\n"));
        }
    }

    #[test]
    fn raw_numbers_are_compared_and_not_their_texts() {
        for (written, read, agrees) in
            [(128.0, "128\n", true), (128.0, "128", true), (128.0, "1.28e2", true), (128.0, "127\n", false)]
        {
            let reading = compare(written, Ok(read.into()));
            assert_eq!(reading == Reading::Agrees(Some(written)), agrees, "{reading:?}");
        }
        let differs = |read: &str| Reading::Differs { written: 1.0, read: read.into() };
        assert_eq!(compare(1.0, Ok("40\n".into())), differs("40"));
        assert_eq!(compare(1.0, Ok("\n".into())), differs("\"\""));
        assert_eq!(compare(1.0, Ok("auto\n".into())), differs("\"auto\""));
        let gone = io::Error::from_raw_os_error(libc::ENODEV);
        assert_eq!(compare(1.0, Err(gone)), Reading::Unreadable("No such device (os error 19)".into()));
    }
}
