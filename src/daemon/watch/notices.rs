//! Checks that every worker advances, and reports to the service manager, its watchdog and the log.
//!
//! Main calls this, several times a second when it matters. Reads the workers' clocks. Waits for no other thread, so a log that blocks does
//! not stop the watchdog from being fed.

use super::clock::ClockStep;
use super::stall::{Entry, Finding, Looks, Stall, StallLooks};
use crate::daemon::change::running::Running;
use crate::daemon::change::running_set::RunningSet;
use crate::log::Message;
use crate::sys::clock::KernelClock;
use crate::sys::thread::helper::Death;
use crate::sys::{notify, thread};
use crate::time::{Clock, Instant, Span};
use crate::worker::Granted;
use tracing::{error, warn};

/// How often the service manager gets a status line.
const STATUS_EVERY: Span = Span::from_seconds(1);

/// How long a tick may last before its task is reported, if there is no watchdog.
const PATIENCE: Span = Span::from_seconds(10);

/// The service manager, and what was last reported to it.
#[derive(Debug)]
pub(crate) struct ServiceNotices {
    watchdog: Option<Span>,
    fed: Instant,
    status: Instant,
    looks: Looks,
    started: bool, // it was ready once
    pub(crate) ready: bool,
}

impl ServiceNotices {
    pub(crate) fn new() -> Self {
        let now = KernelClock::monotonic().now();
        let looks = Looks::beginning(now);
        Self { watchdog: notify::watchdog_interval(), fed: now, status: now, looks, started: false, ready: false }
    }

    /// How long a tick may last before it counts as stalled.
    pub(crate) fn stalled_after(&self) -> Span {
        self.watchdog.map_or(PATIENCE, |interval| Span::from_nanos(interval.nanos() / 2))
    }

    /// How often to feed the watchdog; `None`: there is none.
    pub(crate) fn feed_every(&self) -> Option<Span> {
        self.watchdog.map(|interval| Span::from_nanos(interval.nanos() / 4))
    }

    /// Main's checks of the workers.
    pub(crate) fn looks(&self) -> Looks {
        self.looks
    }

    /// Checks that every worker advances, after main meant to wait at most `wait`. Feeds the watchdog only if all do. `status` builds the
    /// status line. Returns why the start has failed.
    pub(crate) fn look(
        &mut self,
        set: &mut RunningSet,
        wait: Span,
        status: impl Fn(&RunningSet) -> String,
    ) -> Option<String> {
        let now = KernelClock::monotonic().now();
        notify::retry();
        if let Some(gap) = self.looks.look(now, wait, self.stalled_after()) {
            warn!(
                gap_ns = gap.nanos(),
                "hertzd had no processor time for at least {gap}: it was stopped (SIGSTOP, a frozen cgroup, a paused machine), or other \
                 programs used all of it; stalls are measured from now on"
            );
        }
        if !self.ready && set.has_ticked() {
            self.ready(&status(set), now);
        }
        let (patience, watched) = (self.stalled_after(), self.looks.watched());
        let (mut all_advance, mut failed) = (true, None);
        for running in set.all_mut().filter(|running| running.began.is_some() && !running.worker.is_finished()) {
            if let Some(step) = running.follow_clock(now) {
                report_step(running, step);
            }
            let doing = running.worker.doing();
            let finding = running.watch.look(now, doing, watched, patience);
            let shown = running.stall(StallLooks { watched, patience });
            match running.watch.entry(now, doing, shown, patience) {
                None => {}
                Some(Entry::Begins(stall)) => report_stall(running, stall, self.watchdog.and(Some(patience))),
                Some(Entry::Ends(stall)) => report_end_of_stall(running, stall),
            }
            match finding {
                Finding::Advances => {}
                Finding::StallsStill => all_advance = false,
                Finding::Stalls(stall) => {
                    all_advance = false;
                    if !self.started && doing.ticks == 0 {
                        failed = Some(format!("the start failed: {}", what_stalls(running, stall)));
                    }
                }
            }
        }
        if let (true, Some(every)) = (all_advance, self.feed_every())
            && now - self.fed >= every
        {
            self.fed = now;
            notify::alive();
        }
        if now - self.status >= STATUS_EVERY {
            self.status = now;
            // The kernel may reuse the number of a thread that has ended.
            let granted = |running: &&mut Running| running.began.is_some() && !running.worker.is_finished();
            set.all_mut().filter(granted).for_each(check_grant);
            // A sentence about ten thousand tasks takes milliseconds.
            if notify::is_heard() {
                let status = status(set);
                // The first release may be a task's phase away, or wait for an aligned clock's next full hour.
                match !self.ready && set.epoch.is_some() && all_advance {
                    true => notify::extend_timeout(&status, Span::from_seconds(30)),
                    false => notify::status(&status),
                }
            }
        }
        failed
    }

    /// A change is complete. The service is ready once every worker has run a tick.
    pub(crate) fn changed(&mut self, set: &RunningSet, status: &str) {
        self.ready = set.has_ticked();
        if self.ready {
            self.ready(status, KernelClock::monotonic().now());
        }
    }

    /// The service stops. The watchdog is no longer fed: the manager has disarmed it, and feeding would arm it again.
    pub(crate) fn stopping(&mut self) {
        self.watchdog = None;
        notify::stopping();
    }

    fn ready(&mut self, status: &str, now: Instant) {
        (self.ready, self.started) = (true, true);
        self.status = now;
        notify::ready(status);
    }
}

/// Checks whether a worker's grant was changed from outside: by `chrt`, `taskset`, or a cgroup that lost a CPU. The worker continues; the
/// change is logged, and shown from then on.
fn check_grant(running: &mut Running) {
    let id = running.worker.id();
    let (Ok(scheduled), Ok(cpus)) = (thread::scheduling_of(id), thread::affinity_of(id)) else { return };
    let granted = &mut running.granted;
    if (granted.policy, granted.priority) == (scheduled.policy, scheduled.priority) && granted.cpus == cpus {
        return;
    }
    (granted.policy, granted.priority, granted.cpus) = (scheduled.policy, scheduled.priority, cpus);
    let Granted { policy, priority, cpus, .. } = granted;
    let worker = &running.config.name;
    warn!(worker, policy, priority, ?cpus, "{worker}: policy, priority or CPUs were changed from outside");
}

fn report_step(running: &Running, ClockStep { by, count, .. }: ClockStep) {
    let (worker, clock) = (&running.config.name, running.config.clock.word());
    let times = if count > 1 { format!(" in {count} steps") } else { String::new() };
    let (step_ns, message_id) = (by.nanos(), Message::ClockStepped.id());
    let (length, direction, effect) = if by < Span::ZERO {
        (-by, "back", "its tasks continue on the new time")
    } else {
        (by, "forward", "the releases in between are missed, except those that a task's overrun policy keeps")
    };
    warn!(
        message_id,
        worker,
        clock,
        step_ns,
        "worker {worker}: its clock, {clock}, was stepped {direction} by {length}{times}; {effect}"
    );
}

/// Logs a new stall. With a watchdog, also says that it is not fed once the stall is longer than `patience`.
fn report_stall(running: &Running, Stall { tick, lasting }: Stall, patience: Option<Span>) {
    let worker = &running.config.name;
    let stalled_ns = lasting.nanos();
    let watchdog = match patience {
        Some(patience) if lasting > patience => "; the watchdog is not fed until it does".into(),
        Some(patience) => format!("; after {patience} the watchdog is not fed until it does"),
        None => String::new(),
    };
    let message_id = Message::Stalled.id();
    match tick {
        Some((id, n)) => {
            let task = running.task_name(id);
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

/// Logs the end of a stall. It ended before this check, so `lasting` is an upper bound.
fn report_end_of_stall(running: &Running, Stall { tick, lasting }: Stall) {
    let (worker, stalled_ns) = (&running.config.name, lasting.nanos());
    match tick {
        Some((id, n)) => {
            let task = running.task_name(id);
            warn!(
                task,
                worker,
                tick = n,
                stalled_ns,
                "{task}: tick {n}, which was stalled, has returned after {lasting} at the most"
            );
        }
        None => warn!(worker, stalled_ns, "worker {worker}, which was stalled, woke up {lasting} late at the most"),
    }
}

fn what_stalls(running: &Running, Stall { tick, lasting }: Stall) -> String {
    match tick {
        Some((id, n)) => running.not_returned((id, n, lasting)),
        None => format!("worker {} should have woken up {lasting} ago", running.config.name),
    }
}

/// Logs that a helper thread has died. Returns the fault that ends the run.
pub(crate) fn report_death(Death { thread, text }: &Death) -> String {
    let fault = format!("the thread {thread} {text}; please report this");
    error!(thread, "{fault}; the workers are stopped");
    fault
}
