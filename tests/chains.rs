//! The age of what is used at the end of a chain, in a daemon that runs: against the clock as the tasks themselves read it.

use hertzd::Kinds;
use hertzd::config::{Blueprint, Config, Facts, Key, Kind, Section, Value};
use hertzd::internals::{Connections, Host, KernelClock, Options, Request, Requests, cpu_set_size, pause, run_daemon};
use hertzd::task::{Column, Input, Task, Tick, TickError};
use hertzd::time::{Clock, Instant, Span};
use std::sync::{Arc, Mutex};

const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
const BACK: Key = Key::new("back", Value::Input, "Closes a circle.");

/// How long before the end of a tick, in nanoseconds, the value was made that it used.
type Elapsed = Arc<Mutex<Vec<i64>>>;

fn now() -> Instant {
    KernelClock::monotonic().now()
}

/// Its value is the time at which it was made, in nanoseconds after the start of the test.
struct Stamp {
    zero: Instant,
}

/// Hands on what it takes; if it is the last one, says how long ago that was made.
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
            pause(Span::from_millis(3)); // so long after its start
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
    Kinds::empty()
        .add(Kind::new("stamp", "Tells the time.", &[][..], move |_: &mut Section<'_>| {
            Some(Blueprint::built(Stamp { zero }))
        }))
        .add(Kind::new("relay", "Hands on what it takes.", &[INPUT, BACK][..], relay(None)))
        .add(Kind::new("last", "Uses what it takes.", &[INPUT, BACK][..], relay(Some(elapsed.clone()))))
}

#[test]
fn the_age_at_the_end_of_a_chain_is_never_told_too_small() {
    let (zero, elapsed) = (now(), Elapsed::default());
    let text = "[worker.a]\n[worker.b]\n\
        [task.last]\nkind = \"last\"\nworker = \"a\"\nrate = 100\ninput = \"relay.at\"\nmax-age = \"1h\"\n\
        max-latency = \"1us\"\n\
        [task.relay]\nkind = \"relay\"\nworker = \"b\"\nrate = 100\ninput = \"stamp.at\"\nmax-age = \"1h\"\n\
        back = { previous = \"last.at\", initial = 0 }\n\
        [task.stamp]\nkind = \"stamp\"\nworker = \"a\"\nrate = 50\n";
    let facts = Facts { online_cpus: Host::read().online_cpus, cpu_set_size: cpu_set_size() };
    let config = Config::parse(text, "test.toml", &kinds(zero, &elapsed), &facts);
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    // However late the machine makes them: until there are enough.
    let requests = Requests::default();
    let (ask, watched) = (requests.clone(), elapsed.clone());
    std::thread::spawn(move || {
        while watched.lock().unwrap().len() < 40 {
            pause(Span::from_millis(5));
        }
        ask.ask(Request::Stop(15));
    });
    let ended = run_daemon(config, &Options::default(), Connections { requests, ..Connections::default() });
    let summary = ended.unwrap_or_else(|failure| panic!("{failure}")).summary;
    let lasted = now() - zero;
    let of = |name: &str| summary.tasks.iter().find(|task| task.task == name).unwrap().age_ns.as_deref();
    assert_eq!((of("relay"), of("stamp")), (None, None), "no chain ends there");
    let ages = of("last").expect("a circle that goes on with the next tick ends here");
    assert!(ages.max <= lasted.nanos(), "{ages:?}: nothing is older than the test");
    let elapsed = elapsed.lock().unwrap();
    let (least, most) = (*elapsed.iter().min().unwrap(), *elapsed.iter().max().unwrap());
    println!("{ages:?}; the tasks saw {least} to {most}");
    if summary.records.dropped > 0 {
        return; // the machine was too busy: there are fewer ages than ticks
    }
    // Each of its ticks takes 3 ms alone.
    let last = summary.tasks.iter().find(|task| task.task == "last").unwrap();
    let latency = last.latency.as_ref().unwrap();
    assert_eq!((latency.late_chains, latency.max_latency_ns), (ages.count, 1_000), "{last:?}");
    assert_eq!(
        latency.late_chains_by,
        [("stamp".to_owned(), ages.count)].into(),
        "the one that measures, not the one between"
    );
    assert_eq!(last.missed, last.overruns + last.skipped);
    let others = summary.tasks.iter().filter(|task| task.task != "last");
    assert!(others.into_iter().all(|task| task.latency.is_none()));
    let sum: i128 = elapsed.iter().map(|elapsed| i128::from(*elapsed)).sum();
    assert_eq!(ages.count, elapsed.len() as u64, "every tick that used something");
    assert!(
        ages.min >= least && ages.max >= most && ages.sum >= sum,
        "{ages:?}: the tasks saw {least} to {most}, {sum} in all"
    );
}
