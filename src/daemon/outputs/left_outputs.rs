//! Outputs that earlier processes left without their safe values, according to the plans found at a start. If an output of this process has
//! the target, it takes over; every other target gets its safe value now. What cannot be written stays in this process's plan and is
//! retried.
//!
//! For the builder, which waits only for a limited time. A pool thread writes each output, because a write may never return.

use super::left_output::{AGAIN_EVERY, LOOK, LeftOutput, STOP, beside, say_written};
use super::left_own::LeftOwn;
use super::left_plans::{keep_aside, keep_part_aside, kept_aside, take_when_free};
use super::safe_plan::{NoPlan, PlannedOutput, SafePlan, is_at, refused};
use crate::daemon::failure::Failure;
use crate::io::{Keeper, Pool};
use crate::kinds::output::{LeftWrite, LeftWrites, Targets};
use crate::safety::{Guard, LiveOutputs, PlannedWrite};
use crate::site::Common;
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// How long a start waits for all these writes together.
const RETURNS_WITHIN: Span = Span::from_seconds(2);

/// How long a start waits for a locked plan: its process may be about to end (the lock is free once its last thread is gone), or another
/// process is carrying it out. The plans of other processes share one such limit.
const ENDS_WITHIN: Span = Span::from_seconds(2);

/// How often a wait checks whether it is over.
const BETWEEN: Span = Span::from_millis(10);

/// All left outputs, and the plans they came from.
#[derive(Debug)]
pub(super) struct LeftOutputs {
    outputs: Vec<LeftOutput>,
    own: LeftOwn,
    plans: Vec<(PathBuf, File)>,    // locked
    known: Vec<LeftWrite>,          // from plans that another process is carrying out
    unread: Vec<(PathBuf, String)>, // plans that cannot be carried out, and why
    seen: Vec<PathBuf>,             // plans of others, at this start or the last reload
    has_started: bool,
    writes: Arc<LeftWrites>, // all of them, for this process's outputs
    live: Arc<LiveOutputs>,  // the left outputs do not count as live
    targets: Arc<Targets>,
    pool: Arc<Pool>,
}

impl LeftOutputs {
    /// Takes the plan at `own`, where this process will keep its own, and those plans of `others` whose processes have died.
    ///
    /// # Errors
    /// The process that wrote the plan at `own` is alive, or another process has it locked; or an unusable plan could not be kept aside.
    pub(super) fn take(own: &Path, others: &[PathBuf], common: &Common) -> Result<Self, Failure> {
        let mut left = Self {
            outputs: Vec::new(),
            own: LeftOwn::new(own),
            plans: Vec::new(),
            known: Vec::new(),
            unread: kept_aside(own).collect(),
            seen: Vec::new(),
            has_started: false,
            writes: common.of(),
            live: common.of(),
            targets: common.of(),
            pool: common.of::<Keeper>().pool().clone(),
        };
        let clock = KernelClock::monotonic();
        match take_when_free(own, clock.now() + ENDS_WITHIN).and_then(|(plan, file)| left.add(plan, own, file)) {
            Ok(()) => {}
            Err(NoPlan::Missing) => {}
            Err(NoPlan::Held { by, .. }) => return Err(refused(own, by, ENDS_WITHIN)),
            Err(NoPlan::Unusable(why) | NoPlan::NotOurs(why)) => {
                let aside = keep_aside(own, &why).map_err(Failure::Permission)?;
                left.unread.push((aside, why));
            }
        }
        left.take_others(others.to_vec(), 0, clock.now() + ENDS_WITHIN);
        Ok(left)
    }

    /// Takes what others have left since, without waiting, then looks up where the devices are now.
    pub(super) fn take_more(&mut self, others: Vec<PathBuf>) {
        self.take_others(others, self.outputs.len(), KernelClock::monotonic().now());
        self.follow();
    }

    /// Takes the plans of others not taken yet. `first`: the first left output that this process's outputs do not know yet.
    fn take_others(&mut self, others: Vec<PathBuf>, first: usize, waits_until: Instant) {
        let first_known = self.known.len();
        for path in &others {
            let is_taken = self.plans.iter().any(|(taken, _)| taken == path);
            if is_taken || self.is_unread(path) {
                continue;
            }
            let kept: Vec<_> = kept_aside(path).filter(|(aside, _)| !self.is_unread(aside)).collect();
            self.unread.extend(kept);
            match take_when_free(path, waits_until).and_then(|(plan, file)| self.add(plan, path, file)) {
                Ok(()) => {}
                // Another process may have dealt with it meanwhile.
                Err(NoPlan::Missing) => {}
                Err(NoPlan::Held { by, .. }) => self.know(path, by),
                Err(NoPlan::Unusable(why) | NoPlan::NotOurs(why)) => {
                    warn!(
                        "a hertzd that died has left a plan of safe values that cannot be carried out, and stays there: {why}"
                    );
                    self.unread.push((path.clone(), why));
                }
            }
        }
        self.seen = others;
        let new = self.outputs.iter().skip(first);
        let writes = new.flat_map(|output| output.planned.writes.iter().map(|write| output.left(write)));
        self.writes.leave_behind(writes.chain(self.known.iter().skip(first_known).cloned()).collect());
    }

    /// Refuses outputs if a hertzd that had one of their targets was killed while they were opened: the values they read may be what that
    /// hertzd wrote. `others`: the plans that exist now.
    ///
    /// # Errors
    /// The task that had the target, its plan, and what to do.
    pub(super) fn refuse_left_since(&self, others: &[PathBuf], guards: &[Arc<Guard>]) -> Result<(), Failure> {
        let planned: Vec<_> = guards.iter().flat_map(|guard| guard.writes()).collect();
        let is_shared = |write: &PlannedWrite| planned.iter().any(|other| write.is_had_by(other));
        for path in others.iter().filter(|path| !self.seen.contains(path)) {
            let whose = match SafePlan::look(path) {
                Ok(plan) => {
                    let mut owed = plan.outputs.into_iter().filter(|output| !output.written);
                    let Some(output) = owed.find(|output| output.writes.iter().any(is_shared)) else { continue };
                    format!("{}: a hertzd that had the target of its output", output.task)
                }
                Err(NoPlan::Missing) => continue,
                Err(NoPlan::Held { .. } | NoPlan::Unusable(_) | NoPlan::NotOurs(_)) => {
                    "a hertzd whose outputs are not known".into()
                }
            };
            let why = format!(
                "{whose} was killed while this one opened its outputs, and has left the plan {}; nothing was written to them: try again",
                path.display()
            );
            return Err(Failure::System("taking over what another process has left", io::Error::other(why)));
        }
        Ok(())
    }

    /// Looks up where their devices are now.
    fn follow(&mut self) {
        for output in self.outputs.iter_mut().filter(|output| output.under_way.is_none()) {
            output.has_become(&self.writes, |write| Some(write.clone().followed()));
        }
    }

    fn is_unread(&self, path: &Path) -> bool {
        self.unread.iter().any(|(unread, _)| unread == path)
    }

    /// Adds the outputs of a plan. An output with a refused write is left out; then the plan is kept aside, so that the output is not
    /// forgotten.
    fn add(&mut self, plan: SafePlan, path: &Path, file: File) -> Result<(), NoPlan> {
        // No output makes such a write, so none can have left it.
        let refused = |output: &PlannedOutput| {
            let why = output.writes.iter().find_map(|write| write.check().err());
            why.map(|why| format!("{}: {why}", output.task))
        };
        let all_refused: Vec<_> = plan.outputs.iter().filter_map(refused).collect();
        if !all_refused.is_empty() {
            let why = all_refused.join("; ");
            let aside = keep_part_aside(path, &file, &why).map_err(NoPlan::Unusable)?;
            self.unread.retain(|(unread, _)| *unread != aside);
            self.unread.push((aside, why));
        }
        self.plans.push((path.into(), file));
        self.own.add(plan.own, &self.live);
        for planned in plan.outputs.into_iter().filter(|output| refused(output).is_none()) {
            let _owing = (!planned.written).then(|| self.live.owing(&planned.task));
            let planner = plan.pid;
            self.outputs.push(LeftOutput { planned, planner, _owing, under_way: None, failed: None, next: None });
        }
        Ok(())
    }

    /// Notes a plan that another process is carrying out. It shows this start's outputs with the same targets what was there before.
    fn know(&mut self, path: &Path, holder: u32) {
        let plan = match SafePlan::look(path) {
            Ok(plan) => plan,
            Err(NoPlan::Unusable(why) | NoPlan::NotOurs(why)) => {
                warn!(
                    "the plan that process {holder} deals with cannot be read, so \"restore\" may give back what the killed run had written: {why}"
                );
                return;
            }
            Err(NoPlan::Missing | NoPlan::Held { .. }) => return,
        };
        warn!(
            "process {holder} still has the plan of safe values locked that an earlier run has left in {}, and deals with it, so this start continues \
             without it: \"restore\" of an output with one of its targets gives back what was there before that run",
            path.display()
        );
        let planner = plan.pid;
        let left = plan.outputs.into_iter().flat_map(|PlannedOutput { writes, written: is_written, .. }| {
            writes.into_iter().map(move |write| LeftWrite { write, is_written, planner })
        });
        self.known.extend(left.filter(|left| left.write.check().is_ok()));
    }

    /// What this process's plan must contain beside its own outputs. Outputs that have begun with one of these targets owe its safe value
    /// from now on.
    pub(super) fn still_owed(&mut self, guards: &[Arc<Guard>]) -> Vec<PlannedOutput> {
        self.note_made();
        let begun = self.had(guards.iter().filter(|guard| guard.has_begun()), true);
        self.outputs.retain_mut(|output| {
            output.has_become(&self.writes, |write| beside(write, &begun));
            !output.planned.writes.is_empty()
        });
        // Outputs made safe matter only to this start's outputs. Later ones take what they find as the original.
        if self.has_started {
            let (written, owed) = self.outputs.drain(..).partition(|output| output.planned.written);
            self.outputs = owed;
            let written: Vec<LeftOutput> = written;
            written.iter().flat_map(|output| &output.planned.writes).for_each(|write| self.writes.forget_left(write));
            self.known.drain(..).for_each(|left| self.writes.forget_left(&left.write));
        }
        // A target that is only switched has no plan of its own, so its leftover stays in the plan until it has begun.
        let planned: Vec<PlannedWrite> = guards.iter().flat_map(|guard| guard.writes()).collect();
        self.outputs.iter().filter_map(|output| output.beside(&planned)).collect()
    }

    /// The left tasks whose safe values only their own processes could write, except those that run again.
    pub(super) fn still_own(&mut self, guards: &[Arc<Guard>]) -> impl Iterator<Item = &str> {
        self.own.still(guards, self.has_started)
    }

    /// The start can no longer be refused. Its outputs know by now which targets were already made safe.
    pub(super) const fn has_started(&mut self) {
        self.has_started = true;
    }

    /// The tasks whose safe values this start must still write. `None`: none are left, or it has started.
    pub(super) fn left_by_start(&self) -> Option<String> {
        if self.has_started { None } else { self.tasks() }
    }

    /// This process's plan now contains everything that was left, so the plans it came from are removed.
    pub(super) fn are_planned(&mut self) {
        for (path, file) in self.plans.drain(..) {
            // One may already have been replaced by this process's plan.
            if is_at(&file, &path) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Starts all due writes that no output of this process has to make. `waits`: until all have returned, for a limited time. Returns
    /// whether the state of any output changed.
    pub(super) fn write(&mut self, guards: &[Arc<Guard>], waits: bool) -> bool {
        self.note_made();
        let planned = self.had(guards, false);
        let clock = KernelClock::monotonic();
        let (began, mut changed) = (clock.now(), false);
        for output in &mut self.outputs {
            if output.under_way.is_some() || output.next.is_some_and(|next| began < next) {
                continue;
            }
            changed |= output.has_become(&self.writes, |write| Some(write.clone().followed()));
            if let Some(owed) = output.beside(&planned).filter(|owed| !owed.written) {
                output.begin(owed, &self.pool, began, None);
            }
        }
        loop {
            let (now, known) = (clock.now(), &self.writes);
            self.outputs.retain_mut(|output| match output.has_ended(now, known) {
                None => true,
                Some(is_over) => {
                    changed = true;
                    !is_over
                }
            });
            let lasts = self.outputs.iter().any(|output| output.under_way.is_some());
            if !waits || !lasts || now - began > RETURNS_WITHIN {
                break;
            }
            pause(BETWEEN);
        }
        if waits {
            for output in self.outputs.iter_mut().filter(|output| output.under_way.is_some()) {
                output.fails(not_returned(), LOOK);
                changed = true;
            }
        }
        changed
    }

    /// Like [`write`](Self::write), while this process opens devices, one of which may hang. Keeps written outputs until the start is over,
    /// because an output opened later must know what its target held before. `is_stopping`: no output begins any more.
    pub(super) fn write_meanwhile(&mut self, guards: &[Arc<Guard>], is_stopping: bool) {
        self.note_made();
        let (planned, now) = (self.had(guards, false), KernelClock::monotonic().now());
        for output in &mut self.outputs {
            if output.hangs_for(RETURNS_WITHIN, now) {
                output.fails(not_returned(), LOOK);
            }
            if output.under_way.is_some() {
                output.has_ended(now, &self.writes);
                continue;
            }
            // If another output has a part of the target, write it once that output has begun.
            let owed = output.beside(&planned).filter(|owed| !owed.written && owed.writes == output.planned.writes);
            if let Some(owed) = owed.filter(|_| output.next.is_none_or(|next| next <= now))
                && let Some(writes) = self.writes.begin(&owed.writes, is_stopping)
            {
                output.begin(owed, &self.pool, now, Some(writes));
            }
        }
    }

    /// Begins or ends the time in which [`write_meanwhile`](Self::write_meanwhile) may be called.
    pub(super) fn are_written_meanwhile(&self, is_on: bool) {
        self.writes.are_written_meanwhile(is_on);
    }

    /// The pool of threads that write.
    pub(super) fn pool(&self) -> Arc<Pool> {
        self.pool.clone()
    }

    /// Like [`write`](Self::write), at the end of the process: tries all outputs at once, and waits.
    pub(super) fn write_at_end(&mut self, guards: &[Arc<Guard>]) -> bool {
        self.outputs.iter_mut().for_each(|output| output.next = None);
        self.write(guards, true)
    }

    /// Writes to targets that this daemon's tasks have: those of these outputs, and those of tasks that only switch on and off.
    /// `are_ready`: of the latter only those that are set up.
    fn had<'a>(&self, guards: impl IntoIterator<Item = &'a Arc<Guard>>, are_ready: bool) -> Vec<PlannedWrite> {
        guards.into_iter().flat_map(|guard| guard.writes()).chain(self.targets.switched(are_ready)).collect()
    }

    /// Notes safe values that were written because a new output shares bytes with them: this happens before the output is opened.
    fn note_made(&mut self) {
        for LeftOutput { planned, failed, _owing, .. } in &mut self.outputs {
            if !planned.written
                && !planned.writes.is_empty()
                && planned.writes.iter().all(|write| self.writes.was_made(write))
            {
                (planned.written, *failed, *_owing) = (true, None, None);
                say_written(&planned.task, &planned.writes);
            }
        }
    }

    /// The tasks whose safe values are not written; `None`: there are none.
    pub(super) fn tasks(&self) -> Option<String> {
        let owed = self.outputs.iter().filter(|output| !output.planned.written);
        let tasks: Vec<_> = owed.map(|output| output.planned.task.as_str()).collect();
        (!tasks.is_empty()).then(|| tasks.join(", "))
    }

    /// What is still owed and why, for the status.
    pub(super) fn trouble(&self) -> Option<String> {
        let owed = [LOOK, STOP].into_iter().filter_map(|advice| {
            let owed = self.outputs.iter().filter_map(|output| {
                let (why, _) = output.failed.as_ref().filter(|(_, its)| *its == advice)?;
                let (task, says) = (&output.planned.task, output.says());
                Some(format!("{task}: its safe value, {says}, is owed since an earlier run: {why}"))
            });
            let owed: Vec<_> = owed.collect();
            let again = || format!("{}; it is tried again every {AGAIN_EVERY}: {advice}", owed.join("; "));
            (!owed.is_empty()).then(again)
        });
        let is_there = |(path, _): &&(PathBuf, String)| path.symlink_metadata().is_ok();
        let unread = self.unread.iter().filter(is_there).map(|(path, why)| {
            let path = path.display();
            format!("a plan of safe values that an earlier run has left could not be carried out in full, so what its outputs do is not known: {why}; \
                     make them safe by hand, then remove {path}")
        });
        let all: Vec<_> = owed.chain(self.own.trouble()).chain(unread).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn not_returned() -> String {
    format!("the write has not returned for {RETURNS_WITHIN}")
}

impl Drop for LeftOutputs {
    fn drop(&mut self) {
        let own = self.outputs.iter().flat_map(|output| &output.planned.writes);
        own.chain(self.known.iter().map(|left| &left.write)).for_each(|write| self.writes.forget_left(write));
    }
}
