//! Builds an output from its settings: its first state and everything that guards it. The first write belongs to the second step (`begin`).
//! May block and allocate; for cool threads.

use super::begin::First;
use super::digits::Digits;
use super::held::{End, SafeEnd};
use super::law::Law;
use super::left_writes::{LeftWrites, Opening};
use super::readback::Readback;
use super::reopen::{Wanted, reopens};
use super::safe::SafeState;
use super::settings::{OutputSettings, Safe, Start};
use super::take::{Taken, find_in_time};
use super::task::Output;
use crate::config::BuildError;
use crate::safety::{Guard, LiveOutputs, Owed, SafeWrite, Terms};
use crate::site::{Beginning, Built, Label, Refusal, Site};
use std::io;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// Opens an output. Before its beginning nothing is written to its target, except a chip's `init` if the register must be read first.
/// `task` is the name of its section.
pub(super) fn open_output(site: &Site, settings: OutputSettings, task: &str) -> Result<Built, BuildError> {
    let label = Label::new(settings.place.to_string(), task);
    let target = find_in_time(site, &settings, &label)?;
    if settings.safe != Safe::Hold {
        target.can_be_made_safe(&target.any_writes())?;
    }
    let settings = settings.fitting(&target.raw)?;
    let left = site.common::<LeftWrites>().opening(target.any_writes());
    let taken = Taken::of(site, &settings, target, &label)?;
    let held = taken.held.clone();
    let _opening = taken.is_set_up.then(|| held.opening());
    taken.is_as_found()?;
    let safe = SafeState::of(&settings, &taken.target, held.original())?;
    assemble(site, settings, taken, safe, (label, left))
}

/// Builds an output, and everything that guards it, from a target it has taken.
fn assemble(
    site: &Site,
    settings: OutputSettings,
    taken: Taken,
    safe: Option<SafeState>,
    (label, left): (Label, Opening),
) -> Result<Built, BuildError> {
    let (target, held, is_set_up, owed) = (&taken.target, &taken.held, taken.is_set_up, site.common::<Owed>());
    let refuse = |error: io::Error| Refusal::new(target.key, format!("cannot open {}: {error}", target.shown()));
    let safe_writer =
        safe.as_ref().map(|safe| target.safe_writer(held.taken(), safe.text.clone(), held.found())).transpose();
    let mut safe_writer = safe_writer.map_err(refuse)?;
    if let Some(writer) = &mut safe_writer {
        target.can_be_made_safe(&writer.plan())?;
        writer.put_out = held.last_put_out();
    }
    // An output does not continue from one that ended without its safe value.
    let follows = is_set_up && !held.watched().is_left();
    let is_same = held.end().is_some_and(|end| end.section == settings.section);
    let (law, first) = begins_with(&settings, &taken, safe.as_ref(), follows)?;
    let writer = target.writer(held.taken()).map_err(refuse)?;
    let how = (settings.readback, settings.always);
    let readback = Readback::of(target, held.taken(), held.watched().written().clone(), how)?;
    let safe_end = safe_writer.as_ref().zip(safe.as_ref()).map(|(writer, safe)| SafeEnd {
        text: safe.text.clone(),
        files: writer.files(),
        plan: writer.plan.clone(),
        makes: matches!(settings.safe, Safe::Value(_)),
    });
    let guard = Guard::new(
        &label.task,
        held.watched(),
        (settings.safe_after, settings.first_after),
        safe_writer.map(|writer| Box::new(writer) as Box<dyn SafeWrite>),
    );
    if law.is_safe() && first.is_none() {
        guard.is_safe_as_found();
    }
    guard.recovers(Terms { ends: settings.recovery(), applied: safe.as_ref().map_or(f64::NAN, |safe| safe.value) });
    if safe.is_none() {
        guard.keeps(target.any_writes());
    }
    if let Some(readback) = &readback {
        guard.reads_back(readback.clone());
    }
    let claim = Arc::new(site.claim(held.ids(), &label.task));
    let end = End {
        guard: Arc::downgrade(&guard),
        section: settings.section.clone(),
        place: settings.place.clone(),
        sys: site.sys().into(),
        numbers: (target.raw, target.form),
        files: writer.files(),
        safe: safe_end,
        readback,
        claim: Arc::downgrade(&claim),
    };
    let (is_first, level, sends_init) =
        (held.has_end(end), settings.level(), target.has_init() && !settings.is_read_at_once());
    if is_first {
        let wanted = Wanted { place: settings.place, sys: site.sys().into(), label: label.clone() };
        reopens(site, held, wanted, target)?;
    }
    debug!("{label} opened: {}", target.shown());
    if let Some(inversed) = target.inversed() {
        info!("{label}: {inversed}");
    }
    if let Some(unseen) = target.unseen(settings.always) {
        warn!("{label}: {unseen}");
    }
    left.opened(first.is_some() && !is_set_up);
    let live = site.common::<LiveOutputs>().open(&label.task, settings.safe_after);
    let Taken { target, held, leaves, .. } = taken;
    leaves.by_output();
    let output = Output {
        law,
        terms: settings.law,
        input: settings.input,
        reset: settings.reset,
        conversion: settings.conversion,
        form: target.form,
        always: settings.always,
        writer,
        written: Digits::EMPTY,
        safe,
        guard: guard.clone(),
        seen: None,
        retry_in: 0.0,
        ramps: false,
        write_errors: 0.0,
        ticked: false,
        follows,
        is_same,
        alone: !is_set_up,
        finished: false,
        live,
        _claim: claim,
        held: held.clone(),
        owed: owed.clone(),
    };
    let (its_held, its_guard) = (Arc::downgrade(&held), Arc::downgrade(&guard));
    let left = site.common();
    let first =
        First { left, owed, target, held: its_held, guard: its_guard, is_set_up, level, sends_init, safe: first };
    let begin = Beginning::new(move || Ok(first.write()?)).taking_over(follows);
    Ok(Built::from(output).measures_nothing().guarded_by(&guard).begins(begin))
}

/// The law an output begins with, and the raw number of its safe value if that has to be written first.
fn begins_with(
    settings: &OutputSettings,
    Taken { target, held, now, is_set_up, .. }: &Taken,
    safe: Option<&SafeState>,
    follows: bool,
) -> Result<(Law, Option<f64>), Refusal> {
    let (terms, original) = (settings.law, held.original());
    Ok(match (safe, settings.start) {
        (Some(safe), Start::Safe) if !follows => {
            let raw = settings.conversion.raw(safe.value);
            // The target already holds the value to restore, unless an earlier process left its own.
            let is_there = now.is_some() && now.as_ref() == original;
            let makes_safe = *is_set_up || matches!(settings.safe, Safe::Value(_)) || !is_there;
            if !makes_safe {
                held.put_out(raw, true);
            }
            (Law::safe(terms, safe.value), makes_safe.then_some(raw))
        }
        _ if *is_set_up && !follows => (Law::going_on(terms, settings.conversion.back(held.raw())), None),
        // What another task wrote last is known only at the first tick.
        _ => {
            let there = match target.is_powered_down() {
                true => settings.conversion.raw(0.0), // powered down: 0, whatever the value
                false => target.there(now.as_ref().or(original))?,
            };
            if !is_set_up {
                held.put_out(there, false); // for the next task, in case this one writes nothing
            }
            (Law::going_on(terms, settings.conversion.back(there)), None)
        }
    })
}
