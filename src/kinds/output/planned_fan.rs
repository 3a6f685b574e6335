//! What the writes of a plan mean for a fan, of which one is its value and another one its mode; and for the polarity of a PWM channel. May block.

use super::digits::number;
use super::fan;
use super::planned::is_still;
use super::planned_check::beside;
use super::setting::POLARITIES;
use crate::safety::PlannedWrite;
use std::path::{Path, PathBuf};

/// The mode that belongs to a fan's value.
fn mode_of(value: &Path) -> PathBuf {
    value.with_file_name(format!("{}_enable", value.file_name().unwrap_or_default().to_string_lossy()))
}

/// The order in which writes of an output are made again that failed: the value, with which `writes` begins, may be taken only by what the others
/// set.
pub(crate) fn values_last<'a>(failed: Vec<&'a PlannedWrite>, writes: &[PlannedWrite]) -> Vec<&'a PlannedWrite> {
    let is_value = |write: &&PlannedWrite| writes.first() == Some(*write);
    let (values, mut sorted): (Vec<_>, Vec<_>) = failed.into_iter().partition(is_value);
    sorted.extend(values);
    sorted
}

impl PlannedWrite {
    /// Whether it is the value of a fan that is with its chip again, as one of `writes` asks for: such a chip may refuse the value, and sets
    /// another one by itself.
    pub(crate) fn is_left_to_its_chip(&self, writes: &[Self]) -> bool {
        let Self::File { path: value, .. } = self else { return false };
        let by_chip = |write: &Self| match write {
            Self::File { path, witness, text, .. } if *path == mode_of(value) => {
                let read = || is_still(witness.as_ref(), "device").and_then(|()| beside(path)).ok();
                let (Some(wanted), Some(read)) = (number(text), read().as_deref().and_then(number)) else {
                    return false;
                };
                let holds = || beside(value).ok().as_deref().and_then(number);
                fan::gives_back(wanted) && fan::is_mode(wanted, read, holds)
            }
            _ => false,
        };
        writes.iter().any(by_chip)
    }

    /// Whether it is the mode of a fan that is in force, where it reads so.
    pub(super) fn is_mode_in_force(&self, read: &str) -> bool {
        let Self::File { path: mode, text, .. } = self else { return false };
        let name = mode.file_name().unwrap_or_default().to_string_lossy();
        let Some(value) = name.strip_suffix("_enable") else { return false };
        let holds = || beside(&mode.with_file_name(value)).ok().as_deref().and_then(number);
        number(text).zip(number(read)).is_some_and(|(set, read)| fan::is_mode(set, read, holds))
    }

    /// What comes in place of a fan's mode that says full speed, which its chip may show and not take: full speed by hand.
    pub(crate) fn at_full_speed(&self, writes: &[Self]) -> Option<[Self; 2]> {
        let Self::File { path: mode, text, .. } = self else { return None };
        if number(text).is_none_or(|mode| mode != 0.0) {
            return None;
        }
        let is_value = |write: &&Self| matches!(write, Self::File { path, .. } if mode_of(path) == *mode);
        let with = |write: &Self, new: &str| {
            let mut write = write.clone();
            if let Self::File { text, .. } = &mut write {
                new.clone_into(text);
            }
            write
        };
        writes.iter().find(is_value).map(|value| [with(self, fan::MANUAL), with(value, fan::FULL)])
    }

    /// The polarity that a PWM channel is to have, if it is that.
    pub(super) fn polarity(&self) -> Option<(&Path, &str)> {
        let Self::File { path, text, cut: false, .. } = self else { return None };
        let is_one = path.ends_with("polarity") && POLARITIES.iter().any(|word| text.strip_suffix('\n') == Some(word));
        is_one.then_some((path, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_beside_a_value_is_written_again_before_it() {
        let file = |name: &str| PlannedWrite::File {
            path: name.into(),
            witness: None,
            text: "1\n".into(),
            cut: false,
            original: None,
        };
        let all = ["/duty_cycle", "/period", "/enable"].map(file);
        assert_eq!(values_last(all.iter().collect(), &all), [&all[1], &all[2], &all[0]]);
        assert_eq!(values_last(all[1..].iter().collect(), &all), [&all[1], &all[2]]);
    }
}
