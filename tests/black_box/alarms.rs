//! Alarms of the real program: the log entries when a watched value leaves its range, and when it is back.

use crate::program;
use crate::program::{Running, run_in};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = "\
[task.tank]
kind = \"sensor\"
rate = 200
path = \"@HERE@/level\"
max-file-age = \"off\"
[task.full]
kind = \"alarm\"
rate = 200
input = \"tank.value\"
max-age = \"1h\"
high = 80
hihi = 90
hysteresis = 2
severity = \"error\"
[task.gone]
kind = \"alarm\"
rate = 200
input = \"tank.value\"
max-age = \"1h\"
low = -100
latch = true
reset = { previous = \"gone.active\", initial = 0 }
[task.quiet]
kind = \"alarm\"
rate = 200
input = \"full.active\"
max-age = \"1h\"
off-delay = \"1h\"
severity = \"notice\"
[task.buzzer]
kind = \"output\"
rate = 200
input = \"full.active\"
max-age = \"1h\"
path = \"@HERE@/buzzer\"
safe = 0
";

/// Sets the sensor's file in one step.
fn set(folder: &Path, value: &str) {
    set_file(folder, "level", value);
}

fn set_file(folder: &Path, file: &str, value: &str) {
    fs::write(folder.join("new"), value).unwrap();
    fs::rename(folder.join("new"), folder.join(file)).unwrap();
}

/// The log entries about this alarm: level and message.
fn entries(text: &str, task: &str) -> Vec<String> {
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).ok()?;
        let of = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let is_alarm =
            entry.to_string().contains("\"alarm\"") && entry.to_string().contains(&format!("\"task\":\"{task}\""));
        is_alarm.then(|| format!("{} {}", of("level"), of("message")))
    };
    text.lines().filter_map(entry).collect()
}

/// This alarm in the status; null if it is not there yet.
fn alarm(socket: &Path, task: &str) -> Value {
    let snapshot = program::snapshot(socket);
    let mut alarms = snapshot["alarms"].as_array().into_iter().flatten();
    alarms.find(|alarm| alarm["task"] == task).cloned().unwrap_or_default()
}

/// The status text about the alarms.
fn said(socket: &Path) -> String {
    String::from_utf8(program::status(socket, &[]).stdout).unwrap()
}

#[test]
fn an_alarm_has_one_entry_when_it_begins_and_one_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path(), "10\n");
    fs::write(folder.path().join("buzzer"), "0\n").unwrap();
    let socket = folder.path().join("s");
    let args = ["--log-format", "json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), CONFIG, &args);
    running.wait_until_granted();
    for (value, count) in [("85\n", 1), ("95\n", 2), ("79\n", 3), ("77\n", 4), ("nothing\n", 5), ("0\n", 6)] {
        set(running.folder(), value);
        running.wait_for(&format!("{count} entries"), |running| entries(&running.stderr(), "full").len() >= count);
        let buzzer = running.folder().join("buzzer");
        let wanted = if ["77\n", "0\n"].contains(&value) { "0" } else { "1" };
        running.wait_for("the buzzer", |_| fs::read_to_string(&buzzer).unwrap().trim() == wanted);
        if value == "95\n" {
            // A snapshot may be older than the entry.
            running.wait_for("status to show it", |_| {
                let (full, gone) = (alarm(&socket, "full"), alarm(&socket, "gone"));
                let is_shown = full["level"] == "hihi" && full["value"] == 95.0 && full["since_ns"].as_i64() >= Some(0);
                is_shown
                    && (&gone["active"], &gone["level"], gone.get("since_ns"))
                        == (&false.into(), &"normal".into(), None)
            });
            let full = alarm(&socket, "full");
            let words = [&full["severity"], &full["active"], &full["latched"]];
            assert_eq!(words, [&Value::from("error"), &true.into(), &false.into()]);
            let text = said(&socket);
            assert!(text.contains("\nALARM full (error): hihi at 95; active for "), "{text}");
            assert!(text.find("ALARM") < text.find("\ntask "), "above the tasks: {text}");
        }
    }
    running.wait_for("the latch", |_| alarm(&socket, "gone")["latched"] == true);
    assert!(said(&socket).contains("\nALARM gone (warning): had no good value, now at 0, latched"));
    assert_eq!(alarm(&socket, "full")["active"], false);
    running.signal("TERM");
    let ended = running.wait();
    let full = entries(&ended.stderr, "full");
    let said: Vec<&str> = full.iter().map(String::as_str).collect();
    assert_eq!(
        said,
        [
            "error full: high at 85",
            "error full: hihi at 95",
            "error full: high at 79",
            "info full: back to normal after high, at 77",
            "error full: no good value",
            "info full: back to normal after bad, at 0"
        ]
    );
    // It stays latched until its own value, which is its reset, rises: that happened before.
    let gone = entries(&ended.stderr, "gone");
    assert_eq!(gone, ["warn gone: no good value"], "{gone:?}");
    let quiet = entries(&ended.stderr, "quiet");
    assert_eq!(quiet.first().map(String::as_str), Some("info quiet: its condition holds (1)"), "{quiet:?}");
}

const CHATTERS: &str = "\
[task.tank]
kind = \"sensor\"
rate = 200
path = \"@HERE@/level\"
max-file-age = \"off\"
[task.flip]
kind = \"expr\"
rate = 200
inputs = { level = \"tank.value\", was = { previous = \"flip.out\", initial = 0 } }
expression = \"if(level == 5, 9 - was, level)\"
max-age = \"1h\"
[task.full]
kind = \"alarm\"
rate = 200
input = \"flip.out\"
max-age = \"1h\"
high = 5
";

#[test]
fn the_last_entry_of_an_alarm_that_has_come_and_gone_quickly_says_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path(), "0\n");
    let socket = folder.path().join("s");
    let args = ["--log-format", "json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), CHATTERS, &args);
    running.wait_until_granted();
    let tank = || program::task(&program::snapshot(&socket), "tank").clone();
    let ran = |task: &Value| task["ran"].as_u64().unwrap_or_default();
    let mut known = 0;
    // Whether a change of the wanted level gets one of the ten entries of its second is left to chance.
    for (level, says) in [("9\n", "high at 9"), ("0\n", "back to normal after high, at 0")].repeat(3) {
        set(running.folder(), "5\n");
        running.wait_for("changes that have no entry", |running| {
            entries(&running.stderr(), "full")[known..].iter().any(|entry| entry.contains(" before it w"))
        });
        set(running.folder(), level);
        let is_still = |_: &Running| tank()["values"]["value"]["last"].as_f64() != Some(5.0);
        running.wait_for("it is still", is_still);
        let at = ran(&tank());
        running.wait_for("the alarm has seen it", |_| ran(&tank()) > at + 10);
        running.wait_for(says, |running| {
            entries(&running.stderr(), "full").last().is_some_and(|entry| entry.contains(says))
        });
        known = entries(&running.stderr(), "full").len();
    }
}

const LATCHED: &str = "\
[worker.main]
policy = \"other\"
[worker.other]
policy = \"other\"
[task.level]
kind = \"sensor\"
worker = \"other\"
rate = 100
path = \"@HERE@/level\"
max-file-age = \"off\"
[task.gate]
kind = \"sensor\"
worker = \"other\"
rate = 100
path = \"@HERE@/gate\"
max-file-age = \"off\"
[task.reset]
kind = \"sensor\"
worker = \"other\"
rate = 100
path = \"@HERE@/reset\"
max-file-age = \"off\"
[task.beat]
kind = \"load\"
worker = \"main\"
rate = 10
[task.out]
kind = \"output\"
worker = \"main\"
rate = 100
input = \"gate.value\"
max-age = \"1h\"
safe-after = \"1h\"
path = \"@HERE@/out\"
safe = 7
recover = \"latch\"
reset = \"reset.value\"
";

const OVER: &str = "\
[task.over]
kind = \"alarm\"
worker = \"main\"
rate = 100
input = \"level.value\"
max-age = \"1h\"
high = 3
latch = true
reset = \"reset.value\"
";

/// Reloads with this configuration. Afterwards all restarted tasks have ticked.
fn reload(running: &mut Running, config: &str) {
    let socket = running.folder().join("s");
    let config = config.replace(program::HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), config).unwrap();
    let reload = Command::new(program::HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
    assert!(reload.status.success(), "{reload:?}\n{}", running.stderr());
    let has_ticked = |task: &Value| task["ran"].as_u64() > Some(10);
    running.wait_for("all tick", |_| program::snapshot(&socket)["tasks"].as_array().unwrap().iter().all(has_ticked));
}

#[test]
fn a_latch_lasts_over_a_reload_that_restarts_its_task_and_each_alarm_that_has_begun_ends() {
    let folder = tempfile::tempdir().unwrap();
    ["level", "gate", "reset"].iter().for_each(|file| set_file(folder.path(), file, "0\n"));
    fs::write(folder.path().join("out"), "0\n").unwrap();
    let socket = folder.path().join("s");
    let args = ["--log-format", "json", "--status-socket", socket.to_str().unwrap()];
    let config = LATCHED.to_owned() + OVER;
    let mut running = run_in(folder, Command::new(program::HERTZD), &config, &args);
    let out = |running: &Running| fs::read_to_string(running.folder().join("out")).unwrap().trim().to_owned();
    // Before the sensor's first tick there may be no entry.
    let said = |running: &Running| -> Vec<String> {
        entries(&running.stderr(), "over").into_iter().skip_while(|entry| entry.ends_with("no good value")).collect()
    };
    // Both latches hold, and a reset would end them.
    let hold = |running: &mut Running| {
        set_file(running.folder(), "reset", "0\n");
        set(running.folder(), "5\n");
        running.wait_for("the alarm", |_| alarm(&socket, "over")["level"] == "high");
        set(running.folder(), "1\n");
        running.wait_for("its latch", |_| alarm(&socket, "over")["latched"] == true);
        set_file(running.folder(), "gate", "nothing\n");
        running.wait_for("the safe value", |running| out(running) == "7");
        set_file(running.folder(), "gate", "1\n");
        running.wait_for("its input is good", |_| {
            let snapshot = program::snapshot(&socket);
            program::task(&snapshot, "out")["values"]["held-back"]["last"] == -1.0
        });
    };
    running.wait_for("the output follows", |running| out(running) == "0");
    hold(&mut running);
    let restarted = config.replace("[worker.main]\n", "[worker.main]\nspin = \"off\"\n");
    let moved = |task: &str, config: &str| {
        let (before, after) = config.split_once(&format!("[task.{task}]")).unwrap();
        format!("{before}[task.{task}]{}", after.replacen("worker = \"main\"", "worker = \"other\"", 1))
    };
    let moved = moved("over", &moved("out", &restarted));
    for config in [&restarted, &moved] {
        reload(&mut running, config);
        running.wait_for("the latch", |_| alarm(&socket, "over")["latched"] == true);
        assert_eq!((&alarm(&socket, "over")["level"], &*out(&running)), (&"high".into(), "7"));
    }
    set_file(running.folder(), "reset", "1\n");
    running.wait_for("both end", |running| alarm(&socket, "over")["active"] == false && out(running) == "1");
    let begun = ["warn over: high at 5", "info over: back to normal after high, at 1"];
    running.wait_for("it is said", |running| said(running).len() >= begun.len());
    assert_eq!(said(&running), begun);
    // Tasks whose sections changed begin again.
    hold(&mut running);
    let changed = moved.replace("high = 3", "high = 4").replace("safe = 7", "safe = 7\nslew = 1000");
    reload(&mut running, &changed);
    running.wait_for("both begin anew", |running| alarm(&socket, "over")["active"] == false && out(running) == "1");
    let again = ["warn over: high at 5", "info over: ended by the reload; it was high"];
    running.wait_for("it is said", |running| said(running).len() >= 4);
    assert_eq!(said(&running)[2..], again);
    // A removed alarm ends.
    set(running.folder(), "5\n");
    running.wait_for("the alarm", |_| alarm(&socket, "over")["level"] == "high");
    let (before, _) = changed.split_once("[task.over]").unwrap();
    reload(&mut running, before);
    running.wait_for("it is said", |running| said(running).len() >= 6);
    assert_eq!(said(&running)[4..], again);
    running.signal("TERM");
    let ended = running.wait();
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", ended.describe());
}
