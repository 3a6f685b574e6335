//! Previews an output's target and what would make it safe, before it is opened. May block and allocate; for cool threads.

use super::digits::{Digits, Form};
use super::port::SafeText;
use super::readback::cannot;
use super::safe::SafeState;
use super::settings::{OutputSettings, Safe};
use super::take::nothing_to_keep;
use super::target::{Target, hidden_place, unmade};
use super::task::columns;
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Missing, Sight, preview};
use crate::site::{Label, Refusal, Site};
use std::io;

/// Previews what [`open_output`](super::open::open_output) would find; changes nothing.
pub(super) fn look(site: &Site, settings: &OutputSettings, task: &str) -> Result<Preview, BuildError> {
    let (sight, safe) = match Target::find(&settings.place, site.sys()) {
        Err(refusal) => (hidden_place(&settings.place).ok_or(refusal)?, None),
        Ok(None) => {
            let Some((sight, path)) = unmade(&settings.place) else { return Ok(Preview::default()) };
            let Safe::Value(value) = settings.safe else { return Err(nothing_to_keep(&settings.place).into()) };
            let digits = Digits::of(settings.conversion.raw(value), Form::Any);
            (sight, Some(says(settings, &path.display().to_string(), &SafeText::of(&digits), None)))
        }
        Ok(Some(target)) => {
            if settings.safe != Safe::Hold {
                target.can_be_made_safe(&target.any_writes())?;
            }
            let settings = settings.clone().fitting(&target.raw)?;
            let mut planned = Vec::new();
            let text = match SafeState::of(&settings, &target, target.read(None).ok().as_ref()) {
                Ok(Some(state)) => {
                    planned = target.plan(&state.text, None);
                    state.text
                }
                Ok(None) => SafeText::of(&Digits::EMPTY),
                Err(_) if target.is_hidden() || target.file().is_none() => SafeText::of(&Digits::EMPTY),
                Err(refusal) => return Err(refusal.into()),
            };
            let mut safe = says(&settings, &target.shown(), &text, Some(&target));
            let remarks =
                [target.inversed().map(str::to_owned), target.unseen(settings.always), target.locked_here_only()];
            remarks.into_iter().flatten().for_each(|remark| safe = format!("{safe}; {remark}"));
            let sight = target.look()?;
            target.can_be_made_safe(&planned)?;
            (if settings.readback.is_some() { with_readback(sight, &target)? } else { sight }, Some(safe))
        }
    };
    let mut preview = preview(site, &Label::new(settings.place.to_string(), task), Missing::Refuse, Ok(sight))?;
    preview.columns = Some(columns());
    preview.safe.extend(safe);
    Ok(preview)
}

/// Whether the target can be read back, as far as this is known without taking it.
fn with_readback(sight: Sight, target: &Target) -> Result<Sight, Refusal> {
    if sight.hidden.is_some() {
        return Ok(sight);
    }
    match target.value(None) {
        Ok(_) => Ok(sight),
        Err(error) if target.file().is_some() && error.kind() != io::ErrorKind::NotFound => Err(cannot(target, &error)),
        Err(_) => {
            let whether = sight.unknown.as_ref().map_or_else(String::new, |before| format!("{before}, and "));
            Ok(sight.unknown(format!("{whether}whether {} can be read back", target.shown())))
        }
    }
}

/// Describes for people how the output is made safe.
fn says(settings: &OutputSettings, path: &str, text: &SafeText, target: Option<&Target>) -> String {
    let is_line = target.is_some_and(|target| matches!(target.form, Form::Level { .. }));
    let raw = match text.value.trim() {
        "1" if is_line => "high",
        "0" if is_line => "low",
        text => text,
    };
    let mode = text.enable.as_ref().zip(target.map(Target::enable_name));
    let then = mode.map_or(String::new(), |(mode, name)| format!(", then {} to {name}", mode.trim()));
    match settings.safe {
        Safe::Hold => format!("\"hold\": whatever happens, {path} keeps what was written last"),
        Safe::Restore if raw.is_empty() => format!("\"restore\": writes what {path} holds when it is opened"),
        Safe::Restore => format!("\"restore\": writes what {path} held before; now that is {raw}{then}"),
        Safe::Value(value) => format!("{value}: writes {raw} to {path}{then}"),
    }
}
