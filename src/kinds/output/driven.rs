//! A target that is switched on and off, without an input or a safe state of its own: what the kind heartbeat has.

use super::begin::begin_switch;
use super::digits::{Digits, Form};
use super::held::{Held, Targets};
use super::open::take;
use super::place::Place;
use super::port::Writer;
use super::reopen::make;
use super::target::files::folder_of;
use super::target::{Target, hidden_place};
use crate::config::{BuildError, Preview, Section};
use crate::kinds::device::{Missing, Sight, preview};
use crate::safety::LastWritten;
use crate::site::{Beginning, Claim, DeviceId, Holder, Label, Refusal, Site};
use std::io;
use std::sync::Arc;

/// What a section names.
#[derive(Clone, Debug)]
pub(in crate::kinds) struct Switch(Place);

impl Switch {
    /// By the keys that the kinds share.
    pub(in crate::kinds) fn of(section: &mut Section<'_>) -> Option<Self> {
        super::named::switch(section).map(Self)
    }

    fn raw(&self, on: bool) -> f64 {
        let raw = self.0.raw();
        if on { raw.full + raw.zero } else { raw.zero }
    }

    /// Opens it. In the second step it is switched off, unless another task hands it over: then it is as that has left it.
    pub(in crate::kinds) fn open(self, site: &Site, task: &str) -> Result<(Switched, Option<Beginning>), BuildError> {
        let sys = site.sys();
        let (key, off) = (self.0.key(), self.raw(false));
        let label = Label::new(self.0.to_string(), task);
        let target = match Target::find(&self.0, sys)? {
            Some(target) => target,
            None => {
                make(&self.0, &Digits::of(off, Form::Any))?;
                let vanished = || Refusal::new(key, format!("{} was deleted at once", label.device));
                Target::find(&self.0, sys)?.ok_or_else(vanished)?
            }
        };
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
                let held = take(site, &target, key, &label.task)?;
                let beginning = begin_switch(self.0.clone(), target.clone(), &held, off);
                held.put_out(off, false);
                (held, Some(beginning))
            }
        };
        held.is_switched(target.any_writes());
        let writer = target.writer(held.taken()).map_err(|error| {
            held.leave();
            Refusal::new(key, format!("cannot open {}: {error}", target.shown()))
        })?;
        let claim = site.claim(held.ids(), &label.task);
        let raw = [false, true].map(|on| self.raw(on));
        let texts = raw.map(|raw| Digits::of(raw, target.form));
        let written = held.watched().written().clone();
        Ok((Switched { writer, raw, texts, written, held, _claim: claim }, beginning))
    }

    /// What that would find; nothing is changed.
    pub(in crate::kinds) fn look(&self, site: &Site, task: &str) -> Result<Preview, BuildError> {
        let (key, label) = (self.0.key(), Label::new(self.0.to_string(), task));
        let sight = match Target::find(&self.0, site.sys()) {
            Err(refusal) => hidden_place(&self.0).ok_or(refusal)?,
            Ok(Some(target)) => target.look(key)?,
            Ok(None) => {
                let Place::File(path) = &self.0 else { return Ok(Preview::default()) };
                let folder = folder_of(path).canonicalize().unwrap_or_default();
                let id = DeviceId::Named(folder.join(path.file_name().unwrap_or_default()).display().to_string());
                Sight::of(key, vec![id]).unknown("whether the file can be made")
            }
        };
        Ok(preview(site, &label, Missing::Refuse, Ok(sight))?)
    }
}

/// One that is open.
pub(in crate::kinds) struct Switched {
    writer: Writer,
    raw: [f64; 2],      // off, on
    texts: [Digits; 2], // the same
    written: Arc<LastWritten>,
    held: Arc<Held>,
    _claim: Claim,
}

impl Switched {
    /// Switches it. Allocates nothing; blocks for as long as its driver takes.
    pub(in crate::kinds) fn set(&mut self, on: bool) -> io::Result<()> {
        self.writer.write(&self.texts[usize::from(on)], &self.written)?;
        self.held.put_out(self.raw[usize::from(on)], false); // an output that takes it over goes on from that
        Ok(())
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        self.held.leave();
    }
}
