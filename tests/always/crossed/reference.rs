//! The expected values of every tick of a case, given when it began and ended: which row each reader sees, its quality, and the results of
//! the laws. Also the order of the due tasks.

use super::case::{Case, Does, Link, Task};
use super::laws::{Made, Seen, State, worth};
use hertzd::cli::{VirtualRun, VirtualTick};

/// The newest row of a task.
#[derive(Clone, Debug)]
struct Row {
    value: f64,
    finite: f64, // the last number up to this row; NaN: none
    quality: u8,
    release: i64,
    origin: Option<i64>,
}

fn index(tick: &VirtualTick) -> usize {
    tick.task[1..].parse().unwrap()
}

/// The ticks of a worker, in the order in which they ran.
fn of_worker<'a>(case: &'a Case, run: &'a VirtualRun, worker: usize) -> impl Iterator<Item = &'a VirtualTick> {
    run.ticks.iter().filter(move |tick| case.tasks[index(tick)].worker == worker)
}

/// Compares every value of every tick.
pub(crate) fn values(case: &Case, run: &VirtualRun) -> Result<usize, String> {
    let mut events = Vec::new();
    for worker in 0..2 {
        for (nth, tick) in of_worker(case, run, worker).enumerate() {
            events.push((tick.started.nanos(), worker, 2 * nth, tick));
            events.push((tick.finished.nanos(), worker, 2 * nth + 1, tick));
        }
    }
    events.sort_by_key(|(at, worker, nth, _)| (*at, *worker, *nth));
    let mut states: Vec<State> = case.tasks.iter().map(State::of).collect();
    let mut cells: Vec<Vec<Seen>> = case.tasks.iter().map(|task| task.links.iter().map(unread).collect()).collect();
    let mut rows: Vec<Option<Row>> = vec![None; case.tasks.len()];
    let mut made: Vec<Option<(Made, Row)>> = vec![None; case.tasks.len()];
    let (mut compared, firsts) = (0, firsts(case));
    for (at, _, nth, tick) in events {
        let (task, release) = (index(tick), tick.release.nanos());
        let own = &case.tasks[task];
        if nth % 2 == 1 {
            let (made, row) = made[task].take().unwrap();
            for (plant, state) in states.iter_mut().enumerate() {
                if matches!(case.tasks[plant].does, Does::Plant { driven_by: Some(from), .. } if from == task) {
                    state.drive(at, made.values[0]);
                }
            }
            rows[task] = Some(row);
            continue;
        }
        let (mut all, mut behind) = (Means::Nothing, None::<i64>);
        for (link, cell) in own.links.iter().zip(&mut cells[task]) {
            let (means, counted) = look(link, rows[link.from].as_ref(), cell, at, (own, firsts[link.from]));
            all = if means > all { means } else { all };
            if let Some(origin) = counted {
                behind = Some(behind.map_or(origin, |oldest| oldest.min(origin)));
            }
        }
        let found = states[task].tick(own, (tick.n, release, at), &cells[task]);
        for (nth, (wanted, value)) in found.values.iter().zip(&tick.values).enumerate() {
            compared += 1;
            let near = (wanted - value).abs() <= 1e-9 * wanted.abs().max(1.0);
            let both_missing = wanted.is_nan() && value.is_nan();
            if !(near || both_missing) {
                let taken = &cells[task];
                return Err(format!(
                    "t{task}, tick {}: value {nth} is {value}, and must be {wanted}; it took {taken:?}",
                    tick.n
                ));
            }
        }
        let took = behind.or((own.links.is_empty()).then_some(release));
        let value = found.values[0];
        let within = match own.does {
            Does::Source { valid: Some(most), .. } => value.abs() <= most,
            _ => true,
        };
        let origin = found.origin.map(|of_task| took.map_or(of_task, |took| took.min(of_task))).or(took);
        let quality = worth_of(value, &found, all, within);
        let finite = if value.is_finite() { value } else { rows[task].as_ref().map_or(f64::NAN, |row| row.finite) };
        made[task] = Some((found, Row { value, finite, quality, release, origin }));
    }
    Ok(compared)
}

/// How long the first value of each task may take: that of a sensor 30 s, and so does what is computed from it.
fn firsts(case: &Case) -> Vec<i64> {
    let own = |task: &Task| if matches!(task.does, Does::Plant { .. }) { 30_000_000_000 } else { 0 };
    let mut firsts: Vec<i64> = case.tasks.iter().map(own).collect();
    // As often as a path can be long.
    for _ in 0..case.tasks.len() {
        for (at, task) in case.tasks.iter().enumerate() {
            let before = task.links.iter().filter(|link| link.previous.is_none()).map(|link| firsts[link.from]).max();
            firsts[at] = firsts[at].max(before.unwrap_or_default());
        }
    }
    firsts
}

/// An input before the first row.
fn unread(link: &Link) -> Seen {
    let (value, quality) = link.previous.map_or((f64::NAN, worth::NONE), |first| (first, worth::GOOD));
    Seen { value, quality, origin: None, release: None, waits: None, first: true, measured: None, kept: None }
}

/// What the inputs of a tick mean for its values; of several, the greatest.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Means {
    Nothing,
    /// The task copes without a value that has nothing new.
    Without,
    /// The task copes without a bad value.
    Despite,
    Held,
    NothingNew,
    Bad,
}

/// Copies the newest row into an input. Returns what it means for the reader's values, and the origin that they have from it.
fn look(
    link: &Link,
    row: Option<&Row>,
    cell: &mut Seen,
    now: i64,
    (task, first): (&Task, i64),
) -> (Means, Option<i64>) {
    if link.previous.is_some() {
        // It shows the last number, of any quality.
        let Some(row) = row else { return (Means::Nothing, None) };
        if row.finite.is_finite() {
            cell.value = row.finite;
        }
        if row.value.is_finite() {
            let release = Some(row.release);
            *cell = Seen {
                value: row.value,
                quality: worth::GOOD,
                origin: None,
                release,
                waits: None,
                first: false,
                measured: None,
                kept: None,
            };
        }
        return (Means::Nothing, None);
    }
    let is_old = |since: i64| now - since > task.max_age;
    let stale = row.is_some_and(|row| is_old(row.origin.map_or(row.release, |origin| origin.min(row.release))));
    let found = row.map_or(worth::NONE, |row| row.quality);
    let waits = if found == worth::NONE { Some(cell.waits.unwrap_or(now)) } else { None };
    let patience = if cell.first { task.max_age.max(first) } else { task.max_age };
    let is_over = stale || waits.is_some_and(|since| now - since > patience);
    let first = cell.first && found == worth::NONE && !is_over;
    let quality = match found {
        worth::NONE if is_over => {
            if row.is_some() {
                worth::STALE
            } else {
                worth::BAD
            }
        }
        worth::GOOD | worth::HELD if stale => worth::STALE,
        found => found,
    };
    let mut kept = cell.kept;
    if let (worth::GOOD, Some(row), true) = (quality, row, task.hold > 0) {
        kept = Some((row.value, row.origin, row.release, now));
    }
    let usable = [worth::GOOD, worth::HELD].contains(&quality);
    let (origin, release) = (row.and_then(|row| row.origin), row.map(|row| row.release));
    let measured = if usable { origin } else { cell.measured };
    let had_value = [worth::GOOD, worth::HELD].contains(&found);
    *cell = match kept {
        Some((value, origin, release, seen)) if !usable && now - seen <= task.hold => {
            Seen { value, quality: worth::HELD, origin, release: Some(release), waits, first, measured: origin, kept }
        }
        _ => {
            let value = row.filter(|_| usable).map_or(f64::NAN, |row| row.value);
            // What is bad or not there is as old as its last good value.
            let origin = if usable || had_value { origin } else { measured };
            Seen { value, quality, origin, release, waits, first, measured, kept }
        }
    };
    let means = match (cell.quality, link.spared) {
        (worth::GOOD, _) => Means::Nothing,
        (worth::HELD, _) => Means::Held,
        (worth::NONE, true) => Means::Without,
        (worth::NONE, false) => Means::NothingNew,
        (_, true) => Means::Despite,
        (_, false) => Means::Bad,
    };
    let counts = cell.is_usable() || !link.spared;
    let of_row = row.and_then(|row| row.origin);
    (means, if cell.quality == worth::NONE { of_row } else { cell.origin }.filter(|_| counts))
}

/// What the first value of a tick is worth.
fn worth_of(value: f64, made: &Made, means: Means, within: bool) -> u8 {
    match means {
        _ if made.failed || made.gave_up => worth::BAD,
        Means::Bad => worth::BAD,
        Means::NothingNew => worth::NONE,
        _ if made.left => worth::NONE,
        Means::Without if value.is_nan() => worth::NONE,
        _ if !value.is_finite() || !within => worth::BAD,
        Means::Held => worth::HELD,
        _ => worth::GOOD,
    }
}

/// What the turn of a task depends on.
#[derive(Clone, Copy)]
struct Pending {
    n: i64,             // the release that is to run
    late: u32,          // how many ticks in a row have ended after the release that was then the next one
    gave_up: u32,       // how often it has given up releases since then, while it waited
    ran: Option<usize>, // which of the worker's ticks its last one was
}

/// Checks the order of due tasks. The earliest deadline runs first; then a task that had to give up releases on two occasions while it waited; then a
/// producer before the consumers of its values; then the task whose last run is longest ago. A producer has the deadline of its consumers,
/// unless it had to give up releases on two occasions, or each of its last two runs ended after its next release. Returns how often the order decided between
/// several tasks.
pub(crate) fn order(case: &Case, run: &VirtualRun) -> Result<usize, String> {
    let turns = turns(case);
    let release = |of: usize, n: i64| case.tasks[of].phase + n * case.tasks[of].period;
    let turn = |of: usize, waits: Pending| {
        let (deadline, place) = match waits {
            Pending { gave_up: 2.., .. } => (case.tasks[of].deadline, i64::MIN),
            Pending { late: 2.., .. } => (case.tasks[of].deadline, 0),
            _ => turns[of],
        };
        (release(of, waits.n) + deadline, place, waits.ran.map(|when| when + 1), of)
    };
    let mut decided = 0;
    for worker in 0..2 {
        let mut waiting = vec![Pending { n: 0, late: 0, gave_up: 0, ran: None }; case.tasks.len()];
        for (nth, tick) in of_worker(case, run, worker).enumerate() {
            let now = tick.started.nanos();
            if now >= case.length {
                break; // of the late releases, only those that the policy keeps run
            }
            // The same task after it has given up all releases but the last one that is due.
            let kept = |of: usize, waits: Pending| {
                let n = (now - case.tasks[of].phase).div_euclid(case.tasks[of].period);
                Pending { n, gave_up: waits.gave_up + u32::from(n > waits.n), ..waits }
            };
            let chosen = index(tick);
            let own = kept(chosen, waiting[chosen]);
            if own.n < waiting[chosen].n || own.n.cast_unsigned() != tick.n {
                return Err(format!("t{chosen} ran tick {} at {now}, where tick {} was due", tick.n, own.n));
            }
            let first = turn(chosen, own);
            let of_this = |other: &usize| *other != chosen && case.tasks[*other].worker == worker;
            for other in (0..case.tasks.len()).filter(of_this) {
                if release(other, waiting[other].n) > now {
                    continue;
                }
                decided += 1;
                if turn(other, waiting[other]) > first {
                    continue;
                }
                // Its turn came before, and found that the release had to be given up.
                let later = kept(other, waiting[other]);
                if later.n == waiting[other].n || turn(other, later) < first {
                    return Err(format!(
                        "t{chosen} went before t{other} at {now}: {first:?}, {:?}",
                        turn(other, later)
                    ));
                }
                waiting[other] = later;
            }
            let ended = tick.finished.nanos();
            let next = (ended - case.tasks[chosen].phase).div_euclid(case.tasks[chosen].period).max(own.n + 1); // it may skip some
            let late = if ended > release(chosen, next) { own.late + 1 } else { 0 };
            waiting[chosen] = Pending { n: next, late, gave_up: 0, ran: Some(nth) };
        }
    }
    Ok(decided)
}

/// The deadline of each task, and its position among equal ones: a producer comes before its consumers on the same worker.
fn turns(case: &Case) -> Vec<(i64, i64)> {
    let mut turns: Vec<(i64, i64)> = case.tasks.iter().map(|task| (task.deadline, 0)).collect();
    for (to, task) in case.tasks.iter().enumerate().rev() {
        for link in task.links.iter().filter(|link| link.previous.is_none()) {
            if case.tasks[link.from].worker == task.worker {
                let (deadline, place) = turns[to];
                turns[link.from] = turns[link.from].min((deadline, place - 1));
            }
        }
    }
    turns
}

/// Every release ran or was given up.
pub(crate) fn counts(case: &Case, run: &VirtualRun) -> Result<(), String> {
    for (of, task) in case.tasks.iter().enumerate() {
        let due = (case.length - task.phase + task.period - 1).div_euclid(task.period).unsigned_abs();
        let counts = run.counts_of(&format!("t{of}"));
        let ran = run.ticks.iter().filter(|tick| index(tick) == of).count() as u64;
        if (counts.due, counts.ran, counts.ran + counts.skipped) != (due, ran, due) {
            return Err(format!("t{of}: {counts:?}, and must have {due} due and {ran} run"));
        }
    }
    Ok(())
}
