//! Targets that are registers of I²C chips. May block for as long as the bus takes, and allocates.

use super::super::identity::Device;
use super::super::left_writes::LeftWrites;
use super::super::port::{Content, Port, SafeText};
use super::means::{Kept, Means, ONE_ONLY, PassedOver, in_time, not_a_peer};
use crate::kinds::device::Sight;
use crate::kinds::i2c::WrittenRegister;
use crate::kinds::layout::SampleLayout;
use crate::safety::PlannedWrite;
use crate::site::Refusal;
use std::fs::File;
use std::io;
use std::path::Path;

impl Means for WrittenRegister {
    fn shown(&self) -> String {
        Self::shown(self)
    }

    fn device(&self) -> Device {
        let ((address, _), register) = (self.address(), self.register());
        let adapter = self.adapter.as_ref().and_then(|(name, text)| Some((name.parent()?, text)));
        let path = adapter.map(|(adapter, _)| adapter.join(format!("{address:#04x}/{register:#04x}")));
        Device { path, name: adapter.map(|(_, name)| name.clone()) }
    }

    fn take(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<Kept, Refusal> {
        let (bus, shown) = (self.open_bus()?, Self::shown(self));
        let own = self.plan(&SafeText { value: "0\n".into(), enable: None, stored: None }, None);
        let planner = left.planner_of(|left| own.iter().any(|own| own.is_had_by(left)));
        let taken = in_time(|| self.lock(&bus).map(|taken| taken.once_had_by(planner)))?;
        // Every hertzd with another register on this bus has it open too, so an open file proves nothing.
        let holder = not_a_peer(taken, &shown, || None)
            .map_err(|why| Refusal::new(key, format!("{shown} {why}; {ONE_ONLY}")))?;
        let lock = holder.and_then(|holder| PassedOver::of(&bus, Some(self.bytes()), (task, shown), (holder, planner)));
        Ok(Kept { file: bus, lock })
    }

    fn has_init(&self) -> bool {
        Self::has_init(self)
    }

    fn init(&self) -> Result<(), Refusal> {
        Self::init(self)
    }

    fn value(&self, taken: Option<&File>) -> io::Result<String> {
        self.stored(taken).map(|(number, _)| number)
    }

    fn stored(&self, taken: Option<&File>) -> io::Result<(String, Option<Vec<u8>>)> {
        // To some chips a read is a command, so a preview does not read.
        taken.ok_or(io::ErrorKind::Unsupported)?;
        let mut open = self.open().map_err(|refusal| io::Error::other(refusal.message))?;
        let number = open.read()?;
        Ok((format!("{number}\n"), Some(open.stored().to_vec())))
    }

    fn text_of(&self, stored: &[u8]) -> Option<String> {
        Some(format!("{}\n", Self::layout(self).text(stored)))
    }

    fn layout(&self) -> Option<SampleLayout> {
        Some(Self::layout(self))
    }

    fn is_read_by_what_was_taken(&self) -> bool {
        true
    }

    fn as_held(&self, number: f64) -> f64 {
        self.as_stored(number)
    }

    fn port(&self, _: &File) -> io::Result<Port> {
        self.open().map(Port::Register).map_err(|refusal| io::Error::other(refusal.message))
    }

    fn plan(&self, text: &SafeText, found: Option<&Content>) -> Vec<PlannedWrite> {
        let (address, force) = self.address();
        let (bus, adapter) = (self.node.clone(), self.adapter.clone());
        let encoded = || self.encode(&text.value).unwrap_or_default();
        let bytes = text.stored.as_ref().map_or_else(encoded, |stored| self.write_of(stored));
        let bits = self.bits();
        let original = found.map(|found| found.value.trim_end().to_owned());
        let held = found.and_then(|found| found.stored.clone()).unwrap_or_default();
        vec![PlannedWrite::Register { bus, adapter, address, force, bytes, bits, original, held }]
    }

    fn node(&self) -> &Path {
        &self.node
    }

    fn look(&self, _: &'static str, sight: Sight) -> Result<Sight, Refusal> {
        if let Some(hidden) = self.hidden() {
            return Ok(hidden);
        }
        self.open()?;
        Ok(sight.unknown(format!("whether a chip answers that has {}", Self::shown(self))))
    }
}
