//! `strace`: which system calls a program makes, and one of them made to fail.

use crate::errors::{errors_of, left_alone};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// A start, work, a reload and a stop.
    Daemon,
    /// `hertzd safe` after a daemon that was killed.
    Safe,
}

/// One call that fails.
///
/// strace counts for each thread: where several threads make this call, the `nth` of each fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Injection {
    pub(crate) scene: Scene,
    pub(crate) call: String,
    pub(crate) error: String,
    pub(crate) nth: u32,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scene = if self.scene == Scene::Daemon { "daemon" } else { "safe" };
        write!(f, "{scene}:{}:{}:{}", self.call, self.error, self.nth)
    }
}

impl Injection {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let [scene, call, error, nth] = text.split(':').collect::<Vec<_>>()[..] else { return None };
        let scene = if scene == "safe" { Scene::Safe } else { Scene::Daemon };
        Some(Self { scene, call: call.to_owned(), error: error.to_owned(), nth: nth.parse().ok()? })
    }
}

/// Why strace cannot do this here; `None`: it can.
pub(crate) fn missing() -> Option<String> {
    let tried =
        Command::new("strace").args(["-f", "-o", "/dev/null", "-e", "inject=getppid:error=EPERM", "true"]).output();
    match tried {
        Err(error) => Some(format!("strace cannot be started: {error}")),
        Ok(output) if !output.status.success() => {
            Some(format!("strace cannot trace here: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Ok(_) => None,
    }
}

/// strace before the command that it is to trace: all calls are recorded, or one fails.
pub(crate) fn strace(injection: Option<&Injection>, trace: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(trace).stdin(Stdio::null());
    if let Some(Injection { call, error, nth, .. }) = injection {
        // The filter stops the program only at this call.
        command.arg("--seccomp-bpf").arg(format!("--trace={call}"));
        command.arg(format!("--inject={call}:error={error}:when={nth}"));
    }
    command
}

/// The calls that were made to fail.
pub(crate) fn injected(trace: &Path) -> Vec<String> {
    let text = fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.ends_with("(INJECTED)")).map(str::to_owned).collect()
}

/// Of each call the largest number of times that one thread made it.
fn most_of_a_thread(trace: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::<(&str, &str), u32>::new();
    let text = fs::read_to_string(trace).unwrap();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            *counts.entry((thread, name)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::<String, u32>::new();
    for ((_, name), count) in counts {
        let most = most.entry(name.to_owned()).or_default();
        *most = count.max(*most);
    }
    most
}

/// Each injection that a recorded run has room for: of a call that a thread makes often every one of the first 40, then ever fewer.
pub(crate) fn injections(scene: Scene, trace: &Path) -> Vec<Injection> {
    let mut all = Vec::new();
    for (call, most) in most_of_a_thread(trace) {
        let Some(errors) = errors_of(&call) else {
            assert!(left_alone(&call).is_some(), "tests/inject/errors.rs does not know the call {call}");
            continue;
        };
        let mut nth = 1;
        while nth <= most {
            let one = |error: &&str| Injection { scene, call: call.clone(), error: (*error).to_owned(), nth };
            all.extend(errors.iter().map(one));
            nth += 1 + nth / 40 * 4;
        }
    }
    all
}

/// The process that strace has started, once it is hertzd.
pub(crate) fn traced(strace: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).ok()?;
    let is_hertzd = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "hertzd\n");
    children.split_whitespace().find(is_hertzd)?.parse().ok()
}

/// Where the trace of a scene lies in its folder.
pub(crate) fn trace_in(folder: &Path) -> PathBuf {
    folder.join("trace")
}
