//! What the machine is, and what else it did meanwhile.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs;

/// Jiffies of one CPU.
pub(crate) struct Busy {
    steal: u64,
    all: u64,
}

impl Busy {
    pub(crate) fn read(cpu: usize) -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("");
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        Self { steal: numbers.get(7).copied().unwrap_or(0), all: numbers.iter().take(8).sum() }
    }
}

/// The CPUs that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn first_word_after(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// A list in Markdown.
pub(crate) fn text(cpu: usize, before: &Busy) -> String {
    let now = Busy::read(cpu);
    let stolen = (now.steal - before.steal.min(now.steal)) as f64 * 100.0 / (now.all - before.all).max(1) as f64;
    let unknown = || "unknown".to_owned();
    let model = first_word_after("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
    let virtual_machine = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" hypervisor"));
    let kernel = line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown);
    let preemption = line("/sys/kernel/realtime").map_or("no PREEMPT_RT", |_| "PREEMPT_RT");
    let governor = line(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    let isolated = line("/sys/devices/system/cpu/isolated").filter(|cpus| !cpus.is_empty());
    [
        format!(
            "- Processor: {model}, {} CPUs{}",
            cpus().len(),
            if virtual_machine { ", of a virtual machine" } else { "" }
        ),
        format!("- Kernel: {kernel}, {preemption}; governor: {}", governor.unwrap_or_else(|| "none".into())),
        format!("- CPU of the contenders: {cpu}; isolated CPUs: {}", isolated.unwrap_or_else(|| "none".into())),
        format!("- Time that the host took from this CPU meanwhile: {stolen:.2} %"),
        format!("- Load at the end: {}", line("/proc/loadavg").unwrap_or_else(unknown)),
    ]
    .join("\n")
}
