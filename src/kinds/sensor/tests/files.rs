//! Polled text files.

use super::super::files::LARGEST;
use super::super::number::Counts;
use super::super::open::open as open_here;
use super::*;
use crate::task::Column;

fn open(settings: SensorSettings, task: &str) -> Result<Box<dyn Task>, BuildError> {
    open_here(&mut Site::default(), settings, task).map(|built| built.task)
}

fn at(path: impl AsRef<Path>, line: LineSelector, field: usize) -> SensorSettings {
    let mut settings = SensorSettings::file(path.as_ref());
    settings.values[0].locator = ValueLocator { line, field: FieldSelector::Number(field) };
    settings
}

fn text(text: &str) -> LineSelector {
    LineSelector::Prefix(text.into())
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
    assert_eq!(refused("\n", LineSelector::Number(2), 1), said("line", "FILE does not have line 2; it has 1 lines"));
    assert_eq!(refused(&"x ".repeat(LARGEST), LineSelector::Number(2), 1).0, "line");
    let long = refused(&"y".repeat(LARGEST - 1), LineSelector::Number(1), 1);
    assert!(long.0 == "field" && long.1.len() < 150, "{long:?}");
}

#[test]
fn paths_that_cannot_be_read() {
    let key = |settings| open(settings, "test").err().unwrap().key;
    for path in ["", "/nonexistent/file", "/proc", "/dev/null"] {
        let wanted = if path == "/dev/null" { "line" } else { "path" };
        assert_eq!(key(at(path, LineSelector::Number(1), 1)), wanted, "{path}");
    }
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

    // Its writer empties it before it writes.
    fs::write(&file, "").unwrap();
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert_eq!((done, quality(values[0])), (Ok(()), Quality::None));
    for (content, wanted) in [(" \n", "no longer has the field"), ("off\n", "not a number")] {
        fs::write(&file, content).unwrap();
        let error = tick(&mut *sensor).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    fs::write(&file, [b'\n'; LARGEST + 1]).unwrap();
    assert!(tick(&mut *sensor).unwrap_err().to_string().contains("no longer has the field"));
}

#[test]
fn a_value_that_its_scale_makes_infinite_fails_the_tick() {
    let file = file("1e300\n");
    let mut settings = at(&file, LineSelector::Number(1), 1);
    settings.values[0].scale = Some(1e300);
    let mut sensor = open(settings, "test").unwrap();
    for content in ["1e300\n", "-1e300\n"] {
        fs::write(&file, content).unwrap();
        let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
        assert!(done.unwrap_err().to_string().contains("a value is infinite"));
        assert!(values[0].is_nan(), "{values:?}");
    }
    fs::write(&file, "2\n").unwrap();
    assert!((tick(&mut *sensor).unwrap() - 2e300).abs() < 1e290);
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
    let locator = ValueLocator { line: LineSelector::Number(1), field: FieldSelector::Number(field) };
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
    let error = done.unwrap_err();
    assert_eq!((error.to_string().contains(one.path().to_str().unwrap()), error.column()), (true, Some(0)), "{error}");
    assert_eq!(quality(values[0]), Quality::Bad(Reason::Failed));
    assert_eq!(values[1..], [7.0, 50.0]);

    let error = open(settings.clone(), "test").err().unwrap();
    assert_eq!(error.key, "value");
    assert!(error.message.starts_with("\"c\": line 1 of "), "{}", error.message);
    let mut twice = settings;
    twice.values[1].name = Some("c".into());
    assert_eq!(open(twice, "test").err().unwrap().message, "two values are named \"c\"");
}

/// What a value of a tick without other faults is worth.
fn quality(value: f64) -> Quality {
    Quality::of(value, Basis::Good, None)
}

#[test]
fn a_file_that_is_not_there_costs_its_own_value_only() {
    let folder = tempfile::tempdir().unwrap();
    let [here, later] = ["here", "later"].map(|name| folder.path().join(name));
    fs::write(&here, "1").unwrap();
    let values = vec![value(&here, 1, "here"), value(&later, 1, "later")];
    let settings = SensorSettings { values, listed: true, missing: Missing::Wait, ..SensorSettings::file("") };
    let mut sensor = open(settings, "test").unwrap();
    let mut until = |wanted: [Quality; 2]| {
        let mut now = [Quality::None; 2];
        for _ in 0..400 {
            let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
            now = [quality(values[0]), quality(values[1])];
            if now == wanted {
                return done;
            }
            pause(Span::from_millis(25));
        }
        panic!("{now:?} in place of {wanted:?}");
    };
    let gone = |done: Result<(), TickError>| {
        let text = done.unwrap_err().text(&["here".into(), "later".into()]);
        assert_eq!(text, format!("later: {} is not there; hertzd keeps trying to open it", later.display()));
    };
    let absent = Quality::Bad(Reason::Unavailable);
    gone(until([Quality::Good, absent]));
    fs::write(&later, "2").unwrap();
    assert_eq!(until([Quality::Good, Quality::Good]), Ok(()));
    fs::remove_file(&later).unwrap();
    gone(until([Quality::Good, absent]));
    fs::remove_file(&here).unwrap();
    until([absent, absent]).unwrap_err();
    fs::write(&here, "3").unwrap();
    gone(until([Quality::Good, absent])); // one that is there is enough to go on
}

#[test]
fn a_file_that_is_empty_at_the_start_has_nothing_new_yet() {
    let file = file("");
    let mut sensor = open(at(&file, LineSelector::Number(1), 1), "test").unwrap();
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert_eq!((done, quality(values[0])), (Ok(()), Quality::None), "its writer has emptied it and writes next");
    fs::write(&file, "3\n").unwrap();
    assert_eq!(tick(&mut *sensor), Ok(3.0));
}

/// A process whose file of `/proc` is there until it is dropped.
struct Process(std::process::Child);

impl Process {
    fn new() -> Self {
        Self(std::process::Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn stat(&self) -> PathBuf {
        format!("/proc/{}/stat", self.0.id()).into()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_file_of_the_kernel_that_is_gone_costs_its_own_value_only_and_is_found_again() {
    let (folder, first) = (tempfile::tempdir().unwrap(), Process::new());
    let link = folder.path().join("stat");
    symlink(first.stat(), &link).unwrap();
    let path = Path::new("/proc/self/root").join(link.strip_prefix("/").unwrap());
    let values = vec![value("/proc/self/stat", 1, "here"), value(&path, 1, "other")];
    let settings = SensorSettings { values, listed: true, ..SensorSettings::file("") };
    let both = settings.clone();
    let mut sensor = open(both, "test").unwrap();
    let own = f64::from(std::process::id());
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![own, f64::from(first.0.id())], Ok(())));
    let text = |sensor: &mut dyn Task| {
        let (values, done) = tick_at(sensor, Instant::ZERO);
        assert_eq!((values[0], quality(values[1])), (own, Quality::Bad(Reason::Unavailable)));
        done.unwrap_err().text(&["here".into(), "other".into()])
    };
    drop(first);
    assert_eq!(text(&mut *sensor), format!("other: cannot read {}: No such process (os error 3)", path.display()));
    let absent = format!("other: {} is not there; hertzd keeps trying to open it", path.display());
    for _ in 0..20 {
        assert_eq!(text(&mut *sensor), absent);
        pause(Span::from_millis(10));
    }
    // A task that may wait for it begins without it.
    assert_eq!(open(settings.clone(), "test").err().unwrap().key, "value");
    let mut waits = open(SensorSettings { missing: Missing::Wait, ..settings }, "test").unwrap();
    assert_eq!(text(&mut *waits), absent);
    let second = Process::new();
    fs::remove_file(&link).unwrap();
    symlink(second.stat(), &link).unwrap();
    for sensor in [&mut sensor, &mut waits] {
        until(&mut **sensor, |values, done| {
            assert_eq!(values[0], own);
            done.is_ok() && values[1] == f64::from(second.0.id())
        });
    }
}

#[test]
fn when_all_files_of_the_kernel_are_gone_the_task_is_opened_again() {
    let (folder, first) = (tempfile::tempdir().unwrap(), Process::new());
    let link = folder.path().join("link");
    symlink(first.stat().parent().unwrap(), &link).unwrap();
    let root = Path::new("/proc/self/root").join(link.strip_prefix("/").unwrap());
    let values = vec![value(root.join("stat"), 1, "a"), value(root.join("statm"), 1, "b")];
    let mut sensor = open(SensorSettings { values, listed: true, ..SensorSettings::file("") }, "test").unwrap();
    tick(&mut *sensor).unwrap();
    drop(first);
    until(&mut *sensor, |_, done| done.is_err_and(|error| error.is_away()));
    let second = Process::new();
    fs::remove_file(&link).unwrap();
    symlink(second.stat().parent().unwrap(), &link).unwrap();
    until(&mut *sensor, |values, done| done.is_ok() && values[0] == f64::from(second.0.id()));
}

#[test]
fn a_replaced_file_is_followed_without_a_failing_tick() {
    let folder = tempfile::tempdir().unwrap();
    let [path, next, link] = ["x", "y", "link"].map(|name| folder.path().join(name));
    fs::write(&path, "0\n").unwrap();
    symlink(&path, &link).unwrap();
    let values = vec![value(&path, 1, "file"), value(&link, 1, "link")];
    let mut sensor = open(SensorSettings { listed: true, values, ..SensorSettings::file("") }, "test").unwrap();
    for number in 1..5_u32 {
        fs::write(&next, format!("{number}\n")).unwrap();
        fs::rename(&next, &path).unwrap();
        until(&mut *sensor, |values, done| {
            assert_eq!(*done, Ok(()), "{number}");
            values == [f64::from(number); 2]
        });
    }
    fs::write(&next, "7\n").unwrap();
    symlink(&next, folder.path().join("other")).unwrap();
    fs::rename(folder.path().join("other"), &link).unwrap();
    until(&mut *sensor, |values, done| {
        assert_eq!(*done, Ok(()), "the link leads elsewhere");
        values == [4.0, 7.0]
    });
}

#[test]
fn a_deleted_file_is_reported_and_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "1\n").unwrap();
    let mut sensor = open(SensorSettings::file(&path), "a file that is deleted").unwrap();
    assert_eq!(tick(&mut *sensor), Ok(1.0));
    fs::remove_file(&path).unwrap();
    until(&mut *sensor, |values, done| {
        assert!(values == [1.0] || done.is_err(), "{values:?}");
        done.is_err()
    });
    fs::write(&path, "3\n").unwrap();
    until(&mut *sensor, |values, done| done.is_ok() && values == [3.0]);
}

#[test]
fn a_line_that_moves_is_found_again() {
    let file = file("first 1\nwanted 2\n");
    let mut sensor = open(at(&file, text("wanted"), 1), "test").unwrap();
    for lines in [0, 1_000, 7_000, 3] {
        fs::write(&file, "filler 0\n".repeat(lines) + "wanted 5\n").unwrap();
        assert_eq!(tick(&mut *sensor), Ok(5.0), "behind {lines} lines");
        assert_eq!(
            tick(&mut *open(at(&file, text("wanted"), 1), "test").unwrap()),
            Ok(5.0),
            "opened with {lines} lines"
        );
    }
}

#[test]
fn named_fields_are_read() {
    let pressure = file("some avg10=0.25 avg60=1.50 total=123\nfull avg10=0.00 avg60=0.5 total=7\n");
    let mut settings = at(&pressure, text("full"), 1);
    settings.values[0].locator.field = FieldSelector::Name("total".into());
    assert_eq!(tick(&mut *open(settings.clone(), "test").unwrap()), Ok(7.0));
    settings.values[0].locator.field = FieldSelector::Name("avg300".into());
    let error = open(settings, "test").err().unwrap();
    assert!(error.key == "field" && error.message.contains("has no field \"avg300=\""), "{}", error.message);
}

#[test]
fn counters_become_rates_by_the_times_of_their_ticks() {
    let file = file("4294967290 10\n");
    let rate = |field, name: &str| ValueSettings { per_second: Some(Counts::Up), ..value(file.path(), field, name) };
    let values = vec![rate(1, "wraps"), ValueSettings { scale: Some(512.0), ..rate(2, "sectors") }];
    let mut sensor = open(SensorSettings { values, listed: true, ..SensorSettings::file("") }, "test").unwrap();
    assert!(sensor.columns().iter().map(|column| &*column.unit).eq(["1/s", ""]));
    let mut tick = |content: &str, millis| {
        fs::write(&file, content).unwrap();
        let (values, done) = tick_at(&mut *sensor, Instant::ZERO + Span::from_millis(millis));
        (values, done.is_ok())
    };
    let (first, done) = tick("4294967290 10\n", 1_000);
    assert!(done && first.iter().all(|value| value.is_nan()), "{first:?}");
    assert_eq!(tick("94 12\n", 1_250), (vec![400.0, 4_096.0], true));
    assert!(!tick("94 -\n", 2_250).1);
    assert_eq!(tick("104 18\n", 4_250), (vec![5.0, 1_024.0], true), "over the tick that failed");
    let (reset, done) = tick("3 0\n", 5_250);
    assert!(!done && reset.iter().all(|value| quality(*value) == Quality::None), "{reset:?}");
    assert_eq!(tick("5 1\n", 6_250), (vec![2.0, 512.0], true));
}
