//! One table of the configuration, read key by key. Problems are collected, so that all are reported at once. Used by this module and by
//! every kind of task.

use super::choices::ClockKind;
use super::error::{self, Origin, Problem};
use super::identity::identity;
use super::key::{Key, Value};
use super::keys::{PERIOD, RATE};
use super::source::Source;
use super::taken::{Fellows, Taken};
use crate::time::Span;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// One table of the file and its drop-ins; its keys may come from several files.
///
/// A getter takes a [`Key`] and applies its range, choices and default. It returns `None` if the key is absent and has no default, or if
/// the value is wrong. In the latter case it has noted a problem, and the configuration will be rejected. So `section.integer(&STEP)?` is
/// all a key with a default needs. Unknown keys, missing keys and keys without effect have been noted before.
pub struct Section<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) path: String,
    header: Range<usize>,
    pub(super) table: &'a DeTable<'a>,
    pub(super) outer: Option<&'a DeTable<'a>>, // the enclosing table, for rules
    pub(super) problems: Vec<Problem>,
    pub(super) taken: Vec<Taken>,              // other tasks' values that it names
    pub(super) fellows: Vec<Fellows>,          // other tasks that it names
    pub(super) modelled: Vec<(String, Taken)>, // values that drive plants, each with its plant's table
    pub(super) shadow: bool,
    pub(super) acts: bool,
    pub(super) clock: ClockKind,
}

impl<'a> Section<'a> {
    /// The section's name: `task.imu`.
    pub fn name(&self) -> &str {
        &self.path
    }

    /// Whether the task must compute everything and write nothing (`hertzd run --shadow`). Its kind must then build a task that opens no
    /// device for writing and claims no device that only one task can hold. The task must neither lock nor set anything.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The configuration's folder, against which relative paths to code are resolved. Empty: the working directory.
    pub(crate) fn folder(&self) -> &Path {
        self.source.folder()
    }

    /// The clock of the task's worker.
    pub(crate) fn clock(&self) -> ClockKind {
        self.clock
    }

    /// All keys and values except the worker, in canonical order. If this text is unchanged, a task may continue where its predecessor
    /// stopped.
    pub(crate) fn says(&self) -> String {
        let lines = identity(self.table, &[]);
        lines.split_inclusive('\n').filter(|line| !line.starts_with("worker = ")).collect()
    }

    /// Notes that the task has an output with a safe value.
    pub fn acts(&mut self) {
        self.acts = true;
    }

    /// Whether the key is present, with any value.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.table.contains_key(key.name)
    }

    /// Notes a problem at the key's value or, if the key is absent, at the section's header.
    pub fn problem(&mut self, key: &Key, message: impl Display) {
        self.problem_at(key.name, message, None);
    }

    /// Like [`problem`](Self::problem), with advice on what to do.
    pub(crate) fn problem_with_help(&mut self, key: &Key, message: impl Display, help: impl Into<String>) {
        self.problem_at(key.name, message, Some(help.into()));
    }

    /// Notes a problem with the task's rate, at `rate` or `period`.
    #[cfg_attr(not(feature = "audio"), expect(dead_code, reason = "sound alone needs it"))]
    pub(crate) fn problem_with_rate(&mut self, message: impl Display) {
        let key = if self.has(&RATE) { RATE } else { PERIOD };
        self.problem(&key, message);
    }

    /// Deserializes the keys that `belongs` accepts into one value of the caller's type. A serde error is noted at the value it concerns.
    pub(crate) fn deserialize<T: DeserializeOwned>(&mut self, belongs: impl Fn(&str) -> bool) -> Option<T> {
        let own = self.table.iter().filter(|(key, _)| belongs(key.get_ref()));
        let table: DeTable<'a> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        let table = Spanned::new(self.header.clone(), DeValue::Table(table));
        T::deserialize(ValueDeserializer::from(table)).map_err(|error| self.note_toml(&error)).ok()
    }

    pub(super) fn new(source: &'a Arc<Source>, path: &str, header: Range<usize>, table: &'a DeTable<'a>) -> Self {
        Self {
            source,
            path: path.to_owned(),
            header,
            table,
            outer: None,
            problems: Vec::new(),
            taken: Vec::new(),
            fellows: Vec::new(),
            modelled: Vec::new(),
            shadow: false,
            acts: false,
            clock: ClockKind::Monotonic,
        }
    }

    pub(super) fn value(&self, key: &Key) -> Option<&'a DeValue<'a>> {
        self.table.get(key.name).map(Spanned::get_ref)
    }

    /// Notes a problem at the value of `key`, or at the section's header if the key is absent.
    pub(super) fn problem_at(&mut self, key: &str, message: impl Display, help: Option<String>) {
        let Some(value) = self.table.get(key) else {
            return self.note(key, self.header.clone(), false, message, help);
        };
        // A table is not quoted: its span is only its header.
        let quoted = match value.get_ref() {
            DeValue::Table(_) => false,
            value => !holds_tables(value),
        };
        self.note(key, value.span(), quoted, message, help);
    }

    /// A table inside this one, whose keys are `known`.
    fn inner(&self, path: &str, header: Range<usize>, table: &'a DeTable<'a>, known: &[Key]) -> Self {
        let mut section = Section { outer: Some(self.table), ..Section::new(self.source, path, header, table) };
        section.refuse_unknown(&known.iter().map(|key| key.name).collect::<Vec<_>>(), true);
        section.refuse_broken_rules(&known.iter().collect::<Vec<_>>());
        section
    }

    /// The durations in the table `simulate`, whose only key is `key`.
    pub(super) fn simulated(&mut self, key: &Key) -> Option<Vec<Span>> {
        let mut simulate = self.table_inside("simulate", &[*key])?;
        let simulated = simulate.durations(key);
        self.absorb(simulate);
        simulated
    }

    /// The table at `key`, as a section with the keys `known`. Pass it to [`absorb`](Self::absorb) after reading.
    pub(super) fn table_inside(&mut self, key: &str, known: &[Key]) -> Option<Self> {
        let (name, value) = self.table.get_key_value(key)?;
        let path = format!("{}.{key}", self.path);
        let DeValue::Table(table) = value.get_ref() else {
            self.problem_at(key, format!("must be a table: write its keys under [{path}]"), None);
            return None;
        };
        Some(self.inner(&path, name.span(), table, known))
    }

    /// The tables of a list (`[[task.NAME.KEY]]`) in order, as sections with the keys of [`Value::Tables`]. Pass each to
    /// [`absorb`](Self::absorb) after reading. Empty if the key is absent or wrong.
    pub(crate) fn tables(&mut self, key: &Key) -> Vec<Self> {
        let path = format!("{}.{}", self.path, key.name);
        let wanted = format!("must be a list of tables: write the keys of each under [[{path}]]");
        let (list, Value::Tables(known)) = (self.value(key), key.value) else { return Vec::new() };
        let list = match list {
            Some(DeValue::Array(list)) if !list.is_empty() => list,
            Some(_) => {
                self.problem(key, wanted);
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut sections = Vec::with_capacity(list.len());
        for item in list {
            match item.get_ref() {
                DeValue::Table(table) => sections.push(self.inner(&path, item.span(), table, known)),
                _ => self.note(key.name, item.span(), true, &wanted, None),
            }
        }
        sections
    }

    /// The named tables at `key` (`[task.NAME]`), in order of first appearance.
    pub(super) fn named(&mut self, key: &str) -> Vec<(String, Self)> {
        let entries = match self.table.get(key).map(Spanned::get_ref) {
            Some(DeValue::Table(table)) => table,
            Some(_) => {
                self.problem_at(key, format!("must be a table with a name: write [{key}.NAME]"), None);
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut sections = Vec::new();
        for (name, entry) in entries {
            let DeValue::Table(table) = entry.get_ref() else {
                let name: &str = name.get_ref();
                let wanted = format!("must be a table: each {key} has a name, and its keys belong under [{key}.NAME]");
                self.problems.push(error::problem(self.source, key, name, entry.span(), true, wanted));
                continue;
            };
            let path = format!("{key}.{}", name.get_ref());
            let mut section = Section::new(self.source, &path, name.span(), table);
            if !is_name(name.get_ref()) {
                section.problem_at("", format!("a {key} name has 1 to 64 letters, digits, `-` and `_`"), None);
            }
            sections.push((name.get_ref().to_string(), section));
        }
        sections.sort_by_key(|(_, section)| section.header.start);
        sections
    }

    pub(super) fn header(&self) -> Range<usize> {
        self.header.clone()
    }

    pub(super) fn origin(&self) -> Origin {
        // A list of tables is not a value that a message could quote.
        let values = self.table.iter().filter(|(_, value)| !holds_tables(value.get_ref()));
        let values = values.map(|(key, value)| (key.get_ref().to_string(), value.span())).collect();
        Origin { source: Arc::clone(self.source), table: self.path.clone(), header: self.header.clone(), values }
    }

    /// Adds what an inner section noted.
    pub(crate) fn absorb(&mut self, inner: Section<'_>) {
        self.problems.extend(inner.problems);
        self.taken.extend(inner.taken);
        self.modelled.extend(inner.modelled);
    }

    pub(super) fn note(
        &mut self,
        key: &str,
        span: Range<usize>,
        quoted: bool,
        message: impl Display,
        help: Option<String>,
    ) {
        let mut problem = error::problem(self.source, &self.path, key, span, quoted, message);
        problem.help = help;
        self.problems.push(problem);
    }

    fn note_toml(&mut self, error: &toml::de::Error) {
        let span = error.span().unwrap_or_else(|| self.header.clone());
        let key = self.table.iter().find(|(_, value)| holds(value, &span)).map(|(key, _)| key.get_ref().to_string());
        let key_name = key.as_deref().unwrap_or_default();
        self.note(key_name, span, key.is_some(), error.message(), None);
    }
}

fn holds_tables(value: &DeValue<'_>) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(|item| item.get_ref().is_table()))
}

/// Whether `span` lies inside the value. The keys of a table can be anywhere, even in another file.
fn holds(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    let inside = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    inside(&value.span())
        || value
            .get_ref()
            .as_table()
            .is_some_and(|table| table.iter().any(|(key, value)| inside(&key.span()) || holds(value, span)))
}

/// Whether a task, a worker or an alarm may have this name.
pub(crate) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(is_plain)
}
