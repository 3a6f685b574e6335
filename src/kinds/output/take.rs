//! Finds the target of an output and who has it, and takes it over from that, or takes it. Nothing is written but a regular file that is not there.
//! May block and allocate; for cool threads.

use super::held::{Held, Targets};
use super::left_writes::LeftWrites;
use super::place::Place;
use super::port::Content;
use super::settings::{OutputSettings, Safe};
use super::target::Target;
use crate::safety::Leave;
use crate::site::{Holder, Label, Refusal, Site};
use crate::sys::clock::pause;
use crate::time::Span;
use std::sync::Arc;

/// How often, and after what time, it is looked whether a target was opened again: for longer than the longest wait between two attempts.
const LOOKS: u32 = 160;
const BETWEEN_LOOKS: Span = Span::from_millis(25);

/// Finds the target, and makes a regular file that is not there. One that was gone, and is there again, is opened again by the task first that
/// has it: that is waited for.
pub(super) fn find_in_time(site: &Site, settings: &OutputSettings, label: &Label) -> Result<Target, Refusal> {
    let (place, sys, targets) = (&settings.place, site.sys(), site.common::<Targets>());
    let first = if let Safe::Value(safe) = settings.safe { Some(settings.conversion.raw(safe)) } else { None };
    let missing = || match first {
        Some(_) => Refusal::new(place.key(), format!("{} was deleted at once", label.device)),
        None => nothing_to_keep(place),
    };
    for look in 1.. {
        let target = Target::find_or_make(place, sys, first)?.ok_or_else(missing)?;
        match targets.to_be_reopened(&target.identity(), place, sys) {
            None => return Ok(target),
            Some(tasks) if look == LOOKS => return Err(away(&target, &tasks)),
            Some(_) => pause(BETWEEN_LOOKS),
        }
    }
    unreachable!("it has an end")
}

pub(super) fn nothing_to_keep(place: &Place) -> Refusal {
    let text = format!("there is no {place} to restore or to hold; write a number, or make the file before");
    Refusal::new("safe", text)
}

fn away(target: &Target, task: &str) -> Refusal {
    let text = format!(
        "{} was gone, and {task} has not opened it again yet: reload once more when the log says that it was reopened",
        target.shown()
    );
    Refusal::new(target.key, text)
}

/// A target that an output is to have.
pub(super) struct Taken {
    pub(super) target: Target,
    pub(super) held: Arc<Held>,
    pub(super) now: Option<Content>, // the number that it holds, if that was read
    pub(super) is_set_up: bool,      // by another output, which hands it over
    pub(super) leaves: Leaves,
}

/// Leaves what is held, unless an output was made that will.
pub(super) struct Leaves(Option<Arc<Held>>);

impl Leaves {
    /// An output was made.
    pub(super) fn by_output(mut self) {
        self.0 = None;
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(held) = &self.0 {
            held.leave();
        }
    }
}

impl Taken {
    /// Takes a target over from the task that has it and will end, or that has ended without its safe value; one that nobody has is taken as it is.
    pub(super) fn of(site: &Site, settings: &OutputSettings, target: Target, label: &Label) -> Result<Self, Refusal> {
        let mut in_use = Refusal::in_use(target.key, &label.device, &*target.ids);
        if let Some(Holder::Task) = site.find_holder(&mut in_use) {
            return Err(in_use);
        }
        let joined = site.common::<Targets>().join(&target.identity()).map_err(|why| Refusal::new(target.key, why))?;
        let is_set_up = joined.is_some();
        let (target, held, now) = match joined {
            Some(held) => (target.with_polarity(held.polarity()), held, None),
            None => take_free(site, settings, target, &label.task)?,
        };
        let leaves = Leaves(Some(held.clone()));
        Ok(Self { target, held, now, is_set_up, leaves })
    }

    /// Refuses one that is handed over and is not as it was found: it may have been gone, and opened again, since. While nobody opens it.
    pub(super) fn is_as_found(&self) -> Result<(), Refusal> {
        let (target, held) = (&self.target, &self.held);
        match self.is_set_up {
            true if held.watched().is_lost() => Err(away(target, "its task")),
            true if !held.identity().is(&target.identity()) => {
                let text = format!("{} has just been opened again by its task: reload once more", target.shown());
                Err(Refusal::new(target.key, text))
            }
            true => target.stays_in_force(),
            false => Ok(()),
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
    let target = target.exported()?;
    let left = site.common::<LeftWrites>();
    let held = take(site, &target, task)?;
    target.settle_overlapping(&left, task)?;
    let is_read = settings.is_read_at_once();
    if is_read && target.has_init() {
        target.init()?;
    }
    // What a PWM channel is restored to, and what a chip holds that waits for its `init`, is read when that is done.
    let mut now = None;
    if is_read || !target.has_init() {
        now = target.read(Some(held.taken())).ok();
        let left = target.left_original(&left, now.as_ref());
        if left.is_some() {
            held.remember(|| left.clone().filter(Content::is_number));
        }
        held.finds(left.or_else(|| now.clone()));
        if target.channel().is_none() {
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
pub(super) fn take(site: &Site, target: &Target, task: &str) -> Result<Arc<Held>, Refusal> {
    target.loses_nothing()?;
    let taken = target.take(&site.common::<LeftWrites>(), task).map_err(|mut refusal| {
        site.find_holder(&mut refusal);
        refusal
    })?;
    let held = site.common::<Targets>().add(target.identity(), taken);
    held.keeps_polarity(target.polarity().map(|polarity| polarity.number));
    Ok(held)
}
