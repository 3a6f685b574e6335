//! `hertzd status` for a real daemon: each fault shows while it lasts, with its reason, and as exit code 1.

use crate::program;
use crate::program::{HERE, HERTZD, Running, count, fill, is_root, of_ordinary_user, pause, run_in, status, task};
use hertzd::time::Span;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A worker that needs no privilege, so that nothing else is wrong.
const WORKER: &str = "[worker.main]\npolicy = \"other\"\n";

/// The output of one `hertzd status ARGS`, even if it gives up before an answer arrives.
fn status_once(socket: &Path, args: &[&str]) -> Output {
    Command::new(HERTZD).arg("status").args(args).arg("--socket").arg(socket).output().unwrap()
}

/// A daemon with this configuration; its socket is `s` in its folder.
fn daemon(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("value"), "1\n").unwrap();
    let socket = folder.path().join("s");
    run_in(folder, Command::new(HERTZD), config, &["--status-socket", socket.to_str().unwrap()])
}

/// Waits for a snapshot that `is_wanted`. Asserts that its counts add up, and that the exit code matches `well`.
fn snapshot_with(running: &mut Running, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    running.wait_for(what, |running| {
        let output = status_once(&running.folder().join("s"), &["--json"]);
        let Ok(snapshot) = serde_json::from_slice::<Value>(&output.stdout) else { return false };
        for task in snapshot["tasks"].as_array().unwrap() {
            let sum: u64 = ["met", "missed", "pending"].iter().map(|key| count(task, key)).sum();
            assert_eq!(sum, count(task, "due"), "{task}");
            let causes: u64 = task["causes"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            assert_eq!(causes, count(task, "missed"), "{task}");
            let late = task["lateness_histogram_ns"].as_array().into_iter().flatten();
            let late: u64 = late.filter_map(|pair| pair[1].as_u64()).sum();
            assert_eq!(late, count(&task["lateness_ns"], "count"), "{task}");
            let last = task["last_misses"].as_array().cloned().unwrap_or_default();
            let told: u64 = last.iter().map(|miss| count(miss, "missed")).sum();
            assert!(told <= causes && last.len() <= 8, "{task}");
            assert_eq!(last.first().map(|miss| &miss["cause"]), task.get("last_cause"), "{task}");
        }
        assert_eq!(output.status.code(), Some(i32::from(snapshot["well"] == false)), "{snapshot}");
        assert_eq!(snapshot["reason"].is_string(), snapshot["well"] == false, "{snapshot}");
        found = snapshot;
        is_wanted(&found)
    });
    found
}

fn reason(snapshot: &Value) -> &str {
    snapshot["reason"].as_str().unwrap_or_default()
}

/// Runs `config` until status gives `wanted` as a reason. Returns the task `name` at that time.
fn unwell(config: &str, wanted: &str, name: &str) -> Value {
    let mut running = daemon(&format!("{WORKER}{config}"));
    let snapshot = snapshot_with(&mut running, wanted, |snapshot| reason(snapshot).contains(wanted));
    let output = status(&running.folder().join("s"), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("not well: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    task(&snapshot, name).clone()
}

#[test]
fn a_daemon_that_is_well_is_said_to_be() {
    let mut running = daemon(&format!("{WORKER}[task.steady]\nkind = \"load\"\nrate = 10\nmax-missed = \"100%\"\n"));
    let snapshot = snapshot_with(&mut running, "it has ticked", |snapshot| {
        snapshot["daemon"]["ready"] == true && snapshot["well"] == true
    });
    assert_eq!(task(&snapshot, "steady")["state"], "ticking");
    running.wait_for("its text says so", |running| {
        let output = status(&running.folder().join("s"), &[]);
        assert_eq!(output.status.code(), Some(i32::from(!output.stdout.starts_with(b"well: "))), "{output:?}");
        output.stdout.starts_with(b"well: 1 task on main other; missed ")
    });
}

#[test]
fn a_start_that_is_not_over_says_what_it_waits_for() {
    let far = "[worker.far]\npolicy = \"other\"\n[task.far]\nkind = \"load\"\nworker = \"far\"\nperiod = \"4h\"\nphase = \"2h\"\n";
    let mut running = daemon(&format!(
        "{far}{WORKER}[task.near]\nkind = \"load\"\nworker = \"main\"\nrate = 100\nmax-missed = \"100%\"\n"
    ));
    // hertzd no longer waits for the worker that ticks.
    running.wait_for("only one worker is waited for", |running| {
        let output = status_once(&running.folder().join("s"), &[]);
        output.stdout.starts_with(b"starting: waiting for the first tick on worker far in 7") && output.status.success()
    });

    // A worker without a release during the run has ended, and hertzd no longer waits for it.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let config =
        format!("{far}{WORKER}[task.near]\nkind = \"load\"\nworker = \"main\"\nrate = 100\nmax-missed = \"100%\"\n");
    let args = ["--for", "1h", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), &config, &args);
    running.wait_for("no worker is waited for", |_| status_once(&socket, &[]).stdout.starts_with(b"well: 2 tasks on "));

    // Nor does it wait for any worker once the run must stop.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let config = format!(
        "{WORKER}[task.hanging]\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 1\nmax-missed = \"100%\"\n"
    );
    let args = ["--stop-timeout", "1h", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), &config, &args);
    // Before that tick, a stop would end the run at once. A worker that begins after its first release does not sleep, so `wakes` may stay
    // 0.
    running.wait_for("its first tick hangs", |_| {
        let shown = serde_json::from_slice::<Value>(&status_once(&socket, &["--json"]).stdout).unwrap_or_default();
        shown["tasks"][0]["state"] == "stalled"
    });
    running.signal("TERM");
    let mut stopping = String::new();
    running.wait_for("the stop shows", |_| {
        stopping = String::from_utf8(status_once(&socket, &[]).stdout)
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        stopping.contains("; a stop is under way")
    });
    assert!(!stopping.contains("starting: "), "{stopping}");

    // Nothing is ever written to standard input.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let mut command = Command::new(HERTZD);
    command.args(["run", "-", "--status-socket"]).arg(&socket).stdin(Stdio::piped());
    let mut reading = command.spawn().unwrap();
    let said = || String::from_utf8(status_once(&socket, &[]).stdout).unwrap();
    let text = std::iter::repeat_with(said).take(1_000).find(|text| !text.is_empty());
    reading.kill().unwrap();
    reading.wait().unwrap();
    assert!(text.as_ref().is_some_and(|text| text.starts_with("starting: reading the configuration\n")), "{text:?}");
}

#[test]
fn values_of_a_stalled_worker_are_stale() {
    let sensor =
        format!("[task.temp]\nkind = \"sensor\"\nrate = 100\npath = \"{HERE}/value\"\nmax-file-age = \"off\"\n");
    let hanging = "[task.hanging]\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 20\n";
    let mut running = daemon(&format!("{WORKER}{sensor}{hanging}"));
    let snapshot = snapshot_with(&mut running, "the value is stale", |snapshot| {
        snapshot["tasks"][0]["values"]["value"]["reason"] == "stale" // there are no tasks at first
    });
    let value = &task(&snapshot, "temp")["values"]["value"];
    assert_eq!(
        (&value["quality"], &value["last"], &value["last_good"]),
        (&"bad".into(), &Value::Null, &1.0.into()),
        "{value}"
    );
    let (age, since) = (value["age_ns"].as_i64().unwrap(), value["since_ns"].as_i64().unwrap());
    assert_eq!(age - since, 1_000_000_000, "{value}");
    // The worker is the reason.
    let said = reason(&snapshot);
    assert!(said.starts_with("worker main is stalled: ") && !said.contains("temp.value"), "{said}");
}

#[test]
fn a_bad_value_that_no_task_takes_is_a_reason_and_is_logged() {
    let sensor = "kind = \"sensor\"\nrate = 100\nmax-file-age = \"off\"\n";
    let config = format!(
        "{WORKER}[task.temp]\n{sensor}path = \"{HERE}/value\"\nvalid = [0, 10]\n\
         [task.away]\n{sensor}path = \"{HERE}/away\"\nvalid = [0, 10]\n"
    );
    let folder = tempfile::tempdir().unwrap();
    for name in ["value", "away"] {
        fs::write(folder.path().join(name), "1\n").unwrap();
    }
    let socket = folder.path().join("s");
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), &config, &args);
    snapshot_with(&mut running, "all is well", |snapshot| {
        snapshot["well"] == true && snapshot["tasks"][0]["values"]["value"]["last"] == 1.0
    });
    fs::write(running.folder().join("value"), "16\n").unwrap();
    fs::remove_file(running.folder().join("away")).unwrap();
    snapshot_with(&mut running, "it is a reason", |snapshot| {
        reason(snapshot).contains("value temp.value has been bad for 1")
            && reason(snapshot).contains(": 16 is outside valid 0 to 10")
    });
    // A task that fails speaks for itself.
    let snapshot =
        snapshot_with(&mut running, "the other one fails", |snapshot| reason(snapshot).contains("task away has been "));
    assert!(!reason(&snapshot).contains("away.value"), "{snapshot}");
    running.wait_for("it is logged", |running| {
        running.stderr().lines().any(|line| {
            line.contains("temp: value has been bad for ") && line.contains(": 16 is outside valid 0 to 10")
        })
    });
    fs::write(running.folder().join("value"), "2\n").unwrap();
    running.wait_for("its end is logged", |running| running.stderr().contains("temp: value is good again"));
    snapshot_with(&mut running, "it is no reason", |snapshot| !reason(snapshot).contains("temp.value"));
    assert!(!running.stderr().contains("away: value has been"), "{}", running.stderr());
}

#[test]
fn a_tick_that_does_not_return_shows_with_all_that_it_misses() {
    let config = "[task.hanging]\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 20\n\
                  [task.other]\nkind = \"load\"\nrate = 100\n";
    let mut running = daemon(&format!("{WORKER}{config}"));
    let snapshot = snapshot_with(&mut running, "it is stalled", |snapshot| {
        let reason = reason(snapshot);
        reason.starts_with("worker main is stalled: tick ") && reason.contains(" of task hanging has not returned for ")
    });
    for (name, hangs) in [("hanging", true), ("other", false)] {
        let task = task(&snapshot, name);
        assert_eq!((&task["state"], task["stalled_tick"].is_u64()), (&"stalled".into(), hangs), "{task}");
        assert!(task["state_since_ns"].as_i64() > Some(0), "{task}");
        assert!(count(task, "missed") > 0, "{task}");
    }
    let before = count(task(&snapshot, "hanging"), "missed");
    snapshot_with(&mut running, "more is missed", |now| count(task(now, "hanging"), "missed") > before);

    // A reload waits for that tick.
    let (file, socket) = (running.folder().join("test.toml"), running.folder().join("s"));
    let changed = fs::read_to_string(&file).unwrap() + "budget = \"1ms\"\n";
    fs::write(&file, changed).unwrap();
    running.wait_for("reload says so", |_| {
        let mut reload = Command::new(HERTZD);
        let reload = reload.args(["reload", "--timeout", "300ms", "--socket"]).arg(&socket).output().unwrap();
        let said = String::from_utf8(reload.stderr).unwrap();
        assert_eq!(reload.status.code(), Some(70), "{said}");
        assert!(said.contains("has not reloaded within 300 ms, but still may: not well: "), "{said}");
        // A daemon that had no processor time itself reports the stall only after the tick has run longer.
        said.contains("but still may: not well: worker main is stalled: ")
    });
    let shown = String::from_utf8(status(&socket, &[]).stdout).unwrap();
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains("; a reload is under way"), "{shown}");
}

#[test]
fn a_stop_that_waits_for_a_tick_shows_and_so_does_why_a_task_of_a_worker_that_has_ended_was_disabled() {
    let config = "[worker.one]\npolicy = \"other\"\n[worker.two]\npolicy = \"other\"\n\
                  [task.hanging]\nkind = \"load\"\nworker = \"one\"\nrate = 100\nfault = \"hang\"\nfault-every = 20\n\
                  [task.a]\nkind = \"load\"\nworker = \"two\"\nrate = 100\nfault = \"panic\"\nfault-every = 5\n\
                  [task.steady]\nkind = \"load\"\nworker = \"two\"\nrate = 100\n";
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let args = ["--stop-timeout", "1h", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), config, &args);
    let sentence = |snapshot: &Value| snapshot["daemon"]["sentence"].as_str().unwrap_or_default().to_owned();
    let both = |snapshot: &Value| {
        let reason = reason(snapshot);
        reason.contains(" of task hanging has not returned for ")
            && reason.contains("task a is disabled: a tick panicked")
    };
    let before = snapshot_with(&mut running, "both show", |now| both(now) && task(now, "steady")["state"] == "ticking");
    assert!(!sentence(&before).contains("a stop is under way"), "{before}");
    running.signal("TERM");
    snapshot_with(&mut running, "the stop shows", |now| sentence(now).ends_with("; a stop is under way") && both(now));
    running.wait_for("the delayed stop is logged", |running| running.stderr().contains("stopping: waiting up to"));
    // The causes of its last misses are known at once, not only after the stop.
    let unknown = |now: &Value| task(now, "a")["causes"]["unknown"].as_u64().unwrap_or(0);
    let after = snapshot_with(&mut running, "worker two has ended", |now| {
        task(now, "a")["last_10s"].is_null() && unknown(now) <= unknown(&before) && both(now)
    });
    assert_eq!((&task(&after, "a")["state"], &task(&after, "steady")["state"]), (&"disabled".into(), &"ended".into()));
    let text = String::from_utf8(status(&running.folder().join("s"), &[]).stdout).unwrap();
    assert!(text.contains("\nsteady: ended: its worker has ended\n"), "{text}");
    running.signal("TERM");
    assert_eq!(running.wait().status.code(), Some(143));
}

#[test]
fn a_reader_that_has_gone_makes_no_daemon_well() {
    let mut running =
        daemon(&format!("{WORKER}[task.a]\nkind = \"load\"\nrate = 100\nfault = \"panic\"\n fault-every = 5\n"));
    snapshot_with(&mut running, "it is disabled", |now| reason(now).contains("task a is disabled"));
    for args in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        running.wait_for("an answer", |running| {
            let mut status = Command::new(HERTZD);
            let status = status.arg("status").args(args).arg("--socket").arg(running.folder().join("s"));
            let ended = status.stdout(writer.try_clone().unwrap()).status().unwrap();
            assert!(matches!(ended.code(), Some(1 | 69)), "{args:?}: {ended}");
            ended.code() == Some(1)
        });
    }
}

#[test]
fn a_reader_that_takes_nothing_is_given_up_in_the_time_that_status_has() {
    let mut running = daemon(&format!("{WORKER}[task.a]\nkind = \"load\"\nrate = 100\n"));
    snapshot_with(&mut running, "it runs", |snapshot| snapshot["daemon"]["ready"] == true);
    let (_reader, writer) = std::io::pipe().unwrap();
    fill(&writer);
    running.wait_for("an answer that is not read", |running| {
        let mut status = Command::new(HERTZD);
        let status = status.args(["status", "--socket"]).arg(running.folder().join("s"));
        let output = status.stdout(writer.try_clone().unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let not_read = output.status.code() == Some(70) && said.contains("stdout was not read within 2.00 s");
        assert!(not_read || output.status.code() == Some(69), "{output:?}");
        not_read
    });
}

#[test]
fn only_a_daemon_that_says_so_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    for (args, answer) in [(&[][..], "{}"), (&["--json"], "{}"), (&[], r#"{"daemon":{"pid":1}}"#), (&[], "[]")] {
        // Ask repeatedly: on a busy machine an answer may come too late.
        let output = loop {
            let listener = listener.try_clone().unwrap();
            let answering = std::thread::spawn(move || listener.accept().unwrap().0.write_all(answer.as_bytes()));
            let output = status_once(&socket, args);
            let _ = answering.join().unwrap();
            if output.status.code() != Some(69) {
                break output;
            }
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{answer}: {output:?}");
        assert!(said.contains(socket.to_str().unwrap()) && said.contains("does not say whether all is well"), "{said}");
    }
}

#[test]
fn a_task_that_fails_waits_or_was_disabled_shows_with_the_reason() {
    let panics = "[task.a]\nkind = \"load\"\nrate = 100\nfault = \"panic\"\nfault-every = 5\n";
    let disabled = unwell(panics, "task a is disabled: a tick panicked", "a");
    assert_eq!(disabled["state"], "disabled");
    let fails = "[task.a]\nkind = \"load\"\nrate = 100\nfault = \"error\"\nfault-every = 1\n";
    let failing = unwell(fails, "task a has been failing for ", "a");
    assert_eq!(failing["state"], "failing");
    assert!(count(&failing["last_10s"], "errors") > 0 && failing["state_since_ns"].is_i64(), "{failing}");
}

#[test]
fn a_file_that_was_removed_shows_until_it_is_back() {
    let config = format!(
        "{WORKER}[task.a]\nkind = \"sensor\"\nrate = 20\npath = \"{HERE}/value\"\nmax-file-age = \"off\"\nmax-missed = \"100%\"\n"
    );
    let mut running = daemon(&config);
    snapshot_with(&mut running, "it is well", |snapshot| {
        snapshot["well"] == true && snapshot["daemon"]["ready"] == true
    });
    let value = running.folder().join("value");
    fs::remove_file(&value).unwrap();
    snapshot_with(&mut running, "the file is missed", |gone| {
        let state = task(gone, "a")["state"].as_str();
        matches!(state, Some("failing" | "waiting")) && reason(gone).starts_with("task a has been ")
    });
    snapshot_with(&mut running, "it waits", |snapshot| reason(snapshot).contains("waiting for its device"));
    fs::write(&value, "2\n").unwrap();
    snapshot_with(&mut running, "it is well again", |snapshot| snapshot["well"] == true);
}

#[test]
fn more_missed_releases_than_max_missed_are_a_reason() {
    let config = "[task.fast]\nkind = \"load\"\nrate = 100\nmax-missed = \"10%\"\n\
                  [task.slow]\nkind = \"load\"\nrate = 2\nrun = \"200ms\"\n";
    let fast = unwell(config, " releases in the last 10 s (latest cause: ", "fast");
    assert!(count(&fast["last_10s"], "missed") > 0 && fast["last_cause"].is_string(), "{fast}");
    assert_eq!(fast["max_missed"], 0.1);
}

#[test]
fn a_policy_and_locked_memory_that_were_refused_are_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let (command, socket) = (of_ordinary_user(folder.path()), folder.path().join("s"));
    let config = "[worker.main]\npriority = 7\n[task.a]\nkind = \"load\"\nrate = 10\nmax-missed = \"100%\"\n";
    let mut running = run_in(folder, command, config, &["--status-socket", socket.to_str().unwrap()]);
    let reasons = "worker main runs with policy other instead of fifo 7; the memory is not locked";
    let snapshot = snapshot_with(&mut running, "the reasons", |snapshot| reason(snapshot) == reasons);
    let worker = &snapshot["workers"][0];
    assert_eq!((&worker["asked"]["policy"], &worker["asked"]["priority"]), (&"fifo".into(), &7.into()));
    assert_eq!((&worker["granted"]["policy"], &worker["granted"]["memory_locked"]), (&"other".into(), &false.into()));
}

/// The status of the guard thread, which has safe values written, once that has asked for a priority of `asked`.
fn guard_that_asks(running: &mut Running, asked: u8) -> Value {
    let asks = |snapshot: &Value| snapshot["guard"]["asked"] == json!({"policy": "fifo", "priority": asked});
    let has_asked = |guard: &Value| guard["granted"] == guard["asked"] || guard["refused"][0].is_string();
    let is_there = |snapshot: &Value| asks(snapshot) && has_asked(&snapshot["guard"]);
    snapshot_with(running, "the thread of safe values", is_there)["guard"].clone()
}

const WITH_AN_OUTPUT: &str = "[worker.main]\npriority = 7\n\
    [task.fan]\nkind = \"output\"\nrate = 10\nmax-missed = \"100%\"\ninput = 0\nsafe = 1\npath = \"@HERE@/fan\"\n";

#[test]
fn what_the_thread_of_safe_values_was_refused_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (command, socket) = (of_ordinary_user(folder.path()), folder.path().join("s"));
    let mut running = run_in(folder, command, WITH_AN_OUTPUT, &["--json", "--status-socket", socket.to_str().unwrap()]);
    let guard = guard_that_asks(&mut running, 8);
    assert_eq!(guard["granted"], json!({"policy": "other", "priority": 0}), "{guard}");
    let refused = guard["refused"][0].as_str().unwrap();
    assert!(refused.starts_with("fifo priority 8 refused (") && refused.contains("safe values"), "{refused}");
    let text = status_once(&socket, &[]).stdout;
    let text = String::from_utf8(text).unwrap().replace("\n  ", " ");
    assert!(text.contains(&format!("thread of safe values: other (asked for fifo 8): {refused}")), "{text}");
    running.signal("TERM");
    assert_eq!(running.wait().summary()["guard"], guard, "as the last snapshot");
}

#[test]
fn the_thread_of_safe_values_stays_above_workers_that_a_reload_raises() {
    let mut running = daemon(WITH_AN_OUTPUT);
    guard_that_asks(&mut running, 8);
    let config = WITH_AN_OUTPUT.replace("priority = 7", "priority = 20");
    let path = running.folder().join("test.toml");
    fs::write(&path, config.replace(HERE, running.folder().to_str().unwrap())).unwrap();
    running.signal("HUP");
    guard_that_asks(&mut running, 21);
    let none = WITH_AN_OUTPUT.replace("kind = \"output\"", "kind = \"load\"");
    let none = none.replace("input = 0\nsafe = 1\npath = \"@HERE@/fan\"\n", "");
    let mut without = daemon(&none);
    let well = snapshot_with(&mut without, "it is ready", |snapshot| snapshot["daemon"]["ready"] == true);
    assert!(well["guard"].is_null(), "without outputs there is none: {well}");
}

#[test]
fn a_recording_that_lost_rows_is_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, socket) = (folder.path().join("disk"), folder.path().join("s"));
    fs::create_dir(&disk).unwrap();
    let mut command = Command::new("sh");
    // As root, in a mount namespace that ends with it. For other users, a file size limit, beyond which a write fails alike.
    if is_root() {
        let there =
            Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "hertzd-test"]).arg(&disk).output();
        if !there.is_ok_and(|output| output.status.success()) {
            program::skip("mounting a small disk needs root with all capabilities");
            return;
        }
        let mount = "mount -t tmpfs -o size=16k hertzd-test \"$0\" && exec \"$@\"";
        command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", mount]).arg(&disk);
    } else {
        command.args(["-c", "ulimit -f 32; exec \"$@\"", "sh"]);
    }
    command.arg(HERTZD);
    let config = format!(
        "{WORKER}[task.a]\nkind = \"sensor\"\nrate = 1000\npath = \"/proc/uptime\"\nmax-missed = \"100%\"\n\
         record = \"{HERE}/disk/a.csv\"\n"
    );
    let mut running = run_in(folder, command, &config, &["--status-socket", socket.to_str().unwrap()]);
    let words = "the recording of task a has lost ";
    let lost = snapshot_with(&mut running, "rows are lost", |snapshot| {
        reason(snapshot).contains(words) && task(snapshot, "a")["state"] == "ticking"
    });
    assert!(count(&task(&lost, "a")["recorded"], "lost") > 0, "{lost}");
}

/// Lines without room are dropped, so that the metrics thread continues.
#[test]
fn a_log_that_no_one_reads_is_no_reason_and_makes_no_count_old() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, socket) = (folder.path().join("log"), folder.path().join("s"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Open for both, so that neither side waits for the other.
    let log = File::options().read(true).write(true).open(&fifo).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>\"$0\""]).arg(&fifo).arg(HERTZD);
    let config = format!("{WORKER}[task.a]\nkind = \"load\"\nrate = 1000\nmax-missed = \"100%\"\n");
    let args = ["--log-level", "trace", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, command, &config, &args);
    let counted = |snapshot: &Value| count(&task(snapshot, "a")["lateness_ns"], "count");
    snapshot_with(&mut running, "it runs", |snapshot| snapshot["daemon"]["ready"] == true);
    fill(&log);
    let full = snapshot_with(&mut running, "it answers", |snapshot| snapshot["well"] == true);
    snapshot_with(&mut running, "it counts on", |later| {
        counted(later) > counted(&full) + 1_000 && later["daemon"]["stale_ns"].is_null() && later["well"] == true
    });
    assert!(!fill(&log), "it was still full");
}

#[test]
fn no_answer_is_exit_code_69_and_says_what_was_tried() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    // If the machine delays the command itself, it reports how far it got: then ask again.
    let says = |socket: &Path, wanted: &dyn Fn(&str) -> bool| {
        let mut said = String::new();
        for _ in 0..20 {
            let output = status_once(socket, &[]);
            assert_eq!(output.status.code(), Some(69), "{output:?}");
            said = String::from_utf8(output.stderr).unwrap();
            if wanted(&said) {
                return said;
            }
        }
        panic!("{said}");
    };
    let shown = socket.to_str().unwrap();
    says(&socket, &|none| none.contains(shown) && none.contains("hertzd run --status-socket"));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    says(&file, &|no_socket| no_socket.contains("it is no socket") && !no_socket.contains("hertzd run"));
    let _silent = UnixListener::bind(&socket).unwrap();
    let nothing = format!("process {} listens there and has sent nothing for 1.", std::process::id());
    says(&socket, &|silent| silent.contains(&nothing));

    // A socket whose answer never ends, though each byte comes soon.
    let dripping = folder.path().join("dripping");
    let listener = UnixListener::bind(&dripping).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while stream.write_all(b"{").is_ok() {
                pause(Span::from_millis(100));
            }
        }
    });
    let endless = says(&dripping, &|endless| {
        let bytes = endless
            .split_once("only ")
            .and_then(|(_, rest)| rest.split_once(" bytes came within 1.7 s; the daemon or"));
        bytes.is_some_and(|(bytes, _)| (1..=20).contains(&bytes.parse().unwrap_or(0)))
    });
    assert!(!endless.contains("no daemon answers") && !endless.contains("SIGSTOP"), "{endless}");

    // A socket that stops in the middle of its answer.
    let broken = folder.path().join("broken");
    let listener = UnixListener::bind(&broken).unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(&[b' '; 100_000]);
            kept.push(stream);
        }
    });
    says(&broken, &|part| part.contains("only 100000 bytes came within 1.") && part.contains("is slow; try again"));

    let mut running = daemon(&format!("{WORKER}[task.a]\nkind = \"load\"\nrate = 10\n"));
    snapshot_with(&mut running, "it runs", |snapshot| snapshot["daemon"]["ready"] == true);
    running.signal("STOP");
    let process = format!("process {}", running.pid());
    says(&running.folder().join("s"), &|stopped| stopped.contains(&process) && stopped.contains("SIGSTOP"));
    running.signal("CONT");
}

/// Every form of text that a terminal would take for a command.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}8m\r\u{7f}\u{202e}";

fn commands_a_terminal(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}'
}

fn assert_harmless(what: &str, output: &Output) {
    let text = [&*output.stdout, &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(!text.contains(commands_a_terminal), "{what}: {text:?}");
    // clap removes from its own messages whatever looks like a command.
    assert!(text.contains("owned") || text.starts_with("error: "), "{what} shows it: {text:?}");
}

#[test]
fn what_answers_at_the_socket_commands_no_terminal() {
    let full = json!({
        "well": false,
        "daemon": {"sentence": HOSTILE, "pid": 1, "version": HOSTILE, "last_reload": HOSTILE},
        "workers": [{"worker": HOSTILE, "sentence": HOSTILE}],
        "tasks": [{"task": HOSTILE, "sentence": HOSTILE, "latest_error": HOSTILE}],
    });
    for answer in [full, json!({"error": HOSTILE, "daemon": {"sentence": ""}})] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(answer.to_string().as_bytes());
            }
        });
        for args in [&["status"][..], &["top", "--once"]] {
            let output = Command::new(HERTZD).args(args).arg("--socket").arg(&path).output().unwrap();
            let is_text = args[0] == "status";
            let text = [&*output.stdout, &output.stderr].map(String::from_utf8_lossy).concat();
            assert!(!text.contains(commands_a_terminal), "{args:?}: {text:?}");
            assert!(text.contains("owned") || !is_text, "{args:?} shows it: {text:?}");
        }
    }
}

#[test]
fn names_from_a_configuration_or_a_command_line_command_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let escaped = HOSTILE.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<String>();
    let config = folder.path().join("test.toml");
    fs::write(&config, format!("[task.a]\nkind = \"sensor\"\nrate = 1\npath = \"/nowhere/{escaped}\"\n")).unwrap();
    let hertzd = |args: &[&str]| Command::new(HERTZD).args(args).current_dir(folder.path()).output().unwrap();
    let name = config.to_str().unwrap();
    for args in [
        &["check", name][..],
        &["run", name, "--for", "1s"],
        &["report", HOSTILE],
        &["trace", HOSTILE],
        &[HOSTILE],
        &["run", "--for", HOSTILE],
    ] {
        assert_harmless(&args.join(" "), &hertzd(args));
    }
    // The table at the end of a run.
    let recorded = format!(
        "{WORKER}[task.a]\nkind = \"sensor\"\nrate = 100\npath = \"/proc/uptime\"\nrecord = \"{escaped}.csv\"\n"
    );
    fs::write(folder.path().join("recorded.toml"), recorded).unwrap();
    let table = hertzd(&["run", "recorded.toml", "--for", "100ms", "--log-level", "error"]);
    assert_harmless("run", &Output { stderr: Vec::new(), ..table });
    // A plan of safe values contains text of another user.
    let write =
        json!({"to": "file", "path": format!("/nowhere/{HOSTILE}"), "witness": null, "text": HOSTILE, "cut": false});
    let plan = json!({"version": 1, "pid": 1, "outputs": [{"task": "a", "writes": [write]}]});
    fs::write(folder.path().join("plan.json"), plan.to_string()).unwrap();
    assert_harmless("safe", &hertzd(&["safe", "--plan", "plan.json"]));
    assert_harmless("safe --dry-run", &hertzd(&["safe", "--plan", "plan.json", "--dry-run"]));
    let summary = hertzd(&["run", "--for", "100ms", "--json", "--log-level", "error"]);
    let file = format!("{HOSTILE}.json");
    fs::write(folder.path().join(&file), &summary.stdout).unwrap();
    assert_harmless("report", &hertzd(&["report", &file, "-o", &format!("{HOSTILE}.html")]));
}

#[test]
fn what_a_task_misses_that_never_runs_is_in_the_log_and_in_the_status_while_it_waits() {
    let config = format!(
        "{WORKER}[task.first]\nkind = \"load\"\nmode = \"sleep\"\nrate = 20\nrun = \"60ms\"\ndeadline = \"10ms\"\n\
         [task.never]\nkind = \"load\"\nrate = 20\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let args = ["--status-socket", socket.to_str().unwrap(), "--json"];
    let mut running = run_in(folder, Command::new(HERTZD), &config, &args);
    let snapshot = snapshot_with(&mut running, "it is known who blocks it", |snapshot| {
        let never = &snapshot["tasks"][1];
        never["causes"]["blocked"].as_u64() > Some(10) && never["blockers"]["first"].as_u64() > Some(10)
    });
    assert_eq!(count(task(&snapshot, "never"), "ran"), 0, "{snapshot}");
    running.wait_for("the log says so", |running| {
        running.stderr().lines().any(|line| line.contains(" never: missed ") && line.contains(" blocked by first"))
    });
    running.signal("TERM");
    let ended = running.wait();
    let summary = ended.summary();
    let never = task(&summary, "never");
    let entries = ended.stderr.lines().filter_map(|line| line.split_once(" never: missed ")?.1.split_once(' '));
    let logged: u64 = entries.map(|(count, _)| count.parse::<u64>().unwrap()).sum();
    assert_eq!((count(never, "ran"), logged), (0, count(never, "missed")), "{}", ended.describe());
    assert_eq!(count(&never["lateness_ns"], "count"), count(never, "skipped"), "{}", ended.describe());
}
