//! The kind `process`: a program in any language, outside the real-time thread, that gets every tick and returns values.
//!
//! | file | contents |
//! | --- | --- |
//! | `keys`, `settings`, `program` | from a section to settings; how the program's file is found |
//! | `crossing`, `frames` | the data that crosses between the task and its relay, and between the relay and the program |
//! | `relay`, `exchange`, `pace` | the thread that moves the data, how it does so, and when it looks |
//! | `relays` | all of these threads, and which follows which |
//! | `child`, `lines`, `throttle` | the program: its start, restart and end; its output; its share of a CPU |
//! | `tardiness` | ticks that the program did not answer in time, and when they are too many |
//!
//! A tick makes no system call and wakes no one: it takes the answers that have arrived from the relay, and leaves a row for it. Its time
//! is that of the tick. It also reads the monotonic clock, for the ages of its inputs. The answer to one tick takes effect at the next tick
//! that runs, neither earlier nor later.

mod child;
mod crossing;
mod exchange;
mod frames;
mod keys;
mod lines;
mod pace;
mod program;
mod relay;
mod relays;
mod settings;
mod tardiness;
mod throttle;

pub(super) use keys::kind;

use crate::channels::{InputSource, NONE, stale_after};
use crate::config::BuildError;
use crate::kinds::device::FIRST_VALUE;
use crate::site::{Built, Site};
use crate::sys::clock::KernelClock;
use crate::task::{Column, Input, Reason, Task, Tick, TickError};
use crate::time::{Clock, Instant, Span};
use crossing::{AnswerCounts, CoolEnds, HotEnds, crossing, taken};
use relay::Relay;
use relays::Relays;
use settings::ProgramSettings;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use tracing::warn;

/// The values that every task of this kind has, after those of the program.
pub(in crate::kinds) const COUNTS: [&str; 7] =
    ["answers", "late", "missing", "errors", "dropped", "restarts", "running"];

/// How long to wait for the end of a program. It is killed before that.
const ENDS_WITHIN: std::time::Duration = std::time::Duration::from_millis(900);

const NOT_RUNNING: TickError = TickError::new("the program is not running");

/// The task's side of a program.
struct Process {
    columns: Vec<Column>,
    inputs: Vec<Input>,
    are_values: bool, // whether any input is a value of a task, not a number
    ends: HotEnds,
    held: Box<[f64]>,                      // its last answer
    good_until: Option<(Instant, Reason)>, // when that becomes bad without another one, on the monotonic clock, and for what reason
    stale_after: Span,                     // from an answer on
    asked: Option<Asked>,
    origin: Option<Instant>, // of the held answer
    counts: Counts,
    over: Receiver<()>, // disconnected once the relay has ended
}

/// The previous tick, whose answer the next one takes.
#[derive(Clone, Copy, Debug)]
struct Asked {
    n: u64,
    origin: Instant, // the oldest of its release and its inputs' origins, on the monotonic clock
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    asked: u64, // all ticks but the most recent
    answered: u64,
    late: u64, // answers that the relay took for timely
    starts: u64,
}

fn columns(settings: &ProgramSettings) -> Vec<Column> {
    let counts = COUNTS.map(|name| Column { name: name.into(), unit: String::new() });
    settings.values.iter().cloned().chain(counts).collect()
}

/// What a start would find, without starting anything.
fn look(settings: &ProgramSettings) -> Result<Vec<String>, BuildError> {
    program::find(settings, &program::environment(settings)).map_err(refused)?;
    Ok(Vec::new())
}

fn refused(message: String) -> BuildError {
    BuildError { key: "command", message }
}

/// Starts the program and its relay.
fn start(site: &Site, settings: ProgramSettings, inputs: Vec<Input>, shadow: bool) -> Result<Built, BuildError> {
    let columns = columns(&settings);
    if shadow {
        warn!(
            task = settings.task,
            "{}: its program is not started in a shadow run, where nothing may be written; its values are missing",
            settings.task
        );
        return Ok(NotStarted { columns }.into());
    }
    let values = settings.values.len();
    let stale_after = stale_after(settings.period);
    let (hot, cool): (HotEnds, CoolEnds) = crossing(settings.period, inputs.len(), values);
    let (task, shared) = (settings.task.clone(), hot.shared.clone());
    let (over, alive) = Relay::start(&site.common::<Relays>(), settings, cool).map_err(refused)?;
    let built = Built::from(Process::new(columns, inputs, hot, values, stale_after, over));
    Ok(built
        .troubled_by(move || alive.upgrade()?.trouble(&task))
        .leaving(move || shared.stop.store(true, Ordering::Relaxed)))
}

impl Process {
    fn new(
        columns: Vec<Column>,
        inputs: Vec<Input>,
        ends: HotEnds,
        values: usize,
        stale_after: Span,
        over: Receiver<()>,
    ) -> Self {
        let are_values = inputs.iter().any(|input| matches!(input.source(), InputSource::Value(_)));
        let (held, counts) = (vec![NONE; values].into(), Counts::default());
        let (asked, good_until, origin) = (None, None, None);
        Self { columns, inputs, are_values, ends, held, good_until, stale_after, asked, origin, counts, over }
    }

    /// Takes the answers that have arrived by `now`: one to the previous tick, and late ones. What is held while none comes is good for a
    /// limited time.
    fn take_answers(&mut self, now: Instant) {
        while let Some((n, values)) = self.ends.take() {
            match self.asked {
                Some(asked) if asked.n == n => {
                    self.held.copy_from_slice(values);
                    (self.origin, self.good_until) =
                        (Some(asked.origin), Some((now + self.stale_after, Reason::Stale)));
                    self.counts.answered += 1;
                }
                _ => self.counts.late += 1,
            }
        }
        if let Some((end, reason)) = self.good_until
            && now >= end
        {
            self.held.fill(reason.value());
        }
    }

    fn counts(&self, runs: bool) -> [f64; COUNTS.len()] {
        let (counts, shared) = (&self.counts, &self.ends.shared);
        let late = counts.late + shared.late.load(Ordering::Relaxed);
        let missing = counts.asked.saturating_sub(counts.answered + late);
        // Published for the relay, which reports when too many are late.
        shared.show(AnswerCounts { asked: counts.asked, answered: counts.answered, missing });
        let dropped = self.ends.unsent() + shared.dropped.load(Ordering::Relaxed);
        let errors = shared.errors.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
        let numbers =
            [counts.answered, late, missing, errors, dropped, counts.starts.saturating_sub(1), u64::from(runs)]
                .map(|count| count as f64);
        numbers
    }
}

impl Task for Process {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn origin(&self) -> Option<Instant> {
        self.origin
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let now = KernelClock::monotonic().now();
        let program = self.ends.shared.program();
        // An answer of the previous program does not count as this program's.
        if program.starts != self.counts.starts {
            self.held.fill(NONE);
            self.counts.starts = program.starts;
            (self.asked, self.good_until) = (None, Some((now + FIRST_VALUE, Reason::Unavailable)));
        }
        self.take_answers(now);
        if !program.runs {
            self.held.fill(Reason::Unavailable.value());
        }
        let (own, counts) = values.split_at_mut(self.held.len());
        own.copy_from_slice(&self.held);
        counts.copy_from_slice(&self.counts(program.runs));
        let release = now - tick.lateness;
        let since = |input: &Input| input.origin().or(input.release());
        let origins = self.inputs.iter().filter(|input| input.quality().is_usable()).filter_map(Input::origin);
        let origin = if self.are_values { origins.fold(release, Instant::min) } else { release };
        let inputs = self.inputs.iter().map(|input| taken(input.get(), input.quality(), since(input), now));
        self.ends.push(tick, now, inputs);
        self.asked = Some(Asked { n: tick.n, origin });
        self.counts.asked += 1;
        // Nothing has failed while the first start waits for the end of the previous program.
        if program.runs || program.waits { Ok(()) } else { Err(NOT_RUNNING.of_no_value()) }
    }

    fn disabled(&mut self) {
        self.ends.shared.stop.store(true, Ordering::Relaxed);
    }

    fn ended(&mut self) {
        self.ends.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Process {
    /// Runs off the hot thread; meanwhile the relay ends the program.
    fn drop(&mut self) {
        self.ends.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.over.recv_timeout(ENDS_WITHIN);
    }
}

/// The stand-in during a shadow run.
struct NotStarted {
    columns: Vec<Column>,
}

impl Task for NotStarted {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let own = values.len() - COUNTS.len();
        values[own..].fill(0.0);
        Ok(())
    }
}
