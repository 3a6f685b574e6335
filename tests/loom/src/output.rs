//! Outputs: which are live, the last write to a target, and how a value is kept from overwriting a safe value.

use super::guard::{Guard, Watched};
use super::live::LiveOutputs;
use super::planned_write::PlannedWrite;
use super::safe_write::SafeWrite;
use super::written::LastWritten;
use crate::note::Note;
use crate::time::{Instant, Span};
use crate::trial::Model;
use loom::sync::atomic::{AtomicU64 as Target, Ordering::Relaxed};
use loom::thread;
use std::io;
use std::sync::Arc;

pub const LIVE: [Model; 1] = [Model::new(live)];
/// The last writes to a target, their authors, and who may write to it. The models share this code, and any of them may find a fault in it.
pub const TARGETS: [Model; 21] = [
    Model::new(begun),
    Model::new(left_last),
    Model::new(left),
    Model::new(closed),
    Model::new(sealed),
    Model::new(not_forgotten),
    Model::new(wanted_again),
    Model::new(written_before),
    Model::new(written_one_after_the_other),
    Model::new(taken_over),
    Model::new(taken_over_after_a_write),
    Model::new(taken_over_while_lost),
    Model { interruptions: Some(3), ..Model::new(refused) },
    Model { interruptions: Some(3), ..Model::new(refused_that_keeps) },
    Model::new(kept),
    Model::new(made_safe),
    Model { interruptions: Some(2), ..Model::new(made_safe_of_two) },
    Model { interruptions: Some(3), ..Model::new(made_safe_again) },
    Model { interruptions: Some(3), ..Model::new(written_meanwhile) },
    Model { interruptions: Some(2), ..Model::new(written_at_once) },
    Model { interruptions: Some(2), ..Model::new(written_at_once_and_meanwhile) },
];

/// A thread that has seen a tick sees whether the output followed at that tick or a later one.
fn live() {
    let all = Arc::<LiveOutputs>::default();
    let (seen, shown) = (all.named("output"), all.open("output", Span::from_millis(200)));
    all.begin();
    let worker = thread::spawn(move || {
        shown.ticked(true);
        shown.ticked(false);
    });
    let (ticks, follows) = (seen.ticks(), seen.follows());
    assert!(ticks < 2 || !follows, "it did not follow at its second tick");
    worker.join().unwrap();
    assert!(!seen.is_open() && !seen.follows() && seen.ticks() == 2);
}

/// A target, and its last write.
#[derive(Clone, Default)]
struct Written(Arc<LastWritten>, Arc<Target>);

/// The known last write.
fn settled_at(last: &LastWritten) -> Option<(f64, u64)> {
    last.quiet().filter(|(number, _)| !number.is_nan())
}

impl Written {
    fn write(&self, number: u32) {
        let write = self.0.begin();
        self.1.store(number.into(), Relaxed);
        self.0.end(&write, number.into());
    }

    /// If the last write is known before and after reading the target, the target holds its number.
    fn compare(&self) {
        let before = settled_at(&self.0);
        let found = self.1.load(Relaxed);
        if let Some((number, _)) = before.filter(|_| settled_at(&self.0) == before) {
            assert_eq!(found as f64, number, "it was written otherwise");
        }
    }
}

/// Two threads write, and one reads afterwards.
fn written_at_once() {
    let written = Written::default();
    let other = written.clone();
    let writer = thread::spawn(move || other.write(1));
    written.write(2);
    writer.join().unwrap();
    written.compare();
}

/// Two threads write: a write that is alone comes after all earlier ones.
fn written_one_after_the_other() {
    let (last, note) = (Arc::new(LastWritten::default()), Arc::new(Note::default()));
    let (other, noted) = (last.clone(), note.clone());
    let writer = thread::spawn(move || {
        let write = other.begin();
        if write.number == 0 {
            noted.write(1);
        }
        other.end(&write, 1.0);
    });
    let write = last.begin();
    if write.alone && write.number == 1 {
        note.write(2);
    }
    last.end(&write, 2.0);
    writer.join().unwrap();
}

/// One thread writes while another reads: the reader sees a single write. If a thread loads before it stores, loom misses that another
/// thread has loaded before; so the other thread is made to look back.
fn written_meanwhile() {
    let written = Written::default();
    let seen = written.clone();
    let reader = thread::spawn(move || {
        if let Some((number, writes)) = settled_at(&seen.0) {
            assert_eq!(number, writes as f64, "of another write");
        }
        seen.compare();
    });
    [1, 2].into_iter().for_each(|number| written.write(number));
    reader.join().unwrap();
    written.compare();
}

/// Two threads write while another reads.
fn written_at_once_and_meanwhile() {
    let written = Written::default();
    let (other, seen) = (written.clone(), written.clone());
    let writer = thread::spawn(move || other.write(2));
    let reader = thread::spawn(move || seen.compare());
    written.write(1);
    writer.join().unwrap();
    reader.join().unwrap();
    written.compare();
}

/// A target whose safe value is 7.
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

/// A target that only one thread at a time may write.
struct Exclusive(Arc<Note>);

impl SafeWrite for Exclusive {
    fn write_safe(&self) -> io::Result<()> {
        self.0.write(7);
        Ok(())
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        Vec::new()
    }
}

/// An output of this target; `watched`: the state shared with other outputs of the target.
fn guard(watched: &Arc<Watched>, device: impl SafeWrite + 'static) -> Arc<Guard> {
    Guard::new("fan", watched.clone(), (Span::ZERO, Span::ZERO), Some(Box::new(device)))
}

fn guarded() -> (Arc<Guard>, Arc<Target>) {
    let target = Arc::new(Target::new(0));
    (guard(&Arc::default(), Device(target.clone())), target)
}

/// A thread that sees that an output has begun sees its target set up.
fn begun() {
    let (guard, note) = (guarded().0, Arc::new(Note::default()));
    let (begins, set_up) = (guard.clone(), note.clone());
    let builder = thread::spawn(move || {
        set_up.write(5);
        begins.begins();
    });
    if guard.has_begun() {
        assert_eq!(note.read(), 5);
    }
    builder.join().unwrap();
    assert!(guard.is_alone());
}

/// If two outputs share a target, the one that leaves last, or has the target alone, comes after all writes of the other.
fn left_last() {
    let (watched, notes) = (Arc::new(Watched::default()), Arc::new([Note::default(), Note::default()]));
    watched.begins();
    watched.begins();
    let leaves = |own: usize| {
        let (watched, notes) = (watched.clone(), notes.clone());
        move || {
            notes[own].write(1);
            if watched.has_one_writer() {
                notes[1 - own].write(2);
            }
            if watched.leaves() {
                notes[1 - own].write(3);
            }
        }
    };
    let other = thread::spawn(leaves(0));
    leaves(1)();
    other.join().unwrap();
}

/// If a safe write does not see a write of the task in progress, it comes after that write, and no other write follows.
fn written_before() {
    let (watched, note) = (Arc::new(Watched::default()), Arc::new(Note::default()));
    let (own, noted) = (watched.clone(), note.clone());
    let task = thread::spawn(move || {
        if let Some(_writing) = own.writing() {
            noted.write(1);
        }
    });
    watched.block();
    if !watched.is_writing() {
        note.write(7);
    }
    task.join().unwrap();
}

/// A task's value never comes after the safe value, unless this is noticed and the safe value is written again.
fn made_safe() {
    let (guard, target) = guarded();
    let (own, device) = (guard.clone(), target.clone());
    let task = thread::spawn(move || {
        if let Some(_writing) = own.writing() {
            device.store(1, Relaxed);
        }
    });
    let overlapped = guard.make_safe().overlapped;
    task.join().unwrap();
    assert!(overlapped || target.load(Relaxed) == 7, "a value came after the safe value");
    assert!(guard.tripped().is_some());
}

/// The same for two tasks, while one takes the target over from the other.
fn made_safe_of_two() {
    let (guard, target) = guarded();
    let tasks = [1, 2].map(|value| {
        let (own, device) = (guard.clone(), target.clone());
        thread::spawn(move || {
            if let Some(_writing) = own.writing() {
                device.store(value, Relaxed);
            }
        })
    });
    let overlapped = guard.make_safe().overlapped;
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert!(overlapped || target.load(Relaxed) == 7, "a value came after the safe value");
}

/// The same for a task that recovers while it is made safe again: either its write is there, or it learns that it was made safe.
fn made_safe_again() {
    let (guard, target) = guarded();
    guard.trip().unwrap();
    let (own, device) = (guard.clone(), target.clone());
    let task = thread::spawn(move || {
        if let Some(seen) = own.tripped() {
            own.release(seen);
        }
        let writing = own.writing();
        if writing.is_some() {
            device.store(1, Relaxed);
        }
        writing.is_some()
    });
    let overlapped = guard.make_safe().overlapped;
    let has_written = task.join().unwrap();
    let (tripped, found) = (guard.tripped().is_some(), target.load(Relaxed));
    if !overlapped {
        assert!(tripped || has_written, "it has recovered, and not written");
        assert!(tripped || found == 1, "the safe value has come after its own, and it does not learn that");
        assert!(has_written || found == 7, "a value came after the safe value");
    }
}

/// A task that has seen the last trip does not recover from it.
fn sealed() {
    let watched = Arc::new(Watched::default());
    let own = watched.clone();
    let task = thread::spawn(move || {
        if let Some(seen) = own.tripped() {
            own.release(seen);
            assert!(own.writing().is_none(), "it writes after the end");
        }
    });
    watched.seal();
    watched.block();
    task.join().unwrap();
}

/// A task that takes a target over comes after the output that left it. No thread considers a target replaced that is not.
fn left() {
    let (watched, note) = (Arc::new(Watched::default()), Arc::new(Note::default()));
    let guard = guard(&watched, Device(Arc::default()));
    let (own, noted) = (guard.clone(), note.clone());
    let task = thread::spawn(move || {
        noted.write(1);
        own.leave_unsafe(Instant::ZERO);
    });
    assert!(!guard.is_replaced(), "no other output has its target");
    if watched.begin_takeover() {
        note.write(2);
    }
    task.join().unwrap();
}

/// Acts like the threads that write safe values, and like the thread that they notify. Returns the trip, and whether the target must be
/// closed.
fn makes_safe(guard: &Guard) -> (u64, bool) {
    let safe = guard.make_safe();
    (safe.trip, safe.result.is_ok() && guard.settle(safe.trip, safe.request))
}

/// A target that was left is closed after its safe value was written.
fn closed() {
    let (watched, note) = (Arc::new(Watched::default()), Arc::new(Note::default()));
    let guard = guard(&watched, Exclusive(note.clone()));
    guard.leave_unsafe(Instant::ZERO);
    let safe = guard.clone();
    let writer = thread::spawn(move || _ = makes_safe(&safe));
    if !guard.is_owed() {
        note.write(0);
    }
    writer.join().unwrap();
}

/// A target is closed even if its safe value is written while it is left, or other outputs continue with it.
fn not_forgotten() {
    let watched = Arc::new(Watched::default());
    let guard = guard(&watched, Device(Arc::default()));
    let own = guard.clone();
    let task = thread::spawn(move || own.leave_unsafe(Instant::ZERO));
    let (_, settled) = makes_safe(&guard);
    task.join().unwrap();
    assert!(guard.is_owed() || settled, "it is never closed");
}

/// A safe write that returns late does not satisfy a later request of the task.
fn wanted_again() {
    let watched = Arc::new(Watched::default());
    let guard = guard(&watched, Device(Arc::default()));
    let own = watched.clone();
    let task = thread::spawn(move || {
        own.block();
        own.set_wanted(true);
    });
    let (trip, _) = makes_safe(&guard);
    task.join().unwrap();
    assert!(watched.is_wanted() || trip == 2, "it was wanted after the safe write");
}

/// Once an output has taken over a target that another one left without its safe value, that safe value is no longer written, and the new
/// output may write.
fn taken_over() {
    let (watched, target) = (Arc::<Watched>::default(), Arc::new(Target::new(0)));
    let [left, new] = [(); 2].map(|()| guard(&watched, Device(target.clone())));
    left.leave_unsafe(Instant::ZERO);
    let safe = thread::spawn(move || _ = left.make_safe());
    let taken = new.begin_takeover() && new.written().is_quiet();
    if taken {
        target.store(1, Relaxed);
        new.has_target();
    }
    safe.join().unwrap();
    assert!(!taken || target.load(Relaxed) == 1, "the safe value came after that of the new output");
    assert!(!taken || new.tripped().is_none(), "the new output was made safe");
}

/// Writes in progress at the takeover have ended before it completes.
fn taken_over_after_a_write() {
    let (watched, note) = (Arc::<Watched>::default(), Arc::new(Note::default()));
    let [left, new] = [(); 2].map(|()| guard(&watched, Exclusive(note.clone())));
    left.leave_unsafe(Instant::ZERO);
    let safe = thread::spawn(move || _ = left.make_safe());
    if new.begin_takeover() && new.written().is_quiet() {
        note.write(1);
    }
    safe.join().unwrap();
}

/// The same for a missing target: a safe value that cannot be written does not block the new output.
fn taken_over_while_lost() {
    let (watched, target) = (Arc::<Watched>::default(), Arc::new(Target::new(0)));
    let [left, new] = [(); 2].map(|()| guard(&watched, Device(target.clone())));
    left.leave_unsafe(Instant::ZERO);
    left.lose();
    let safe = thread::spawn(move || _ = left.make_safe());
    let taken = new.begin_takeover() && new.written().is_quiet();
    if taken {
        new.has_target();
    } else {
        new.cancel_takeover();
    }
    safe.join().unwrap();
    assert!(!taken || (new.tripped().is_none() && watched.errno() == 0), "the new output was made safe");
    assert_eq!(target.load(Relaxed), 0, "it is gone");
    assert!(watched.is_left() != taken && watched.is_wanted() != taken);
}

/// The safe value that an output left stays owed, even if a thread makes the output safe that took the target over, and that output is then
/// refused.
fn refused() {
    let (watched, target) = (Arc::<Watched>::default(), Arc::new(Target::new(0)));
    let [left, new] = [(); 2].map(|()| guard(&watched, Device(target.clone())));
    stays_owed(&left, &new);
}

/// The same for an output that keeps its value.
fn refused_that_keeps() {
    let watched = Arc::<Watched>::default();
    let left = guard(&watched, Device(Arc::default()));
    stays_owed(&left, &Guard::new("fan", watched, (Span::ZERO, Span::ZERO), None));
}

fn stays_owed(left: &Guard, new: &Arc<Guard>) {
    left.leave_unsafe(Instant::ZERO);
    assert!(new.begin_takeover());
    new.has_target();
    new.begins();
    let safe = new.clone();
    let writer = thread::spawn(move || _ = makes_safe(&safe));
    new.leaves();
    new.trip().unwrap();
    new.close();
    left.cancel_takeover();
    writer.join().unwrap();
    assert!(left.is_owed(), "it is forgotten");
}

/// An output that keeps its value writes nothing to be safe, and its task does not write either.
fn kept() {
    let (watched, target) = (Arc::<Watched>::default(), Arc::new(Target::new(0)));
    let guard = Guard::new("fan", watched, (Span::ZERO, Span::ZERO), None);
    let (own, device) = (guard.clone(), target.clone());
    let task = thread::spawn(move || {
        let writing = own.writing();
        if writing.is_some() {
            device.store(1, Relaxed);
        }
        writing.is_some()
    });
    let overlapped = guard.make_safe().overlapped;
    let found = target.load(Relaxed);
    let has_written = task.join().unwrap();
    assert!(overlapped || found == u64::from(has_written), "it has written since");
    assert!(guard.tripped().is_some());
}
