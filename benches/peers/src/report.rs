//! The page of results: medians of the rounds, and ratios within each round.

use crate::arguments::Arguments;
use crate::rounds::{Figures, Measured, Place, TOTAL, is_installed};
use crate::spec::Kind;

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median over the rounds of one number.
pub(crate) fn of(runs: &[Figures], number: impl Fn(&Figures) -> f64) -> f64 {
    median(runs.iter().map(number))
}

fn micros(nanos: f64) -> String {
    match nanos / 1e3 {
        number if number.is_nan() => "–".into(),
        number if number < 1.0 => format!("{number:.3}"),
        number if number < 100.0 => format!("{number:.2}"),
        number => format!("{number:.0}"),
    }
}

fn ratio(number: f64) -> String {
    match number {
        number if number.is_nan() => "–".into(),
        number if number < 0.1 => format!("{number:.4}"),
        number => format!("{number:.2}"),
    }
}

/// The median of the ratios to another contender in the same round.
fn ratios(runs: &[Figures], base: Option<&Vec<Figures>>, number: impl Fn(&Figures) -> f64) -> f64 {
    median(runs.iter().zip(base.into_iter().flatten()).map(|(of, base)| number(of) / number(base)))
}

pub(crate) fn page(arguments: &Arguments, measured: &Measured, facts: &str) -> String {
    let mut text = format!(
        "# hertzd beside its peers\n\nMade by `cargo run --release --manifest-path benches/peers/Cargo.toml`: {} rounds of {} s of each \
         contender, in turns; all on one CPU with SCHED_FIFO, where that is allowed. Late: from the instant that a tick was for to its \
         own first reading of the clock. Medians of the rounds; ratios are taken within a round. *Again* is the same contender a \
         second time: what the two differ by is noise.\n\n{facts}\n",
        arguments.rounds, arguments.seconds
    );
    for missing in ["cyclictest", "stress-ng"].into_iter().filter(|program| !is_there(program)) {
        text += &format!("- Not measured, since it is not installed: {missing}\n");
    }
    let mut sections: Vec<(bool, u32)> = measured
        .keys()
        .filter(|place| place.tasks == 1 && !is_shared(place))
        .map(|place| (place.stressed, place.rate))
        .collect();
    sections.dedup();
    for (stressed, rate) in sections {
        text += &section(measured, stressed, rate);
    }
    text + &many(measured)
}

fn is_there(program: &str) -> bool {
    if program == "cyclictest" { crate::cyclictest::is_installed() } else { is_installed(program) }
}

/// Whether it is one of the runs in which any number of tasks share a total.
fn is_shared(place: &Place) -> bool {
    place.rate * place.tasks == TOTAL
}

fn section(measured: &Measured, stressed: bool, rate: u32) -> String {
    let beside = if stressed { "beside stress-ng on the same CPU" } else { "idle" };
    let mut text = format!(
        "\n## {rate} Hz, {beside}\n\n| contender | late p50 µs | p99 | p99.9 | to cyclictest p50 | p99 | p99.9 | started p50 µs | % of a CPU \
         | ticks |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n"
    );
    let place = |kind| Place { stressed, tasks: 1, rate, kind };
    let base = measured.get(&place(Kind::Cyclictest));
    for (Place { kind, .. }, runs) in measured.iter().filter(|(found, _)| **found == place(found.kind)) {
        let late = |index: usize| micros(of(runs, |run| run.late[index]));
        let to_cyclictest = |index: usize| ratio(ratios(runs, base, |run| run.late[index]));
        let [p50, p99, p999] = [late(0), late(1), late(2)];
        let [r50, r99, r999] = [to_cyclictest(0), to_cyclictest(1), to_cyclictest(2)];
        let started = micros(of(runs, |run| run.started[0]));
        let share = 100.0 * of(runs, |run| run.share);
        let ticks = of(runs, |run| run.ticks as f64);
        text += &format!(
            "| {} | {p50} | {p99} | {p999} | {r50} | {r99} | {r999} | {started} | {share:.2} | {ticks} |\n",
            kind.name()
        );
    }
    text
}

fn many(measured: &Measured) -> String {
    let mut text = format!(
        "\n## Many tasks, {TOTAL} ticks a second in all, aligned\n\n| tasks | contender | processor time per tick, ns | late p50 µs | p99 | \
         ticks |\n| --: | --- | --: | --: | --: | --: |\n"
    );
    for (place, runs) in measured.iter().filter(|(place, _)| is_shared(place)) {
        let per_tick = of(runs, |run| run.per_tick);
        let [p50, p99] = [0, 1].map(|index: usize| micros(of(runs, |run| run.late[index])));
        let ticks = of(runs, |run| run.ticks as f64);
        text += &format!("| {} | {} | {per_tick:.0} | {p50} | {p99} | {ticks} |\n", place.tasks, place.kind.name());
    }
    text
}
