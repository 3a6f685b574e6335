//! What a value is worth: one model for rows, links, kinds, recordings and views. Pure.
//!
//! The quality of a number travels with it: what is not there is a `NaN` whose payload says why, and what holds for a whole tick is its
//! [`Basis`]. Both sides of a queue apply the same rule, [`Quality::of`], so that a consumer and a view never disagree.

use crate::time::Span;
use std::fmt;

/// What a value is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// It was read or computed at this tick from good values.
    Good,
    /// The last good value, or one computed from such a value, within `hold`.
    Held,
    /// There is nothing new, and no error.
    None,
    /// It must not be used.
    Bad(Reason),
}

/// Why a value is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reason {
    /// It could not be read or computed: an error.
    Failed = 1,
    /// Its source is absent: a device that was lost, or a task that has not had a value yet.
    Unavailable,
    /// It is outside its `valid` range.
    OutOfRange,
    /// It has not changed at all for `stuck-after`.
    Stuck,
    /// It is older than allowed.
    Stale,
    /// It is infinite or not a number.
    NotFinite,
    /// Its source says that it has none.
    NotAvailable,
    /// It was computed from a bad value.
    Inherited,
}

impl Reason {
    /// All reasons, in the order of their codes.
    pub(crate) const ALL: [Self; 8] = [
        Self::Failed,
        Self::Unavailable,
        Self::OutOfRange,
        Self::Stuck,
        Self::Stale,
        Self::NotFinite,
        Self::NotAvailable,
        Self::Inherited,
    ];

    /// The reason in one word, as in JSON and metrics.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::OutOfRange => "out-of-range",
            Self::Stuck => "stuck",
            Self::Stale => "stale",
            Self::NotFinite => "not-finite",
            Self::NotAvailable => "not-available",
            Self::Inherited => "inherited",
        }
    }

    /// What a tick writes in the place of a value that is bad for this reason: a `NaN` that carries it.
    pub(crate) const fn value(self) -> f64 {
        tagged(self as u8, 0)
    }

    /// The same, for a value whose read failed with this error of the system.
    pub(crate) fn value_of(self, error: &std::io::Error) -> f64 {
        tagged(self as u8, error.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0))
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// What a tick writes in the place of a value that is bad for this reason.
impl From<Reason> for f64 {
    fn from(reason: Reason) -> Self {
        reason.value()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a slot holds before a tick. A slot that still holds it afterwards has nothing new.
pub(crate) const NONE: f64 = tagged(0, 0);

/// For how long a value that is only repeated or shown counts as good, while its task with this period gets nothing from its source.
pub(crate) fn stale_after(period: Span) -> Span {
    Span::from_seconds(1).max(Span::from_nanos(period.nanos().saturating_mul(10)))
}

/// The value, or nothing new in the place of one that is unknown.
pub(crate) fn or_none(value: f64) -> f64 {
    if value.is_nan() { NONE } else { value }
}

/// A quiet NaN that no arithmetic makes.
const TAG: u64 = 0x7ff8_4248_0000_0000;
const TAG_MASK: u64 = !0xff_ffff;
const ERRNO_BITS: u32 = 16;

const fn tagged(code: u8, errno: u16) -> f64 {
    f64::from_bits(TAG | (code as u64) << ERRNO_BITS | errno as u64)
}

/// The code and the errno in a NaN of [`tagged`].
fn code_of(value: f64) -> Option<(u8, u16)> {
    let [.., code, high, low] = value.to_bits().to_be_bytes();
    (value.to_bits() & TAG_MASK == TAG).then_some((code, u16::from_be_bytes([high, low])))
}

/// The error of the system that a bad value carries.
pub(crate) fn errno_of(value: f64) -> Option<i32> {
    code_of(value).map(|(_, errno)| errno.into()).filter(|errno| *errno > 0)
}

/// What all values of a tick rest on. Of several, the greatest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Basis {
    /// Its inputs are good.
    #[default]
    Good,
    /// An input that the task copes without has nothing new. Neither has a value that it could not compute.
    Without,
    /// An input that the task copes without is bad. A value that it could not compute was computed from that.
    Despite,
    /// An input is held.
    Held,
    /// An input has nothing new.
    None,
    /// An input is bad.
    Inherited,
    /// The tick failed.
    Failed,
    /// The tick had no device.
    Unavailable,
}

impl Basis {
    const ALL: [Self; 8] = [
        Self::Good,
        Self::Without,
        Self::Despite,
        Self::Held,
        Self::None,
        Self::Inherited,
        Self::Failed,
        Self::Unavailable,
    ];

    /// What an input of this quality means for the task. `copes`: the task does without it.
    pub(super) const fn of_input(quality: Quality, copes: bool) -> Self {
        match quality {
            Quality::Good => Self::Good,
            Quality::Held => Self::Held,
            Quality::None if copes => Self::Without,
            Quality::Bad(_) if copes => Self::Despite,
            Quality::None => Self::None,
            Quality::Bad(_) => Self::Inherited,
        }
    }

    /// It as a word of three bits, and back.
    pub(super) const fn word(self) -> u64 {
        self as u64
    }

    pub(super) fn of_word(word: u64) -> Self {
        usize::try_from(word).ok().and_then(|at| Self::ALL.get(at)).copied().unwrap_or_default()
    }
}

impl Quality {
    /// The quality of a value of a tick with this basis. `range`: what is valid; `None`: any number is.
    #[inline]
    pub(crate) fn of(value: f64, basis: Basis, range: Option<&[f64; 2]>) -> Self {
        let fits = value.is_finite() && range.is_none_or(|[low, high]| (*low..=*high).contains(&value));
        if fits && basis <= Basis::Despite { Self::Good } else { Self::not_good(value, basis, fits) }
    }

    #[inline(never)]
    fn not_good(value: f64, basis: Basis, fits: bool) -> Self {
        let own = code_of(value).map(|(code, _)| code);
        match (own.and_then(Reason::of_code), basis) {
            (Some(reason), _) => Self::Bad(reason),
            (None, Basis::Failed) => Self::Bad(Reason::Failed),
            (None, Basis::Unavailable) => Self::Bad(Reason::Unavailable),
            (None, Basis::Inherited) => Self::Bad(Reason::Inherited),
            (None, Basis::None) => Self::None,
            (None, _) if own.is_some() => Self::None,
            (None, Basis::Held) if fits => Self::Held,
            (None, Basis::Without) if value.is_nan() => Self::None,
            (None, Basis::Held | Basis::Despite) if value.is_nan() => Self::Bad(Reason::Inherited),
            (None, _) if value.is_finite() => Self::Bad(Reason::OutOfRange),
            (None, _) => Self::Bad(Reason::NotFinite),
        }
    }

    /// Whether the value may be used.
    pub(crate) const fn is_usable(self) -> bool {
        matches!(self, Self::Good | Self::Held)
    }

    /// The reason of a bad value.
    pub(crate) const fn reason(self) -> Option<Reason> {
        if let Self::Bad(reason) = self { Some(reason) } else { None }
    }

    /// The quality in one word, as in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Held => "held",
            Self::None => "none",
            Self::Bad(_) => "bad",
        }
    }

    /// It as a code of four bits; 0 is good.
    pub(super) const fn code(self) -> u64 {
        match self {
            Self::Good => 0,
            Self::Held => 1,
            Self::None => 2,
            Self::Bad(reason) => 2 + reason as u64,
        }
    }

    pub(super) fn of_code(code: u64) -> Self {
        match code & 15 {
            0 => Self::Good,
            1 => Self::Held,
            2 => Self::None,
            code => Self::Bad(
                usize::try_from(code - 3).ok().and_then(|at| Reason::ALL.get(at)).copied().unwrap_or(Reason::Failed),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_was_written() {
        let bad = Reason::ALL.map(Quality::Bad);
        for quality in [Quality::Good, Quality::Held, Quality::None].into_iter().chain(bad) {
            assert_eq!(Quality::of_code(quality.code()), quality);
        }
        for basis in Basis::ALL {
            assert_eq!(Basis::of_word(basis.word()), basis);
        }
        for reason in Reason::ALL {
            let error = std::io::Error::from_raw_os_error(61);
            assert_eq!(Quality::of(reason.value(), Basis::Good, None), Quality::Bad(reason));
            assert_eq!((errno_of(reason.value()), errno_of(reason.value_of(&error))), (None, Some(61)));
        }
        assert_eq!([f64::NAN, -f64::NAN, 0.0, f64::INFINITY, NONE].map(errno_of), [None; 5]);
    }

    #[test]
    fn the_own_reason_of_a_value_comes_before_that_of_its_tick() {
        use Quality::{Bad, Good, Held};
        let range = [0.0, 10.0];
        let nan = f64::NAN;
        for (value, basis, wanted) in [
            (5.0, Basis::Good, Good),
            (16.0, Basis::Good, Bad(Reason::OutOfRange)),
            (f64::INFINITY, Basis::Good, Bad(Reason::NotFinite)),
            (nan, Basis::Good, Bad(Reason::NotFinite)),
            (NONE, Basis::Good, Quality::None),
            (5.0, Basis::Without, Good),
            (nan, Basis::Without, Quality::None),
            (5.0, Basis::Despite, Good),
            (nan, Basis::Despite, Bad(Reason::Inherited)),
            (NONE, Basis::Despite, Quality::None),
            (5.0, Basis::Held, Held),
            (16.0, Basis::Held, Bad(Reason::OutOfRange)),
            (nan, Basis::Held, Bad(Reason::Inherited)),
            (5.0, Basis::None, Quality::None),
            (5.0, Basis::Inherited, Bad(Reason::Inherited)),
            (NONE, Basis::Inherited, Bad(Reason::Inherited)),
            (Reason::NotAvailable.value(), Basis::Inherited, Bad(Reason::NotAvailable)),
            (5.0, Basis::Failed, Bad(Reason::Failed)),
            (NONE, Basis::Unavailable, Bad(Reason::Unavailable)),
        ] {
            assert_eq!(Quality::of(value, basis, Some(&range)), wanted, "{value} {basis:?}");
        }
    }
}
