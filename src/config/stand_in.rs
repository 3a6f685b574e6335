//! `[task.NAME.simulate]`: how long ticks take under `hertzd simulate`, and what makes the task's values there in its place.
//! Pure.

use super::error::{self, Origin};
use super::keys::*;
use super::meant::did_you_mean;
use super::section::Section;
use super::taken::{Taken, name_in};
use crate::channels::{Input, InputSource, ValueName};
use crate::pacing::Overrun;
use crate::time::Span;
use std::path::PathBuf;

/// The most periods that the dead time of a plant may last: that many values are kept.
const MOST_PERIODS: i64 = 1_000_000;

/// What makes the values of a task under `simulate`, in place of the task.
#[derive(Clone, Debug)]
pub(crate) enum StandIn {
    /// What was recorded of it, or of another one.
    Recording {
        /// The CSV.
        path: PathBuf,
        /// The table that names it.
        section: Origin,
    },
    /// A model of what it measures.
    Plant(Box<PlantConfig>),
}

/// When the ticks of what stands in for a task fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    /// Since the epoch: from this release on.
    pub from: Span,
    /// For so long; `None`: until the end.
    pub lasting: Option<Span>,
}

impl Failing {
    /// Whether the tick with a release so long after the epoch fails.
    pub(crate) fn contains(self, release: Span) -> bool {
        release >= self.from && self.lasting.is_none_or(|lasting| release - self.from < lasting)
    }
}

/// A process that answers to a value of another task.
#[derive(Clone, Debug)]
pub(crate) struct PlantConfig {
    /// The value of the task that it makes.
    pub value: String,
    /// What drives it: a number, or a value of another task, of the tick before.
    pub input: Input,
    /// Change of the output per unit of input, when all has settled.
    pub gain: f64,
    /// How it gets there.
    pub dynamics: Dynamics,
    /// How long the input takes to have any effect.
    pub dead_time: Span,
    /// The output while the input has always been zero.
    pub offset: f64,
    /// The output at the first tick.
    pub initial: f64,
    /// Its table.
    pub section: Origin,
}

/// How the output of a plant goes to where the input leads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dynamics {
    /// First order.
    First {
        /// In seconds; zero: at once.
        time_constant: f64,
    },
    /// Second order.
    Second {
        /// Undamped, in radians per second; above zero.
        natural_frequency: f64,
        /// Damping ratio; at least zero, and 1 where the output just does not overshoot.
        damping: f64,
    },
}

/// What `[task.NAME.simulate]` says.
#[derive(Debug, Default)]
pub(super) struct Simulated {
    pub(super) run: Option<Vec<Span>>,
    pub(super) stand_in: Option<StandIn>,
    pub(super) fails: Option<Failing>,
}

/// Reads the table, if there is one.
pub(super) fn judge(section: &mut Section<'_>, overrun: Option<Overrun>) -> Simulated {
    let period = section.period();
    let Some(mut table) = section.table_inside("simulate", TASK_SIMULATE_KEYS) else { return Simulated::default() };
    let run = table.durations(&RUN);
    let recording = table.path(&VALUES).map(|path| StandIn::Recording { path, section: table.origin() });
    let plant = table.table_inside(PLANT.name, PLANT_KEYS).and_then(|mut plant| {
        let judged = self::plant(&mut plant, period, overrun);
        // What drives it is no link of the task that runs.
        let driven_by = std::mem::take(&mut plant.taken).into_iter().map(|taken| (plant.path.clone(), taken));
        plant.modelled.extend(driven_by);
        table.absorb(plant);
        judged
    });
    let (from, lasting) = (table.duration(&FAILS_AT), table.duration(&FAILS_FOR));
    let fails = from.map(|from| Failing { from, lasting });
    section.absorb(table);
    Simulated { run, fails, stand_in: recording.or(plant.map(|plant| StandIn::Plant(Box::new(plant)))) }
}

fn plant(section: &mut Section<'_>, period: Option<Span>, overrun: Option<Overrun>) -> Option<PlantConfig> {
    let value = section.text(&PLANT_VALUE);
    let input = section.input(&PLANT_INPUT).map(|input| match input.source() {
        InputSource::Number(_) | InputSource::Value(ValueName { previous: Some(_), .. }) => input,
        InputSource::Value(name) => Input::value_of(ValueName { previous: Some(0.0), ..name.clone() }),
    });
    let gain = section.number(&GAIN);
    let dynamics = dynamics(section);
    let dead_time = section.duration(&DEAD_TIME);
    if let (Some(dead_time), Some(period)) = (dead_time, period)
        && dead_time.nanos() / period.nanos().max(1) > MOST_PERIODS
    {
        section.problem(&DEAD_TIME, format!("must be at most {MOST_PERIODS} periods of the task"));
    }
    if matches!(overrun, Some(Overrun::Delay)) {
        let text = "a plant needs ticks on a fixed grid, and overrun = \"delay\" moves it";
        section.note("", section.header(), false, text, Some("choose another policy for overrun".to_owned()));
    }
    let (offset, initial) = (section.number(&OFFSET), section.number(&INITIAL));
    let (gain, offset, input) = (gain?, offset?, input?);
    let at_rest = offset + gain * input.get();
    Some(PlantConfig {
        value: value?,
        initial: initial.unwrap_or(at_rest),
        input,
        gain,
        dynamics: dynamics?,
        dead_time: dead_time?,
        offset,
        section: section.origin(),
    })
}

fn dynamics(section: &mut Section<'_>) -> Option<Dynamics> {
    let (natural_frequency, damping) = (section.number(&NATURAL_FREQUENCY), section.number(&DAMPING));
    if damping.is_some_and(|damping| damping < 0.0) {
        section.problem(&DAMPING, "must not be negative: the output would swing ever wider by itself");
    }
    if let (Some(natural_frequency), Some(damping)) = (natural_frequency, damping) {
        return Some(Dynamics::Second { natural_frequency, damping });
    }
    let constants = section.durations(&TIME_CONSTANT)?;
    let seconds: Vec<f64> =
        constants.iter().map(|constant| constant.seconds()).filter(|seconds| *seconds > 0.0).collect();
    if constants.len() > 2 {
        section.problem(&TIME_CONSTANT, "must be one time constant, or two for a plant of second order");
    }
    Some(match seconds[..] {
        [one, two, ..] => {
            let root = (one * two).sqrt();
            Dynamics::Second { natural_frequency: 1.0 / root, damping: (one + two) / (2.0 * root) }
        }
        [one] => Dynamics::First { time_constant: one },
        [] => Dynamics::First { time_constant: 0.0 },
    })
}

/// Refuses plants that are driven by tasks that there are not.
pub(super) fn refuse_unknown(tasks: &mut [(String, Section<'_>)]) {
    if tasks.iter().all(|(_, section)| section.modelled.is_empty()) {
        return;
    }
    let names: Vec<String> = tasks.iter().map(|(name, _)| name.clone()).collect();
    for (_, section) in tasks {
        for (path, Taken { key, span, input, .. }) in std::mem::take(&mut section.modelled) {
            let name = name_in(&input);
            if names.contains(&name.task) {
                continue;
            }
            let text = format!("there is no task {}, whose value {} it is to take", name.task, name.value);
            let mut problem = error::problem(section.source, &path, key, span, true, text);
            problem.help = did_you_mean(&name.task, names.iter().map(String::as_str));
            section.problems.push(problem);
        }
    }
}
