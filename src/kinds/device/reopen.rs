//! The threads that reopen lost devices: one polls all of them, and each attempt has a thread of its own.
//!
//! They read the monotonic clock, and may block and allocate.

use crate::io::Backoff;
use crate::site::{Claim, Claimed, Claims, Label, OpenDevice, Refusal};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::{helper, with_signals_blocked};
use crate::time::{Clock, Span};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use tracing::{info, warn};

/// How often all devices are polled.
const POLL_EVERY: Span = Span::from_millis(25);

/// The cool end of any device. [`is_lost`](Self::is_lost) is called every 25 ms, and must not block for long.
pub(in crate::kinds) trait Reopen: Send {
    /// The hot end is gone.
    fn is_abandoned(&self) -> bool;

    /// The device has been given up, or was never there.
    fn is_lost(&self) -> bool;

    /// Closes the lost device, and opens it as soon as it is there. May block. False: the hot end is gone.
    fn reopen(&mut self) -> bool;
}

/// The cool end of a `D`, which `open` opens.
pub(super) struct Reopening<D, F> {
    label: Label,
    claims: Arc<Claims>,
    lost: rtrb::Consumer<Claimed<D>>,
    found: rtrb::Producer<Claimed<D>>,
    missing: bool,          // it was not there at the start
    awaited: Option<Claim>, // another task is to hand it over
    backoff: Backoff,
    open: F,
}

impl<D, F> Reopening<D, F> {
    pub(super) fn new(
        label: Label,
        claims: Arc<Claims>,
        (lost, found): (rtrb::Consumer<Claimed<D>>, rtrb::Producer<Claimed<D>>),
        missing: bool,
        awaited: Option<Claim>,
        open: F,
    ) -> Self {
        Self { label, claims, lost, found, missing, awaited, backoff: Backoff::default(), open }
    }

    /// Waits for the next attempt, for longer each time.
    fn rest(&mut self, clock: &KernelClock) {
        let next = clock.now() + self.backoff.take();
        while clock.now() < next && !self.found.is_abandoned() {
            pause(POLL_EVERY);
        }
    }
}

impl<D: OpenDevice + Send, F: FnMut() -> Result<D, Refusal> + Send> Reopen for Reopening<D, F> {
    fn is_abandoned(&self) -> bool {
        self.found.is_abandoned()
    }

    fn is_lost(&self) -> bool {
        self.missing || !self.lost.is_empty()
    }

    fn reopen(&mut self) -> bool {
        let clock = KernelClock::monotonic();
        let began = clock.now();
        while self.awaited.as_ref().is_some_and(Claim::waits) && !self.is_abandoned() {
            pause(POLL_EVERY);
        }
        // It is closed, and stays this task's.
        let kept = self.lost.pop().ok().map(Claimed::close);
        let lost = kept.is_some();
        self.missing = false;
        if lost {
            warn!("{} disconnected; trying to reopen it", self.label);
        }
        let verb = if lost { "reopened" } else { "opened" };
        // A device that works for a moment each time is not reopened, and logged, over and over.
        if self.backoff.is_gone(began) {
            self.rest(&clock);
        }
        let (mut attempts, mut logged) = (0, String::new());
        while !self.is_abandoned() {
            attempts += 1;
            // A panic in the code that opens it must not end the attempts.
            let opened = helper::caught(&mut self.open);
            let panicked =
                |text| Err(Refusal::new("kind", format!("the attempt to open it {text}; please report this")));
            let own = self.awaited.as_ref().or(kept.as_ref());
            let opened = opened.unwrap_or_else(panicked);
            let by_another = |device: &D| self.claims.claimed_by_another(&self.label, device, own, None);
            match opened.and_then(|device| by_another(&device).map_or(Ok(device), Err)) {
                Ok(device) => {
                    let device = Claimed::new(device, self.claims.clone(), &self.label.task);
                    let took = (clock.now() - began).seconds();
                    match self.awaited.take() {
                        Some(_) => info!("{} was taken over from the task that ended", self.label),
                        None => info!("{} was {verb} after {took:.1} s, at attempt {attempts}", self.label),
                    }
                    self.backoff.is_there(clock.now());
                    // There is room: the hot end has no device, or this one would not have been opened.
                    let _ = self.found.push(device);
                    return true;
                }
                Err(mut refusal) => {
                    self.claims.find_holder(&mut refusal, own, None);
                    if refusal.message != logged {
                        warn!("{} cannot be {verb} yet; hertzd keeps trying: {}", self.label, refusal.message);
                        logged = refusal.message;
                    }
                }
            }
            self.rest(&clock);
        }
        false
    }
}

/// The thread that polls all devices of a daemon, and ends with that.
#[derive(Debug, Default)]
pub(in crate::kinds) struct ReopenThread {
    sender: OnceLock<Sender<Box<dyn Reopen>>>,
    lives: Arc<()>,
}

impl ReopenThread {
    /// Has it see to this one, too; the first call starts it.
    pub(in crate::kinds) fn watch(&self, device: Box<dyn Reopen>) -> io::Result<()> {
        let sender = match self.sender.get() {
            Some(sender) => sender,
            None => {
                let (sender, new) = channel();
                let (again, daemon) = (sender.clone(), Arc::downgrade(&self.lives));
                let body = move || poll(&new, &again, &daemon);
                with_signals_blocked(|| helper::spawn("hertzd-devices", body))??;
                self.sender.get_or_init(|| sender)
            }
        };
        _ = sender.send(device);
        Ok(())
    }
}

fn poll(new: &Receiver<Box<dyn Reopen>>, again: &Sender<Box<dyn Reopen>>, daemon: &Weak<()>) {
    let mut devices: Vec<Box<dyn Reopen>> = Vec::new();
    let out = Arc::new(()); // shared with the threads that open one
    let mut warned = false; // that no thread could be started
    loop {
        // Before what was sent is taken.
        let is_over = daemon.strong_count() == 0 && Arc::strong_count(&out) == 1;
        devices.extend(new.try_iter());
        devices.retain(|device| !device.is_abandoned());
        if is_over && devices.is_empty() {
            return;
        }
        let lost: Vec<_> = devices.extract_if(.., |device| device.is_lost()).collect();
        for device in lost {
            // It stays here until the thread takes it: without one, it is tried again in the next round.
            let shared = Arc::new(Mutex::new(Some(device)));
            let (taken, again, out) = (shared.clone(), again.clone(), out.clone());
            let reopen = move || {
                let device = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(mut device) = device
                    && device.reopen()
                {
                    let _ = again.send(device);
                }
                drop(out);
            };
            if let Err(error) = helper::spawn("hertzd-device", reopen) {
                devices.extend(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
                if !std::mem::replace(&mut warned, true) {
                    warn!("cannot start a thread to reopen a lost device; hertzd keeps trying: {error}");
                }
            }
        }
        pause(POLL_EVERY);
    }
}
