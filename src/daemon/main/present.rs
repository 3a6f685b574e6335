//! The current state of the running set: its summary, and the one sentence about it. Time is an argument; never blocks.

use super::condition::{self, Glance};
use super::ending::Ending;
use super::reloads::Reloads;
use super::summary::{self, Sources};
use crate::daemon::change::cool_cpus::CoolCpus;
use crate::daemon::change::running_set::{RunningSet, Threads};
use crate::daemon::metrics::metrics_thread::View;
use crate::daemon::metrics::views::Views;
use crate::daemon::watch::stall::StallLooks;
use crate::log::lines;
use crate::snapshot::{Summary, TaskSummary};
use crate::sys::host::Host;
use crate::time::Instant;

/// The running set's summary at `now`, from the last view of the metrics, with the tasks that `keep` selects, and the one sentence about
/// it. For the sentence alone, the troubled tasks are enough.
#[expect(clippy::too_many_arguments, reason = "parts of the daemon, of which its callers hold others")]
pub(crate) fn present(
    host: &Host,
    set: &RunningSet,
    threads: &Threads,
    cool: &CoolCpus,
    views: &Views,
    looks: StallLooks,
    faults: &[String],
    (reloads, ending): (&Reloads, &Ending),
    now: Instant,
    keep: impl Fn(&TaskSummary) -> bool,
) -> (Summary, String) {
    let (none, outputs) = (View::default(), threads.recorder.outputs());
    let (view, asked) = views.latest().unwrap_or((&none, now));
    let memory_locked = threads.builder.memory_locked();
    let mut glance = Glance::default();
    let sources = Sources { host, set, memory_locked, view, outputs: &outputs, now };
    let mut summary = summary::of_set(&sources, Some(looks), |task| {
        glance.add(task);
        keep(task)
    });
    summary.flight = threads.flight.summary();
    summary.guard = threads.guard.summary().map(Box::new);
    threads.guard.show_held(&mut summary.tasks, now);
    summary.cool_threads = cool.summary().map(Box::new);
    summary.object(faults.iter().cloned());
    summary.object(threads.guard.troubles());
    summary.object(threads.builder.plan_trouble());
    summary.object(threads.builder.owed());
    summary.object(threads.builder.not_dealt_with());
    summary.readbacks = threads.guard.readbacks().summary(&summary::names(set), now);
    summary.object(threads.guard.readbacks().troubles(now));
    summary.object(set.troubles());
    summary.object(lines::trouble(now));
    if views.are_late(now) {
        summary.object([format!("the metrics thread is delayed: the counts are {} old", now - asked)]);
    }
    let refused = if reloads.refused_last { "; the last reload was refused" } else { "" };
    let shadow = if set.is_shadow { "; SHADOW RUN: no output writes anything" } else { "" };
    let ends = ending.status(now, set);
    // A start that is being stopped waits for nothing.
    let starting = || condition::starting(set, threads.builder.busy(), now);
    let starting = if ending.is_stopping() { None } else { starting() };
    let sentence = condition::sentence(&summary, glance, starting) + shadow + refused + &ends;
    (summary, sentence)
}
