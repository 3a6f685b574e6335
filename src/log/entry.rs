//! One event with its fields, for the machine-readable formats.
//!
//! Its time is UTC, read from the kernel when the entry is made. Allocates; never blocks.

use crate::program::owned;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant};
use serde_json::Value;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// When it was logged, since 1970 in UTC.
    pub time: Instant,
    /// The severity.
    pub level: Level,
    /// The message, or without one the event's position in the source.
    pub message: String,
    /// All other fields, in their order.
    pub fields: Vec<(&'static str, Value)>,
    /// The source location of the log call.
    pub source: Option<(&'static str, u32)>,
}

impl Entry {
    /// An entry with the current time and no fields.
    pub(crate) fn now(level: Level, message: impl Into<String>) -> Self {
        Self { time: KernelClock::realtime().now(), level, message: message.into(), fields: Vec::new(), source: None }
    }

    pub(crate) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut entry = Self::now(*metadata.level(), "");
        entry.source = metadata.file().zip(metadata.line());
        event.record(&mut Taker(&mut entry));
        if entry.message.is_empty() {
            entry.message = metadata.name().into();
        }
        entry
    }

    /// Its time as RFC 3339, in UTC with microseconds.
    pub(crate) fn rfc3339(&self) -> String {
        let since_1970 = u64::try_from(self.time.nanos()).map_or(Duration::ZERO, Duration::from_nanos);
        humantime::format_rfc3339_micros(UNIX_EPOCH + since_1970).to_string()
    }
}

struct Taker<'a>(&'a mut Entry);

impl Taker<'_> {
    fn take(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.fields.push((field.name(), value.into()));
    }
}

impl Visit for Taker<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value);
    }

    // JSON readers hold at most 64 bits; wider numbers stay exact as text.
    fn record_i128(&mut self, field: &Field, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.take(field, value),
            Err(_) => self.take(field, value.to_string()),
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.take(field, value),
            Err(_) => self.take(field, value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.0.message = owned(value),
            _ => self.take(field, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
