//! The facts are made up here, including those of unusual machines: siblings, isolated CPUs, governors, deep sleep, a slow clock.

use super::*;
use crate::config::{Facts as OfMachine, Kinds};
use crate::sys::host::Host;
use crate::sys::machine::{Cpu, IdleState, Machine};
use crate::sys::memory::Locked;
use crate::sys::rights::{CpuSet, Most, Rights};
use crate::sys::thread::Bandwidth;
use crate::time::Span;
use crate::worker::{Granted, Refusal};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

const PINNED: &str = "[worker.main]\ncpu = 1\n[task.imu]\nkind = \"load\"\nrate = \"1 kHz\"\n";

fn config(text: &str) -> Config {
    let of_machine = OfMachine { online_cpus: (0..4).collect(), cpu_set_size: 1024 };
    Config::parse(text, "test.toml", &Kinds::builtin(), &of_machine).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A machine where all is well, and a start that is granted everything.
fn facts(config: &Config) -> Facts {
    let host = Host {
        kernel: "6.1.0".into(),
        cpus: 4,
        online_cpus: (0..4).collect(),
        preempt: "rt".into(),
        clocksource: "tsc".into(),
        realtime_bandwidth: Some((950_000, 1_000_000)),
    };
    let machine = Machine {
        host,
        cpus: (0..4).map(|cpu| (cpu, Cpu::default())).collect(),
        isolated: Some(vec![1]),
        nohz_full: Some(vec![1]),
        interrupts: Some(BTreeMap::from([(0, 9)])),
        idle_driver: None,
        clocksources: vec!["tsc".into(), "hpet".into()],
        huge_pages: Some("madvise".into()),
        swap_kib: Some(0),
        is_virtual: Some(false),
        preempt_is_a_choice: false,
        distribution: Some("debian".into()),
        board: None,
        has_chrony: true,
        in_container: false,
    };
    let granted = config.workers.iter().map(|worker| {
        let cpus = if worker.cpus.is_empty() { (0..4).collect() } else { worker.cpus.clone() };
        let (policy, priority, awaited) = ("fifo", 80, Bandwidth::default());
        Ok(Granted { policy, priority, cpus, not_realtime: false, refused: Vec::new(), awaited })
    });
    Facts {
        machine,
        rights: Rights { first_namespace: true, effective: u64::MAX, ..Rights::default() },
        trial: Trial { workers: granted.collect(), guard: None, memory: Ok(Locked::All), cpu_latency: Ok(()) },
        unit: Ok(Unit::parse("hertzd.service", false, UNIT)),
        looks: Vec::new(),
        demands: Vec::new(),
        is_for_service: true,
        tai_ahead: Span::from_seconds(37),
        clock_read: Span::from_nanos(30),
        clock_call: Some(Span::from_nanos(120)),
    }
}

/// The properties of the shipped unit.
const UNIT: &str = "LoadState=loaded\nUser=hertzd\nLimitRTPRIO=99\nLimitMEMLOCK=infinity\nRestrictRealtime=no\n\
    AmbientCapabilities=cap_ipc_lock cap_sys_nice\nCapabilityBoundingSet=cap_ipc_lock cap_sys_nice\nAllowedCPUs=\n\
    SystemCallFilter=mlockall prctl sched_setaffinity sched_setattr sched_setscheduler\nDevicePolicy=closed\n\
    DeviceAllow=/dev/cpu_dma_latency rw\nDeviceAllow=char-81 rw\nProtectSystem=strict\nStateDirectory=hertzd\n";

fn refused(what: &str, errno: i32) -> Refusal {
    Refusal::new(what, &io::Error::from_raw_os_error(errno), "", "")
}

/// The findings that are neither well nor unseen, after this change to the facts.
fn found(text: &str, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let config = config(text);
    let mut facts = facts(&config);
    change(&mut facts);
    let mut findings = examine(&config, &facts);
    assert!(findings.is_sorted_by_key(|finding| finding.weight), "{findings:#?}");
    findings.retain(|finding| finding.weight < Weight::Unseen);
    findings
}

/// The only finding: its weight, its subject, and the lines that fix it.
fn only(text: &str, change: impl FnOnce(&mut Facts)) -> (Weight, &'static str, Vec<String>) {
    let findings = found(text, change);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let Finding { weight, about, mend, matters, .. } = findings.into_iter().next().unwrap();
    assert!(!matters.is_empty());
    (weight, about, mend.into_iter().map(|mend| mend.line).collect())
}

#[test]
fn where_all_is_well_nothing_else_is_said() {
    assert_eq!(found(PINNED, |_| ()), []);
    let config = config(PINNED);
    let findings = examine(&config, &facts(&config));
    let about: Vec<_> = findings.iter().map(|finding| finding.about).collect();
    for wanted in ["policy", "cpus", "memory", "limits", "bandwidth", "unit", "isolation", "nohz-full", "interrupts"] {
        assert!(about.contains(&wanted), "{wanted}: {about:?}");
    }
    // Without cpufreq there is no advice on governors.
    let governor = findings.iter().find(|finding| finding.about == "governor").unwrap();
    assert_eq!((governor.weight, governor.mend.len()), (Weight::Unseen, 0));
}

#[test]
fn cpus_that_are_not_the_workers_alone() {
    use Weight::{Harms, Minor};
    let set = |change: fn(&mut Machine)| only(PINNED, |facts| change(&mut facts.machine));
    let isolcpus = vec!["isolcpus=managed_irq,domain,1".to_owned()];
    assert_eq!(set(|machine| machine.isolated = Some(vec![])), (Minor, "isolation", isolcpus));
    assert_eq!(set(|machine| machine.isolated = Some(vec![2])), (Minor, "isolation", vec!["cpu = 2".into()]));
    let spare = (Minor, "isolation", vec![]);
    assert_eq!(set(|machine| machine.isolated = Some(vec![1, 2])), spare);
    let irqs = set(|machine| machine.interrupts = Some(BTreeMap::from([(1, 3)])));
    assert_eq!((irqs.0, irqs.1, &*irqs.2[1]), (Minor, "interrupts", "irqaffinity=0,2-3"));
    let nosmt = set(|machine| machine.cpus.get_mut(&1).unwrap().siblings = vec![3]);
    let off = "echo 0 | sudo tee /sys/devices/system/cpu/cpu3/online".to_owned();
    assert_eq!(nosmt, (Minor, "siblings", vec![off, "nosmt".into()]));
    // The kernel's tick interrupts a worker that spins; it hardly affects one that sleeps.
    let spinning = PINNED.replace("cpu = 1", "cpu = 1\nspin = \"50us\"");
    let nohz = only(&spinning, |facts| facts.machine.nohz_full = Some(vec![]));
    assert_eq!(nohz, (Minor, "nohz-full", vec!["nohz_full=1 rcu_nocbs=1".into()]));
    let sleeping = PINNED.replace("cpu = 1", "cpu = 1\nspin = \"off\"");
    assert_eq!(found(&sleeping, |facts| facts.machine.nohz_full = Some(vec![])), []);
    // Two workers on one core: one of them has to move, and no line can say where. Reported once.
    let two = format!(
        "{PINNED}worker = \"main\"\n[worker.b]\ncpu = 3\n[task.b]\nkind = \"load\"\nrate = 9\nworker = \"b\"\n"
    );
    let both = only(&two, |facts| {
        facts.machine.cpus.get_mut(&1).unwrap().siblings = vec![3];
        facts.machine.cpus.get_mut(&3).unwrap().siblings = vec![1];
        facts.machine.isolated = Some(vec![1, 3]);
        facts.machine.nohz_full = None;
    });
    assert_eq!(both, (Harms, "siblings", vec![]));
}

#[test]
fn power_is_weighed_by_the_shortest_deadline() {
    let deep = |latency_us, driver: &'static str| {
        only(PINNED, move |facts| {
            facts.machine.idle_driver = Some(driver.into());
            facts.machine.cpus.get_mut(&1).unwrap().idle =
                vec![IdleState { name: "C6".into(), latency_us, is_off: false }];
            facts.trial.cpu_latency = Err(io::Error::from_raw_os_error(libc::EACCES));
        })
    };
    let (weight, about, lines) = deep(133, "intel_idle");
    assert_eq!((weight, about, &*lines[2]), (Weight::Harms, "cpu-latency", "intel_idle.max_cstate=1"));
    let (weight, _, lines) = deep(20, "acpi_idle");
    assert_eq!((weight, &*lines[2]), (Weight::Minor, "processor.max_cstate=1"));
    // Something that is refused but not needed is not a finding.
    let light = |facts: &mut Facts| facts.trial.cpu_latency = Err(io::Error::from_raw_os_error(libc::EACCES));
    assert_eq!(found(PINNED, light), []);
    let governor = only(PINNED, |facts| {
        let cpu = facts.machine.cpus.get_mut(&1).unwrap();
        (cpu.governor, cpu.governors) = (Some("powersave".into()), vec!["performance".into(), "powersave".into()]);
        // The governor of a CPU without a worker does not matter.
        facts.machine.cpus.get_mut(&0).unwrap().governor = Some("schedutil".into());
    });
    let line = "echo performance | sudo tee /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor".to_owned();
    assert_eq!(governor, (Weight::Minor, "governor", vec![line, "cpufreq.default_governor=performance".into()]));
}

#[test]
fn the_kernel_and_the_host() {
    use Weight::{Harms, Minor};
    let set = |change: fn(&mut Facts)| only(PINNED, change);
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let lines = vec![format!("echo tsc | sudo tee {file}"), "clocksource=tsc".into()];
    assert_eq!(set(|facts| facts.machine.host.clocksource = "hpet".into()), (Harms, "clocksource", lines));
    // A clock source that is not known as slow is judged by its cost. Cases: a BeagleBone Black's source, and one that the vDSO does not
    // read.
    let takes = |source: &str, read, call, there: &[&str]| {
        found(PINNED, |facts| {
            facts.machine.host.clocksource = source.into();
            facts.machine.clocksources = there.iter().map(|&there| there.into()).collect();
            (facts.clock_read, facts.clock_call) = (Span::from_nanos(read), call);
        })
    };
    let (call, quick_call) = (Some(Span::from_nanos(1_100)), Some(Span::from_nanos(130)));
    for (source, read, call) in [("dmtimer", 1_150, call), ("arch_sys_counter", 1_050, call), ("tsc", 128, quick_call)]
    {
        let findings = takes(source, read, call, &["tsc", "arch_sys_counter"]);
        let Finding { weight, about, found, matters, mend, .. } = &findings[0];
        let has_better = source != "arch_sys_counter";
        assert_eq!((*weight, *about), (if has_better { Harms } else { Minor }, "clocksource"));
        assert_eq!(mend.len(), if has_better { 2 } else { 0 }, "{mend:?}");
        assert!(
            found.contains("as much as a system call") && matters.contains("no better") != has_better,
            "{findings:?}"
        );
    }
    let dmtimer = takes("dmtimer", 1_150, call, &["dmtimer"]);
    assert_eq!((dmtimer[0].weight, dmtimer[0].mend.len()), (Minor, 0));
    // Slow boards, and fast ones with fast system calls.
    for (read, call) in [(150, Some(Span::from_nanos(600))), (25, Some(Span::from_nanos(60))), (1_000, None)] {
        assert_eq!(takes("arch_sys_counter", read, call, &["arch_sys_counter"]), []);
    }
    let (weight, about, lines) = set(|facts| {
        facts.machine.host.preempt = "voluntary".into();
        facts.machine.preempt_is_a_choice = true;
        facts.machine.distribution = None;
    });
    assert_eq!((weight, about, lines), (Minor, "preemption", vec!["preempt=full".to_owned()]));
    // Debian's own kernel is suggested on machines that can boot it.
    let debian = |board| {
        let change = |facts: &mut Facts| (facts.machine.host.preempt, facts.machine.board) = ("none".into(), board);
        let findings = found(PINNED, change);
        (findings[0].matters.contains("docs/boards.md"), findings[0].mend.len())
    };
    let has_package =
        cfg!(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64", target_arch = "arm"));
    assert_eq!(debian(None), (false, usize::from(has_package)));
    assert_eq!(debian(Some("Raspberry Pi")), (true, 0));
    assert_eq!(set(|facts| facts.machine.huge_pages = Some("always".into())).2[1], "transparent_hugepage=madvise");
    let (weight, about, lines) = set(|facts| {
        facts.machine.is_virtual = Some(true);
        facts.machine.cpus.get_mut(&1).unwrap().stolen = Some((5, 100));
    });
    assert_eq!((weight, about, lines), (Harms, "hypervisor", vec![]));
    // If nothing reveals a hypervisor, as on most ARM boards, the finding says so.
    let config = config(PINNED);
    let mut on_board = facts(&config);
    on_board.machine.is_virtual = None;
    let findings = examine(&config, &on_board);
    let hypervisor = findings.iter().find(|finding| finding.about == "hypervisor").unwrap();
    assert_eq!(hypervisor.weight, Weight::Unseen);
    assert_eq!(found(PINNED, |facts| facts.machine.swap_kib = Some(4096)), [], "locked memory is not swapped");
    assert_eq!(found(PINNED, |facts| facts.tai_ahead = Span::ZERO), [], "no worker uses it");
    let tai = PINNED.replace("cpu = 1", "cpu = 1\nclock = \"tai\"");
    let (weight, about, lines) = only(&tai, |facts| facts.tai_ahead = Span::from_nanos(-80));
    assert!((weight, about) == (Harms, "tai") && lines[0].contains("leapsectz right/UTC"), "{lines:?}");
    assert_eq!(set(|facts| facts.machine.host.realtime_bandwidth = Some((-1, 1_000_000))).1, "bandwidth");
    let newer = |facts: &mut Facts| {
        facts.machine.host.kernel = "6.12.3-amd64".into();
        facts.machine.host.realtime_bandwidth = Some((-1, 1_000_000));
    };
    assert_eq!(found(PINNED, newer), [], "the fair server leaves normal threads their time");
}

#[test]
fn a_refused_policy_names_the_right_that_is_missing() {
    let refuse = |facts: &mut Facts, errno| {
        let granted = facts.trial.workers[0].as_mut().unwrap();
        (granted.not_realtime, granted.refused) = (true, vec![refused("fifo priority 80", errno)]);
    };
    let own = |facts: &mut Facts, text: &str| facts.unit = Ok(Unit::parse("x.service", true, text));
    // Has neither the capability nor the limit.
    let limit = |facts: &mut Facts| {
        refuse(facts, libc::EPERM);
        facts.rights.effective = 0;
        facts.rights.priority = Some(Most::Of(10));
        own(facts, "LimitRTPRIO=10\n");
    };
    assert_eq!(only(PINNED, limit), (Weight::Fails, "policy", vec!["LimitRTPRIO=80".into()]));
    // systemd in a container may be unable to raise limits.
    let (_, _, lines) = only(PINNED, |facts| {
        limit(facts);
        facts.rights.limits_are_final = true;
    });
    assert_eq!(lines, ["CapabilityBoundingSet=CAP_SYS_NICE\nAmbientCapabilities=CAP_SYS_NICE"]);
    let (_, _, lines) = only(PINNED, |facts| {
        refuse(facts, libc::EPERM);
        own(facts, "RestrictRealtime=yes\n");
    });
    assert_eq!(lines, ["RestrictRealtime=no"]);
    let (_, _, lines) = only(PINNED, |facts| {
        refuse(facts, libc::EPERM);
        own(facts, "SystemCallFilter=~sched_setscheduler:1 reboot\n");
    });
    assert_eq!(lines, ["SystemCallFilter=sched_setscheduler sched_setattr"]);
    let (_, about, lines) = only(PINNED, |facts| {
        refuse(facts, libc::EPERM);
        facts.rights.no_bandwidth = vec![(PathBuf::from("/cpu/a"), 400), (PathBuf::from("/cpu/a/b"), 200)];
    });
    assert_eq!(
        (about, &*lines),
        ("policy", &["echo 400 | sudo tee /cpu/a\necho 200 | sudo tee /cpu/a/b".to_owned()][..])
    );
    let deadline = PINNED.replace("cpu = 1", "policy = \"deadline\"\nruntime = \"100us\"");
    let (_, _, lines) = only(&deadline, |facts| {
        refuse(facts, libc::EPERM);
        facts.machine.host.realtime_bandwidth = Some((0, 1_000_000));
    });
    assert_eq!(lines, ["sudo sysctl -w kernel.sched_rt_runtime_us=950000"]);
    let (_, _, lines) = only(&deadline, |facts| {
        refuse(facts, libc::EPERM);
        facts.trial.workers[0].as_mut().unwrap().cpus = vec![0, 1];
    });
    assert_eq!(lines, ["taskset -cp 0-3 $$"]);
    assert_eq!(only(&deadline, |facts| refuse(facts, libc::EBUSY)).2, [""; 0], "who holds it does not show");
}

#[test]
fn a_refused_cpu_names_the_cpuset() {
    let refuse = |facts: &mut Facts| {
        let granted = facts.trial.workers[0].as_mut().unwrap();
        (granted.cpus, granted.refused) = (vec![0], vec![refused("pinning to CPU 1", libc::EINVAL)]);
        facts.rights.cpuset = Some(CpuSet { cpus: vec![0], files: vec![PathBuf::from("/cpuset/a/cpuset.cpus")] });
    };
    let (weight, about, lines) = only(PINNED, refuse);
    assert_eq!((weight, about), (Weight::Fails, "cpus"));
    assert_eq!(lines, ["echo 0-1 | sudo tee /cpuset/a/cpuset.cpus", "cpu = 0"]);
    let (_, _, lines) = only(PINNED, |facts| {
        refuse(facts);
        facts.unit = Ok(Unit::parse("x.service", true, "AllowedCPUs=0\n"));
    });
    assert_eq!(lines, ["AllowedCPUs=0-1", "cpu = 0"]);
}

#[test]
fn memory_that_is_not_locked_matters_by_the_policies() {
    let refuse = |facts: &mut Facts| facts.trial.memory = Err(refused("locked memory", libc::ENOMEM));
    let strip = |facts: &mut Facts| {
        facts.rights.effective = 0;
        facts.unit = Ok(Unit::parse("x.service", true, "LimitMEMLOCK=65536\n"));
    };
    let memory = |text: &str| {
        only(text, |facts| {
            refuse(facts);
            strip(facts);
        })
    };
    assert_eq!(memory(PINNED), (Weight::Fails, "memory", vec!["LimitMEMLOCK=infinity".into()]));
    assert_eq!(memory(&PINNED.replace("cpu = 1", "cpu = 1\npolicy = \"other\"")).0, Weight::Harms);
}

#[test]
fn the_units_properties_are_compared_with_the_configuration() {
    let with = |from: &str, to: &str| {
        let text = UNIT.replace(from, to);
        assert_ne!(text, UNIT);
        only(PINNED, move |facts| facts.unit = Ok(Unit::parse("hertzd.service", false, &text)))
    };
    let fails = |line: &str| (Weight::Fails, "unit", vec![line.to_owned()]);
    assert_eq!(with("Realtime=no", "Realtime=yes"), fails("RestrictRealtime=no"));
    assert_eq!(with("AllowedCPUs=", "AllowedCPUs=0 2"), fails("AllowedCPUs=0-2"));
    assert_eq!(with("mlockall ", ""), fails("SystemCallFilter=mlockall"));
    let weak = UNIT.replace("cap_ipc_lock cap_sys_nice", "").replace("LimitRTPRIO=99", "LimitRTPRIO=50");
    let (_, _, lines) = only(PINNED, |facts| facts.unit = Ok(Unit::parse("hertzd.service", false, &weak)));
    assert_eq!(lines, ["LimitRTPRIO=80"]);
    // In a private user namespace, capabilities do not count; limits do.
    let private = format!("{UNIT}PrivateUsers=yes\n");
    assert_eq!(found(PINNED, |facts| facts.unit = Ok(Unit::parse("hertzd.service", false, &private))), []);
    // For a configuration that is not the service's, this is not a failure.
    let other = |facts: &mut Facts| {
        facts.is_for_service = false;
        facts.unit = Ok(Unit::parse("hertzd.service", false, &weak));
    };
    assert_eq!(only(PINNED, other).0, Weight::Harms);
    let recorded = format!("{PINNED}record = \"/srv/data/imu.mcap\"\n");
    assert_eq!(only(&recorded, |_| ()), fails("ReadWritePaths=/srv/data"));
    assert_eq!(found(&recorded.replace("/srv/data", "/var/lib/hertzd"), |_| ()), []);
    let eye = format!("{PINNED}[task.eye]\nkind = \"video\"\nrate = 10\ndevice = \"/dev/video0\"\n");
    if Kinds::builtin().get("video").is_some() {
        assert_eq!(found(&eye, |_| ()), []);
        let closed = UNIT.replace("DeviceAllow=char-81 rw\n", "");
        let (_, _, lines) = only(&eye, |facts| facts.unit = Ok(Unit::parse("hertzd.service", false, &closed)));
        assert_eq!(lines, ["DeviceAllow=char-81 rw"]);
    }
}
