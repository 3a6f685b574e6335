//! What a run has come to and how a daemon is doing, as JSON has it: one model for whoever writes it and for all who read it.
//!
//! Plain values, and whether all is well by them. Fields are only ever added.

mod bounds;
mod distribution;
#[cfg(any(feature = "top", feature = "exporter"))]
mod few;
mod summary;
mod sums;
mod task;
mod well;

pub(crate) use bounds::{AtMost, BOUNDS, beside};
pub(crate) use distribution::Distribution;
#[cfg(feature = "top")]
pub(crate) use few::many_if_any;
#[cfg(any(feature = "top", feature = "exporter"))]
pub(crate) use few::{MANY, few};
pub use summary::Summary;
pub(crate) use summary::{
    AskedSummary, ClockStepSummary, CoolSummary, EndedRecordingSummary, FlightSummary, GrantedSummary, GuardSummary,
    HostSummary, JournalSummary, ReadbackSummary, RecordsSummary, ThreadPolicySummary, WorkerSummary,
};
pub(crate) use sums::{Added, BeforeReload, BeforeReloadDropped};
pub(crate) use task::{
    HeldSummary, LatencySummary, MissSummary, PastSummary, RecordedSummary, ValueSummary, WindowSummary,
};
pub use task::{TaskState, TaskSummary};
pub(crate) use well::{exceeds, is_troubled, trouble, trouble_now};
