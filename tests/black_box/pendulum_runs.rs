//! `examples/pendulum` as real processes, on a terminal of tmux too. Whether the pole stands depends on the machine: the tests assert only
//! what always holds.

use crate::pendulum_example::example;
use crate::program::{Ended, Running, pause, signal, skip, snapshot, start, task};
use hertzd::time::Span;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The example with these arguments, in a separate runtime directory; and its first line of output.
struct Watched {
    running: Running,
    daemon: u32,
    plant: u32,
    folder: PathBuf,
}

fn command(example: &Path, runtime: &Path) -> Command {
    let mut command = Command::new(example);
    command.env("XDG_RUNTIME_DIR", runtime).env_remove("HERTZD_LOG");
    command
}

/// The numbers after `name`, up to a comma.
fn after<'a>(line: &'a str, name: &str) -> &'a str {
    line.split_once(name).unwrap_or_else(|| panic!("no {name}: {line}")).1.split([',', '\n']).next().unwrap()
}

impl Watched {
    fn start(words: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(example()?, folder.path());
        command.args(words).current_dir(ROOT);
        let mut running = start(folder, command);
        running.wait_for("it says who runs", |running| stdout(running).contains("files in "));
        let line = stdout(&running);
        let [daemon, plant] = ["daemon ", "plant "].map(|name| after(&line, name).parse().unwrap());
        Some(Self { folder: after(&line, "files in ").into(), daemon, plant, running })
    }

    fn socket(&self) -> PathBuf {
        self.running.folder().join(format!("hertzd/{}/status.sock", self.daemon))
    }

    /// Waits until the controller has released the pole.
    fn wait_until_free(&mut self) {
        self.running.wait_for("the controller pushes", |running| {
            stdout(running).contains("stands for ") || stdout(running).contains("fell after ")
        });
    }

    /// Waits until the example has ended, and asserts that nothing is left.
    fn ended(self) -> Ended {
        let Self { running, daemon, plant, folder } = self;
        let ended = running.wait();
        nothing_is_left(&[daemon, plant], &folder);
        ended
    }
}

fn stdout(running: &Running) -> String {
    fs::read_to_string(running.folder().join("stdout")).unwrap()
}

/// Waits until these processes have ended and the folder is gone. A process that is not a child of this one may stay a zombie until its
/// parent reaps it.
fn nothing_is_left(processes: &[u32], folder: &Path) {
    let runs = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    for _ in 0..2_400 {
        if !processes.iter().any(runs) && !folder.exists() {
            return;
        }
        pause(Span::from_millis(50));
    }
    let left: Vec<_> = processes.iter().filter(|pid| runs(pid)).collect();
    panic!("still there: processes {left:?}, {}: {}", folder.display(), folder.exists());
}

/// The summary table: for each task, its met and missed ticks.
fn counts(stdout: &str) -> Vec<(String, u64)> {
    let table = stdout.lines().skip_while(|line| !line.starts_with("task ")).skip(1).take(4);
    table
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            (words[0].to_owned(), words[3].parse::<u64>().unwrap() + words[4].parse::<u64>().unwrap())
        })
        .collect()
}

#[test]
fn a_run_without_a_terminal_counts_all_and_ends_by_itself() {
    let Some(watched) = Watched::start(&["--seconds", "3"]) else { return };
    let ended = watched.ended();
    let out = &ended.stdout;
    // Whether the pole stands depends on the machine; but the words and the exit code must agree.
    let stands = out.lines().last().unwrap().starts_with("The pole stands for ");
    assert_eq!(ended.status.code(), Some(if stands { 0 } else { 1 }), "{}", ended.describe());
    let steps: Vec<u64> =
        out.lines().filter_map(|line| line.split_once("  step ")?.1.trim().split(' ').next()?.parse().ok()).collect();
    assert!(!steps.is_empty() && steps.is_sorted() && *steps.last().unwrap() > 0, "{}", ended.describe());
    let counts = counts(out);
    let names: Vec<_> = counts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["pole", "control", "motor", "fallen"], "{}", ended.describe());
    assert!(counts[0].1 > 0 && counts[0].1.abs_diff(counts[2].1) <= 1, "one grid: {}", ended.describe());
    assert!(ended.stderr.contains("main: granted "), "{}", ended.describe());
}

#[test]
fn a_signal_ends_all_three_in_good_order() {
    for name in ["TERM", "INT", "HUP"] {
        let Some(mut watched) = Watched::start(&["--headless", "--seconds", "3600"]) else { return };
        watched.wait_until_free();
        watched.running.signal(name);
        let ended = watched.ended();
        assert!(matches!(ended.status.code(), Some(0 | 1)), "{name}: {}", ended.describe());
        assert!(ended.stdout.contains("worker main: ") && ended.stdout.contains("\nThe pole "), "{}", ended.describe());
    }
}

#[test]
fn a_plant_that_is_killed_makes_the_output_safe_and_is_told() {
    let Some(mut watched) = Watched::start(&["--headless", "--seconds", "3600"]) else { return };
    watched.wait_until_free();
    let socket = watched.socket();
    assert!(snapshot(&socket)["tasks"].as_array().unwrap().len() == 4);
    signal(watched.plant, "KILL");
    // The plant's file can still be read, but its steps stop, so nothing is computed.
    let force = watched.folder.join("force");
    watched.running.wait_for("the output is safe", |_| {
        let snapshot = snapshot(&socket);
        task(&snapshot, "motor")["values"]["is-safe"]["last"] == 1.0
            && fs::read_to_string(&force).unwrap().trim() == "0"
    });
    watched.running.signal("TERM");
    let ended = watched.ended();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.describe());
    assert!(ended.stdout.contains(", until the plant ended (signal: 9 (SIGKILL))"), "{}", ended.describe());
}

#[test]
fn a_daemon_that_is_killed_ends_it_and_is_told() {
    let Some(mut watched) = Watched::start(&["--headless", "--seconds", "3600"]) else { return };
    watched.wait_until_free();
    signal(watched.daemon, "KILL");
    let ended = watched.ended();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert!(ended.stderr.contains("the daemon ended by itself (signal: 9 (SIGKILL))"), "{}", ended.describe());
}

#[test]
fn none_of_the_others_outlives_the_process_that_started_them() {
    let Some(mut watched) =
        Watched::start(&["examples/pendulum/bad-policy.toml", "--busy", "--headless", "--seconds", "3600"])
    else {
        return;
    };
    watched.running.wait_for("the busy loops run", |running| !children(running.pid(), "busy").is_empty());
    let busy = children(watched.running.pid(), "busy");
    watched.running.signal("KILL");
    let Watched { running, daemon, plant, folder } = watched;
    let ended = running.wait();
    assert_eq!(ended.status.code(), None);
    nothing_is_left(&[&[daemon, plant][..], &busy].concat(), &folder);
}

/// The children of a process whose first word is this.
fn children(pid: u32, word: &str) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let has_word = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some(word)
    };
    children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(has_word).collect()
}

#[test]
fn what_cannot_run_is_said_and_leaves_nothing() {
    let Some(example) = example() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = fs::read_to_string(format!("{ROOT}/examples/pendulum/pendulum.toml")).unwrap();
    let broken = folder.path().join("broken.toml");
    fs::write(&broken, config.replace("200 Hz", "200 Herz")).unwrap();
    let run = |words: &[&str]| {
        let output = command(example, folder.path()).args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, error) = run(&[broken.to_str().unwrap()]);
    assert!(
        code == Some(70)
            && error.contains("200 Herz")
            && error.contains("the daemon ended by itself (exit status: 78)"),
        "{code:?}: {error}"
    );
    let (code, error) = run(&["nowhere.toml"]);
    assert!(code == Some(70) && error.contains("nowhere.toml: No such file"), "{code:?}: {error}");
    let (code, error) = run(&["--seconds", "0"]);
    assert!(code == Some(64) && error.contains("0 is not in 1..=86400"), "{code:?}: {error}");
}

struct Terminal(tempfile::TempDir);

impl Terminal {
    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-f/dev/null").arg("-S").arg(self.0.path().join("tmux")).args(words);
        command.env("SHELL", "/bin/sh").env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        let output = command.env("XDG_RUNTIME_DIR", self.0.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        for _ in 0..2_400 {
            let shown = self.tmux(&["capture-pane", "-p"]);
            if is(&shown) {
                return shown;
            }
            pause(Span::from_millis(50));
        }
        panic!("timed out before {what}:\n{}", self.tmux(&["capture-pane", "-p"]));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_drawing_fits_any_terminal_and_q_and_signals_end_it() {
    if Command::new("tmux").arg("-V").output().is_err() {
        skip("there is no tmux here");
        return;
    }
    let Some(example) = example() else { return };
    let terminal = Terminal(tempfile::tempdir().unwrap());
    terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "PS1='READY ' exec /bin/sh"]);
    terminal.wait_for("the shell", |shown| shown.contains("READY"));
    let start = format!(
        "clear; sh -c 'echo $$ >{}/pid; exec {}'; echo ENDED $?",
        terminal.0.path().display(),
        example.display()
    );
    for end in ["q", "TERM", "its terminal goes away"] {
        terminal.tmux(&["send-keys", &start, "Enter"]);
        let has_drawing = |shown: &str| shown.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        let shown = terminal.wait_for("the drawing", |shown| {
            has_drawing(shown)
                && shown.contains("pendulum.toml: the pole ")
                && (shown.contains("stands for") || shown.contains("fell after"))
        });
        assert!(shown.lines().all(|line| line.chars().count() <= 80) && shown.contains("q: quit"), "{shown}");
        let pid: u32 = fs::read_to_string(terminal.0.path().join("pid")).unwrap().trim().parse().unwrap();
        let parts = [children(pid, "plant"), children(pid, "run")].concat();
        assert_eq!(parts.len(), 2, "{parts:?}");
        let line = fs::read_to_string(format!("/proc/{}/cmdline", parts[0])).unwrap();
        let folder = PathBuf::from(line.split('\0').nth(2).unwrap());
        assert!(folder.join("pole").exists());
        terminal.tmux(&["resize-window", "-x", "30", "-y", "18"]);
        terminal.wait_for("a narrow one", |shown| has_drawing(shown) && shown.contains("\nr: set up again"));
        terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
        match end {
            "q" => drop(terminal.tmux(&["send-keys", "q"])),
            "TERM" => signal(pid, end),
            _ => {
                terminal.tmux(&["kill-server"]);
                nothing_is_left(&[&[pid][..], &parts].concat(), &folder);
                return;
            }
        }
        let shown = terminal.wait_for("its end", |shown| shown.lines().any(|line| line.starts_with("ENDED ")));
        assert!(shown.contains("\nThe pole ") && (shown.contains("ENDED 0") || shown.contains("ENDED 1")), "{shown}");
        nothing_is_left(&parts, &folder);
        terminal.tmux(&[
            "send-keys",
            "clear; stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo|isig)' | xargs echo HAS",
            "Enter",
        ]);
        terminal.wait_for("the terminal as it was", |shown| {
            shown.contains("HAS isig icanon echo\n") && shown.contains("READY")
        });
    }
}
