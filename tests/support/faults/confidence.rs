//! Decides when a count of right verdicts is too small to be chance, and when the machine is too busy to tell.

use std::fs;

/// The probability that a comparison fails although each verdict is right with the required probability, independently of the others. With
/// fewer than 50 comparisons per run, at most one run in a thousand fails by chance.
const FALSE_ALARM: f64 = 2e-5;

/// Whether `right` of `judged` verdicts are too few if `percent` of them should be right: the probability of that many or fewer is below
/// [`FALSE_ALARM`] (binomial).
pub(crate) fn too_few(right: u64, judged: u64, percent: u32) -> bool {
    let share = f64::from(percent) / 100.0;
    let number = |count: u64| f64::from(u32::try_from(count).unwrap());
    // Start with the probability that none is right, then step from each count to the next. Logarithms avoid underflow to zero.
    let mut of_count = number(judged) * (1.0 - share).ln();
    let mut sum = of_count.exp();
    for count in 1..=right {
        of_count += (number(judged - count + 1) / number(count)).ln() + (share / (1.0 - share)).ln();
        sum += of_count.exp();
    }
    right < judged && sum < FALSE_ALARM
}

/// How much processor time others have used since this was created: programs that this test has not started, and the host. Processes that
/// run only on an otherwise idle processor do not count.
pub(crate) struct Others {
    busy: u64,
    ours: u64,
    all: u64,
}

impl Others {
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap();
        let times: Vec<u64> = text.lines().next().unwrap().split_whitespace().skip(1).flat_map(str::parse).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; then guests, which are in the first two
        let all: u64 = times.iter().take(8).sum();
        Self { busy: all - times[3] - times[4], ours: used("self").unwrap().0 + idle_class(), all }
    }

    /// The share of others, in percent.
    pub(crate) fn share(&self) -> u64 {
        let Self { busy, ours, all } = Self::now();
        let others = (busy - self.busy).saturating_sub(ours.saturating_sub(self.ours));
        others * 100 / (all - self.all).max(1)
    }
}

/// The time used by a process and by the children it has waited for, in the ticks of /proc/stat, and its scheduling policy.
fn used(process: &str) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Counted from the state, which is field 3: utime, stime, cutime and cstime are fields 14 to 17, the policy is field 41.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields[11..15].iter().flat_map(|field| field.parse::<u64>()).sum(), fields[38].parse().ok()?))
}

/// The time used by all `SCHED_IDLE` processes.
fn idle_class() -> u64 {
    const SCHED_IDLE: u64 = 5;
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| used(entry.file_name().to_str()?));
    processes.filter(|(_, policy)| *policy == SCHED_IDLE).map(|(ticks, _)| ticks).sum()
}
