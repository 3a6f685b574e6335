//! Measures how much time passed: between two ticks, in periods of the exact rate; between two rows of an input, by their releases. Pure;
//! no clock is read.

use crate::config::{Key, Section};
use crate::task::{Input, Tick};
use crate::time::{Instant, Span};

/// The period of a task, and how many periods may pass between two ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Periods {
    seconds: f64, // of one
    max_gap: u64, // periods; at least one
}

/// The time since the release of the previous tick, or of the last one that had all the values it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Elapsed {
    pub(super) skipped: u64,
    pub(super) seconds: f64,
    /// Longer than `max-gap`.
    pub(super) gap: bool,
    /// Not yet too long at the next tick: a value that is missing now may still arrive in time.
    pub(super) may_wait: bool,
}

impl Periods {
    /// The periods of this section's task. `max-gap` is ten periods by default, and at most `most`. `None`: the problem is reported, here
    /// or at the rate.
    pub(super) fn of(section: &mut Section<'_>, max_gap: &Key, most: u64) -> Option<Self> {
        let rate = section.task_rate()?;
        let written = section.duration(max_gap);
        if section.has(max_gap) && written.is_none() {
            return None;
        }
        // Rounded as releases are: to whole nanoseconds, downwards.
        let periods = |gap: Span| rate.ticks_before(i128::from(gap.nanos()) + 1) - 1;
        let max_gap_periods = written.map_or(10, periods);
        if !(1..=most).contains(&max_gap_periods) {
            let text = match max_gap_periods {
                0 => "must be at least one period of the task".to_owned(),
                _ => format!("must be at most {most} periods of the task"),
            };
            section.problem(max_gap, text);
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "rounded once, in the quotient's operands")]
        let seconds = rate.den() as f64 / rate.num() as f64;
        Some(Self { seconds, max_gap: max_gap_periods })
    }

    /// One period in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.seconds
    }

    /// The time up to this tick. Skipped releases count, lateness does not. `waited` ticks without a value count as skipped.
    pub(super) fn elapsed(self, tick: &Tick, waited: u64) -> Elapsed {
        let skipped = tick.skipped.saturating_add(waited);
        let periods = skipped.saturating_add(1);
        #[expect(clippy::cast_precision_loss, reason = "more than 2^53 periods are past any max-gap")]
        let seconds = periods as f64 * self.seconds;
        Elapsed { skipped, seconds, gap: periods > self.max_gap, may_wait: periods < self.max_gap }
    }
}

impl Elapsed {
    /// How many ticks have waited, if this one has no value either.
    pub(super) fn waited(self) -> u64 {
        self.skipped.saturating_add(1)
    }
}

/// Seconds between the release of the previous tick and this one, by the rounded period: for delays, which need not be exact.
#[expect(clippy::cast_precision_loss, reason = "a gap of 2^53 periods is past every limit")]
pub(super) fn seconds_since_last(tick: &Tick) -> f64 {
    (tick.skipped + 1) as f64 * tick.period.seconds()
}

/// Whether an input has a new row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Row {
    /// The first row, or one that cannot be compared with the row before.
    First,
    /// The same row as before.
    Same,
    /// A row released this many seconds after the previous one; greater than zero.
    Next(f64),
}

/// The rows of one input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows {
    release: Option<Instant>, // of the newest one
}

impl Rows {
    /// What arrived by this tick. A constant has no rows: it counts as new at each tick.
    pub(super) fn look(&mut self, input: &Input, tick: Elapsed) -> Row {
        if !input.quality().is_usable() {
            return Row::Same;
        }
        let Some(release) = input.release() else { return Row::Next(tick.seconds) };
        match self.release.replace(release) {
            Some(before) if before == release => Row::Same,
            Some(before) if before < release => Row::Next((release - before).seconds()),
            _ => Row::First,
        }
    }
}
