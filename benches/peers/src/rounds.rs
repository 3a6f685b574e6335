//! The rounds: every contender once in each, in an order that rotates.

use crate::arguments::Arguments;
use crate::cyclictest;
use crate::spec::{Kind, Sample, Spec};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A place in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) stressed: bool,
    pub(crate) tasks: u32,
    pub(crate) rate: u32,
    pub(crate) kind: Kind,
}

/// One run, as numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) late: [f64; 3],    // p50, p99, p99.9 in nanoseconds
    pub(crate) started: [f64; 2], // p50, p99
    pub(crate) share: f64,        // of a CPU
    pub(crate) per_tick: f64,     // processor time in nanoseconds
    pub(crate) ticks: usize,
}

/// All runs of each place, by round.
pub(crate) type Measured = BTreeMap<Place, Vec<Figures>>;

/// Ticks a second that any number of tasks share.
pub(crate) const TOTAL: u32 = 20_000;

fn percentile(sorted: &[i64], percent: f64) -> f64 {
    let index = (sorted.len() as f64 * percent / 100.0) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |value| *value as f64)
}

impl Figures {
    fn of(mut sample: Sample) -> Self {
        sample.late.sort_unstable();
        sample.started.sort_unstable();
        let [used, passed] = sample.used.map(|nanos| nanos as f64);
        let share = used / passed.max(1.0);
        Self {
            late: [50.0, 99.0, 99.9].map(|percent| percentile(&sample.late, percent)),
            started: [50.0, 99.0].map(|percent| percentile(&sample.started, percent)),
            share,
            per_tick: f64::NAN,
            ticks: sample.late.len(),
        }
    }
}

/// Every place, in the order of one round.
fn places(arguments: &Arguments) -> Vec<Place> {
    let mut places = Vec::new();
    let loads: &[bool] = if arguments.idle_only || !is_installed("stress-ng") { &[false] } else { &[false, true] };
    for stressed in loads.iter().copied() {
        for rate in arguments.rates.iter().copied() {
            let shares = if rate >= 10_000 { [170, 50] } else { [50, 30] };
            let mut kinds = vec![
                Kind::Cyclictest,
                Kind::Plain,
                Kind::Tail(50),
                Kind::Tail(100),
                Kind::Tail(200),
                Kind::SpinSleep,
                Kind::Spin,
                Kind::HertzdOff,
                Kind::HertzdAuto(shares[0]),
                Kind::HertzdAgain(shares[0]),
                Kind::HertzdAuto(shares[1]),
            ];
            if rate <= 1_000 {
                kinds.push(Kind::Tokio); // its timer has milliseconds
            }
            // A tail that is longer than the period is a pure spin.
            kinds.retain(|kind| !matches!(kind, Kind::Tail(micros) if micros * rate >= 1_000_000));
            kinds.retain(|kind| *kind != Kind::Cyclictest || cyclictest::is_installed());
            places.extend(kinds.into_iter().map(|kind| Place { stressed, tasks: 1, rate, kind }));
        }
    }
    for tasks in arguments.tasks.iter().copied().filter(|tasks| *tasks <= TOTAL) {
        let kinds = [Kind::HertzdOff, Kind::Tokio].into_iter().filter(|kind| *kind != Kind::Tokio || tasks >= 20);
        places.extend(kinds.map(|kind| Place { stressed: false, tasks, rate: TOTAL / tasks, kind }));
    }
    places
}

pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Runs all of them.
pub(crate) fn run(arguments: &Arguments, cpu: usize) -> Measured {
    let places = places(arguments);
    let mut measured = Measured::new();
    let all = places.len() * arguments.rounds;
    for round in 0..arguments.rounds {
        for index in 0..places.len() {
            let place = places[(index + round) % places.len()];
            progress(round * places.len() + index, all, &place);
            let figures = measure(arguments, &place, cpu);
            measured.entry(place).or_default().push(figures);
        }
    }
    eprintln!();
    measured
}

fn progress(done: usize, all: usize, place: &Place) {
    let text = format!("{done} of {all} runs; now {} at {} Hz", place.kind.name(), place.rate);
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    } else if done.is_multiple_of(10) {
        eprintln!("{text}");
    }
    let _ = std::io::stderr().flush();
}

fn measure(arguments: &Arguments, place: &Place, cpu: usize) -> Figures {
    let stress = place.stressed.then(|| Stress::start(cpu));
    let &Place { tasks, rate, kind, .. } = place;
    let spec = Spec { kind, rate, tasks, seconds: arguments.seconds, cpu };
    let program = std::env::current_exe().expect("this program has a path");
    let text = serde_json::to_string(&spec).expect("plain values");
    let output = Command::new(program).args(["--contender", &text]).stderr(Stdio::inherit()).output();
    drop(stress);
    let sample = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let sample: Sample = sample.unwrap_or_else(|| panic!("{} did not end well", kind.name()));
    let mut figures = Figures::of(sample);
    figures.per_tick = figures.share * 1e9 / f64::from(rate * tasks);
    figures
}

/// Other work on the same CPU, without a real-time priority. Ended on drop.
struct Stress(Child);

impl Stress {
    fn start(cpu: usize) -> Self {
        let words = ["--cpu", "1", "--vm", "1", "--vm-bytes", "64m", "--timer", "1", "--taskset"];
        let child = Command::new("stress-ng")
            .args(words)
            .arg(cpu.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("stress-ng is installed");
        std::thread::sleep(Duration::from_millis(500));
        Self(child)
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}
