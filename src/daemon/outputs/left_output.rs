//! One of the [outputs](super::left_outputs) that an earlier process left. A pool thread writes its safe value, because a write may never
//! return. Used by the builder; nothing here waits.

use super::safe_plan::PlannedOutput;
use crate::io::Pool;
use crate::kinds::output::{LeftWrite, LeftWrites, UnderWay, is_left_to_another, once_more};
use crate::safety::{Owing, PlannedWrite, wrong_in_the_end};
use crate::time::{Instant, Span};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use std::io;
use tracing::{error, info, warn};

/// How soon a failed write is tried again.
pub(super) const AGAIN_EVERY: Span = Span::from_seconds(2);

/// Advice for a failed write, and for a target that another hertzd holds.
pub(super) const LOOK: &str = "look at the device, or switch off what it drives";
pub(super) const STOP: &str = "stop that hertzd if the value is to be written now";

/// The writes of one output, in progress.
#[derive(Debug)]
pub(super) struct Writing {
    result: Receiver<io::Result<()>>,
    writes: Vec<PlannedWrite>,
    since: Instant,
    is_meanwhile: bool, // made while devices are opened: an output that opens the target afterwards must know what was left
}

/// An output left by an earlier process, and the state of its safe value.
#[derive(Debug)]
pub(super) struct LeftOutput {
    pub(super) planned: PlannedOutput,
    pub(super) planner: u32,          // the process that had its targets
    pub(super) _owing: Option<Owing>, // None: it was made safe
    pub(super) under_way: Option<Writing>,
    pub(super) failed: Option<(String, &'static str)>, // why, and what to do
    pub(super) next: Option<Instant>,                  // when it is tried again
}

impl LeftOutput {
    /// The output without writes that `planned` covers; `None`: nothing is left.
    pub(super) fn beside(&self, planned: &[PlannedWrite]) -> Option<PlannedOutput> {
        let writes: Vec<_> = self.planned.writes.iter().filter_map(|write| beside(write, planned)).collect();
        (!writes.is_empty()).then(|| PlannedOutput { writes, ..self.planned.clone() })
    }

    /// Replaces each of its writes by what `now` returns, or drops it. Returns whether any changed.
    pub(super) fn has_become(
        &mut self,
        known: &LeftWrites,
        now: impl Fn(&PlannedWrite) -> Option<PlannedWrite>,
    ) -> bool {
        let before = std::mem::take(&mut self.planned.writes);
        let mut changed = false;
        for write in before {
            let now = now(&write);
            if now.as_ref() != Some(&write) {
                changed = true;
                known.forget_left(&write);
                known.leave_behind(now.iter().map(|write| self.left(write)).collect());
            }
            self.planned.writes.extend(now);
        }
        changed
    }

    pub(super) fn left(&self, write: &PlannedWrite) -> LeftWrite {
        LeftWrite { write: write.clone(), is_written: self.planned.written, planner: self.planner }
    }

    pub(super) fn says(&self) -> String {
        said(&self.planned.writes)
    }

    /// Starts its write on a thread of the pool. `meanwhile`: while devices are opened.
    pub(super) fn begin(&mut self, owed: PlannedOutput, pool: &Pool, now: Instant, meanwhile: Option<UnderWay>) {
        let (reply, result) = bounded(1);
        let (writes, planner, is_meanwhile) = (owed.writes.clone(), self.planner, meanwhile.is_some());
        let write = move |(): &mut ()| {
            let is_locked_here = meanwhile.as_ref().is_some_and(|writes| writes.is_locked_here);
            let made = make_all(&owed, planner, is_locked_here);
            drop(meanwhile);
            let is_made = made.is_ok();
            let _ = reply.send(made);
            if is_made {
                say_unlike(&owed.task, &owed.writes);
            }
        };
        match pool.give(Box::new(write)) {
            Ok(()) => self.under_way = Some(Writing { result, writes, since: now, is_meanwhile }),
            Err((error, _)) => self.fails(format!("there is no thread to write it: {error}"), LOOK),
        }
    }

    /// Whether nothing is owed any more, if a write has ended since the last call; `None`: no write has ended.
    pub(super) fn has_ended(&mut self, now: Instant, known: &LeftWrites) -> Option<bool> {
        let result = match self.under_way.as_ref()?.result.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(io::Error::other("the thread that wrote it has panicked")),
        };
        let Writing { writes, is_meanwhile, .. } = self.under_way.take()?;
        let (task, says) = (self.planned.task.clone(), said(&writes));
        match result {
            Ok(()) if is_meanwhile => {
                say_written(&task, &writes);
                (self.planned.written, self.failed, self._owing) = (true, None, None);
                Some(false)
            }
            Ok(()) => {
                say_written(&task, &writes);
                Some(self.is_over(known, &writes))
            }
            // An output that is opened later may create the file again.
            Err(error) if is_meanwhile && error.kind() == io::ErrorKind::NotFound && self.is_gone_for_good() => {
                self.next = Some(now + AGAIN_EVERY);
                Some(false)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_gone_for_good() => {
                warn!(
                    task,
                    "{task}: its safe value, {says}, was left by an earlier run, and its file no longer exists"
                );
                Some(self.is_over(known, &writes))
            }
            Err(error) => {
                // Another hertzd with this target may hold it, or restore what it found: what the earlier run wrote.
                self.fails(error.to_string(), if is_left_to_another(&error) { STOP } else { LOOK });
                self.next = Some(now + AGAIN_EVERY);
                Some(false)
            }
        }
    }

    /// Whether its write has been running for longer than `long`.
    pub(super) fn hangs_for(&self, long: Span, now: Instant) -> bool {
        self.under_way.as_ref().is_some_and(|writing| now - writing.since > long)
    }

    /// Drops these writes, which are no longer owed. Returns whether none is left.
    fn is_over(&mut self, known: &LeftWrites, writes: &[PlannedWrite]) -> bool {
        self.has_become(known, |write| beside(write, writes));
        self.planned.writes.is_empty()
    }

    /// Whether all its targets are regular files and none exists any more. A device may come back, still doing what it did.
    fn is_gone_for_good(&self) -> bool {
        self.planned.writes.iter().all(PlannedWrite::is_gone_for_good)
    }

    pub(super) fn fails(&mut self, why: String, advice: &'static str) {
        if self.failed.as_ref().is_none_or(|(before, _)| *before != why) {
            let (task, says) = (&self.planned.task, self.says());
            error!(
                task,
                "{task}: its safe value, {says}, is owed since an earlier run, and could not be written: {why}; it stays in the plan, and is \
                 tried again every {AGAIN_EVERY}: {advice}"
            );
            self.failed = Some((why, advice));
        }
    }
}

/// The write, unless its target is one of `others` or shares a part with one.
pub(super) fn beside(write: &PlannedWrite, others: &[PlannedWrite]) -> Option<PlannedWrite> {
    (!others.iter().any(|other| write.is_had_by(other))).then(|| write.clone())
}

pub(super) fn say_written(task: &str, writes: &[PlannedWrite]) {
    info!(task, "{task}: wrote its safe value, {}, which an earlier run had left", said(writes));
}

fn said(writes: &[PlannedWrite]) -> String {
    writes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Makes the writes of one output, then repeats those that [need it](once_more). `planner`: the process that had its targets.
/// `is_locked_here`: whether this process may have locked them.
fn make_all(output: &PlannedOutput, planner: u32, is_locked_here: bool) -> io::Result<()> {
    let writes = &output.writes;
    let make = |write: &PlannedWrite| {
        let made = match is_locked_here {
            true => write.make_before_begin(&output.task, Some(planner)),
            false => write.make_of(&output.task, Some(planner)),
        };
        made.map(drop)
    };
    let failed = writes.iter().filter(|write| make(write).is_err()).collect();
    let mut done = Ok(());
    for write in once_more(failed, writes) {
        let Err(error) = make(write) else { continue };
        if write.is_left_to_its_chip(writes) {
            continue;
        }
        done = done.and(match write.at_full_speed(writes) {
            // Skip the rest: its value is not full speed.
            Some(instead) => return instead.iter().try_for_each(make),
            None => Err(error),
        });
    }
    done
}

/// Warns if a value that needs other writes for its effect holds something else some time after it was written.
fn say_unlike(task: &str, writes: &[PlannedWrite]) {
    for value in once_more(Vec::new(), writes) {
        if let Some(why) = wrong_in_the_end(|| value.amiss(None)) {
            warn!(
                task,
                "{task}: {why}; either its chip does not keep that number, or something else writes to it: {LOOK}"
            );
        }
    }
}
