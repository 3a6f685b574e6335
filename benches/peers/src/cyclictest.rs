//! cyclictest, from the package rt-tests, with a histogram of nanoseconds.

use crate::spec::{PRIORITY, Sample, Spec};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::process::Command;

/// Later than this is counted as this.
const MOST: i64 = 1_000_000;

pub(crate) fn is_installed() -> bool {
    Command::new("cyclictest").arg("--help").output().is_ok()
}

pub(crate) fn run(spec: Spec) -> Sample {
    let used = |loops: u32| {
        let before = processor_time();
        let text = histogram(spec, loops);
        (text, processor_time() - before)
    };
    // What its start and its end take is no work of the loop.
    let (_, overhead) = used(1);
    let loops = spec.rate * spec.seconds;
    let (text, all) = used(loops);
    let mut late = Vec::new();
    for line in text.lines() {
        if let Some(overflows) = line.strip_prefix("# Histogram Overflows:") {
            late.extend((0..overflows.trim().parse().unwrap_or(0)).map(|_: u32| MOST));
        }
        let numbers: Option<(i64, u32)> =
            line.split_once(' ').and_then(|(at, count)| Some((at.parse().ok()?, count.trim().parse().ok()?)));
        if let Some((at, count)) = numbers {
            late.extend((0..count).map(|_: u32| at));
        }
    }
    let passed = i64::from(spec.seconds) * 1_000_000_000;
    Sample { late, started: Vec::new(), used: [(all - overhead).max(0), passed] }
}

fn histogram(spec: Spec, loops: u32) -> String {
    let words = [
        format!("--affinity={}", spec.cpu),
        format!("--priority={PRIORITY}"),
        format!("--interval={}", 1_000_000 / spec.rate),
        format!("--loops={loops}"),
        format!("--histogram={MOST}"),
    ];
    let output =
        Command::new("cyclictest").args(["--mlockall", "--quiet", "--threads=1", "--nsecs"]).args(words).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Of the children that have ended, in nanoseconds.
fn processor_time() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(0, |usage| usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds())
}
