//! Describes keys, values and rules in words: for the manual page, the reference tables, the schema and the errors. Pure.

use super::key::{Absent, Key, Needs, Rule, Value};
use super::value::{written, written_size};
use crate::time::Span;

impl Key {
    /// What the key does, and which keys it excludes and needs.
    pub(crate) fn text(&self) -> String {
        let (words, whole): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(|rule| rule.word.is_some());
        let (refused, needed): (Vec<&Rule>, Vec<&Rule>) = whole.into_iter().partition(|rule| rule.is_refusal());
        let needed: Vec<_> = needed.into_iter().map(|rule| or(rule.others().into_iter())).collect();
        let excluded = self.excludes.iter().map(|key| quoted(key));
        let refused: Vec<_> = excluded.chain(refused.into_iter().flat_map(Rule::others)).collect();
        let (only, not) = (needed.join(" and "), or(refused.into_iter()));
        let whole = match (only.as_str(), not.as_str()) {
            ("", "") => None,
            (only, "") => Some(format!("Only with {only}.")),
            ("", not) => Some(format!("Not with {not}.")),
            (only, not) => Some(format!("Only with {only}, and not with {not}.")),
        };
        let words = words.into_iter().map(|rule| rule.sentence(self.name));
        let all: Vec<_> = [self.about.to_owned()].into_iter().chain(whole).chain(words).collect();
        all.join(" ").trim().to_owned()
    }

    /// What the key does, then `gap`, then its default or that it is required.
    pub(crate) fn text_and_default(&self, gap: &str) -> String {
        let default = self.default_text();
        match (self.text(), &self.absent) {
            (text, Absent::Nothing) => text,
            (text, Absent::Refused { .. }) => format!("{text}{gap}{}.", default.replacen('r', "R", 1)),
            (text, _) => format!("{text}{gap}Default: {default}."),
        }
    }

    /// What applies without the key, for people: `"5ms"`, `required`, `none`.
    pub(crate) fn default_text(&self) -> String {
        match self.absent {
            Absent::Nothing => "none".to_owned(),
            Absent::Value(toml) => format!("`{toml}`"),
            Absent::Words(words) => words.to_owned(),
            Absent::Refused { unless: &[], .. } => "required".to_owned(),
            Absent::Refused { unless, .. } => {
                format!("required without {}", or(unless.iter().map(|key| quoted(key))))
            }
        }
    }
}

impl Value {
    /// What the value looks like in a file, for people.
    pub(crate) fn shape(&self) -> String {
        let range = |min: i64, max: i64| match max {
            i64::MAX => format!("integer from {min}"),
            _ => format!("integer, {min} to {max}"),
        };
        match *self {
            Self::Duration { min: Span::ZERO, max: Span::MAX } => "duration, or zero".into(),
            Self::Duration { min, max: Span::MAX } if min.nanos() == 1 => "duration".into(),
            Self::Duration { min, max: Span::MAX } => format!("duration from {}", written(min)),
            Self::Duration { min, max } if min.nanos() <= 1 => format!("duration up to {}", written(max)),
            Self::Duration { min, max } => format!("duration, {} to {}", written(min), written(max)),
            Self::Durations => "duration, or list of durations; zero is allowed".into(),
            Self::DurationOrOff => "duration, or `\"off\"`".into(),
            Self::Rate => "rate".into(),
            Self::Hertz => "rate in whole hertz".into(),
            Self::Integer { min, max } => range(min, max),
            Self::Integers { min, max, most } => format!("{}; or list of 1 to {most}", range(min, max)),
            Self::NumberOrName { min, max } => format!("{}; or text", range(min, max)),
            Self::NumberOr(words) => {
                "number, ".to_owned() + &words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
            }
            Self::NumbersOrNames { most, .. } => format!("list of 1 to {most} integers and texts"),
            Self::Number => "number".into(),
            Self::Factor => "number, not zero".into(),
            Self::Positive => "number above zero".into(),
            Self::Input => "number, or `\"TASK.VALUE\"`".into(),
            Self::Inputs => "table of numbers and `\"TASK.VALUE\"`".into(),
            Self::Range => "`[LOW, HIGH]`".into(),
            Self::Ranges => "`[LOW, HIGH]`, or table of them by value".into(),
            Self::DurationsByValue => "duration, or table of them by value".into(),
            Self::Text => "text".into(),
            Self::Name | Self::ValueName => "text, not empty".into(),
            Self::Texts => "list of texts".into(),
            Self::Command => "list of texts: a program and its arguments".into(),
            Self::Format { like, .. } => format!("`\"{like}\"`"),
            Self::Path => "path".into(),
            Self::PathEnding(endings) => {
                "path ending in ".to_owned() + &or(endings.iter().map(|end| format!("`.{end}`")))
            }
            Self::FileName => "name of a file".into(),
            Self::Bytes { most } => format!("list of lists of 1 to {most} bytes"),
            Self::Percent { zero: false, max } => format!("percent, above 0 and up to {max}"),
            Self::Percent { zero: true, max } => format!("percent, from 0 to {max}"),
            Self::Size { min } => format!("size from {}", written_size(min)),
            Self::Bool => "`true` or `false`".into(),
            Self::Choice(words) => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
            Self::Cpu => "number of a CPU".into(),
            Self::Cpus => "list of CPUs".into(),
            Self::Spin => "`\"off\"`, `\"auto\"` or duration".into(),
            Self::SpinTarget => "`p50` to `p99.9`, `<` and a duration".into(),
            Self::Kind => "name of a kind".into(),
            Self::Table(_) => "table".into(),
            Self::Tables(_) => "list of tables".into(),
            Self::Any => "value".into(),
        }
    }
}

impl Rule {
    /// What is wrong if the rule is broken.
    pub(super) fn refusal(&self) -> String {
        if let Some(message) = self.message {
            return message.to_owned();
        }
        let quoted = |words: &[&str]| or(words.iter().map(|word| format!("\"{word}\"")));
        let names = |keys: &[&str]| or(keys.iter().map(|key| key.trim_start_matches("../").to_owned()));
        let why = match self.needs {
            Needs::With(keys) => format!("without {}", names(keys)),
            Needs::Without(keys) => format!("beside {}", names(keys)),
            Needs::Is(key, [word]) => format!("unless {key} = \"{word}\""),
            Needs::Is(key, words) => format!("unless {key} is {}", quoted(words)),
            Needs::IsNot(key, words) => format!("with {key} = {}", quoted(words)),
            Needs::On(key) => format!("without {key} = true"),
            Needs::Off(key) => format!("with {key} = true"),
        };
        format!("has no effect {why}; {}", self.advice)
    }

    /// The rule as a sentence, for a rule about one word of the key called `name`.
    fn sentence(&self, name: &str) -> String {
        let only = if self.is_refusal() { "not" } else { "only" };
        let word = self.word.unwrap_or_default();
        format!("`{name} = \"{word}\"` {only} with {}.", or(self.others().into_iter()))
    }

    /// Whether the rule excludes what it names, instead of needing it.
    const fn is_refusal(&self) -> bool {
        matches!(self.needs, Needs::Without(_) | Needs::IsNot(..) | Needs::Off(_))
    }

    /// The keys, or values of a key, of which the rule needs one or excludes all.
    fn others(&self) -> Vec<String> {
        match self.needs {
            Needs::With(keys) | Needs::Without(keys) => keys.iter().map(|key| quoted(key)).collect(),
            Needs::Is(key, words) | Needs::IsNot(key, words) => {
                let first = words.iter().take(1).map(|word| format!("`{key} = \"{word}\"`"));
                first.chain(words.iter().skip(1).map(|word| format!("`\"{word}\"`"))).collect()
            }
            Needs::On(key) | Needs::Off(key) => vec![format!("`{key} = true`")],
        }
    }
}

/// `` `a` ``, or ``the task's `a` `` for a key of the enclosing table.
fn quoted(key: &str) -> String {
    match key.strip_prefix("../") {
        Some(key) => format!("the task's `{key}`"),
        None => format!("`{key}`"),
    }
}

/// `a, b or c`.
pub(super) fn or(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<_> = words.collect();
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
}
