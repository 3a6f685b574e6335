//! Fixed steps on the caller's clock: how many updates are due, and whether to render.
//!
//! For a game or a simulation with its own loop and clock. Time is an argument; nothing blocks, and nothing allocates after construction.
//! Invariants: updates + discarded + pending equals the number of updates that were due, the interpolation factor is in `0.0..=1.0`, and no
//! frame is rendered twice.

use super::Rate;
use crate::time::{Instant, Span};
use std::num::NonZeroU32;

/// What happens to due updates beyond [`FixedStep::max_updates`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Excess {
    /// All are kept for later calls: the simulation catches up with the clock, however long that takes.
    #[default]
    Keep,
    /// At most this many are kept for later calls; the rest is given up. A spike of any length is therefore over after this many updates.
    KeepUpTo(NonZeroU32),
    /// All are given up and counted. The simulation falls behind the clock, but cannot enter a death spiral.
    Discard,
}

/// What one turn of the caller's loop has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Frame {
    /// Updates to run now; each advances the simulation by [`dt`](Self::dt).
    pub updates: u64,
    /// Updates given up by this call.
    pub discarded: u64,
    /// Due updates that are kept for later calls.
    pub pending: u64,
    /// The time that one update simulates: one period of the rate, rounded up to a whole nanosecond. The rounding does not
    /// affect when updates are due.
    pub dt: Span,
    /// Whether to render after the updates.
    pub render: bool,
    /// Where between the last two states to render: 0.0 is the one before the last update, 1.0 the one after it. In
    /// `0.0..=1.0`; at 1.0 while updates are pending.
    pub interpolation: f64,
}

/// A stepper of fixed updates for the caller's own loop: the caller passes the time and gets the due work.
///
/// Update `k` (from 1) is due [`Rate::offset`]`(k)` after the first call. It is computed from the index, so steps of 1/60 s do not drift.
/// Frames produce time, updates consume it, and the remainder is the interpolation factor:
///
/// ```text
/// updates due   |         1         2         3         4         5
/// calls         a      b     c            d                       e
/// updates       0      0     1            1                       2   (3 are due; at most 2 per call)
/// rendered      yes    yes   yes          yes                     yes
/// factor        0.0    0.7   0.3          0.6                     1.0 (Keep: 1 pending) or 0.0 (Discard)
/// ```
///
/// - The first call renders the initial state and asks for no update.
/// - While time stands still nothing is rendered, but kept updates still run.
/// - If the clock goes back, time stands still until the clock passes its highest reading so far. After a step of the clock, call
///   [`resume`](Self::resume).
/// - No call asks for more than [`max_updates`](Self::max_updates). If an update costs more than it simulates, an unlimited stepper asks
///   for 1, 2, 4, 8, … and the application seems to freeze; a limited one only runs slowly. With a limit of N, the simulation catches up as
///   long as a turn of the loop takes less time than N updates simulate.
///
/// Not the right choice for a hertzd task: a worker sleeps until the release, and [`Overrun`](super::Overrun) says what happens to debt.
/// Also not for a loop in which every frame is one update (vertical sync at the rate of the simulation).
///
/// ```
/// use hertzd::pacing::{FixedStep, Rate};
/// use hertzd::time::{Instant, Span};
///
/// let mut steps = FixedStep::new(Rate::new(60, 1).unwrap());
/// let (mut before, mut after, mut shown) = (0.0, 0.0, Vec::new());
/// let mut now = Instant::ZERO; // a game reads its clock here
/// for _ in 0..4 {
///     let frame = steps.advance(now);
///     for _ in 0..frame.updates {
///         before = after;
///         after += 6.0 * frame.dt.seconds(); // 0.1 a step
///     }
///     if frame.render {
///         shown.push(before + (after - before) * frame.interpolation);
///     }
///     now = now + Span::from_millis(25);
/// }
/// // One step behind the clock, but as smooth as the frames are: 6.0 · (now − 1/60 s).
/// assert!(shown.iter().zip([0.0, 0.05, 0.2, 0.35]).all(|(x, wanted)| (x - wanted).abs() < 1e-6));
/// ```
#[derive(Clone, Debug)]
pub struct FixedStep {
    rate: Rate,
    limit: u64, // updates per call, at least 1; u64::MAX: no limit
    excess: Excess,
    render_rate: Option<Rate>,
    snaps: Box<[Snap]>,
    tolerance: i128,

    latest: Option<Instant>, // the highest clock reading so far
    elapsed: i128,           // time produced by the frames, in ns, after snapping
    drift: i128,             // `elapsed` minus the clock
    settled: u64,            // updates run or given up
    rendered: Option<i128>,  // `elapsed` at the last render
}

/// A frame rate to which noisy frame times are snapped.
#[derive(Clone, Debug)]
struct Snap {
    rate: Rate,
    frames: u64, // frames snapped; each length comes from the index, so the sum is exact
}

impl FixedStep {
    /// The default limit of updates per call.
    const MAX_UPDATES: NonZeroU32 = NonZeroU32::new(4).unwrap();

    /// A stepper of `rate` updates per second. A call returns at most four updates; the excess is kept.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            limit: u64::from(Self::MAX_UPDATES.get()),
            excess: Excess::Keep,
            render_rate: None,
            snaps: Box::default(),
            tolerance: 0,
            latest: None,
            elapsed: 0,
            drift: 0,
            settled: 0,
            rendered: None,
        }
    }

    /// A stepper with one update every `dt`; `None` outside 1 µs to 24 h.
    pub fn every(dt: Span) -> Option<Self> {
        Rate::from_period(dt).map(Self::new)
    }

    /// Limits the updates of one call.
    #[must_use]
    pub fn max_updates(self, limit: NonZeroU32) -> Self {
        Self { limit: u64::from(limit.get()), ..self }
    }

    /// Lets one call ask for every due update. Use it only for a simulation that is far faster than the clock.
    #[must_use]
    pub fn unlimited(self) -> Self {
        Self { limit: u64::MAX, ..self }
    }

    /// What happens to updates beyond the limit.
    #[must_use]
    pub fn excess(self, excess: Excess) -> Self {
        Self { excess, ..self }
    }

    /// Snaps a frame time within `tolerance` of one period of a rate in `rates` to exactly that period, so that vertical sync with noisy
    /// readings gives the same number of updates every frame. The nearest rate wins, then the first in the list.
    ///
    /// It takes rates, not lengths, because 1/60 s is not a whole number of nanoseconds. Simulated time may [drift](Self::drift) from the
    /// clock by up to `tolerance` per frame. Time that stands still is never snapped. An empty slice or a negative tolerance turns snapping
    /// off.
    #[must_use]
    pub fn snap(self, rates: &[Rate], tolerance: Span) -> Self {
        let snaps = rates.iter().map(|&rate| Snap { rate, frames: 0 }).collect();
        Self { snaps, tolerance: i128::from(tolerance.nanos()), ..self }
    }

    /// Renders at most once in each period of `rate`, counted on a grid from the first call.
    ///
    /// A cap close to the rate of the loop beats against it. In that case use no cap, or [snap](Self::snap) as well.
    #[must_use]
    pub fn render_rate(self, rate: Rate) -> Self {
        Self { render_rate: Some(rate), ..self }
    }

    /// Takes the current time and returns the work due now. Costs a few divisions, however long ago the last call was.
    pub fn advance(&mut self, now: Instant) -> Frame {
        let frame_time = self.latest.map_or(0, |latest| now.nanos().saturating_sub(latest.nanos()));
        self.latest = self.latest.max(Some(now));
        if frame_time > 0 {
            let produced = self.snapped(frame_time);
            self.elapsed = self.elapsed.saturating_add(produced);
            self.drift = self.drift.saturating_add(produced - frame_time);
        }

        let due = come_up(self.rate, self.elapsed) - self.settled;
        let updates = due.min(self.limit);
        let kept = match self.excess {
            Excess::Keep => u64::MAX,
            Excess::KeepUpTo(most) => u64::from(most.get()),
            Excess::Discard => 0,
        };
        let pending = (due - updates).min(kept);
        let discarded = due - updates - pending;
        self.settled += updates + discarded;

        let render = match (self.rendered, self.render_rate) {
            (None, _) => true,
            (Some(last), None) => self.elapsed > last,
            (Some(last), Some(rate)) => come_up(rate, self.elapsed) > come_up(rate, last),
        };
        if render {
            self.rendered = Some(self.elapsed);
        }
        let dt = self.rate.period();
        Frame { updates, discarded, pending, dt, render, interpolation: self.interpolation() }
    }

    /// Continues from `now` as if no time had passed since the last call. Use it after a pause, a level load, or a step of the clock.
    /// Resets the drift and keeps pending updates. Does nothing before the first call.
    pub fn resume(&mut self, now: Instant) {
        self.latest = self.latest.map(|_| now);
        self.drift = 0;
    }

    /// Time from the last call until the next update is due, for a loop that sleeps when idle. Zero while updates are pending and before
    /// the first call.
    pub fn wait(&self) -> Span {
        match self.latest {
            Some(_) => Span::from_wide(self.rate.offset(self.settled.saturating_add(1)) - self.elapsed).max(Span::ZERO),
            None => Span::ZERO,
        }
    }

    /// How far snapping has moved simulated time ahead of the clock; negative if it is behind.
    pub fn drift(&self) -> Span {
        Span::from_wide(self.drift)
    }

    fn snapped(&mut self, frame_time: i128) -> i128 {
        let distance = |snap: &Snap| (frame_time - i128::from(snap.rate.period().nanos())).abs();
        match self.snaps.iter_mut().min_by_key(|snap| distance(snap)) {
            Some(snap) if distance(snap) <= self.tolerance => {
                snap.frames += 1;
                snap.rate.offset(snap.frames) - snap.rate.offset(snap.frames - 1)
            }
            _ => frame_time,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 24 hours in ns, for a factor that is rounded anyway")]
    fn interpolation(&self) -> f64 {
        let (from, to) = (self.rate.offset(self.settled), self.rate.offset(self.settled.saturating_add(1)));
        let step = (to - from).max(1);
        (self.elapsed - from).clamp(0, step) as f64 / step as f64
    }
}

/// How many updates (from 1) are due once `elapsed` nanoseconds (at least 0) have passed.
fn come_up(rate: Rate, elapsed: i128) -> u64 {
    rate.ticks_before(elapsed.saturating_add(1)) - 1 // tick 0 is the initial state
}
