//! Records the system calls of a program with `strace`, and makes one of them fail with `fail_one.c`.

use crate::errors::{errors_of, left_alone};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The scene to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// A start, work, a reload and a stop.
    Daemon,
    /// `hertzd safe` after a daemon was killed.
    Safe,
}

/// A call to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Injection {
    pub(crate) scene: Scene,
    pub(crate) call: String,
    /// The call's number on this machine.
    number: u32,
    pub(crate) error: String,
    /// Which one of all calls with this number, from any thread.
    pub(crate) nth: u32,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scene = if self.scene == Scene::Daemon { "daemon" } else { "safe" };
        write!(f, "{scene}:{}:{}:{}:{}", self.call, self.number, self.error, self.nth)
    }
}

impl Injection {
    /// Parses the text of [`Display`](fmt::Display).
    pub(crate) fn read(text: &str) -> Option<Self> {
        let [scene, call, number, error, nth] = text.split(':').collect::<Vec<_>>()[..] else { return None };
        let scene = if scene == "safe" { Scene::Safe } else { Scene::Daemon };
        let (number, nth) = (number.parse().ok()?, nth.parse().ok()?);
        Some(Self { scene, call: call.to_owned(), number, error: error.to_owned(), nth })
    }
}

/// The program that makes a call fail, built.
pub(crate) struct FailOne(TempDir);

impl FailOne {
    /// Builds it.
    ///
    /// # Errors
    /// Why calls cannot be recorded here, or made to fail.
    pub(crate) fn build() -> Result<Self, String> {
        let built = Self(tempfile::tempdir().unwrap());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inject/fail_one.c");
        assert!(Command::new("gcc").arg("-o").arg(built.program()).arg(source).status().unwrap().success());
        let mut strace = Command::new("strace");
        strace.args(["-f", "-n", "-o", "/dev/null", "true"]);
        let mut fails = Command::new(built.program());
        fails.args(["4095", "1", "EPERM", "/dev/null", "/bin/true"]); // no such call exists
        for (mut command, what) in [(strace, "strace cannot trace"), (fails, "no call can be made to fail")] {
            let output = command.output().map_err(|error| format!("{what} here: {error}"))?;
            if !output.status.success() {
                return Err(format!("{what} here: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
        }
        Ok(built)
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("fail_one")
    }

    /// A prefix for a command: records all of its calls in a file, or makes this one fail and records it there.
    pub(crate) fn before(&self, injection: Option<&Injection>, record: &Path) -> Command {
        let Some(Injection { number, error, nth, .. }) = injection else {
            let mut command = Command::new("strace");
            command.args(["-f", "-n", "-qq", "-o"]).arg(record);
            return command;
        };
        let mut command = Command::new(self.program());
        command.args([number.to_string(), nth.to_string(), error.clone()]).arg(record);
        command
    }
}

/// How often each call was made, by name and number.
fn counts(record: &Path) -> BTreeMap<(String, u32), u32> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(record).unwrap().lines() {
        let call =
            line.split_once('[').and_then(|(_, call)| call.split_once("] ")).map(|(number, call)| (call, number));
        let Some((call, number)) = call else { continue };
        let (Some((name, _)), Ok(number)) = (call.split_once('('), number.trim().parse()) else { continue };
        // A call that another thread's call interrupted appears a second time, as `<... name resumed>`. If a thread ends with its process,
        // strace no longer knows which call it was in.
        if !name.starts_with('<') && name != "???" {
            *counts.entry((name.to_owned(), number)).or_default() += 1;
        }
    }
    counts
}

/// Every possible injection into a recorded run: each of the first 40 calls with a number, then fewer and fewer.
pub(crate) fn injections(scene: Scene, record: &Path) -> Vec<Injection> {
    let mut all = Vec::new();
    for ((call, number), made) in counts(record) {
        let Some(errors) = errors_of(&call) else {
            let why = left_alone(&call);
            println!("left alone: {call}, {made} times: {}", why.unwrap_or("?"));
            assert!(why.is_some(), "tests/inject/errors.rs does not know the call {call}");
            continue;
        };
        let mut nth = 1;
        while nth <= made {
            let one = |error: &&str| Injection { scene, call: call.clone(), number, error: (*error).to_owned(), nth };
            all.extend(errors.iter().map(one));
            nth += 1 + nth / 40 * 4;
        }
    }
    all
}

/// The child of this process, once it is hertzd.
pub(crate) fn traced(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let is_hertzd = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "hertzd\n");
    children.split_whitespace().find(is_hertzd)?.parse().ok()
}

/// The path of a scene's record in its folder.
pub(crate) fn record_in(folder: &Path) -> PathBuf {
    folder.join("calls")
}
