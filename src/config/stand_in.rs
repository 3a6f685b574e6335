//! `[task.NAME.simulate]`: how long ticks take under `hertzd simulate`, and what produces the task's values there. Pure.

use super::error::{self, Origin};
use super::keys::*;
use super::meant::did_you_mean;
use super::section::Section;
use super::taken::{Taken, name_in};
use crate::channels::{Input, InputSource, ValueName};
use crate::pacing::Overrun;
use crate::time::Span;
use std::path::PathBuf;

/// Maximum dead time of a plant, in periods; one value is kept per period.
const MOST_PERIODS: i64 = 1_000_000;

/// What produces a task's values under `simulate`, in place of the task.
#[derive(Clone, Debug)]
pub(crate) enum StandIn {
    /// A recording of this task, or of another one.
    Recording {
        /// The CSV file.
        path: PathBuf,
        /// The table that names the file.
        section: Origin,
    },
    /// A model of what the task measures.
    Plant(Box<PlantConfig>),
}

/// When the ticks of a task's stand-in fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    /// The first release that fails, since the epoch.
    pub from: Span,
    /// How long ticks keep failing. `None`: until the end.
    pub lasting: Option<Span>,
}

impl Failing {
    /// Whether a tick fails, given its release as time since the epoch.
    pub(crate) fn contains(self, release: Span) -> bool {
        release >= self.from && self.lasting.is_none_or(|lasting| release - self.from < lasting)
    }
}

/// A process that responds to a value of another task.
#[derive(Clone, Debug)]
pub(crate) struct PlantConfig {
    /// Which of the task's values the plant produces.
    pub value: String,
    /// What drives the plant: a number, or another task's value from the previous tick.
    pub input: Input,
    /// Change of the output per unit of input in steady state.
    pub gain: f64,
    /// How the output approaches its final value.
    pub dynamics: Dynamics,
    /// How long the input takes to have any effect.
    pub dead_time: Span,
    /// The output if the input has always been zero.
    pub offset: f64,
    /// The output at the first tick.
    pub initial: f64,
    /// The plant's table.
    pub section: Origin,
}

/// How a plant's output approaches the value its input leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dynamics {
    /// First order.
    First {
        /// In seconds; zero: immediately.
        time_constant: f64,
    },
    /// Second order.
    Second {
        /// Undamped, in radians per second; above zero.
        natural_frequency: f64,
        /// Damping ratio; at least zero. From 1 upwards the output does not overshoot.
        damping: f64,
    },
}

/// The contents of `[task.NAME.simulate]`.
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
        // The plant's input is not a link of the task that runs.
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

/// Rejects plants driven by tasks that do not exist.
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
