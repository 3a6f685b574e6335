//! Finds an output's target and its current owner. Then takes the target over, or takes it if it is free. Writes only what it needs to take
//! and read it: creates a missing regular file, exports a PWM channel, and sends a chip's `init` if the register must be read now. May
//! block and allocate; for cool threads.

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
use tracing::warn;

/// How many times, and at what interval, to check whether a target was reopened. Together longer than the longest wait between two attempts
/// to reopen.
const LOOKS: u32 = 160;
const BETWEEN_LOOKS: Span = Span::from_millis(25);

/// Finds the target, and creates a missing regular file. A target that was gone and has come back is reopened by its current task first;
/// this waits for it.
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

/// A target taken for an output.
pub(super) struct Taken {
    pub(super) target: Target,
    pub(super) held: Arc<Held>,
    pub(super) now: Option<Content>, // its number, if it was read
    pub(super) is_set_up: bool,      // set up by another output that hands it over
    pub(super) leaves: Leaves,
}

/// Leaves the target when dropped, unless an output was built that will do so.
pub(super) struct Leaves(Option<Arc<Held>>);

impl Leaves {
    /// An output was built: it leaves the target.
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
    /// Takes a target over from its task, which is about to end or has ended without its safe value. A target that no task has is taken as
    /// it is.
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

    /// Refuses a handed-over target that is no longer as it was found: it may have been lost and reopened since. Call it while nothing can
    /// reopen the target.
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

/// Takes a target that no task of this process has: locks it, and remembers what it held before hertzd wrote to it. Also returns its
/// current content, if it was read.
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
    // Not read here: the original of a PWM channel, and of a chip whose `init` is still to be sent. `prepare` reads both at the first
    // write.
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

/// Takes a target for a task. Writes nothing, and changes nothing that another process has.
pub(super) fn take(site: &Site, target: &Target, task: &str) -> Result<Arc<Held>, Refusal> {
    target.loses_nothing()?;
    let taken = target.take(&site.common::<LeftWrites>(), task).map_err(|mut refusal| {
        site.find_holder(&mut refusal);
        refusal
    })?;
    let held = site.common::<Targets>().add(target.identity(), taken);
    held.keeps_polarity(target.polarity().map(|polarity| polarity.number));
    if let Some(here_only) = target.locked_here_only() {
        warn!(task, "{task}: {here_only}");
    }
    Ok(held)
}
