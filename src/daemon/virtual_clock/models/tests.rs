//! Replays of short recordings.

use super::super::simulate::{SimulateOptions, Simulation};
use super::super::virtual_tasks::Graph;
use super::*;
use crate::config::{Facts, Kinds};
use crate::recording::PastTick;
use crate::snapshot::Summary;

const RECORDED: &str = "[task.a]\nkind = \"load\"\nrate = 100\nrun = \"1us\"\n";

/// A task at 100 Hz from 7 s on. Tick 2 ran for 14 ms, so release 3 was skipped. The sleep before tick 5 ended 3 ms late.
fn past() -> Past {
    let ms = Span::from_millis;
    let tick = |n: i64, run, late: Option<i64>| PastTick {
        n: n.unsigned_abs(),
        release: Instant::ZERO + ms(7_000 + 10 * n) + Span::from_nanos(n % 3 - 1), // rounded
        run: ms(run),
        response: ms(run + late.unwrap_or(0)),
        skipped: u64::from(n == 2),
        overrun: run > 10,
        sleep: late.map(|late| (Span::ZERO, ms(late))),
    };
    let ticks = vec![
        tick(0, 2, Some(0)),
        tick(1, 3, Some(0)),
        tick(2, 14, Some(0)),
        tick(4, 4, Some(0)),
        tick(5, 5, Some(3)),
        tick(6, 6, Some(0)),
    ];
    Past { tasks: vec![PastTask { name: "a".into(), ticks, before: 0, ..PastTask::default() }], cut_off: false }
}

/// Replays the recording with this configuration. Returns the index, start and end of each tick in milliseconds, and the summary.
fn replayed(text: &str, past: Past) -> (Vec<(u64, i128, i128)>, Summary) {
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
    let config = Config::parse(text, "test", &Kinds::builtin(), &facts).unwrap();
    let models = Models::replaying_past(past, &config);
    let length = models.replayed_length().unwrap();
    let options = SimulateOptions { length: Span::from_millis((length.nanos() + 500_000) / 1_000_000), first_tick: 0 };
    let mut ticks = Vec::new();
    let simulation = Simulation { config: &config, options, models: &models, graph: &Graph::scripts(&config) };
    let summary = simulation.play(&mut |tick| {
        let [started, finished] = [tick.started_ns, tick.finished_ns].map(|nanos| nanos / 1_000_000);
        ticks.push((tick.n, started, finished));
        Ok(())
    });
    (ticks, summary.unwrap())
}

#[test]
fn a_replay_of_the_same_configuration_is_what_was_recorded() {
    let (ticks, summary) = replayed(RECORDED, past());
    assert_eq!(ticks, [(0, 0, 2), (1, 10, 13), (2, 20, 34), (3, 34, 48), (4, 48, 52), (5, 52, 57), (6, 60, 66)]);
    // Except for the policy: release 3 was skipped in the recording. Here it runs late, as long as the tick before it.
    let (dropped, other) = replayed(&format!("{RECORDED}overrun = \"drop\"\n"), past());
    assert_eq!(dropped, [(0, 0, 2), (1, 10, 13), (2, 20, 34), (4, 40, 44), (5, 53, 58), (6, 60, 66)]);
    let missed =
        |summary: &Summary| (summary.tasks[0].counts.due, summary.tasks[0].counts.missed, summary.tasks[0].as_recorded);
    let as_recorded = Some(Share { due: 7, missed: 2 });
    assert_eq!((missed(&summary), missed(&other)), ((7, 3, as_recorded), (7, 2, as_recorded)));
}

#[test]
fn a_clock_that_went_at_another_speed_changes_nothing() {
    // Minutes at 100 Hz, timed by a UTC that runs 50 ppm faster than the clock of releases. One tick in 1,000 ran longer.
    let minutes = |speed: i64| {
        let tick = |n: i64| PastTick {
            n: n.unsigned_abs(),
            release: Instant::ZERO + Span::from_nanos(n * 10 * (1_000_000 + speed)),
            run: Span::from_millis(if n % 1_000 == 999 { 12 } else { 2 }),
            response: Span::from_millis(2),
            skipped: 0,
            overrun: false,
            sleep: (n % 777 == 776).then_some((Span::ZERO, Span::from_millis(3))),
        };
        Past {
            tasks: vec![PastTask { name: "a".into(), ticks: (0..40_000).map(tick).collect(), ..PastTask::default() }],
            cut_off: false,
        }
    };
    assert_eq!(replayed(RECORDED, minutes(0)).0, replayed(RECORDED, minutes(50)).0);
}

#[test]
fn at_another_rate_or_phase_what_happened_at_that_time_is_played() {
    let (ticks, _) = replayed("[task.a]\nkind = \"load\"\nrate = 50\nphase = \"1ms\"\noverrun = \"drop\"\n", past());
    // Recorded ticks 0, 2, 4 and 6. The late sleep was due to end at 50 ms; other recorded sleeps are nearer to 41 ms and 61 ms.
    assert_eq!(ticks, [(0, 1, 3), (1, 21, 35), (2, 41, 45), (3, 61, 67)]);
}
