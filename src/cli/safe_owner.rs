//! Carries out the plan of another user, as root: by this program once more, in a process that has that user's rights and no others. Before anything
//! else it gives up root's: that user may have no right to execute the program. It gets the plan as its standard input, already open and
//! checked, and answers with one line of JSON.
//!
//! The user may do what it likes with that process, as with any of its own. So nothing of root's is in its reach, and of its answer no more is read
//! than fits, for no longer than the writes may take.

use super::print_json;
use super::safe_writes::{Done, Manner};
use super::stop::Stop;
use crate::daemon::FoundPlan;
use crate::sys::clock::pause;
use crate::sys::dir::effective_user;
use crate::sys::other_user::{ask_to_end, become_user, run_apart};
use crate::time::Span;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Bytes of an answer.
const LONGEST: u64 = 16 << 20;

/// How long the answers of an owner are waited for, for all its plans together.
pub(super) const PATIENCE: Span = Span::from_seconds(60);

/// How often, and after what time, it is looked whether a process that was asked to end has ended.
const LOOKS: u32 = 200;
const BETWEEN: Span = Span::from_millis(10);

/// The process that carries a plan out. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        ask_to_end(&self.0);
        if !self.ends() {
            let _ = self.0.kill();
            // One that waits for a device cannot end: it is not waited for.
            self.ends();
        }
    }
}

impl Owner {
    fn ends(&mut self) -> bool {
        (0..LOOKS).any(|_| !matches!(self.0.try_wait(), Ok(None)) || (pause(BETWEEN), false).1)
    }
}

/// Has a plan carried out by its owner, who has `left` for it. With `--hold` the process that is returned keeps the lines until it is dropped.
pub(super) fn carry_out(found: FoundPlan, manner: Manner, left: Span) -> (Done, Option<Owner>) {
    let ((uid, _), path) = (found.owner, found.path().to_owned());
    let failed = |why: String| {
        let text = format!(
            "the plan {}: it belongs to user {uid}, with whose rights it is carried out: {why}",
            path.display()
        );
        (Done::failed(text), None)
    };
    if left <= Span::ZERO {
        return failed(format!("its other plans have taken {PATIENCE}; run this again with --plan"));
    }
    let mut child = match start(found, manner) {
        Ok(child) => child,
        Err(error) => return failed(format!("this program cannot be started: {error}")),
    };
    let stdout = child.stdout.take();
    let owner = Owner(child);
    match answer(stdout, Duration::from_nanos(left.nanos().max(0).unsigned_abs())) {
        // What it says of itself does not decide whether root waits.
        Ok(mut done) => {
            done.holds &= manner.hold;
            let owner = done.holds.then_some(owner);
            (done, owner)
        }
        Err(why) => failed(why),
    }
}

fn start(found: FoundPlan, manner: Manner) -> io::Result<Child> {
    let (uid, gid) = found.owner;
    let mut command = Command::new("/proc/self/exe");
    command.arg("safe").arg("--as-owner").arg(format!("{uid}:{gid}")).arg("--plan").arg(found.path());
    command.args(
        [("--dry-run", manner.dry_run), ("--hold", manner.hold)].iter().filter(|(_, on)| *on).map(|(name, _)| name),
    );
    command.env_clear().current_dir("/");
    command.stdin(Stdio::from(found.into_file())).stdout(Stdio::piped()).stderr(Stdio::null());
    run_apart(&mut command);
    command.spawn()
}

fn answer(stdout: Option<ChildStdout>, patience: Duration) -> Result<Done, String> {
    let (sender, line) = mpsc::channel();
    let stdout = stdout.ok_or("there is no pipe to it")?;
    let read = move || {
        let mut line = Vec::new();
        let read = BufReader::new(stdout.take(LONGEST)).read_until(b'\n', &mut line);
        _ = sender.send(read.map(|_| line));
    };
    thread::Builder::new().spawn(read).map_err(|error| error.to_string())?;
    let line = line.recv_timeout(patience).map_err(|_| {
        format!("it has not answered in time ({PATIENCE} for all plans of a user); run this again with --plan")
    })?;
    let line = line.map_err(|error| error.to_string())?;
    if line.is_empty() {
        return Err("it has ended without an answer".into());
    }
    serde_json::from_slice(&line).map_err(|error| format!("its answer cannot be read: {error}"))
}

/// Reads a user and its group, `UID:GID`.
pub(super) fn user_of(text: &str) -> Result<(u32, u32), String> {
    let both = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    both.ok_or_else(|| "expected UID:GID".into())
}

/// What that process does. It keeps what it holds until it is asked to end.
pub(super) fn answer_for_root((uid, gid): (u32, u32), plan: &Path, manner: Manner) -> Result<Done, Stop> {
    if effective_user() == 0 {
        become_user(uid, gid)
            .map_err(|error| Stop::Fault(format!("cannot have the rights of user {uid}, and no others: {error}")))?;
    }
    let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let file = file.map_err(|error| Stop::Fault(format!("the plan is not open: {error}")))?;
    let mut done = Done::default();
    match FoundPlan::inherited(file, plan) {
        Ok(found) => done.carry_out(found, manner),
        Err(why) => done.refuse(why),
    }
    print_json(&done)?;
    Ok(done)
}
