//! Sums of fractions: exact as long as they fit, otherwise between two bounds. No clock, no allocation.

/// A utilisation in units of 2⁻⁶⁰: at least `least` and at most `most`.
pub(super) struct Utilisation {
    pub(super) least: u128,
    pub(super) most: u128,
}

impl Utilisation {
    pub(super) const ONE: u128 = 1 << 60;

    /// The sum of these shares, each given as a fraction.
    pub(super) fn of(shares: impl Iterator<Item = (u128, u128)>) -> Self {
        // The exact sum if its denominator fits, otherwise the sum of the rounded shares.
        let mut exact = Some((0_u128, 1_u128));
        let mut rounded = Self { least: 0, most: 0 };
        for (num, den) in shares {
            let one = Self::one(num, den);
            rounded.least = rounded.least.saturating_add(one.least);
            rounded.most = rounded.most.saturating_add(one.most);
            exact = exact.and_then(|sum| add(sum, (num, den)));
        }
        match exact {
            Some((num, den)) if num == den => Self { least: Self::ONE, most: Self::ONE },
            // More than one, even if by less than one unit.
            Some((num, den)) if num > den => Self { least: rounded.least.max(Self::ONE + 1), ..rounded },
            Some(_) => Self { most: rounded.most.min(Self::ONE - 1), ..rounded },
            None => rounded,
        }
    }

    /// The utilisation of one fraction.
    pub(super) fn one(num: u128, den: u128) -> Self {
        match num.checked_mul(Self::ONE) {
            Some(scaled) => Self { least: scaled / den, most: scaled.div_ceil(den) },
            None => Self { least: num / den * Self::ONE, most: (num / den + 1).saturating_mul(Self::ONE) },
        }
    }
}

fn add(one: (u128, u128), other: (u128, u128)) -> Option<(u128, u128)> {
    let common = gcd(one.1, other.1);
    let num = one.0.checked_mul(other.1 / common)?.checked_add(other.0.checked_mul(one.1 / common)?)?;
    Some(reduced(num, (one.1 / common).checked_mul(other.1)?))
}

/// A fraction in its lowest terms.
pub(crate) fn reduced(num: u128, den: u128) -> (u128, u128) {
    let divisor = gcd(num, den).max(1);
    (num / divisor, den / divisor)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
