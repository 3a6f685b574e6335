//! Plans that earlier processes left: how a start takes one, or keeps an unreadable one aside. May block.

use super::safe_plan::{FoundPlan, NoPlan, SafePlan, is_at};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, warn};

/// How often to check whether a plan is free.
const BETWEEN: Span = Span::from_millis(10);

/// Maximum number of unreadable plans kept side by side.
const KEPT: u32 = 100;

/// Plans that this user's processes have left elsewhere.
#[derive(Clone, Default)]
pub(crate) struct LeftPlans {
    /// Those found when this process began.
    pub(crate) first: Vec<PathBuf>,
    /// Finds those that exist now; may block. `None`: there are no others.
    pub(crate) find: Option<Arc<FindPlans>>,
}

/// Finds plans left by processes that have died.
pub(crate) type FindPlans = dyn Fn() -> Vec<PathBuf> + Send + Sync;

impl LeftPlans {
    /// The plans that exist now.
    pub(super) fn now(&self) -> Vec<PathBuf> {
        self.find.as_ref().map_or_else(Vec::new, |find| find())
    }
}

impl fmt::Debug for LeftPlans {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(to)
    }
}

/// Takes a plan. If its process is about to end, or another one is carrying it out, waits for that until `until`.
pub(super) fn take_when_free(path: &Path, until: Instant) -> Result<(SafePlan, File), NoPlan> {
    let clock = KernelClock::monotonic();
    loop {
        match FoundPlan::open(path)?.take() {
            // Its process may have ended meanwhile, and another plan replaced this one.
            Ok((_, file)) if !is_at(&file, path) => {}
            Err(NoPlan::Held { .. }) if clock.now() < until => pause(BETWEEN),
            taken => return taken,
        }
    }
}

/// The file names for unreadable plans.
fn names_aside(path: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=KEPT).map(|at| path.with_extension(if at == 1 { "json.prev".into() } else { format!("json.prev{at}") }))
}

/// Plans kept aside by earlier starts.
pub(super) fn kept_aside(path: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let kept = names_aside(path).filter(|aside| aside.symlink_metadata().is_ok());
    kept.map(|aside| (aside.clone(), format!("an earlier start has kept it as {}", aside.display())))
}

/// Renames a plan that no one can carry out, so that it is not overwritten. Returns the new name.
pub(super) fn keep_aside(path: &Path, why: &str) -> Result<PathBuf, String> {
    let aside = name_aside(path, why, |aside| fs::rename(path, aside))?;
    warn!(
        "the plan of safe values that an earlier run has left cannot be carried out: {why}; it is kept as {}: see what its outputs do, and make \
         them safe by hand, or by `hertzd safe CONFIG` while hertzd does not run",
        aside.display()
    );
    Ok(aside)
}

/// Gives a second name, one for unreadable plans, to a plan that cannot be carried out in full. Returns that name.
pub(super) fn keep_part_aside(path: &Path, file: &File, why: &str) -> Result<PathBuf, String> {
    // An earlier start may have done this, and then have been refused.
    let kept = names_aside(path).find(|aside| is_at(file, aside));
    let aside = kept.map_or_else(|| name_aside(path, why, |aside| fs::hard_link(path, aside)), Ok)?;
    error!(
        "the plan of safe values that an earlier run has left has a write that is refused, so nothing is written for that output: {why}; the plan \
         is kept as {}: see what the output does, and make it safe by hand, or by `hertzd safe CONFIG` while hertzd does not run",
        aside.display()
    );
    Ok(aside)
}

/// Finds a free name for a plan that cannot be carried out, and gives it to the plan.
fn name_aside(path: &Path, why: &str, name: impl Fn(&Path) -> io::Result<()>) -> Result<PathBuf, String> {
    let Some(aside) = names_aside(path).find(|aside| aside.symlink_metadata().is_err()) else {
        return Err(format!("{why}; and there are {KEPT} such plans beside it already: remove them"));
    };
    name(&aside).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => why.to_owned(), // there is no plan
        _ => format!("{why}; and it cannot be kept as {}: {error}", aside.display()),
    })?;
    Ok(aside)
}
