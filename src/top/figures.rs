//! A snapshot together with what earlier ones add to it, and which of its tasks are shown in which order. Pure.

use super::history::{History, Recent};
use crate::snapshot::{DaemonSummary, Summary, TaskSummary};
use crate::time::{Instant, Span};
use std::cmp::Ordering;

/// What is shown until the next snapshot arrives.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) snapshot: Summary,
    pub(super) daemon: DaemonSummary,
    pub(super) recents: Vec<Recent>, // one per task of the snapshot
    pub(super) came: Instant,
}

/// One task of the figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) task: &'a TaskSummary,
    pub(super) recent: &'a Recent,
}

impl Row<'_> {
    /// How many releases it missed in the last ten seconds.
    pub(super) fn missed_lately(self) -> u64 {
        self.task.last_10s.map_or(0, |window| window.missed)
    }
}

/// The sort key of the tasks. Most numeric keys put the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Declared,
    Name,
    Rate,
    Missed,
    Late,
    Share,
    State,
}

impl Sort {
    pub(super) const ALL: [Self; 7] =
        [Self::Declared, Self::Name, Self::Rate, Self::Missed, Self::Late, Self::Share, Self::State];

    /// The sort order's name on the screen.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Declared => "as in the file",
            Self::Name => "name",
            Self::Rate => "rate asked",
            Self::Missed => "missed",
            Self::Late => "late max",
            Self::Share => "share",
            Self::State => "state",
        }
    }

    fn order(self, one: Row<'_>, other: Row<'_>) -> Ordering {
        let late = |row: Row<'_>| row.task.last_10s.map(|window| window.lateness_max_ns);
        let share = |row: Row<'_>| row.recent.share.unwrap_or(-1.0);
        let rate = |row: Row<'_>| super::look::asked(&row.task.rate).unwrap_or(-1.0);
        match self {
            Self::Declared => Ordering::Equal,
            Self::Name => one.task.task.cmp(&other.task.task),
            Self::Rate => rate(other).total_cmp(&rate(one)),
            // At equal totals, recent misses are worse.
            Self::Missed => {
                let missed = |row: Row<'_>| (row.task.counts.missed, row.missed_lately());
                missed(other).cmp(&missed(one))
            }
            Self::Late => late(other).cmp(&late(one)),
            Self::Share => share(other).total_cmp(&share(one)),
            Self::State => {
                let state = |row: Row<'_>| (row.task.state.is_fine(), row.task.state.word().to_owned());
                state(one).cmp(&state(other))
            }
        }
    }
}

impl Figures {
    /// Figures from this snapshot, which arrived at `came` and has been added to the history.
    pub(super) fn new(snapshot: Summary, daemon: DaemonSummary, history: &History, came: Instant) -> Self {
        let recents = snapshot.tasks.iter().map(|task| history.recent(task)).collect();
        Self { snapshot, daemon, recents, came }
    }

    /// The tasks in this order whose name, worker, state or last cause contains `filter`.
    pub(super) fn rows(&self, sort: Sort, reversed: bool, filter: &str) -> Vec<Row<'_>> {
        let filter = filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let is_wanted = |task: &TaskSummary| {
            has(&task.task)
                || has(&task.worker)
                || has(task.state.word())
                || task.last_cause.as_deref().is_some_and(has)
        };
        let all = self.snapshot.tasks.iter().zip(&self.recents).map(|(task, recent)| Row { task, recent });
        let mut rows: Vec<_> = all.filter(|row| is_wanted(row.task)).collect();
        rows.sort_by(|one, other| sort.order(*one, *other)); // keeps the order of the file where it is equal
        if reversed {
            rows.reverse();
        }
        rows
    }

    /// The time that the recent figures cover. `None`: all time since the start.
    pub(super) fn over(&self) -> Option<Span> {
        self.recents.iter().filter_map(|recent| recent.over).max()
    }

    /// Whether some percentiles cover all time since the start although the other figures are recent.
    pub(super) fn late_is_of_all(&self) -> bool {
        self.recents.iter().any(|recent| recent.late_is_of_all && recent.p50.is_some())
    }
}
