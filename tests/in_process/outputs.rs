//! The kind `output` in a daemon in this process. The tests read the file from outside when the output's input fails in each way, when the
//! output is disabled, when a reload removes, keeps or replaces it, and at the end. The trees of hwmon and PWM are plain files named as in
//! `/sys`, without a driver: a number that got shorter leaves old digits after its newline.

use crate::program::pause;
use hertzd::config::{Blueprint, Kind, Kinds, Section};
use hertzd::internals::{Embedded, EmbeddedRun, lock_as_hertzd};
use hertzd::task::{Column, Task, Tick, TickError};
use hertzd::time::Span;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The behaviour of a task of the kind `source` from its next tick on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Good(f64),
    Counts,
    Bad,
    Fails,
    Hangs,
    Panics,
}

struct Source(Arc<Mutex<Mode>>);

impl Task for Source {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "v".into(), unit: String::new() }]
    }

    #[expect(clippy::cast_precision_loss, reason = "a test has few ticks")]
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let mode = || *self.0.lock().unwrap();
        match mode() {
            Mode::Good(value) => values[0] = value,
            Mode::Counts => values[0] = (tick.n * 7_919 % 10_u64.pow(1 + (tick.n % 6) as u32)) as f64,
            Mode::Bad => {}
            Mode::Fails => return Err(TickError::new("the failure that was asked for")),
            Mode::Hangs => {
                while mode() == Mode::Hangs {
                    pause(Span::from_millis(1));
                }
            }
            Mode::Panics => panic!("the panic that was asked for"),
        }
        Ok(())
    }
}

fn kinds(mode: &Arc<Mutex<Mode>>) -> Kinds {
    let mode = mode.clone();
    let source = move |_: &mut Section<'_>| Some(Blueprint::built(Source(mode.clone())));
    Kinds::builtin().add(Kind::new("source", "A value that the test controls.", &[], source))
}

/// A daemon in this process whose configuration can be replaced.
struct Daemon {
    mode: Arc<Mutex<Mode>>,
    run: EmbeddedRun,
}

impl Daemon {
    fn start(sys: &Path, text: String, first: Mode) -> Self {
        let mode = Arc::new(Mutex::new(first));
        Self::start_with(sys, kinds(&mode), text, mode)
    }

    fn start_with(sys: &Path, kinds: Kinds, text: String, mode: Arc<Mutex<Mode>>) -> Self {
        Self { mode, run: Embedded::of(kinds, text).sys(sys).start() }
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn until_file(&self, path: &Path, wanted: &str) {
        self.run.until(&format!("{} was {wanted}", path.display()), || first_line(path) == wanted);
    }

    /// Reloads `text` with an additional task, new each time, whose file appears when the reload is complete.
    fn reload(&self, text: String, sign: &Path) {
        let (reads, path) = (self.run.reads(), sign.display());
        let keys = format!("worker = \"b\"\nrate = 100\ninput = 1\npath = \"{path}\"\nsafe = 5\n");
        self.run.reload(format!("{text}[task.sign{reads}]\nkind = \"output\"\n{keys}"));
        self.until_file(sign, "1");
    }

    /// Tries to reload `text`, which is refused.
    fn try_reload(&self, text: String) {
        let reads = self.run.reads();
        self.run.reload(text);
        self.run.until("the reload was tried", || self.run.reads() > reads);
    }

    /// Stops the daemon. Returns each task's name, its number of ticks, and its errors.
    fn stop(self) -> Vec<(String, u64, u64)> {
        self.run.stop();
        let tasks = self.run.end().summary.tasks;
        tasks.iter().map(|task| (task.task.clone(), task.counts.ran, task.errors)).collect()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn first_line(path: &Path) -> String {
    read(path).lines().next().unwrap_or_default().to_owned()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A tree with a fan and a PWM chip.
fn machine(folder: &Path) -> (PathBuf, PathBuf) {
    let (hwmon, pwm) = (folder.join("sys/class/hwmon/hwmon3"), folder.join("sys/class/pwm/pwmchip0"));
    for (file, text) in
        [("name", "fake\n"), ("pwm1", "77\n"), ("pwm1_enable", "2\n"), ("pwm2", "50\n"), ("fan1_target", "900\n")]
    {
        put(&hwmon.join(file), text);
    }
    for (file, text) in [("npwm", "2\n"), ("pwm1/period", "0\n"), ("pwm1/duty_cycle", "0\n"), ("pwm1/enable", "0\n")] {
        put(&pwm.join(file), text);
    }
    (hwmon, pwm)
}

const TERMS: &str = "kind = \"output\"\nrate = 200\nmax-age = \"200ms\"\nrecover-after = \"0s\"\n";

#[test]
fn the_safe_value_is_written_however_the_input_fails_and_at_each_end() {
    let folder = tempfile::tempdir().unwrap();
    let (hwmon, pwm) = machine(folder.path());
    let (file, sys) = (folder.path().join("file"), folder.path().join("sys"));
    let duty = pwm.join("pwm1/duty_cycle");
    let path = file.display();
    let source = "[worker.a]\n[worker.b]\n[task.source]\nkind = \"source\"\nworker = \"a\"\nrate = 200\n";
    let of_file = format!("[task.file]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npath = \"{path}\"\nsafe = 42\n");
    let others = format!(
        "[task.fan]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\nhwmon = \"fake\"\nfile = \"pwm1\"\nsafe = 1.0\n\
         [task.restored]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\nhwmon = \"fake\"\nfile = \"pwm2\"\nsafe = \"restore\"\nlimits = [0, 0.1]\n\
         [task.duty]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npwm = \"pwmchip0\"\nchannel = 1\npwm-period = \"40us\"\nsafe = 0.75\n\
         [task.held]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\nhwmon = \"fake\"\nfile = \"fan1_target\"\nsafe = \"hold\"\nscale = 1000\n"
    );
    let daemon = Daemon::start(&sys, format!("{source}{of_file}{others}"), Mode::Good(f64::NAN));
    // Before any good value has arrived.
    daemon.until_file(&file, "42");
    daemon.until_file(&hwmon.join("pwm1"), "255");
    daemon.until_file(&duty, "30000");
    daemon.until_file(&pwm.join("pwm1/enable"), "1");
    assert_eq!(first_line(&pwm.join("pwm1/period")), "40000");
    let is_live = |value: &str, raw: &str, duty_is: &str| {
        daemon.until_file(&file, value);
        daemon.until_file(&hwmon.join("pwm1"), raw);
        daemon.until_file(&duty, duty_is);
        daemon.until_file(&hwmon.join("pwm2"), "26");
        assert_eq!(first_line(&hwmon.join("pwm1_enable")), "1", "it is set by hand");
    };
    let is_safe = || {
        daemon.until_file(&file, "42");
        daemon.until_file(&hwmon.join("pwm1"), "255");
        daemon.until_file(&hwmon.join("pwm2"), "50");
        daemon.until_file(&duty, "30000");
    };
    for failure in [Mode::Bad, Mode::Fails, Mode::Hangs, Mode::Good(f64::INFINITY)] {
        daemon.set(Mode::Good(0.5));
        is_live("0.5", "128", "20000");
        daemon.set(failure);
        is_safe();
        assert_eq!(first_line(&hwmon.join("fan1_target")), "500", "\"hold\" keeps what was written last");
    }
    daemon.set(Mode::Good(0.25));
    is_live("0.25", "64", "10000");

    // Reloads that keep it, change it, or move it to another worker do not pass through its safe value.
    let over = Arc::new(AtomicBool::new(false));
    let (ended, watched) = (over.clone(), file.clone());
    let watcher = std::thread::spawn(move || {
        let mut seen = 0;
        while !ended.load(Ordering::SeqCst) {
            assert_eq!(first_line(&watched), "0.25");
            seen += 1;
        }
        seen
    });
    let sign = |name: &str| folder.path().join(name);
    daemon.reload(format!("{source}{of_file}{others}"), &sign("kept"));
    let changed = format!("{of_file}slew = 1000\n");
    daemon.reload(format!("{source}{changed}{others}"), &sign("changed"));
    let moved = format!("{changed}\n").replace("worker = \"b\"", "worker = \"a\"");
    daemon.reload(format!("{source}{moved}{others}"), &sign("moved"));
    let renamed = moved.replace("[task.file]", "[task.renamed]");
    daemon.reload(format!("{source}{renamed}{others}"), &sign("renamed"));
    over.store(true, Ordering::SeqCst);
    assert!(watcher.join().unwrap() > 0);
    // A refused reload leaves the running tasks alone.
    let twice = renamed.replace("task.renamed", "task.twice");
    daemon.try_reload(format!("{source}{renamed}{twice}{others}"));
    daemon.set(Mode::Good(0.125));
    daemon.until_file(&file, "0.125");
    // Removed.
    daemon.reload(format!("{source}{others}"), &sign("removed"));
    daemon.until_file(&file, "42");
    daemon.until_file(&hwmon.join("pwm1"), "32");
    // The producer panics, and is disabled.
    daemon.set(Mode::Panics);
    daemon.until_file(&hwmon.join("pwm1"), "255");
    let tasks = daemon.stop();
    assert!(
        tasks.iter().filter(|(name, ..)| name != "source").all(|(_, ran, errors)| *ran > 0 && *errors == 0),
        "{tasks:?}"
    );
    assert_eq!((first_line(&hwmon.join("pwm1")), first_line(&duty)), ("255".into(), "30000".into()));
    assert_eq!((first_line(&sign("removed")), read(&file)), ("5".into(), "42\n".into()));
    assert_eq!((first_line(&hwmon.join("pwm2")), first_line(&pwm.join("pwm1/enable"))), ("50".into(), "1".into()));
}

#[test]
fn what_makes_a_value_effective_is_written_again_where_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (hwmon, pwm) = machine(folder.path());
    put(&hwmon.join("pwm2_enable"), "2\n");
    let [file, held] = ["file", "held"].map(|name| folder.path().join(name));
    let sys = folder.path().join("sys");
    let text = format!(
        "[worker.a]\n[worker.b]\n[task.source]\nkind = \"source\"\nworker = \"a\"\nrate = 200\n\
         [task.fan]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\nhwmon = \"fake\"\nfile = \"pwm1\"\nsafe = 1.0\nwrite = \"always\"\n\
         [task.other]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\nhwmon = \"fake\"\nfile = \"pwm2\"\nsafe = 1.0\n\
         [task.duty]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npwm = \"pwmchip0\"\nchannel = 1\npwm-period = \"40us\"\nsafe = 0.75\nwrite = \"always\"\n\
         [task.file]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npath = \"{}\"\nsafe = 7\nwrite = \"always\"\n\
         [task.held]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npath = \"{}\"\nsafe = 7\nwrite = \"always\"\non-stale = \"hold\"\nhold-max = \"100h\"\n",
        file.display(),
        held.display()
    );
    let daemon = Daemon::start(&sys, text, Mode::Good(0.5));
    daemon.until_file(&held, "0.5");
    let (enable, channel) = (hwmon.join("pwm1_enable"), pwm.join("pwm1"));
    daemon.until_file(&hwmon.join("pwm1"), "128");
    daemon.until_file(&hwmon.join("pwm2"), "128");
    daemon.until_file(&hwmon.join("pwm2_enable"), "1");
    daemon.until_file(&channel.join("duty_cycle"), "20000");
    put(&hwmon.join("pwm2_enable"), "5\n");
    let again = || {
        put(&enable, "5\n");
        put(&channel.join("enable"), "0\n");
        daemon.until_file(&enable, "1");
        daemon.until_file(&channel.join("enable"), "1");
        put(&channel.join("period"), "80000\n");
        daemon.until_file(&channel.join("period"), "40000");
    };
    again();
    assert_eq!(first_line(&hwmon.join("pwm2_enable")), "5", "nobody asked for that one");
    daemon.set(Mode::Bad);
    daemon.until_file(&hwmon.join("pwm1"), "255");
    // The same if only the value was changed.
    for (file, safe) in
        [(&hwmon.join("pwm1"), "255"), (&channel.join("duty_cycle"), "30000"), (&file, "7"), (&held, "0.5")]
    {
        daemon.until_file(file, safe);
        put(file, "3\n");
        daemon.until_file(file, safe);
    }
    // A safe value counts only if it has its effect.
    put(&hwmon.join("pwm1"), "000\n");
    again();
    assert_eq!(first_line(&hwmon.join("pwm1")), "255");
    assert_eq!(first_line(&channel.join("duty_cycle")), "30000");
    assert_eq!(first_line(&hwmon.join("pwm2_enable")), "1", "the safe value was written with it");
    let tasks = daemon.stop();
    assert!(tasks.iter().all(|(name, _, errors)| name == "source" || *errors == 0), "{tasks:?}");
}

#[test]
fn an_output_whose_worker_hangs_before_its_first_tick_is_made_safe() {
    let folder = tempfile::tempdir().unwrap();
    let (hangs, owns) = (folder.path().join("hangs"), folder.path().join("owns"));
    [&hangs, &owns].iter().for_each(|file| fs::write(file, "3\n").unwrap());
    let output = |path: &Path, keys: &str| {
        format!("{TERMS}worker = \"a\"\ninput = \"source.v\"\npath = \"{}\"\nsafe = {keys}\n", path.display())
    };
    let text = format!(
        "[worker.a]\n[task.source]\nkind = \"source\"\nworker = \"a\"\nrate = 200\n[task.hangs]\n{}[task.owns]\n{}",
        output(&hangs, "7\nstart = \"keep\""),
        output(&owns, "\"restore\"")
    );
    let daemon = Daemon::start(&folder.path().join("sys"), text, Mode::Hangs);
    daemon.until_file(&hangs, "7");
    // This target has the safe value from the start: no one has to write it.
    fs::write(&owns, "4\n").unwrap();
    pause(Span::from_millis(500));
    assert_eq!(first_line(&owns), "4");
    daemon.set(Mode::Good(0.5));
    daemon.until_file(&hangs, "0.5");
    daemon.until_file(&owns, "0.5");
    daemon.stop();
}

#[test]
fn an_output_that_is_disabled_or_stopped_leaves_what_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let (hwmon, _) = machine(folder.path());
    let (disabled, kept) = (folder.path().join("disabled"), folder.path().join("kept"));
    fs::write(&disabled, "7\n").unwrap();
    fs::write(&kept, "8.50\n").unwrap();
    // No tick can finish within a nanosecond: the limit of overruns disables it.
    let text = format!(
        "[task.source]\nkind = \"source\"\nrate = 200\n\
         [task.disabled]\n{TERMS}input = \"source.v\"\npath = \"{}\"\nsafe = 6\nstart = \"keep\"\ndeadline = \"1ns\"\noverrun-limit = 20\non-overrun-limit = \"disable\"\n\
         [task.kept]\n{TERMS}input = \"source.v\"\npath = \"{}\"\nsafe = \"restore\"\nstart = \"keep\"\n\
         [task.fan]\n{TERMS}input = \"source.v\"\nhwmon = \"fake\"\nfile = \"pwm1\"\nsafe = \"restore\"\n",
        disabled.display(),
        kept.display()
    );
    let daemon = Daemon::start(&folder.path().join("sys"), text, Mode::Good(0.5));
    daemon.until_file(&kept, "0.5");
    daemon.until_file(&hwmon.join("pwm1_enable"), "1");
    assert_eq!(first_line(&hwmon.join("pwm1")), "128", "the value comes before pwm1_enable");
    // Other tasks continue.
    daemon.until_file(&disabled, "6");
    daemon.set(Mode::Good(0.75));
    daemon.until_file(&kept, "0.75");
    assert_eq!(read(&disabled), "6\n");
    daemon.stop();
    assert_eq!((read(&kept), read(&disabled)), ("8.50\n".into(), "6\n".into()));
    assert_eq!((first_line(&hwmon.join("pwm1")), first_line(&hwmon.join("pwm1_enable"))), ("77".into(), "2".into()));
}

/// A fan is given back to its chip, whichever way it was named first and last.
#[test]
fn a_fan_that_is_named_in_another_way_is_taken_over_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let (hwmon, _) = machine(folder.path());
    let sign = |name: &str| folder.path().join(name);
    let source = "[worker.a]\n[worker.b]\n[task.source]\nkind = \"source\"\nworker = \"a\"\nrate = 200\n";
    let by = |target: &str, keys: &str| {
        format!("{source}[task.fan]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\n{target}\nsafe = \"restore\"\n{keys}")
    };
    let by_path = by(&format!("path = \"{}\"", hwmon.join("pwm1").display()), "scale = 255\n");
    let by_name = by("hwmon = \"fake\"\nfile = \"pwm1\"", "");
    let holds = || (first_line(&hwmon.join("pwm1")), first_line(&hwmon.join("pwm1_enable")));
    for (first, then) in [(&by_path, &by_name), (&by_name, &by_path)] {
        fs::write(hwmon.join("pwm1"), "77\n").unwrap();
        fs::write(hwmon.join("pwm1_enable"), "2\n").unwrap();
        for name in ["renamed", "back"] {
            let _ = fs::remove_file(sign(name));
        }
        let daemon = Daemon::start(&folder.path().join("sys"), first.clone(), Mode::Good(0.5));
        daemon.run.until("it is live", || holds() == ("128".into(), "1".into()));
        daemon.reload(then.clone(), &sign("renamed"));
        daemon.set(Mode::Good(0.25));
        daemon.run.until("it is live again", || holds() == ("64".into(), "1".into()));
        daemon.reload(first.clone(), &sign("back"));
        daemon.reload(source.to_owned(), &sign("removed"));
        daemon.run.until("it is given back", || holds() == ("77".into(), "2".into()));
        daemon.stop();
        fs::remove_file(sign("removed")).unwrap();
    }
}

/// The ending output's safe value would overwrite the value of the output that begins.
#[test]
fn a_part_of_a_target_is_not_taken_over_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let (hwmon, pwm) = machine(folder.path());
    let sign = |name: &str| folder.path().join(name);
    let source = "[worker.a]\n[worker.b]\n[task.source]\nkind = \"source\"\nworker = \"a\"\nrate = 200\n";
    let task = |name: &str, target: &str, keys: &str| {
        format!("[task.{name}]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\n{target}\n{keys}")
    };
    let fan = task("fan", "hwmon = \"fake\"\nfile = \"pwm1\"", "safe = 1\n");
    let duty = task("duty", "pwm = \"pwmchip0\"\nchannel = 1\npwm-period = \"40us\"", "safe = 0.75\n");
    let enable = task("switch", "hwmon = \"fake\"\nfile = \"pwm1_enable\"", "safe = 3\nscale = 6\n");
    let raw = task("raw", &format!("path = \"{}\"", pwm.join("pwm1/duty_cycle").display()), "safe = 7\n");
    let daemon = Daemon::start(&folder.path().join("sys"), format!("{source}{fan}{duty}"), Mode::Good(0.5));
    let (fan_file, duty_file) = (hwmon.join("pwm1"), pwm.join("pwm1/duty_cycle"));
    daemon.until_file(&fan_file, "128");
    daemon.until_file(&duty_file, "20000");
    for other in [&enable, &raw] {
        daemon.try_reload(format!("{source}{other}"));
    }
    // An accepted reload works after the refused ones.
    daemon.reload(format!("{source}{fan}{duty}"), &sign("refused"));
    assert_eq!(
        (first_line(&hwmon.join("pwm1_enable")), first_line(&pwm.join("pwm1/period"))),
        ("1".into(), "40000".into())
    );
    daemon.set(Mode::Good(0.25));
    daemon.until_file(&fan_file, "64");
    daemon.until_file(&duty_file, "10000");
    // In two reloads, one after the other.
    daemon.reload(source.to_owned(), &sign("removed"));
    daemon.until_file(&fan_file, "255");
    daemon.until_file(&duty_file, "30000");
    daemon.reload(format!("{source}{enable}{raw}"), &sign("added"));
    daemon.set(Mode::Good(0.5));
    daemon.until_file(&hwmon.join("pwm1_enable"), "3");
    daemon.until_file(&duty_file, "1");
    daemon.stop();
    assert_eq!((first_line(&hwmon.join("pwm1_enable")), first_line(&duty_file)), ("18".into(), "7".into()));
    assert_eq!(first_line(&fan_file), "255");
}

#[test]
fn a_reader_never_finds_a_regular_file_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let text = format!(
        "[task.source]\nkind = \"source\"\nrate = 2000\n[task.file]\nkind = \"output\"\nrate = 2000\ninput = \"source.v\"\npath = \"{}\"\nsafe = 1\n",
        file.display()
    );
    let daemon = Daemon::start(&folder.path().join("sys"), text, Mode::Counts);
    daemon.until_file(&file, "1");
    let (changes, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut before = String::new();
                while changes.load(Ordering::Relaxed) < 500 {
                    let found = read(&file);
                    // The file is read while it is being written: the part cut off may show as zero bytes, and digits of two numbers may
                    // mix. Yet it is never empty, and it begins with a digit.
                    let is_known = |byte: u8| byte.is_ascii_digit() || byte == b'\n' || byte == 0;
                    assert!(
                        found.starts_with(|c: char| c.is_ascii_digit()) && found.bytes().all(is_known),
                        "{found:?}"
                    );
                    reads.fetch_add(1, Ordering::Relaxed);
                    if found != before {
                        changes.fetch_add(1, Ordering::Relaxed);
                        before = found;
                    }
                    assert!(!daemon.run.has_ended());
                }
            });
        }
    });
    println!("{} reads", reads.load(Ordering::Relaxed));
    daemon.stop();
    assert_eq!(read(&file), "1\n");
}

#[test]
fn what_another_program_has_written_is_gone_with_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let (always, change) = (folder.path().join("always"), folder.path().join("change"));
    let text = |safe: u32| {
        format!(
            "[worker.a]\n[worker.b]\n[task.source]\nkind = \"source\"\nworker = \"a\"\nrate = 200\n\
             [task.always]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npath = \"{}\"\nsafe = 1\nwrite = \"always\"\n\
             [task.change]\n{TERMS}worker = \"b\"\ninput = \"source.v\"\npath = \"{}\"\nsafe = {safe}\n",
            always.display(),
            change.display()
        )
    };
    let daemon = Daemon::start(&folder.path().join("sys"), text(1), Mode::Good(0.5));
    [&always, &change].iter().for_each(|path| daemon.until_file(path, "0.5"));
    [&always, &change].iter().for_each(|path| put(path, "46437.125\n"));
    daemon.run.until("nothing longer is left behind it", || read(&always) == "0.5\n");
    daemon.set(Mode::Good(2.0));
    daemon.run.until("nor there", || read(&change) == "2\n");
    // An output's own target is not refused because of its current content.
    put(&change, "no number\n");
    daemon.reload(text(3), &folder.path().join("sign"));
    daemon.set(Mode::Good(4.0));
    daemon.run.until("it goes on", || read(&change) == "4\n");
    daemon.stop();
    assert_eq!([read(&always), read(&change)], ["1\n", "3\n"]);
}

#[test]
fn one_target_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let (hwmon, _) = machine(folder.path());
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "3\n").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let task = |name: &str, target: &str, safe: &str| {
        format!("[task.{name}]\nkind = \"output\"\nrate = 10\ninput = 0.5\n{target}\nsafe = {safe}\n")
    };
    let by_path = |path: &Path| format!("path = \"{}\"", path.display());
    let fan = "hwmon = \"fake\"\nfile = \"pwm1\"";
    let sys = folder.path().join("sys");
    let embedded = |text: &str| Embedded::of(kinds(&Arc::new(Mutex::new(Mode::Bad))), text).sys(&sys);
    let looked = |text: &str| {
        let (mut blueprints, mut site) = embedded(text).parts();
        let mut looks: Vec<_> = blueprints.iter_mut().map(|blueprint| blueprint.look(&mut site).unwrap()).collect();
        looks.pop().unwrap().map(|preview| preview.safe).map_err(|error| format!("{}: {}", error.key, error.message))
    };
    // The same file by another name, and by the class that it belongs to.
    let twice = task("a", &by_path(&file), "1") + &task("b", &by_path(&link), "2");
    let refused = looked(&twice).unwrap_err();
    assert!(
        refused.starts_with("path: ") && refused.contains("is in use by task a; only one task at a time can have it"),
        "{refused}"
    );
    let twice = task("a", &by_path(&hwmon.join("pwm1")), "1") + &task("b", fan, "1");
    assert!(looked(&twice).unwrap_err().contains("is in use by task a"));
    let started = |text: String| embedded(&text).lasting(Span::from_millis(50)).start();
    let refused = started(twice).refusal();
    assert!(refused.contains("is in use by task a"), "{refused}");
    // Another process has it.
    let lock_of = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        assert!(lock_as_hertzd(&file));
        file
    };
    let lock = lock_of(&file);
    let refused = started(task("a", &by_path(&link), "1")).refusal();
    assert!(refused.contains("is in use by") && refused.contains("only one output at a time can have it"), "{refused}");
    assert_eq!(read(&file), "3\n", "nothing was written");
    drop(lock);
    started(task("a", &by_path(&link), "1")).end();
    assert_eq!(read(&file), "1\n");

    // If another process has a channel, nothing of it is changed, not even its period.
    let pwm = sys.join("class/pwm/pwmchip0/pwm1");
    let files = || ["period", "duty_cycle", "enable"].map(|name| fs::read_to_string(pwm.join(name)).ok());
    let (before, channel) = (files(), "pwm = \"pwmchip0\"\nchannel = 1\npwm-period = \"40us\"");
    for name in ["duty_cycle", "period", "enable"] {
        let _lock = lock_of(&pwm.join(name));
        let refused = started(task("a", channel, "0.25")).refusal();
        assert!(refused.contains(&format!("pwm1/{name} is in use by")), "{refused}");
        assert_eq!(files(), before);
    }
    let _lock = lock_of(&hwmon.join("pwm1_enable"));
    let refused = started(task("a", fan, "1")).refusal();
    assert!(refused.contains("pwm1_enable is in use by"), "{refused}");
    drop(_lock);

    // The files beside a target are part of it.
    for (whole, part) in [
        (fan, "hwmon = \"fake\"\nfile = \"pwm1_enable\"".to_owned()),
        (fan, by_path(&hwmon.join("pwm1_enable"))),
        (channel, by_path(&pwm.join("period"))),
        (channel, by_path(&pwm.join("enable"))),
    ] {
        let both = [task("a", whole, "1"), task("b", &part, "1")];
        for text in [both.concat(), both.iter().rev().map(String::as_str).collect()] {
            let refused = looked(&text).unwrap_err();
            assert!(refused.contains("is in use by task "), "{refused}");
            let refused = started(text).refusal();
            assert!(refused.contains("is in use by task "), "{refused}");
        }
    }
    assert_eq!((files(), read(&hwmon.join("pwm1_enable"))), (before, "2\n".to_owned()));

    // Content that would be lost.
    let text = folder.path().join("notes");
    fs::write(&text, "1 is what it was\n").unwrap();
    let would_lose = task("a", &by_path(&text), "1");
    assert!(looked(&would_lose).unwrap_err().contains("notes holds something else than a number, which would be lost"));
    let refused = started(would_lose).refusal();
    assert!(refused.contains("which would be lost") && read(&text) == "1 is what it was\n", "{refused}");

    // If others could have created the name that is written to, it may be a different file. Elsewhere a second name does not prevent the
    // output.
    let shared = folder.path().join("shared");
    let (twice, again) = (shared.join("twice"), folder.path().join("again"));
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&twice, "1\n").unwrap();
    fs::hard_link(&twice, &again).unwrap();
    looked(&task("a", &by_path(&twice), "1")).unwrap();
    started(task("a", &by_path(&twice), "1")).end();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let wanted = "twice has another name too (a hard link), in a folder that other users may write to";
    assert!(looked(&task("a", &by_path(&twice), "1")).unwrap_err().contains(wanted));
    assert!(started(task("a", &by_path(&twice), "1")).refusal().contains(wanted));
    fs::remove_file(&again).unwrap();
    looked(&task("a", &by_path(&twice), "1")).unwrap();

    // A number at the beginning does not make 13 MB a number.
    let mut large = b"1\n".to_vec();
    large.resize(13 << 20, b' ');
    large.extend(b"the rest");
    fs::write(&text, &large).unwrap();
    let would_lose = task("a", &by_path(&text), "1");
    let wanted = format!("notes holds more than one number ({} bytes), which would be lost", large.len());
    assert!(looked(&would_lose).unwrap_err().contains(&wanted));
    let refused = started(would_lose).refusal();
    assert!(refused.contains(&wanted) && fs::read(&text).unwrap() == large, "{refused}");

    // The preview of the safe state.
    fs::write(hwmon.join("pwm1"), "77\n").unwrap();
    let says = |text: &str| looked(text).unwrap().join("\n");
    let safe = says(&task("a", fan, "0.5"));
    assert!(safe.starts_with("0.5: writes 128 to ") && safe.ends_with("/pwm1, then 1 to pwm1_enable"), "{safe}");
    assert!(says(&task("a", fan, "\"restore\"")).ends_with("now that is 77, then 2 to pwm1_enable"));
    // A read-only mode in which the fan follows its value is not written.
    let mode = |text: &str, mode| {
        let path = hwmon.join("pwm1_enable");
        let allow = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        allow(0o644);
        fs::write(&path, text).unwrap();
        allow(mode);
    };
    mode("1\n", 0o444);
    assert!(says(&task("a", fan, "0.5")).ends_with("/pwm1"));
    started(task("a", fan, "0.5")).end();
    mode("1\n", 0o644);
    assert!(says(&task("a", fan, "0.5")).ends_with(", then 1 to pwm1_enable"));
    mode("2\n", 0o644);
    fs::write(hwmon.join("pwm1"), "77\n").unwrap();
    assert!(says(&task("a", &by_path(&file), "\"hold\"")).contains("keeps what was written last"));
    let duty = says(&task("a", "pwm = \"pwmchip0\"\npwm-period = \"40us\"", "0.25"));
    assert!(duty.starts_with("0.25: writes 10000 to ") && duty.ends_with("pwm0/duty_cycle"), "{duty}");
    assert!(
        looked(&task("a", "pwm = \"pwmchip0\"\nchannel = 2\npwm-period = \"40us\"", "0.25"))
            .unwrap_err()
            .contains("has 2 channels")
    );
    assert!(
        looked(&task("a", &by_path(&folder.path().join("new")), "\"hold\""))
            .unwrap_err()
            .starts_with("safe: there is no file")
    );
    assert!(!folder.path().join("new").exists() && read(&hwmon.join("pwm1")) == "77\n", "a look changes nothing");

    // The program prints it.
    let config = folder.path().join("check.toml");
    fs::write(&config, task("a", &by_path(&link), "2.5")).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_hertzd")).arg("check").arg(&config).output().unwrap();
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success() && text.contains("Safe states:\n  task a: 2.5: writes 2.5 to "), "{text}");
}

/// An output whose tick panics after it has written its value, once this flag is set.
struct Panicking(Box<dyn Task>, Arc<AtomicBool>);

impl Task for Panicking {
    fn columns(&self) -> Vec<Column> {
        self.0.columns()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let done = self.0.tick(tick, values);
        assert!(!self.1.load(Ordering::SeqCst), "the panic that was asked for");
        done
    }

    fn disabled(&mut self) {
        self.0.disabled();
    }

    fn ended(&mut self) {
        self.0.ended();
    }
}

#[test]
fn an_output_whose_own_tick_panics_is_made_safe_at_once_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let sys = folder.path().join("sys");
    let (panics, beside) = (folder.path().join("panics"), folder.path().join("beside"));
    let (mode, asked) = (Arc::new(Mutex::new(Mode::Good(0.5))), Arc::new(AtomicBool::new(false)));
    let (builtin, its_asked) = (Kinds::builtin(), asked.clone());
    let keys = builtin.get("output").unwrap().keys.clone();
    let parse = move |section: &mut Section<'_>| {
        let mut blueprint = (builtin.get("output").unwrap().parse)(section)?;
        let asked = its_asked.clone();
        Some(Blueprint::new(move |site| Ok(blueprint.build(site)?.map(|task| Panicking(task, asked)))))
    };
    let kinds = kinds(&mode).add(Kind::new("panicking", "An output that panics.", keys, parse));
    let output = |name: &str, kind: &str, path: &Path| {
        let terms = TERMS.replace("\"output\"", &format!("\"{kind}\""));
        format!("[task.{name}]\n{terms}input = \"source.v\"\npath = \"{}\"\nsafe = 42\n", path.display())
    };
    let source = "[task.source]\nkind = \"source\"\nrate = 200\n".to_owned();
    let text = source + &output("panics", "panicking", &panics) + &output("beside", "output", &beside);
    let daemon = Daemon::start_with(&sys, kinds, text, mode);
    daemon.until_file(&panics, "0.5");
    daemon.until_file(&beside, "0.5");
    asked.store(true, Ordering::SeqCst);
    daemon.until_file(&panics, "42");
    daemon.set(Mode::Good(0.25));
    daemon.until_file(&beside, "0.25");
    assert_eq!(read(&panics), "42\n");
    // Then a stop, which writes again: others may have written there.
    fs::write(&panics, "7\n").unwrap();
    daemon.stop();
    assert_eq!((read(&panics), read(&beside)), ("42\n".into(), "42\n".into()));
}
