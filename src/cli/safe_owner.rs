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

/// Bytes of an answer, and of what is shown of all those of an owner.
const LONGEST: usize = 64 << 10;

/// How long the answers of an owner are waited for, for all its plans together.
const PATIENCE: Span = Span::from_seconds(60);

/// How often, and after what time, it is looked whether a process that was asked to end has ended.
const LOOKS: u32 = 200;
const BETWEEN: Span = Span::from_millis(10);

/// Another user, by its plans: none decides how long root waits for the plans of the others, nor how much is said.
#[derive(Debug)]
pub(super) struct Theirs {
    spent: Span,
    shown: usize,           // bytes
    is_left_out: [bool; 3], // of each list, that there is more
}

impl Default for Theirs {
    fn default() -> Self {
        Self { spent: Span::ZERO, shown: 0, is_left_out: [false; 3] }
    }
}

impl Theirs {
    /// Has a plan carried out by its owner. With `--hold` the process that is returned keeps the lines until it is dropped.
    pub(super) fn carry_out(&mut self, found: FoundPlan, manner: Manner) -> (Done, Option<Owner>) {
        let clock = KernelClock::monotonic();
        let began = clock.now();
        let done = carry_out(found, manner, PATIENCE - self.spent);
        self.spent += clock.now() - began;
        done
    }

    /// Adds what was done for user `uid`: each line is one, says whose plan it is about, and none is added that is too much.
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

/// The same by an owner who has `left` for it.
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
    shorten(&mut done);
    print_json(&done)?;
    Ok(done)
}

/// Leaves out what would make an answer too long to be read: the latter half of the longest list, until it fits.
fn shorten(done: &mut Done) {
    let mut left_out = [0; 3];
    for line in done.failed.iter_mut().chain(&mut done.held).chain(&mut done.said) {
        *line = visible_line(line).into_owned();
    }
    // Some is kept for what is said of that.
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
