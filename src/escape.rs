//! Makes text from outside safe to show: without characters that a terminal takes for commands or that change the direction of the text
//! around them. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether the character is invisible itself but commands a terminal or changes the direction of text.
pub(crate) fn is_command(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// The text made safe for a terminal: each such character except line breaks and tabs becomes an escape, `\u{1b}`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    with_escapes(text, |shown, character| shown.extend(character.escape_unicode()))
}

/// The same on a single line: line breaks and tabs become escapes as well.
pub(crate) fn visible_line(text: &str) -> Cow<'_, str> {
    match text.contains(is_command) {
        true => Cow::Owned(visible(text).replace('\n', "\\u{a}").replace('\t', "\\u{9}")),
        false => Cow::Borrowed(text),
    }
}

/// JSON made safe for a terminal: the same values, with each such character in them as a JSON escape, `\u009b`.
pub(crate) fn visible_json(text: &str) -> Cow<'_, str> {
    with_escapes(text, |shown, character| match character {
        '\r' => shown.push(' '), // between values; within a value it is escaped already
        // Writing to a String cannot fail. All these characters have four digits.
        _ => _ = write!(shown, "\\u{:04x}", u32::from(character)),
    })
}

fn with_escapes(text: &str, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let is_hidden = |c: char| is_command(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_hidden(character) {
            true => escape(&mut shown, character),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// A text for a terminal that may be coloured, from a function that produces it with or without colours. Colours are optional: if the plain
/// text contains commands, it is shown plain with those commands escaped.
pub(crate) fn styled(coloured: bool, mut text: impl FnMut(bool) -> String) -> String {
    let plain = text(false);
    match visible(&plain) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) if coloured => text(true),
        Cow::Borrowed(_) => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_command_a_terminal_is_an_escape() {
        assert!(matches!(visible("a\tb\n\u{fc}\u{fffd}"), Cow::Borrowed(_)));
        assert_eq!(
            visible("\x1b[2J\r\x07\x7f\u{9b}1m\u{202e}x\u{2066}\u{61c}\0"),
            "\\u{1b}[2J\\u{d}\\u{7}\\u{7f}\\u{9b}1m\\u{202e}x\\u{2066}\\u{61c}\\u{0}"
        );
        for code in (0..0x20).chain(0x7f..=0x9f).filter(|code| ![9, 10].contains(code)) {
            let text = char::from_u32(code).unwrap().to_string();
            assert_eq!(visible(&text), format!("\\u{{{code:x}}}"));
        }
    }

    #[test]
    fn a_line_is_one() {
        assert!(matches!(visible_line("a: wrote 1"), Cow::Borrowed(_)));
        assert_eq!(visible_line("a\nb\tc\r\x1b"), "a\\u{a}b\\u{9}c\\u{d}\\u{1b}");
    }

    #[test]
    fn json_keeps_its_values() {
        let text = "a\u{9b}2J\u{202e}\u{7f}\u{fc}\u{fffd}";
        let json = format!("{{\"a\":\r\n\t\"{text}\"}}");
        let shown = visible_json(&json);
        assert_eq!(shown, "{\"a\": \n\t\"a\\u009b2J\\u202e\\u007f\u{fc}\u{fffd}\"}");
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(value(&shown), value(&json));
    }

    #[test]
    fn colours_are_ours_alone() {
        let red = |name: &'static str| move |on| if on { format!("\x1b[31m{name}\x1b[0m") } else { name.to_owned() };
        assert_eq!(styled(true, red("fan")), "\x1b[31mfan\x1b[0m");
        assert_eq!(styled(false, red("fan")), "fan");
        for coloured in [false, true] {
            assert_eq!(styled(coloured, red("\x1b[8mfan")), "\\u{1b}[8mfan");
        }
    }
}
