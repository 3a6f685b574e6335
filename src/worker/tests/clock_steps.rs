//! Steps of the clock of releases, on a virtual clock: the worker's loop at exact instants.
//!
//! The monotonic clock continues. A step changes the offset from it, as main's measurements do.

use super::virtual_worker::{Keep, Spec, task_set};
use crate::channels::{Live, LiveCounts, TickRecord};
use crate::pacing::{Account, Grid, Overrun, Rate, Schedule, Sleeps, Tail};
use crate::random::SplitMix;
use crate::sim::SimClock;
use crate::task::{Task, Tick, TickError};
use crate::time::{Clock, Instant, Span, Wake};
use crate::worker::{Control, Report, Runner, Slot, TaskSet};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const HOUR: Span = Span::from_seconds(3_600);
const MILLISECOND: Span = Span::from_millis(1);
const RUN: Span = Span::from_micros(100);
/// The reading of the stepped clock when the monotonic one shows zero: an arbitrary day.
const START: Span = Span::from_seconds(1_790_000_000);

const POLICIES: [Overrun; 5] = [
    Overrun::Drop,
    Overrun::KeepWorking,
    Overrun::CatchUp { max: 3 },
    Overrun::Credit { max_debt: Span::from_millis(5) },
    Overrun::Delay,
];

/// A monotonic clock, and steps of another clock at instants of the first.
#[derive(Clone)]
struct Steps {
    monotonic: SimClock,
    control: Arc<Control>,
    ahead: Arc<Mutex<VecDeque<(Instant, Span)>>>,
    offset: Arc<Mutex<Span>>,
    stop: Instant, // when a stop is requested
}

impl Steps {
    /// Each step is an instant and a length.
    fn new(steps: &[(Span, Span)]) -> Self {
        let control = Arc::new(Control::default());
        control.set_offset(START);
        let ahead = steps.iter().map(|(at, by)| (Instant::ZERO + *at, *by)).collect();
        Self {
            monotonic: SimClock::new(Instant::ZERO, Vec::new()),
            control,
            ahead: Arc::new(Mutex::new(ahead)),
            offset: Arc::new(Mutex::new(START)),
            stop: Instant::MAX,
        }
    }

    /// Applies the steps that are due. Returns whether there were any.
    fn hand_over(&self) -> bool {
        let now = self.monotonic.now();
        let (mut ahead, mut offset) = (self.ahead.lock().unwrap(), self.offset.lock().unwrap());
        let mut any = false;
        while let Some(&(_, by)) = ahead.front().filter(|(at, _)| *at <= now) {
            ahead.pop_front();
            *offset += by;
            self.control.set_offset(*offset);
            any = true;
        }
        if self.stop <= now {
            self.control.stop();
        }
        any
    }
}

impl Clock for Steps {
    fn now(&self) -> Instant {
        self.monotonic.now()
    }

    fn sleep_until(&self, at: Instant) -> Wake {
        let step = self.ahead.lock().unwrap().front().map(|(step, _)| *step);
        self.monotonic.sleep_until(step.map_or(at, |step| step.min(at)));
        // Main interrupts a sleeper.
        if self.hand_over() { Wake::Interrupted } else { Wake::Reached }
    }

    fn spin_until(&self, at: Instant) -> Instant {
        let ended = self.monotonic.spin_until(at);
        self.hand_over();
        ended
    }
}

/// The starts of its ticks, on the monotonic clock.
type Starts = Arc<Mutex<Vec<Instant>>>;

struct Works {
    clock: Steps,
    run: Span,
    starts: Starts,
}

impl Task for Works {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        self.starts.lock().unwrap().push(self.clock.now());
        self.clock.monotonic.advance(self.run);
        self.clock.hand_over();
        Ok(())
    }
}

struct Ran {
    report: Report,
    records: Vec<TickRecord>,
    starts: Vec<Instant>, // on the monotonic clock
    ended: Instant,       // on the monotonic clock
}

impl Ran {
    /// The longest time between two starts.
    fn longest_gap(&self) -> Span {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

/// Runs one task at 1 kHz on a clock with these steps, for every release in the first `length`.
fn run(overrun: Overrun, steps: &[(Span, Span)], tail: Tail, run: Span, length: Span) -> Ran {
    run_on(Steps::new(steps), Rate::new(1_000, 1).unwrap(), overrun, tail, run, length)
}

fn run_on(clock: Steps, rate: Rate, overrun: Overrun, tail: Tail, run: Span, length: Span) -> Ran {
    let starts = Starts::default();
    let task = Box::new(Works { clock: clock.clone(), run, starts: starts.clone() });
    let spec = Spec { rate, phase: Span::ZERO, overrun, deadline: rate.period(), task };
    let begin = Instant::ZERO + START;
    let set = task_set(vec![spec], |spec| Grid::aligned(Instant::ZERO, begin, spec.rate), begin + length);
    let runner = Runner::new(clock.clone(), set, Sleeps::new(tail), Keep::default(), clock.control.clone());
    let (report, Keep(records), _) = runner.run();
    let starts = starts.lock().unwrap().clone();
    Ran { report, records, starts, ended: clock.now() }
}

/// Checks the invariants of every run, whatever the steps.
fn check(ran: &Ran, overrun: Overrun, run: Span, case: &str) {
    let Ran { report, records, .. } = ran;
    let (_, counts) = report.tasks[0];
    let given_up: u64 = report.given_up.iter().map(|(_, given_up)| given_up.count).sum();
    assert_eq!(counts.ran, records.len() as u64, "{case}");
    assert_eq!(counts.skipped, records.iter().map(TickRecord::skipped).sum::<u64>() + given_up, "{case}");
    for record in records {
        assert_eq!(record.run(), run, "{case}: tick {}", record.n);
        assert!(record.lateness >= Span::ZERO, "{case}: tick {} began {}", record.n, record.lateness);
        let on_grid = record.release.nanos() % 1_000_000 == 0;
        assert!(on_grid || overrun == Overrun::Delay, "{case}: tick {}", record.n);
    }
    let mut next = 0;
    for record in records {
        assert_eq!(record.n, next + record.missed, "{case}: indices go on");
        next = record.n + 1 + record.dropped;
    }
    assert_eq!(report.elapsed, ran.ended - Instant::ZERO, "{case}");
}

#[test]
fn a_step_back_during_a_sleep_wakes_the_worker_which_goes_on_at_its_rate() {
    for overrun in POLICIES {
        // Asleep until the release at 51 ms.
        let steps = [(Span::from_micros(50_400), -HOUR)];
        let ran = run(overrun, &steps, Tail::Off, RUN, Span::from_millis(200));
        let case = format!("{overrun:?}");
        check(&ran, overrun, RUN, &case);
        assert!(ran.longest_gap() <= MILLISECOND, "{case}: {}", ran.longest_gap());
        assert!(
            ran.ended - Instant::ZERO <= Span::from_millis(201),
            "{case}: ended after {}",
            ran.ended - Instant::ZERO
        );
        let (_, counts) = ran.report.tasks[0];
        assert_eq!((counts.ran, counts.skipped, counts.overruns), (200, 0, 0), "{case}");
        let stepped: Vec<_> = ran.records.iter().filter(|record| record.stepped != Span::ZERO).collect();
        assert_eq!(
            stepped.iter().map(|record| (record.n, record.stepped)).collect::<Vec<_>>(),
            [(51, -HOUR)],
            "{case}"
        );
        assert!(stepped[0].release < Instant::ZERO + START, "{case}: it ticks on the new time");
    }
}

#[test]
fn a_step_back_in_the_spin_tail_prolongs_neither_the_spin_nor_the_wait() {
    let margin = Span::from_micros(50);
    for overrun in POLICIES {
        let steps = [(Span::from_micros(50_980), -Span::from_seconds(20))];
        let ran = run(overrun, &steps, Tail::Fixed(margin), RUN, Span::from_millis(200));
        let case = format!("{overrun:?}");
        check(&ran, overrun, RUN, &case);
        assert!(ran.longest_gap() <= MILLISECOND + MILLISECOND, "{case}: {}", ran.longest_gap());
        assert_eq!(
            ran.report.spun,
            Span::from_nanos(margin.nanos() * i64::try_from(ran.report.wakes).unwrap()),
            "{case}"
        );
    }
}

#[test]
fn a_long_spin_tail_holds_up_neither_a_stop_nor_a_step() {
    // Awake for 8 of 10 s.
    let tail = Tail::Fixed(Span::from_seconds(8));
    let seconds = Span::from_seconds;
    let mut clock = Steps::new(&[(seconds(14), -seconds(103))]);
    clock.stop = Instant::ZERO + seconds(38);
    let ran = run_on(clock, Rate::new(1, 10).unwrap(), Overrun::KeepWorking, tail, RUN, seconds(100));
    // At 14 s the clock goes back to -89 s. The third tick, now 109 s away, moves to -80 s.
    let starts: Vec<_> = ran.starts.iter().map(|start| (*start - Instant::ZERO).seconds()).collect();
    assert_eq!(starts, [0.0, 10.0, 23.0, 33.0]);
    let late = ran.ended - Instant::ZERO - seconds(38);
    assert!(late >= Span::ZERO && late <= Span::from_millis(2), "stopped after {late}");
}

#[test]
fn a_step_forward_is_debt_of_which_each_policy_keeps_its_share() {
    // The run ends 100 ms after the step.
    let length = HOUR + Span::from_millis(150);
    for (overrun, late) in [
        (Overrun::Drop, 1),
        (Overrun::KeepWorking, 1),
        (Overrun::CatchUp { max: 3 }, 3),
        (Overrun::Credit { max_debt: Span::from_millis(5) }, 5),
    ] {
        let steps = [(Span::from_micros(50_400), HOUR)];
        let ran = run(overrun, &steps, Tail::Off, RUN, length);
        let case = format!("{overrun:?}");
        check(&ran, overrun, RUN, &case);
        let (_, counts) = ran.report.tasks[0];
        assert_eq!(counts.ran + counts.skipped, 3_600_150, "{case}: due is plain arithmetic");
        // 3,600,000 releases came up at once.
        assert_eq!(counts.skipped, 3_600_000 - late, "{case}");
        assert_eq!(ran.records.iter().filter(|record| record.lateness > Span::ZERO).count() as u64, late, "{case}");
        assert!(ran.longest_gap() <= MILLISECOND, "{case}");
        let reporter = ran.records.iter().find(|record| record.missed > 0).unwrap();
        // The release at 51 ms was 0.6 ms away.
        let jumped = HOUR - Span::from_micros(600);
        assert_eq!((reporter.jumped, reporter.missed), (jumped, counts.skipped), "{case}");
        assert_eq!(ran.records.iter().map(|record| record.jumped).max(), Some(jumped), "{case}");
    }
    let ran = run(Overrun::Delay, &[(Span::from_micros(50_400), HOUR)], Tail::Off, RUN, Span::from_millis(150));
    check(&ran, Overrun::Delay, RUN, "delay");
    assert_eq!((ran.report.tasks[0].1.ran, ran.longest_gap()), (150, MILLISECOND), "the grid moves with the clock");
}

/// The drawing of `docs/pacing.md`: 1 kHz, `catch-up` 2; at x the clock goes from 3.6 to 6.2 ms, or back to 0.8 ms.
///
/// ```text
/// the clock shows  1         2         3     x       7         8
/// ticks            [1]       [2]       [3]   [5][6]  [7]       [8]         4 is skipped
///
/// the clock shows  1         2         3     x 1         2         3
/// ticks            [1]       [2]       [3]     [4]       [5]       [6]     none is skipped
/// ```
#[test]
fn the_drawing_of_a_step_holds() {
    let micros = Span::from_micros;
    let ticks = |by, length| {
        let ran = run(Overrun::CatchUp { max: 2 }, &[(micros(3_600), by)], Tail::Off, micros(300), length);
        let begun = |(record, start): (&TickRecord, &Instant)| {
            let shown = record.started() - (Instant::ZERO + START);
            (record.n, (*start - Instant::ZERO).nanos() / 1_000, shown.nanos() / 1_000)
        };
        ran.records.iter().zip(&ran.starts).skip(1).map(begun).collect::<Vec<_>>()
    };
    // Index, instant on the monotonic clock, instant on the stepped clock.
    let same = |n: u64, at| (n, at, at);
    let before = [same(1, 1_000), same(2, 2_000), same(3, 3_000)];
    let after = [(5, 3_600, 6_200), (6, 3_900, 6_500), (7, 4_400, 7_000), (8, 5_400, 8_000)];
    assert_eq!(ticks(micros(2_600), Span::from_millis(9)), [&before[..], &after].concat());
    let after = [(4, 3_800, 1_000), (5, 4_800, 2_000), (6, 5_800, 3_000)];
    assert_eq!(ticks(-micros(2_800), Span::from_millis(7)), [&before[..], &after].concat());
}

#[test]
fn a_step_that_makes_no_release_late_is_blamed_for_none() {
    for by in [Span::from_micros(400), -Span::from_micros(400), -HOUR] {
        for overrun in POLICIES {
            let ran = run(overrun, &[(Span::from_micros(50_400), by)], Tail::Off, RUN, Span::from_millis(200));
            assert!(ran.records.iter().all(|record| record.jumped == Span::ZERO), "{overrun:?} {by}");
            assert_eq!(ran.records[51].stepped, by, "{overrun:?}");
        }
    }
    // Under `delay` the distance between two starts stays the same, so no release is late.
    let ran = run(Overrun::Delay, &[(Span::from_micros(50_400), HOUR)], Tail::Off, RUN, Span::from_millis(200));
    assert!(ran.records.iter().all(|record| record.jumped == Span::ZERO && record.lateness == Span::ZERO));
}

#[test]
fn a_step_during_a_tick_changes_no_duration() {
    for overrun in POLICIES {
        for by in [HOUR, -HOUR, -MILLISECOND, MILLISECOND] {
            let steps = [(Span::from_micros(50_050), by)];
            let jumped = if overrun == Overrun::Delay { Span::ZERO } else { by.max(Span::ZERO) };
            let ran = run(overrun, &steps, Tail::Off, RUN, Span::from_millis(200) + jumped);
            check(&ran, overrun, RUN, &format!("{overrun:?} {by}"));
            let responses = ran.records.iter().filter(|record| record.n <= 50).map(|record| record.response);
            assert!(responses.eq(std::iter::repeat_n(RUN, 51)), "{overrun:?} {by}");
        }
    }
}

#[test]
fn a_step_back_of_less_than_a_period_repeats_no_release() {
    let steps = [(Span::from_micros(50_300), -Span::from_micros(700))];
    let ran = run(Overrun::KeepWorking, &steps, Tail::Off, RUN, Span::from_millis(200));
    check(&ran, Overrun::KeepWorking, RUN, "0.7 ms");
    let releases: Vec<_> = ran.records.iter().map(|record| record.release).collect();
    assert!(releases.windows(2).all(|pair| pair[1] - pair[0] == MILLISECOND), "{releases:?}");
    assert_eq!(ran.longest_gap(), MILLISECOND + Span::from_micros(700));
}

#[test]
fn the_spin_allowance_is_that_of_a_clock_without_steps() {
    let tail = Tail::Auto { cpu_max: 0.01, target: None };
    let steps: Vec<_> =
        (0..20).map(|i| (Span::from_micros(20_300 + 50_000 * i), if i % 2 == 0 { HOUR } else { -HOUR })).collect();
    let ran = run(Overrun::Delay, &steps, tail, RUN, Span::from_seconds(1));
    let steady = run(Overrun::Delay, &[], tail, RUN, Span::from_seconds(1));
    assert_eq!(ran.starts.len(), steady.starts.len());
    let difference = (ran.report.spun - steady.report.spun).max(steady.report.spun - ran.report.spun);
    // A sleep interrupted by a step is planned again and may get a different tail.
    assert!(difference <= Span::from_micros(20 * 60), "{} {}", ran.report.spun, steady.report.spun);
    assert!(steady.report.spun > Span::ZERO);
}

#[test]
fn any_steps_at_any_instants_leave_the_counts_right_and_the_task_ticking() {
    let mut random = SplitMix(20_260_807);
    for case in 0..400 {
        let overrun = POLICIES[case % POLICIES.len()];
        let mut steps = Vec::new();
        let (mut at, mut forward) = (Span::ZERO, Span::ZERO);
        for _ in 0..random.below(6) {
            at += Span::from_micros(random.below(40_000));
            let scale = [40, 3_000, 1_000_000, 3_600_000_000][usize::try_from(random.below(4)).unwrap()];
            let by = Span::from_micros(random.below(2 * scale) - scale);
            forward += if overrun == Overrun::Delay { Span::ZERO } else { by.max(Span::ZERO) };
            steps.push((at, by));
        }
        let tail =
            [Tail::Off, Tail::Fixed(Span::from_micros(80)), Tail::Auto { cpu_max: 0.05, target: None }][case % 3];
        let run_time = Span::from_micros(random.below(900));
        let case = format!("case {case}: {overrun:?}, {steps:?}, runs of {run_time}, {tail:?}");
        let ran = run(overrun, &steps, tail, run_time, Span::from_millis(300) + forward);
        check(&ran, overrun, run_time, &case);
        // After a step back of up to a period, the task waits for the postponed release. Several such steps may follow each other.
        assert!(ran.longest_gap() <= Span::from_millis(7), "{case}: {}", ran.longest_gap());
        let length = ran.ended - Instant::ZERO;
        assert!(length <= Span::from_millis(320), "{case}: ended after {length}");
    }
}

#[test]
fn tasks_that_share_a_worker_keep_their_grids_and_phases_after_any_steps() {
    let rates = [(1_000, 1, 0), (30_000, 1_001, 7_000), (50, 1, 3_500)]
        .map(|(num, den, phase)| (Rate::new(num, den).unwrap(), Span::from_micros(phase)));
    let mut random = SplitMix(7);
    for case in 0..100 {
        let overrun = POLICIES[case % 4]; // all but `delay`, which leaves its grid
        let mut at = Span::ZERO;
        let mut step = |_| {
            at += Span::from_micros(random.below(200_000));
            (at, Span::from_micros(random.below(200_000_000) - 150_000_000))
        };
        let steps: Vec<_> = (0..4).map(&mut step).collect();
        let forward = steps.iter().map(|(_, by)| (*by).max(Span::ZERO)).fold(Span::ZERO, |sum, by| sum + by);
        let clock = Steps::new(&steps);
        let starts = rates.map(|_| Starts::default());
        let spec = |((rate, phase), starts): (&(Rate, Span), &Starts)| {
            let task = Box::new(Works { clock: clock.clone(), run: RUN, starts: starts.clone() });
            Spec { rate: *rate, phase: *phase, overrun, deadline: rate.period(), task }
        };
        let specs = rates.iter().zip(&starts).map(spec).collect();
        let begin = Instant::ZERO + START;
        let grid = |spec: &Spec| Grid::aligned(Instant::ZERO + spec.phase, begin, spec.rate);
        let set = task_set(specs, grid, begin + Span::from_seconds(1) + forward);
        let sleeps = Sleeps::new(Tail::Fixed(Span::from_micros(50)));
        let runner = Runner::new(clock.clone(), set, sleeps, Keep::default(), clock.control.clone());
        let (report, Keep(records), _) = runner.run();
        let case = format!("case {case}: {overrun:?}, {steps:?}");
        for ((task, counts), ((rate, phase), starts)) in report.tasks.iter().zip(rates.iter().zip(&starts)) {
            let own: Vec<_> = records.iter().filter(|record| record.task == *task).collect();
            let given_up = report.given_up.iter().filter(|(of, _)| of == task);
            let given_up: u64 = given_up.map(|(_, given_up)| given_up.count).sum();
            let skipped: u64 = own.iter().map(|record| record.skipped()).sum();
            assert_eq!((counts.ran, counts.skipped), (own.len() as u64, skipped + given_up), "{case}");
            for record in own {
                let position = (record.release - *phase).nanos();
                assert_eq!(rate.offset(rate.ticks_before(position)), position, "{case}: on its grid");
                assert!(record.lateness >= Span::ZERO && record.run() == RUN, "{case}");
            }
            // Each step may postpone a release by up to a period.
            let longest = Span::from_nanos(rate.period().nanos() * 5);
            let starts = starts.lock().unwrap();
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] <= longest), "{case}: task {task}: {starts:?}");
            let last = starts.last().map(|last| *last - Instant::ZERO);
            assert!(last.is_some_and(|last| last + longest >= Span::from_millis(900)), "{case}: task {task}: {last:?}");
        }
    }
}

/// Panics in its fourth tick, which disables it.
struct Ends;

impl Task for Ends {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        assert!(tick.n < 3, "the panic that ends it");
        Ok(())
    }
}

/// At each tick, reads how many releases of its neighbour on the same grid have come up.
struct Reads {
    of: Arc<LiveCounts>,
    seen: Arc<Mutex<Vec<(u64, u64)>>>, // each with the number of its own releases
}

impl Task for Reads {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let Live { counts, next, passed, .. } = self.of.read();
        let open = next.map_or(0, |next| (tick.started - next).nanos().div_euclid(tick.period.nanos()) + 1);
        let due = counts.ran + counts.skipped + passed + u64::try_from(open.max(0)).unwrap();
        self.seen.lock().unwrap().push((due, tick.n + 1));
        Ok(())
    }
}

#[test]
fn the_releases_of_a_task_that_was_ended_come_up_on_the_new_time() {
    for by in [HOUR, -HOUR] {
        let clock = Steps::new(&[(Span::from_millis(50), by), (Span::from_millis(120), -HOUR)]);
        let (rate, seen) = (Rate::new(1_000, 1).unwrap(), Arc::new(Mutex::new(Vec::new())));
        let begin = Instant::ZERO + START;
        let end = begin + Span::from_millis(200);
        let account = || {
            let grid = Grid::aligned(Instant::ZERO, begin, rate);
            (Account::new(grid, Overrun::KeepWorking, 0, end), rate.period())
        };
        let ends = Slot::of(0, Box::new(Ends), rate.period(), rate.period());
        let reads = Reads { of: ends.live.clone(), seen: seen.clone() };
        let slots = vec![ends, Slot::of(1, Box::new(reads), rate.period(), rate.period())];
        let set = TaskSet::starting(Schedule::new([account(), account()]), slots);
        let control = clock.control.clone();
        let (report, ..) = Runner::new(clock, set, Sleeps::new(Tail::Off), Keep::default(), control).run();
        let counts = |task: usize| report.tasks[task].1;
        println!("{by}: {:?} {:?} {:?}", counts(0), counts(1), seen.lock().unwrap());
        assert!(counts(0).disabled && counts(0).ran == 4, "{report:?}");
        for &(due, own) in &*seen.lock().unwrap() {
            assert!(due.abs_diff(own) <= 1, "{by}: {due} beside {own}");
        }
        assert!(seen.lock().unwrap().is_sorted(), "{by}: what has come up goes back");
    }
}
