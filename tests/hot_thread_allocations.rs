//! The hot thread allocates nothing: a whole daemon runs in this process with a counting allocator, and a probe task on
//! the worker reads the count at every tick.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

#[cfg(feature = "plugin")]
#[path = "support/plugin/mod.rs"]
mod plugin;
#[path = "support/time.rs"]
mod time;

use hertzd::config::{Blueprint, Kind, Kinds};
use hertzd::internals::{Embedded, Summary};
use hertzd::task::{Column, Task, Tick, TickError};
use hertzd::time::Span;
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use time::pause;

thread_local! {
    // Constant and without a destructor, so counting itself does not allocate.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator; counts the calls of each thread.
struct Counting;

fn count() {
    // Fails only while the thread is being torn down, when the count is no longer read.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is passed on to `System` with its arguments unchanged, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above; `old` came from `System`, as every block here does.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The counts of the probe.
#[derive(Debug, Default)]
struct Seen {
    ticks: AtomicU64,
    calls: AtomicU64, // between its second tick and its last one
}

/// Reads at each tick how often its thread has allocated or freed.
struct Probe {
    seen: Arc<Seen>,
    at_the_second: Option<u64>,
    ticks: u64,
}

impl Task for Probe {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "calls".into(), unit: String::new() }]
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let calls = CALLS.get();
        self.ticks += 1;
        if self.ticks >= 2 {
            let since = calls - *self.at_the_second.get_or_insert(calls);
            self.seen.calls.store(since, Ordering::Relaxed);
            values[0] = f64::from(u32::try_from(since).unwrap_or(u32::MAX));
        }
        self.seen.ticks.store(self.ticks, Ordering::Relaxed);
        Ok(())
    }
}

/// A task that allocates, which no task may do.
struct Allocating;

impl Task for Allocating {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        if tick.n == 50 {
            drop(black_box(vec![0_u8; 64]));
        }
        Ok(())
    }
}

/// Runs `config` with a probe at 1 kHz on its worker; returns the probe's counts and the summaries of the tasks.
fn calls_on_the_hot_thread(config: &str, length: Span) -> (u64, u64, Summary) {
    calls_while(|_| config.to_owned(), Until::Length(length))
}

/// When a run ends.
enum Until {
    /// After this time.
    Length(Span),
    /// After this number of edits and reloads, made at 50 a second or as fast as the machine can.
    Reloads(usize),
}

/// Like [`calls_on_the_hot_thread`], while the configuration is edited: `config(n)` is the text after `n` edits.
fn calls_while(config: impl Fn(usize) -> String, until: Until) -> (u64, u64, Summary) {
    calls_of(|daemon| daemon, config, until)
}

/// Like [`calls_while`], for a daemon with this setup.
fn calls_of(
    set_up: impl Fn(Embedded) -> Embedded,
    config: impl Fn(usize) -> String,
    until: Until,
) -> (u64, u64, Summary) {
    let seen = Arc::new(Seen::default());
    let shared = seen.clone();
    let probe = move || Probe { seen: shared.clone(), at_the_second: None, ticks: 0 };
    let kinds = Kinds::builtin()
        .add(Kind::new("probe", "Counts allocations.", &[], move |_: &mut hertzd::config::Section<'_>| {
            let probe = probe();
            Some(Blueprint::new(move |_| Ok(probe.into())))
        }))
        .add(Kind::new("allocating", "Allocates.", &[], |_: &mut hertzd::config::Section<'_>| {
            Some(Blueprint::new(|_| Ok(Allocating.into())))
        }));
    // With this policy the probe misses no release, no matter how busy the machine is.
    let probe = "kind = \"probe\"\nrate = \"1 kHz\"\noverrun = \"credit\"\nmax-debt = \"1h\"\n";
    let text = |edits: usize| format!("{}\n[task.probe]\n{probe}", config(edits));
    let daemon = set_up(Embedded::of(kinds, text(0)).telling(|| {}));
    let outcome = match until {
        Until::Length(length) => daemon.lasting(length).run(),
        Until::Reloads(reloads) => {
            let daemon = daemon.start();
            // The daemon merges requests that arrive together, so each request waits for the one before. A last request without
            // an edit follows: once it is done, the last edit is in force.
            for done in 1..=reloads + 2 {
                daemon.until("it is read", || daemon.reads() >= done);
                pause(Span::from_millis(20));
                match done < reloads + 2 {
                    true => daemon.reload(text(done.min(reloads))),
                    false => daemon.stop(),
                }
            }
            assert_eq!(daemon.reads(), reloads + 2);
            daemon.end()
        }
    };
    assert_eq!(outcome.fault, None);
    for task in &outcome.summary.tasks {
        assert_eq!(task.counts.ran + task.counts.skipped, task.counts.due, "{}", task.task);
        println!(
            "{}: ran {}, skipped {}, overruns {}",
            task.task, task.counts.ran, task.counts.skipped, task.counts.overruns
        );
    }
    (seen.ticks.load(Ordering::Relaxed), seen.calls.load(Ordering::Relaxed), outcome.summary)
}

#[test]
fn a_full_daemon_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"
        [worker.main]
        spin = "auto"

        [task.busy]
        kind = "load"
        rate = "1 kHz"
        run = "20us"
        budget = "100us"

        [task.failing]
        kind = "load"
        rate = "1 kHz"
        fault = "error"
        fault-every = 10
        overrun = "catch-up"

        [task.long]
        kind = "load"
        rate = "20 Hz"
        run = ["100us", "3ms"]
        deadline = "1ms"
        overrun = "drop"

        [task.loadavg]
        kind = "sensor"
        rate = "1 kHz"
        path = "/proc/loadavg"
        record = "@/loadavg.csv"

        [task.available]
        kind = "sensor"
        rate = "1 kHz"
        path = "/proc/meminfo"
        line = "MemAvailable:"
        record = "@/available.csv"

        [task.output]
        kind = "output"
        rate = "1 kHz"
        input = "available.value"
        scale = 0.001
        path = "@/output"
        safe = 0

    "#;
    let config = config.replace('@', folder.path().to_str().unwrap());
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(&config, Span::from_seconds(2));
    assert_eq!(ticks, 2_000);
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    let task = |name| tasks.iter().find(|task| task.task == name).unwrap();
    // Every code path under test was taken.
    assert!(task("failing").errors > 0);
    assert!(task("long").counts.overruns > 0);
    let applied = &task("output").values["applied"];
    assert!(applied.last.is_some() && task("output").errors == 0, "{applied:?}");
    for name in ["loadavg", "available"] {
        let recorded = task(name).recorded.as_ref().unwrap();
        assert_eq!(recorded.rows + recorded.lost, task(name).counts.ran);
        assert!(recorded.rows > 0);
    }
}

#[test]
fn a_task_that_is_a_program_allocates_nothing() {
    // A program that never answers, and one that ends at once, again and again.
    let process = |name: &str, script: &str| {
        format!(
            "[task.{name}]\nkind = \"process\"\nrate = \"500 Hz\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
             inputs = {{ load = \"loadavg.value\", gain = 2 }}\n[[task.{name}.value]]\nname = \"out\"\n"
        )
    };
    let config = format!(
        "[task.loadavg]\nkind = \"sensor\"\nrate = \"500 Hz\"\npath = \"/proc/loadavg\"\n{}{}",
        process("silent", "exec sleep 1000"),
        process("ending", "exit 3")
    );
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(&config, Span::from_seconds(2));
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    let last =
        |task: &str, value: &str| tasks.iter().find(|other| other.task == task).unwrap().values[value].last.unwrap();
    assert!(last("silent", "missing") > 0.0 && last("ending", "restarts") > 0.0);
}

/// A fake `/sys` with an IIO device and its buffer, and a fake `/dev` with its node.
fn fake_machine(folder: &Path) -> (PathBuf, PathBuf) {
    let (sys, dev) = (folder.join("sys"), folder.join("dev"));
    let device = sys.join("bus/iio/devices/iio:device0");
    for (file, content) in [
        ("name", "imu"),
        ("sampling_frequency", "10"),
        ("in_accel_scale", "0.01"),
        ("buffer/enable", "0"),
        ("buffer/length", "2"),
        ("scan_elements/in_accel_x_en", "0"),
        ("scan_elements/in_accel_x_index", "0"),
        ("scan_elements/in_accel_x_type", "be:s12/16>>4"),
        ("scan_elements/in_timestamp_en", "0"),
        ("scan_elements/in_timestamp_index", "1"),
        ("scan_elements/in_timestamp_type", "le:s64/64>>0"),
    ] {
        let path = device.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::create_dir(&dev).unwrap();
    fs::write(dev.join("iio:device0"), "").unwrap();
    (sys, dev)
}

#[test]
fn sensors_with_several_values_and_buffers_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_, dev) = fake_machine(folder.path());
    let config = r#"
        [task.loadavg]
        kind = "sensor"
        rate = "500 Hz"
        path = "/proc/loadavg"
        [[task.loadavg.value]]
        name = "1 min"
        [[task.loadavg.value]]
        name = "15 min"
        field = 3
        [[task.loadavg.value]]
        path = "@/goes"
        name = "goes"

        [task.published]
        kind = "sensor"
        rate = "500 Hz"
        path = "@/published"
        per-second = true

        [task.imu]
        kind = "sensor"
        rate = "200 Hz"
        iio = "imu"
        buffered = true
        buffer-length = 16
        sampling-frequency = 1000
        record = "@/imu.csv"

        [task.beat]
        kind = "load"
        rate = "500 Hz"
        record = "@/beat.csv"
    "#;
    let config = config.replace('@', folder.path().to_str().unwrap());
    let (goes, recording) = (folder.path().join("goes"), folder.path().join("beat.csv"));
    let published = folder.path().join("published");
    fs::write(&goes, "1\n").unwrap();
    fs::write(&published, "0\n").unwrap();
    let device = std::thread::spawn(move || {
        let rows = || fs::read_to_string(&recording).unwrap_or_default().lines().count();
        // Wait for each effect to be observed: how long it takes depends on the machine.
        let reaches = |wanted: usize, looks: usize| {
            (0..looks).any(|_| {
                pause(Span::from_millis(10));
                rows() >= wanted
            })
        };
        assert!(reaches(20, 1_000), "the daemon does not tick");
        let mut node = fs::OpenOptions::new().append(true).open(dev.join("iio:device0")).unwrap();
        let (mut written, mut gone) = (0, 0);
        for index in 0..1_000_i64 {
            let mut sample = vec![0x12, 0x30, 0, 0, 0, 0, 0, 0];
            sample.extend((index * 1_000_000).to_le_bytes());
            // Sometimes more at a time than the configured length of the kernel's buffer.
            let times = if index % 100 == 0 { 40 } else { 1 };
            node.write_all(&sample.repeat(times)).unwrap();
            written += times;
            pause(Span::from_millis(1));
            if index % 100 == 0 {
                fs::write(published.with_extension("new"), format!("{index}\n")).unwrap();
                fs::rename(published.with_extension("new"), &published).unwrap();
            }
            if index == 50 {
                fs::remove_file(&goes).unwrap();
                gone = rows();
            }
        }
        // Delete a file and restore it two seconds later by the daemon's count, since a file counts as deleted after one
        // second. If the daemon has ended by then, the file is not restored.
        if reaches(gone + 1_000, 300) {
            fs::write(&goes, "2\n").unwrap();
        }
        f64::from(u32::try_from(written).unwrap())
    });
    let length = Until::Length(Span::from_seconds(5));
    let (sys, dev) = (folder.path().join("sys"), folder.path().join("dev"));
    let (ticks, calls, Summary { tasks, .. }) =
        calls_of(|daemon| daemon.sys(&sys).dev(&dev), |_| config.clone(), length);
    let written = device.join().unwrap();
    assert_eq!(ticks, 5_000);
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    let task = |name| tasks.iter().find(|task| task.task == name).unwrap();
    let values = |name| &task(name).values;
    assert!(task("loadavg").errors > 0, "reads failed while the file was missing");
    assert!(values("loadavg")["15 min"].last.is_some());
    assert_eq!(task("published").errors, 0, "a file that is replaced");
    assert!(values("published")["value"].max > Some(0.0));
    let last = |name| values("imu")[name].last.unwrap();
    assert!(last("samples") > 0.0 && last("samples") <= written);
    assert!((last("accel_x") - 2.91).abs() < 1e-9);
    assert!(last("overflows") > 0.0);
}

#[test]
fn setpoints_and_expressions_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..1_000).map(|row| format!("{},{}\n", f64::from(row) / 1e3, row % 7)).collect();
    fs::write(folder.path().join("recipe.csv"), rows).unwrap();
    let config = r#"
        [task.fixed]
        kind = "profile"
        rate = "1 kHz"
        overrun = "credit"
        max-debt = "1h"
        shape = "constant"
        level = 21

        [task.wave]
        kind = "profile"
        rate = "1 kHz"
        overrun = "credit"
        max-debt = "1h"
        shape = "sine"
        amplitude = 1
        frequency = "5 Hz"

        [task.sweep]
        kind = "profile"
        rate = "1 kHz"
        overrun = "credit"
        max-debt = "1h"
        shape = "chirp"
        amplitude = 1
        from-frequency = "1 Hz"
        to-frequency = "100 Hz"
        duration = "300ms"
        end = "repeat"

        [task.recipe]
        kind = "profile"
        rate = "1 kHz"
        overrun = "credit"
        max-debt = "1h"
        shape = "csv"
        file = "@/recipe.csv"
        between = "interpolate"
        end = "repeat"

        [task.mix]
        kind = "expr"
        rate = "1 kHz"
        overrun = "credit"
        max-debt = "1h"
        max-age = "1h"
        inputs = { fixed = "fixed.out", wave = "wave.out", sweep = "sweep.out", recipe = "recipe.out" }

        [[task.mix.value]]
        name = "double"
        expression = "2 * fixed"

        [[task.mix.value]]
        name = "by zero"
        expression = "1 / (fixed - 21)"

        [[task.mix.value]]
        name = "switch"
        expression = "hysteresis(wave, -0.5, 0.5)"

        [[task.mix.value]]
        name = "voted"
        expression = "default(vote(wave, sweep, recipe, double), 0) + changed(wave) + age(wave)"

        [[task.mix.value]]
        name = "long"
        expression = "LONG"
    "#;
    // Enough operands to exceed any fixed room.
    let long = "max(".to_owned() + &"if(sweep > 0.1 or not recipe, recipe * wave ^ 2, fixed), ".repeat(60) + "1)";
    let nested = "(1 + ".repeat(40) + &long + &")".repeat(40);
    let config = config.replace('@', folder.path().to_str().unwrap()).replace("LONG", &nested);
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(&config, Span::from_seconds(2));
    assert_eq!(ticks, 2_000);
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    let task = |name| tasks.iter().find(|task| task.task == name).unwrap();
    assert_eq!(task("mix").errors + task("wave").errors + task("recipe").errors, 0);
    let values = &task("mix").values;
    assert_eq!(values["double"].last, Some(42.0));
    assert_eq!(values["by zero"].last, None);
    assert_eq!((values["switch"].min, values["switch"].max), (Some(0.0), Some(1.0)));
    assert!(values["long"].last >= Some(41.0), "{:?}", values["long"].last);
}

/// A loop that enters and leaves its limits, alarms and the safe state, five times a second.
#[test]
fn a_loop_with_all_that_belongs_to_it_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = r#"
        [task.wave]
        kind = "profile"
        rate = "1 kHz"
        shape = "sine"
        amplitude = 1
        frequency = "5 Hz"

        [task.level]
        kind = "expr"
        rate = "1 kHz"
        max-age = "1h"
        inputs = { wave = "wave.out" }
        expression = "if(wave > 0.9, 1 / (wave - wave), wave)"

        [task.control]
        kind = "pid"
        rate = "1 kHz"
        max-age = "1h"
        input = "level.out"
        setpoint = 0
        kp = 1
        ki = 10
        kd = 0.01
        limits = [-0.5, 0.5]
        anti-windup = "back-calculation"
        tracking-time = "100ms"
        track = { previous = "act.applied", initial = 0 }

        [task.act]
        kind = "output"
        rate = "1 kHz"
        max-age = "1h"
        input = "control.out"
        limits = [-0.4, 0.4]
        slew = 100
        safe = 1
        safe-slew = 100
        safe-after = "1h"
        recover-after = "5ms"
        path = "@/act"

        [task.warn]
        kind = "alarm"
        rate = "1 kHz"
        max-age = "1h"
        input = "act.applied"
        high = 0.3
        low = -0.3
        hysteresis = 0.1

        [task.pulse]
        kind = "heartbeat"
        rate = "1 kHz"
        path = "@/pulse"
    "#
    .to_owned();
    let filters = [
        "type = \"low-pass\"\ncutoff = \"50 Hz\"\norder = 2",
        "type = \"high-pass\"\ncutoff = \"1 Hz\"",
        "type = \"notch\"\nfrequency = \"50 Hz\"",
        "type = \"moving-average\"\nwindow = 21",
        "type = \"median\"\nwindow = 21",
        "type = \"slew-limit\"\nrate-limit = 10",
        "type = \"derivative\"\ntime-constant = \"10ms\"",
        "type = \"integral\"",
    ];
    for (n, keys) in filters.iter().enumerate() {
        config += &format!(
            "[task.filter{n}]\nkind = \"filter\"\nrate = \"1 kHz\"\nmax-age = \"1h\"\ninput = \"level.out\"\n{keys}\n"
        );
    }
    // None misses a release, no matter how busy the machine is.
    let config = config.replace("\"1 kHz\"\n", "\"1 kHz\"\noverrun = \"credit\"\nmax-debt = \"1h\"\n");
    let config = config.replace('@', folder.path().to_str().unwrap());
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(&config, Span::from_seconds(2));
    assert_eq!(ticks, 2_000);
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    // Every code path under test was taken.
    let value = |task: &str, value: &str| {
        let task = tasks.iter().find(|found| found.task == task).unwrap();
        task.values[value].clone()
    };
    let range = |task: &str, name: &str| (value(task, name).min, value(task, name).max);
    assert_eq!(range("control", "saturated"), (Some(-1.0), Some(1.0)));
    assert_eq!(range("act", "is-safe"), (Some(0.0), Some(1.0)));
    assert_eq!(range("warn", "active"), (Some(0.0), Some(1.0)));
    assert_eq!(range("pulse", "beating"), (Some(0.0), Some(1.0)));
    for n in 0..filters.len() {
        let filter = format!("filter{n}");
        assert!(value(&filter, "out").min < value(&filter, "out").max, "{filter}");
    }
}

#[test]
fn replacing_tasks_allocates_nothing() {
    // At every edit one task is kept, one restarts, and one is added or removed; the order changes as well.
    let config = |edit: usize| {
        let edited = format!("[task.edited]\nkind = \"load\"\nrate = {}\n", 50 + edit);
        let stays = "[task.stays]\nkind = \"sensor\"\nrate = 200\npath = \"/proc/loadavg\"\n";
        match edit % 2 {
            0 => format!("{edited}{stays}"),
            _ => format!("{stays}[task.comes]\nkind = \"load\"\nrate = 30\n{edited}"),
        }
    };
    let (ticks, calls, Summary { tasks, .. }) = calls_while(config, Until::Reloads(60));
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks and 60 exchanges");
    let task = |name| tasks.iter().find(|task| task.task == name).unwrap();
    // Only the stop gives up debt, if there is any at that moment.
    assert_eq!(task("probe").counts.ran, ticks, "the probe ran at every tick");
    assert!(task("stays").counts.due >= 200, "60 reloads take 1.2 s: {}", task("stays").counts.due);
    assert_eq!(task("edited").rate, "110/1");
}

#[test]
fn policies_that_carry_debt_allocate_nothing() {
    let config = r#"
        [worker.main]
        spin = "50us"

        [task.delayed]
        kind = "load"
        rate = "1 kHz"
        run = ["50us", "1500us"]
        overrun = "delay"
        phase = "300us"

        [task.credited]
        kind = "load"
        rate = "400 Hz"
        run = ["10us", "10us", "10us", "4ms"]
        overrun = "credit"
        max-debt = "20ms"

        [task.asleep]
        kind = "load"
        rate = "30000/1001"
        mode = "sleep"
        run = "200us"
        fault = "sleep"
        fault-every = 7
        overrun = "delay"
    "#;
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(config, Span::from_seconds(2));
    assert_eq!(ticks, 2_000);
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    assert!(tasks.iter().all(|task| task.counts.ran > 0));
    assert!(tasks.iter().any(|task| task.task == "credited" && task.counts.overruns > 0));
}

/// A present camera is tested with a real driver by tests/system/in-vm/hot-thread.sh, and here if the machine has one.
#[cfg(feature = "video")]
#[test]
fn a_camera_allocates_nothing_present_or_absent() {
    let absent = "[task.absent]\nkind = \"video\"\nrate = 200\ndevice = \"/nonexistent/video\"\nmissing = \"wait\"\n";
    let found = Command::new(env!("CARGO_BIN_EXE_hertzd")).args(["devices", "--json"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    let captures = |device: &&serde_json::Value| {
        device["class"] == "v4l2" && device["needs"] == json!([]) && device["refused"].is_null()
    };
    let camera = found["devices"].as_array().unwrap().iter().find(captures);
    let section = camera.and_then(|camera| camera["section"].as_str()?.split_once('\n'));
    let config = match section {
        Some((_, keys)) => format!("{absent}[task.eye]\n{}", keys.replace("rate = \"30 Hz\"", "rate = 100")),
        None => {
            println!("only of a camera that is not there: this machine has none");
            absent.to_owned()
        }
    };
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(&config, Span::from_seconds(2));
    assert_eq!(ticks, 2_000);
    assert_eq!(calls, 0, "calls of the allocator over {ticks} ticks");
    let task = |name| tasks.iter().find(|task| task.task == name).unwrap();
    assert_eq!(task("absent").errors, task("absent").counts.ran, "each tick fails without the device");
    assert!(section.is_none() || task("eye").errors == 0);
}

#[test]
fn a_task_that_allocates_is_caught() {
    let config =
        "[task.allocating]\nkind = \"allocating\"\nrate = \"1 kHz\"\noverrun = \"credit\"\nmax-debt = \"1h\"\n";
    let (_, calls, _) = calls_on_the_hot_thread(config, Span::from_seconds(1));
    assert_eq!(calls, 2, "one block taken, and one given back");
}

#[cfg(feature = "plugin")]
#[test]
fn the_tick_of_a_plugin_allocates_nothing_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let library = plugin::probe(folder.path());
    let config = format!(
        "[task.source]\nkind = \"sensor\"\nrate = \"1 kHz\"\npath = \"/proc/loadavg\"\n\
         [task.plugin]\nkind = \"plugin\"\nrate = \"1 kHz\"\nlibrary = \"{0}\"\ngain = 1\nin = \"source.value\"\nmode = \"fail\"\nevery = 3\n\
         record = \"{1}/plugin.csv\"\n",
        library.display(),
        folder.path().display()
    );
    let (ticks, calls, Summary { tasks, .. }) = calls_on_the_hot_thread(&config, Span::from_seconds(2));
    assert_eq!((ticks, calls), (2_000, 0));
    let plugin = tasks.iter().find(|task| task.task == "plugin").unwrap();
    assert!(plugin.errors > 0 && plugin.counts.ran > plugin.errors && plugin.values["in"].last.is_some());
}
