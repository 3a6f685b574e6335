//! The columns of the task table: what each shows, and which fit side by side. Pure.

use super::figures::Row;
use super::look::{Look, asked, hertz, share};
use crate::snapshot::{TaskSummary, ValueSummary};
use crate::time::{Age, Span};
use crate::views::{self, count, short, unit};

/// Spaces between two columns.
const GAP: usize = 1;

/// A task's name gets at least this many columns if it needs them.
const NAME_MIN: usize = 12;

/// Maximum columns for a task's name.
const NAME_MAX: usize = 32;

/// Lateness from 1 µs to 10 ms is shown by the height of a character.
const LOWEST: i64 = 1_000;
const DECADES: f64 = 4.0;

/// A column beside the task's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Asked,
    Reached,
    Met,
    Missed,
    P50,
    P99,
    Max,
    Steps,
    State,
    Run,
    Share,
    Cause,
    Values,
}

impl Column {
    pub(super) const FIGURES: [Self; 12] = [
        Self::Asked,
        Self::Reached,
        Self::Met,
        Self::Missed,
        Self::P50,
        Self::P99,
        Self::Max,
        Self::Steps,
        Self::State,
        Self::Run,
        Self::Share,
        Self::Cause,
    ];
    pub(super) const VALUES: [Self; 2] = [Self::State, Self::Values];

    const fn head(self) -> &'static str {
        match self {
            Self::Asked => "Hz",
            Self::Reached => "reached",
            Self::Met => "met",
            Self::Missed => "missed",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Steps => "lateness",
            Self::State => "state",
            Self::Run => "run",
            Self::Share => "share",
            Self::Cause => "last cause",
            Self::Values => "values",
        }
    }

    /// Its minimum width.
    const fn width(self) -> usize {
        match self {
            Self::Reached => 7,
            Self::Steps | Self::State => 8,
            Self::Cause => 24,
            Self::Values => 30,
            _ => 6,
        }
    }

    /// Whether it takes the space that the others leave.
    const fn is_text(self) -> bool {
        matches!(self, Self::Cause | Self::Values)
    }

    const fn is_left(self) -> bool {
        matches!(self, Self::Steps | Self::State | Self::Cause | Self::Values)
    }

    fn cell(self, Row { task, recent }: Row<'_>, width: usize, look: Look) -> String {
        let time = |nanos: Option<i64>| nanos.map_or("-".into(), |nanos| look.time(nanos));
        let max = task.last_10s.filter(|_| task.lateness_ns.count > 0).map(|window| window.lateness_max_ns);
        // A percentile is rounded up, but must not exceed the exact maximum.
        let rounded = |nanos: Option<i64>| {
            time(nanos.map(|nanos| max.filter(|_| !recent.late_is_of_all).map_or(nanos, |max| nanos.min(max))))
        };
        match self {
            Self::Asked => asked(&task.rate).map_or("?".into(), |rate| hertz(rate, false)),
            Self::Reached => recent.reached.map_or("-".into(), |rate| hertz(rate, true)),
            Self::Met => count(task.counts.met),
            Self::Missed => count(task.counts.missed),
            Self::P50 => rounded(recent.p50),
            Self::P99 => rounded(recent.p99),
            Self::Max => time(max),
            Self::Steps => steps(recent, width, look),
            Self::State => task.state.word().to_owned(),
            Self::Run => time(recent.run),
            Self::Share => recent.share.map_or("-".into(), share),
            Self::Cause => cause(task).map_or("-".into(), |cause| look.plain(&cause)),
            Self::Values => values(task, look),
        }
    }
}

/// The maximum lateness between consecutive snapshots, as heights on a logarithmic scale.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
fn steps(recent: &super::history::Recent, width: usize, look: Look) -> String {
    let height = |nanos: i64| {
        let above = (nanos.max(LOWEST) as f64 / LOWEST as f64).log10() / DECADES;
        look.block((above * 7.0).round().min(7.0) as usize)
    };
    let skipped = recent.steps.len().saturating_sub(width);
    let shown = recent.steps[skipped..].iter().map(|step| step.worst.map_or(' ', height));
    shown.collect()
}

/// The cause of the most recent misses, the culprit, and how long ago.
pub(super) fn cause(task: &TaskSummary) -> Option<String> {
    let cause = task.last_cause.as_deref()?;
    let by = task.last_misses.first().and_then(|miss| miss.by.as_deref()).map(|by| format!(" by {by}"));
    let age = task.last_cause_age_ns.map(|age| format!(", {} ago", Age(Span::from_nanos(age))));
    Some(format!("{cause}{}{}", by.unwrap_or_default(), age.unwrap_or_default()))
}

/// The most recent reading of each value, with its unit.
#[expect(clippy::cast_precision_loss, reason = "two periods need no more")]
pub(super) fn values(task: &TaskSummary, look: Look) -> String {
    let stale = asked(&task.rate).map_or(0.0, |hertz| 2e9 / hertz);
    let value = |(name, reading): (&String, &ValueSummary)| {
        if reading.reason.is_some() {
            return look.plain(&format!("{name} {}", views::reading(reading).unwrap_or_default()));
        }
        let last = reading.last.map_or("-".into(), short);
        let age = reading
            .age_ns
            .filter(|age| *age as f64 > stale)
            .map(|age| format!(" ({} old)", Age(Span::from_nanos(age))));
        look.plain(&format!("{name} {last}{}{}", unit(reading), age.unwrap_or_default()))
    };
    task.values.iter().map(value).collect::<Vec<_>>().join("  ")
}

/// The columns shown beside the task's name, with their widths.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) name: usize,
    columns: Vec<(Column, usize)>,
}

/// All pages of columns at this width, for tasks whose longest name has `longest` characters. The task's name is on every page.
pub(super) fn pages(columns: &[Column], width: usize, longest: usize) -> Vec<Layout> {
    let least = longest.clamp(4, NAME_MIN);
    let (mut pages, mut page, mut left) = (Vec::new(), Vec::new(), width.saturating_sub(least));
    for &column in columns {
        // A text column is truncated rather than left out.
        if column.width() + GAP > left && !page.is_empty() {
            pages.push((std::mem::take(&mut page), left));
            left = width.saturating_sub(least);
        }
        let taken = column.width().min(left.saturating_sub(GAP));
        page.push((column, taken));
        left -= left.min(taken + GAP);
    }
    pages.push((page, left));
    let finish = |(mut columns, left): (Vec<(Column, usize)>, usize)| {
        let more = longest.min(NAME_MAX).saturating_sub(least).min(left);
        let mut left = left - more;
        for (column, width) in &mut columns {
            if column.is_text() {
                *width += std::mem::take(&mut left);
            }
        }
        // Spare width lengthens the lateness graph.
        for (_, width) in columns.iter_mut().filter(|(column, _)| *column == Column::Steps) {
            *width += left.min(SHOWN_MAX - *width);
        }
        Layout { name: least + more, columns }
    };
    pages.into_iter().map(finish).collect()
}

/// Maximum width of the lateness graph.
const SHOWN_MAX: usize = 30;

impl Layout {
    /// The line of column headings.
    pub(super) fn head(&self, look: Look) -> String {
        self.line("task", look, |column, _| column.head().into())
    }

    /// A task's line.
    pub(super) fn row(&self, row: Row<'_>, look: Look) -> String {
        self.line(&row.task.task, look, |column, width| column.cell(row, width, look))
    }

    fn line(&self, name: &str, look: Look, cell: impl Fn(Column, usize) -> String) -> String {
        let mut line = format!("{:<width$}", look.cut(name, self.name), width = self.name);
        for &(column, width) in &self.columns {
            let text = look.cut(&cell(column, width), width);
            line.push(' ');
            line += &if column.is_left() { format!("{text:<width$}") } else { format!("{text:>width$}") };
        }
        line
    }
}
