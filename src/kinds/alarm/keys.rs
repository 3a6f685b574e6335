//! The keys of the kind `alarm`, and how a section becomes an alarm. Pure.

use super::law::{Limits, Settings};
use super::{Watch, columns};
use crate::channels::alarm::Severity;
use crate::config::{Blueprint, Key, Kind, Preview, Rule, Section, Value, words};
use crate::task::Input;
use crate::time::Span;

const fn written(severity: Severity) -> (&'static str, Severity) {
    (severity.word(), severity)
}

const SEVERITIES: [(&str, Severity); 3] =
    [written(Severity::Notice), written(Severity::Warning), written(Severity::Error)];
const DELAY: Value = Value::Duration { min: Span::ZERO, max: Span::MAX };
const LIMIT_KEYS: &[&str] = &["hihi", "high", "low", "lolo"];

const INPUT: Key = Key::new(
    "input",
    Value::Input,
    "The value that is watched. Without a limit it is the condition itself: any number but 0 is an alarm.",
)
.required("name it, such as \"board.temp1\"");
const HIHI: Key = Key::new("hihi", Value::Number, "The alarm is at its upper second level from this value on.");
const HIGH: Key = Key::new("high", Value::Number, "The alarm begins from this value on.");
const LOW: Key = Key::new("low", Value::Number, "The alarm begins from this value down.");
const LOLO: Key = Key::new("lolo", Value::Number, "The alarm is at its lower second level from this value down.");
const HYSTERESIS: Key =
    Key::new("hysteresis", Value::Number, "How far a value has to come back behind its limit for the level to end.")
        .default("0")
        .rules(&[Rule::with(LIMIT_KEYS)]);
const ON_DELAY: Key =
    Key::new("on-delay", DELAY, "For how long the value has to be at a level, or worse, for that level to count.")
        .default("\"0s\"");
const OFF_DELAY: Key =
    Key::new("off-delay", DELAY, "For how long the value has to be no worse than a lower level for that one to count.")
        .default("\"0s\"");
const SEVERITY: Key = Key::new("severity", Value::Choice(&words(&SEVERITIES)), "The level of its entries in the log.")
    .default("\"warning\"");
const LATCH: Key = Key::new(
    "latch",
    Value::Bool,
    "Whether it keeps its highest level until `reset` rises while the value is back, beyond `hysteresis`.",
)
.default("false");
const RESET: Key = Key::new(
    "reset",
    Value::Input,
    "What ends a latched alarm, by rising from 0. While it is bad, stale or missing, it keeps the state that it had last.",
)
.rules(&[Rule::when_on("latch").advice("write latch = true, or remove it")]);

const KEYS: &[Key] = &[INPUT, HIHI, HIGH, LOW, LOLO, HYSTERESIS, ON_DELAY, OFF_DELAY, SEVERITY, LATCH, RESET];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new(
        "alarm",
        "Watches a value, and has the log say when it leaves its range and when it is back.",
        KEYS,
        parse,
    )
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let (input, reset) = (section.input(&INPUT), section.input(&RESET));
    let limits = limits(section);
    let severity = section.choice(&SEVERITY, &SEVERITIES)?;
    let settings = Settings {
        limits: limits?,
        on_delay: section.duration(&ON_DELAY)?.seconds(),
        off_delay: section.duration(&OFF_DELAY)?.seconds(),
        latch: section.boolean(&LATCH)?,
    };
    // The alarm's values stay good when its inputs are not: a missing value is itself an alarm.
    let (input, reset) = (input.map(Input::spared), reset.map(Input::spared));
    let task = section.name().trim_start_matches("task.").to_owned();
    let input = input?;
    let preview = Preview { columns: Some(columns()), ..Preview::default() };
    Some(
        Blueprint::new(move |site| Ok(Watch::new(site, &task, severity, settings, input, reset).built()))
            .looking(move |_| Ok(preview))
            .computing(),
    )
}

/// The limits, checked to be in ascending order.
fn limits(section: &mut Section<'_>) -> Option<Limits> {
    let hysteresis = section.number(&HYSTERESIS)?;
    if hysteresis < 0.0 {
        section.problem(&HYSTERESIS, "must not be negative");
    }
    let found = [&LOLO, &LOW, &HIGH, &HIHI].map(|key| (key, section.number(key)));
    let there: Vec<(&Key, f64)> = found.iter().filter_map(|(key, limit)| Some((*key, (*limit)?))).collect();
    for pair in there.windows(2) {
        let [(lower, low), (upper, high)] = [pair[0], pair[1]];
        if low >= high {
            section.problem(upper, format!("must be above {}, which is {low}", lower.name));
        }
    }
    if there.is_empty() {
        return Some(Limits::Condition);
    }
    let [lolo, low, high, hihi] = found.map(|(_, limit)| limit);
    let (none_below, none_above) = (f64::NEG_INFINITY, f64::INFINITY);
    Some(Limits::Range {
        lolo: lolo.unwrap_or(none_below),
        low: low.unwrap_or(none_below),
        high: high.unwrap_or(none_above),
        hihi: hihi.unwrap_or(none_above),
        hysteresis,
    })
}
