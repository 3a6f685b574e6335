//! Reads a target back and compares it with what was last written to it: its value, if requested, and always the settings that decide
//! whether the value has any effect. May block for as long as the target's driver takes; for cool threads.

use super::digits;
use super::fan;
use super::setting::{Setting, Sort};
use super::target::Target;
use super::text::{is_readable, read_text};
use crate::safety::{Lapse, LastWritten, ReadBack, Reading};
use crate::site::Refusal;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// How often settings are read when the value is not read back.
const SETTINGS_EVERY: Span = Span::from_seconds(1);

/// How long after a write a setting may still read differently: many drivers poll their chip every second or two, and show the last poll.
const SETTLES: Span = Span::from_seconds(3);

/// An output's target, as it is read back.
#[derive(Debug)]
pub(super) struct Readback {
    target: Mutex<Target>, // replaced when the target is reopened
    taken: Option<File>,   // the file through which a line is read
    written: Arc<LastWritten>,
    every: Span,
    reads_value: bool,
    repairs: bool,                      // write again what differs
    set: Mutex<Option<(u64, Instant)>>, // number of settings writes, and when that number was first seen
}

impl Readback {
    /// The readback of a taken target; `written` records its last write. `every`: how often the value is read, if at all; `repairs`: write
    /// again what differs. Returns `None` if there is nothing to read.
    ///
    /// # Errors
    /// The target cannot be read.
    pub(super) fn of(
        target: &Target,
        taken: &File,
        written: Arc<LastWritten>,
        (every, repairs): (Option<Span>, bool),
    ) -> Result<Option<Arc<Self>>, Refusal> {
        if every.is_none() && target.settings().is_empty() {
            return Ok(None);
        }
        let refuse = |error: io::Error| cannot(target, &error);
        let reads_value = every.is_some();
        if reads_value {
            target.value(Some(taken)).map_err(refuse)?;
        }
        let taken = target.is_read_by_what_was_taken().then(|| taken.try_clone()).transpose().map_err(refuse)?;
        let (target, every) = (Mutex::new(target.clone()), every.unwrap_or(SETTINGS_EVERY));
        Ok(Some(Arc::new(Self { target, taken, written, every, reads_value, repairs, set: Mutex::default() })))
    }

    /// The target was reopened and is this one now.
    pub(super) fn is_now(&self, target: Target) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// The taken file through which the target is read, if there is one.
    pub(super) fn taken(&self) -> Option<&File> {
        self.taken.as_ref()
    }

    fn target(&self) -> Target {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is wrong with the settings, given the last number written; `None`: nothing known.
    fn settings(&self, target: &Target, number: f64) -> Option<Reading> {
        let (numbers, sets) = self.written.settings()?;
        let is_settled = self.has_settled(sets);
        target.settings().iter().zip(numbers).filter(|(_, set)| !set.is_nan()).find_map(|(setting, set)| {
            // Some drivers make such a file write-only, so whether the setting is in force is invisible. With `repairs` it is written again
            // every few seconds.
            if !is_readable(&setting.path) {
                if self.repairs && is_settled && !fan::gives_back(set) {
                    self.written.lapse();
                }
                return None;
            }
            match read_text(&setting.path) {
                Ok(text) if is_in_force(target, setting, set, (&text, number)) => None,
                Ok(_) if !is_settled => Some(Reading::Unsettled),
                Ok(text) => Some(Reading::NotInForce(self.lapse(target, setting, set, &text))),
                Err(why) => Some(Reading::Unreadable(format!("{}: {why}", setting.path.display()))),
            }
        })
    }

    /// Whether the target is a fan that was given back to its chip.
    fn is_given_back(&self, target: &Target) -> bool {
        let mode = self.written.settings().map(|(numbers, _)| numbers[0]).filter(|mode| !mode.is_nan());
        target.enable().is_some() && mode.is_some_and(fan::gives_back)
    }

    /// Whether the settings write with this number happened long enough ago.
    fn has_settled(&self, sets: u64) -> bool {
        let now = KernelClock::monotonic().now();
        let mut seen = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let since = seen.filter(|(seen, _)| *seen == sets).map_or(now, |(_, since)| since);
        *seen = Some((sets, since));
        now - since >= SETTLES
    }

    fn lapse(&self, target: &Target, setting: &Setting, set: f64, read: &str) -> Lapse {
        let shown = target.shown();
        let (who, effect) = match setting.sort {
            Sort::Mode if fan::gives_back(set) => {
                ("another program has taken the fan from its chip", format!("{shown} is not with its chip as before"))
            }
            Sort::Mode => (
                "the firmware takes fans back after a resume; so do the BIOS and programs such as fancontrol",
                format!("{shown} does not follow hertzd"),
            ),
            Sort::Number | Sort::Power => {
                ("another program uses the channel", format!("{shown} does not follow hertzd"))
            }
            Sort::Polarity => (
                "another program uses the channel",
                format!("{shown} does the opposite of what it did when hertzd started: full is off, and off is full"),
            ),
        };
        let remedy = match (setting.sort, self.repairs) {
            (_, true) => "hertzd sets it again at the next tick",
            (Sort::Polarity, false) => {
                "stop what changes it, and write it back while the channel is off; or let hertzd do that: write = \"always\". If it is meant, restart hertzd"
            }
            (_, false) => "stop what changes it, or let hertzd set it again: write = \"always\"",
        };
        let number = (setting.sort != Sort::Polarity).then_some(set);
        Lapse {
            file: setting.path.display().to_string(),
            set: setting.sort.text(set),
            number,
            read: shown_text(read, |text| setting.sort.number(text).is_some()),
            effect,
            advice: format!("{who}; {remedy}"),
        }
    }
}

/// Whether a setting that reads `read` is in force, given the number it was set to and the last number written to its target.
fn is_in_force(target: &Target, setting: &Setting, set: f64, (read, number): (&str, f64)) -> bool {
    let Some(read) = setting.sort.number(read.lines().next().unwrap_or_default()) else { return false };
    let holds = || target.value(None).ok().as_deref().and_then(digits::number);
    match setting.sort {
        // A fan that runs at full speed is not in force if another value was set.
        Sort::Mode if !fan::gives_back(set) => fan::is_mode(set, read, || holds().filter(|holds| same(*holds, number))),
        Sort::Mode => fan::is_mode(set, read, holds),
        Sort::Number | Sort::Power | Sort::Polarity => same(read, set),
    }
}

fn same(a: f64, b: f64) -> bool {
    (a + 0.0).total_cmp(&(b + 0.0)).is_eq()
}

/// The text read, for a message: quoted unless it is a value this file usually holds.
fn shown_text(text: &str, is_usual: impl Fn(&str) -> bool) -> String {
    let text = text.lines().next().unwrap_or_default().trim();
    let shown: String = text.chars().take(40).collect();
    if is_usual(text) { shown } else { format!("{shown:?}") }
}

impl ReadBack for Readback {
    fn every(&self) -> Span {
        self.every
    }

    fn shown(&self) -> String {
        self.target().shown()
    }

    fn read(&self) -> Reading {
        let Some((number, writes)) = self.written.quiet() else { return Reading::Unsettled };
        let target = self.target();
        let settings = self.settings(&target, number);
        let value = self.reads_value.then(|| target.value(self.taken.as_ref()));
        // If a write came in between, the reading may be the old or the new value.
        if self.written.quiet().is_none_or(|(_, now)| now != writes) {
            return Reading::Unsettled;
        }
        let reading = match (settings, value) {
            (Some(reading), _) => reading,
            (None, _) if self.is_given_back(&target) => Reading::GivenBack,
            (None, Some(_)) if number.is_nan() => Reading::Unsettled,
            (None, Some(value)) => compare(target.as_held(number), value),
            // After a failed write, the state of the settings is unknown.
            (None, None) if self.written.settings().is_some_and(|(numbers, _)| numbers[0].is_nan()) => {
                Reading::Unsettled
            }
            (None, None) => Reading::Agrees(None),
        };
        if !matches!(reading, Reading::Unsettled | Reading::Unreadable(_)) {
            self.written.found_in_force(!matches!(reading, Reading::NotInForce(_)));
        }
        if self.repairs && matches!(reading, Reading::Differs { .. } | Reading::NotInForce(_)) {
            self.written.lapse();
        }
        reading
    }
}

/// The refusal of a target that cannot be read.
pub(super) fn cannot(target: &Target, error: &io::Error) -> Refusal {
    let shown = target.shown();
    Refusal::new("readback", format!("{shown} cannot be read: {error}; remove the key, or name a target that can"))
}

/// Compares a reading with the number that was written.
pub(super) fn compare(written: f64, read: io::Result<String>) -> Reading {
    match read {
        Err(error) => Reading::Unreadable(error.to_string()),
        Ok(text) if digits::number(&text).is_some_and(|read| same(read, written)) => Reading::Agrees(Some(written)),
        Ok(text) => Reading::Differs { written, read: shown_text(&text, |text| digits::number(text).is_some()) },
    }
}

#[cfg(test)]
mod tests;
