//! What is loaded into the processor's caches ahead of its turn: with thousands of tasks nothing of one is there when its next
//! record comes, and a line that is asked for in time costs a tenth of one that is waited for.
//!
//! Decides what is loaded and when; how, is an argument. Nothing waits.

use super::Metrics;
use super::machine::Caches;
use super::recent::Recent;

/// How many turns ahead: the latest ticks of a task, what is kept of it, and what is reached from there.
const LATEST: usize = 16;
const KEPT: usize = 8;
const REACHED: usize = 4;

impl Metrics {
    /// Records of these tasks come next, in this order, after the one at hand: loads what they touch. Beside the latest ticks of the
    /// task that is much only where those are entered together.
    #[inline]
    pub(crate) fn warm_records(&self, coming: impl Fn(usize) -> Option<u32>, caches: &impl Caches) {
        if let Some(latest) = coming(LATEST).and_then(|id| self.tasks.latest(id)) {
            caches.warm(latest);
        }
        let entered = |id: &u32| self.tasks.latest(*id).is_some_and(Recent::is_nearly_full);
        if let Some(task) = coming(KEPT).filter(entered).and_then(|id| self.tasks.get(id)) {
            task.histograms().into_iter().for_each(|histogram| caches.warm(histogram));
        }
        if let Some(task) = coming(REACHED).filter(entered).and_then(|id| self.tasks.get(id)) {
            task.histograms().into_iter().for_each(|histogram| histogram.warm(caches));
        }
    }

    /// The same for [`sample`](Self::sample).
    #[inline]
    pub(crate) fn warm_samples(&self, coming: impl Fn(usize) -> Option<u32>, caches: &impl Caches) {
        if let Some(task) = coming(KEPT).and_then(|id| self.tasks.get(id)) {
            caches.warm(&task.health);
        }
        if let Some(task) = coming(REACHED).and_then(|id| self.tasks.get(id)) {
            task.health.warm(caches);
        }
    }
}
