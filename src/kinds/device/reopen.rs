//! The cool side of links: the thread that looks into all of them, and the search for one that is lost.
//!
//! It reads the monotonic clock, and may block and allocate.

use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::with_signals_blocked;
use crate::time::{Clock, Instant, Span};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Builder;
use tracing::{info, warn};

/// How long the thread for all rests between two looks.
const REST: Span = Span::from_millis(25);

/// How long is waited after the first attempt; after each further one twice as long, up to [`LONGEST_WAIT`].
pub(super) const FIRST_WAIT: Span = Span::from_millis(100);

const LONGEST_WAIT: Span = Span::from_seconds(2);

/// A device that is lost sooner than this after it was found is not looked for at once, but after a wait that grows.
const STEADY: Span = Span::from_seconds(10);

/// The cool end of a link, whatever its device is.
pub(super) trait Tended: Send {
    /// Nobody has the hot end any more.
    fn is_abandoned(&self) -> bool;

    /// The device has been given up, or was never there.
    fn is_lost(&self) -> bool;

    /// Closes what was lost, and opens it anew as soon as it is there. May block. False: nobody wants it any more.
    fn look(&mut self) -> bool;
}

/// The cool end of a link to a `D`, which `open` opens.
pub(super) struct Far<D, F> {
    pub(super) what: String,
    pub(super) lost: rtrb::Consumer<D>,
    pub(super) found: rtrb::Producer<D>,
    pub(super) wanted: bool,            // it was not there at the start
    pub(super) before: Vec<Weak<()>>,   // the links that are to hand it over
    pub(super) steady: Option<Instant>, // found at this instant, it has proved itself by then
    pub(super) wait: Span,              // after the next attempt that fails
    pub(super) open: F,
}

impl<D: Send, F: FnMut() -> Result<D, String> + Send> Tended for Far<D, F> {
    fn is_abandoned(&self) -> bool {
        self.found.is_abandoned()
    }

    fn is_lost(&self) -> bool {
        self.wanted || !self.lost.is_empty()
    }

    fn look(&mut self) -> bool {
        let clock = KernelClock::monotonic();
        let began = clock.now();
        let taken_over = !self.before.is_empty();
        while self.before.iter().any(|link| link.strong_count() > 0) && !self.is_abandoned() {
            pause(REST);
        }
        self.before.clear();
        let lost = self.lost.pop().map(drop).is_ok();
        self.wanted = false;
        if lost {
            warn!("{} was lost, and is looked for", self.what);
        }
        // One that works for a moment each time is not opened, and told of, over and over.
        if lost && self.steady.is_some_and(|steady| began < steady) {
            self.rest(&clock);
        } else {
            self.wait = FIRST_WAIT;
        }
        let (mut tries, mut told) = (0, String::new());
        while !self.is_abandoned() {
            tries += 1;
            // A fault of the code that opens it must not end the looking.
            let opened = catch_unwind(AssertUnwindSafe(&mut self.open));
            match opened.unwrap_or_else(|_| Err("the attempt to open it panicked; please report this".into())) {
                Ok(device) => {
                    let took = (clock.now() - began).seconds();
                    match taken_over {
                        true => info!("{} was taken over from the task before", self.what),
                        false => info!("{} is there again, after {took:.1} s and {tries} attempts", self.what),
                    }
                    self.steady = Some(clock.now() + STEADY);
                    // There is room: the hot end has none, or it would not have been looked for.
                    let _ = self.found.push(device);
                    return true;
                }
                Err(reason) if reason != told => {
                    warn!("{} is still looked for: {reason}", self.what);
                    told = reason;
                }
                Err(_) => {}
            }
            self.rest(&clock);
        }
        false
    }
}

impl<D, F> Far<D, F> {
    /// Waits for the next attempt, for longer each time.
    fn rest(&mut self, clock: &KernelClock) {
        let next = clock.now() + self.wait;
        while clock.now() < next && !self.found.is_abandoned() {
            pause(REST);
        }
        self.wait = (self.wait + self.wait).min(LONGEST_WAIT);
    }
}

/// The way to the thread that tends all links of the process; it is started when first asked for.
pub(super) fn keeper() -> io::Result<Sender<Box<dyn Tended>>> {
    static KEEPER: OnceLock<Sender<Box<dyn Tended>>> = OnceLock::new();
    if let Some(keeper) = KEEPER.get() {
        return Ok(keeper.clone());
    }
    let (sender, new) = channel();
    let again = sender.clone();
    let body = move || keep(&new, &again);
    with_signals_blocked(|| Builder::new().name("hertzd-devices".into()).spawn(body))??;
    Ok(KEEPER.get_or_init(|| sender).clone())
}

fn keep(new: &Receiver<Box<dyn Tended>>, again: &Sender<Box<dyn Tended>>) {
    let mut links: Vec<Box<dyn Tended>> = Vec::new();
    let mut told = false; // that there is no thread to be had
    loop {
        links.extend(new.try_iter());
        links.retain(|link| !link.is_abandoned());
        let lost: Vec<_> = links.extract_if(.., |link| link.is_lost()).collect();
        for link in lost {
            // It stays here until the thread takes it: without one, it is tried again in the next round.
            let place = Arc::new(Mutex::new(Some(link)));
            let (taken, again) = (place.clone(), again.clone());
            let look = move || {
                let link = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(mut link) = link
                    && link.look()
                {
                    let _ = again.send(link);
                }
            };
            if let Err(reason) = Builder::new().name("hertzd-device".into()).spawn(look) {
                links.extend(place.lock().unwrap_or_else(PoisonError::into_inner).take());
                if !std::mem::replace(&mut told, true) {
                    warn!("no thread can be started to look for a lost device, for now: {reason}");
                }
            }
        }
        pause(REST);
    }
}
