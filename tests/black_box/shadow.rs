//! `hertzd run --shadow`, beside a daemon that writes to the same file: outputs compute the values they would write, and write nothing,
//! neither at the start, nor while they run, nor over a reload, nor at the end.

use crate::program;
use crate::program::{HERTZD, Running, run_in};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A sensor on the file `level` in this folder, and an output on the file `fan`.
fn config(folder: &Path, limits: &str) -> String {
    let folder = folder.display();
    format!(
        "[worker.main]\npolicy = \"other\"\n[task.tank]\nkind = \"sensor\"\nrate = 200\npath = \"{folder}/level\"\nmax-file-age = \"off\"\n\
         [task.fan]\nkind = \"output\"\nrate = 200\ninput = \"tank.value\"\nmax-age = \"1h\"\nsafe-after = \"1h\"\n\
         path = \"{folder}/fan\"\nlimits = {limits}\nsafe = 1\n"
    )
}

/// An output on a file that does not exist.
fn none(folder: &Path) -> String {
    format!("[task.none]\nkind = \"output\"\nrate = 200\ninput = 3\nsafe = 1\npath = \"{}/none\"\n", folder.display())
}

fn set(folder: &Path, value: &str) {
    fs::write(folder.join("new"), value).unwrap();
    fs::rename(folder.join("new"), folder.join("level")).unwrap();
}

fn fan(folder: &Path) -> String {
    fs::read_to_string(folder.join("fan")).unwrap()
}

fn start(config: &str, args: &[&str]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    run_in(folder, command, config, args)
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

/// Waits until the output `fan` of this daemon shows this as what it has applied.
fn wait_for_applied(running: &mut Running, wanted: f64) {
    running.wait_for(&format!("{wanted} is applied"), |running| {
        let snapshot = snapshot(running);
        let mut tasks = snapshot["tasks"].as_array().into_iter().flatten();
        tasks.any(|task| task["task"] == "fan" && task["values"]["applied"]["last"] == wanted)
    });
}

#[test]
fn a_shadow_run_computes_and_writes_nothing() {
    let writes = tempfile::tempdir().unwrap();
    let folder = writes.path();
    set(folder, "40\n");
    fs::write(folder.join("fan"), "0.5\n").unwrap();
    let mut real = start(&config(folder, "[0, 100]"), &[]);
    real.wait_for("it writes", |_| fan(folder) == "40\n");

    let mut shadow = start(&(config(folder, "[0, 10]") + &none(folder)), &["--shadow"]);
    wait_for_applied(&mut shadow, 10.0);
    assert_eq!(fan(folder), "40\n", "the real one has written that, and nobody anything since");
    let status = program::status(&shadow.folder().join("status.sock"), &[]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.replace("\n  ", " ").contains("; SHADOW RUN: no output writes anything"), "{status}");
    let (shadows, reals) = (snapshot(&shadow), snapshot(&real));
    assert_eq!((&shadows["shadow"], reals.get("shadow")), (&true.into(), None));
    // Both daemons follow the input.
    set(folder, "5\n");
    wait_for_applied(&mut shadow, 5.0);
    real.wait_for("it follows", |_| fan(folder) == "5\n");
    // A reload does not make it write.
    fs::write(shadow.folder().join("test.toml"), config(folder, "[0, 3]") + &none(folder)).unwrap();
    shadow.signal("HUP");
    wait_for_applied(&mut shadow, 3.0);
    assert_eq!(fan(folder), "5\n");
    assert!(!shadow.folder().join("safe-plan.json").exists() && real.folder().join("safe-plan.json").exists());
    assert_eq!(program::thread_named(shadow.pid(), "hertzd-guard"), None);
    assert!(program::thread_named(real.pid(), "hertzd-guard").is_some());
    shadow.signal("TERM");
    let ended = shadow.wait();
    assert!(ended.status.success(), "{}", ended.describe());
    assert!(ended.stderr.contains("SHADOW RUN: all tasks compute, and no output writes anything"), "{}", ended.stderr);
    assert!(ended.stdout.contains("SHADOW RUN: no output wrote anything"), "{}", ended.stdout);
    assert_eq!(fan(folder), "5\n", "no safe value at the end");
    real.signal("TERM");
    assert!(real.wait().status.success());
    assert_eq!(fan(folder), "1\n");

    // The shadow alone, at its start: nothing is written, so even the modification time stays the same.
    fs::write(folder.join("fan"), "0.5\n").unwrap();
    let changed = fs::metadata(folder.join("fan")).unwrap().modified().unwrap();
    let alone = start(&(config(folder, "[0, 10]") + &none(folder)), &["--shadow", "--for", "50ms", "--json"]);
    let ended = alone.wait();
    assert_eq!(ended.summary()["shadow"], true, "{}", ended.describe());
    assert_eq!(
        (fan(folder).as_str(), fs::metadata(folder.join("fan")).unwrap().modified().unwrap()),
        ("0.5\n", changed)
    );
    assert!(!folder.join("none").exists());
}
