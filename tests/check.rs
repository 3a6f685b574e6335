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
