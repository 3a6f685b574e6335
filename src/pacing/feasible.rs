//! Whether a worker's tasks can meet all their deadlines: the exact test for non-preemptive earliest deadline first.
//!
//! Time is passed in as rates and spans. All arithmetic is in integers, except for the displayed utilisation. A call allocates a few words
//! per task and checks up to two million deadlines, so run it before the start, not in the loop.

use super::Rate;
use super::utilisation::{Utilisation, reduced};
use crate::time::{NANOS_PER_SECOND, Span};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most deadlines checked before the answer is [`Verdict::Unknown`]. Checking that many takes a fraction of a second.
const MAX_POINTS: usize = 2_000_000;

/// What one task demands from its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// How often the task is released.
    pub rate: Rate,
    /// Latest finish, relative to the release; may be longer than a period. Negative counts as zero.
    pub deadline: Span,
    /// Longest run of a tick, including the worker's own cost of a tick. Negative counts as zero.
    pub budget: Span,
}

/// Work on the same processor that takes precedence: a worker of the same or a higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interference {
    /// The highest rate at which the work is released.
    pub(crate) rate: Rate,
    /// Processor time per release, above zero.
    pub(crate) cost: Span,
}

/// Whether every deadline is met, as long as no tick runs longer than its budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Every deadline is met, for all phases.
    Holds {
        /// The demanded share of the processor; in `0.0..=1.0` up to rounding.
        utilisation: f64,
        /// Index of the task with the least slack, or the first of several; `None` without tasks.
        tightest: Option<usize>,
        /// Time left before that task's deadline in the worst case, rounded down to a nanosecond. At least zero; [`Span::MAX`] without
        /// tasks. If the busy period has millions of deadlines, this covers only the deadlines that were checked.
        slack: Span,
    },
    /// Some phases miss a deadline, although the processor is fast enough on average.
    Fails {
        /// The demanded share of the processor; in `0.0..=1.0` up to rounding.
        utilisation: f64,
        /// Index of the task whose deadline is missed, or the first of several.
        task: usize,
        /// Length of the shortest interval that is too short for its work; it ends at the missed deadline.
        at: Span,
        /// How much of the work does not fit; above zero.
        excess: Span,
    },
    /// More work than time: debt grows without limit.
    Overloaded {
        /// The demanded share of the processor; above 1.0 up to rounding.
        utilisation: f64,
    },
    /// The check could not decide whether all deadlines are met.
    Unknown {
        /// The reason, as a clause.
        reason: &'static str,
    },
}

/// Whether one worker meets the deadlines of `demands`.
///
/// The worker must run due tasks by earliest deadline, and each tick to its end. The test is the processor-demand criterion
/// for that case: for every deadline `t` up to the end of the first busy period after all tasks were released together at 0,
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
/// The answer is for the worst phases; tasks whose phases keep them apart may do better than [`Verdict::Fails`] says.
/// Oversleeps, interrupts and other threads count only if the budgets include them. Releases rounded down to whole
/// nanoseconds are counted exactly. A tick with a budget of zero takes no time, but may still be too late.
///
/// Other work interrupts and delays the worker. An interval that ends at deadline `t` must have room for that work too: all
/// work must be done at the first instant `e ≤ t` with
///
/// ```text
///     work that must be done by t (as above)  +  Σ ⌈e/Tₖ⌉·Cₖ  =  e         k: the work that comes first
/// ```
///
/// The test is exact for the worst phases if that work can interrupt a tick (a higher priority). If it can only delay the tick's start (the
/// same priority), the test is on the safe side.
pub(crate) fn feasible_beside(demands: &[Demand], above: &[Interference]) -> Verdict {
    let utilisation = demands.iter().map(|demand| demand.rate.hertz() * budget(demand).seconds()).sum();
    let exact = Utilisation::of(demands.iter().map(share).chain(above.iter().map(|one| share_of(one.rate, one.cost))));
    if exact.least > Utilisation::ONE {
        return Verdict::Overloaded { utilisation };
    }
    let busy = busy_period(demands, above);
    // A deadline past either bound cannot be missed, but deadlines within the busy period still matter for the slack.
    let safe = busy.into_iter().chain(demand_bound(&exact, demands, above)).min();
    let walk = walk(demands, above, busy.or(safe).unwrap_or(i128::MAX));
    if let Some((task, at, excess)) = walk.fails {
        return Verdict::Fails { utilisation, task, at: Span::from_wide(at), excess: Span::from_wide(excess) };
    }
    if safe.is_none_or(|safe| walk.checked < safe) {
        return Verdict::Unknown { reason: "there are too many deadlines to check before the processor is idle" };
    }
    // Ticks released in the busy period whose deadline lies after it: all work is finished at the end of the period.
    let after = busy.into_iter().flat_map(|busy| {
        let left = walk.next.iter().map(|&Reverse(next)| next);
        let left = left.filter(move |&(at, task, n)| at >= busy && demands[task].rate.offset(n) < busy.max(1));
        left.map(move |(at, task, _)| (at - busy, task))
    });
    let least = walk.least.into_iter().chain(after).min();
    let (slack, tightest) = least.map_or((Span::MAX, None), |(slack, task)| (Span::from_wide(slack), Some(task)));
    Verdict::Holds { utilisation, tightest, slack }
}

const NANOS: u128 = NANOS_PER_SECOND.unsigned_abs() as u128;

#[derive(Default)]
struct Walk {
    /// All deadlines before this instant were checked.
    checked: i128,
    /// The least slack and its task; `None` if no deadline was checked.
    least: Option<(i128, usize)>,
    /// The first missed deadline: its task, its instant, and the work that does not fit.
    fails: Option<(usize, i128, i128)>,
    /// For each task: its next deadline, the task's index, and the index of that tick.
    next: BinaryHeap<Reverse<(i128, usize, u64)>>,
}

/// Checks every absolute deadline before `bound`, in order, until [`MAX_POINTS`] is exhausted.
fn walk(demands: &[Demand], above: &[Interference], bound: i128) -> Walk {
    // For any t, the longest budget among the tasks with a deadline after t: sort by falling deadline, keep the running maximum.
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
    let (mut demanded, mut finished, mut points) = (0, 0, 0);
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
        // The work only grows from deadline to deadline, and so does the instant at which it is all done.
        let Some(done) = finish(demanded + blocked, finished, above, at, &mut points) else {
            walk.checked = at;
            return walk;
        };
        finished = done;
        let slack = at - finished;
        if slack < 0 {
            walk.fails = Some((task, at, -slack));
            return walk;
        }
        walk.least = walk.least.into_iter().chain([(slack, task)]).min();
    }
    walk.checked = bound;
    walk
}

/// The instant at which `work`, plus all higher-precedence work until then, is done; not before `from`. If it would be after `latest`,
/// returns some instant after `latest`. `None` if the search takes too long.
fn finish(work: i128, from: i128, above: &[Interference], latest: i128, points: &mut usize) -> Option<i128> {
    // Higher-precedence work exists from the very beginning, even when there is no other work.
    let mut end = from.max(work).max(i128::from(!above.is_empty()));
    while *points <= MAX_POINTS {
        let done = work.saturating_add(interference(above, end));
        *points += above.len();
        if done <= end || done > latest {
            return Some(done.max(from));
        }
        end = done;
    }
    None
}

/// Processor time of the higher-precedence work released before `end`.
fn interference(above: &[Interference], end: i128) -> i128 {
    let each = above.iter().map(|one| i128::from(one.rate.ticks_before(end)).saturating_mul(one.cost.nanos().into()));
    each.fold(0, i128::saturating_add)
}

/// How long the processor stays busy when all tasks are released together; `None` if the search takes too long.
///
/// The smallest `L` with `Σ ⌈L/Tᵢ⌉·Cᵢ = L`, found from below. Deadlines from `L` on need no check: even after a blocker, the busy period in
/// which they could be missed has ended by then.
fn busy_period(demands: &[Demand], above: &[Interference]) -> Option<i128> {
    let mut length: i128 = demands.iter().map(|demand| i128::from(budget(demand).nanos())).sum();
    length += above.iter().map(|one| i128::from(one.cost.nanos())).sum::<i128>();
    for _ in 0..MAX_POINTS / (demands.len() + above.len()).max(1) {
        let ticks = |demand: &Demand| i128::from(demand.rate.ticks_before(length));
        let work = demands.iter().map(|demand| ticks(demand).saturating_mul(budget(demand).nanos().into()));
        let work = work.fold(interference(above, length), i128::saturating_add);
        if work == length {
            return Some(length);
        }
        length = work;
    }
    None
}

/// The instant after which demand cannot exceed time, because `demand(t) ≤ U·t + Σ max(0, Tᵢ − Dᵢ)·Uᵢ + Σ Cₖ` and nothing blocks past the
/// longest deadline. `None` if the utilisation is too close to 1. If `T` is not a whole number of nanoseconds, releases rounded down can be
/// up to 1 ns closer together.
fn demand_bound(utilisation: &Utilisation, demands: &[Demand], above: &[Interference]) -> Option<i128> {
    let past_blocking = demands.iter().map(deadline).max().map_or(0, |longest| longest + 1);
    let ahead = demands.iter().map(|demand| {
        let rounded = !(u128::from(demand.rate.den()) * NANOS).is_multiple_of(u128::from(demand.rate.num()));
        let gap = i128::from(demand.rate.period().nanos()) + i128::from(rounded) - deadline(demand);
        let (num, den) = share(demand);
        Utilisation::one(num, den).most.saturating_mul(u128::try_from(gap).unwrap_or(0))
    });
    let first = above.iter().map(|one| u128::from(one.cost.nanos().unsigned_abs()).saturating_mul(Utilisation::ONE));
    let ahead = ahead.chain(first).fold(0, u128::saturating_add);
    if utilisation.most > Utilisation::ONE {
        return None;
    }
    let crossing = match Utilisation::ONE - utilisation.most {
        _ if ahead == 0 => 0,
        0 => return None,
        idle => i128::try_from(ahead / idle).ok()? + 1,
    };
    Some(past_blocking.max(crossing))
}

/// One task's share of the processor as a reduced fraction.
fn share(demand: &Demand) -> (u128, u128) {
    share_of(demand.rate, budget(demand))
}

fn share_of(rate: Rate, cost: Span) -> (u128, u128) {
    let num = u128::from(cost.nanos().unsigned_abs()) * u128::from(rate.num());
    reduced(num, u128::from(rate.den()) * NANOS)
}

fn budget(demand: &Demand) -> Span {
    demand.budget.max(Span::ZERO)
}

fn deadline(demand: &Demand) -> i128 {
    i128::from(demand.deadline.max(Span::ZERO).nanos())
}

#[cfg(test)]
mod tests;
