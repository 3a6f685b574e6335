//! The mean rate over a minute: releases follow the index exactly, at any rate and however late the ticks are.
//!
//! The worker's real loop on the virtual clock. Expectations are computed from the index in wide integers.

use super::virtual_worker::{Spec, spans, task_set};
use crate::channels::{TickRecord, TickSink};
use crate::pacing::{Grid, Overrun, Rate, Sleeps, Tail};
use crate::sim::SimClock;
use crate::task::{Task, Tick, TickError};
use crate::time::{Instant, Span};
use crate::worker::{Control, Runner};
use std::sync::Arc;

const SECOND: i128 = 1_000_000_000;

const MINUTE: Span = Span::from_seconds(60);

/// Rates as fractions, from 1 Hz to 20 kHz: rates of video and of blocks of sound, and some whose periods have long fractions.
const RATES: [(u64, u64); 9] = [
    (1, 1),
    (30_000, 1_001),
    (50, 1),
    (48_000 * 147, 160 * 1_024),
    (1_000, 1),
    (10_007, 3),
    (44_100, 16),
    (48_000, 11),
    (20_000, 1),
];

struct Nothing;

impl Task for Nothing {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        Ok(())
    }
}

/// Compares each release with its index.
struct Compare {
    epoch: Instant,
    rate: (i128, i128),
    ticks: i128,
    latest: i128,
    lateness: [Span; 2], // of the first and of the last tick
}

impl TickSink for Compare {
    fn offer(&mut self, record: TickRecord) {
        let (num, den) = self.rate;
        let n = i128::from(record.n);
        assert_eq!(n, self.ticks, "no release is left out");
        self.latest = (record.release - self.epoch).nanos().into();
        assert_eq!(self.latest, n * den * SECOND / num, "tick {n} at {num}/{den}");
        self.lateness = [if n == 0 { record.lateness } else { self.lateness[0] }, record.lateness];
        self.ticks += 1;
    }
}

#[test]
fn the_mean_rate_over_a_minute_is_exact_to_a_nanosecond_in_all() {
    // Each sleep ends late by less than the shortest period, in a pattern that matches none of the rates.
    let oversleeps = spans(&[1_700, 0, 9_300, 400, 12_900, 60, 5_100]);
    for (num, den) in RATES {
        let epoch = Instant::from_nanos(7 * SECOND + 123_456_789);
        let rate = Rate::new(num, den).unwrap();
        let spec = Spec {
            rate,
            phase: Span::ZERO,
            overrun: Overrun::KeepWorking,
            deadline: rate.period(),
            task: Box::new(Nothing),
        };
        let set = task_set(vec![spec], |spec| Grid::starting_at(epoch, spec.rate), epoch + MINUTE);
        let clock = SimClock::new(epoch, oversleeps.clone());
        let (num, den) = (i128::from(num), i128::from(den));
        let sink = Compare { epoch, rate: (num, den), ticks: 0, latest: 0, lateness: [Span::ZERO; 2] };
        let runner = Runner::new(clock, set, Sleeps::new(Tail::Off), sink, Arc::new(Control::default()));
        let (report, Compare { ticks, latest, lateness: [first, last], .. }, _) = runner.run();
        // All releases that are due: the first at or after the end would be tick `ticks`.
        assert_eq!(ticks, (60 * num + den - 1) / den);
        assert_eq!(report.tasks[0].1.ran, u64::try_from(ticks).unwrap());
        // The error of the mean period, times the periods passed, times num. It is below 1 ns over the whole minute, so far below 1 ns per
        // tick.
        let periods = ticks - 1;
        let error = periods * den * SECOND - latest * num;
        assert!((0..num).contains(&error), "{num}/{den}: {error} / {num} ns in {periods} periods");
        // The distance between starts differs only by the lateness of these two, which does not accumulate.
        let worst = oversleeps.iter().max().copied().unwrap();
        assert!(first <= worst && last <= worst, "{num}/{den}: {first}, {last}");
    }
}
