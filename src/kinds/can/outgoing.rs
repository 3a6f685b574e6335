//! One frame that a task sends: the values of its signals, and how others than the task can make it safe. A tick allocates nothing.

use super::adapter::Adapter;
use super::interface::NamedBus;
use super::settings::{SentFrame, SentSignal};
use crate::channels::or_none;
use crate::kinds::output::law::{Law, Step, Wanted};
use crate::safety::{Guard, LiveOutputs, Owed, PlannedWrite, SafeWrite, Writing};
use crate::site::{Beginning, DeviceId, Refusal, Site, Target, Targets};
use crate::sys::can::{self, Frame};
use crate::task::{Input, Quality};
use crate::time::Span;
use std::io;
use std::sync::Arc;

/// The state of a frame between two ticks.
pub(super) struct Outgoing {
    signals: Vec<Running>,
    empty: Frame, // all zeros: the bits that belong to no signal
    safe: Frame,
    sent: Option<Frame>, // the last frame sent; `None`: unknown, or lost
    lost: bool,          // a frame was lost, and no later one has been confirmed
    guard: Arc<Guard>,
    begun: bool,        // has ticked
    seen: Option<u64>,  // number of the last trip by another thread, until it has recovered from it
    follows: bool,      // takes the id over from another task
    is_same: bool,      // that task's section has the same text
    _section: Arc<str>, // for the next task with this id
    finished: bool,
    held: Arc<Target>,
    owed: Arc<Owed>,
    outputs: Arc<LiveOutputs>,
}

/// A signal of the frame.
struct Running {
    settings: SentSignal,
    law: Law,
    raw: Option<i64>, // the number to put in the frame
    wanted: Wanted,   // for this tick
}

/// Sends the safe values.
struct SafeFrame {
    bus: Arc<NamedBus>,
    frame: Frame,
}

impl SafeFrame {
    fn planned(&self, (interface, adapter): (String, Option<Adapter>)) -> Vec<PlannedWrite> {
        let Frame { id, fd, bit_rate_switch, .. } = self.frame;
        let data = self.frame.bytes().to_vec();
        vec![PlannedWrite::Can { interface, adapter, id: id.number, extended: id.extended, fd, bit_rate_switch, data }]
    }
}

impl SafeWrite for SafeFrame {
    fn write_safe(&self) -> io::Result<()> {
        self.write_safe_within(&mut { can::PATIENCE })
    }

    fn write_safe_within(&self, patience: &mut Span) -> io::Result<()> {
        can::send_once(|socket| self.bus.find_again(socket), &self.frame, patience)
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        self.planned(self.bus.planned())
    }

    fn plan_unless_locked(&self) -> Option<Vec<PlannedWrite>> {
        self.bus.planned_unless_locked().map(|planned| self.planned(planned))
    }
}

fn empty_frame(frame: &SentFrame, fd: bool, bit_rate_switch: bool) -> Frame {
    Frame { id: frame.id, fd, bit_rate_switch: fd && bit_rate_switch, length: frame.length, data: [0; can::LONGEST] }
}

/// The frame with all safe values.
pub(super) fn safe_frame(frame: &SentFrame, fd: bool, bit_rate_switch: bool) -> Frame {
    let mut safe = empty_frame(frame, fd, bit_rate_switch);
    for signal in &frame.signals {
        signal.signal.write(signal.signal.raw(signal.safe), &mut safe.data);
    }
    safe
}

impl Outgoing {
    /// `task`: its name, how long it may go without a tick, and its section's text. `follows`: another task has the id, and is about to
    /// end.
    pub(super) fn new(
        site: &Site,
        frame: SentFrame,
        (bus, fd, bit_rate_switch): (Arc<NamedBus>, bool, bool),
        task: (&str, (Span, Span), &Arc<str>),
        target: &DeviceId,
        follows: bool,
    ) -> Self {
        let (empty, safe) = (empty_frame(&frame, fd, bit_rate_switch), safe_frame(&frame, fd, bit_rate_switch));
        let sent_ids = site.common::<Targets>();
        let before = sent_ids.join(target);
        // A frame does not continue from one that ended without its safe values.
        let follows = follows && before.is_some();
        let held = before.unwrap_or_else(|| sent_ids.add(target.clone()));
        let (section, is_same) = (task.2.clone(), held.is_of(task.2));
        let running = |settings: SentSignal| {
            let law = match follows {
                true => Law::going_on(settings.law, f64::NAN),
                false => Law::made_safe_by_another(settings.law, f64::NAN),
            };
            Running { settings, law, raw: None, wanted: Wanted::Nothing }
        };
        let writer = Box::new(SafeFrame { bus, frame: safe });
        let guard = Guard::new(task.0, held.watched(), task.1, Some(writer));
        let signals = frame.signals.into_iter().map(running).collect();
        let (sent, seen, begun) = (None, None, false);
        Self {
            signals,
            empty,
            safe,
            sent,
            lost: false,
            guard,
            begun,
            seen,
            follows,
            is_same,
            _section: section,
            finished: false,
            held,
            owed: site.common(),
            outputs: site.common(),
        }
    }

    /// The guard that makes it safe when the task does not.
    pub(super) fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// The second step of a start or reload: sends the safe values, unless another task sends the id until the first tick. `interface`: its
    /// name, if the start is to be refused when they cannot be sent; `None`: the first tick that finds the interface sends them.
    pub(super) fn begins(&self, interface: Option<String>) -> Beginning {
        let (guard, follows, owed) = (Arc::downgrade(&self.guard), self.follows, self.owed.clone());
        Beginning::new(move || {
            let Some(guard) = guard.upgrade() else { return Ok(()) };
            let write = || match (follows, &interface) {
                (true, _) => Ok(()),
                // Other bus nodes may start later than this: a tick repeats the frame until it is confirmed.
                (false, Some(_)) => guard.write_first().or_else(|error| match error.kind() {
                    io::ErrorKind::TimedOut => Ok(()),
                    _ => Err(error),
                }),
                (false, None) => {
                    _ = guard.write_first();
                    Ok(())
                }
            };
            let shown = interface.as_deref().unwrap_or_default();
            let refuse = |error| format!("cannot send the safe values to {shown}: {error}");
            Ok(owed.begin(&guard, write).map_err(|error| Refusal::new("interface", refuse(error)))?)
        })
        .taking_over(follows)
    }

    /// Called at the first tick. The safe values were sent at the start, or the task still has to send them; or it continues from another
    /// task.
    fn take_up_start(&mut self) {
        if self.follows && self.is_same {
            for (place, Running { settings, law, .. }) in self.signals.iter_mut().enumerate() {
                if self.held.has_to_recover(place) {
                    *law = Law::unrecovered(settings.law, f64::NAN);
                }
            }
        }
        if !self.guard.is_safe_at_first() {
            return;
        }
        for running in &mut self.signals {
            let SentSignal { signal, safe, law, .. } = &running.settings;
            (running.law, running.raw) = (Law::safe(*law, *safe), Some(signal.raw(*safe)));
        }
        self.sent = Some(self.safe);
    }

    /// One tick: decides the value of each signal.
    pub(super) fn step(&mut self, passed: Span, reset: Option<bool>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.take_up_start();
        }
        let trips = self.guard.tripped();
        let new = trips.is_some() && trips != self.seen;
        if new {
            (self.seen, self.sent) = (trips, None);
        }
        let tripped = new || self.guard.is_sealed();
        self.guard.beat();
        let mut lives = false;
        for (place, Running { settings, law, raw, wanted }) in self.signals.iter_mut().enumerate() {
            let step = Step {
                input: Input::get(&settings.input),
                is_none: settings.input.quality() == Quality::None,
                is_missing: !settings.input.has_come(),
                tripped,
                reset,
                elapsed: passed.seconds(),
            };
            *wanted = law.step(&step);
            if self.held.has_to_recover(place) != law.has_to_recover() {
                self.held.set_to_recover(place, law.has_to_recover());
            }
            match *wanted {
                Wanted::Nothing => {}
                Wanted::Value(value) | Wanted::Ramp(value) => {
                    *raw = Some(settings.signal.raw(value));
                    lives = true;
                }
                Wanted::Safe => *raw = Some(settings.signal.raw(settings.safe)),
            }
        }
        if lives {
            if let Some(seen) = self.seen.take() {
                self.guard.release(seen);
            }
            let is_safe = |running: &Running| running.wanted == Wanted::Safe || running.law.is_safe();
            if !self.signals.iter().any(is_safe) {
                self.guard.made_safe(None);
            }
        }
    }

    /// The frame with the current values of all signals.
    fn frame(&self) -> Option<Frame> {
        let mut frame = self.empty;
        for Running { settings, raw, .. } in &self.signals {
            settings.signal.write((*raw)?, &mut frame.data);
        }
        Some(frame)
    }

    /// The frame to send at this tick, if any.
    pub(super) fn next(&self, always: bool) -> Option<Frame> {
        self.frame().filter(|frame| always || self.sent != Some(*frame))
    }

    /// Nothing had to be sent: the frame is the same as the last one sent.
    pub(super) fn stays(&mut self) {
        let Some(frame) = self.frame() else { return };
        // Another thread may have sent the safe values since this tick began; the next tick sees that.
        if self.guard.writing().is_some() || frame == self.safe {
            self.was_sent(&frame);
        }
    }

    /// Starts to send this frame. If another thread has sent the safe values since this tick began, only those may be sent; the next tick
    /// sees it.
    pub(super) fn may_send(&self, frame: &Frame) -> (bool, Option<Writing<'_>>) {
        let writing = self.guard.writing();
        (writing.is_some() || *frame == self.safe, writing)
    }

    /// The frame could not be sent. If it held safe values, the guard records the failure.
    pub(super) fn was_not_sent(&self, error: &io::Error) {
        if self.signals.iter().any(|running| running.wanted == Wanted::Safe) {
            self.guard.made_safe(Some(error));
        }
    }

    /// The frame was confirmed: it has left.
    pub(super) fn has_left(&mut self) {
        if std::mem::take(&mut self.lost) {
            self.guard.made_safe(None);
        }
    }

    /// The frame was not confirmed in time. If it held safe values, the guard records that until a later frame is confirmed.
    pub(super) fn was_lost(&mut self) {
        (self.lost, self.sent) = (true, None);
        if self.is_safe() {
            self.guard.made_safe(Some(&io::ErrorKind::TimedOut.into()));
        }
    }

    /// The interface is lost, with any frame under way: once it is back, the frame is sent again in any case.
    pub(super) fn forget_what_was_sent(&mut self) {
        self.sent = None;
    }

    /// This frame was sent.
    pub(super) fn was_sent(&mut self, frame: &Frame) {
        self.sent = Some(*frame);
        if !self.lost {
            self.guard.made_safe(None);
        }
        for Running { settings, law, wanted, .. } in &mut self.signals {
            match *wanted {
                Wanted::Nothing => {}
                Wanted::Value(value) | Wanted::Ramp(value) => law.put_out(value),
                Wanted::Safe => law.put_out_safe(settings.safe),
            }
        }
    }

    /// Fills in the values of its signals.
    pub(super) fn report(&self, values: &mut [f64]) {
        for Running { settings, law, .. } in &self.signals {
            values[settings.column] = or_none(law.applied());
        }
    }

    /// Whether any signal is safe.
    pub(super) fn is_safe(&self) -> bool {
        self.signals.iter().any(|running| running.law.is_safe())
    }

    /// Whether all signals follow their inputs.
    pub(super) fn is_live(&self) -> bool {
        self.signals.iter().all(|running| running.law.follows())
    }

    /// Its target. Another task may take it over.
    pub(super) fn target(&self) -> &Arc<Target> {
        &self.held
    }

    /// Whether no other task will take the frame over.
    pub(super) fn is_last(&self) -> bool {
        self.guard.is_alone()
    }

    #[cfg(test)]
    pub(super) fn signal(&mut self, place: usize) -> &mut SentSignal {
        &mut self.signals[place].settings
    }

    /// Sends the safe values. If that fails, or no confirmation comes within `patience`, another thread keeps trying.
    pub(super) fn end(&mut self, patience: &mut Span) {
        self.finished = self.finished || self.guard.end_within(patience);
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let owing = || self.outputs.owing(self.guard.task());
        self.owed.end(&self.guard, self.held.clone(), self.finished, owing);
    }
}
