//! From the metrics thread to the recorder: the ticks of tasks that are recorded with them, and which tasks have ended.
//!
//! Both ends are cool; neither waits for the other, and what finds no room is counted.

use crate::channels::{TickRecord, Traffic};
use crate::metrics::Cause;
use crate::recording::RecordedTick;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many ticks may lie between the two: more than come in while a disk hesitates for a second.
pub(super) const ROOM: usize = 1 << 18;

/// What the metrics thread tells the recorder.
#[derive(Debug)]
pub(super) enum Passed {
    Tick(RecordedTick),
    /// Nothing more comes of this task, neither ticks nor values nor blocks.
    Gone(u32),
}

/// The end of the metrics thread.
#[derive(Debug)]
pub(super) struct TickFeed {
    passed: Sender<Passed>,
    wanted: BTreeMap<u32, Arc<Traffic>>,
}

/// Both ends. The channel grows with what lies in it: most runs need none of it.
pub(super) fn feed() -> (TickFeed, Receiver<Passed>) {
    let (passed, receiver) = unbounded();
    (TickFeed { passed, wanted: BTreeMap::new() }, receiver)
}

impl TickFeed {
    /// From now on the ticks of this task are wanted.
    pub(super) fn want(&mut self, id: u32, traffic: Arc<Traffic>) {
        self.wanted.insert(id, traffic);
    }

    /// This task has ended, and its last tick was offered. It goes the way of the ticks, so that the recorder hears of it
    /// after all of them.
    pub(super) fn forget(&mut self, id: u32) {
        self.wanted.remove(&id);
        // Nobody hears it once the recorder has ended.
        let _ = self.passed.send(Passed::Gone(id));
    }

    /// Hands over a tick, if it is wanted; `cause` is that of its overrun.
    pub(super) fn offer(&self, record: &TickRecord, cause: Option<Cause>) {
        let Some(traffic) = self.wanted.get(&record.task) else { return };
        let line = RecordedTick {
            task: record.task,
            n: record.n,
            release: record.release,
            lateness: record.lateness,
            response: record.response,
            skipped: record.skipped(),
            cause,
        };
        traffic.count(self.passed.len() < ROOM && self.passed.send(Passed::Tick(line)).is_ok());
    }
}
