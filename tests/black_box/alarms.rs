//! Alarms of the real program: what the log says when the value that one watches leaves its range, and when it is back.

use crate::program;
use crate::program::run_in;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = "\
[task.tank]
kind = \"sensor\"
rate = 200
path = \"@HERE@/level\"
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
    fs::write(folder.join("new"), value).unwrap();
    fs::rename(folder.join("new"), folder.join("level")).unwrap();
}

/// How status shows this alarm; null where it does not yet.
fn alarm(socket: &Path, task: &str) -> Value {
    let snapshot = program::snapshot(socket);
    let mut alarms = snapshot["alarms"].as_array().into_iter().flatten();
    alarms.find(|alarm| alarm["task"] == task).cloned().unwrap_or_default()
}

/// What status says of them to people.
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
    let entries = |text: &str, task: &str| -> Vec<String> {
        let entry = |line: &str| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let of = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let is_alarm =
                entry.to_string().contains("\"alarm\"") && entry.to_string().contains(&format!("\"task\":\"{task}\""));
            is_alarm.then(|| format!("{} {}", of("level"), of("message")))
        };
        text.lines().filter_map(entry).collect()
    };
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
    // It is latched until its own value, which it takes, rises: that was before.
    let gone = entries(&ended.stderr, "gone");
    assert_eq!(gone, ["warn gone: no good value"], "{gone:?}");
    let quiet = entries(&ended.stderr, "quiet");
    assert_eq!(quiet.first().map(String::as_str), Some("info quiet: its condition holds (1)"), "{quiet:?}");
}
