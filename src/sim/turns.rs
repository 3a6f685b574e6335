//! Several virtual clocks in one order of time: the code on a clock runs only while no other clock is behind it.
//!
//! Each clock belongs to one thread. A thread whose clock has advanced waits until its time is the earliest; at equal times the clock with
//! the lowest number goes first. So one thread runs at a time, and the order is the same however the system schedules the threads. No real
//! clock is read.

use crate::time::Instant;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// State shared by the clocks.
#[derive(Debug)]
struct Shared {
    times: Mutex<Vec<Instant>>, // `MAX`: the clock has left
    turns: Vec<Condvar>,
}

/// A clock's place in the order.
#[derive(Clone, Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    number: usize,
}

/// Removes a clock from the order when dropped, so that no other clock waits for it.
#[derive(Debug)]
pub(crate) struct Leaving(Place);

/// The places of clocks that show the given times.
pub(super) fn places(times: Vec<Instant>) -> Vec<Place> {
    let turns = times.iter().map(|_| Condvar::new()).collect();
    let count = times.len();
    let shared = Arc::new(Shared { times: Mutex::new(times), turns });
    (0..count).map(|number| Place { shared: shared.clone(), number }).collect()
}

impl Place {
    /// Reports that the clock shows `now`, and waits for its turn.
    pub(super) fn reached(&self, now: Instant) {
        let mut times = self.times();
        times[self.number] = now;
        let first = first(&times);
        if first == self.number {
            return;
        }
        self.shared.turns[first].notify_one();
        while self::first(&times) != self.number {
            times = self.shared.turns[self.number].wait(times).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn leaving(&self) -> Leaving {
        Leaving(self.clone())
    }

    fn times(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.shared.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut times = self.0.times();
        times[self.0.number] = Instant::MAX;
        self.0.shared.turns[first(&times)].notify_one();
    }
}

/// The number of the clock whose turn it is.
fn first(times: &[Instant]) -> usize {
    times.iter().enumerate().min_by_key(|(number, time)| (**time, *number)).map_or(0, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn steps_are_made_in_the_order_of_time() {
        let at = |nanos| Instant::from_nanos(nanos);
        let steps: [&[i128]; 3] = [&[5, 7, 7, 40], &[1, 7, 30], &[5, 6, 7, 100, 101]];
        let made = Arc::new(Mutex::new(Vec::new()));
        let places = places(vec![at(0); 3]);
        thread::scope(|scope| {
            // The last one is started first.
            for place in places.into_iter().rev() {
                let made = made.clone();
                scope.spawn(move || {
                    let _leaving = place.leaving();
                    for step in steps[place.number] {
                        place.reached(at(*step));
                        made.lock().unwrap().push((*step, place.number));
                    }
                });
            }
        });
        let mut wanted: Vec<_> = steps
            .iter()
            .enumerate()
            .flat_map(|(number, steps)| steps.iter().map(move |step| (*step, number)))
            .collect();
        wanted.sort_unstable();
        assert_eq!(*made.lock().unwrap(), wanted);
    }
}
