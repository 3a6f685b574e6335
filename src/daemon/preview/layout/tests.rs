//! Small sets with a known best layout, and many tasks.

use super::*;
use crate::pacing::{Rate, Tail};

fn task(hertz: u64, deadline: i64, run: i64) -> Placed {
    let us = Span::from_micros;
    let (rate, run) = (Rate::new(hertz, 1).unwrap(), us(run));
    Placed {
        rate,
        deadline: us(deadline),
        feeds: Vec::new(),
        run,
        claim: Claim::budget(rate, us(deadline), run),
        settings: 0,
        phase: None,
        on: None,
        tail: Tail::Off,
        now: Span::ZERO,
        chain: None,
    }
}

/// Plans tasks that are in no chain.
fn plan(tasks: &[Placed], cpus: usize, now: Option<Vec<CpuLayout>>) -> Layout {
    super::plan(tasks, cpus, now, &Chains { together: &[], too_old: &|_| TooOld::default() })
}

/// The worst responses, by task, in microseconds.
fn worst(tasks: &[Placed], layout: &Layout) -> Vec<i64> {
    let mut all = vec![0; tasks.len()];
    for cpu in &layout.cpus {
        let responses = on_cpu(tasks, cpu, Span::ZERO, MANY_TICKS);
        assert_eq!(responses.only, None);
        for (worker, worst) in cpu.workers.iter().zip(&responses.worst) {
            worker.tasks.iter().zip(worst).for_each(|((task, _), worst)| all[*task] = worst.nanos() / 1_000);
        }
    }
    all
}

#[test]
fn phases_keep_apart_what_fits_between() {
    let tasks = [task(1_000, 1_000, 200), task(100, 10_000, 300), task(50, 20_000, 300)];
    let layout = plan(&tasks, 1, None);
    assert_eq!(worst(&tasks, &layout), [200, 300, 300]);
    assert_eq!(layout.cpus[0].workers.len(), 1, "{layout:?}");
}

#[test]
fn a_run_longer_than_another_period_is_interrupted_or_gets_a_cpu() {
    let tasks = [task(1_000, 1_000, 200), task(10, 100_000, 5_000)];
    let one = plan(&tasks, 1, None);
    assert_eq!(one.cpus[0].workers.len(), 2, "{one:?}");
    assert_eq!(worst(&tasks, &one)[0], 200);
    let two = plan(&tasks, 2, None);
    assert_eq!(worst(&tasks, &two), [200, 5_000]);
    assert!(two.cpus.iter().all(|cpu| cpu.workers.len() == 1), "{two:?}");
}

#[test]
fn tasks_with_other_settings_get_a_worker_of_their_own() {
    let mut tasks = vec![task(1_000, 1_000, 100); 4];
    tasks[2].settings = 1;
    for cpu in plan(&tasks, 1, None).cpus {
        for worker in cpu.workers {
            let settings: Vec<_> = worker.tasks.iter().map(|(index, _)| tasks[*index].settings).collect();
            assert!(settings.iter().all(|other| *other == settings[0]), "{worker:?}");
        }
    }
}

#[test]
fn many_tasks_are_planned_the_same_each_time_and_no_cpu_is_overloaded() {
    let hertz = [1_000, 500, 250, 200, 100, 50, 20, 10];
    let tasks: Vec<_> = (0..24)
        .map(|nth| {
            let hertz = hertz[nth % hertz.len()];
            task(hertz, 1_000_000 / i64::try_from(hertz).unwrap(), 60 + 10 * i64::try_from(nth).unwrap())
        })
        .collect();
    let layout = plan(&tasks, 4, None);
    assert_eq!(layout, plan(&tasks, 4, None));
    assert!(!layout.all_tried);
    let mut placed: Vec<_> = layout.cpus.iter().flat_map(|cpu| &cpu.workers).flat_map(|worker| &worker.tasks).collect();
    placed.sort();
    assert_eq!(placed.iter().map(|(task, _)| *task).collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());
    assert!(placed.iter().all(|(index, phase)| *phase < tasks[*index].rate.period()));
    for (task, worst) in tasks.iter().zip(worst(&tasks, &layout)) {
        assert!(worst * 1_000 <= task.deadline.nanos(), "{task:?}: {worst} µs");
    }
}

#[test]
fn a_phase_and_a_cpu_that_were_given_stay() {
    let mut tasks = [task(1_000, 1_000, 200), task(1_000, 1_000, 300), task(100, 10_000, 400)];
    tasks[0].phase = Some(Span::from_micros(450));
    tasks[2].on = Some(vec![1]);
    for cpus in [2, 3] {
        let layout = plan(&tasks, cpus, None);
        let places = || {
            layout.cpus.iter().enumerate().flat_map(|(cpu, on)| {
                on.workers
                    .iter()
                    .flat_map(move |worker| worker.tasks.iter().map(move |(task, phase)| (*task, cpu, *phase)))
            })
        };
        assert!(places().any(|(task, cpu, _)| (task, cpu) == (2, 1)), "{layout:?}");
        assert!(places().any(|(task, _, phase)| (task, phase) == (0, Span::from_micros(450))), "{layout:?}");
        assert_eq!(worst(&tasks, &layout), [200, 300, 400]);
    }
    // Twelve tasks, two of them bound to the last CPU: the others must leave room there.
    let mut many = vec![task(100, 10_000, 1_500); 12];
    many[3].on = Some(vec![2]);
    many[7].on = Some(vec![2]);
    let layout = plan(&many, 3, None);
    let on_last: Vec<_> =
        layout.cpus[2].workers.iter().flat_map(|worker| &worker.tasks).map(|(task, _)| *task).collect();
    assert!(on_last.contains(&3) && on_last.contains(&7), "{layout:?}");
    assert_eq!(worst(&many, &layout), [1_500; 12]);
}

#[test]
fn what_is_as_good_stays() {
    let tasks = [task(1_000, 1_000, 200), task(1_000, 1_000, 300)];
    let phases = [Span::from_micros(17), Span::from_micros(500)];
    let worker = |tasks: &[usize]| PlannedWorker { tasks: tasks.iter().map(|task| (*task, phases[*task])).collect() };
    let now = vec![CpuLayout { workers: vec![worker(&[0])] }, CpuLayout { workers: vec![worker(&[1])] }];
    let layout = plan(&tasks, 2, Some(now.clone()));
    assert_eq!((layout.changed, layout.cpus), (false, now));
    // If their phases make them wait for each other, the layout changes.
    let met = CpuLayout { workers: vec![PlannedWorker { tasks: vec![(0, Span::ZERO), (1, Span::ZERO)] }] };
    let layout = plan(&tasks, 1, Some(vec![met]));
    assert!(layout.changed);
    assert_eq!(worst(&tasks, &layout), [200, 300]);
}

#[test]
fn a_chain_is_moved_as_a_whole() {
    let us = Span::from_micros;
    for cpus in 1..=3 {
        let mut tasks =
            [task(500, 2_000, 200), task(1_000, 1_000, 300), task(1_000, 1_000, 100), task(100, 10_000, 100)];
        (tasks[0].chain, tasks[2].chain, tasks[3].chain) = (Some(0), Some(0), Some(0));
        (tasks[0].now, tasks[2].now, tasks[3].now) = (us(1_700), us(100), us(8_300));
        let layout = plan(&tasks, cpus, None);
        let workers = layout.cpus.iter().flat_map(|cpu| &cpu.workers);
        let workers: Vec<_> = workers.filter(|worker| worker.tasks.iter().any(|(task, _)| *task != 1)).collect();
        assert_eq!(workers.len(), 1, "{layout:?}");
        let phase = |of: usize| workers[0].tasks.iter().find(|(task, _)| *task == of).unwrap().1.nanos();
        let apart = |one: usize, other: usize, common: i64| (phase(one) - phase(other)).rem_euclid(common);
        assert_eq!((apart(0, 2, 1_000_000), apart(3, 0, 2_000_000)), (600_000, 600_000), "{layout:?}");
        let worst = worst(&tasks, &layout);
        assert!([200, 300, 100, 100].iter().zip(&worst).all(|(run, worst)| run == worst), "{worst:?} {layout:?}");
    }
}

#[test]
fn what_a_chain_must_not_exceed_comes_before_how_long_others_wait() {
    let ms = Span::from_millis;
    let mut tasks = [task(100, 10_000, 3_000), task(10, 100_000, 5_000)];
    (tasks[0].phase, tasks[1].phase) = (Some(Span::ZERO), Some(ms(7)));
    // The second task is interrupted, and ends after 8 ms.
    assert_eq!(worst(&tasks, &plan(&tasks, 1, None)), [3_000, 8_000]);
    let by = |spot: Option<Spot>| spot.map_or(Span::ZERO, |spot| (spot.worst - ms(6)).max(Span::ZERO));
    let too_old = |spots: &[Option<Spot>]| TooOld { chains: usize::from(by(spots[1]) > Span::ZERO), by: by(spots[1]) };
    let layout = super::plan(&tasks, 1, None, &Chains { together: &[], too_old: &too_old });
    assert_eq!(worst(&tasks, &layout), [5_000, 5_000]);
}

#[test]
fn what_the_kernel_leaves_to_real_time_threads_comes_before_how_long_others_wait() {
    // Four on one CPU would never wait, but they would take 96 % of it.
    let mut tasks = vec![task(100, 10_000, 2_400); 4];
    tasks.extend([task(50, 20_000, 5_000), task(20, 50_000, 7_000)]);
    let layout = plan(&tasks, 2, None);
    let share = |cpu: &CpuLayout| {
        cpu.workers.iter().flat_map(|worker| &worker.tasks).map(|(task, _)| load(&tasks[*task])).sum::<f64>()
    };
    assert!(layout.cpus.iter().all(|cpu| share(cpu) < 0.95), "{layout:?}");
}

#[test]
fn other_ways_to_keep_tasks_together_are_tried_if_a_chain_is_too_old() {
    // On one worker only if kept together: the third task's deadline lies between those of the other two.
    let mut tasks = vec![task(100, 4_000, 500), task(100, 10_000, 500), task(100, 6_000, 4_000)];
    tasks.iter_mut().for_each(|task| task.phase = Some(Span::ZERO));
    let too_old = |spots: &[Option<Spot>]| {
        let apart = matches!(spots, [one, Some(two), _] if one.is_none_or(|one| one.worker != two.worker));
        TooOld { chains: usize::from(apart), by: Span::from_millis(i64::from(apart)) }
    };
    let together = [vec![Some(0), Some(0), None]];
    let layout = super::plan(&tasks, 1, None, &Chains { together: &together, too_old: &too_old });
    let workers: Vec<Vec<usize>> =
        layout.cpus[0].workers.iter().map(|worker| worker.tasks.iter().map(|(task, _)| *task).collect()).collect();
    assert_eq!(workers, [vec![0, 1], vec![2]], "{layout:?}");
}
