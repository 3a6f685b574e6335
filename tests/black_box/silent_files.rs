//! Safe values beside a file whose file system does not answer, as if its server were away (`tests/support/program/silent_file.py`). No
//! request to it ever returns: neither from a task that writes, nor from a process that was killed meanwhile, nor from a `stat`.

use crate::program;
use crate::program::{HERTZD, Running, run_in};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const OUTPUTS: &str = "\
[worker.one]
policy = \"other\"
[worker.two]
policy = \"other\"
[task.disk]
kind = \"output\"
worker = \"one\"
rate = 20
input = 0.5
path = \"@HERE@/disk\"
safe = 1
write = \"always\"
[task.fan]
kind = \"output\"
worker = \"two\"
rate = 20
input = 0.75
path = \"@HERE@/fan\"
safe = 1
";

/// A file that answers until it [hangs](Self::hang). Dropping this restores the file below it.
struct SilentFile {
    server: Child,
    hangs: std::path::PathBuf,
}

impl SilentFile {
    fn over(file: &Path) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/program/silent_file.py");
        let hangs = file.with_extension("hangs");
        let mut python = Command::new("python3");
        python.arg(script).args([file, &hangs]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = python.spawn().ok()?;
        let mut ready = String::new();
        BufReader::new(server.stdout.as_mut()?).read_line(&mut ready).ok()?;
        let is_ready = ready == "ready\n";
        let silent = Self { server, hangs };
        is_ready.then_some(silent)
    }

    fn hang(&self) {
        fs::write(&self.hangs, "").unwrap();
    }
}

impl Drop for SilentFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.hangs);
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// Starts hertzd and waits until both outputs are live. `place`: the variable that names the runtime directory.
fn live(place: &str) -> Option<(Running, SilentFile)> {
    let folder = tempfile::tempdir().unwrap();
    ["disk", "fan"].iter().for_each(|name| fs::write(folder.path().join(name), "0\n").unwrap());
    let Some(disk) = SilentFile::over(&folder.path().join("disk")) else {
        program::skip("no file system in user space can be mounted here");
        return None;
    };
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env(place, folder.path());
    let mut running = run_in(folder, command, OUTPUTS, &[]);
    running.wait_for("both are live", |running| {
        ["disk", "fan"].map(|name| number(running.folder(), name)) == ["0.5", "0.75"]
    });
    Some((running, disk))
}

fn number(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default().trim_end().to_owned()
}

/// Runs hertzd with a time limit: it may hang as well.
fn hertzd(folder: &Path, place: &str, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120", HERTZD]).args(args).env_remove("RUNTIME_DIRECTORY").env(place, folder);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_killed_process_that_cannot_end_keeps_no_safe_value_from_being_written() {
    let Some((mut running, disk)) = live("RUNTIME_DIRECTORY") else { return };
    disk.hang();
    let socket = running.folder().join("status.sock");
    running.wait_for("its write hangs", |_| program::snapshot(&socket)["workers"][0]["stalled_ns"].is_number());
    running.signal("KILL");
    let done = hertzd(running.folder(), "RUNTIME_DIRECTORY", &["safe"]);
    assert_eq!((done.status.code(), &*number(running.folder(), "fan")), (Some(1), "1"), "{}", said(&done));
    assert!(
        said(&done).contains("disk: 1 to ") && said(&done).contains("it has not returned within 2.00 s"),
        "{}",
        said(&done)
    );
    drop(disk);
    running.wait();
}

#[test]
fn a_start_asks_no_target_of_an_earlier_run_before_the_others_are_safe() {
    let Some((running, disk)) = live("XDG_RUNTIME_DIR") else { return };
    running.signal("KILL");
    let folder: TempDir = running.wait().folder;
    disk.hang();
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", folder.path());
    let mut next = run_in(folder, command, "[task.t]\nkind = \"load\"\nrate = 100\n", &[]);
    next.wait_for("the other one is safe", |next| number(next.folder(), "fan") == "1");
    next.wait_until_granted();
    drop(disk);
    next.signal("TERM");
    next.wait();
}
