//! The settings of a target: how they are set before the first value and given back, whether the value is in force, and whether that is
//! visible at all. May block.

use super::super::digits::number;
use super::super::put;
use super::super::setting::{Setting, Sort, keep_polarity};
use super::super::text::{is_readable, read_text};
use super::Target;
use super::pwm::Channel;
use crate::safety::{LastWritten, wrong_in_the_end};
use crate::site::Refusal;
use std::fs;
use std::io;
use std::path::Path;

impl Target {
    /// Whether the target is a PWM channel that is to be switched on, but is off.
    pub(in super::super) fn is_off(&self) -> bool {
        self.channel().is_some_and(|channel| channel.is_on().is_ok_and(|is_on| !is_on))
    }

    /// Whether the target is a converter channel that outputs nothing, whatever its value.
    pub(in super::super) fn is_powered_down(&self) -> bool {
        let setting = self.settings().iter().find(|setting| setting.sort == Sort::Power);
        setting.is_some_and(|it| read_text(&it.path).is_ok_and(|text| number(&text) != Some(it.number)))
    }

    /// The settings written together with the value, and their current text; `None`: write-only.
    pub(in super::super) fn set_with_value(&self) -> Vec<(&Setting, Option<String>)> {
        let settings = self.settings().iter().filter(|setting| setting.is_set_with_value());
        let now = |path: &Path| if is_readable(path) { read_text(path).ok() } else { None };
        settings.map(|setting| (setting, now(&setting.path))).collect()
    }

    /// Puts the value of a taken target in force before its first write: keeps the polarity, and gives a PWM channel its period and
    /// switches it on. `first`: raw number it holds from then on; `None`: keep its current value.
    pub(in super::super) fn put_in_force(&self, first: Option<f64>, written: &LastWritten) -> Result<(), Refusal> {
        if let Some(polarity) = self.polarity() {
            let shown = polarity.path.display();
            let refuse = |error: io::Error| Refusal::new(self.key, format!("cannot write {shown}: {error}"));
            let write = |path: &Path, text: &str| fs::write(path, text);
            keep_polarity(&polarity.path, &polarity.text(), read_text, write).map_err(refuse)?;
        }
        if let Some(channel) = self.channel() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the period")]
            channel.set_up(first.map(|duty| duty.round() as u64))?;
        }
        if self.is_prepared() && !self.settings().is_empty() {
            written.set(self.settings_numbers());
        }
        Ok(())
    }

    /// Refuses a change to what another output has put in force.
    pub(in super::super) fn stays_in_force(&self) -> Result<(), Refusal> {
        self.channel().map_or(Ok(()), Channel::keeps_period)
    }

    /// Describes how an inversed channel uses its duty: in the kernel's ABI the duty is the active time, and active is low then.
    pub(in super::super) fn inversed(&self) -> Option<&'static str> {
        let is_inversed = self.polarity().is_some_and(|polarity| polarity.number > 0.0);
        is_inversed
            .then_some("its polarity is inversed: the line is low for the duty, and high for the rest of the period")
    }

    /// A warning if it is invisible whether the value has any effect, as where Dell's firmware controls the fans.
    pub(in super::super) fn unseen(&self, repairs: bool) -> Option<String> {
        let unseen =
            self.settings().iter().find(|setting| setting.is_set_with_value() && !is_readable(&setting.path))?;
        let name = unseen.path.file_name().unwrap_or_default().to_string_lossy();
        let what = match repairs {
            true => "hertzd sets it every 3 s",
            false => {
                "should the firmware take the fan back, as after a resume, nothing shows it: with write = \"always\" hertzd sets it every 3 s"
            }
        };
        Some(format!("{name} can only be written: {what}"))
    }
}

/// Writes back the text that a setting held `before` its device refused the value, if known: a fan stays with its chip, a converter channel
/// stays powered down. Returns whether the setting reads so in the end; a driver may show an old reading for a while.
pub(in super::super) fn is_given_back(setting: &Setting, before: Option<&str>) -> bool {
    let Some(before) = before.map(str::trim) else { return false };
    let write = || put::attribute(&setting.open()?, format!("{before}\n").as_bytes());
    let differs = || (!read_text(&setting.path).is_ok_and(|now| now.trim() == before)).then_some(());
    match write() {
        Ok(()) => wrong_in_the_end(differs).is_none(),
        Err(_) => differs().is_none(),
    }
}
