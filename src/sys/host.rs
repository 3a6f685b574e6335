//! Facts about the machine that belong with every measurement.
//!
//! Read once at start-up from /proc and /sys, which allocates. No clock is read. A fact that cannot be read is `unknown` or missing, never
//! an error and never a guess.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A list with a larger CPU number means a broken file.
const MOST_CPUS: usize = 1 << 16;

/// The known facts about the machine. Texts are `unknown` if the kernel does not report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// How many CPUs are online; 0 if unknown.
    pub cpus: usize,
    /// The numbers of the online CPUs, ascending, isolated ones included.
    pub online_cpus: Vec<usize>,
    /// How preemptible the kernel is: `rt`, `full`, `lazy`, `voluntary`, `none`; or `dynamic` if that is chosen at boot and only root may
    /// see the choice.
    pub preempt: String,
    /// The kernel's clock source: `tsc`, `kvm-clock`, `hpet`, `arch_sys_counter`, ...
    pub clocksource: String,
    /// How long a CPU's real-time threads may run in every period, and that period, both in microseconds. The limit is that of this
    /// process's control group if groups have limits of their own, otherwise that of the machine. -1 means no limit. `None` on kernels
    /// without this limit.
    pub realtime_bandwidth: Option<(i64, i64)>,
}

impl Host {
    /// This machine.
    pub(crate) fn read() -> Self {
        Self::read_under(Path::new("/"))
    }

    /// The machine whose `proc` and `sys` are under `root`.
    pub(crate) fn read_under(root: &Path) -> Self {
        let text = |path: &str| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            Some(text.trim().to_owned())
        };
        let fact = |path| text(path).filter(|text| !text.is_empty());
        let list = |path| text(path).and_then(|text| parse_cpu_list(&text)).unwrap_or_default();
        let number = |path: &str| text(path)?.parse().ok();
        let bandwidth = |runtime: &str, period: &str| number(runtime).zip(number(period));
        let group = text("proc/self/cgroup").as_deref().and_then(cpu_group).unwrap_or_default();
        let of_group = |file| format!("sys/fs/cgroup/cpu{group}/{file}");
        let unknown = || "unknown".to_owned();

        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        let online_cpus = list("sys/devices/system/cpu/online");
        let listed = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
        Self {
            kernel: fact("proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            cpus: if online_cpus.is_empty() { listed } else { online_cpus.len() },
            online_cpus,
            preempt: preempt(
                text("sys/kernel/realtime").as_deref(),
                text("sys/kernel/debug/sched/preempt").as_deref(),
                text("proc/sys/kernel/version").as_deref(),
            ),
            clocksource: fact("sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_else(unknown),
            realtime_bandwidth: bandwidth(&of_group("cpu.rt_runtime_us"), &of_group("cpu.rt_period_us"))
                .or_else(|| bandwidth("proc/sys/kernel/sched_rt_runtime_us", "proc/sys/kernel/sched_rt_period_us")),
        }
    }
}

/// The group of the `cpu` controller in /proc/self/cgroup. Only version 1 of control groups limits real-time threads.
fn cpu_group(groups: &str) -> Option<String> {
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then(|| path.to_owned())
    };
    groups.lines().find_map(group)
}

/// One more than the greatest CPU number that can be pinned to (1024 with glibc).
pub(crate) const fn cpu_set_size() -> usize {
    libc::CPU_SETSIZE as usize
}

/// CPU numbers from the kernel's notation, `0-3,8`; ascending, each once. An empty text means no CPU.
///
/// `None` for anything else: not a number, a range that runs backwards, a number of 65536 or more.
pub(crate) fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// From the most reliable source to the least: /sys/kernel/realtime, the word in parentheses that debugfs shows root, and the kernel's
/// build, which is part of its version.
fn preempt(realtime: Option<&str>, choice: Option<&str>, version: Option<&str>) -> String {
    if realtime == Some("1") {
        return "rt".to_owned();
    }
    let chosen = choice.and_then(|words| words.split_once('(')?.1.split_once(')')).map(|(word, _)| word);
    let built = || {
        let mut words = version?.split_whitespace();
        let word = words.find_map(|word| word.strip_prefix("PREEMPT"));
        Some(match word {
            None => "none".to_owned(),
            // The spelling of kernels with the patch for 5.0 and earlier, and of board kernels built from them.
            Some("") if words.next() == Some("RT") => "rt".to_owned(),
            Some("") => "full".to_owned(),
            Some(kind) => kind.trim_start_matches('_').to_lowercase(),
        })
    };
    chosen.map(str::to_owned).or_else(built).unwrap_or_else(|| "unknown".to_owned())
}

/// Names the topmost missing folder of a path, for the end of a message; empty if none is missing.
pub(crate) fn missing_folder(path: &Path) -> String {
    let missing = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let topmost = missing.take_while(|folder| !folder.exists()).last();
    topmost.map_or_else(String::new, |folder| format!("; there is no folder {}", folder.display()))
}

/// Whether the process that sees `root` is outside the machine's first network namespace, as in a container. A `/sys` mounted there is a
/// separate instance, whose files have other inodes. False if the kernel does not show it.
pub(crate) fn has_own_network(root: &Path) -> bool {
    // The kernel shows this machine-wide setting only in the first namespace.
    let settings = root.join("proc/sys/net/core");
    settings.exists() && !settings.join("netdev_max_backlog").exists()
}

/// Whether this process may open a file for reading, or for reading and writing. Does not open it, because opening may affect a device. A
/// cgroup may still refuse a device.
pub(crate) fn may_open(path: &Path, write: bool) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let mode = if write { libc::R_OK | libc::W_OK } else { libc::R_OK };
    // SAFETY: the path is a C string that outlives the call.
    let allowed = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) };
    allowed == 0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A simulated machine: files and their content below a temporary folder.
    pub(crate) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn another_network_namespace_is_known_by_what_it_lacks() {
        let [first, own] = ["netdev_max_backlog", "somaxconn"].map(|name| format!("proc/sys/net/core/{name}"));
        assert!(!has_own_network(tree(&[(&first, "1000\n"), (&own, "4096\n")]).path()));
        assert!(has_own_network(tree(&[(&own, "4096\n")]).path()));
        assert!(!has_own_network(tree(&[("proc/cpuinfo", "")]).path()), "a kernel that does not show it");
    }

    #[test]
    fn a_board_with_everything() {
        let root = tree(&[
            ("proc/sys/kernel/osrelease", "6.12.9-rt\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Mon Jan 1\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 108.00\n\nprocessor\t: 1\n"),
            ("sys/devices/system/cpu/online", "0-1,3\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "arch_sys_counter\n"),
        ]);
        let expected = Host {
            kernel: "6.12.9-rt".to_owned(),
            cpus: 3,
            online_cpus: vec![0, 1, 3],
            preempt: "rt".to_owned(),
            clocksource: "arch_sys_counter".to_owned(),
            realtime_bandwidth: Some((-1, 1_000_000)),
        };
        assert_eq!(Host::read_under(root.path()), expected);
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let root = tree(&[
            ("proc/cpuinfo", "processor : 0\nmodel name : A Chip @ 2:1\n\nprocessor : 1\n"),
            ("sys/devices/system/cpu/online", "garbage"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
        ]);
        let host = Host::read_under(root.path());
        assert_eq!(host.cpus, 2);
        assert_eq!((host.kernel.as_str(), host.preempt.as_str()), ("unknown", "unknown"));
        assert_eq!(host.realtime_bandwidth, None);
        assert!(host.online_cpus.is_empty());
    }

    #[test]
    fn the_limit_on_real_time_threads_is_that_of_the_control_group() {
        let machine =
            [("proc/sys/kernel/sched_rt_runtime_us", "950000"), ("proc/sys/kernel/sched_rt_period_us", "1000000")];
        let limits = [
            ("sys/fs/cgroup/cpu/a/b/cpu.rt_runtime_us", "20000"),
            ("sys/fs/cgroup/cpu/a/b/cpu.rt_period_us", "100000"),
        ];
        for (groups, expected) in [
            ("5:cpuset:/c\n4:cpuacct,cpu:/a/b\n0::/\n", (20_000, 100_000)),
            ("4:cpu:/elsewhere\n", (950_000, 1_000_000)),
            ("0::/a/b\n", (950_000, 1_000_000)),
        ] {
            let root = tree(&[&machine[..], &limits, &[("proc/self/cgroup", groups)]].concat());
            assert_eq!(Host::read_under(root.path()).realtime_bandwidth, Some(expected), "{groups}");
        }
    }

    #[test]
    fn preemption_comes_from_the_most_reliable_source() {
        assert_eq!(preempt(Some("1"), Some("none (full)"), None), "rt");
        assert_eq!(preempt(Some("0"), Some("none voluntary (full) lazy"), Some("PREEMPT_DYNAMIC")), "full");
        assert_eq!(preempt(None, None, Some("#1 SMP PREEMPT_DYNAMIC Debian 6.12")), "dynamic");
        assert_eq!(preempt(None, None, Some("#1 SMP PREEMPT_RT")), "rt");
        assert_eq!(preempt(None, None, Some("#1 SMP PREEMPT RT Thu Nov 9")), "rt");
        assert_eq!(preempt(None, Some("broken"), Some("#1 SMP PREEMPT Mon")), "full");
        assert_eq!(preempt(None, None, Some("#1 SMP Mon Jan 1")), "none");
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpu_list("8, 0-1,1"), Some(vec![0, 1, 8]));
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        for broken in [",", "3-1", "a", "0-", "-1", "1,,2", "0-99999999999", "65536"] {
            assert_eq!(parse_cpu_list(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_machine() {
        let host = Host::read();
        println!("{host:?}");
        assert_eq!(host.cpus, host.online_cpus.len());
        assert!(cpu_set_size() >= 128);
    }

    #[test]
    fn what_may_be_opened() {
        assert!(may_open(Path::new("/dev/null"), true));
        assert!(may_open(Path::new("/proc/self/stat"), false));
        assert!(!may_open(Path::new("/nonexistent"), false));
        assert!(!may_open(Path::new("/dev/null\0"), false));
    }
}
