//! Finds all values of a text file in one pass over its lines. Building allocates; a pass does not, and reads no clock.
//!
//! Lines and fields are looked up in sorted lists of the wanted ones, so the cost of a pass depends on the length of the file, not on the
//! number of values. Nothing is remembered between passes: a line that has moved is found like any other.

use super::locator::{FieldSelector, LineSelector, ValueLocator};
use super::number::Number;
use std::ops::Range;

/// The reason why there is no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExtractError {
    /// The file has only this many lines.
    NoLine(usize),
    /// The line has no such field; its byte range.
    NoField(Range<usize>),
    /// The field is not a number; its byte range.
    NotANumber(Range<usize>),
    /// The part of the file that was read does not contain it.
    TooFar,
}

/// What may be wrong with a file that had the number at the start, by [`ExtractError::fault`].
pub(super) const FAULTS: [&str; 4] = [
    "it no longer has the line",
    "the line no longer has the field",
    "the field is not a number",
    "the line is no longer in its first 64 KiB",
];

impl ExtractError {
    /// The index in [`FAULTS`].
    pub(super) const fn fault(&self) -> usize {
        match self {
            Self::NoLine(_) => 0,
            Self::NoField(_) => 1,
            Self::NotANumber(_) => 2,
            Self::TooFar => 3,
        }
    }
}

/// Finds the numbers that a fixed list of locators describes.
#[derive(Debug)]
pub(super) struct Extractor {
    wanted: Box<[WantedLine]>,
    numbered: Box<[(usize, usize)]>, // line, index in `wanted`; sorted
    prefixes: Box<[Prefix]>,         // sorted
    results: Box<[Option<Result<Number, ExtractError>>]>, // by value; none: not decided yet
    undecided: usize,                // of `results`
    lines: usize,                    // lines passed
    position: usize,                 // of the next line
    next_numbered: usize,
    #[cfg(test)]
    steps: usize, // lines, prefixes and fields examined
}

/// The values wanted from one line.
#[derive(Debug, Default)]
struct WantedLine {
    numbered: Vec<(usize, usize)>,  // field, value; sorted
    named: Vec<(Box<[u8]>, usize)>, // name, value; sorted
    passed: bool,                   // the line has been found and seen in full
}

#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    line: usize,            // index in `wanted`
    shorter: Option<usize>, // the longest other prefix that is a prefix of this one
}

impl Extractor {
    /// Prepares for these values; results come in the same order.
    pub(super) fn new<'a>(locators: impl IntoIterator<Item = &'a ValueLocator>) -> Self {
        let mut lines: Vec<(&LineSelector, WantedLine)> = Vec::new();
        let mut by_line: Vec<_> = locators.into_iter().enumerate().collect();
        let values = by_line.len();
        by_line.sort_by_key(|(_, locator)| sort_key(&locator.line));
        for (value, locator) in by_line {
            if lines.last().is_none_or(|(line, _)| sort_key(line) != sort_key(&locator.line)) {
                lines.push((&locator.line, WantedLine::default()));
            }
            let Some((_, wanted)) = lines.last_mut() else { continue };
            match &locator.field {
                FieldSelector::Number(number) => wanted.numbered.push((*number, value)),
                FieldSelector::Name(name) => wanted.named.push((name.as_bytes().into(), value)),
            }
        }
        let (mut numbered, mut prefixes) = (Vec::new(), Vec::<Prefix>::new());
        for (line, (selector, wanted)) in lines.iter_mut().enumerate() {
            wanted.numbered.sort_unstable();
            wanted.named.sort_unstable();
            match sort_key(selector) {
                (number, None) => numbered.push((number, line)),
                (_, Some(text)) => {
                    let mut shorter = prefixes.len().checked_sub(1);
                    while let Some(index) = shorter.filter(|index| !text.starts_with(&prefixes[*index].text)) {
                        shorter = prefixes[index].shorter;
                    }
                    prefixes.push(Prefix { text: text.into(), line, shorter });
                }
            }
        }
        Self {
            wanted: lines.into_iter().map(|(_, wanted)| wanted).collect(),
            numbered: numbered.into(),
            prefixes: prefixes.into(),
            results: vec![None; values].into(),
            undecided: values,
            lines: 0,
            position: 0,
            next_numbered: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Begins another pass.
    pub(super) fn begin(&mut self) {
        self.results.fill(None);
        self.wanted.iter_mut().for_each(|line| line.passed = false);
        (self.undecided, self.lines, self.position, self.next_numbered) = (self.results.len(), 0, 0, 0);
    }

    /// Continues the pass. `data` is everything read of the file so far; `ended` says that it is the whole file. Returns true if every
    /// value is decided, so that no more need be read.
    pub(super) fn scan(&mut self, data: &[u8], ended: bool) -> bool {
        while self.undecided > 0 && self.position < data.len() {
            let rest = &data[self.position..];
            let end = rest.iter().position(|&byte| byte == b'\n').map(|end| end + 1);
            let line = &rest[..end.unwrap_or(rest.len())];
            let is_whole = end.is_some() || ended;
            self.pass_line(line, is_whole);
            if !is_whole {
                // The line is passed again when more of it has been read.
                return self.undecided == 0;
            }
            self.position += line.len();
            self.lines += 1;
        }
        ended || self.undecided == 0
    }

    /// The results of a finished pass, by value. `ended`: the pass has seen the whole file.
    pub(super) fn results(&self, ended: bool) -> impl Iterator<Item = Result<Number, ExtractError>> {
        let none = move || Err(if ended { ExtractError::NoLine(self.lines) } else { ExtractError::TooFar });
        self.results.iter().map(move |result| result.clone().unwrap_or_else(none))
    }

    fn pass_line(&mut self, line: &[u8], is_whole: bool) {
        self.count();
        if let Some(&(number, wanted)) = self.numbered.get(self.next_numbered)
            && number == self.lines + 1
        {
            self.next_numbered += usize::from(is_whole);
            self.take(wanted, line, line, is_whole);
        }
        let text = line.trim_ascii_start();
        // The last prefix that does not sort after the line. Every prefix that the line starts with is this one or among its shorter ones.
        let mut next = self.prefixes.partition_point(|prefix| *prefix.text <= *text).checked_sub(1);
        while let Some(index) = next {
            self.count();
            let prefix = &self.prefixes[index];
            next = prefix.shorter;
            if !self.wanted[prefix.line].passed
                && let Some(fields) = after(text, &prefix.text)
            {
                self.take(prefix.line, line, fields, is_whole);
            }
        }
    }

    /// Takes the values wanted from a line with these fields.
    fn take(&mut self, index: usize, line: &[u8], fields: &[u8], is_whole: bool) {
        let (start, origin) = (self.position, line.as_ptr().addr());
        let range = |part: &[u8]| {
            let from = start + part.as_ptr().addr() - origin;
            from..from + part.len()
        };
        let wanted = &mut self.wanted[index];
        wanted.passed = is_whole;
        let (results, undecided) = (&mut self.results, &mut self.undecided);
        let mut decide = |value: usize, result| {
            if results[value].is_none() {
                results[value] = Some(result);
                *undecided -= 1;
            }
        };
        let read = |text: &[u8]| Number::parse(text).ok_or_else(|| ExtractError::NotANumber(range(text)));
        let mut next = 0;
        // Each piece still ends with its separator, if it has one.
        let pieces = fields.split_inclusive(|&byte| separates(byte)).filter(|piece| !separates(piece[0]));
        for (number, piece) in (1..).zip(pieces) {
            if next == wanted.numbered.len() && wanted.named.is_empty() {
                break;
            }
            #[cfg(test)]
            {
                self.steps += 1;
            }
            let field = match piece.split_last() {
                Some((&last, field)) if separates(last) => field,
                _ if is_whole => piece,
                _ => break,
            };
            while let Some((_, value)) = wanted.numbered.get(next).filter(|(wanted, _)| *wanted == number) {
                decide(*value, read(field));
                next += 1;
            }
            if let Some(equals) = field.iter().position(|&byte| byte == b'=').filter(|_| !wanted.named.is_empty()) {
                let name = &field[..equals];
                let first = wanted.named.partition_point(|(known, _)| **known < *name);
                for (_, value) in wanted.named[first..].iter().take_while(|(known, _)| **known == *name) {
                    decide(*value, read(&field[equals + 1..]));
                }
            }
        }
        if is_whole {
            let rest = wanted.numbered[next..].iter().map(|(_, value)| value);
            rest.chain(wanted.named.iter().map(|(_, value)| value))
                .for_each(|value| decide(*value, Err(ExtractError::NoField(range(line)))));
        }
    }

    fn count(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

/// Numbers first, then prefixes, each in their order.
fn sort_key(line: &LineSelector) -> (usize, Option<&[u8]>) {
    match line {
        LineSelector::Number(number) => (*number, None),
        LineSelector::Prefix(text) => (usize::MAX, Some(text.trim_start().as_bytes())),
    }
}

/// The rest of a line after a prefix, if the line starts with it.
fn after<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(prefix)?;
    let ends = |byte: &u8| separates(*byte) || *byte == b'=';
    let is_end = rest.first().is_none_or(ends) || prefix.last().is_none_or(ends);
    is_end.then(|| rest.strip_prefix(b"=").unwrap_or(rest))
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b':'
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"cpu10 7 8\ncpu1 1 2 3\n  eth0: 44 55\nMemAvailable:   1234 kB\n\nhex 0x1f -0X10 +2.5e3";

    fn line(number: usize) -> LineSelector {
        LineSelector::Number(number)
    }

    fn prefix(text: &str) -> LineSelector {
        LineSelector::Prefix(text.into())
    }

    fn at(line: LineSelector, field: usize) -> ValueLocator {
        ValueLocator { line, field: FieldSelector::Number(field) }
    }

    fn named(line: LineSelector, name: &str) -> ValueLocator {
        ValueLocator { line, field: FieldSelector::Name(name.into()) }
    }

    fn found(locators: &[ValueLocator], data: &[u8], ended: bool) -> Vec<Result<f64, ExtractError>> {
        let mut extractor = Extractor::new(locators);
        extractor.scan(data, ended);
        extractor.results(ended).map(|result| result.map(Number::value)).collect()
    }

    #[test]
    fn lines_and_fields_are_found() {
        let cases = [
            (at(line(1), 2), 7.0),
            (at(line(2), 4), 3.0),
            (at(line(3), 2), 44.0),
            (at(line(6), 4), 2_500.0), // no line feed at the end
            (at(prefix("cpu1"), 1), 1.0),
            (at(prefix("cpu1 1"), 2), 3.0),
            (at(prefix("eth0"), 2), 55.0),
            (at(prefix(" eth0"), 1), 44.0),
            (at(prefix("MemAvailable:"), 1), 1_234.0),
            (at(prefix("MemAvailable"), 1), 1_234.0),
            (at(prefix("hex "), 1), 31.0),
            (at(prefix("hex"), 2), -16.0),
        ];
        for (locator, wanted) in &cases {
            assert_eq!(found(std::slice::from_ref(locator), STAT, true), [Ok(*wanted)], "{locator:?}");
        }
        let (locators, wanted): (Vec<_>, Vec<_>) =
            cases.into_iter().map(|(locator, value)| (locator, Ok(value))).unzip();
        assert_eq!(found(&locators, STAT, true), wanted, "all in one pass");
        let mut extractor = Extractor::new(&locators);
        for length in 0..STAT.len() {
            assert!(!extractor.scan(&STAT[..length], false), "the last field may still go on: {length}");
        }
        assert!(extractor.scan(STAT, true));
        let pieces: Vec<_> = extractor.results(true).map(|result| result.map(Number::value)).collect();
        assert_eq!(pieces, wanted, "byte by byte");
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let pressure = b"some avg10=0.25 avg60=1.50 total=123\nfull avg10=0.00 avg60=0.5 total=7\n";
        let locators = [
            named(prefix("full"), "total"),
            named(prefix("some"), "avg10"),
            named(prefix("some"), "total"),
            named(line(1), "avg60"),
            named(line(1), "avg"),
        ];
        let results = found(&locators, pressure, true);
        assert_eq!(results[..4], [Ok(7.0), Ok(0.25), Ok(123.0), Ok(1.5)]);
        assert_eq!(results[4], Err(ExtractError::NoField(0..37)));
        let io = b"8:0 rbytes=1 wbytes=2\n8:16 rbytes=3 wbytes=x\n";
        let results = found(&[named(prefix("8:16"), "rbytes"), named(prefix("8:16"), "wbytes")], io, true);
        assert_eq!(results, [Ok(3.0), Err(ExtractError::NotANumber(43..44))]);
        let battery = b"POWER_SUPPLY_NAME=BAT0\nPOWER_SUPPLY_VOLTAGE_NOW=12000\n";
        for text in ["POWER_SUPPLY_VOLTAGE_NOW", "POWER_SUPPLY_VOLTAGE_NOW="] {
            assert_eq!(found(&[at(prefix(text), 1)], battery, true), [Ok(12_000.0)]);
        }
    }

    #[test]
    fn the_first_of_several_lines_counts() {
        let both = [at(prefix("a b"), 1), at(prefix("a"), 2), at(prefix("a b c"), 1), at(line(1), 1)];
        assert_eq!(found(&both, b"1\na b 2\na b 3\na b c 4\n", true), [Ok(2.0), Ok(2.0), Ok(4.0), Ok(1.0)]);
    }

    #[test]
    fn what_may_still_change_is_not_decided() {
        let locator = at(line(2), 1);
        for (data, decided) in [
            ("", false),
            ("1 ", false),
            ("1\n", false),
            ("1\n2", false),
            ("1\n2 ", true),
            ("1\n2\n", true),
            ("1\n\n", true),
        ] {
            let scan = |ended| Extractor::new([&locator]).scan(data.as_bytes(), ended);
            assert_eq!((scan(false), scan(true)), (decided, true), "{data:?}");
        }
        let one = |data: &[u8], ended| found(std::slice::from_ref(&locator), data, ended).remove(0);
        assert_eq!(one(b"1\n2", false), Err(ExtractError::TooFar));
        assert_eq!(one(b"1\n\n", false), Err(ExtractError::NoField(2..3)));
        assert_eq!(one(b"1\nx\n", false), Err(ExtractError::NotANumber(2..3)));
        assert_eq!(one(b"1\n", true), Err(ExtractError::NoLine(1)));
    }

    /// Lines, prefixes and fields that one pass examines for `values` values, one on each line.
    fn steps(values: usize, locate: impl Fn(usize) -> ValueLocator) -> usize {
        let data: String = (0..values).map(|index| format!("nr_{index} {index}\n")).collect();
        let locators: Vec<_> = (0..values).rev().map(locate).collect();
        let mut extractor = Extractor::new(&locators);
        assert!(extractor.scan(data.as_bytes(), true));
        assert!(extractor.results(true).all(|result| result.is_ok()));
        extractor.steps
    }

    #[test]
    fn many_values_cost_one_pass() {
        for values in [192, 4_000] {
            assert_eq!(steps(values, |index| at(line(index + 1), 2)), 2 * values + values);
            // `nr_1` is also examined for `nr_10`: prefixes of one another, at most five here.
            assert!(steps(values, |index| at(prefix(&format!("nr_{index}")), 1)) <= 7 * values);
        }
        let fields: String = (0..4_000).map(|index| format!("f{index}={index} ")).collect();
        let locators: Vec<_> = (0..4_000).rev().map(|index| named(line(1), &format!("f{index}"))).collect();
        let mut extractor = Extractor::new(&locators);
        assert!(extractor.scan(fields.as_bytes(), true));
        assert_eq!(extractor.steps, 4_001);
    }
}
