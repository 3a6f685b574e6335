//! Formats a measurement as text of at most 80 columns. Pure.

use super::follows;
use super::words::{hertz, list, percent, ratio};
use crate::measure::{
    BEYOND, Comparison, Condition, CpuMeasured, Measured, Quantity, Rounds, Spread, Ticks, Verdict, needed,
};
use crate::snapshot::Counts;
use crate::time::Span;
use crate::views::{columns, wrap};
use std::fmt::Write as _;

/// The width of the longest bar.
const BAR: f64 = 40.0;

pub(super) fn text(measured: &Measured, comparison: Option<&Comparison>, emphasis: bool) -> String {
    let mut text = String::new();
    let mut lines = String::new();
    head(&mut lines, measured);
    lines.lines().for_each(|line| wrap(&mut text, line));
    sleeps(&mut text, measured, emphasis);
    ticks(&mut text, measured, emphasis);
    holes(&mut text, measured, emphasis);
    let mut lines = String::new();
    costs(&mut lines, measured);
    lines.lines().for_each(|line| wrap(&mut text, line));
    histograms(&mut text, measured);
    let mut lines = String::new();
    follows::recommendation(&mut lines, measured);
    lines.lines().for_each(|line| wrap(&mut text, line));
    if let Some(comparison) = comparison {
        compared(&mut text, comparison, emphasis);
    }
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn head(lines: &mut String, measured: &Measured) {
    let Measured { asked, host, .. } = measured;
    let under = if asked.load { "idle and under load" } else { "idle" };
    let took = Span::from_nanos(measured.took_ns);
    let cpus = list(&measured.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>());
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(lines, "CPU {cpus}, {under}, at {} Hz: measured for {took}", hertz(&asked.rate));
    if !measured.complete {
        let _ = writeln!(lines, "Stopped before the end: what follows is what was known by then.");
    }
    let _ = writeln!(
        lines,
        "Linux {}, preempt {}, {} CPUs, clock {}",
        host.kernel, host.preempt, host.cpus, host.clocksource
    );
    let mut granted: Vec<(String, Vec<usize>)> = Vec::new();
    for CpuMeasured { cpu, granted: own, .. } in &measured.cpus {
        let pinned = if own.pinned { "" } else { ", not pinned" };
        let what = format!("{}{pinned}", own.policy);
        match granted.iter_mut().find(|(known, _)| *known == what) {
            Some((_, cpus)) => cpus.push(*cpu),
            None => granted.push((what, vec![*cpu])),
        }
    }
    let granted: Vec<_> = granted.iter().map(|(what, cpus)| format!("{what} on CPU {}", list(cpus))).collect();
    let memory = if measured.memory_locked { "memory locked" } else { "memory not locked" };
    let idle = match measured.cpu_latency_held {
        true => "no deep idle states (/dev/cpu_dma_latency held)",
        false => "idle states as they are (/dev/cpu_dma_latency could not be held), so wake-ups may be later",
    };
    let _ = writeln!(lines, "granted: {}; {memory}; {idle}", granted.join(", "));
    for refused in &measured.refused {
        let _ =
            writeln!(lines, "{} refused ({}): {}; {}", refused.what, refused.reason, refused.meaning, refused.remedy);
    }
    if follows::not_realtime(measured) {
        let _ = writeln!(
            lines,
            "So this shows what a daemon without real-time priority would get, and not what the machine can do."
        );
    }
}

fn sleeps(text: &mut String, measured: &Measured, emphasis: bool) {
    let period = Span::from_nanos(measured.asked.period_ns);
    let _ = writeln!(text, "\nHow late an absolute sleep ends, one every {period}, as cyclictest measures it:");
    let head = ["", "sleeps", "min", "p50", "p99", "p99.9", "max", "rounds"].map(String::from);
    let row = |(cpu, condition): (&CpuMeasured, &Condition)| {
        let late = &condition.sleep.oversleep_ns;
        let rounds = Rounds::of(condition.sleep.rounds.iter().filter_map(|round| round.p50));
        let cells = [
            label(measured, cpu, condition),
            late.count.to_string(),
            span(late.min),
            span(late.p50),
            span(late.p99),
            span(late.p99_9),
            span(late.max),
            spread(rounds),
        ];
        (cells, false)
    };
    let rows: Vec<_> = conditions(measured).map(row).collect();
    columns(text, head, &rows, emphasis);
    wrap(text, "rounds: by how much their p50 differ from the median one: the noise of this measurement");
    if conditions(measured).any(|(_, condition)| condition.sleep.oversleep_ns.p99_9.is_none()) {
        let line = format!(
            "-: too few values, as fewer than {BEYOND} would lie beyond it: p50 needs {}, p99 {}, p99.9 {}",
            needed(5_000),
            needed(100),
            needed(10)
        );
        wrap(text, &line);
    }
    for (cpu, condition) in conditions(measured).filter(|(_, condition)| condition.sleep.passed_over > 0) {
        let passed = condition.sleep.passed_over;
        wrap(
            text,
            &format!(
                "{}: {passed} instants passed while a sleep was late, and were not slept to",
                label(measured, cpu, condition)
            ),
        );
    }
}

fn ticks(text: &mut String, measured: &Measured, emphasis: bool) {
    let _ = writeln!(text, "\nHow late a tick of hertzd's loop starts, with a task that does nothing:");
    let head = ["", "spin", "due", "missed", "p50", "p99", "p99.9", "max", "CPU", "spun"].map(String::from);
    let mut rows = Vec::new();
    let mut lost = Vec::new();
    for (cpu, condition) in conditions(measured) {
        for ticks in &condition.ticks {
            let Ticks { spin, counts: Counts { due, missed, .. }, lateness_ns: late, .. } = ticks;
            let share = |nanos: i64| percent(ratio(nanos, ticks.elapsed_ns));
            rows.push((
                [
                    label(measured, cpu, condition),
                    spin.clone(),
                    due.to_string(),
                    missed.to_string(),
                    span(late.p50),
                    span(late.p99),
                    span(late.p99_9),
                    span(late.max),
                    share(ticks.cpu_ns),
                    share(ticks.spin_ns),
                ],
                *missed > 0,
            ));
            if ticks.records_dropped > 0 {
                lost.push(format!(
                    "{}, spin {spin}: {} records found no room, so their ticks are counted, but not in the lateness",
                    label(measured, cpu, condition),
                    ticks.records_dropped
                ));
            }
        }
    }
    columns(text, head, &rows, emphasis);
    let max = conditions(measured).flat_map(|(_, condition)| &condition.ticks).find_map(|ticks| ticks.spin_cpu_max);
    let max = max.map_or(String::new(), |max| format!("; auto may spin {} of the CPU", percent(max)));
    wrap(text, &format!("CPU: processor time of the loop; spun: the part of it in spin tails{max}"));
    lost.iter().for_each(|line| wrap(text, line));
}

fn holes(text: &mut String, measured: &Measured, emphasis: bool) {
    let _ = writeln!(text, "\nHoles in which a thread that only reads the clock did not run:");
    let head = ["", "looked", "longest", "because of", "over 10 µs", "lost", "steal"].map(String::from);
    let row = |(cpu, condition): (&CpuMeasured, &Condition)| {
        let holes = &condition.holes;
        let why = match (holes.longest_ns, holes.longest_was_preemption) {
            (0, _) => "-",
            (_, true) => "another thread",
            (_, false) => "interrupt or host",
        };
        let cells = [
            label(measured, cpu, condition),
            Span::from_nanos(holes.looked_ns).to_string(),
            if holes.longest_ns > 0 { Span::from_nanos(holes.longest_ns).to_string() } else { "none".into() },
            why.to_owned(),
            holes.over_10us.to_string(),
            percent(ratio(holes.lost_ns, holes.looked_ns)),
            Span::from_nanos(holes.steal_ns).to_string(),
        ];
        (cells, false)
    };
    let looked = |(_, condition): &(&CpuMeasured, &Condition)| condition.holes.looked_ns > 0;
    let rows: Vec<_> = conditions(measured).filter(looked).map(row).collect();
    if rows.is_empty() {
        text.push_str("not looked for before it was stopped\n");
        return;
    }
    columns(text, head, &rows, emphasis);
    wrap(
        text,
        "lost: the share of the time in holes; interrupt or host: an interrupt, the kernel, the firmware or the hypervisor; steal: what the kernel counts as taken by the host, in steps of 10 ms",
    );
}

fn costs(lines: &mut String, measured: &Measured) {
    let cost = |rounds: &[i64]| {
        Rounds::of(rounds.iter().copied()).map(|rounds| {
            format!("{} ns ({} to {} ns in {} rounds)", rounds.median_ns, rounds.least_ns, rounds.most_ns, rounds.count)
        })
    };
    if let (Some(reading), Some(push)) = (cost(&measured.costs.clock_reading_ns), cost(&measured.costs.channel_push_ns))
    {
        let _ = writeln!(lines, "\nA reading of the clock takes {reading}; a record pushed into the channel {push}.");
    }
}

/// The histograms of the recommended CPU.
fn histograms(text: &mut String, measured: &Measured) {
    let Some(recommendation) = &measured.recommendation else { return };
    for (cpu, condition) in conditions(measured).filter(|(cpu, _)| cpu.cpu == recommendation.cpu) {
        let label = label(measured, cpu, condition);
        let _ = writeln!(text, "\n{label}: how many sleeps ended how late (bars are logarithmic):");
        bars(text, &condition.sleep.oversleep_ns);
    }
}

fn bars(text: &mut String, late: &Spread) {
    // 1, 2 and 5 times each power of ten, from 1 µs upwards.
    let edges = (3..12).flat_map(|power| [1, 2, 5].map(|times| times * 10_i64.pow(power)));
    let mut rows: Vec<(i64, u64)> = edges.map(|edge| (edge, 0)).collect();
    for (at, count) in &late.counts {
        let row = rows.partition_point(|(edge, _)| edge < at).min(rows.len() - 1);
        rows[row].1 += count;
    }
    let first = rows.iter().position(|(_, count)| *count > 0).unwrap_or(0);
    let last = rows.iter().rposition(|(_, count)| *count > 0).unwrap_or(0);
    let log = |count: u64| if count == 0 { 0.0 } else { logarithm(count) + 1.0 };
    let most = rows.iter().map(|(_, count)| log(*count)).fold(1.0, f64::max);
    let width = rows.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or(1);
    for (edge, count) in &rows[first..=last] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width of at most 40 columns")]
        let bar = "#".repeat((log(*count) / most * BAR).round() as usize);
        let _ = writeln!(text, "  up to {:>8}  {count:>width$}  {bar}", Span::from_nanos(*edge).to_string());
    }
}

#[expect(clippy::cast_precision_loss, reason = "for the length of a bar")]
fn logarithm(count: u64) -> f64 {
    (count as f64).log10()
}

fn compared(text: &mut String, comparison: &Comparison, emphasis: bool) {
    let _ = writeln!(text, "\nAgainst {}:", comparison.against);
    for line in &comparison.differs {
        wrap(text, &format!("not the same in both: {line}"));
    }
    let head = ["", "before", "now", "ratio", "rounds", "difference"].map(String::from);
    let loads = comparison.quantities.iter().any(|quantity| quantity.load);
    let row = |quantity: &Quantity| {
        let condition = match (quantity.load, loads) {
            (true, _) => ", load",
            (false, true) => ", idle",
            (false, false) => "",
        };
        let cpu = quantity.cpu.map_or(String::new(), |cpu| format!("CPU {cpu}{condition}: "));
        let verdict = match quantity.verdict {
            Verdict::Significant => "significant",
            Verdict::Noise => "noise",
            Verdict::TooFewRounds => "too few rounds",
        };
        let cells = [
            format!("{cpu}{}", quantity.what),
            Span::from_nanos(quantity.before.median_ns).to_string(),
            Span::from_nanos(quantity.now.median_ns).to_string(),
            quantity.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            format!("{}, {}", spread(Some(quantity.before)), spread(Some(quantity.now))),
            verdict.to_owned(),
        ];
        (cells, quantity.verdict == Verdict::Significant)
    };
    let rows: Vec<_> = comparison.quantities.iter().map(row).collect();
    if rows.is_empty() {
        text.push_str("nothing was measured in both\n");
        return;
    }
    columns(text, head, &rows, emphasis);
    wrap(
        text,
        "rounds: by how much those of each differ from their median; significant: every round of one is on the same side of every round of the other, and the medians are further apart than the rounds of either; noise: the rounds of one measurement differ as much among themselves",
    );
}

fn conditions(measured: &Measured) -> impl Iterator<Item = (&CpuMeasured, &Condition)> {
    measured.cpus.iter().flat_map(|cpu| cpu.conditions.iter().map(move |condition| (cpu, condition)))
}

/// `CPU 1`; with ` load` or ` idle` added if both conditions were measured.
fn label(measured: &Measured, cpu: &CpuMeasured, condition: &Condition) -> String {
    match (measured.asked.load, condition.load) {
        (false, _) => format!("CPU {}", cpu.cpu),
        (true, false) => format!("CPU {}, idle", cpu.cpu),
        (true, true) => format!("CPU {}, load", cpu.cpu),
    }
}

fn span(nanos: Option<i64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| Span::from_nanos(nanos).to_string())
}

/// `-4+9%`: how far the rounds lie below and above the median. `-4>999%` from eleven times the median upwards.
fn spread(rounds: Option<Rounds>) -> String {
    let shown = |Rounds { median_ns, least_ns, most_ns, .. }: Rounds| {
        let share = |nanos: i64| 100.0 * ratio(nanos, median_ns);
        match (share(median_ns - least_ns), share(most_ns - median_ns)) {
            (below, above) if above < 999.5 => format!("-{below:.0}+{above:.0}%"),
            (below, _) => format!("-{below:.0}>999%"),
        }
    };
    rounds.map_or_else(|| "-".to_owned(), shown)
}
