//! Sensors as tasks, on real files of `/proc` and on a made-up `/sys`.

mod buffer;

use super::files::LARGEST;
use super::locator::{LineSelector, ValueLocator};
use super::open::open;
use super::settings::ValueSettings;
use super::*;
use crate::config::BuildError;
use crate::kinds::device::Missing;
use crate::sys::clock::pause;
use crate::task::Task;
use crate::task::{Column, Tick, TickError};
use crate::time::{Instant, Span};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

fn at(path: impl AsRef<Path>, line: LineSelector, field: usize) -> SensorSettings {
    let mut settings = SensorSettings::file(path.as_ref());
    settings.values[0].locator = ValueLocator { line, field };
    settings
}

fn text(text: &str) -> LineSelector {
    LineSelector::Text(text.into())
}

fn tick_at(sensor: &mut dyn Task, release: Instant) -> (Vec<f64>, Result<(), TickError>) {
    let zero = Span::ZERO;
    let tick = Tick { n: 0, release, started: release, lateness: zero, skipped: 0, credit: zero, period: zero };
    let mut values = vec![f64::NAN; sensor.columns().len()];
    let done = sensor.tick(&tick, &mut values);
    (values, done)
}

fn tick(sensor: &mut dyn Task) -> Result<f64, TickError> {
    let (values, done) = tick_at(sensor, Instant::ZERO);
    done.map(|()| values[0])
}

fn file(content: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    file
}

fn refused(content: &str, line: LineSelector, field: usize) -> (&'static str, String) {
    let file = file(content);
    let error = open(at(&file, line, field), "test").err().unwrap();
    (error.key, error.message.replace(&file.path().display().to_string(), "FILE"))
}

const STAT: &str = "cpu10 7 8\ncpu1 1 2 3\n  eth0: 44 55\nMemAvailable:   1234 kB\n\nhex 0x1f -0X10 +2.5e3";

#[test]
fn what_is_found_instead_is_said() {
    let said = |key, message: &str| (key, String::from(message));
    assert_eq!(
        refused(STAT, text("MemAvailable:"), 2),
        said("field", r#"field 2 in the line that starts with "MemAvailable:" of FILE is not a number: "kB""#)
    );
    assert_eq!(
        refused(STAT, LineSelector::Number(1), 4),
        said("field", r#"line 1 of FILE has no field 4: "cpu10 7 8""#)
    );
    assert_eq!(refused(STAT, LineSelector::Number(7), 1), said("line", "FILE does not have line 7; it has 6 lines"));
    assert_eq!(refused(STAT, text("MemAv"), 1).0, "line");
    assert_eq!(refused("", LineSelector::Number(1), 1), said("line", "FILE does not have line 1; it has 0 lines"));
    assert_eq!(refused(STAT, LineSelector::Number(0), 1).0, "line");
    assert_eq!(refused(STAT, text(" "), 1).0, "line");
    assert_eq!(refused(STAT, LineSelector::Number(1), 0).0, "field");
    assert_eq!(refused(&"x ".repeat(LARGEST), LineSelector::Number(2), 1).0, "line");
    let long = refused(&"y".repeat(LARGEST - 1), LineSelector::Number(1), 1);
    assert!(long.0 == "field" && long.1.len() < 150, "{long:?}");
}

#[test]
fn paths_and_settings_that_cannot_be() {
    let key = |settings| open(settings, "test").err().unwrap().key;
    for path in ["", "/nonexistent/file", "/proc", "/dev/null"] {
        let wanted = if path == "/dev/null" { "line" } else { "path" };
        assert_eq!(key(at(path, LineSelector::Number(1), 1)), wanted, "{path}");
    }
    let with = |change: fn(&mut ValueSettings)| {
        let mut settings = at("/proc/uptime", LineSelector::Number(1), 1);
        change(&mut settings.values[0]);
        key(settings)
    };
    assert_eq!(with(|value| value.scale = Some(0.0)), "scale");
    assert_eq!(with(|value| value.scale = Some(f64::NAN)), "scale");
    assert_eq!(with(|value| value.offset = Some(f64::INFINITY)), "offset");
    assert_eq!(with(|value| value.name = Some(String::new())), "name");
}

#[test]
fn values_are_scaled_and_follow_the_file() {
    let file = file("21500\n");
    let mut settings = at(&file, LineSelector::Number(1), 1);
    settings.values[0] = ValueSettings {
        scale: Some(0.001),
        offset: Some(273.15),
        name: Some("temp".into()),
        unit: Some("K".into()),
        ..settings.values[0].clone()
    };
    let mut sensor = open(settings, "test").unwrap();
    assert_eq!(sensor.columns(), [Column { name: "temp".into(), unit: "K".into() }]);
    assert!((tick(&mut *sensor).unwrap() - 294.65).abs() < 1e-9);
    fs::write(&file, "-3000\n").unwrap();
    assert!((tick(&mut *sensor).unwrap() - 270.15).abs() < 1e-9);

    for (content, wanted) in
        [("", "no longer has the line"), (" \n", "no longer has the field"), ("off\n", "not a number")]
    {
        fs::write(&file, content).unwrap();
        let error = tick(&mut *sensor).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    fs::write(&file, [b' '; 3 * 4096]).unwrap();
    assert!(tick(&mut *sensor).unwrap_err().to_string().contains("has grown"));
}

#[test]
fn the_end_of_a_large_file_can_be_read() {
    let file = file("filler 0\n".repeat(7_000) + "last 7\n");
    assert_eq!(tick(&mut *open(at(&file, text("last"), 1), "test").unwrap()), Ok(7.0));
}

#[test]
fn real_files() {
    for (path, line, field) in [
        ("/proc/uptime", LineSelector::Number(1), 1),
        ("/proc/loadavg", LineSelector::Number(1), 3),
        ("/proc/meminfo", text("MemAvailable:"), 1),
        ("/proc/stat", text("cpu0"), 4),
        ("/proc/stat", text("processes"), 1),
        ("/proc/self/status", text("VmRSS:"), 1),
    ] {
        let mut sensor = open(at(path, line, field), "test").unwrap();
        assert!(tick(&mut *sensor).unwrap() >= 0.0, "{path}");
    }
    let mut uptime = open(at("/proc/uptime", LineSelector::Number(1), 1), "test").unwrap();
    let (one, two) = (tick(&mut *uptime).unwrap(), tick(&mut *uptime).unwrap());
    assert!(0.0 < one && one <= two);
}

fn value(file: impl Into<PathBuf>, field: usize, name: &str) -> ValueSettings {
    let locator = ValueLocator { line: LineSelector::Number(1), field };
    ValueSettings { file: file.into(), locator, name: Some(name.into()), ..ValueSettings::default() }
}

#[test]
fn several_values_come_with_what_is_wrong_beside_them() {
    let (one, other) = (file("1 2 3\n"), file("7\n"));
    let values = vec![
        value(one.path(), 3, "c"),
        value(other.path(), 1, "x"),
        ValueSettings { scale: Some(10.0), ..value(one.path(), 1, "a") },
    ];
    let settings = SensorSettings { values, listed: true, ..SensorSettings::file("") };
    let mut sensor = open(settings.clone(), "test").unwrap();
    let names: Vec<_> = sensor.columns().into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["c", "x", "a"]);
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![3.0, 7.0, 10.0], Ok(())));
    fs::write(&one, "5 6\n").unwrap();
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert_eq!(done, Err(TickError::new("the line no longer has the field")));
    assert!(values[0].is_nan() && values[1..] == [7.0, 50.0], "{values:?}");

    let error = open(settings.clone(), "test").err().unwrap();
    assert_eq!(error.key, "value");
    assert!(error.message.starts_with("\"c\": line 1 of "), "{}", error.message);
    let mut twice = settings;
    twice.values[1].name = Some("c".into());
    assert_eq!(open(twice, "test").err().unwrap().message, "two values are named \"c\"");
}

/// Ticks a second apart until one succeeds; what it gave.
fn until_it_works(sensor: &mut dyn Task) -> Vec<f64> {
    for second in 1.. {
        if let (values, Ok(())) = tick_at(sensor, Instant::ZERO + Span::from_seconds(second)) {
            return values;
        }
        pause(Span::from_millis(5));
    }
    unreachable!()
}

#[test]
fn a_file_that_is_replaced_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "1\n").unwrap();
    let mut sensor = open(SensorSettings::file(&path), "test").unwrap();
    assert_eq!(tick(&mut *sensor), Ok(1.0));
    fs::write(folder.path().join("y"), "2\n").unwrap();
    fs::rename(folder.path().join("y"), &path).unwrap();
    let later = Instant::ZERO + Span::from_seconds(2);
    assert!(tick_at(&mut *sensor, later).1.is_err(), "it says so");
    assert_eq!(until_it_works(&mut *sensor), [2.0]);
    fs::remove_file(&path).unwrap();
    let much_later = later + Span::from_seconds(1_000_000);
    assert!(tick_at(&mut *sensor, much_later).1.is_err());
    assert_eq!(tick(&mut *sensor), Err(TickError::new("the device is disconnected; trying to reopen it")));
    fs::write(&path, "3\n").unwrap();
    assert_eq!(until_it_works(&mut *sensor), [3.0]);
}

/// A tree as `/sys` is: devices in one locator, and links to them from their classes.
struct Sys(tempfile::TempDir);

impl Sys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for class in ["class/hwmon", "bus/iio/devices", "devices", "dev"] {
            fs::create_dir_all(folder.path().join(class)).unwrap();
        }
        Self(folder)
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn hwmon(&self, number: u32, device: &str, files: &[(&str, &str)]) -> PathBuf {
        let device = self.root().join("devices").join(device);
        let folder = device.join(format!("hwmon/hwmon{number}"));
        fs::create_dir_all(&folder).unwrap();
        symlink(&device, folder.join("device")).unwrap();
        symlink(&folder, self.root().join(format!("class/hwmon/hwmon{number}"))).unwrap();
        files.iter().for_each(|(file, content)| fs::write(folder.join(file), content).unwrap());
        folder
    }

    fn iio(&self, number: u32, parent: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.root().join("devices").join(parent).join(format!("iio:device{number}"));
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, self.root().join(format!("bus/iio/devices/iio:device{number}"))).unwrap();
        files.iter().for_each(|(file, content)| fs::write(folder.join(file), content).unwrap());
        folder
    }

    fn open(&self, settings: SensorSettings) -> Result<Box<dyn Task>, BuildError> {
        open_under(settings, "test", [self.root(), &self.root().join("dev")])
    }
}

fn named(class: fn(ByName) -> Source, name: &str, device: Option<&str>, files: &[&str]) -> SensorSettings {
    let source = class(ByName { name: name.into(), device: device.map(Into::into) });
    let value = |file: &&str| ValueSettings { file: file.into(), ..ValueSettings::default() };
    SensorSettings { source, values: files.iter().map(value).collect(), ..SensorSettings::file("") }
}

fn columns(sensor: &dyn Task) -> Vec<(String, String)> {
    sensor.columns().into_iter().map(|column| (column.name, column.unit)).collect()
}

fn pair(name: &str, unit: &str) -> (String, String) {
    (name.into(), unit.into())
}

#[test]
fn a_hwmon_device_is_found_by_name_and_again_under_another_number() {
    let sys = Sys::new();
    sys.hwmon(0, "cpu", &[("name", "coretemp\n"), ("temp1_input", "50000\n")]);
    let first = sys.hwmon(1, "0-0048", &[("name", "lm75\n"), ("temp1_input", "25500\n")]);
    let mut sensor = sys.open(named(Source::Hwmon, "lm75", None, &["temp1_input"])).unwrap();
    assert_eq!(columns(&*sensor), [pair("temp1", "°C")]);
    assert_eq!(tick(&mut *sensor), Ok(25.5));

    fs::remove_file(sys.root().join("class/hwmon/hwmon1")).unwrap();
    fs::remove_dir_all(first).unwrap();
    fs::remove_dir_all(sys.root().join("devices/0-0048")).unwrap();
    assert!(tick_at(&mut *sensor, Instant::ZERO + Span::from_seconds(10_000)).1.is_err());
    sys.hwmon(7, "0-0048", &[("name", "lm75\n"), ("temp1_input", "-10000\n")]);
    assert_eq!(until_it_works(&mut *sensor), [-10.0]);
}

#[test]
fn which_device_is_meant_must_be_clear() {
    let sys = Sys::new();
    let refused = |settings| {
        let error = sys.open(settings).err().unwrap();
        (error.key, error.message)
    };
    let lm75 = |device| named(Source::Hwmon, "lm75", device, &["temp1_input"]);
    let none = refused(lm75(None));
    assert_eq!(none, ("hwmon", "no hwmon device is named \"lm75\"; there is no hwmon device at all".into()));
    sys.hwmon(3, "0-0048", &[("name", "lm75"), ("temp1_input", "1000")]);
    sys.hwmon(12, "1-0048", &[("name", "lm75"), ("temp1_input", "2000")]);
    sys.hwmon(2, "pci", &[("name", "nvme"), ("temp1_input", "3000")]);
    assert_eq!(
        refused(named(Source::Hwmon, "lm57", None, &[])),
        ("hwmon", "no hwmon device is named \"lm57\"; there are \"nvme\", \"lm75\", \"lm75\"".into())
    );
    let which = "2 hwmon devices are named \"lm75\"; say which with device = one of \"0-0048\", \"1-0048\"";
    assert_eq!(refused(lm75(None)), ("hwmon", which.into()));
    assert_eq!(
        refused(lm75(Some("2-0048"))),
        ("device", "no hwmon device \"lm75\" belongs to \"2-0048\"; it is one of \"0-0048\", \"1-0048\"".into())
    );
    assert_eq!(tick(&mut *sys.open(lm75(Some("1-0048"))).unwrap()), Ok(2.0));
    assert_eq!(tick(&mut *sys.open(lm75(Some("hwmon3"))).unwrap()), Ok(1.0));
    let (key, message) = refused(named(Source::Hwmon, "nvme", None, &["temp2_input"]));
    assert!(key == "file" && message.starts_with("cannot open /"), "{key}: {message}");
}

#[test]
fn all_that_a_hwmon_device_measures() {
    let sys = Sys::new();
    let files = [
        ("name", "board"),
        ("temp1_input", "25500"),
        ("temp1_label", "CPU"),
        ("in0_input", "1200"),
        ("power1_input", "2500000"),
        ("fan1_input", "900"),
    ];
    sys.hwmon(0, "board", &files);
    let mut sensor = sys.open(named(Source::Hwmon, "board", None, &[])).unwrap();
    assert_eq!(columns(&*sensor), [pair("fan1", "RPM"), pair("in0", "V"), pair("power1", "W"), pair("CPU", "°C")]);
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![900.0, 1.2, 2.5, 25.5], Ok(())));
    let mut settings = named(Source::Hwmon, "board", None, &["temp1_input"]);
    settings.values[0].unit = Some("m°C".into());
    let mut sensor = sys.open(settings).unwrap();
    assert_eq!((tick(&mut *sensor), columns(&*sensor)), (Ok(25_500.0), vec![pair("temp1", "m°C")]));
}

#[test]
fn channels_of_an_iio_device_have_the_abis_units() {
    let sys = Sys::new();
    let files = [
        ("name", "mpu6050\n"),
        ("label", "left wing\n"),
        ("in_accel_scale", "0.000598\n"),
        ("in_accel_x_raw", "-1000\n"),
        ("in_temp_raw", "100\n"),
        ("in_temp_offset", "12420\n"),
        ("in_temp_scale", "2.941176\n"),
        ("in_illuminance_input", "17.5\n"),
    ];
    sys.iio(0, "0-0068", &files);
    sys.iio(1, "", &[("name", "mpu6050\n"), ("in_accel_x_raw", "3\n")]);
    let all = named(Source::Iio, "left wing", None, &[]);
    let mut sensor = sys.open(all).unwrap();
    assert_eq!(columns(&*sensor), [pair("accel_x", "m/s²"), pair("illuminance", "lx"), pair("temp", "°C")]);
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    let near = |value: f64, wanted: f64| (value - wanted).abs() < 1e-9;
    assert!(done.is_ok() && near(values[0], -0.598) && near(values[1], 17.5), "{values:?}");
    assert!(near(values[2], 12_520.0 * 2.941_176 / 1_000.0), "{values:?}");

    let message = sys.open(named(Source::Iio, "mpu6050", None, &[])).err().unwrap().message;
    assert_eq!(
        message,
        "2 IIO devices are named \"mpu6050\"; say which with device = one of \"0-0068\", \"iio:device1\""
    );
    let one = named(Source::Iio, "mpu6050", Some("0-0068"), &["in_accel_x_raw"]);
    assert!(near(tick(&mut *sys.open(one).unwrap()).unwrap(), -0.598));
}

#[test]
fn one_that_is_not_there_yet_is_waited_for() {
    let sys = Sys::new();
    let settings = SensorSettings { missing: Missing::Wait, ..named(Source::Hwmon, "lm75", None, &["temp1_input"]) };
    let mut sensor = sys.open(settings).unwrap();
    assert_eq!(columns(&*sensor), [pair("temp1", "°C")]);
    assert!(tick(&mut *sensor).is_err());
    sys.hwmon(0, "0-0048", &[("name", "lm75"), ("temp1_input", "4000")]);
    assert_eq!(until_it_works(&mut *sensor), [4.0]);
}
