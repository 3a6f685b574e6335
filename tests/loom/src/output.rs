//! Outputs: which are live, what was written to a target last, and how a value is kept from coming after a safe value.

use super::guard::{Guard, SafeWrite, Watched, opened};
use super::live::{Live, output};
use super::planned_write::PlannedWrite;
use super::written::LastWritten;
use crate::time::{Instant, Span};
use crate::trial::Model;
use loom::sync::atomic::{AtomicU64 as Target, Ordering::Relaxed};
use loom::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub const LIVE: [Model; 1] = [Model::new(live)];
pub const WRITTEN: [Model; 3] = [
    Model::new(written_at_once),
    Model { interruptions: Some(3), ..Model::new(written_meanwhile) },
    Model { interruptions: Some(2), ..Model::new(written_at_once_and_meanwhile) },
];
pub const GUARD: [Model; 2] = [Model::new(made_safe), Model::new(made_safe_again)];
pub const TAKEN_OVER: [Model; 1] = [Model::new(taken_over)];

/// Who has seen a tick sees whether the output followed at that one, or at a later one.
fn live() {
    // The list only grows: each run has an output of its own.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let name = format!("output-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let (seen, shown) = (output(&name), Live::open(&name, Span::from_millis(200)));
    let worker = thread::spawn(move || {
        shown.ticked(true);
        shown.ticked(false);
    });
    let (ticks, follows) = (seen.ticks(), seen.follows());
    assert!(ticks < 2 || !follows, "it did not follow at its second tick");
    worker.join().unwrap();
    assert!(!seen.is_open() && !seen.follows() && seen.ticks() == 2);
}

/// A target, and what was written to it last.
#[derive(Clone, Default)]
struct Written(Arc<LastWritten>, Arc<Target>);

impl Written {
    fn write(&self, number: u32) {
        let write = self.0.begin();
        self.1.store(number.into(), Relaxed);
        self.0.end(&write, number.into());
    }

    /// What is known before and after a look at the target is what it holds.
    fn compare(&self) {
        let before = self.0.settled();
        let found = self.1.load(Relaxed);
        if let Some((number, _)) = before.filter(|_| self.0.settled() == before) {
            assert_eq!(found as f64, number, "it was written otherwise");
        }
    }
}

/// Two threads write, and one looks afterwards.
fn written_at_once() {
    let written = Written::default();
    let other = written.clone();
    let writer = thread::spawn(move || other.write(1));
    written.write(2);
    writer.join().unwrap();
    written.compare();
}

/// One thread writes, and one looks meanwhile.
fn written_meanwhile() {
    let written = Written::default();
    let other = written.clone();
    let writer = thread::spawn(move || [1, 2].into_iter().for_each(|number| other.write(number)));
    written.compare();
    writer.join().unwrap();
    written.compare();
}

/// Two threads write, and one looks meanwhile.
fn written_at_once_and_meanwhile() {
    let written = Written::default();
    let writers = [1, 2].map(|number| {
        let other = written.clone();
        thread::spawn(move || other.write(number))
    });
    written.compare();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    written.compare();
}

/// A target, of which 7 is the safe value.
struct Device(Arc<Target>);

impl SafeWrite for Device {
    fn write_safe(&self) -> io::Result<()> {
        self.0.store(7, Relaxed);
        Ok(())
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        Vec::new()
    }
}

/// An output of this target, and what it shares with others that have it.
fn guard(watched: &Arc<Watched>, target: &Arc<Target>) -> Arc<Guard> {
    let device = Device(target.clone());
    let guard = Guard::new("fan", watched.clone(), (Span::ZERO, Span::ZERO), Some(Box::new(device)));
    drop(opened());
    guard
}

fn guarded() -> (Arc<Guard>, Arc<Target>) {
    let target = Arc::new(Target::new(0));
    (guard(&Arc::default(), &target), target)
}

/// As the threads do that write safe values: true, if a write of the task's own was under way.
fn makes_safe(guard: &Guard) -> bool {
    guard.block();
    let overlapped = guard.is_writing();
    guard.write_safe().unwrap();
    overlapped
}

/// A value of the task's never comes after the safe value, unless that is known, and it is written again.
fn made_safe() {
    let (guard, target) = guarded();
    let (own, device) = (guard.clone(), target.clone());
    let task = thread::spawn(move || {
        if let Some(_writing) = own.writing() {
            device.store(1, Relaxed);
        }
    });
    let overlapped = makes_safe(&guard);
    task.join().unwrap();
    assert!(overlapped || target.load(Relaxed) == 7, "a value came after the safe value");
}

/// The same of a task that has recovered, while it is made safe again.
fn made_safe_again() {
    let (guard, target) = guarded();
    guard.trip().unwrap();
    let (own, device) = (guard.clone(), target.clone());
    let task = thread::spawn(move || {
        if let Some(seen) = own.tripped() {
            own.release(seen);
        }
        if let Some(_writing) = own.writing() {
            device.store(1, Relaxed);
        }
    });
    let overlapped = makes_safe(&guard);
    task.join().unwrap();
    let recovered = guard.tripped().is_none();
    assert!(overlapped || recovered || target.load(Relaxed) == 7, "a value came after the safe value");
}

/// Once an output has taken over a target that another one has left without its safe value, that is not written any more.
fn taken_over() {
    let (watched, target) = (Arc::<Watched>::default(), Arc::new(Target::new(0)));
    let [left, new] = [guard(&watched, &target), guard(&watched, &target)];
    left.is_left_at(Instant::ZERO);
    let safe = thread::spawn(move || _ = left.write_safe());
    let taken = new.takes_over() && new.written().is_quiet();
    if taken {
        target.store(1, Relaxed);
    }
    safe.join().unwrap();
    assert!(!taken || target.load(Relaxed) == 1, "the safe value came after that of the new output");
}
