//! A program that takes a CPU from others and notes when it ran there.

use super::kind::now;
use crate::program::{is_root, pause};
use hertzd::internals::{pin, set_fifo};
use hertzd::time::Span;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The word that makes the test program a hog.
pub(crate) const HOG: &str = "hog";

/// If two readings of the clock are further apart than this (in nanoseconds), it was not running in between.
const AWAY: i64 = 30_000;

/// The share of a CPU that a program gets if it has no real-time priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Before all others, if root runs the test.
    First,
    /// After programs with the first share; still before all others, if root runs the test.
    Second,
}

impl Share {
    /// The beginning of a command line; the program that follows runs with this share.
    pub(crate) fn command(self) -> Command {
        let nice = match (self, is_root()) {
            (Self::First, true) => "-20",
            (Self::Second, true) => "-10",
            (Self::First, false) => "0",
            (Self::Second, false) => "19",
        };
        // Kernels that group programs by session compare the sessions first.
        let script = format!("echo {nice} 2>/dev/null >/proc/self/autogroup; exec nice -n {nice} \"$@\"");
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", &script, "sh"]);
        command
    }
}

/// The behaviour of a hog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hog {
    /// Its FIFO priority; 0: none.
    pub(crate) priority: u8,
    /// How long it is busy in each period.
    pub(crate) busy: Span,
    /// The period.
    pub(crate) every: Span,
}

/// A running hog.
pub(crate) struct RunningHog {
    child: Child,
    notes: std::path::PathBuf,
}

impl Hog {
    /// Starts it on `cpu`, with its notes in the file `notes`.
    pub(crate) fn start(&self, cpu: usize, notes: &Path) -> RunningHog {
        let mut command = Share::First.command();
        command.arg(std::env::current_exe().unwrap()).arg(HOG).arg(notes);
        let numbers = [i64::try_from(cpu).unwrap(), self.priority.into(), self.busy.nanos(), self.every.nanos()];
        command.args(numbers.map(|number| number.to_string()));
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        RunningHog { child, notes: notes.into() }
    }
}

impl RunningHog {
    /// Ends the hog. Returns when it ran, as pairs of from and to, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn finish(mut self) -> Vec<[i64; 2]> {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the hog ended with {status}");
        let text = fs::read_to_string(&self.notes).unwrap();
        let pair = |line: &str| {
            let (from, to) = line.split_once(' ').unwrap();
            [from, to].map(|number| number.parse().unwrap())
        };
        text.lines().map(pair).collect()
    }
}

impl Drop for RunningHog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hog itself. Runs until its standard input ends.
pub(crate) fn main(arguments: &[String]) {
    let [notes, numbers @ ..] = arguments else { panic!("{arguments:?}") };
    let numbers: Vec<i64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let [cpu, priority, busy, every] = numbers[..] else { panic!("{arguments:?}") };
    let over = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        let hog = scope.spawn(|| {
            pin(&[usize::try_from(cpu).unwrap()]).unwrap();
            if priority > 0 {
                set_fifo(u8::try_from(priority).unwrap()).unwrap();
            }
            run(&over, busy, every)
        });
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
        hog.join().unwrap()
    });
    fs::write(notes, ran.iter().map(|[from, to]| format!("{from} {to}\n")).collect::<String>()).unwrap();
}

fn run(over: &AtomicBool, busy: i64, every: i64) -> Vec<[i64; 2]> {
    let mut ran = Vec::with_capacity(100_000);
    let mut begins = now();
    while !over.load(Ordering::Relaxed) {
        let mut before = now();
        let mut from = before;
        while before < begins + busy {
            let seen = now();
            if seen - before > AWAY {
                ran.push([from, before]);
                from = seen;
            }
            before = seen;
        }
        ran.push([from, before]);
        begins += every;
        let left = begins - now();
        match left {
            ..=0 => begins -= left,
            _ => pause(Span::from_nanos(left)),
        }
    }
    ran
}
