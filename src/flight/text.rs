//! The names in a flight file: a line of JSON for the process, each worker and each task. Pure.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Known {
    Run(Introduction),
    Worker(KnownWorker),
    Task(KnownTask),
    /// A reload has ended the task with this number; its records stay until the ring overwrites them.
    TaskEnded {
        number: u32,
        at_ns: i64,
    },
    /// A reload has ended the worker with this number.
    WorkerEnded {
        number: u32,
        at_ns: i64,
    },
}

/// The process and its machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Introduction {
    pub(crate) hertzd: String, // its version
    pub(crate) pid: u32,
    pub(crate) began_ns: i64, // on the monotonic clock
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    pub(crate) preempt: String,
    pub(crate) clocksource: String,
}

/// A worker; numbers are never reused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KnownWorker {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) thread: i32,
    pub(crate) clock: String, // of its releases: monotonic, tai, realtime
    pub(crate) cpus: Vec<usize>,
    pub(crate) policy: String,
    pub(crate) priority: u8,
    pub(crate) at_ns: i64,
}

/// A task; numbers are never reused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KnownTask {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) worker: u32,
    pub(crate) rate: String,
    pub(crate) period_ns: i64,
    pub(crate) deadline_ns: i64,
    pub(crate) at_ns: i64,
}

impl Known {
    /// The line, including its line feed.
    pub(crate) fn line(&self) -> String {
        // Only numbers and strings, so this does not fail.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Everything that the lines name.
#[derive(Clone, Debug, Default)]
pub(crate) struct WhoIsWho {
    pub(crate) run: Introduction,
    pub(crate) workers: BTreeMap<u32, KnownWorker>,
    pub(crate) tasks: BTreeMap<u32, KnownTask>,
    pub(crate) ended: BTreeMap<u32, i64>, // tasks that a reload has ended, and when
}

impl WhoIsWho {
    /// Reads the complete lines of a text. The last line may be cut off, and a later version may have lines of other kinds.
    pub(crate) fn of(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            match serde_json::from_str(line) {
                Ok(Known::Run(run)) => all.run = run,
                Ok(Known::Worker(worker)) => _ = all.workers.insert(worker.number, worker),
                Ok(Known::Task(task)) => _ = all.tasks.insert(task.number, task),
                Ok(Known::TaskEnded { number, at_ns }) => _ = all.ended.insert(number, at_ns),
                Ok(Known::WorkerEnded { .. }) | Err(_) => {}
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_off_is_left_out() {
        let task = KnownTask { number: 3, name: "é \" imu".into(), ..KnownTask::default() };
        let run = Introduction { pid: 7, ..Introduction::default() };
        let text = Known::Run(run.clone()).line() + "{\"later\":1}\n" + &Known::Task(task.clone()).line();
        let text = text + &Known::TaskEnded { number: 3, at_ns: 5 }.line() + "{\"task\":{\"number\":4}}";
        let all = WhoIsWho::of(&text);
        assert_eq!((all.run, all.tasks.get(&3), all.tasks.len(), all.ended.get(&3)), (run, Some(&task), 1, Some(&5)));
    }
}
