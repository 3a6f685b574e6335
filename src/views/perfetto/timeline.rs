//! The activity of workers in order of time, from a flight file or from a recording's ticks. Pure.

use crate::flight::{Clocks, Entry, Flight, Mark, Miss, Place, Ran, Slept, Woken};
use crate::metrics::By;
use std::collections::HashMap;

/// The input of a trace. All instants are nanoseconds of one clock.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) process: String,
    pub(crate) pid: Option<i32>,
    pub(crate) on_realtime: bool, // otherwise on the monotonic clock
    pub(crate) workers: Vec<TimelineWorker>,
    pub(crate) tasks: Vec<TimelineTask>,
    /// Misses of a task that no tick reports, each with its instant and the task's index.
    pub(crate) unreported: Vec<(i64, TimelineMiss, usize)>,
    /// Events that concern the whole process.
    pub(crate) notes: Vec<(i64, String)>,
    /// The offsets between the clocks, at instants of the monotonic clock.
    pub(crate) clocks: Vec<(i64, Clocks)>,
    /// Missed releases whose ticks have been overwritten, so that the ticks are unknown.
    pub(crate) without_tick: u64,
}

/// A worker, or something drawn like one.
#[derive(Debug, Default)]
pub(crate) struct TimelineWorker {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) thread: Option<i32>,
    pub(crate) did: Vec<Did>, // in order
}

#[derive(Debug, Default)]
pub(crate) struct TimelineTask {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) period: i64,
}

/// A worker's activity between two sleeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Did {
    pub(crate) sleep: Option<(i64, i64)>, // asked for, woke
    pub(crate) after_loss: bool,
    pub(crate) started: i64, // for a wake-up without a tick: when it woke
    pub(crate) finished: i64,
    pub(crate) tick: Option<TimelineTick>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TimelineTick {
    pub(crate) task: usize, // index in the task list
    pub(crate) n: u64,
    pub(crate) release: i64,
    pub(crate) overrun: bool,
    pub(crate) over_budget: bool,
    pub(crate) failed: bool,
    pub(crate) ended_task: bool,
    pub(crate) misses: Vec<TimelineMiss>,
}

/// Releases missed for one cause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimelineMiss {
    pub(crate) which: Which,
    pub(crate) cause: &'static str,
    pub(crate) by: Option<(By, String)>,
    pub(crate) count: u64,
    pub(crate) time: i64,
}

/// Which releases were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    SkippedBefore,
    Overrun,
    SkippedAfter,
    /// One of the two: recordings do not say which.
    #[cfg(feature = "mcap")]
    Skipped,
    Unreported,
}

impl Timeline {
    /// The timeline in a flight file.
    pub(crate) fn of(flight: &Flight) -> Self {
        let who = &flight.who;
        let mut timeline = Self {
            process: format!("hertzd {}", who.run.hertzd),
            pid: i32::try_from(who.run.pid).ok(),
            ..Self::default()
        };
        for worker in who.workers.values() {
            let (name, thread) = (format!("worker {}", worker.name), Some(worker.thread));
            timeline.workers.push(TimelineWorker { number: worker.number, name, thread, did: Vec::new() });
        }
        for task in who.tasks.values() {
            let (name, period) = (task.name.clone(), task.period_ns);
            timeline.tasks.push(TimelineTask { number: task.number, name, period });
        }
        timeline.enter(flight);
        timeline.note(flight);
        timeline
    }

    fn enter(&mut self, flight: &Flight) {
        let who = &flight.who;
        let workers: HashMap<u32, usize> =
            self.workers.iter().enumerate().map(|(at, worker)| (worker.number, at)).collect();
        let tasks: HashMap<u32, (usize, u32)> = self
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(at, task)| Some((task.number, (at, who.tasks.get(&task.number)?.worker))))
            .collect();
        let clock = |worker: u32| who.workers.get(&worker).map_or("monotonic", |worker| worker.clock.as_str());
        let marks = marks_of(&flight.entries);
        let mut latest: Option<(u32, u64, usize)> = None; // the tick that misses may follow: task, n, worker
        for (entry, mark) in flight.entries.iter().zip(marks) {
            let ahead = |worker: u32| match (clock(worker), mark.clocks) {
                ("tai", clocks) => clocks.tai,
                ("realtime", clocks) => clocks.realtime,
                _ => 0,
            };
            match entry {
                Entry::Ran(ran) => {
                    let Some((task, number)) = tasks.get(&ran.task).copied() else { continue };
                    let Some(worker) = workers.get(&number).copied() else { continue };
                    self.workers[worker].did.push(did(ran, task, ahead(number)));
                    latest = Some((ran.task, ran.n, worker));
                }
                Entry::Missed(miss) => {
                    let Some((task, number)) = tasks.get(&miss.task).copied() else { continue };
                    let named = self.named(miss);
                    let (Place::Before(n) | Place::Overrun(n) | Place::After(n)) = miss.place else {
                        let Place::Unreported(first) = miss.place else { continue };
                        let at = first.map_or(mark.at, |first| first - ahead(number));
                        self.unreported.push((at, named, task));
                        continue;
                    };
                    let of_latest = latest.filter(|(task, tick, _)| (*task, *tick) == (miss.task, n));
                    let did = of_latest.and_then(|(.., worker)| self.workers[worker].did.last_mut());
                    match did.and_then(|did| did.tick.as_mut()) {
                        Some(tick) => tick.misses.push(named),
                        None => self.without_tick += miss.count,
                    }
                }
                Entry::Woke(woken) => {
                    let Some(worker) = workers.get(&woken.worker).copied() else { continue };
                    self.workers[worker].did.push(idle(woken, ahead(woken.worker)));
                }
                Entry::Mark(_) => {}
            }
        }
    }

    fn named(&self, miss: &Miss) -> TimelineMiss {
        let task = |number| self.tasks.iter().find(|task| task.number == number).map_or("?", |task| &task.name);
        let worker =
            |number| self.workers.iter().find(|worker| worker.number == number).map_or("?", |worker| &worker.name);
        let by = miss.by.map(|by| {
            let name = match by {
                By::Task(number) => task(number).to_owned(),
                By::Worker(number) => u32::try_from(number).map_or("?", worker).to_owned(),
                By::Program(program) => program.to_string(),
                By::Steal => "steal".into(),
                By::Interrupts => "interrupts".into(),
            };
            (by, name)
        });
        let which = match miss.place {
            Place::Before(_) => Which::SkippedBefore,
            Place::Overrun(_) => Which::Overrun,
            Place::After(_) => Which::SkippedAfter,
            Place::Unreported(_) => Which::Unreported,
        };
        TimelineMiss { which, cause: miss.cause.word(), by, count: miss.count, time: miss.time }
    }

    /// Collects events about the file and the set of tasks.
    fn note(&mut self, flight: &Flight) {
        let (mut lost, mut dropped) = (None, None);
        for entry in &flight.entries {
            let Entry::Mark(mark) = entry else { continue };
            let far = |one: &Clocks| (one.boottime - mark.clocks.boottime).abs() > 1_000;
            if self.clocks.last().is_none_or(|(_, before)| far(before)) {
                self.clocks.push((mark.at, mark.clocks));
            }
            for (before, now, what) in [
                (&mut lost, mark.lost, "records are missing here: the disk did not take them"),
                (&mut dropped, mark.dropped, "ticks are missing here: the metrics thread was too slow"),
            ] {
                let more = now - before.replace(now).unwrap_or(if flight.came_round { now } else { 0 }).min(now);
                if more > 0 {
                    self.notes.push((mark.at, format!("{more} {what}")));
                }
            }
        }
        let began = self.workers.iter().filter_map(|worker| worker.did.first()).map(|did| did.started).min();
        let who = &flight.who;
        let first = who.tasks.values().map(|task| task.at_ns).min();
        for task in who.tasks.values().filter(|task| Some(task.at_ns) > first && Some(task.at_ns) >= began) {
            self.notes.push((task.at_ns, format!("reload: task {} begins", task.name)));
        }
        for (number, at) in who.ended.iter().filter(|(_, at)| Some(**at) >= began) {
            let name = who.tasks.get(number).map_or("?", |task| &task.name);
            self.notes.push((*at, format!("reload: task {name} has ended")));
        }
        if let Some(mark) = flight.mark {
            let text = if mark.ended {
                "the run has ended"
            } else {
                "the file ends: what came later had not been handed over"
            };
            self.notes.push((mark.at, text.into()));
        }
    }

    /// The number of ticks, and of missed releases.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let ticks = || self.workers.iter().flat_map(|worker| &worker.did).filter_map(|did| did.tick.as_ref());
        let of_ticks: u64 = ticks().flat_map(|tick| &tick.misses).map(|miss| miss.count).sum();
        (ticks().count() as u64, of_ticks + self.unreported.iter().map(|(_, miss, _)| miss.count).sum::<u64>())
    }

    /// The first and the last instant of any worker's activity.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let first = self.workers.iter().filter_map(|worker| worker.did.first()).map(|did| did.started).min();
        let last = self.workers.iter().filter_map(|worker| worker.did.last()).map(|did| did.finished).max();
        first.zip(last)
    }

    /// Removes activity that ended before `from` or began after `to`. Ticks to blame for a remaining miss are kept.
    pub(crate) fn cut(&mut self, from: i64, to: i64) {
        let waited_since = |did: &Did| {
            let tick = did.tick.as_ref()?;
            let before = |miss: &TimelineMiss| {
                let count = i64::try_from(miss.count).unwrap_or(i64::MAX);
                tick.release.saturating_sub(count.saturating_mul(self.tasks[tick.task].period))
            };
            tick.misses.iter().map(before).min()
        };
        let all = self.workers.iter().flat_map(|worker| &worker.did);
        let within = all.filter(|did| did.finished >= from && did.started <= to);
        let from = within.filter_map(waited_since).min().unwrap_or(from).min(from);
        for worker in &mut self.workers {
            worker.did.retain(|did| did.finished >= from && did.started <= to);
        }
        self.unreported.retain(|(at, ..)| (from..=to).contains(at));
        self.notes.retain(|(at, _)| (from..=to).contains(at));
    }
}

/// For each entry, the mark of its batch. Entries after the last mark get the last mark.
fn marks_of(entries: &[Entry]) -> Vec<Mark> {
    let none = Mark { at: 0, lost: 0, dropped: 0, clocks: Clocks::default(), ended: false };
    let of = |entry: &Entry| if let Entry::Mark(mark) = entry { Some(*mark) } else { None };
    let mut next = entries.iter().rev().find_map(of).unwrap_or(none);
    let mut marks = Vec::with_capacity(entries.len());
    for entry in entries.iter().rev() {
        next = of(entry).unwrap_or(next);
        marks.push(next);
    }
    marks.reverse();
    marks
}

fn did(ran: &Ran, task: usize, ahead: i64) -> Did {
    let release = ran.release - ahead;
    let sleep = |sleep: Slept| (release + sleep.woke - sleep.oversleep, release + sleep.woke);
    Did {
        sleep: ran.sleep.map(sleep),
        after_loss: ran.after_loss,
        started: release.saturating_add(ran.lateness),
        finished: release.saturating_add(ran.response),
        tick: Some(TimelineTick {
            task,
            n: ran.n,
            release,
            overrun: ran.overrun,
            over_budget: ran.over_budget,
            failed: ran.failed,
            ended_task: ran.ended_task,
            misses: Vec::new(),
        }),
    }
}

fn idle(woken: &Woken, ahead: i64) -> Did {
    let sleep = woken.sleep.map(|(asked, woke)| (asked - ahead, woke - ahead));
    let ended = woken.ended - ahead;
    let started = sleep.map_or(ended, |(_, woke)| woke);
    Did { sleep, after_loss: woken.after_loss, started, finished: ended, tick: None }
}
