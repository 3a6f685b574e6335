//! A daemon in this process, as the tests and benches of this crate run one: of a configuration in memory, with trees of devices of its own. What
//! goes wrong is a panic, which fails the test.

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

/// After this a daemon counts as hanging, on however busy a machine.
const PATIENCE: Span = Span::from_seconds(600);

/// What to run, and how.
pub struct Embedded {
    kinds: Kinds,
    text: String,
    options: Options,
    output: Box<dyn Output>,
}

impl Embedded {
    /// A daemon of these kinds and this configuration.
    pub fn of(kinds: Kinds, text: impl Into<String>) -> Self {
        Self { kinds, text: text.into(), options: Options::default(), output: Box::new(LogOutput) }
    }

    /// Ends after this, in place of when it is asked to.
    #[must_use]
    pub fn lasting(mut self, length: Span) -> Self {
        self.options.length = Some(length);
        self
    }

    /// Answers at this socket.
    #[must_use]
    pub fn status_socket(mut self, path: &Path) -> Self {
        self.options.status_socket = Some(path.to_owned());
        self
    }

    /// Keeps the plan of its safe values in this file.
    #[must_use]
    pub fn safe_plan(mut self, path: &Path) -> Self {
        self.options.safe_plan = Some(path.to_owned());
        self
    }

    /// Has this in place of `/sys`.
    #[must_use]
    pub fn sys(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.options.roots.sys);
        self
    }

    /// Has this in place of `/dev`.
    #[must_use]
    pub fn dev(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.options.roots.dev);
        self
    }

    /// Calls this at each event, and logs none.
    #[must_use]
    pub fn telling(mut self, told: impl FnMut() + Send + 'static) -> Self {
        self.output = Box::new(Told(Box::new(told)));
        self
    }

    /// Runs it until its end.
    pub fn run(self) -> Outcome {
        self.start().end()
    }

    /// Runs it on a thread of its own.
    pub fn start(self) -> EmbeddedRun {
        let Self { kinds, text, options, output } = self;
        let (requests, later) = (Requests::default(), Arc::<Mutex<Later>>::default());
        // Not kept while it runs: that would count as its memory.
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

    /// Runs it on the virtual clock for this long. Its tasks are scripts of how long they take, and no values flow.
    pub fn simulate(self, length: Span) -> Summary {
        let config = parse(&self.text, &self.kinds).unwrap_or_else(|problems| panic!("{problems}"));
        let options = SimulateOptions { length, first_tick: 0 };
        simulate(&config, options, &mut |_| Ok(())).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What builds its tasks, in their order, and where: for who ticks them by hand. All that they stream is recorded.
    pub fn parts(self) -> (Vec<Blueprint>, Site) {
        let config = parse(&self.text, &self.kinds).unwrap_or_else(|problems| panic!("{problems}"));
        let mut site = Site::under(self.options.roots);
        site.records(Some((Queue::Fifo, |_| true)));
        (config.tasks.into_iter().map(|task| task.blueprint).collect(), site)
    }
}

/// One that runs.
pub struct EmbeddedRun {
    requests: Requests,
    later: Arc<Mutex<Later>>,
    thread: JoinHandle<Result<Outcome, Failure>>,
}

impl EmbeddedRun {
    /// Asks it to go on with this configuration.
    pub fn reload(&self, text: impl Into<String>) {
        locked(&self.later).text = text.into();
        self.requests.ask(Request::Reload);
    }

    /// How often it has read its configuration.
    pub fn reads(&self) -> usize {
        locked(&self.later).reads
    }

    /// Waits until that is so.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = KernelClock::monotonic().now();
        while !is_so() {
            assert!(!self.has_ended(), "the daemon has ended before {what}");
            assert!(KernelClock::monotonic().now() - begun < PATIENCE, "timed out before {what}");
            pause(Span::from_millis(2));
        }
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks it to end.
    pub fn stop(&self) {
        self.requests.ask(Request::Stop(libc::SIGTERM));
    }

    /// Waits until it has ended.
    pub fn end(self) -> Outcome {
        self.join().unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Why nothing was run.
    pub fn refusal(self) -> String {
        self.join().map_or_else(|failure| failure.to_string(), |_| panic!("it was run"))
    }

    fn join(self) -> Result<Outcome, Failure> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What the next reload reads, and how often was read.
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

/// Calls this, and logs nothing.
struct Told(Box<dyn FnMut() + Send>);

impl Output for Told {
    fn event(&mut self, _: &Event<'_>) {
        (self.0)();
    }

    fn panicked(&mut self, _: &PanicEvent<'_>) {}

    fn dropped(&mut self, _: &str, _: u64) {}
}
