//! `hertzd measure`: how punctual this machine is. Measures wake-ups of plain sleeps, ticks of the worker's loop with and without a spin
//! tail, holes, and the cost of a clock reading and of a record. All of this is measured idle, and on request also under a load that the
//! measurement generates.
//!
//! Everything is measured in consecutive rounds: the differences between rounds separate real differences from noise. Sleeps and ticks are
//! measured on all CPUs at once, as cyclictest does; holes on one CPU after another, because they take the whole CPU. Time comes from the
//! kernel's monotonic clock. Blocks. While they measure, the measuring threads make no system calls except those being measured.

mod advise;
mod burden;
mod compare;
mod costs;
mod holes;
mod options;
mod rates;
mod result;
mod sleeper;
mod ticks;
mod totals;
mod watch;

pub(crate) use advise::tail_harms;
pub(crate) use compare::{Comparison, Quantity, Rounds, Verdict};
pub(crate) use options::Options;
pub(crate) use result::{
    BEYOND, Condition, CpuMeasured, Measured, Price, Recommendation, Spread, Ticks, Trial, VERSION, needed,
};
pub(crate) use watch::Watch;

use crate::config::Scheduling;
use crate::pacing::Tail;
use crate::snapshot::HostSummary;
use crate::sys::clock::KernelClock;
use crate::sys::grant::{self, Privilege};
use crate::sys::host::Host;
use crate::sys::memory;
use crate::time::{Clock, Span};
use crate::worker::Refusal;
use burden::Burden;
use options::{HOLES, RATES, SLEEPS, TICKS};
use result::Asked;
use std::io;
use ticks::Spec;
use totals::Totals;

/// The share of a CPU that a learned tail may take; the configuration's default.
const SPIN_CPU_MAX: f64 = 0.05;

/// Runs the measurement. If it is stopped, the result is what was measured so far, and `complete` is false.
///
/// # Errors
/// A thread could not be started, or got no CPU time.
pub(crate) fn measure(options: &Options, watch: &mut Watch<'_>) -> io::Result<Measured> {
    let clock = KernelClock::monotonic();
    let begun = clock.now();
    let (memory_locked, locking) = lock_memory();
    let latency = memory::hold_cpu_latency();
    let mut totals = Totals::of(options);
    totals.refused.extend(locking);
    let scheduling = Scheduling::Fifo { priority: options.priority };
    for _ in 0..options.rounds() {
        for load in options.conditions().iter().copied() {
            round(options, scheduling, load, &mut totals, watch)?;
        }
        if !watch.stopping() {
            costs::costs(options.cpus[0], scheduling, watch, &mut totals.costs)?;
        }
    }
    let mut recommendation = advise::advise(&totals.cpus(), options.rate.period().nanos());
    if let Some(recommendation) = &mut recommendation {
        let length = Span::from_nanos(options.length.nanos() / 100 * RATES);
        rates::try_rates(recommendation, &totals.cpus(), scheduling, length, watch)?;
    }
    let Host { kernel, cpus, preempt, clocksource, .. } = Host::read();
    Ok(Measured {
        version: VERSION,
        command: "measure".into(),
        complete: !watch.stopping(),
        asked: Asked {
            for_ns: options.length.nanos(),
            rate: format!("{}/{}", options.rate.num(), options.rate.den()),
            period_ns: options.rate.period().nanos(),
            rounds: u32::try_from(options.rounds()).unwrap_or(u32::MAX),
            cpus: options.cpus.clone(),
            load: options.load,
            priority: options.priority,
        },
        took_ns: (clock.now() - begun).nanos(),
        host: HostSummary { kernel, cpus, preempt, clocksource },
        memory_locked,
        cpu_latency_held: latency.is_ok(),
        refused: totals.refused(),
        cpus: totals.cpus(),
        costs: totals.costs,
        recommendation,
    })
}

/// One round, idle or under load. Parts that were interrupted do not count.
fn round(
    options: &Options,
    scheduling: Scheduling,
    load: bool,
    totals: &mut Totals,
    watch: &mut Watch<'_>,
) -> io::Result<()> {
    let Options { cpus, rate, .. } = options;
    let _burden = if load && !watch.stopping() { Some(Burden::on(cpus)?) } else { None };
    let under = if load { ", under load" } else { "" };
    if watch.stopping() {
        return Ok(());
    }
    let slept =
        sleeper::sleep(cpus, scheduling, rate.period(), options.part(SLEEPS), &format!("sleeps{under}"), watch)?;
    if !watch.stopping() {
        totals.slept(load, slept);
    }
    for (spin, tail) in [("off", Tail::Off), ("auto", Tail::Auto { cpu_max: SPIN_CPU_MAX, target: None })] {
        if watch.stopping() {
            return Ok(());
        }
        let spec = Spec { scheduling, rate: *rate, tail, length: options.part(TICKS) };
        let ticked = ticks::tick(cpus, spec, &format!("ticks, spin {spin}{under}"), watch)?;
        if !watch.stopping() {
            totals.ticked(load, spin, tail, ticked);
        }
    }
    if !watch.stopping() {
        let holes = holes::look(cpus, scheduling, options.part(HOLES), &format!("holes{under}"), watch)?;
        totals.looked(load, &holes);
    }
    Ok(())
}

/// Whether the memory is locked, and what was refused.
fn lock_memory() -> (bool, Option<Refusal>) {
    match memory::lock() {
        Ok(_) => (memory::locked_bytes() > 0, None),
        Err(reason) => {
            let remedy = grant::remedy(Privilege::LockedMemory);
            (false, Some(Refusal::new("locked memory", &reason, "page faults may make single wake-ups late", remedy)))
        }
    }
}
