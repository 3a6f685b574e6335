//! A device that may come and go: the hot thread uses it while it is there, and others look for it while it is not.
//!
//! The hot thread never opens or closes anything. It hands a lost device over with one store into a ring, which wakes
//! nobody; a thread of the process, `hertzd-devices`, looks into all such rings a few times a second, and has a lost
//! device closed and looked for on a thread of its own, so that one which blocks holds up no other. What is found goes
//! back over another ring, and the task finds it at its next tick.

use super::reopen::{FIRST_WAIT, Far, keeper};
use crate::config::{Key, Section, Value};
use crate::task::TickError;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tracing::warn;

/// What to do where the device is not there at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Refuse to start.
    #[default]
    Refuse,
    /// Start all the same, and look for it.
    Wait,
}

impl Missing {
    /// The key of every kind that has a device.
    pub const KEY: Key = Key {
        name: "missing",
        value: Value::Choice(&["refuse", "wait"]),
        default: "\"refuse\"",
        about: "What to do where the device is not there at the start: refuse to start, or start and look for it. One \
                that goes later is always looked for.",
    };

    /// What the section says.
    pub fn of(section: &mut Section<'_>) -> Self {
        section.choice(Self::KEY.name, &[("refuse", Self::Refuse), ("wait", Self::Wait)]).unwrap_or_default()
    }
}

/// The hot end of a device that may come and go.
#[derive(Debug)]
pub(crate) struct Reconnecting<D> {
    device: Option<D>,
    lost: rtrb::Producer<D>,
    found: rtrb::Consumer<D>,
    _held: Arc<()>, // as long as it lives, the name is held; after the device, which goes first
}

/// The words by which a reason says that somebody has a device which is for one at a time. Kinds use them, so that a
/// device which a task is about to hand over is told from one that is not to be had.
pub(crate) const IN_USE: &str = "is in use";

/// The names of the links that live.
static HELD: Mutex<Vec<(String, Weak<()>)>> = Mutex::new(Vec::new());

/// Whether a link of this name lives already: on a reload the task that comes is built while the one that it replaces
/// still has its device, which may be for one at a time. Not for a hot thread.
pub(crate) fn is_handed_over(what: &str) -> bool {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.iter().any(|(name, link)| name == what && link.strong_count() > 0)
}

/// A link of this name, and those of the same name that lived before.
fn hold(what: &str) -> (Arc<()>, Vec<Weak<()>>) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|(_, link)| link.strong_count() > 0);
    let before = held.iter().filter(|(name, _)| name == what).map(|(_, link)| link.clone()).collect();
    let link = Arc::new(());
    held.push((what.to_owned(), Arc::downgrade(&link)));
    (link, before)
}

impl<D: Send + 'static> Reconnecting<D> {
    /// Opens the device, and sees to it that it is opened again whenever it has been lost. May block; not for a hot
    /// thread. `what` names the device in the log: "camera /dev/video0 of task eye". `open` says why it could not.
    ///
    /// A device that [is in use](IN_USE) because [a link of the same name still has it](is_handed_over) is waited for.
    ///
    /// # Errors
    /// What `open` said, where a missing device is to be refused; or that the thread for it could not be started.
    pub(crate) fn open<F>(what: impl Into<String>, missing: Missing, mut open: F) -> Result<Self, String>
    where
        F: FnMut() -> Result<D, String> + Send + 'static,
    {
        let what = what.into();
        let mut handed_over = false;
        let device = match open() {
            Ok(device) => Some(device),
            Err(reason) if reason.contains(IN_USE) && is_handed_over(&what) => {
                handed_over = true;
                None
            }
            Err(reason) if missing == Missing::Refuse => return Err(reason),
            Err(reason) => {
                warn!("{what} is not there yet, and is looked for: {reason}");
                None
            }
        };
        let (lost, lost_end) = rtrb::RingBuffer::new(1);
        let (found_end, found) = rtrb::RingBuffer::new(1);
        let wanted = device.is_none();
        let (held, mut before) = hold(&what);
        if !handed_over {
            before.clear();
        }
        let far = Far { what, lost: lost_end, found: found_end, wanted, before, steady: None, wait: FIRST_WAIT, open };
        match keeper() {
            Ok(keeper) => _ = keeper.send(Box::new(far)),
            Err(reason) => return Err(format!("cannot start the thread that looks for lost devices: {reason}")),
        }
        Ok(Self { device, lost, found, _held: held })
    }

    /// The device, if it is there. Wait-free.
    ///
    /// # Errors
    /// It is gone, and looked for.
    pub(crate) fn device(&mut self) -> Result<&mut D, TickError> {
        if self.device.is_none() {
            self.device = self.found.pop().ok();
        }
        self.device.as_mut().ok_or(GONE)
    }

    /// Gives the device up: it is closed and looked for elsewhere. Wait-free.
    pub(crate) fn lose(&mut self) {
        if let Some(device) = self.device.take() {
            // There is room: the next device only comes after this one has been taken out.
            self.device = self.lost.push(device).err().map(|rtrb::PushError::Full(device)| device);
        }
    }

    /// Does `work` with the device; where that says that the device is gone (ENODEV, ENXIO, EIO, ESTALE, EBADF), it is
    /// given up. Wait-free, but for `work`.
    ///
    /// # Errors
    /// The device was gone before, or the error of `work`.
    pub(crate) fn with<T>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&mut D) -> io::Result<T>,
    ) -> Result<T, TickError> {
        let worked = work(self.device()?);
        worked.map_err(|error| {
            if is_gone(&error) {
                self.lose();
            }
            TickError::from_io(what, &error)
        })
    }
}

const GONE: TickError = TickError::new("the device is gone, and looked for");

/// Whether an error says that a device is no longer there, or that only opening it anew can help.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::EIO | libc::ESTALE | libc::EBADF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::device::reopen::Tended;
    use crate::sys::clock::pause;
    use crate::time::Span;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// A device that is there as long as the flag says so; each one opened has the next number.
    struct Toy(u32);

    fn until<T>(mut wanted: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(thing) = wanted() {
                return thing;
            }
            pause(Span::from_millis(5));
        }
    }

    #[test]
    fn a_device_comes_and_goes() {
        let (there, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let open = {
            let (there, opened) = (there.clone(), opened.clone());
            move || match there.load(Ordering::Relaxed) {
                true => Ok(Toy(opened.fetch_add(1, Ordering::Relaxed))),
                false => Err(String::from("not there")),
            }
        };
        assert_eq!(Reconnecting::open("toy", Missing::Refuse, open.clone()).err(), Some("not there".into()));
        let mut link = Reconnecting::open("toy", Missing::Wait, open).unwrap();
        assert_eq!(link.device().err(), Some(GONE));
        there.store(true, Ordering::Relaxed);
        for number in 0..3 {
            assert_eq!(until(|| link.device().ok().map(|toy| toy.0)), number);
            let failed = link.with("reading", |_| Err::<(), _>(io::Error::from_raw_os_error(libc::EAGAIN)));
            assert!(failed.is_err());
            assert_eq!(link.device().map(|toy| toy.0), Ok(number), "it may try again");
            let failed = link.with("reading", |_| Err::<(), _>(io::Error::from_raw_os_error(libc::ENODEV)));
            assert_eq!(failed.unwrap_err().to_string(), "reading: No such device (os error 19)");
        }
        drop(link);
        until(|| (Arc::strong_count(&there) == 1).then_some(()));
    }
    #[test]
    fn a_device_is_handed_over_to_the_task_that_replaces_another() {
        let taken = Arc::new(AtomicBool::new(false));
        struct Alone(Arc<AtomicBool>);
        impl Drop for Alone {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        let open = || {
            let taken = taken.clone();
            move || match taken.swap(true, Ordering::Relaxed) {
                true => Err(format!("it {IN_USE}")),
                false => Ok(Alone(taken.clone())),
            }
        };
        let mut old = Reconnecting::open("toy of task a", Missing::Refuse, open()).unwrap();
        assert_eq!(Reconnecting::open("toy of task b", Missing::Refuse, open()).err(), Some("it is in use".into()));
        let wrong = || Err::<Alone, _>(String::from("it has no such line"));
        assert!(
            Reconnecting::open("toy of task a", Missing::Refuse, wrong).is_err(),
            "what is wrong is not waited for"
        );
        let mut new = Reconnecting::open("toy of task a", Missing::Refuse, open()).unwrap();
        assert!(old.device().is_ok() && new.device().is_err());
        drop(old);
        until(|| new.device().is_ok().then_some(()));
        drop(new);
        assert!(!is_handed_over("toy of task a"));
    }

    #[test]
    fn an_attempt_that_panics_is_not_the_last() {
        let mut tries = 0;
        let open = move || {
            tries += 1;
            match tries {
                1 => Err("not there".into()),
                2 => panic!("on purpose"),
                _ => Ok(tries),
            }
        };
        let mut link = Reconnecting::open("panicking toy", Missing::Wait, open).unwrap();
        assert_eq!(until(|| link.device().ok().copied()), 3);
    }

    #[test]
    fn one_that_works_for_a_moment_each_time_is_tried_less_and_less() {
        let (lost, lost_end) = rtrb::RingBuffer::new(1);
        let (found_end, found) = rtrb::RingBuffer::new(1);
        let open = || Ok(7);
        let (what, before, wait) = (String::from("flapping toy"), Vec::new(), FIRST_WAIT);
        let mut far = Far { what, lost: lost_end, found: found_end, wanted: true, before, steady: None, wait, open };
        let (mut lost, mut found) = (lost, found);
        let mut waits = Vec::new();
        for _ in 0..4 {
            assert!(far.look());
            waits.push(far.wait);
            lost.push(found.pop().unwrap()).unwrap();
        }
        assert_eq!(waits, [1, 2, 4, 8].map(|times| Span::from_nanos(FIRST_WAIT.nanos() * times)));
    }
}
