//! The thread between a task and its program: it moves ticks to the program and answers back, restarts a program that ends, and logs the
//! program's output.
//!
//! It reads the monotonic clock and sleeps on the task's own grid. Only an answer that is due wakes it. It never waits for the program, and
//! each poll does a bounded amount of work, whatever arrives.

mod ending;

use super::child::Program;
use super::crossing::{AnswerCounts, CoolEnds, Shared};
use super::exchange::Exchange;
use super::lines::{Lines, Said};
use super::pace::{LONGEST, Pace};
use super::program;
use super::relays::{Alive, Relays};
use super::settings::ProgramSettings;
use super::tardiness::{self, Tardiness, Ticks};
use super::throttle::{Order, Throttle};
use crate::io::Backoff;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::process::Ready;
use crate::sys::thread::{helper, with_signals_blocked};
use crate::time::{Clock, Instant, Span};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use tracing::{info, warn};

/// Errors, and stops due to the CPU share, are each logged at most this often.
const LOG_EVERY: Span = Span::from_seconds(10);

/// How often a program is moved off the CPUs of newly pinned workers.
const PLACE_EVERY: Span = Span::from_seconds(1);

/// The thread's calls need little stack, and all that a stack may grow to counts as locked memory.
const STACK: usize = 256 << 10;

/// One relay.
pub(super) struct Relay {
    settings: ProgramSettings,
    exchange: Exchange,
    shared: Arc<Shared>,
    clock: KernelClock,
    pace: Pace,
    program: Option<Program>,
    lines: Lines,
    throttle: Option<Throttle>,
    throttled: Span,                 // the part that was logged
    next_place: Instant,             // when to check again that the program is off the workers' CPUs
    not_placed: bool,                // the kernel has refused the move
    closed: Option<(Instant, Step)>, // since when the program has closed its socket, and the last step taken
    tardiness: Tardiness,
    alive: Arc<Alive>,
    backoff: Backoff, // before the next start
    refusal: String,
    errors: Reported,
    throttles: Reported,
}

/// The last step taken with a program that has closed its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Seen,
    Asked,
    Killed,
}

/// A recurring event that is logged only now and then.
#[derive(Debug, Default)]
struct Reported {
    at: Option<Instant>,
    count: u64,
}

impl Reported {
    /// Counts further events. Returns the number to report now, if a report is due.
    fn more(&mut self, count: u64, now: Instant) -> Option<u64> {
        self.count += count;
        if self.at.is_some_and(|at| now - at < LOG_EVERY) {
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

impl Relay {
    /// Starts the thread, and the program unless another program of the same task must end first. Once the thread and its program have
    /// ended, the returned receiver is disconnected and the weak pointer is dead.
    ///
    /// # Errors
    /// The reason why the program or the thread could not be started.
    pub(super) fn start(
        relays: &Relays,
        settings: ProgramSettings,
        ends: CoolEnds,
    ) -> Result<(Receiver<()>, Weak<Alive>), String> {
        // Checked even if the program must wait for another one: a fault must not surface only after the other has ended.
        program::find(&settings, &program::environment(&settings))?;
        let (over, is_over) = channel();
        let (began, has_begun) = channel();
        let (alive, before) = relays.join(&settings.task);
        let seen = Arc::downgrade(&alive);
        let clock = KernelClock::monotonic();
        let body = move || {
            let mut relay = Self::new(settings, ends, clock, alive.clone());
            if relay.follow(&before, began) {
                relay.run();
            }
            // The order matters: first the successor may begin, then whoever waits for the end continues.
            drop(relay);
            drop(alive);
            drop::<Sender<()>>(over);
        };
        let spawned = with_signals_blocked(|| helper::spawn_with_stack("hertzd-relay", STACK, body));
        spawned
            .and_then(|spawned| spawned)
            .map_err(|error| format!("cannot start the thread to the program: {error}"))?;
        // Without an answer the thread has panicked, which is reported elsewhere.
        has_begun.recv().unwrap_or(Ok(()))?;
        Ok((is_over, seen))
    }

    fn new(settings: ProgramSettings, ends: CoolEnds, clock: KernelClock, alive: Arc<Alive>) -> Self {
        let now = clock.now();
        Self {
            pace: Pace::new(settings.period),
            shared: ends.shared.clone(),
            exchange: Exchange::new(ends, settings.values.len()),
            clock,
            program: None,
            lines: Lines::new(now),
            throttle: None,
            throttled: Span::ZERO,
            next_place: now,
            not_placed: false,
            closed: None,
            tardiness: Tardiness::new(settings.max_missed, now),
            alive,
            backoff: Backoff::default(),
            refusal: String::new(),
            errors: Reported::default(),
            throttles: Reported::default(),
            settings,
        }
    }

    /// Waits for the earlier programs of this task, and starts its own. Reports the result of the first start, unless it has to wait.
    /// Returns false if the start was refused, so that there will be no task.
    fn follow(&mut self, before: &[Weak<Alive>], began: Sender<Result<(), String>>) -> bool {
        let waits = || before.iter().any(|other| other.strong_count() > 0);
        if waits() {
            self.shared.change_program(|program| program.waits = true);
            let _ = began.send(Ok(()));
            while waits() && !self.is_to_stop() {
                self.exchange.pass_over();
                pause(Span::from_millis(1));
            }
            return true;
        }
        let started = self.begin();
        let is_started = started.is_ok();
        let _ = began.send(started);
        is_started
    }

    fn is_to_stop(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn run(&mut self) {
        let mut next_start = self.clock.now();
        let mut next_care = next_start;
        while !self.is_to_stop() {
            let now = self.clock.now();
            if self.program.is_none() && now >= next_start {
                if let Err(refusal) = self.begin() {
                    next_start = now + self.backoff.take();
                    self.log_refusal(refusal);
                }
                self.shared.change_program(|program| program.waits = false);
            }
            let flooded = self.move_frames(now);
            if now >= next_care {
                next_care = now + LONGEST;
                if let Some(wait) = self.care(now) {
                    next_start = now + wait;
                }
            }
            self.rest(now, next_care, flooded);
        }
        self.end();
    }

    /// Starts the program.
    fn begin(&mut self) -> Result<(), String> {
        let (program, unmet) = Program::start(&self.settings)?;
        let now = self.clock.now();
        let (task, pid) = (&self.settings.task, program.id());
        for what in unmet {
            warn!(task, pid, "{task}: its program runs, but {what}");
        }
        self.exchange.greet(&program.socket, &self.settings);
        self.throttle = self.settings.cpu.map(|share| Throttle::new(share, now));
        self.throttled = Span::ZERO;
        (self.next_place, self.closed) = (now, None);
        self.backoff.is_there(now);
        let AnswerCounts { asked, answered, .. } = self.shared.counted();
        self.tardiness.begin(now, asked, answered);
        self.refusal.clear();
        self.program = Some(program);
        let verb = if self.shared.program().starts == 0 { "started" } else { "started again" };
        self.shared.change_program(|program| {
            program.starts += 1;
            program.runs = true;
        });
        info!(task, pid, "{task}: its program was {verb} as process {pid}");
        Ok(())
    }

    fn log_refusal(&mut self, refusal: String) {
        if refusal != self.refusal {
            let task = &self.settings.task;
            let again = if self.shared.program().starts == 0 { "" } else { "again " };
            warn!(task, "{task}: its program cannot be started {again}yet; hertzd keeps trying: {refusal}");
            self.refusal = refusal;
        }
    }

    /// Moves ticks to the program and answers to the task. Returns whether there may be more answers than one poll takes.
    fn move_frames(&mut self, now: Instant) -> bool {
        let Self { exchange, program, pace, .. } = self;
        exchange.send_ticks(program.as_ref().map(|program| &program.socket), |release| pace.came(release));
        self.take_answers(now)
    }

    fn take_answers(&mut self, now: Instant) -> bool {
        let Self { exchange, program: Some(program), .. } = self else { return false };
        let (mut wrong, mut errors) = (None, 0_u64);
        let flooded = exchange.take_answers(&program.socket, |what| {
            wrong = Some(what);
            errors += 1;
        });
        if let Some(wrong) = wrong {
            self.count_errors(wrong, errors, now);
        }
        // A program that sends nonsense must not make this thread look each time.
        flooded || errors > 0
    }

    /// Counts this many errors, the last of which was `wrong`.
    fn count_errors(&mut self, wrong: &'static str, errors: u64, now: Instant) {
        self.shared.errors.fetch_add(errors, Ordering::Relaxed);
        if let Some(count) = self.errors.more(errors, now) {
            let task = &self.settings.task;
            let times =
                if count == 1 { String::new() } else { format!(", the last of {count} errors since it was last said") };
            warn!(task, count, "{task}: its program sent {wrong}{times}");
        }
    }

    /// The periodic chores. If the program has ended, returns the wait before the next start.
    fn care(&mut self, now: Instant) -> Option<Span> {
        self.program.as_ref()?;
        self.keep_in_place(now);
        self.log_lines(now);
        self.keep_share(now);
        self.log_tardiness(now);
        self.end_without_socket(now);
        let status = self.program.as_mut().and_then(Program::ended)?;
        self.take_answers(now);
        self.log_rest(now);
        self.program = None;
        self.shared.change_program(|program| program.runs = false);
        self.alive.unanswered.store([0; 2]);
        self.backoff.is_gone(now);
        let (task, wait) = (&self.settings.task, self.backoff.take());
        warn!(
            task,
            "{task}: its program ended ({status}); its values are missing until it is started again, in {wait}, and answers"
        );
        Some(wait)
    }

    /// Counts ticks not answered in time. Logs when they become too many, and when that is over.
    fn log_tardiness(&mut self, now: Instant) {
        let AnswerCounts { asked, answered, missing } = self.shared.counted();
        let said = self.tardiness.look(now, asked, answered);
        let Ticks { all, unanswered } = self.tardiness.too_many().unwrap_or_default();
        self.alive.unanswered.store([unanswered, all]);
        let task = &self.settings.task;
        match said {
            Some(tardiness::Said::TooMany) => {
                let late = asked.saturating_sub(answered + missing);
                warn!(
                    task,
                    unanswered,
                    all,
                    late,
                    missing,
                    "{task}: its program left {unanswered} of {all} ticks without an answer in time in the last 10 s (since the task began, {late} \
                     answers were late and {missing} ticks have none): let it do less at a tick, lower its rate, or raise its cpu-limit if it has one"
                );
            }
            Some(tardiness::Said::Over) => {
                let Ticks { all, unanswered } = self.tardiness.lately();
                info!(
                    task,
                    unanswered,
                    all,
                    "{task}: its program answers in time again: {unanswered} of {all} ticks of the last 10 s have no answer in time"
                );
            }
            None => {}
        }
    }

    /// This thread is moved when a worker is pinned or gone, and when the CPUs available to hertzd change. The program follows it.
    fn keep_in_place(&mut self, now: Instant) {
        let Some(program) = self.program.as_mut().filter(|_| now >= self.next_place) else { return };
        self.next_place = now + PLACE_EVERY;
        let refused = program.keep_off_workers().err();
        if let Some(error) = refused.as_ref().filter(|_| !self.not_placed) {
            let task = &self.settings.task;
            warn!(
                task,
                "{task}: its program, or something that it started, could not be moved off the CPUs of pinned workers: {error}; allow \
                 sched_setaffinity; otherwise it may run there while the workers sleep"
            );
        }
        self.not_placed = refused.is_some();
    }

    fn log_lines(&mut self, now: Instant) {
        let Self { program: Some(program), lines, settings, .. } = self else { return };
        let mut said = |what| log(&settings.task, what);
        program.read(|bytes| lines.take(bytes, now, &mut said));
        lines.report(now, &mut said);
    }

    /// Logs the remaining output of an ended program.
    fn log_rest(&mut self, now: Instant) {
        self.log_lines(now);
        let Self { lines, settings, .. } = self;
        lines.finish(now, &mut |what| log(&settings.task, what));
    }

    fn keep_share(&mut self, now: Instant) {
        let Self { program: Some(program), throttle: Some(throttle), .. } = self else { return };
        let Some(used) = program.child().cpu_time() else { return };
        match throttle.look(now, used) {
            Some(Order::Hold) => program.child().hold(),
            Some(Order::Release) => program.child().release(),
            None => return,
        }
        let held = throttle.held;
        if let Some(count) = self.throttles.more(1, now) {
            let (task, share) = (&self.settings.task, self.settings.cpu.unwrap_or_default());
            let since = held - std::mem::replace(&mut self.throttled, held);
            let stopped = match since {
                Span::ZERO => "it is stopped until it has not".to_owned(),
                since => format!("it was stopped for {since} since this was last said"),
            };
            warn!(
                task,
                count,
                "{task}: its program uses more than its cpu-limit of {share}: {stopped}; raise the limit, or let it do less"
            );
        }
    }

    /// Waits until the next poll. Waits for an answer only while one is owed.
    fn rest(&self, now: Instant, next_care: Instant, flooded: bool) {
        let next = self.pace.next(now).min(next_care);
        let after = self.clock.now();
        match &self.program {
            _ if flooded => pause(Span::from_millis(1)),
            Some(program) if self.exchange.is_owed() => {
                if program.socket.wait(next - after) == Ready::Closed {
                    // Frames may be left; waiting would return at once.
                    pause((next - after).min(Span::from_millis(1)));
                }
            }
            _ => pause(next - after),
        }
    }
}

fn log(task: &str, said: Said) {
    match said {
        Said::Line(line) => info!(task, "{task}: {line}"),
        Said::LeftOut(count) => {
            warn!(task, count, "{task}: {count} lines that its program printed were left out: there were too many");
        }
    }
}

impl Drop for Relay {
    /// Also runs on a panic: the program ends with its thread.
    fn drop(&mut self) {
        self.shared.change_program(|program| (program.runs, program.waits) = (false, false));
    }
}
