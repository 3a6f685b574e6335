//! A device that may come and go: the hot thread uses it while it is there, and another thread reopens it after a loss.
//!
//! The hot thread never opens or closes anything. It hands a lost device over with one store into a ring. The [keeper](crate::io::Keeper)
//! polls all such rings, and has each lost device closed and reopened by a pool thread, so that none delays another. The reopened device
//! comes back through another ring at the next tick. No clock is read here.

use super::reopen::CoolEnd;
use crate::config::{Key, Section, Value, words};
use crate::io::{Keeper, Reopening};
use crate::site::{Claim, Claimed, Claims, Holder, Label, OpenDevice, Refusal, Site};
use crate::task::TickError;
use crate::time::Span;
use std::io;
use std::sync::Arc;
use tracing::debug;

/// What to do if the device is not there at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Refuse to start.
    #[default]
    Refuse,
    /// Start anyway, and keep looking for it.
    Wait,
}

impl Missing {
    const CHOICES: [(&str, Self); 2] = [("refuse", Self::Refuse), ("wait", Self::Wait)];

    /// The key shared by all kinds with a device.
    pub(crate) const KEY: Key = Key::new(
        "missing",
        Value::Choice(&words(&Self::CHOICES)),
        "What to do if the device is not there at the start: refuse to start, or start and keep looking for it. A device \
         that disappears later is always reopened when it is back.",
    )
    .default("\"refuse\"");

    /// The choice in the section.
    pub(crate) fn of(section: &mut Section<'_>) -> Self {
        section.choice(&Self::KEY, &Self::CHOICES).unwrap_or_default()
    }
}

/// The result of the first attempt to open a device, if the task may start.
#[derive(Debug)]
pub(crate) enum First<D> {
    /// It is open.
    Opened(D),
    /// A task that is about to end has it and will hand it over.
    HandedOver(Claim),
    /// It is not there; the task waits for it.
    Missing,
}

impl<D: OpenDevice> First<D> {
    /// Decides whether a task may start with this result of opening its device.
    pub(crate) fn of(
        site: &Site,
        label: &Label,
        missing: Missing,
        opened: Result<D, Refusal>,
    ) -> Result<Self, Refusal> {
        let mut refusal = match opened {
            Ok(device) => {
                return site.claimed_by_another(label, &device).map_or(Ok(Self::Opened(device)), Err);
            }
            Err(refusal) => refusal,
        };
        match site.find_holder(&mut refusal) {
            Some(Holder::Ending) => Ok(Self::HandedOver(site.claim(refusal.in_use, &label.task))),
            Some(Holder::Task) => Err(refusal),
            _ if missing == Missing::Refuse => Err(refusal),
            _ => Ok(Self::Missing), // the thread that retries logs why
        }
    }
}

/// The hot thread's end of a device that may come and go.
#[derive(Debug)]
pub(crate) struct Reconnecting<D> {
    device: Option<Claimed<D>>,
    lost: rtrb::Producer<Claimed<D>>,
    found: rtrb::Consumer<Claimed<D>>,
    failures: u32, // in a row
}

impl<D: OpenDevice + Send + 'static> Reconnecting<D> {
    /// Opens the device, and reopens it after each loss. May block; not for a hot thread. `open` returns the reason if it fails.
    pub(crate) fn open<F>(site: &Site, label: Label, missing: Missing, mut open: F) -> Result<Self, Refusal>
    where
        F: FnMut() -> Result<D, Refusal> + Send + 'static,
    {
        let first = First::of(site, &label, missing, open())?;
        Self::new(site, label, first, open)
    }

    /// Like [`open`](Self::open), for a task that has already handled the first attempt itself.
    pub(crate) fn new<F>(site: &Site, label: Label, first: First<D>, open: F) -> Result<Self, Refusal>
    where
        F: FnMut() -> Result<D, Refusal> + Send + 'static,
    {
        Self::kept(&site.common(), site.claims(), label, first, open)
    }

    /// The same, without the rest of the site.
    pub(crate) fn kept<F>(
        keeper: &Keeper,
        claims: Arc<Claims>,
        label: Label,
        first: First<D>,
        open: F,
    ) -> Result<Self, Refusal>
    where
        F: FnMut() -> Result<D, Refusal> + Send + 'static,
    {
        let (lost, lost_end) = rtrb::RingBuffer::new(1);
        let (found_end, found) = rtrb::RingBuffer::new(1);
        let (device, awaited) = match first {
            First::Opened(device) => {
                debug!("{label} opened");
                (Some(Claimed::new(device, claims.clone(), &label.task)), None)
            }
            First::HandedOver(claim) => (None, Some(claim)),
            First::Missing => (None, None),
        };
        let cool = CoolEnd::new(label, claims, (lost_end, found_end), device.is_none(), awaited, open);
        keeper
            .keep(Reopening::new(cool))
            .map_err(|error| Refusal::new("kind", format!("cannot start the thread that reopens devices: {error}")))?;
        Ok(Self { device, lost, found, failures: 0 })
    }

    /// The device, if it is there. Wait-free.
    pub(crate) fn device(&mut self) -> Result<&mut D, TickError> {
        if self.device.is_none() {
            self.device = self.found.pop().ok();
        }
        self.device.as_mut().map(|claimed| &mut claimed.device).ok_or(GONE)
    }

    /// Gives the device up: another thread closes and reopens it. Wait-free.
    pub(crate) fn lose(&mut self) {
        self.failures = 0;
        if let Some(device) = self.device.take() {
            // There is room: the next device arrives only after this one has been taken out.
            self.device = self.lost.push(device).err().map(|rtrb::PushError::Full(device)| device);
        }
    }

    /// Runs `work` with the device, which is done once in each `period`. Gives the device up after some [failures](Self::failed). Wait-free,
    /// apart from `work`.
    pub(crate) fn with<T>(
        &mut self,
        what: &'static str,
        period: Span,
        work: impl FnOnce(&mut D) -> io::Result<T>,
    ) -> Result<T, TickError> {
        let worked = work(self.device()?);
        match &worked {
            Ok(_) => self.worked(),
            Err(error) => self.failed(error, period),
        }
        worked.map_err(|error| TickError::from_io(what, &error))
    }

    /// Counts a failure of the device, which is used once in each `period`. Gives it up if the error [means that it is gone](is_gone), after
    /// [`FAILURES`] in a row, and after [`FEW`] that took [`LONG`]. Any other error may be a disturbance that is over at the next attempt.
    /// Wait-free.
    pub(crate) fn failed(&mut self, error: &io::Error, period: Span) {
        self.failures += 1;
        let for_long = period.nanos().saturating_mul(self.failures.into()) >= LONG.nanos();
        if is_gone(error) || self.failures >= FAILURES || self.failures >= FEW && for_long {
            self.lose();
        }
    }

    /// Notes that the device worked, so that failures before do not count any more.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }
}

/// A device that fails this many times in a row may have lost power and its settings, or its stream has ended, so it is reopened.
const FAILURES: u32 = 5;
/// Of a slow task, fewer failures are enough if they took this long. A single one never is: it may be a disturbance at any rate.
const FEW: u32 = 3;
const LONG: Span = Span::from_seconds(1);

const GONE: TickError = TickError::away("the device is not available; trying to open it");

/// Whether an error means that the device is gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESTALE | libc::EBADF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Common, DeviceId, Roots};
    use crate::sys::clock::pause;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// A device that is there while the flag is set; each one opened has the next number.
    struct Toy(u32);

    impl OpenDevice for Toy {}

    fn label(task: &str) -> Label {
        Label { device: "toy".into(), task: task.into() }
    }

    fn missing<D>() -> Result<D, Refusal> {
        Err(Refusal::new("device", "not there"))
    }

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
        let site = Site::default();
        let (there, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let open = {
            let (there, opened) = (there.clone(), opened.clone());
            move || match there.load(Ordering::Relaxed) {
                true => Ok(Toy(opened.fetch_add(1, Ordering::Relaxed))),
                false => missing(),
            }
        };
        assert_eq!(Reconnecting::open(&site, label("a"), Missing::Refuse, open.clone()).err(), missing::<Toy>().err());
        let mut device = Reconnecting::open(&site, label("a"), Missing::Wait, open).unwrap();
        assert_eq!(device.device().err(), Some(GONE));
        there.store(true, Ordering::Relaxed);
        for number in 0..3 {
            assert_eq!(until(|| device.device().ok().map(|toy| toy.0)), number);
            let try_every = |device: &mut Reconnecting<Toy>, millis, errno: Option<i32>| {
                let result = errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)));
                assert_eq!(device.with("reading", Span::from_millis(millis), |_| result).is_err(), errno.is_some());
                device.device().is_ok()
            };
            let fails = |device: &mut Reconnecting<Toy>, millis, times: usize, errno| {
                (0..times).all(|_| try_every(device, millis, Some(errno))) && try_every(device, millis, None)
            };
            // A disturbance is over at the next attempt, at any rate and with any error.
            for errno in [libc::EREMOTEIO, libc::EIO, libc::EAGAIN, libc::EBUSY] {
                assert!(fails(&mut device, 1, 4, errno) && fails(&mut device, 333, 3, errno));
                assert!(fails(&mut device, 1_000, 2, errno) && fails(&mut device, 3_600_000, 2, errno));
            }
            // Five in a row are a loss, and so are three that took a second.
            if let Some((millis, times, errno)) =
                [(249, 5, libc::EREMOTEIO), (500, 3, libc::EBUSY)].get(number as usize)
            {
                assert!((1..*times).all(|_| try_every(&mut device, *millis, Some(*errno))));
                assert!(!try_every(&mut device, *millis, Some(*errno)));
                continue;
            }
            let failed =
                device.with("reading", Span::ZERO, |_| Err::<(), _>(io::Error::from_raw_os_error(libc::ENODEV)));
            assert_eq!(failed.unwrap_err().to_string(), "reading: No such device (os error 19)");
        }
        drop(device);
        until(|| (Arc::strong_count(&there) == 1).then_some(()));
    }

    /// A device that can be open only once at a time.
    #[derive(Debug)]
    struct Alone(Arc<AtomicBool>);

    impl Drop for Alone {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }

    impl OpenDevice for Alone {
        fn exclusive(&self) -> Vec<DeviceId> {
            vec![DeviceId::Named("one that is alone".into())]
        }
    }

    #[test]
    fn a_renamed_task_takes_its_device_over() {
        let taken = Arc::new(AtomicBool::new(false));
        let open = || {
            let taken = taken.clone();
            move || match taken.swap(true, Ordering::Relaxed) {
                true => Err(Refusal::in_use("device", "the toy", [DeviceId::Named("one that is alone".into())])),
                false => Ok(Alone(taken.clone())),
            }
        };
        let begin = |site: &Site, task| Reconnecting::open(site, label(task), Missing::Wait, open());
        let common = Arc::<Common>::default();
        let site = Site::of(common.clone(), Roots::default());
        let mut old = begin(&site, "a").unwrap();
        let refused = begin(&site, "b").unwrap_err().message;
        assert_eq!(refused, "the toy is in use by task a; only one task at a time can have it");

        let exchanging = Site::of(common, Roots::default()).beside([]);
        let wrong = || Err::<Alone, _>(Refusal::new("device", "it has no such line"));
        assert!(
            Reconnecting::open(&exchanging, label("b"), Missing::Refuse, wrong).is_err(),
            "waiting does not help here"
        );
        let mut new = begin(&exchanging, "b").unwrap();
        assert!(begin(&exchanging, "c").is_err(), "two that begin cannot both have it");
        assert!(old.device().is_ok() && new.device().is_err());
        drop(old);
        until(|| new.device().is_ok().then_some(()));
        assert!(begin(&site, "c").unwrap_err().message.contains("by task b;"));
    }

    #[test]
    fn a_device_that_is_away_is_still_its_task_s() {
        let site = Site::default();
        let (taken, there) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let id = || DeviceId::Named("one that is away".into());
        struct Away {
            device: DeviceId,
            _alone: Alone,
        }
        impl OpenDevice for Away {
            fn exclusive(&self) -> Vec<DeviceId> {
                vec![self.device.clone()]
            }
        }
        let begin = |task, there: &Arc<AtomicBool>| {
            let (taken, there) = (taken.clone(), there.clone());
            let open = move || match there.load(Ordering::Relaxed) {
                false => missing(),
                true if taken.swap(true, Ordering::Relaxed) => Err(Refusal::in_use("device", "toy", [id()])),
                true => Ok(Away { device: id(), _alone: Alone(taken.clone()) }),
            };
            Reconnecting::open(&site, label(task), Missing::Wait, open)
        };
        let mut first = begin("a", &there).unwrap();
        there.store(false, Ordering::Relaxed);
        first.device().map(|_| ()).unwrap();
        first.lose();
        until(|| (!taken.load(Ordering::Relaxed)).then_some(()));
        // The device is back, and another task opens it before the first task's thread does.
        let is_back = Arc::new(AtomicBool::new(true));
        let refused = begin("b", &is_back).err().unwrap();
        assert_eq!(refused.message, "toy is in use by task a; only one task at a time can have it");
        // A task that has waited for it does not get it either.
        let late = Arc::new(AtomicBool::new(false));
        let mut second = begin("b", &late).unwrap();
        late.store(true, Ordering::Relaxed);
        pause(Span::from_millis(300));
        assert!(second.device().is_err());
        there.store(true, Ordering::Relaxed);
        until(|| first.device().is_ok().then_some(()));
        assert!(second.device().is_err());
        drop(first);
        until(|| second.device().is_ok().then_some(()));
    }

    impl OpenDevice for u32 {}

    #[test]
    fn an_attempt_that_panics_is_not_the_last() {
        let mut tries = 0;
        let open = move || {
            tries += 1;
            match tries {
                1 => missing(),
                2 => panic!("on purpose"),
                _ => Ok(tries),
            }
        };
        let mut device = Reconnecting::open(&Site::default(), label("panicking"), Missing::Wait, open).unwrap();
        assert_eq!(until(|| device.device().ok().copied()), 3_u32);
    }
}
