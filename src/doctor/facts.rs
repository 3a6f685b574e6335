//! What the findings are drawn from: all that was tried and read. Plain data, so that tests can make it up.

use super::finding::Mend;
use crate::sys::machine::Machine;
use crate::sys::memory::Locked;
use crate::sys::rights::Rights;
use crate::time::Span;
use crate::worker::{Granted, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// Everything that is known.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) machine: Machine,
    pub(crate) rights: Rights,
    pub(crate) trial: Trial,
    /// The unit that hertzd runs in, or else the installed one; or why there is none to see.
    pub(crate) unit: Result<Unit, String>,
    /// What a look at the tasks' devices, files and recordings found, for each user whose rights it had.
    pub(crate) looks: Vec<Look>,
    /// What is demanded of each CPU, and whether that is too much.
    pub(crate) demands: Vec<Demand>,
    /// The configuration is that of the service, or this process is the service.
    pub(crate) is_for_service: bool,
    /// How far the clock `tai` is ahead of UTC.
    pub(crate) tai_ahead: Span,
    /// What a reading of the clock takes, on average, in the best of several batches.
    pub(crate) clock_read: Span,
    /// What it takes by a system call; `None`: there is no such call.
    pub(crate) clock_call: Option<Span>,
}

/// What the kernel granted when it was asked as by a start.
#[derive(Debug)]
pub(crate) struct Trial {
    /// For each worker, in the order of the configuration; or why it has no thread.
    pub(crate) workers: Vec<Result<Granted, String>>,
    /// The priority of the thread that has safe values written, and whether it was granted; `None`: there is none, or it asks for nothing.
    pub(crate) guard: Option<(u8, Result<(), Refusal>)>,
    pub(crate) memory: Result<Locked, Refusal>,
    /// Why `/dev/cpu_dma_latency` could not be held.
    pub(crate) cpu_latency: io::Result<()>,
}

/// A unit's properties, as `systemctl show` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) name: String,
    /// This process was started by it, so that its rights are those that were tried.
    pub(crate) is_own: bool,
    values: BTreeMap<String, Vec<String>>,
}

impl Unit {
    /// From lines such as `RestrictRealtime=no`, where a key may come several times.
    pub(crate) fn parse(name: &str, is_own: bool, text: &str) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            values.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        Self { name: name.to_owned(), is_own, values }
    }

    /// The first value of a property; empty if there is none.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.values.get(key).and_then(|values| values.first()).map_or("", String::as_str)
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.values.get(key).into_iter().flatten().map(String::as_str)
    }

    pub(crate) fn says_yes(&self, key: &str) -> bool {
        self.get(key) == "yes"
    }

    /// Whether its filter allows this system call, by its name.
    pub(crate) fn allows_call(&self, call: &str) -> bool {
        let filter = self.get("SystemCallFilter");
        match filter.strip_prefix('~') {
            _ if filter.is_empty() => true,
            // What is left out, with an errno behind it where it has its own.
            Some(refused) => !refused.split_whitespace().any(|name| name.split(':').next() == Some(call)),
            None => filter.split_whitespace().any(|name| name == call),
        }
    }
}

/// What a process of another user found when it looked at what a start would open: in words alone, as that user may do what it likes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServiceView {
    pub(crate) tasks: usize,
    pub(crate) refused: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

/// A look at what a start would open, by one user.
#[derive(Debug)]
pub(crate) struct Look {
    /// `this user`, `the service's user hertzd`.
    pub(crate) who: String,
    pub(crate) is_service: bool,
    /// The number of tasks that were looked at, or why none was.
    pub(crate) tasks: Result<usize, String>,
    pub(crate) refused: Vec<Refused>,
    /// What may keep tasks from a start, but need not.
    pub(crate) warnings: Vec<String>,
    /// What only a start finds out.
    pub(crate) unknown: Vec<String>,
}

/// What a task could not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) what: String, // begins with the task and the key
    pub(crate) mend: Vec<Mend>,
}

/// What `check` says of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) label: String,
    pub(crate) sum: String,
    pub(crate) too_much: Option<String>,
}
