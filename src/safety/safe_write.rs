//! The interface through which a kind of output writes its safe value, from any thread. May block; time comes in as patience.

use super::planned_write::PlannedWrite;
use super::written::SETTINGS;
use crate::time::Span;
use std::fs::File;
use std::io;

/// Writes the safe value of one output through its own descriptors and bytes: any thread may call it at any time, even while the worker is
/// inside a write.
pub(crate) trait SafeWrite: Send + Sync {
    /// Writes the safe value once.
    ///
    /// # Errors
    /// The kernel's error.
    fn write_safe(&self) -> io::Result<()>;

    /// Like [`write_safe`](Self::write_safe), on a thread that has more to do. If the write needs a confirmation, waits for it up to
    /// `patience`, and subtracts the time waited in vain.
    ///
    /// # Errors
    /// The kernel's error. `TimedOut`: no confirmation arrived.
    fn write_safe_within(&self, _patience: &mut Span) -> io::Result<()> {
        self.write_safe()
    }

    /// Waits until the target shows what was written, if that takes time.
    ///
    /// # Errors
    /// The target shows something else.
    fn confirm(&self) -> io::Result<()> {
        Ok(())
    }

    /// The raw number that this writes; NaN: none.
    fn number(&self) -> f64 {
        f64::NAN
    }

    /// The raw numbers that this writes to the target's settings; NaN: none.
    fn settings(&self) -> [f64; SETTINGS] {
        [f64::NAN; SETTINGS]
    }

    /// The same writes, for another process that has nothing open.
    fn plan(&self) -> Vec<PlannedWrite>;

    /// Whether only this process can write the safe value, because no plan can describe it.
    fn has_no_plan(&self) -> bool {
        false
    }

    /// Describes the write for people where the plan does not.
    fn shown(&self) -> String {
        String::new()
    }

    /// Like [`plan`](Self::plan), without waiting. `None`: another thread is changing the plan.
    fn plan_unless_locked(&self) -> Option<Vec<PlannedWrite>> {
        Some(self.plan())
    }

    /// The requested GPIO line, if the target is one.
    fn line(&self) -> Option<&File> {
        None
    }
}
