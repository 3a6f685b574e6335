//! Foreground starts of one user take turns while a killed run has left something. Each start takes over everything that this user's dead
//! processes left. A second start at the same time would mistake the killed run's value for the one from before hertzd.
//!
//! A turn is a `flock` on each of the user's places, which only that user can open. The wait is limited, because a start may hang on a
//! device.

use super::runtime_places::{open_own, own_places};
use crate::program;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::dir::Dir;
use crate::time::{Clock, Span};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use tracing::{info, warn};

/// How long a start waits in total for those before it. Longer than a start waits for its writes of what was left.
const WAITS: Span = Span::from_seconds(5);
const BETWEEN: Span = Span::from_millis(10);

/// Waits for this process's turn, which lasts while the returned files live. A place that cannot be locked is left out.
pub(super) fn take_turn(own: &Dir) -> Vec<Arc<File>> {
    let clock = KernelClock::monotonic();
    let (began, mut is_said) = (clock.now(), false);
    let mut turn = Vec::new();
    for place in places(own) {
        let (name, path) = (program::name(), place.path().display());
        let taken = loop {
            let taken = place.flock();
            if !matches!(taken, Err(TryLockError::WouldBlock)) || clock.now() - began > WAITS {
                break taken;
            }
            if !std::mem::replace(&mut is_said, true) {
                info!(
                    "waiting for another start of {name}, which has {path} locked, for {WAITS} at most: it deals with what killed runs have left"
                );
            }
            pause(BETWEEN);
        };
        match taken {
            Ok(lock) => turn.push(Arc::new(lock)),
            Err(TryLockError::WouldBlock) => warn!(
                "another start of {name} still has {path} locked after this one has waited {WAITS} in all, so it continues beside it: what that one has taken over from killed \
                 runs stays with it; if it hangs, look at its device, or stop it"
            ),
            Err(TryLockError::Error(_)) => {} // not every file system supports it
        }
    }
    turn
}

/// The place of this process and this user's other places, without duplicates, in the same order for every process.
fn places(own: &Dir) -> Vec<Dir> {
    let all = own_places().into_iter().filter_map(|path| open_own(&path)).chain(Dir::open(own.path()).ok());
    let number = |place: Dir| Some((place.metadata().map(|facts| (facts.dev(), facts.ino())).ok()?, place));
    let mut all: Vec<_> = all.filter_map(number).collect();
    all.sort_by_key(|(number, _)| *number);
    all.dedup_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, place)| place).collect()
}
