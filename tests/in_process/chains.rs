//! The age of the values used at the end of a chain, in a running daemon, compared with the clock as the tasks read it. Also after an
//! output whose values other tasks read. The simulation repeats this, where each instant is exact.

use crate::desk::Desk;
use crate::program::pause;
use hertzd::Kinds;
use hertzd::config::{Blueprint, Key, Kind, Section, Value};
use hertzd::internals::{Clock, Embedded, KernelClock, Summary};
use hertzd::task::{Column, Input, Task, Tick, TickError};
use hertzd::time::{Instant, Span};
use std::sync::{Arc, Mutex, PoisonError};

const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
const BACK: Key = Key::new("back", Value::Input, "Closes a cycle.");

/// The time between the creation of the value that a tick used and the end of that tick, in nanoseconds.
type Elapsed = Arc<Mutex<Vec<i64>>>;

fn now() -> Instant {
    KernelClock::monotonic().now()
}

/// Its value is the time of its creation, in nanoseconds after the start of the test.
struct Stamp {
    zero: Instant,
}

/// Passes on its input; the last one of the chain records the input's age.
struct Relay {
    zero: Instant,
    input: Input,
    elapsed: Option<Elapsed>,
    _back: Option<Input>,
}

fn column() -> Vec<Column> {
    vec![Column { name: "at".into(), unit: "ns".into() }]
}

impl Task for Stamp {
    fn columns(&self) -> Vec<Column> {
        column()
    }

    #[expect(clippy::cast_precision_loss, reason = "a test is shorter than 100 days")]
    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values[0] = (now() - self.zero).nanos() as f64;
        Ok(())
    }
}

impl Task for Relay {
    fn columns(&self) -> Vec<Column> {
        column()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a whole number of nanoseconds")]
    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values[0] = self.input.get();
        if let (Some(elapsed), false) = (&self.elapsed, values[0].is_nan()) {
            pause(Span::from_millis(3)); // this long after its start
            elapsed.lock().unwrap().push((now() - self.zero).nanos() - values[0] as i64);
        }
        Ok(())
    }
}

fn kinds(zero: Instant, elapsed: &Elapsed) -> Kinds {
    let relay = move |elapsed: Option<Elapsed>| {
        move |section: &mut Section<'_>| {
            let (input, back) = (section.input(&INPUT)?, section.input(&BACK));
            Some(Blueprint::built(Relay { zero, input, elapsed: elapsed.clone(), _back: back }))
        }
    };
    Kinds::builtin()
        .add(Kind::new("stamp", "Tells the time.", &[][..], move |_: &mut Section<'_>| {
            Some(Blueprint::built(Stamp { zero }))
        }))
        .add(Kind::new("relay", "Hands on what it takes.", &[INPUT, BACK][..], relay(None)))
        .add(Kind::new("last", "Uses what it takes.", &[INPUT, BACK][..], relay(Some(elapsed.clone()))))
}

/// Runs this configuration until its last task has used 40 values, however late the machine makes them.
fn run(text: &str, zero: Instant, elapsed: &Elapsed) -> Summary {
    static ONE: Mutex<()> = Mutex::new(()); // daemon in this process at a time
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let daemon = Embedded::of(kinds(zero, elapsed), text).start();
    daemon.until("there are 40", || elapsed.lock().unwrap().len() >= 40);
    daemon.stop();
    let summary = daemon.end().summary;
    // A channel has room for 1,024 records, the work of 9 s for a worker here: the thread that empties it would have to stall that long
    // while the others run.
    assert_eq!(summary.records.dropped, 0, "an age goes with each record");
    summary
}

#[test]
fn the_age_at_the_end_of_a_chain_is_never_told_too_small() {
    let (zero, elapsed) = (now(), Elapsed::default());
    let text = "[worker.a]\n[worker.b]\n\
        [task.last]\nkind = \"last\"\nworker = \"a\"\nrate = 50\ninput = \"relay.at\"\nmax-age = \"1h\"\n\
        max-latency = \"1us\"\n\
        [task.relay]\nkind = \"relay\"\nworker = \"b\"\nrate = 50\ninput = \"stamp.at\"\nmax-age = \"1h\"\n\
        back = { previous = \"last.at\", initial = 0 }\n\
        [task.stamp]\nkind = \"stamp\"\nworker = \"a\"\nrate = 25\n";
    let summary = run(text, zero, &elapsed);
    let lasted = now() - zero;
    let of = |name: &str| summary.tasks.iter().find(|task| task.task == name).unwrap().age_ns.as_deref();
    assert_eq!((of("relay"), of("stamp")), (None, None), "no chain ends there");
    let ages = of("last").expect("a cycle that goes on with the next tick ends here");
    assert!(ages.max <= lasted.nanos(), "{ages:?}: nothing is older than the test");
    let elapsed = elapsed.lock().unwrap();
    let (least, most) = (*elapsed.iter().min().unwrap(), *elapsed.iter().max().unwrap());
    println!("{ages:?}; the tasks saw {least} to {most}");
    // Each of its ticks takes 3 ms by itself.
    let last = summary.tasks.iter().find(|task| task.task == "last").unwrap();
    let latency = last.latency.as_ref().unwrap();
    assert_eq!((latency.late_chains, latency.max_latency_ns), (ages.count, 1_000), "{last:?}");
    assert_eq!(
        latency.late_chains_by,
        [("stamp".to_owned(), ages.count)].into(),
        "the one that measures, not the one between"
    );
    assert_eq!(last.counts.missed, last.counts.overruns + last.counts.skipped);
    let others = summary.tasks.iter().filter(|task| task.task != "last");
    assert!(others.into_iter().all(|task| task.latency.is_none()));
    let sum: i128 = elapsed.iter().map(|elapsed| i128::from(*elapsed)).sum();
    assert_eq!(ages.count, elapsed.len() as u64, "every tick that used something");
    assert!(
        ages.min >= least && ages.max >= most && ages.sum >= sum,
        "{ages:?}: the tasks saw {least} to {most}, {sum} in all"
    );
}

#[test]
fn what_an_output_used_is_measured_and_whoever_takes_its_values_inherits_the_age() {
    let (zero, elapsed) = (now(), Elapsed::default());
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[worker.a]\n[worker.b]\n\
        [task.seen]\nkind = \"last\"\nworker = \"b\"\nrate = 50\ninput = \"fan.applied\"\nmax-age = \"1h\"\n\
        [task.fan]\nkind = \"output\"\nworker = \"a\"\nrate = 50\ninput = \"stamp.at\"\nmax-age = \"1h\"\nsafe-after = \"1h\"\n\
        path = \"{}\"\nsafe = 0\n\
        [task.stamp]\nkind = \"stamp\"\nworker = \"a\"\nrate = 25\n",
        folder.path().join("fan").display()
    );
    let summary = run(&text, zero, &elapsed);
    let of = |name: &str| summary.tasks.iter().find(|task| task.task == name).unwrap();
    assert!(of("fan").counts.ran > 0 && of("fan").errors == 0, "{:?}", of("fan"));
    let (fan, seen) = (of("fan").age_ns.as_deref(), of("seen").age_ns.as_deref().expect("a chain ends there"));
    let fan = fan.expect("it acts, whoever takes its values");
    let elapsed = elapsed.lock().unwrap();
    assert!(fan.count > 0 && seen.count >= elapsed.len() as u64, "{fan:?}, {seen:?}");
    // The value is the time of its creation, and the release of that tick was not later.
    let (least, most) = (*elapsed.iter().min().unwrap(), *elapsed.iter().max().unwrap());
    assert!(seen.min >= least && seen.max >= most, "{seen:?}: the task saw {least} to {most}");
}

#[test]
fn behind_an_output_the_age_goes_on_from_the_measurement() {
    // After the sensor: the controller at 3 ms, the output at 5 ms, an alarm at 8 ms, and at 9 ms an expression whose input is the output's
    // `is-safe`.
    let task = |name: &str, phase: &str, keys: &str| {
        format!("[task.{name}]\nrate = 100\nphase = \"{phase}\"\noverrun = \"drop\"\n{keys}\n")
    };
    let plant =
        "kind = \"sensor\"\npath = \"/nowhere\"\nsimulate.plant = { value = \"y\", input = 1, time-constant = \"1s\" }";
    let text = task("board", "0s", plant)
        + &task("control", "3ms", "kind = \"pid\"\ninput = \"board.y\"\nsetpoint = 1\nkp = 1")
        + &task("fan", "5ms", "kind = \"output\"\ninput = \"control.out\"\npath = \"/sys/nowhere\"\nsafe = 0")
        + &task("off", "8ms", "kind = \"alarm\"\ninput = \"fan.applied\"\nlow = -9")
        + &task("state", "9ms", "kind = \"expr\"\ninputs = { safe = \"fan.is-safe\" }\nexpression = \"safe\"");
    let output = Desk::with(&text).simulate(&["--for", "1s", "--json", "--summary-only"]);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let summary: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let ages = |name: &str| {
        let of_task = summary["tasks"].as_array().unwrap().iter().find(|task| task["task"] == name).unwrap();
        ["count", "min", "max"].map(|key| of_task["age_ns"][key].as_u64())
    };
    for (name, wanted) in [("fan", 5_000_000), ("off", 8_000_000), ("state", 9_000_000)] {
        assert_eq!(ages(name), [Some(100), Some(wanted), Some(wanted)], "{name}");
    }
    assert_eq!([ages("control"), ages("board")], [[None; 3]; 2], "no chain ends there, and nothing acts");
}
