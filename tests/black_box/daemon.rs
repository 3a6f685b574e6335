//! The program as users and services see it: its output, its exit codes, and what it does when something fails.

use crate::program;
use crate::program::{
    Ended, HERE, HERTZD, count, granted, is_root, nanos, of_ordinary_user, pause, run, run_by, run_in, task,
};
use hertzd::time::Span;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `config` for `length` and asserts success.
fn run_to_success(config: &str, length: &str) -> Ended {
    let ended = run(config, &["--for", length, "--json"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    ended
}

/// Asserts that the run succeeded, and the reason why not all is well; `None`: all is well.
fn assert_reason(ended: &Ended, reason: Option<&str>) {
    assert_eq!(ended.status.code(), Some(reason.is_some().into()), "{}", ended.describe());
    assert_eq!(ended.summary()["reason"].as_str(), reason, "{}", ended.describe());
}

#[test]
fn the_demo_counts_are_exact() {
    let summary = run_to_success(include_str!("../../config/demo.toml"), "5s").summary();
    // 30000/1001 Hz: tick 149 is released at 4.97 s, tick 150 at 5.005 s.
    for (name, due) in [("control", 5_000), ("load", 150), ("memory", 50), ("cpu", 20), ("uptime", 5)] {
        let task = task(&summary, name);
        assert_eq!(count(task, "due"), due, "{name}");
        assert!(count(task, "ran") > 0, "{name}");
        assert_eq!(count(task, "errors"), 0, "{name}");
        assert!(nanos(task, "lateness_ns", "min") >= 0, "{name}: never early");
        assert_eq!(count(&task["lateness_ns"], "count"), due, "{name}: what never ran is late too");
        assert_eq!(count(&task["run_ns"], "count"), count(task, "ran"), "{name}");
    }
    assert_eq!(count(&summary["records"], "dropped"), 0);
    let ran: u64 = summary["tasks"].as_array().unwrap().iter().map(|task| count(task, "ran")).sum();
    assert_eq!(count(&summary["records"], "sent"), ran);
    for (name, value, unit) in
        [("load", "load", ""), ("memory", "available", "MiB"), ("cpu", "user", "s"), ("uptime", "uptime", "s")]
    {
        let value = &task(&summary, name)["values"][value];
        assert_eq!(value["unit"], unit, "{name}");
        assert!(value["min"].as_f64() <= value["last"].as_f64(), "{name}");
        assert!(value["last"].as_f64() <= value["max"].as_f64(), "{name}");
    }
    let (first, last) = (&task(&summary, "uptime")["values"]["uptime"]["min"], task(&summary, "uptime"));
    assert_eq!(last["values"]["uptime"]["max"], last["values"]["uptime"]["last"], "time goes forward from {first}");
}

/// Once an hour, so that a stop must interrupt a long sleep.
const WAITING: &str = "[task.rare]\nkind = \"load\"\nperiod = \"1h\"\nphase = \"59min\"\n";

#[test]
fn a_stop_interrupts_a_long_sleep_and_prints_the_summary() {
    for signal in ["INT", "TERM"] {
        for others in ["", "[task.often]\nkind = \"load\"\nrate = 100\n"] {
            let mut running = run(&format!("{WAITING}{others}"), &["--json"]);
            running.wait_until_granted();
            pause(Span::from_millis(300));
            running.signal(signal);
            let ended = running.wait();
            assert_eq!(ended.status.code(), Some(0), "{signal}: {}", ended.describe());
            let summary = ended.summary();
            assert_eq!(count(task(&summary, "rare"), "due"), 0, "{summary}");
            assert!(others.is_empty() || count(task(&summary, "often"), "due") > 0, "{summary}");
        }
    }
}

/// A separate thread takes signals: the kernel would deliver them to main first, even while main waits for a disk. Signals that hertzd's
/// parent had blocked or ignored, as a shell's `trap '' CHLD` does, still reach it.
#[test]
fn a_signal_reaches_a_thread_that_waits_for_nothing_else() {
    let mut command = Command::new("env");
    command.args(["--block-signal=TERM", "--block-signal=HUP", "--ignore-signal=CHLD", HERTZD]);
    let mut running = run_in(tempfile::tempdir().unwrap(), command, STEADY, &["--json"]);
    running.wait_until_granted();
    let has = |status: &str, mask: &str, signal: u32| {
        let mask = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() >> (signal - 1) & 1 == 1
    };
    let (mut takes, mut others) = (Vec::new(), 0);
    for thread in fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap() {
        let Ok(status) = fs::read_to_string(thread.unwrap().path().join("status")) else { continue };
        let name = status.lines().next().unwrap().trim_start_matches("Name:").trim().to_owned();
        let (int, abort, chld) = (2, 6, 17);
        assert!(!has(&status, "SigIgn:", chld), "{status}");
        assert!(!has(&status, "SigBlk:", abort), "a thread may raise it itself: {status}");
        let blocked = [1, int, 15].map(|signal| has(&status, "SigBlk:", signal));
        match blocked {
            [false, false, false] => takes.push(name),
            blocked => {
                assert_eq!(blocked, [true; 3], "{status}");
                others += 1;
            }
        }
    }
    assert_eq!(takes, ["hertzd-signals"]);
    assert!(others >= 3, "{others}");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
}

#[test]
fn a_run_that_breaks_a_rule_fails_and_one_whose_rule_names_no_task_does_not_begin() {
    let config = "[task.a]\nkind = \"load\"\nrate = 100\n";
    let args = ["--for", "100ms", "--json", "--fail-if"];
    let ended = run(config, &[&args[..], &["any.due == 10"]].concat()).wait();
    assert_reason(&ended, Some("--fail-if 'any.due == 10': a.due is 10"));
    let ended = run(config, &[&args[..], &["a.due != 10"]].concat()).wait();
    assert_reason(&ended, None);
    // Even if no one reads the summary.
    let script = "\"$0\" run \"$1\" --for 100ms --json --fail-if 'any.due == 10' | true; exit ${PIPESTATUS[0]}";
    let output = Command::new("bash").args(["-c", script, HERTZD]).arg(ended.folder.path().join("test.toml")).output();
    assert_eq!(output.unwrap().status.code(), Some(1));
    let ended = run(config, &[&args[..], &["b.due == 10"]].concat()).wait();
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(64), ""), "{}", ended.describe());
    assert!(ended.stderr.contains("there is no task \"b\"; did you mean \"a\"?"), "{}", ended.describe());
}

#[test]
fn without_json_the_summary_is_a_table() {
    let ended = run("[task.a]\nkind = \"load\"\nrate = 100\n", &["--for", "200ms"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let row = ended.stdout.lines().find(|line| line.starts_with("a ")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[..3], ["a", "100", "Hz"], "{}", ended.describe());
    let counts = [cells[3], cells[4]].map(|cell| cell.parse::<u64>().unwrap());
    assert_eq!(counts[0] + counts[1], 20, "met or missed: {}", ended.describe());
}

#[test]
fn a_second_signal_ends_a_stop_that_hangs() {
    let config = "[task.hanging]\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 1\n";
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let args = ["--json", "--stop-timeout", "90s", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), config, &args);
    running.wait_until_granted();
    running.wait_for("its tick hangs", |_| task(&program::snapshot(&socket), "hanging")["state"] == "stalled");
    // The task never returns, so one signal is not enough. More than two are needed only if the kernel merged two.
    while !running.has_ended() {
        running.signal("INT");
        pause(Span::from_millis(500));
    }
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.describe());
    assert_eq!(ended.stdout, "");
}

const STEADY: &str = "[task.steady]\nkind = \"load\"\nrate = 500\n";

#[test]
fn a_panic_ends_only_its_task() {
    let config = format!(
        "[task.panicking]\nkind = \"load\"\nrate = 100\nfault = \"panic\"\nfault-every = 20\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\n{STEADY}"
    );
    let ended = run(&config, &["--for", "1s", "--json"]).wait();
    assert_reason(&ended, Some("task panicking was disabled"));
    let summary = ended.summary();
    let panicking = task(&summary, "panicking");
    assert_eq!((count(panicking, "ran"), count(panicking, "due"), count(panicking, "errors")), (20, 100, 1));
    assert_eq!(panicking["disabled"], true);
    let steady = task(&summary, "steady");
    assert_eq!((count(steady, "due"), count(steady, "errors")), (500, 0));
    assert_eq!(steady["disabled"], false);
    assert!(ended.stderr.contains("the panic that was asked for, in tick 19"), "{}", ended.describe());
    assert!(ended.stderr.contains("panicking"), "{}", ended.describe());
}

#[test]
fn a_panic_honours_on_error() {
    let config = |on_error| {
        format!(
            "[task.panicking]\nkind = \"load\"\nrate = 100\nfault = \"panic\"\nfault-every = 20\n\
             overrun = \"credit\"\nmax-debt = \"1h\"\non-error = \"{on_error}\"\n{STEADY}"
        )
    };
    for (on_error, ran, errors, disabled) in [("continue", 100, 5, false), ("disable", 20, 1, true)] {
        let ended = run(&config(on_error), &["--for", "1s", "--json"]).wait();
        assert_reason(&ended, disabled.then_some("task panicking was disabled"));
        let summary = ended.summary();
        let panicking = task(&summary, "panicking");
        assert_eq!((count(panicking, "ran"), count(panicking, "errors")), (ran, errors), "{on_error}");
        assert_eq!((count(panicking, "due"), &panicking["disabled"]), (100, &disabled.into()), "{on_error}");
        assert_eq!(count(task(&summary, "steady"), "due"), 500, "{on_error}");
        assert!(ended.stderr.contains("the panic that was asked for, in tick 19"), "{}", ended.describe());
    }
    let ended = run(&config("exit"), &["--json"]).wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert_eq!(count(task(&ended.summary(), "panicking"), "ran"), 20);
    assert!(ended.stderr.contains("task panicking ended the run"), "{}", ended.describe());
}

/// Fails in every tenth tick, first in tick 9. No release is given up, so the counts are exact.
fn failing(on_error: &str) -> String {
    format!(
        "[task.failing]\nkind = \"load\"\nrate = 100\nfault = \"error\"\nfault-every = 10\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\non-error = \"{on_error}\"\n{STEADY}"
    )
}

#[test]
fn an_error_is_counted_or_ends_its_task() {
    for (on_error, ran, errors, disabled) in [("continue", 100, 10, false), ("disable", 10, 1, true)] {
        let ended = run(&failing(on_error), &["--for", "1s", "--json"]).wait();
        assert_reason(&ended, disabled.then_some("task failing was disabled"));
        let summary = ended.summary();
        let failing = task(&summary, "failing");
        assert_eq!((count(failing, "ran"), count(failing, "errors")), (ran, errors), "{on_error}");
        assert_eq!((count(failing, "due"), &failing["disabled"]), (100, &disabled.into()), "{on_error}");
        assert_eq!(count(task(&summary, "steady"), "due"), 500, "{on_error}");
        assert!(ended.stderr.contains("the error that was asked for"), "{}", ended.describe());
    }
}

#[test]
fn on_error_exit_ends_the_run_and_prints_the_summary() {
    // Without --for: the run ends by itself.
    let ended = run(&failing("exit"), &["--json"]).wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let summary = ended.summary();
    let failing = task(&summary, "failing");
    assert_eq!((count(failing, "ran"), count(failing, "errors")), (10, 1));
    assert_eq!(failing["disabled"], true);
    assert!(ended.stderr.contains("task failing ended the run"), "{}", ended.describe());
}

/// Overruns at every tick and gives up no release; `keys` are added.
fn overrunning(keys: &str) -> String {
    format!(
        "[task.overrunning]\nkind = \"load\"\nrate = 100\noverrun = \"credit\"\nmax-debt = \"1h\"\n\
         deadline = \"1ms\"\noverrun-limit = 3\noverrun-leak = \"1h\"\n{keys}\n{STEADY}"
    )
}

#[test]
fn the_overrun_limit_ends_only_its_task() {
    let config = overrunning("run = \"2ms\"\non-overrun-limit = \"disable\"");
    let ended = run(&config, &["--for", "1s", "--json"]).wait();
    assert_reason(&ended, Some("task overrunning was disabled"));
    let summary = ended.summary();
    let overrunning = task(&summary, "overrunning");
    assert_eq!((count(overrunning, "ran"), count(overrunning, "overruns")), (4, 4), "one more than the limit");
    assert_eq!((count(overrunning, "errors"), &overrunning["disabled"]), (0, &true.into()));
    assert_eq!((count(overrunning, "due"), count(task(&summary, "steady"), "due")), (100, 500));
    assert!(ended.stderr.contains("too many overruns"), "{}", ended.describe());
}

#[test]
fn the_overrun_limit_counts_failing_ticks_too() {
    let failing = "fault = \"error\"\nfault-every = 1\nfault-run = \"2ms\"\non-overrun-limit = \"exit\"";
    let ended = run(&overrunning(failing), &["--json"]).wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let summary = ended.summary();
    let overrunning = task(&summary, "overrunning");
    assert_eq!((count(overrunning, "ran"), count(overrunning, "errors")), (4, 4));
    assert!(ended.stderr.contains("task overrunning ended the run"), "{}", ended.describe());
}

/// The rows of a recording: tick, instant, lateness and value.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "the last row is whole");
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(rows.next().unwrap(), ["tick", "release_utc", "lateness_ns", "uptime [s]"]);
    rows.collect()
}

/// A rate at which no release is given up.
const ALL_OF_1000: &str = "1000\noverrun = \"credit\"\nmax-debt = \"1h\"";

fn recording(rate: &str) -> String {
    format!(
        "[task.uptime]\nkind = \"sensor\"\nrate = {rate}\npath = \"/proc/uptime\"\nname = \"uptime\"\nunit = \"s\"\n\
         record = \"{HERE}/disk/uptime.csv\"\n"
    )
}

/// A folder that contains a folder `disk`.
fn folder_with_disk() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    (folder, disk)
}

#[test]
fn a_recording_has_a_row_for_every_tick() {
    let (folder, disk) = folder_with_disk();
    let ended = run_in(folder, Command::new(HERTZD), &recording("200"), &["--for", "2s", "--json"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let summary = ended.summary();
    let uptime = task(&summary, "uptime");
    let rows = rows(&disk.join("uptime.csv"));
    assert_eq!(rows.len() as u64, count(uptime, "ran"));
    assert_eq!(count(&uptime["recorded"], "rows"), count(uptime, "ran"));
    assert_eq!(count(&uptime["recorded"], "lost"), 0);

    let ticks: Vec<u64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    assert!(ticks.is_sorted_by(|a, b| a < b) && ticks.iter().all(|&tick| tick < 400), "{ticks:?}");
    let times: Vec<_> = rows.iter().map(|row| humantime::parse_rfc3339(&row[1]).unwrap()).collect();
    assert!(times.is_sorted(), "releases go forward");
    // Releases are recorded in UTC. The offset is read for each batch of rows and UTC is slewed, so no exact equality.
    let apart = times.last().unwrap().duration_since(times[0]).unwrap().as_secs_f64();
    let periods = f64::from(u32::try_from(ticks.last().unwrap() - ticks[0]).unwrap());
    println!("{periods} periods of 5 ms took {apart} s by UTC");
    for row in &rows {
        assert!(row[2].parse::<i64>().unwrap() >= 0, "never early: {row:?}");
        assert!(row[3].parse::<f64>().unwrap() > 0.0, "{row:?}");
    }
}

/// Asserts, for a recording that ran out of space: the file holds as many whole rows as the summary states, the other rows
/// are counted as lost, and the task ran throughout.
fn assert_only_rows_are_lost(ended: &Ended, disk: &Path) {
    let summary = ended.summary();
    let uptime = task(&summary, "uptime");
    let (written, lost) = (count(&uptime["recorded"], "rows"), count(&uptime["recorded"], "lost"));
    assert_reason(ended, Some(&format!("the recording of task uptime lost {lost} rows, blocks or ticks")));
    println!("ran {}, written {written}, lost {lost}", count(uptime, "ran"));
    assert_eq!(rows(&disk.join("uptime.csv")).len() as u64, written);
    assert_eq!(written + lost, count(uptime, "ran"));
    assert!(written > 0 && lost > 0);
    assert_eq!((count(uptime, "due"), count(uptime, "errors")), (2_000, 0));
    assert!(ended.stderr.contains("recording failed; the task continues"), "{}", ended.describe());
}

#[test]
fn a_file_at_its_limit_loses_rows_and_nothing_else() {
    let (folder, disk) = folder_with_disk();
    // A write past the limit fails as on a full disk. A block is 512 or 1,024 bytes: room for at most about 700 rows.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 32; exec \"$@\"", "sh", HERTZD]);
    let ended = run_in(folder, limited, &recording(ALL_OF_1000), &["--for", "2s", "--json"]).wait();
    assert_only_rows_are_lost(&ended, &disk);
}

#[test]
fn a_log_at_its_limit_ends_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let [log, config] = ["log", "config.toml"].map(|name| folder.path().join(name));
    fs::write(&config, "[task.a]\nkind = \"load\"\nrate = 1000\n").unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$@\" 2>\"$0\""]).arg(&log).args([HERTZD, "run"]).arg(&config);
    let ended = limited.args(["--for", "300ms", "--json", "--log-level", "trace"]).output().unwrap();
    // A line for each tick would take much more.
    let length = fs::metadata(&log).unwrap().len();
    assert!(length == 512 || length == 1_024, "{length}");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let summary: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(count(task(&summary, "a"), "due"), 300);
}

/// A tmpfs, unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_loses_rows_and_nothing_else() {
    let (folder, disk) = folder_with_disk();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=16k", "hertzd-test"]).arg(&disk);
    if !is_root() || !mount.output().is_ok_and(|output| output.status.success()) {
        program::skip("mounting a small disk needs root");
        return;
    }
    let _mounted = Mounted(disk.clone());
    let ended = run_in(folder, Command::new(HERTZD), &recording(ALL_OF_1000), &["--for", "2s", "--json"]).wait();
    assert_only_rows_are_lost(&ended, &disk);
}

#[test]
fn a_task_that_cannot_be_built_is_reported_with_its_line() {
    let config = format!(
        "{STEADY}[task.lost]\nkind = \"sensor\"\nrate = 1\npath = \"/proc/no-such-file\"\n\
         [task.elsewhere]\nkind = \"load\"\nrate = 1\nrecord = \"/proc/no-such-folder/x.csv\"\n"
    );
    let ended = run(&config, &["--for", "1s", "--json"]).wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert_eq!(ended.stdout, "");
    for part in ["test.toml:7", "/proc/no-such-file", "test.toml:11", "/proc/no-such-folder/x.csv"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.describe());
    }
}

#[test]
fn an_ordinary_user_sees_what_was_refused() {
    let config = "[worker.main]\npolicy = \"fifo\"\npriority = 80\n[task.a]\nkind = \"load\"\nrate = 500\nworker = \"main\"\n\
                  [worker.other]\n[task.b]\nkind = \"load\"\nrate = 1\nworker = \"other\"\n";
    let args = ["--for", "1s", "--json"];
    let folder = tempfile::tempdir().unwrap();
    let unprivileged = of_ordinary_user(folder.path());
    let running = run_in(folder, unprivileged, config, &args);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let summary = ended.summary();
    assert_eq!(count(task(&summary, "a"), "due"), 500);
    assert_eq!(granted(&summary), "other");
    let refused = summary["workers"][0]["refused"].as_array().unwrap();
    assert!(refused[0].as_str().unwrap().starts_with("fifo priority 80 refused ("), "{refused:?}");
    for part in [
        "main, other: fifo priority 80 refused (Operation not permitted)",
        "rtprio 80",
        "by capabilities of the program's file; see `hertzd doctor`",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.describe());
    }
    assert_eq!(ended.stderr.matches("fifo priority 80 refused").count(), 1, "said once: {}", ended.describe());
    let refusals = ended.stderr.lines().filter(|line| line.contains(" refused ("));
    assert!(refusals.clone().all(|line| line.len() < 360 && !line.contains("unit")), "{}", ended.describe());

    // With require-realtime, nothing starts.
    let folder = tempfile::tempdir().unwrap();
    let config = "[worker.main]\nrequire-realtime = true\n[task.a]\nkind = \"load\"\nrate = 500\n";
    let unprivileged = of_ordinary_user(folder.path());
    let ended = run_in(folder, unprivileged, config, &args).wait();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(77), ""), "{}", ended.describe());
    assert!(ended.stderr.contains("rtprio 80"), "{}", ended.describe());
}

/// Many tasks that log every second.
fn logging_every_second() -> String {
    let task = |n| {
        format!("[task.t{n}]\nkind = \"load\"\nrate = 20\nfault = \"error\"\nfault-every = 1\nbudget = \"1us\"\n\n")
    };
    (0..500).map(task).collect()
}

#[test]
fn a_stalled_log_reader_delays_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    fs::write(&path, logging_every_second()).unwrap();
    for format in ["text", "json"] {
        // A pipe that no one reads is full within a second. The run must still end by itself.
        let child = Command::new(HERTZD)
            .args(["run", "--for", "4s", "--stop-timeout", "60s", "--json", "--log-format", format])
            .arg(&path)
            .stdout(fs::File::create(folder.path().join("stdout")).unwrap())
            .stderr(std::process::Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let stderr = child.stderr.take();
        let status = child.wait().unwrap();
        let read = std::io::read_to_string(stderr.unwrap()).unwrap();
        let summary: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.path().join("stdout")).unwrap()).unwrap();
        if summary["reason"].as_str().is_some_and(|reason| reason.contains("the metrics thread did not answer")) {
            program::emulation::say_skipped("other programs left hertzd too little processor time to sum up");
            continue;
        }
        assert!(status.success() && read.len() > 4_096, "{status}: {} bytes of log: {summary}", read.len());
        for task in summary["tasks"].as_array().unwrap() {
            assert_eq!((count(task, "due"), count(task, "ran") + count(task, "skipped")), (80, 80));
        }
    }
}

#[test]
fn a_policy_changed_from_outside_is_logged_and_shown() {
    let mut running = run("[worker.main]\n[task.a]\nkind = \"load\"\nrate = 100\n", &["--json"]);
    running.wait_until_granted();
    let thread = program::thread_named(running.pid(), "hz-main").unwrap().to_string();
    let demoted = Command::new("chrt").args(["--other", "--pid", "0", &thread]).output();
    if !running.stderr().contains("granted fifo") || !demoted.is_ok_and(|output| output.status.success()) {
        program::skip("no real-time policy was granted, or there is no chrt");
        return;
    }
    running.wait_for("the change is logged", |running| running.stderr().contains("changed from outside"));
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.summary()["workers"][0]["granted"]["policy"], "other", "{}", ended.describe());
}

#[test]
fn a_task_that_hogs_its_cpu_is_named_and_loses_real_time() {
    // With the second limits the kernel would kill it at once.
    for limits in ["300000:60000000", "1000000:1000000"] {
        loses_real_time(limits);
    }
}

fn loses_real_time(limits: &str) {
    let config = "[task.greedy]\nkind = \"load\"\nperiod = \"2s\"\nrun = \"1500ms\"\n";
    let mut command = Command::new("prlimit");
    command.args([&format!("--rttime={limits}"), HERTZD]);
    if !Command::new("prlimit").arg("--version").output().is_ok_and(|output| output.status.success()) {
        program::skip("there is no prlimit here");
        return;
    }
    let mut running = run_by(command, config, &["--json"]);
    running.wait_until_granted();
    if !running.stderr().contains("granted fifo") {
        program::skip("no real-time policy was granted");
        return;
    }
    running.wait_for("it was demoted", |running| running.stderr().contains("runs at normal priority from now on"));
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success(), "{}", ended.describe());
    let named =
        ended.stderr.lines().any(|line| line.contains("greedy: tick ") && line.contains(" has kept its CPU busy"));
    assert!(named, "{}", ended.describe());
    assert_eq!(ended.summary()["workers"][0]["granted"]["policy"], "other");
    let is_lowered = ended.stderr.contains("the soft RLIMIT_RTTIME is 500 ms from now on");
    assert_eq!(is_lowered, limits == "1000000:1000000", "{}", ended.describe());
}

#[test]
fn the_order_of_workers_and_tasks_in_the_file_does_not_matter() {
    // The tasks of a worker are not adjacent, so they are not added in the order of their numbers.
    let tasks = ["one", "two", "two", "one", "two", "one"].into_iter().enumerate();
    let tasks = tasks.map(|(number, worker)| {
        format!("[task.t{number}]\nkind = \"load\"\nworker = \"{worker}\"\nrate = 100\ndeadline = \"1ns\"\n")
    });
    let summary =
        run_to_success(&format!("[worker.one]\n[worker.two]\n{}", tasks.collect::<String>()), "300ms").summary();
    assert_eq!(count(&summary["records"], "dropped"), 0, "{summary}");
    for task in summary["tasks"].as_array().unwrap() {
        assert_eq!(count(&task["run_ns"], "count"), count(task, "ran"), "{task}");
        assert_eq!(count(&task["lateness_ns"], "count"), 30, "{task}");
    }
}

#[test]
fn a_run_given_up_beside_a_hung_tick_says_what_that_tick_held_up_in_its_log_and_in_its_summary() {
    let config = "[task.hanging]\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 10\n\
                  overrun = \"credit\"\nmax-debt = \"1h\"\n\
                  [task.waiting]\nkind = \"load\"\nrate = 1000\n";
    let args = ["--for", "500ms", "--stop-timeout", "200ms", "--json", "--log-format", "json"];
    let holds_up = || {
        let ended = run(config, &args).wait();
        assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
        let summary = ended.summary();
        let entries: Vec<serde_json::Value> =
            ended.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        for name in ["hanging", "waiting"] {
            let task = task(&summary, name);
            let of_task = entries.iter().filter(|entry| entry["task"] == name && entry["causes"].is_string());
            let logged: u64 = of_task.map(|entry| count(entry, "missed")).sum();
            assert_eq!(logged, count(task, "missed"), "{name}: {}", ended.describe());
            assert!(count(task, "missed") > 0, "{name}: {}", ended.describe());
        }
        let waiting = task(&summary, "waiting");
        assert_eq!(waiting["blockers"]["hanging"], waiting["causes"]["blocked"], "{}", ended.describe());
        // From tick 9 of the hanging task at 90 ms to the end.
        let own_debt = &task(&summary, "hanging")["causes"]["own-debt"];
        waiting["causes"]["blocked"].as_u64() >= Some(400) && own_debt.as_u64() > Some(0)
    };
    // The machine may have delayed both before that, and is then blamed; but not each time.
    assert!((0..10).any(|_| holds_up()));
}

#[test]
fn the_last_entry_says_what_became_of_all_releases() {
    let config = "[worker.main]\npolicy = \"other\"\n[task.long]\nkind = \"load\"\nrate = 100\nrun = \"25ms\"\n[task.a]\nkind = \"load\"\nrate = 50\n";
    let ended = run(config, &["--for", "1s", "--json"]).wait();
    let summary = ended.summary();
    let sum = |key: &str| summary["tasks"].as_array().unwrap().iter().map(|task| count(task, key)).sum::<u64>();
    assert!(sum("missed") > 0, "{}", ended.describe());
    let last = ended.stderr.lines().find(|line| line.contains(" stopped: missed ")).unwrap();
    for (field, key) in [("due", "due"), ("met", "met"), ("missed", "missed"), ("ticks", "ran"), ("skipped", "skipped")]
    {
        assert!(last.split_whitespace().any(|word| word == format!("{field}={}", sum(key))), "{last}");
    }
    assert!(last.contains(&format!("stopped: missed {} of {} (", sum("missed"), sum("due"))), "{last}");
}
