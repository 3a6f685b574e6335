//! Finds who holds a lock that hertzd ignores, only to name the holder in messages; nothing waits for the result. Any user who may read a
//! file can make the search for its lock long. So one thread does all searches, and exists only while there are any. It does not belong to
//! the pool: commands search too, and they have no daemon.

use super::holder::{Holder, Sought, of_locks};
use crate::sys::clock::KernelClock;
use crate::sys::thread::helper;
use crate::time::{Clock, Span};
use std::mem;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a message waits for the names in it, for all of them together.
const IN_TIME: Span = Span::from_millis(200);

/// What to do with the name, or with `None` if none was found.
type Say = Box<dyn FnOnce(Option<Holder>) + Send>;

/// The locks whose holders are still to be found. `Some`: the search thread exists. One list per process, because everyone's search reads
/// the same list of the kernel; each name goes back to the code that asked for it.
static WANTED: Mutex<Option<Vec<(Sought, Say)>>> = Mutex::new(None);

fn wanted() -> MutexGuard<'static, Option<Vec<(Sought, Say)>>> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The holder of a lock that hertzd ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// The holder, or `None` if it is certain that no one can be found.
    Known(Option<Holder>),
    /// Only the lock is known.
    Sought(Sought),
}

impl Stranger {
    /// Calls `say` with the holder's name: at once if it is known, otherwise from another thread when the search has ended.
    pub(crate) fn name(self, say: impl FnOnce(Option<Holder>) + Send + 'static) {
        match self {
            Self::Sought(sought) => look_for(vec![(sought, Box::new(say))]),
            Self::Known(holder) => say(holder),
        }
    }
}

/// The holders' names, as far as they are found in time.
pub(crate) fn named_in_time(strangers: Vec<Stranger>) -> Vec<Option<Holder>> {
    let (sender, found) = mpsc::channel();
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for (index, stranger) in strangers.into_iter().enumerate() {
        let sender = sender.clone();
        let say: Say = Box::new(move |holder| _ = sender.send((index, holder)));
        names.push(match stranger {
            Stranger::Known(holder) => holder,
            Stranger::Sought(sought) => {
                all.push((sought, say));
                None
            }
        });
    }
    drop(sender);
    if all.is_empty() {
        return names;
    }
    look_for(all);
    let clock = KernelClock::monotonic();
    let end = clock.now() + IN_TIME;
    let left = || Duration::from_nanos((end - clock.now()).max(Span::ZERO).nanos().unsigned_abs());
    while let Ok((index, holder)) = found.recv_timeout(left()) {
        names[index] = holder;
    }
    names
}

fn look_for(all: Vec<(Sought, Say)>) {
    let mut wanted = wanted();
    if let Some(wanted) = &mut *wanted {
        return wanted.extend(all);
    }
    *wanted = Some(all);
    if helper::spawn("hertzd-io", look).is_ok() {
        return;
    }
    let all = wanted.take();
    drop(wanted);
    all.into_iter().flatten().for_each(|(_, say)| say(None));
}

/// The search thread's loop.
fn look() {
    while let Some(all) = next() {
        let (sought, says): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let mut says: Vec<_> = says.into_iter().map(Some).collect();
        // A message that panics must not prevent the others.
        let caught = |say: Say, holder| _ = helper::caught(|| say(holder));
        of_locks(&sought, |index, holder| {
            says[index].take().into_iter().for_each(|say| caught(say, Some(holder.clone())));
        });
        says.into_iter().flatten().for_each(|say| caught(say, None));
    }
}

/// The locks requested meanwhile; if there are none, the thread ends.
fn next() -> Option<Vec<(Sought, Say)>> {
    let mut wanted = wanted();
    let all = wanted.as_mut().map(mem::take).filter(|all| !all.is_empty());
    if all.is_none() {
        *wanted = None;
    }
    all
}
