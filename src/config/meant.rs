//! What was probably meant by a wrong key or value: the help text of a problem. Pure.

use super::key::{Key, Value};
use super::keys::{KIND, PERIOD, RATE, TASK_KEYS, WORKER_KEYS};
use super::value;
use toml::de::DeValue;

/// Other programs' names for our keys.
const OTHER_WORDS: &[(&str, &[&str])] = &[
    ("rate", &["frequency", "freq", "hz", "hertz", "fps", "ticks-per-second"]),
    ("period", &["interval", "cycle", "cycle-time", "every", "sleep"]),
    ("kind", &["type", "driver", "plugin"]),
    ("worker", &["thread"]),
    ("cpu", &["core", "affinity", "cpu-affinity"]),
    ("policy", &["sched", "scheduler", "scheduling", "sched-policy"]),
    ("priority", &["prio", "nice", "rtprio", "rt-priority", "sched-priority"]),
    ("record", &["log", "log-file", "csv", "save"]),
];

/// Units as other programs write them, in lower case.
const RATE_UNITS: &[(&str, &[&str])] = &[
    ("Hz", &["hz", "hertz", "fps", "sps", "/s", "1/s", "per second", "ticks", "ticks/s", "times per second"]),
    ("kHz", &["khz", "kilohertz", "ksps", "k"]),
    ("MHz", &["mhz", "megahertz", "msps"]),
];
const DURATION_UNITS: &[(&str, &[&str])] = &[
    ("ns", &["ns", "nsec", "nsecs", "nanosecond", "nanoseconds"]),
    ("us", &["us", "usec", "usecs", "microsecond", "microseconds", "µs"]),
    ("ms", &["ms", "msec", "msecs", "millisecond", "milliseconds"]),
    ("s", &["s", "sec", "secs", "second", "seconds"]),
    ("min", &["min", "mins", "minute", "minutes"]),
    ("h", &["h", "hr", "hrs", "hour", "hours"]),
];

/// The key in `known` that `found` was probably meant to be.
pub(super) fn key<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    let known = || known.iter().copied();
    known().find(|name| other_word(found) == Some(name)).or_else(|| suggestion(found, known()))
}

/// Where the key `found` belongs, if it is not a key of table `path`: in another table, or it is a task itself.
pub(super) fn elsewhere(path: &str, found: &str, value: &DeValue<'_>) -> Option<String> {
    let named = |keys: &'static [Key]| keys.iter().map(|key| key.name);
    let name =
        other_word(found).or_else(|| suggestion(found, named(WORKER_KEYS).chain(named(TASK_KEYS)))).unwrap_or(found);
    let is_of = |keys: &'static [Key]| named(keys).any(|key| key == name);
    match path.split_once('.') {
        Some(("task", task)) if !task.contains('.') && is_of(WORKER_KEYS) => Some(format!(
            "`{name}` is a key of the worker that runs the task; write it under [worker.NAME], such as [worker.main]"
        )),
        Some(("worker", worker)) if !worker.contains('.') && is_of(TASK_KEYS) => {
            Some(format!("`{name}` is a key of tasks; write it under [task.NAME]"))
        }
        None if value.as_table().is_some_and(|table| table.contains_key(KIND.name)) => {
            Some(format!("did you mean [task.{found}]?"))
        }
        None if is_of(TASK_KEYS) => Some(format!("write [task.NAME] above it: `{name}` is a key of tasks")),
        None if is_of(WORKER_KEYS) => Some(format!("write [worker.NAME] above it: `{name}` is a key of workers")),
        _ => None,
    }
}

fn other_word(found: &str) -> Option<&'static str> {
    let found = found.to_lowercase().replace('_', "-");
    OTHER_WORDS.iter().find(|(_, words)| words.contains(&found.as_str())).map(|(key, _)| *key)
}

/// What to write in place of the value `found`, shown in the file as `text`. Suggests only `accepted` values, as TOML.
pub(super) fn value(
    key: &Key,
    found: &DeValue<'_>,
    text: &str,
    accepted: &dyn Fn(&DeValue<'_>) -> bool,
) -> Option<String> {
    let name = key.name;
    let accepted = |better: &str| DeValue::parse(better).is_ok_and(|better| accepted(better.get_ref()));
    let write = |how, better: String| accepted(&better).then(|| format!("write {how}: {name} = {better}"));
    match (key.value, found) {
        _ if text.ends_with('…') => None, // it is truncated
        (Value::Rate | Value::Hertz, DeValue::String(found)) => rate(key, found.trim(), accepted),
        (Value::Duration { .. } | Value::Durations | Value::Spin, DeValue::String(found)) => {
            duration(key, found.trim(), accepted)
        }
        (Value::Cpus, DeValue::Integer(_))
        | (Value::NumbersOrNames { .. }, DeValue::Integer(_) | DeValue::String(_))
        | (Value::Texts, DeValue::String(_)) => write("a list", format!("[{text}]")),
        (Value::Command, DeValue::String(found)) => {
            let words: Vec<String> = found.split_whitespace().map(|word| format!("{word:?}")).collect();
            write("a list", format!("[{}]", words.join(", ")))
        }
        (Value::Bytes { .. }, DeValue::Integer(_)) => write("a list of lists", format!("[[{text}]]")),
        (Value::Bytes { .. }, DeValue::Array(_)) => write("a list of lists", format!("[{text}]")),
        (Value::Cpu, DeValue::Array(_)) => Some(format!("for a list of CPUs write cpus = {text}")),
        (Value::Table(_) | Value::Tables(_) | Value::Any, _) => None,
        (_, DeValue::Array(list)) if list.len() == 1 => {
            write("it without the brackets", text.trim_matches(['[', ']', ' ']).to_owned())
        }
        (_, DeValue::String(found)) => write("it without the quotes", found.trim().to_owned()),
        _ => None,
    }
}

fn rate(key: &Key, found: &str, accepted: impl Fn(&str) -> bool) -> Option<String> {
    let (number, unit) = split(found);
    if key.name == RATE.name && value::duration_text(found).is_ok() {
        return Some(format!("that is a length of time; write period = \"{found}\" in place of rate"));
    }
    let rate = format!("\"{number} {}\"", meant(unit, RATE_UNITS)?);
    if unit == "mHz" && number.parse::<u32>().is_ok() {
        return Some(format!("the m of mHz is a thousandth, and a rate has no such unit; write \"{number}/1000 Hz\""));
    }
    accepted(&rate).then(|| format!("did you mean {rate}?"))
}

fn duration(key: &Key, found: &str, accepted: impl Fn(&str) -> bool) -> Option<String> {
    let (number, unit) = split(found);
    if key.name == PERIOD.name && value::rate_text(found).is_ok() && !unit.is_empty() {
        return Some(format!("that is a rate; write rate = \"{found}\" in place of period"));
    }
    let ours = meant(unit, DURATION_UNITS)?;
    let duration = format!("\"{number}{ours}\"");
    (unit != ours && accepted(&duration)).then(|| format!("did you mean {duration}?"))
}

/// Splits a text into a number and the unit after it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // A fraction of whole numbers counts as a number too.
    let rest = &text[end..];
    let fraction = rest
        .strip_prefix('/')
        .map_or(0, |rest| 1 + rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len());
    let end = if fraction > 1 { end + fraction } else { end };
    (&text[..end], text[end..].trim())
}

fn meant(unit: &str, units: &[(&'static str, &[&str])]) -> Option<&'static str> {
    let unit = unit.to_lowercase();
    units.iter().find(|(_, words)| words.contains(&unit.as_str())).map(|(unit, _)| *unit)
}

/// The word in `known` that `found` was probably meant to be.
pub(crate) fn suggestion<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase().replace('_', "-");
    // One slip per three letters; beyond that, a suggestion is a guess.
    let reach = (found.chars().count() / 3).max(1);
    let distance = |name: &str| match name.starts_with(&found) && found.len() >= 3 {
        true => 1, // an abbreviation
        false => strsim::damerau_levenshtein(&found, &name.to_lowercase()),
    };
    let nearest = known.into_iter().map(|name| (distance(name), name)).min_by_key(|(distance, _)| *distance)?;
    (nearest.0 <= reach).then_some(nearest.1)
}

/// The same, as help text with the word in quotes.
pub(super) fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    suggestion(found, known).map(|near| format!("did you mean \"{near}\"?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let near = |found| suggestion(found, WORKER_KEYS.iter().chain(TASK_KEYS).map(|key| key.name));
        assert_eq!(near("rat"), Some("rate"));
        assert_eq!(near("max_catch_up"), Some("max-catch-up"));
        assert_eq!(near("prio"), Some("priority"));
        assert_eq!(near("Worker"), Some("worker"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(""), None);
    }
}
