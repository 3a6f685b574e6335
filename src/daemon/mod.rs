//! The wiring: a checked configuration becomes tasks, channels and threads, runs, is exchanged, and is summed up.
//!
//! Start-up goes from what may fail to what must not be disturbed: build the tasks, spawn the cool threads, spawn the
//! workers, lock the memory, let each worker promote itself, choose the epoch, start. The stop goes the other way.
//! This thread may block and allocate; it never runs a task.

mod assemble;

mod metrics_thread;

mod diff;

mod watch;

mod plan;

mod recorder_thread;

mod change;

mod simulate;

mod builder;

mod status_socket;

mod summary;

mod stall;

mod tick_feed;

pub(crate) use diff::{Diff, Sections};
pub use simulate::{SimulateOptions, simulate};
pub(crate) use simulate::{SimulatedTick, highest_first_tick};
pub(crate) use summary::DaemonSummary;

use crate::config::{ClockKind, Config, Problems};
use crate::log::{LogOutput, Output};
use crate::metrics::{Summary, Totals};
use crate::recording::Recordings;
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::notify;
use crate::sys::signals::Request;
use crate::time::{Clock, Instant, Span};
use crate::worker::{Finished, Refusal, Standing, Worker};
use change::Reloads;
use crossbeam_channel::{Receiver, Sender, never, select};
use metrics_thread::{Collector, View};
use plan::Epoch;
use recorder_thread::Recording;
use stall::Watch;
use status_socket::StatusSocket;
use std::fmt;
use std::io;
use std::path::PathBuf;
use tracing::info;
use watch::Told;

/// How often a glance is taken.
const GLANCE_EVERY: Span = Span::from_millis(250);

/// How often this thread looks whether all is well, without a watchdog that wants to know more often.
const LOOK_EVERY: Span = Span::from_seconds(1);

/// How often a worker that is to stop is interrupted, until it has; and how often a start is looked at.
const NUDGE_EVERY: Span = Span::from_millis(5);

/// How long the end of a run waits for a log that takes nothing.
const LOG_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run exactly the releases with `r(n) − epoch` below this, then stop; `None`: until asked to stop.
    pub length: Option<Span>,
    /// Where to listen for those who want a snapshot; `None`: nowhere.
    pub status_socket: Option<PathBuf>,
}

/// Reads the configuration again.
pub(crate) type Loader<'a> = &'a dyn Fn() -> Result<Config, Problems>;

/// What a run has around it. By default nobody asks for anything, and events go to the log.
pub struct Surroundings<'a> {
    /// Where somebody may ask for a stop or a reload.
    pub requests: Receiver<Request>,
    /// Where events go.
    pub output: Box<dyn Output>,
    /// Called a few times a second, where somebody watches.
    pub glance: Option<&'a mut dyn FnMut(Glance)>,
    /// Reads the configuration again, where there is one to read.
    pub load: Option<Loader<'a>>,
}

impl Default for Surroundings<'_> {
    fn default() -> Self {
        Self { requests: never(), output: Box::new(LogOutput), glance: None, load: None }
    }
}

/// How it goes, a few times a second.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    /// Since the epoch.
    pub elapsed: Span,
    /// What has happened so far.
    pub totals: Totals,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The numbers.
    pub summary: Summary,
    /// Why it ended before its time, if it did by its own fault: a task that may end it, or a worker that died.
    pub fault: Option<String>,
}

/// Why nothing was run.
#[derive(Debug)]
pub enum Failure {
    /// What the configuration asks for cannot be built.
    Config(Problems),
    /// `require-realtime` is set, and the kernel refused.
    Permission(String),
    /// The system refused something without which nothing runs.
    System(&'static str, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(problems) => problems.fmt(f),
            Self::Permission(text) => f.write_str(text),
            Self::System(what, reason) => write!(f, "{what}: {reason}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(problems) => Some(problems),
            Self::System(_, reason) => Some(reason),
            Self::Permission(_) => None,
        }
    }
}

/// One worker that runs.
struct Running {
    worker: Worker,
    number: usize, // in the metrics
    standing: Standing,
    epoch: Epoch,
    end: Instant,
    order: Vec<u32>, // numbers of its tasks, as they stand in its set
    began: Instant,  // on the monotonic clock
    watch: Watch,
}

impl Running {
    /// A worker that has been set up and waits for its tasks.
    fn waiting(worker: Worker, number: usize, standing: Standing) -> Self {
        Self {
            worker,
            number,
            standing,
            epoch: Epoch::At(Instant::ZERO),
            end: Instant::MAX,
            order: Vec::new(),
            began: Instant::ZERO,
            watch: Watch::default(),
        }
    }

    fn failed(&self) -> bool {
        self.worker.failed().is_some()
    }
}

/// Everything that runs, as main sees it.
struct Daemon {
    host: Host,
    config: Config,
    ids: Vec<u32>,         // of the configuration's tasks, in its order
    workers: Vec<Running>, // in the configuration's order
    collector: Collector,
    recording: Recording,
    recordings: Recordings,
    done: (Sender<()>, Receiver<()>),
    next_id: u32,
    next_worker: usize,
    epoch: Instant,       // on the monotonic clock
    end: Option<Instant>, // likewise
    locked: Result<(), Refusal>,
    memory_locked: bool,
    _latency: Option<std::fs::File>, // open, it keeps the CPUs from deep sleep
    reloads: Reloads,
    told: Told,
}

/// Runs `config` until its end, or until somebody asks for a stop.
///
/// # Errors
/// Why nothing was run.
pub fn run(config: Config, options: &Options, mut surroundings: Surroundings<'_>) -> Result<Outcome, Failure> {
    let status = options.status_socket.as_deref().map(StatusSocket::listen).transpose();
    let status = status.map_err(|reason| Failure::System("the status socket", reason))?;
    let queries = status.as_ref().map_or_else(never, |status| status.queries.clone());
    let output = std::mem::replace(&mut surroundings.output, Box::new(LogOutput));
    let mut daemon = Daemon::start(config, options.length, output)?;
    let mut stopping = false;
    loop {
        let ended = daemon.done.1.clone();
        let mut stop = false;
        select! {
            recv(ended) -> _ => {}
            recv(surroundings.requests) -> request => match request {
                Ok(Request::Stop(_)) => stop = true,
                Ok(Request::Reload) if stopping => {}
                Ok(Request::Reload) => daemon.reload(surroundings.load),
                Ok(Request::CpuLimit) => daemon.cpu_limit(),
                Err(_) => surroundings.requests = never(),
            },
            recv(queries) -> query => if let Ok(reply) = query {
                let _ = reply.send(daemon.snapshot());
            },
            default(daemon.patience(stopping, surroundings.glance.is_some())) => {}
        }
        if daemon.workers.iter().all(|running| running.worker.is_finished()) {
            break;
        }
        stop |= daemon.workers.iter().any(|running| running.failed() || running.worker.died());
        if stop && !stopping {
            stopping = true;
            notify::stopping();
        }
        if stopping {
            daemon.stop();
        }
        daemon.supervise();
        if let Some(glance) = surroundings.glance.as_mut() {
            let elapsed = KernelClock::monotonic().now() - daemon.epoch;
            glance(Glance { elapsed, totals: daemon.totals() });
        }
    }
    if !stopping {
        notify::stopping();
    }
    // Whoever still waits for a snapshot is told nothing more.
    drop((queries, status));
    daemon.finish()
}

impl Daemon {
    /// Asks every worker to stop, again if need be.
    fn stop(&mut self) {
        for running in self.workers.iter().filter(|running| !running.worker.is_finished()) {
            running.worker.stop();
        }
    }

    /// What it has come to so far, as JSON.
    fn snapshot(&self) -> String {
        let Some(snapshot) = summary::snapshot(self) else {
            return "{\"error\":\"the metrics thread is held up\"}\n".into();
        };
        serde_json::to_string(&snapshot).map_or_else(|error| format!("{{\"error\":\"{error}\"}}"), |text| text + "\n")
    }

    /// Waits for every thread, and sums up.
    fn finish(mut self) -> Result<Outcome, Failure> {
        let now = KernelClock::monotonic().now();
        let mut fault = None;
        let mut ended = Vec::new();
        for (running, config) in std::mem::take(&mut self.workers).into_iter().zip(&self.config.workers) {
            let Running { worker, number, standing, began, .. } = running;
            if let Some(id) = worker.failed() {
                fault.get_or_insert_with(|| {
                    format!("task {} has ended the run, as its section asks (\"exit\")", self.name_of(id))
                });
            }
            let finished = worker.join().unwrap_or_else(|| {
                fault = Some(format!("the thread of worker {} died; please report this", config.name));
                Finished::default()
            });
            self.collector.give_up(finished.report.given_up.clone());
            ended.push(summary::EndedWorker { number, standing, elapsed: now - began, finished });
        }
        let view = self.collector.look_within(LOG_PATIENCE).unwrap_or_else(|| {
            fault = Some("the log took nothing for too long, and the summary is without its histograms".into());
            View::default()
        });
        // The metrics thread has handed on by now what the recorder is to have of the ticks.
        let streamed = self.recording.close();
        let summary = summary::last(&self, &ended, &view, &streamed);
        if !self.recording.finish() {
            fault = Some("the recorder thread panicked; please report this".into());
        }
        match self.collector.finish(LOG_PATIENCE) {
            Some(true) => {}
            Some(false) => fault = Some("the metrics thread panicked; please report this".into()),
            // The log is held up: there is nobody to tell the rest to.
            None => {}
        }
        info!(ticks = view.totals.ticks, overruns = view.totals.overruns, skipped = view.totals.skipped, "stopped");
        Ok(Outcome { summary, fault })
    }
}

fn clock(kind: ClockKind) -> KernelClock {
    match kind {
        ClockKind::Monotonic => KernelClock::monotonic(),
        ClockKind::Tai => KernelClock::tai(),
        ClockKind::Realtime => KernelClock::realtime(),
    }
}
