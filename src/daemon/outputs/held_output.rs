//! The summary of an output while another thread than its task holds the target. Reads only the guard's state; nothing waits.

use crate::safety::{Guard, HeldFor};
use crate::snapshot::{HeldSummary, TaskState, TaskSummary};
use crate::time::Instant;

/// Adds how long and why the target has been held, and what will end that. Also adds the value now in force, which the task cannot report.
pub(crate) fn show(task: &mut TaskSummary, guard: &Guard, now: Instant) {
    let Some((lasts, why)) = guard.held(now) else { return };
    let (is_safe, since_ns) = (guard.holds_safe_value(), lasts.nanos());
    let why = match (why, &task.state_reason) {
        (HeldFor::Still, Some(reason)) if task.state == TaskState::Stalled => {
            format!("its task does not tick: {reason}")
        }
        (HeldFor::Still, _) => {
            format!("its task had not ticked for {}: its worker hung, or got no processor time", guard.safe_after())
        }
        (HeldFor::Order, _) => {
            "all safe values were asked for: a worker had kept its CPU for too long, or hertzd ends".into()
        }
        (HeldFor::Owed, _) => "its task could not write it when it was disabled or ended".into(),
    };
    task.held = Some(Box::new(HeldSummary { is_safe, since_ns, why, ends: guard.ends().to_owned() }));
    let in_force = [("is-safe", Some(1.0)), ("applied", guard.safe_value())];
    for (name, value) in in_force.into_iter().filter(|_| is_safe) {
        if let (Some(shown), Some(value)) = (task.values.get_mut(name), value) {
            shown.replace(value, since_ns);
        }
    }
}
