//! What the settings of a target say, and how they are given back: whether its value is in force, and whether anybody can see that. May block.

use super::super::digits::number;
use super::super::put;
use super::super::setting::{Setting, Sort};
use super::Target;
use super::files::{is_readable, text_of};
use crate::safety::wrong_in_the_end;
use std::path::Path;

impl Target {
    /// Whether it is a PWM channel that is to be switched on, and is off.
    pub(in super::super) fn is_off(&self) -> bool {
        self.is_otherwise(|setting| setting.sort == Sort::Number && setting.path.ends_with("enable"))
    }

    /// Whether it is a converter's channel that puts nothing out, whatever its value is.
    pub(in super::super) fn is_powered_down(&self) -> bool {
        self.is_otherwise(|setting| setting.sort == Sort::Power)
    }

    fn is_otherwise(&self, is_it: impl FnMut(&&Setting) -> bool) -> bool {
        let setting = self.settings().iter().find(is_it);
        setting.is_some_and(|it| text_of(&it.path).is_ok_and(|text| number(&text) != Some(it.number)))
    }

    /// Those that are set together with the value, and what they say now; `None`: they may only be written.
    pub(in super::super) fn set_with_value(&self) -> Vec<(&Setting, Option<String>)> {
        let settings = self.settings().iter().filter(|setting| setting.is_set_with_value());
        let now = |path: &Path| if is_readable(path) { text_of(path).ok() } else { None };
        settings.map(|setting| (setting, now(&setting.path))).collect()
    }

    /// What is to be known where nobody can see whether its value has any effect, as on a machine whose fans Dell's firmware has.
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

/// Writes back what a setting said `before` its device refused the value, where that is known: a fan stays its chip's, and a converter's channel
/// powered down. Whether it says that in the end: a driver may show for a while what it saw before.
pub(in super::super) fn is_given_back(setting: &Setting, before: Option<&str>) -> bool {
    let Some(before) = before.map(str::trim) else { return false };
    let write = || put::attribute(&setting.open()?, format!("{before}\n").as_bytes());
    let differs = || (!text_of(&setting.path).is_ok_and(|now| now.trim() == before)).then_some(());
    match write() {
        Ok(()) => wrong_in_the_end(differs).is_none(),
        Err(_) => differs().is_none(),
    }
}
