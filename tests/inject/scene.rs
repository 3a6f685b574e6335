//! A start, work, a reload and a stop of hertzd, or `hertzd safe` after a kill, with one failing call; and the conditions that must hold
//! then.

use crate::calls::{FailOne, Injection, Scene, record_in, traced};
use crate::program::{HERE, HERTZD, count, pause, signal, stopwatch};
use hertzd::time::Span;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// The time after which a program counts as hanging.
const PATIENCE: Span = Span::from_seconds(60);

/// The longest wait for a state that the failing call may have made impossible.
const STATE: Span = Span::from_seconds(5);

/// The content of each target before hertzd runs, and its safe value. The reload adds `added` and removes `removed`.
const TARGETS: [(&str, Option<&str>, &str); 5] = [
    ("set", Some("0.125\n"), "1\n"),
    ("back", Some("0.25\n"), "0.25\n"),
    ("shrinks", Some("1234.5\n"), "2\n"),
    ("removed", None, "3\n"),
    ("added", Some("0.5\n"), "4\n"),
];

const BEFORE: &str = r#"
[worker.main]
policy = "other"
[task.source]
kind = "sensor"
rate = 100
path = "@HERE@/in"
max-file-age = "off"
record = "@HERE@/source.csv"
[task.set]
kind = "output"
rate = 100
path = "@HERE@/set"
input = "source.value"
safe = 1
readback = "100ms"
record = "@HERE@/all.mcap"
[task.back]
kind = "output"
rate = 100
path = "@HERE@/back"
input = "source.value"
safe = "restore"
start = "keep"
[task.shrinks]
kind = "output"
rate = 50
path = "@HERE@/shrinks"
input = "source.value"
safe = 2
"#;

const REMOVED: &str = r#"
[task.removed]
kind = "output"
rate = 50
path = "@HERE@/removed"
input = 0.5
safe = 3
"#;

const ADDED: &str = r#"
[task.added]
kind = "output"
rate = 50
path = "@HERE@/added"
input = 0.75
safe = 4
record = "@HERE@/all.mcap"
"#;

/// The messages for some calls and errors, where they differ from the kernel's words.
const IN_OTHER_WORDS: [(&str, &str); 4] = [
    ("clone", "Resource temporarily unavailable"), // all that pthread_create reports
    ("= ELOOP", "is a symbolic link"),
    ("= ENOTDIR", "is a symbolic link, or no folder"),
    ("= EPROTOTYPE", "another daemon listens there"),
];

/// How a scene ended.
pub(crate) struct Played {
    folder: TempDir,
    scene: Scene,
    status: Option<ExitStatus>, // `None`: it hung
    /// The call that failed, with its error.
    pub(crate) failed: Option<String>,
}

/// Plays a scene with this call failing; without an injection, records all its calls. Its work lasts this long.
pub(crate) fn play(fail_one: &FailOne, scene: Scene, injection: Option<&Injection>, work: Span) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::create_dir(here.join("run")).unwrap();
    fs::write(here.join("in"), "0.5\n").unwrap();
    for (name, before, _) in TARGETS {
        before.into_iter().for_each(|text| fs::write(here.join(name), text).unwrap());
    }
    configure(here, &[BEFORE, REMOVED]);
    let mut command = fail_one.before(injection, &record_in(here));
    command.arg(HERTZD);
    let status = match scene {
        Scene::Daemon => daemon(command, here, work),
        Scene::Safe => {
            killed(here);
            command.arg("safe");
            ended(&mut start(command, here))
        }
    };
    let recorded = |one: &Injection| Some(format!("{}({}", one.call, read(here, "calls").lines().next()?));
    let failed = injection.and_then(recorded);
    Played { folder, scene, status, failed }
}

fn configure(folder: &Path, parts: &[&str]) {
    let text = parts.concat().replace(HERE, folder.to_str().unwrap());
    fs::write(folder.join("new.toml"), text).unwrap();
    fs::rename(folder.join("new.toml"), folder.join("test.toml")).unwrap();
}

/// Starts the command with its output in files.
fn start(mut command: Command, folder: &Path) -> Child {
    let file = |name| File::create(folder.join(name)).unwrap();
    command.env("RUNTIME_DIRECTORY", folder.join("run")).env_remove("HERTZD_LOG");
    command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Whether a state was reached before the program ended and within `longest`.
fn came(child: &mut Child, longest: Span, mut state: impl FnMut() -> bool) -> bool {
    let waited = stopwatch();
    loop {
        if state() {
            return true;
        }
        if child.try_wait().unwrap().is_some() || waited() > longest {
            return false;
        }
        pause(Span::from_millis(2));
    }
}

/// Waits for the child's end; `None`: it hung, and was killed.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let waited = stopwatch();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if waited() > PATIENCE {
            traced(child.id()).into_iter().for_each(|pid| signal(pid, "KILL"));
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        pause(Span::from_millis(2));
    }
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

fn daemon(mut command: Command, folder: &Path, work: Span) -> Option<ExitStatus> {
    command.arg("run").arg(folder.join("test.toml")).arg("--json");
    let mut child = start(command, folder);
    let parent = child.id();
    let send = |name: &str| {
        _ = traced(parent).map(|pid| Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).output())
    };
    let live = |names: [&str; 3]| names.iter().all(|name| read(folder, name).starts_with("0.5"));
    if came(&mut child, STATE, || live(["set", "back", "shrinks"])) {
        // Someone queries the daemon while it works.
        let _ = Command::new(HERTZD).args(["status", "--socket"]).arg(folder.join("run/status.sock")).output();
        pause(work);
        configure(folder, &[BEFORE, ADDED]);
        send("HUP");
        let answered = || read(folder, "stderr").contains("reload");
        came(&mut child, STATE, || answered() && read(folder, "added") == "0.75\n" && read(folder, "removed") == "3\n");
    }
    send("TERM");
    ended(&mut child)
}

/// Kills a daemon while its outputs are live.
fn killed(folder: &Path) {
    let mut command = Command::new(HERTZD);
    command.arg("run").arg(folder.join("test.toml"));
    let mut child = start(command, folder);
    let live = || ["set", "back", "shrinks", "removed"].iter().all(|name| read(folder, name).starts_with("0.5"));
    assert!(came(&mut child, PATIENCE, live), "{}", read(folder, "stderr"));
    child.kill().unwrap();
    child.wait().unwrap();
}

impl Played {
    /// Checks all conditions. The error names the one that fails.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let folder = self.folder.path();
        let stderr = read(folder, "stderr");
        let Some(status) = self.status else { return Err("it hangs".into()) };
        // The standard library's own assertion. No real file system refuses to close a folder.
        if stderr.contains("unexpected error during closedir") {
            return Ok(());
        }
        if stderr.contains("panicked") {
            return Err("it panicked".into());
        }
        match status.code() {
            // The dynamic loader's own refusal, before hertzd's first instruction.
            Some(127) if stderr.contains("error while loading shared libraries") => {}
            Some(code) => self.judge_words(code, &stderr)?,
            // A signal sent before its first instructions has its default effect.
            None if status.signal() == Some(libc::SIGTERM) && stderr.is_empty() => {}
            None => return Err(format!("it ended by signal {:?}", status.signal())),
        }
        self.judge_targets(status.success())
    }

    /// Checks that the exit code is documented, that it agrees with the summary, and that a failure's message names the reason.
    fn judge_words(&self, code: i32, stderr: &str) -> Result<(), String> {
        let failed = self.failed.as_deref().unwrap_or_default();
        let is_mute = failed.starts_with("write(2, ") || failed.starts_with("writev(2, ");
        let is_explained = stderr.contains("hertzd: ") || stderr.contains("error: ");
        let reason = failed.rsplit_once(" (").map_or("", |(_, reason)| reason.trim_end_matches(')'));
        let in_other_words = IN_OTHER_WORDS.iter().any(|(of, words)| failed.contains(of) && stderr.contains(words));
        if code != 0 && !is_mute && !(is_explained && (stderr.contains(reason) || in_other_words)) {
            return Err(format!("it ended with {code} and does not say why: {failed}"));
        }
        if self.scene == Scene::Safe {
            return if [0, 1, 70, 77].contains(&code) { Ok(()) } else { Err(format!("it ended with {code}")) };
        }
        let stdout = read(self.folder.path(), "stdout");
        let is_cut_off = code == 70 && stderr.contains("writing to stdout: ");
        match (code, stdout.is_empty()) {
            (70, _) if is_cut_off => Ok(()),
            (0 | 1, false) | (70, false) => self.judge_summary(&stdout, code == 0),
            (70 | 77 | 78, true) => Ok(()),
            (_, is_empty) => {
                Err(format!("it ended with {code} and {} summary", if is_empty { "without" } else { "a" }))
            }
        }
    }

    /// Checks that the summary states whether all was well, that its counts add up, and that the rows it counts exist.
    fn judge_summary(&self, stdout: &str, well: bool) -> Result<(), String> {
        let summary: Value = match serde_json::from_str(stdout) {
            Ok(summary) => summary,
            // A reader that is gone has not read the rest; here, writes after the failing one still have a reader.
            Err(_)
                if self
                    .failed
                    .as_deref()
                    .is_some_and(|failed| failed.starts_with("write(1, ") && failed.contains("EPIPE")) =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("the summary is no JSON: {error}")),
        };
        if summary["well"] != well || summary["reason"].is_string() == well {
            return Err(format!("well is {} in the summary, because of {}", summary["well"], summary["reason"]));
        }
        for task in summary["tasks"].as_array().ok_or("the summary has no tasks")? {
            let [due, ran, skipped, met, missed, pending] =
                ["due", "ran", "skipped", "met", "missed", "pending"].map(|key| count(task, key));
            if ran + skipped != due || met + missed + pending != due {
                return Err(format!("counts do not add up: {task}"));
            }
        }
        let source = &crate::program::task(&summary, "source")["recorded"];
        let rows = read(self.folder.path(), "source.csv").lines().skip(1).count() as u64;
        // Data that a disk refused to store counts as lost, though a part of it may be there.
        let refused = self.failed.as_deref().is_some_and(|failed| failed.starts_with("sync_file_range("));
        match source["rows"].as_u64() {
            Some(recorded) if recorded != rows && !(refused && recorded < rows) => {
                Err(format!("source.csv has {rows} rows, and the summary says {recorded}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that each target is safe or untouched, or that the plan still has it and `hertzd safe` writes it.
    fn judge_targets(&self, success: bool) -> Result<(), String> {
        let folder = self.folder.path();
        let may_be_untouched = |name: &str| name == "added" || (self.scene == Scene::Daemon && !success);
        let wrong = || {
            TARGETS.into_iter().find_map(|(name, before, safe)| {
                let holds = fs::read_to_string(folder.join(name)).ok();
                let is_right = holds.as_deref() == Some(safe) || (may_be_untouched(name) && holds.as_deref() == before);
                (!is_right).then(|| format!("{name} holds {holds:?} in place of {safe:?}"))
            })
        };
        let Some(first) = wrong() else { return Ok(()) };
        // `hertzd safe` asked whether a plan exists, and the answer was no.
        let asked = |failed: &String| failed.starts_with("statx(") && failed.contains("safe-plan.json\" = ENOENT");
        if self.scene == Scene::Safe && self.failed.as_ref().is_some_and(asked) {
            return Ok(());
        }
        if success {
            return Err(format!("it succeeded, but {first}"));
        }
        let again = Command::new(HERTZD).arg("safe").env("RUNTIME_DIRECTORY", folder.join("run")).output().unwrap();
        wrong().map_or(Ok(()), |wrong| Err(format!("{wrong}, and `hertzd safe` does not write it: {again:?}")))
    }

    /// All output, for the message of a failure.
    pub(crate) fn describe(&self) -> String {
        let folder = self.folder.path();
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| read(folder, name));
        format!("{:?}\n{:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", self.status, self.failed)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}
