//! The metrics thread's answer to a request for its counts. Plain values.

use super::alarms::AlarmState;
use crate::metrics::TaskSnapshot;
use crate::snapshot::{BeforeReloadDropped, Distribution};
use std::collections::BTreeMap;

/// How much a view includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything.
    Full,
    /// Everything, for the last time: state that later views would need is dropped.
    Last,
    /// No distributions, whose percentiles take long with many tasks.
    Brief,
}

/// The metrics at one moment.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) tasks: Vec<(u32, TaskSnapshot)>, // ordered by number
    pub(crate) oversleeps: BTreeMap<usize, Distribution>,
    pub(crate) before_reload_dropped: Option<BeforeReloadDropped>,
    pub(crate) alarms: Option<Vec<AlarmState>>, // by task name; None: there are no alarms
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
}

impl View {
    pub(crate) fn task(&self, id: u32) -> Option<&TaskSnapshot> {
        self.position(id).map(|position| &self.tasks[position].1)
    }

    /// Takes over the distributions of an earlier view, which loses them.
    pub(super) fn inherit_spans(&mut self, mut earlier: Self) {
        for (id, task) in &mut self.tasks {
            task.spans = earlier.position(*id).and_then(|position| earlier.tasks[position].1.spans.take());
        }
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.tasks.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}
