//! Compares a plan's promises with a simulation of the text it prints.

use super::changes::{Changes, changes};
use super::input::Input;
use super::*;
use crate::config::{Config, Facts, Kinds};
use crate::daemon::layout::{Chains, MANY_TICKS, TooOld, on_cpu, plan as lay_out};
use crate::daemon::{Graph, SimulateOptions, Simulation};
use crate::time::Span;
use std::fmt::Write as _;

#[test]
fn lists_of_cpus() {
    assert_eq!(cpu_list("4-6,1, 5"), Ok(CpuList(vec![1, 4, 5, 6])));
    assert!(cpu_list("1,x").unwrap_err().contains("\"x\" is no CPU"));
    assert!(cpu_list("3-1").unwrap_err().contains("smaller number first"));
    assert!(cpu_list("").is_err());
}

/// Parses these texts as one configuration.
fn parsed(texts: &[&str]) -> Config {
    let facts = Facts { online_cpus: vec![0, 1, 2], cpu_set_size: 1_024 };
    let named: Vec<_> = texts.iter().map(|text| ("test".to_owned(), text.as_bytes())).collect();
    let parsed = Config::parse_merged(Path::new(""), &named, &[], &Kinds::builtin(), &facts);
    parsed.unwrap_or_else(|problems| panic!("{}\n{texts:?}", problems.render(false)))
}

/// The changes of the plan, and the promised worst response of each task if nothing preempts its worker.
fn planned(texts: &[&str], cpus: &[usize], free: bool) -> (String, Vec<(String, Span)>) {
    let config = parsed(texts);
    let written = if free { Written::default() } else { Written::of(&config) };
    let input = Input::of(&config, &Models::default(), cpus, written, false).unwrap();
    let chains = Chains { together: &[], too_old: &|_| TooOld::default() };
    let layout = lay_out(&input.placed, cpus.len(), input.now_on_these(&config), &chains);
    let changes = if layout.changed { changes(&config, &input, &layout) } else { Changes::default() };
    let mut promised = Vec::new();
    for cpu in &layout.cpus {
        let responses = on_cpu(&input.placed, cpu, Span::ZERO, MANY_TICKS);
        assert_eq!(responses.only, None, "{texts:?}");
        for (worker, worst) in cpu.workers.iter().zip(&responses.worst).take(1) {
            let name = |task: usize| config.tasks[input.tasks[task]].name.clone();
            promised.extend(worker.tasks.iter().zip(worst).map(|((task, _), worst)| (name(*task), *worst)));
        }
    }
    (changes.toml, promised)
}

/// The worst response of each task over all ticks of a run.
fn simulated(texts: &[&str], length: Span) -> Vec<(String, Span)> {
    let config = parsed(texts);
    let options = SimulateOptions { length, first_tick: 0 };
    let (models, graph) = (&Models::default(), &Graph::scripts(&config));
    let summary = Simulation { config: &config, options, models, graph }.play(&mut |_| Ok(())).unwrap();
    summary.tasks.iter().map(|task| (task.task.clone(), Span::from_nanos(task.response_ns.max))).collect()
}

#[test]
fn a_simulation_of_every_tick_shows_the_worst_responses_that_were_promised() {
    let mut state = 1_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % end
    };
    let mut compared = 0;
    for _ in 0..25 {
        let mut text = String::new();
        for task in 0..=below(5) {
            let (hertz, longest) = [(1_000, 200), (500, 300), (250, 900), (100, 1_500), (50, 4_000)][below(5)];
            let (run, policy) = (10 + 10 * below(longest / 10), ["drop", "keep-working", "credit"][below(3)]);
            let phase = if below(3) == 0 { format!("phase = \"{}us\"\n", below(1_000)) } else { String::new() };
            let _ = write!(
                text,
                "[task.t{task}]\nkind = \"load\"\nrate = {hertz}\nrun = \"{run}us\"\nbudget = \"{run}us\"\n\
                 overrun = \"{policy}\"\n{phase}"
            );
        }
        let cpus = &[0, 1, 2][..=below(3)];
        let free = below(2) == 0;
        let (toml, promised) = planned(&[&text], cpus, free);
        let both = [&*text, &*toml];
        let (again, _) = planned(&both, cpus, free);
        assert_eq!(again, "", "a plan of a plan finds nothing better: {toml}");
        let seen = simulated(&both, Span::from_millis(300));
        let period = |name: &str| parsed(&both).tasks.iter().find(|task| task.name == name).unwrap().rate.period();
        // If its response exceeds its period, a task skips releases according to its policy.
        if promised.iter().all(|(name, worst)| *worst <= period(name)) {
            for promise in promised {
                assert!(seen.contains(&promise), "promised {promise:?}, seen {seen:?}:\n{toml}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 40, "{compared}");
}
