//! Values from task to task: the order of a chain under random rates, phases and deadlines, and what arrives in a daemon that runs.

use crate::random::SplitMix;
use hertzd::Kinds;
use hertzd::config::{Blueprint, Key, Kind, Section, Value};
use hertzd::internals::{
    Config, Connections, Facts, Host, Options, Request, Requests, cpu_set_size, pause, run_daemon,
};
use hertzd::pacing::{Account, Grid, Next, Schedule};
use hertzd::task::{Column, Input, Quality, Task, Tick, TickError};
use hertzd::time::{Instant, Span};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
const FAILS_EVERY: Key =
    Key::new("fails-every", Value::Integer { min: 2, max: 1_000 }, "Fails in the last of so many ticks.");

/// What a task of the kind `relay` saw at each tick: its index, the value, and its quality.
type Seen = Arc<Mutex<BTreeMap<String, Vec<(u64, f64, Quality)>>>>;

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

/// Hands on what it takes, and keeps it.
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
        let (value, quality) = (self.input.get(), self.input.quality());
        self.seen.lock().unwrap().entry(self.name.clone()).or_default().push((tick.n, value, quality));
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

fn parse(text: &str, seen: &Seen) -> Config {
    let facts = Facts { online_cpus: Host::read().online_cpus, cpu_set_size: cpu_set_size() };
    Config::parse(text, "test.toml", &kinds(seen), &facts).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Tasks with random rates, phases, deadlines and policies, each of which takes a value of one declared before or after it.
fn random(random: &mut SplitMix) -> String {
    let tasks = 2 + random.below(6);
    let mut names: Vec<i64> = (0..tasks).collect();
    for at in (1..names.len()).rev() {
        names.swap(at, usize::try_from(random.below(i64::try_from(at).unwrap() + 1)).unwrap());
    }
    let mut sections = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let period = [1, 2, 4, 5, 10][usize::try_from(random.below(5)).unwrap()];
        let phase = if random.below(3) == 0 { random.below(period) } else { 0 };
        let deadline = 1 + random.below(2 * period);
        let overrun = ["drop", "keep-working", "catch-up", "credit"][usize::try_from(random.below(4)).unwrap()];
        let mut text = format!(
            "[task.t{name}]\nperiod = \"{period}ms\"\nphase = \"{phase}ms\"\ndeadline = \"{deadline}ms\"\noverrun = \"{overrun}\"\n"
        );
        let from = usize::try_from(random.below(i64::try_from(at).unwrap() + 1)).unwrap();
        if at > 0 && from < at {
            let _ = writeln!(text, "kind = \"relay\"\ninput = \"t{}.n\"", names[from]);
        } else {
            text += "kind = \"count\"\n";
        }
        sections.push((random.below(1_000), text));
    }
    sections.sort();
    sections.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_task_runs_after_those_whose_values_it_takes() {
    let mut together = 0;
    for seed in 0..500 {
        let mut numbers = SplitMix(seed);
        let text = random(&mut numbers);
        let config = parse(&text, &Seen::default());
        let epoch = Instant::ZERO + Span::from_seconds(1);
        let open = |rate, phase, overrun, turn| {
            (Account::new(Grid::starting_at(epoch + phase, rate), overrun, 0, epoch + Span::from_millis(200)), turn)
        };
        let tasks = config.tasks.iter().map(|task| open(task.rate, task.phase, task.overrun, task.turn));
        let mut schedule = Schedule::new(tasks);
        let (mut now, mut ran, mut finishes) = (epoch, Vec::new(), vec![epoch; config.tasks.len()]);
        loop {
            match schedule.next(now) {
                Next::Run(due) => {
                    // One that was late before, or has given up a release, keeps no order: others take their turns then.
                    let keeps_up = finishes[due.task] <= due.release && due.missed == 0;
                    ran.push((due.task, due.release, keeps_up));
                    // Most ticks are short, some hold up the worker for several periods.
                    let run = if numbers.below(20) == 0 { numbers.below(20_000_000) } else { numbers.below(200_000) };
                    let finished = now + Span::from_nanos(run);
                    schedule.settle(due.task, now, finished);
                    finishes[due.task] = finished;
                    now = finished;
                }
                Next::Rest(release) => now = release,
                Next::Finished => break,
            }
        }
        let position = |name: &str| config.tasks.iter().position(|task| task.name == name).unwrap();
        for (to, task) in config.tasks.iter().enumerate() {
            for (taken, _) in &task.taken {
                let from = position(&taken.name().task);
                for (at, (_, release, _)) in
                    ran.iter().enumerate().filter(|(_, (task, _, keeps_up))| *task == to && *keeps_up)
                {
                    let later =
                        ran[at..].iter().find(|(task, of, keeps_up)| *task == from && of == release && *keeps_up);
                    assert!(later.is_none(), "seed {seed}: {} ran before {}\n{text}", task.name, taken.name().task);
                    together += usize::from(ran[..at].iter().any(|(task, of, _)| *task == from && of == release));
                }
            }
        }
        let has_links = config.tasks.iter().any(|task| !task.taken.is_empty());
        assert!(
            together > 0 || !has_links || text.contains("phase = \"1"),
            "seed {seed}: nothing was compared\n{text}"
        );
    }
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
    let config = parse(text, &seen);
    // However late the machine makes them: until all that is to be seen was.
    let requests = Requests::default();
    let (ask, watched) = (requests.clone(), seen.clone());
    std::thread::spawn(move || {
        let is_enough = |seen: &BTreeMap<String, Vec<(u64, f64, Quality)>>| {
            let has = |name: &str, what: &dyn Fn(&(u64, f64, Quality)) -> bool| {
                seen.get(name).is_some_and(|seen| seen.iter().any(what))
            };
            let chain = ["second", "third"]
                .iter()
                .all(|name| has(name, &|(n, ..)| n % 10 == 9) && has(name, &|(n, ..)| *n > 400));
            chain
                && has("elsewhere", &|(_, value, _)| !value.is_nan())
                && seen["cycle"].len() > 9
                && seen["dead"].len() > 9
        };
        while !is_enough(&watched.lock().unwrap()) {
            pause(Span::from_millis(5));
        }
        ask.ask(Request::Stop(15));
    });
    let ended = run_daemon(config, &Options::default(), Connections { requests, ..Connections::default() });
    ended.unwrap_or_else(|failure| panic!("{failure}"));
    let seen = seen.lock().unwrap();
    for name in ["second", "third"] {
        for (n, value, quality) in &seen[name] {
            match quality {
                // Of the same release, however late both were.
                Quality::Good => assert_eq!(*value, *n as f64, "{name}"),
                _ => assert!(value.is_nan() && (n % 10 == 9 || *n > 400), "{name}: tick {n} is {quality:?}"),
            }
            assert_eq!(*quality == Quality::Good, n % 10 != 9 && *n <= 400, "{name}: tick {n} is {quality:?}");
        }
    }
    let values: Vec<f64> =
        seen["elsewhere"].iter().map(|(_, value, _)| *value).filter(|value| !value.is_nan()).collect();
    assert!(values.is_sorted() && !values.is_empty(), "the latest row, from another worker");
    assert!(seen["cycle"].iter().all(|(_, value, quality)| *value == 7.0 && *quality == Quality::Good));
    // It is some microseconds old when it arrives.
    let dead = &seen["dead"];
    assert!(dead.iter().all(|(_, value, quality)| value.is_nan() && *quality != Quality::Good), "{dead:?}");
}

#[test]
fn what_cannot_be_linked_is_refused_at_its_line() {
    let refused = |text: &str| {
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 8 };
        let problems = Config::parse(text, "test.toml", &kinds(&Seen::default()), &facts).unwrap_err();
        let report = problems.to_string();
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
    // A value that there is not shows where the tasks are built.
    let config = parse(&(of("a", "\"b.m\"") + "[task.b]\nkind = \"count\"\nrate = 1\n"), &Seen::default());
    let ended = run_daemon(config, &Options::default(), Connections::default());
    let failure = ended.err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(failure.contains("task b has no value \"m\"; did you mean \"n\"?"), "{failure}");
}
