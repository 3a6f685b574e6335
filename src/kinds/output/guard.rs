//! The safe value of each output, as others than its own task can write it: the thread that watches for workers that hang, main before
//! the process ends, and another process after it was killed.
//!
//! A write may block for as long as the device takes. A daemon takes the guards over from the thread that builds its tasks.

use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Writes the safe value of one output, by descriptors and bytes of its own: any thread may call it at any time, also while the
/// worker is inside a write.
pub(crate) trait SafeWrite: Send + Sync {
    /// Writes it, once.
    ///
    /// # Errors
    /// What the kernel said.
    fn write_safe(&self) -> io::Result<()>;

    /// The same, for another process that finds nothing open.
    fn plan(&self) -> Vec<PlannedWrite>;
}

/// One write that makes an output safe, in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "to")]
pub(crate) enum PlannedWrite {
    /// A file, which is written from its start.
    File {
        /// Resolved: what a name led to when the output was opened.
        path: PathBuf,
        /// A file beside it and what that holds, if that shows whether the path still leads to the same device.
        witness: Option<(PathBuf, String)>,
        /// What is written.
        text: String,
        /// It is cut off behind that: it is a regular file, and no attribute of a device.
        cut: bool,
    },
    /// The level of a GPIO line.
    Line {
        /// The chip's device file.
        chip: PathBuf,
        /// What the chip is called, if the device file still leads to the same one.
        label: String,
        /// Of the line, on its chip.
        offset: u32,
        /// That of the line itself, whatever counts as on.
        high: bool,
    },
    /// A register of a chip on an I²C bus.
    Register {
        /// The bus's device file.
        bus: PathBuf,
        /// A file that names the bus's adapter, and what that holds.
        adapter: Option<(PathBuf, String)>,
        /// The chip's.
        address: u8,
        /// It is written although a driver of the kernel has the address.
        force: bool,
        /// The register's number, and what is written there.
        bytes: Vec<u8>,
    },
}

/// One output, as others see it.
pub(crate) struct Guard {
    task: String,
    target: usize, // the same for the outputs of which one takes over from the other
    /// How long its worker may hang until its safe value is written.
    safe_after: Span,
    writer: Option<Box<dyn SafeWrite>>,
    tripped: AtomicBool,
    beats: AtomicU64, // ticks that its task has begun
}

thread_local! {
    /// Those of the outputs that were opened on this thread, until a daemon takes them.
    static OPENED: RefCell<Vec<Weak<Guard>>> = const { RefCell::new(Vec::new()) };
}

/// The guards of the outputs that were opened on this thread since this was last called.
pub(crate) fn opened() -> Vec<Weak<Guard>> {
    OPENED.take()
}

impl Guard {
    /// Guards the output of a task. Outputs with the same number for `target` have it one after the other. `None` in place of a writer: it keeps what it has, whatever happens.
    pub(crate) fn new(task: &str, target: usize, safe_after: Span, writer: Option<Box<dyn SafeWrite>>) -> Arc<Self> {
        let guard = Arc::new(Self {
            task: task.to_owned(),
            target,
            safe_after,
            writer,
            tripped: AtomicBool::new(false),
            beats: AtomicU64::new(0),
        });
        OPENED.with_borrow_mut(|opened| opened.push(Arc::downgrade(&guard)));
        guard
    }

    /// The name of its task.
    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    /// Whether the other one has taken over its target, or will: it was opened later.
    pub(crate) fn has_target_of(&self, other: &Self) -> bool {
        self.target == other.target
    }

    /// How long its worker may hang until its safe value is written.
    pub(crate) fn safe_after(&self) -> Span {
        self.safe_after
    }

    /// Shows that its task ticks. Only the task itself calls it, at each tick, after it was allowed to write.
    pub(crate) fn beat(&self) {
        self.beats.store(self.beats.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How often its task has ticked; 0: not yet.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Keeps the task from writing, and writes the safe value. May be called again, if it failed.
    ///
    /// # Errors
    /// What the kernel said; the task does not write all the same.
    pub(crate) fn trip(&self) -> io::Result<()> {
        self.tripped.store(true, Ordering::SeqCst);
        self.writer.as_ref().map_or(Ok(()), |writer| writer.write_safe())
    }

    /// Whether the task must not write. To be asked just before each write: one that has begun may still follow the safe value, which
    /// is why [`trip`](Self::trip) is called again a little later.
    pub(crate) fn is_tripped(&self) -> bool {
        self.tripped.load(Ordering::SeqCst)
    }

    /// Lets the task write again. Only the task itself calls it, when it has recovered.
    pub(crate) fn release(&self) {
        self.tripped.store(false, Ordering::SeqCst);
    }

    /// What another process would have to write.
    pub(crate) fn plan(&self) -> Vec<PlannedWrite> {
        self.writer.as_ref().map_or_else(Vec::new, |writer| writer.plan())
    }
}
