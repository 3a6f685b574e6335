//! The text of a configuration: one file, or a file followed by its drop-ins. A span thus identifies the file as well as the position in
//! it. Pure.

use crate::escape::is_command;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Concatenated texts, with the names that messages use for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    folder: PathBuf,
    text: String,
    texts: Vec<Text>, // in text order
}

#[derive(Debug, PartialEq, Eq)]
struct Text {
    name: String,
    span: Range<usize>,
}

impl Source {
    /// A source without any text yet, for a configuration in this folder.
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    /// The folder of the configuration; empty: the working directory.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a text; returns its span.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Range<usize> {
        // Separates the end of one text from the start of the next.
        if !self.texts.is_empty() {
            self.text.push('\n');
        }
        let start = self.text.len();
        self.text.push_str(text);
        let span = start..self.text.len();
        self.texts.push(Text { name: printable(name), span: span.clone() });
        span
    }

    /// All texts, with a line break between them.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The name and span of the text that contains byte `at`. Empty if there is no text.
    pub(super) fn text_at(&self, at: usize) -> (&str, Range<usize>) {
        let index = self.texts.partition_point(|text| text.span.start <= at);
        match self.texts.get(index.saturating_sub(1)) {
            Some(text) => (&text.name, text.span.clone()),
            None => ("", 0..0),
        }
    }

    /// The first line at `span`, cut to 40 characters.
    pub(super) fn excerpt(&self, span: &Range<usize>) -> String {
        let text = &self.text[self.whole(span)];
        let line = text.lines().next().unwrap_or_default();
        let mut shown: String = line.chars().take(40).collect();
        if shown.len() < text.len() {
            shown += "…";
        }
        shown
    }

    /// The span, cut to the text in which it starts and to whole characters, so that slicing with it cannot panic.
    pub(super) fn whole(&self, span: &Range<usize>) -> Range<usize> {
        let inside = |at: &usize| self.text.is_char_boundary(*at);
        let length = self.text_at(span.start).1.end;
        let start = (0..=span.start.min(length)).rev().find(inside).unwrap_or(0);
        start..(span.end.max(start)..length).find(inside).unwrap_or(length)
    }
}

/// Escapes control characters: names come from files, and must not move a terminal's cursor or start a new log line.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_command(c) { c.escape_default().to_string() } else { c.into() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_to_whole_characters() {
        let mut source = Source::default();
        source.add("", "aµb");
        assert_eq!(source.whole(&(2..2)), 1..3);
        assert_eq!(source.whole(&(9..12)), 4..4);
        assert_eq!(source.excerpt(&(0..99)), "aµb");
    }

    #[test]
    fn every_byte_is_of_one_text() {
        let mut source = Source::default();
        assert_eq!(source.text_at(0), ("", 0..0));
        assert_eq!(source.whole(&(0..9)), 0..0);
        let spans = [("a", "12"), ("b", ""), ("c", "3\n"), ("d", "")].map(|(name, text)| source.add(name, text));
        assert_eq!(spans, [0..2, 3..3, 4..6, 7..7]);
        assert_eq!(source.text(), "12\n\n3\n\n");
        let names = [0, 2, 3, 4, 6, 7, 99].map(|at| source.text_at(at).0);
        assert_eq!(names, ["a", "a", "b", "c", "c", "d", "d"]);
        assert_eq!(source.whole(&(1..5)), 1..2, "not past the end of the text it begins in");
    }
}
