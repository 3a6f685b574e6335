//! What a task takes its values by: a number, or a cell in which it finds the latest value of another task, with its age and its
//! quality. Cells are written by the task's own worker just before its tick. No clock is read; only the constructors allocate.

use crate::time::{Instant, Span};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// In place of the origin of a row that has none.
pub(super) const NO_ORIGIN: i64 = i64::MAX;

/// What a value is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// It was read, and everything that it was computed from as well.
    Good,
    /// It was not: an error, a number that is not finite, one outside its valid range, or one computed from such.
    Bad,
    /// It was good, and its origin is too long ago.
    Stale,
    /// No row has come yet.
    Missing,
}

/// A value that a task takes: a number, or a value of another task, of which it sees the latest row at each tick.
#[derive(Clone, Debug)]
pub struct Input {
    source: InputSource,
    cell: Arc<Cell>,
}

/// Where an input comes from.
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
    /// The row of its tick before is meant, and this number until there is one: the link that closes a cycle.
    pub previous: Option<f64>,
}

/// What a task reads: written by its own worker only, just before its tick.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Cell {
    value: AtomicU64,
    release: AtomicI64, // of the row; MIN: none
    origin: AtomicI64,  // MAX: none, as of a number
    looked: AtomicI64,  // when the task's tick began at which it was laid here
    quality: AtomicU64,
    spared: AtomicBool, // set before the first tick
    last: OnceLock<Last>,
}

/// What the task at the other end of a link that closes a cycle has output last; NaN: nothing yet. Written at its ticks, it outlives both tasks:
/// an input that continues from another one has the same.
#[derive(Clone, Debug)]
pub(super) struct Last(Arc<AtomicU64>);

impl Last {
    /// This was output. What is no finite number replaces nothing: who takes it by such a link sees what was before.
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
    /// Its task outputs nothing where it would need this and it is not good.
    pub(super) fn is_spared(&self) -> bool {
        self.spared.load(Ordering::Relaxed)
    }

    /// The last output, if it closes a cycle.
    pub(super) fn last(&self) -> &Last {
        self.last.get_or_init(Last::default)
    }

    /// Before the first row of a link that closes a cycle: the last output before a reload, if there was one, in place of the first number. It
    /// has no release, so that whoever looks for that sees that no row has come.
    pub(super) fn lay_last(&self) {
        if let Some(last) = self.last.get().and_then(Last::get) {
            self.value.store(last.to_bits(), Ordering::Relaxed);
        }
    }

    /// Whether a row has come since the task began.
    pub(super) fn has_come(&self) -> bool {
        instant(self.release.load(Ordering::Relaxed), i64::MIN).is_some()
    }

    /// Replaces what the task reads, at the start `now` of its tick; times in nanoseconds.
    pub(super) fn lay(&self, value: u64, release: i64, origin: i64, quality: Quality, now: i64) {
        self.looked.store(now, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        self.release.store(release, Ordering::Relaxed);
        self.origin.store(origin, Ordering::Relaxed);
        self.quality.store(quality.to_word(), Ordering::Relaxed);
    }
}

impl Input {
    /// Always this number.
    pub(crate) fn number(number: f64) -> Self {
        Self::new(InputSource::Number(number), number, Quality::Good)
    }

    /// A value of another task.
    pub(crate) fn value_of(name: ValueName) -> Self {
        let (first, quality) = name.previous.map_or((f64::NAN, Quality::Missing), |first| (first, Quality::Good));
        Self::new(InputSource::Value(name), first, quality)
    }

    fn new(source: InputSource, value: f64, quality: Quality) -> Self {
        let cell = Cell {
            value: AtomicU64::new(value.to_bits()),
            release: AtomicI64::new(i64::MIN),
            origin: AtomicI64::new(NO_ORIGIN),
            looked: AtomicI64::new(0),
            quality: AtomicU64::new(quality.to_word()),
            spared: AtomicBool::new(false),
            last: OnceLock::new(),
        };
        Self { source, cell: Arc::new(cell) }
    }

    /// Says that the task itself outputs nothing at a tick at which it would need this and it is not good. At others it does without, and what
    /// it outputs is not bad for it. To be called while the task is built.
    #[must_use]
    #[doc(hidden)]
    pub fn spared(self) -> Self {
        self.cell.spared.store(true, Ordering::Relaxed);
        self
    }

    /// Where it closes a cycle, it begins with what the task at the other end outputs last before this one begins, and not with its first number.
    /// `before`: that of the task in whose place this one's comes. To be called before it is linked.
    pub(crate) fn goes_on_from(&self, before: &Self) {
        if matches!(&self.source, InputSource::Value(name) if name.previous.is_some()) && self.source == before.source {
            let _ = self.cell.last.set(before.cell.last().clone()); // of the same input it is set
        }
    }

    /// Where it comes from.
    pub(crate) fn source(&self) -> &InputSource {
        &self.source
    }

    pub(super) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// The value; `NaN` unless its quality is good.
    pub fn get(&self) -> f64 {
        match self.quality() {
            Quality::Good => f64::from_bits(self.cell.value.load(Ordering::Relaxed)),
            _ => f64::NAN,
        }
    }

    /// Whether it is above 0; `None` unless its quality is good.
    pub(crate) fn is_on(&self) -> Option<bool> {
        (self.quality() == Quality::Good).then(|| self.get() > 0.0)
    }

    /// What it is worth at this tick.
    pub fn quality(&self) -> Quality {
        Quality::of_word(self.cell.quality.load(Ordering::Relaxed))
    }

    /// The release of the tick that its row is of; `None` for a number, and before the first row.
    pub(crate) fn release(&self) -> Option<Instant> {
        instant(self.cell.release.load(Ordering::Relaxed), i64::MIN)
    }

    /// How old it is at the start of the task's tick: since the release of the oldest tick of a sensor behind it or, if there is no sensor, of the
    /// tick that its row is of. `None` for a number, and before the first row.
    pub fn age(&self) -> Option<Span> {
        let since = self.origin().or_else(|| self.release())?;
        Some(Instant::from_nanos(self.cell.looked.load(Ordering::Relaxed).into()) - since)
    }

    /// The release of the oldest tick of a sensor behind it; `None` for a number, for a value by `previous`,
    /// which counts for nothing that is made of it, and before the first row.
    pub fn origin(&self) -> Option<Instant> {
        instant(self.cell.origin.load(Ordering::Relaxed), NO_ORIGIN)
    }
}

impl Quality {
    const fn to_word(self) -> u64 {
        self as u64
    }

    const fn of_word(word: u64) -> Self {
        match word {
            0 => Self::Good,
            1 => Self::Bad,
            2 => Self::Stale,
            _ => Self::Missing,
        }
    }
}

/// The instant, unless it stands for none.
pub(super) fn instant(nanos: i64, none: i64) -> Option<Instant> {
    (nanos != none).then(|| Instant::from_nanos(nanos.into()))
}
