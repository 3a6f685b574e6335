//! Alarms of the real program: what the log says when the value that one watches leaves its range, and when it is back.

mod program;

use program::run_in;
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
";

/// Sets the sensor's file in one step.
fn set(folder: &Path, value: &str) {
    fs::write(folder.join("new"), value).unwrap();
    fs::rename(folder.join("new"), folder.join("level")).unwrap();
}

#[test]
fn an_alarm_has_one_entry_when_it_begins_and_one_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path(), "10\n");
    let mut running = run_in(folder, Command::new(program::HERTZD), CONFIG, &["--log-format", "json"]);
    running.wait_until_granted();
    let entries = |text: &str, task: &str| -> Vec<String> {
        let entry = |line: &str| {
            let entry: serde_json::Value = serde_json::from_str(line).ok()?;
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
    }
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
