//! What the judge of causes knows beside the records: the workers' threads, and what befell the process or the machine.
//!
//! Plain values, which the metrics thread gathers. No clock is read here.

use super::cause::By;
use crate::time::{Instant, Span};

/// The clocks that releases may lie on, as indices of [`Instants`].
pub(crate) const MONOTONIC: usize = 0;
/// As [`MONOTONIC`].
pub(crate) const TAI: usize = 1;
/// As [`MONOTONIC`].
pub(crate) const REALTIME: usize = 2;

/// One moment, on each of the clocks.
pub(crate) type Instants = [Instant; 3];

/// What the metrics know of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerFacts {
    pub clock: usize,                 // of its releases: an index of `Instants`
    pub cpu: Option<usize>,           // the only one it may run on
    pub priority: u8,                 // real-time priority; 0: none
    pub bandwidth: Option<Bandwidth>, // the limit on its processor time; `None`: it has none
}

/// A limit on processor time that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bandwidth {
    /// All real-time threads of a CPU together get `runtime` in each `period`.
    Shared { runtime: Span, period: Span },
    /// The thread itself has reserved `runtime` in each of its periods.
    Reserved { runtime: Span },
}

/// How sure it is that something befell the whole process, and not the metrics thread alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// No thread escaped it.
    Certain,
    /// A sleep ended late, for no reason that the kernel counts: a pause of the whole virtual machine, or of the one processor
    /// that the thread slept on.
    Late,
    /// The thread gave up its processor while it wrote the log: for a stop, or to wait for the log's reader.
    Writing,
}

/// Something that befell the whole process: it was stopped or frozen, the machine slept or paused, a clock was stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// It began after this.
    pub from: Instants,
    /// It was over by then.
    pub to: Instants,
    /// It lasted at least this long. Zero: it is known to have happened, but not how long it was.
    pub least: Span,
    /// It lasted at most this long.
    pub most: Span,
    /// How sure that is.
    pub certainty: Certainty,
}

/// Finds out who took the processor from a worker, beside the other workers.
pub(crate) trait Accuser {
    /// Who kept the worker from `cpu` for `time` just now; `None`: there is no evidence against anyone. `priority` is the
    /// worker's real-time priority. With `switched` another thread ran; without, the kernel took the worker off for none.
    fn who(&mut self, cpu: usize, priority: u8, time: Span, switched: bool) -> Option<By>;
}

/// Accuses no one.
pub(crate) struct NoAccuser;

impl Accuser for NoAccuser {
    fn who(&mut self, _: usize, _: u8, _: Span, _: bool) -> Option<By> {
        None
    }
}
