//! What a start requests from the kernel: policy, CPUs, timers, locked memory; and the related limits.

use super::facts::Facts;
use super::finding::{Draft, Finding, Mend, Place, Weight};
use super::remedy::{filtered, granting, group_bandwidth, lacks};
use super::work::{Work, cpu_list, priority};
use crate::config::{Scheduling, WorkerConfig};
use crate::sys::grant::Privilege;
use crate::sys::memory::Locked;
use crate::sys::rights::{IPC_LOCK, Most, SYS_NICE};
use crate::worker::{Granted, Refusal};
use std::path::PathBuf;

pub(super) fn findings(work: Work<'_>, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((index, worker), tried) in work.workers().zip(&facts.trial.workers) {
        let subject = format!("worker {}", worker.name);
        match tried {
            Ok(granted) => findings.extend(of_worker(work, facts, index, worker, granted)),
            Err(why) => findings.push(Finding::of("thread", subject, "a thread for the worker").is(
                Weight::Fails,
                why,
                format!("{} cannot run", work.tasks_of(index)),
                Vec::new(),
            )),
        }
    }
    findings.extend(guard(work, facts));
    findings.push(memory(work, facts));
    findings
}

fn of_worker(work: Work<'_>, facts: &Facts, index: usize, worker: &WorkerConfig, granted: &Granted) -> Vec<Finding> {
    let (subject, tasks) = (|| format!("worker {}", worker.name), work.tasks_of(index));
    let (wanted, tried) = wanted(worker.scheduling);
    let draft = Finding::of("policy", subject(), tried);
    let mut findings = vec![match granted.refused.first().filter(|_| granted.not_realtime) {
        _ if worker.scheduling == Scheduling::Other => draft.well("the policy other needs no right"),
        None => draft.well(format!("granted: {wanted}")),
        Some(refusal) => {
            let (why, mend) = refused_policy(worker.scheduling, refusal, granted, facts);
            let outcome = match worker.require_realtime {
                true => "a start is refused, because require-realtime is set".into(),
                false => format!("at normal priority, ticks of {tasks} may be milliseconds late"),
            };
            draft.is(Weight::Fails, format!("refused ({}): {why}", refusal.reason), outcome, mend)
        }
    }];
    if !worker.cpus.is_empty() {
        findings.push(pinned(facts, worker, granted, Finding::of("cpus", subject(), pinning(worker)), &tasks));
    }
    let is_timer = |refusal: &&Refusal| refusal.what == "exact timers";
    findings.extend(granted.refused.iter().find(is_timer).map(|refusal| {
        let draft = Finding::of("timers", subject(), "prctl(PR_SET_TIMERSLACK, 1)");
        let (mend, unit) = (vec![Mend::unit("SystemCallFilter=prctl")], facts.unit.as_ref().ok());
        let mend = if unit.is_some_and(|unit| unit.is_own && !unit.allows_call("prctl")) { mend } else { Vec::new() };
        draft.is(Weight::Minor, format!("refused ({})", refusal.reason), refusal.meaning.clone(), mend)
    }));
    findings
}

/// The priority of the thread that triggers the outputs' safe values.
fn guard(work: Work<'_>, facts: &Facts) -> Option<Finding> {
    let (priority, tried) = facts.trial.guard.as_ref()?;
    let tried_by = format!("SCHED_FIFO at priority {priority}, on a thread as the one that has safe values written");
    let draft = Finding::of("policy", "safe values", tried_by);
    let meaning = "a worker that keeps its CPU to itself may keep it from writing safe values";
    Some(match tried {
        Ok(()) if work.priority() >= Some(*priority) => draft.is(
            Weight::Minor,
            format!("granted: fifo {priority}, which the highest worker has as well"),
            meaning,
            vec![Mend::configuration("priority = 98")],
        ),
        Ok(()) => draft.well(format!("granted: fifo {priority}, above every worker")),
        Err(refusal) => {
            let scheduling = Scheduling::Fifo { priority: *priority };
            let granted = facts.trial.workers.iter().flatten().next()?;
            let (why, mend) = refused_policy(scheduling, refusal, granted, facts);
            draft.is(Weight::Harms, format!("refused ({}): {why}", refusal.reason), meaning, mend)
        }
    })
}

fn pinning(worker: &WorkerConfig) -> String {
    format!("sched_setaffinity to CPU {}", cpu_list(worker.cpus.iter().copied()))
}

/// The policy in words, and how it was requested.
fn wanted(scheduling: Scheduling) -> (String, String) {
    match scheduling {
        Scheduling::Fifo { priority } => {
            (format!("fifo {priority}"), format!("SCHED_FIFO at priority {priority}, on a thread as a worker's"))
        }
        Scheduling::Rr { priority } => {
            (format!("rr {priority}"), format!("SCHED_RR at priority {priority}, on a thread as a worker's"))
        }
        Scheduling::Deadline { runtime, period } => {
            let text = format!("{runtime} in every {period}");
            (format!("deadline, {text}"), format!("SCHED_DEADLINE with {text}, on a thread as a worker's"))
        }
        Scheduling::Other => ("other".into(), "nothing, as `policy = \"other\"` asks for nothing".into()),
    }
}

/// Why a policy was refused, as far as known, and what fixes it.
fn refused_policy(scheduling: Scheduling, refusal: &Refusal, granted: &Granted, facts: &Facts) -> (String, Vec<Mend>) {
    let rights = &facts.rights;
    let privilege = priority(scheduling).map_or(Privilege::Deadline, Privilege::Priority);
    let may = match privilege {
        Privilege::Priority(priority) => rights.may_have(priority),
        _ => rights.has(SYS_NICE),
    };
    if !may {
        let lacks = lacks(rights, SYS_NICE, "CAP_SYS_NICE");
        let limit = match (privilege, rights.priority) {
            (Privilege::Priority(_), Some(Most::Of(most))) => format!(", and RLIMIT_RTPRIO is {most}"),
            _ => String::new(),
        };
        return (lacks + &limit, granting(privilege, rights, facts.unit.as_ref().ok()));
    }
    if privilege == Privilege::Deadline {
        return refused_deadline(refusal, granted, facts);
    }
    if !rights.no_bandwidth.is_empty() {
        let files: Vec<_> = rights.no_bandwidth.iter().map(|(file, _)| file.display().to_string()).collect();
        return (
            format!("the control group has no real-time bandwidth: {} is 0", files.join(", ")),
            group_bandwidth(rights),
        );
    }
    filtered(facts, &["sched_setscheduler", "sched_setattr"], Some("RestrictRealtime"))
}

/// Given the right to it, a reservation also needs bandwidth, and a thread that may run on every CPU.
fn refused_deadline(refusal: &Refusal, granted: &Granted, facts: &Facts) -> (String, Vec<Mend>) {
    let host = &facts.machine.host;
    let missing: Vec<_> = host.online_cpus.iter().copied().filter(|cpu| !granted.cpus.contains(cpu)).collect();
    match (host.realtime_bandwidth, refusal.errno) {
        (Some((0, _)), _) => (
            "kernel.sched_rt_runtime_us is 0, so there is no bandwidth to reserve".into(),
            vec![Mend::until_boot("sudo sysctl -w kernel.sched_rt_runtime_us=950000")],
        ),
        (_, Some(libc::EBUSY)) => (
            "the CPUs have no bandwidth left to reserve: a program that runs, maybe a hertzd, holds it, or runtime is too long".into(),
            Vec::new(),
        ),
        _ if !missing.is_empty() => {
            let all = cpu_list(host.online_cpus.iter().copied());
            let shell = Mend::shell(format!("taskset -cp {all} $$")).noted("in the shell that starts it");
            let mend = match facts.unit.as_ref().is_ok_and(|unit| unit.is_own) {
                true => Mend::unit(format!("CPUAffinity={all}\nAllowedCPUs={all}")),
                false => shell,
            };
            (format!("it excludes a thread that may not run on CPU {}", cpu_list(missing)), vec![mend])
        }
        _ => filtered(facts, &["sched_setscheduler", "sched_setattr"], Some("RestrictRealtime")),
    }
}

fn pinned(facts: &Facts, worker: &WorkerConfig, granted: &Granted, draft: Draft, tasks: &str) -> Finding {
    let missing: Vec<_> = worker.cpus.iter().copied().filter(|cpu| !granted.cpus.contains(cpu)).collect();
    let refusal = granted.refused.iter().find(|refusal| refusal.what.starts_with("pinning"));
    let Some(refusal) = refusal else {
        return draft.well(format!("granted: CPU {}", cpu_list(worker.cpus.iter().copied())));
    };
    let meaning = format!("{tasks} run on any CPU that is free, where other programs delay them");
    let Some(set) = facts.rights.cpuset.as_ref().filter(|set| missing.iter().any(|cpu| !set.cpus.contains(cpu))) else {
        let (why, mend) = filtered(facts, &["sched_setaffinity"], None);
        return draft.is(Weight::Fails, format!("refused ({}): {why}", refusal.reason), meaning, mend);
    };
    let all = cpu_list(set.cpus.iter().chain(&worker.cpus).copied());
    let mut mend = Vec::new();
    if facts.unit.as_ref().is_ok_and(|unit| unit.is_own && !unit.get("AllowedCPUs").is_empty()) {
        mend.push(Mend::unit(format!("AllowedCPUs={all}")));
    } else if !set.files.is_empty() {
        let line = |file: &PathBuf| format!("echo {all} | sudo tee {}", file.display());
        mend.push(Mend::until_boot(set.files.iter().map(line).collect::<Vec<_>>().join("\n")));
    } else if facts.machine.in_container {
        mend.push(Mend::new(Place::Container, format!("--cpuset-cpus={all}"), "for docker and podman"));
    }
    mend.extend(set.cpus.first().map(|cpu| Mend::configuration(format!("cpu = {cpu}"))));
    let found = format!(
        "refused ({}): the control group's cpuset has CPU {} only",
        refusal.reason,
        cpu_list(set.cpus.iter().copied())
    );
    draft.is(Weight::Fails, found, meaning, mend)
}

fn memory(work: Work<'_>, facts: &Facts) -> Finding {
    let draft = Finding::of("memory", "", "mlockall, with the threads of all workers there");
    let weight = if work.is_realtime() { Weight::Fails } else { Weight::Harms };
    match &facts.trial.memory {
        Ok(Locked::All) => draft.well("granted, for memory that is mapped later too"),
        Ok(Locked::Present) => draft.is(
            Weight::Minor,
            "granted for what is there now; RLIMIT_MEMLOCK excludes memory that is mapped later",
            "a task that a reload brings may wait for pages of memory",
            granting(Privilege::LockedMemory, &facts.rights, facts.unit.as_ref().ok()),
        ),
        Err(refusal) => {
            let rights = &facts.rights;
            let unlimited = rights.locked_memory == Some(Most::Unlimited);
            let (why, mend) = if rights.has(IPC_LOCK) || unlimited {
                filtered(facts, &["mlockall"], None)
            } else {
                let limit = match rights.locked_memory {
                    Some(Most::Of(most)) => format!(", and RLIMIT_MEMLOCK is {} KiB", most / 1024),
                    _ => String::new(),
                };
                let mend = granting(Privilege::LockedMemory, rights, facts.unit.as_ref().ok());
                (lacks(rights, IPC_LOCK, "CAP_IPC_LOCK") + &limit, mend)
            };
            draft.is(
                weight,
                format!("refused ({}): {why}", refusal.reason),
                "every task may wait for pages of memory in a tick",
                mend,
            )
        }
    }
}
