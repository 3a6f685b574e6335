//! Where each task runs, and its worst response there, before a plan and after it. Pure.

use super::changes::NamedWorker;
use super::input::Input;
use crate::config::Config;
use crate::daemon::layout::{CpuLayout, Layout, MANY_TICKS, Placed, on_cpu};
use crate::time::Span;

/// All tasks that are placed, in their order.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) of: Vec<Place>,
    /// The time from the start that was looked at, if that is not all.
    pub(super) only: Option<Span>,
}

/// Where a task runs, and its worst response there.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) place: String,
    pub(super) worst: Span,
}

/// How late sleeps on a CPU ended: median, 99th percentile, the latest.
type Late = [(usize, [Span; 3])];

impl Places {
    /// Those of a configuration.
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

    /// Those of a plan.
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

    /// The worst response of the task at this position.
    pub(super) fn worst(&self, position: usize) -> Span {
        self.of[position].worst
    }

    /// Enters where the tasks of a CPU run, and their worst responses.
    fn enter(&mut self, tasks: &[Placed], cpu: &CpuLayout, late: Span, names: &[String]) {
        // A late wake-up may keep tasks out of each other's way: then the worst is without.
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

/// The latest that a sleep ended on this CPU, or, where none is certain, on any; zero if that is not known.
fn latest(late: &Late, cpu: Option<usize>) -> Span {
    let of = late.iter().filter(|(on, _)| cpu.is_none_or(|cpu| cpu == *on)).map(|(_, [.., most])| *most);
    of.max().unwrap_or_default()
}
