//! A manual page: a thin layer over [`Roff`] with the elements that both pages use. Pure.

use crate::program::{self, own};
use roff::{Inline, Roff, bold, roman};

pub(super) struct Page(Roff);

impl Page {
    /// Starts a page with its title and the line that `apropos` searches.
    pub(super) fn new(name: &str, section: &str, version: &str, about: &str) -> Self {
        let mut roff = Roff::new();
        let manual = format!("{} manual", program::name());
        roff.control("TH", [name.to_uppercase().as_str(), section, "", version, &manual]);
        roff.control("SH", ["NAME"]);
        roff.text([roman(format!("{name} - {}", own(about)))]);
        Self(roff)
    }

    pub(super) fn section(&mut self, title: &str) {
        self.0.control("SH", [title]);
    }

    pub(super) fn subsection(&mut self, title: &str) {
        self.0.control("SS", [title]);
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.0.control("PP", []);
        self.0.text(marked(&one_line(&own(text))));
    }

    /// A paragraph under a head that hangs to the left.
    pub(super) fn item(&mut self, head: impl Into<Vec<Inline>>, text: &str) {
        self.0.control("TP", []);
        self.0.text(head);
        self.0.text(marked(&one_line(&own(text))));
    }

    pub(super) fn items(&mut self, items: &[(&str, &str)]) {
        for (head, text) in items {
            self.item([bold(own(head))], text);
        }
    }

    /// Lines printed as they are.
    pub(super) fn literal<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.0.control("PP", []).control("nf", []).control("RS", ["4"]);
        for line in lines {
            if line.is_empty() {
                self.0.control("sp", [])
            } else {
                self.0.text([roman(own(line))])
            };
        }
        self.0.control("RE", []).control("fi", []);
    }

    /// Text as shown on a terminal: indented lines stay as they are, all others are flowing prose.
    pub(super) fn help(&mut self, text: &str) {
        for paragraph in text.split("\n\n") {
            let (prose, indented): (Vec<_>, Vec<_>) = paragraph.lines().partition(|line| !line.starts_with("  "));
            if !prose.is_empty() {
                self.paragraph(&prose.join(" "));
            }
            if !indented.is_empty() {
                self.literal(indented.into_iter().map(str::trim_start));
            }
        }
    }

    pub(super) fn render(&self) -> String {
        self.0.render()
    }
}

/// The text, with the parts between backticks in bold.
pub(super) fn marked(text: &str) -> Vec<Inline> {
    let pieces = text.split('`').enumerate();
    pieces
        .filter(|(_, piece)| !piece.is_empty())
        .map(|(at, piece)| if at % 2 == 1 { bold(piece) } else { roman(piece) })
        .collect()
}

/// Joins lines: line breaks mean nothing in a paragraph, and a space at the start of a line would end it.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
