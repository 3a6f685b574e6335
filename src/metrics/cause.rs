//! Why a tick overran: the part that took the largest share of its response.
//!
//! Plain arithmetic on the record. The kernel is not asked, so the reason for a late wake-up or a long run stays open.

use crate::channels::TickRecord;
use crate::time::{Instant, Span};

/// The verdict on one overrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The worker's sleep ended late: kernel, timer, host.
    WokenLate,
    /// Another task of the same worker ran.
    Blocked,
    /// The task's own previous tick ran long.
    OwnDebt,
    /// The tick itself ran long.
    RanLong,
}

impl Cause {
    /// Every cause, in the order of the numbers that [`index`](Self::index) gives.
    pub const ALL: [Self; 4] = [Self::WokenLate, Self::Blocked, Self::OwnDebt, Self::RanLong];

    /// The word for it in every output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::WokenLate => "woken-late",
            Self::Blocked => "blocked",
            Self::OwnDebt => "own-debt",
            Self::RanLong => "ran-long",
        }
    }

    /// Its index in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The verdict on `record`, whose task's previous tick finished at `previous` (`None`: there was none, or its
    /// record was lost).
    pub fn of(record: &TickRecord, previous: Option<Instant>) -> Self {
        let late = record.lateness.max(Span::ZERO);
        let own = previous.map_or(Span::ZERO, |finished| finished - record.release).clamp(Span::ZERO, late);
        let woken = record.woke.clamp(Span::ZERO, late);
        // The rest of the lateness is due to other tasks: a tick that another one preceded since the wake-up has a `woke`
        // from before it.
        let blocked = late - own.max(woken);
        [(Self::RanLong, record.run()), (Self::OwnDebt, own), (Self::WokenLate, woken), (Self::Blocked, blocked)]
            .into_iter()
            .reduce(|longest, part| if part.1 > longest.1 { part } else { longest })
            .map_or(Self::RanLong, |(cause, _)| cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RECORD;

    fn cause(woke: i64, lateness: i64, run: i64, previous: i64) -> Cause {
        let (woke, lateness) = (Span::from_micros(woke), Span::from_micros(lateness));
        let record = TickRecord { woke, lateness, response: lateness + Span::from_micros(run), ..RECORD };
        Cause::of(&record, Some(Instant::ZERO + Span::from_micros(previous)))
    }

    #[test]
    fn the_largest_part_is_to_blame() {
        assert_eq!(cause(-50, 0, 1_200, -900), Cause::RanLong);
        assert_eq!(cause(900, 902, 300, -500), Cause::WokenLate);
        assert_eq!(cause(-50, 800, 300, -500), Cause::Blocked);
        assert_eq!(cause(-1_000, 800, 300, 790), Cause::OwnDebt);
        assert_eq!(cause(100, 2_000, 300, -500), Cause::Blocked);
    }
}
