//! Finds out who took the CPU from a worker: another thread, interrupts or the host.
//!
//! Reads /proc, as any user may, and only while workers are preempted: all threads at most once a second, suspects in each round of the
//! metrics thread. Time is an argument.

use crate::metrics::{Accuser, By, Program};
use crate::sys::processor::{self, Lost, OtherThread};
use crate::sys::thread::ThreadId;
use crate::time::{Instant, Span};
use std::collections::BTreeMap;

/// Minimum time between two scans of all threads.
const SCAN_EVERY: Span = Span::from_seconds(1);

/// How long suspects are watched after the last preemption.
const WATCH_FOR: Span = Span::from_seconds(5);

/// The number of suspects per CPU.
const SUSPECTS: usize = 3;

/// The CPUs on which workers were preempted.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    cpus: BTreeMap<usize, Watched>,
    workers: Vec<ThreadId>,
    now: Instant,
}

/// One CPU.
#[derive(Debug)]
struct Watched {
    scanned: Instant,
    preempted: Instant,               // the last time
    used: BTreeMap<(u32, u32), Span>, // by threads that could preempt, at the last scan
    suspects: Vec<Suspect>,           // threads that used most of it between the last two scans
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Suspect {
    program: Program,
    thread: (u32, u32), // process and thread
    used: Span,
    lately: Span, // used between the last two rounds
}

impl Suspects {
    /// The threads of our workers. The metrics know what those did.
    pub(super) fn set_workers(&mut self, workers: Vec<ThreadId>) {
        self.workers = workers;
    }

    /// Begins a round at `now`.
    pub(crate) fn round(&mut self, now: Instant) {
        self.now = now;
        self.cpus.retain(|_, watched| now - watched.preempted < WATCH_FOR);
        for watched in self.cpus.values_mut() {
            watched.suspects.retain_mut(Suspect::look);
        }
    }
}

impl Suspect {
    /// Reads how much it has used since the last round; false: it has ended.
    fn look(&mut self) -> bool {
        let used = processor::time_used(self.thread.0, self.thread.1);
        self.lately = used.map_or(Span::ZERO, |used| used - self.used);
        self.used = used.unwrap_or(self.used);
        used.is_some()
    }
}

impl Accuser for Suspects {
    fn who(&mut self, cpu: usize, priority: u8, time: Span, switched: bool) -> Option<By> {
        let (now, workers) = (self.now, &self.workers);
        let watched = self.cpus.entry(cpu).or_insert_with(|| Watched::new(cpu, priority, now, workers));
        watched.preempted = now;
        if !switched {
            // The worker was not switched out, so it was the kernel: interrupts, or the host.
            return watched.lost(cpu, time);
        }
        if now - watched.scanned >= SCAN_EVERY {
            watched.scan(cpu, priority, now, workers);
        }
        let most = watched.suspects.iter().max_by_key(|suspect| suspect.lately)?;
        (most.lately + most.lately >= time).then_some(By::Program(most.program))
    }
}

impl Watched {
    fn new(cpu: usize, priority: u8, now: Instant, workers: &[ThreadId]) -> Self {
        let mut new = Self {
            scanned: now,
            preempted: now,
            used: BTreeMap::new(),
            suspects: Vec::new(),
            lost: processor::lost(cpu),
        };
        new.scan(cpu, priority, now, workers);
        new
    }

    /// Scans all threads for those that could preempt a worker of this real-time priority. Those that used most since the last scan become
    /// suspects.
    fn scan(&mut self, cpu: usize, priority: u8, now: Instant, workers: &[ThreadId]) {
        let is_worker = |other: &OtherThread| workers.iter().any(|id| u32::try_from(id.number()) == Ok(other.thread));
        let able = |other: &OtherThread| other.cpu == cpu && other.priority >= priority && !is_worker(other);
        let mut used = BTreeMap::new();
        let mut suspects = Vec::new();
        for other in processor::threads().into_iter().filter(able) {
            let thread = (other.process, other.thread);
            let Some(now_used) = processor::time_used(thread.0, thread.1) else { continue };
            used.insert(thread, now_used);
            if let Some(before) = self.used.get(&thread).filter(|before| now_used > **before) {
                let program = Program::new(&other.name, other.process);
                // How much it used in this round is not known until the next one.
                let lately =
                    self.suspects.iter().find(|known| known.thread == thread).map_or(Span::ZERO, |it| it.lately);
                suspects.push((now_used - *before, Suspect { program, thread, used: now_used, lately }));
            }
        }
        suspects.sort_by_key(|(growth, _)| std::cmp::Reverse(*growth));
        self.suspects = suspects.into_iter().take(SUSPECTS).map(|(_, suspect)| suspect).collect();
        (self.used, self.scanned) = (used, now);
    }

    /// Interrupts or the host, if one of them explains `time` since the last call.
    fn lost(&mut self, cpu: usize, time: Span) -> Option<By> {
        let now = processor::lost(cpu)?;
        let before = self.lost.replace(now)?;
        let (interrupts, steal) = (now.interrupts - before.interrupts, now.steal - before.steal);
        match steal >= interrupts {
            true if steal + steal >= time => Some(By::Steal),
            false if interrupts + interrupts >= time => Some(By::Interrupts),
            _ => None,
        }
    }
}
