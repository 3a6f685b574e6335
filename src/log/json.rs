//! The log for programs: one JSON object per line, with every field under its name.
//!
//! Time comes with the entries. Writing may block if the reader of a pipe has stopped; hot threads never log.

use super::Entry;
use crate::escape::visible_json;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::Write;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Writes every event as one line of JSON: `time` (RFC 3339, UTC, microseconds), `level` (`error`, `warn`, `info`, `debug`, `trace`),
/// `message`, then the event's fields in their order. Numbers and booleans keep their type. One write per line.
#[derive(Debug)]
pub(crate) struct JsonLayer<F>(pub(crate) F);

/// `F` makes a writer for each line; it makes threads take turns.
impl<W: Write, F: Fn() -> W + 'static, S: Subscriber> Layer<S> for JsonLayer<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = Entry::of(event).json_line();
        // A failure to write the log cannot be reported anywhere.
        let _ = (self.0)().write_all(line.as_bytes());
    }
}

impl Entry {
    /// The entry as one line of JSON, with its line feed.
    pub(crate) fn json_line(&self) -> String {
        // An entry always serializes: keys are strings, and numbers that JSON lacks become null.
        visible_json(&serde_json::to_string(self).unwrap_or_default()).into_owned() + "\n"
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3 + self.fields.len()))?;
        map.serialize_entry("time", &self.rfc3339())?;
        map.serialize_entry("level", &self.level.as_str().to_ascii_lowercase())?;
        map.serialize_entry("message", &self.message)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Message;
    use crate::time::Instant;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing::Level;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_an_object_with_the_fields_as_they_are() {
        let written = Shared::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry().with(JsonLayer(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let (task, error) = ("im\"u\n", io::Error::other("gone"));
            tracing::warn!(
                task,
                message_id = Message::Overrun.id(),
                tick = u64::MAX,
                lateness_ns = -5,
                share = 0.5,
                odd = f64::NAN,
                wide = i128::MAX,
                narrow = 7_u128,
                late = true,
                cpus = ?[1, 2],
                error = &error as &dyn std::error::Error,
                "late by {}\u{e9}",
                "1 ms"
            );
            tracing::debug!("second");
            tracing::info!(n = 3);
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
            .collect();
        assert_eq!(lines.len(), 3, "{text}");
        let mut first = lines[0].clone();
        let time = first.as_object_mut().unwrap().remove("time").unwrap();
        assert_eq!(time.as_str().unwrap().len(), "2023-11-14T22:13:20.250000Z".len());
        let expected = serde_json::json!({
            "level": "warn", "message": "late by 1 msé", "task": "im\"u\n", "message_id": Message::Overrun.id(),
            "tick": u64::MAX, "lateness_ns": -5, "share": 0.5, "odd": null, "wide": i128::MAX.to_string(), "narrow": 7,
            "late": true, "cpus": "[1, 2]", "error": "gone"
        });
        assert_eq!(first, expected);
        assert_eq!((&lines[1]["level"], &lines[1]["message"]), (&"debug".into(), &"second".into()));
        assert_eq!((&lines[2]["n"], lines[2]["message"].is_string()), (&3.into(), true));
    }

    #[test]
    fn the_time_comes_first_in_utc_with_microseconds() {
        let entry =
            Entry { time: Instant::from_nanos(1_700_000_000_250_000_999), ..Entry::now(Level::ERROR, "over\nthere") };
        assert_eq!(
            entry.json_line(),
            "{\"time\":\"2023-11-14T22:13:20.250000Z\",\"level\":\"error\",\"message\":\"over\\nthere\"}\n"
        );
    }
}
