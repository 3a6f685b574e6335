//! The order of ticks in a chain, with random rates, phases and deadlines.

use crate::config::{Blueprint, Config, Facts, Key, Kind, Kinds, Section, Value};
use crate::pacing::{Account, Grid, Next, Schedule};
use crate::random::SplitMix;
use crate::time::{Instant, Span};
use std::fmt::Write as _;

const INPUT: Key = Key::new("input", Value::Input, "What it takes.");

fn parse(text: &str) -> Config {
    let unbuilt = || Some(Blueprint::new(|_| panic!("nothing is built")));
    let relay = move |section: &mut Section<'_>| section.input(&INPUT).and_then(|_| unbuilt());
    let kinds = Kinds::empty()
        .add(Kind::new("count", "Counts its ticks.", &[], move |_: &mut Section<'_>| unbuilt()))
        .add(Kind::new("relay", "Hands on what it takes.", &[INPUT][..], relay));
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
    Config::parse(text, "test.toml", &kinds, &facts).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Tasks with random rates, phases, deadlines and policies. Each reads a value of a task declared before or after it.
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
        let config = parse(&text);
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
                    // A task that is often late, or has given up releases on two occasions, keeps no order. Any that was late or gave up some is left out.
                    let keeps_up = finishes[due.task] <= due.release && due.missed == 0;
                    ran.push((due.task, due.release, keeps_up));
                    // Most ticks are short; some delay the worker for several periods.
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
fn only_an_output_waits_no_longer_for_a_first_value_than_for_others() {
    let text = "[task.board]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\n\
        [task.twice]\nkind = \"expr\"\nrate = 10\ninputs = { x = \"board.value\" }\nexpression = \"2 * x\"\n\
        [task.hot]\nkind = \"alarm\"\nrate = 10\ninput = \"twice.out\"\nhigh = 1\n\
        [task.fan]\nkind = \"output\"\nrate = 10\ninput = \"twice.out\"\npath = \"/nowhere-else\"\nsafe = 0\n\
        [task.set]\nkind = \"profile\"\nrate = 10\nshape = \"constant\"\nlevel = 1\n\
        [task.low]\nkind = \"alarm\"\nrate = 10\ninput = \"set.out\"\nlow = 1\n";
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
    let config = Config::parse(text, "case.toml", &Kinds::builtin(), &facts).unwrap();
    let first = |name: &str| config.tasks.iter().find(|task| task.name == name).unwrap().taken[0].1.first;
    assert_eq!(["twice", "hot"].map(first), [Span::from_seconds(30); 2]);
    assert_eq!(["fan", "low"].map(first), [Span::ZERO; 2]);
}
