//! A task's input: a number, or a cell that holds the newest value of another task, with its age and quality. The task's own worker writes
//! the cells just before its tick. No clock is read; only the constructors allocate.

use super::quality::Quality;
use crate::time::{Instant, Span};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The stored origin of a row without one.
pub(super) const NO_ORIGIN: i64 = i64::MAX;

/// An input of a task: a number, or a value of another task. At each tick the input shows that task's newest row.
#[derive(Clone, Debug)]
pub struct Input {
    source: InputSource,
    cell: Arc<Cell>,
}

/// The source of an input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InputSource {
    /// Always this number.
    Number(f64),
    /// A value of another task.
    Value(ValueName),
}

/// Names a value of a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueName {
    /// The task.
    pub task: String,
    /// The value.
    pub value: String,
    /// `Some`: the link closes a cycle. It reads the row of the previous tick, and this number until a row exists.
    pub previous: Option<f64>,
}

impl ValueName {
    /// The name as it is written in a configuration.
    pub(crate) fn full(&self) -> String {
        format!("{}.{}", self.task, self.value)
    }
}

/// The data that a task reads. Only the task's own worker writes it, just before a tick.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Cell {
    value: AtomicU64,
    release: AtomicI64, // of the row; MIN: none
    origin: AtomicI64,  // MAX: none, as for a number
    looked: AtomicI64,  // start of the tick at which this was written
    quality: AtomicU64,
    spared: AtomicBool,   // set before the first tick
    acted_on: AtomicBool, // likewise
    last: OnceLock<Last>,
}

/// The last output of the task at the other end of a link that closes a cycle; NaN before the first one. It is written at that task's ticks
/// and outlives both tasks: an input that continues another one shares it.
#[derive(Clone, Debug)]
pub(super) struct Last(Arc<AtomicU64>);

impl Last {
    /// Stores an output. A value that is not finite replaces nothing, so a reader of such a link sees the previous value.
    pub(super) fn put(&self, value: f64) {
        if value.is_finite() {
            self.0.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    fn get(&self) -> Option<f64> {
        Some(f64::from_bits(self.0.load(Ordering::Relaxed))).filter(|value| value.is_finite())
    }
}

impl Default for Last {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(f64::NAN.to_bits())))
    }
}

impl Cell {
    /// Whether the task copes with a bad value here. It outputs nothing at ticks that need a good one.
    pub(super) fn is_spared(&self) -> bool {
        self.spared.load(Ordering::Relaxed)
    }

    /// Whether the task acts on the value, and its own values do not depend on what it is worth.
    pub(super) fn is_acted_on(&self) -> bool {
        self.acted_on.load(Ordering::Relaxed)
    }

    /// The last output, if the input closes a cycle.
    pub(super) fn last(&self) -> &Last {
        self.last.get_or_init(Last::default)
    }

    /// For a link that closes a cycle and has no row, or a newest row without a number: shows the last number that the producer made, if any.
    /// That may be from before a reload, or from a row that the consumer never saw. The release stays that of the row shown last.
    pub(super) fn lay_last(&self) {
        if let Some(last) = self.last.get().and_then(Last::get) {
            self.value.store(last.to_bits(), Ordering::Relaxed);
        }
    }

    /// Replaces the data that the task reads. `now` is the start of its tick; times are in nanoseconds.
    pub(super) fn lay(&self, value: u64, release: i64, origin: i64, quality: Quality, now: i64) {
        self.looked.store(now, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        self.release.store(release, Ordering::Relaxed);
        self.origin.store(origin, Ordering::Relaxed);
        self.quality.store(quality.code(), Ordering::Relaxed);
    }
}

impl Input {
    /// An input that is always this number.
    pub(crate) fn number(number: f64) -> Self {
        Self::new(InputSource::Number(number), number, Quality::Good)
    }

    /// An input that reads a value of another task.
    pub(crate) fn value_of(name: ValueName) -> Self {
        let (first, quality) = name.previous.map_or((f64::NAN, Quality::None), |first| (first, Quality::Good));
        Self::new(InputSource::Value(name), first, quality)
    }

    fn new(source: InputSource, value: f64, quality: Quality) -> Self {
        let cell = Cell {
            value: AtomicU64::new(value.to_bits()),
            release: AtomicI64::new(i64::MIN),
            origin: AtomicI64::new(NO_ORIGIN),
            looked: AtomicI64::new(0),
            quality: AtomicU64::new(quality.code()),
            spared: AtomicBool::new(false),
            acted_on: AtomicBool::new(false),
            last: OnceLock::new(),
        };
        Self { source, cell: Arc::new(cell) }
    }

    /// Declares that the task copes with a bad value here. At a tick that needs a good one, it outputs nothing. At other ticks it does
    /// without, and its outputs are not bad because of it. Call this while the task is built.
    #[must_use]
    #[doc(hidden)]
    pub fn spared(self) -> Self {
        self.cell.spared.store(true, Ordering::Relaxed);
        self
    }

    /// Declares that the task acts on the value. Its own values say what it has done, so they are good even while this one is bad. Call this
    /// while the task is built.
    #[must_use]
    pub(crate) fn acted_on(self) -> Self {
        self.cell.acted_on.store(true, Ordering::Relaxed);
        self
    }

    /// Makes an input that closes a cycle begin with the other task's last output before this task begins, instead of its initial number.
    /// `before` is the same input of the task that this one replaces. Call this before the link is made.
    pub(crate) fn goes_on_from(&self, before: &Self) {
        if matches!(&self.source, InputSource::Value(name) if name.previous.is_some()) && self.source == before.source {
            let _ = self.cell.last.set(before.cell.last().clone()); // already set if it is the same input
        }
    }

    /// The source of the input.
    pub(crate) fn source(&self) -> &InputSource {
        &self.source
    }

    pub(super) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// The value; `NaN` unless it is good or held.
    pub fn get(&self) -> f64 {
        if self.quality().is_usable() { f64::from_bits(self.cell.value.load(Ordering::Relaxed)) } else { f64::NAN }
    }

    /// Whether the value is above 0; `None` unless it is good or held.
    pub(crate) fn is_on(&self) -> Option<bool> {
        self.quality().is_usable().then(|| self.get() > 0.0)
    }

    /// The quality of the value at this tick.
    pub fn quality(&self) -> Quality {
        Quality::of_code(self.cell.quality.load(Ordering::Relaxed))
    }

    /// The release of the tick that produced the row; `None` for a number, and before the first row.
    pub(crate) fn release(&self) -> Option<Instant> {
        instant(self.cell.release.load(Ordering::Relaxed), i64::MIN)
    }

    /// Whether a value has ever come; a number always has.
    pub(crate) fn has_come(&self) -> bool {
        matches!(self.source, InputSource::Number(_)) || self.release().is_some()
    }

    /// The age of the value at the start of the task's tick. It counts from the release of the oldest sensor tick behind the value or,
    /// without a sensor, from the release of the row's tick. `None` for a number, and before the first row.
    pub fn age(&self) -> Option<Span> {
        let since = self.origin().or_else(|| self.release())?;
        Some(Instant::from_nanos(self.cell.looked.load(Ordering::Relaxed).into()) - since)
    }

    /// The release of the oldest sensor tick behind the value. `None` for a number and before the first row. Also `None` for a value by
    /// `previous`, which does not affect the age of what is computed from it.
    pub fn origin(&self) -> Option<Instant> {
        instant(self.cell.origin.load(Ordering::Relaxed), NO_ORIGIN)
    }
}

/// The instant, unless `nanos` is the marker `none`.
pub(super) fn instant(nanos: i64, none: i64) -> Option<Instant> {
    (nanos != none).then(|| Instant::from_nanos(nanos.into()))
}
