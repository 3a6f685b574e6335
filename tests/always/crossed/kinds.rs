//! The kinds that only this test has: a source that produces numbers by a script, a task that answers a tick late, as a program does, a
//! task that shows its input; and the effect of a reload on a task whose section it changes.

use crate::random::SplitMix;
use hertzd::config::{Blueprint, Key, Kind, Section, Value};
use hertzd::task::{Column, Input, Quality, Reason, Task, Tick, TickError};
use hertzd::time::Instant;
use hertzd::{Kinds, Site};

const SCRIPT: Key = Key::new("script", Value::Integer { min: 0, max: i64::MAX }, "The seed of what it makes.");
const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
const BACK: Key = Key::new("back", Value::Input, "What it takes as well.");
const RESTARTS_AT: Key =
    Key::new("restarts-at", Value::Integer { min: 1, max: 1_000 }, "The first tick of the new one.");

/// The output of a source at a tick: a number, nothing, or an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Given {
    Number(f64),
    Nothing,
    Error,
}

/// Mostly numbers; now and then a few ticks without one.
pub(crate) fn given(script: u64, n: u64) -> Given {
    let of = |part: u64| SplitMix(script.wrapping_mul(31).wrapping_add(part)).next();
    // In stretches of four ticks.
    match of(n / 4 + 1_000_000) % 8 {
        0 => Given::Nothing,
        1 => Given::Error,
        2 if n % 4 == 1 => Given::Nothing,
        _ => {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let eighths = (of(n) % 160) as f64;
            Given::Number(eighths / 8.0 - 10.0)
        }
    }
}

pub(crate) fn kinds() -> Kinds {
    let mut kinds = Kinds::builtin();
    for (name, of) in [("restarted-filter", "filter"), ("restarted-pid", "pid"), ("restarted-alarm", "alarm")] {
        kinds = kinds.add(restarted(name, of));
    }
    let source = |section: &mut Section<'_>| Some(Blueprint::built(Source(section.integer(&SCRIPT)?)).computing());
    let echo = |section: &mut Section<'_>| {
        let inputs = [section.input(&INPUT)?.spared(), section.input(&BACK)?.spared()];
        Some(Blueprint::built(Echo { inputs, asked: None, origin: None }).computing())
    };
    let probe = |section: &mut Section<'_>| Some(Blueprint::built(Probe(section.input(&INPUT)?)).computing());
    kinds
        .add(Kind::new("source", "Makes numbers.", &[SCRIPT][..], source))
        .add(Kind::new("echo", "Answers a tick late.", &[INPUT, BACK][..], echo))
        .add(Kind::new("probe", "Shows its input.", &[INPUT][..], probe))
}

/// A task of one of hertzd's kinds, which is replaced by a new task that is built while it runs.
fn restarted(name: &'static str, of: &'static str) -> Kind {
    let kinds = Kinds::builtin();
    let keys: Vec<Key> = kinds.get(of).unwrap().keys.iter().cloned().chain([RESTARTS_AT]).collect();
    let parse = move |section: &mut Section<'_>| {
        let parse = &kinds.get(of)?.parse;
        let at = section.integer(&RESTARTS_AT)?;
        let (mut first, mut second) = (parse(section)?, parse(section)?);
        let build = move |site: &mut Site| {
            Ok(Restarted { tasks: [first.build(site)?.task, second.build(site)?.task], at, now: 0 }.into())
        };
        Some(Blueprint::new(build).computing())
    };
    Kind::new(name, "Restarts.", keys, parse)
}

fn columns(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column { name: (*name).to_owned(), unit: String::new() }).collect()
}

struct Source(u64);

impl Task for Source {
    fn columns(&self) -> Vec<Column> {
        columns(&["v"])
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        match given(self.0, tick.n) {
            Given::Number(number) => values[0] = number,
            Given::Nothing => (),
            Given::Error => return Err(TickError::new("the error that was asked for")),
        }
        Ok(())
    }
}

struct Echo {
    inputs: [Input; 2],
    asked: Option<(f64, Instant)>, // at the tick before
    origin: Option<Instant>,
}

impl Task for Echo {
    fn columns(&self) -> Vec<Column> {
        columns(&["out"])
    }

    fn origin(&self) -> Option<Instant> {
        self.origin
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        if let Some((answer, origin)) = self.asked {
            (values[0], self.origin) = (answer, Some(origin));
        }
        let good = self.inputs.iter().filter(|input| matches!(input.quality(), Quality::Good | Quality::Held));
        let origin = good.filter_map(Input::origin).fold(tick.release, Instant::min);
        self.asked = Some((self.inputs[0].get() + 0.5 * self.inputs[1].get(), origin));
        Ok(())
    }
}

struct Probe(Input);

impl Task for Probe {
    fn columns(&self) -> Vec<Column> {
        columns(&["value", "quality", "age"])
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let quality = match self.0.quality() {
            Quality::Good => 0.0,
            Quality::Bad(Reason::Stale) => 2.0,
            Quality::Bad(_) => 1.0,
            Quality::None => 3.0,
            Quality::Held => 4.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let age = self.0.age().map_or(-1.0, |age| age.nanos() as f64);
        values.copy_from_slice(&[self.0.get(), quality, age]);
        Ok(())
    }
}

struct Restarted {
    tasks: [Box<dyn Task>; 2],
    at: u64,
    now: usize,
}

impl Task for Restarted {
    fn columns(&self) -> Vec<Column> {
        self.tasks[0].columns()
    }

    fn origin(&self) -> Option<Instant> {
        self.tasks[self.now].origin()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        self.now = usize::from(tick.n >= self.at);
        self.tasks[self.now].tick(tick, values)
    }
}
