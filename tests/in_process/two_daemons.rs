//! Two daemons in one process, with tasks of the same names and outputs to devices of the same names in two file trees: neither sees the other.

use crate::program;
use hertzd::config::{Blueprint, Kind, Kinds, Section};
use hertzd::internals::{Embedded, EmbeddedRun};
use hertzd::task::{Column, Task, Tick, TickError};
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Gives the same two numbers at each tick.
struct Source([f64; 2]);

impl Task for Source {
    fn columns(&self) -> Vec<Column> {
        ["level", "speed"].map(|name| Column { name: name.into(), unit: String::new() }).into()
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values.copy_from_slice(&self.0);
        Ok(())
    }
}

const TASKS: &str = "
[task.source]
kind = \"source\"
rate = 100
[task.loop]
kind = \"pid\"
rate = 100
input = \"source.level\"
setpoint = 10
kp = 1
ki = 0.001
[task.valve]
kind = \"output\"
rate = 100
input = \"loop.out\"
max-age = \"1h\"
safe-after = \"1h\"
recover-after = \"0s\"
path = \"@HERE@/valve\"
safe = 99
[task.fan]
kind = \"output\"
rate = 100
input = \"source.speed\"
max-age = \"1h\"
safe-after = \"1h\"
recover-after = \"0s\"
hwmon = \"fake\"
file = \"pwm1\"
safe = 1.0
[task.slow]
kind = \"alarm\"
rate = 100
input = \"source.speed\"
low = 0.1
[task.pulse]
kind = \"heartbeat\"
rate = 100
path = \"@HERE@/pulse\"
";

struct Running {
    folder: PathBuf,
    daemon: EmbeddedRun,
}

impl Running {
    /// A daemon with these tasks in `folder`; its source gives these numbers.
    fn start(folder: &Path, gives: [f64; 2]) -> Self {
        Self::start_on(folder, gives, "")
    }

    /// Like [`start`](Self::start), with this section for its worker.
    fn start_on(folder: &Path, gives: [f64; 2], worker: &str) -> Self {
        let fan = folder.join("sys/class/hwmon/hwmon3");
        fs::create_dir_all(&fan).unwrap();
        for (file, text) in [("name", "fake\n"), ("pwm1", "77\n"), ("pwm1_enable", "2\n")] {
            fs::write(fan.join(file), text).unwrap();
        }
        let source = move |_: &mut Section<'_>| Some(Blueprint::built(Source(gives)));
        let kinds = Kinds::builtin().add(Kind::new("source", "Gives two numbers.", &[], source));
        let text = worker.to_owned() + &TASKS.replace("@HERE@", folder.to_str().unwrap());
        let daemon = Embedded::of(kinds, text).sys(&folder.join("sys"));
        Self { folder: folder.to_owned(), daemon: daemon.status_socket(&folder.join("s")).start() }
    }

    fn number(&self, file: &str) -> f64 {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(f64::NAN)
    }

    fn until_fan_is(&self, number: f64) {
        self.daemon.until("the fan is set", || self.number("sys/class/hwmon/hwmon3/pwm1") == number);
    }

    /// Waits until the heartbeat switches its line on and off.
    fn until_it_beats(&self) {
        for _ in 0..3 {
            let was = self.number("pulse");
            self.daemon.until("it beats", || self.number("pulse") != was);
        }
    }

    /// The value of a task at its last tick; null: it has none.
    fn value(&self, task: &str, name: &str) -> Value {
        let snapshot = program::snapshot(&self.folder.join("s"));
        let mut tasks = snapshot["tasks"].as_array().into_iter().flatten();
        tasks.find(|it| it["task"] == task).map(|it| it["values"][name]["last"].clone()).unwrap_or_default()
    }

    fn alarms(&self) -> Vec<String> {
        let snapshot = program::snapshot(&self.folder.join("s"));
        let alarms = snapshot["alarms"].as_array().into_iter().flatten();
        alarms.map(|alarm| alarm["level"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn stop(self) {
        self.daemon.stop();
        assert_eq!(self.daemon.end().fault, None);
    }
}

#[test]
fn two_daemons_with_the_same_names_do_not_see_each_other() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let well = Running::start(one.path(), [0.0, 0.5]);
    well.until_fan_is(128.0);
    well.daemon.until("the valve follows", || (10.0..11.0).contains(&well.number("valve")));
    well.until_it_beats();
    // Its controller is at its setpoint, and its fan gets no value.
    let ill = Running::start(other.path(), [10.0, f64::NAN]);
    ill.until_fan_is(255.0);
    ill.daemon.until("its own controller begins at 0", || ill.number("valve") == 0.0);
    ill.daemon.until("its alarm has no good value", || ill.alarms() == ["bad"]);
    assert_eq!(well.alarms(), ["normal"], "there is one of this name in either");
    assert_eq!(ill.value("pulse", "not-live"), Value::from(1.0), "of its own two outputs");
    well.until_it_beats();
    assert_eq!(well.value("pulse", "not-live"), Value::from(0.0), "the other daemon's fan is none of its outputs");
    ill.stop();
    well.until_it_beats();
    assert_eq!(well.number("sys/class/hwmon/hwmon3/pwm1"), 128.0, "it has not ended");
    well.stop();
}

#[test]
fn threads_stay_off_the_cpus_of_pinned_workers_of_every_daemon() {
    let all = program::affinity();
    let Some((pinned, free)) = all.split_last().filter(|(_, free)| !free.is_empty()) else {
        eprintln!("skipped: this process may use one CPU only");
        return;
    };
    let worker = format!("[worker.main]\npolicy = \"other\"\ncpus = [{pinned}]\n");
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = Running::start_on(folders[0].path(), [0.0, 0.5], &worker);
    first.daemon.until("other threads keep off its worker", || program::affinity() == free);
    let second = Running::start_on(folders[1].path(), [0.0, 0.5], &worker);
    let third = Running::start(folders[2].path(), [0.0, 0.5]);
    second.until_fan_is(128.0);
    third.until_fan_is(128.0);
    assert_eq!(program::affinity(), free);
    first.stop();
    assert_eq!(program::affinity(), free, "the second daemon's worker is still there");
    second.stop();
    assert_eq!(program::affinity(), all, "no pinned worker is left");
    third.stop();
}

/// A task whose ticks all fail, and are logged.
struct Fails;

impl Task for Fails {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        Err(TickError::new("as asked"))
    }
}

#[test]
fn a_thread_that_dies_ends_the_run_of_its_own_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let well = Running::start(folder.path(), [0.0, 0.5]);
    well.until_fan_is(128.0);
    for _ in 0..8 {
        let fails = Kinds::builtin().add(Kind::new("fails", "Fails.", &[], |_| Some(Blueprint::built(Fails))));
        // The metrics thread dies while it logs. A daemon runs this long only if another daemon got the report of its thread's death.
        let daemon =
            Embedded::of(fails, "[task.fails]\nkind = \"fails\"\nrate = 100\n").lasting(Span::from_seconds(60));
        let ended = daemon.telling(|| panic!("the log was asked to break")).run();
        let fault = ended.fault.expect("its metrics thread has died");
        let death = "the thread hertzd-metrics panicked at tests/in_process/two_daemons.rs:";
        assert!(fault.contains(death) && fault.contains(": the log was asked to break"), "{fault}");
        well.until_it_beats();
    }
    well.stop();
}
