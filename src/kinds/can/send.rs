//! The sending task. A tick allocates nothing, and makes two system calls per 32 frames: one to see which frames have left, one to send.
//! Time comes with the ticks.

use super::bus::{Bus, BusSettings, Purpose, is_lost};
use super::interface::{Buses, NamedBus};
use super::outgoing::Outgoing;
use super::settings::SendSettings;
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Missing, Reconnecting, Sight, preview};
use crate::safety::{Live, LiveOutputs};
use crate::site::{Built, Claim, Claims, DeviceId, Holder, Label, Refusal, Site, Target};
use crate::sys::can::{BATCH, Frame, Id, LONGEST, Received};
use crate::task::{Column, Input, Task, Tick, TickError};
use crate::time::Span;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The columns after those of the signals.
pub(super) const COUNTS: [&str; 3] = ["is-safe", "sent", "write-errors"];

/// An unconfirmed frame counts as lost after this time.
const LOST_AFTER: Span = Span::from_seconds(1);

/// Maximum number of calls in one tick to see which frames have left: they also return frames that others send with these ids.
const MOST_ROUNDS: usize = 16;

/// How long a worker waits at the end of a task for confirmation of its safe frames, in total: its other tasks wait as well.
const PATIENCE: Span = Span::from_millis(20);

const FAILED: &str = "cannot send to the interface";
const UNDER_WAY: TickError = TickError::new(
    "a frame was not sent, as the one before it with the same id has not left yet: the bus is busy, off, or has no other node",
);
const LOST: TickError = TickError::new(
    "a frame has not left within 1 s and counts as lost: the bus is off, or has no other node; it is sent again",
);

/// A task that sends frames.
pub(super) struct Sender {
    bus: Reconnecting<Bus>,
    ids: Box<[Id]>, // ids of the frames
    pub(super) frames: Vec<Outgoing>,
    columns: Vec<Column>,
    reset: Option<Input>,
    always: bool,
    ready: Box<[(usize, Frame)]>, // frames to send at this tick; room for all
    sent: f64,
    write_errors: f64,
    live: Live,
    claim: Arc<Claim>,
}

pub(super) fn columns(settings: &SendSettings) -> Vec<Column> {
    let counts = COUNTS.map(|name| Column { name: name.into(), unit: String::new() });
    settings.columns.iter().cloned().chain(counts).collect()
}

/// The target that stands for an id on one of the [`Buses`]. Only one task can have it.
pub(super) fn target(bus: usize, id: Id) -> DeviceId {
    DeviceId::Named(format!("CAN id {id} on bus {bus}"))
}

fn targets(bus: usize, ids: &[Id]) -> Vec<DeviceId> {
    ids.iter().map(|id| target(bus, *id)).collect()
}

fn in_use(interface: &str, id: Id, target: &DeviceId) -> Refusal {
    Refusal::in_use("send", format!("id {id} on {interface}"), [target.clone()])
}

/// The targets that a task has through the ids of its frames. A bus that was missing at the start may turn out to be another task's bus
/// under another name.
#[derive(Default)]
pub(super) struct Had {
    pub(super) bus: usize,
    pub(super) claim: Weak<Claim>,
    pub(super) targets: Vec<Weak<Target>>,
}

impl Had {
    /// Notes that the interface was opened and which bus it is.
    pub(super) fn is_now(
        &mut self,
        bus: usize,
        (interface, ids): (&str, &[Id]),
        claims: &Claims,
    ) -> Result<(), Refusal> {
        if bus == self.bus {
            return Ok(());
        }
        let text = format!("{interface} has become another interface while it was opened");
        let claim = self.claim.upgrade().ok_or_else(|| Refusal::new("interface", text))?;
        let now = targets(bus, ids);
        // If two tasks try this at once, neither sends until one of them has tried again.
        claim.is_now(&now);
        for (id, target) in ids.iter().zip(&now) {
            let mut refusal = in_use(interface, *id, target);
            if claims.find_holder(&mut refusal, Some(&claim), None) == Some(Holder::Task) {
                claim.is_now(&targets(self.bus, ids));
                refusal.in_use.clear(); // the message already says who has it
                return Err(refusal);
            }
        }
        self.targets.iter().filter_map(Weak::upgrade).zip(now).for_each(|(target, id)| target.is_now(id));
        self.bus = bus;
        Ok(())
    }
}

impl Sender {
    pub(super) fn open(
        site: &Site,
        label: &Label,
        settings: SendSettings,
        missing: Missing,
    ) -> Result<Built, BuildError> {
        let interface = &settings.bus.interface;
        let ids = ids(&settings);
        let (buses, named) = (site.common::<Buses>(), NamedBus::new(site, label, interface));
        let bus = buses.of(&named);
        let targets = targets(bus, &ids);
        let mut follows = Vec::with_capacity(ids.len());
        for (id, target) in ids.iter().zip(&targets) {
            let mut in_use = in_use(interface, *id, target);
            match site.find_holder(&mut in_use) {
                Some(Holder::Task) => return Err(in_use.into()),
                holder => follows.push(holder == Some(Holder::Ending)),
            }
        }
        let had = Arc::new(Mutex::new(Had { bus, ..Had::default() }));
        let opened = (settings.bus.clone(), named.clone(), had.clone(), site.claims());
        let open = move || {
            let (settings, named, had, claims) = &opened;
            Bus::open(settings, named, &ids, Purpose::Send, |found| {
                let mut had = had.lock().unwrap_or_else(PoisonError::into_inner);
                had.is_now(buses.of_found(named, found), (&settings.interface, &ids), claims)
            })
        };
        let bus = Reconnecting::open(site, label.clone(), missing, open)?;
        let interface = interface.clone();
        let sender = Self::new(site, bus, settings, label, &named, (&targets, &follows));
        let mut has = had.lock().unwrap_or_else(PoisonError::into_inner);
        has.claim = Arc::downgrade(&sender.claim);
        has.targets = sender.frames.iter().map(|frame| Arc::downgrade(frame.target())).collect();
        drop(has);
        // A task that waits for its interface sends its safe values at the first tick that finds it.
        let refused = (missing == Missing::Refuse).then_some(interface);
        let begins = |frame: &Outgoing| (frame.guard().clone(), frame.begins(refused.clone()));
        let brings: Vec<_> = sender.frames.iter().map(begins).collect();
        let built = Built::from(sender).measures_nothing();
        Ok(brings.into_iter().fold(built, |built, (guard, beginning)| built.guarded_by(&guard).begins(beginning)))
    }

    pub(super) fn new(
        site: &Site,
        bus: Reconnecting<Bus>,
        settings: SendSettings,
        label: &Label,
        named: &Arc<NamedBus>,
        (targets, follows): (&[DeviceId], &[bool]),
    ) -> Self {
        let (columns, ids) = (columns(&settings), ids(&settings).into_boxed_slice());
        let SendSettings {
            section,
            bus: BusSettings { fd, .. },
            bit_rate_switch,
            frames,
            reset,
            always,
            safe_after,
            first_after,
            ..
        } = settings;
        let task = (label.task.as_str(), (safe_after, first_after), &section);
        let outgoing = |((frame, target), follows): ((_, _), &bool)| {
            Outgoing::new(site, frame, (named.clone(), fd, bit_rate_switch), task, target, *follows)
        };
        let frames: Vec<Outgoing> = frames.into_iter().zip(targets).zip(follows).map(outgoing).collect();
        let live = site.common::<LiveOutputs>().open(&label.task, safe_after);
        let id = Id { number: 0, extended: false };
        let none = Frame { id, fd, bit_rate_switch, length: 0, data: [0; LONGEST] };
        Self {
            bus,
            ready: vec![(0, none); ids.len()].into(),
            ids,
            frames,
            columns,
            reset,
            always,
            sent: 0.0,
            write_errors: 0.0,
            live,
            claim: Arc::new(site.claim(targets.iter().cloned(), &label.task)),
        }
    }

    /// Sends the frames that are ready.
    fn send(
        bus: &mut Bus,
        frames: &mut [Outgoing],
        ready: &[(usize, Frame)],
        (sent, write_errors): (&mut f64, &mut f64),
    ) -> io::Result<()> {
        let mut rest = ready;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BATCH));
            let (mut batch, mut places, mut count) = ([now[0].1; BATCH], [0; BATCH], 0);
            let mut writings = [const { None }; BATCH];
            for (at, frame) in now {
                let (may, writing) = frames[*at].may_send(frame);
                if may {
                    (batch[count], places[count], writings[count]) = (*frame, *at, writing);
                    count += 1;
                }
            }
            let (mut done, mut result) = (0, Ok(()));
            while done < count && result.is_ok() {
                match bus.socket.send(&batch[done..count]) {
                    Ok(0) => result = Err(io::ErrorKind::WouldBlock.into()),
                    Ok(taken) => done = count.min(done + taken),
                    Err(error) => result = Err(error),
                }
            }
            drop(writings);
            for (at, frame) in places.iter().zip(&batch).take(done) {
                bus.under_way[*at] = Some(Span::ZERO);
                frames[*at].was_sent(frame);
                *sent += 1.0;
            }
            if let Err(error) = result {
                let left = places[done..count].iter().chain(later.iter().map(|(at, _)| at));
                *write_errors += were_not_sent(frames, left, &error);
                return Err(error);
            }
            rest = later;
        }
        Ok(())
    }
}

/// Tells these frames that they were not sent. Returns their number.
fn were_not_sent<'a>(frames: &[Outgoing], places: impl Iterator<Item = &'a usize>, error: &io::Error) -> f64 {
    places.fold(0.0, |count, at| {
        frames[*at].was_not_sent(error);
        count + 1.0
    })
}

fn ids(settings: &SendSettings) -> Vec<Id> {
    settings.frames.iter().map(|frame| frame.id).collect()
}

/// Notes which frames have left, and which of the others count as lost. Returns the number of lost ones.
fn see_what_left(bus: &mut Bus, frames: &mut [Outgoing], ids: &[Id], passed: Span) -> io::Result<f64> {
    let under_way = &mut bus.under_way;
    for _ in 0..MOST_ROUNDS {
        let count = bus.socket.receive(|received| {
            if let Received::Sent(id) = received
                && let Some(at) = ids.iter().position(|known| *known == id)
                && under_way[at].take().is_some()
            {
                frames[at].has_left();
            }
        })?;
        if count < BATCH {
            break;
        }
    }
    let mut lost = 0.0;
    for (waited, frame) in under_way.iter_mut().zip(frames) {
        *waited = waited.map(|waited| waited + passed);
        if waited.is_some_and(|waited| waited >= LOST_AFTER) {
            *waited = None;
            frame.was_lost();
            lost += 1.0;
        }
    }
    Ok(lost)
}

impl Task for Sender {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let reset = self.reset.as_ref().and_then(Input::is_on);
        let periods = i64::try_from(tick.skipped).unwrap_or(i64::MAX).saturating_add(1);
        let passed = Span::from_nanos(tick.period.nanos().saturating_mul(periods));
        let Self { bus, ids, frames, ready, sent, write_errors, always, live, .. } = self;
        for frame in &mut *frames {
            frame.step(passed, reset);
        }
        let mut done = Ok(());
        match bus.device() {
            Err(gone) => {
                let away = io::Error::from_raw_os_error(libc::ENETDOWN);
                for frame in frames.iter().filter(|frame| frame.next(*always).is_some()) {
                    frame.was_not_sent(&away);
                    *write_errors += 1.0;
                }
                done = Err(gone);
            }
            Ok(open) => {
                let mut count = 0;
                let looked = see_what_left(open, frames, ids, passed);
                if let Ok(lost @ 1.0..) = looked {
                    *write_errors += lost;
                    done = Err(LOST);
                }
                for (at, frame) in frames.iter_mut().enumerate() {
                    let Some(next) = frame.next(*always) else {
                        frame.stays();
                        continue;
                    };
                    if open.under_way[at].is_some() {
                        frame.was_not_sent(&io::Error::from_raw_os_error(libc::EBUSY));
                        *write_errors += 1.0;
                        done = Err(UNDER_WAY);
                    } else {
                        ready[count] = (at, next);
                        count += 1;
                    }
                }
                let ready = &ready[..count];
                let result = match looked {
                    Ok(_) => Self::send(open, frames, ready, (sent, write_errors)),
                    Err(error) => {
                        *write_errors += were_not_sent(frames, ready.iter().map(|(at, _)| at), &error);
                        Err(error)
                    }
                };
                if let Err(error) = result {
                    done = Err(TickError::from_io(FAILED, &error));
                    if is_lost(&error) {
                        bus.lose();
                        frames.iter_mut().for_each(Outgoing::forget_what_was_sent);
                    }
                }
            }
        }
        for frame in &*frames {
            frame.report(values);
        }
        live.ticked(done.is_ok() && frames.iter().all(Outgoing::is_live));
        let is_safe = frames.iter().any(Outgoing::is_safe);
        let signals = values.len() - COUNTS.len();
        values[signals..].copy_from_slice(&[f64::from(u8::from(is_safe)), *sent, *write_errors]);
        done.map_err(TickError::of_no_value)
    }

    fn disabled(&mut self) {
        self.live.ended();
        let mut patience = PATIENCE;
        self.frames.iter_mut().for_each(|frame| frame.end(&mut patience));
    }

    fn ended(&mut self) {
        let mut patience = PATIENCE;
        self.frames.iter_mut().filter(|frame| frame.is_last()).for_each(|frame| frame.end(&mut patience));
    }
}

/// Whether a task of this daemon sends frames with this id on this interface, or is being previewed.
pub(crate) fn sends(site: &Site, interface: &str, id: Id) -> bool {
    let bus = site.common::<Buses>().of(&NamedBus::new(site, &Label::new("interface", ""), interface));
    site.find_holder(&mut in_use(interface, id, &target(bus, id))) == Some(Holder::Task)
}

/// Previews [`Sender::open`]; sends nothing.
pub(super) fn look(
    site: &Site,
    label: &Label,
    settings: &SendSettings,
    missing: Missing,
) -> Result<Preview, BuildError> {
    let interface = &settings.bus.interface;
    let ids = ids(settings);
    let named = NamedBus::new(site, label, interface);
    let targets = targets(site.common::<Buses>().of(&named), &ids);
    for (id, target) in ids.iter().zip(&targets) {
        let mut in_use = in_use(interface, *id, target);
        if site.find_holder(&mut in_use) == Some(Holder::Task) {
            return Err(in_use.into());
        }
    }
    let claim = site.claim(targets, &label.task);
    let looked = Bus::open(&settings.bus, &named, &ids, Purpose::Send, |_| Ok(())).map(|_| Sight::default());
    let mut preview = preview(site, label, missing, looked)?;
    preview.held = Some(Box::new((preview.held.take(), claim)));
    let safe = |frame: &_| {
        format!(
            "sends {} to {interface}",
            super::outgoing::safe_frame(frame, settings.bus.fd, settings.bit_rate_switch)
        )
    };
    preview.safe.extend(settings.frames.iter().map(safe));
    preview.columns = Some(columns(settings));
    Ok(preview)
}
