//! The results of a run and the condition of a daemon, as they appear in JSON: one model for writers and readers.
//!
//! Plain values, and the judgement whether all is well. Fields are only ever added. A daemon of another version may leave out any field,
//! which is then zero or `None`. It may also use unknown words, which are kept as they are. Lists of large elements have limits.

mod bounds;
mod counts;
mod daemon;
mod distribution;
mod few;
mod summary;
mod sums;
mod task;
mod value;
mod well;

pub(crate) use bounds::{AtMost, BOUNDS, beside};
pub(crate) use counts::{Causes, Counts, Share};
pub(crate) use daemon::{AlarmSummary, BusySummary, DaemonSummary};
#[cfg(feature = "exporter")]
pub(crate) use distribution::Added;
pub(crate) use distribution::Distribution;
pub use summary::Summary;
pub(crate) use summary::{
    AskedSummary, ClockStepSummary, CoolSummary, EndedRecordingSummary, FlightSummary, GrantedSummary, GuardSummary,
    HostSummary, JournalSummary, Policy, ReadbackSummary, RecordsSummary, WorkerSummary, list,
};
pub(crate) use sums::{BeforeReloadDropped, Sums};
pub(crate) use task::TaskSummary;
pub(crate) use task::{HeldSummary, LatencySummary, MissSummary, RecordedSummary, TaskState, WindowSummary};
pub(crate) use value::{InputSummary, ValueSummary};
pub(crate) use well::{LASTING, exceeds, is_troubled, trouble, trouble_now};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_version_is_read_and_its_words_stay() {
        let text = r#"{"tasks":[{"task":"a","state":"resting","due":3,"missed":2,"causes":{"moonlight":2},"late_chains":1,"later":{},
            "lateness_ns":{"count":2,"sum":1e30,"at_most":[[2000,1]]}},{"max_latency_ns":9,"late_chains":1}],
            "workers":[{"granted":{"policy":"idle","priority":3,"cpus":[1]},"asked":{"policy":"fifo","cpus":[0]}}],"also":[1]}"#;
        let read: Summary = serde_json::from_str(text).unwrap();
        let (task, worker) = (&read.tasks[0], &read.workers[0]);
        assert_eq!((task.state.word(), task.state.is_fine(), task.causes["moonlight"]), ("resting", false, 2));
        assert_eq!((task.counts.due, task.counts.met, task.counts.pending), (3, 0, None));
        assert_eq!(
            (task.latency.is_none(), read.tasks[1].latency.as_ref().map(|all| all.late_chains)),
            (true, Some(1))
        );
        assert_eq!((task.lateness_ns.sum > i64::MAX.into(), task.lateness_ns.at_most.at(5_000)), (true, 1));
        assert_eq!(
            (worker.granted.policy.to_string().as_str(), worker.is_otherwise(), worker.is_elsewhere()),
            ("idle 3", true, true)
        );
        assert!(!read.well && read.daemon.is_none());
        // What is written can be read again.
        let written = serde_json::to_string(&read).unwrap();
        let again: Summary = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
    }
}
