//! When a count of right verdicts is too small to be chance, and when the machine is too busy to tell.

use std::fs;

/// How likely a comparison fails although each of its verdicts is right with the probability that is asked for, independently of the
/// others. With fewer than 50 comparisons a run, one run in a thousand fails for no reason.
const FALSE_ALARM: f64 = 2e-5;

/// Whether `right` of `judged` are too few for verdicts of which `percent` are right: so few or fewer have a probability below
/// [`FALSE_ALARM`] (binomial).
pub(crate) fn too_few(right: u64, judged: u64, percent: u32) -> bool {
    let share = f64::from(percent) / 100.0;
    let number = |count: u64| f64::from(u32::try_from(count).unwrap());
    // The probability that none is right, then from each count to the next, in logarithms: they would be zero otherwise.
    let mut of_count = number(judged) * (1.0 - share).ln();
    let mut sum = of_count.exp();
    for count in 1..=right {
        of_count += (number(judged - count + 1) / number(count)).ln() + (share / (1.0 - share)).ln();
        sum += of_count.exp();
    }
    right < judged && sum < FALSE_ALARM
}

/// How much of the processors others have used since this was made: programs that this test has not started, and the host. What runs only
/// where nothing else wants a processor takes none away.
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

    /// In percent.
    pub(crate) fn share(&self) -> u64 {
        let Self { busy, ours, all } = Self::now();
        let others = (busy - self.busy).saturating_sub(ours.saturating_sub(self.ours));
        others * 100 / (all - self.all).max(1)
    }
}

/// What a process and those that it has waited for have used, in the ticks of /proc/stat, and how it is scheduled.
fn used(process: &str) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // From the state on, which is field 3: utime, stime, cutime, cstime are 14 to 17, the policy is 41.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields[11..15].iter().flat_map(|field| field.parse::<u64>()).sum(), fields[38].parse().ok()?))
}

/// What all processes of `SCHED_IDLE` have used.
fn idle_class() -> u64 {
    const SCHED_IDLE: u64 = 5;
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| used(entry.file_name().to_str()?));
    processes.filter(|(_, policy)| *policy == SCHED_IDLE).map(|(ticks, _)| ticks).sum()
}
