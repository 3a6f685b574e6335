//! The plans that processes before this one have left: how a start takes one, and keeps one aside that it cannot read. May block.

use super::safe_plan::{FoundPlan, NoPlan, SafePlan, is_at};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// How often it is looked whether a plan is free.
const BETWEEN: Span = Span::from_millis(10);

/// How many plans that cannot be read are kept beside each other.
const KEPT: u32 = 100;

/// The plans that processes of this user have left elsewhere.
#[derive(Clone, Default)]
pub(crate) struct LeftPlans {
    /// Those that were found when this process began.
    pub(crate) first: Vec<PathBuf>,
    /// Finds those that there are now; it may block. `None`: there are no others.
    pub(crate) find: Option<Arc<FindPlans>>,
}

/// Finds plans that processes which have died have left.
pub(crate) type FindPlans = dyn Fn() -> Vec<PathBuf> + Send + Sync;

impl LeftPlans {
    /// Those that there are now.
    pub(super) fn now(&self) -> Vec<PathBuf> {
        self.find.as_ref().map_or_else(Vec::new, |find| find())
    }
}

impl fmt::Debug for LeftPlans {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(to)
    }
}

/// Takes a plan; one whose process is about to end, or that another one carries out, is waited for until then.
pub(super) fn take_when_free(path: &Path, until: Instant) -> Result<(SafePlan, File), NoPlan> {
    let clock = KernelClock::monotonic();
    loop {
        match FoundPlan::open(path)?.take() {
            // Whose process has ended meanwhile may have been replaced.
            Ok((_, file)) if !is_at(&file, path) => {}
            Err(NoPlan::Held(_)) if clock.now() < until => pause(BETWEEN),
            taken => return taken,
        }
    }
}

/// The names that plans are given which cannot be read.
fn names_aside(path: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=KEPT).map(|at| path.with_extension(if at == 1 { "json.prev".into() } else { format!("json.prev{at}") }))
}

/// Those that starts before this one have kept.
pub(super) fn kept_aside(path: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let kept = names_aside(path).filter(|aside| aside.symlink_metadata().is_ok());
    kept.map(|aside| (aside.clone(), format!("an earlier start has kept it as {}", aside.display())))
}

/// Gives a plan another name that no one could carry out: it is not overwritten. Returns the name.
pub(super) fn keep_aside(path: &Path, why: &str) -> Result<PathBuf, String> {
    let Some(aside) = names_aside(path).find(|aside| aside.symlink_metadata().is_err()) else {
        return Err(format!("{why}; and there are {KEPT} such plans beside it already: remove them"));
    };
    fs::rename(path, &aside).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => why.to_owned(), // there is none
        _ => format!("{why}; and it cannot be kept as {}: {error}", aside.display()),
    })?;
    warn!(
        "the plan of safe values that an earlier run has left cannot be carried out: {why}; it is kept as {}: see what its outputs do, and make \
         them safe by hand, or by `hertzd safe CONFIG` while hertzd does not run",
        aside.display()
    );
    Ok(aside)
}
