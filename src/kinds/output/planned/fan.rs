//! What the writes of a plan mean for a fan, where one is its value and another its mode; and for the polarity of a PWM channel. May block.

use super::super::digits::number;
use super::super::fan;
use super::super::setting::POLARITIES;
use super::check::beside;
use super::is_still;
use crate::safety::PlannedWrite;
use std::path::{Path, PathBuf};

/// The mode file that belongs to a fan's value.
fn mode_of(value: &Path) -> PathBuf {
    value.with_file_name(format!("{}_enable", value.file_name().unwrap_or_default().to_string_lossy()))
}

/// The writes to repeat, in order, once all writes of an output were made: first those that failed, then the value, which is `writes[0]`.
/// The value is repeated if other writes give it its effect: see [`in_force`](super::super::setting::in_force). The value of a fan given
/// back to its chip is repeated only if it failed.
pub(crate) fn once_more<'a>(failed: Vec<&'a PlannedWrite>, writes: &'a [PlannedWrite]) -> Vec<&'a PlannedWrite> {
    let Some((value, others)) = writes.split_first() else { return failed };
    let is_set = !others.is_empty() && !others.iter().any(|other| other.gives_back(value));
    let value = Some(value).filter(|value| is_set || failed.contains(value));
    failed.into_iter().filter(|write| Some(*write) != writes.first()).chain(value).collect()
}

impl PlannedWrite {
    /// Whether this is the value of a fan that its chip controls again, as one of `writes` asks. Such a chip may refuse the value, and sets
    /// its own.
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

    /// Whether this write gives the fan with this value back to its chip.
    fn gives_back(&self, value: &Self) -> bool {
        let (Self::File { path, text, .. }, Self::File { path: value, .. }) = (self, value) else { return false };
        *path == mode_of(value) && number(text).is_some_and(fan::gives_back)
    }

    /// Whether this is a fan's mode and `read` shows that it is in force.
    pub(super) fn is_mode_in_force(&self, read: &str) -> bool {
        let Self::File { path: mode, text, .. } = self else { return false };
        let name = mode.file_name().unwrap_or_default().to_string_lossy();
        let Some(value) = name.strip_suffix("_enable") else { return false };
        let holds = || beside(&mode.with_file_name(value)).ok().as_deref().and_then(number);
        number(text).zip(number(read)).is_some_and(|(set, read)| fan::is_mode(set, read, holds))
    }

    /// Replaces a fan mode for full speed, which its chip may show but not accept: mode 1 and the value for full speed.
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

    /// The polarity to set and its file, if this is a write of a PWM channel's polarity.
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
            file_system: None,
            original: None,
        };
        let all = ["/duty_cycle", "/period", "/enable"].map(file);
        assert_eq!(once_more(all.iter().collect(), &all), [&all[1], &all[2], &all[0]]);
        assert_eq!(once_more(all[1..2].iter().collect(), &all), [&all[1], &all[0]]);
        assert_eq!(once_more(Vec::new(), &all[..1]), [&all[0]; 0], "nothing else is set");
    }

    #[test]
    fn the_value_of_a_fan_is_written_again_behind_its_mode_unless_that_gives_it_back() {
        let fan = |mode: &str| {
            [("/pwm1", "60\n"), ("/pwm1_enable", mode)].map(|(path, text)| PlannedWrite::File {
                path: path.into(),
                witness: None,
                text: text.into(),
                cut: false,
                file_system: None,
                original: None,
            })
        };
        for (mode, is_taken) in [("1\n", true), ("2\n", false), ("0\n", false)] {
            let all = fan(mode);
            assert_eq!(once_more(Vec::new(), &all), all.iter().take(usize::from(is_taken)).collect::<Vec<_>>());
            assert_eq!(once_more(vec![&all[0]], &all), [&all[0]], "what has failed is tried again");
        }
    }
}
