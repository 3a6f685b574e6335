//! Whether idle CPUs sleep so deeply, or run so slowly, that ticks are affected: sleep states and frequency.

use super::cpus::kernel;
use super::facts::Facts;
use super::finding::{Finding, Mend, Place, Weight};
use super::work::{Work, cpu_list};
use crate::program;
use crate::time::Span;
use std::collections::BTreeSet;
use std::io;

pub(super) fn findings(work: Work<'_>, facts: &Facts) -> Vec<Finding> {
    let cpus = work.cpus(&facts.machine.host.online_cpus);
    vec![sleep(work, facts, &cpus), frequency(facts, &cpus)]
}

fn sleep(work: Work<'_>, facts: &Facts, cpus: &BTreeSet<usize>) -> Finding {
    let machine = &facts.machine;
    let draft = Finding::of("cpu-latency", "", "/dev/cpu_dma_latency, held at 0 µs");
    let deepest =
        cpus.iter().filter_map(|cpu| Some((*cpu, machine.deepest(*cpu)?))).max_by_key(|(_, state)| state.latency_us);
    let (error, cpu, state) = match (&facts.trial.cpu_latency, deepest) {
        (Ok(()), _) => return draft.well("granted: idle CPUs do not sleep deeply while hertzd runs"),
        (Err(error), None) => {
            return draft
                .well(format!("refused ({}), and not needed: the kernel puts no CPU to a deep sleep", plain(error)));
        }
        (Err(error), Some((cpu, state))) => (error, cpu, state),
    };
    let latency = Span::from_micros(state.latency_us);
    let (weight, part) = work.weigh(latency);
    let found = format!(
        "refused ({}); CPU {cpu} may sleep as deeply as {}, and needs {latency} to wake up",
        plain(error),
        state.name
    );
    draft.is(weight, found, format!("a tick after a pause may be that much later: {part}"), awake(facts, error))
}

/// The error text without its number: "Permission denied".
fn plain(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// Fixes that keep CPUs awake.
fn awake(facts: &Facts, error: &io::Error) -> Vec<Mend> {
    let machine = &facts.machine;
    let mut mend = Vec::new();
    let own = facts.unit.as_ref().ok().filter(|unit| unit.is_own);
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let group = program::name();
            let rule = format!("KERNEL==\"cpu_dma_latency\", GROUP=\"{group}\", MODE=\"0660\"");
            match own {
                Some(_) => {
                    mend.push(Mend::unit("DeviceAllow=/dev/cpu_dma_latency rw").noted("if its file mode allows it"))
                }
                None => mend.push(Mend::until_boot("sudo chmod o+rw /dev/cpu_dma_latency")),
            }
            mend.push(Mend::new(Place::Udev, rule, format!("for the users of the group {group}")));
        }
        io::ErrorKind::NotFound if machine.in_container => {
            mend.push(Mend::new(Place::Container, "--device /dev/cpu_dma_latency", "for docker and podman"));
        }
        _ => {}
    }
    mend.push(kernel(
        facts,
        match machine.idle_driver.as_deref() {
            Some("intel_idle") => "intel_idle.max_cstate=1",
            Some("acpi_idle") => "processor.max_cstate=1",
            _ => "cpuidle.off=1",
        },
    ));
    mend
}

fn frequency(facts: &Facts, cpus: &BTreeSet<usize>) -> Finding {
    let draft = Finding::of("governor", "", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
    let known = |cpu: &usize| Some((*cpu, facts.machine.cpus.get(cpu)?.governor.as_deref()?));
    let governors: Vec<_> = cpus.iter().filter_map(known).collect();
    let slow: Vec<_> = governors.iter().copied().filter(|(_, governor)| *governor != "performance").collect();
    let Some((first, governor)) = slow.first().copied() else {
        return match governors.is_empty() {
            true => draft.unseen("this kernel does not set the frequency of these CPUs (no cpufreq)"),
            false => draft.well("performance"),
        };
    };
    let list = slow.iter().map(|(cpu, _)| *cpu);
    let has = |cpu: usize| facts.machine.cpus[&cpu].governors.iter().any(|governor| governor == "performance");
    let mend = if has(first) {
        let set = |cpu: usize| {
            format!("echo performance | sudo tee /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")
        };
        let line = list.clone().map(set).collect::<Vec<_>>().join("\n");
        vec![Mend::until_boot(line), kernel(facts, "cpufreq.default_governor=performance")]
    } else {
        Vec::new()
    };
    draft.is(
        Weight::Minor,
        format!("{governor} on CPU {}", cpu_list(list)),
        "the CPU may be slow when a tick begins, so its run takes longer and differs more",
        mend,
    )
}
