//! What a task passes to the recorder, and what the recorder reports about it. Plain values.

use super::content::Content;
use super::noted::WatchedInput;
use super::recordings::Recording;
use crate::channels::{BlockReceiver, RowReceiver, Traffic};
use crate::snapshot::{InputSummary, RecordedSummary, ValueSummary};
use crate::sys::clock::KernelClock;
use crate::time::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one task produces for the recorder.
#[derive(Debug)]
pub(crate) struct TaskOutput {
    pub id: u32,
    pub clock: KernelClock,            // the clock of its releases
    pub content: Content,              // what there is to record
    pub inputs: Vec<WatchedInput>,     // what the task takes from others
    pub rows: RowReceiver,             // the recorder's end of its queue of rows
    pub blocks: Option<BlockReceiver>, // the recorder's end of its queue of blocks; `None`: they are not recorded
    pub recording: Option<Recording>,  // where it is recorded, if anywhere
    pub ticks: Option<Arc<Traffic>>,   // the traffic of its ticks to the recorder; `None`: they are not recorded
}

/// What was recorded of one task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutputState {
    pub id: u32,
    pub task: String,
    pub values: BTreeMap<String, ValueSummary>, // its values, by name
    pub inputs: BTreeMap<String, InputSummary>, // its inputs that are bad, by the name of the value
    pub recorded: Option<RecordedSummary>,      // the recording, if there is one
    pub dropped: u64,                           // the part of the losses that found no room in the queues
    pub at: Instant,                            // time of this state, on the monotonic clock
    pub lost_at: Option<Instant>,               // when the recording last lost something
}

/// What a task's ended recordings lost, not counting replaced data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastLoss {
    pub path: String, // of the most recent loss
    pub lost: u64,
    pub lost_at: Instant, // of the most recent loss
}

impl PastLoss {
    /// Adds what another recording of the task lost, and returns that number.
    pub(crate) fn add(past: &mut BTreeMap<String, Self>, state: &OutputState) -> u64 {
        let Some(recorded) = &state.recorded else { return 0 };
        let lost = recorded.lost.saturating_sub(recorded.replaced);
        if lost > 0 {
            let (path, lost_at) = (recorded.path.clone(), state.lost_at.unwrap_or(state.at));
            past.entry(state.task.clone())
                .and_modify(|known| {
                    known.path.clone_from(&path);
                    known.lost += lost;
                    known.lost_at = known.lost_at.max(lost_at);
                })
                .or_insert(Self { path, lost, lost_at });
        }
        lost
    }
}
