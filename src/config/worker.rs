//! The rules of `[worker.NAME]`.

use super::choices::{ClockKind, TakeEvidence};
use super::identity::identity;
use super::key::{Key, Value};
use super::keys::*;
use super::section::Section;
use super::types::{Facts, Scheduling, Spin, WorkerConfig};
use super::{limits, value};
use crate::pacing::Rate;
use crate::time::Span;
use toml::de::DeValue;

const SPIN_SHARE_MAX: f64 = 0.8; // real-time throttling stops a thread at 95 %

/// The clock the section asks for. If the value is wrong, which is noted elsewhere, the default clock.
pub(super) fn clock(section: &Section<'_>) -> ClockKind {
    let word = section.value(&CLOCK).and_then(DeValue::as_str);
    let known = CLOCKS.iter().find(|(known, _)| Some(*known) == word);
    known.map_or(ClockKind::Monotonic, |(_, clock)| *clock)
}

/// Checks one worker, whose tasks have these rates. `None` only if a problem was noted.
pub(super) fn judge(name: &str, section: &mut Section<'_>, facts: &Facts, rates: &[Rate]) -> Option<WorkerConfig> {
    let mut known: Vec<_> = WORKER_KEYS.iter().map(|key| key.name).collect();
    known.push("simulate");
    section.refuse_unknown(&known, true);
    section.refuse_broken_rules(&WORKER_KEYS.iter().collect::<Vec<&Key>>());
    let policy = section.choice(&POLICY, &POLICIES);
    let cpus = cpus(section, facts);
    let spin = spin(section, rates);
    let scheduling = scheduling(section, policy, rates, spin);
    let clock = section.choice(&CLOCK, &CLOCKS).unwrap_or(ClockKind::Monotonic);
    let evidence = section.choice(&EVIDENCE, &EVIDENCES).unwrap_or(TakeEvidence::Wake);
    let require_realtime = section.boolean(&REQUIRE_REALTIME).unwrap_or(false);
    let simulated_oversleep = section.simulated(&OVERSLEEP).unwrap_or_default();
    Some(WorkerConfig {
        name: name.to_owned(),
        cpus: cpus?,
        scheduling: scheduling?,
        spin: spin?,
        clock,
        evidence,
        require_realtime,
        identity: identity(section.table, &[]),
        simulated_oversleep,
        section: section.origin(),
    })
}

fn cpus(section: &mut Section<'_>, facts: &Facts) -> Option<Vec<usize>> {
    match (section.has(&CPU), section.has(&CPUS)) {
        (true, true) => return None, // noted already
        (true, false) => return section.read(&CPU, |value| Ok(vec![cpu(value, facts)?])),
        (false, false) => return Some(Vec::new()),
        (false, true) => (),
    }
    section.read(&CPUS, |value| {
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

/// Formats CPUs as `0-3,6`.
fn ranges(cpus: &[usize]) -> String {
    let chunks = cpus.chunk_by(|a, b| a + 1 == *b);
    let shown = chunks.map(|chunk| match chunk {
        [first, .., last] => format!("{first}-{last}"),
        _ => chunk.iter().map(usize::to_string).collect(),
    });
    shown.collect::<Vec<_>>().join(",")
}

fn scheduling(
    section: &mut Section<'_>,
    policy: Option<Policy>,
    rates: &[Rate],
    spin: Option<Spin>,
) -> Option<Scheduling> {
    let (priority, runtime) = (section.integer(&PRIORITY), section.duration(&RUNTIME));
    match policy? {
        Policy::Fifo => Some(Scheduling::Fifo { priority: priority? }),
        Policy::Rr => Some(Scheduling::Rr { priority: priority? }),
        Policy::Other => Some(Scheduling::Other),
        Policy::Deadline => deadline(section, runtime, rates, spin?),
    }
}

/// The runtime covers ticks and spin tails. The kernel stops a thread that has used up its runtime until the next period.
fn deadline(section: &mut Section<'_>, runtime: Option<Span>, rates: &[Rate], spin: Spin) -> Option<Scheduling> {
    let period = rates.iter().map(|rate| rate.period()).min()?;
    let Value::Duration { min, .. } = RUNTIME.value else { return None };
    let (wanted, from) = match runtime {
        Some(runtime) => (runtime, ""),
        None if section.has(&RUNTIME) => return None,
        None => (Span::from_nanos(period.nanos() / 2), "half the shortest period is too little; "),
    };
    let shortest = value::written(period);
    if !(min..=period).contains(&wanted) {
        section.problem(&RUNTIME, format!("{from}must be from 1024ns to the shortest period, {shortest}"));
        return None;
    }
    let tails = tails(period, rates, spin);
    let taken = || format!("its tails can take {} in {shortest}, the shortest period", value::written(tails));
    match runtime {
        Some(runtime) if tails >= runtime => {
            section.problem(&SPIN, format!("{}, and `runtime` is no longer; raise it, or spin less", taken()));
            None
        }
        None if tails > period - wanted => {
            section.problem(
                &SPIN,
                format!(
                    "{}, and the default `runtime` adds half of that for ticks; set `runtime`, or spin less",
                    taken()
                ),
            );
            None
        }
        Some(runtime) => Some(Scheduling::Deadline { runtime, period }),
        None => Some(Scheduling::Deadline { runtime: wanted + tails, period }),
    }
}

/// Maximum time that the spin tails of tasks with these rates take in a period.
fn tails(period: Span, rates: &[Rate], spin: Spin) -> Span {
    let tail = spin.tail().cost(rates.iter().map(|rate| rate.hertz()).sum());
    let releases: u64 = rates.iter().map(|rate| rate.ticks_before(period.nanos().into())).sum();
    Span::from_wide(i128::from(tail.nanos()) * i128::from(releases))
}

fn spin(section: &mut Section<'_>, rates: &[Rate]) -> Option<Spin> {
    let wanted = "must be \"off\", \"auto\" or a duration such as \"50us\"";
    let cpu_max = section.read(&SPIN_CPU_MAX, |value| limits::percent_of(&SPIN_CPU_MAX.value, value));
    let target = section.read(&SPIN_TARGET, value::spin_target);
    let spin = section.read(&SPIN, |value| match value.as_str() {
        Some("off") => Ok(Spin::Off),
        Some("auto") => Ok(Spin::Auto { cpu_max: cpu_max.unwrap_or_default(), target }),
        // A text that starts like a number is a wrong duration; any other text may be a wrong word.
        Some(text) if !text.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            Err(wanted.to_owned())
        }
        None if !value.is_integer() && !value.is_float() => Err(wanted.to_owned()),
        _ => match value::duration(value)? {
            Span::ZERO => Err("must be above zero; write \"off\" for none".to_owned()),
            span => Ok(Spin::Fixed(span)),
        },
    });
    if let Some(Spin::Fixed(span)) = spin {
        let share = rates.iter().map(|rate| rate.hertz() * span.seconds()).sum::<f64>();
        // The slack covers rounding of the sum, so that exactly 80 % passes.
        if share > SPIN_SHARE_MAX + 1e-9 {
            let taken = (share * 1_000.0).ceil() / 10.0;
            let why = "must stay within 80 %, because the kernel stops a real-time thread that always spins";
            section.problem(&SPIN, format!("takes {taken} % of a CPU at the rates of its tasks; {why}"));
        }
    }
    spin
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
