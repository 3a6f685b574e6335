//! Whether a worker's tasks can keep all their deadlines: the exact test for earliest deadline first, not preempted.
//!
//! Time comes in as rates and spans, and everything but the utilisation shown to people is integer arithmetic. A call
//! allocates a few words a task and looks at two million deadlines at most, so it belongs before the start.

use super::Rate;
use crate::time::Span;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most deadlines that are looked at before the answer is [`Verdict::Unknown`]; a fraction of a second's work.
const MAX_POINTS: usize = 2_000_000;

/// What one task asks of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// How often it is released.
    pub rate: Rate,
    /// Latest finish, relative to the release; may be longer than a period. Negative counts as zero.
    pub deadline: Span,
    /// Longest run of a tick, with whatever a tick costs the worker itself. Negative counts as zero.
    pub budget: Span,
}

/// Whether every deadline is kept, as long as no tick runs longer than its budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Every deadline is kept, whatever the phases.
    Holds {
        /// The share of the processor that is asked for; in `0.0..=1.0` up to rounding.
        utilisation: f64,
        /// Index of the task with the least slack, the first of several; `None` without tasks.
        tightest: Option<usize>,
        /// What is left before that task's deadline in the worst case, to a nanosecond, on the safe side; where the
        /// busy period has millions of deadlines, of those looked at. At least zero; [`Span::MAX`] without tasks.
        slack: Span,
    },
    /// With some phases a deadline is missed, although the processor is fast enough on average.
    Fails {
        /// The share of the processor that is asked for; in `0.0..=1.0` up to rounding.
        utilisation: f64,
        /// Index of the task whose deadline is missed, the first of several.
        task: usize,
        /// The shortest interval, ending at that deadline, into which the work does not fit.
        at: Span,
        /// How much of the work does not fit; above zero.
        excess: Span,
    },
    /// More work than time: debt grows without end.
    Overloaded {
        /// The share of the processor that is asked for; above 1.0 up to rounding.
        utilisation: f64,
    },
    /// Neither shown to hold nor to fail.
    Unknown {
        /// Why not, as part of a sentence.
        reason: &'static str,
    },
}

/// Whether one worker keeps the deadlines of `demands`.
///
/// The worker must run whatever is due, earliest deadline first, and each tick to its end. The test is the
/// processor-demand criterion for that case: for every deadline `t` up to the end of the first busy period after all
/// tasks were released together at 0,
///
/// ```text
///      Σ  (1 + ⌊(t − Dᵢ)/Tᵢ⌋)·Cᵢ   +    max  (Cⱼ − 1 ns)   ≤   t        T period, D deadline, C budget
///    Dᵢ ≤ t                            Dⱼ > t
///      work that must be done by t      a tick with a later deadline that had just begun
///
/// Cⱼ begins 1 ns before the others    ↓ all others released at 0            ↓ t
///                                   [ j : Cⱼ ......][ i ][ k ][ i ][ k ]....|   slack
/// ```
///
/// Sources: K. Jeffay, D. F. Stanat, C. U. Martel, "On Non-Preemptive Scheduling of Periodic and Sporadic Tasks", RTSS
/// 1991 (deadline equal to period); L. George, N. Rivierre, M. Spuri, "Preemptive and Non-Preemptive Real-Time
/// UniProcessor Scheduling", INRIA research report 2966, 1996 (any deadlines, and the bound on `t`).
///
/// Phases are ignored: the answer is for the worst ones, so tasks whose phases keep them apart may do better than
/// [`Verdict::Fails`] says. Oversleeps, interrupts and other threads are not in it unless the budgets include them; nor
/// is a tick that breaks its budget. Releases rounded down to whole nanoseconds are counted exactly.
///
/// A budget of zero takes no time, but can come too late all the same.
pub fn feasible(demands: &[Demand]) -> Verdict {
    let utilisation = demands.iter().map(|demand| demand.rate.hertz() * budget(demand).seconds()).sum();
    let load = Load::of(demands);
    if load.least > Load::ONE {
        return Verdict::Overloaded { utilisation };
    }
    let busy = busy_period(demands);
    // Deadlines past either bound cannot be missed. Those up to the end of the busy period still count for the slack.
    let safe = busy.into_iter().chain(load.demand_bound(demands)).min();
    let walk = walk(demands, busy.or(safe).unwrap_or(i128::MAX));
    if let Some((task, at, excess)) = walk.fails {
        return Verdict::Fails { utilisation, task, at: Span::from_wide(at), excess: Span::from_wide(excess) };
    }
    if safe.is_none_or(|safe| walk.checked < safe) {
        return Verdict::Unknown { reason: "there are too many deadlines to check before the processor is idle" };
    }
    // Ticks released in the busy period with a deadline after it: all work is done by its end.
    let after = busy.into_iter().flat_map(|busy| {
        let left = walk.next.iter().map(|&Reverse(next)| next);
        let left = left.filter(move |&(at, task, n)| at >= busy && demands[task].rate.offset(n) < busy.max(1));
        left.map(move |(at, task, _)| (at - busy, task))
    });
    let least = walk.least.into_iter().chain(after).min();
    let (slack, tightest) = least.map_or((Span::MAX, None), |(slack, task)| (Span::from_wide(slack), Some(task)));
    Verdict::Holds { utilisation, tightest, slack }
}

const NANOS: u128 = 1_000_000_000;

#[derive(Default)]
struct Walk {
    /// Deadlines before this one were looked at.
    checked: i128,
    /// The least slack and its task; `None` when no deadline was looked at.
    least: Option<(i128, usize)>,
    /// The first deadline missed: its task, when it is, and what does not fit.
    fails: Option<(usize, i128, i128)>,
    /// For each task its next deadline, itself, and the index of that tick.
    next: BinaryHeap<Reverse<(i128, usize, u64)>>,
}

/// Looks at every absolute deadline before `bound`, in order, as far as [`MAX_POINTS`] allow.
fn walk(demands: &[Demand], bound: i128) -> Walk {
    // The longest budget among the tasks with a deadline after t: by falling deadline, the running maximum.
    let mut blockers: Vec<(i128, i128)> =
        demands.iter().map(|demand| (deadline(demand), i128::from(budget(demand).nanos()))).collect();
    blockers.sort_unstable_by_key(|&(deadline, _)| Reverse(deadline));
    let mut longest = 0;
    for (_, budget) in &mut blockers {
        longest = longest.max(*budget);
        *budget = longest;
    }

    let next = demands.iter().enumerate().map(|(task, demand)| Reverse((deadline(demand), task, 0))).collect();
    let mut walk = Walk { next, ..Walk::default() };
    let (mut demanded, mut points) = (0, 0);
    while let Some(&Reverse((at, task, _))) = walk.next.peek() {
        if at >= bound || points > MAX_POINTS {
            walk.checked = at.min(bound);
            return walk;
        }
        while let Some(mut top) = walk.next.peek_mut() {
            let Reverse((also_at, which, n)) = &mut *top;
            if *also_at != at {
                break;
            }
            let demand = &demands[*which];
            demanded += i128::from(budget(demand).nanos());
            *n += 1;
            *also_at = demand.rate.offset(*n).saturating_add(deadline(demand));
            points += 1;
        }
        while blockers.last().is_some_and(|&(deadline, _)| deadline <= at) {
            blockers.pop();
        }
        let blocked = blockers.last().map_or(0, |&(_, budget)| (budget - 1).max(0));
        let slack = at - demanded - blocked;
        if slack < 0 {
            walk.fails = Some((task, at, -slack));
            return walk;
        }
        walk.least = walk.least.into_iter().chain([(slack, task)]).min();
    }
    walk.checked = bound;
    walk
}

/// How long the processor stays busy when all tasks are released together; `None` when that was not found in time.
///
/// The smallest `L` with `Σ ⌈L/Tᵢ⌉·Cᵢ = L`, from below. Deadlines from `L` on need no check: even with a blocker before
/// it, the busy period in which they could be missed is over by then.
fn busy_period(demands: &[Demand]) -> Option<i128> {
    let mut length: i128 = demands.iter().map(|demand| i128::from(budget(demand).nanos())).sum();
    for _ in 0..MAX_POINTS / demands.len().max(1) {
        let work = demands
            .iter()
            .map(|demand| {
                i128::from(demand.rate.ticks_before(length)).saturating_mul(i128::from(budget(demand).nanos()))
            })
            .fold(0, i128::saturating_add);
        if work == length {
            return Some(length);
        }
        length = work;
    }
    None
}

/// The utilisation between two whole numbers in units of 2⁻⁶⁰: the true one is at least `least` and at most `most`.
struct Load {
    least: u128,
    most: u128,
}

impl Load {
    const ONE: u128 = 1 << 60;

    fn of(demands: &[Demand]) -> Self {
        // The exact sum where its denominator fits, else the sum of the rounded shares.
        let mut exact = Some((0_u128, 1_u128));
        let mut rounded = Self { least: 0, most: 0 };
        for demand in demands {
            let (num, den) = share(demand);
            let one = Self::one(num, den);
            rounded.least = rounded.least.saturating_add(one.least);
            rounded.most = rounded.most.saturating_add(one.most);
            exact = exact.and_then(|sum| add(sum, (num, den)));
        }
        match exact {
            Some((num, den)) if num == den => Self { least: Self::ONE, most: Self::ONE },
            // Above one by less than can be shown in 2⁻⁶⁰ is above one all the same.
            Some((num, den)) if num > den => Self { least: rounded.least.max(Self::ONE + 1), ..rounded },
            Some(_) => Self { most: rounded.most.min(Self::ONE - 1), ..rounded },
            None => rounded,
        }
    }

    fn one(num: u128, den: u128) -> Self {
        match num.checked_mul(Self::ONE) {
            Some(scaled) => Self { least: scaled / den, most: scaled.div_ceil(den) },
            None => Self { least: num / den * Self::ONE, most: (num / den + 1).saturating_mul(Self::ONE) },
        }
    }

    /// From here on the demand cannot exceed the time, as `demand(t) ≤ U·t + Σ max(0, Tᵢ − Dᵢ)·Uᵢ` and nothing blocks
    /// past the longest deadline; `None` where the utilisation is too close to 1 to say. Where `T` is no whole number
    /// of nanoseconds, releases rounded down can lie up to 1 ns closer together.
    fn demand_bound(&self, demands: &[Demand]) -> Option<i128> {
        let past_blocking = demands.iter().map(deadline).max().map_or(0, |longest| longest + 1);
        let ahead = demands
            .iter()
            .map(|demand| {
                let rounded = !(u128::from(demand.rate.den()) * NANOS).is_multiple_of(u128::from(demand.rate.num()));
                let gap = i128::from(demand.rate.period().nanos()) + i128::from(rounded) - deadline(demand);
                let (num, den) = share(demand);
                Self::one(num, den).most.saturating_mul(u128::try_from(gap).unwrap_or(0))
            })
            .fold(0, u128::saturating_add);
        if self.most > Self::ONE {
            return None;
        }
        let crossing = match Self::ONE - self.most {
            _ if ahead == 0 => 0,
            0 => return None,
            idle => i128::try_from(ahead / idle).ok()? + 1,
        };
        Some(past_blocking.max(crossing))
    }
}

/// One task's share of the processor as a reduced fraction.
fn share(demand: &Demand) -> (u128, u128) {
    let num = u128::from(budget(demand).nanos().unsigned_abs()) * u128::from(demand.rate.num());
    reduced(num, u128::from(demand.rate.den()) * NANOS)
}

fn add(one: (u128, u128), other: (u128, u128)) -> Option<(u128, u128)> {
    let common = gcd(one.1, other.1);
    let num = one.0.checked_mul(other.1 / common)?.checked_add(other.0.checked_mul(one.1 / common)?)?;
    Some(reduced(num, (one.1 / common).checked_mul(other.1)?))
}

fn reduced(num: u128, den: u128) -> (u128, u128) {
    let divisor = gcd(num, den).max(1);
    (num / divisor, den / divisor)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn budget(demand: &Demand) -> Span {
    demand.budget.max(Span::ZERO)
}

fn deadline(demand: &Demand) -> i128 {
    i128::from(demand.deadline.max(Span::ZERO).nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
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
        // Two thirds of a nanosecond a period short of full, then more than that over.
        let ntsc = Rate::new(30_000, 1_001).unwrap();
        let one = Demand { rate: ntsc, deadline: ntsc.period(), budget: Span::from_nanos(ntsc.period().nanos() / 3) };
        assert!(matches!(feasible(&[one; 3]), Verdict::Holds { .. }));
        let over = Demand { budget: one.budget + Span::from_nanos(1), ..one };
        assert!(matches!(feasible(&[over; 3]), Verdict::Overloaded { .. }));
        // Full, with deadlines below the period: only the busy period bounds the check.
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
        // Nine seconds of catching up after a slow tick, at a million deadlines a second.
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

    /// The first deadline missed, if any, when the tasks start at `phases` (ns) and run until `until`.
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
            // 300 kHz stands in for 3333 ns: a period that is no whole number.
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
                // All phases on a grid of 1 µs, each also 1 ns later: then any tick can have just begun.
                Verdict::Holds { tightest, slack, .. } => {
                    prop_assert!(tightest.is_some() && slack >= Span::ZERO);
                    let choices: Vec<i128> =
                        demands.iter().map(|demand| demand.rate.offset(1) / 1_000 * 2 + 2).collect();
                    let all: i128 = choices.iter().product();
                    // No tick ends later than the slack says; all deadlines moved alike, the order stays.
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
                // The worst case itself: the blocker starts 1 ns before all that must be done by `at`.
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
}
