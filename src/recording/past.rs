//! The ticks in a recording. Pure.

use super::content::Whys;
use crate::metrics::Cause;
use crate::snapshot::Counts;
use crate::time::{Instant, Span};

/// What a recording contains about the ticks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// In order of first appearance; each has at least one tick.
    pub(crate) tasks: Vec<PastTask>,
    /// The file has no proper end: its run was killed, or is still writing.
    pub(crate) cut_off: bool,
}

/// The ticks of one task, in the order of their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PastTask {
    pub(crate) name: String,
    pub(crate) ticks: Vec<PastTick>,
    /// The causes of its overruns, by index.
    pub(crate) causes: Vec<(u64, Cause)>,
    /// What was missed in ticks, by index.
    pub(crate) whys: Vec<(u64, Box<Whys>)>,
    /// How many ticks came before the task started over, as after a reload that changed it; they are left out.
    pub(crate) before: u64,
}

/// One tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastTick {
    pub(crate) n: u64,
    pub(crate) release: Instant, // UTC
    pub(crate) run: Span,
    pub(crate) response: Span,
    pub(crate) skipped: u64,
    pub(crate) overrun: bool,
    /// The sleep just before the tick: when it was to end, relative to the release, and how late it ended.
    pub(crate) sleep: Option<(Span, Span)>,
}

impl Past {
    /// The task with this name.
    pub(crate) fn task(&self, name: &str) -> Option<&PastTask> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Moves each task's ticks onto the grid given by `offset`, the time from tick 0 to a tick. Recorded times are rounded, and UTC runs
    /// slightly faster or slower than the clock of releases. A task recorded at a rate that differs by more than a thousandth is left
    /// unchanged.
    pub(crate) fn align(&mut self, offset: impl Fn(&str, u64) -> Option<i128>) {
        for task in &mut self.tasks {
            let (Some(first), Some(last)) = (task.ticks.first().copied(), task.ticks.last().copied()) else { continue };
            let exact = |n: u64| Some(offset(&task.name, n)? - offset(&task.name, first.n)?);
            let (Some(wanted), recorded) = (exact(last.n), last.release.nanos() - first.release.nanos()) else {
                continue;
            };
            if (wanted - recorded).abs() > wanted / 1_000 {
                continue;
            }
            for tick in &mut task.ticks {
                tick.release = exact(tick.n).map_or(tick.release, |offset| first.release.plus_nanos(offset));
            }
        }
    }

    /// The approximate beginning of the run: the earliest release of any tick 0, extrapolated if necessary.
    pub(crate) fn beginning(&self) -> Option<Instant> {
        self.tasks.iter().map(PastTask::beginning).min()
    }

    /// From the beginning to the end of the last period of any task; zero without a tick.
    pub(crate) fn length(&self) -> Span {
        let end = |task: &PastTask| task.ticks.last().map_or(Instant::ZERO, |last| last.release + task.period());
        let end = self.tasks.iter().map(end).max();
        end.zip(self.beginning()).map_or(Span::ZERO, |(end, beginning)| end - beginning)
    }

    /// Every sleep in these tasks: when it was to end, relative to the beginning, and how late it ended.
    pub(crate) fn sleeps<'a>(&'a self, of: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = (i128, Span)> + 'a {
        let beginning = self.beginning().unwrap_or_default();
        let tasks = self.tasks.iter().filter(move |task| of(&task.name));
        tasks.flat_map(|task| &task.ticks).filter_map(move |tick| {
            let (asked, late) = tick.sleep?;
            Some(((tick.release + asked).nanos() - beginning.nanos(), late))
        })
    }
}

impl PastTask {
    /// The mean time between two releases; zero for a single tick. Recorded times are rounded, so the error is a few nanoseconds over all
    /// ticks.
    pub(crate) fn period(&self) -> Span {
        let (Some(first), Some(last)) = (self.ticks.first(), self.ticks.last()) else { return Span::ZERO };
        let ticks = i128::from(last.n.saturating_sub(first.n));
        if ticks == 0 {
            Span::ZERO
        } else {
            Span::from_wide(i128::from((last.release - first.release).nanos()) / ticks)
        }
    }

    /// The release of tick 0, extrapolated if necessary.
    pub(crate) fn beginning(&self) -> Instant {
        self.ticks.first().map_or(Instant::ZERO, |first| first.release.plus_nanos(-self.offset(first.n)))
    }

    /// The time from tick 0 to tick `n`.
    fn offset(&self, n: u64) -> i128 {
        let (Some(first), Some(last)) = (self.ticks.first(), self.ticks.last()) else { return 0 };
        let (ticks, nanos) =
            (i128::from(last.n.saturating_sub(first.n)), i128::from((last.release - first.release).nanos()));
        if ticks == 0 { 0 } else { i128::from(n).saturating_mul(nanos) / ticks }
    }

    /// How long the ticks ran. Each applies from shortly before its release, relative to tick 0. The margin is an eighth of a period,
    /// because recorded times are rounded.
    pub(crate) fn runs(&self) -> Vec<(i128, Span)> {
        let early = i128::from(self.period().nanos() / 8);
        self.ticks.iter().map(|tick| (self.offset(tick.n) - early, tick.run)).collect()
    }

    /// What became of the task's releases.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.ticks.iter().for_each(|tick| counts.enter(1, tick.skipped, tick.overrun.into()));
        counts
    }
}
