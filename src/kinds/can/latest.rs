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
//! The kernel's timestamps would be closer, but they come from a clock that can be set: a step of that clock would make old frames look
//! fresh.

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
        Self { slots: timeouts.into_iter().map(slot).collect(), last: None, since_empty: Span::ZERO, settled: false }
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

    /// Another socket was opened: its frames may be of any age until it has been emptied once.
    pub(super) fn reopened(&mut self) {
        self.settled = false;
        self.slots.iter_mut().for_each(|slot| slot.came = false);
    }

    /// A frame arrived. Returns whether it counts: not if its age is unknown.
    pub(super) fn take(&mut self, at: usize, bytes: &[u8]) -> bool {
        let (settled, age) = (self.settled, self.since_empty);
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
        assert!(latest.take(0, &[7, 8]));
        latest.emptied();
        assert_eq!(said(&latest), (Some(vec![7, 8]), 10));
        latest.begin(&tick(20, 0));
        latest.emptied();
        assert_eq!(said(&latest), (Some(vec![7, 8]), 20));
        // Two ticks were skipped; one frame came meanwhile, then a newer one.
        latest.begin(&tick(50, 2));
        assert!(latest.take(0, &[1]) && latest.take(0, &[2]));
        assert_eq!(said(&latest), (Some(vec![2]), 30));
        // The socket was not emptied, so a frame found by the next tick may have arrived before this one.
        latest.begin(&tick(60, 0));
        assert!(latest.take(0, &[3]));
        latest.emptied();
        assert_eq!(said(&latest), (Some(vec![3]), 40));
    }

    #[test]
    fn after_the_timeout_there_is_none() {
        let mut latest = emptied(30);
        latest.begin(&tick(10, 0));
        latest.take(0, &[7]);
        for (release, wanted) in [(20, true), (30, true), (40, false), (50, false)] {
            latest.begin(&tick(release, 0));
            latest.emptied();
            assert_eq!(latest.data(0).is_some(), wanted, "at {release}");
        }
        assert_eq!(latest.age(), Span::ZERO, "of nothing");
        latest.begin(&tick(60, 0));
        latest.take(0, &[]);
        assert_eq!(said(&latest), (Some(vec![]), 10));
    }

    #[test]
    fn the_oldest_that_counts_gives_the_age() {
        let mut latest = Latest::new([30, 100].map(Span::from_nanos));
        latest.begin(&tick(0, 0));
        latest.emptied();
        latest.begin(&tick(10, 0));
        assert!(latest.take(0, &[1]) && latest.take(1, &[2]) && !latest.take(2, &[3]));
        latest.emptied();
        for release in [20, 30] {
            latest.begin(&tick(release, 0));
            latest.emptied();
        }
        latest.begin(&tick(40, 0));
        latest.take(1, &[2]);
        latest.emptied();
        assert_eq!((latest.data(0), latest.age().nanos()), (None, 10));
    }

    #[test]
    fn neither_a_clock_that_is_set_nor_a_grid_that_moves_makes_a_frame_younger() {
        let mut latest = emptied(1_000);
        latest.begin(&tick(10, 0));
        latest.take(0, &[7]);
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
        assert!(!latest.take(0, &[7]));
        latest.emptied();
        latest.begin(&tick(10, 0));
        assert!(latest.take(0, &[8]));
        latest.reopened();
        assert_eq!((latest.data(0), latest.has_come(0)), (None, true));
        assert!(!latest.take(0, &[9]));
        latest.emptied();
        assert_eq!(latest.data(0), None);
        latest.begin(&tick(20, 0));
        assert!(latest.take(0, &[10]));
    }
}
