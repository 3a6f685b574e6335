//! What the judge of causes knows besides the records: the workers' threads, and what affected the process or the machine.
//!
//! Plain values that the metrics thread gathers. No clock is read here.

use super::cause::By;
use crate::time::{Instant, Span};

/// The index in [`Instants`] of this clock; releases are computed on one of the three.
pub(crate) const MONOTONIC: usize = 0;
/// Like [`MONOTONIC`].
pub(crate) const TAI: usize = 1;
/// Like [`MONOTONIC`].
pub(crate) const REALTIME: usize = 2;

/// One moment, on each of the clocks.
pub(crate) type Instants = [Instant; 3];

/// What the metrics know of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerFacts {
    pub clock: usize,                 // the clock of its releases: an index of `Instants`
    pub cpu: Option<usize>,           // the only processor it may run on
    pub priority: u8,                 // real-time priority; 0: none
    pub bandwidth: Option<Bandwidth>, // the limit on its processor time; `None`: no limit
}

/// A limit on processor time that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bandwidth {
    /// All real-time threads of a CPU together get `runtime` in each `period`.
    Shared { runtime: Span, period: Span },
    /// The thread itself has reserved `runtime` in each of its periods.
    Reserved { runtime: Span },
}

/// How certain it is that a stall affected the whole process, and not only the metrics thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// Every thread was affected.
    Certain,
    /// A sleep ended late, for no reason that the kernel counts: either the whole virtual machine paused, or only the processor that the
    /// thread slept on.
    Late,
    /// The thread gave up its processor while it wrote the log: either it was stopped, or it waited for the log's reader.
    Writing,
}

/// Something that affected the whole process: it was stopped or frozen, the machine slept or paused, or a clock was stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// It began after this moment.
    pub from: Instants,
    /// It was over by this moment.
    pub to: Instants,
    /// The minimum length. Zero: it certainly happened, but its length is unknown.
    pub least: Span,
    /// The maximum length.
    pub most: Span,
    /// How certain it is that the whole process was affected.
    pub certainty: Certainty,
}

/// Finds out who, apart from the other workers, took the processor from a worker.
pub(crate) trait Accuser {
    /// Who just kept the worker from `cpu` for `time`; `None` if there is no evidence against anyone. `priority` is the worker's real-time
    /// priority. `switched`: another thread ran. Otherwise, the kernel took the processor away without running another thread.
    fn who(&mut self, cpu: usize, priority: u8, time: Span, switched: bool) -> Option<By>;
}

/// Accuses no one.
pub(crate) struct NoAccuser;

impl Accuser for NoAccuser {
    fn who(&mut self, _: usize, _: u8, _: Span, _: bool) -> Option<By> {
        None
    }
}
