//! The second step of a start or a reload: what is written to targets once every task is built, every target is taken and the plan of safe
//! values is written. Until then nothing is, so a start or a reload that is refused leaves all targets as they were. May block; for the thread
//! that builds tasks.

use super::digits::{Digits, number};
use super::fan;
use super::held::Held;
use super::port::Content;
use super::target::{Target, is_given_back};
use crate::safety::{Guard, Owed, wrong_in_the_end};
use crate::site::{Beginning, Refusal};
use std::io;
use std::sync::{Arc, Weak};
use tracing::warn;

/// What an output writes.
pub(super) struct First {
    pub(super) owed: Arc<Owed>,
    pub(super) target: Target,
    pub(super) held: Weak<Held>,
    pub(super) guard: Weak<Guard>,
    /// It takes the target over from another output, which has set it up.
    pub(super) is_set_up: bool,
    /// What a target that has to be set up is to hold from then on; `None`: what it holds.
    pub(super) level: Option<f64>,
    /// A chip gets what it needs to begin with; it did when it was opened, if it had to be read then.
    pub(super) sends_init: bool,
    /// The raw number of the safe value, if that is written; NaN: not known.
    pub(super) safe: Option<f64>,
}

impl First {
    /// Writes it; from then on the output may be made safe by others.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn write(self) -> Result<(), Refusal> {
        let (Some(held), Some(guard)) = (self.held.upgrade(), self.guard.upgrade()) else { return Ok(()) };
        if !self.is_set_up {
            if self.sends_init {
                self.target.init()?;
            }
            // Nothing but a PWM channel is read: to some chips that is a command.
            let read =
                || if self.target.channel().is_some() { self.target.read(Some(held.taken())).ok() } else { None };
            let before = read();
            prepare(&self.target, &held, self.level).inspect_err(|_| {
                if read() != before {
                    guard.begins(); // as below
                }
            })?;
        }
        // A regular file may take two system calls: a write that failed may have changed it.
        let makes_safe = self.safe.is_some();
        let file = || {
            let is_file = makes_safe && self.target.regular_file().is_some();
            if is_file { self.target.read(Some(held.taken())).ok() } else { None }
        };
        let (before, settings) = (file(), self.target.set_with_value());
        let is_taken =
            makes_safe && self.target.enable().is_some() && is_its_chips(self.target.holds(held.taken()).as_ref());
        let written = self.owed.begin(&guard, || if makes_safe { guard.write_first() } else { Ok(()) });
        let (key, shown) = (self.target.key, self.target.shown());
        let refuse = |error: io::Error| Refusal::new(key, format!("cannot write the safe value to {shown}: {error}"));
        let is_as_before = || {
            (before.is_none() || file() == before)
                && settings.iter().all(|(setting, text)| is_given_back(setting, text.as_deref()))
        };
        if written.is_err() && !self.is_set_up && !is_as_before() {
            guard.begins(); // the output makes it safe as it ends, or owes that
        }
        written.map_err(refuse)?;
        let Some(safe) = self.safe else { return Ok(()) };
        held.put_out(safe, true);
        let wanted = Digits::rounded(safe, self.target.form);
        if let Some(read) = is_taken.then(|| holds_otherwise(&self.target, &held, wanted)).flatten() {
            let (task, enable) = (guard.task(), self.target.enable_name());
            warn!(
                task,
                "{task}: {shown} reads {read} after its safe value, {wanted}, was written and {enable} was set to 1: its chip keeps fewer steps than \
                 it takes, or drops what is written; see whether the fan turns as it should, or switch off what it cools. With `readback` hertzd \
                 watches it"
            );
        }
        Ok(())
    }
}

/// Whether it is a fan that its chip has.
fn is_its_chips(content: Option<&Content>) -> bool {
    content.and_then(|content| content.enable.as_deref()).and_then(number).is_some_and(fan::gives_back)
}

/// What a fan that was taken from its chip holds in place of this, for as long as a driver may show what it saw before; `None`: this, or it is its
/// chip's again, as was asked for. Some chips keep fewer steps than they take, so it is no failure.
fn holds_otherwise(target: &Target, held: &Held, wanted: f64) -> Option<String> {
    wrong_in_the_end(|| {
        let now = target.holds(held.taken()).filter(|now| !is_its_chips(Some(now)))?;
        number(&now.value).is_some_and(|read| read.total_cmp(&wanted).is_ne()).then(|| now.value.trim().to_owned())
    })
}

/// Makes a target ready to be written: a PWM channel gets its period, a GPIO line becomes an output.
fn prepare(target: &Target, held: &Held, level: Option<f64>) -> Result<(), Refusal> {
    if !held.is_ready() {
        target.put_in_force(level, held.watched().written())?;
        held.remember(|| target.holds(held.taken()));
        target.set_up(held.taken(), level)?;
        held.is_now_ready();
    }
    Ok(())
}

/// Has a target made ready that is only switched on and off, in the second step.
pub(super) fn begin_switch(target: Target, held: &Arc<Held>, off: f64) -> Beginning {
    let held = Arc::downgrade(held);
    Beginning::new(move || {
        let Some(held) = held.upgrade() else { return Ok(()) };
        Ok(prepare(&target, &held, Some(off))?)
    })
}
