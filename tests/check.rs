//! What `hertzd check` prints.

use std::fs;
use std::process::Command;

/// Two workers on one CPU whose tasks have neither budget nor spin tail: the shares are zero, not "-0.0 %".
#[test]
fn a_share_of_nothing_is_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    let of = |name: &str| {
        format!("[worker.{name}]\ncpu = 0\n[task.{name}]\nkind = \"load\"\nrate = 10\nworker = \"{name}\"\n")
    };
    fs::write(&path, of("a") + &of("b")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).arg("check").arg(&path).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let shares = "CPU 0 is shared by workers a, b: 0.0 % by budgets, 0.0 % by fixed spin tails.";
    assert!(output.status.success() && printed.contains(shares), "{printed}");
}

/// What a command that fails writes to stderr, and its exit code.
fn refused(args: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).args(args).output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn a_refusal_says_what_follows_for_this_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    fs::write(&path, "[task.a]\nkind = \"load\"\n").unwrap();
    let path = path.to_str().unwrap();
    let (text, code) = refused(&["check", path]);
    let end = "1 problem; a start with this configuration would be refused\n";
    assert!(code == Some(78) && text.ends_with(end), "{text}");
    let (text, code) = refused(&["run", path]);
    assert!(code == Some(78) && text.ends_with("1 problem; nothing was started\n"), "{text}");
}

#[test]
fn a_wrong_argument_is_named_with_one_remedy() {
    let (text, code) = refused(&["run", "--for", "10"]);
    assert!(code == Some(64) && text.matches("10s").count() == 1, "{text}");
    let (text, code) = refused(&["run", "--for", "1s", "--status-socket", "/nonexistent/s"]);
    let named = text.contains("/nonexistent/s: No such file") && text.contains("with --status-socket");
    assert!(code == Some(70) && named, "{text}");
}

/// clap wraps longer lines at 100 columns; terminals have 80 or more.
#[test]
fn examples_in_the_help_fit_a_terminal() {
    for command in ["run", "check", "simulate", "status", "reload", "devices"] {
        let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, examples) = help.split_once("Examples:").unwrap();
        for line in examples.lines() {
            assert!(line.chars().count() < 80, "{command}: {line}");
        }
    }
}
