//! Reads a run from a flight file: its ticks, the machine, and what the workers were granted. Pure.

use super::model::{Available, Kind, Run, Source, Worker};
use super::ticks::of_ticks;
use crate::flight::{Flight, KnownWorker};
use crate::snapshot::{HostSummary, Policy};
use crate::views::Timeline;

/// The run that the file covers, or the part of it that the file still has.
pub(crate) fn of_flight(flight: &Flight, name: &str) -> Run {
    let who = &flight.who;
    let mut run = of_ticks(&Timeline::of(flight), Source { kind: Kind::FlightFile, name: name.to_owned() });
    for task in &mut run.tasks {
        // If a reload replaced a task with another of the same name, take the later one.
        let Some(known) = who.tasks.values().rev().find(|known| known.name == task.task) else { continue };
        task.rate = Some(known.rate.clone()).filter(|rate| !rate.is_empty());
        task.worker = who.workers.get(&known.worker).map(|worker| worker.name.clone());
    }
    run.hertzd = Some(who.run.hertzd.clone()).filter(|version| !version.is_empty());
    if !who.run.kernel.is_empty() {
        run.machine = Available::Known(HostSummary {
            kernel: who.run.kernel.clone(),
            cpus: who.run.cpus,
            preempt: who.run.preempt.clone(),
            clocksource: who.run.clocksource.clone(),
        });
    }
    run.workers = Available::Known(who.workers.values().map(worker).collect());
    if flight.came_round {
        run.notes.insert(
            0,
            "The file keeps the latest ticks: older ones have been overwritten, and are not counted here.".into(),
        );
    }
    if flight.torn > 0 {
        run.notes.push(format!("{} records are torn, and left out.", flight.torn));
    }
    run.notes.push("The lateness is that of the ticks that ran: releases that were given up are counted, but have no lateness here.".into());
    run
}

fn worker(known: &KnownWorker) -> Worker {
    Worker {
        worker: known.name.clone(),
        policy: Policy {
            name: if known.policy.is_empty() { "unknown".into() } else { known.policy.clone().into() },
            priority: known.priority,
        },
        cpus: Some(known.cpus.clone()),
        ..Worker::default()
    }
}
