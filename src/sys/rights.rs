//! This process's rights: capabilities, limits, filters, and the share that its control groups leave to it.
//!
//! Read once from /proc and /sys, which allocates. No clock is read. Anything that cannot be read is missing.

use super::host::parse_cpu_list;
use super::thread::with_room;
use std::fs;
use std::path::{Path, PathBuf};

/// `CAP_IPC_LOCK`, `CAP_SYS_NICE` and `CAP_SYS_RESOURCE`, as bit numbers.
pub(crate) const IPC_LOCK: u32 = 14;
pub(crate) const SYS_NICE: u32 = 23;
const SYS_RESOURCE: u32 = 24;

/// The rights of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) uid: u32,
    pub(crate) effective: u64, // capabilities, as bits
    /// It is in the initial user namespace. In any other the kernel ignores capabilities for priorities and locked memory.
    pub(crate) first_namespace: bool,
    /// A seccomp filter may refuse system calls.
    pub(crate) is_filtered: bool,
    /// Programs that it starts get no capabilities from their files.
    pub(crate) no_new_privileges: bool,
    pub(crate) priority: Limit,
    pub(crate) locked_memory: Limit, // bytes
    /// µs without a sleep: the soft limit after hertzd's start has lowered it.
    pub(crate) realtime_time: Limit,
    pub(crate) cpuset: Option<CpuSet>,
    /// Its control groups without real-time bandwidth, the outermost first, each with the µs that it could be given.
    pub(crate) no_bandwidth: Vec<(PathBuf, u64)>,
    /// The tightest processor-time limit of its groups: the file, µs in every period, and the period.
    pub(crate) quota: Option<(PathBuf, u64, u64)>,
    /// The service that it belongs to, by the name of its control group.
    pub(crate) service: Option<String>,
    /// Process 1 cannot raise limits: it lacks CAP_SYS_RESOURCE, as in many containers.
    pub(crate) limits_are_final: bool,
}

/// A soft limit; `None`: unknown.
pub(crate) type Limit = Option<Most>;

/// An upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Most {
    Unlimited,
    Of(u64),
}

/// The CPUs of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuSet {
    pub(crate) cpus: Vec<usize>,
    /// The files that would have to allow more CPUs, the outermost first.
    pub(crate) files: Vec<PathBuf>,
}

impl Rights {
    /// The rights of the process `proc/self` under `root`.
    pub(crate) fn read_under(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let (status, limits, groups) = (text("proc/self/status"), text("proc/self/limits"), text("proc/self/cgroup"));
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let mask = |status: Option<&str>| status.and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let first = text("proc/1/status");
        let of_first = mask(first.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim));
        Self {
            // Real, effective, saved, file system.
            uid: field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()).unwrap_or(u32::MAX),
            effective: mask(field("CapEff:")).unwrap_or_default(),
            first_namespace: text("proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]),
            is_filtered: field("Seccomp:").is_some_and(|mode| mode != "0"),
            no_new_privileges: field("NoNewPrivs:") == Some("1"),
            priority: limit(&limits, "Max realtime priority"),
            locked_memory: limit(&limits, "Max locked memory"),
            realtime_time: realtime_time(&limits),
            cpuset: cpuset(root, &groups),
            no_bandwidth: no_bandwidth(root, &groups),
            quota: quota(root, &groups),
            service: service(&groups),
            limits_are_final: of_first.is_some_and(|mask| mask >> SYS_RESOURCE & 1 == 0),
        }
    }

    /// Whether the capability is effective in the namespace where the kernel checks it.
    pub(crate) fn has(&self, capability: u32) -> bool {
        self.first_namespace && self.effective >> capability & 1 == 1
    }

    /// Whether it may have this real-time priority.
    pub(crate) fn may_have(&self, priority: u8) -> bool {
        self.has(SYS_NICE) || self.priority.is_some_and(|most| most.allows(priority.into()))
    }
}

impl Most {
    pub(crate) fn allows(self, wanted: u64) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Of(most) => wanted <= most,
        }
    }
}

/// The soft limit in /proc/self/limits.
fn limit(limits: &str, name: &str) -> Limit {
    let [soft, _] = both(limits, name);
    soft
}

/// The soft and the hard limit.
fn both(limits: &str, name: &str) -> [Limit; 2] {
    let mut words = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().split_whitespace();
    [words.next(), words.next()].map(|word| match word? {
        "unlimited" => Some(Most::Unlimited),
        number => number.parse().ok().map(Most::Of),
    })
}

fn realtime_time(limits: &str) -> Limit {
    let [soft, hard] = both(limits, "Max realtime timeout");
    let most = |limit| if let Some(Most::Of(most)) = limit { Some(most) } else { None };
    soft.map(|_| with_room(most(soft), most(hard)).map_or(Most::Unlimited, Most::Of))
}

/// The folders from a controller's root to the process's group, the outermost first. Version 1 of control groups if the controller is
/// there, otherwise version 2.
fn hierarchy(root: &Path, groups: &str, controller: &str) -> Option<Vec<PathBuf>> {
    let parts = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        Some((controllers.to_owned(), path.to_owned()))
    };
    let of = |wanted: &str| {
        let lines = groups.lines().filter_map(parts);
        lines.filter(|(names, _)| names.split(',').any(|name| name == wanted)).map(|(_, path)| path).next()
    };
    let (top, path) = match of(controller) {
        Some(path) => (root.join("sys/fs/cgroup").join(controller), path),
        None => (root.join("sys/fs/cgroup"), of("")?),
    };
    let group = top.join(path.trim_start_matches('/'));
    // A container might not see its own group; then only its root is left.
    let group = if group.is_dir() { group } else { top.clone() };
    let mut all: Vec<_> = group.ancestors().take_while(|folder| folder.starts_with(&top)).map(Path::to_owned).collect();
    all.reverse();
    Some(all)
}

fn cpuset(root: &Path, groups: &str) -> Option<CpuSet> {
    let read = |path: PathBuf| parse_cpu_list(&fs::read_to_string(path).ok()?);
    let effective = |folder: &PathBuf| {
        read(folder.join("cpuset.cpus.effective")).or_else(|| read(folder.join("cpuset.effective_cpus")))
    };
    let folders = hierarchy(root, groups, "cpuset")?;
    let cpus = folders.iter().rev().find_map(effective)?;
    // The outermost group has all CPUs, and cannot be changed.
    let files = folders.iter().skip(1).filter(|folder| effective(folder).as_ref() == Some(&cpus));
    Some(CpuSet { files: files.map(|folder| folder.join("cpuset.cpus")).filter(|file| file.exists()).collect(), cpus })
}

fn no_bandwidth(root: &Path, groups: &str) -> Vec<(PathBuf, u64)> {
    let number =
        |folder: &Path, file: &str| -> Option<i64> { fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok() };
    let runtime = |folder: &Path| number(folder, "cpu.rt_runtime_us");
    let folders = hierarchy(root, groups, "cpu").unwrap_or_default();
    let mut found = Vec::new();
    let mut outer_has = None;
    for folder in &folders {
        let Some(own) = runtime(folder) else { continue };
        if own == 0 {
            let beside = folder.parent().and_then(|outer| fs::read_dir(outer).ok()).into_iter().flatten().flatten();
            let taken: i64 = beside.filter_map(|entry| runtime(&entry.path())).map(|runtime| runtime.max(0)).sum();
            // Half of the remainder, so that another group finds some as well.
            let left = outer_has.map_or(0, |outer: i64| (outer - taken).max(0) / 2);
            found.push((folder.join("cpu.rt_runtime_us"), u64::try_from(left).unwrap_or_default()));
            outer_has = Some(left);
        } else {
            outer_has = Some(own);
        }
    }
    found
}

fn quota(root: &Path, groups: &str) -> Option<(PathBuf, u64, u64)> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let of = |folder: &PathBuf| {
        let max = folder.join("cpu.max");
        if let Ok(text) = fs::read_to_string(&max) {
            let (runtime, period) = text.trim().split_once(' ')?;
            return Some((max, runtime.parse().ok()?, period.parse().ok()?));
        }
        let file = folder.join("cpu.cfs_quota_us");
        // -1 means no limit; it does not parse here.
        Some((file.clone(), number(file)?, number(folder.join("cpu.cfs_period_us"))?))
    };
    let all = hierarchy(root, groups, "cpu")?;
    all.iter().filter_map(of).min_by_key(|(_, runtime, period)| runtime.saturating_mul(1_000_000) / (*period).max(1))
}

fn service(groups: &str) -> Option<String> {
    let paths = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of_systemd = paths.filter(|(names, _)| names.is_empty() || *names == "name=systemd").map(|(_, path)| path);
    of_systemd.filter_map(|path| path.rsplit('/').find(|part| part.ends_with(".service"))).next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host::tests::tree;

    #[test]
    fn the_rights_of_an_ordinary_user() {
        let root = tree(&[
            ("proc/self/status", "Uid:\t1000\t1001\t0\t0\nCapEff:\t0000000000804000\nNoNewPrivs:\t1\nSeccomp:\t2\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            (
                "proc/self/limits",
                "Limit Soft Hard\nMax locked memory         8388608     unlimited  bytes\nMax realtime priority     50     99\nMax realtime timeout      unlimited unlimited us\n",
            ),
            ("proc/1/status", "CapEff:\t0000000000800000\n"),
            ("proc/self/cgroup", "0::/system.slice/hertzd.service\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
            ("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1\n"),
            ("sys/fs/cgroup/system.slice/cpuset.cpus", "0-1\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/system.slice/hertzd.service/cpu.max", "max 100000\n"),
        ]);
        let mut rights = Rights::read_under(root.path());
        let slice = root.path().join("sys/fs/cgroup/system.slice");
        assert_eq!(rights.uid, 1001);
        assert!(rights.has(SYS_NICE) && rights.has(IPC_LOCK) && !rights.has(SYS_RESOURCE) && rights.limits_are_final);
        assert!(rights.is_filtered && rights.no_new_privileges && rights.may_have(99));
        assert_eq!(rights.cpuset, Some(CpuSet { cpus: vec![0, 1], files: vec![slice.join("cpuset.cpus")] }));
        assert_eq!(rights.quota, Some((slice.join("cpu.max"), 50_000, 100_000)));
        assert_eq!(rights.service.as_deref(), Some("hertzd.service"));
        assert_eq!(rights.locked_memory, Some(Most::Of(8_388_608)));
        assert_eq!(rights.realtime_time, Some(Most::Unlimited));
        assert_eq!(
            realtime_time("Max realtime timeout 200000 200000 us\n"),
            Some(Most::Of(100_000)),
            "lowered at a start"
        );
        assert_eq!(realtime_time(""), None);
        rights.first_namespace = false; // its capabilities no longer count, but its limits do
        assert!(!rights.has(SYS_NICE) && rights.may_have(50) && !rights.may_have(51));
    }

    #[test]
    fn groups_without_bandwidth_are_found_with_what_they_could_have() {
        let cpu = "sys/fs/cgroup/cpu";
        let file = |group: &str| format!("{cpu}{group}/cpu.rt_runtime_us");
        let files = [(file(""), "950000"), (file("/a"), "0"), (file("/a/b"), "0"), (file("/c"), "150000")];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let root = tree(&[&files[..], &[("proc/self/cgroup", "3:cpu,cpuacct:/a/b\n0::/\n")]].concat());
        let path = |group: &str| root.path().join(file(group));
        assert_eq!(Rights::read_under(root.path()).no_bandwidth, [(path("/a"), 400_000), (path("/a/b"), 200_000)]);
    }

    #[test]
    fn this_process() {
        let rights = Rights::read_under(Path::new("/"));
        println!("{rights:?}");
        assert!(rights.uid != u32::MAX && rights.priority.is_some() && rights.locked_memory.is_some());
    }
}
