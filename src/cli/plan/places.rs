//! Where each task runs, and its worst response there, before and after a plan. Pure.

use super::changes::NamedWorker;
use super::input::Input;
use crate::config::Config;
use crate::daemon::layout::{CpuLayout, Layout, MANY_TICKS, Placed, on_cpu};
use crate::time::Span;

/// All placed tasks, in order.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) of: Vec<Place>,
    /// How much time from the start was examined, if not everything.
    pub(super) only: Option<Span>,
}

/// Where a task runs, and its worst response there.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) place: String,
    pub(super) worst: Span,
}

/// How late sleeps on a CPU ended: median, 99th percentile, maximum.
type Late = [(usize, [Span; 3])];

impl Places {
    /// The places in a configuration.
    pub(super) fn before(config: &Config, input: &Input, late: &Late) -> Self {
        let mut places = Self::none(input);
        for (cpu, layout, workers) in &input.now(config) {
            let name = |worker: &usize| match cpu {
                Some(cpu) => format!("{} on CPU {cpu}", config.workers[*worker].name),
                None => format!("{} on no certain CPU", config.workers[*worker].name),
            };
            places.enter(&input.placed, layout, latest(late, *cpu), &workers.iter().map(name).collect::<Vec<_>>());
        }
        places
    }

    /// The places in a plan.
    pub(super) fn after(input: &Input, layout: &Layout, named: &[Vec<NamedWorker>], late: &Late) -> Self {
        let mut places = Self::none(input);
        for ((layout, named), cpu) in layout.cpus.iter().zip(named).zip(&input.cpus) {
            let names: Vec<_> = named.iter().map(|worker| format!("{} on CPU {}", worker.name, worker.cpu)).collect();
            places.enter(&input.placed, layout, latest(late, Some(*cpu)), &names);
        }
        places
    }

    fn none(input: &Input) -> Self {
        Self { of: vec![Place::default(); input.placed.len()], only: None }
    }

    /// The worst response of the task at this index.
    pub(super) fn worst(&self, position: usize) -> Span {
        self.of[position].worst
    }

    /// Adds where the tasks of a CPU run, and their worst responses.
    fn enter(&mut self, tasks: &[Placed], cpu: &CpuLayout, late: Span, names: &[String]) {
        // A late wake-up may keep tasks out of each other's way, so the worst case may be without one.
        let responses = [Span::ZERO, late].map(|late| on_cpu(tasks, cpu, late, MANY_TICKS));
        for responses in &responses[..if late > Span::ZERO { 2 } else { 1 }] {
            self.only = [self.only, responses.only].into_iter().flatten().min();
            for ((worker, worst), name) in cpu.workers.iter().zip(&responses.worst).zip(names) {
                for ((task, _), worst) in worker.tasks.iter().zip(worst) {
                    self.of[*task] = Place { place: name.clone(), worst: self.of[*task].worst.max(*worst) };
                }
            }
        }
    }
}

/// How late sleeps on this CPU ended at most; on any CPU if `cpu` is not certain. Zero if that is unknown.
fn latest(late: &Late, cpu: Option<usize>) -> Span {
    let of = late.iter().filter(|(on, _)| cpu.is_none_or(|cpu| cpu == *on)).map(|(_, [.., most])| *most);
    of.max().unwrap_or_default()
}
