//! The newest frame of each id, and its maximum age. Arithmetic only; time comes with the ticks.
//!
//! A frame found by a tick arrived after the last tick that emptied the socket. So its age at the release is at most the time since that
//! tick's release, and that is the age reported:
//!
//! ```text
//! releases   |---------|---------|---------|
//! frames            a      b
//! said of a            10 ms     20 ms                 a came at 7 ms: 3 ms old at the first release, 13 ms at the next
//! ```
//!
//! The kernel's timestamps are closer: 3 ms and 13 ms. But they come from a clock that can be set, whose step would make old frames look
//! fresh. So a timestamp counts only within these bounds, and by the largest distance of the clocks since the socket was last empty.

use crate::sys::can::LONGEST;
use crate::task::Tick;
use crate::time::{Instant, Span};

/// The newest frames of one task.
#[derive(Debug)]
pub(super) struct Latest {
    slots: Box<[Slot]>,
    last: Option<Instant>, // release of the previous tick
    since_empty: Span,     // since the release of the last tick that emptied the socket
    settled: bool,         // the socket was emptied at least once since it was opened
    utc: Utc,
}

/// Turns the kernel's timestamps into ages.
#[derive(Clone, Copy, Debug, Default)]
struct Utc {
    release: Instant,   // of this tick, by the largest distance
    ahead: Span,        // of UTC before the monotonic clock, now
    most: Option<Span>, // the largest distance since the socket was empty
}

/// The newest frame of one id.
#[derive(Clone, Debug)]
struct Slot {
    timeout: Span,
    came: bool,  // on this socket
    seen: bool,  // on any
    taken: Span, // since the release of the tick that took it
    age: Span,   // maximum age
    length: usize,
    data: [u8; LONGEST],
}

impl Latest {
    /// Without frames yet; one timeout for each id.
    pub(super) fn new(timeouts: impl IntoIterator<Item = Span>) -> Self {
        let slot = |timeout| Slot {
            timeout,
            came: false,
            seen: false,
            taken: Span::ZERO,
            age: Span::ZERO,
            length: 0,
            data: [0; LONGEST],
        };
        Self {
            slots: timeouts.into_iter().map(slot).collect(),
            last: None,
            since_empty: Span::ZERO,
            settled: false,
            utc: Utc::default(),
        }
    }

    /// A tick begins.
    pub(super) fn begin(&mut self, tick: &Tick) {
        let periods = i64::try_from(tick.skipped).unwrap_or(i64::MAX).saturating_add(1);
        let by_count = Span::from_nanos(tick.period.nanos().saturating_mul(periods));
        // If the grid moves, releases are further apart than their count says; if the clock is set back, they are closer. The larger figure
        // is used.
        let passed = self.last.map_or(Span::ZERO, |last| (tick.release - last).max(by_count));
        self.last = Some(tick.release);
        self.since_empty += passed;
        for slot in &mut self.slots {
            (slot.taken, slot.age) = (slot.taken + passed, slot.age + passed);
        }
    }

    /// The release of this tick on the monotonic clock, and what that clock and UTC say now, in this order.
    pub(super) fn clocks(&mut self, release: Instant, monotonic: Instant, utc: Instant) {
        let ahead = utc - monotonic;
        let most = self.utc.most.map_or(ahead, |most| most.max(ahead));
        self.utc = Utc { release: release + most, ahead, most: Some(most) };
    }

    /// Another socket was opened: its frames may be of any age until it has been emptied once.
    pub(super) fn reopened(&mut self) {
        self.settled = false;
        self.slots.iter_mut().for_each(|slot| slot.came = false);
    }

    /// A frame arrived, by the kernel's timestamp at `stamp`. Returns whether it counts: not if its age is unknown.
    pub(super) fn take(&mut self, at: usize, bytes: &[u8], stamp: Option<Instant>) -> bool {
        let (settled, most) = (self.settled, self.since_empty);
        let age = stamp.map_or(most, |stamp| (self.utc.release - stamp).max(Span::ZERO).min(most));
        let Some(slot) = self.slots.get_mut(at).filter(|_| settled) else { return false };
        let length = bytes.len().min(LONGEST);
        slot.data[..length].copy_from_slice(&bytes[..length]);
        (slot.came, slot.seen, slot.length) = (true, true, length);
        (slot.taken, slot.age) = (Span::ZERO, age);
        true
    }

    /// The socket is empty.
    pub(super) fn emptied(&mut self) {
        (self.settled, self.since_empty) = (true, Span::ZERO);
        self.utc.most = Some(self.utc.ahead);
    }

    /// The data of the newest frame; `None` if none arrived within the timeout.
    pub(super) fn data(&self, at: usize) -> Option<&[u8]> {
        let slot = self.slots.get(at)?;
        slot.is_good().then(|| &slot.data[..slot.length])
    }

    /// Whether a frame has ever counted.
    pub(super) fn has_come(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| slot.seen)
    }

    /// The maximum age, at the tick's release, of the frames that have data.
    pub(super) fn age(&self) -> Span {
        self.slots.iter().filter(|slot| slot.is_good()).map(|slot| slot.age).max().unwrap_or_default()
    }
}

impl Slot {
    fn is_good(&self) -> bool {
        self.came && self.taken < self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Span = Span::from_nanos(10);

    fn tick(release: i64, skipped: u64) -> Tick {
        let release = Instant::from_nanos(release.into());
        Tick { n: 0, release, started: release, lateness: Span::ZERO, skipped, credit: Span::ZERO, period: PERIOD }
    }

    /// One id with this timeout, whose socket was emptied by a tick at 0.
    fn emptied(timeout: i64) -> Latest {
        let mut latest = Latest::new([Span::from_nanos(timeout)]);
        latest.begin(&tick(0, 0));
        latest.emptied();
        latest
    }

    fn said(latest: &Latest) -> (Option<Vec<u8>>, i64) {
        (latest.data(0).map(<[u8]>::to_vec), latest.age().nanos())
    }

    #[test]
    fn a_frame_is_at_most_as_old_as_the_tick_before() {
        let mut latest = emptied(30);
        assert_eq!((said(&latest), latest.has_come(0)), ((None, 0), false));
        latest.begin(&tick(10, 0));
        assert!(latest.take(0, &[7, 8], None));
        latest.emptied();
        assert_eq!(said(&latest), (Some(vec![7, 8]), 10));
        latest.begin(&tick(20, 0));
        latest.emptied();
        assert_eq!(said(&latest), (Some(vec![7, 8]), 20));
        // Two ticks were skipped; one frame came meanwhile, then a newer one.
        latest.begin(&tick(50, 2));
        assert!(latest.take(0, &[1], None) && latest.take(0, &[2], None));
        assert_eq!(said(&latest), (Some(vec![2]), 30));
        // The socket was not emptied, so a frame found by the next tick may have arrived before this one.
        latest.begin(&tick(60, 0));
        assert!(latest.take(0, &[3], None));
        latest.emptied();
        assert_eq!(said(&latest), (Some(vec![3]), 40));
    }

    #[test]
    fn a_timestamp_counts_within_what_is_known_without_it() {
        let mut latest = emptied(30);
        let at = |nanos: i64| Instant::from_nanos(nanos.into());
        latest.begin(&tick(10, 0));
        latest.clocks(at(10), at(12), at(1_012));
        for (stamp, age) in [(1_007, 3), (1_000, 10), (999, 10), (1_011, 0), (i64::MIN, 10)] {
            assert!(latest.take(0, &[7], Some(at(stamp))));
            assert_eq!(said(&latest).1, age, "{stamp}");
        }
    }

    #[test]
    fn a_step_of_utc_makes_no_frame_younger() {
        let at = |nanos: i64| Instant::from_nanos(nanos.into());
        for stepped in [0, 700, -700] {
            let mut latest = emptied(30);
            latest.clocks(at(0), at(0), at(1_000));
            latest.emptied();
            // It came at 4, before the step or after it.
            let ages = [1_004, 1_004 + stepped].map(|stamp| {
                let mut latest = Latest { slots: latest.slots.clone(), ..latest };
                latest.begin(&tick(10, 0));
                latest.clocks(at(10), at(11), at(1_011 + stepped));
                latest.take(0, &[7], Some(at(stamp)));
                said(&latest).1
            });
            assert!(ages.iter().all(|age| (6..=10).contains(age)) && ages.contains(&6), "{stepped}: {ages:?}");
        }
    }

    #[test]
    fn after_the_timeout_there_is_none() {
        let mut latest = emptied(30);
        latest.begin(&tick(10, 0));
        latest.take(0, &[7], None);
        for (release, wanted) in [(20, true), (30, true), (40, false), (50, false)] {
            latest.begin(&tick(release, 0));
            latest.emptied();
            assert_eq!(latest.data(0).is_some(), wanted, "at {release}");
        }
        assert_eq!(latest.age(), Span::ZERO, "of nothing");
        latest.begin(&tick(60, 0));
        latest.take(0, &[], None);
        assert_eq!(said(&latest), (Some(vec![]), 10));
    }

    #[test]
    fn the_oldest_that_counts_gives_the_age() {
        let mut latest = Latest::new([30, 100].map(Span::from_nanos));
        latest.begin(&tick(0, 0));
        latest.emptied();
        latest.begin(&tick(10, 0));
        assert!(latest.take(0, &[1], None) && latest.take(1, &[2], None) && !latest.take(2, &[3], None));
        latest.emptied();
        for release in [20, 30] {
            latest.begin(&tick(release, 0));
            latest.emptied();
        }
        latest.begin(&tick(40, 0));
        latest.take(1, &[2], None);
        latest.emptied();
        assert_eq!((latest.data(0), latest.age().nanos()), (None, 10));
    }

    #[test]
    fn neither_a_clock_that_is_set_nor_a_grid_that_moves_makes_a_frame_younger() {
        let mut latest = emptied(1_000);
        latest.begin(&tick(10, 0));
        latest.take(0, &[7], None);
        latest.emptied();
        latest.begin(&tick(-500, 0));
        assert_eq!(latest.age().nanos(), 20, "back");
        latest.begin(&tick(-400, 0));
        assert_eq!(latest.age().nanos(), 120, "moved");
    }

    #[test]
    fn what_was_in_a_socket_before_it_was_emptied_does_not_count() {
        let mut latest = Latest::new([Span::MAX]);
        latest.begin(&tick(0, 0));
        assert!(!latest.take(0, &[7], None));
        latest.emptied();
        latest.begin(&tick(10, 0));
        assert!(latest.take(0, &[8], None));
        latest.reopened();
        assert_eq!((latest.data(0), latest.has_come(0)), (None, true));
        assert!(!latest.take(0, &[9], None));
        latest.emptied();
        assert_eq!(latest.data(0), None);
        latest.begin(&tick(20, 0));
        assert!(latest.take(0, &[10], None));
    }
}
