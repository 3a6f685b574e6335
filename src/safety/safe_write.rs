//! How the safe value of one output is written, from any thread: what a kind of output provides. May block; time comes in as patience.

use super::planned_write::PlannedWrite;
use super::written::SETTINGS;
use crate::time::Span;
use std::fs::File;
use std::io;

/// Writes the safe value of one output, by descriptors and bytes of its own: any thread may call it at any time, also while the
/// worker is inside a write.
pub(crate) trait SafeWrite: Send + Sync {
    /// Writes it, once.
    ///
    /// # Errors
    /// What the kernel said.
    fn write_safe(&self) -> io::Result<()>;

    /// The same on a thread that has more to do: where word has to come that it was done, waits for that for as long as there is `patience`, and
    /// takes from it what was waited in vain.
    ///
    /// # Errors
    /// What the kernel said. `TimedOut`: no word has come.
    fn write_safe_within(&self, _patience: &mut Span) -> io::Result<()> {
        self.write_safe()
    }

    /// Waits until the target shows what was written, where it takes its time for that.
    ///
    /// # Errors
    /// It shows something else.
    fn confirm(&self) -> io::Result<()> {
        Ok(())
    }

    /// The raw number that this writes; NaN: there is none.
    fn number(&self) -> f64 {
        f64::NAN
    }

    /// The raw numbers that this gives the target's settings; NaN: there is none.
    fn settings(&self) -> [f64; SETTINGS] {
        [f64::NAN; SETTINGS]
    }

    /// The same, for another process that finds nothing open.
    fn plan(&self) -> Vec<PlannedWrite>;

    /// Whether only this process can write it: no plan says how.
    fn has_no_plan(&self) -> bool {
        false
    }

    /// What is written, for people, where the plan does not say it.
    fn shown(&self) -> String {
        String::new()
    }

    /// The same as [`plan`](Self::plan) without waiting for who is about to change it.
    fn plan_unless_locked(&self) -> Option<Vec<PlannedWrite>> {
        Some(self.plan())
    }

    /// The GPIO line, requested, if it is one.
    fn line(&self) -> Option<&File> {
        None
    }
}
