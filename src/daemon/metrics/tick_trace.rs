//! Logs each tick at level `trace`, on the metrics thread, which may block and allocate. Times come with the record.

use crate::channels::TickRecord;
use crate::metrics::{Metrics, Verdict, Verdicts};
use crate::time::Span;
use tracing::{Level, enabled, trace};

/// Logs a tick with the verdicts on its missed releases, if the log level allows it.
pub(crate) fn log(record: &TickRecord, verdicts: &Verdicts, metrics: &Metrics, worker: &str) {
    if !enabled!(Level::TRACE) {
        return;
    }
    let task = metrics.facts(record.task).map_or("?", |facts| &facts.name);
    let cause = |verdict: &Option<Verdict>| verdict.map(|verdict| verdict.cause.word());
    let by = |verdict: &Option<Verdict>| verdict.and_then(|verdict| verdict.by).map(|by| metrics.name_of(by));
    let Verdicts { before, overrun, after, .. } = verdicts;
    let text = |verdict: &Option<Verdict>, what: &str| {
        let Some(Verdict { count, .. }) = verdict else { return String::new() };
        let who = by(verdict).map_or(String::new(), |by| format!(" by {by}"));
        let number = if what == "overrun" { String::new() } else { format!("{count} ") };
        format!("; {number}{what}: {}{who}", cause(verdict).unwrap_or_default())
    };
    trace!(
        task,
        worker,
        tick = record.n,
        woke_ns = record.woke.nanos(),
        oversleep_ns = record.oversleep.map(Span::nanos),
        lateness_ns = record.lateness.nanos(),
        run_ns = record.run().nanos(),
        skipped_before = before.map(|verdict| verdict.count),
        cause_before = cause(before),
        by_before = by(before),
        cause = cause(overrun),
        by = by(overrun),
        skipped_after = after.map(|verdict| verdict.count),
        cause_after = cause(after),
        by_after = by(after),
        "{task}: tick {} started {} late and ran {}{}{}{}",
        record.n,
        record.lateness,
        record.run(),
        text(before, "skipped before it"),
        text(overrun, "overrun"),
        text(after, "skipped after it"),
    );
}
