//! How soon after `safe-after` the safe value is in the file when a worker hangs, seen by another process. Prints the table of
//! docs/measurements/safe.md.
//!
//!     cargo bench --bench safe
//!
//! An output writes the number of milliseconds of its tick, at 1 kHz, and another task of its worker hangs after the output's 300th tick. This process
//! reads the file all the time. The value that it finds soonest tells when the first tick was, and so when the last one was: from there to the
//! safe value it takes `safe-after`, and what is printed. Some of that is the time between two looks of the thread that watches, 10 ms; this
//! process, which has no priority, may see it later.

use hertzd::internals::{Clock, KernelClock};
use hertzd::time::{Instant, Span};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const HERTZD: &str = env!("CARGO_BIN_EXE_hertzd");

/// How often it is measured.
const ROUNDS: usize = 20;

/// Longer than this no round takes.
const PATIENCE: Span = Span::from_seconds(20);

const SAFE_AFTER: Span = Span::from_millis(100);

/// The tick that hangs is the last of so many; see [`CONFIG`].
const HANGS_EVERY: i64 = 300;

const CONFIG: &str = r#"
[task.ramp]
kind = "profile"
rate = 1000
shape = "ramp"
from = 1
to = 100001
duration = "100s"
[task.fan]
kind = "output"
rate = 1000
path = "@HERE@/fan"
input = "ramp.out"
safe = -1
safe-after = "100ms"
[task.hangs]
kind = "load"
rate = 1000
fault = "hang"
fault-every = 300
"#;

/// How long after the last tick, and `safe-after`, the safe value was in the file.
fn round() -> Option<Span> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (config, fan) = (folder.path().join("bench.toml"), folder.path().join("fan"));
    fs::write(&config, CONFIG.replace("@HERE@", &folder.path().display().to_string())).expect("a file");
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).arg("run").arg(&config).args(["--stop-timeout", "100ms"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("hertzd starts");
    let (clock, begun) = (KernelClock::monotonic(), KernelClock::monotonic().now());
    let (mut first_tick, mut last, mut text) = (None::<Instant>, 0, String::new());
    let late = loop {
        let found = fs::read_to_string(&fan).unwrap_or_default();
        let now = clock.now();
        if now - begun > PATIENCE {
            break None;
        }
        if found == text || !found.ends_with('\n') {
            continue;
        }
        text = found;
        match (text.trim().parse::<f64>().unwrap_or(0.0), first_tick) {
            (-1.0, Some(first)) => break Some(now - (first + Span::from_millis(last)) - SAFE_AFTER),
            (value, first) if value >= 1.0 => {
                #[expect(clippy::cast_possible_truncation, reason = "at most 100,000")]
                let tick = (value - 1.0).round() as i64;
                let of_first = now - Span::from_millis(tick);
                first_tick = Some(first.map_or(of_first, |first| first.min(of_first)));
                last = (tick / HANGS_EVERY + 1) * HANGS_EVERY - 1;
            }
            _ => {} // safe since the start
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    late
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let [kernel, load] = ["sys/kernel/osrelease", "loadavg"]
        .map(|file| fs::read_to_string(Path::new("/proc").join(file)).unwrap_or_default());
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    println!("Linux {}, {cpus} CPUs, load before: {}", kernel.trim(), load.trim());
    let mut late: Vec<Span> = (0..ROUNDS).filter_map(|_| round()).collect();
    late.sort_unstable();
    println!("{} of {ROUNDS} rounds; the safe value was in the file after safe-after ({SAFE_AFTER}) and", late.len());
    if let (Some(first), Some(last)) = (late.first(), late.last()) {
        println!("min {first}  median {}  p90 {}  max {last}", late[late.len() / 2], late[late.len() * 9 / 10]);
    }
}
