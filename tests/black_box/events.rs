//! The output of `hertzd status --follow` and `hertzd log`, with a real daemon, and with a stand-in for journalctl.

use crate::program::emulation::{OWN_MEMORY, cannot_be_emulated};
use crate::program::{HERTZD, Running, pause, run_in, script, snapshot, start};
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const CONFIG: &str =
    "[worker.main]\npolicy = \"other\"\n[task.a]\nkind = \"load\"\nrate = 100\nmax-missed = \"100%\"\n";

/// A daemon whose socket is `s` in its folder.
fn daemon() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let mut running =
        run_in(folder, Command::new(HERTZD), CONFIG, &["--status-socket", socket.to_str().unwrap(), "--for", "1h"]);
    running.wait_for("its task ticks", |running| snapshot(&running.folder().join("s"))["tasks"][0]["due"].is_u64());
    running
}

#[test]
fn following_prints_a_line_a_second_until_the_daemon_or_the_reader_is_gone() {
    let running = daemon();
    let follow = || {
        let mut command = Command::new(HERTZD);
        command.args(["status", "--follow", "--socket"]).arg(running.folder().join("s"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (mut to_the_end, mut left) = (follow(), follow());
    // This reader has had enough after a line.
    let mut line = String::new();
    BufReader::new(left.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{') && line.ends_with("}\n"), "{line}");
    let said = left.wait_with_output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");

    let mut lines = BufReader::new(to_the_end.stdout.take().unwrap()).lines();
    let mut next = || Some(serde_json::from_str::<Value>(&lines.next()?.unwrap()).unwrap());
    let Some(first) = next() else { panic!("{:?}", to_the_end.wait_with_output()) };
    let due = |snapshot: &Value| snapshot["tasks"][0]["due"].as_u64().unwrap();
    // The next line follows at once if the first was delayed by a second.
    let [second, third] = [next(), next()];
    let (Some(second), Some(third)) = (second, third) else { panic!("{:?}", to_the_end.wait_with_output()) };
    let due = [due(&first), due(&second).max(due(&third))];
    assert!(due[0] < due[1], "{due:?}");
    assert_eq!(first["daemon"]["pid"], running.pid());
    running.signal("TERM");
    assert!(running.wait().status.success());
    assert!(lines.all(|line| serde_json::from_str::<Value>(&line.unwrap()).is_ok()));
    let mut stderr = String::new();
    to_the_end.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(to_the_end.wait().unwrap().success() && stderr.contains("it has ended"), "{stderr}");
}

#[test]
fn there_is_nothing_to_follow_without_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(HERTZD).args(["status", "--follow", "--socket"]).arg(folder.path().join("s")).output();
    assert_eq!(output.unwrap().status.code(), Some(69));
}

/// `hertzd log ARGS` where `journalctl` is this script.
fn log(folder: &Path, journalctl: &str, args: &[&str]) -> Output {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    if !journalctl.is_empty() {
        script(&bin.join("journalctl"), journalctl);
    }
    Command::new(HERTZD).arg("log").args(args).env("PATH", &bin).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_log_is_what_journalctl_finds_by_task_cause_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("asked");
    let entry = |task: &str, causes: &str, second: u32| {
        let cause = causes.split('=').next().unwrap();
        format!(
            r#"{{"PRIORITY":"4","HERTZD_TIME":"2026-11-22T17:41:0{second}.000001Z","HERTZD_TASK":"{task}","HERTZD_CAUSE":"{cause}","HERTZD_CAUSES":"{causes}","MESSAGE":"{task}: missed {second}"}}"#
        )
    };
    let entries = [
        entry("imu", "blocked=5 preempted=1", 1),
        entry("imu", "preempted=1", 2),
        r#"{"PRIORITY":"6","__REALTIME_TIMESTAMP":"1795369264000000","MESSAGE":"Stopped hertzd.service"}"#.into(),
        entry("longer-name", "blocked=7", 4),
    ];
    let journal = |exit: u8| {
        let printed: String = entries.iter().map(|entry| format!("echo '{entry}'\n")).collect();
        format!("for word; do echo \"$word\"; done >{}\n{printed}exit {exit}\n", asked.display())
    };
    let asked_for = |word: &str| fs::read_to_string(&asked).unwrap().lines().any(|line| line == word);

    let output = log(folder.path(), &journal(0), &[]);
    let wanted = "2026-11-22 17:41:01.000001Z  imu  blocked  missed 1\n\
                  2026-11-22 17:41:02.000001Z  imu  preempted  missed 2\n\
                  2026-11-22 17:41:04.000000Z  -    -          Stopped hertzd.service\n\
                  2026-11-22 17:41:04.000001Z  longer-name  blocked    missed 4\n";
    assert_eq!((text(&output.stdout), text(&output.stderr)), (wanted, ""));
    assert!(output.status.success() && asked_for("hertzd.service") && asked_for("--lines=100"));

    let output = log(folder.path(), &journal(0), &["--cause", "preempted", "--task", "imu", "--since", "10m"]);
    assert_eq!(text(&output.stdout).lines().count(), 2, "{output:?}");
    assert!(asked_for("HERTZD_TASK=imu") && asked_for("--since=-600000000us"));
    let output = log(folder.path(), &journal(0), &["--cause", "blocked", "-n", "1", "--since", "today", "--json"]);
    let only: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(only["task"] == "longer-name" && only["level"] == "warn" && asked_for("--since=today"), "{only}");

    let output = log(folder.path(), &journal(0), &["--cause", "throttled"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(text(&output.stderr).contains("shows no such entry of hertzd.service"), "{output:?}");
    let output = log(folder.path(), &journal(1), &[]);
    assert!(output.status.code() == Some(70) && text(&output.stderr).contains("could not read the journal"));
    assert_ne!(
        log(folder.path(), &journal(0), &["--cause", "late-chain"]).status.code(),
        Some(64),
        "it stands in entries as well"
    );
    assert_eq!(log(folder.path(), &journal(0), &["--cause", "luck"]).status.code(), Some(64));
}

#[test]
fn without_a_journal_it_says_where_the_log_goes() {
    if cannot_be_emulated(OWN_MEMORY) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = log(folder.path(), "", &[]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(69) && said.contains("cannot run journalctl"), "{said}");
    assert!(said.contains("hertzd logs to its standard error"), "{said}");

    let running = daemon();
    let socket = running.folder().join("s");
    let output = log(folder.path(), "exit 1", &["--socket", socket.to_str().unwrap()]);
    let (said, file) = (text(&output.stderr), running.folder().join("stderr"));
    let goes = format!("process {} does not log to the journal: its log goes to {}", running.pid(), file.display());
    assert!(output.status.code() == Some(69) && said.contains(&goes), "{said}");
}

/// When the reader goes, journalctl ends too.
#[test]
fn a_log_that_is_followed_ends_with_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let entry = r#"{"PRIORITY":"6","__REALTIME_TIMESTAMP":"1","MESSAGE":"once more"}"#;
    let journalctl = format!("echo $$ >{}/pid\nwhile echo '{entry}'; do :; done\n", folder.path().display());
    log(folder.path(), &journalctl, &["--help"]);
    let bin = folder.path().join("bin");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("PATH={}:$PATH; {HERTZD} log --follow | head -n 1", bin.display())]);
    let ended = start(tempfile::tempdir().unwrap(), command).wait();
    assert_eq!(ended.stdout, "1970-01-01 00:00:00.000001Z  -  -  once more\n");
    let reader = fs::read_to_string(folder.path().join("pid")).unwrap();
    let gone = || !Path::new("/proc").join(reader.trim()).exists();
    (0..20_000).take_while(|_| !gone()).for_each(|_| pause(Span::from_millis(5)));
    assert!(gone(), "journalctl is left");
}
