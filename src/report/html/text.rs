//! Text that is safe in a page: escaped, without control characters, cut to a length. Pure.

use crate::escape::is_command;
use crate::time::Span;
use std::fmt::{self, Display, Write as _};

/// Characters of a name that are shown; names can have thousands.
const NAME: usize = 80;

/// Characters of a sentence that are shown.
const SENTENCE: usize = 2_000;

/// Any text, escaped for elements and for attributes in double quotes.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.0.chars();
        for character in all.by_ref().take(SENTENCE) {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(' ')?,
                // Characters that a page must not contain, and those that change the direction of the text around them.
                other if is_command(other) || is_no_character(other) => f.write_char('\u{FFFD}')?,
                other => f.write_char(other)?,
            }
        }
        if all.next().is_some() { f.write_char('…') } else { Ok(()) }
    }
}

const fn is_no_character(character: char) -> bool {
    matches!(character, '\u{FDD0}'..='\u{FDEF}') || character as u32 & 0xFFFE == 0xFFFE
}

/// A name, cut to a length. In an element, its direction does not affect the text around it.
#[derive(Clone, Copy)]
pub(super) struct Name<'a>(pub(super) &'a str);

impl Name<'_> {
    /// For titles and attributes.
    pub(super) fn plain(self) -> String {
        match self.0.char_indices().nth(NAME) {
            Some((end, _)) => Text(&format!("{}…", &self.0[..end])).to_string(),
            None => Text(self.0).to_string(),
        }
    }
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", self.plain())
    }
}

/// A time with its unit, which stay together on one line.
pub(super) fn span(nanos: i64) -> String {
    Span::from_nanos(nanos).to_string().replace(' ', "\u{A0}")
}

/// An instant since 1970 as UTC, to the millisecond.
pub(super) fn utc(nanos: i64) -> String {
    let millis = nanos.div_euclid(1_000_000);
    let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03} UTC", of_day % 1_000)
}

/// The date this many days after 1970-01-01. Years start in March here, so that the leap day is the last day of a year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // 0 is March
    let day = of_year - (153 * month + 2) / 5 + 1;
    let after_december = month >= 10;
    (era * 400 + year + i64::from(after_december), if after_december { month - 9 } else { month + 3 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_taken_for_markup() {
        let shown = |text: &str| Text(text).to_string();
        assert_eq!(
            shown("<script>alert('1')&\"</script>"),
            "&lt;script&gt;alert(&#39;1&#39;)&amp;&quot;&lt;/script&gt;"
        );
        assert_eq!(shown("a\0b\u{1b}[31m\u{202e}c\u{ffff}\u{85}"), "a\u{fffd}b\u{fffd}[31m\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(shown("two\nlines"), "two lines");
        assert_eq!(shown("عربي"), "عربي");
        assert_eq!(Name(&"é".repeat(200)).to_string(), format!("<bdi>{}…</bdi>", "é".repeat(80)));
        assert_eq!(Name(&"<".repeat(81)).plain(), format!("{}…", "&lt;".repeat(80)));
    }

    #[test]
    fn an_instant_has_its_date() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00.000 UTC");
        assert_eq!(utc(1_795_379_993_123_456_789), "2026-11-22 20:39:53.123 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999 UTC");
    }
}
