//! Targets that are GPIO lines. Finding and requesting one may block and allocate.

use super::super::identity::Device;
use super::super::left_writes::LeftWrites;
use super::super::port::{Content, Port, SafeText};
use super::means::{Kept, Means};
use crate::config::NumberOrName;
use crate::kinds::device::Sight;
use crate::kinds::gpio::{DrivenLine, LineId};
use crate::safety::PlannedWrite;
use crate::site::Refusal;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Finds the line that a section names.
pub(super) fn find(chip: Option<&str>, line: &NumberOrName) -> Result<DrivenLine, Refusal> {
    let id = match line {
        NumberOrName::Number(offset) => LineId::Offset(u32::try_from(*offset).unwrap_or(u32::MAX)),
        NumberOrName::Name(name) => LineId::Name(name.clone()),
    };
    DrivenLine::find(chip, &id)
}

impl Means for DrivenLine {
    fn shown(&self) -> String {
        format!("line {} of {} ({:?})", self.offset, self.node.display(), self.label)
    }

    fn device(&self) -> Device {
        let path = self.device.as_ref().map(|chip| chip.join(format!("line {}", self.offset)));
        Device { path, name: Some(self.label.clone()) }
    }

    fn take(&self, _: &LeftWrites, _: &'static str, _: &str) -> Result<Kept, Refusal> {
        Ok(Kept { file: self.request()?, lock: None })
    }

    fn set_up(&self, taken: &File, high: Option<bool>) -> Result<(), Refusal> {
        let failed = |doing: &str, error: io::Error| {
            let shown = format!("line {} of {}", self.offset, self.node.display());
            Refusal::new("line", format!("cannot {doing} {shown}: {error}"))
        };
        let high = match high {
            Some(high) => high,
            None => Self::level(taken).map_err(|error| failed("read", error))?,
        };
        Self::drive(taken, high).map_err(|error| failed("make an output of", error))
    }

    fn value(&self, taken: Option<&File>) -> io::Result<String> {
        let is_high = Self::level(taken.ok_or(io::ErrorKind::Unsupported)?)?;
        Ok(if is_high { "1\n" } else { "0\n" }.into())
    }

    fn is_read_by_what_was_taken(&self) -> bool {
        true
    }

    fn port(&self, taken: &File) -> io::Result<Port> {
        taken.try_clone().map(Arc::new).map(Port::Line)
    }

    fn plan(&self, text: &SafeText, found: Option<&Content>) -> Vec<PlannedWrite> {
        let (chip, label, offset) = (self.node.clone(), self.label.clone(), self.offset);
        let original = found.map(|found| found.value.trim_end().to_owned());
        let (device, high) = (self.device.clone(), text.value.starts_with('1'));
        vec![PlannedWrite::Line { chip, label, device, offset, high, original }]
    }

    fn node(&self) -> &Path {
        &self.node
    }

    fn look(&self, _: &'static str, sight: Sight) -> Result<Sight, Refusal> {
        let taken = self.taken()?;
        Ok(Sight { taken, ..sight.unknown(format!("whether {} can be an output", Means::shown(self))) })
    }
}
