//! Every ordered pair of events: one event, and another one right after it at a random moment. At the end the output holds its safe value,
//! read from outside, and the process has ended or continued, as docs/control.md states.
//!
//! Several pairs run at a time, each in a separate process. Faults come from `tests/support/program/device.c`.

use crate::program;
use crate::program::{Ended, HERE, HERTZD, Running, pause, run_in, stopwatch};
use hertzd::internals::{Clock, KernelClock};
use hertzd::time::Span;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of processes that run at a time.
const AT_A_TIME: usize = 8;

const CONFIG: &str = r#"
[worker.in]
spin = "off"
[worker.out]
spin = "off"
[task.source]
kind = "sensor"
worker = "in"
rate = 100
path = "@HERE@/in"
max-file-age = "off"
[task.beside]
kind = "sensor"
worker = "out"
rate = 100
path = "@HERE@/beside"
max-file-age = "off"
"#;

const FAN: &str = r#"
[task.fan]
kind = "output"
worker = "out"
rate = 100
path = "@HERE@/fan"
input = "source.value"
safe = 1
start = "keep"
recover = "latch"
write = "always"
on-error = "disable"
max-age = "100ms"
safe-after = "100ms"
"#;

/// An event of the output or of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Stale,
    Bad,
    Disabled,
    Panics,
    Dies,
    Hangs,
    Removed,
    Stop,
    StopTwice,
    StopInAStall,
    CpuLimit,
    Killed,
}

use Event::{Bad, CpuLimit, Dies, Disabled, Hangs, Killed, Panics, Removed, Stale, Stop, StopInAStall, StopTwice};

const EVENTS: [Event; 12] =
    [Stale, Bad, Disabled, Panics, Dies, Hangs, Removed, Stop, StopTwice, StopInAStall, CpuLimit, Killed];

impl Event {
    /// Whether the event ends the process.
    fn ends(self) -> bool {
        matches!(self, Dies | Stop | StopTwice | StopInAStall | Killed)
    }

    /// Whether a worker then never returns from a tick.
    fn stalls(self) -> bool {
        matches!(self, Stale | Hangs | StopInAStall)
    }

    fn bring_about(self, running: &Running) {
        let folder = running.folder();
        let fault = |name: &str, text: &str| put(&folder.join("faults").join(name), text);
        // A process that has ended gets no signal.
        let signal =
            |name: &str| _ = Command::new("sh").args(["-c", &format!("kill -{name} {}", running.pid())]).output();
        match self {
            Stale => fault("in.hangs", ""),
            Bad => fs::write(folder.join("in"), "no number\n").unwrap(),
            Disabled => fault("fan.fails", ""),
            Panics => fault("in.absurd", ""),
            Dies => fault("thread.dies", "hz-out"),
            Hangs => fault("beside.hangs", ""),
            Removed => {
                put(&folder.join("test.toml"), &CONFIG.replace(HERE, folder.to_str().unwrap()));
                signal("HUP");
            }
            Stop => signal("TERM"),
            StopTwice => {
                signal("TERM");
                signal("TERM");
            }
            StopInAStall => {
                fault("beside.hangs", "");
                pause(Span::from_millis(15));
                signal("TERM");
            }
            CpuLimit => signal("XCPU"),
            Killed => signal("KILL"),
        }
    }
}

/// Replaces the file in one step: a reader finds either the old or the new text.
fn put(path: &Path, text: &str) {
    let new = path.with_extension("new-one");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

fn fan(folder: &Path) -> String {
    fs::read_to_string(folder.join("fan")).unwrap()
}

fn start(library: &Path, [first, second]: [Event; 2]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("in", "0.75\n"), ("beside", "1\n"), ("fan", "0.5\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::create_dir(folder.path().join("faults")).unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", library);
    // The wait for a worker that never returns is this long; a worker that a busy machine delays is not given up.
    let patience = if first.stalls() || second.stalls() { "100ms" } else { "60s" };
    let mut running = run_in(folder, command, &format!("{CONFIG}{FAN}"), &["--stop-timeout", patience]);
    // Not 0.75: the output may be safe again by then, if a busy machine delayed the source.
    running.wait_for("the output follows its input", |running| fan(running.folder()) != "0.5\n");
    running
}

/// The work of another process after this one was killed.
fn carry_out_the_plan(folder: &Path) {
    let safe = Command::new(HERTZD).args(["safe", "--plan"]).arg(folder.join("safe-plan.json")).output().unwrap();
    assert!(safe.status.success(), "{safe:?}");
}

fn check(pair: [Event; 2], mut running: Running) {
    let name = format!("{pair:?}");
    // A hanging thread reads no clock, so the event that would kill it has no effect.
    let ends = |event: &Event| event.ends() && !(*event == Dies && pair.contains(&Hangs));
    if pair.iter().any(ends) {
        let ended = running.wait();
        check_end(pair, &name, &ended);
        return;
    }
    running.wait_for(&format!("the output is safe after {name}"), |running| fan(running.folder()) == "1\n");
    running.signal("TERM");
    let ended = running.wait();
    assert!(matches!(ended.status.code(), Some(0 | 1 | 70)), "{name}: {}", ended.describe());
    assert_eq!(fan(ended.folder.path()), "1\n", "{name}: {}", ended.describe());
}

fn check_end(pair: [Event; 2], name: &str, ended: &Ended) {
    use std::os::unix::process::ExitStatusExt;
    let folder = ended.folder.path();
    let may = |event| pair.contains(&event);
    match (ended.status.code(), ended.status.signal()) {
        (None, Some(libc::SIGKILL)) if may(Killed) => carry_out_the_plan(folder),
        // The thread that should end the process got no processor time for that long.
        (None, Some(libc::SIGALRM)) => carry_out_the_plan(folder),
        (Some(143), None) => {
            let signals = [Stop, StopTwice, StopInAStall].map(|event| pair.iter().filter(|one| **one == event).count());
            assert!(may(StopTwice) || signals.iter().sum::<usize>() > 1, "{name}: {}", ended.describe());
        }
        // Disabled tasks, the death of a thread, and workers that do not end count as faults.
        (Some(0 | 1 | 70), None) => {}
        _ => panic!("{name}: {}", ended.describe()),
    }
    assert_eq!(fan(folder), "1\n", "{name}: {}", ended.describe());
}

/// Random numbers, different in each run; a failure prints those it used.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn the_output_is_safe_after_each_pair_of_ends() {
    let folder = tempfile::tempdir().unwrap();
    let library = program::preload(folder.path(), "device");
    let pairs: Vec<_> = EVENTS.iter().flat_map(|first| EVENTS.map(|second| [*first, second])).collect();
    let next = AtomicUsize::new(0);
    let waited = stopwatch();
    std::thread::scope(|scope| {
        for lane in 0..AT_A_TIME {
            let (library, pairs, next) = (&library, &pairs, &next);
            scope.spawn(move || {
                #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a seed")]
                let mut state = KernelClock::realtime().now().nanos() as u64 ^ lane as u64;
                while let Some(&pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wait = Span::from_micros(i64::try_from(random(&mut state) % 30_000).unwrap());
                    let running = start(library, pair);
                    pair[0].bring_about(&running);
                    pause(wait);
                    pair[1].bring_about(&running);
                    check(pair, running);
                }
            });
        }
    });
    println!("{} pairs in {}", pairs.len(), waited());
}
