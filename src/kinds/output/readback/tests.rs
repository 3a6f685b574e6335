use super::super::left_writes::LeftWrites;
use super::super::place::Place;
use super::super::target::means::Kept;
use super::*;
use crate::kinds::sensor::ByName;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Creates files like those of a device.
fn tree(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
}

/// The target of an output without `readback`, and its parts.
fn settings_of(place: &Place, sys: &Path, repairs: bool) -> (Target, Arc<LastWritten>, Arc<Readback>) {
    let target = Target::find(place, sys).unwrap().unwrap();
    let ((Kept { file: taken, .. }, _), last) =
        (target.take(&LeftWrites::default(), "fan").unwrap(), Arc::new(LastWritten::default()));
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
        let (target, last, readback) = settings_of(&Place::Hwmon(wanted.clone(), "pwm2".into()), sys.path(), repairs);
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
        let (target, last, readback) = settings_of(&Place::Hwmon(wanted.clone(), "pwm1".into()), sys.path(), repairs);
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
        (target.take(&LeftWrites::default(), "fan").unwrap(), Some(Span::from_seconds(1)));
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
        assert!(!last.is_in_force(), "not read back yet");
        assert!(matches!(readback.read(), Reading::Agrees(_)));
        assert!(last.is_in_force());
    }
    let text = super::super::port::SafeText { value: "30000\n".into(), enable: None, stored: None };
    let planned: Vec<_> = target.plan(&text, None).iter().map(ToString::to_string).collect();
    assert!(planned.len() == 3 && planned[2].ends_with("/enable"), "another process makes sure of it too: {planned:?}");
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
        (target.take(&LeftWrites::default(), "fan").unwrap(), Arc::new(LastWritten::default()));
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
    let Reading::NotInForce(lapse) = reads(5.0, 60.0, ["99\n", "1\n"]) else { panic!("it was taken from its chip") };
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
        assert!(last.is_in_force(), "not read back yet");
        let Reading::NotInForce(lapse) = readback.read() else { panic!("its polarity is another one") };
        assert!(!last.is_in_force());
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
