//! A daemon in this process, for this crate's tests and benches: its configuration is a string, and it has its own `/sys` and `/dev` trees.
//! Any failure panics, which fails the test.

use super::{Connections, Failure, Loader, Options, Requests, SimulateOptions, run, simulate};
use crate::channels::Queue;
use crate::config::{Blueprint, Config, Facts, Kinds, Problems};
use crate::daemon::main::finish::Outcome;
use crate::log::{LogOutput, Output, PanicEvent};
use crate::metrics::Event;
use crate::site::Site;
use crate::snapshot::Summary;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::host::{Host, cpu_set_size};
use crate::sys::signals::Request;
use crate::time::{Clock, Span};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A daemon that takes longer than this counts as hung, even on a very busy machine.
const PATIENCE: Span = Span::from_seconds(600);

/// What to run, and how.
pub struct Embedded {
    kinds: Kinds,
    text: String,
    options: Options,
    output: Box<dyn Output>,
}

impl Embedded {
    /// A daemon with these kinds and this configuration.
    pub fn of(kinds: Kinds, text: impl Into<String>) -> Self {
        Self { kinds, text: text.into(), options: Options::default(), output: Box::new(LogOutput) }
    }

    /// Ends after `length` instead of on request.
    #[must_use]
    pub fn lasting(mut self, length: Span) -> Self {
        self.options.length = Some(length);
        self
    }

    /// Answers status requests on this socket.
    #[must_use]
    pub fn status_socket(mut self, path: &Path) -> Self {
        self.options.status_socket = Some(path.to_owned());
        self
    }

    /// Keeps its plan of safe values in this file.
    #[must_use]
    pub fn safe_plan(mut self, path: &Path) -> Self {
        self.options.safe_plan = Some(path.to_owned());
        self
    }

    /// Uses this folder instead of `/sys`.
    #[must_use]
    pub fn sys(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.options.roots.sys);
        self
    }

    /// Uses this folder instead of `/dev`.
    #[must_use]
    pub fn dev(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.options.roots.dev);
        self
    }

    /// Calls `told` at each event instead of logging it.
    #[must_use]
    pub fn telling(mut self, told: impl FnMut() + Send + 'static) -> Self {
        self.output = Box::new(Told(Box::new(told)));
        self
    }

    /// Runs the daemon to its end.
    pub fn run(self) -> Outcome {
        self.start().end()
    }

    /// Runs the daemon on a thread of its own.
    pub fn start(self) -> EmbeddedRun {
        let Self { kinds, text, options, output } = self;
        let (requests, later) = (Requests::default(), Arc::<Mutex<Later>>::default());
        // Don't keep the text during the run: it would count as the daemon's memory.
        let (mut first, reading, asked) = (Some(text), later.clone(), requests.clone());
        let load = Loader::new(move || {
            let text = first.take().unwrap_or_else(|| locked(&reading).text.clone());
            let config = parse(&text, &kinds);
            locked(&reading).reads += 1;
            config
        });
        let thread = std::thread::spawn(move || {
            let connections = Connections { requests: asked, output, ..Connections::default() };
            run(load, &options, connections)
        });
        EmbeddedRun { requests, later, thread }
    }

    /// Runs the daemon on the virtual clock for `length`. Its tasks are scripted run times; no values flow.
    pub fn simulate(self, length: Span) -> Summary {
        let config = parse(&self.text, &self.kinds).unwrap_or_else(|problems| panic!("{problems}"));
        let options = SimulateOptions { length, first_tick: 0 };
        simulate(&config, options, &mut |_| Ok(())).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The task builders, in order, and the site to build them in, for callers that tick the tasks by hand. All streams are recorded.
    pub fn parts(self) -> (Vec<Blueprint>, Site) {
        let config = parse(&self.text, &self.kinds).unwrap_or_else(|problems| panic!("{problems}"));
        let mut site = Site::under(self.options.roots);
        site.records(Some((Queue::Fifo, |_| true)));
        (config.tasks.into_iter().map(|task| task.blueprint).collect(), site)
    }
}

/// A running embedded daemon.
pub struct EmbeddedRun {
    requests: Requests,
    later: Arc<Mutex<Later>>,
    thread: JoinHandle<Result<Outcome, Failure>>,
}

impl EmbeddedRun {
    /// Asks the daemon to reload with this configuration.
    pub fn reload(&self, text: impl Into<String>) {
        locked(&self.later).text = text.into();
        self.requests.ask(Request::Reload);
    }

    /// How often the daemon has read its configuration.
    pub fn reads(&self) -> usize {
        locked(&self.later).reads
    }

    /// Waits until `is_so` returns true. Panics with `what` after `PATIENCE`, or if the daemon ends first.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = KernelClock::monotonic().now();
        while !is_so() {
            assert!(!self.has_ended(), "the daemon has ended before {what}");
            assert!(KernelClock::monotonic().now() - begun < PATIENCE, "timed out before {what}");
            pause(Span::from_millis(2));
        }
    }

    /// Whether the daemon has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks the daemon to end.
    pub fn stop(&self) {
        self.requests.ask(Request::Stop(libc::SIGTERM));
    }

    /// Waits until the daemon has ended.
    pub fn end(self) -> Outcome {
        self.join().unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Waits for the end and returns why the daemon refused to run. Panics if it did run.
    pub fn refusal(self) -> String {
        self.join().map_or_else(|failure| failure.to_string(), |_| panic!("it was run"))
    }

    fn join(self) -> Result<Outcome, Failure> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The text for the next reload, and the number of reads so far.
#[derive(Default)]
struct Later {
    text: String,
    reads: usize,
}

fn locked(later: &Mutex<Later>) -> MutexGuard<'_, Later> {
    later.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse(text: &str, kinds: &Kinds) -> Result<Config, Problems> {
    let facts = Facts { online_cpus: Host::read().online_cpus, cpu_set_size: cpu_set_size() };
    Config::parse(text, "test.toml", kinds, &facts)
}

/// Calls the function at each event, and logs nothing.
struct Told(Box<dyn FnMut() + Send>);

impl Output for Told {
    fn event(&mut self, _: &Event<'_>) {
        (self.0)();
    }

    fn panicked(&mut self, _: &PanicEvent<'_>) {}

    fn dropped(&mut self, _: &str, _: u64) {}
}
