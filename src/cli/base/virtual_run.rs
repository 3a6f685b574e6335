//! Runs a configuration on the virtual clock, for tests of custom daemons: every tick and every count is exact. No real time is read, and
//! nothing is opened except the recordings that the configuration names.

use super::App;
use super::latency;
use crate::config::{Config, Facts, Problems};
use crate::daemon::{Graph, Models, SimulateOptions, SimulatedTick, Simulation};
use crate::snapshot::Counts;
use crate::time::Span;

/// The result of [`App::simulate`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VirtualRun {
    /// Every tick. Workers that exchange values are simulated together, with their ticks in the order in which they ran; otherwise ticks
    /// are grouped by worker.
    pub ticks: Vec<VirtualTick>,
    /// Each task's counts, in the order of the configuration.
    pub tasks: Vec<VirtualCounts>,
}

/// A tick on the virtual clock. Instants count from the epoch: the release of tick 0 of a task without a phase.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VirtualTick {
    /// Name of the task.
    pub task: String,
    /// Index of the tick, counting releases.
    pub n: u64,
    /// When it should have started.
    pub release: Span,
    /// When it started; never before the release.
    pub started: Span,
    /// When it finished: `started` plus the `run` from `[task.NAME.simulate]`.
    pub finished: Span,
    /// Releases given up, either before this tick because the worker was busy, or when the tick finished.
    pub skipped: u64,
    /// Its values, in the order of [`Task::columns`](crate::Task::columns); `NaN` for a missing value. Empty for a task that is only a
    /// script.
    pub values: Vec<f64>,
}

/// A task's counts on the virtual clock: `met + missed = due` and `ran + skipped = due`. This type is public, so it is separate from the
/// counts hertzd uses internally; nothing is ever pending here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VirtualCounts {
    /// Name of the task.
    pub task: String,
    /// Releases that came up.
    pub due: u64,
    /// Ticks that finished by the deadline.
    pub met: u64,
    /// Releases without such a tick.
    pub missed: u64,
    /// Ticks run.
    pub ran: u64,
    /// Releases given up.
    pub skipped: u64,
    /// Ticks that finished after their deadline.
    pub overruns: u64,
}

impl VirtualRun {
    /// A task's ticks in order. Empty if there is no such task.
    pub fn ticks_of<'a>(&'a self, task: &str) -> Vec<&'a VirtualTick> {
        self.ticks.iter().filter(|tick| tick.task == task).collect()
    }

    /// A task's counts.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn counts_of(&self, task: &str) -> &VirtualCounts {
        let found = self.tasks.iter().find(|counts| counts.task == task);
        found.unwrap_or_else(|| panic!("the configuration has no task {task:?}"))
    }
}

impl App {
    /// Runs a configuration text on the virtual clock: exactly the releases of the first `length`, with the same loop that `run` uses.
    /// Meant for tests: the result is the same on every machine, to the nanosecond, and an hour takes a second.
    ///
    /// Only tasks that compute are run: kinds such as `pid`, and kinds added by [`Kinds::with_computing`](crate::Kinds::with_computing).
    /// Every other task is a script without values, as in `hertzd simulate`, unless `[task.NAME.simulate]` defines a stand-in. Any CPU may
    /// be named, whether or not this machine has it.
    ///
    /// ```
    /// use hertzd::time::Span;
    /// use hertzd::{App, Column, Kinds, Task, Tick, TickError};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Ramp { slope: f64, #[serde(skip)] level: f64 }
    ///
    /// impl Task for Ramp {
    ///     fn columns(&self) -> Vec<Column> {
    ///         vec![Column { name: "level".into(), unit: "V".into() }]
    ///     }
    ///
    ///     fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
    ///         self.level += self.slope * tick.period.seconds();
    ///         values[0] = self.level;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let app = App::new(Kinds::builtin().with_computing::<Ramp>("ramp", "Rises."));
    /// let run = app.simulate("[task.r]\nkind = \"ramp\"\nrate = 4\nslope = 2.0\n", Span::from_seconds(1)).unwrap();
    /// let ticks = run.ticks_of("r");
    /// assert_eq!(ticks[3].release, Span::from_millis(750));
    /// assert_eq!(ticks[3].values, [2.0]);
    /// assert_eq!(run.counts_of("r").met, 4);
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn simulate(&self, configuration: &str, length: Span) -> Result<VirtualRun, Problems> {
        self.introduce();
        let facts = Facts { online_cpus: (0..1_024).collect(), cpu_set_size: 1_024 };
        let mut config = Config::parse(configuration, "the configuration", &self.kinds, &facts)?;
        latency::refuse(&config)?;
        let graph = Graph::build(&mut config)?;
        let mut ticks = Vec::new();
        let mut keep = |tick: SimulatedTick<'_>| {
            ticks.push(VirtualTick::of(&tick));
            Ok(())
        };
        let options = SimulateOptions { length, first_tick: 0 };
        let simulation = Simulation { config: &config, options, models: &Models::default(), graph: &graph };
        // Only `keep` could fail, and it does not.
        let tasks = simulation.play(&mut keep).map(|summary| summary.tasks).unwrap_or_default();
        let counts = tasks.iter().map(|task| {
            let Counts { due, met, missed, ran, skipped, overruns, .. } = task.counts;
            VirtualCounts { task: task.task.clone(), due, met, missed, ran, skipped, overruns }
        });
        let tasks = counts.collect();
        Ok(VirtualRun { ticks, tasks })
    }
}

impl VirtualTick {
    fn of(tick: &SimulatedTick<'_>) -> Self {
        let &SimulatedTick { task, n, release_ns, started_ns, finished_ns, skipped, values, .. } = tick;
        let [release, started, finished] = [release_ns, started_ns, finished_ns].map(Span::from_wide);
        Self { task: task.to_owned(), n, release, started, finished, skipped, values: values.to_vec() }
    }
}
