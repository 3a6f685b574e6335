//! The second step of a start or a reload: the first writes to targets. It runs once every task is built, every target is taken and the
//! plan of safe values is written. Nothing is written before, except a chip's `init` if its register had to be read. So a refused start or
//! reload leaves all other targets as they were. May block; runs on the thread that builds tasks.

use super::digits::{Digits, number};
use super::fan;
use super::held::Held;
use super::left_writes::LeftWrites;
use super::port::Content;
use super::target::{Target, is_given_back};
use crate::safety::{Guard, Owed, wrong_in_the_end};
use crate::site::{Beginning, Refusal};
use std::io;
use std::sync::{Arc, Weak};
use tracing::warn;

/// The first write of an output.
pub(super) struct First {
    pub(super) left: Arc<LeftWrites>,
    pub(super) owed: Arc<Owed>,
    pub(super) target: Target,
    pub(super) held: Weak<Held>,
    pub(super) guard: Weak<Guard>,
    /// The target is taken over from another output, which has already set it up.
    pub(super) is_set_up: bool,
    /// Raw number that a target needing setup holds from then on; `None`: keep its current value.
    pub(super) level: Option<f64>,
    /// Send the chip's `init` now. False if the target had to be read when it was opened: `init` was sent then.
    pub(super) sends_init: bool,
    /// Raw number of the safe value, if it is written now; NaN: unknown.
    pub(super) safe: Option<f64>,
}

impl First {
    /// Sets the target up if needed and writes the safe value. From then on, others may make the output safe.
    ///
    /// # Errors
    /// The write that the kernel refused.
    pub(super) fn write(self) -> Result<(), Refusal> {
        let (Some(held), Some(guard)) = (self.held.upgrade(), self.guard.upgrade()) else { return Ok(()) };
        self.left.await_writes(&self.target.any_writes());
        if !self.is_set_up {
            if self.sends_init {
                self.target.init()?;
            }
            // Read PWM channels only: to some chips a read is a command.
            let read =
                || if self.target.channel().is_some() { self.target.read(Some(held.taken())).ok() } else { None };
            let before = read();
            prepare(&self.target, &held, self.level).inspect_err(|_| {
                if read() != before {
                    guard.begins(); // same reason as below
                }
            })?;
        }
        // Writing a regular file may take two system calls, so a failed write may still have changed the file.
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
            guard.begins(); // the output makes the target safe when it ends, or owes it
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

/// Whether the content is that of a fan controlled by its chip.
fn is_its_chips(content: Option<&Content>) -> bool {
    content.and_then(|content| content.enable.as_deref()).and_then(number).is_some_and(fan::gives_back)
}

/// What a fan that was taken from its chip reads in place of `wanted`. `None`: it reads `wanted`, or its chip controls it again, as
/// requested. Waits as long as a driver may still show an old reading. A difference is not a failure: some chips store fewer steps than
/// they accept.
fn holds_otherwise(target: &Target, held: &Held, wanted: f64) -> Option<String> {
    wrong_in_the_end(|| {
        let now = target.holds(held.taken()).filter(|now| !is_its_chips(Some(now)))?;
        number(&now.value).is_some_and(|read| read.total_cmp(&wanted).is_ne()).then(|| now.value.trim().to_owned())
    })
}

/// Makes a target ready for writes: sets the period of a PWM channel, makes a GPIO line an output.
fn prepare(target: &Target, held: &Held, level: Option<f64>) -> Result<(), Refusal> {
    if !held.is_ready() {
        target.put_in_force(level, held.watched().written())?;
        held.remember(|| target.holds(held.taken()));
        target.set_up(held.taken(), level)?;
        held.is_now_ready();
    }
    Ok(())
}

/// The second step for a target that is only switched on and off: makes it ready.
pub(super) fn begin_switch(target: Target, held: &Arc<Held>, off: f64) -> Beginning {
    let held = Arc::downgrade(held);
    Beginning::new(move || {
        let Some(held) = held.upgrade() else { return Ok(()) };
        Ok(prepare(&target, &held, Some(off))?)
    })
}
