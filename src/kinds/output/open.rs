//! From settings to an output: finds who has the target, and takes it; what is written at the start is for a second step. And a look at the
//! same beforehand. May block and allocate; for cool threads.

use super::begin::First;
use super::digits::{Digits, Form, number};
use super::held::{End, Held, SafeEnd, Targets};
use super::law::Law;
use super::left_writes::LeftWrites;
use super::place::Place;
use super::port::{Content, SafeText};
use super::readback::{Readback, cannot};
use super::reopen::{Wanted, exported, make, reopens};
use super::settings::{OutputSettings, Safe, Start};
use super::target::files::folder_of;
use super::target::pwm;
use super::target::{Target, hidden_place};
use super::task::{Output, SafeState, columns};
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Missing, Sight, preview};
use crate::safety::{Guard, LiveOutputs, Owed, SafeWrite, Terms};
use crate::site::{Beginning, Built, DeviceId, Holder, Label, Refusal, Site};
use crate::sys::clock::pause;
use crate::time::Span;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// How often, and after what time, it is looked whether a target was opened again: for longer than the longest wait between two attempts.
const LOOKS: u32 = 160;
const BETWEEN_LOOKS: Span = Span::from_millis(25);

/// Opens an output; nothing is written to its target before its beginning. `task` names its section.
pub(super) fn open(site: &Site, settings: OutputSettings, task: &str) -> Result<Built, BuildError> {
    let sys = site.sys();
    let (targets, owed) = (site.common::<Targets>(), site.common::<Owed>());
    let key = settings.place.key();
    let label = Label::new(settings.label(), task);
    let target = find_in_time(&targets, &settings, &label, sys)?;
    if settings.safe != Safe::Hold {
        target.can_be_made_safe(key)?;
    }
    let settings = settings.fitting(&target.raw)?;
    let mut in_use = Refusal::in_use(key, &label.device, &*target.ids);
    let before = match site.find_holder(&mut in_use) {
        Some(Holder::Task) => return Err(in_use.into()),
        // Of a task that will end, or that has ended without its safe value.
        _ => targets.join(&target.identity()).map_err(|why| Refusal::new(key, why))?,
    };
    let is_set_up = before.is_some();
    let opens = before.clone();
    let mut output = Leave(before.clone());
    let _opening = opens.as_ref().map(|held| held.opening());
    if before.as_ref().is_some_and(|held| held.watched().is_lost()) {
        return Err(Refusal::new(key, away(&target, "its task")).into());
    }
    // It may have been gone, and opened again, since it was found.
    if before.as_ref().is_some_and(|held| !held.identity().is(&target.identity())) {
        let text = format!("{} has just been opened again by its task: reload once more", target.shown());
        return Err(Refusal::new(key, text).into());
    }
    let (target, held, now) = match before {
        Some(held) => {
            if let (Place::Pwm { period, .. }, Some(duty)) = (&settings.place, target.file()) {
                pwm::keeps_period(duty, *period)?;
            }
            (target.with_polarity(held.polarity()), held, None)
        }
        None => take_free(site, &settings, target, &label.task)?,
    };
    output.0 = Some(held.clone());
    let refuse =
        |doing: &str, error: io::Error| Refusal::new(key, format!("cannot {doing} {}: {error}", target.shown()));
    let original = held.original();
    let safe = safe_state(&settings, &target, original)?;
    let safe_writer =
        safe.as_ref().map(|safe| target.safe_writer(held.taken(), safe.text.clone(), held.found())).transpose();
    let safe_writer = safe_writer.map_err(|error| refuse("open", error))?;
    let terms = settings.law;
    // One that has ended without its safe value is not gone on from.
    let follows = is_set_up && !held.watched().is_left();
    let is_same = held.end().is_some_and(|end| end.section == settings.section);
    let (mut makes_safe, mut raw) = (false, f64::NAN);
    let law = match (&safe, settings.start) {
        (Some(safe), Start::Safe) if !follows => {
            raw = settings.conversion.raw(safe.value);
            // What is to be restored is there, unless a process before this one has left its own value.
            let is_there = now.is_some() && now.as_ref() == original;
            makes_safe = is_set_up || matches!(settings.safe, Safe::Value(_)) || !is_there;
            if !makes_safe {
                held.put_out(raw, true);
            }
            Law::safe(terms, safe.value)
        }
        _ if is_set_up && !follows => Law::going_on(terms, settings.conversion.back(held.raw())),
        // What another task did last is known at the first tick.
        _ => {
            let there = match target.is_powered_down() {
                true => settings.conversion.raw(0.0), // whatever its value is
                false => now_there(&settings.place, &target, now.as_ref().or(original))?,
            };
            if !is_set_up {
                held.put_out(there, false); // for the task that follows, should this one write nothing
            }
            Law::going_on(terms, settings.conversion.back(there))
        }
    };
    let writer = target.writer(held.taken()).map_err(|error| refuse("open", error))?;
    let how = (settings.readback, settings.always);
    let readback = Readback::of(&target, held.taken(), held.watched().written().clone(), how)?;
    let safe_end = safe_writer.as_ref().zip(safe.as_ref()).map(|(writer, safe)| SafeEnd {
        text: safe.text.clone(),
        files: writer.files(),
        plan: writer.plan.clone(),
        makes: matches!(settings.safe, Safe::Value(_)),
    });
    let name = label.task.clone();
    let guard = Guard::new(
        &name,
        held.watched(),
        (settings.safe_after, settings.first_after),
        safe_writer.map(|writer| Box::new(writer) as Box<dyn SafeWrite>),
    );
    if law.is_safe() && !makes_safe {
        guard.is_safe_as_found();
    }
    guard.recovers(Terms { ends: settings.recovery(), applied: safe.as_ref().map_or(f64::NAN, |safe| safe.value) });
    if safe.is_none() {
        guard.keeps(target.any_writes());
    }
    if let Some(readback) = &readback {
        guard.reads_back(readback.clone());
    }
    let claim = Arc::new(site.claim(held.ids(), &name));
    let (of_guard, of_claim) = (Arc::downgrade(&guard), Arc::downgrade(&claim));
    let end = End {
        guard: of_guard,
        section: settings.section.clone(),
        place: settings.place.clone(),
        sys: sys.into(),
        numbers: (target.raw, target.form),
        files: writer.files(),
        safe: safe_end,
        readback,
        claim: of_claim,
    };
    if held.has_end(end) {
        let wanted = Wanted { place: settings.place.clone(), sys: sys.into(), label: label.clone() };
        reopens(site, &held, wanted, &target)?;
    }
    let (guarded, of_target) = (Arc::downgrade(&guard), Arc::downgrade(&held));
    let (level, sends_init) = (settings.level(), target.has_init() && !settings.is_read_at_once());
    debug!("{label} opened: {}", target.shown());
    if let Some(inversed) = pwm::inversed(target.polarity()) {
        info!("{label}: {inversed}");
    }
    if let Some(unseen) = target.unseen(settings.always) {
        warn!("{label}: {unseen}");
    }
    let form = target.form;
    let first = First {
        owed: owed.clone(),
        place: settings.place,
        target,
        held: of_target,
        guard: guarded,
        is_set_up,
        level,
        sends_init,
        makes_safe,
        safe: raw,
    };
    output.0 = None;
    let output = Output {
        law,
        terms,
        input: settings.input,
        reset: settings.reset,
        conversion: settings.conversion,
        form,
        always: settings.always,
        writer,
        written: Digits::EMPTY,
        safe,
        guard,
        seen: None,
        retry_in: 0.0,
        write_errors: 0.0,
        ticked: false,
        follows,
        is_same,
        alone: !is_set_up,
        finished: false,
        live: site.common::<LiveOutputs>().open(&name, settings.safe_after),
        _claim: claim,
        held,
        owed,
    };
    let guard = output.guard.clone();
    let begin = Beginning::new(move || Ok(first.write()?)).taking_over(follows);
    Ok(Built::from(output).measures_nothing().guarded_by(&guard).begins(begin))
}

/// Finds the target, and makes a regular file that is not there. One that was gone, and is there again, is opened again by the task first that
/// has it: that is waited for.
fn find_in_time(targets: &Targets, settings: &OutputSettings, label: &Label, sys: &Path) -> Result<Target, Refusal> {
    let key = settings.place.key();
    for look in 1.. {
        let target = match Target::find(&settings.place, sys)? {
            Some(target) => target,
            None => {
                let Safe::Value(safe) = settings.safe else { return Err(nothing_to_keep(&settings.place)) };
                make(&settings.place, &Digits::of(settings.conversion.raw(safe), Form::Any))?;
                let vanished = || Refusal::new(key, format!("{} was deleted at once", label.device));
                Target::find(&settings.place, sys)?.ok_or_else(vanished)?
            }
        };
        match targets.to_be_reopened(&target.identity(), &settings.place, sys) {
            None => return Ok(target),
            Some(tasks) if look == LOOKS => return Err(Refusal::new(key, away(&target, &tasks))),
            Some(_) => pause(BETWEEN_LOOKS),
        }
    }
    unreachable!("it has an end")
}

fn away(target: &Target, task: &str) -> String {
    format!(
        "{} was gone, and {task} has not opened it again yet: reload once more when the log says that it was reopened",
        target.shown()
    )
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

/// Takes a target that no task of this process has: locks it, and remembers what it held before hertzd wrote to it. And what it holds now, if
/// that was read.
fn take_free(
    site: &Site,
    settings: &OutputSettings,
    target: Target,
    task: &str,
) -> Result<(Target, Arc<Held>, Option<Content>), Refusal> {
    let target = exported(&settings.place, target, site.sys())?;
    let left = site.common::<LeftWrites>();
    let held = take(site, &target, settings.place.key(), task)?;
    target.settle_overlapping(&left, settings.place.key(), task)?;
    if settings.is_read_at_once() && target.has_init() {
        target.init()?;
    }
    // What a PWM channel is restored to, and what a chip holds that waits for its `init`, is read when that is done.
    let mut now = None;
    if settings.is_read_at_once() || !target.has_init() {
        now = target.read(Some(held.taken())).ok();
        let left = target.left_original(&left, now.as_ref());
        if left.is_some() {
            held.remember(|| left.clone().filter(Content::is_number));
        }
        held.finds(left.or_else(|| now.clone()));
        if !matches!(settings.place, Place::Pwm { .. }) {
            held.remember(|| held.found().cloned().filter(Content::is_number));
        }
    }
    if held.original().is_none() && settings.needs_original() {
        let why = target.read(Some(held.taken())).err().map_or_else(String::new, |error| format!(": {error}"));
        return Err(Refusal::new("safe", format!("{} holds no number that could be restored{why}", target.shown())));
    }
    Ok((target, held, now.filter(Content::is_number)))
}

/// Takes a target for a task. Nothing is written, and nothing is changed of what another has.
pub(super) fn take(site: &Site, target: &Target, key: &'static str, task: &str) -> Result<Arc<Held>, Refusal> {
    target.loses_nothing()?;
    let taken = target.take(&site.common::<LeftWrites>(), key, task).map_err(|mut refusal| {
        site.find_holder(&mut refusal);
        refusal
    })?;
    let held = site.common::<Targets>().add(target.identity(), taken);
    held.keeps_polarity(target.polarity().map(|polarity| polarity.number));
    Ok(held)
}

/// The raw number that a target holds, or a PWM channel once it has its period; NaN: not known.
fn now_there(place: &Place, target: &Target, original: Option<&Content>) -> Result<f64, Refusal> {
    #[expect(clippy::cast_precision_loss, reason = "a duty of 2^53 ns is 104 days")]
    match (place, target.file()) {
        (Place::Pwm { period, .. }, Some(duty)) => Ok(pwm::kept_duty(duty, *period)? as f64),
        _ => Ok(original.and_then(|content| number(&content.value)).unwrap_or(f64::NAN)),
    }
}

fn nothing_to_keep(place: &Place) -> Refusal {
    let text = format!("there is no {place} to restore or to hold; write a number, or make the file before");
    Refusal::new("safe", text)
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
            let digits = Digits::of(settings.conversion.raw(value), target.form);
            let text = target.safe_text(&Content { value: text(&digits), enable: None, stored: None, period: None });
            Ok(Some(SafeState::of(text, value)))
        }
        Safe::Restore => {
            let missing = || Refusal::new("safe", format!("{} held no number before", target.shown()));
            let original = original.ok_or_else(missing)?;
            let value = settings.conversion.back(number(&original.value).unwrap_or(f64::NAN));
            let text = target.safe_text(&original.to_restore(target.form == Form::Any && original.stored.is_none()));
            Ok(Some(SafeState::of(text, value)))
        }
    }
}

/// What [`open`] would find; nothing is changed.
pub(super) fn look(site: &Site, settings: &OutputSettings, task: &str) -> Result<Preview, BuildError> {
    let sys = site.sys();
    let key = settings.place.key();
    let label = Label::new(settings.label(), task);
    let found = match Target::find(&settings.place, sys) {
        Ok(found) => found,
        Err(refusal) => {
            let hidden = hidden_place(&settings.place).ok_or(refusal)?;
            let seen = preview(site, &label, Missing::Refuse, Ok(hidden))?;
            return Ok(Preview { columns: Some(columns()), ..seen });
        }
    };
    let (sight, safe) = match found {
        None => {
            let Place::File(path) = &settings.place else { return Ok(Preview::default()) };
            let Safe::Value(value) = settings.safe else { return Err(nothing_to_keep(&settings.place).into()) };
            let folder = folder_of(path).canonicalize().unwrap_or_default();
            let id = DeviceId::Named(folder.join(path.file_name().unwrap_or_default()).display().to_string());
            let digits = Digits::of(settings.conversion.raw(value), Form::Any);
            let safe = says(settings, &path.display().to_string(), &SafeText::of(&digits), "");
            (Sight::of(key, vec![id]).unknown("whether the file can be made"), safe)
        }
        Some(target) => {
            if settings.safe != Safe::Hold {
                target.can_be_made_safe(key)?;
            }
            let settings = settings.clone().fitting(&target.raw)?;
            let content = target.read(None).ok();
            let text = match safe_state(&settings, &target, content.as_ref()) {
                Ok(state) => state.map_or_else(|| SafeText::of(&Digits::EMPTY), |state| state.text),
                Err(_) if target.is_hidden() || !target.shows_content() => SafeText::of(&Digits::EMPTY),
                Err(refusal) => return Err(refusal.into()),
            };
            let mut safe = says(&settings, &target.shown(), &text, &target.enable_name());
            if let Some(inversed) = pwm::inversed(target.polarity()) {
                safe += &format!("; {inversed}");
            }
            if let Some(unseen) = target.unseen(settings.always) {
                safe += &format!("; {unseen}");
            }
            (with_readback(seen(&settings, &target)?, &settings, &target)?, safe)
        }
    };
    let mut preview = preview(site, &label, Missing::Refuse, Ok(sight))?;
    preview.columns = Some(columns());
    preview.safe.push(safe);
    Ok(preview)
}

fn seen(settings: &OutputSettings, target: &Target) -> Result<Sight, Refusal> {
    let key = settings.place.key();
    if let (Place::Pwm { channel, .. }, Some(false)) = (&settings.place, target.file().map(Path::exists)) {
        let sight = Sight::of(key, target.ids.clone());
        return Ok(sight.unknown(format!("whether channel {channel} can be exported and set up")));
    }
    target.look(key)
}

/// Whether the target can be read back, as far as that can be seen without taking it.
fn with_readback(sight: Sight, settings: &OutputSettings, target: &Target) -> Result<Sight, Refusal> {
    if settings.readback.is_none() || sight.hidden.is_some() {
        return Ok(sight);
    }
    match target.value(None) {
        Ok(_) => Ok(sight),
        Err(error) if target.shows_content() && error.kind() != io::ErrorKind::NotFound => Err(cannot(target, &error)),
        Err(_) => {
            let whether = sight.unknown.as_ref().map_or_else(String::new, |before| format!("{before}, and "));
            Ok(sight.unknown(format!("{whether}whether {} can be read back", target.shown())))
        }
    }
}

/// What is done to make the output safe, for people.
fn says(settings: &OutputSettings, path: &str, text: &SafeText, enable_name: &str) -> String {
    let raw = match (text.value.trim(), &settings.place) {
        ("1", Place::Line { .. }) => "high",
        ("0", Place::Line { .. }) => "low",
        (text, _) => text,
    };
    let then =
        text.enable.as_ref().map_or(String::new(), |enable| format!(", then {} to {enable_name}", enable.trim()));
    match settings.safe {
        Safe::Hold => format!("\"hold\": whatever happens, {path} keeps what was written last"),
        Safe::Restore if raw.is_empty() => format!("\"restore\": writes what {path} holds when it is opened"),
        Safe::Restore => format!("\"restore\": writes what {path} held before; now that is {raw}{then}"),
        Safe::Value(value) => format!("{value}: writes {raw} to {path}{then}"),
    }
}
