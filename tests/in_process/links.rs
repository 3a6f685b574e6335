//! Values passed between tasks of a running daemon. `src/config/tests/order.rs` tests their order.

use hertzd::Kinds;
use hertzd::config::{Blueprint, Key, Kind, Section, Value};
use hertzd::internals::Embedded;
use hertzd::task::{Column, Input, Quality, Task, Tick, TickError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
const FAILS_EVERY: Key =
    Key::new("fails-every", Value::Integer { min: 2, max: 1_000 }, "Fails in the last of so many ticks.");

/// What a task of the kind `relay` saw at a tick.
#[derive(Clone, Copy, Debug)]
struct Saw {
    n: u64,
    skipped: u64, // releases before this one
    value: f64,
    quality: Quality,
}

type Seen = Arc<Mutex<BTreeMap<String, Vec<Saw>>>>;

/// Counts its ticks, in its value `n`.
struct Count {
    fails_every: Option<u64>,
}

impl Task for Count {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "n".into(), unit: String::new() }]
    }

    #[expect(clippy::cast_precision_loss, reason = "a test has few ticks")]
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values[0] = tick.n as f64;
        match self.fails_every {
            Some(every) if tick.n % every == every - 1 => Err(TickError::new("the failure that was asked for")),
            _ => Ok(()),
        }
    }
}

/// Passes on its input, and records it.
struct Relay {
    name: String,
    input: Input,
    seen: Seen,
}

impl Task for Relay {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "n".into(), unit: String::new() }]
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values[0] = self.input.get();
        let (n, skipped, value, quality) = (tick.n, tick.skipped, self.input.get(), self.input.quality());
        self.seen.lock().unwrap().entry(self.name.clone()).or_default().push(Saw { n, skipped, value, quality });
        Ok(())
    }
}

fn kinds(seen: &Seen) -> Kinds {
    let count =
        |section: &mut Section<'_>| Some(Blueprint::built(Count { fails_every: section.integer(&FAILS_EVERY) }));
    let seen = seen.clone();
    let relay = move |section: &mut Section<'_>| {
        let name = section.name().trim_start_matches("task.").to_owned();
        Some(Blueprint::built(Relay { name, input: section.input(&INPUT)?, seen: seen.clone() }))
    };
    let count = Kind::new("count", "Counts its ticks.", &[FAILS_EVERY][..], count);
    Kinds::empty().add(count).add(Kind::new("relay", "Hands on what it takes.", &[INPUT][..], relay))
}

#[test]
fn values_arrive_whole_in_order_and_with_their_quality() {
    let seen = Seen::default();
    let text = "[worker.a]\n[worker.b]\n\
        [task.third]\nkind = \"relay\"\nworker = \"a\"\nrate = 500\ninput = \"second.n\"\nmax-age = \"1h\"\n\
        [task.second]\nkind = \"relay\"\nworker = \"a\"\nrate = 500\ninput = \"first.n\"\nmax-age = \"1h\"\n\
        [task.first]\nkind = \"count\"\nworker = \"a\"\nrate = 500\nfails-every = 10\nvalid = { n = [0, 400] }\n\
        [task.elsewhere]\nkind = \"relay\"\nworker = \"b\"\nrate = \"1 kHz\"\ninput = \"first.n\"\nmax-age = \"1h\"\n\
        [task.cycle]\nkind = \"relay\"\nworker = \"a\"\nrate = 500\ninput = { previous = \"cycle.n\", initial = 7 }\n\
        [task.dead]\nkind = \"relay\"\nworker = \"b\"\nrate = 100\ninput = \"slow.n\"\nmax-age = \"1ns\"\n\
        [task.slow]\nkind = \"count\"\nworker = \"a\"\nrate = 500\n";
    let is_bad = |n: u64| n % 10 == 9 || n > 400;
    let is_enough = |seen: &BTreeMap<String, Vec<Saw>>| {
        let has = |name: &str, what: &dyn Fn(&Saw) -> bool| seen.get(name).is_some_and(|seen| seen.iter().any(what));
        let chain =
            ["second", "third"].iter().all(|name| has(name, &|saw| saw.n % 10 == 9) && has(name, &|saw| saw.n > 400));
        chain && has("elsewhere", &|saw| !saw.value.is_nan()) && seen["cycle"].len() > 9 && seen["dead"].len() > 9
    };
    let daemon = Embedded::of(kinds(&seen), text).start();
    // However late the machine makes the ticks: wait until all expected rows were seen.
    daemon.until("all was seen", || is_enough(&seen.lock().unwrap()));
    daemon.stop();
    daemon.end();
    let seen = seen.lock().unwrap();
    // A value of the same release, however late both ticks were. Only a task that gave up releases on two occasions goes before its producer,
    // and takes an earlier value.
    let is_earlier = |saw: &Saw| saw.skipped >= 2 && (saw.value.is_nan() || saw.value < saw.n as f64);
    for saw in &seen["second"] {
        let is_of_this = match saw.quality {
            Quality::Good => saw.value == saw.n as f64 && !is_bad(saw.n),
            _ => saw.value.is_nan() && is_bad(saw.n),
        };
        assert!(is_of_this || is_earlier(saw), "second: {saw:?}");
    }
    for saw in &seen["third"] {
        let taken = seen["second"].iter().find(|taken| taken.n == saw.n);
        let is_of_this = taken.is_some_and(|taken| {
            (taken.quality == Quality::Good) == (saw.quality == Quality::Good)
                && (taken.value == saw.value || taken.value.is_nan() && saw.value.is_nan())
        });
        assert!(is_of_this || is_earlier(saw), "third: {saw:?}, second: {taken:?}");
    }
    for name in ["second", "third", "elsewhere"] {
        let values: Vec<f64> = seen[name].iter().map(|saw| saw.value).filter(|value| !value.is_nan()).collect();
        assert!(values.is_sorted() && !values.is_empty(), "{name} takes the latest row");
    }
    assert!(seen["cycle"].iter().all(|saw| saw.value == 7.0 && saw.quality == Quality::Good));
    // The value is some microseconds old when it arrives.
    let dead = &seen["dead"];
    assert!(dead.iter().all(|saw| saw.value.is_nan() && saw.quality != Quality::Good), "{dead:?}");
}

#[test]
fn what_cannot_be_linked_is_refused_at_its_line() {
    let refused = |text: &str| {
        let report = Embedded::of(kinds(&Seen::default()), text).start().refusal();
        assert!(report.ends_with("\n1 problem; nothing was started"), "{report}");
        report
    };
    let of = |name: &str, input: &str| format!("[task.{name}]\nkind = \"relay\"\nrate = 1\ninput = {input}\n");
    let unknown = refused(&of("a", "\"bord.n\"").replace("[task.a]", "[task.board]"));
    assert!(
        unknown.contains("there is no task bord,") && unknown.contains("help: did you mean \"board\"?\n"),
        "{unknown}"
    );
    let cycle = of("a", "\"b.n\"") + &of("b", "\"c.n\"") + &of("c", "\"a.n\"");
    let text = refused(&cycle);
    assert!(text.contains("of the one before: c → b → a → c\n"), "{text}");
    assert!(text.contains("{ previous = \"a.n\", initial = 0.0 }"), "{text}");
    let text = refused(&of("a", "\"a.n\""));
    assert!(text.contains("a → a"), "{text}");
    let text = refused("[task.a]\nkind = \"count\"\nrate = 1\nmax-age = \"1s\"\n");
    assert!(text.contains("takes no value of another task"), "{text}");
    let back = of("a", "{ previous = \"b.n\", initial = 0 }") + "max-latency = \"1s\"\n" + &of("b", "\"a.n\"");
    let text = refused(&back);
    assert!(text.contains("takes no value of another task but those of the tick before, which have no age"), "{text}");
    // A value that does not exist is detected when the tasks are built.
    let unbuilt = of("a", "\"b.m\"") + "[task.b]\nkind = \"count\"\nrate = 1\n";
    let failure = Embedded::of(kinds(&Seen::default()), unbuilt).start().refusal();
    assert!(failure.contains("task b has no value \"m\"; did you mean \"n\"?"), "{failure}");
}
