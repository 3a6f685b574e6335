//! What is entered between two instants, entered again without its records: for a simulation that repeats itself.
//!
//! Arithmetic on histograms and counts. Time is an argument; nothing blocks.

use super::histogram::Histogram;
use super::recent::Recent;
use super::task::{Blockers, TaskMetrics, enter_ticks};
use super::timeline::{LOOK_BACK, Timeline};
use super::{Cause, LateCounts, Metrics};
use crate::time::Span;

/// No verdict depends on more ticks than these, but for what it has learned about the tasks.
pub(crate) const REMEMBERED: u64 = LOOK_BACK as u64;

/// All that is known of a worker and its tasks at an instant.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    oversleep: Histogram,
    timeline: Timeline,
    tasks: Vec<(u32, TaskMark)>,
}

#[derive(Clone, Debug)]
struct TaskMark {
    lateness: Histogram,
    run: Histogram,
    response: Histogram,
    ages: Option<Box<Histogram>>,
    late_chains: Option<LateCounts>,
    causes: Option<Box<[u64; Cause::ALL.len()]>>,
    blockers: Option<Box<Blockers>>,
    usual: Span,
}

impl Mark {
    /// Whether verdicts on the same records, `by` later, are the same as they were after `earlier`.
    pub(crate) fn judges_as(&self, earlier: &Self, by: Span) -> bool {
        let usual = |mark: &Self| mark.tasks.iter().map(|(id, task)| (*id, task.usual)).collect::<Vec<_>>();
        usual(self) == usual(earlier) && self.timeline.is(&earlier.timeline, by)
    }
}

impl Metrics {
    /// Where a worker and its tasks are now; `None`: there is no such worker.
    pub(crate) fn mark(&self, worker: usize) -> Option<Mark> {
        let mark_of = |(id, task, recent): (u32, &TaskMetrics, &Recent)| {
            let TaskMetrics { lateness, run, response, ages, late_chains, causes, blockers, usual, .. } = task;
            let (causes, blockers) = (causes.clone(), blockers.clone());
            let (lateness, run, response) = (lateness.clone(), run.clone(), response.clone());
            let (ages, late_chains) = (ages.clone(), late_chains.as_ref().map(|late| late.counts.clone()));
            let mut mark = TaskMark { lateness, run, response, ages, late_chains, causes, blockers, usual: *usual };
            let TaskMark { lateness, run, response, usual, .. } = &mut mark;
            enter_ticks(recent, [lateness, run, response], usual);
            (id, mark)
        };
        let of_worker = self.tasks.iter().filter(|(_, task, _)| task.facts.worker == worker);
        Some(Mark {
            oversleep: self.workers.get(&worker)?.oversleep.clone(),
            timeline: self.threads.by_worker.get(&worker)?.timeline.clone(),
            tasks: of_worker.map(mark_of).collect(),
        })
    }

    /// Enters `times` more times what a worker and its tasks did between two marks. Minima and maxima do not change by that,
    /// and events are not repeated.
    pub(crate) fn repeat(&mut self, worker: usize, from: &Mark, to: &Mark, times: u64) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.oversleep.repeat(&from.oversleep, &to.oversleep, times);
        }
        for ((id, from), (_, to)) in from.tasks.iter().zip(&to.tasks) {
            let Some(task) = self.tasks.entered(*id) else { continue };
            task.lateness.repeat(&from.lateness, &to.lateness, times);
            task.run.repeat(&from.run, &to.run, times);
            task.response.repeat(&from.response, &to.response, times);
            if let (Some(ages), Some(to)) = (&mut task.ages, &to.ages) {
                let none = Histogram::new(2);
                ages.repeat(from.ages.as_deref().unwrap_or(&none), to, times);
            }
            if let (Some(late), Some(from), Some(to)) = (&mut task.late_chains, &from.late_chains, &to.late_chains) {
                late.counts.repeat(from, to, times);
            }
            let none = || Box::new([0; Cause::ALL.len()]);
            if let Some(to) = &to.causes {
                let from = from.causes.clone().unwrap_or_else(none);
                let counts = task.causes.get_or_insert_with(none).iter_mut();
                counts.zip(to.iter().zip(from.iter())).for_each(|(count, (to, from))| *count += (to - from) * times);
            }
            for (by, (name, count)) in to.blockers.iter().flat_map(|blockers| blockers.iter()) {
                let before =
                    from.blockers.as_ref().and_then(|blockers| blockers.get(by)).map_or(0, |(_, count)| *count);
                task.blockers.get_or_insert_default().entry(*by).or_insert_with(|| (name.clone(), 0)).1 +=
                    (count - before) * times;
            }
        }
    }

    /// Takes a worker, its tasks and all that is known of them from `other`, where they have the same numbers.
    pub(crate) fn take_over(&mut self, number: usize, mut other: Self) {
        self.workers.extend(other.workers.remove_entry(&number));
        self.threads.by_worker.extend(other.threads.by_worker.remove_entry(&number));
        self.tasks.take_over(number, other.tasks);
    }
}
