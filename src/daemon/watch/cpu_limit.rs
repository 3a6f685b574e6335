//! Finds the worker that has reached the limit of real-time CPU time without a sleep (RLIMIT_RTTIME; SIGXCPU): the kernel signals the
//! process without naming the thread.
//!
//! Main regularly notes each real-time worker's CPU time and number of sleeps. So it knows the CPU time used since the last sleep to within
//! a quarter of the limit. Time is an argument; reads `/proc`, does not block.

use crate::daemon::change::running::Running;
use crate::daemon::change::running_set::RunningSet;
use crate::log::Message;
use crate::sys::thread;
use crate::time::{Instant, Span};
use tracing::{error, info, warn};

/// Workers are checked at least this often.
const LOOK_EVERY: Span = Span::from_seconds(1);
/// And at most this often.
const LOOK_AT_MOST_EVERY: Span = Span::from_millis(5);

/// The limit, and main's last check of the workers.
#[derive(Debug)]
pub(crate) struct CpuLimit {
    limit: Option<Span>,
    looked: Instant,
}

impl CpuLimit {
    /// The limit that the process was started with, lowered if the kernel would kill the process at the same instant.
    pub(crate) fn of_this_process(now: Instant) -> Self {
        match thread::make_room() {
            Some((soft, hard, Ok(()))) => info!(
                "the soft RLIMIT_RTTIME is {soft} from now on: at the hard limit, {hard}, the kernel would kill hertzd; a worker that uses \
                 {soft} of processor time without a sleep loses its real-time policy before"
            ),
            Some((soft, hard, Err(reason))) => warn!(
                "the kernel kills hertzd when a real-time worker uses {hard} of processor time without a sleep (the hard RLIMIT_RTTIME), and \
                 the soft limit cannot be lowered to {soft}: {reason}; set it below the hard one: LimitRTTIME=SOFT:HARD"
            ),
            None => {}
        }
        Self { limit: thread::realtime_limit(), looked: now }
    }

    /// How often to call [`look`](Self::look); `None`: there is no limit.
    pub(crate) fn look_every(&self) -> Option<Span> {
        let quarter = Span::from_nanos(self.limit?.nanos() / 4);
        Some(quarter.clamp(LOOK_AT_MOST_EVERY, LOOK_EVERY))
    }

    /// Checks the workers, if that is due.
    pub(crate) fn look(&mut self, now: Instant, set: &mut RunningSet) {
        if self.look_every().is_none_or(|every| now - self.looked < every) {
            return;
        }
        self.looked = now;
        for running in realtime(set) {
            if let Some(usage) = thread::usage_of(running.worker.id()) {
                running.streak.look(usage);
            }
        }
    }

    /// Handles a reached limit: demotes the worker that has used most, so that the machine stays usable. The kernel has raised the limit by
    /// a second, so it is set back for the others.
    pub(crate) fn reached(&self, set: &mut RunningSet) {
        let used = realtime(set).filter_map(|running| {
            let (goes_on, used) = running.streak.used(thread::usage_of(running.worker.id())?);
            // A worker that has slept since the last check has used part of that time after its sleep.
            let far = self.limit.is_some_and(|limit| used + used >= limit);
            Some((goes_on && far, used, running))
        });
        match used.max_by_key(|(goes_on, used, _)| (*goes_on, *used)) {
            Some((_, used, running)) => demote(running, used),
            None => warn!("SIGXCPU: LimitRTTIME was exceeded, but no worker has a real-time policy any more"),
        }
        if let Some(limit) = self.limit
            && let Err(reason) = thread::set_realtime_limit(limit)
        {
            warn!("LimitRTTIME cannot be set back to {limit} for the other workers: {reason}");
        }
    }
}

/// The workers that the limit applies to.
fn realtime(set: &mut RunningSet) -> impl Iterator<Item = &mut Running> {
    set.all_mut().filter(|running| matches!(running.granted.policy, "fifo" | "rr") && !running.worker.is_finished())
}

fn demote(running: &mut Running, used: Span) {
    let (running_tick, demoted) = (running.running_tick(), thread::demote(running.worker.id()));
    if demoted.is_ok() {
        let granted = &mut running.granted;
        (granted.policy, granted.priority, granted.not_realtime) = ("other", 0, true);
    }
    let worker = &running.config.name;
    let follows = match demoted {
        Ok(()) => format!("worker {worker} runs at normal priority from now on, until it is restarted"),
        Err(reason) => format!("worker {worker} could not be demoted: {reason}"),
    };
    let (message_id, cpu_ns) = (Message::CpuLimit.id(), used.nanos());
    let why = format!("{used} of processor time without a sleep, more than LimitRTTIME allows");
    match running_tick {
        Some((id, n, lasting)) => {
            let (task, stalled_ns) = (running.task_name(id), lasting.nanos());
            let text =
                format!("{task}: tick {n} has kept its CPU busy for {lasting}; its worker has used {why}: {follows}");
            error!(message_id, task, worker, tick = n, stalled_ns, cpu_ns, "{text}");
        }
        None => {
            let text = format!("worker {worker} has used {why}, and is between two ticks: {follows}");
            error!(message_id, task = "none", worker, stalled_ns = 0, cpu_ns, "{text}");
        }
    }
}
