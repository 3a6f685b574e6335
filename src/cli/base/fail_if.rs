//! `--fail-if RULE`: makes a run fail if the rule's condition holds for a number in its summary. The rule then counts as broken.
//!
//! A rule names the number by its path in the JSON summary, without `_ns`. So every number there has a name, and no list is kept twice.
//! Pure: text and summary in, sentences out.

use super::Stop;
use crate::config::{Config, duration_text, suggestion};
use crate::metrics::Cause;
use crate::snapshot::{Counts, RecordedSummary, RecordsSummary, Summary, TaskSummary, ValueSummary};
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The rules of a command line.
#[derive(Debug, Args)]
pub(in crate::cli) struct FailIf {
    /// Exit with 1 if this holds at the end, such as 'control.missed > 0' or 'any.lateness.p99_9 > 80us'; repeatable
    #[arg(long = "fail-if", value_name = "RULE", value_parser = Rule::parse)]
    rules: Vec<Rule>,
}

/// `SUBJECT.NUMBER COMPARISON LIMIT`
#[derive(Clone, Debug)]
struct Rule {
    text: String,
    subject: Subject,
    number: Number,
    comparison: &'static str,
    limit: f64, // for a time, in nanoseconds
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Any,
    Task(String),
    Run,
}

/// A number of the summary, or of one task in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Number {
    name: String,      // lateness.p99_9
    keys: Vec<String>, // lateness_ns, p99_9
    is_time: bool,
}

/// Longer ones first, because `>=` contains `>`.
const COMPARISONS: [&str; 6] = [">=", "<=", "==", "!=", ">", "<"];

/// Stand-ins for names in [`numbers_of_task`].
const NAMES: [&str; 2] = ["VALUE", "TASK"];

/// Objects of the summary that leave out names with a count of zero.
const ZERO_LEFT_OUT: [&str; 2] = ["causes", "blockers"];

/// Maximum number of tasks named in one sentence.
const AT_MOST: usize = 3;

impl FailIf {
    /// Checks that the tasks named in the rules exist.
    ///
    /// # Errors
    /// What is wrong with the command line.
    pub(in crate::cli) fn check(&self, config: &Config) -> Result<(), String> {
        self.rules.iter().try_for_each(|rule| rule.check(config).map_err(|error| format!("{}: {error}", rule.option())))
    }

    /// Adds the rules that `summary` breaks to the reasons why it is not well.
    pub(in crate::cli) fn judge(&self, summary: &mut Summary) -> serde_json::Result<()> {
        if self.rules.is_empty() {
            return Ok(()); // converted to JSON values, the numbers of ten thousand tasks take 40 MB
        }
        let numbers = serde_json::to_value(&*summary)?;
        summary.object(
            self.rules.iter().filter_map(|rule| Some(format!("{}: {}", rule.option(), rule.broken(&numbers)?))),
        );
        Ok(())
    }

    /// The rules that these numbers break, and how. `numbers` has the structure of a summary. A missing number breaks its rule.
    ///
    /// # Errors
    /// A rule names a task that does not exist.
    pub(in crate::cli) fn broken_by(&self, numbers: &Value) -> Result<Vec<String>, String> {
        let tasks = numbers["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = || tasks.iter().filter_map(|task| task["task"].as_str());
        for rule in &self.rules {
            if let Subject::Task(name) = &rule.subject
                && !names().any(|known| known == name)
            {
                return Err(format!("{}: {}", rule.option(), unknown("task", name, names())));
            }
        }
        let broken = |rule: &Rule| Some(format!("{}: {}", rule.option(), rule.broken(numbers)?));
        Ok(self.rules.iter().filter_map(broken).collect())
    }

    /// The result of a command that ended early, because of `stop`, without a summary.
    pub(in crate::cli) fn unjudged(&self, stop: Stop) -> Stop {
        match stop {
            Stop::StdoutClosed if !self.rules.is_empty() => {
                Stop::Unwell("stdout was closed before the end, so no rule of --fail-if was judged".into())
            }
            stop => stop,
        }
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, String> {
        let split = COMPARISONS.iter().find_map(|comparison| Some((comparison, text.rsplit_once(comparison)?)));
        let (comparison, (path, limit)) =
            split.filter(|(_, (path, _))| !path.contains(['=', '<', '>'])).ok_or_else(|| {
                let comparisons = COMPARISONS.join(" ");
                format!("write a number, one of {comparisons}, and a limit, such as 'control.missed > 0'")
            })?;
        let (subject, number) = subject_and_number(path.trim())?;
        let limit = number.limit(limit.trim())?;
        Ok(Self { text: text.trim().to_owned(), subject, number, comparison, limit })
    }

    fn check(&self, config: &Config) -> Result<(), String> {
        let names = || config.tasks.iter().map(|task| task.name.as_str());
        let known = |name: &str| match names().any(|known| known == name) {
            true => Ok(()),
            false => Err(unknown("task", name, names())),
        };
        if let Subject::Task(name) = &self.subject {
            known(name)?;
        }
        match &self.number.keys[..] {
            [group, name] if group == "blockers" => known(name),
            [group, _] if group == "recorded" => {
                let recorded = config.tasks.iter().filter(|task| task.record.is_some());
                let mut recorded = recorded.filter(|task| self.subject == Subject::Any || self.subject.is(&task.name));
                recorded.next().map(drop).ok_or_else(|| "nothing is recorded: the section has no `record`".into())
            }
            _ => Ok(()),
        }
    }

    /// How the rule is broken in this summary, or why that cannot be determined. `None`: it is not broken.
    fn broken(&self, summary: &Value) -> Option<String> {
        let Number { name, .. } = &self.number;
        if self.subject == Subject::Run {
            let value = self.number.of(summary)?;
            return self.is_broken_by(value).then(|| format!("{name} is {}", self.number.written(value)));
        }
        let tasks = summary["tasks"].as_array().into_iter().flatten();
        let tasks = tasks.filter_map(|task| Some((task["task"].as_str()?, task)));
        let tasks: Vec<_> = tasks.filter(|(task, _)| self.subject == Subject::Any || self.subject.is(task)).collect();
        if let (Subject::Task(missing), []) = (&self.subject, &tasks[..]) {
            return Some(format!("task {missing} was removed by a reload"));
        }
        let found: Vec<_> = tasks.iter().filter_map(|(task, part)| Some((*task, self.number.of(part)?))).collect();
        if found.is_empty() {
            return Some(format!("cannot be judged: this run has no {name}{}", self.number.others(&tasks)));
        }
        let broken = found.iter().filter(|(_, value)| self.is_broken_by(*value));
        let broken: Vec<_> =
            broken.map(|(task, value)| format!("{task}.{name} is {}", self.number.written(*value))).collect();
        match broken.len().checked_sub(AT_MOST) {
            _ if broken.is_empty() => None,
            Some(more @ 1..) => Some(format!("{}, and {more} more", broken[..AT_MOST].join(", "))),
            _ => Some(broken.join(", ")),
        }
    }

    fn is_broken_by(&self, value: f64) -> bool {
        let order = value.total_cmp(&self.limit);
        match self.comparison {
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            "==" => order.is_eq(),
            _ => order.is_ne(),
        }
    }

    fn option(&self) -> String {
        format!("--fail-if '{}'", self.text)
    }
}

impl Subject {
    fn is(&self, name: &str) -> bool {
        matches!(self, Self::Task(task) if task == name)
    }
}

impl Number {
    /// This number in `part`, the summary of a task or of the run. `None`: nothing was measured.
    fn of(&self, part: &Value) -> Option<f64> {
        let mut value = part;
        for key in &self.keys {
            let nothing = value["count"] == 0 && key != "count";
            value = value.get(key).filter(|_| !nothing).unwrap_or(&Value::Null);
        }
        // If the whole group is missing, the source does not report it.
        let left_out =
            || (part[&self.keys[0]].is_object() && ZERO_LEFT_OUT.contains(&self.keys[0].as_str())).then_some(0.0);
        value.as_f64().or_else(left_out)
    }

    /// Parses a rule's limit for this number.
    fn limit(&self, text: &str) -> Result<f64, String> {
        let Self { name, is_time, .. } = self;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        match (is_time, number) {
            (true, Some(0.0)) => Ok(0.0),
            (true, _) => {
                let (sign, span) = text.strip_prefix('-').map_or((1.0, text), |span| (-1.0, span));
                let span = duration_text(span).map_err(|error| format!("{name} is a time: {error}"))?;
                Ok(sign * span.nanos() as f64)
            }
            (false, number) => number.ok_or_else(|| format!("{name} is a plain number, which \"{text}\" is not")),
        }
    }

    /// Formats a value of this number exactly.
    fn written(&self, value: f64) -> String {
        let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
        let fits = units.into_iter().find(|(_, scale)| value.abs() >= *scale).filter(|_| self.is_time);
        fits.map_or_else(|| value.to_string(), |(unit, scale)| format!("{}{unit}", value / scale))
    }

    /// Lists the values these tasks do have, for an error about a missing one.
    fn others(&self, tasks: &[(&str, &Value)]) -> String {
        if self.keys[0] != "values" {
            return String::new();
        }
        let names = tasks.iter().filter_map(|(_, part)| part["values"].as_object()).flat_map(serde_json::Map::keys);
        let names: Vec<_> = names.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        if names.is_empty() { String::new() } else { format!("; values: {}", names.join(", ")) }
    }
}

fn subject_and_number(path: &str) -> Result<(Subject, Number), String> {
    let run = numbers(&json!({"records": RecordsSummary::default()}));
    if let Some(number) = run.into_iter().find(|number| number.name == path) {
        return Ok((Subject::Run, number));
    }
    let numbers = numbers_of_task();
    let named = |name: &str| numbers.iter().find_map(|number| number.named(name));
    let Some((subject, name)) = path.split_once('.').filter(|_| named(path).is_none()) else {
        let name = if named(path).is_some() { path } else { "missed" };
        return Err(format!("\"{path}\" names no task: write TASK.{name}, any.{name}, or records.dropped"));
    };
    let number =
        named(name).ok_or_else(|| unknown("number", name, numbers.iter().map(|number| number.name.as_str())))?;
    Ok((if subject == "any" { Subject::Any } else { Subject::Task(subject.to_owned()) }, number))
}

/// The numbers in a task's summary. Where a path contains a user-chosen name, one of [`NAMES`] stands for it.
fn numbers_of_task() -> Vec<Number> {
    let value = ValueSummary { last: Some(0.0), min: Some(0.0), max: Some(0.0), ..ValueSummary::default() };
    let task = TaskSummary {
        counts: Counts { pending: Some(0), ..Counts::default() },
        latency: Some(Box::default()),
        causes: Cause::ALL.map(|cause| (cause.word().into(), 0)).into(),
        blockers: BTreeMap::from([("TASK".into(), 0)]),
        values: BTreeMap::from([("VALUE".into(), value)]),
        recorded: Some(RecordedSummary::default()),
        ..TaskSummary::default()
    };
    // Serializing this value cannot fail.
    numbers(&serde_json::to_value(task).unwrap_or_default())
}

fn numbers(part: &Value) -> Vec<Number> {
    fn add(part: &Value, keys: &mut Vec<String>, found: &mut Vec<Number>) {
        match part {
            Value::Object(parts) => {
                for (key, part) in parts {
                    keys.push(key.clone());
                    add(part, keys, found);
                    keys.pop();
                }
            }
            Value::Number(_) => {
                let names: Vec<_> = keys.iter().map(|key| key.strip_suffix("_ns").unwrap_or(key)).collect();
                let is_time = keys.iter().any(|key| key.ends_with("_ns")) && names.last() != Some(&"count");
                found.push(Number { name: names.join("."), keys: keys.clone(), is_time });
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    add(part, &mut Vec::new(), &mut found);
    found
}

impl Number {
    /// This number, if `name` refers to it. A stand-in is replaced by the actual name.
    fn named(&self, name: &str) -> Option<Self> {
        let Some(at) = self.keys.iter().position(|key| NAMES.contains(&key.as_str())) else {
            return (self.name == name).then(|| self.clone());
        };
        let (before, after) = self.name.split_once(&self.keys[at])?;
        let inner = name.strip_prefix(before)?.strip_suffix(after).filter(|inner| !inner.is_empty())?;
        let mut number = Self { name: name.to_owned(), ..self.clone() };
        inner.clone_into(&mut number.keys[at]);
        Some(number)
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let known_names = grouped(known.clone());
    match suggestion(name, known) {
        Some(near) => format!("there is no {what} \"{name}\"; did you mean \"{near}\"? Known {what}s: {known_names}"),
        None => format!("there is no {what} \"{name}\"; known {what}s: {known_names}"),
    }
}

/// Joins names, grouping those with the same prefix: `due, run.{max, min}`.
fn grouped<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        let (group, last) = name.rsplit_once('.').unwrap_or(("", name));
        match groups.last_mut() {
            Some((before, names)) if *before == group && !group.is_empty() => names.push(last),
            _ => groups.push((group, vec![last])),
        }
    }
    let written = groups.iter().map(|(group, names)| match &names[..] {
        [name] if group.is_empty() => (*name).to_owned(),
        [name] => format!("{group}.{name}"),
        _ => format!("{group}.{{{}}}", names.join(", ")),
    });
    written.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        let tasks = json!([
            {"task": "a", "skipped": 3, "blockers": {"b": 2}, "run_ns": {"count": 9, "max": 80_001}, "causes": {"blocked": 2}, "values": {"v.1": {"max": 7.5}}},
            {"task": "b", "skipped": 0, "run_ns": {"count": 0, "max": 0}, "causes": {}, "blockers": {}},
        ]);
        json!({"tasks": tasks, "records": {"sent": 9, "dropped": 1}})
    }

    #[test]
    fn a_rule_finds_any_number_and_says_what_it_found() {
        for (rule, broken) in [
            ("a.skipped > 3", None),
            ("a.skipped>=3", Some("a.skipped is 3")),
            ("b.skipped == 0", Some("b.skipped is 0")),
            ("a.skipped != 3", None),
            ("any.skipped < 9", Some("a.skipped is 3, b.skipped is 0")),
            ("any.run.max > 80us", Some("a.run.max is 80.001us")),
            ("any.run.max > 80001 ns", None),
            ("a.run.max > -5us", Some("a.run.max is 80.001us")),
            ("b.run.max > 80us", Some("cannot be judged: this run has no run.max")),
            ("b.run.count <= 0", Some("b.run.count is 0")),
            ("any.causes.blocked >= 2", Some("a.causes.blocked is 2")),
            ("b.causes.blocked > 0", None),
            ("a.blockers.b > 1", Some("a.blockers.b is 2")),
            ("b.blockers.a > 0", None),
            ("a.values.v.1.max > 7", Some("a.values.v.1.max is 7.5")),
            ("a.values.w.max > 7", Some("cannot be judged: this run has no values.w.max; values: v.1")),
            ("c.skipped > 0", Some("task c was removed by a reload")),
            ("records.dropped > 0", Some("records.dropped is 1")),
        ] {
            let judged = Rule::parse(rule).unwrap_or_else(|error| panic!("{rule}: {error}")).broken(&summary());
            assert_eq!(judged.as_deref(), broken, "{rule}");
        }
    }

    #[test]
    fn a_rule_that_cannot_be_meant_says_what_can_be_written() {
        for (rule, error) in [
            ("a.skipped", "write a number, one of"),
            ("a.skipped => 3", "write a number, one of"),
            ("skipped > 3", "names no task: write TASK.skipped, any.skipped, or records.dropped"),
            ("any > 3", "names no task: write TASK.missed"),
            ("a.skiped > 3", "there is no number \"skiped\"; did you mean \"skipped\"? Known numbers: "),
            ("a.colour > 3", "there is no number \"colour\"; known numbers: "),
            ("a.colour > 3", "run.{count, max, mean, min, p50, p90, p99, p99_9, p99_99, sum}"),
            ("a.values.max > 3", "there is no number"),
            ("a.run.max > 80", "run.max is a time: write a unit"),
            ("a.run.max > 80 parsec", "with one of the units"),
            ("a.run.count > 80us", "run.count is a plain number"),
            ("a.skipped > inf", "skipped is a plain number"),
        ] {
            let found = Rule::parse(rule).map(drop).unwrap_err();
            assert!(found.contains(error), "{rule}: {found}");
        }
    }
}
