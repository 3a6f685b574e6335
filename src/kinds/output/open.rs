//! From settings to an output: finds who has the target, sets it up, writes what is written at the start. And a look at the same
//! beforehand. May block and allocate; for cool threads.

use super::digits::{Digits, Form, LONGEST};
use super::guard::{Guard, SafeWrite};
use super::held::Held;
use super::law::Law;
use super::pwm;
use super::settings::{OutputSettings, Safe, Start};
use super::target::{Content, Place, SafeText, Target, folder_of};
use super::task::{Output, SafeState, columns};
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Claim, DeviceId, Holder, Label, Missing, Refusal, Sight, find_holder, hidden, preview};
use crate::sys::clock::pause;
use crate::sys::lock;
use crate::time::Span;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::debug;

/// How often a lock is asked for that another process has: one that only looks has it for an instant.
const LOCK_TRIES: u32 = 20;

/// Opens an output. `task` names its section.
pub(super) fn open(settings: OutputSettings, task: &str, sys: &Path) -> Result<Output, BuildError> {
    let key = settings.place.key();
    let label = Label::new(settings.label(), task);
    let target = match Target::find(&settings.place, sys)? {
        Some(target) => target,
        None => {
            make(&settings)?;
            let vanished = || Refusal::new(key, format!("{} was deleted at once", label.device));
            Target::find(&settings.place, sys)?.ok_or_else(vanished)?
        }
    };
    let mut in_use = Refusal::in_use(key, &label.device, &*target.ids);
    let before = match find_holder(&mut in_use, None) {
        Some(Holder::Task) => return Err(in_use.into()),
        Some(Holder::Ending) => Held::join(&target.ids),
        _ => None,
    };
    let follows = before.is_some();
    let (target, held) = match before {
        Some(held) => (target, held),
        None => take(&settings, target, sys)?,
    };
    let mut output = Leave(Some(held.clone()));
    let refuse =
        |doing: &str, error: io::Error| Refusal::new(key, format!("cannot {doing} {}: {error}", target.path.display()));
    let original = held.original();
    let safe = safe_state(&settings, &target, original)?;
    let safe_writer = safe.as_ref().map(|safe| target.safe_writer(safe.text.clone())).transpose();
    let safe_writer = safe_writer.map_err(|error| refuse("open", error))?;
    let now = original.and_then(|content| number(&content.value)).unwrap_or(f64::NAN);
    let terms = settings.law;
    let law = match (&safe, settings.start) {
        (Some(safe), Start::Safe) if !follows => {
            if let (Some(writer), Safe::Value(_)) = (&safe_writer, settings.safe) {
                writer.write_safe().map_err(|error| refuse("write the safe value to", error))?;
            }
            held.put_out(settings.conversion.raw(safe.value), true);
            Law::safe(terms, safe.value)
        }
        // What another task did last is known at the first tick.
        _ => Law::going_on(terms, settings.conversion.back(now)),
    };
    let writer = target.writer().map_err(|error| refuse("open", error))?;
    let name = label.task.clone();
    let guard = Guard::new(
        &name,
        Arc::as_ptr(&held).addr(),
        settings.safe_after,
        safe_writer.map(|writer| Box::new(writer) as Box<dyn SafeWrite>),
    );
    debug!("{label} opened: {}", target.path.display());
    output.0 = None;
    Ok(Output {
        law,
        terms,
        input: settings.input,
        reset: settings.reset,
        conversion: settings.conversion,
        form: target.form(),
        always: settings.always,
        writer,
        written: Digits::EMPTY,
        safe,
        guard,
        knows_trip: false,
        retry_in: 0.0,
        write_errors: 0.0,
        ticked: false,
        follows,
        finished: false,
        _claim: Claim::new(held.ids().iter().cloned(), &name),
        held,
    })
}

/// Leaves what is held, unless an output was made that will.
struct Leave(Option<Arc<Held>>);

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(held) = &self.0 {
            held.leave();
        }
    }
}

/// Takes a target that no task of this process has: sets it up, locks it, and remembers what it holds.
fn take(settings: &OutputSettings, target: Target, sys: &Path) -> Result<(Target, Arc<Held>), Refusal> {
    let key = settings.place.key();
    let target = match &settings.place {
        Place::Pwm { channel, period, .. } => {
            let first = match (settings.start, settings.safe) {
                (Start::Safe, Safe::Value(value)) => Some(settings.conversion.raw(value)),
                _ => None,
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the period")]
            pwm::set_up(&target.path, *channel, *period, first.map(|duty| duty.round() as u64))?;
            Target::find(&settings.place, sys)?.unwrap_or(target)
        }
        _ => target,
    };
    let path = target.path.display();
    let file = target.open().map_err(|error| Refusal::new(key, cannot_open(&target.path, &error)))?;
    let is_locked = (0..LOCK_TRIES).any(|_| file.try_lock().is_ok() || (pause(Span::from_millis(5)), false).1);
    if !is_locked {
        let holder = file.metadata().ok().and_then(|facts| lock::holder(&facts));
        let holder = holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string());
        return Err(Refusal::new(key, format!("{path} is in use by {holder}; only one output at a time can have it")));
    }
    let original = target.read().ok().filter(|content| number(&content.value).is_some());
    if original.is_none() && settings.needs_original() {
        return Err(Refusal::new("safe", format!("{path} holds no number that could be restored")));
    }
    Ok((target.clone(), Held::new(target.ids, original, file)))
}

/// Makes a regular file that holds the safe value from the start.
fn make(settings: &OutputSettings) -> Result<(), Refusal> {
    let Place::File(path) = &settings.place else { return Ok(()) };
    let Safe::Value(safe) = settings.safe else { return Err(nothing_to_keep(path)) };
    let text = Digits::of(settings.conversion.raw(safe), Form::Any);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder_of(path).join(format!(".{name}.{}.new", std::process::id()));
    // Nobody finds it empty.
    let made = fs::write(&new, text.bytes()).and_then(|()| fs::rename(&new, path));
    made.map_err(|error| {
        let _ = fs::remove_file(&new);
        Refusal::new("path", format!("cannot make {}: {error}", path.display()))
    })
}

fn nothing_to_keep(path: &Path) -> Refusal {
    let text =
        format!("there is no file {} to restore or to hold; write a number, or make the file before", path.display());
    Refusal::new("safe", text)
}

fn cannot_open(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; hertzd's user needs permission to write it",
        _ => "",
    };
    format!("cannot open {}: {error}{remedy}", path.display())
}

/// The number that a file holds, and nothing else.
fn number(text: &str) -> Option<f64> {
    (text.len() <= LONGEST).then(|| text.trim().parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

/// What makes the output safe; `None`: it holds what it has.
fn safe_state(
    settings: &OutputSettings,
    target: &Target,
    original: Option<&Content>,
) -> Result<Option<SafeState>, Refusal> {
    let text = |digits: &Digits| String::from_utf8_lossy(digits.bytes()).into_owned();
    match settings.safe {
        Safe::Hold => Ok(None),
        Safe::Value(value) => {
            let digits = Digits::of(settings.conversion.raw(value), target.form());
            let text = target.safe_text(&Content { value: text(&digits), enable: None });
            Ok(Some(SafeState { text, value }))
        }
        Safe::Restore => {
            let missing = || Refusal::new("safe", format!("{} held no number before", target.path.display()));
            let original = original.ok_or_else(missing)?;
            let value = settings.conversion.back(number(&original.value).unwrap_or(f64::NAN));
            let line = |text: &String| format!("{}\n", text.trim());
            let content = Content { value: line(&original.value), enable: original.enable.as_ref().map(line) };
            Ok(Some(SafeState { text: target.safe_text(&content), value }))
        }
    }
}

/// What [`open`] would find; nothing is changed.
pub(super) fn look(settings: &OutputSettings, task: &str, sys: &Path) -> Result<Preview, BuildError> {
    let key = settings.place.key();
    let label = Label::new(settings.label(), task);
    let (sight, safe) = match Target::find(&settings.place, sys)? {
        None => {
            let Place::File(path) = &settings.place else { return Ok(Preview::default()) };
            let Safe::Value(value) = settings.safe else { return Err(nothing_to_keep(path).into()) };
            let folder = folder_of(path).canonicalize().unwrap_or_default();
            let id = DeviceId::Named(folder.join(path.file_name().unwrap_or_default()).display().to_string());
            let digits = Digits::of(settings.conversion.raw(value), Form::Any);
            let safe = says(settings, &path.display().to_string(), &SafeText::of(&digits), "");
            (Sight::of(key, vec![id]).unknown("whether the file can be made"), safe)
        }
        Some(target) => {
            let path = target.path.display().to_string();
            let content = target.read().ok();
            let text = match safe_state(settings, &target, content.as_ref()) {
                Ok(state) => state.map_or_else(|| SafeText::of(&Digits::EMPTY), |state| state.text),
                Err(_) if hidden(&target.path, true).is_some() => SafeText::of(&Digits::EMPTY),
                Err(refusal) => return Err(refusal.into()),
            };
            let safe = says(settings, &path, &text, &target.enable_name());
            (seen(settings, &target)?, safe)
        }
    };
    let mut preview = preview(&label, Missing::Refuse, Ok(sight))?;
    preview.columns = Some(columns());
    preview.safe.push(safe);
    Ok(preview)
}

fn seen(settings: &OutputSettings, target: &Target) -> Result<Sight, Refusal> {
    let key = settings.place.key();
    let sight = Sight::of(key, target.ids.clone());
    if let (Place::Pwm { channel, .. }, false) = (&settings.place, target.path.exists()) {
        return Ok(sight.unknown(format!("whether channel {channel} can be exported and set up")));
    }
    if let Some(hidden) = hidden(&target.path, true) {
        return Ok(hidden);
    }
    let file = target.open().map_err(|error| Refusal::new(key, cannot_open(&target.path, &error)))?;
    let holder = file.metadata().ok().and_then(|facts| lock::holder(&facts)).filter(lock::Holder::is_ours);
    let taken = holder.map(|holder| format!("{} is in use by {holder}", target.path.display()));
    Ok(Sight { taken, ..sight })
}

/// What is done to make the output safe, for people.
fn says(settings: &OutputSettings, path: &str, text: &SafeText, enable_name: &str) -> String {
    let raw = text.value.trim();
    let then =
        text.enable.as_ref().map_or(String::new(), |enable| format!(", then {} to {enable_name}", enable.trim()));
    match settings.safe {
        Safe::Hold => format!("\"hold\": whatever happens, {path} keeps what was written last"),
        Safe::Restore => format!("\"restore\": writes what {path} held before; now that is {raw}{then}"),
        Safe::Value(value) => format!("{value}: writes {raw} to {path}{then}"),
    }
}
