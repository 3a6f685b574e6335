//! Properties of the kernel and the host: preemption, clock source, huge pages, swap, hypervisor, TAI offset.

use super::cpus::kernel;
use super::facts::Facts;
use super::finding::{Finding, Mend, Weight};
use super::work::Work;
use crate::config::ClockKind;
use crate::sys::memory::Locked;
use crate::time::Span;

/// Clock sources that take a microsecond or more, because every reading goes through the kernel or slow hardware.
const SLOW: [&str; 7] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "tsc-early", "xen"];

/// If reading the clock takes more than this share of a system call, it is a system call, or as slow as one. Through the vDSO it takes less
/// than half.
const LIKE_A_CALL: f64 = 0.75;

/// Below this deadline, the non-preemptible sections of a kernel without PREEMPT_RT matter.
const SHORT: Span = Span::from_millis(1);

/// If the host took more than this share of the time, it is worth more than a note.
const MUCH: f64 = 0.001;

pub(super) fn findings(work: Work<'_>, facts: &Facts) -> Vec<Finding> {
    let hypervisor = hypervisor(work, facts);
    vec![preemption(work, facts), clocksource(facts), huge_pages(facts), swap(facts), hypervisor, tai(work, facts)]
}

fn preemption(work: Work<'_>, facts: &Facts) -> Finding {
    let host = &facts.machine.host;
    let draft = Finding::of("preemption", "", "/sys/kernel/realtime, and the kernel's version");
    let choice = match host.preempt.as_str() {
        "rt" => return draft.well("PREEMPT_RT"),
        "unknown" => return draft.unseen("the kernel does not say how it is preempted"),
        choice => choice,
    };
    let (task, deadline) = work.tightest();
    let weight = if deadline < SHORT { Weight::Harms } else { Weight::Minor };
    let mut mend = Vec::new();
    if facts.machine.preempt_is_a_choice && choice != "full" {
        mend.push(kernel(facts, "preempt=full"));
    }
    if facts.machine.distribution.as_deref() == Some("debian")
        && facts.machine.board.is_none()
        && let Some(package) = rt_package(std::env::consts::ARCH)
        && !facts.machine.in_container
    {
        mend.push(Mend::shell(format!("sudo apt install {package}")).noted("and a boot of that kernel"));
    }
    let found = match choice {
        "dynamic" => "not PREEMPT_RT; which of its other choices was made at boot does not show here".to_owned(),
        _ => format!("not PREEMPT_RT, but {choice}"),
    };
    let mut matters = format!(
        "work of the kernel may delay a tick, seldom by more than a millisecond; the shortest deadline is {deadline} (task {task})"
    );
    if let Some(board) = facts.machine.board {
        matters.push_str("; docs/boards.md has the real-time kernel for a ");
        matters.push_str(board);
    }
    draft.is(weight, found, matters, mend)
}

fn rt_package(architecture: &str) -> Option<&'static str> {
    match architecture {
        "x86_64" => Some("linux-image-rt-amd64"),
        "aarch64" => Some("linux-image-rt-arm64"),
        "x86" => Some("linux-image-rt-686-pae"),
        "arm" => Some("linux-image-rt-armmp"),
        _ => None,
    }
}

fn clocksource(facts: &Facts) -> Finding {
    let source = &facts.machine.host.clocksource;
    let draft = Finding::of("clocksource", "", "the kernel's source of time, and a thousand readings of it");
    let takes = format!("a reading takes {}", facts.clock_read);
    if source == "unknown" {
        return draft.unseen(format!("the kernel does not name its source of time; {takes}"));
    }
    let is_slow = SLOW.contains(&source.as_str());
    // All other sources are judged by the cost of a reading: the vDSO cannot read every source, or not for every program.
    let like_a_call = |call: &Span| facts.clock_read.seconds() > call.seconds() * LIKE_A_CALL;
    let found = match facts.clock_call.filter(like_a_call) {
        Some(call) => format!("{source}; {takes}, as much as a system call ({call})"),
        None if is_slow => format!("{source}; {takes}"),
        None => return draft.well(format!("{source}; {takes}")),
    };
    // If a fast x86 source has become slow, another fast one may be wrong on that machine.
    let better: &[&str] = match is_slow {
        true => &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"],
        false => &["arch_sys_counter"],
    };
    let is_there =
        |better: &&&str| **better != source && facts.machine.clocksources.iter().any(|there| there == **better);
    let mend = better.iter().find(is_there).map_or_else(Vec::new, |better| {
        let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        vec![
            Mend::until_boot(format!("echo {better} | sudo tee {file}")),
            kernel(facts, format!("clocksource={better}")),
        ]
    });
    let matters =
        "every tick reads the clock several times, a spin tail all the time, and each reading is as much too late";
    match is_slow || !mend.is_empty() {
        true => draft.is(Weight::Harms, found, matters, mend),
        false => draft.is(Weight::Minor, found, format!("{matters}; hertzd knows of no better source here"), mend),
    }
}

fn huge_pages(facts: &Facts) -> Finding {
    let draft = Finding::of("huge-pages", "", "/sys/kernel/mm/transparent_hugepage/enabled");
    match facts.machine.huge_pages.as_deref() {
        None => draft.well("this kernel makes none by itself"),
        Some("always") => draft.is(
            Weight::Minor,
            "always: the kernel puts pages together while programs run",
            "a task that touches such a page meanwhile waits for it, locked or not",
            vec![
                Mend::until_boot("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
                kernel(facts, "transparent_hugepage=madvise"),
            ],
        ),
        Some(choice) => draft.well(choice),
    }
}

fn swap(facts: &Facts) -> Finding {
    let draft = Finding::of("swap", "", "/proc/swaps");
    match (facts.machine.swap_kib, &facts.trial.memory) {
        (None, _) => draft.unseen("the kernel does not show it"),
        (Some(0), _) => draft.well("there is none"),
        (Some(kib), Ok(Locked::All)) => draft.well(format!("{} MiB, which locked memory does not go to", kib / 1024)),
        (Some(kib), _) => draft.is(
            Weight::Harms,
            format!("{} MiB, and the memory is not all locked", kib / 1024),
            "a tick that touches a page there waits for the disk; with locked memory it would not",
            vec![Mend::until_boot("sudo swapoff -a")],
        ),
    }
}

fn hypervisor(work: Work<'_>, facts: &Facts) -> Finding {
    let draft = Finding::of(
        "hypervisor",
        "",
        "the processor's flags, the device tree, the firmware's names in /sys/class/dmi/id, and steal in /proc/stat",
    );
    match facts.machine.is_virtual {
        Some(true) => {}
        Some(false) => return draft.well("none shows"),
        None => {
            return draft.unseen(
                "this processor has no flag that shows one, and neither the device tree nor the firmware names one",
            );
        }
    }
    let share = |cpu: &usize| {
        let (stolen, all) = facts.machine.cpus.get(cpu)?.stolen?;
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let share = if all == 0 { 0.0 } else { stolen as f64 / all as f64 };
        Some((*cpu, share))
    };
    let cpus = work.cpus(&facts.machine.host.online_cpus);
    let worst = cpus.iter().filter_map(share).max_by(|one, other| one.1.total_cmp(&other.1));
    let meaning = "the host may stop a CPU at any time, and nothing in the virtual machine prevents that: give it CPUs of its own, on the host";
    match worst {
        None => draft.is(Weight::Minor, "a virtual machine that shows no steal", meaning, Vec::new()),
        Some((cpu, share)) => draft.is(
            if share > MUCH { Weight::Harms } else { Weight::Minor },
            format!("a virtual machine; since boot the host has taken {:.2} % of the time of CPU {cpu}", share * 100.0),
            meaning,
            Vec::new(),
        ),
    }
}

fn tai(work: Work<'_>, facts: &Facts) -> Finding {
    let draft = Finding::of("tai", "", "CLOCK_TAI and CLOCK_REALTIME");
    let ahead = facts.tai_ahead;
    // The offset is a whole number of seconds; rounding absorbs the time between reading the two clocks.
    let seconds = (ahead + Span::from_millis(500)).nanos().div_euclid(1_000_000_000);
    let found = format!("TAI is {seconds} s ahead of UTC");
    if ahead > Span::from_millis(500) {
        return draft.well(found);
    }
    if !work.uses(ClockKind::Tai) {
        return draft.well(format!("{found}: it has not been set, and no worker uses it"));
    }
    let chrony = "/etc/chrony/chrony.conf";
    let mend = match facts.machine.has_chrony {
        true => vec![Mend::shell(format!(
            "echo 'leapsectz right/UTC' | sudo tee -a {chrony}\nsudo systemctl restart chrony"
        ))],
        false => Vec::new(),
    };
    draft.is(
        Weight::Harms,
        format!("{found}: no program has set the offset"),
        "ticks are aligned with UTC in place of TAI, and jump once a program such as chrony or ptp4l sets it",
        mend,
    )
}
