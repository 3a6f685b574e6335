//! Finds who holds a lock that hertzd ignores, only to name them in messages; nothing waits for it. Any user who may read a file decides how much
//! there is to look through until its lock is found, so one thread looks for all of them, and only while there are any. It is none of
//! the pool's: commands look too, which have no daemon.

use super::holder::{Holder, Sought, of_locks};
use crate::sys::clock::KernelClock;
use crate::sys::thread::helper;
use crate::time::{Clock, Span};
use std::mem;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a message waits that is to have the names in it, for all of them together.
const IN_TIME: Span = Span::from_millis(200);

/// What is done with a name, or where none was found.
type Say = Box<dyn FnOnce(Option<Holder>) + Send>;

/// Those that are still to be looked for. `Some`: there is a thread that does so. It is the process's, as it reads the same list of the kernel for
/// everyone; each name goes back to whoever asked for it.
static WANTED: Mutex<Option<Vec<(Sought, Say)>>> = Mutex::new(None);

fn wanted() -> MutexGuard<'static, Option<Vec<(Sought, Say)>>> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who has a lock that is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// Or it is known that no one can be found.
    Known(Option<Holder>),
    /// Only the lock is known.
    Sought(Sought),
}

impl Stranger {
    /// Has its name said: at once if it is known, else from another thread, once it was found or is known not to be found.
    pub(crate) fn name(self, say: impl FnOnce(Option<Holder>) + Send + 'static) {
        match self {
            Self::Sought(sought) => look_for(vec![(sought, Box::new(say))]),
            Self::Known(holder) => say(holder),
        }
    }
}

/// Their names, as far as they are found in time.
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

/// What the thread does.
fn look() {
    while let Some(all) = next() {
        let (sought, says): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let mut says: Vec<_> = says.into_iter().map(Some).collect();
        // A message that panics must keep no other from being said.
        let caught = |say: Say, holder| _ = helper::caught(|| say(holder));
        of_locks(&sought, |index, holder| {
            says[index].take().into_iter().for_each(|say| caught(say, Some(holder.clone())));
        });
        says.into_iter().flatten().for_each(|say| caught(say, None));
    }
}

/// Those that are wanted by now; if there are none, the thread is over.
fn next() -> Option<Vec<(Sought, Say)>> {
    let mut wanted = wanted();
    let all = wanted.as_mut().map(mem::take).filter(|all| !all.is_empty());
    if all.is_none() {
        *wanted = None;
    }
    all
}
