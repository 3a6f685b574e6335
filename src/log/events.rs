//! Events as `tracing` lines: one line each, with every number in a field whose name ends in its unit. Allocates; reads no clock.

use super::{Message, Output, PanicEvent, missed};
use crate::metrics::{Cause, Event, EventKind, LateChain, Missed};
use crate::time::Span;
use tracing::{error, warn};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogOutput;

impl Output for LogOutput {
    fn event(&mut self, event: &Event<'_>) {
        let Event { task, worker, columns, kind } = event;
        let message_id = Message::of(kind).id();
        // The text names the task too, because `journalctl` shows nothing else.
        match kind {
            EventKind::Missed(missed) => {
                let Missed { overruns, skipped, due, within, worst, tick, oldest, age, .. } = missed;
                let main = missed.main();
                warn!(
                    message_id,
                    task,
                    worker,
                    tick = tick.map(|tick| tick.n),
                    lateness_ns = tick.map_or(*oldest, |tick| tick.lateness).nanos(),
                    run_ns = tick.map(|tick| tick.run.nanos()),
                    skipped,
                    overrun = overruns,
                    missed = missed.count(),
                    due,
                    within_ns = within.nanos(),
                    worst_ns = worst.nanos(),
                    age_ns = age.map(Span::nanos),
                    cause = main.map_or(Cause::Unknown, |share| share.cause).word(),
                    blocker = main.and_then(|share| share.by.as_deref()),
                    causes = missed::causes(missed),
                    "{}",
                    missed::sentence(task, missed)
                );
            }
            &EventKind::OverBudget { count, n, run } => warn!(
                message_id,
                task,
                worker,
                tick = n,
                run_ns = run.nanos(),
                over_budget = count,
                "{task}: budget exceeded: tick {n} ran {run}{}",
                since(count)
            ),
            EventKind::LateChain(late) => {
                let LateChain { count, n, age, max_latency, by } = late;
                warn!(
                    message_id,
                    task,
                    worker,
                    tick = n,
                    age_ns = age.nanos(),
                    max_latency_ns = max_latency.nanos(),
                    late_chains = count,
                    cause = LATE_CHAIN,
                    blocker = by,
                    "{}",
                    late_chain(task, late)
                );
            }
            &EventKind::OverLimit { count, n, ended } => {
                let follows = if ended { "the task is disabled" } else { "the task continues" };
                warn!(
                    message_id,
                    task,
                    worker,
                    tick = n,
                    times = count,
                    "{task}: too many overruns: tick {n} reached overrun-limit; {follows}"
                );
                if ended {
                    self.disabled(task, worker, n, "too many overruns");
                }
            }
            &EventKind::Failed { count, n, error } => {
                let (since, error) = (since(count), error.text(columns));
                warn!(message_id, task, worker, tick = n, errors = count, "{task}: tick {n} failed: {error}{since}");
            }
            &EventKind::Ended { n, error } => self.disabled(task, worker, n, &error.text(columns)),
        }
    }

    fn panicked(&mut self, panic: &PanicEvent<'_>) {
        let PanicEvent { task, worker, n, text, count, ended } = *panic;
        match ended {
            true => self.disabled(task, worker, n, text),
            false => {
                let message_id = Message::TaskFailed.id();
                warn!(message_id, task, worker, tick = n, errors = count, "{task}: {text}; the next tick runs");
            }
        }
    }

    fn dropped(&mut self, worker: &str, dropped: u64) {
        let message_id = Message::RecordsDropped.id();
        warn!(
            message_id,
            worker,
            dropped,
            "{worker}: {dropped} tick records dropped: the metrics thread did not keep up; leave a CPU without workers, or \
             lower the rates"
        );
    }
}

impl LogOutput {
    fn disabled(self, task: &str, worker: &str, n: u64, why: &str) {
        let message_id = Message::TaskDisabled.id();
        error!(message_id, task, worker, tick = n, "{task}: disabled at tick {n}: {why}");
    }
}

/// The cause in entries about late chains. It is not one of the causes of missed releases.
pub(crate) const LATE_CHAIN: &str = "late-chain";

/// `act: tick 41 used a measurement of board that was 31.0 ms old, above max-latency 20.0 ms (late-chain); see what board and …`
fn late_chain(task: &str, LateChain { count, n, age, max_latency, by }: &LateChain) -> String {
    let (of, see) = match by {
        Some(by) => (format!(" of {by}"), format!("see what {by} and the tasks after it missed")),
        None => (" of a task that has ended".into(), "see what the tasks before it missed".into()),
    };
    let others = since(*count);
    format!(
        "{task}: tick {n} used a measurement{of} that was {age} old, above max-latency {max_latency} ({LATE_CHAIN}); {see}, or raise \
         max-latency{others}"
    )
}

/// The end of a message that stands for several events.
fn since(count: u64) -> String {
    if count > 1 { format!("; {count} since the last message") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Entry;
    use crate::metrics::{LateTick, Share};
    use crate::task::TickError;
    use std::sync::{Arc, Mutex};
    use tracing::Subscriber;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<Entry>>>);

    impl<S: Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(Entry::of(event));
        }
    }

    #[test]
    fn every_event_has_its_id_and_the_fields_of_its_kind() {
        let error = TickError::new("gone");
        let tick = LateTick { n: 7, lateness: Span::from_micros(5), run: Span::from_millis(2) };
        let shares = vec![Share { cause: Cause::Blocked, by: Some("report".into()), count: 3 }];
        let overrun = Missed { overruns: 3, due: 9, tick: Some(tick), shares, ..Missed::default() };
        let kinds = [
            EventKind::Missed(Missed { skipped: 2, age: Some(Span::from_millis(30)), ..overrun.clone() }),
            EventKind::Missed(Missed { overruns: 0, skipped: 3, tick: None, ..overrun }),
            EventKind::OverBudget { count: 2, n: 5, run: Span::from_millis(4) },
            EventKind::LateChain(LateChain {
                count: 3,
                n: 41,
                age: Span::from_millis(31),
                max_latency: Span::from_millis(20),
                by: Some("board".into()),
            }),
            EventKind::OverLimit { count: 1, n: 6, ended: false },
            EventKind::OverLimit { count: 1, n: 6, ended: true },
            EventKind::Failed { count: 1, n: 8, error },
            EventKind::Ended { n: 9, error },
        ];
        let seen = Seen::default();
        let subscriber = tracing_subscriber::registry().with(seen.clone());
        tracing::subscriber::with_default(subscriber, || {
            let (task, worker) = ("imu", "main");
            for kind in &kinds {
                LogOutput.event(&Event { task, worker, columns: &[], kind: kind.clone() });
            }
            let text = "index out of bounds";
            LogOutput.panicked(&PanicEvent { task, worker, n: 7, text, count: 1, ended: true });
            LogOutput.dropped(worker, 5);
        });
        let mut expected = Vec::new();
        for kind in &kinds {
            expected.push(Message::of(kind));
            if let EventKind::OverLimit { ended: true, .. } = kind {
                expected.push(Message::TaskDisabled);
            }
        }
        expected.extend([Message::TaskDisabled, Message::RecordsDropped]);
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen.len(), expected.len());
        for (entry, message) in seen.iter().zip(expected) {
            let field = |name| entry.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value);
            assert_eq!(field("message_id"), Some(&message.id().into()), "{entry:?}");
            for name in message.fields() {
                assert!(field(name).is_some(), "{name} is missing: {entry:?}");
            }
        }
        let field =
            |at: usize, name| seen[at].fields.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
        assert_eq!([field(0, "age_ns"), field(1, "age_ns")], [Some(30_000_000.into()), None], "where a chain ends");
        for (at, overruns, skipped, tick) in [(0, 3, 2, Some(7_u64)), (1, 0, 3, None)] {
            assert_eq!((field(at, "overrun"), field(at, "skipped")), (Some(overruns.into()), Some(skipped.into())));
            assert_eq!(field(at, "missed"), Some((overruns + skipped).into()));
            assert_eq!(field(at, "tick"), tick.map(serde_json::Value::from));
            assert_eq!(field(at, "blocker"), Some("report".into()));
        }
        assert_eq!([field(3, "cause"), field(3, "blocker")], [Some("late-chain".into()), Some("board".into())]);
        let text = "act: tick 41 used a measurement of board that was 31.0 ms old, above max-latency 20.0 ms (late-chain); see what \
                    board and the tasks after it missed, or raise max-latency; 3 since the last message";
        let EventKind::LateChain(late) = &kinds[3] else { panic!("{kinds:?}") };
        assert_eq!(late_chain("act", late), text);
    }
}
