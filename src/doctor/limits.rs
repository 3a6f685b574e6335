//! The limits on real-time threads: those of the process, and those of its control group.

use super::facts::Facts;
use super::finding::{Finding, Mend, Weight};
use super::remedy::group_bandwidth;
use super::work::{Work, priority};
use crate::config::Scheduling;
use crate::sys::rights::{Most, Rights};
use crate::time::Span;

pub(super) fn findings(work: Work<'_>, facts: &Facts) -> Vec<Finding> {
    [limits(work, facts), bandwidth(work, facts), quota(work, &facts.rights)].into_iter().flatten().collect()
}

/// The limits themselves. The trial shows whether they suffice.
fn limits(work: Work<'_>, facts: &Facts) -> Option<Finding> {
    let rights = &facts.rights;
    let shown = |most: Option<Most>, unit: &str| match most {
        Some(Most::Unlimited) => "unlimited".to_owned(),
        Some(Most::Of(most)) => format!("{most}{unit}"),
        None => "not shown".to_owned(),
    };
    let [priority, memory, time] =
        [(rights.priority, ""), (rights.locked_memory, " bytes"), (rights.realtime_time, " µs")]
            .map(|(most, unit)| shown(most, unit));
    let found = format!("RLIMIT_RTPRIO {priority}, RLIMIT_MEMLOCK {memory}, RLIMIT_RTTIME {time}");
    let draft = Finding::of("limits", "", "the limits of this process");
    let longest = work.0.tasks.iter().map(|task| task.budget.unwrap_or(task.deadline)).max().unwrap_or(Span::ZERO);
    // If a limit was too low for the trial, the trial's finding names it.
    let trial = &facts.trial;
    let is_said = trial.memory.is_err() || trial.workers.iter().flatten().any(|granted| granted.not_realtime);
    Some(match rights.realtime_time {
        Some(Most::Of(most)) if work.is_realtime() && i128::from(most) * 1_000 < i128::from(longest.nanos()) => draft.is(
            Weight::Harms,
            found,
            format!(
                "ticks may run for {longest}, and a worker that uses {most} µs of processor time without a sleep loses its real-time policy"
            ),
            vec![Mend::shell("ulimit -R unlimited").noted("in the shell that starts it"), Mend::unit("LimitRTTIME=infinity")],
        ),
        _ if is_said => return None,
        _ => draft.well(found),
    })
}

fn bandwidth(work: Work<'_>, facts: &Facts) -> Option<Finding> {
    let rights = &facts.rights;
    if !work.is_realtime() {
        return None;
    }
    let draft = Finding::of("bandwidth", "", "kernel.sched_rt_runtime_us, and cpu.rt_runtime_us of the control group");
    // If a worker has the right to its priority but was refused for lack of bandwidth, the finding about its policy says so.
    let is_said = work.workers().zip(&facts.trial.workers).any(|((_, worker), tried)| {
        let may_have = priority(worker.scheduling).is_some_and(|priority| rights.may_have(priority));
        may_have && tried.as_ref().is_ok_and(|granted| granted.not_realtime)
    });
    Some(match facts.machine.host.realtime_bandwidth {
        _ if !rights.no_bandwidth.is_empty() && work.priority().is_some() => match is_said {
            true => return None,
            false => draft.is(
                Weight::Fails,
                "the control group has no real-time bandwidth",
                "the kernel refuses fifo and rr in it, whatever else is granted",
                group_bandwidth(rights),
            ),
        },
        None => draft.unseen("this kernel shows no limit of real-time bandwidth"),
        Some((-1, _)) if has_fair_server(&facts.machine.host.kernel) => {
            draft.well("no limit, and since Linux 6.12 the kernel leaves other threads their time all the same")
        }
        Some((-1, _)) => draft.is(
            Weight::Minor,
            "no limit",
            "a worker that never sleeps would keep everything else off its CPU for good, kernel threads too",
            vec![Mend::until_boot("sudo sysctl -w kernel.sched_rt_runtime_us=950000")],
        ),
        Some((runtime, period)) => {
            let [runtime, period] = [runtime, period].map(Span::from_micros);
            draft.well(format!("{runtime} in every {period}"))
        }
    })
}

/// Since 6.12 the kernel gives starving normal threads a share through a server.
fn has_fair_server(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

fn quota(work: Work<'_>, rights: &Rights) -> Option<Finding> {
    let (file, runtime, period) = rights.quota.as_ref()?;
    let draft = Finding::of("quota", "", file.display().to_string());
    let [runtime, period] = [runtime, period].map(|us| Span::from_micros(i64::try_from(*us).unwrap_or(i64::MAX)));
    let found = format!("threads of normal priority may run for {runtime} in every {period}");
    let normal: Vec<_> = work.workers().filter(|(_, worker)| worker.scheduling == Scheduling::Other).collect();
    let mend = match &rights.service {
        Some(_) => vec![Mend::unit("CPUQuota=")],
        None => Vec::new(),
    };
    Some(match normal.first() {
        Some((index, worker)) => draft.is(
            Weight::Harms,
            found,
            format!(
                "when it is used up, worker {} ({}) stands still until the next period",
                worker.name,
                work.tasks_of(*index)
            ),
            mend,
        ),
        None => draft.is(
            Weight::Minor,
            found,
            "real-time workers are not limited by it; recordings, log and status are",
            mend,
        ),
    })
}
