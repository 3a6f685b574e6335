//! Reloads of the real program: unchanged tasks are not affected, a faulty configuration changes nothing, and the status shows what
//! happened.

use crate::program;
use crate::program::{HERTZD, Running, run};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, Output, Stdio};

/// Two tasks; the second has this rate.
fn config(rate: u32) -> String {
    format!(
        "[task.steady]\nkind = \"sensor\"\nrate = \"1 kHz\"\npath = \"/proc/loadavg\"\nrecord = \"@HERE@/steady.csv\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\n\
         [task.edited]\nkind = \"load\"\nrate = {rate}\n"
    )
}

/// A running program with a status socket in its folder.
fn run_with_socket(config: &str, args: &[&str]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let mut all = vec!["--status-socket", socket.to_str().unwrap()];
    all.extend(args);
    let mut running = program::run_in(folder, Command::new(HERTZD), config, &all);
    running.wait_until_granted();
    running
}

/// `hertzd COMMAND --socket SOCKET`.
fn run_client(running: &Running, args: &[&str]) -> Output {
    let socket = running.folder().join("status.sock");
    let config = running.folder().join("test.toml");
    let args = args.iter().map(|arg| if *arg == "CONFIG" { config.to_str().unwrap() } else { arg });
    Command::new(HERTZD).args(args).arg("--socket").arg(socket).output().unwrap()
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

fn edit(running: &Running, config: &str) {
    let text = config.replace(program::HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), text).unwrap();
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_reload_that_is_asked_for_before_anything_was_read_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", program::preload(folder.path(), "early_signal"));
    let mut running = program::run_in(folder, command, &config(50), &["--json"]);
    running.wait_for("it has reloaded", |running| running.stderr().contains("reloaded"));
    // The client no longer waits.
    let thread = program::thread_named(running.pid(), "hertzd-signals").unwrap();
    let status = fs::read_to_string(format!("/proc/{}/task/{thread}/status", running.pid())).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    assert_eq!(blocked.trim().trim_start_matches('0'), "", "{status}");
    running.signal("TERM");
    running.wait().assert_no_fault();
}

#[test]
fn a_file_that_a_task_was_built_from_is_read_again_where_it_has_changed() {
    let config = "[task.course]\nkind = \"profile\"\nrate = 100\nshape = \"csv\"\nfile = \"@HERE@/course.csv\"\n\
                  [task.steady]\nkind = \"load\"\nrate = 100\n";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("course.csv"), "0,1\n").unwrap();
    let socket = folder.path().join("status.sock");
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = program::run_in(folder, Command::new(HERTZD), config, &args);
    running.wait_until_granted();
    let value = |running: &Running| snapshot(running)["tasks"][0]["values"]["out"]["last"].as_f64();
    running.wait_for("its first value", |running| value(running) == Some(1.0));
    let said = |running: &Running| {
        let output = run_client(running, &["check", "CONFIG", "--against-running"]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!said(&running).contains("restarts"), "{}", said(&running));
    fs::write(running.folder().join("course.csv"), "0,2.5\n").unwrap();
    assert!(said(&running).contains("restarts"), "{}", said(&running));
    assert!(run_client(&running, &["reload"]).status.success());
    running.wait_for("the value of the new file", |running| value(running) == Some(2.5));
    assert!(running.stderr().contains("tasks: 1 kept, 1 restarted"), "{}", running.stderr());
    running.signal("TERM");
    running.wait().assert_no_fault();
}

#[test]
fn unchanged_tasks_miss_nothing() {
    let running = run_with_socket(&config(50), &["--json"]);
    for rate in 51..81 {
        edit(&running, &config(rate));
        let output = run_client(&running, &["reload"]);
        assert!(output.status.success(), "{output:?}");
    }
    let seen = snapshot(&running);
    assert_eq!((&seen["daemon"]["reloads"], &seen["daemon"]["reloads_refused"]), (&30.into(), &0.into()));
    assert_eq!(seen["tasks"][1]["rate"], "80/1");
    // With this much credit the task skips nothing by itself, even on a slow machine: a missing release was lost by a reload.
    assert_eq!(seen["tasks"][0]["skipped"], 0, "{seen}");
    running.signal("TERM");
    let ended = running.wait();
    ended.assert_no_fault();
    let summary = ended.summary();
    let steady = &summary["tasks"][0];
    // Only the stop gives up debt, if there is any then. No row is missing except those that a slow disk or a busy machine lost, and these
    // are counted.
    let rows = fs::read_to_string(ended.folder.path().join("steady.csv")).unwrap();
    let ticks: Vec<u64> = rows.lines().skip(1).map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    let (ran, lost) = (program::count(steady, "ran"), lost(&summary));
    assert!(ticks.is_sorted_by(|a, b| a < b) && ticks.iter().all(|tick| *tick < ran), "{summary}");
    assert_eq!(ticks.len() as u64 + lost, ran, "the index has no gap that is not counted: {summary}");
}

/// The loss of a recording, as the status shows it.
fn lost(seen: &Value) -> u64 {
    seen["tasks"][0]["recorded"]["lost"].as_u64().unwrap_or(0)
}

/// Deletes the file while it is being written, and returns the status that reports it.
fn lose_rows(running: &mut Running, file: &str) -> Value {
    running.wait_for("rows are written", |running| {
        snapshot(running)["tasks"][0]["recorded"]["rows"].as_u64().is_some_and(|rows| rows > 0)
    });
    fs::remove_file(running.folder().join(file)).unwrap();
    running.wait_for("the loss is noticed", |running| lost(&snapshot(running)) > 0);
    snapshot(running)
}

#[test]
fn what_a_recording_lost_is_told_after_a_reload_that_restarts_it() {
    let config = "[task.load]\nkind = \"load\"\nrate = 100\nrecord = \"@HERE@/del.csv\"\n";
    let mut running = run_with_socket(config, &["--json", "--fail-if", "load.recorded.lost > 0"]);
    let before = lost(&lose_rows(&mut running, "del.csv"));
    for rate in [101, 102] {
        edit(&running, &config.replace("100", &rate.to_string()));
        assert!(run_client(&running, &["reload"]).status.success());
        let wanted = format!("{rate}/1");
        let restarted = |running: &Running| {
            let seen = snapshot(running);
            // The loss is never forgotten. Until the new recording begins, it belongs to the one that the reload ended.
            let of_ended = seen["recordings_ended"][0]["lost"].as_u64().unwrap_or(0);
            assert!(seen["well"] == false && lost(&seen).max(of_ended) >= before, "{seen}");
            let recorded = &seen["tasks"][0]["recorded"];
            let is_new = seen["tasks"][0]["rate"] == wanted.as_str() && recorded["rows"].as_u64() > Some(0);
            is_new && recorded["lost_before_reload"].as_u64() >= Some(before)
        };
        running.wait_for("it is recorded again", restarted);
    }
    running.wait_for("the sentence says so", |running| {
        let sentence = &snapshot(running)["daemon"]["sentence"];
        sentence.as_str().unwrap().contains("the recording of task load has lost")
    });
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("load: its recording lost"), "{}", ended.stderr);
    let broken = ended.stderr.contains("--fail-if 'load.recorded.lost > 0': load.recorded.lost is");
    assert!(broken, "{}", ended.stderr);
    let summary = ended.summary();
    assert!(lost(&summary) >= before && summary["well"] == false, "{summary}");
}

#[test]
fn what_a_recording_lost_is_told_after_a_reload_that_ends_it() {
    let kept = "[task.kept]\nkind = \"load\"\nrate = 10\n";
    let recorded = "[task.gone]\nkind = \"load\"\nrate = 100\nrecord = \"@HERE@/del.csv\"\n";
    for stays in [String::new(), recorded.lines().take(3).collect::<Vec<_>>().join("\n")] {
        let mut running = run_with_socket(&format!("{recorded}{kept}"), &["--json"]);
        let before = lost(&lose_rows(&mut running, "del.csv"));
        edit(&running, &format!("{stays}\n{kept}"));
        assert!(run_client(&running, &["reload"]).status.success());
        let seen = snapshot(&running);
        let ended = &seen["recordings_ended"][0];
        assert!(ended["task"] == "gone" && ended["lost"].as_u64() >= Some(before), "{seen}");
        assert!(ended["path"].as_str().unwrap().ends_with("/del.csv") && seen["well"] == false, "{seen}");
        let sentence = seen["daemon"]["sentence"].as_str().unwrap();
        assert!(sentence.contains("the recording of task gone, which a reload ended, has lost"), "{sentence}");
        running.signal("TERM");
        let ended = running.wait();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        let summary = ended.summary();
        assert!(summary["recordings_ended"][0]["lost"].as_u64() >= Some(before), "{summary}");
        assert!(summary["reason"].as_str().unwrap().contains("task gone, which a reload ended, lost"), "{summary}");
    }
}

#[test]
fn a_faulty_file_changes_nothing_and_is_reported() {
    let running = run_with_socket(&config(50), &["--json"]);
    edit(&running, &config(60).replace("rate = 60", "rat = 60"));
    let output = run_client(&running, &["reload"]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("test.toml:10:1") && text.contains("`rate`"), "{text}");
    assert_eq!(run_client(&running, &["check", "CONFIG", "--against-running"]).status.code(), Some(78));

    // A valid file with a task that cannot be built.
    edit(&running, &config(60).replace("/proc/loadavg", "/proc/nothing-like-it"));
    let output = run_client(&running, &["reload"]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");

    let seen = snapshot(&running);
    assert_eq!((&seen["daemon"]["reloads_refused"], &seen["tasks"][1]["rate"]), (&2.into(), &"50/1".into()));
    running.signal("TERM");
    let ended = running.wait();
    ended.assert_no_fault();
    assert_eq!(ended.summary()["tasks"][1]["rate"], "50/1");
}

#[test]
fn check_against_running_shows_what_a_reload_would_do() {
    let old = "[worker.one]\n[worker.two]\npolicy = \"other\"\n\
               [task.kept]\nkind = \"load\"\nworker = \"one\"\nrate = 100\n\
               [task.gone]\nkind = \"load\"\nworker = \"one\"\nrate = 100\n\
               [task.with-its-worker]\nkind = \"load\"\nworker = \"two\"\nrate = 100\n";
    let running = run_with_socket(old, &["--json"]);
    let new = old.replace("gone", "new").replace("policy = \"other\"", "policy = \"rr\"");
    edit(&running, &new);
    let output = String::from_utf8(run_client(&running, &["check", "CONFIG", "--against-running"]).stdout).unwrap();
    for line in [
        "worker one is unchanged",
        "worker two restarts",
        "task kept is unchanged",
        "task gone is removed",
        "task new is added",
        "task with-its-worker restarts",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    assert!(run_client(&running, &["reload"]).status.success());
    let seen = snapshot(&running);
    let names: Vec<_> = seen["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap()).collect();
    assert_eq!(names, ["kept", "new", "with-its-worker"]);
    running.signal("TERM");
    let ended = running.wait();
    ended.assert_no_fault();
    for task in ended.summary()["tasks"].as_array().unwrap() {
        let number = |key: &str| task[key].as_u64().unwrap();
        assert_eq!(number("ran") + number("skipped"), number("due"), "{task}");
        assert!(number("ran") > 0, "{task}");
    }
}

#[test]
fn a_killed_daemon_does_not_block_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut first = run(&config(50), &args);
    first.wait_until_granted();
    let second = run(&config(50), &args);
    let refused = second.wait();
    assert_eq!(refused.status.code(), Some(70), "{}", refused.stderr);
    assert!(refused.stderr.contains("another daemon listens there"), "{}", refused.stderr);
    first.signal("KILL");
    let killed = first.wait();
    assert_eq!(killed.status.signal(), Some(9));
    assert!(socket.exists());
    let mut third = run(&config(50), &args);
    third.wait_until_granted();
    third.signal("TERM");
    assert!(third.wait().status.success());
    assert!(!socket.exists());
}

#[test]
fn a_reload_never_signals_a_process_that_the_answer_names() {
    let mut running = run_with_socket(&config(50), &[]);
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let bystander = program::start(tempfile::tempdir().unwrap(), sleep);
    let mut answer = snapshot(&running);
    answer["daemon"]["pid"] = bystander.pid().into();
    let socket = running.folder().join("false.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answering =
        std::thread::spawn(move || listener.accept().unwrap().0.write_all(answer.to_string().as_bytes()).unwrap());
    let output = Command::new(HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
    answering.join().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = format!("process {} listens here, but its answer names process {}", process::id(), bystander.pid());
    assert!(output.status.code() == Some(70) && stderr.contains(&expected), "{stderr}");
    // A SIGHUP would have been delivered first.
    bystander.signal("TERM");
    assert_eq!(bystander.wait().status.signal(), Some(15));
    assert!(!running.has_ended());
    assert_eq!(snapshot(&running)["daemon"]["reloads"], 0);
}

#[test]
fn a_reload_without_a_daemon_fails_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    drop(UnixListener::bind(&socket).unwrap());
    for socket in [&socket, &folder.path().join("nothing.sock")] {
        let output = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(69) && stderr.contains("no daemon answers at"), "{stderr}");
    }
}

/// Waits until `wanted` is true of the daemon part of a snapshot.
fn wait_for_daemon(running: &mut Running, what: &str, wanted: impl Fn(&Value) -> bool) {
    running.wait_for(what, |running| wanted(&snapshot(running)["daemon"]));
}

#[test]
fn a_reload_is_answered_by_one_that_began_after_it() {
    let mut running = run_with_socket(&config(50), &["--json"]);
    // The first reload hangs: the configuration is a FIFO.
    let (path, fifo) = (running.folder().join("test.toml"), running.folder().join("fifo"));
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    running.signal("HUP");
    let writer = program::block_reader(&mut running, &path);
    wait_for_daemon(&mut running, "a reload has begun", |daemon| daemon["reloads_begun"] == 1);
    fs::rename(&path, &fifo).unwrap();
    edit(&running, &config(50).replace("rate = 50", "rate = 0"));

    let socket = running.folder().join("status.sock");
    let command = Command::new(HERTZD).arg("reload").arg("--socket").arg(socket).stderr(Stdio::piped()).spawn();
    let asked = command.unwrap();
    wait_for_daemon(&mut running, "another is pending", |daemon| daemon["reload_pending"] == true);
    drop(writer);
    let output = asked.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(78), "its own configuration is wrong: {output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("rate = 0"), "{output:?}");
    let daemon = snapshot(&running)["daemon"].clone();
    assert_eq!((&daemon["reloads"], &daemon["reloads_refused"]), (&2.into(), &2.into()));
    running.signal("TERM");
    running.wait().assert_no_fault();
}
