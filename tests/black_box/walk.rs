//! The walk of docs/seeing.md, from a late task to the fixed cause: the test pastes its commands into a shell, block by block.
//! `HERTZD_WALK=write` updates the page with their output.
//!
//! As root on a machine with systemd-journald, the walk has a journal in a private mount namespace, so that the machine's journal gets none
//! of it. Elsewhere it runs without a journal, and the output of `hertzd log` is left out.

use crate::program::{HERTZD, is_root, pause, skip};
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

const JOURNALD: &str = "/usr/lib/systemd/systemd-journald";
const HEADING: &str = "## From a late task to the mended cause\n";

/// Marks the end of a block's output.
const MARK: &str = "=== end of block, exit code ";

/// A shell with its jobs, and a journal if possible. All of its processes end with it.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
    has_journal: bool,
}

impl Shell {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let has_journal = is_root() && Path::new(JOURNALD).exists();
        let mut command = match has_journal {
            true => {
                // A journal that does not exist within a minute never will; then the walk reports that.
                let line = format!(
                    "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal && {{ {JOURNALD} \
                     >/dev/null 2>&1 & }} && n=0; while [ ! -S /run/systemd/journal/socket ] && [ $n -lt 600 ]; do \
                     sleep 0.1; n=$((n + 1)); done; exec bash"
                );
                let mut command = Command::new("unshare");
                // When the first process of a PID namespace ends, all others in it end too.
                command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation=private"]);
                command.args(["bash", "-c", &line]).env_remove("XDG_RUNTIME_DIR");
                command
            }
            false => {
                let mut command = Command::new("bash");
                command.env("XDG_RUNTIME_DIR", folder.path());
                command
            }
        };
        let program = Path::new(HERTZD).parent().unwrap().to_str().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(folder.path()).env("PATH", format!("{program}:{path}")).env_remove("HERTZD_LOG");
        command.env("LC_ALL", "C.UTF-8").env("COLUMNS", "80").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut shell = Self { child, stdin, stdout, folder, has_journal };
        // Jobs started by a pasted block are known as %1 only with job control.
        shell.paste("set -m; exec 2>&1");
        shell
    }

    /// The output of this block, and the exit code of its last command.
    fn paste(&mut self, block: &str) -> (String, i32) {
        writeln!(self.stdin, "{block}\necho \"{MARK}$?\"").unwrap();
        let mut printed = String::new();
        loop {
            let from = printed.len();
            assert!(self.stdout.read_line(&mut printed).unwrap() > 0, "the shell has ended after: {printed}");
            if let Some(code) = printed[from..].strip_prefix(MARK) {
                let code = code.trim().parse().unwrap();
                printed.truncate(from);
                return (printed, code);
            }
        }
    }

    /// Pastes the block repeatedly until its output matches `is`. The time limit only catches output that never comes.
    fn paste_until(&mut self, block: &str, what: &str, is: impl Fn(&str) -> bool) -> String {
        let mut printed = String::new();
        for _ in 0..600 {
            printed = self.paste(block).0;
            if is(&printed) {
                return printed;
            }
            pause(Span::from_millis(200));
        }
        panic!("`{block}` never shows {what}: {printed}");
    }

    fn task(&mut self, name: &str) -> Value {
        let (text, _) = self.paste("hertzd status --json");
        let Ok(status) = serde_json::from_str::<Value>(&text) else { return Value::Null };
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        tasks.into_iter().find(|task| task["task"] == name).unwrap_or_default()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell's jobs have their own process groups, which the shell ends; the namespace ends the rest.
        let _ = writeln!(self.stdin, "kill -KILL $(jobs -p); exit");
        pause(Span::from_millis(100));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fenced block of the section: where its lines begin and end in the page.
struct Block {
    language: String,
    from: usize,
    to: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let begins = page.find(HEADING).expect("the page has the walk");
    let section = &page[begins..];
    let ends = section[HEADING.len()..].find("\n## ").map_or(section.len(), |at| HEADING.len() + at);
    let (mut at, mut blocks, mut open) = (begins, Vec::new(), None);
    for line in section[..ends].split_inclusive('\n') {
        if let Some(language) = line.strip_prefix("```") {
            match open.take() {
                None => open = Some((language.trim().to_owned(), at + line.len())),
                Some((language, from)) => blocks.push(Block { language, from, to: at }),
            }
        }
        at += line.len();
    }
    blocks
}

/// The slices of the trace, as text; `None`: the trace reader is not installed.
fn slices(folder: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/slices.py");
    let output = Command::new("python3").arg(script).arg(folder.join("line.pftrace")).arg("report").output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn blocked(task: &Value) -> u64 {
    task["causes"]["blocked"].as_u64().unwrap_or(0)
}

#[test]
fn the_walk_finds_both_causes_and_mends_them() {
    if Command::new("bash").arg("--version").output().is_err() {
        skip("there is no bash here");
        return;
    }
    let write = std::env::var_os("HERTZD_WALK").is_some_and(|how| how == "write");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/seeing.md");
    let page = fs::read_to_string(&path).unwrap();
    let blocks = blocks(&page);
    let mut shell = Shell::new();
    let (mut reloads, mut blocked_before, mut missed_before) = (0, 0, 0);
    let (mut granted_fifo, mut printed, mut screens) = (false, String::new(), Vec::new());
    let mut seen = Vec::new();
    for (nth, block) in blocks.iter().enumerate() {
        let text = page[block.from..block.to].trim_end();
        if block.language == "text" {
            let slices = nth > 0 && blocks[nth - 1].language == "text";
            let printed = if slices { slices_or_old(shell.folder.path(), text) } else { printed.clone() };
            screens.push((block, printed));
            continue;
        }
        assert_eq!(block.language, "sh", "{text}");
        let command = text.lines().next().unwrap();
        seen.push(command.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
        if command.starts_with("hertzd run ") {
            let line =
                if shell.has_journal { text.to_owned() } else { text.replace("--log-format journal", "2>/dev/null") };
            let line = line.replace("--log-format journal  2>", "2>");
            shell.paste(&line);
            shell.paste_until("hertzd status --json", "that control is blocked by report", |status| {
                let status: Value = serde_json::from_str(status).unwrap_or_default();
                status["tasks"][0]["blockers"]["report"].as_u64() > Some(0)
            });
            if write {
                pause(Span::from_seconds(10)); // so that the screens show more than the start
            }
        } else if command.starts_with("hertzd log ") {
            if !shell.has_journal {
                continue;
            }
            let expected = if reloads == 0 { "blocked by report" } else { "preempted by worker slow" };
            let shows = |log: &str| log.contains(expected);
            if reloads == 0 || granted_fifo {
                printed = shell.paste_until(text, expected, shows);
                assert!(printed.lines().all(|line| line.contains("  control  ")), "{printed}");
            }
        } else if command.starts_with("hertzd top ") {
            printed = shell.paste_until(text, "the blocker", |frame| frame.contains("blocked by report"));
        } else if command.starts_with("hertzd check ") && !text.ends_with("hertzd reload") {
            let (text, code) = shell.paste(text);
            let fails = text.contains("control can miss its deadline: the work due within ");
            assert!(fails && code == 1, "{reloads} {code}: {text}");
            printed = text;
        } else if text.ends_with("hertzd reload") {
            let (text, code) = shell.paste(text);
            assert_eq!(code, 0, "{text}");
            printed = text;
            reloads += 1;
            let control = shell.task("control");
            if reloads == 1 {
                assert!(control["blockers"]["report"].as_u64() > Some(0), "{control}");
                blocked_before = blocked(&control);
                let status = shell.paste("hertzd status --json").0;
                let status: Value = serde_json::from_str(&status).unwrap();
                let policies = status["workers"].as_array().unwrap().iter().map(|worker| &worker["granted"]["policy"]);
                granted_fifo = policies.clone().count() == 2 && policies.clone().all(|policy| policy == "fifo");
                if granted_fifo {
                    shell.paste_until("hertzd status --json", "that worker slow preempts control", |status| {
                        let status: Value = serde_json::from_str(status).unwrap_or_default();
                        status["tasks"][0]["last_misses"].to_string().contains("worker slow")
                            || status["tasks"][0].to_string().contains("worker slow")
                    });
                } else {
                    skip("no real-time priority: the second cause does not show");
                }
                if write {
                    pause(Span::from_seconds(5));
                }
            }
            missed_before = control["missed"].as_u64().unwrap();
        } else if command.starts_with("sleep ") {
            let text = if write { text.to_owned() } else { text.replace("sleep 11", "sleep 1") };
            printed = shell.paste(&text).0;
            let control = shell.task("control");
            assert_eq!(blocked(&control), blocked_before, "none was blocked since the first change: {control}");
            assert!(control["missed"].as_u64() >= Some(missed_before), "it was not started again: {control}");
        } else {
            let (text, code) = shell.paste(text);
            // `hertzd status` returns 1 if the daemon is not well.
            assert!(code == 0 || command == "hertzd status", "{command}: {code} {text}");
            printed = text;
        }
    }
    let of = |what: &str| seen.iter().filter(|command| *command == what).count();
    assert_eq!((of("hertzd log"), of("hertzd check"), of("hertzd status"), reloads), (3, 2, 1, 2), "{seen:?}");
    if write {
        let mut page = page.clone();
        for (Block { from, to, .. }, screen) in screens.into_iter().rev() {
            page.replace_range(*from..*to, &screen);
        }
        fs::write(path, page).unwrap();
    }
}

fn slices_or_old(folder: &Path, old: &str) -> String {
    slices(folder).unwrap_or_else(|| format!("{old}\n"))
}
