//! A configuration on the virtual clock, for the tests of a daemon of one's own: every tick and every count, exact. No real time is
//! read, and nothing is opened but the recordings that the configuration names.

use super::App;
use super::latency;
use crate::config::{Config, Facts, Problems};
use crate::daemon::{Graph, Models, SimulateOptions, SimulatedTick, Simulation};
use crate::snapshot::Counts;
use crate::time::Span;

/// What [`App::simulate`] has run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VirtualRun {
    /// Every tick: of each worker in the order in which they ran, of workers between which values flow together.
    pub ticks: Vec<VirtualTick>,
    /// What each task has done, in the order of the configuration.
    pub tasks: Vec<VirtualCounts>,
}

/// A tick on the virtual clock. Instants count from the epoch, which is the release of tick 0 of a task without a phase.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VirtualTick {
    /// Name of the task.
    pub task: String,
    /// Index of the tick, counted in releases.
    pub n: u64,
    /// When it was meant to start.
    pub release: Span,
    /// When it started; never before its release.
    pub started: Span,
    /// When it finished: later by what `run` says under `[task.NAME.simulate]`.
    pub finished: Span,
    /// Releases given up: before it, because something else held the worker, and when it had finished.
    pub skipped: u64,
    /// Its values, in the order of [`Task::columns`](crate::Task::columns), `NaN` for one that it has not; empty of a task that is only a
    /// script.
    pub values: Vec<f64>,
}

/// What a task has done on the virtual clock: `met + missed = due`, and `ran + skipped = due`. Public, so apart from the counts that hertzd
/// shares inside: nothing is ever pending here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VirtualCounts {
    /// Name of the task.
    pub task: String,
    /// Releases that came up.
    pub due: u64,
    /// Ticks that finished by their deadline.
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
    /// The ticks of a task, in their order; none if there is no such task.
    pub fn ticks_of<'a>(&'a self, task: &str) -> Vec<&'a VirtualTick> {
        self.ticks.iter().filter(|tick| tick.task == task).collect()
    }

    /// What a task has done.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn counts_of(&self, task: &str) -> &VirtualCounts {
        let found = self.tasks.iter().find(|counts| counts.task == task);
        found.unwrap_or_else(|| panic!("the configuration has no task {task:?}"))
    }
}

impl App {
    /// Runs the text of a configuration on the virtual clock: exactly the releases of the first `length`, by the loop that `run` uses. Meant
    /// for tests: the result is the same on every machine, to the nanosecond, and an hour takes a second.
    ///
    /// Tasks that only compute are run: those of kinds like `pid`, and of kinds added by
    /// [`Kinds::with_computing`](crate::Kinds::with_computing). Every other task is a script without values, as in `hertzd simulate`, unless
    /// `[task.NAME.simulate]` says what stands in for it. Any CPU may be named, whether this machine has it or not.
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
        // Only what keeps the ticks could fail, and it does not.
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
        let &SimulatedTick { task, n, release_ns, started_ns, finished_ns, skipped, values } = tick;
        let [release, started, finished] = [release_ns, started_ns, finished_ns].map(Span::from_wide);
        Self { task: task.to_owned(), n, release, started, finished, skipped, values: values.to_vec() }
    }
}
