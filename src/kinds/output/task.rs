//! The output's task. A tick allocates nothing, and makes no system calls but those of the write. Time comes with the ticks.

use super::digits::{Digits, Form};
use super::held::Held;
use super::law::{Law, Settings, Step, Wanted};
use super::port::Writer;
use super::safe::SafeState;
use super::settings::Conversion;
use crate::channels::or_none;
use crate::kinds::elapsed::seconds_since_last;
use crate::safety::{Guard, Live, Owed};
use crate::site::Claim;
use crate::task::{Column, Input, Quality, Task, Tick, TickError};
use std::sync::Arc;

/// Seconds until a failed safe write is tried again, at a tick.
const RETRY: f64 = 0.1;

const FAILED: &str = "cannot write the value";
const UNSAFE_YET: TickError = TickError::new("the safe value could not be written; it is tried again every 100 ms");
const GONE: TickError = TickError::away("its target is gone; trying to open it again");
pub(super) const TOO_LARGE: TickError =
    TickError::new("the value is infinite: after `scale` and `offset` it is too large for a floating-point number");

/// A running output.
pub(super) struct Output {
    pub(super) law: Law,
    pub(super) terms: Settings,
    pub(super) input: Input,
    pub(super) reset: Option<Input>,
    pub(super) conversion: Conversion,
    pub(super) form: Form,
    pub(super) always: bool,
    pub(super) writer: Writer,
    pub(super) written: Digits,
    pub(super) safe: Option<SafeState>, // `None`: it has no safe state and keeps its value
    pub(super) guard: Arc<Guard>,
    pub(super) seen: Option<u64>, // number of the last trip by another thread, until it has recovered from it
    pub(super) retry_in: f64,     // seconds until the next attempt at the safe value
    pub(super) ramps: bool,       // the last tick was on the ramp to the safe value
    pub(super) write_errors: f64,
    pub(super) ticked: bool,
    pub(super) follows: bool, // takes the target over from another task
    pub(super) is_same: bool, // that task's section has the same text
    pub(super) alone: bool,   // no other task may still write to the target
    pub(super) finished: bool,
    pub(super) live: Live,
    pub(super) held: Arc<Held>,
    pub(super) owed: Arc<Owed>,
    pub(super) _claim: Arc<Claim>,
}

impl Output {
    /// First tick of an output that takes its target over: continues from the other output's last state.
    fn take_over(&mut self) {
        let applied = self.conversion.back(self.held.raw());
        self.law = match self.held.is_safe() {
            _ if self.is_same && self.held.has_to_recover() => Law::unrecovered(self.terms, applied),
            true => Law::made_safe_by_another(self.terms, applied),
            false => Law::going_on(self.terms, applied),
        };
    }

    fn apply(&mut self, value: f64) -> Result<(), TickError> {
        let raw = self.conversion.raw(value);
        if !raw.is_finite() {
            return Err(TOO_LARGE);
        }
        let digits = Digits::of(raw, self.form);
        if self.always || digits.bytes() != self.written.bytes() {
            let Some(_writing) = self.guard.writing() else {
                return Ok(()); // made safe since this tick began; the next tick sees it
            };
            self.written = Digits::EMPTY;
            let write = self.guard.written().begin();
            let result = self.writer.write(&digits, self.guard.written());
            let number = if result.is_ok() { Digits::rounded(raw, self.form) } else { f64::NAN };
            self.guard.written().end(&write, number);
            if let Err(error) = result {
                return Err(failed(&mut self.write_errors, &error));
            }
            self.written = digits;
        }
        self.law.put_out(value);
        self.held.put_out(raw, false);
        Ok(())
    }

    /// Whether the target's previous task has stopped writing since the last tick. Its worker may have been stuck in its last write, which
    /// then landed after this output's. So everything is written once more.
    fn is_alone_now(&mut self) -> bool {
        let was_alone = std::mem::replace(&mut self.alone, self.guard.is_alone());
        let is_new = self.alone && !was_alone;
        if is_new {
            self.writer.was_made_safe();
        }
        is_new
    }

    /// Whether to repeat the last write at a tick that changes nothing.
    fn writes_again(&self) -> bool {
        let has_own_value = || self.safe.as_ref().is_some_and(|safe| !safe.gives_back);
        self.always
            && (self.guard.written().has_lapsed() || self.law.follows() || self.law.is_safe() && has_own_value())
    }

    /// Repeats the last write at a tick that would write nothing: the target may have changed.
    fn repair(&mut self, elapsed: f64) -> Result<(), TickError> {
        if self.law.is_safe() && self.safe.is_some() {
            return self.make_safe(elapsed);
        }
        let before = std::mem::replace(&mut self.written, Digits::EMPTY);
        if before.bytes().is_empty() {
            return Ok(());
        }
        let done = self.apply(self.law.applied());
        if done.is_err() && self.always {
            self.written = before; // so that the next tick tries again
        }
        done
    }

    fn make_safe(&mut self, elapsed: f64) -> Result<(), TickError> {
        self.retry_in -= elapsed;
        if self.retry_in > 0.0 {
            return Err(UNSAFE_YET);
        }
        let mut value = self.law.applied();
        // With "hold" nothing is written here, but another thread may have written the safe value of the target's previous output.
        let raw = self.held.raw();
        if self.safe.is_none() && raw != self.conversion.raw(value) {
            value = self.conversion.back(raw);
        }
        // At the end of the process, another thread writes the safe value and retries it, because the process may exit in the middle of a
        // write from this thread.
        let is_others = self.guard.is_sealed() && self.guard.tripped().is_some();
        if let Some(safe) = &self.safe {
            value = safe.value;
        }
        if let Some(safe) = self.safe.as_ref().filter(|_| !is_others) {
            self.written = Digits::EMPTY;
            let write = self.guard.written().begin();
            let result = self.writer.write_safe(&safe.text, self.guard.written());
            self.guard.written().end(&write, if result.is_ok() { safe.number } else { f64::NAN });
            self.guard.made_safe(result.as_ref().err());
            if let Err(error) = result {
                self.retry_in = RETRY;
                self.law.put_out_no_safe();
                return Err(failed(&mut self.write_errors, &error));
            }
        }
        self.retry_in = 0.0;
        self.law.put_out_safe(value);
        self.held.put_out(self.conversion.raw(value), true);
        Ok(())
    }

    /// Whether another thread has made the output safe since the last tick, or keeps it safe.
    fn sees_trip(&mut self) -> bool {
        let tripped = self.guard.tripped();
        let new = tripped.is_some() && tripped != self.seen;
        if new {
            (self.seen, self.retry_in, self.written) = (tripped, 0.0, Digits::EMPTY);
            self.writer.was_made_safe();
        }
        new || self.guard.is_sealed()
    }
}

fn failed(write_errors: &mut f64, error: &std::io::Error) -> TickError {
    *write_errors += 1.0;
    TickError::from_io(FAILED, error)
}

impl Task for Output {
    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        if !std::mem::replace(&mut self.ticked, true) && self.follows {
            self.take_over();
        }
        let tripped = self.sees_trip();
        let step = learned(&self.input, self.reset.as_ref(), tick, tripped);
        self.guard.beat();
        let (wanted, again) = (self.law.step(&step), self.is_alone_now());
        let ramps = matches!(wanted, Wanted::Ramp(_));
        let begins_ramp = !std::mem::replace(&mut self.ramps, ramps) && ramps;
        if begins_ramp {
            self.writer.sets_again(); // the ramp is part of the safe state
        }
        if (again || begins_ramp) && wanted != Wanted::Nothing {
            self.written = Digits::EMPTY;
        }
        let done = match wanted {
            _ if self.guard.is_lost() => {
                self.write_errors += 1.0;
                Err(GONE)
            }
            Wanted::Nothing if again || self.writes_again() => self.repair(step.elapsed),
            Wanted::Nothing => Ok(()),
            Wanted::Value(value) => {
                if let Some(seen) = self.seen.take() {
                    self.guard.release(seen);
                }
                self.guard.made_safe(None);
                self.apply(value)
            }
            Wanted::Ramp(value) => self.apply(value),
            Wanted::Safe => self.make_safe(step.elapsed),
        };
        self.held.set_to_recover(self.law.has_to_recover());
        self.live.ticked(self.law.follows() && done.is_ok());
        let has_safe = self.safe.is_some() && self.guard.written().is_in_force();
        values.copy_from_slice(&shown(&self.law, has_safe, step.input, self.write_errors).map(or_none));
        done.map_err(TickError::of_no_value)
    }

    fn disabled(&mut self) {
        self.live.ended();
        // If it fails, another thread keeps trying.
        self.finished = self.guard.end();
        let safe = self.safe.as_ref().filter(|_| self.finished).map(|safe| safe.value);
        self.held.put_out(self.conversion.raw(safe.unwrap_or(self.law.applied())), self.finished);
    }

    fn ended(&mut self) {
        if self.guard.is_alone() && !self.finished {
            self.finished = self.guard.end();
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Skipped if another write may follow, which cuts the file off itself; until then the length is uncertain.
        if self.guard.is_alone() && (self.finished || self.safe.is_none()) {
            self.writer.cut_tail(self.guard.written());
        }
        self.owed.end(&self.guard, self.held.clone(), self.finished, || self.live.owing());
    }
}

pub(super) fn columns() -> Vec<Column> {
    ["applied", "is-safe", "write-errors", "held-back"]
        .map(|name| Column { name: name.into(), unit: String::new() })
        .into()
}

/// The inputs of one tick.
pub(super) fn learned(input: &Input, reset: Option<&Input>, tick: &Tick, tripped: bool) -> Step {
    let elapsed = seconds_since_last(tick);
    Step {
        input: input.get(),
        is_none: input.quality() == Quality::None,
        is_missing: !input.has_come(),
        tripped,
        reset: reset.and_then(Input::is_on),
        elapsed,
    }
}

/// The output's values, in the order of its columns. `has_safe`: it has a safe state, and the settings that give its value an effect are
/// not known to have changed. Without it, the output never shows as safe.
pub(super) fn shown(law: &Law, has_safe: bool, input: f64, write_errors: f64) -> [f64; 4] {
    let is_safe = has_safe && law.is_safe();
    [law.applied(), f64::from(u8::from(is_safe)), write_errors, law.held_back(input)]
}
