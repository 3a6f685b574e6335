//! What a worker's thread asks of the kernel and is granted, and its log. May block: a worker sets itself up on its own thread.

use super::failure::Failure;
use crate::config::WorkerConfig;
use crate::log::Message;
use crate::sys::thread::{Bandwidth, ThreadId};
use crate::worker::{Granted, Refusal, Worker};
use tracing::{info, warn};

/// Lets a worker set itself up, and logs each refusal once. Workers that are about to end will give back the bandwidth `freed`.
pub(super) fn set_up(
    worker: &Worker,
    asked: &WorkerConfig,
    not_locked: Option<&Refusal>,
    freed: Bandwidth,
) -> Result<Granted, Failure> {
    let mut granted = worker.set_up(freed).map_err(|reason| Failure::System("starting a worker", reason))?;
    if granted.not_realtime && asked.require_realtime {
        // The policy's refusal comes first.
        let Some(Refusal { what, reason, remedy, .. }) = granted.refused.first() else {
            unreachable!("it was refused")
        };
        let text = format!(
            "worker {}: {what} refused ({reason}), and require-realtime is set: nothing was started; {remedy}",
            asked.name
        );
        return Err(Failure::Permission(text));
    }
    report(&asked.name, worker.id(), &granted);
    // Logged once for all workers; the summary shows it with each.
    granted.refused.extend(not_locked.cloned());
    Ok(granted)
}

/// Logs what a worker was refused and what it was granted, unless it awaits that.
pub(super) fn report(worker: &str, thread: ThreadId, granted: &Granted) {
    for refusal in &granted.refused {
        warn!(message_id = Message::PrivilegeRefused.id(), worker, "{worker}: {refusal}");
    }
    let Granted { policy, priority, cpus, awaited, .. } = granted;
    if *awaited > Bandwidth::default() {
        info!(worker, "{worker}: its policy is granted once the workers that end have given back their bandwidth");
        return;
    }
    let shown = if *priority > 0 { format!(" {priority}") } else { String::new() };
    let thread = thread.number();
    info!(worker, thread, policy, priority, ?cpus, "{worker}: granted {policy}{shown}");
}
