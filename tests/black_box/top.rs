//! `hertzd top` against real daemons and on a real terminal, provided by tmux: its display when the daemon hangs, ends and returns. At
//! every end the terminal is as it was before.

#![cfg(feature = "top")]

use crate::program;
use crate::program::{HERTZD, Running, pause, run_in, signal, skip};
use hertzd::time::Span;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const CONFIG: &str = "[worker.main]\npolicy = \"other\"\n[task.steady]\nkind = \"load\"\nrate = 100\n\
    [task.slow]\nkind = \"load\"\nrate = 2\n";

fn hertzd(args: &[&str], socket: &Path) -> Output {
    let mut command = Command::new(HERTZD);
    command.args(args).arg("--socket").arg(socket).stdin(Stdio::null()).env("LC_ALL", "C").env_remove("COLUMNS");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_terminal_or_a_daemon_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let output = hertzd(&["top"], &socket);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("`hertzd top --once` prints one frame"), "{output:?}");
    let output = hertzd(&["top", "--once"], &socket);
    assert_eq!(output.status.code(), Some(69));
    assert!(text(&output.stderr).contains(&format!("no daemon answers at {}: ", socket.display())), "{output:?}");
}

/// Answers each connection with a snapshot that is a second later than the one before, with the same counts.
fn answering(socket: &Path, counts: Value) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for (second, stream) in listener.incoming().enumerate() {
            let daemon = json!({"pid": 7, "version": "0", "running_ns": (second + 1) * 1_000_000_000, "ready": true, "sentence": "well"});
            let snapshot = json!({"well": true, "daemon": daemon, "workers": [], "tasks": counts});
            let _ = stream.unwrap().write_all(snapshot.to_string().as_bytes());
        }
    });
}

#[test]
fn one_frame_shows_the_counts_of_status() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let task = |name: &str, due: u64, missed: u64| {
        json!({"task": name, "worker": "main", "rate": "1000/1", "state": "ticking", "due": due, "met": due - missed, "missed": missed,
            "pending": 0, "ran": due, "lateness_ns": {"count": due, "p50": 1_000, "p99": 2_000}, "last_cause": "woken-late"})
    };
    answering(&socket, json!([task("imu", 123_456_789_012, 7), task("log", 60, 60)]));
    let status = text(&program::status(&socket, &[]).stdout);
    // If the machine delays the answer, ask again.
    let mut output = hertzd(&["top", "--once"], &socket);
    while output.status.code() == Some(69) {
        output = hertzd(&["top", "--once"], &socket);
    }
    let frame = text(&output.stdout);
    assert!(output.status.success() && frame.is_ascii() && !frame.contains('\u{1b}'), "{frame}");
    assert!(frame.lines().all(|line| line.len() <= 80), "{frame}");
    for (name, counts) in [("imu", ["123.5G", "7"]), ("log", ["0", "60"])] {
        for shown in [&status, &frame] {
            let line =
                shown.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {shown}"));
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words[3..5], counts, "{shown}");
        }
    }
    assert!(frame.contains("last cause\nimu ") && frame.contains("woken-late"), "the other columns follow: {frame}");
}

/// A terminal of tmux, with a shell in it.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    fn tmux(&self, args: &[&str]) -> Output {
        let socket = self.folder.path().join("tmux");
        let mut command = Command::new("tmux");
        command.arg("-f/dev/null").arg("-S").arg(socket).args(args).stdin(Stdio::null());
        command.env("SHELL", "/bin/sh").env("LC_ALL", "C.UTF-8").env_remove("TMUX").env_remove("NO_COLOR");
        command.output().unwrap()
    }

    fn new() -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let begun = terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "PS1='READY ' exec /bin/sh"]);
        assert!(begun.status.success(), "{begun:?}");
        terminal
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    fn shows(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]).stdout)
    }

    /// Waits until the screen matches `is`. The time limit only catches hangs.
    fn wait_for(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        for _ in 0..2_400 {
            let shown = self.shows();
            if is(&shown) {
                return shown;
            }
            pause(Span::from_millis(50));
        }
        panic!("timed out before {what}:\n{}", self.shows());
    }

    /// Ends the running program by `end`. Then the shell prints its exit code, and the state of the terminal.
    fn ends_well(&self, what: &str, end: impl FnOnce()) {
        end();
        let shown = self.wait_for(what, |shown| shown.lines().any(|line| line.starts_with("ENDED ")));
        assert!(shown.contains("ENDED 0"), "{what}: {shown}");
        self.is_as_before(what);
    }

    /// Asserts that the shell has the terminal again, in the state that shells need.
    fn is_as_before(&self, what: &str) {
        self.press(&[
            "clear; stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo|isig)' | xargs echo HAS",
            "Enter",
        ]);
        // The shell prompts again once that line is complete.
        self.wait_for(what, |shown| shown.contains("HAS isig icanon echo\n") && shown.contains("READY"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn daemon(socket: &Path) -> Running {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder, Command::new(HERTZD), CONFIG, &["--status-socket", socket.to_str().unwrap()])
}

#[test]
fn on_a_terminal_it_follows_the_daemon_and_leaves_no_trace() {
    if Command::new("tmux").arg("-V").output().is_err() {
        skip("there is no tmux here");
        return;
    }
    let terminal = Terminal::new();
    let socket = terminal.folder.path().join("s");
    let mut running = daemon(&socket);
    running.wait_until_granted();
    terminal.wait_for("the shell is there", |shown| shown.contains("READY"));
    let pid = terminal.folder.path().join("pid");
    // The shell's `$$` is the process that becomes the program.
    let start = format!(
        "clear; sh -c 'echo $$ >{}; exec {HERTZD} top --socket {}'; echo ENDED $?",
        pid.display(),
        socket.display()
    );
    let begin = || {
        terminal.press(&[&start, "Enter"]);
        terminal.wait_for("figures of a second", |shown| {
            shown.contains("; rates and times: last ") && shown.contains("\nsteady ")
        })
    };

    let shown = begin();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    terminal.wait_for("the whole screen", |shown| shown.contains("task ") && shown.contains("  <- -> 1/2"));
    terminal.press(&["Right"]);
    terminal.wait_for("more columns", |shown| shown.contains("last cause") && shown.contains("2/2"));
    terminal.tmux(&["resize-window", "-x", "200", "-y", "60"]);
    terminal.wait_for("all columns, and a line for each task", |shown| {
        let tasks = shown.lines().filter(|line| line.starts_with("slow ") || line.starts_with("steady "));
        shown.contains(" reached ") && shown.contains("last cause") && tasks.count() == 2
    });
    terminal.press(&["Enter"]);
    terminal.wait_for("the histogram", |shown| shown.contains("since its start") && shown.contains('█'));
    terminal.press(&["Escape"]);
    terminal.wait_for("the tasks again", |shown| shown.contains(" reached "));

    // The daemon hangs, continues, ends, and returns.
    running.signal("STOP");
    terminal.wait_for("that it hangs", |shown| {
        shown.starts_with("FIGURES are ") && shown.contains("the daemon hangs") && shown.contains("\nsteady ")
    });
    running.signal("CONT");
    terminal.wait_for("that it goes on", |shown| !shown.contains("FIGURES are "));
    drop(running); // killed
    terminal.wait_for("that it has ended", |shown| {
        shown.contains("FIGURES are ") && shown.contains("no daemon answers") && shown.contains("\nsteady ")
    });
    let running = daemon(&socket);
    let process = format!(", process {}, ", running.pid());
    terminal.wait_for("the next one", |shown| shown.contains(&process) && !shown.contains("FIGURES are "));

    terminal.ends_well("q", || terminal.press(&["q"]));
    begin();
    terminal.ends_well("Ctrl-C", || terminal.press(&["C-c"]));
    begin();
    let signalled = |name: &str| signal(std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap(), name);
    for name in ["TERM", "INT", "HUP"] {
        terminal.ends_well(name, || signalled(name));
        begin();
    }

    // When stopped, it gives the terminal back, and takes it again when it continues.
    for (what, stop) in [("Ctrl-Z", None), ("SIGTSTP", Some("TSTP"))] {
        match stop {
            None => terminal.press(&["C-z"]),
            Some(name) => signalled(name),
        }
        // 128 plus the number of SIGSTOP.
        terminal.wait_for(what, |shown| shown.contains("ENDED 147"));
        terminal.is_as_before(what);
        terminal.press(&["clear; fg; echo ENDED $?", "Enter"]);
        terminal.wait_for("figures again", |shown| shown.contains("; rates and times: last "));
    }
    // A program cannot prepare for SIGSTOP; afterwards it redraws the screen.
    signalled("STOP");
    // It may stop within an escape sequence. The terminal then takes the first letter that follows as the end of that sequence.
    terminal.wait_for("the shell", |shown| shown.contains("NDED 147"));
    // The terminal is still raw, so Enter does not end a line.
    terminal.press(&["stty sane; clear; echo AFTER; fg; echo ENDED $?", "C-j"]);
    let is_back = |shown: &str| shown.contains("; rates and times: last ") && !shown.contains("AFTER");
    let up = |shown: &str| Some(shown.split_once(", up ")?.1.split_once(';')?.0.to_owned());
    let first = up(&terminal.wait_for("figures again", is_back));
    // This may be the rest of the frame in which it stopped; then it takes the terminal again. No change of size may come in between: tmux
    // confuses its two screens if they are switched at one size and switched back at another.
    terminal
        .wait_for("a frame of later figures", |shown| is_back(shown) && up(shown).is_some_and(|up| Some(up) != first));

    for (columns, rows) in [("20", "5"), ("1", "1"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", rows]);
        terminal.wait_for("the first words", |shown| {
            let first = shown.lines().next().unwrap_or_default();
            let width = columns.parse().unwrap();
            !first.trim().is_empty() && shown.lines().all(|line| line.chars().count() <= width)
        });
    }
    terminal.wait_for("figures again", |shown| shown.contains("; rates and times: last "));
    terminal.ends_well("q after all of it", || terminal.press(&["q"]));

    // A terminal may claim any size: no machine has that much memory for a screen. Anything drawn beyond the real size is not shown.
    terminal.press(&["clear; stty rows 65535 columns 65535", "Enter"]);
    terminal.press(&[&start, "Enter"]);
    terminal.wait_for("a huge screen", |shown| shown.contains("q quit"));
    terminal.ends_well("q on a huge screen", || terminal.press(&["q"]));
}

/// On a terminal that is not its controlling one: no SIGHUP reports that the terminal is gone.
#[test]
fn without_its_terminal_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    answering(&socket, json!([]));
    let script = "import os, pty, subprocess, sys\n\
        master, slave = pty.openpty()\n\
        top = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, start_new_session=True)\n\
        os.close(slave)\n\
        assert os.read(master, 1024)\n\
        os.close(master)\n\
        try:\n    top.wait(90)\nexcept subprocess.TimeoutExpired:\n    top.kill()\n    sys.exit('it goes on')\n";
    let mut command = Command::new("python3");
    command.args(["-c", script, HERTZD, "top", "--socket"]).arg(&socket).env("TERM", "xterm").env("LC_ALL", "C");
    let Ok(output) = command.output() else {
        skip("there is no python3 here");
        return;
    };
    assert!(output.status.success(), "{output:?}");
}
