//! A Perfetto trace of what workers and tasks did. Each has a track; sleep, spin and run are slices. Misses are instants, and a flow
//! connects each with the tick that caused it. Pure; allocates.
//!
//! ```text
//! worker main  [sleep     ][spin][report          ][imu]
//! report                         [tick            ]
//! imu                              [waiting       ][tick]×     × missed: blocked
//!                                └─────── flow ─────────┘
//! ```

mod kernel;
mod packets;
mod proto;
mod timeline;

pub(crate) use kernel::Kernel;
#[cfg(feature = "mcap")]
pub(crate) use timeline::TimelineWorker;
pub(crate) use timeline::{Did, Timeline, TimelineMiss, TimelineTask, TimelineTick, Which};

use crate::metrics::By;
use packets::{Beside, Noted, Packets, TrackId};
use proto::{BOOTTIME, MONOTONIC, Process, REALTIME, Thread, Track};
use std::collections::HashMap;

/// The track of the process. The tracks of its workers and tasks follow.
const PROCESS: TrackId = TrackId(1);

/// A tick of the timeline: the index of its worker, then its index there.
type Position = (usize, usize);

/// The bytes of the trace, including the kernel's activity in that time.
pub(crate) fn draw(timeline: &Timeline, kernel: Option<&Kernel>) -> Vec<u8> {
    let mut drawing = Drawing {
        timeline,
        packets: Packets::on(if timeline.on_realtime { REALTIME } else { MONOTONIC }),
        flows: HashMap::new(),
        blamed: HashMap::new(),
        tasks: vec![i64::MIN; timeline.tasks.len()],
    };
    drawing.clocks();
    drawing.tracks();
    drawing.join();
    for worker in 0..timeline.workers.len() {
        drawing.worker(worker);
    }
    for (at, miss, task) in &timeline.unreported {
        let name = format!("missed: {}", miss.cause);
        drawing.packets.instant(drawing.task_track(*task), *at, "miss", &name, noted(miss, None));
    }
    for (at, text) in &timeline.notes {
        drawing.packets.instant(PROCESS, *at, "note", text, Beside::default());
    }
    kernel.into_iter().for_each(|kernel| kernel.draw(&mut drawing.packets));
    drawing.packets.finish()
}

struct Drawing<'a> {
    timeline: &'a Timeline,
    packets: Packets,
    flows: HashMap<(Position, usize), u64>, // the flow of each miss, keyed by the tick and the miss's index in it
    blamed: HashMap<Position, Vec<u64>>,    // the flows of each tick that caused misses
    tasks: Vec<i64>,                        // by task: the instant up to which its track is drawn
}

impl Drawing<'_> {
    fn clocks(&mut self) {
        if self.timeline.on_realtime {
            let first = self.timeline.span().map_or(0, |(first, _)| first);
            return self.packets.clocks(&[(REALTIME, first)]);
        }
        for (at, clocks) in &self.timeline.clocks {
            let readings = [(BOOTTIME, at + clocks.boottime), (MONOTONIC, *at), (REALTIME, at + clocks.realtime)];
            self.packets.clocks(&readings);
        }
        if self.timeline.clocks.is_empty() {
            let first = self.timeline.span().map_or(0, |(first, _)| first);
            self.packets.clocks(&[(MONOTONIC, first)]);
        }
    }

    fn worker_track(&self, worker: usize) -> TrackId {
        TrackId(2 + worker as u64)
    }

    fn task_track(&self, task: usize) -> TrackId {
        TrackId(2 + (self.timeline.workers.len() + task) as u64)
    }

    fn tracks(&mut self) {
        let Timeline { process, pid, workers, tasks, .. } = self.timeline;
        // Without a process id, the process is a plain track.
        let name = Some(process.clone());
        let of = pid.map(|pid| Process { pid: Some(pid), name: name.clone() });
        self.packets.track(Track { uuid: Some(PROCESS.0), name, process: of, ..Track::default() });
        for (index, worker) in workers.iter().enumerate() {
            let name = Some(worker.name.clone());
            let thread = pid.zip(worker.thread);
            let thread = thread.map(|(pid, tid)| Thread { pid: Some(pid), tid: Some(tid.into()), name: name.clone() });
            let (uuid, parent) = (Some(self.worker_track(index).0), Some(PROCESS.0).filter(|_| thread.is_none()));
            self.packets.track(Track { uuid, name, thread, parent, ..Track::default() });
        }
        for (index, task) in tasks.iter().enumerate() {
            let (uuid, name) = (Some(self.task_track(index).0), Some(format!("task {}", task.name)));
            self.packets.track(Track { uuid, name, parent: Some(PROCESS.0), ..Track::default() });
        }
    }

    /// Finds the tick that caused each miss attributed to another task or worker.
    fn join(&mut self) {
        for (worker, did) in self.timeline.workers.iter().enumerate() {
            for (at, tick) in did.did.iter().enumerate().filter_map(|(at, did)| Some((at, did.tick.as_ref()?))) {
                for (nth, miss) in tick.misses.iter().enumerate() {
                    if let Some(blamed) = self.to_blame((worker, at), tick, miss) {
                        let flow = self.flows.len() as u64 + 1;
                        self.flows.insert(((worker, at), nth), flow);
                        self.blamed.entry(blamed).or_default().push(flow);
                    }
                }
            }
        }
    }

    /// The tick to blame: of the culprit's ticks, the one that ran longest while this tick was waiting.
    fn to_blame(&self, (worker, at): Position, tick: &TimelineTick, miss: &TimelineMiss) -> Option<Position> {
        let Timeline { workers, tasks, .. } = self.timeline;
        let (culprit, _) = miss.by.as_ref()?;
        let did = &workers[worker].did[at];
        let skipped = i64::try_from(miss.count).unwrap_or(i64::MAX).saturating_mul(tasks[tick.task].period);
        let (from, to) = match miss.which {
            Which::SkippedBefore => (tick.release.saturating_sub(skipped), did.started),
            _ => (tick.release, did.finished),
        };
        let (worker, before, task) = match culprit {
            By::Task(number) => (worker, at, tasks.iter().position(|task| task.number == *number)),
            By::Worker(number) => {
                let other = workers.iter().position(|worker| worker.number as usize == *number)?;
                (other, workers[other].did.partition_point(|did| did.started < to), None)
            }
            _ => return None,
        };
        let list = &workers[worker].did[..before];
        let first = list.partition_point(|did| did.finished <= from);
        let of_it = |did: &Did| did.tick.as_ref().is_some_and(|tick| task.is_none_or(|task| tick.task == task));
        let within = |did: &Did| did.finished.min(to) - did.started.max(from);
        let most = (first..before).filter(|at| of_it(&list[*at])).max_by_key(|at| within(&list[*at]));
        // Rounding may leave no time in common.
        let found = most.or_else(|| list.iter().rposition(of_it).filter(|_| task.is_some()))?;
        Some((worker, found))
    }

    fn worker(&mut self, worker: usize) {
        let (timeline, track) = (self.timeline, self.worker_track(worker));
        let mut until = None; // the instant up to which its track is drawn
        for (at, did) in timeline.workers[worker].did.iter().enumerate() {
            if did.after_loss {
                let at = until.unwrap_or(did.started);
                self.packets.instant(track, at, "note", "ticks are missing here", Beside::default());
            }
            let mut now = until.unwrap_or(i64::MIN);
            if let Some((asked, woke)) = did.sleep {
                // What happened before the sleep is known only if the previous tick is.
                let from = until.filter(|_| !did.after_loss).unwrap_or_else(|| asked.min(woke)).max(now);
                let to = woke.max(from);
                let notes = vec![("oversleep_ns", Noted::Number(woke - asked))];
                self.packets.slice(track, (from, to), "sleep", "sleep", Beside { notes, flows: Vec::new() });
                now = to;
                let release = did.tick.as_ref().map_or(i64::MIN, |tick| tick.release);
                if woke < release && did.started > now {
                    self.packets.slice(track, (now, did.started), "spin", "spin", Beside::default());
                    now = did.started;
                }
            }
            let from = did.started.max(now);
            let to = did.finished.max(from);
            match &did.tick {
                Some(tick) => {
                    let notes = vec![("n", number(tick.n))];
                    let name = &timeline.tasks[tick.task].name;
                    self.packets.slice(track, (from, to), "run", name, Beside { notes, flows: Vec::new() });
                    self.tick((worker, at), did, tick, (from, to));
                }
                None => self.packets.slice(track, (from, to), "wake", "woke for nothing", Beside::default()),
            }
            until = Some(to);
        }
    }

    fn tick(&mut self, position: Position, did: &Did, tick: &TimelineTick, (from, to): (i64, i64)) {
        let track = self.task_track(tick.task);
        let drawn = self.tasks[tick.task];
        let from = from.max(drawn);
        let to = to.max(from);
        if tick.overrun && tick.release.max(drawn) < from {
            self.packets.slice(track, (tick.release.max(drawn), from), "wait", "waiting", Beside::default());
        }
        let mut notes = vec![
            ("n", number(tick.n)),
            ("lateness_ns", Noted::Number(did.started - tick.release)),
            ("run_ns", Noted::Number(did.finished - did.started)),
            ("response_ns", Noted::Number(did.finished - tick.release)),
        ];
        let said = [
            ("overrun", tick.overrun),
            ("over_budget", tick.over_budget),
            ("failed", tick.failed),
            ("ended_task", tick.ended_task),
        ];
        notes.extend(said.iter().filter(|(_, yes)| *yes).map(|(name, _)| (*name, Noted::Yes)));
        let flows = self.blamed.get(&position).cloned().unwrap_or_default();
        self.packets.slice(track, (from, to), "tick", "tick", Beside { notes, flows });
        for (nth, miss) in tick.misses.iter().enumerate() {
            let mut beside = noted(miss, Some(tick.n));
            beside.flows.extend(self.flows.get(&(position, nth)));
            let at = if miss.which == Which::SkippedBefore { from } else { to };
            self.packets.instant(track, at, "miss", &format!("missed: {}", miss.cause), beside);
        }
        self.tasks[tick.task] = to;
    }
}

/// The notes about missed releases.
fn noted(miss: &TimelineMiss, n: Option<u64>) -> Beside {
    let which = match miss.which {
        Which::SkippedBefore => "skipped before this tick",
        Which::Overrun => "overrun",
        Which::SkippedAfter => "skipped after this tick",
        #[cfg(feature = "mcap")]
        Which::Skipped => "skipped before or after this tick",
        Which::Unreported => "skipped, without a tick",
    };
    let text = |text: &str| Noted::Text(text.to_owned());
    let mut notes = vec![("which", text(which)), ("cause", text(miss.cause)), ("count", number(miss.count))];
    notes.extend(n.map(|n| ("n", number(n))));
    if miss.time > 0 {
        notes.push(("explains_ns", Noted::Number(miss.time)));
    }
    notes.extend(miss.by.as_ref().map(|(_, name)| ("by", text(name))));
    Beside { notes, flows: Vec::new() }
}

fn number(number: u64) -> Noted {
    Noted::Number(number.cast_signed())
}
