//! Whether all is well, and who is told: the service manager, its watchdog, the log.
//!
//! Looked at by main, a few times a second at the least. Reads the workers' clocks; never waits for the metrics thread
//! for long, since a log that blocks must not keep the watchdog from being fed.

use super::stall::{Finding, Stall};
use super::{Daemon, GLANCE_EVERY, LOOK_EVERY, NUDGE_EVERY, clock};
use crate::log::Message;
use crate::metrics::Totals;
use crate::sys::clock::KernelClock;
use crate::sys::{notify, thread};
use crate::time::{Clock, Instant, Span};
use crate::worker::{Activity, Standing};
use std::time::Duration;
use tracing::{error, warn};

/// How often the service manager is told how it goes.
const STATUS_EVERY: Span = Span::from_seconds(2);

/// How long a tick may last before its task is named, without a watchdog.
const PATIENCE: Span = Span::from_seconds(10);

/// A start that takes longer than this waits for a release that lies far ahead, and is looked at less often.
const QUICK_START: Span = Span::from_seconds(1);

/// What has been told to the service manager, and when.
#[derive(Debug)]
pub(super) struct Told {
    watchdog: Option<Span>,
    fed: Instant,
    status: Instant,
    totals: Totals,
    pub(super) ready: bool,
}

impl Told {
    pub(super) fn nothing_yet(now: Instant) -> Self {
        let watchdog = notify::watchdog_interval();
        Self { watchdog, fed: now, status: now, totals: Totals::default(), ready: false }
    }

    /// How long a tick may last before it counts as stalled.
    pub(super) fn stalled_after(&self) -> Span {
        self.watchdog.map_or(PATIENCE, |interval| Span::from_nanos(interval.nanos() / 2))
    }
}

impl Daemon {
    /// How long to wait for something to happen before looking around.
    pub(super) fn patience(&self, stopping: bool, glance: bool) -> Duration {
        let starts = !self.told.ready && KernelClock::monotonic().now() - self.epoch < QUICK_START;
        let usual = if glance || !self.told.ready { GLANCE_EVERY } else { LOOK_EVERY };
        let watchdog = self.told.watchdog.map_or(LOOK_EVERY, quarter);
        let span = if stopping || starts { NUDGE_EVERY } else { usual.min(watchdog) };
        Duration::from_nanos(span.nanos().unsigned_abs())
    }

    /// Looks whether every worker advances; only then the watchdog hears of it.
    pub(super) fn supervise(&mut self) {
        let now = KernelClock::monotonic().now();
        if !self.told.ready && self.workers.iter().all(|running| running.worker.doing().ticks > 0) {
            self.told.ready = true;
            self.told.status = now;
            notify::ready(&self.health());
        }
        let patience = self.told.stalled_after();
        let mut all_advance = true;
        for index in 0..self.workers.len() {
            let clock = clock(self.config.workers[index].clock);
            let running = &mut self.workers[index];
            if running.worker.is_finished() {
                continue;
            }
            match running.watch.look(clock.now(), running.worker.doing(), patience) {
                Finding::Advances => {}
                Finding::StallsStill => all_advance = false,
                Finding::Stalls(stall) => {
                    all_advance = false;
                    self.tell_stall(index, stall);
                }
            }
        }
        if let (true, Some(interval)) = (all_advance, self.told.watchdog)
            && now - self.told.fed >= quarter(interval)
        {
            self.told.fed = now;
            notify::alive();
        }
        if now - self.told.status >= STATUS_EVERY {
            self.told.status = now;
            self.look_at_standings();
            match self.told.ready {
                true => notify::status(&self.health()),
                // The first release may lie as far ahead as a task's phase, or the next full hour of an aligned clock.
                false => notify::still_starting("waiting for the first release", Span::from_seconds(30)),
            }
        }
    }

    /// Looks whether somebody has changed what the workers were granted: `chrt`, `taskset`, a cgroup that lost a CPU.
    /// They run on; it is told, and shown from then on.
    fn look_at_standings(&mut self) {
        for (running, config) in self.workers.iter_mut().zip(&self.config.workers) {
            let id = running.worker.id();
            let (Ok(scheduled), Ok(cpus)) = (thread::scheduling_of(id), thread::affinity_of(id)) else { continue };
            let standing = &mut running.standing;
            if (standing.policy, standing.priority) == (scheduled.policy, scheduled.priority) && standing.cpus == cpus {
                continue;
            }
            (standing.policy, standing.priority, standing.cpus) = (scheduled.policy, scheduled.priority, cpus);
            let (worker, policy, priority) = (&config.name, standing.policy, standing.priority);
            let cpus = &standing.cpus;
            warn!(worker, policy, priority, ?cpus, "{worker}: what it was granted has been changed from outside");
        }
    }

    fn tell_stall(&self, index: usize, Stall { tick, lasting }: Stall) {
        let worker = &self.config.workers[index].name;
        let stalled_ns = lasting.nanos();
        let watchdog = match self.told.watchdog {
            Some(_) => "; the watchdog is not fed until it does",
            None => "",
        };
        let message_id = Message::Stalled.id();
        match tick {
            Some((id, n)) => {
                let task = self.name_of(id);
                error!(
                    message_id,
                    task,
                    worker,
                    tick = n,
                    stalled_ns,
                    "{task}: stalled, tick {n} has not returned for {lasting}{watchdog}"
                );
            }
            None => {
                error!(
                    message_id,
                    task = "none",
                    worker,
                    stalled_ns,
                    "worker {worker}: stalled, it should have woken up {lasting} ago{watchdog}"
                );
            }
        }
    }

    /// A worker has used too much processor time without a rest: the one that has been in its tick for longest is
    /// demoted, so that the machine stays usable.
    pub(super) fn cpu_limit(&mut self) {
        let longest = self.workers.iter().enumerate().filter_map(|(index, running)| {
            let Activity::Runs { task, n, since } = running.worker.doing().now else {
                return None;
            };
            // Only real-time threads are counted by that limit.
            if !matches!(running.standing.policy, "fifo" | "rr") {
                return None;
            }
            Some((clock(self.config.workers[index].clock).now() - since, index, task, n))
        });
        let Some((lasting, index, task, n)) = longest.max_by_key(|(lasting, ..)| *lasting) else {
            warn!("SIGXCPU: LimitRTTIME was exceeded, but no task is running any more");
            return;
        };
        let id = self.workers[index].worker.id();
        let task = self.name_of(task).to_owned();
        let worker = self.config.workers[index].name.clone();
        let (message_id, stalled_ns) = (Message::CpuLimit.id(), lasting.nanos());
        match thread::demote(id) {
            Ok(()) => {
                let standing = &mut self.workers[index].standing;
                (standing.policy, standing.priority, standing.not_realtime) = ("other", 0, true);
                error!(
                    message_id,
                    task,
                    worker,
                    tick = n,
                    stalled_ns,
                    "{task}: tick {n} has kept its CPU busy for {lasting}, longer than LimitRTTIME allows: \
                     worker {worker} runs at normal priority from now on, until it is restarted"
                );
            }
            Err(reason) => {
                error!(
                    message_id,
                    task,
                    worker,
                    tick = n,
                    stalled_ns,
                    "{task}: could not be demoted after SIGXCPU: {reason}"
                );
            }
        }
        notify::status(&self.health());
    }

    /// What has happened so far, as far as the metrics thread says so in time.
    pub(super) fn totals(&mut self) -> Totals {
        if let Some(totals) = self.collector.glimpse() {
            self.told.totals = totals;
        }
        self.told.totals
    }

    /// How it goes, in one line.
    pub(super) fn health(&mut self) -> String {
        self.totals();
        let Totals { ticks, overruns, skipped, errors, .. } = self.told.totals;
        let workers = self.workers.iter().zip(&self.config.workers).map(|(running, config)| {
            let Standing { policy, priority, .. } = running.standing;
            match priority {
                0 => format!("{} {policy}", config.name),
                priority => format!("{} {policy} {priority}", config.name),
            }
        });
        let workers = workers.collect::<Vec<_>>().join(", ");
        let tasks = self.config.tasks.len();
        let refused = if self.reloads.refused_last { "; the last reload was refused" } else { "" };
        format!(
            "{tasks} tasks on {workers}: {ticks} ticks, {overruns} overruns, {skipped} skipped, {errors} errors{refused}"
        )
    }

    /// The name of the task with this number.
    pub(super) fn name_of(&self, id: u32) -> &str {
        let index = self.ids.iter().position(|of| *of == id);
        index.map_or("?", |index| &self.config.tasks[index].name)
    }
}

fn quarter(interval: Span) -> Span {
    Span::from_nanos(interval.nanos() / 4)
}
