//! Tests of the deadline check, against known cases and against every schedule of small tasks.

use super::*;

fn feasible(demands: &[Demand]) -> Verdict {
    feasible_beside(demands, &[])
}
use proptest::prelude::*;

/// A task in microseconds: period, deadline, budget.
fn task(period: i64, deadline: i64, budget: i64) -> Demand {
    Demand {
        rate: Rate::from_period(Span::from_micros(period)).unwrap(),
        deadline: Span::from_micros(deadline),
        budget: Span::from_micros(budget),
    }
}

fn holds(demands: &[Demand]) -> (Option<usize>, i64) {
    match feasible(demands) {
        Verdict::Holds { tightest, slack, .. } => (tightest, slack.nanos()),
        other => panic!("{other:?}"),
    }
}

fn fails(demands: &[Demand]) -> (usize, i64, i64) {
    match feasible(demands) {
        Verdict::Fails { task, at, excess, .. } => (task, at.nanos(), excess.nanos()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_simple_cases() {
    assert_eq!(feasible(&[]), Verdict::Holds { utilisation: 0.0, tightest: None, slack: Span::MAX });
    assert_eq!(holds(&[task(10, 10, 2)]), (Some(0), 8_000));
    assert_eq!(holds(&[task(10, 10, 10)]), (Some(0), 0));
    assert_eq!(holds(&[task(10, 10, 0), task(10, 4, 0)]), (Some(1), 4_000));
    assert_eq!(fails(&[task(10, 3, 4)]), (0, 3_000, 1_000));
    assert_eq!(fails(&[task(10, -3, 4)]), (0, 0, 4_000));
    assert!(matches!(feasible(&[task(10, 50, 6), task(10, 50, 5)]), Verdict::Overloaded { utilisation } if
        (utilisation - 1.1).abs() < 1e-9));
}

/// `[ long : 8 ms ....... ]` has just begun when the 4 ms task is released.
#[test]
fn a_long_tick_blocks_a_short_deadline() {
    let (short, long) = (task(10_000, 4_000, 1_000), task(100_000, 100_000, 8_000));
    assert_eq!(fails(&[long, short]), (1, 4_000_000, 4_999_999));
    let long = task(100_000, 100_000, 3_000);
    assert_eq!(holds(&[long, short]), (Some(1), 0));
    let long = task(100_000, 100_000, 3_001);
    assert_eq!(fails(&[long, short]), (1, 4_000_000, 999));
}

#[test]
fn a_fully_used_processor_can_hold() {
    let third = task(3, 3, 1);
    assert_eq!(holds(&[third; 3]), (Some(0), 0));
    assert_eq!(fails(&[task(3, 2, 1); 3]), (0, 2_000, 1_000));
    // First, two thirds of a nanosecond per period short of full; then more than that over it.
    let ntsc = Rate::new(30_000, 1_001).unwrap();
    let one = Demand { rate: ntsc, deadline: ntsc.period(), budget: Span::from_nanos(ntsc.period().nanos() / 3) };
    assert!(matches!(feasible(&[one; 3]), Verdict::Holds { .. }));
    let over = Demand { budget: one.budget + Span::from_nanos(1), ..one };
    assert!(matches!(feasible(&[over; 3]), Verdict::Overloaded { .. }));
    // Full utilisation with deadlines below the period: only the busy period bounds the check.
    assert_eq!(fails(&[task(2, 2, 1), task(6, 5, 3)]), (0, 2_000, 1_999));
    assert_eq!(holds(&[task(4, 4, 2), task(4, 3, 1), task(4, 4, 1)]), (Some(0), 0));
}

#[test]
fn many_tasks_are_quick() {
    assert_eq!(holds(&[task(1_000, 1_000, 1); 1_000]), (Some(0), 0));
    let spread: Vec<_> = (0..1_000).map(|n| task(1_000_000 + n, 900_000 + n, 900)).collect();
    assert!(matches!(feasible(&spread), Verdict::Holds { .. }));
}

#[test]
fn what_cannot_be_counted_out_is_unknown() {
    // Catching up after one slow tick takes nine seconds, at a million deadlines a second.
    let fast = Demand {
        rate: Rate::new(1_000_000, 1).unwrap(),
        deadline: Span::from_seconds(1),
        budget: Span::from_nanos(900),
    };
    let slow = Demand {
        rate: Rate::new(1, 86_400).unwrap(),
        deadline: Span::from_seconds(86_400),
        budget: Span::from_millis(900),
    };
    assert!(matches!(feasible(&[fast, slow]), Verdict::Unknown { .. }));
    let slow = Demand { budget: Span::from_millis(200), ..slow };
    assert!(matches!(feasible(&[fast, slow]), Verdict::Holds { .. }));
}

/// The first missed deadline, if any, when the tasks start at `phases` (ns) and run until `until`.
fn simulate(demands: &[Demand], phases: &[i128], until: i128) -> Option<(usize, i128)> {
    let mut index = vec![0; demands.len()];
    let mut now = 0;
    loop {
        let release = |task: usize, index: &[u64]| phases[task] + demands[task].rate.offset(index[task]);
        let due = (0..demands.len()).filter(|&task| release(task, &index) <= now);
        if let Some(task) = due.min_by_key(|&task| release(task, &index) + deadline(&demands[task])) {
            let by = release(task, &index) + deadline(&demands[task]);
            now += i128::from(demands[task].budget.nanos());
            if now > by {
                return Some((task, by));
            }
            index[task] += 1;
        } else {
            now = (0..demands.len()).map(|task| release(task, &index)).min()?;
        }
        if now > until {
            return None;
        }
    }
}

fn small_task() -> impl Strategy<Value = Demand> {
    let period = prop_oneof![(1..7_i64).prop_map(|micros| micros * 1_000), Just(3_333), Just(1_500)];
    (period, 1..10_i64, 1..1_500_i64, 1..4_i64).prop_map(|(period, deadline, fine, budget)| Demand {
        // 300 kHz stands in for 3333 ns: its period is not a whole number of nanoseconds.
        rate: if period == 3_333 {
            Rate::new(300_000, 1).unwrap()
        } else {
            Rate::from_period(Span::from_nanos(period)).unwrap()
        },
        deadline: Span::from_micros(deadline),
        budget: if fine % 4 > 0 { Span::from_nanos(fine) } else { Span::from_micros(budget) },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_agrees_with_every_schedule_tried(demands in prop::collection::vec(small_task(), 1..4)) {
        match feasible(&demands) {
            // All phases on a grid of 1 µs, each also 1 ns later, so that any tick can have just begun.
            Verdict::Holds { tightest, slack, .. } => {
                prop_assert!(tightest.is_some() && slack >= Span::ZERO);
                let choices: Vec<i128> =
                    demands.iter().map(|demand| demand.rate.offset(1) / 1_000 * 2 + 2).collect();
                let all: i128 = choices.iter().product();
                // No tick ends later than the slack allows. All deadlines move alike, so the order stays.
                let sooner: Vec<_> =
                    demands.iter().map(|&demand| Demand { deadline: demand.deadline - slack, ..demand }).collect();
                for combination in 0..all {
                    let mut rest = combination;
                    let phases: Vec<i128> = choices.iter().map(|choices| {
                        let choice = rest % choices;
                        rest /= choices;
                        choice / 2 * 1_000 + choice % 2
                    }).collect();
                    let missed = simulate(&sooner, &phases, 60_000);
                    prop_assert!(missed.is_none(), "{:?} at {:?}", missed, phases);
                }
            }
            // The worst case itself: the blocker starts 1 ns before everything that must be done by `at`.
            Verdict::Fails { at, .. } => {
                let at = i128::from(at.nanos());
                let blocker = (0..demands.len())
                    .filter(|&task| deadline(&demands[task]) > at)
                    .max_by_key(|&task| demands[task].budget);
                let phases: Vec<i128> = (0..demands.len()).map(|task| match blocker {
                    _ if deadline(&demands[task]) <= at => 1,
                    Some(blocker) if blocker == task => 0,
                    _ => 1_000_000,
                }).collect();
                prop_assert!(simulate(&demands, &phases, at + 100_000).is_some());
            }
            Verdict::Overloaded { utilisation } => {
                prop_assert!(utilisation > 1.0);
                prop_assert!(simulate(&demands, &vec![0; demands.len()], 1_000_000_000).is_some());
            }
            unknown @ Verdict::Unknown { .. } => prop_assert!(false, "{:?}", unknown),
        }
    }
}

/// A task of another worker in microseconds: period and processor time.
fn above(period: i64, cost: i64) -> Interference {
    let Demand { rate, budget, .. } = task(period, period, cost);
    Interference { rate, cost: budget }
}

/// ```text
/// above   [2]          [2]          [2]
/// task       [3 ------ ]                    released with it: done at 5, and at 7 if it takes 5
///         0  2         5  7         10
/// ```
#[test]
fn work_that_comes_first_takes_its_time() {
    let beside = |demands: &[Demand], others: &[Interference]| match feasible_beside(demands, others) {
        Verdict::Holds { slack, .. } => Ok(slack.nanos() / 1_000),
        Verdict::Fails { at, excess, .. } => Err((at.nanos() / 1_000, excess.nanos() / 1_000)),
        other => panic!("{other:?}"),
    };
    assert_eq!(beside(&[task(20, 10, 3)], &[above(5, 2)]), Ok(5), "interrupted at 5, it would end there");
    assert_eq!(beside(&[task(20, 10, 4)], &[above(5, 2)]), Ok(2), "two interruptions");
    assert_eq!(beside(&[task(20, 7, 4)], &[above(5, 2)]), Err((7, 1)));
    assert_eq!(beside(&[task(20, 10, 0)], &[above(5, 2)]), Ok(8), "no work still waits");
    assert_eq!(beside(&[task(10, 10, 6)], &[above(5, 2)]), Ok(0), "a full processor");
    assert!(matches!(feasible_beside(&[task(10, 10, 7)], &[above(5, 2)]), Verdict::Overloaded { .. }));
    assert!(matches!(feasible_beside(&[task(10, 10, 1)], &[above(5, 6)]), Verdict::Overloaded { .. }));
}

/// The first missed deadline when `above` interrupts the tasks at once, simulated in steps of `STEP` ns.
fn simulate_beside(demands: &[Demand], above: &[Interference], phases: &[i128], until: i128) -> Option<usize> {
    const STEP: i128 = 500;
    let mut index = vec![0_u64; demands.len()];
    let mut others: Vec<(u64, i128)> = vec![(0, 0); above.len()]; // released so far, work left
    let mut running: Option<(usize, i128)> = None;
    let mut now = 0;
    while now < until {
        for ((other, (released, left)), phase) in above.iter().zip(&mut others).zip(&phases[demands.len()..]) {
            while phase + other.rate.offset(*released) <= now {
                *released += 1;
                *left += i128::from(other.cost.nanos());
            }
        }
        let release = |task: usize| phases[task] + demands[task].rate.offset(index[task]);
        if running.is_none() {
            let due = (0..demands.len()).filter(|&task| release(task) <= now);
            let first = due.min_by_key(|&task| release(task) + deadline(&demands[task]));
            running = first
                .filter(|_| others.iter().all(|(_, left)| *left == 0))
                .map(|task| (task, i128::from(demands[task].budget.nanos())));
        }
        match (others.iter_mut().find(|(_, left)| *left > 0), &mut running) {
            (Some((_, left)), _) => *left -= STEP,
            (None, Some((_, left))) => *left -= STEP,
            (None, None) => {}
        }
        now += STEP;
        if let Some((task, left)) = running
            && left <= 0
        {
            if now > release(task) + deadline(&demands[task]) {
                return Some(task);
            }
            index[task] += 1;
            running = None;
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_holds_beside_others_holds_in_every_schedule_tried(
        tasks in prop::collection::vec((2..9_i64, 1..12_i64, 1..4_i64), 1..3),
        others in prop::collection::vec((3..9_i64, 1..3_i64), 1..3),
    ) {
        let demands: Vec<_> = tasks.iter().map(|&(period, deadline, budget)| task(period, deadline, budget)).collect();
        let others: Vec<_> = others.iter().map(|&(period, cost)| above(period, cost)).collect();
        let periods = demands.iter().map(|one| one.rate).chain(others.iter().map(|one| one.rate));
        let choices: Vec<i128> = periods.map(|rate| rate.offset(1) / 500).collect();
        let all: i128 = choices.iter().product();
        let phases = |mut rest: i128| -> Vec<i128> {
            choices.iter().map(|choices| { let choice = rest % choices; rest /= choices; choice * 500 }).collect()
        };
        let verdict = feasible_beside(&demands, &others);
        if let Verdict::Holds { slack, .. } = verdict {
            prop_assert!(slack >= Span::ZERO);
            for combination in (0..all).step_by(usize::try_from(all / 300 + 1).unwrap()) {
                let missed = simulate_beside(&demands, &others, &phases(combination), 80_000);
                prop_assert!(missed.is_none(), "{:?} at {:?}", missed, phases(combination));
            }
        }
        // Without other work, the result equals the plain test's.
        prop_assert_eq!(format!("{:?}", feasible(&demands)), format!("{:?}", feasible_beside(&demands, &[])));
    }
}
