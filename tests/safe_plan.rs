//! The plan of safe values: what was there before lies in it, it is written again where somebody has removed it, and what `hertzd safe` writes by it
//! is read back.

mod program;

use hertzd::internals::pause;
use hertzd::time::Span;
use program::{HERTZD, Running, run_in};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

const CONFIG: &str = "\
[task.fan]
kind = \"output\"
rate = 100
input = 0.75
path = \"@HERE@/fan\"
safe = 1
safe-after = \"1h\"
";

/// Starts it with a runtime directory of its own: its plan, and its status socket, which lies elsewhere.
fn start() -> (Running, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, socket) = (folder.path().join("run"), folder.path().join("s"));
    fs::create_dir(&runtime).unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", &runtime);
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, command, CONFIG, &args);
    running.wait_for("it is live", |running| read(&running.folder().join("fan")) == "0.75\n");
    running.wait_for("it can be asked", |_| socket.exists());
    (running, runtime.join("safe-plan.json"), socket)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Kills it, and waits for the end of its last thread: until then its files are locked.
fn kill(running: &mut Running) {
    running.signal("KILL");
    while !running.has_ended() {
        pause(Span::from_millis(5));
    }
}

fn safe(args: &[&str]) -> Output {
    Command::new(HERTZD).arg("safe").args(args).output().unwrap()
}

fn reason(socket: &Path) -> String {
    program::snapshot(socket)["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_plan_that_was_removed_is_written_again_and_without_one_it_is_not_well() {
    let (mut running, plan, socket) = start();
    let (text, runtime) = (read(&plan), plan.parent().unwrap());
    fs::remove_file(&plan).unwrap();
    running.wait_for("the plan is there again", |_| read(&plan) == text);
    let again = "the plan of safe values was removed, and is written again";
    running.wait_for("it is said", |running| running.stderr().contains(again));
    // Nothing can be made where its folder was.
    fs::rename(runtime, running.folder().join("away")).unwrap();
    fs::write(runtime, "").unwrap();
    let trouble = "the plan of safe values is gone, or does not have all outputs: it could not be written: ";
    running.wait_for("it is not well", |_| reason(&socket).contains(trouble));
    fs::remove_file(runtime).unwrap();
    running.wait_for("the plan is there again", |_| read(&plan) == text);
    running.wait_for("it is well", |_| !reason(&socket).contains("the plan of safe values"));
    running
        .wait_for("it is said", |running| running.stderr().contains("the plan of safe values could be written again"));
    // It is locked as any other, and has all that is needed.
    let held = safe(&["--plan", plan.to_str().unwrap()]);
    assert_eq!(held.status.code(), Some(77), "{held:?}");
    kill(&mut running);
    let done = safe(&["--plan", plan.to_str().unwrap()]);
    assert!(done.status.success() && read(&running.folder().join("fan")) == "1\n", "{done:?}");
}

#[test]
fn what_was_there_before_lies_in_the_plan() {
    let (mut running, plan, _) = start();
    let found: Value = serde_json::from_str(&read(&plan)).unwrap();
    let write = &found["outputs"][0]["writes"][0];
    assert_eq!((&write["original"], &write["text"]), (&"0.5".into(), &"1\n".into()), "{found}");
    kill(&mut running);
    let dry = safe(&["--dry-run", "--plan", plan.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&dry.stdout);
    assert!(text.contains("fan; before hertzd wrote to it, it held 0.5\n"), "{dry:?}");
    assert_eq!(read(&running.folder().join("fan")), "0.75\n");
}

#[test]
fn a_write_that_does_not_return_is_named_and_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let [hangs, takes] = ["hangs", "takes"].map(|name| folder.path().join(name));
    // No one reads there: who opens it to write waits.
    assert!(Command::new("mkfifo").arg(&hangs).status().unwrap().success());
    fs::write(&takes, "0.75\n").unwrap();
    let output = |task: &str, path: &Path| json!({"task": task, "writes": [{"to": "file", "path": path, "witness": null, "text": "1\n", "cut": true}]});
    let plan = folder.path().join("plan.json");
    let outputs = json!({"version": 1, "pid": 0, "outputs": [output("slow", &hangs), output("quick", &takes)]});
    fs::write(&plan, outputs.to_string()).unwrap();
    let done = safe(&["--plan", plan.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text.contains("slow: 1 to ") && text.contains("it has not returned within 2.00 s: look at"), "{done:?}");
    assert_eq!(read(&takes), "1\n");
}

/// Of this process there is one such file, and one writer of it at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// What the kernel takes as a number and shows as another one: 33 reads as 00000021. For who holds [`ALONE`].
fn reads_otherwise() -> String {
    format!("/proc/{}/coredump_filter", std::process::id())
}

#[test]
fn what_reads_otherwise_than_it_was_written_is_said() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (plan, fan) = (folder.path().join("plan.json"), folder.path().join("fan"));
    fs::write(&fan, "0.5\n").unwrap();
    let write =
        |path: &str, text: &str| json!({"to": "file", "path": path, "witness": null, "text": text, "cut": false});
    let output = |task: &str, write: Value| json!({"task": task, "writes": [write]});
    let carry_out = |outputs: Vec<Value>| {
        fs::write(&plan, json!({"version": 1, "pid": 1, "outputs": outputs}).to_string()).unwrap();
        safe(&["--plan", plan.to_str().unwrap()])
    };
    let wrong = output("wrong", write(&reads_otherwise(), "33\n"));
    let right = output("right", write(fan.to_str().unwrap(), "0.7\n"));
    let done = carry_out(vec![wrong, right.clone()]);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    let what =
        format!("wrong: {} reads 00000021 in place of 33, which was written to it just now; either", reads_otherwise());
    assert!(stderr.contains(&what) && !stderr.contains("right: "), "{stderr}");
    assert!(stdout.contains("right: wrote 0.7 to ") && read(&fan) == "0.7\n", "{stdout}");
    let done = carry_out(vec![right]);
    assert!(done.status.success(), "{done:?}");
    // What can only be written is written, and nothing is said of it.
    let only = format!("/proc/{}/clear_refs", std::process::id());
    let done = carry_out(vec![output("only", write(&only, "1\n"))]);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn by_a_configuration_too() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (folder.path().join("hertzd.toml"), reads_otherwise());
    fs::write(
        &config,
        format!("[task.wrong]\nkind = \"output\"\nrate = 10\ninput = 1\npath = \"{path}\"\nsafe = 33\n"),
    )
    .unwrap();
    let done = safe(&[config.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("wrong: {path} reads 00000021 in place of 33, which was written")), "{stderr}");
}
