//! The rules of `[worker.NAME]`.

use super::keys::{PRIORITY, WORKER_KEYS, WORKER_SIMULATE_KEYS};
use super::section::Section;
use super::{ClockKind, Facts, Scheduling, Spin, WorkerConfig, value};
use crate::pacing::Rate;
use crate::time::Span;
use toml::de::DeValue;

const DEFAULT_PRIORITY: u8 = 80;
const MIN_RUNTIME: Span = Span::from_nanos(1_024); // the kernel's own limit for SCHED_DEADLINE
const SPIN_SHARE_MAX: f64 = 0.8; // real-time throttling stops a thread at 95 %
const DEFAULT_SPIN_CPU_MAX: f64 = 0.05;
const SPIN_CPU_MAX: f64 = 0.5;

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Fifo,
    Rr,
    Deadline,
    Other,
}

const POLICIES: &[(&str, Policy)] =
    &[("fifo", Policy::Fifo), ("rr", Policy::Rr), ("deadline", Policy::Deadline), ("other", Policy::Other)];
const CLOCKS: &[(&str, ClockKind)] =
    &[("monotonic", ClockKind::Monotonic), ("tai", ClockKind::Tai), ("realtime", ClockKind::Realtime)];

/// Judges one worker whose tasks have these rates. `None` only when a problem was noted.
pub(super) fn judge(name: &str, section: &mut Section<'_>, facts: &Facts, rates: &[Rate]) -> Option<WorkerConfig> {
    let mut known: Vec<_> = WORKER_KEYS.iter().map(|key| key.name).collect();
    known.push("simulate");
    section.refuse_unknown(&known, true);
    let policy = if section.has("policy") { section.choice("policy", POLICIES) } else { Some(Policy::Fifo) };
    let cpus = cpus(section, facts);
    let scheduling = scheduling(section, policy, rates);
    let spin = spin(section, rates);
    let clock = section.choice("clock", CLOCKS).unwrap_or(ClockKind::Monotonic);
    let require_realtime = section.boolean("require-realtime").unwrap_or(false);
    section.refuse_idle("require-realtime", policy == Some(Policy::Other), "with policy = \"other\"");
    let mut simulated_oversleep = Vec::new();
    if let Some(mut simulate) = section.table("simulate", WORKER_SIMULATE_KEYS) {
        simulated_oversleep = simulate.durations("oversleep").unwrap_or_default();
        section.absorb(simulate);
    }
    Some(WorkerConfig {
        name: name.to_owned(),
        cpus: cpus?,
        scheduling: scheduling?,
        spin: spin?,
        clock,
        require_realtime,
        identity: section.identity(&[]),
        simulated_oversleep,
        section: section.origin(),
    })
}

fn cpus(section: &mut Section<'_>, facts: &Facts) -> Option<Vec<usize>> {
    if section.refuse_both("cpu", "cpus") {
        return None;
    }
    if section.has("cpu") {
        return section.read("cpu", |value| Ok(vec![cpu(value, facts)?]));
    }
    if !section.has("cpus") {
        return Some(Vec::new());
    }
    section.read("cpus", |value| {
        let list = value.as_array().ok_or("must be a list of CPUs such as [0, 1]")?;
        if list.is_empty() {
            return Err("must name at least one CPU; leave the key out for a worker that is not pinned".to_owned());
        }
        let mut cpus = list.iter().map(|item| cpu(item.get_ref(), facts)).collect::<Result<Vec<_>, _>>()?;
        cpus.sort_unstable();
        match cpus.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("names CPU {} twice", pair[0])),
            None => Ok(cpus),
        }
    })
}

fn cpu(value: &DeValue<'_>, facts: &Facts) -> Result<usize, String> {
    let number = value.as_integer().ok_or("must be the number of a CPU")?;
    let there = || format!("this machine has CPUs {}", ranges(&facts.online_cpus));
    let cpu = usize::from_str_radix(number.as_str(), number.radix()).map_err(|_| there())?;
    if cpu >= facts.cpu_set_size {
        return Err(format!("must be below {}, the size of a CPU set; {}", facts.cpu_set_size, there()));
    }
    if facts.online_cpus.contains(&cpu) { Ok(cpu) } else { Err(there()) }
}

/// `0-3,6`.
fn ranges(cpus: &[usize]) -> String {
    let chunks = cpus.chunk_by(|a, b| a + 1 == *b);
    let shown = chunks.map(|chunk| match chunk {
        [first, .., last] => format!("{first}-{last}"),
        _ => chunk.iter().map(usize::to_string).collect(),
    });
    shown.collect::<Vec<_>>().join(",")
}

fn scheduling(section: &mut Section<'_>, policy: Option<Policy>, rates: &[Rate]) -> Option<Scheduling> {
    let priority = if section.has("priority") {
        section.integer("priority", PRIORITY).and_then(|priority| u8::try_from(priority).ok())
    } else {
        Some(DEFAULT_PRIORITY)
    };
    let runtime = section.duration("runtime");
    let policy = policy?;
    let fixed = matches!(policy, Policy::Fifo | Policy::Rr);
    section.refuse_idle("priority", !fixed, "unless policy is \"fifo\" or \"rr\"");
    section.refuse_idle("runtime", policy != Policy::Deadline, "unless policy = \"deadline\"");
    match policy {
        Policy::Fifo => Some(Scheduling::Fifo { priority: priority? }),
        Policy::Rr => Some(Scheduling::Rr { priority: priority? }),
        Policy::Other => Some(Scheduling::Other),
        Policy::Deadline => deadline(section, runtime, rates),
    }
}

fn deadline(section: &mut Section<'_>, runtime: Option<Span>, rates: &[Rate]) -> Option<Scheduling> {
    for key in ["cpu", "cpus"] {
        if section.has(key) {
            section.problem(key, "the kernel cannot pin a thread with policy = \"deadline\"; remove one of the two");
        }
    }
    let period = rates.iter().map(|rate| rate.period()).min()?;
    let runtime = match runtime {
        Some(runtime) => runtime,
        None if section.has("runtime") => return None,
        None => Span::from_nanos(period.nanos() / 2),
    };
    if !(MIN_RUNTIME..=period).contains(&runtime) {
        let from = if section.has("runtime") { "" } else { "half the shortest period is too little; " };
        section.problem(
            "runtime",
            format!("{from}must be from 1024ns to the shortest period, {}", value::written(period)),
        );
        return None;
    }
    Some(Scheduling::Deadline { runtime, period })
}

fn spin(section: &mut Section<'_>, rates: &[Rate]) -> Option<Spin> {
    let wanted = "must be \"off\", \"auto\" or a duration such as \"50us\"";
    let spin = match section.value("spin") {
        None => Some(Spin::Off),
        Some(_) => section.read("spin", |value| match value.as_str() {
            Some("off") => Ok(Spin::Off),
            Some("auto") => Ok(Spin::Auto { cpu_max: DEFAULT_SPIN_CPU_MAX }),
            // What begins like a number is a duration gone wrong; anything else may be a word gone wrong.
            Some(text) if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => Err(wanted.to_owned()),
            None if !value.is_integer() && !value.is_float() => Err(wanted.to_owned()),
            _ => match value::duration(value)? {
                Span::ZERO => Err("must be above zero; write \"off\" for none".to_owned()),
                span => Ok(Spin::Fixed(span)),
            },
        }),
    };
    let auto = matches!(spin, Some(Spin::Auto { .. }));
    section.refuse_idle("spin-cpu-max", spin.is_some() && !auto, "unless spin = \"auto\"");
    if let Some(Spin::Fixed(span)) = spin {
        let share = rates.iter().map(|rate| rate.hertz() * span.seconds()).sum::<f64>();
        // The slack is for the rounding of the sum, so that exactly 80 % passes.
        if share > SPIN_SHARE_MAX + 1e-9 {
            let taken = (share * 1_000.0).ceil() / 10.0;
            section.problem(
                "spin",
                format!(
                    "takes {taken} % of a CPU at the rates of its tasks; must stay within 80 %, because the kernel \
                     stops a real-time thread that always spins"
                ),
            );
        }
    }
    if !auto || !section.has("spin-cpu-max") {
        return spin;
    }
    section.read("spin-cpu-max", |value| match value::percent(value)? {
        cpu_max if cpu_max > 0.0 && cpu_max <= SPIN_CPU_MAX => Ok(Spin::Auto { cpu_max }),
        _ => Err("must be above 0 % and at most 50 %".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(ranges(&[0]), "0");
        assert_eq!(ranges(&[]), "");
    }
}
