//! Whether everything that was asked for happened, judged from a summary. Arithmetic and text: nothing blocks, no clock is
//! read.
//!
//! `well` is false exactly where there is a `reason`.

use super::Summary;

/// What a run has failed to do so far: a clause for each, without a full stop; empty if all is well.
pub(crate) fn trouble(summary: &Summary) -> Vec<String> {
    let mut clauses = Vec::new();
    for task in &summary.tasks {
        let name = &task.task;
        if task.disabled {
            clauses.push(format!("task {name} was disabled"));
        }
        if let Some(recorded) = &task.recorded
            && recorded.lost > recorded.replaced
        {
            let lost = recorded.lost - recorded.replaced;
            clauses.push(format!("the recording of task {name} lost {lost} rows, blocks or ticks"));
        }
    }
    clauses
}

impl Summary {
    /// Adds reasons why not all is well; without any, nothing changes.
    pub(crate) fn object(&mut self, clauses: impl IntoIterator<Item = String>) {
        for clause in clauses {
            self.well = false;
            self.reason = Some(match self.reason.take() {
                Some(before) => format!("{before}; {clause}"),
                None => clause,
            });
        }
    }
}
