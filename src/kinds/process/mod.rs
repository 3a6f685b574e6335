//! The kind `process`: a program in any language, outside the real-time thread, that gets every tick and gives values back.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `keys`, `settings`, `program` | from a section to settings; which file the program is |
//! | `crossing`, `frames` | what crosses between the task and its relay, and between the relay and the program |
//! | `relay`, `exchange`, `pace` | the thread that moves them, how, and when it looks |
//! | `relays` | all of these threads: which follows which |
//! | `child`, `lines`, `throttle` | the program: started, restarted and ended; what it prints; its share of a CPU |
//! | `tardiness` | ticks that it did not answer in time, and when they are too many |
//!
//! A tick makes no system call and wakes no one: it takes what has come from the relay, and leaves a row for it. Its own clock is that of the tick;
//! it reads the monotonic one too, for the ages of its inputs. The answer to one tick enters at the next one that runs, neither earlier nor later.

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

use crate::channels::InputSource;
use crate::config::BuildError;
use crate::site::{Built, Site};
use crate::sys::clock::KernelClock;
use crate::task::{Column, Input, Quality, Task, Tick, TickError};
use crate::time::{Clock, Instant};
use crossing::{AnswerCounts, CoolEnds, HotEnds, crossing, taken};
use relay::Relay;
use relays::Relays;
use settings::ProgramSettings;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use tracing::warn;

/// The values beside those of the program, after them.
pub(in crate::kinds) const COUNTS: [&str; 7] =
    ["answers", "late", "missing", "errors", "dropped", "restarts", "running"];

/// How long the end of a program is waited for. It is killed before.
const ENDS_WITHIN: std::time::Duration = std::time::Duration::from_millis(900);

const NOT_RUNNING: TickError = TickError::new("the program is not running");

/// The hot end of a program.
struct Process {
    columns: Vec<Column>,
    inputs: Vec<Input>,
    are_values: bool, // not all inputs are numbers
    ends: HotEnds,
    held: Box<[f64]>, // what it answered last
    asked: Option<Asked>,
    origin: Option<Instant>, // of what is held
    counts: Counts,
    over: Receiver<()>, // disconnected: the relay has ended
}

/// The tick before: the next one takes its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    n: u64,
    origin: Instant, // the oldest of its release and what it took, on the monotonic clock
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    asked: u64, // ticks but the latest
    answered: u64,
    late: u64, // of those that the relay took for timely
    starts: u64,
}

fn columns(settings: &ProgramSettings) -> Vec<Column> {
    let counts = COUNTS.map(|name| Column { name: name.into(), unit: String::new() });
    settings.values.iter().cloned().chain(counts).collect()
}

/// What a start would find, without one.
fn look(settings: &ProgramSettings) -> Result<Vec<String>, BuildError> {
    program::find(settings, &program::environment(settings)).map_err(refused)?;
    Ok(Vec::new())
}

fn refused(message: String) -> BuildError {
    BuildError { key: "command", message }
}

/// Starts the program, and the relay to it.
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
    let (hot, cool): (HotEnds, CoolEnds) = crossing(settings.period, inputs.len(), values);
    let (task, shared) = (settings.task.clone(), hot.shared.clone());
    let (over, alive) = Relay::start(&site.common::<Relays>(), settings, cool).map_err(refused)?;
    let built = Built::from(Process::new(columns, inputs, hot, values, over));
    Ok(built
        .troubled_by(move || alive.upgrade()?.trouble(&task))
        .leaving(move || shared.stop.store(true, Ordering::Relaxed)))
}

impl Process {
    fn new(columns: Vec<Column>, inputs: Vec<Input>, ends: HotEnds, values: usize, over: Receiver<()>) -> Self {
        let are_values = inputs.iter().any(|input| matches!(input.source(), InputSource::Value(_)));
        let (held, counts) = (vec![f64::NAN; values].into(), Counts::default());
        Self { columns, inputs, are_values, ends, held, asked: None, origin: None, counts, over }
    }

    /// Takes the answers that have come: one to the tick before, and late ones.
    fn take_answers(&mut self) {
        while let Some((n, values)) = self.ends.take() {
            match self.asked {
                Some(asked) if asked.n == n => {
                    self.held.copy_from_slice(values);
                    self.origin = Some(asked.origin);
                    self.counts.answered += 1;
                }
                _ => self.counts.late += 1,
            }
        }
    }

    fn counts(&self, runs: bool) -> [f64; COUNTS.len()] {
        let (counts, shared) = (&self.counts, &self.ends.shared);
        let late = counts.late + shared.late.load(Ordering::Relaxed);
        let missing = counts.asked.saturating_sub(counts.answered + late);
        // For the relay, which says so when they are many.
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
        // What the one before it said is not its own.
        if program.starts != self.counts.starts {
            self.held.fill(f64::NAN);
            self.counts.starts = program.starts;
            self.asked = None;
        }
        self.take_answers();
        if !program.runs {
            self.held.fill(f64::NAN);
        }
        let (own, counts) = values.split_at_mut(self.held.len());
        own.copy_from_slice(&self.held);
        counts.copy_from_slice(&self.counts(program.runs));
        let release = now - tick.lateness;
        let since = |input: &Input| input.origin().or(input.release());
        let origins = self.inputs.iter().filter(|input| input.quality() == Quality::Good).filter_map(Input::origin);
        let origin = if self.are_values { origins.fold(release, Instant::min) } else { release };
        let inputs = self.inputs.iter().map(|input| taken(input.get(), input.quality(), since(input), now));
        self.ends.push(tick, now, inputs);
        self.asked = Some(Asked { n: tick.n, origin });
        self.counts.asked += 1;
        // Until the one before it has ended, its first start is not due: nothing has failed.
        if program.runs || program.waits { Ok(()) } else { Err(NOT_RUNNING) }
    }

    fn disabled(&mut self) {
        self.ends.shared.stop.store(true, Ordering::Relaxed);
    }

    fn ended(&mut self) {
        self.ends.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Process {
    /// Off the hot thread: the relay ends the program meanwhile.
    fn drop(&mut self) {
        self.ends.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.over.recv_timeout(ENDS_WITHIN);
    }
}

/// In a shadow run.
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
