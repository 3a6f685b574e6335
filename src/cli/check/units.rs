//! The units of values along a configuration's chains, and where two known units do not match. Pure.
//!
//! A task that writes a unit defines it. Kinds that only reshape a value pass on the unit of their input. For all other kinds the unit is
//! unknown, and unknown units cause no warning.

use crate::cli::graph::{Graph, Link};
use crate::config::{Problems, TaskConfig};
use crate::task::Column;
use std::collections::BTreeMap;

/// By kind: the value that has the same unit as `input`.
const CARRIED: [(&str, &str); 3] = [("filter", "out"), ("output", "applied"), ("pid", "error")];

/// Keys of one task whose values share a unit.
const TOGETHER: [&[&str]; 2] = [&["input", "setpoint"], &["feed-forward", "track", "manual"]];

/// By kind: the value that has the unit of the second group of [`TOGETHER`].
const PUT_OUT: (&str, &str) = ("pid", "out");

/// A known unit.
#[derive(Clone, Debug, PartialEq)]
struct Unit {
    text: String,
    from: String, // the value that defines it
}

/// The units of the values that tasks produce.
struct Units<'a> {
    columns: &'a BTreeMap<String, Vec<Column>>,
    carried: BTreeMap<usize, Unit>, // by task: the unit of the value that follows its input
}

impl Units<'_> {
    /// The unit of a link's value.
    fn of(&self, graph: &Graph<'_>, link: &Link<'_>) -> Option<Unit> {
        let giver = &graph.config.tasks[link.from];
        let own = self.own(giver, &link.name.value);
        own.or_else(|| self.carried.get(&link.from).filter(|_| carries(giver) == Some(&*link.name.value)).cloned())
    }

    fn own(&self, task: &TaskConfig, value: &str) -> Option<Unit> {
        let column = self.columns.get(&task.name)?.iter().find(|column| column.name == value)?;
        let unit = Unit { text: column.unit.clone(), from: format!("{}.{value}", task.name) };
        (!unit.text.is_empty()).then_some(unit)
    }
}

/// The value of a task that has the unit of its input.
fn carries(task: &TaskConfig) -> Option<&'static str> {
    CARRIED.iter().find(|(kind, _)| *kind == task.kind).map(|(_, value)| *value)
}

/// Warns where two known units differ although one task compares the values or outputs them alike.
pub(super) fn doubts(graph: &Graph<'_>, columns: &BTreeMap<String, Vec<Column>>) -> Vec<Problems> {
    let mut units = Units { columns, carried: BTreeMap::new() };
    // Each pass carries units one task further. There are at most as many steps as tasks, and most chains are short.
    for _ in 0..graph.config.tasks.len() {
        let before = units.carried.len();
        for link in graph.links.iter().filter(|link| link.taken.key == "input") {
            let taker = &graph.config.tasks[link.to];
            if carries(taker).is_some()
                && let Some(unit) = units.of(graph, link)
            {
                let text = changed(&unit.text, taker.section.written("type").unwrap_or_default());
                units.carried.insert(link.to, Unit { text, ..unit });
            }
        }
        if units.carried.len() == before {
            break;
        }
    }
    let mut doubts = Vec::new();
    for (index, task) in graph.config.tasks.iter().enumerate() {
        let known = |keys: &[&str]| -> Vec<(&Link<'_>, Unit)> {
            let links = keys.iter().filter_map(|key| graph.taken_by(index).find(|link| link.taken.key == *key));
            links.filter_map(|link| Some((link, units.of(graph, link)?))).collect()
        };
        for (at, keys) in TOGETHER.into_iter().enumerate() {
            let known = known(keys);
            let (kind, value) = PUT_OUT;
            let out = units.own(task, value).filter(|_| at == 1 && task.kind == kind);
            let first = match (&out, known.first()) {
                (Some(out), _) => Some((out, format!("the output, {}, is in {}", out.from, out.text))),
                (None, Some((link, unit))) => Some((unit, format!("{}, {}", link.taken.key, is_in(link, unit)))),
                (None, None) => None,
            };
            let Some((wanted, said)) = first else { continue };
            for (link, unit) in known.iter().filter(|(_, unit)| unit.text != wanted.text) {
                let text = format!("{}, and {said}", unit_of(link, unit));
                doubts.push(Problems::at_taken(&task.section, link.taken, text));
            }
        }
    }
    doubts
}

fn is_in(link: &Link<'_>, unit: &Unit) -> String {
    format!("{}, {}", link.name.full(), unit_of(link, unit))
}

/// Describes the unit of a link's value, and which value defined it if a task in between passed it on.
fn unit_of(link: &Link<'_>, Unit { text, from }: &Unit) -> String {
    match from.split_once('.') == Some((&link.name.task, &link.name.value)) {
        true => format!("is in {text}"),
        false => format!("is in {text} (by the unit of {from})"),
    }
}

/// The unit of a filter's output. A derivative appends `/s`, an integral appends `·s`; each cancels the other.
fn changed(unit: &str, filter: &str) -> String {
    let undone = |end: &str, rest: &str| unit.strip_suffix(end).map(|unit| unit.to_owned() + rest);
    match filter {
        "derivative" => undone("·s", "").or_else(|| undone("/s", "/s²")).unwrap_or_else(|| format!("{unit}/s")),
        "integral" => undone("/s", "").or_else(|| undone("/s²", "/s")).unwrap_or_else(|| format!("{unit}·s")),
        _ => unit.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Facts, Kinds};

    /// The warnings about `control` with these keys, beside filters of each kind.
    fn told(keys: &str, [oven, target]: [&str; 2]) -> Vec<String> {
        let filter = |name: &str, input: &str, keys: &str| {
            format!("[task.{name}]\nkind = \"filter\"\nrate = 100\ninput = \"{input}\"\n{keys}\n")
        };
        let sensor = |name: &str| format!("[task.{name}]\nkind = \"sensor\"\nrate = 100\npath = \"/x\"\n");
        let text = format!("[task.control]\nkind = \"pid\"\nrate = 100\nki = 1\n{keys}\n")
            + &filter("twice", "once.out", "type = \"median\"\nwindow = 3")
            + &filter("once", "oven.temp1", "type = \"low-pass\"\ncutoff = 1")
            + &filter("slope", "oven.temp1", "type = \"derivative\"")
            + &filter("sum", "slope.out", "type = \"integral\"")
            + "[task.sum-of]\nkind = \"expr\"\nrate = 100\nexpression = \"a\"\ninputs = { a = \"oven.temp1\" }\n"
            + "[task.fan]\nkind = \"output\"\nrate = 100\ninput = \"target.temp1\"\npath = \"/y\"\nsafe = 0\n"
            + &sensor("oven")
            + &sensor("target");
        let facts = Facts { online_cpus: vec![0, 1], cpu_set_size: 8 };
        let config = Config::parse(&text, "test.toml", &Kinds::builtin(), &facts);
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        let column = |name: &str, unit: &str| vec![Column { name: name.into(), unit: unit.into() }];
        let unit = if keys.contains("unit = \"V\"") { "V" } else { "" };
        let columns = [("oven", "temp1", oven), ("target", "temp1", target), ("control", "out", unit)];
        let columns = columns.into_iter().map(|(task, name, unit)| (task.to_owned(), column(name, unit))).collect();
        let doubts = Problems::joined(doubts(&Graph::of(&config), &columns));
        doubts.iter().flat_map(Problems::iter).map(|doubt| doubt.message.clone()).collect()
    }

    #[test]
    fn units_go_along_the_chain_and_those_that_do_not_fit_are_told() {
        let direct = "input = \"oven.temp1\"\nsetpoint = \"target.temp1\"";
        let said = "task.control: setpoint = \"target.temp1\"; is in K, and input, oven.temp1, is in °C";
        assert_eq!(told(direct, ["°C", "K"]), [said]);
        for units in [["°C", "°C"], ["", "K"], ["°C", ""]] {
            assert!(told(direct, units).is_empty(), "{units:?}");
        }
        let filtered = "input = \"twice.out\"\nsetpoint = \"target.temp1\"";
        let said = "task.control: setpoint = \"target.temp1\"; is in K, and input, twice.out, is in °C (by the unit of oven.temp1)";
        assert_eq!(told(filtered, ["°C", "K"]), [said]);
        assert!(told(filtered, ["K", "K"]).is_empty());
        let slope = "input = \"slope.out\"\nsetpoint = \"target.temp1\"";
        let said = "task.control: setpoint = \"target.temp1\"; is in m, and input, slope.out, is in m/s (by the unit of oven.temp1)";
        assert_eq!(told(slope, ["m", "m"]), [said]);
        assert!(told(slope, ["m", "m/s"]).is_empty());
        assert!(told("input = \"sum.out\"\nsetpoint = \"target.temp1\"", ["m", "m"]).is_empty());
        assert!(told("input = \"sum-of.out\"\nsetpoint = \"target.temp1\"", ["°C", "K"]).is_empty(), "not known");
    }

    #[test]
    fn what_was_put_out_is_in_the_unit_of_the_output() {
        let track = "input = 1\nsetpoint = 1\nunit = \"V\"\ntrack = \"fan.applied\"";
        let said = "task.control: track = \"fan.applied\"; is in % (by the unit of target.temp1), and the output, control.out, is in V";
        assert_eq!(told(track, ["", "%"]), [said]);
        assert!(told(track, ["", "V"]).is_empty());
        assert!(told(&track.replace("unit = \"V\"", ""), ["", "%"]).is_empty());
        let both = "input = 1\nsetpoint = 1\nfeed-forward = \"oven.temp1\"\ntrack = \"fan.applied\"";
        let said = "task.control: track = \"fan.applied\"; is in % (by the unit of target.temp1), and feed-forward, oven.temp1, is in V";
        assert_eq!(told(both, ["V", "%"]), [said]);
    }

    #[test]
    fn a_slope_and_a_sum_undo_each_other() {
        let of = |unit: &str, filter: &str| changed(unit, filter);
        assert_eq!([of("m", "derivative"), of("m/s", "derivative"), of("J·s", "derivative")], ["m/s", "m/s²", "J"]);
        assert_eq!([of("W", "integral"), of("m/s²", "integral"), of("m/s", "integral")], ["W·s", "m/s", "m"]);
        assert_eq!(of("°C", "median"), "°C");
    }
}
