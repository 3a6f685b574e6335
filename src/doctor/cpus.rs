//! Whether pinned workers have their CPUs to themselves: isolation, the scheduler's tick, interrupts, siblings.

use super::facts::Facts;
use super::finding::{Finding, Mend, Place, Weight};
use super::work::{Work, cpu_list};
use crate::config::Scheduling;
use std::collections::BTreeSet;

pub(super) fn findings(work: Work<'_>, facts: &Facts) -> Vec<Finding> {
    let pinned = work.pinned();
    let online: BTreeSet<usize> = facts.machine.host.online_cpus.iter().copied().collect();
    let rest: BTreeSet<usize> = online.difference(&pinned).copied().collect();
    let mut findings = vec![isolation(work, facts, &pinned, &rest)];
    if !pinned.is_empty() {
        findings.push(ticks(work, facts, &pinned, &rest));
        findings.push(interrupts(work, facts, &pinned, &rest));
        findings.extend(pinned.iter().filter_map(|cpu| siblings(work, facts, *cpu, &pinned)));
    }
    findings
}

/// A fix on the kernel's command line; in a container that is the host's.
pub(super) fn kernel(facts: &Facts, line: impl Into<String>) -> Mend {
    let note = if facts.machine.in_container { "of the host, from its next boot on" } else { "from the next boot on" };
    Mend::new(Place::Kernel, line, note)
}

fn isolation(work: Work<'_>, facts: &Facts, pinned: &BTreeSet<usize>, rest: &BTreeSet<usize>) -> Finding {
    let draft = Finding::of("isolation", "", "/sys/devices/system/cpu/isolated");
    let Some(isolated) = &facts.machine.isolated else {
        return draft.unseen("the kernel does not show it");
    };
    let online = facts.machine.host.online_cpus.len();
    if pinned.is_empty() {
        // A worker with the deadline policy cannot be pinned, and one with normal priority need not be.
        let can_be = |scheduling| matches!(scheduling, Scheduling::Fifo { .. } | Scheduling::Rr { .. });
        let worker = work.workers().find(|(_, worker)| can_be(worker.scheduling));
        return match (worker, facts.machine.host.online_cpus.last()) {
            (Some((index, worker)), Some(last)) if online > 1 => draft.is(
                Weight::Minor,
                "no worker is pinned to a CPU",
                format!(
                    "worker {} ({}) moves between CPUs, each time with cold caches",
                    worker.name,
                    work.tasks_of(index)
                ),
                vec![Mend::configuration(format!("cpu = {last}")).noted("in the section of the worker")],
            ),
            _ => draft.well("no worker is pinned, and none needs to be"),
        };
    }
    let shared: BTreeSet<usize> = pinned.iter().copied().filter(|cpu| !isolated.contains(cpu)).collect();
    let idle: Vec<usize> = isolated.iter().copied().filter(|cpu| !pinned.contains(cpu)).collect();
    if shared.is_empty() {
        return match idle.is_empty() {
            true => draft.well(format!("CPU {} is isolated, and has a worker", cpu_list(pinned.iter().copied()))),
            false => draft.is(
                Weight::Minor,
                format!("CPU {} is isolated, and no worker is pinned to it", cpu_list(idle)),
                "nothing else uses it either",
                Vec::new(),
            ),
        };
    }
    let list = cpu_list(shared.iter().copied());
    let found = format!("CPU {list} is not isolated");
    let on = shared.iter().map(|cpu| work.on(*cpu)).collect::<Vec<_>>().join("; ");
    match (idle.first(), rest.is_empty()) {
        (Some(free), _) => draft.is(
            Weight::Minor,
            format!("{found}, while CPU {free} is, and has no worker"),
            format!("programs other than hertzd's run on the CPU of {on}"),
            vec![Mend::configuration(format!("cpu = {free}")).noted("in the section of the worker")],
        ),
        (None, true) => draft.is(
            Weight::Minor,
            format!("{found}, and cannot be: every CPU has a worker, and something else must run as well"),
            format!("hertzd's other threads and other programs run on the CPU of {on}, while the worker does not"),
            Vec::new(),
        ),
        (None, false) => draft.is(
            Weight::Minor,
            found,
            format!(
                "programs other than hertzd's run on the CPU of {on}: they do not hold up a real-time policy, but leave cold caches"
            ),
            vec![kernel(facts, format!("isolcpus=managed_irq,domain,{}", cpu_list(pinned.iter().copied())))],
        ),
    }
}

fn ticks(work: Work<'_>, facts: &Facts, pinned: &BTreeSet<usize>, rest: &BTreeSet<usize>) -> Finding {
    let draft = Finding::of("nohz-full", "", "/sys/devices/system/cpu/nohz_full");
    let Some(without) = &facts.machine.nohz_full else {
        return draft.unseen("this kernel cannot run without its periodic tick (CONFIG_NO_HZ_FULL)");
    };
    let with: Vec<_> = pinned.iter().copied().filter(|cpu| !without.contains(cpu)).collect();
    match with.is_empty() {
        true => draft.well(format!("CPU {} has no tick while one thread runs", cpu_list(pinned.iter().copied()))),
        false if !work.spins() => draft.well("not used, and hardly needed: no worker spins"),
        false if rest.is_empty() => {
            draft.well("not used, and it cannot be: every CPU has a worker, and one must keep its tick")
        }
        false => draft.is(
            Weight::Minor,
            format!("CPU {} has the kernel's tick also while a worker spins", cpu_list(with)),
            "each tick takes some microseconds from the spin tail or the task",
            {
                let list = cpu_list(pinned.iter().copied());
                vec![kernel(facts, format!("nohz_full={list} rcu_nocbs={list}"))]
            },
        ),
    }
}

fn interrupts(work: Work<'_>, facts: &Facts, pinned: &BTreeSet<usize>, rest: &BTreeSet<usize>) -> Finding {
    let draft = Finding::of("interrupts", "", "/proc/irq/*/effective_affinity_list");
    let Some(counts) = &facts.machine.interrupts else {
        return draft.unseen("the kernel does not show which CPU handles which interrupt");
    };
    let busy: Vec<_> = pinned.iter().filter_map(|cpu| Some((*cpu, *counts.get(cpu)?))).collect();
    if busy.is_empty() {
        return draft.well(format!("none is assigned to CPU {}", cpu_list(pinned.iter().copied())));
    }
    let found =
        busy.iter().map(|(cpu, count)| format!("{count} are handled by CPU {cpu}")).collect::<Vec<_>>().join(", ");
    let on = busy.iter().map(|(cpu, _)| work.on(*cpu)).collect::<Vec<_>>().join("; ");
    let mut mend = Vec::new();
    if !rest.is_empty() {
        let list = cpu_list(rest.iter().copied());
        let each = "for file in /proc/irq/*/smp_affinity_list";
        mend.push(
            Mend::until_boot(format!("{each}; do echo {list} | sudo tee \"$file\"; done"))
                .noted("until the next boot; some cannot be moved, and say so"),
        );
        mend.push(kernel(facts, format!("irqaffinity={list}")));
    }
    draft.is(Weight::Minor, found, format!("each interrupt delays {on}, by microseconds mostly"), mend)
}

/// The sibling hardware threads of a worker's core.
fn siblings(work: Work<'_>, facts: &Facts, cpu: usize, pinned: &BTreeSet<usize>) -> Option<Finding> {
    let siblings = &facts.machine.cpus.get(&cpu)?.siblings;
    let draft = Finding::of(
        "siblings",
        format!("CPU {cpu}"),
        format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
    );
    if siblings.is_empty() {
        return Some(draft.well("no other CPU shares its core"));
    }
    let others = cpu_list(siblings.iter().copied());
    let shown = if facts.machine.is_virtual == Some(true) { ", as the virtual machine shows it" } else { "" };
    let found = format!("it shares its core with CPU {others}{shown}");
    // Two workers that keep each other from running at full speed; each pair is reported once.
    if let Some(other) = siblings.iter().find(|other| pinned.contains(other)) {
        if *other < cpu {
            return None;
        }
        let matters = format!("{} and {} slow each other down", work.on(cpu), work.on(*other));
        return Some(draft.is(Weight::Harms, found, matters, Vec::new()));
    }
    let off = siblings.iter().map(|other| format!("echo 0 | sudo tee /sys/devices/system/cpu/cpu{other}/online"));
    let mend = vec![Mend::until_boot(off.collect::<Vec<_>>().join("\n")), kernel(facts, "nosmt")];
    Some(draft.is(Weight::Minor, found, format!("what runs there slows down {}, by up to a half", work.on(cpu)), mend))
}
