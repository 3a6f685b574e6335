//! What the loop publishes and records, on the virtual clock.

use super::*;
use crate::channels::{Evidence, LiveCounts};
use crate::pacing::{Account, Grid, Overrun, Rate, Schedule, Tail};
use crate::sim::{NeverPreempted, Scripted, SimClock};
use crate::task::{Task, TickError};
use crate::time::Wake;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
struct Keep(Vec<TickRecord>, Vec<IdleWake>);

impl TickSink for Keep {
    fn offer(&mut self, record: TickRecord) {
        self.0.push(record);
    }

    fn woke_idle(&mut self, wake: IdleWake) {
        self.1.push(wake);
    }
}

/// The records of a 1 kHz task whose ticks take these times, in microseconds.
fn records(run: &[i64], each_tick: bool) -> Vec<TickRecord> {
    let clock = SimClock::new(Instant::ZERO, vec![Span::from_micros(50)]);
    let end = Instant::ZERO + Span::from_millis(6);
    let rate = Rate::new(1_000, 1).unwrap();
    let account = Account::new(Grid::starting_at(Instant::ZERO + Span::from_millis(1), rate), Overrun::Drop, 0, end);
    let schedule = Schedule::new([(account, Span::from_millis(1))]);
    let run = run.iter().map(|micros| Span::from_micros(*micros)).collect();
    let task: Box<dyn Task> = Box::new(Scripted::new(clock.clone(), run));
    let slot = Slot::of(0, task, Span::from_millis(1), rate.period());
    let set = TaskSet::starting(schedule, vec![slot]);
    let runner = Runner::new(clock, set, Sleeps::new(Tail::Off), Keep::default(), Arc::new(Control::default()));
    runner.with_evidence(Box::new(NeverPreempted), each_tick).run().1.0
}

#[test]
fn a_missed_release_comes_with_evidence_that_counts_from_the_wake_up() {
    let ticks = records(&[300, 1_400, 300], false);
    let awake = |record: &TickRecord| record.evidence.map(|evidence| evidence.awake);
    // Each wake-up is 50 µs late. Tick 1 overruns, and release 2 is skipped.
    assert_eq!(ticks.iter().map(|tick| tick.n).collect::<Vec<_>>(), [0, 1, 3, 4]);
    let expected = [None, Some(Span::from_micros(1_400)), None, None];
    assert_eq!(ticks.iter().map(awake).collect::<Vec<_>>(), expected);
    let all = records(&[300, 1_400, 300], true);
    assert!(all.iter().all(|tick| awake(tick) == Some(tick.run())), "{all:?}");
    let Some(Evidence { cpu, run_queue, .. }) = ticks[1].evidence else { panic!("{ticks:?}") };
    assert_eq!((cpu, run_queue), (Span::from_micros(1_400), Some(Span::ZERO)));
}

/// A clock whose sleeps are all interrupted half-way. The third interruption comes with a stop.
struct Interrupted(SimClock, Arc<Control>, AtomicU32);

impl Clock for Interrupted {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, at: Instant) -> Wake {
        let left = at - self.0.now();
        self.0.advance(Span::from_nanos(left.nanos() / 2));
        if self.2.fetch_add(1, Ordering::Relaxed) == 2 {
            self.1.stop();
        }
        Wake::Interrupted
    }

    fn spin_until(&self, at: Instant) -> Instant {
        self.0.spin_until(at)
    }
}

#[test]
fn sleeps_that_were_interrupted_are_shown_as_well() {
    let clock = SimClock::new(Instant::ZERO, Vec::new());
    let rate = Rate::new(1_000, 1).unwrap();
    let first = Instant::ZERO + Span::from_millis(500);
    let account = Account::new(Grid::starting_at(first, rate), Overrun::Drop, 0, Instant::MAX);
    let task = Box::new(Scripted::new(clock.clone(), vec![Span::from_micros(10)]));
    let slot = Slot::of(0, task, Span::from_millis(1), rate.period());
    let set = TaskSet::starting(Schedule::new([(account, Span::from_millis(1))]), vec![slot]);
    let control = Arc::new(Control::default());
    let clock = Interrupted(clock, control.clone(), AtomicU32::new(0));
    let (report, ..) = Runner::new(clock, set, Sleeps::new(Tail::Off), Keep::default(), control.clone()).run();
    assert_eq!((report.wakes, report.tasks[0].1.ran), (3, 0));
    assert_eq!(control.rested(), (3, Span::ZERO));
}

/// A task that reads the published number of sleeps while it runs.
struct Looks(Arc<Control>, Arc<AtomicU32>);

impl Task for Looks {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        self.1.store(u32::try_from(self.0.rested().0).unwrap(), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn the_sleep_before_a_tick_is_shown_while_it_runs() {
    let clock = SimClock::new(Instant::ZERO, Vec::new());
    let rate = Rate::new(1_000, 1).unwrap();
    let first = Instant::ZERO + Span::from_millis(1);
    let account = Account::new(Grid::starting_at(first, rate), Overrun::Drop, 0, first + Span::from_millis(3));
    let (control, shown) = (Arc::new(Control::default()), Arc::new(AtomicU32::new(0)));
    let slot = Slot::of(0, Box::new(Looks(control.clone(), shown.clone())), Span::from_millis(1), rate.period());
    let set = TaskSet::starting(Schedule::new([(account, Span::from_millis(1))]), vec![slot]);
    let (report, ..) = Runner::new(clock, set, Sleeps::new(Tail::Off), Keep::default(), control).run();
    assert_eq!((report.wakes, report.tasks[0].1.ran, shown.load(Ordering::Relaxed)), (3, 3, 3));
}

/// Compares the published counts of each task with its records, at each record.
struct Compares(Vec<(Arc<LiveCounts>, Counts)>);

impl TickSink for Compares {
    fn offer(&mut self, record: TickRecord) {
        let (live, told) = &mut self.0[record.task as usize];
        told.ran += 1;
        told.skipped += record.skipped();
        told.overruns += u64::from(record.overrun);
        told.over_budget += u64::from(record.over_budget);
        assert_eq!(live.read().counts, *told, "{record:?}");
        let next = live.read().next;
        assert!(next.is_none_or(|next| next > record.release && (next - record.release).nanos() % 1_000_000 == 0));
    }
}

#[test]
fn what_is_shown_of_a_task_is_what_its_records_tell() {
    let clock = SimClock::new(Instant::ZERO, vec![Span::from_micros(50)]);
    let rate = Rate::new(1_000, 1).unwrap();
    let (begin, period) = (Instant::ZERO + Span::from_millis(1), rate.period());
    let account =
        || Account::new(Grid::starting_at(begin, rate), Overrun::KeepWorking, 0, begin + Span::from_millis(90));
    // Each task delays the other: on time, past the budget, past the deadline, and past two releases.
    let slots = [[100, 300, 100, 2_700, 100], [50, 50, 1_800, 50, 50]].into_iter().zip(0..).map(|(run, id)| {
        let task = Scripted::new(clock.clone(), run.map(Span::from_micros).to_vec());
        Slot { budget: Some(Span::from_micros(200)), ..Slot::of(id, Box::new(task), period, period) }
    });
    let slots: Vec<_> = slots.collect();
    let sink = Compares(slots.iter().map(|slot| (slot.live.clone(), Counts::default())).collect());
    let set = TaskSet::starting(Schedule::new([(account(), period), (account(), period)]), slots);
    let (report, Compares(told), _) =
        Runner::new(clock, set, Sleeps::new(Tail::Off), sink, Arc::new(Control::default())).run();
    for ((_, counted), (_, told)) in report.tasks.iter().zip(told) {
        assert!(told.ran > 20 && told.skipped > 5 && told.overruns > 5 && told.over_budget > 5, "{told:?}");
        assert_eq!(counted.ran, told.ran);
    }
}

#[test]
fn ticks_that_follow_without_a_sleep_have_evidence_of_their_own() {
    let ticks = records(&[1_000, 1_000], false);
    let awake: Vec<_> = ticks.iter().filter_map(|tick| tick.evidence.map(|evidence| evidence.awake)).collect();
    assert!(awake.len() > 1 && awake.iter().all(|awake| *awake == Span::from_millis(1)), "{ticks:?}");
}

/// Keeps the longest time the thread was awake.
struct Longest(Arc<AtomicU32>);

impl EvidenceSource for Longest {
    fn mark(&mut self, awake: Span, _: bool) {
        self.0.fetch_max(u32::try_from(awake.nanos()).unwrap(), Ordering::Relaxed);
    }

    fn take(&mut self, awake: Span, slept: bool, _: bool) -> Evidence {
        self.mark(awake, slept);
        Evidence::default()
    }
}

#[test]
fn sleeps_of_the_rehearsal_do_not_count_as_time_awake() {
    let clock = SimClock::new(Instant::ZERO, vec![Span::from_micros(20)]);
    let rate = Rate::new(1_000, 1).unwrap();
    let first = Instant::ZERO + Span::from_millis(10);
    let account = Account::new(Grid::starting_at(first, rate), Overrun::Drop, 0, first + Span::from_millis(3));
    let task = Box::new(Scripted::new(clock.clone(), vec![Span::from_micros(10)]));
    let slot = Slot::of(0, task, Span::from_millis(1), rate.period());
    let set = TaskSet::starting(Schedule::new([(account, Span::from_millis(1))]), vec![slot]);
    let sleeps = Sleeps::new(Tail::Auto { cpu_max: 0.5, target: None });
    let longest = Arc::new(AtomicU32::new(0));
    let runner = Runner::new(clock, set, sleeps, Keep::default(), Arc::new(Control::default()));
    let (report, ..) = runner.with_evidence(Box::new(Longest(longest.clone())), true).rehearsed().run();
    assert_eq!(report.tasks[0].1.ran, 3);
    assert!(longest.load(Ordering::Relaxed) < 200_000, "{longest:?} ns, of which the rehearsal took 6 ms");
}

#[test]
fn a_wake_up_that_is_too_late_for_any_tick_is_reported_with_evidence() {
    // Four releases, 1 ms apart: those with a wake-up later than `max-debt` are given up. The last wake-up is past the end.
    let clock = SimClock::new(Instant::ZERO, [50, 5, 900, 3_000].map(Span::from_micros).to_vec());
    let at = |micros| Instant::ZERO + Span::from_micros(micros);
    let rate = Rate::new(1_000, 1).unwrap();
    let overrun = Overrun::Credit { max_debt: Span::from_micros(10) };
    let account = Account::new(Grid::starting_at(at(1_000), rate), overrun, 0, at(5_000));
    let task = Box::new(Scripted::new(clock.clone(), Vec::new()));
    let slot = Slot::of(0, task, Span::from_millis(1), rate.period());
    let set = TaskSet::starting(Schedule::new([(account, Span::from_millis(1))]), vec![slot]);
    let runner = Runner::new(clock, set, Sleeps::new(Tail::Off), Keep::default(), Arc::new(Control::default()));
    let (report, Keep(ticks, idle), _) = runner.with_evidence(Box::new(NeverPreempted), false).run();
    assert_eq!(ticks.iter().map(|tick| (tick.n, tick.missed)).collect::<Vec<_>>(), [(1, 1)]);
    let wakes = idle.iter().map(|wake| (wake.sleep, wake.evidence.is_some()));
    let expected =
        [(1_000, 1_050), (3_000, 3_900), (4_000, 7_000)].map(|(asked, woke)| (Some((at(asked), at(woke))), true));
    assert_eq!(wakes.collect::<Vec<_>>(), expected);
    assert_eq!(report.given_up.iter().map(|(_, given_up)| given_up.count).sum::<u64>(), 2);
    assert_eq!(report.tasks[0].1.skipped, 3);
}

#[test]
fn what_another_task_gave_up_is_reported_with_evidence_though_no_tick_missed_anything() {
    // Both are released each millisecond and woken 50 µs late. Only the second task tolerates that.
    let clock = SimClock::new(Instant::ZERO, vec![Span::from_micros(50)]);
    let at = |micros| Instant::ZERO + Span::from_micros(micros);
    let rate = Rate::new(1_000, 1).unwrap();
    let task = |overrun, deadline, id| {
        let account = Account::new(Grid::starting_at(at(1_000), rate), overrun, 0, at(3_000));
        let scripted = Box::new(Scripted::new(clock.clone(), vec![Span::from_micros(10)]));
        ((account, Span::from_micros(deadline)), Slot::of(id, scripted, Span::from_millis(1), rate.period()))
    };
    for (deadline, with_tick) in [(400, true), (600, false)] {
        let (strict, strict_slot) = task(Overrun::Credit { max_debt: Span::from_micros(10) }, deadline, 0);
        let (other, other_slot) = task(Overrun::KeepWorking, 500, 1);
        let set = TaskSet::starting(Schedule::new([strict, other]), vec![strict_slot, other_slot]);
        let control = Arc::new(Control::default());
        let runner = Runner::new(clock.clone(), set, Sleeps::new(Tail::Off), Keep::default(), control);
        let (_, Keep(ticks, idle), _) = runner.with_evidence(Box::new(NeverPreempted), false).run();
        assert!(ticks.iter().all(|tick| tick.task == 1 && !tick.overrun), "{ticks:?}");
        // The strict task is decided on either before the other one runs or after it.
        assert_eq!(ticks.first().map(|tick| tick.evidence.is_some()), Some(with_tick), "{ticks:?}");
        assert_eq!(idle.first().is_some_and(|wake| wake.sleep.is_none() && wake.evidence.is_some()), !with_tick);
        clock.advance(Span::ZERO - (clock.now() - Instant::ZERO));
    }
}
