//! A kind of task that disturbs itself in some of its ticks, and notes in memory what it did when.

use super::kernel;
use crate::program::pause;
use hertzd::internals::{Clock, KernelClock, thread_cpu_time};
use hertzd::time::Span;
use hertzd::{Task, Tick, TickError};
use serde::Deserialize;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What a tick does for the whole duration of the fault.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Computes until that much processor time is used.
    Burn,
    /// Touches fresh memory.
    Touch,
    /// Reads pages of a file that the kernel has forgotten.
    Read,
    /// Sleeps.
    Sleep,
}

/// What it notes about a tick. Instants are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TickNote {
    pub(crate) n: u64,
    pub(crate) release: i64,
    pub(crate) started: i64,
    pub(crate) finished: i64,
    /// It disturbed itself in this tick.
    pub(crate) injected: bool,
    /// Its processor time.
    pub(crate) cpu: i64,
    /// The total time its thread has been runnable but not running, at the start and at the end of the tick.
    pub(crate) queued: [i64; 2],
    /// Its minor and major faults.
    pub(crate) faults: [i64; 2],
    /// How often it slept, such as for a disk.
    pub(crate) slept: i64,
    /// The longest time between two of its own clock readings while it computed or touched memory, as from and to.
    pub(crate) gap: [i64; 2],
}

/// The task and its keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Disturbed {
    /// What it does to itself.
    #[serde(default)]
    fault: Fault,
    /// It disturbs itself in every `every`-th tick.
    #[serde(default = "one")]
    every: u64,
    /// The durations of the faults, used in turn, in microseconds.
    #[serde(default)]
    lengths: Vec<i64>,
    /// Microseconds of processor time used by every tick.
    burn: i64,
    /// The file that the notes are written to at the end.
    notes: PathBuf,
    #[serde(skip, default = "room")]
    taken: Vec<TickNote>,
    #[serde(skip)]
    injected: usize,
    #[serde(skip)]
    read: i64, // the next offset
    #[serde(skip)]
    file: Option<File>,
    #[serde(skip)]
    queue: Option<File>,
}

fn one() -> u64 {
    1
}

/// Memory for every note, already touched.
fn room() -> Vec<TickNote> {
    let mut room = vec![TickNote { n: 1, ..TickNote::default() }; 20_000];
    black_box(&mut room).clear();
    room
}

/// The name of the file to read, which is beside the notes, and its length.
pub(crate) const FORGOTTEN: &str = "forgotten";
pub(crate) const FORGOTTEN_LENGTH: usize = 128 << 20;

pub(crate) fn now() -> i64 {
    i64::try_from(KernelClock::monotonic().now().nanos()).unwrap()
}

impl Disturbed {
    /// Computes until `span` of processor time is used, and returns its longest gap.
    fn burn(span: Span) -> [i64; 2] {
        let until = thread_cpu_time() + span;
        let (mut before, mut gap) = (now(), [0, 0]);
        loop {
            let seen = now();
            if seen - before > gap[1] - gap[0] {
                gap = [before, seen];
            }
            before = seen;
            if thread_cpu_time() >= until {
                return gap;
            }
        }
    }

    /// Disturbs the tick, and updates `gap` if there was a longer one.
    fn inject(&mut self, started: i64, length: i64, gap: &mut [i64; 2]) {
        while now() - started < length {
            match self.fault {
                Fault::None => return,
                Fault::Burn => drop(Self::burn(Span::from_nanos(length))),
                Fault::Touch => {
                    let step = [now(), {
                        kernel::touch_fresh(32);
                        now()
                    }];
                    if step[1] - step[0] > gap[1] - gap[0] {
                        *gap = step;
                    }
                }
                Fault::Read => {
                    let Some(file) = self.file.as_ref().filter(|_| self.read < FORGOTTEN_LENGTH as i64) else { return };
                    kernel::touch_forgotten(file, self.read, 4);
                    self.read += 4 * kernel::PAGE as i64;
                }
                Fault::Sleep => pause(Span::from_nanos(length)),
            }
        }
    }

    /// How long the thread has waited for a processor.
    fn queued(&self) -> i64 {
        let mut text = [0; 96];
        let read = self.queue.as_ref().and_then(|queue| queue.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or("");
        text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Task for Disturbed {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let nanos = |instant: hertzd::time::Instant| i64::try_from(instant.nanos()).unwrap();
        if self.queue.is_none() {
            self.queue = Some(File::open("/proc/thread-self/schedstat").unwrap());
            self.file = File::open(self.notes.with_file_name(FORGOTTEN)).ok();
        }
        let (cpu, queued, (faults, slept)) = (thread_cpu_time(), self.queued(), kernel::faults_and_sleeps());
        let mut gap = Self::burn(Span::from_micros(self.burn));
        let injected = self.fault != Fault::None && tick.n % self.every == self.every - 1;
        if injected {
            let length = self.lengths[self.injected % self.lengths.len()] * 1_000;
            self.injected += 1;
            self.inject(now(), length, &mut gap);
        }
        let (later, slept_later) = kernel::faults_and_sleeps();
        let note = TickNote {
            n: tick.n,
            release: nanos(tick.release),
            started: nanos(tick.started),
            injected,
            cpu: (thread_cpu_time() - cpu).nanos(),
            queued: [queued, self.queued()],
            faults: [later[0] - faults[0], later[1] - faults[1]],
            slept: slept_later - slept,
            gap,
            finished: now(),
        };
        if self.taken.len() < self.taken.capacity() {
            self.taken.push(note);
        }
        Ok(())
    }

    fn columns(&self) -> Vec<hertzd::Column> {
        Vec::new()
    }
}

impl Drop for Disturbed {
    fn drop(&mut self) {
        let line = |note: &TickNote| {
            let TickNote { n, release, started, finished, injected, cpu, queued, faults, slept, gap } = note;
            let [minor, major] = faults;
            let [from, to] = gap;
            let [before, after] = queued;
            format!(
                "{n} {release} {started} {finished} {} {cpu} {before} {after} {minor} {major} {slept} {from} {to}\n",
                u8::from(*injected)
            )
        };
        fs::write(&self.notes, self.taken.iter().map(line).collect::<String>()).unwrap();
    }
}

/// The notes that a task wrote.
pub(crate) fn notes(path: &Path) -> Vec<TickNote> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let note = |line: &str| {
        let numbers: Vec<i64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [n, release, started, finished, injected, cpu, before, after, minor, major, slept, from, to] = numbers[..]
        else {
            panic!("{line}")
        };
        TickNote {
            n: n.unsigned_abs(),
            release,
            started,
            finished,
            injected: injected == 1,
            cpu,
            queued: [before, after],
            faults: [minor, major],
            slept,
            gap: [from, to],
        }
    };
    text.lines().map(note).collect()
}
