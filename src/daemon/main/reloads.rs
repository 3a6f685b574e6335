//! The outcome of the reloads so far.

use crate::daemon::change::diff::{Change, Diff};
use crate::daemon::failure::Failure;
use crate::log::Message;
use tracing::{error, info};

/// The outcome of the reloads so far.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(super) refused_last: bool,
    pub(crate) last: String,
}

impl Reloads {
    /// Logs and records a successful reload.
    pub(super) fn accept(&mut self, diff: &Diff) {
        let [kept, restarted, added, removed] =
            [Change::Kept, Change::Restarted, Change::Added, Change::Removed].map(|of| diff.count(of));
        let text = format!("tasks: {kept} kept, {restarted} restarted, {added} added, {removed} removed");
        let message_id = Message::Reloaded.id();
        info!(message_id, kept, restarted, added, removed, "reloaded: {text}");
        self.note(false, text);
    }

    /// Logs and records a refused reload.
    pub(crate) fn refuse(&mut self, failure: &Failure) {
        let text = match failure {
            Failure::Config(problems) => problems.report(false, "the old configuration stays in force"),
            other => format!("{other}; the old configuration stays in force"),
        };
        error!(message_id = Message::ReloadRefused.id(), "reload refused: {text}");
        self.note(true, text);
    }

    fn note(&mut self, refused: bool, text: String) {
        self.done += 1;
        self.refused += u64::from(refused);
        (self.refused_last, self.last) = (refused, text);
    }
}
