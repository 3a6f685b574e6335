//! The command line: habits from other programs get an answer that says what to type here.

use crate::program;
use crate::program::{HERTZD, run};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TASK: &str = "[task.a]\nkind = \"load\"\nrate = 100\n";

fn hertzd(args: &[&str]) -> Output {
    hertzd_reading(args, "")
}

/// Runs `hertzd ARGS` to its end, with this text on standard input.
fn hertzd_reading(args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(HERTZD);
    command.args(args).env_remove("HERTZD_LOG").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read standard input has closed it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_slip_in_a_command_gets_a_tip() {
    let output = hertzd(&["stat"]);
    assert_eq!(output.status.code(), Some(64));
    let text = stderr(&output);
    assert!(text.contains("'status'"), "{text}");
}

/// Every command, and the empty one, as hertzd's help lists them.
fn commands() -> Vec<String> {
    let help = stdout(&hertzd(&["--help"]));
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    let named =
        listed.lines().filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    std::iter::once("").chain(named.filter(|name| *name != "help")).map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_fits_80_columns_and_is_wrapped_once() {
    let commands = commands();
    assert!(commands.len() >= 18, "{commands:?}");
    for command in commands {
        let help = stdout(&hertzd(&[&command, "--help"][usize::from(command.is_empty())..]));
        let long = help.lines().find(|line| line.chars().count() > 80);
        assert!(help.contains("Usage:") && long.is_none(), "{command}: {long:?}");
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2) {
            let [line, next] = pair else { unreachable!() };
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            let word = next.split_whitespace().next().map_or(0, |word| word.chars().count());
            let is_broken = is_prose(line) && is_prose(next) && line.chars().count() + 1 + word <= 80;
            assert!(!is_broken, "{command}: there is room for the next word:\n{line}\n{next}");
        }
        let Some(at) = lines.iter().position(|line| *line == "Examples:") else { continue };
        for line in lines[at + 1..].iter().take_while(|line| !line.is_empty()) {
            let is_whole = ["  hertzd ", "  sudo ", "                    "].iter().any(|start| line.starts_with(start));
            assert!(is_whole, "{command}: an example is too long for a line: {line}");
        }
    }
}

#[test]
fn the_version_is_printed_by_the_command_too() {
    let (command, option) = (hertzd(&["version"]), hertzd(&["--version"]));
    assert!(command.status.success() && stdout(&command).starts_with("hertzd "), "{command:?}");
    assert_eq!(stdout(&command), stdout(&option));
}

#[test]
fn a_configuration_is_named_by_an_option_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    fs::write(&path, TASK).unwrap();
    let path = path.to_str().unwrap();
    for args in [["check", "--config", path], ["check", "-c", path]] {
        assert_eq!(stdout(&hertzd(&args)), stdout(&hertzd(&["check", path])), "{args:?}");
    }
    for command in ["run", "simulate"] {
        let output = hertzd(&[command, "--for", "10ms", "--json", "--config", path]);
        assert!(output.status.success() && stdout(&output).contains("\"due\":1,"), "{command}: {output:?}");
    }
    assert_eq!(hertzd(&["check", "-c", path, path]).status.code(), Some(64));
}

#[test]
fn a_dash_reads_the_configuration_from_standard_input() {
    let output = hertzd_reading(&["check", "-"], TASK);
    let text = stdout(&output);
    assert!(output.status.success() && text.starts_with("standard input: ok\n") && text.contains("100 Hz"), "{text}");
    let output = hertzd_reading(&["check", "-"], "[task.a]\nkind = \"load\"\nrate = \"1 khz\"\n");
    let text = stderr(&output);
    assert!(output.status.code() == Some(78) && text.contains("--> standard input:3:8"), "{text}");
    for command in ["run", "simulate"] {
        let output = hertzd_reading(&[command, "-", "--for", "10ms", "--json"], TASK);
        assert!(output.status.success() && stdout(&output).contains("\"due\":1,"), "{command}: {output:?}");
    }
}

/// Whether the daemon at this socket reports its status, well or not.
fn answers(socket: &Path) -> bool {
    matches!(hertzd(&["status", "--socket", socket.to_str().unwrap()]).status.code(), Some(0 | 1))
}

#[test]
fn standard_input_is_not_read_again_by_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    fs::write(&path, TASK).unwrap();
    let mut shell = Command::new("sh");
    let socket = folder.path().join("status.sock");
    shell.args(["-c", "exec \"$0\" run - --status-socket \"$2\" <\"$1\"", HERTZD]).args([&path, &socket]);
    let mut running = program::start(folder, shell);
    running.wait_until_granted();
    running.wait_for("it answers", |_| answers(&socket));
    let output = hertzd(&["reload", "--socket", socket.to_str().unwrap()]);
    let text = stderr(&output);
    assert!(output.status.code() == Some(78) && text.contains("cannot be read again"), "{text}");
    running.signal("TERM");
    assert!(running.wait().status.success());
}

#[test]
fn without_a_daemon_each_command_says_where_and_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("status.sock");
    let own = own.to_str().unwrap();
    for command in [&["status"][..], &["stop"], &["reload"], &["check", "-", "--against-running"]] {
        let output = hertzd_reading(&[command, &["--socket", own]].concat(), TASK);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(69), "{command:?}: {text}");
        let start = format!("`hertzd run --status-socket {own}`");
        assert!(text.contains(&format!("no daemon answers at {own}: ")) && text.contains(&start), "{text}");
    }
}

#[test]
fn stop_says_how_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let mut running = run(TASK, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    running.wait_for("it answers", |_| answers(&socket));
    let output = hertzd(&["stop", "--socket", socket.to_str().unwrap()]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(text.contains(&format!("`kill {}`", running.pid())), "{text}");
    assert!(!running.has_ended());
    running.signal("TERM");
    assert!(running.wait().status.success());
}

/// On a terminal of 30 columns, which `script` provides.
#[test]
fn the_progress_line_stays_within_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    fs::write(&path, TASK).unwrap();
    let line = format!("stty cols 30; {HERTZD} run --log-level error --for 900ms {}", path.display());
    let output = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        program::skip("there is no script (util-linux) here");
        return;
    };
    let shown = stdout(&output);
    // Each line is drawn over the line before, which is cleared first.
    let drawn: Vec<_> = shown.split("\r\x1b[K").map(|part| part.lines().next().unwrap_or_default()).collect();
    let progress: Vec<_> = drawn.iter().filter(|line| line.contains(" s of 0.9 s")).collect();
    assert!(!progress.is_empty(), "{shown:?}");
    assert!(progress.iter().all(|line| line.chars().count() == 29), "{progress:?}");
}

/// With a stand-in for a daemon that never has an answer: a real one cannot be made to take seconds reliably.
#[test]
fn a_long_wait_for_the_daemon_says_what_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(b"{\"error\":\"the metrics thread is delayed\"}");
        }
    });
    let line = format!("stty cols 200; exec {HERTZD} reload --timeout 10min --socket {}", socket.display());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let Ok(mut script) = command.spawn() else {
        program::skip("there is no script (util-linux) here");
        return;
    };
    let mut shown = String::new();
    let mut terminal = BufReader::new(script.stdout.take().unwrap());
    while !shown.contains("metrics thread is delayed") {
        let mut part = Vec::new();
        assert!(terminal.read_until(b'd', &mut part).unwrap() > 0, "it ended: {shown:?}");
        shown.push_str(&String::from_utf8_lossy(&part));
    }
    assert!(shown.contains(" s of 600 s: the daemon cannot answer yet: the metrics"), "{shown:?}");
    script.kill().unwrap();
    script.wait().unwrap();
}

#[test]
fn the_level_debug_shows_what_the_cool_threads_do() {
    let config = "[task.a]\nkind = \"sensor\"\nrate = 50\npath = \"/proc/loadavg\"\nrecord = \"@HERE@/a.csv\"\n";
    let mut running = run(config, &["--log-level", "debug"]);
    running.wait_for("it records", |running| running.stderr().contains("the recording begins"));
    let path = running.folder().join("test.toml");
    let text = fs::read_to_string(&path).unwrap() + "[task.b]\nkind = \"load\"\nrate = 50\n";
    fs::write(&path, text).unwrap();
    running.signal("HUP");
    running.wait_for("it has reloaded", |running| running.stderr().contains("reloaded: "));
    running.signal("TERM");
    let ended = running.wait();
    for line in [
        "DEBUG reading the configuration",
        "test.toml",
        "DEBUG opened /proc/loadavg (1 values)",
        "a.csv: the recording begins",
        "DEBUG main: begins with 1 tasks",
        "DEBUG a signal asks for: Reload",
        "DEBUG main: handing over a new set of 2 tasks",
        "DEBUG main: took its new set",
    ] {
        assert!(ended.stderr.contains(line), "{line}: {}", ended.describe());
    }
    let ended = run(TASK, &["--for", "50ms"]).wait();
    assert!(!ended.stderr.contains("DEBUG"), "only where it is asked for: {}", ended.describe());
}

/// As under sudo, where the terminal belongs to the user.
#[test]
fn root_writes_to_the_terminal_of_another_user_that_it_runs_at() {
    if !program::is_root() {
        return program::skip("only root can give a terminal to another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("test.toml");
    fs::write(&config, "[task.a]\nkind = \"profile\"\nrate = 1\nshape = \"constant\"\nlevel = 7\n").unwrap();
    let line = format!(
        "chown 65534 $(tty) && exec {HERTZD} simulate {} --for 1s --summary-only --csv $(tty)",
        config.display()
    );
    let Ok(output) = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output() else {
        return program::skip("there is no script (util-linux) here");
    };
    let text = stdout(&output);
    assert!(text.contains("a,0,0.000000000,0,0,7"), "{text}");
}
