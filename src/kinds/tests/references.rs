//! The kinds `pid` and `filter` tick by tick against the sequences in `tests/support/references`, which `make.py` there makes with scipy and
//! python-control: from the keys of a section to the values of each tick.

use crate::channels::{Input, InputSource, Limits, LinkReceiver, LinkSender, Origin, RowHead, link};
use crate::config::{Config, Facts, Kinds};
use crate::pacing::Rate;
use crate::site::Site;
use crate::task::{Quality, Reason, Task, Tick};
use crate::time::{Instant, Span};

/// How far a value may be from the reference, relative to it where it is above one.
const TOLERANCE: f64 = 1e-12;

/// The references of closed loops have one value in this many ticks.
const EVERY: usize = 60;

/// A task that runs, and what it takes.
struct Bench {
    task: Box<dyn Task>,
    columns: Vec<String>,
    rate: Rate,
    next: u64, // index of the next tick
    sources: Vec<Source>,
}

/// Where one of its inputs comes from.
struct Source {
    name: String,
    sender: LinkSender,
    receiver: LinkReceiver,
}

/// What comes to an input before a tick.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    Value(f64),
    Bad,
    /// No new row.
    Nothing,
}

impl Bench {
    fn new(section: &str) -> Self {
        // The task that it takes from is not built: its rows are sent here.
        let text = format!("[task.s]\nkind = \"load\"\nrate = 1\n[task.t]\n{section}");
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 8 };
        let config = Config::parse(&text, "case.toml", &Kinds::builtin(), &facts)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let mut config = config.tasks.into_iter().find(|task| task.name == "t").unwrap();
        let task = config.blueprint.build(&mut Site::default()).unwrap().task;
        let columns = task.columns().into_iter().map(|column| column.name).collect();
        let source = |input: &Input, name: &str| {
            let (sender, receiver) = link(1, [(0, input)], Limits { max_age: Span::MAX, first: Span::ZERO });
            Source { name: name.to_owned(), sender, receiver }
        };
        let all = config.taken.iter().flat_map(|(taken, _)| [Some(&taken.input), taken.beside.as_ref()]).flatten();
        let value = |input: &Input| match input.source() {
            InputSource::Value(name) => Some(source(input, &name.value)),
            InputSource::Number(_) => None,
        };
        let sources = all.filter_map(value).collect();
        Self { task, columns, rate: config.rate, next: 0, sources }
    }

    /// One tick after `skipped` releases were given up. A row is released with it, unless `released` says when.
    fn tick(&mut self, skipped: u64, released: Option<i64>, given: &[(&str, Given)]) -> Vec<f64> {
        let n = self.next + skipped;
        let release = Instant::ZERO + Span::from_wide(self.rate.offset(n));
        for (name, given) in given {
            let source = self.sources.iter_mut().find(|source| source.name == *name).unwrap();
            let of_row =
                released.filter(|_| *name == "input").map_or(release, |nanos| Instant::from_nanos(nanos.into()));
            let head = RowHead { n, release: of_row, origin: Some(Origin { at: of_row, task: 0 }) };
            match given {
                Given::Value(value) => source.sender.post(head, &[*value], |_, _| Quality::Good),
                Given::Bad => source.sender.post(head, &[f64::NAN], |_, _| Quality::Bad(Reason::Failed)),
                Given::Nothing => (),
            }
            source.receiver.refresh(release);
        }
        let period = self.rate.period();
        let tick = Tick { n, release, started: release, lateness: Span::ZERO, skipped, credit: Span::ZERO, period };
        let mut values = vec![f64::NAN; self.columns.len()];
        self.task.tick(&tick, &mut values).unwrap();
        self.next = n + 1;
        values
    }
}

/// The cases of a file: name, section, and what follows it.
fn cases(text: &str) -> Vec<(&str, &str, &str)> {
    let case = |text: &'static str| {
        let (name, rest) = text.split_once('\n').unwrap();
        let (section, rest) = rest.split_once("---\n").unwrap();
        (name, section, rest)
    };
    // The text lives as long as the program.
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    text.strip_prefix("### ").unwrap().split("\n### ").map(case).collect()
}

fn number(text: &str) -> f64 {
    if text.is_empty() { f64::NAN } else { text.parse().unwrap() }
}

/// Asserts that both are missing, or nearly the same.
fn compare(found: f64, wanted: f64, tolerance: f64, what: impl FnOnce() -> String) {
    let near = (found - wanted).abs() <= tolerance * wanted.abs().max(1.0);
    assert!(near || found.is_nan() && wanted.is_nan(), "{}: {found}, and the reference has {wanted}", what());
}

fn compare_all(text: &str) -> usize {
    let mut compared = 0;
    for (name, section, rows) in cases(text) {
        let mut bench = Bench::new(section);
        let (header, rows) = rows.split_once('\n').unwrap();
        let (inputs, outputs) = header.split_once('|').unwrap();
        let (inputs, outputs): (Vec<_>, Vec<_>) = (inputs.split(',').collect(), outputs.split(',').collect());
        assert_eq!(bench.columns, outputs, "{name}");
        for row in rows.lines() {
            let (given, wanted) = row.split_once('|').unwrap();
            let mut given: Vec<_> = inputs.iter().copied().zip(given.split(',')).collect();
            let mut take = |name: &str| {
                let at = given.iter().position(|(column, _)| *column == name)?;
                given.remove(at).1.parse::<i64>().ok()
            };
            let (skipped, released) = (take("skipped").unwrap(), take("released"));
            let given: Vec<_> = given
                .into_iter()
                .map(|(name, cell)| match cell {
                    "" => (name, Given::Bad),
                    "-" => (name, Given::Nothing),
                    cell => (name, Given::Value(number(cell))),
                })
                .collect();
            let found = bench.tick(skipped.unsigned_abs(), released, &given);
            for ((column, found), wanted) in outputs.iter().zip(found).zip(wanted.split(',')) {
                compare(found, number(wanted), TOLERANCE, || format!("{name}, tick {}, {column}", bench.next - 1));
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn pid_is_as_its_references() {
    let compared = compare_all(include_str!("../../../tests/support/references/pid.txt"));
    assert!(compared > 10_000, "only {compared} values");
}

#[test]
fn filters_are_as_their_references() {
    let compared = compare_all(include_str!("../../../tests/support/references/filter.txt"));
    assert!(compared > 2_000, "only {compared} values");
}

#[test]
fn a_closed_loop_has_the_overshoot_and_the_settling_time_of_theory() {
    for (name, section, rows) in cases(include_str!("../../../tests/support/references/loop.txt")) {
        let row = |name: &str| -> Vec<f64> {
            let mut lines = rows.lines().map(|line| line.split_once(',').unwrap());
            lines.find(|(found, _)| *found == name).unwrap().1.split(',').map(number).collect()
        };
        let (a, b, sampled) = (row("a"), row("b"), row("y"));
        let mut bench = Bench::new(section);
        let period = 1.0 / bench.rate.hertz();
        // The plant: its most recent outputs and inputs, newest first.
        let (mut y, mut u) = ([0.0; 2], [0.0; 2]);
        let mut run = Vec::new();
        for n in 0..sampled.len() * EVERY {
            let now = b[0] * u[0] + b[1] * u[1] - a[0] * y[0] - a[1] * y[1];
            y = [now, y[0]];
            u = [bench.tick(0, None, &[("input", Given::Value(now))])[0], u[0]];
            if n % EVERY == 0 {
                compare(now, sampled[n / EVERY], 1e-10, || format!("{name}, tick {n}"));
            }
            run.push(now);
        }
        let overshoot = run.iter().copied().fold(0.0, f64::max) - 1.0;
        let settled = run.iter().rposition(|value| (value - 1.0).abs() > 0.02).unwrap() + 1;
        compare(overshoot, row("overshoot")[0], 0.01, || format!("{name}, overshoot"));
        compare(settled as f64 * period, row("settling-time")[0], 0.02, || format!("{name}, settling time"));
    }
}
