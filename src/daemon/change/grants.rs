//! What a worker's thread asks of the kernel, what it is granted, and the log of both. May block: it waits for the worker's thread to set
//! itself up.

use crate::config::WorkerConfig;
use crate::daemon::failure::Failure;
use crate::log::Message;
use crate::sys::grant::{self, Privilege};
use crate::sys::memory::{self, Locked};
use crate::sys::thread::{Bandwidth, ThreadId};
use crate::worker::{Granted, Refusal, Worker};
use tracing::{info, warn};

/// Locks this process's memory.
pub(crate) fn lock_memory() -> Result<Locked, Refusal> {
    memory::lock().map_err(|reason| {
        let remedy = grant::remedy(Privilege::LockedMemory);
        Refusal::new("locked memory", &reason, "page faults may delay ticks", remedy)
    })
}

/// Lets a worker set itself up. Workers that are about to end will give back the bandwidth `freed`.
pub(crate) fn set_up(worker: &Worker, asked: &WorkerConfig, freed: Bandwidth) -> Result<Granted, Failure> {
    let granted = worker.set_up(freed).map_err(|reason| Failure::System("starting a worker", reason))?;
    match lacks_required(asked, &granted) {
        Some(text) => Err(Failure::Permission(text)),
        None => {
            report(&asked.name, worker.id(), &granted);
            Ok(granted)
        }
    }
}

/// Why a worker must not run: it requires a real-time policy and was not granted it.
pub(super) fn lacks_required(asked: &WorkerConfig, granted: &Granted) -> Option<String> {
    // The policy's refusal comes first.
    let Refusal { what, reason, remedy, .. } =
        granted.refused.first().filter(|_| granted.not_realtime && asked.require_realtime)?;
    Some(format!("worker {}: {what} refused ({reason}), and require-realtime is set; {remedy}", asked.name))
}

/// Logs each refusal once, with the names of all workers it affects. Refused memory locking was logged before; it is only added to each
/// worker, for the summary.
pub(super) fn report_refused<'a>(
    workers: impl Iterator<Item = (&'a str, &'a mut Granted)>,
    not_locked: Option<&Refusal>,
) {
    let mut refused: Vec<(String, Vec<&str>)> = Vec::new();
    for (worker, granted) in workers {
        for refusal in granted.refused.iter().map(ToString::to_string) {
            match refused.iter_mut().find(|(known, _)| *known == refusal) {
                Some((_, workers)) => workers.push(worker),
                None => refused.push((refusal, vec![worker])),
            }
        }
        granted.refused.extend(not_locked.cloned());
    }
    for (refusal, workers) in refused {
        let worker = workers.join(", ");
        warn!(message_id = Message::PrivilegeRefused.id(), worker, "{worker}: {refusal}");
    }
}

/// Logs what a worker was granted, unless its grant is still pending.
pub(crate) fn report(worker: &str, thread: ThreadId, granted: &Granted) {
    let Granted { policy, priority, cpus, awaited, .. } = granted;
    if *awaited > Bandwidth::default() {
        info!(worker, "{worker}: its policy is granted once the workers that end have given back their bandwidth");
        return;
    }
    let shown = if *priority > 0 { format!(" {priority}") } else { String::new() };
    let thread = thread.number();
    info!(worker, thread, policy, priority, ?cpus, "{worker}: granted {policy}{shown}");
}
