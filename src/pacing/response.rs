//! The worst response of each task when every tick takes its longest run, found by playing the schedule tick by tick.
//!
//! Workers on one CPU interrupt each other by priority. A worker runs each tick to its end. Among due tasks it picks the earliest deadline,
//! then producers before their consumers, then the task whose last run is longest ago, then the order of declaration. Every release runs: a
//! release that a policy would skip is late here. Time is passed in as rates and spans; all arithmetic is in integers. A call allocates a
//! few words per task.

use super::rate::hyperperiod;
use super::{Rate, Turn};
use crate::time::Span;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The load of one task on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) rate: Rate,
    pub(crate) phase: Span,
    pub(crate) turn: Turn,
    /// The longest run of a tick.
    pub(crate) run: Span,
}

/// The worst responses of the tasks of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Responses {
    /// Per worker, the responses of its tasks; zero for a task without a tick in the simulated time.
    pub(crate) worst: Vec<Vec<Span>>,
    /// The simulated time from the start, if it does not cover the whole schedule: later responses may be worse. `None`: all is covered.
    pub(crate) only: Option<Span>,
}

/// A tick that is due: its deadline, its task's place, when that task last ran, the task, its release.
type Ready = (i128, u64, u64, usize, i128);

/// Releases and ticks of one worker.
struct Worker {
    room: usize, // for ready ticks: one run can outlast any number of releases
    wakes: i128, // when it wakes up for the ready ticks
    ended: i128, // when its last tick ended; it sleeps from then on if nothing is ready
    waiting: BinaryHeap<Reverse<(i128, usize, u64)>>, // release, task, tick
    ready: BinaryHeap<Reverse<Ready>>,
    ran: Vec<u64>,                        // per task: the total of ticks run when its last one ended
    running: Option<(usize, i128, i128)>, // task, release, time left
}

impl Worker {
    fn of(loads: &[Load], room: usize) -> Self {
        let first = |(task, load): (usize, &Load)| Reverse((i128::from(load.phase.nanos()), task, 0));
        Self {
            room,
            wakes: 0,
            ended: i128::MIN,
            waiting: loads.iter().enumerate().map(first).collect(),
            ready: BinaryHeap::new(),
            ran: vec![0; loads.len()],
            running: None,
        }
    }

    /// Marks everything released by `now` as ready. A worker that slept wakes up `late` nanoseconds after the release.
    fn release(&mut self, loads: &[Load], now: i128, late: i128) {
        while let Some(&Reverse((release, task, n))) = self.waiting.peek() {
            if release > now || self.ready.len() >= self.room {
                return;
            }
            let load = &loads[task];
            self.waiting.pop();
            if self.running.is_none() && self.ready.is_empty() {
                self.wakes = if release > self.ended { release + late } else { release };
            }
            let (deadline, place) = load.turn.key();
            self.ready.push(Reverse((release + i128::from(deadline.nanos()), place, self.ran[task], task, release)));
            self.waiting.push(Reverse((i128::from(load.phase.nanos()) + load.rate.offset(n + 1), task, n + 1)));
        }
    }

    fn next_release(&self) -> i128 {
        self.waiting.peek().map_or(i128::MAX, |Reverse((release, ..))| *release)
    }

    fn is_busy(&self, now: i128) -> bool {
        self.running.is_some() || (!self.ready.is_empty() && self.wakes <= now)
    }

    /// The next instant at which it may need the CPU on its own account.
    fn next(&self, now: i128) -> i128 {
        let wakes = if !self.ready.is_empty() && self.wakes > now { self.wakes } else { i128::MAX };
        let release = if self.ready.len() < self.room { self.next_release() } else { i128::MAX };
        release.min(wakes)
    }
}

/// The worst responses of workers on one CPU, in order of precedence, if each of their sleeps ends this `late`. At most `ticks` ticks are
/// simulated. A feasible schedule repeats itself after the longest phase and one hyperperiod. The simulation covers one more hyperperiod.
pub(crate) fn responses(workers: &[Vec<Load>], late: Span, ticks: usize) -> Responses {
    let late = i128::from(late.nanos());
    let loads = || workers.iter().flatten();
    let phase = loads().map(|load| load.phase).max().unwrap_or_default();
    let whole = hyperperiod(loads().map(|load| load.rate)).map(|length| i128::from(phase.nanos()) + 2 * length);
    let end = whole.unwrap_or(i128::MAX);
    let mut worst: Vec<Vec<Span>> = workers.iter().map(|loads| vec![Span::ZERO; loads.len()]).collect();
    let mut all: Vec<_> = workers.iter().map(|loads| Worker::of(loads, ticks)).collect();
    let (mut now, mut ran) = (0, 0);
    while ran < ticks {
        for (worker, loads) in all.iter_mut().zip(workers) {
            worker.release(loads, now, late);
        }
        let Some(index) = all.iter().position(|worker| worker.is_busy(now)) else {
            let ended = |worker: &Worker| worker.ready.is_empty() && worker.next_release() >= end;
            if all.iter().all(ended) {
                return Responses { worst, only: None };
            }
            now = all.iter().map(|worker| worker.next(now)).min().unwrap_or(i128::MAX);
            continue;
        };
        let interrupted = all[..index].iter().map(|worker| worker.next(now)).min().unwrap_or(i128::MAX);
        let worker = &mut all[index];
        let running = worker.running.take().or_else(|| {
            let Reverse((.., task, release)) = worker.ready.pop()?;
            Some((task, release, i128::from(workers[index][task].run.nanos())))
        });
        let Some((task, release, left)) = running else { unreachable!("it is busy") };
        if release >= end {
            return Responses { worst, only: None };
        }
        if now + left > interrupted {
            worker.running = Some((task, release, left - (interrupted - now)));
            now = interrupted;
            continue;
        }
        now += left;
        worker.ended = now;
        ran += 1;
        worker.ran[task] = ran as u64;
        let response = Span::from_wide(now - release);
        let slot = &mut worst[index][task];
        *slot = response.max(*slot);
    }
    Responses { worst, only: Some(Span::from_wide(now)) }
}

/// How long two tasks wait for each other in the worst case, if there were no other tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Between {
    /// How long the first waits for the second, and the second for the first.
    pub(crate) waits: [Span; 2],
    /// The least time between the end of one task's tick and the other's release; negative if ticks collide.
    pub(crate) gap: Span,
}

/// How two tasks on one CPU affect each other. With `interrupts`, the first interrupts the second; otherwise both belong to one worker.
///
/// The possible distances between their releases are the phase difference plus any multiple of the greatest common divisor of the periods.
/// The divisor may be a fraction of nanoseconds.
pub(crate) fn between(first: &Load, second: &Load, interrupts: bool) -> Between {
    let (unit, common) = common_divisor(first.rate, second.rate);
    let scaled = |span: Span| i128::from(span.nanos()).saturating_mul(unit);
    // From a release of the second to the next release of the first, and from there to the next release of the second.
    let after = (scaled(first.phase) - scaled(second.phase)).rem_euclid(common);
    let before = common - after;
    let (run_first, run_second) = (scaled(first.run), scaled(second.run));
    let span = |scaled: i128| Span::from_wide(scaled.div_euclid(unit));
    let gap = span((after - run_second).min(before - run_first));
    let met = |run: i128, distance: i128| span((run - distance).max(0));
    // If released together, the task with the earlier deadline runs first.
    let tie = after == 0;
    let waits = match interrupts {
        true if tie || after < run_second => [Span::ZERO, first.run],
        true => [Span::ZERO, met(run_first, before)],
        false if tie && first.turn.key() <= second.turn.key() => [Span::ZERO.max(met(run_second, common)), first.run],
        false if tie => [second.run, met(run_first, common)],
        false => [met(run_second, after), met(run_first, before)],
    };
    Between { waits, gap: if tie { gap.min(-Span::from_nanos(1)) } else { gap } }
}

/// The greatest common divisor of two periods, as `(unit, divisor)`. The divisor counts in units of 1/`unit` nanosecond.
pub(crate) fn common_divisor(first: Rate, second: Rate) -> (i128, i128) {
    let parts = |rate: Rate| {
        let whole = i128::try_from(rate.repeats_after()).unwrap_or(i128::MAX);
        let (num, den) = (i128::from(rate.num()), i128::from(rate.den()));
        (whole, whole.saturating_mul(num) / (den * 1_000_000_000)) // whole nanoseconds, and the number of periods in them
    };
    let ((first, first_parts), (second, second_parts)) = (parts(first), parts(second));
    let unit = first_parts.saturating_mul(second_parts);
    let (mut a, mut b) = (first.saturating_mul(second_parts), second.saturating_mul(first_parts));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (unit, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(hertz: u64, phase: i64, deadline: i64, run: i64) -> Load {
        let us = Span::from_micros;
        Load { rate: Rate::new(hertz, 1).unwrap(), phase: us(phase), turn: us(deadline).into(), run: us(run) }
    }

    #[test]
    fn a_run_that_outlasts_all_releases_takes_no_more_room_than_ticks_are_looked_at() {
        let endless = load(1_000, 0, 1_000, 1_000_000_000_000_000);
        let workers = [vec![load(1_000, 0, 1_000, 1)], vec![endless, load(7_777, 3, 100, 10)]];
        let responses = responses(&workers, Span::ZERO, 100);
        assert!(responses.only.is_some() && responses.worst[0][0] > Span::ZERO, "{responses:?}");
    }

    fn worst(workers: &[Vec<Load>]) -> Vec<Vec<i64>> {
        let responses = responses(workers, Span::ZERO, 1_000_000);
        assert_eq!(responses.only, None);
        responses.worst.iter().map(|worst| worst.iter().map(|span| span.nanos() / 1_000).collect()).collect()
    }

    #[test]
    fn a_worker_runs_by_deadline_and_lets_no_tick_be_interrupted() {
        // Released together: 1 kHz first, then 100 Hz, which delays the second tick at 1 kHz.
        let (fast, slow) = (load(1_000, 0, 1_000, 200), load(100, 0, 10_000, 1_500));
        assert_eq!(worst(&[vec![fast, slow]]), [[900, 1_700]]);
        // With a worker of its own, the fast task interrupts the slow one twice: 200 before, 200 after a millisecond.
        assert_eq!(worst(&[vec![fast], vec![slow]]), [[200], [1_900]]);
        // With phases that keep two tasks apart, neither waits.
        let (short, apart) = (load(1_000, 0, 1_000, 200), load(100, 300, 10_000, 600));
        assert_eq!(worst(&[vec![short, apart]]), [[200, 600]]);
    }

    /// Worst responses in microseconds, with sleeps that end 50 µs late.
    fn worst_late(workers: &[Vec<Load>]) -> Vec<Vec<i64>> {
        let responses = responses(workers, Span::from_micros(50), 1_000_000);
        assert_eq!(responses.only, None);
        responses.worst.iter().map(|worst| worst.iter().map(|span| span.nanos() / 1_000).collect()).collect()
    }

    #[test]
    fn a_late_wake_up_is_part_of_the_response_and_of_those_that_wait_behind() {
        let (fast, slow) = (load(1_000, 0, 1_000, 200), load(100, 300, 10_000, 600));
        assert_eq!(worst_late(&[vec![fast]]), [[250]]);
        // Asleep before 0 and before 300 µs.
        assert_eq!(worst_late(&[vec![fast, slow]]), [[250, 650]]);
        // Awake at 200 µs, because the previous tick ends at 250: a release at that moment ends no sleep.
        assert_eq!(worst_late(&[vec![fast, Load { phase: Span::from_micros(200), ..slow }]]), [[250, 650]]);
        // It runs from 350 µs until the other worker wakes up at 1,050. Its last 50 µs run from 1,250 on.
        let long = Load { run: Span::from_micros(750), ..slow };
        assert_eq!(worst_late(&[vec![fast], vec![long]]), [[250], [1_000]]);
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        let responses = responses(&[vec![load(1_000, 0, 1_000, 200)]], Span::ZERO, 1);
        assert_eq!(responses.only, Some(Span::from_micros(200)));
    }

    #[test]
    fn two_tasks_wait_for_each_other_as_the_schedule_says() {
        for (first, second) in [(1_000, 100), (100, 1_000), (300, 500), (7, 30), (1_000, 1_000)] {
            for phase in [0, 100, 250, 400, 990] {
                let (first, second) = (load(first, phase, 1_000_000, 150), load(second, 300, 2_000_000, 220));
                for interrupts in [false, true] {
                    let workers = if interrupts { vec![vec![first], vec![second]] } else { vec![vec![first, second]] };
                    let seen = worst(&workers).concat();
                    let Between { waits, gap } = between(&first, &second, interrupts);
                    let waits = waits.map(|wait| wait.nanos() / 1_000);
                    assert_eq!(seen, [150 + waits[0], 220 + waits[1]], "{first:?} {second:?} {interrupts}");
                    assert_eq!(gap < Span::ZERO, waits != [0, 0], "{first:?} {second:?} {interrupts} {gap}");
                }
            }
        }
    }

    /// The reference model, stepped microsecond by microsecond. Periods are whole microseconds that divide a millisecond; phases are
    /// shorter.
    fn stepped(workers: &[Vec<Load>], late: i64) -> Vec<Vec<i64>> {
        let mut asleep_until = vec![-1; workers.len()]; // -1: it has not slept
        let mut ended = vec![-1; workers.len()];
        let micros = |span: Span| span.nanos() / 1_000;
        let mut worst: Vec<Vec<i64>> = workers.iter().map(|loads| vec![0; loads.len()]).collect();
        let mut ready: Vec<Vec<(i64, usize, i64)>> = vec![Vec::new(); workers.len()]; // deadline, task, release
        let mut running: Vec<Option<(usize, i64, i64)>> = vec![None; workers.len()];
        for now in 0..20_000 {
            for (worker, loads) in workers.iter().enumerate() {
                for (task, load) in loads.iter().enumerate() {
                    let since = now - micros(load.phase);
                    if since >= 0 && since % micros(load.rate.period()) == 0 {
                        let sleeps = running[worker].is_none() && ready[worker].is_empty() && ended[worker] != now;
                        if sleeps {
                            asleep_until[worker] = now + late;
                        }
                        ready[worker].push((now + micros(load.turn.key().0), task, now));
                    }
                }
            }
            let awake = |w: &usize| asleep_until[*w] <= now;
            let Some(worker) =
                (0..workers.len()).find(|w| running[*w].is_some() || (!ready[*w].is_empty() && awake(w)))
            else {
                continue;
            };
            let (task, release, left) = running[worker].take().unwrap_or_else(|| {
                let first = *ready[worker].iter().min().unwrap();
                ready[worker].retain(|other| *other != first);
                (first.1, first.2, micros(workers[worker][first.1].run))
            });
            if left > 1 {
                running[worker] = Some((task, release, left - 1));
            } else {
                worst[worker][task] = worst[worker][task].max(now + 1 - release);
                ended[worker] = now + 1;
            }
        }
        worst
    }

    #[test]
    fn random_workers_respond_as_they_do_microsecond_by_microsecond() {
        let mut state = 1_u64;
        let mut below = |end: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).unwrap() % end
        };
        let (mut compared, mut late) = (0, 0);
        while compared < 60 {
            let mut workers: Vec<Vec<Load>> = Vec::new();
            for _ in 0..=below(3) {
                let mut task = || {
                    let period: i64 = [100, 200, 250, 500, 1_000][usize::try_from(below(5)).unwrap()];
                    load(1_000_000 / period.unsigned_abs(), below(period), 1 + below(2 * period), 1 + below(period / 4))
                };
                workers.push((0..3).map(|_| task()).collect());
            }
            let used: f64 = workers.iter().flatten().map(|load| load.run.seconds() * load.rate.hertz()).sum();
            if used < 0.99 {
                assert_eq!(worst(&workers), stepped(&workers, 0), "{workers:?}");
                if used < 0.6 {
                    assert_eq!(worst_late(&workers), stepped(&workers, 50), "{workers:?}");
                    late += 1;
                }
                compared += 1;
            }
        }
        assert!(late >= 10, "{late}");
    }
}
