//! Positions of values on a chart, and the labels of its axes. Pure.

use super::text::span;

/// A logarithmic axis over whole decades.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decades {
    first: i32, // power of ten
    last: i32,
}

impl Decades {
    /// From the decade of `low`, but not below `least`, to that of `high`; at least one decade.
    pub(super) fn around(low: i64, high: i64, least: i64) -> Self {
        let low = low.max(least).max(1);
        let first = low.ilog10().cast_signed();
        let high = high.max(low);
        let power = high.ilog10().cast_signed();
        let whole = 10_i64.checked_pow(power.cast_unsigned()) == Some(high);
        Self { first, last: (power + i32::from(!whole)).max(first + 1) }
    }

    /// Between 0 and 1. Values outside are drawn at the end.
    #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
    pub(super) fn place(self, value: i64) -> f64 {
        let power = (value.max(1) as f64).log10();
        ((power - f64::from(self.first)) / f64::from(self.last - self.first)).clamp(0.0, 1.0)
    }

    /// The powers of ten on it, with their positions. On a very long axis, every second one.
    pub(super) fn marks(self) -> impl Iterator<Item = (i64, f64)> {
        let step = if self.last - self.first > 7 { 2 } else { 1 };
        (self.first..=self.last).step_by(step).filter_map(move |power| {
            let value = 10_i64.checked_pow(power.cast_unsigned())?;
            Some((value, self.place(value)))
        })
    }
}

/// A power of ten in nanoseconds: `10 µs`.
pub(super) fn decade(nanos: i64) -> String {
    let (scale, unit) = match nanos {
        ..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{}\u{A0}{unit}", nanos / scale)
}

/// A power of ten of a count: `10k`.
pub(super) fn count_decade(count: i64) -> String {
    match count {
        ..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// A linear time axis that starts at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds {
    length: i64, // ns
}

impl Seconds {
    pub(super) fn to(length: i64) -> Self {
        Self { length: length.max(1) }
    }

    #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
    pub(super) fn place(self, at: i64) -> f64 {
        (at as f64 / self.length as f64).clamp(0.0, 1.0)
    }

    /// About five round instants on it.
    pub(super) fn marks(self) -> Vec<(i64, f64)> {
        let mut steps = (0..12).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power)));
        let long =
            [20, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 604_800].map(|s| s * 1_000_000_000);
        let fits = |step: &i64| self.length / step <= 6;
        let step = match self.length > 60_000_000_000 {
            true => long.into_iter().find(fits).unwrap_or(self.length),
            false => steps.find(fits).unwrap_or(self.length),
        };
        (0..=self.length / step).map(|index| (index * step, self.place(index * step))).collect()
    }
}

/// An instant on it: `90 s`, `2 h`, `1.5 ms`.
pub(super) fn instant(nanos: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    match nanos {
        0 => "0".into(),
        nanos if nanos >= 3_600 * SECOND && nanos % (1_800 * SECOND) == 0 => {
            let halves = nanos / (1_800 * SECOND);
            format!("{}{}\u{A0}h", halves / 2, if halves % 2 == 1 { ".5" } else { "" })
        }
        nanos if nanos >= 60 * SECOND && nanos % (60 * SECOND) == 0 => format!("{}\u{A0}min", nanos / (60 * SECOND)),
        nanos => {
            let text = span(nanos);
            let (number, unit) = text.split_once('\u{A0}').unwrap_or((&text, ""));
            let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
            format!("{number}\u{A0}{unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_whole_decades() {
        let powers = |low, high| Decades::around(low, high, 10).marks().map(|(value, _)| value).collect::<Vec<_>>();
        assert_eq!(powers(0, 900), [10, 100, 1_000]);
        assert_eq!(powers(100, 1_000), [100, 1_000]);
        assert_eq!(powers(-5, 0), [10, 100]);
        assert!((5..=9).contains(&powers(1_000, i64::MAX).len()));
        let axis = Decades::around(10, 1_000, 10);
        assert_eq!([0, 10, 100, 5_000].map(|value| axis.place(value)), [0.0, 0.0, 0.5, 1.0]);
    }

    #[test]
    fn instants_are_round_and_have_units() {
        let marks = |length| Seconds::to(length).marks().into_iter().map(|(at, _)| instant(at)).collect::<Vec<_>>();
        assert_eq!(marks(1_000_000_000), ["0", "200\u{A0}ms", "400\u{A0}ms", "600\u{A0}ms", "800\u{A0}ms", "1\u{A0}s"]);
        assert_eq!(marks(7_200_000_000_000).last().unwrap(), "2\u{A0}h");
        assert_eq!(
            marks(120_000_000_000),
            ["0", "20\u{A0}s", "40\u{A0}s", "1\u{A0}min", "80\u{A0}s", "100\u{A0}s", "2\u{A0}min"]
        );
        assert!(marks(1).len() < 8 && marks(i64::MAX).len() < 8);
    }
}
