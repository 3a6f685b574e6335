//! Which worker is on which CPU, and how tight its deadlines are: the basis for weighing findings.

use super::finding::Weight;
use crate::config::{ClockKind, Config, Scheduling, Spin, WorkerConfig};
use crate::time::Span;
use std::collections::BTreeSet;

/// A delay above this share of the shortest deadline is worth more than a note.
const PART_OF_DEADLINE: f64 = 0.1;

/// Maximum number of names to list.
const NAMES: usize = 5;

/// The configured work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a>(pub(super) &'a Config);

impl<'a> Work<'a> {
    pub(super) fn workers(self) -> impl Iterator<Item = (usize, &'a WorkerConfig)> {
        self.0.workers.iter().enumerate()
    }

    /// Whether any worker asks for a real-time policy.
    pub(super) fn is_realtime(self) -> bool {
        self.workers().any(|(_, worker)| worker.scheduling != Scheduling::Other)
    }

    /// The highest priority of all workers.
    pub(super) fn priority(self) -> Option<u8> {
        self.workers().filter_map(|(_, worker)| priority(worker.scheduling)).max()
    }

    pub(super) fn has_deadline_policy(self) -> bool {
        self.workers().any(|(_, worker)| matches!(worker.scheduling, Scheduling::Deadline { .. }))
    }

    pub(super) fn uses(self, clock: ClockKind) -> bool {
        self.workers().any(|(_, worker)| worker.clock == clock)
    }

    pub(super) fn spins(self) -> bool {
        self.workers().any(|(_, worker)| worker.spin != Spin::Off)
    }

    /// The names of a worker's tasks.
    pub(super) fn tasks_of(self, worker: usize) -> String {
        listed(self.0.tasks.iter().filter(|task| task.worker == worker).map(|task| task.name.as_str()))
    }

    /// The task with the shortest deadline, and that deadline.
    pub(super) fn tightest(self) -> (&'a str, Span) {
        let tasks = self.0.tasks.iter().map(|task| (task.name.as_str(), task.deadline));
        tasks.min_by_key(|(_, deadline)| *deadline).unwrap_or(("", Span::ZERO))
    }

    /// CPUs that workers are pinned to.
    pub(super) fn pinned(self) -> BTreeSet<usize> {
        self.workers().flat_map(|(_, worker)| worker.cpus.iter().copied()).collect()
    }

    /// CPUs that workers may run on: all of `online` if any worker is not pinned.
    pub(super) fn cpus(self, online: &[usize]) -> BTreeSet<usize> {
        match self.workers().any(|(_, worker)| worker.cpus.is_empty()) {
            true => online.iter().copied().collect(),
            false => self.pinned(),
        }
    }

    /// The workers that are pinned to this CPU, with their tasks: `worker main (imu, control)`.
    pub(super) fn on(self, cpu: usize) -> String {
        let pinned = self.workers().filter(|(_, worker)| worker.cpus.contains(&cpu));
        let named: Vec<_> =
            pinned.map(|(index, worker)| format!("worker {} ({})", worker.name, self.tasks_of(index))).collect();
        named.join(", ")
    }

    /// How serious a delay of this length is, and a clause that says so.
    pub(super) fn weigh(self, delay: Span) -> (Weight, String) {
        let (task, deadline) = self.tightest();
        let part = delay.seconds() / deadline.seconds();
        let weight = if part >= PART_OF_DEADLINE { Weight::Harms } else { Weight::Minor };
        let part = part * 100.0;
        let part = if part < 0.1 { "less than 0.1 %".to_owned() } else { format!("{part:.1} %") };
        (weight, format!("{part} of the shortest deadline, {deadline} of task {task}"))
    }
}

/// Joins names: `a, b, c, d, e and 3 more`.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    match names.len() {
        ..=NAMES => names.join(", "),
        all => format!("{} and {} more", names[..NAMES].join(", "), all - NAMES),
    }
}

pub(super) const fn priority(scheduling: Scheduling) -> Option<u8> {
    match scheduling {
        Scheduling::Fifo { priority } | Scheduling::Rr { priority } => Some(priority),
        Scheduling::Deadline { .. } | Scheduling::Other => None,
    }
}

/// CPUs in the kernel's notation, `0-3,8`, as accepted in units and on the kernel's command line.
pub(super) fn cpu_list(cpus: impl IntoIterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus.into_iter().collect::<BTreeSet<_>>() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let written =
        |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(written).collect::<Vec<_>>().join(",")
}
