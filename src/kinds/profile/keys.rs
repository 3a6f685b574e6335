//! The keys of the kind `profile`, and how a section becomes a setpoint. Pure, except that building the task reads its file.

use super::csv::{self, Wanted};
use super::shape::{Course, Points, Shape, Wave};
use super::{Profile, columns};
use crate::config::{Blueprint, BuildError, Key, Kind, Preview, Rule, Section, Value, words};
use crate::pacing::Rate;
use crate::site::{Built, Site};
use crate::time::Span;

#[derive(Clone, Copy)]
enum Form {
    Constant,
    Ramp,
    Steps,
    Sine,
    Chirp,
    Csv,
}

const SHAPES: [(&str, Form); 6] = [
    ("constant", Form::Constant),
    ("ramp", Form::Ramp),
    ("steps", Form::Steps),
    ("sine", Form::Sine),
    ("chirp", Form::Chirp),
    ("csv", Form::Csv),
];
const BETWEEN: [(&str, bool); 2] = [("hold", false), ("interpolate", true)];
const ENDS: [(&str, bool); 2] = [("stay", false), ("repeat", true)];

const SHAPE: Key = Key::new(
    "shape",
    Value::Choice(&words(&SHAPES)),
    "The course of the value, from the first release on: one level; a straight line; several levels; a sine wave; one whose frequency \
     changes; or the rows of a file.",
)
.required("say what course the value takes, such as \"ramp\"");
const LEVEL: Key =
    Key::new("level", Value::Number, "The value.").required("write the value").rules(&[only(&["constant"])]);
const FROM: Key = Key::new("from", Value::Number, "Where the ramp begins.").required("say where it begins").rules(RAMP);
const TO: Key = Key::new("to", Value::Number, "Where the ramp ends.").required("say where it ends").rules(RAMP);
const DURATION: Key = Key::new("duration", Value::DURATION, "From its begin to its end.")
    .required("say how long it takes, such as \"10min\"")
    .rules(&[only(&["ramp", "chirp"])]);
const STEP: Key =
    Key::new("step", Value::Tables(STEP_KEYS), "The levels, one after the other, each in a table of its own.")
        .required("write each level under [[task.NAME.step]]")
        .rules(&[only(&["steps"])]);
const OFFSET: Key = Key::new("offset", Value::Number, "What the wave swings around.").default("0").rules(WAVE);
const AMPLITUDE: Key = Key::new("amplitude", Value::Positive, "How far it swings to each side.")
    .required("say how far it swings to each side")
    .rules(WAVE);
const FREQUENCY: Key = Key::new("frequency", Value::Rate, "How many waves a second, below half the rate of the task.")
    .required("say how many waves a second, such as \"0.1 Hz\"")
    .rules(&[only(&["sine"])]);
const FROM_FREQUENCY: Key =
    Key::new("from-frequency", Value::Rate, "The frequency at the begin, below half the rate of the task.")
        .required("say at how many waves a second it begins, such as \"0.1 Hz\"")
        .rules(CHIRP);
const TO_FREQUENCY: Key = Key::new(
    "to-frequency",
    Value::Rate,
    "The frequency at the end, below half the rate of the task. In between it changes in a straight line.",
)
.required("say at how many waves a second it ends, such as \"10 Hz\"")
.rules(CHIRP);
const FILE: Key = Key::new(
    "file",
    Value::Path,
    "The CSV file: rows of a time, in seconds since the first release and rising, and a value. It is read once, before the start. A \
     header, empty lines and lines that begin with `#` are ignored. Before its first time, the value is that of the first row.",
)
.required("name the file with the values")
.rules(CSV);
const TIME_COLUMN: Key =
    Key::new("time-column", COLUMN_VALUE, "The column of the times: its number, or its name in the header.")
        .default("1")
        .rules(CSV);
const COLUMN: Key =
    Key::new("column", COLUMN_VALUE, "The column of the values: its number, or its name in the header.")
        .default("2")
        .rules(CSV);
const BETWEEN_ROWS: Key = Key::new(
    "between",
    Value::Choice(&words(&BETWEEN)),
    "The value between two rows: that of the earlier one, or on the straight line between both.",
)
.default("\"hold\"")
.rules(CSV);
const END: Key = Key::new(
    "end",
    Value::Choice(&words(&ENDS)),
    "What comes then: the last value stays, or it begins again. A file's round ends with the time of its last row, whose value is then that of \
     the first one.",
)
.default("\"stay\"")
.rules(&[only(&["ramp", "steps", "chirp", "csv"])]);
const UNIT: Key = Key::new("unit", Value::Text, "Unit of the value; empty for a plain number.").default("\"\"");

const RAMP: &[Rule] = &[only(&["ramp"])];
const WAVE: &[Rule] = &[only(&["sine", "chirp"])];
const CHIRP: &[Rule] = &[only(&["chirp"])];
const CSV: &[Rule] = &[only(&["csv"])];
const COLUMN_VALUE: Value = Value::NumberOrName { min: 1, max: 1_000 };

const fn only(shapes: &'static [&'static str]) -> Rule {
    Rule::when("shape", shapes)
}

const STEP_KEYS: &[Key] = &[
    Key::new("level", Value::Number, "The value.").required("write the value"),
    Key::new("lasting", Value::DURATION, "How long until the next one, or until the end.")
        .required("say how long it lasts, such as \"10s\""),
];

const KEYS: &[Key] = &[
    SHAPE,
    LEVEL,
    FROM,
    TO,
    DURATION,
    STEP,
    OFFSET,
    AMPLITUDE,
    FREQUENCY,
    FROM_FREQUENCY,
    TO_FREQUENCY,
    FILE,
    TIME_COLUMN,
    COLUMN,
    BETWEEN_ROWS,
    END,
    UNIT,
];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    Kind::new(
        "profile",
        "Gives a setpoint over time: a level, a ramp, steps, a wave, or the rows of a file.",
        KEYS,
        parse,
    )
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let (form, unit) = (section.choice(&SHAPE, &SHAPES)?, section.text(&UNIT));
    let ends = section.choice(&END, &ENDS);
    let preview = |unit: &str| Preview { columns: Some(columns(unit)), ..Preview::default() };
    if let Form::Csv = form {
        let file = section.path(&FILE);
        let (time, value) = (section.number_or_name(&TIME_COLUMN), section.number_or_name(&COLUMN));
        let interpolates = section.choice(&BETWEEN_ROWS, &BETWEEN)?;
        let (rate, unit, ends, file) = (section.task_rate()?, unit?, ends?, file?);
        let (wanted, source) = (Wanted { time: time?, value: value? }, file.clone());
        let course = move || {
            let wrong = |message| BuildError { key: FILE.name, message };
            let points = csv::read(&file, &wanted).map_err(wrong)?;
            let round =
                ends.then(|| round(&points)).transpose().map_err(|why| wrong(format!("{}: {why}", file.display())))?;
            Ok(Course { shape: Shape::Points { points, interpolates }, round })
        };
        let (look, looked) = (course.clone(), preview(&unit));
        let build = move |_: &mut Site| Ok(Built::from(Profile::new(course()?, rate, unit)).measures_nothing());
        return Some(
            Blueprint::new(build).looking(move |_| look().map(|_| looked)).computing().reading(FILE.name, source),
        );
    }
    let course = course(section, form, ends?)?;
    let (rate, unit) = (section.task_rate()?, unit?);
    let preview = preview(&unit);
    let build = move |_: &mut Site| Ok(Built::from(Profile::new(course, rate, unit)).measures_nothing());
    Some(Blueprint::new(build).looking(move |_| Ok(preview)).computing())
}

/// The length of one round of a table.
fn round(points: &Points) -> Result<Span, &'static str> {
    match points.last() {
        Some((end, _)) if *end > 0 => Ok(Span::from_nanos(*end)),
        _ => Err("it cannot be repeated, since the time of its last row is 0"),
    }
}

/// A course that needs no file.
fn course(section: &mut Section<'_>, form: Form, repeats: bool) -> Option<Course> {
    let stays = |shape| Some(Course { shape, round: None });
    match form {
        Form::Constant => stays(Shape::Constant(section.number(&LEVEL)?)),
        Form::Ramp => {
            let (from, to, duration) = (section.number(&FROM), section.number(&TO), section.duration(&DURATION));
            let duration = duration?;
            let shape = Shape::Ramp { from: from?, to: to?, duration };
            Some(Course { shape, round: repeats.then_some(duration) })
        }
        Form::Steps => steps(section, repeats),
        Form::Sine => {
            let (wave, frequency) = (wave(section), frequency(section, &FREQUENCY));
            stays(Shape::Sine { wave: wave?, frequency: frequency? })
        }
        Form::Chirp => {
            let (wave, duration) = (wave(section), section.duration(&DURATION));
            let (from, to) = (frequency(section, &FROM_FREQUENCY), frequency(section, &TO_FREQUENCY));
            let duration = duration?;
            let shape = Shape::Chirp { wave: wave?, from: from?, to: to?, duration };
            Some(Course { shape, round: repeats.then_some(duration) })
        }
        Form::Csv => None, // it needs a file
    }
}

fn wave(section: &mut Section<'_>) -> Option<Wave> {
    let (offset, amplitude) = (section.number(&OFFSET), section.number(&AMPLITUDE));
    Some(Wave { offset: offset?, amplitude: amplitude? })
}

/// A frequency that the task's ticks can represent.
fn frequency(section: &mut Section<'_>, key: &Key) -> Option<Rate> {
    let frequency = section.rate(key)?;
    let rate = section.task_rate()?;
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    if 2 * wide(frequency.num(), rate.den()) >= wide(rate.num(), frequency.den()) {
        section.problem(key, "must be below half the rate of the task: a faster wave is not to be seen at its ticks");
    }
    Some(frequency)
}

fn steps(section: &mut Section<'_>, repeats: bool) -> Option<Course> {
    let tables = section.tables(&STEP);
    let (count, mut end) = (tables.len(), Span::ZERO);
    let mut points = Vec::with_capacity(count);
    for mut table in tables {
        let (level, lasting) = (table.number(&STEP_KEYS[0]), table.duration(&STEP_KEYS[1]));
        if let (Some(level), Some(lasting)) = (level, lasting) {
            points.push((end.nanos(), level));
            end += lasting;
            if end == Span::MAX {
                table.problem(&STEP_KEYS[1], "all levels together must last at most 292 years");
            }
        }
        section.absorb(table);
    }
    let points: Points = (count > 0 && points.len() == count).then(|| points.into())?;
    Some(Course { shape: Shape::Points { points, interpolates: false }, round: repeats.then_some(end) })
}
