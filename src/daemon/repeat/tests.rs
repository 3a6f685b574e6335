//! Random small sets, counted and in full.

use super::super::models::Models;
use super::super::simulate::SimulateOptions;
use super::super::virtual_tasks::Graph;
use super::*;
use crate::config::{Config, Facts, Kinds};
use serde_json::Value;
use std::fmt::Write as _;

/// The same numbers again and again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A list of up to three of these.
    fn list(&mut self, all: &[&str]) -> String {
        let values: Vec<_> = (0..=self.below(3)).map(|_| format!("\"{}\"", self.of(all))).collect();
        format!("[{}]", values.join(", "))
    }
}

/// Fast ones, so that there are enough ticks to settle in a short run; and others that meet them at different places.
const FAST: [&str; 2] = ["\"10 kHz\"", "\"8 kHz\""];
const OTHERS: [&str; 5] = ["\"1 kHz\"", "\"500 Hz\"", "\"30000/1001\"", "\"100 Hz\"", "\"60 Hz\""];
const POLICIES: [&str; 7] = [
    "\"drop\"",
    "\"keep-working\"",
    "\"catch-up\"",
    "\"catch-up\"\nmax-catch-up = 2",
    "\"credit\"",
    "\"credit\"\nmax-debt = \"3ms\"",
    "\"delay\"",
];

fn configuration(random: &mut Random, spin: &str) -> String {
    let oversleep = match spin {
        "auto" => "[\"0s\"]".into(),
        _ => random.list(&["0s", "10us", "3ms", "40us", "0s"]),
    };
    let mut text = format!("[worker.w]\nspin = \"{spin}\"\n[worker.w.simulate]\noversleep = {oversleep}\n");
    // Few different rates, so that they meet again soon.
    let (fast, others) = (random.of(&FAST), [random.of(&OTHERS), random.of(&OTHERS)]);
    for task in 0..=random.below(4) {
        let rate = if task == 0 { fast } else { random.of(&others) };
        let policy = random.of(&POLICIES);
        let runs = match task == 0 {
            true => random.list(&["0s", "10us", "20us", "30us", "20us", "60us"]),
            false => random.list(&["10us", "100us", "300us", "1500us"]),
        };
        let phase = random.of(&["0s", "50us", "33us", "99us"]);
        let deadline = match random.below(3) {
            0 => "deadline = \"700us\"\n",
            1 => "deadline = \"12ms\"\n",
            _ => "",
        };
        let _ = write!(
            text,
            "[task.t{task}]\nkind = \"load\"\nrun = \"1us\"\nrate = {rate}\nphase = \"{phase}\"\noverrun = {policy}\n{deadline}\
             [task.t{task}.simulate]\nrun = {runs}\n"
        );
    }
    text
}

/// The summary, counted and in full, and how often something was counted.
fn both(text: &str, options: SimulateOptions, learns: bool) -> (Value, Value, u64) {
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
    let config = Config::parse(text, "test", &Kinds::builtin(), &facts)
        .unwrap_or_else(|problems| panic!("{}\n{text}", problems.render(false)));
    let (models, graph) = (&Models::default(), &Graph::scripts(&config));
    let simulation = Simulation { config: &config, options, models, graph };
    let (counted, repeats) = simulation.sum_up(&mut |_| Ok(())).unwrap();
    let full = simulation.play(&mut |_| Ok(())).unwrap();
    let [counted, full] = [counted, full].map(|summary| {
        let mut summary = serde_json::to_value(summary).unwrap();
        for worker in summary["workers"].as_array_mut().unwrap().iter_mut().filter(|_| learns) {
            for key in ["cpu_share", "spin_share", "wakes", "oversleep_ns"] {
                worker[key].take();
            }
        }
        summary
    });
    (counted, full, repeats.iter().flatten().map(|repeats| repeats.counted).sum())
}

#[test]
fn what_repeats_is_counted_as_if_it_had_run() {
    let (mut random, mut counted_sets) = (Random(7), 0);
    for nth in 0..14 {
        let spin = random.of(&["off", "off", "10us", "20us", "auto"]);
        let text = configuration(&mut random, spin);
        let length = Span::from_nanos(1_600_000_000 + i64::try_from(random.below(200_000_000)).unwrap());
        let first_tick = if random.below(4) == 0 { 1_000_000_007 } else { 0 };
        let options = SimulateOptions { length, first_tick };
        let (counted, full, times) = both(&text, options, spin == "auto");
        assert_eq!(counted, full, "set {nth}, {options:?}:\n{text}");
        counted_sets += u64::from(times > 0);
    }
    assert!(counted_sets >= 2, "{counted_sets} sets had something to count");
}
