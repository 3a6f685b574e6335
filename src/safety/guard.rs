//! The safe value of each output, as others than its own task can write it: the thread that watches for workers that hang, main before
//! the process ends, and another process after it was killed.
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

/// In place of an errno: no word came of a CAN frame; another error of hertzd's own.
const NO_WORD: i32 = -2;
const NO_NUMBER: i32 = -1;

/// How long a safe write waits for one of the task's own that is under way, to come after it.
const OWN_WRITE: Span = Span::from_millis(5);

/// What came of a safe write beside a task that may tick.
#[derive(Debug)]
pub(crate) struct MadeSafe {
    pub(crate) result: io::Result<()>,
    /// The trip that it belongs to.
    pub(crate) trip: u64,
    /// The latest request before it; 0: none.
    pub(crate) request: u64,
    /// A write of the task's own was under way, and may come after it.
    pub(crate) overlapped: bool,
}

/// One output, as others see it.
#[derive(Default)]
pub(crate) struct Guard {
    task: String,
    watched: Arc<Watched>, // the same for the outputs of which one takes over from the other
    /// How long its worker may hang until its safe value is written.
    safe_after: Span,
    first_after: Span,
    writer: Option<Box<dyn SafeWrite>>,
    own_beats: AtomicU64, // ticks that its own task has begun
    readback: OnceLock<Arc<dyn ReadBack>>,
    kept: OnceLock<Vec<PlannedWrite>>, // writes to its target, which keeps what it has
    closed: AtomicBool,                // its task is gone
    ended: AtomicBool,                 // or will not write any more
    begun: AtomicBool,
    left: LeftAt,              // its task has ended without its safe value
    holding: Holding,          // another thread keeps it safe
    terms: OnceLock<Terms>,    // of that
    safe_at_first: AtomicBool, // it has its safe value before its first tick
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Its target can be asked, and told, through it: the outputs of which one takes over from the other have the same.
impl Deref for Guard {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        &self.watched
    }
}

impl Guard {
    /// Guards the output of a task. Outputs that have the same `watched` have its target one after the other. Should it take its target over,
    /// its first tick may come `first_after` the last one of the output before it. `None` in place of a writer: it keeps what it has, whatever happens.
    pub(crate) fn new(
        task: &str,
        watched: Arc<Watched>,
        (safe_after, first_after): (Span, Span),
        writer: Option<Box<dyn SafeWrite>>,
    ) -> Arc<Self> {
        let task = task.to_owned();
        Arc::new(Self { task, watched, safe_after, first_after, writer, ..Self::default() })
    }

    /// Whether it keeps what it has, whatever happens: nobody writes anything in place of its task.
    pub(crate) fn keeps_what_it_has(&self) -> bool {
        self.writer.is_none()
    }

    /// Its task may write from now on, and others may make it safe. Until then nothing is written to its target.
    pub(crate) fn begins(&self) {
        self.watched.begins();
        self.begun.store(true, Ordering::Release); // who sees it writes after what set the target up
    }

    /// Whether that was done.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether it is the only one that may write to its target.
    pub(crate) fn is_alone(&self) -> bool {
        self.has_begun() && self.watched.has_one_writer()
    }

    /// The name of its task.
    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    /// Has its target read back.
    pub(crate) fn reads_back(&self, readback: Arc<dyn ReadBack>) {
        _ = self.readback.set(readback);
    }

    /// Its target, if it is to be read back. Of one that keeps what it has nothing is asked once its task has ended or is disabled.
    pub(crate) fn readback(&self) -> Option<&Arc<dyn ReadBack>> {
        self.readback.get().filter(|_| !self.keeps_what_it_has() || !self.ended.load(Ordering::Relaxed))
    }

    /// Its target is gone: from now on nothing is written, until it was found again.
    pub(crate) fn lose(&self) {
        self.watched.set_lost(true);
        self.watched.block();
        let write = self.written().begin();
        self.written().forget_settings();
        self.written().end(&write, f64::NAN);
    }

    /// Its target is there again: it is made safe, and its task recovers from that as from any other.
    ///
    /// # Errors
    /// What the kernel said of the safe write.
    pub(crate) fn find(&self) -> io::Result<()> {
        self.watched.set_lost(false);
        // A value that comes after it all the same is repaired by the task's next tick. One that was replaced is another output's to be made safe.
        self.make_safe().result.or_else(|error| if was_replaced(&error) { Ok(()) } else { Err(error) })
    }

    /// How often the tasks of its target have ticked; `None`: none has, and until one does the target is safe, or nobody makes it so.
    pub(crate) fn awaited_beats(&self) -> Option<u64> {
        let beats = self.beats();
        (beats > 0 || !self.is_safe_at_first() && !self.keeps_what_it_has()).then_some(beats)
    }

    /// The same for all of one target: of those the one that was opened later has taken over, or will.
    pub(crate) fn target(&self) -> usize {
        Arc::as_ptr(&self.watched).addr()
    }

    /// How long its target may go without a tick until its safe value is written.
    pub(crate) fn safe_after(&self) -> Span {
        match self.own_beats.load(Ordering::Relaxed) {
            0 => self.safe_after.max(self.first_after),
            _ => self.safe_after,
        }
    }

    /// Shows that its task ticks. Only the task itself calls it, at each tick, after it has [seen](Self::tripped) whether it was made safe.
    pub(crate) fn beat(&self) {
        self.own_beats.store(1, Ordering::Relaxed);
        self.watched.beat();
    }

    /// Keeps the task from writing, and writes the safe value. For the task itself, and where it does not tick; others [make it
    /// safe](Self::make_safe).
    ///
    /// # Errors
    /// What the kernel said; the task does not write all the same.
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

    /// Makes it safe while its task may tick: keeps that from writing until it has recovered, waits a little for a write of its own that is under
    /// way, and writes the safe value.
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
        // Who takes its target over waits for what is under way, or this sees that.
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

    /// Whether a write of the task's own is under way, and does not end soon.
    fn own_write_lasts(&self) -> bool {
        if self.is_writing() {
            pause(OWN_WRITE);
        }
        self.is_writing()
    }

    /// Writes the safe value before the first tick, and waits until the target shows it.
    ///
    /// # Errors
    /// What the kernel said, or what the target shows instead.
    pub(crate) fn write_first(&self) -> io::Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let result = self.write(&**writer, |writer| writer.write_safe()).and_then(|()| writer.confirm());
        self.made_safe(result.as_ref().err());
        self.safe_at_first.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// Its target has its safe value already.
    pub(crate) fn is_safe_as_found(&self) {
        self.safe_at_first.store(true, Ordering::Relaxed);
    }

    /// Whether its target has its safe value until the first tick.
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

    /// What the target holds is known only if that was written.
    fn end_write(&self, write: &UnderWay, writer: &dyn SafeWrite, result: io::Result<()>) -> io::Result<()> {
        self.written().was_set(result.is_ok().then(|| writer.settings()));
        self.written().end(write, if result.is_ok() { writer.number() } else { f64::NAN });
        result
    }

    /// What came of a safe write, for those who ask whether all is well.
    pub(crate) fn made_safe(&self, failed: Option<&io::Error>) {
        let number = |error: &io::Error| match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => errno,
            (None, io::ErrorKind::TimedOut) => NO_WORD,
            (None, _) => NO_NUMBER,
        };
        self.watched.set_errno(failed.map_or(0, number));
    }

    /// Makes it safe as its last deed. Where that fails, it is left to the thread that watches over it.
    pub(crate) fn end(&self) -> bool {
        self.end_by(|writer| writer.write_safe())
    }

    /// The same; where word has to come that it was done, waits for that as [`SafeWrite::write_safe_within`] does.
    pub(crate) fn end_within(&self, patience: &mut Span) -> bool {
        self.end_by(|writer| writer.write_safe_within(patience))
    }

    fn end_by(&self, write: impl FnOnce(&dyn SafeWrite) -> io::Result<()>) -> bool {
        self.ended.store(true, Ordering::Relaxed);
        let done = self.trip_by(write).is_ok();
        self.watched.set_wanted(!done);
        done
    }

    /// Whether that was left to others, and is still to be done. Not of one that is closed, for an output before it that had the same target.
    pub(crate) fn is_wanted(&self) -> bool {
        self.watched.is_wanted() && self.is_open()
    }

    /// Why its target does not hold its safe value, though it should; `None`: it does, or it should not.
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

    /// What is written to make it safe, for people.
    pub(crate) fn says(&self) -> String {
        self.listed(&self.plan())
    }

    fn listed(&self, plan: &[PlannedWrite]) -> String {
        match (plan, &self.writer) {
            ([], Some(writer)) => writer.shown(),
            (plan, _) => plan.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    /// The same in a sentence, for a thread that must not wait for who is about to change it.
    pub(crate) fn says_unless_locked(&self) -> String {
        let plan = self.writer.as_ref().map_or_else(|| Some(Vec::new()), |writer| writer.plan_unless_locked());
        plan.map_or_else(|| "its safe value".to_owned(), |plan| format!("its safe value, {},", self.listed(&plan)))
    }

    /// The GPIO line that it writes to, requested, if it is one.
    pub(crate) fn line(&self) -> Option<&File> {
        self.writer.as_ref().and_then(|writer| writer.line())
    }

    /// Whether only this process can write its safe value.
    pub(crate) fn has_no_plan(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.has_no_plan())
    }

    /// What another process would have to write.
    pub(crate) fn plan(&self) -> Vec<PlannedWrite> {
        self.writer.as_ref().map_or_else(Vec::new, |writer| writer.plan())
    }
}

/// A panic is an error: the task's own tick may be in one, and who writes other safe values has to go on.
fn write_once(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let panicked = |text| Err(io::Error::other(format!("what writes it {text}")));
    caught_aside(write).unwrap_or_else(panicked)
}

/// What is written to is not there.
fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}

/// Whether a safe write was given up because another output has taken the target over.
pub(crate) fn was_replaced(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECANCELED)
}

/// Another output has the target.
fn replaced() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}
