//! The extremes of a value over many ticks: the last, the smallest, the largest that could be used. Arithmetic only.

use super::quality::Quality;
use super::word;
use crate::time::Instant;

/// The extremes of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extremes {
    pub(crate) n: u64,      // the tick of the last value
    pub(crate) at: Instant, // that tick's start, on the clock of its releases
    pub(crate) last: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Number of words in the encoded form.
pub(super) const WORDS: usize = 5;

impl Extremes {
    /// The extremes of a single value; `None` if it must not be used.
    pub(crate) fn of(n: u64, at: Instant, value: f64, quality: Quality) -> Option<Self> {
        quality.is_usable().then_some(Self { n, at, last: value, min: value, max: value })
    }

    /// Merges in the extremes of other ticks, later or earlier ones.
    pub(crate) fn add(seen: &mut Option<Self>, more: Option<Self>) {
        let Some(more) = more else { return };
        *seen = Some(match *seen {
            None => more,
            Some(seen) => {
                let latest = if more.n >= seen.n { more } else { seen };
                Self { min: seen.min.min(more.min), max: seen.max.max(more.max), ..latest }
            }
        });
    }

    /// Encodes the extremes as words, for a mailbox.
    pub(super) fn words(seen: Option<Self>) -> [u64; WORDS] {
        let Self { n, at, last, min, max } =
            seen.unwrap_or(Self { n: 0, at: Instant::ZERO, last: f64::NAN, min: f64::NAN, max: f64::NAN });
        [n, word(at.nanos()), last.to_bits(), min.to_bits(), max.to_bits()]
    }

    /// Decodes the next words; `None` if there was no value.
    pub(super) fn next(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let (n, at) = (words.next()?, Instant::from_nanos(words.next()?.cast_signed().into()));
        let mut value = || words.next().map(f64::from_bits);
        let (last, min, max) = (value()?, value()?, value()?);
        (!last.is_nan()).then_some(Self { n, at, last, min, max })
    }
}
