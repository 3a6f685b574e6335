//! State across a reload: a restarted task continues from the output of its predecessor. A recording continues too, so it shows each value
//! that was output, and no result depends on the number of ticks.

use crate::program;
use crate::program::{HERE, HERTZD, Running, run_in};
use std::fs;
use std::process::Command;

/// Starts hertzd, with these files in its folder.
fn start(config: &str, files: &[(&str, &str)]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    let socket = folder.path().join("s");
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    run_in(folder, command, config, &["--status-socket", socket.to_str().unwrap()])
}

fn reload(running: &Running, config: &str) {
    let config = config.replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), config).unwrap();
    let socket = running.folder().join("s");
    let reload = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
    assert!(reload.status.success(), "{reload:?}");
}

/// The last value of a task; `None`: there is none yet, or it is not a number.
fn last(running: &Running, task: &str, value: &str) -> Option<f64> {
    let snapshot = program::snapshot(&running.folder().join("s"));
    let tasks = snapshot["tasks"].as_array().cloned().unwrap_or_default();
    let found = tasks.iter().find(|found| found["task"] == task)?;
    found["values"][value]["last"].as_f64()
}

/// Waits until the task has this value.
#[track_caller]
fn wait_for(running: &mut Running, task: &str, value: &str, wanted: impl Fn(f64) -> bool) {
    running.wait_for(&format!("{task}.{value}"), |running| last(running, task, value).is_some_and(&wanted));
}

/// The rows of `seen.csv`, without the columns about ticks.
fn seen(running: Running) -> Vec<Vec<f64>> {
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success(), "{}", ended.describe());
    let text = fs::read_to_string(ended.folder.path().join("seen.csv")).unwrap();
    let cells = |line: &str| line.split(',').skip(3).map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
    text.lines().skip(1).map(cells).collect()
}

/// A controller that tracks an output; each reload renames the output. `mark` shows which configuration runs. The integral is constant,
/// because the error lies in the dead band, until it is set by hand.
fn tracking(worker: &str, fan: &str, mark: f64) -> String {
    format!(
        "[worker.main]\n{worker}\n\
         [task.board]\nkind = \"sensor\"\nrate = 200\npath = \"@HERE@/level\"\nmax-file-age = \"off\"\n\
         [task.hand]\nkind = \"sensor\"\nrate = 200\npath = \"@HERE@/hand\"\nmax-file-age = \"off\"\nvalid = {{ value = [0, 1] }}\n\
         [task.control]\nkind = \"pid\"\nrate = 200\nmax-age = \"100h\"\ninput = \"board.value\"\nsetpoint = 1\ndeadband = 1\nkp = 1\nki = 1\n\
         limits = [0, 1]\nanti-windup = \"back-calculation\"\nmanual = \"hand.value\"\ntrack = {{ previous = \"{fan}.applied\", initial = 0.75 }}\n\
         [task.{fan}]\nkind = \"output\"\nrate = 200\nmax-age = \"100h\"\ninput = \"control.out\"\npath = \"@HERE@/fan\"\nsafe = 0.5\n\
         safe-after = \"100h\"\nrecover-after = \"0s\"\n\
         [task.seen]\nkind = \"expr\"\nrate = 200\nmax-age = \"100h\"\nrecord = \"@HERE@/seen.csv\"\n\
         inputs = {{ out = \"control.out\", applied = \"{fan}.applied\" }}\n\
         value = [{{ name = \"out\", expression = \"out\" }}, {{ name = \"applied\", expression = \"applied\" }}, {{ name = \"mark\", expression = \"{mark}\" }}]\n"
    )
}

/// Gives a sensor's file this text in one step.
fn put(running: &Running, file: &str, text: &str) {
    fs::write(running.folder().join("new"), text).unwrap();
    fs::rename(running.folder().join("new"), running.folder().join(file)).unwrap();
}

#[test]
fn a_controller_and_the_output_that_it_tracks_restart_without_a_jump() {
    let mut running = start(&tracking("", "fan", 1.0), &[("level", "0.5\n"), ("hand", "-1\n")]);
    wait_for(&mut running, "control", "out", |out| out == 0.75);
    put(&running, "hand", "0.25\n");
    wait_for(&mut running, "fan", "applied", |applied| applied == 0.25);
    put(&running, "hand", "-1\n");
    running.wait_for("what is refused is shown", |running| {
        program::task(&program::snapshot(&running.folder().join("s")), "hand")["values"]["value"]["refused"] == -1.0
    });
    for (worker, fan, mark) in [("spin = \"off\"", "fan", 2.0), ("spin = \"off\"", "blower", 3.0)] {
        reload(&running, &tracking(worker, fan, mark));
        wait_for(&mut running, "seen", "mark", |seen| seen == mark);
    }
    let rows = seen(running);
    let at = |mark: f64| rows.iter().position(|row| row[2] == mark).unwrap();
    assert!(at(2.0) < at(3.0), "{rows:?}");
    for row in &rows[at(2.0)..] {
        assert_eq!(row[..2], [0.25, 0.25], "{rows:?}");
    }
}

/// Filters that take hours to follow their input, and a sum.
fn filters(worker: &str) -> String {
    let filter = |name: &str, keys: &str| {
        format!("[task.{name}]\nkind = \"filter\"\nrate = 200\nmax-age = \"100h\"\ninput = \"level.value\"\n{keys}\n")
    };
    format!(
        "[worker.main]\n{worker}\n[task.level]\nkind = \"sensor\"\nrate = 200\npath = \"@HERE@/level\"\nmax-file-age = \"off\"\n"
    ) + &filter("slew", "type = \"slew-limit\"\nrate-limit = 0.0001\nmax-gap = \"5s\"")
        + &filter("low", "type = \"low-pass\"\ncutoff = 0.0001\nmax-gap = \"5s\"")
        + &filter("sum", "type = \"integral\"")
        + "[task.seen]\nkind = \"expr\"\nrate = 200\nmax-age = \"100h\"\nrecord = \"@HERE@/seen.csv\"\n\
           inputs = { level = \"level.value\", slew = \"slew.out\", low = \"low.out\", sum = \"sum.out\" }\n"
        + &["level", "slew", "low", "sum"]
            .map(|name| format!("[[task.seen.value]]\nname = \"{name}\"\nexpression = \"{name}\"\n"))
            .concat()
}

#[test]
fn a_filter_restarts_from_what_it_put_out() {
    let mut running = start(&filters(""), &[("level", "1\n")]);
    wait_for(&mut running, "sum", "out", |sum| sum > 0.0);
    put(&running, "level", "5\n");
    wait_for(&mut running, "seen", "level", |level| level == 5.0);
    let before = last(&running, "sum", "out").unwrap();
    reload(&running, &filters("spin = \"off\""));
    wait_for(&mut running, "sum", "out", |sum| sum > before);
    let rows = seen(running);
    assert!(rows.iter().all(|row| (1.0..2.0).contains(&row[1]) && (1.0..2.0).contains(&row[2])), "{rows:?}");
    assert!(rows.is_sorted_by(|a, b| a[3] <= b[3]), "{rows:?}");
}

/// Sensors of files, and an output with a slew that takes hours.
fn slewed(keys: &str, slew: &str) -> String {
    "[worker.main]\n[task.source]\nkind = \"sensor\"\nrate = 100\npath = \"@HERE@/in\"\nmax-file-age = \"off\"\n"
        .to_owned()
        + "[task.fan]\nkind = \"output\"\nrate = 100\nmax-age = \"100h\"\nsafe-after = \"100h\"\nrecover-after = \"0s\"\npath = \"@HERE@/fan\"\n"
        + &format!("input = \"source.value\"\n{keys}\n{slew}\n")
}

const SLEW: &str = "slew = 0.0001";

/// Waits until the value has left this one, and asserts that it has not jumped.
#[track_caller]
fn leaves(running: &mut Running, value: f64) {
    wait_for(running, "fan", "applied", |applied| applied != value);
    let applied = last(running, "fan", "applied").unwrap();
    assert!((applied - value).abs() < 1.0, "{applied}, from {value}");
}

#[test]
fn an_output_that_was_disabled_and_holds_what_it_has_is_slewed_from_there() {
    let keys = "safe = \"hold\"\non-error = \"disable\"\nscale = 10";
    let mut running = start(&slewed(keys, ""), &[("in", "10\n"), ("fan", "0\n")]);
    wait_for(&mut running, "fan", "applied", |applied| applied == 10.0);
    put(&running, "in", "1e308\n"); // ten times that overflows
    running.wait_for("it is disabled", |running| {
        let snapshot = program::snapshot(&running.folder().join("s"));
        program::task(&snapshot, "fan")["disabled"] == true
    });
    put(&running, "in", "5\n");
    wait_for(&mut running, "source", "value", |value| value == 5.0);
    reload(&running, &slewed(keys, SLEW));
    leaves(&mut running, 10.0);
}

#[test]
fn an_output_that_has_had_no_value_yet_is_slewed_from_what_is_there() {
    let keys = "safe = 7\nstart = \"keep\"";
    let config = |slew: &str| slewed(keys, slew);
    // The first value comes after hours.
    let late = config(SLEW)
        .replace("rate = 100\npath = \"@HERE@/in\"", "period = \"10h\"\nphase = \"9h\"\npath = \"@HERE@/in\"");
    let mut running = start(&late, &[("in", "5\n"), ("fan", "100\n")]);
    wait_for(&mut running, "fan", "applied", |applied| applied == 100.0);
    reload(&running, &config("slew = 0.0002"));
    leaves(&mut running, 100.0);
}

#[test]
fn an_output_that_takes_over_from_a_heartbeat_is_slewed_from_what_that_has_left() {
    let beats = "[worker.main]\n[task.other]\nkind = \"output\"\nrate = 100\ninput = 1\npath = \"@HERE@/other\"\nsafe = 0\n\
                 [task.fan]\nkind = \"heartbeat\"\nrate = 100\npath = \"@HERE@/fan\"\n";
    let mut running = start(beats, &[("in", "100\n")]);
    wait_for(&mut running, "fan", "beating", |beating| beating == 1.0);
    reload(&running, &slewed("safe = 7", SLEW));
    wait_for(&mut running, "fan", "applied", |applied| applied != 0.0 && applied != 1.0);
    let applied = last(&running, "fan", "applied").unwrap();
    assert!((0.0..2.0).contains(&applied), "{applied}");
}

/// A self-holding interlock above a limit; and a latch whose `reset` is a button that counts only while the output is safe: two cycles.
fn cycles(worker: &str, limit: u32, mark: u32) -> String {
    let sensor = |name: &str, keys: &str| {
        format!(
            "[task.{name}]\nkind = \"sensor\"\nrate = 200\npath = \"@HERE@/{name}\"\nmax-file-age = \"off\"\n{keys}\n"
        )
    };
    let expr = |name: &str, inputs: &str, keys: &str| {
        format!("[task.{name}]\nkind = \"expr\"\nrate = 200\nmax-age = \"100h\"\ninputs = {{ {inputs} }}\n{keys}\n")
    };
    let value = |name: &str| format!("[[task.seen.value]]\nname = \"{name}\"\nexpression = \"{name}\"\n");
    format!("[worker.main]\n{worker}\n")
        + &sensor("heat", "")
        + &sensor("level", "valid = { value = [0, 10] }")
        + &sensor("button", "")
        + &expr(
            "hold",
            "t = \"heat.value\", was = { previous = \"hold.out\", initial = 0 }",
            &format!("expression = \"t > {limit} or was\""),
        )
        + &expr(
            "ack",
            "b = \"button.value\", s = { previous = \"fan.is-safe\", initial = 0 }",
            "expression = \"b and s\"",
        )
        + "[task.fan]\nkind = \"output\"\nrate = 200\nmax-age = \"100h\"\nsafe-after = \"100h\"\n\
           recover = \"latch\"\nreset = \"ack.out\"\ninput = \"level.value\"\npath = \"@HERE@/fan\"\nsafe = 0\n"
        + &expr("seen", "hold = \"hold.out\", safe = \"fan.is-safe\"", "record = \"@HERE@/seen.csv\"")
        + &value("hold")
        + &value("safe")
        + &format!("[[task.seen.value]]\nname = \"mark\"\nexpression = \"{mark}\"\n")
}

#[test]
fn a_cycle_that_holds_itself_stays_where_only_its_worker_has_changed() {
    let files = [("heat", "50\n"), ("level", "5\n"), ("button", "1\n"), ("fan", "0\n")];
    let mut running = start(&cycles("", 90, 1), &files);
    wait_for(&mut running, "fan", "applied", |applied| applied == 5.0);
    put(&running, "heat", "95\n");
    wait_for(&mut running, "seen", "hold", |hold| hold == 1.0);
    put(&running, "heat", "50\n");
    wait_for(&mut running, "heat", "value", |heat| heat == 50.0);
    put(&running, "level", "95\n");
    wait_for(&mut running, "ack", "out", |ack| ack == 1.0);
    put(&running, "level", "5\n");
    wait_for(&mut running, "seen", "safe", |safe| safe == 1.0);
    reload(&running, &cycles("spin = \"off\"", 90, 2));
    wait_for(&mut running, "seen", "mark", |mark| mark == 2.0);
    // A changed section makes a new interlock.
    reload(&running, &cycles("spin = \"off\"", 91, 3));
    wait_for(&mut running, "seen", "mark", |mark| mark == 3.0);
    let rows = seen(running);
    for (mark, wanted) in [(2.0, [1.0, 1.0]), (3.0, [0.0, 1.0])] {
        let rows: Vec<_> = rows.iter().filter(|row| row[2] == mark).collect();
        assert!(!rows.is_empty() && rows.iter().all(|row| row[..2] == wanted), "{mark}: {rows:?}");
    }
}
