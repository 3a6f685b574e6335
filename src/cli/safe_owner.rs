//! Carries out another user's plan for root: root runs this program again, in a process that has that user's rights and no others. The new
//! process itself gives up root's rights, before anything else, because that user might not be allowed to execute the program. It receives
//! the plan as its standard input, already open and checked, and answers with one line of JSON.
//!
//! The user can do anything with that process, as with any of its own. So nothing of root's is within its reach, and root limits how much
//! of its answer it reads and how long it waits.

use super::print_json;
use super::safe_writes::{Done, Manner};
use super::stop::Stop;
use crate::daemon::FoundPlan;
use crate::escape::visible_line;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::dir::effective_user;
use crate::sys::other_user::{ask_to_end, become_user, run_apart};
use crate::sys::user::name_of;
use crate::time::{Clock, Span};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Maximum bytes of one answer, and of what is shown of all answers of one owner.
const LONGEST: usize = 64 << 10;

/// How long root waits for all answers of one owner, over all its plans.
const PATIENCE: Span = Span::from_seconds(60);

/// How many times, and at what interval, to check whether a process that was asked to end has ended.
const LOOKS: u32 = 200;
const BETWEEN: Span = Span::from_millis(10);

/// What one other user's plans have used up. No user can decide how long root waits for other users' plans, or how much is printed.
#[derive(Debug)]
pub(super) struct Theirs {
    spent: Span,
    shown: usize,           // bytes
    is_left_out: [bool; 3], // for each list, whether something was left out
}

impl Default for Theirs {
    fn default() -> Self {
        Self { spent: Span::ZERO, shown: 0, is_left_out: [false; 3] }
    }
}

impl Theirs {
    /// Has a plan carried out by its owner. With `--hold`, the returned process keeps the lines until it is dropped.
    pub(super) fn carry_out(&mut self, found: FoundPlan, manner: Manner) -> (Done, Option<Owner>) {
        let clock = KernelClock::monotonic();
        let began = clock.now();
        let done = carry_out(found, manner, PATIENCE - self.spent);
        self.spent += clock.now() - began;
        done
    }

    /// Adds what was done for user `uid`. Each entry is one line that names the plan's owner; lines beyond the limit are dropped.
    pub(super) fn add(&mut self, uid: u32, theirs: Done, done: &mut Done) {
        let whose = format!("user {}", name_of(uid).unwrap_or_else(|| uid.to_string()));
        done.holds |= theirs.holds;
        let lists = [(theirs.failed, &mut done.failed), (theirs.held, &mut done.held), (theirs.said, &mut done.said)];
        for ((lines, all), is_left_out) in lists.into_iter().zip(&mut self.is_left_out) {
            for line in lines {
                let line = format!("{whose}: {}", visible_line(&line));
                self.shown = self.shown.saturating_add(line.len());
                match (self.shown > LONGEST, *is_left_out) {
                    (false, _) => all.push(line),
                    (true, false) => {
                        *is_left_out = true;
                        all.push(format!(
                            "{whose}: there is more, which is not shown, as it is more than {} KiB",
                            LONGEST >> 10
                        ));
                    }
                    (true, true) => {}
                }
            }
        }
    }
}

/// The process that carries out a plan. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        ask_to_end(&self.0);
        if !self.ends() {
            let _ = self.0.kill();
            // A process stuck in a device access cannot end, so do not wait for it forever.
            self.ends();
        }
    }
}

impl Owner {
    fn ends(&mut self) -> bool {
        (0..LOOKS).any(|_| !matches!(self.0.try_wait(), Ok(None)) || (pause(BETWEEN), false).1)
    }
}

/// The same, for an owner with `left` time remaining.
fn carry_out(found: FoundPlan, manner: Manner, left: Span) -> (Done, Option<Owner>) {
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
        // The process's own claim does not decide whether root waits.
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
        let read = BufReader::new(stdout.take(LONGEST as u64)).read_until(b'\n', &mut line);
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

/// Parses a user and its group, `UID:GID`.
pub(super) fn user_of(text: &str) -> Result<(u32, u32), String> {
    let both = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    both.ok_or_else(|| "expected UID:GID".into())
}

/// The body of that process. It keeps what it holds until it is asked to end.
pub(super) fn answer_for_root((uid, gid): (u32, u32), plan: &Path, manner: Manner) -> Result<Done, Stop> {
    if effective_user() == 0 {
        become_user(uid, gid)
            .map_err(|error| Stop::Fault(format!("cannot have the rights of user {uid}, and no others: {error}")))?;
    }
    let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let file = file.map_err(|error| Stop::Fault(format!("the plan is not open: {error}")))?;
    let mut done = Done::default();
    match FoundPlan::inherited(file, plan) {
        Ok(found) => {
            let carried = done.carry_out(found, manner).into_iter().collect();
            done.read_back(carried, manner);
        }
        Err(why) => done.refuse(why),
    }
    shorten(&mut done);
    print_json(&done)?;
    Ok(done)
}

/// Drops lines from an answer that would be too long to read: the second half of the longest list, until it fits.
fn shorten(done: &mut Done) {
    let mut left_out = [0; 3];
    for line in done.failed.iter_mut().chain(&mut done.held).chain(&mut done.said) {
        *line = visible_line(line).into_owned();
    }
    // Leave room for the note about what was dropped.
    while serde_json::to_vec(done).is_ok_and(|answer| answer.len() > LONGEST - 1_024) {
        let lists = [&mut done.failed, &mut done.held, &mut done.said].into_iter().zip(&mut left_out);
        let Some((lines, left_out)) = lists.max_by_key(|(lines, _)| lines.iter().map(String::len).sum::<usize>())
        else {
            return;
        };
        let keep = lines.len() / 2;
        *left_out += lines.len() - keep;
        lines.truncate(keep);
    }
    for (lines, count) in [&mut done.failed, &mut done.held, &mut done.said].into_iter().zip(left_out) {
        if count > 0 {
            lines.push(format!("and {count} more of that, which are not shown"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize, of: &str) -> Vec<String> {
        (0..count).map(|number| format!("{of}{number}")).collect()
    }

    #[test]
    fn a_long_answer_fits_and_says_what_it_leaves_out() {
        let said = lines(20_000, "fan: wrote 1 to /sys/pwm");
        let mut done = Done { said, failed: lines(3, "no\n\""), held: lines(9_000, "held"), ..Done::default() };
        shorten(&mut done);
        assert!(serde_json::to_vec(&done).unwrap().len() <= LONGEST);
        assert_eq!(done.failed, ["no\\u{a}\"0", "no\\u{a}\"1", "no\\u{a}\"2"]);
        assert_eq!(
            done.said.last().unwrap(),
            &format!("and {} more of that, which are not shown", 20_001 - done.said.len())
        );
        let mut one = Done { failed: vec!["x".repeat(LONGEST)], ..Done::default() };
        shorten(&mut one);
        assert_eq!(one.failed, ["and 1 more of that, which are not shown"], "it still has failed");
    }

    #[test]
    fn of_the_answers_of_an_owner_a_limited_number_of_lines_is_shown() {
        let (mut theirs, mut all) = (Theirs::default(), Done::default());
        for _ in 0..100 {
            let done = Done { said: vec!["a\nfan: wrote 1 to b".into(), "x".repeat(1_000)], ..Done::default() };
            theirs.add(4_000_000_000, done, &mut all);
        }
        theirs.add(4_000_000_000, Done::failed("no".into()), &mut all);
        assert_eq!(all.said[0], "user 4000000000: a\\u{a}fan: wrote 1 to b");
        assert!(all.said.iter().map(String::len).sum::<usize>() <= LONGEST + 100);
        assert_eq!(all.failed, ["user 4000000000: there is more, which is not shown, as it is more than 64 KiB"]);
        let mut other = Theirs::default();
        other.add(0, Done { said: lines(1, "a"), ..Done::default() }, &mut all);
        assert_eq!(all.said.last().unwrap(), "user root: a0", "others have their own");
    }
}
