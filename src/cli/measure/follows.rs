//! Conclusions from a measurement, as sentences and as TOML to paste. Pure.

use super::words::{hertz, percent, ratio};
use crate::measure::{CpuMeasured, Measured, Price, Recommendation, Trial, tail_harms};
use crate::time::Span;
use std::fmt::Write as _;

/// Whether some CPU was measured without the requested policy.
pub(super) fn not_realtime(measured: &Measured) -> bool {
    measured.cpus.iter().any(|cpu| cpu.granted.policy.name != "fifo")
}

pub(super) fn recommendation(lines: &mut String, measured: &Measured) {
    let Some(recommendation) = &measured.recommendation else { return };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(lines, "\nWhat follows from that{}:", if recommendation.under_load { ", under load" } else { "" });
    which_cpu(lines, measured, recommendation);
    which_tail(lines, measured, recommendation);
    which_rate(lines, recommendation);
    if measured.complete && !not_realtime(measured) {
        let _ = write!(
            lines,
            "\n  [worker.main]\n  cpu = {}\n  policy = \"fifo\"\n  priority = {}\n",
            recommendation.cpu, measured.asked.priority
        );
        let _ = match (recommendation.spin, recommendation.spin_cpu_max) {
            (true, Some(share)) => writeln!(lines, "  spin = \"auto\"\n  spin-cpu-max = \"{:.0}%\"", share * 100.0),
            (true, None) => writeln!(lines, "  spin = \"auto\""),
            (false, _) => writeln!(lines, "  spin = \"off\""),
        };
    }
}

fn which_cpu(lines: &mut String, measured: &Measured, recommendation: &Recommendation) {
    let cpu = recommendation.cpu;
    let _ = match recommendation.clearly {
        None => writeln!(lines, "CPU {cpu} is the only one that was measured."),
        Some(true) => {
            writeln!(lines, "CPU {cpu}: sleeps end less late there than on any other, by more than the rounds differ.")
        }
        Some(false) => writeln!(
            lines,
            "CPU {cpu}: sleeps end least late there, but not by more than the rounds of the {} CPUs differ, so another may do as well.",
            measured.cpus.len()
        ),
    };
}

fn which_tail(lines: &mut String, measured: &Measured, recommendation: &Recommendation) {
    let condition = measured.cpus.iter().find(|cpu| cpu.cpu == recommendation.cpu).and_then(CpuMeasured::hardest);
    let ticks = |spin: &str| condition.and_then(|condition| condition.ticks.iter().find(|ticks| ticks.spin == spin));
    if let (Some(off), Some(auto)) = (ticks("off"), ticks("auto")) {
        let late = |ticks: &crate::measure::Ticks| {
            let late = &ticks.lateness_ns;
            match (late.p50, late.p99) {
                (Some(p50), Some(p99)) => {
                    format!("{} late at p50 and {} at p99", Span::from_nanos(p50), Span::from_nanos(p99))
                }
                (Some(p50), None) => format!("{} late at p50", Span::from_nanos(p50)),
                _ => "late by an unknown time (too few ticks)".to_owned(),
            }
        };
        let share = |ticks: &crate::measure::Ticks| percent(ratio(ticks.cpu_ns, ticks.elapsed_ns));
        let verdict = match recommendation.spin {
            true => "A spin tail pays: ticks start",
            false if condition.is_some_and(tail_harms) => {
                "A spin tail does not pay here, as more ticks miss with it or the latest start later: ticks start"
            }
            false => "A spin tail gains nothing here beyond what the rounds differ by: ticks start",
        };
        let _ = writeln!(
            lines,
            "{verdict} {}, and {} of {} missed, with spin = \"auto\", for {} of the CPU; {}, and {} of {} missed, with spin = \"off\", for {}.",
            late(auto),
            auto.counts.missed,
            auto.counts.due,
            share(auto),
            late(off),
            off.counts.missed,
            off.counts.due,
            share(off)
        );
    }
    let price = |Price { covers, length_ns, cpu_share }: &Price| {
        let length = Span::from_nanos(*length_ns);
        format!("one of {length} for {} % of releases, at {} of the CPU", short(*covers), percent(*cpu_share))
    };
    let prices: Vec<_> = recommendation.tails.iter().map(price).collect();
    if !prices.is_empty() {
        let hertz = hertz(&measured.asked.rate);
        let _ = writeln!(
            lines,
            "The tail that reaches releases on time at {hertz} Hz, and what it spins, computed from the sleeps: {}.",
            prices.join("; ")
        );
    }
}

/// Formats 0.999 as `99.9`.
fn short(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    text.trim_end_matches(".0").to_owned()
}

fn which_rate(lines: &mut String, recommendation: &Recommendation) {
    let shown = |trial: &Trial| format!("{} of {} at {} Hz", trial.met, trial.due, trial.hertz);
    let mut tried = recommendation.tried.clone();
    tried.sort_by_key(|trial| trial.hertz);
    let failed =
        tried.iter().find(|trial| !trial.holds() && recommendation.highest_rate.is_none_or(|held| trial.hertz > held));
    let held = tried.iter().find(|trial| Some(trial.hertz) == recommendation.highest_rate);
    let _ = match (held, failed) {
        (Some(held), Some(failed)) => writeln!(
            lines,
            "99.9 % of the ticks of a task that does nothing were met by the next release up to {} Hz ({}), and no longer at {} Hz ({}).",
            held.hertz,
            shown(held),
            failed.hertz,
            shown(failed)
        ),
        (Some(held), None) => writeln!(
            lines,
            "99.9 % of the ticks of a task that does nothing were met by the next release at {} Hz ({}); there was no time to try a higher rate.",
            held.hertz,
            shown(held)
        ),
        (None, Some(failed)) => writeln!(
            lines,
            "99.9 % of the ticks of a task that does nothing were not met by the next release at {} Hz ({}); there was no time to try a lower rate.",
            failed.hertz,
            shown(failed)
        ),
        (None, None) => writeln!(
            lines,
            "There was no time to try at which rate 99.9 % of the ticks are met: that takes 5000 ticks at each rate; measure for longer."
        ),
    };
}
