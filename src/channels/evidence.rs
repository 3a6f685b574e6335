//! The kernel's counters for a worker's thread: the evidence that explains a missed release.
//!
//! No clock is read here; nothing blocks or allocates.

use crate::time::Span;

/// What happened to a worker's thread since the previous mark: since it last went to sleep, or since the previous evidence if that is
/// later.
///
/// Counts saturate. A sleep between two ticks does not count as a voluntary switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Time since the mark during which the thread did not sleep between two ticks.
    pub awake: Span,
    /// Processor time used in that time. At least what the thread used since it woke up, and at most some microseconds more. `awake − cpu`
    /// is the time it was kept off the processor.
    pub cpu: Span,
    /// How often it gave up the processor because it waited for something in a tick.
    pub voluntary: u32,
    /// How often the kernel took the processor away from it.
    pub involuntary: u32,
    /// Pages that were mapped without reading a disk.
    pub minor_faults: u32,
    /// Pages that were read from a disk.
    pub major_faults: u32,
    /// The total time the thread has ever been runnable but not running, up to now; `None` if the kernel does not report it.
    pub run_queue: Option<Span>,
}

/// The source of a worker's evidence. Called on that thread. An implementation must not allocate or wait.
pub trait EvidenceSource: Send {
    /// Sets the mark from which the next evidence counts. The thread goes to sleep and was `awake` since the previous mark. `slept`: it
    /// slept between two ticks since then. At most one system call.
    fn mark(&mut self, awake: Span, slept: bool);

    /// Takes the evidence since the mark, and sets a new mark. `slept`: the thread slept between two ticks since the mark. With `missed`
    /// the evidence includes `Evidence::run_queue`, which costs another system call.
    fn take(&mut self, awake: Span, slept: bool, missed: bool) -> Evidence;
}
