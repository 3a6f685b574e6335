//! The input of the findings: everything that was tried and read. Plain data, so that tests can make it up.

use super::finding::Mend;
use crate::sys::machine::Machine;
use crate::sys::memory::Locked;
use crate::sys::rights::Rights;
use crate::time::Span;
use crate::worker::{Granted, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// All known facts.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) machine: Machine,
    pub(crate) rights: Rights,
    pub(crate) trial: Trial,
    /// The unit that hertzd runs in, otherwise the installed one; or why neither can be seen.
    pub(crate) unit: Result<Unit, String>,
    /// What previewing the tasks' devices, files and recordings found, for each user whose rights were used.
    pub(crate) looks: Vec<Look>,
    /// The load on each CPU, and whether it is too much.
    pub(crate) demands: Vec<Demand>,
    /// The configuration belongs to the service, or this process is the service.
    pub(crate) is_for_service: bool,
    /// How far the clock `tai` is ahead of UTC.
    pub(crate) tai_ahead: Span,
    /// Average time of one clock reading, in the best of several batches.
    pub(crate) clock_read: Span,
    /// The same through a system call. `None`: no such call exists.
    pub(crate) clock_call: Option<Span>,
}

/// What the kernel granted when asked in the same way as by a start.
#[derive(Debug)]
pub(crate) struct Trial {
    /// For each worker, in the order of the configuration: what was granted, or why it has no thread.
    pub(crate) workers: Vec<Result<Granted, String>>,
    /// The priority of the thread that triggers safe values, and whether it was granted. `None`: there is no such thread, or it asks for
    /// nothing.
    pub(crate) guard: Option<(u8, Result<(), Refusal>)>,
    pub(crate) memory: Result<Locked, Refusal>,
    /// Why `/dev/cpu_dma_latency` could not be held.
    pub(crate) cpu_latency: io::Result<()>,
}

/// A unit's properties, as `systemctl show` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) name: String,
    /// The unit started this process, so the rights that were tried are the unit's.
    pub(crate) is_own: bool,
    values: BTreeMap<String, Vec<String>>,
}

impl Unit {
    /// Parses lines such as `RestrictRealtime=no`. A key may occur several times.
    pub(crate) fn parse(name: &str, is_own: bool, text: &str) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            values.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        Self { name: name.to_owned(), is_own, values }
    }

    /// The first value of a property. Empty if there is none.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.values.get(key).and_then(|values| values.first()).map_or("", String::as_str)
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.values.get(key).into_iter().flatten().map(String::as_str)
    }

    pub(crate) fn says_yes(&self, key: &str) -> bool {
        self.get(key) == "yes"
    }

    /// Whether the unit's filter allows this system call, given by name.
    pub(crate) fn allows_call(&self, call: &str) -> bool {
        let filter = self.get("SystemCallFilter");
        match filter.strip_prefix('~') {
            _ if filter.is_empty() => true,
            // The calls left out; a call with its own errno has it appended.
            Some(refused) => !refused.split_whitespace().any(|name| name.split(':').next() == Some(call)),
            None => filter.split_whitespace().any(|name| name == call),
        }
    }
}

/// What a process of another user found when it previewed what a start would open. Only text, because that user can manipulate the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServiceView {
    pub(crate) tasks: usize,
    pub(crate) refused: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

/// One user's preview of what a start would open.
#[derive(Debug)]
pub(crate) struct Look {
    /// `this user`, `the service's user hertzd`.
    pub(crate) who: String,
    pub(crate) is_service: bool,
    /// The number of tasks that were previewed, or why none was.
    pub(crate) tasks: Result<usize, String>,
    pub(crate) refused: Vec<Refused>,
    /// What may prevent tasks from starting, but need not.
    pub(crate) warnings: Vec<String>,
    /// What only a start can find out.
    pub(crate) unknown: Vec<String>,
}

/// What a task could not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) what: String, // starts with the task and the key
    pub(crate) mend: Vec<Mend>,
}

/// `check`'s verdict on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) label: String,
    pub(crate) sum: String,
    pub(crate) too_much: Option<String>,
}
