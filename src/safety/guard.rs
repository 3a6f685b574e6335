//! The safe value of each output, written by others than its own task: the thread that watches for hanging workers, the main thread before
//! the process ends, and another process after a kill.
//!
//! A write may block for as long as the device takes.

mod held;
mod holding;
mod left;
mod watched;

use super::planned_write::PlannedWrite;
use super::reading::ReadBack;
use super::safe_write::SafeWrite;
use super::written::UnderWay;
use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::helper::caught_aside;
use crate::time::{Clock, Span};
pub(crate) use holding::HeldFor;
use holding::Holding;
pub(crate) use holding::Terms;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use watched::LeftAt;
pub(crate) use watched::{Watched, Writing};

/// Stored in place of an errno: a CAN frame was not confirmed; any other error of hertzd's own.
const NO_WORD: i32 = -2;
const NO_NUMBER: i32 = -1;

/// How long a safe write waits for the task's own write to finish, so that the safe value comes last.
const OWN_WRITE: Span = Span::from_millis(5);

/// The result of a safe write while the task may be ticking.
#[derive(Debug)]
pub(crate) struct MadeSafe {
    pub(crate) result: io::Result<()>,
    /// The trip that this write belongs to.
    pub(crate) trip: u64,
    /// The newest request before the write; 0: none.
    pub(crate) request: u64,
    /// The task's own write was still running and may overwrite the safe value.
    pub(crate) overlapped: bool,
}

/// One output, as other threads see it.
#[derive(Default)]
pub(crate) struct Guard {
    task: String,
    watched: Arc<Watched>, // shared with an output that takes over or is taken over
    /// How long its worker may hang before the safe value is written.
    safe_after: Span,
    first_after: Span,
    writer: Option<Box<dyn SafeWrite>>,
    own_beats: AtomicU64, // nonzero once its own task has ticked
    readback: OnceLock<Arc<dyn ReadBack>>,
    kept: OnceLock<Vec<PlannedWrite>>, // writes to its target, if it has no safe value
    closed: AtomicBool,                // its task is gone
    ended: AtomicBool,                 // its task writes no more
    begun: AtomicBool,
    left: LeftAt,              // when its task ended without its safe value
    holding: Holding,          // whether another thread keeps it safe
    terms: OnceLock<Terms>,    // of that hold
    safe_at_first: AtomicBool, // the target has its safe value before the first tick
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Gives access to the target's shared state, which outputs share when one takes over from the other.
impl Deref for Guard {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        &self.watched
    }
}

impl Guard {
    /// Guards a task's output. Outputs with the same `watched` have its target one after the other. If this output takes over, its first
    /// tick may come up to `first_after` after the last tick of the one before. No `writer`: the target keeps its value, whatever happens.
    pub(crate) fn new(
        task: &str,
        watched: Arc<Watched>,
        (safe_after, first_after): (Span, Span),
        writer: Option<Box<dyn SafeWrite>>,
    ) -> Arc<Self> {
        let task = task.to_owned();
        Arc::new(Self { task, watched, safe_after, first_after, writer, ..Self::default() })
    }

    /// Whether the target keeps its value, whatever happens: no one writes anything in place of its task.
    pub(crate) fn keeps_what_it_has(&self) -> bool {
        self.writer.is_none()
    }

    /// From now on the task may write, and others may make the output safe. Nothing is written to the target before.
    pub(crate) fn begins(&self) {
        self.watched.begins();
        self.begun.store(true, Ordering::Release); // whoever sees it writes after the setup of the target
    }

    /// Whether the output has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether this output is the only one that may write to its target.
    pub(crate) fn is_alone(&self) -> bool {
        self.has_begun() && self.watched.has_one_writer()
    }

    /// The name of its task.
    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    /// Sets how the target is read back.
    pub(crate) fn reads_back(&self, readback: Arc<dyn ReadBack>) {
        _ = self.readback.set(readback);
    }

    /// How the target is read back; `None` if it is not. An output without a safe value is no longer read back once its task has ended or
    /// is disabled.
    pub(crate) fn readback(&self) -> Option<&Arc<dyn ReadBack>> {
        self.readback.get().filter(|_| !self.keeps_what_it_has() || !self.ended.load(Ordering::Relaxed))
    }

    /// The target is gone: nothing is written until it is found again.
    pub(crate) fn lose(&self) {
        self.watched.set_lost(true);
        self.watched.block();
        let write = self.written().begin();
        self.written().forget_settings();
        self.written().end(&write, f64::NAN);
    }

    /// The target is back: it is made safe, and its task recovers as from any other trip.
    ///
    /// # Errors
    /// The kernel's error for the safe write.
    pub(crate) fn find(&self) -> io::Result<()> {
        self.watched.set_lost(false);
        // A task's write that still lands after the safe value is repaired by the task's next tick. If the output was replaced, the target
        // is another output's to make safe.
        self.make_safe().result.or_else(|error| if was_replaced(&error) { Ok(()) } else { Err(error) })
    }

    /// How often the target's tasks have ticked. `None`: never, and there is nothing to watch before the first tick: either the target is
    /// safe already, or no one would make it safe.
    pub(crate) fn awaited_beats(&self) -> Option<u64> {
        let beats = self.beats();
        (beats > 0 || !self.is_safe_at_first() && !self.keeps_what_it_has()).then_some(beats)
    }

    /// Identifies the target: equal for all its outputs. The output opened last has taken over, or will.
    pub(crate) fn target(&self) -> usize {
        Arc::as_ptr(&self.watched).addr()
    }

    /// How long the target may go without a tick before its safe value is written.
    pub(crate) fn safe_after(&self) -> Span {
        match self.own_beats.load(Ordering::Relaxed) {
            0 => self.safe_after.max(self.first_after),
            _ => self.safe_after,
        }
    }

    /// Records that the task ticks. Called only by the task itself, at each tick, after it has checked [`tripped`](Self::tripped).
    pub(crate) fn beat(&self) {
        self.own_beats.store(1, Ordering::Relaxed);
        self.watched.beat();
    }

    /// Stops the task from writing, and writes the safe value. For the task itself and for tasks that do not tick; all others call
    /// [`make_safe`](Self::make_safe).
    ///
    /// # Errors
    /// The kernel's error; the task is stopped from writing all the same.
    pub(crate) fn trip(&self) -> io::Result<()> {
        self.trip_by(|writer| writer.write_safe())
    }

    fn trip_by(&self, write: impl FnOnce(&dyn SafeWrite) -> io::Result<()>) -> io::Result<()> {
        self.watched.block();
        let result = self.writer.as_ref().map_or(Ok(()), |writer| self.write(&**writer, write));
        if !self.is_replaced() {
            self.made_safe(result.as_ref().err());
        }
        result
    }

    /// Makes the output safe while its task may tick: stops the task from writing until it has recovered, waits briefly for a running write
    /// of its own, and writes the safe value.
    pub(crate) fn make_safe(&self) -> MadeSafe {
        let is_anothers = || self.is_replaced() || !self.is_open();
        let request = self.watched.request();
        let not_made = || MadeSafe { result: Err(replaced()), trip: 0, request: 0, overlapped: false };
        let Some(writer) = &self.writer else {
            if is_anothers() {
                return not_made();
            }
            let trip = self.watched.block();
            return MadeSafe { result: Ok(()), trip, request, overlapped: self.own_write_lasts() };
        };
        // Either the output that takes the target over waits for this write, or this write sees the takeover.
        let write = self.written().begin();
        if is_anothers() {
            self.written().end(&write, f64::NAN);
            return not_made();
        }
        let trip = self.watched.block();
        let overlapped = self.own_write_lasts();
        let result = if self.is_lost() { Err(gone()) } else { write_once(|| writer.write_safe()) };
        self.made_safe(result.as_ref().err());
        self.watched.block_if_released();
        MadeSafe { result: self.end_write(&write, &**writer, result), trip, request, overlapped }
    }

    /// Whether a write of the task's own is running and does not finish soon.
    fn own_write_lasts(&self) -> bool {
        if self.is_writing() {
            pause(OWN_WRITE);
        }
        self.is_writing()
    }

    /// Writes the safe value before the first tick, and waits until the target shows it.
    ///
    /// # Errors
    /// The kernel's error, or what the target shows instead.
    pub(crate) fn write_first(&self) -> io::Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let result = self.write(&**writer, |writer| writer.write_safe()).and_then(|()| writer.confirm());
        self.made_safe(result.as_ref().err());
        self.safe_at_first.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// The target was found at its safe value.
    pub(crate) fn is_safe_as_found(&self) {
        self.safe_at_first.store(true, Ordering::Relaxed);
    }

    /// Whether the target has its safe value until the first tick.
    pub(crate) fn is_safe_at_first(&self) -> bool {
        self.safe_at_first.load(Ordering::Relaxed)
    }

    fn write(&self, writer: &dyn SafeWrite, safely: impl FnOnce(&dyn SafeWrite) -> io::Result<()>) -> io::Result<()> {
        let write = self.written().begin();
        let result = match self.is_replaced() {
            true => Err(replaced()),
            false if self.is_lost() => Err(gone()),
            false => write_once(|| safely(writer)),
        };
        self.end_write(&write, writer, result)
    }

    /// The target's content is known only if the write succeeded.
    fn end_write(&self, write: &UnderWay, writer: &dyn SafeWrite, result: io::Result<()>) -> io::Result<()> {
        self.written().was_set(result.is_ok().then(|| writer.settings()));
        self.written().end(write, if result.is_ok() { writer.number() } else { f64::NAN });
        result
    }

    /// Records the result of a safe write, for status queries.
    pub(crate) fn made_safe(&self, failed: Option<&io::Error>) {
        let number = |error: &io::Error| match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => errno,
            (None, io::ErrorKind::TimedOut) => NO_WORD,
            (None, _) => NO_NUMBER,
        };
        self.watched.set_errno(failed.map_or(0, number));
    }

    /// Makes the output safe at its end. If that fails, the guard thread takes over. Returns whether it succeeded.
    pub(crate) fn end(&self) -> bool {
        self.end_by(|writer| writer.write_safe())
    }

    /// Like [`end`](Self::end). If the write needs a confirmation, waits for it as [`SafeWrite::write_safe_within`] does.
    pub(crate) fn end_within(&self, patience: &mut Span) -> bool {
        self.end_by(|writer| writer.write_safe_within(patience))
    }

    fn end_by(&self, write: impl FnOnce(&dyn SafeWrite) -> io::Result<()>) -> bool {
        self.ended.store(true, Ordering::Relaxed);
        let done = self.trip_by(write).is_ok();
        self.watched.set_wanted(!done);
        done
    }

    /// Whether the safe value was left to others and is still to be written. False for a closed output whose target has a later one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.watched.is_wanted() && self.is_open()
    }

    /// Why the target does not hold its safe value although it should; `None`: it does, or need not.
    pub(crate) fn trouble(&self) -> Option<String> {
        let closed = self.left.get().map(|left| KernelClock::monotonic().now() - left);
        let closed = closed.map_or_else(String::new, |ago| format!("was closed by a reload {ago} ago, and "));
        if self.is_lost() {
            let task = &self.task;
            return Some(format!(
                "{task}: {closed}its target is gone, and is looked for: nothing holds its safe value meanwhile"
            ));
        }
        let why = match self.watched.errno() {
            _ if self.watched.is_hanging() => "the write does not return".to_owned(),
            0 => return None,
            NO_WORD => "no word has come that it left (no other node acknowledges it, or the bus is off)".to_owned(),
            NO_NUMBER if self.has_no_plan() => "the function that writes it has failed, or panicked".to_owned(),
            NO_NUMBER => "it was written, but the device does not hold it".to_owned(),
            errno => io::Error::from_raw_os_error(errno).to_string(),
        };
        let (task, what) = (&self.task, self.says());
        Some(format!(
            "{task}: {closed}its safe value, {what}, could not be written: {why}; it is tried again every 100 ms: look at the device, or switch off what it drives"
        ))
    }

    /// Describes for people what is written to make the output safe.
    pub(crate) fn says(&self) -> String {
        self.listed(&self.plan())
    }

    fn listed(&self, plan: &[PlannedWrite]) -> String {
        match (plan, &self.writer) {
            ([], Some(writer)) => writer.shown(),
            (plan, _) => plan.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    /// Like [`says`](Self::says), as part of a sentence, for a thread that must not wait for a change of the plan.
    pub(crate) fn says_unless_locked(&self) -> String {
        let plan = self.writer.as_ref().map_or_else(|| Some(Vec::new()), |writer| writer.plan_unless_locked());
        plan.map_or_else(|| "its safe value".to_owned(), |plan| format!("its safe value, {},", self.listed(&plan)))
    }

    /// The requested GPIO line, if the target is one.
    pub(crate) fn line(&self) -> Option<&File> {
        self.writer.as_ref().and_then(|writer| writer.line())
    }

    /// Whether only this process can write its safe value.
    pub(crate) fn has_no_plan(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.has_no_plan())
    }

    /// The writes another process would have to make.
    pub(crate) fn plan(&self) -> Vec<PlannedWrite> {
        self.writer.as_ref().map_or_else(Vec::new, |writer| writer.plan())
    }
}

/// Turns a panic into an error: the task's own tick may be panicking, and a thread that writes other safe values must continue.
fn write_once(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let panicked = |text| Err(io::Error::other(format!("what writes it {text}")));
    caught_aside(write).unwrap_or_else(panicked)
}

/// The target is not there.
fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}

/// Whether a safe write was given up because another output has taken over the target.
pub(crate) fn was_replaced(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECANCELED)
}

/// Another output has the target.
fn replaced() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}
