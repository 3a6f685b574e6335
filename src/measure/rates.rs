//! The highest rate at which 99.9 % of ticks are met, found by trial with the worker's own loop.

use super::advise::{RATES, first_rate};
use super::burden::Burden;
use super::result::{BEYOND, CpuMeasured, Recommendation, Trial};
use super::ticks::{Spec, tick};
use super::watch::Watch;
use crate::config::Scheduling;
use crate::pacing::{Rate, Tail};
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Span};
use std::io;

/// The number of ticks needed to show whether one in a thousand is missed.
const TICKS: u64 = BEYOND * 1_000;

/// Minimum duration of a trial: several periods of anything else that runs.
const SHORTEST: Span = Span::from_millis(100);

/// Tries rates on the recommended CPU with the recommended tail, under load if the recommendation is based on load. Goes upwards from the
/// first rate until one is not met, or downwards until one is. Takes about `length` at most.
pub(super) fn try_rates(
    recommendation: &mut Recommendation,
    cpus: &[CpuMeasured],
    scheduling: Scheduling,
    length: Span,
    watch: &mut Watch<'_>,
) -> io::Result<()> {
    let cpu = cpus.iter().find(|cpu| cpu.cpu == recommendation.cpu);
    let Some(condition) = cpu.and_then(CpuMeasured::hardest) else { return Ok(()) };
    let clock = KernelClock::monotonic();
    let end = clock.now() + length;
    let _burden = if condition.load && !watch.stopping() { Some(Burden::on(&[recommendation.cpu])?) } else { None };
    let tail = match recommendation.spin_cpu_max {
        Some(cpu_max) if recommendation.spin => Tail::Auto { cpu_max, target: None },
        _ => Tail::Off,
    };
    let mut at = first_rate(condition);
    while !watch.stopping() && clock.now() + lasts(RATES[at]) <= end {
        let trial = one(RATES[at], recommendation.cpu, scheduling, tail, watch)?;
        if watch.stopping() {
            break;
        }
        let tried_above = recommendation.tried.iter().any(|tried| tried.hertz > trial.hertz);
        recommendation.tried.push(trial);
        if trial.holds() {
            recommendation.highest_rate = Some(trial.hertz);
            if tried_above || at + 1 == RATES.len() {
                break;
            }
            at += 1;
        } else {
            if recommendation.highest_rate.is_some() || at == 0 {
                break;
            }
            at -= 1;
        }
    }
    Ok(())
}

fn lasts(hertz: u64) -> Span {
    Span::from_nanos(i64::try_from(TICKS * 1_000_000_000 / hertz).unwrap_or(i64::MAX)).max(SHORTEST)
}

fn one(hertz: u64, cpu: usize, scheduling: Scheduling, tail: Tail, watch: &mut Watch<'_>) -> io::Result<Trial> {
    let Some(rate) = Rate::new(hertz, 1) else { return Ok(Trial::default()) };
    let spec = Spec { scheduling, rate, tail, length: lasts(hertz) };
    let ticked = tick(&[cpu], spec, &format!("ticks at {hertz} Hz"), watch)?;
    let (due, met) = ticked.iter().fold((0, 0), |(due, met), one| (due + one.counts.due, met + one.counts.met));
    Ok(Trial { hertz, due, met, enough: due >= TICKS })
}
