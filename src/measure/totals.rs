//! Adds up the rounds.

use super::options::Options;
use super::result::{Condition, Costs, CpuMeasured, Granted, Holes, Refused, Round, Spread, Ticks};
use super::sleeper::Slept;
use super::ticks::Ticked;
use crate::metrics::Histogram;
use crate::pacing::Tail;
use crate::snapshot::{Counts, Policy};
use crate::worker::{self, Refusal};

/// The totals so far.
pub(super) struct Totals {
    cpus: Vec<Cpu>,
    pub(super) costs: Costs,
    pub(super) refused: Vec<Refusal>,
}

struct Cpu {
    measured: CpuMeasured,
    histograms: Vec<Histograms>, // one per condition
}

struct Histograms {
    sleep: Histogram,
    ticks: Vec<Histogram>, // one per tail
}

impl Totals {
    pub(super) fn of(options: &Options) -> Self {
        let cpu =
            |cpu: &usize| Cpu { measured: CpuMeasured { cpu: *cpu, ..CpuMeasured::default() }, histograms: Vec::new() };
        Self { cpus: options.cpus.iter().map(cpu).collect(), costs: Costs::default(), refused: Vec::new() }
    }

    /// Each CPU with at least one measurement.
    pub(super) fn cpus(&self) -> Vec<CpuMeasured> {
        let measured = self.cpus.iter().filter(|cpu| !cpu.measured.conditions.is_empty());
        let complete = |cpu: &Cpu| {
            let mut measured = cpu.measured.clone();
            for (condition, histograms) in measured.conditions.iter_mut().zip(&cpu.histograms) {
                condition.sleep.oversleep_ns = Spread::of(&histograms.sleep);
                for (ticks, histogram) in condition.ticks.iter_mut().zip(&histograms.ticks) {
                    ticks.lateness_ns = Spread::of(histogram);
                }
            }
            measured
        };
        measured.map(complete).collect()
    }

    /// What was refused, without duplicates.
    pub(super) fn refused(&self) -> Vec<Refused> {
        let mut all: Vec<Refused> = Vec::new();
        for Refusal { what, reason, meaning, remedy, .. } in self.refused.iter().cloned() {
            let one = Refused { what, reason, meaning, remedy };
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    pub(super) fn slept(&mut self, load: bool, all: Vec<Slept>) {
        for (cpu, slept) in self.cpus.iter_mut().zip(all) {
            grant(&mut self.refused, cpu, slept.granted);
            let (condition, histograms) = cpu.condition(load);
            condition.sleep.rounds.push(Round::of(&slept.late));
            condition.sleep.passed_over += slept.passed_over;
            histograms.sleep.merge(&slept.late);
        }
    }

    pub(super) fn ticked(&mut self, load: bool, spin: &str, tail: Tail, all: Vec<Ticked>) {
        for (cpu, ticked) in self.cpus.iter_mut().zip(all) {
            grant(&mut self.refused, cpu, ticked.granted.clone());
            let (condition, histograms) = cpu.condition(load);
            let known = condition.ticks.iter().position(|ticks| ticks.spin == spin);
            let at = known.unwrap_or_else(|| {
                let spin_cpu_max = match tail {
                    Tail::Auto { cpu_max, .. } => Some(cpu_max),
                    Tail::Off | Tail::Fixed(_) => None,
                };
                condition.ticks.push(Ticks { spin: spin.into(), spin_cpu_max, ..Ticks::default() });
                histograms.ticks.push(Histogram::new(3));
                condition.ticks.len() - 1
            });
            histograms.ticks[at].merge(&ticked.lateness);
            enter(&mut condition.ticks[at], &ticked);
        }
    }

    pub(super) fn looked(&mut self, load: bool, all: &[Holes]) {
        for (cpu, holes) in self.cpus.iter_mut().zip(all) {
            let known = &mut cpu.condition(load).0.holes;
            if holes.longest_ns > known.longest_ns {
                known.longest_ns = holes.longest_ns;
                known.longest_was_preemption = holes.longest_was_preemption;
            }
            known.looked_ns += holes.looked_ns;
            known.over_10us += holes.over_10us;
            known.lost_ns += holes.lost_ns;
            known.steal_ns += holes.steal_ns;
        }
    }
}

impl Cpu {
    fn condition(&mut self, load: bool) -> (&mut Condition, &mut Histograms) {
        let conditions = &mut self.measured.conditions;
        let at = conditions.iter().position(|condition| condition.load == load).unwrap_or_else(|| {
            conditions.push(Condition { load, ..Condition::default() });
            self.histograms.push(Histograms { sleep: Histogram::new(3), ticks: Vec::new() });
            conditions.len() - 1
        });
        (&mut conditions[at], &mut self.histograms[at])
    }
}

fn enter(ticks: &mut Ticks, ticked: &Ticked) {
    let Counts { ran, skipped, overruns, .. } = ticked.counts;
    ticks.counts.enter(ran, skipped, overruns);
    ticks.records_dropped += ticked.dropped;
    ticks.elapsed_ns += ticked.elapsed.nanos();
    ticks.cpu_ns += ticked.cpu.nanos();
    ticks.spin_ns += ticked.spun.nanos();
    ticks.rounds.push(Round::of(&ticked.lateness));
}

/// Records what was granted: the least of all rounds.
fn grant(refused: &mut Vec<Refusal>, cpu: &mut Cpu, granted: worker::Granted) {
    let number = cpu.measured.cpu;
    let policy = Policy { name: granted.policy.into(), priority: granted.priority };
    let now = Granted { policy, pinned: granted.cpus == [number] };
    let known = &mut cpu.measured.granted;
    if known.policy.name.is_empty() || granted.not_realtime || !now.pinned {
        *known = now;
    }
    refused.extend(granted.refused);
}
