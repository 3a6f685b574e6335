//! What is wrong with a configuration, and how it is shown: file, line and column, the source line with a caret, table and key, and what
//! was found and wanted.
//!
//! All problems of a file and its drop-ins are reported together, in order. No clock is read and nothing is logged; the holder of the
//! [`Problems`] decides where to print them.

use super::source::{Source, printable};
use super::taken::Taken;
use crate::program::{own, owned};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

const MAX_SHOWN: usize = 50; // a binary file has a problem on every line

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The position, in bytes of [`Problems::text`]. `None` if a file could not even be read; the message then names it.
    pub span: Option<Range<usize>>,
    /// The table, such as `task.imu`; empty for the file as a whole.
    pub table: String,
    /// The key in that table; empty for the table as a whole.
    pub key: String,
    /// What was found and what is wanted; starts with the table and the key.
    pub message: String,
    /// What to do about it, if that is clear.
    pub help: Option<String>,
}

/// Everything that is wrong with one configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    source: Arc<Source>,
    list: Vec<Problem>, // in source order
    consequence: &'static str,
}

impl Problems {
    /// A problem with a section that was valid on its own, found when its task was built or its worker set up. Shown at the value of `key`,
    /// or at the section's header if the key is absent.
    pub(crate) fn at(origin: &Origin, key: &str, message: impl fmt::Display) -> Self {
        let value = origin.values.iter().find(|(name, _)| name == key).map(|(_, span)| span.clone());
        let span = value.clone().unwrap_or_else(|| origin.header.clone());
        let problem = problem(&origin.source, &origin.table, key, span, value.is_some(), message);
        Self::new(Arc::clone(&origin.source), vec![problem])
    }

    /// A problem with a value taken from another task, shown where the value is named.
    pub(crate) fn at_taken(origin: &Origin, taken: &Taken, message: impl fmt::Display) -> Self {
        let problem = problem(&origin.source, &origin.table, taken.key, taken.span.clone(), true, message);
        Self::new(Arc::clone(&origin.source), vec![problem])
    }

    /// Joins the problems of one configuration. `None`: there are none.
    pub(crate) fn joined(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut first = all.next()?;
        first.list.extend(all.flat_map(|others| others.list));
        Some(Self::new(first.source, first.list))
    }

    /// Adds problems of the same configuration that were found elsewhere.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self::new(self.source, self.list.into_iter().chain(other.list).collect())
    }

    /// Every problem, in source order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// The text that the spans point into: the file, then each drop-in, separated by line breaks.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        self.source.text()
    }

    /// The whole report, ending in `2 problems; nothing was started`. `colour` is for a terminal.
    pub(crate) fn render(&self, colour: bool) -> String {
        self.report(colour, self.consequence)
    }

    /// Replaces `nothing was started` at the end of the report.
    #[must_use]
    pub(crate) fn ending_in(self, consequence: &'static str) -> Self {
        Self { consequence, ..self }
    }

    /// The whole report, ending in the number of problems and this consequence. `colour` is for a terminal.
    pub(crate) fn report(&self, colour: bool, consequence: &str) -> String {
        let report = self.blocks(&Level::ERROR, colour);
        match self.list.len() {
            1 => report + &format!("1 problem; {consequence}"),
            count @ ..=MAX_SHOWN => report + &format!("{count} problems; {consequence}"),
            count => report + &format!("{count} problems, of which the first {MAX_SHOWN}; {consequence}"),
        }
    }

    /// The same report for warnings, which reject nothing.
    pub(crate) fn warnings(&self, colour: bool) -> String {
        let blocks = self.blocks(&Level::WARNING, colour);
        match self.list.len() {
            ..=MAX_SHOWN => blocks,
            count => blocks + &format!("{count} warnings, of which the first {MAX_SHOWN}\n\n"),
        }
    }

    /// One block for each problem, each followed by an empty line.
    fn blocks(&self, level: &Level<'static>, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut blocks = String::new();
        for problem in self.list.iter().take(MAX_SHOWN) {
            blocks += &renderer.render(&[self.group(problem, level)]);
            blocks += "\n\n";
        }
        blocks
    }

    pub(super) fn new(source: Arc<Source>, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| problem.span.as_ref().map(|span| (span.start, span.end)));
        Self { source, list, consequence: "nothing was started" }
    }

    fn group<'a>(&'a self, problem: &'a Problem, level: &Level<'static>) -> Group<'a> {
        let group = Group::with_title(level.clone().primary_title(&problem.message));
        let group = match &problem.span {
            Some(span) => {
                let (name, text) = self.source.text_at(span.start);
                let span = self.source.whole(span);
                let marked = AnnotationKind::Primary.span(span.start - text.start..span.end - text.start);
                group.element(
                    Snippet::source(&self.source.text()[text]).path(normalize_untrusted_str(name)).annotation(marked),
                )
            }
            None => group,
        };
        match &problem.help {
            Some(help) => group.element(Level::HELP.message(normalize_untrusted_str(&own(help)))),
            None => group,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

/// Where a section is written, so that a later failure can point to it.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(super) source: Arc<Source>,
    pub(super) table: String,
    pub(super) header: Range<usize>,
    pub(super) values: Vec<(String, Range<usize>)>,
}

impl Origin {
    /// Whether the section has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.iter().any(|(name, _)| name == key)
    }

    /// A key's value as written, without the quotes around it.
    pub(crate) fn written(&self, key: &str) -> Option<&str> {
        let (_, span) = self.values.iter().find(|(name, _)| name == key)?;
        Some(self.source.text()[self.source.whole(span)].trim_matches(['"', '\'']))
    }
}

/// Prints `hertzd.toml: task.imu`: the whole source would drown everything around it.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source.text_at(self.header.start).0, self.table)
    }
}

/// A problem whose message starts with the table, the key and, if `found`, the value at `span`.
pub(super) fn problem(
    source: &Source,
    table: &str,
    key: &str,
    span: Range<usize>,
    found: bool,
    wanted: impl fmt::Display,
) -> Problem {
    let wanted = owned(wanted);
    let found = if found { format!(" = {};", source.excerpt(&span)) } else { ":".to_owned() };
    let message = match (table, key) {
        ("", "") => wanted,
        (_, "") => format!("{table}: {wanted}"),
        ("", _) => format!("{key}{found} {wanted}"),
        _ => format!("{table}: {key}{found} {wanted}"),
    };
    Problem {
        span: Some(source.whole(&span)),
        table: table.to_owned(),
        key: key.to_owned(),
        message: printable(&message),
        help: None,
    }
}
