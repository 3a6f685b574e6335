//! Formats a number as the text a target takes, in a fixed buffer, so that a tick allocates nothing. Pure.

/// Bytes of the longest number text, with its newline.
pub(super) const LONGEST: usize = 32;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Rounded to the nearest whole number: for `/sys` attributes and registers.
    Whole,
    /// For GPIO lines: `1` if the line is high, else `0`. A value above 0.5 is on; on is low for an active-low line.
    #[cfg_attr(not(feature = "gpio"), allow(dead_code, reason = "for lines"))]
    Level { active_low: bool },
    /// With as many digits as needed to distinguish the number from every other.
    Any,
}

/// Parses a text that holds one finite number and otherwise only ASCII white space: a plan can restore no other text.
pub(super) fn number(text: &str) -> Option<f64> {
    (text.len() <= LONGEST).then(|| text.trim_ascii().parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

/// The text of a number, with a newline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    text: [u8; LONGEST],
    length: usize,
}

impl Digits {
    /// An empty text.
    pub(super) const EMPTY: Self = Self { text: [b'\n'; LONGEST], length: 0 };

    /// The text of a finite number. A whole number outside the signed 64-bit range saturates.
    pub(super) fn of(number: f64, form: Form) -> Self {
        let mut digits = Self::EMPTY;
        match form {
            #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
            Form::Whole => digits.push_whole(number.round() as i64),
            Form::Level { active_low } => digits.push(if is_high(number, active_low) { b"1" } else { b"0" }),
            Form::Any => {
                let mut buffer = zmij::Buffer::new();
                // Adding zero turns a negative zero into a positive one.
                let text = buffer.format_finite(number + 0.0);
                digits.push(text.strip_suffix(".0").unwrap_or(text).as_bytes());
            }
        }
        digits.push(b"\n");
        digits
    }

    /// The number that reading the text back would give.
    pub(super) fn rounded(number: f64, form: Form) -> f64 {
        match form {
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as the text is read")]
            Form::Whole => number.round() as i64 as f64,
            Form::Level { active_low } => f64::from(u8::from(is_high(number, active_low))),
            // Adding zero turns a negative zero into a positive one.
            Form::Any => number + 0.0,
        }
    }

    /// The text, with its newline.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    fn push(&mut self, text: &[u8]) {
        self.text[self.length..][..text.len()].copy_from_slice(text);
        self.length += text.len();
    }

    fn push_whole(&mut self, number: i64) {
        if number < 0 {
            self.push(b"-");
        }
        let (mut rest, mut power) = (number.unsigned_abs(), 1);
        while rest / power >= 10 {
            power *= 10;
        }
        while power > 0 {
            let digit = u8::try_from(rest / power).unwrap_or(9);
            self.push(&[b'0' + digit]);
            (rest, power) = (rest % power, power / 10);
        }
    }
}

/// Whether the line is high. `number` is the line's own level; active-low lines round 0.5 up, because exactly one half counts as off.
fn is_high(number: f64, active_low: bool) -> bool {
    number > 0.5 || active_low && number >= 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: f64, form: Form) -> String {
        String::from_utf8(Digits::of(number, form).bytes().to_vec()).unwrap()
    }

    #[test]
    fn whole_numbers_are_rounded_to_the_nearest() {
        for (number, wanted) in [
            (0.0, "0\n"),
            (-0.4, "0\n"),
            (127.5, "128\n"),
            (254.49, "254\n"),
            (255.0, "255\n"),
            (-10.5, "-11\n"),
            (1e9, "1000000000\n"),
            (f64::MAX, "9223372036854775807\n"),
            (f64::MIN, "-9223372036854775808\n"),
        ] {
            assert_eq!(text(number, Form::Whole), wanted);
        }
    }

    #[test]
    fn what_is_above_a_half_is_on() {
        let high = |on: f64, active_low: bool| {
            let raw = if active_low { 1.0 - on } else { on };
            text(raw, Form::Level { active_low }) == "1\n"
        };
        for (on, is_on) in
            [(0.0, false), (0.5, false), (0.5 + f64::EPSILON, true), (1.0, true), (-3.0, false), (9.0, true)]
        {
            assert_eq!((high(on, false), high(on, true)), (is_on, !is_on), "{on}");
        }
    }

    #[test]
    fn what_a_text_holds_is_known_without_reading_it() {
        let forms = [Form::Whole, Form::Any, Form::Level { active_low: false }, Form::Level { active_low: true }];
        for form in forms {
            for raw in [0.0, -0.0, 0.5, 0.49, 1.0, -2.5, 127.5, 254.49, 0.1, 1e18, 1e300, -1e300, 1e-300] {
                let (text, rounded) = (text(raw, form), Digits::rounded(raw, form));
                assert_eq!(number(&text).map(f64::to_bits), Some(rounded.to_bits()), "{raw} is {text} as {form:?}");
            }
        }
    }

    #[test]
    fn any_number_is_read_as_what_it_was() {
        assert_eq!(text(0.25, Form::Any), "0.25\n");
        assert_eq!((text(1.0, Form::Any), text(-0.0, Form::Any)), ("1\n".into(), "0\n".into()));
        let mut bits = 1_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = f64::from_bits(bits);
            if number.is_finite() {
                let text = text(number, Form::Any);
                assert!(text.len() <= LONGEST && text.trim_end().parse() == Ok(number), "{text}");
            }
        }
        assert_eq!(text(-f64::MIN_POSITIVE, Form::Any).trim_end().parse(), Ok(-f64::MIN_POSITIVE));
    }
}
