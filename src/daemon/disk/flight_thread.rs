//! The flight recorder: writes batches from the metrics thread to the file `flight`.
//!
//! It has its own thread, because a disk may block it forever. Only the end of a run waits for it, for a limited time. Records that the
//! disk does not take are lost, counted and logged.

use crate::daemon::metrics::flight_feed::{self, FlightFeed, FlightState, Handed};
use crate::daemon::patience::Patience;
use crate::flight::{FLIGHT, FlightFile, Introduction, Known, Packed, RECORD};
use crate::snapshot::FlightSummary;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::dir::Dir;
use crate::sys::host::Host;
use crate::sys::thread::helper;
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::{Receiver, Sender};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use tracing::{info, warn};

/// Losses are logged at most this often.
const LOG_EVERY: Span = Span::from_seconds(60);

/// Enough stack to open files and format a log line. It counts as locked memory.
const STACK: usize = 256 << 10;

/// Where to write, and how much.
#[derive(Clone, Debug)]
pub(crate) struct FlightOptions {
    /// The directory of the file.
    pub directory: Arc<Dir>,
    /// Bytes for its records; `None`: two minutes, at most 16 MiB.
    pub size: Option<u64>,
}

/// Main's end of the flight recorder. Does nothing if there is none.
#[derive(Debug)]
pub(crate) struct FlightThread(Option<Runs>);

#[derive(Debug)]
struct Runs {
    path: PathBuf,
    state: Arc<FlightState>,
    thread: JoinHandle<()>,
}

impl FlightThread {
    /// Starts the flight recorder, if it is configured. The other end is for the metrics thread.
    pub(crate) fn spawn(options: Option<&FlightOptions>) -> io::Result<(Self, FlightFeed)> {
        let Some(FlightOptions { directory, size }) = options else { return Ok((Self(None), FlightFeed::off())) };
        let state = Arc::<FlightState>::default();
        let (feed, receiver, back) = flight_feed::feed(*size, state.clone());
        let (path, directory, shared) = (directory.path().join(FLIGHT), directory.clone(), state.clone());
        let recorder =
            Recorder { directory, path: path.clone(), state: shared, back, file: None, logged: None, known: 0 };
        let thread = helper::spawn_with_stack("hertzd-flight", STACK, move || recorder.run(&receiver))?;
        Ok((Self(Some(Runs { path, state, thread })), feed))
    }

    /// What has been written so far; `None`: there is no flight recorder.
    pub(crate) fn summary(&self) -> Option<FlightSummary> {
        let Runs { path, state, .. } = self.0.as_ref()?;
        Some(FlightSummary {
            path: path.display().to_string(),
            capacity: state.capacity.load(Ordering::Relaxed),
            records: state.written.load(Ordering::Relaxed),
            lost: state.lost.load(Ordering::Relaxed),
            trouble: state.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    /// Waits until everything is written, but no longer than `patience`. The metrics thread must have ended.
    pub(crate) fn finish(&self, patience: Span) {
        let Some(Runs { thread, .. }) = &self.0 else { return };
        let mut patience = Patience::new(patience);
        while !thread.is_finished() && !patience.is_over() {
            pause(Span::from_millis(1));
        }
    }
}

struct Recorder {
    directory: Arc<Dir>,
    path: PathBuf,
    state: Arc<FlightState>,
    back: Sender<Vec<Packed>>,
    file: Option<FlightFile>,
    logged: Option<Instant>, // when losses were last logged
    known: u64,              // lost records already logged
}

impl Recorder {
    fn run(mut self, receiver: &Receiver<Handed>) {
        for handed in receiver {
            let done = match handed {
                Handed::Begin(capacity) => self.begin(capacity),
                Handed::Known(known) => self.describe(&known),
                Handed::Batch(batch) => self.write(batch),
            };
            let trouble = done.err().map(|reason| format!("{}: {reason}", self.path.display()));
            self.log_losses(trouble.as_deref());
            *self.state.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        }
    }

    fn begin(&mut self, capacity: u64) -> io::Result<()> {
        let mut file = FlightFile::begin(&self.directory, capacity)?;
        file.describe(&introduction())?;
        self.file = Some(file);
        Ok(())
    }

    fn describe(&mut self, known: &Known) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(not_there()) };
        if file.describe(known)? {
            let path = self.path.display();
            info!("the flight file {path} begins again: the names of tasks that reloads have ended had filled it");
        }
        Ok(())
    }

    fn write(&mut self, mut batch: Vec<Packed>) -> io::Result<()> {
        let count = batch.len() as u64;
        let written = self.file.as_mut().map_or_else(|| Err(not_there()), |file| file.write(&mut batch));
        match &written {
            Ok(()) => self.state.written.fetch_add(count, Ordering::Relaxed),
            Err(_) => self.state.lost.fetch_add(count, Ordering::Relaxed),
        };
        self.state.waiting.fetch_sub(count * RECORD as u64, Ordering::Relaxed);
        batch.clear();
        // Fails once the metrics thread has ended; that does not matter.
        let _ = self.back.send(batch);
        written
    }

    fn log_losses(&mut self, trouble: Option<&str>) {
        let lost = self.state.lost.load(Ordering::Relaxed);
        let now = KernelClock::monotonic().now();
        let news = lost > self.known || trouble.is_some() && self.logged.is_none();
        if !news || self.logged.is_some_and(|logged| now - logged < LOG_EVERY) {
            return;
        }
        self.logged = Some(now);
        let more = lost - std::mem::replace(&mut self.known, lost);
        let why = trouble.unwrap_or("the disk was too slow for them");
        warn!(
            lost = more,
            "flight recorder: {more} records are lost ({why}); tasks, counts and recordings are not affected"
        );
    }
}

fn introduction() -> Known {
    let host = Host::read();
    Known::Run(Introduction {
        hertzd: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        began_ns: (KernelClock::monotonic().now() - Instant::ZERO).nanos(),
        kernel: host.kernel,
        cpus: host.cpus,
        preempt: host.preempt,
        clocksource: host.clocksource,
    })
}

fn not_there() -> io::Error {
    io::Error::other("it could not be begun")
}
