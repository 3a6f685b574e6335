//! Tests of each rule for verdicts, with exact instants. All numbers are in microseconds.

mod idle;
mod rules;
mod stalls;

use super::*;
use crate::channels::Evidence;
use crate::metrics::machine::{Bandwidth, NoAccuser, WorkerFacts};
use crate::metrics::{Program, RECORD};

const TERMS: Terms = Terms { deadline: micros(1_000), period: micros(1_000), usual: Span::ZERO };

const fn micros(micros: i64) -> Span {
    Span::from_micros(micros)
}

fn at(micros: i64) -> Instant {
    Instant::ZERO + Span::from_micros(micros)
}

/// A tick of `task` with these times, without a sleep before it.
fn tick(task: u32, release: i64, started: i64, finished: i64) -> TickRecord {
    TickRecord {
        task,
        release: at(release),
        lateness: micros(started - release),
        response: micros(finished - release),
        woke: micros(-release),
        overrun: finished - release > 1_000,
        ..RECORD
    }
}

/// The same tick after a sleep that should have ended at `asked` and ended at `woke`.
fn after_sleep(asked: i64, woke: i64, tick: TickRecord) -> TickRecord {
    TickRecord { woke: at(woke) - tick.release, oversleep: Some(micros(woke - asked)), ..tick }
}

/// The tick with evidence: `awake` time, of which `cpu` was on the processor, and a total wait of `queue` for the processor.
fn seen(awake: i64, cpu: i64, queue: i64, tick: TickRecord) -> TickRecord {
    let run_queue = Some(micros(queue));
    TickRecord {
        evidence: Some(Evidence { awake: micros(awake), cpu: micros(cpu), run_queue, ..Evidence::default() }),
        ..tick
    }
}

/// The tick with these counts in its evidence.
fn counted(voluntary: u32, involuntary: u32, minor: u32, major: u32, tick: TickRecord) -> TickRecord {
    let counted = |evidence| Evidence { voluntary, involuntary, minor_faults: minor, major_faults: major, ..evidence };
    TickRecord { evidence: tick.evidence.map(counted), ..tick }
}

struct Scene(Threads);

impl Scene {
    fn new() -> Self {
        Self::with(WorkerFacts { cpu: Some(1), priority: 50, ..WorkerFacts::default() })
    }

    fn with(facts: WorkerFacts) -> Self {
        let mut threads = Threads::default();
        threads.faults_cost(micros(1));
        threads.add_worker(0, facts);
        Self(threads)
    }

    fn judge(&mut self, record: &TickRecord) -> Verdicts {
        self.0.observe(0, record);
        self.0.judge(0, record, TERMS, &mut NoAccuser)
    }

    /// The cause of an overrun, and the culprit.
    fn overrun(&mut self, record: &TickRecord) -> (Cause, Option<By>) {
        let verdict = self.judge(record).overrun.expect("an overrun");
        (verdict.cause, verdict.by)
    }
}

fn overrun(record: &TickRecord) -> Cause {
    Scene::new().overrun(record).0
}

#[test]
fn a_late_wake_up_is_preempted_if_the_thread_was_on_the_run_queue() {
    // asked ......... woke started finished
    // 0               1900 1910    2000
    let late = |queue| seen(100, 100, queue, after_sleep(0, 1_900, tick(0, 0, 1_910, 2_000)));
    assert_eq!(overrun(&late(1_890)), Cause::Preempted);
    assert_eq!(overrun(&late(3)), Cause::WokenLate);
    assert_eq!(overrun(&TickRecord { evidence: None, ..late(0) }), Cause::Unknown);
    let silent = |record: TickRecord| {
        let evidence = record.evidence.map(|evidence| Evidence { run_queue: None, ..evidence });
        TickRecord { evidence, ..record }
    };
    assert_eq!(overrun(&silent(late(0))), Cause::Unknown);
}

#[test]
fn what_the_thread_waited_before_the_sleep_does_not_count() {
    let mut scene = Scene::new();
    scene.0.has_waited(0, at(-10), micros(5_000));
    let late = seen(100, 100, 5_004, after_sleep(0, 1_900, tick(0, 0, 1_910, 2_000)));
    assert_eq!(scene.overrun(&late).0, Cause::WokenLate);
}

#[test]
fn what_an_earlier_miss_waited_does_not_count_though_the_metrics_thread_has_read_more_since() {
    // asked ......... woke, twice. In the first tick the thread waits for the processor for 1,500 µs.
    // 0               10, 5000           6900
    let mut scene = Scene::new();
    scene.0.has_waited(0, at(-10), micros(7));
    let first = counted(0, 1, 0, 0, seen(2_000, 500, 1_507, after_sleep(0, 10, tick(0, 0, 10, 2_010))));
    let second = |queue| seen(100, 100, queue, after_sleep(5_000, 6_900, tick(0, 5_000, 6_910, 7_000)));
    // Both records are still in the channel when the metrics thread reads.
    for (waited, cause) in [(4, Cause::WokenLate), (1_890, Cause::Preempted)] {
        let mut scene = Scene::new();
        scene.0.has_waited(0, at(-10), micros(7));
        scene.0.has_waited(0, at(8_000), micros(1_507 + waited));
        assert_eq!(scene.overrun(&first).0, Cause::Preempted);
        assert_eq!(scene.overrun(&second(1_507 + waited)).0, cause);
    }
    assert_eq!(scene.overrun(&second(1_511)).0, Cause::Preempted, "without the reading after the first");
}

#[test]
fn what_the_thread_waited_before_a_step_back_of_its_clock_does_not_count() {
    // The same holds if the sleep began before the first reading after the step.
    for asked in [1_000, 100] {
        let mut scene = Scene::new();
        scene.0.has_waited(0, at(3_600_000_000), micros(5_000));
        scene.0.has_waited(0, at(500), micros(5_001));
        let late = tick(0, asked, asked + 1_910, asked + 2_000);
        let late = seen(100, 100, 5_004, after_sleep(asked, asked + 1_900, late));
        assert_eq!(scene.overrun(&late).0, Cause::WokenLate);
    }
}

#[test]
fn a_late_wake_up_is_judged_by_the_tick_that_missed_even_if_others_met_theirs_before_it() {
    for (queue, cause) in [(890, Cause::Preempted), (3, Cause::WokenLate)] {
        let mut scene = Scene::new();
        // asked ... woke first tick      second tick
        // 0         900  910..990       995..1500: too late
        let met = after_sleep(0, 900, tick(0, 0, 910, 990));
        let evidence = Some(Evidence { awake: micros(90), cpu: micros(90), ..Evidence::default() });
        assert_eq!(scene.judge(&TickRecord { evidence, ..met }), Verdicts::default());
        assert_eq!(scene.overrun(&seen(510, 505, queue, tick(1, 0, 995, 1_500))).0, cause);
    }
}

#[test]
fn a_wait_for_the_processor_before_an_earlier_tick_is_not_one_in_this_tick() {
    let mut scene = Scene::new();
    scene.0.has_waited(0, at(0), Span::ZERO);
    // Woken 900 µs late, but the deadline is met. The next tick sleeps.
    assert_eq!(scene.judge(&after_sleep(0, 900, tick(0, 0, 905, 990))), Verdicts::default());
    let slept = counted(1, 0, 0, 0, seen(1_500, 100, 905, after_sleep(1_000, 1_005, tick(0, 1_000, 1_010, 2_505))));
    assert_eq!(scene.overrun(&slept).0, Cause::Waited);
}

#[test]
fn a_long_run_is_judged_by_where_the_time_went() {
    let run = |cpu, queue| seen(2_000, cpu, queue, after_sleep(0, 0, tick(0, 0, 0, 2_000)));
    assert_eq!(overrun(&run(1_995, 0)), Cause::RanLong);
    assert_eq!(overrun(&run(500, 1_500)), Cause::Preempted);
    assert_eq!(overrun(&run(500, 0)), Cause::Preempted, "off the processor without a switch: interrupts, host");
    assert_eq!(overrun(&counted(3, 0, 0, 0, run(500, 5))), Cause::Waited);
    assert_eq!(overrun(&counted(3, 2, 0, 0, run(500, 1_400))), Cause::Preempted);
    assert_eq!(overrun(&counted(9, 0, 2, 8, run(500, 5))), Cause::PageFault, "read from a disk");
    assert_eq!(overrun(&counted(40, 0, 0, 40, run(1_300, 5))), Cause::PageFault, "asking a disk takes processor time");
    assert_eq!(overrun(&counted(1, 0, 0, 1, run(1_300, 5))), Cause::RanLong, "but not that much");
    assert_eq!(overrun(&counted(9, 0, 0, 2, run(500, 5))), Cause::Waited);
    assert_eq!(overrun(&counted(0, 0, 1_400, 0, run(2_000, 0))), Cause::PageFault, "1 µs each");
    assert_eq!(overrun(&counted(0, 0, 300, 0, run(2_000, 0))), Cause::RanLong);
    let longer = seen(3_000, 3_000, 0, after_sleep(0, 0, tick(0, 0, 0, 3_000)));
    let faults = |number| overrun(&counted(0, 0, number, 0, longer));
    assert_eq!((faults(1_600), faults(900)), (Cause::PageFault, Cause::RanLong), "the work alone takes 1.4 or 2.1 ms");
}

#[test]
fn work_that_misses_the_deadline_alone_ran_long_also_if_more_happened() {
    assert_eq!(overrun(&seen(4_000, 1_100, 2_900, after_sleep(0, 0, tick(0, 0, 0, 4_000)))), Cause::RanLong);
    assert_eq!(overrun(&seen(4_000, 900, 3_100, after_sleep(0, 0, tick(0, 0, 0, 4_000)))), Cause::Preempted);
}

#[test]
fn of_a_delay_and_a_run_that_is_as_long_as_usual_the_delay_is_to_blame() {
    let record = seen(900, 900, 0, after_sleep(0, 200, tick(0, 0, 200, 1_100)));
    let mut scene = Scene::new();
    scene.0.observe(0, &record);
    let terms = Terms { usual: micros(880), ..TERMS };
    let verdicts = scene.0.judge(0, &record, terms, &mut NoAccuser);
    assert_eq!(verdicts.overrun.map(|verdict| verdict.cause), Some(Cause::WokenLate));
    assert_eq!(overrun(&record), Cause::RanLong, "without that knowledge");
}

#[test]
fn blocked_names_the_task_that_took_the_largest_part() {
    // task 1 ----, task 2 ------------, task 3 ----, then this task, released at 100
    let mut scene = Scene::new();
    for other in [tick(1, 0, 0, 600), tick(2, 0, 601, 2_200), tick(3, 0, 2_201, 2_700)] {
        scene.judge(&TickRecord { overrun: false, ..other });
    }
    let verdicts = scene.judge(&TickRecord { missed: 2, ..tick(0, 2_100, 2_701, 3_200) });
    let blocked =
        |time, count| Some(Verdict { cause: Cause::Blocked, by: Some(By::Task(2)), time: micros(time), count });
    assert_eq!(verdicts.before, blocked(500 + 1_599 + 499, 2));
    // Since this task's own release, task 3 ran for most of the time.
    let by_three = Some(Verdict { by: Some(By::Task(3)), ..blocked(100 + 499, 1).unwrap() });
    assert_eq!(verdicts.overrun, by_three);
    assert_eq!(verdicts.after, None);
}

#[test]
fn what_waits_behind_the_own_tick_is_debt_or_has_its_cause() {
    let long = |cpu, queue| seen(2_500, cpu, queue, after_sleep(0, 0, tick(0, 0, 0, 2_500)));
    let second = seen(100, 100, 2_000, tick(0, 1_000, 2_501, 2_601));
    for (cpu, queue, first, after) in
        [(2_500, 0, Cause::RanLong, Cause::OwnDebt), (500, 2_000, Cause::Preempted, Cause::Preempted)]
    {
        let mut scene = Scene::new();
        let verdicts = scene.judge(&TickRecord { dropped: 1, ..long(cpu, queue) });
        let causes = verdicts.iter().map(|verdict| (verdict.cause, verdict.count)).collect::<Vec<_>>();
        assert_eq!(causes, [(first, 1), (after, 1)]);
        assert_eq!(scene.overrun(&second).0, after);
    }
}

#[test]
fn ticks_that_share_evidence_are_judged_only_if_it_cannot_matter_whose_it_is() {
    // Two ticks in one wake-up, one of 700 and one of 1900.
    let shared = |cpu| {
        let mut scene = Scene::new();
        scene.judge(&after_sleep(0, 0, tick(1, 0, 0, 700)));
        let record = seen(2_600, cpu, 2_600 - cpu, tick(0, 700, 700, 2_600));
        scene.overrun(&record).0
    };
    assert_eq!(shared(2_590), Cause::RanLong);
    assert_eq!(shared(600), Cause::Preempted, "at least 1300 of the 1900");
    assert_eq!(shared(1_500), Cause::Unknown, "700 of the 1100 may be of either");
}

#[test]
fn a_gap_of_the_length_of_the_limit_after_much_work_is_throttled() {
    let shared = Bandwidth::Shared { runtime: Span::from_millis(950), period: Span::from_millis(1_000) };
    let judged = |bandwidth: Option<Bandwidth>, busy: i64, queue: i64, woke: i64| {
        let mut scene = Scene::with(WorkerFacts { bandwidth, ..WorkerFacts::default() });
        // 1200 ticks, a millisecond apart.
        for n in 0..1_200 {
            let tick = tick(0, n * 1_000, n * 1_000, n * 1_000 + busy);
            scene.judge(&after_sleep(n * 1_000, n * 1_000, TickRecord { overrun: false, ..tick }));
        }
        let last = TickRecord { missed: 40, ..tick(0, woke - 500, woke, woke + 10) };
        let record = seen(10, 10, queue, after_sleep(1_200_000, woke, last));
        scene.judge(&record).before.map(|verdict| verdict.cause)
    };
    assert_eq!(judged(Some(shared), 970, 49_000, 1_250_000), Some(Cause::Throttled));
    assert_eq!(judged(Some(shared), 300, 49_000, 1_250_000), Some(Cause::Preempted), "it had not used it up");
    assert_eq!(judged(Some(shared), 970, 149_000, 1_350_000), Some(Cause::Preempted), "longer than the limit takes");
    assert_eq!(judged(Some(shared), 970, 0, 1_250_000), Some(Cause::WokenLate), "it did not want to run");
    assert_eq!(judged(None, 970, 49_000, 1_250_000), Some(Cause::Preempted));
    let reserved = Some(Bandwidth::Reserved { runtime: micros(500) });
    let run = |cpu| {
        let mut scene = Scene::with(WorkerFacts { bandwidth: reserved, ..WorkerFacts::default() });
        scene.overrun(&counted(0, 1, 0, 0, seen(2_000, cpu, 1_400, after_sleep(0, 0, tick(0, 0, 0, 2_000))))).0
    };
    assert_eq!((run(500), run(300)), (Cause::Throttled, Cause::Preempted));
    // The kernel checks at its timer ticks, every 400 µs here. Runtime used in excess is missing afterwards until it is paid back.
    let mut scene = Scene::with(WorkerFacts { bandwidth: reserved, ..WorkerFacts::default() });
    let causes = [800, 400, 400, 400, 300].into_iter().zip(0..).map(|(cpu, n)| {
        let tick = tick(0, n * 2_000, n * 2_000, (n + 1) * 2_000);
        scene.overrun(&counted(0, 1, 0, 0, seen(2_000, cpu, (n + 1) * 1_400, tick))).0
    });
    let throttled = [Cause::Throttled; 4];
    assert_eq!(causes.collect::<Vec<_>>(), [&throttled[..], &[Cause::Preempted]].concat());
}

#[test]
fn before_its_first_tick_a_worker_was_idle_and_in_what_is_forgotten_as_busy_as_later() {
    let bandwidth = Some(Bandwidth::Shared { runtime: Span::from_millis(950), period: Span::from_millis(1_000) });
    // `count` ticks of 97 µs each, every 100 µs, and then a wait of 49 ms.
    let judged = |count: i64| {
        let mut scene = Scene::with(WorkerFacts { bandwidth, ..WorkerFacts::default() });
        for n in 0..count {
            let tick = tick(0, n * 100, n * 100, n * 100 + 97);
            scene.judge(&after_sleep(n * 100, n * 100, TickRecord { overrun: false, ..tick }));
        }
        let (asked, woke) = (count * 100, count * 100 + 50_000);
        let last = TickRecord { missed: 40, ..tick(0, woke - 500, woke, woke + 10) };
        scene.judge(&seen(10, 10, 49_000, after_sleep(asked, woke, last))).before.map(|verdict| verdict.cause)
    };
    assert_eq!(judged(600), Some(Cause::Preempted), "58 ms of work since the start");
    assert_eq!(judged(20_000), Some(Cause::Throttled), "795 ms of work are remembered, in 819 ms");
}

/// Accuses a program of everything, and records the requests.
struct Someone(Program, Vec<(usize, u8, Span, bool)>);

impl Accuser for Someone {
    fn who(&mut self, cpu: usize, priority: u8, time: Span, switched: bool) -> Option<By> {
        self.1.push((cpu, priority, time, switched));
        Some(By::Program(self.0))
    }
}

#[test]
fn preempted_names_a_worker_of_ours_that_ran_meanwhile_else_asks_who_it_was() {
    let record = seen(2_000, 500, 1_500, after_sleep(0, 0, tick(0, 0, 0, 2_000)));
    let named = |facts: WorkerFacts, other: TickRecord| {
        let mut scene = Scene::new();
        scene.0.add_worker(7, facts);
        scene.0.observe(7, &other);
        scene.0.observe(0, &record);
        let mut someone = Someone(Program::new("hog", 9), Vec::new());
        let verdicts = scene.0.judge(0, &record, TERMS, &mut someone);
        (verdicts.overrun.and_then(|verdict| verdict.by), someone.1)
    };
    let beside = WorkerFacts { cpu: Some(1), ..WorkerFacts::default() };
    let ran = tick(5, 100, 100, 1_600);
    assert_eq!(named(beside, ran), (Some(By::Worker(7)), vec![]));
    let program = Some(By::Program(Program::new("hog", 9)));
    let asked = vec![(1, 50, micros(1_500), true)];
    assert_eq!(named(WorkerFacts { cpu: Some(2), ..beside }, ran), (program, asked.clone()), "on another CPU");
    assert_eq!(named(beside, tick(5, 100, 100, 200)), (program, asked.clone()), "it ran for too short");
    assert_eq!(named(beside, tick(5, -9, -9, 2_001)), (program, asked), "it was preempted itself");
}

#[test]
fn what_is_given_up_at_the_end_has_the_cause_of_what_held_it_up() {
    let given_up = |oldest, disabled| GivenUp {
        task: 0,
        count: 3,
        oldest: micros(oldest),
        at: at(5_000),
        jumped: Span::ZERO,
        disabled,
    };
    let mut scene = Scene::new();
    scene.judge(&TickRecord { overrun: false, ..after_sleep(0, 0, tick(1, 0, 0, 4_990)) });
    let blocked = Verdict { cause: Cause::Blocked, by: Some(By::Task(1)), time: micros(3_990), count: 3 };
    assert_eq!(scene.0.given_up(0, 0, &given_up(4_000, false)), blocked);
    assert_eq!(scene.0.given_up(0, 0, &given_up(4_000, true)), Verdict::plain(Cause::Disabled, 3));
    assert_eq!(Scene::new().0.given_up(0, 0, &given_up(4_000, false)).cause, Cause::Unknown);
}

#[test]
fn while_many_records_wait_a_verdict_looks_back_less_and_is_unknown_rather_than_wrong() {
    let last = |hurried| {
        let mut scene = Scene::new();
        scene.0.hurry(hurried);
        scene.judge(&tick(1, 0, 0, 50_000));
        let late = (0..20).map(|n| tick(0, 10 * n, 50_000 + 100 * n, 50_100 + 100 * n));
        late.map(|record| scene.overrun(&record)).last()
    };
    assert_eq!(last(false), Some((Cause::Blocked, Some(By::Task(1)))));
    assert_eq!(last(true), Some((Cause::Unknown, None)));
}

#[test]
fn only_a_late_tick_with_many_page_faults_asks_what_one_costs() {
    let asks = |faults, run| {
        let mut scene = Scene::new();
        let late = TickRecord { overrun: true, ..after_sleep(0, 0, tick(0, 0, 0, run)) };
        scene.judge(&counted(0, 0, faults, 0, seen(run, run, 0, late)));
        scene.0.fault_matters()
    };
    assert_eq!([asks(1, 15), asks(15, 100), asks(16, 100), asks(64, 1_100)], [false, false, true, true]);
    assert!(!asks(64, 20_000), "they were a small part of it");
}
