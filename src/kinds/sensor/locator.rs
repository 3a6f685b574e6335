//! Where a number stands in a text file, and how it is read. Pure; nothing is allocated.

/// How a line is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSelector {
    /// By its number, from 1.
    Number(usize),
    /// By the text it starts with, white space before it aside: the first such line. The text must end where a field
    /// ends, so `cpu1` does not find `cpu10`.
    Text(String),
}

/// Where a number stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueLocator {
    /// The line the number is in.
    pub line: LineSelector,
    /// Which field of the line, from 1. Fields are separated by white space and colons, several count as one. In a line
    /// found by its text the fields after the text are counted: field 1 of `MemAvailable:` is the number itself.
    pub field: usize,
}

/// The first field of the first line.
impl Default for ValueLocator {
    fn default() -> Self {
        Self { line: LineSelector::Number(1), field: 1 }
    }
}

/// Why there is no number; borrows what was found instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack<'a> {
    /// With the number of lines there are.
    NoLine(usize),
    /// With the line.
    NoField(&'a [u8]),
    /// With the field.
    NotANumber(&'a [u8]),
    /// What has been read does not decide it.
    TooFar,
}

impl ValueLocator {
    /// Whether what has been read so far decides what stands there.
    pub(super) fn is_decided(&self, data: &[u8], ended: bool) -> bool {
        self.find(data, ended).is_some()
    }

    /// The number that stands there. `ended`: there is no more than `data`.
    pub(super) fn number<'a>(&self, data: &'a [u8], ended: bool) -> Result<f64, Lack<'a>> {
        match self.find(data, ended) {
            Some(Found::Field(field)) => number(field).ok_or(Lack::NotANumber(field)),
            Some(Found::NoLine) => Err(Lack::NoLine(lines(data).count())),
            Some(Found::NoField(line)) => Err(Lack::NoField(line)),
            None => Err(Lack::TooFar),
        }
    }

    /// `None` while what follows could still change the answer.
    fn find<'a>(&self, data: &'a [u8], ended: bool) -> Option<Found<'a>> {
        let found = match &self.line {
            LineSelector::Number(number) => lines(data).nth(number - 1).map(|line| (line, line)),
            LineSelector::Text(text) => {
                lines(data).find_map(|line| Some((line, after(line, text.trim_start().as_bytes())?)))
            }
        };
        let Some((line, fields)) = found else {
            return ended.then_some(Found::NoLine);
        };
        // Each piece still has the separator that ended it, if one did.
        let pieces = fields.split_inclusive(|&byte| separates(byte));
        match pieces.filter(|piece| !separates(piece[0])).nth(self.field - 1) {
            Some(piece) => match piece.split_last() {
                Some((&last, field)) if separates(last) => Some(Found::Field(field)),
                _ => ended.then_some(Found::Field(piece)),
            },
            None => (ended || line.ends_with(b"\n")).then_some(Found::NoField(line)),
        }
    }
}

enum Found<'a> {
    Field(&'a [u8]),
    NoLine,
    NoField(&'a [u8]),
}

fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split_inclusive(|&byte| byte == b'\n')
}

/// What follows `text` in a line that starts with it.
fn after<'a>(line: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    let rest = line.trim_ascii_start().strip_prefix(text)?;
    let ends_a_field = |byte: Option<&u8>| byte.is_none_or(|&byte| separates(byte));
    (ends_a_field(rest.first()) || ends_a_field(text.last())).then_some(rest)
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b':'
}

/// A number: decimal, with a fraction or an exponent, or a hexadecimal integer as in `0x1f`; either may have a sign.
/// Infinity and NaN are no numbers here.
#[expect(clippy::cast_precision_loss, reason = "values are floating-point numbers; registers rarely pass 2^53")]
pub(super) fn number(field: &[u8]) -> Option<f64> {
    let text = str::from_utf8(field).ok()?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1.0, unsigned),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    let size = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) if digits.starts_with('+') => return None,
        Some(digits) => u64::from_str_radix(digits, 16).ok()? as f64,
        None => unsigned.parse::<f64>().ok()?,
    };
    size.is_finite().then_some(sign * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"cpu10 7 8\ncpu1 1 2 3\n  eth0: 44 55\nMemAvailable:   1234 kB\n\nhex 0x1f -0X10 +2.5e3";

    fn text(text: &str) -> LineSelector {
        LineSelector::Text(text.into())
    }

    #[test]
    fn lines_and_fields_are_found() {
        for (line, field, wanted) in [
            (LineSelector::Number(1), 2, 7.0),
            (LineSelector::Number(2), 4, 3.0),
            (LineSelector::Number(3), 2, 44.0),
            (LineSelector::Number(6), 4, 2_500.0), // no line feed at the end
            (text("cpu1"), 1, 1.0),
            (text("cpu1 1"), 2, 3.0),
            (text("eth0"), 2, 55.0),
            (text("MemAvailable:"), 1, 1_234.0),
            (text("MemAvailable"), 1, 1_234.0),
            (text("hex "), 1, 31.0),
            (text("hex"), 2, -16.0),
        ] {
            let locator = ValueLocator { line, field };
            assert_eq!(locator.number(STAT, true), Ok(wanted), "{locator:?}");
        }
    }

    #[test]
    fn what_may_still_change_is_not_decided() {
        let locator = ValueLocator { line: LineSelector::Number(2), field: 1 };
        for (data, decided) in
            [("", false), ("1 ", false), ("1\n", false), ("1\n2", false), ("1\n2\n", true), ("1\n\n", true)]
        {
            assert_eq!(locator.is_decided(data.as_bytes(), false), decided, "{data:?}");
            assert!(locator.is_decided(data.as_bytes(), true), "{data:?}");
        }
        assert_eq!(locator.number(b"1\n2", false), Err(Lack::TooFar));
        assert_eq!(locator.number(b"1\n\n", false), Err(Lack::NoField(b"\n")));
        assert_eq!(locator.number(b"1\nx\n", false), Err(Lack::NotANumber(b"x")));
        assert_eq!(locator.number(b"1\n", true), Err(Lack::NoLine(1)));
    }

    #[test]
    fn numbers() {
        for (field, wanted) in [
            ("42", Some(42.0)),
            ("-4.2e1", Some(-42.0)),
            ("0xffffffff", Some(4_294_967_295.0)),
            ("0x", None),
            ("0x+1", None),
            ("--1", None),
            ("+-1", None),
            ("nan", None),
            ("-inf", None),
            ("1e999", None),
            ("45%", None),
            ("", None),
        ] {
            assert_eq!(number(field.as_bytes()), wanted, "{field}");
        }
        assert_eq!(number(&[0xff]), None);
    }
}
