//! Carries out plans of safe values with the rights of this process, and collects the results.

use super::safe_readback::{self, Look};
use super::{Stop, print, runtime};
use crate::daemon::{FoundPlan, NoPlan, PlannedOutput, SafePlan};
use crate::escape::visible_line;
use crate::kinds::output::{MadeWrite, PassedOver, once_more};
use crate::program;
use crate::safety::PlannedWrite;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Span};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// How long a write may take. The output's later writes wait for it; once [`AT_ONCE`] outputs hang, further outputs wait too.
pub(super) const RETURNS_WITHIN: Span = Span::from_seconds(2);

/// How many outputs are written in parallel.
pub(super) const AT_ONCE: usize = 64;

/// How plans are carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Nothing is written.
    pub(super) dry_run: bool,
    /// Whether lines of GPIO chips stay requested.
    pub(super) hold: bool,
}

/// The results of carrying out plans.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// What was written, or would be; one line each.
    pub(super) said: Vec<String>,
    /// Outputs that do not have their safe value, and why.
    pub(super) failed: Vec<String>,
    /// Outputs that another process holds, or that only another user may write.
    pub(super) held: Vec<String>,
    /// Whether lines of GPIO chips stay requested.
    pub(super) holds: bool,
    #[serde(skip)]
    pub(super) lines: Vec<Arc<File>>, // the lines that stay requested
}

impl Done {
    /// The result if nothing of a plan was carried out.
    pub(super) fn failed(why: String) -> Self {
        Self { failed: vec![why], ..Self::default() }
    }

    /// Adds another result.
    pub(super) fn extend(&mut self, other: Self) {
        self.said.extend(other.said);
        self.failed.extend(other.failed);
        self.held.extend(other.held);
    }

    /// Whether there is nothing to report.
    pub(super) const fn is_empty(&self) -> bool {
        self.said.is_empty() && self.failed.is_empty() && self.held.is_empty()
    }

    /// Prints what was written so far. Each entry stays on one line, whatever it contains.
    pub(super) fn print(&mut self) -> Result<(), Stop> {
        let lines = self.said.drain(..).map(|line| visible_line(&line).into_owned() + "\n");
        print(&lines.collect::<String>())
    }

    /// Records that a plan is not carried out.
    pub(super) fn refuse(&mut self, why: NoPlan) {
        match why {
            NoPlan::Missing => {}
            NoPlan::Held { by, of } if by == of => self.held.push(format!(
                "the daemon lives that has them (pid {by}): when it is stopped, they get their safe values, but for those with safe = \"hold\""
            )),
            NoPlan::Held { by, of } => self.held.push(format!(
                "process {by} has the plan locked that process {of} has left: it is a start of hertzd that has not ended, or another `hertzd safe`; it \
                 writes the safe values that it can, and `hertzd status` names those that a start has not written: end process {by} and run this \
                 again if one is missing"
            )),
            NoPlan::NotOurs(why) => self.held.push(format!("the plan {why}")),
            NoPlan::Unusable(why) => self.failed.push(format!("the plan {why}")),
        }
    }

    /// Makes the writes of a plan of this user. The caller must still [read them back](Self::read_back).
    pub(super) fn carry_out(&mut self, found: FoundPlan, manner: Manner) -> Option<CarriedOut> {
        let path = found.path().to_owned();
        self.said.extend(found.await_end(KernelClock::monotonic().now()));
        let (plan, locked) = match found.take() {
            Ok(taken) => taken,
            Err(why) => {
                self.refuse(why);
                return None;
            }
        };
        let (mut made, before) = (Vec::new(), self.failed.len() + self.held.len());
        let (mut is_safe, mut locks) = (Vec::new(), Vec::new());
        for output in make_all(&plan.outputs, (plan.pid, manner)) {
            self.said.extend(output.said);
            locks.extend(output.locks);
            made.extend(output.made.into_iter().map(|made| (is_safe.len(), made)));
            is_safe.push(output.done.is_ok());
            match output.done {
                Ok(()) => {}
                Err(Failed::Held(why)) => self.held.push(why),
                Err(Failed::Because(why)) => self.failed.push(why),
            }
        }
        // Everything is written. Only now look for who holds the locks, for a limited time.
        let (tasks, locks): (Vec<_>, Vec<_>) = locks.into_iter().unzip();
        let says = tasks.iter().zip(PassedOver::say_all(locks));
        let mut says: Vec<_> = says.map(|(task, lock)| format!("{task}: {lock}")).collect();
        says.dedup(); // an output that was written twice reports its lock twice
        self.said.extend(says);
        self.said.extend(plan.holds.iter().map(|task| {
            format!(
                "{task}: left as it is: by safe = \"hold\" it keeps what was written last, whether that is safe or not"
            )
        }));
        self.failed.extend(plan.own.iter().map(|task| {
            format!(
                "{task}: what it puts out may be as it was: only its own process could write its safe value, and has tried that if it crashed, not if it \
                 was killed; start it again with this task, or make it safe by hand and remove {}",
                path.display()
            )
        }));
        let has_failed = self.failed.len() + self.held.len() > before;
        Some(CarriedOut { path, plan, _locked: locked, made, is_safe, has_failed })
    }

    /// Reads back what these plans wrote, and notes in each plan which outputs have their safe values.
    pub(super) fn read_back(&mut self, mut plans: Vec<CarriedOut>, manner: Manner) {
        let (mut whose, mut looks) = (Vec::new(), Vec::<Look>::new());
        for (at, carried) in plans.iter_mut().enumerate() {
            for (output, Made { write, line }) in carried.made.drain(..) {
                let (writes, read) = (carried.plan.outputs[output].writes.clone(), line.clone());
                whose.push((at, output));
                looks.push(Box::new(move || match write.is_left_to_its_chip(&writes) {
                    true => None,
                    false => write.amiss(read.as_deref()),
                }));
                self.lines.extend(line.filter(|_| manner.hold));
            }
        }
        for ((at, output), wrong) in whose.into_iter().zip(safe_readback::amiss(looks)) {
            let Some(wrong) = wrong else { continue };
            let carried = &mut plans[at];
            self.failed.push(format!("{}: {wrong}", carried.plan.outputs[output].task));
            (carried.is_safe[output], carried.has_failed) = (false, true);
        }
        self.holds |= !self.lines.is_empty();
        if !manner.dry_run {
            plans.into_iter().for_each(|carried| carried.note(manner));
        }
    }
}

/// A plan whose writes were made.
pub(super) struct CarriedOut {
    path: PathBuf,
    plan: SafePlan,
    _locked: File,
    made: Vec<(usize, Made)>, // with the positions of their outputs in the plan
    is_safe: Vec<bool>,       // for each of its outputs
    has_failed: bool,
}

impl CarriedOut {
    /// Notes in the plan which outputs have their safe values, or removes it.
    fn note(mut self, manner: Manner) {
        if !manner.hold && !self.has_failed && runtime::remove_carried_out(&self.path) {
            return;
        }
        let is_new = self.plan.outputs.iter().zip(&self.is_safe).any(|(output, is_safe)| output.written != *is_safe);
        for (output, is_safe) in self.plan.outputs.iter_mut().zip(self.is_safe) {
            output.written = is_safe;
        }
        if is_new {
            // If this fails, the next start writes the values once more.
            let _ = self.plan.note_written(&self.path);
        }
    }
}

/// Why an output does not have its safe value.
enum Failed {
    /// Another process holds the target.
    Held(String),
    Because(String),
}

/// A completed write.
struct Made {
    write: PlannedWrite,
    line: Option<Arc<File>>, // stays requested until this is dropped
}

/// The result for one output.
struct OutputDone<'a> {
    done: Result<(), Failed>,
    said: Vec<String>,
    made: Vec<Made>,
    locks: Vec<(&'a str, PassedOver)>, // locks that did not prevent the write
}

/// Makes the writes of all outputs in parallel, so that one that hangs does not keep others from their safe values. If no more threads can
/// be started, the existing ones do the rest.
fn make_all(outputs: &[PlannedOutput], how: (u32, Manner)) -> Vec<OutputDone<'_>> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut some = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(output) = outputs.get(index) else { return some };
            let mut one = OutputDone { done: Ok(()), said: Vec::new(), made: Vec::new(), locks: Vec::new() };
            one.done = make(output, how, &mut one);
            some.push((index, one));
        }
    };
    let others = if how.1.dry_run { 0 } else { outputs.len().min(AT_ONCE).saturating_sub(1) };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (0..others).map_while(|_| thread::Builder::new().spawn_scoped(scope, some).ok()).collect();
        let mut all = some();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, output)| output).collect()
}

/// Makes the writes of one output, and repeats those that [need it](once_more). `planner`: the process that held its targets.
fn make<'a>(
    output: &'a PlannedOutput,
    (planner, manner): (u32, Manner),
    one: &mut OutputDone<'a>,
) -> Result<(), Failed> {
    let task = &output.task;
    let because = |write: &PlannedWrite, error: io::Error| Failed::Because(format!("{task}: {write}: {error}"));
    // If a write was not planned by hertzd, nothing of this output is written.
    for write in &output.writes {
        write.check().map_err(|error| because(write, error))?;
    }
    let mut again = Vec::new();
    for write in &output.writes {
        match manner.dry_run {
            true => {
                let before =
                    write.original().map(|held| format!("; before {} wrote to it, it held {held}", program::name()));
                one.said.push(format!("{task}: would write {write}{}", before.unwrap_or_default()));
            }
            false => match make_one(write, output, (planner, manner), one) {
                // Do not retry, because others are waiting.
                Err(error) if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() => {
                    return Err(because(write, error));
                }
                // A write that the driver itself reports as busy has failed.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && error.raw_os_error().is_none() => {
                    return Err(Failed::Held(format!("{task}: {write}: {error}")));
                }
                Err(_) => again.push(write),
                Ok(made) => one.made.push(made),
            },
        }
    }
    let mut done = Ok(());
    if manner.dry_run {
        return done;
    }
    for write in once_more(again, &output.writes) {
        let (said, is_told) = (one.said.len(), one.made.iter().any(|it| it.write == *write));
        let error = match make_one(write, output, (planner, manner), one) {
            Ok(_) if is_told => {
                one.said.truncate(said);
                continue;
            }
            Ok(made) => {
                one.made.push(made);
                continue;
            }
            Err(error) => error,
        };
        let (its, all) = (write.clone(), output.writes.clone());
        if in_time(move || its.is_left_to_its_chip(&all)).unwrap_or(false) {
            one.said.push(format!("{task}: did not write {write}: its chip sets it by itself again"));
            continue;
        }
        let Some(instead) = write.at_full_speed(&output.writes) else {
            done = done.and(Err(because(write, error)));
            continue;
        };
        one.said.push(format!("{task}: could not write {write}: {error}; it is set to full speed by hand"));
        for instead in instead {
            let made = make_one(&instead, output, (planner, manner), one);
            one.made.push(made.map_err(|error| because(&instead, error))?);
        }
        return Ok(()); // the remaining value must not replace full speed
    }
    done
}

fn make_one<'a>(
    write: &PlannedWrite,
    output: &'a PlannedOutput,
    (planner, manner): (u32, Manner),
    one: &mut OutputDone<'a>,
) -> io::Result<Made> {
    let task = &output.task;
    let MadeWrite { line, passed_over } = make_in_time(write, task, planner)?;
    one.locks.extend(passed_over.map(|lock| (task.as_str(), lock)));
    let then = match (&line, manner.hold) {
        (None, _) => "",
        (Some(_), true) => ", and holds it",
        (Some(_), false) => "; the line is released now, so what becomes of its level is up to its chip's driver",
    };
    one.said.push(format!("{task}: wrote {write}{then}"));
    Ok(Made { write: write.clone(), line: line.map(Arc::new) })
}

/// The message for a write that hangs.
pub(super) fn not_returned(within: Span) -> String {
    format!("it has not returned within {within}: look at the device, or switch off what it drives, and run this again")
}

/// Makes a write that may hang.
fn make_in_time(write: &PlannedWrite, task: &str, planner: u32) -> io::Result<MadeWrite> {
    let (write, task) = (write.clone(), task.to_owned());
    in_time(move || write.make_unsaid(&task, Some(planner)))?
}

/// Does work that may hang on a separate thread, so that it does not delay other outputs.
pub(super) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, done) = mpsc::channel();
    let work = Arc::new(Mutex::new(Some(work)));
    let its = work.clone();
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let run = move || _ = take(&its).map(|work| sender.send(work()));
    if thread::Builder::new().spawn(run).is_err() {
        // Work that may hang is better than none.
        return take(&work).map(|work| work()).ok_or_else(|| io::Error::other("it has no thread"));
    }
    match done.recv_timeout(Duration::from_nanos(RETURNS_WITHIN.nanos().unsigned_abs())) {
        Ok(done) => Ok(done),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, not_returned(RETURNS_WITHIN)))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(io::Error::other("its thread has panicked")),
    }
}
