//! A target that is only switched on and off, with neither an input nor a safe state of its own. Used by the kind heartbeat.

use super::begin::begin_switch;
use super::digits::Digits;
use super::held::{Held, Targets};
use super::left_writes::LeftWrites;
use super::place::Place;
use super::port::Writer;
use super::take::take;
use super::target::{Target, hidden_place, unmade};
use crate::config::{BuildError, Preview, Section};
use crate::kinds::device::{Missing, preview};
use crate::safety::{LastWritten, Leave};
use crate::site::{Beginning, Claim, Holder, Label, Refusal, Site};
use std::io;
use std::sync::Arc;

/// A switched target, as its section names it.
#[derive(Clone, Debug)]
pub(in crate::kinds) struct Switch(Place);

impl Switch {
    /// Reads the keys that the kinds share.
    pub(in crate::kinds) fn of(section: &mut Section<'_>) -> Option<Self> {
        super::named::switch(section).map(Self)
    }

    fn number(&self, on: bool) -> f64 {
        let raw = self.0.raw();
        if on { raw.full + raw.zero } else { raw.zero }
    }

    /// Opens the target. The second step switches it off, unless another task hands it over: then it stays as that task left it.
    pub(in crate::kinds) fn open(self, site: &Site, task: &str) -> Result<(Switched, Option<Beginning>), BuildError> {
        let (key, off) = (self.0.key(), self.number(false));
        let label = Label::new(self.0.to_string(), task);
        let vanished = || Refusal::new(key, format!("{} was deleted at once", label.device));
        let target = Target::find_or_make(&self.0, site.sys(), Some(off))?.ok_or_else(vanished)?;
        let left = site.common::<LeftWrites>().opening(target.any_writes());
        let mut in_use = Refusal::in_use(key, &label.device, &*target.ids);
        let targets = site.common::<Targets>();
        let before = match site.find_holder(&mut in_use) {
            Some(Holder::Task) => return Err(in_use.into()),
            Some(Holder::Ending) => targets.join(&target.identity()).map_err(|why| Refusal::new(key, why))?,
            _ => None,
        };
        let (held, beginning) = match before {
            Some(held) => (held, None),
            None => {
                let held = take(site, &target, &label.task)?;
                let beginning = begin_switch(target.clone(), &held, off);
                held.put_out(off, false);
                (held, Some(beginning))
            }
        };
        held.is_switched(target.any_writes());
        let writer = target.writer(held.taken()).map_err(|error| {
            held.leave();
            Refusal::new(key, format!("cannot open {}: {error}", target.shown()))
        })?;
        left.opened(false);
        let claim = site.claim(held.ids(), &label.task);
        let raw = [false, true].map(|on| self.number(on));
        let texts = raw.map(|raw| Digits::of(raw, target.form));
        let written = held.watched().written().clone();
        Ok((Switched { writer, raw, texts, written, held, _claim: claim }, beginning))
    }

    /// Previews what opening would find; changes nothing.
    pub(in crate::kinds) fn look(&self, site: &Site, task: &str) -> Result<Preview, BuildError> {
        let label = Label::new(self.0.to_string(), task);
        let sight = match Target::find(&self.0, site.sys()) {
            Err(refusal) => hidden_place(&self.0).ok_or(refusal)?,
            Ok(Some(target)) => target.look()?,
            Ok(None) => match unmade(&self.0) {
                Some((sight, _)) => sight,
                None => return Ok(Preview::default()),
            },
        };
        Ok(preview(site, &label, Missing::Refuse, Ok(sight))?)
    }
}

/// A switched target that is open.
pub(in crate::kinds) struct Switched {
    writer: Writer,
    raw: [f64; 2],      // off, on
    texts: [Digits; 2], // the same as text
    written: Arc<LastWritten>,
    held: Arc<Held>,
    _claim: Claim,
}

impl Switched {
    /// Switches the target. Allocates nothing; blocks for as long as its driver takes.
    pub(in crate::kinds) fn set(&mut self, on: bool) -> io::Result<()> {
        self.writer.write(&self.texts[usize::from(on)], &self.written)?;
        self.held.put_out(self.raw[usize::from(on)], false); // an output that takes the target over starts from this
        Ok(())
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        self.held.leave();
    }
}
