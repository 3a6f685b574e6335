//! The log of the built binary in each format. The system tests check the journal.

use crate::program::{at_once, emulation};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A task that never meets its deadline.
const LATE: &str = "
    [worker.main]
    policy = \"other\"
    [task.slow]
    kind = \"load\"
    rate = 100
    run = \"12ms\"
";

fn run(config: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
    command.arg("run").arg(path).args(arguments);
    if !arguments.contains(&"--for") {
        command.args(["--for", "100ms"]);
    }
    command.env_remove("HERTZD_LOG").env_remove("JOURNAL_STREAM");
    // All tests that start in the foreground share a directory. A start that has to wait for another one there logs that.
    command.env("RUNTIME_DIRECTORY", folder.path());
    command.output().unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    let object = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    stderr(output).lines().map(object).collect()
}

#[test]
fn json_is_one_object_per_line_with_numbers_and_ids() {
    let output = run(LATE, &["--log-format", "json"]);
    assert!(output.status.success());
    let objects = json_lines(&output);
    let overruns: Vec<_> = objects.iter().filter(|object| object["overrun"].is_u64()).collect();
    assert!(!overruns.is_empty(), "{objects:?}");
    for overrun in overruns {
        assert_eq!(overrun["level"], "warn");
        assert_eq!(overrun["task"], "slow");
        assert_eq!(overrun["message_id"].as_str().map(str::len), Some(32));
        assert!(overrun["run_ns"].as_u64() >= Some(12_000_000), "{overrun}");
    }
}

/// `report` delays `control`, which misses its own deadline now and then; `dead` ends at its first tick.
const MISSED: &str = "
    [worker.main]
    policy = \"other\"
    [task.control]
    kind = \"load\"
    worker = \"main\"
    rate = 1000
    run = \"100us\"
    fault = \"long-run\"
    fault-every = 50
    fault-run = \"2500us\"
    [task.report]
    kind = \"load\"
    worker = \"main\"
    rate = 10
    run = \"6ms\"
    [worker.other]
    policy = \"other\"
    [task.dead]
    kind = \"load\"
    worker = \"other\"
    rate = 100
    fault = \"error\"
    fault-every = 1
    on-error = \"disable\"
";

#[test]
fn what_the_entries_say_was_missed_adds_up_to_the_summary() {
    let output = run(MISSED, &["--log-format", "json", "--json", "--for", "2500ms"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = json_lines(&output);
    let ids = ["b63f63a8dc1e44a9b7b66fb32412be1f", "16ae69641d87436c81b908f551571cbd"];
    for task in summary["tasks"].as_array().unwrap() {
        let of_task = |entry: &&serde_json::Value| entry["task"] == task["task"] && entry["missed"].is_u64();
        let entries: Vec<_> = entries.iter().filter(of_task).collect();
        for (field, count) in [("missed", "missed"), ("overrun", "overruns"), ("skipped", "skipped")] {
            let sum: u64 = entries.iter().map(|entry| entry[field].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), task[count].as_u64(), "{field}: {task}: {entries:?}");
        }
        let mut causes = BTreeMap::new();
        for entry in entries {
            let (overruns, text) = (entry["overrun"].as_u64().unwrap(), entry["message"].as_str().unwrap());
            assert_eq!(entry["message_id"], ids[usize::from(overruns == 0)]);
            assert_eq!(entry["tick"].is_u64(), overruns > 0);
            assert!(text.contains(&format!("missed {} of {}", entry["missed"], entry["due"])), "{entry}");
            let mut most = 0;
            for cause in entry["causes"].as_str().unwrap().split(' ') {
                let (cause, count) = cause.split_once('=').unwrap();
                let count: u64 = count.parse().unwrap();
                *causes.entry(cause.to_owned()).or_insert(0) += count;
                most = most.max(count);
            }
            let main = format!("{}={most}", entry["cause"].as_str().unwrap());
            assert!(entry["causes"].as_str().unwrap().split(' ').any(|cause| cause == main), "{entry}");
            if entry["cause"] == "blocked" {
                assert!(text.contains(&format!(" blocked by {}", entry["blocker"].as_str().unwrap())), "{entry}");
            }
        }
        assert_eq!(serde_json::json!(causes), task["causes"], "{task}");
    }
    let missed = |name: &str, cause: &str| {
        let task = summary["tasks"].as_array().unwrap().iter().find(|task| task["task"] == name);
        task.unwrap()["causes"][cause].as_u64().unwrap_or(0)
    };
    assert!(missed("control", "blocked") > 0 && missed("dead", "disabled") > 0, "{summary}");
}

#[test]
fn json_stays_json_when_nothing_can_run() {
    let output = run("[task.x]\nkind = \"none\"\n", &["--log-format", "json"]);
    assert_eq!(output.status.code(), Some(78));
    let objects = json_lines(&output);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["level"], "error");
}

#[test]
fn text_has_every_field_but_the_id() {
    for arguments in [&["--log-format", "text"][..], &[]] {
        let output = run(LATE, arguments);
        let text = stderr(&output);
        assert!(
            output.status.success() && text.contains("slow: missed ") && text.contains(" skipped), worst "),
            "{text}"
        );
        assert!(text.contains(" task=\"slow\" worker=\"main\" tick=") && text.contains(" overrun="), "{text}");
        assert!(!text.contains("message_id"), "{text}");
    }
}

#[test]
fn at_the_level_trace_each_tick_is_a_line_with_the_causes_of_what_was_missed() {
    let output = run(LATE, &["--log-format", "json", "--log-level", "trace", "--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = json_lines(&output);
    let ticks: Vec<_> = lines.iter().filter(|line| line["level"] == "trace").collect();
    let task = &summary["tasks"][0];
    assert_eq!(Some(ticks.len() as u64), task["ran"].as_u64(), "{ticks:?}");
    let overruns = ticks.iter().filter(|tick| tick["cause"].is_string()).count();
    assert_eq!(Some(overruns as u64), task["overruns"].as_u64(), "{ticks:?}");
    let skipped: u64 = ticks
        .iter()
        .flat_map(|tick| ["skipped_before", "skipped_after"].map(|key| tick[key].as_u64().unwrap_or(0)))
        .sum();
    assert!(skipped <= task["skipped"].as_u64().unwrap(), "{skipped} {task}");
    for tick in ticks {
        assert_eq!(tick["skipped_after"].is_u64(), tick["cause_after"].is_string(), "{tick}");
        assert!(tick["message"].as_str().unwrap().starts_with("slow: tick ") && tick["run_ns"].is_u64(), "{tick}");
    }
}

/// As docs/running.md states.
#[test]
fn neither_a_lost_log_nor_a_reader_that_has_gone_changes_the_exit_code() {
    let config = |run| {
        format!(
            "[worker.main]\npolicy = \"other\"\n[task.x]\nkind = \"load\"\nrate = 100\nmax-missed = \"100%\"\n{run}\n"
        )
    };
    // A failing task must reach its first tick, even on a busy machine; what is due then does not matter.
    let cases = [("", 0, "100ms"), ("fault = \"error\"\nfault-every = 1\non-error = \"disable\"", 1, "2s")];
    at_once(cases, |(keys, code, length)| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, config(keys)).unwrap();
        let ends_with = |stdout: Stdio, stderr: Stdio, arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
            command.arg("run").arg(&path).args(["--for", length]).args(arguments);
            command.env_remove("HERTZD_LOG").env_remove("JOURNAL_STREAM");
            command.stdout(stdout).stderr(stderr).status().unwrap().code()
        };
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let closed = || Stdio::from(io::pipe().unwrap().1); // its reader is gone
        let none = Stdio::null;
        let mut endings: Vec<(Stdio, Stdio, &[&str], i32, &str)> = vec![
            (none(), none(), &[], code, "nobody reads anything"),
            (none(), full().into(), &[], code, "lines of the log are lost"),
            (closed(), none(), &[], code, "the reader had enough"),
            (closed(), none(), &["--json"], code, "the reader had enough"),
            (full().into(), none(), &[], 70, "the summary could not be written"),
        ];
        // The test must not write to a journal.
        if !Path::new("/run/systemd/journal/socket").exists() {
            endings.push((none(), none(), &["--log-format", "journal"], code, "without a journal"));
        }
        at_once(endings, |(stdout, stderr, arguments, code, why)| {
            assert_eq!(ends_with(stdout, stderr, arguments), Some(code), "{why}");
        });
    });
}

#[test]
fn without_a_journal_lost_entries_are_reported() {
    if Path::new("/run/systemd/journal/socket").exists() {
        emulation::say_skipped("this machine has a journal, and the test must not write to it");
        return;
    }
    let output = run("[task.x]\nkind = \"none\"\n", &["--log-format", "journal"]);
    assert_eq!(output.status.code(), Some(78));
    let text = stderr(&output);
    assert!(text.starts_with("hertzd: no journal at /run/systemd/journal/socket"), "{text}");
    assert!(text.contains(" 1 were lost") && text.contains("kind"), "{text}");
}
