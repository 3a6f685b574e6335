//! What the kernel counted for a worker's thread: the evidence that a missed release is explained by.
//!
//! No clock is read here; nothing blocks or allocates.

use crate::time::Span;

/// What happened to a worker's thread since the mark before: since it last went to sleep, or since the evidence before if
/// that is later.
///
/// Counts saturate. A sleep between two ticks is not counted among the voluntary switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Time since the mark during which the thread did not sleep between two ticks.
    pub awake: Span,
    /// Processor time used meanwhile; at least what it used since it woke up, at most some microseconds more. The time
    /// it was kept from the processor is `awake − cpu`.
    pub cpu: Span,
    /// How often it gave up the processor, by waiting for something in a tick.
    pub voluntary: u32,
    /// How often the kernel took the processor away from it.
    pub involuntary: u32,
    /// Pages that were mapped without reading a disk.
    pub minor_faults: u32,
    /// Pages that were read from a disk.
    pub major_faults: u32,
    /// All the time it was ever runnable but not running, up to now; `None`: the kernel does not say.
    pub run_queue: Option<Span>,
}

/// Where a worker's thread gets its evidence. Called on that thread. An implementation must not allocate or wait.
pub trait EvidenceSource: Send {
    /// Sets the mark that the next evidence counts from: the thread goes to sleep, and was `awake` since the mark before.
    /// `slept` is whether it slept between two ticks since then. One system call at most.
    fn mark(&mut self, awake: Span, slept: bool);

    /// The evidence since the mark, and a new mark. `slept` is whether the thread slept between two ticks since then. With
    /// `missed` it includes `Evidence::run_queue`, which costs another system call.
    fn take(&mut self, awake: Span, slept: bool, missed: bool) -> Evidence;
}
