//! What an earlier process left of a target: writes to make before it is read, and what it held before hertzd wrote to it. May block.

use super::super::digits::number;
use super::super::left_writes::{LeftWrite, LeftWrites};
use super::super::port::Content;
use super::{Target, pwm};
use crate::safety::PlannedWrite;
use crate::site::Refusal;

impl Target {
    /// Makes, for a task, left writes of registers that share some but not all bytes with this one.
    pub(in super::super) fn settle_overlapping(&self, left: &LeftWrites, task: &str) -> Result<(), Refusal> {
        let make = |left: &LeftWrite| left.write.make_of(task, Some(left.planner)).map(drop);
        let refuse = |why: String| Refusal::new(self.key, format!("{} cannot be taken: {why}", self.shown()));
        self.any_writes().iter().try_for_each(|own| left.make_overlapping(own, make)).map_err(refuse)
    }

    /// What the target held before hertzd first wrote to it, if an earlier process left it without its safe value. `now`: its present
    /// content.
    pub(in super::super) fn left_original(&self, left: &LeftWrites, now: Option<&Content>) -> Option<Content> {
        let planned = self.any_writes();
        // If a register's bytes are known, each byte is decided separately.
        if let Some(now) = now.and_then(|now| now.stored.as_ref()) {
            let stored = left.left_bytes(planned.first()?, now)?;
            let value = self.text_of(&stored)?;
            return Some(Content { value, enable: None, stored: Some(stored), period: None });
        }
        let numbers = now.map(|now| [number(&now.value), now.enable.as_deref().and_then(number)]).unwrap_or_default();
        let mut found = left.left_writes(&planned, &numbers).into_iter();
        let (value, enable) = (found.next().flatten(), found.next().flatten().filter(|_| self.enable().is_some()));
        if value.is_none() && enable.is_none() {
            return None;
        }
        // An output may have had only one of the two.
        let original = |left: Option<&PlannedWrite>, now: Option<&String>| match left {
            Some(left) => left.raw_original().map(str::to_owned),
            None => now.cloned(),
        };
        let (now_value, now_enable) = (now.map(|now| &now.value), now.and_then(|now| now.enable.as_ref()));
        let period = now.and_then(|now| now.period.clone());
        let duty = original(value.as_ref(), now_value)?;
        Some(Content {
            value: period.as_ref().and_then(|period| self.left_duty(left, &duty, period)).unwrap_or(duty),
            enable: original(enable.as_ref(), now_enable),
            stored: value.and_then(|value| value.held()),
            period,
        })
    }

    /// Scales the original duty to the current period of a PWM channel, if an output of an earlier process gave the channel another period.
    /// Keeps the same share of the period.
    fn left_duty(&self, left: &LeftWrites, duty: &str, period: &str) -> Option<String> {
        let text = period.to_owned();
        let write = PlannedWrite::File {
            path: self.period()?,
            witness: None,
            text,
            cut: false,
            file_system: None,
            original: None,
        };
        let left = left.left_writes(&[write], &[number(period)]).pop().flatten()?;
        let [duty, had, has] = [duty, left.raw_original()?, period].map(|text| text.trim().parse().ok());
        Some(format!("{}\n", pwm::share(duty?, had?, has?)))
    }
}

#[cfg(all(test, feature = "i2c"))]
mod tests {
    use super::super::super::place::Place;
    use super::super::super::port::SafeText;
    use super::*;
    use crate::config::NumberOrName;
    use crate::kinds::layout::TYPES;
    use crate::kinds::register::RegisterSettings;
    use std::path::Path;

    #[test]
    fn a_register_that_was_made_safe_and_has_changed_since_has_what_it_holds_as_its_original() {
        let layout = TYPES.iter().find(|(name, _)| *name == "u16be").unwrap().1.part(4, None).unwrap();
        let (bus, init) = (NumberOrName::Name("/dev/null".into()), Vec::new());
        let wanted = RegisterSettings { bus, address: 0x33, force: false, init, register: 0x50, layout };
        let target = Target::find(&Place::Register(wanted), Path::new("/sys")).unwrap().unwrap();
        let held = |bytes: [u8; 2], number: &str| Content {
            value: format!("{number}\n"),
            enable: None,
            stored: Some(bytes.into()),
            period: None,
        };
        let before = held([0x12, 0x30], "291");
        let text = SafeText { value: "5\n".into(), enable: None, stored: None };
        let write = target.plan(&text, Some(&before)).remove(0);
        let all = LeftWrites::default();
        let left = |is_written, now: &Content| {
            all.leave_behind(vec![LeftWrite { write: write.clone(), is_written, planner: 1 }]);
            let found = target.left_original(&all, Some(now));
            all.forget_left(&write);
            found
        };
        let (safe, changed) = (held([0x00, 0x50], "5"), held([0x10, 0x50], "261"));
        assert_eq!(left(false, &changed), Some(before.clone()), "it was not made safe");
        assert_eq!(left(true, &safe), Some(before.clone()));
        assert_eq!(left(true, &held([0x00, 0x57], "5")), Some(before), "the other bits are the chip's");
        assert_eq!(left(true, &changed), None);
    }
}
