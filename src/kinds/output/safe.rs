//! Derives what makes an output safe: from `safe` in its section to the text for its target. Nothing is opened here.

use super::digits::{Digits, Form, number};
use super::fan;
use super::port::{Content, SafeText};
use super::settings::{OutputSettings, Safe};
use super::target::Target;
use crate::site::Refusal;

/// An output's safe state.
pub(super) struct SafeState {
    pub(super) text: SafeText,
    pub(super) value: f64,       // in the unit of the input; NaN: unknown
    pub(super) number: f64,      // the raw number in the text
    pub(super) gives_back: bool, // gives a fan back to its chip, which then sets the value
}

impl SafeState {
    /// `original`: what the target held before hertzd wrote to it. Returns `None` with `"hold"`: the target keeps its content.
    pub(super) fn of(
        settings: &OutputSettings,
        target: &Target,
        original: Option<&Content>,
    ) -> Result<Option<Self>, Refusal> {
        let (content, value) = match settings.safe {
            Safe::Hold => return Ok(None),
            Safe::Value(value) => {
                let digits = Digits::of(settings.conversion.raw(value), target.form);
                let value_text = SafeText::of(&digits).value;
                (Content { value: value_text, enable: None, stored: None, period: None }, value)
            }
            Safe::Restore => {
                let missing = || Refusal::new("safe", format!("{} held no number before", target.shown()));
                let original = original.ok_or_else(missing)?;
                let value = settings.conversion.back(number(&original.value).unwrap_or(f64::NAN));
                (original.to_restore(target.form == Form::Any && original.stored.is_none()), value)
            }
        };
        let text = target.safe_text(&content);
        let number_of = |text: &str| number(text).unwrap_or(f64::NAN);
        let gives_back = text.enable.as_deref().map(number_of).is_some_and(fan::gives_back);
        Ok(Some(Self { number: number_of(&text.value), text, value, gives_back }))
    }
}
