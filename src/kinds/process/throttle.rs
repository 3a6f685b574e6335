//! Enforces a share of a CPU by stopping a program that has used more, and continuing it once it has not. Arithmetic only: `now` and the
//! time used are arguments.

use crate::time::{Instant, Span};

/// Unused processor time is saved for this long.
const WINDOW: Span = Span::from_millis(100);

/// What to do with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Hold,
    Release,
}

/// The account of one program.
#[derive(Debug)]
pub(super) struct Throttle {
    share: f64,
    credit: f64, // seconds; negative: it has used more than its share
    latest: (Instant, Span),
    is_held: bool,
    /// Total time for which it was held.
    pub(super) held: Span,
}

impl Throttle {
    /// The account of a program that begins at `now`, with this share of one CPU.
    pub(super) fn new(share: f64, now: Instant) -> Self {
        let credit = share * WINDOW.seconds();
        Self { share, credit, latest: (now, Span::ZERO), is_held: false, held: Span::ZERO }
    }

    /// Takes the total processor time used so far.
    pub(super) fn look(&mut self, now: Instant, used: Span) -> Option<Order> {
        let (before, used_before) = std::mem::replace(&mut self.latest, (now, used));
        let elapsed = now - before;
        if self.is_held {
            self.held += elapsed;
        }
        let earned = self.share * elapsed.seconds() - (used - used_before).seconds();
        self.credit = (self.credit + earned).min(self.share * WINDOW.seconds());
        let order = match (self.is_held, self.credit < 0.0) {
            (false, true) => Order::Hold,
            (true, false) => Order::Release,
            _ => return None,
        };
        self.is_held = order == Order::Hold;
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_program_gets_its_share_and_no_more() {
        for share in [0.1, 0.5, 1.0, 1.5] {
            let mut throttle = Throttle::new(share, Instant::ZERO);
            let (mut used, mut runs, threads) = (Span::ZERO, true, 2);
            let looks = 10_000;
            let every = Span::from_millis(20);
            for look in 1..=looks {
                if runs {
                    used += Span::from_nanos(every.nanos() * threads);
                }
                match throttle.look(Instant::ZERO + Span::from_nanos(every.nanos() * look), used) {
                    Some(Order::Hold) => runs = false,
                    Some(Order::Release) => runs = true,
                    None => {}
                }
            }
            let got = used.seconds() / (every.seconds() * f64::from(i32::try_from(looks).unwrap()));
            assert!((got - share).abs() < 0.01, "{got} of {share}");
            assert!(throttle.held > Span::ZERO);
        }
    }

    #[test]
    fn one_within_its_share_is_left_alone() {
        let mut throttle = Throttle::new(0.5, Instant::ZERO);
        for look in 1..1_000 {
            let now = Instant::ZERO + Span::from_millis(20 * look);
            assert_eq!(throttle.look(now, Span::from_millis(10 * look)), None);
        }
        assert_eq!(throttle.held, Span::ZERO);
    }
}
