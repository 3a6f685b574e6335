//! The kinds of events. Each has an id that never changes, for `journalctl MESSAGE_ID=` and the message catalog (`systemd/hertzd.catalog`).
//!
//! Constants only: no clock, no allocation. A published id stays even if its text changes. A new kind of event gets a new id (`journalctl
//! --new-id128`), an entry in the catalog, and the fields that all its events carry.

use crate::metrics::EventKind;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// Releases were missed, and some ticks finished after their deadline.
    Overrun,
    /// Releases were missed, and all of them were given up.
    Skipped,
    /// Ticks ran longer than their budget.
    BudgetExceeded,
    /// Ticks used measurements older than `max-latency`.
    LateChain,
    /// Ticks returned an error.
    TaskFailed,
    /// A task was ended while the others continue: by `on-error`, by a panic, or by `overrun-limit`.
    TaskDisabled,
    /// A task reached its `overrun-limit`.
    OverrunLimit,
    /// The kernel refused something that the configuration asks for; hertzd continues without it.
    PrivilegeRefused,
    /// The configuration was read again and is in force.
    Reloaded,
    /// The configuration was read again and refused; the old one stays in force.
    ReloadRefused,
    /// A task does not return, and its worker makes no progress.
    Stalled,
    /// The kernel's limit of real-time processor time without a sleep was reached (SIGXCPU).
    CpuLimit,
    /// The clock of a worker's releases was stepped.
    ClockStepped,
    /// Tick records were dropped because the metrics thread did not keep up.
    RecordsDropped,
    /// An output was set to its safe value because its task has stopped ticking.
    OutputSafe,
    /// The target of an output differs from the value last written, or cannot be read back.
    ReadbackFailed,
    /// The target again agrees with the value last written.
    ReadbackPassed,
    /// The value that an alarm watches has left its range.
    AlarmBegan,
    /// The value that an alarm watches is back in its range.
    AlarmEnded,
    /// A task's library crashed and took hertzd with it.
    PluginCrashed,
    /// hertzd crashed by itself, or another process sent it the signal of a crash.
    FatalSignal,
    /// Log entries never reached the journal.
    EntriesLost,
}

impl Message {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 22] = [
        Self::Overrun,
        Self::Skipped,
        Self::BudgetExceeded,
        Self::LateChain,
        Self::TaskFailed,
        Self::TaskDisabled,
        Self::OverrunLimit,
        Self::PrivilegeRefused,
        Self::Reloaded,
        Self::ReloadRefused,
        Self::Stalled,
        Self::CpuLimit,
        Self::ClockStepped,
        Self::RecordsDropped,
        Self::OutputSafe,
        Self::ReadbackFailed,
        Self::ReadbackPassed,
        Self::AlarmBegan,
        Self::AlarmEnded,
        Self::PluginCrashed,
        Self::FatalSignal,
        Self::EntriesLost,
    ];

    /// The kind of a task's event.
    pub(crate) const fn of(kind: &EventKind) -> Self {
        match kind {
            EventKind::Missed(missed) if missed.overruns > 0 => Self::Overrun,
            EventKind::Missed(_) => Self::Skipped,
            EventKind::OverBudget { .. } => Self::BudgetExceeded,
            EventKind::LateChain(_) => Self::LateChain,
            EventKind::OverLimit { .. } => Self::OverrunLimit,
            EventKind::Failed { .. } => Self::TaskFailed,
            EventKind::Ended { .. } => Self::TaskDisabled,
        }
    }

    /// Its id, 128 bits in 32 lower-case hexadecimal digits: the field `message_id` of its events.
    pub(crate) const fn id(self) -> &'static str {
        self.entry().0
    }

    /// Its name, for tables and programs.
    #[cfg(test)]
    pub(crate) const fn word(self) -> &'static str {
        self.entry().1
    }

    /// The fields that every event of this kind carries, by their names in `tracing`. An event may carry more.
    #[cfg(test)]
    pub(crate) const fn fields(self) -> &'static [&'static str] {
        self.entry().2
    }

    const fn entry(self) -> (&'static str, &'static str, &'static [&'static str]) {
        // Without an overrun no single tick can be named.
        const OVERRUN: &[&str] = &[
            "tick",
            "run_ns",
            "task",
            "worker",
            "lateness_ns",
            "skipped",
            "overrun",
            "missed",
            "due",
            "within_ns",
            "worst_ns",
            "cause",
            "causes",
        ];
        const SKIPPED: &[&str] = OVERRUN.split_at(2).1;
        const CPU_LIMIT: &[&str] = &["task", "worker", "stalled_ns", "cpu_ns"];
        const RELOADED: &[&str] = &["kept", "restarted", "added", "removed"];
        const BUDGET: &[&str] = &["task", "worker", "tick", "run_ns"];
        const LATE_CHAIN: &[&str] = &["task", "worker", "tick", "age_ns", "max_latency_ns", "late_chains", "cause"];
        const FAILED: &[&str] = &["task", "worker", "tick", "errors"];
        const TICK: &[&str] = &["task", "worker", "tick"];
        match self {
            Self::Overrun => ("b63f63a8dc1e44a9b7b66fb32412be1f", "overrun", OVERRUN),
            Self::Skipped => ("16ae69641d87436c81b908f551571cbd", "skipped", SKIPPED),
            Self::BudgetExceeded => ("5d35c4514c6047df9a07e57a4de8e6cb", "budget-exceeded", BUDGET),
            Self::LateChain => ("686aa5f963224280936b33efad7c0e4b", "late-chain", LATE_CHAIN),
            Self::TaskFailed => ("54c218f0410c46969ac9dfbbe0fa5f43", "task-failed", FAILED),
            Self::TaskDisabled => ("35f1de3c493547c683d66d97198f898f", "task-disabled", TICK),
            Self::OverrunLimit => ("e783d084420e4b34bcdb9da62af8df87", "overrun-limit", TICK),
            Self::PrivilegeRefused => ("cdd4fac1430b477998847427b4b89efc", "privilege-refused", &["worker"]),
            Self::Reloaded => ("7e88c4ca910a43dc8d8845336a9ffef2", "reloaded", RELOADED),
            Self::ReloadRefused => ("ce1f5e619b00408d937c1eb7c872557d", "reload-refused", &[]),
            Self::Stalled => ("23c33fe99b6148c8a1028d8035593619", "stalled", &["task", "worker", "stalled_ns"]),
            Self::CpuLimit => ("65458e1943494d37a80db900aa94d6e5", "cpu-limit", CPU_LIMIT),
            Self::ClockStepped => {
                ("ec406c614c624e7aaba07b2d323f0c09", "clock-stepped", &["worker", "clock", "step_ns"])
            }
            Self::RecordsDropped => ("1f1e5e3addfa43cf9659af2b8bd643d2", "records-dropped", &["worker", "dropped"]),
            Self::OutputSafe => ("2c5269f5602b42fabcfb014dca4c9a3a", "output-safe", &["task", "still_ns"]),
            Self::ReadbackFailed => {
                ("60f140c47fcf4ba3871dcaf8dd5b1977", "readback-failed", &["task", "written", "read"])
            }
            Self::ReadbackPassed => {
                ("74c5c37270a34afda135a485eb426c0f", "readback-passed", &["task", "written", "lasted_ns"])
            }
            Self::AlarmBegan => {
                ("ce857df1bb174a9c97204a2d1ec54aca", "alarm-began", &["task", "tick", "alarm", "value", "left_out"])
            }
            Self::AlarmEnded => {
                ("7c43a79a3f3143ceaf621063e6640ead", "alarm-ended", &["task", "tick", "alarm", "value", "left_out"])
            }
            Self::PluginCrashed => {
                ("4963a451511e412d87537a961b89d7fc", "plugin-crashed", &["task", "library", "signal", "place"])
            }
            Self::FatalSignal => ("c7903d4f37ac4ee5b2db79c95cc59705", "fatal-signal", &["signal", "sender"]),
            Self::EntriesLost => ("09aff006b2644c47bf2b75199a648cd7", "entries-lost", &["lost"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const CATALOG: &str = include_str!("../../systemd/hertzd.catalog");

    /// Header fields and text of every entry, by id.
    fn catalog() -> BTreeMap<&'static str, (BTreeMap<&'static str, &'static str>, &'static str)> {
        let mut entries = BTreeMap::new();
        for part in format!("\n{CATALOG}").leak().split("\n-- ").skip(1) {
            let (id, rest) = part.split_once('\n').unwrap();
            let (head, text) = rest.split_once("\n\n").unwrap_or_else(|| panic!("{id} has no text"));
            let head = head.lines().map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{id}: {line}")));
            let before = entries.insert(id, (head.collect(), text.trim_end()));
            assert!(before.is_none(), "{id} occurs twice");
        }
        entries
    }

    #[test]
    fn code_and_catalog_know_the_same_ids() {
        let ids: BTreeSet<_> = Message::ALL.map(Message::id).into();
        assert_eq!(ids.len(), Message::ALL.len());
        assert_eq!(Message::ALL.map(Message::word).iter().collect::<BTreeSet<_>>().len(), ids.len());
        for id in &ids {
            let hexadecimal = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
            assert!(id.len() == 32 && id.chars().all(hexadecimal), "{id}");
        }
        assert_eq!(catalog().into_keys().collect::<BTreeSet<_>>(), ids);
    }

    #[test]
    fn every_text_of_the_catalog_is_whole_and_uses_fields_that_are_there() {
        let catalog = catalog();
        for message in Message::ALL {
            let (head, text) = &catalog[message.id()];
            let word = message.word();
            for key in ["Subject", "Defined-By", "Support", "Documentation"] {
                assert!(head.get(key).is_some_and(|value| !value.is_empty()), "{word}: {key}");
            }
            assert_eq!((head.len(), head["Defined-By"]), (4, "hertzd"), "{word}");
            // The texts for missed releases explain every cause as well; see `advice`.
            let own = text.split("\nwoken-late: ").next().unwrap_or_default();
            assert!((3..=8).contains(&own.lines().count()), "{word}: {text}");
            let carried: Vec<_> =
                message.fields().iter().map(|field| format!("HERTZD_{}", field.to_uppercase())).collect();
            let whole = format!("{}\n{text}", head["Subject"]);
            let parts: Vec<_> = whole.split('@').collect();
            assert!(parts.len() % 2 == 1, "{word}: an @ without its partner");
            for name in parts.iter().skip(1).step_by(2) {
                assert!(carried.iter().any(|field| field == name), "{word}: @{name}@ is not among {carried:?}");
            }
        }
    }
}
