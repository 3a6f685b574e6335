//! Facts about the machine that decide how late a thread can wake up: isolation, interrupts, power, memory, the host.
//!
//! Read once from /proc and /sys, which allocates. No clock is read. A fact that cannot be read is missing, never guessed.

use super::host::{Host, parse_cpu_list};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Idle states with at most this exit latency count as light, for example `halt`.
const LIGHT_US: i64 = 2;

/// How the firmware of virtual machines names itself or its maker: prefixes, from systemd-detect-virt and from Hetzner's ARM servers.
const VIRTUAL: [&str; 15] = [
    "QEMU",
    "KVM",
    "VMware",
    "VirtualBox",
    "innotek GmbH",
    "Virtual Machine", // Microsoft
    "Hyper-V",
    "Google Compute Engine",
    "OpenStack",
    "KubeVirt",
    "Parallels",
    "Apple Virtualization",
    "BHYVE",
    "Xen",
    "vServer",
];

/// Boards that run their own kernel, mostly with a distribution that calls itself Debian or Ubuntu: parts of their model names.
const BOARDS: [&str; 3] = ["Raspberry Pi", "BeagleBone", "Jetson"];

/// A machine, as far as its facts are visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) host: Host,
    /// The online CPUs by number.
    pub(crate) cpus: BTreeMap<usize, Cpu>,
    /// CPUs that the scheduler leaves alone (`isolcpus=`, isolated partitions); `None`: the kernel does not report it.
    pub(crate) isolated: Option<Vec<usize>>,
    /// CPUs without a timer tick while one thread runs; `None`: the kernel was built without that feature.
    pub(crate) nohz_full: Option<Vec<usize>>,
    /// The CPUs that handle interrupts, each with the number of interrupts it handles; `None`: the kernel does not report it.
    pub(crate) interrupts: Option<BTreeMap<usize, usize>>,
    /// The driver that puts idle CPUs to sleep: `intel_idle`, `acpi_idle`, `haltpoll`, ...
    pub(crate) idle_driver: Option<String>,
    /// The available clock sources.
    pub(crate) clocksources: Vec<String>,
    /// `always`, `madvise` or `never`; `None`: a kernel without transparent huge pages.
    pub(crate) huge_pages: Option<String>,
    /// The total size of active swap, in KiB; `None`: unknown.
    pub(crate) swap_kib: Option<u64>,
    /// Whether it is a virtual machine; `None`: unknown.
    pub(crate) is_virtual: Option<bool>,
    /// The kernel lets the preemption model be chosen at boot (`preempt=`).
    pub(crate) preempt_is_a_choice: bool,
    /// The distribution's `ID`: `debian`.
    pub(crate) distribution: Option<String>,
    /// The board, if it runs its own kernel: `Raspberry Pi`.
    pub(crate) board: Option<&'static str>,
    /// chrony is installed.
    pub(crate) has_chrony: bool,
    /// hertzd runs in a container: the kernel's command line and /sys are the host's.
    pub(crate) in_container: bool,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// The frequency governor; `None`: this kernel does not set the frequency.
    pub(crate) governor: Option<String>,
    /// The available governors.
    pub(crate) governors: Vec<String>,
    /// The idle states, the lightest first.
    pub(crate) idle: Vec<IdleState>,
    /// The other online CPUs of its core.
    pub(crate) siblings: Vec<usize>,
    /// Time since boot that the host gave to others, and total time, both in clock ticks.
    pub(crate) stolen: Option<(u64, u64)>,
}

/// One idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdleState {
    pub(crate) name: String,
    pub(crate) latency_us: i64, // exit latency, until it runs again
    pub(crate) is_off: bool,
}

impl Machine {
    /// The machine whose `proc`, `sys`, `run` and `etc` are under `root`.
    pub(crate) fn read_under(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned());
        let word = |path: &str| text(path).filter(|text| !text.is_empty());
        let words = |path: &str| -> Vec<String> {
            text(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        // "(null)" where the kernel supports it but was not asked to.
        let list = |path: &str| text(path).map(|text| parse_cpu_list(&text).unwrap_or_default());
        let host = Host::read_under(root);
        let stat = text("proc/stat").unwrap_or_default();
        let cpu = |number: usize| {
            let of = |file: &str| format!("sys/devices/system/cpu/cpu{number}/{file}");
            let siblings = list(&of("topology/thread_siblings_list")).unwrap_or_default();
            let is_other = |other: &usize| *other != number && host.online_cpus.contains(other);
            Cpu {
                governor: word(&of("cpufreq/scaling_governor")),
                governors: words(&of("cpufreq/scaling_available_governors")),
                idle: idle_states(&root.join(of("cpuidle"))),
                siblings: siblings.into_iter().filter(is_other).collect(),
                stolen: stolen(&stat, number),
            }
        };
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        let version = text("proc/sys/kernel/version").unwrap_or_default();
        let model = text("proc/device-tree/model").unwrap_or_default();
        // Raspberry Pi OS has this file, and calls itself Debian elsewhere.
        let is_pi = |board: &str| board == "Raspberry Pi" && root.join("etc/rpi-issue").exists();
        let environment = fs::read(root.join("proc/1/environ")).unwrap_or_default();
        Self {
            cpus: host.online_cpus.iter().map(|number| (*number, cpu(*number))).collect(),
            isolated: list("sys/devices/system/cpu/isolated"),
            nohz_full: list("sys/devices/system/cpu/nohz_full"),
            interrupts: interrupts(&root.join("proc/irq")),
            idle_driver: word("sys/devices/system/cpu/cpuidle/current_driver").filter(|driver| driver != "none"),
            clocksources: words("sys/devices/system/clocksource/clocksource0/available_clocksource"),
            huge_pages: word("sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text)),
            swap_kib: text("proc/swaps").map(|text| text.lines().skip(1).filter_map(swap_size).sum()),
            is_virtual: is_virtual(root, &cpuinfo),
            preempt_is_a_choice: version.contains("PREEMPT_DYNAMIC"),
            distribution: text("etc/os-release").and_then(|text| {
                let id = text.lines().find_map(|line| line.strip_prefix("ID="))?;
                Some(id.trim_matches('"').to_owned())
            }),
            board: BOARDS.into_iter().find(|board| model.contains(board) || is_pi(board)),
            has_chrony: root.join("etc/chrony/chrony.conf").exists(),
            in_container: ["run/systemd/container", ".dockerenv", "run/.containerenv"]
                .iter()
                .any(|mark| root.join(mark).exists())
                || environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"container=")),
            host,
        }
    }

    /// The CPU's deepest enabled idle state. `None`: unknown, or all enabled states are light.
    pub(crate) fn deepest(&self, cpu: usize) -> Option<&IdleState> {
        let states = self.cpus.get(&cpu)?.idle.iter().filter(|state| !state.is_off && state.latency_us > LIGHT_US);
        states.max_by_key(|state| state.latency_us)
    }
}

/// Whether it is a virtual machine. x86 processors have a flag for it. Elsewhere the device tree and the firmware's names (DMI) may reveal
/// it. If they do not, it may still be one.
fn is_virtual(root: &Path, cpuinfo: &str) -> Option<bool> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    if root.join("sys/hypervisor/type").exists() {
        return Some(true); // Xen
    }
    if let Some(flags) = cpuinfo.lines().find(|line| line.starts_with("flags")) {
        return Some(flags.split_whitespace().any(|flag| flag == "hypervisor"));
    }
    let is_made_up = read("proc/device-tree/compatible").split('\0').any(|board| board == "linux,dummy-virt");
    if is_made_up || root.join("proc/device-tree/hypervisor").exists() {
        return Some(true);
    }
    let (maker, product) = (read("sys/class/dmi/id/sys_vendor"), read("sys/class/dmi/id/product_name"));
    if maker.starts_with("Amazon EC2") {
        // "c7g.metal", "m7g.metal-24xl": a whole machine.
        let is_metal = |(_, rest): (&str, &str)| rest.trim_end().is_empty() || rest.starts_with('-');
        return Some(!product.split_once(".metal").is_some_and(is_metal));
    }
    VIRTUAL.iter().any(|name| maker.starts_with(name) || product.starts_with(name)).then_some(true)
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn swap_size(line: &str) -> Option<u64> {
    line.split_whitespace().nth(2)?.parse().ok()
}

fn idle_states(folder: &Path) -> Vec<IdleState> {
    let state = |number: usize| {
        let text = |file: &str| fs::read_to_string(folder.join(format!("state{number}/{file}"))).ok();
        Some(IdleState {
            name: text("name")?.trim().to_owned(),
            latency_us: text("latency")?.trim().parse().ok()?,
            is_off: text("disable").is_some_and(|text| text.trim() != "0"),
        })
    };
    (0..).map_while(state).collect()
}

/// Stolen and total time of a CPU's line of /proc/stat. Guest time is part of user time.
fn stolen(stat: &str, cpu: usize) -> Option<(u64, u64)> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|number| number.parse().ok()).collect();
    (ticks.len() == 8).then(|| (ticks[7], ticks.iter().sum()))
}

/// How many interrupts each CPU handles.
///
/// An empty effective list means that no CPU was chosen for that interrupt. It is unused, or each CPU has its own, as with ARM's timers,
/// counters and inter-processor interrupts, which cannot be moved. The requested list (`smp_affinity_list`) is mostly all CPUs.
fn interrupts(folder: &Path) -> Option<BTreeMap<usize, usize>> {
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_dir()) {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let list = read("effective_affinity_list").or_else(|| read("smp_affinity_list"))?;
        for cpu in parse_cpu_list(&list).unwrap_or_default() {
            *counts.entry(cpu).or_default() += 1;
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host::tests::tree;

    #[test]
    fn a_machine_with_everything() {
        let cpu1 = "sys/devices/system/cpu/cpu1";
        let of = |file: &str| format!("{cpu1}/{file}");
        let files = [
            ("proc/stat".into(), "cpu 9 9\ncpu0 1 2\ncpu1 10 0 20 60 0 0 0 10 5 5\n"),
            ("proc/swaps".into(), "Filename Type Size Used Priority\n/dev/sda2 partition 1000 0 -2\n/x file 24 0 -3\n"),
            ("proc/cpuinfo".into(), "processor : 0\nflags : fpu hypervisor sse\n"),
            ("proc/irq/default_smp_affinity".into(), "3"),
            ("proc/irq/24/effective_affinity_list".into(), "1\n"),
            ("proc/irq/25/smp_affinity_list".into(), "0-1\n"),
            // A timer that each CPU has.
            ("proc/irq/11/effective_affinity_list".into(), "\n"),
            ("proc/irq/11/smp_affinity_list".into(), "0-3\n"),
            ("proc/1/environ".into(), "PATH=/bin\0container=lxc\0"),
            ("sys/devices/system/cpu/online".into(), "0-1,3\n"),
            ("sys/devices/system/cpu/isolated".into(), "1\n"),
            ("sys/devices/system/cpu/nohz_full".into(), "(null)\n"),
            ("sys/devices/system/cpu/cpuidle/current_driver".into(), "intel_idle\n"),
            (of("cpufreq/scaling_governor"), "powersave\n"),
            (of("cpufreq/scaling_available_governors"), "performance powersave\n"),
            (of("cpuidle/state0/name"), "POLL\n"),
            (of("cpuidle/state0/latency"), "0\n"),
            (of("cpuidle/state1/name"), "C6\n"),
            (of("cpuidle/state1/latency"), "133\n"),
            (of("cpuidle/state1/disable"), "0\n"),
            (of("topology/thread_siblings_list"), "1-3\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled".into(), "[always] madvise never\n"),
        ];
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text): &(String, &str)| (path.as_str(), *text)).collect();
        let machine = Machine::read_under(tree(&files).path());
        let cpu = &machine.cpus[&1];
        assert_eq!((cpu.governor.as_deref(), cpu.governors.len()), (Some("powersave"), 2));
        assert_eq!(cpu.siblings, [3], "CPU 2 is offline");
        assert_eq!((cpu.stolen, machine.cpus[&0].stolen), (Some((10, 100)), None));
        assert_eq!(machine.deepest(1).unwrap().latency_us, 133);
        assert_eq!(machine.deepest(0), None);
        assert_eq!((machine.isolated, machine.nohz_full), (Some(vec![1]), Some(vec![])));
        assert_eq!(machine.interrupts, Some(BTreeMap::from([(0, 1), (1, 2)])));
        assert_eq!((machine.swap_kib, machine.huge_pages.as_deref()), (Some(1024), Some("always")));
        assert!(machine.is_virtual == Some(true) && machine.in_container && !machine.preempt_is_a_choice);
    }

    #[test]
    fn what_shows_a_virtual_machine() {
        let is_virtual = |files: &[(&str, &str)]| Machine::read_under(tree(files).path()).is_virtual;
        let (yes, no) = (Some(true), Some(false));
        // The flag of x86 decides alone: cloud providers also rent out whole machines.
        let (maker, product) = ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name");
        assert_eq!(is_virtual(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]), yes);
        assert_eq!(is_virtual(&[("proc/cpuinfo", "flags : fpu\n"), (product, "Google Compute Engine\n")]), no);
        assert_eq!(is_virtual(&[("sys/hypervisor/type", "xen\n")]), yes);
        // ARM has no such flag.
        let on_arm =
            |files: &[(&str, &str)]| is_virtual(&[&[("proc/cpuinfo", "Features : fp asimd\n")], files].concat());
        let board = "proc/device-tree/compatible";
        assert_eq!(on_arm(&[(board, "raspberrypi,4-model-b\0brcm,bcm2711\0")]), None, "it may be there and not show");
        assert_eq!(on_arm(&[(board, "linux,dummy-virt\0")]), yes);
        assert_eq!(on_arm(&[(board, "a,board\0"), ("proc/device-tree/hypervisor/compatible", "xen,xen\0")]), yes);
        for (vendor, name, expected) in [
            ("QEMU", "QEMU Virtual Machine", yes),
            ("Red Hat", "KVM", yes),
            ("Amazon EC2", "c7g.large", yes),
            ("Amazon EC2", "c7g.metal", no),
            ("Amazon EC2", "m7g.metal-24xl", no),
            ("VMware, Inc.", "VMware20,1", yes),
            ("Microsoft Corporation", "Virtual Machine", yes),
            ("Microsoft Corporation", "Surface Pro", None),
            ("Google", "Google Compute Engine", yes),
            ("Hetzner", "vServer", yes),
            ("Ampere(R)", "Mt. Jade", None),
        ] {
            assert_eq!(on_arm(&[(maker, &format!("{vendor}\n")), (product, &format!("{name}\n"))]), expected, "{name}");
        }
    }

    #[test]
    fn boards_with_kernels_of_their_own() {
        let board = |files: &[(&str, &str)]| Machine::read_under(tree(files).path()).board;
        let model = |name| board(&[("proc/device-tree/model", name)]);
        assert_eq!(model("Raspberry Pi 4 Model B Rev 1.4\0"), Some("Raspberry Pi"));
        assert_eq!(model("BeagleBoard.org BeagleBone AI-64\0"), Some("BeagleBone"));
        assert_eq!(model("NVIDIA Jetson Orin Nano Developer Kit\0"), Some("Jetson"));
        assert_eq!(model("Some Other Board\0"), None);
        assert_eq!(board(&[("etc/rpi-issue", "Raspberry Pi reference 2024-11-19\n")]), Some("Raspberry Pi"));
    }

    #[test]
    fn what_cannot_be_read_is_missing() {
        let machine = Machine::read_under(tree(&[("sys/devices/system/cpu/online", "0")]).path());
        assert_eq!(machine.cpus, BTreeMap::from([(0, Cpu::default())]));
        assert_eq!((machine.isolated, machine.interrupts, machine.swap_kib), (None, None, None));
        assert!(machine.is_virtual.is_none() && !machine.in_container);
    }
}
