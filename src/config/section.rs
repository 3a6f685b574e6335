//! One table of the configuration, read key by key. Problems are collected instead of ending the reading, so that it is
//! all judged in one go. Used by this room itself and by every kind of task. No clock is read.

use super::error::{self, Origin, Problem};
use super::keys::{Key, suggestion};
use super::source::Source;
use super::{identity, value};
use crate::pacing::Rate;
use crate::time::Span;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// One table of the file and its drop-ins; its keys may come from several.
///
/// A getter returns `None` when its key is absent, and also when the value is no good; then the problem has been noted,
/// and the configuration will be refused. So `section.duration("warm-up").unwrap_or(DEFAULT)` is all a key needs.
pub struct Section<'a> {
    source: &'a Arc<Source>,
    place: String,
    header: Range<usize>,
    table: &'a DeTable<'a>,
    problems: Vec<Problem>,
}

impl<'a> Section<'a> {
    /// What the section is called: `task.imu`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether the key is there, whatever its value.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether the key is there; its absence is a problem, and `wanted` says what belongs there.
    pub fn require(&mut self, key: &str, wanted: &str) -> bool {
        if !self.has(key) {
            self.problem(key, format!("missing; {wanted}"));
        }
        self.has(key)
    }

    /// Notes a problem, at the key's value or, when the key is absent, at the section's header.
    pub fn problem(&mut self, key: &str, message: impl Display) {
        self.problem_with_help(key, message, None);
    }

    /// The same, with what to do about it.
    pub fn problem_with_help(&mut self, key: &str, message: impl Display, help: Option<String>) {
        let Some(value) = self.table.get(key) else {
            return self.note(key, self.header.clone(), false, message, help);
        };
        // A table is not quoted: what stands at its place is only its header.
        let quoted = match value.get_ref() {
            DeValue::Table(_) => false,
            value => !holds_tables(value),
        };
        self.note(key, value.span(), quoted, message, help);
    }

    /// A text, which may be empty.
    pub fn text(&mut self, key: &str) -> Option<String> {
        self.read(key, |value| value.as_str().map(str::to_owned).ok_or_else(|| "must be a text in quotes".to_owned()))
    }

    /// Whether the key's value is a text.
    pub fn is_text(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.as_str().is_some())
    }

    /// A list of texts; never empty, and none of them twice.
    pub fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        let list = match self.value(key)? {
            DeValue::Array(list) if !list.is_empty() => list,
            _ => {
                self.problem(key, "must be a list of texts, with at least one");
                return None;
            }
        };
        let mut texts: Vec<String> = Vec::with_capacity(list.len());
        for item in list {
            let problem = match item.get_ref().as_str() {
                Some(text) if texts.iter().any(|earlier| earlier == text) => "stands here twice",
                Some(text) => {
                    texts.push(text.to_owned());
                    continue;
                }
                None => "must be a text in quotes",
            };
            self.note(key, item.span(), true, problem, None);
        }
        (texts.len() == list.len()).then_some(texts)
    }

    /// A length of time above zero.
    pub fn duration(&mut self, key: &str) -> Option<Span> {
        self.read(key, |value| match value::duration(value)? {
            Span::ZERO => Err("must be above zero".to_owned()),
            span => Ok(span),
        })
    }

    /// A length of time, where zero means something.
    pub fn duration_or_zero(&mut self, key: &str) -> Option<Span> {
        self.read(key, value::duration)
    }

    /// One length of time or a list of them; never empty, and zero is allowed.
    pub fn durations(&mut self, key: &str) -> Option<Vec<Span>> {
        match self.value(key)? {
            DeValue::Array(list) if list.is_empty() => {
                self.problem(key, "must hold at least one duration");
                None
            }
            DeValue::Array(list) => {
                let read = |item: &Spanned<DeValue<'_>>| {
                    value::duration(item.get_ref())
                        .map_err(|wanted| self.note(key, item.span(), true, wanted, None))
                        .ok()
                };
                let spans: Vec<_> = list.iter().map(read).collect();
                spans.into_iter().collect()
            }
            _ => self.duration_or_zero(key).map(|span| vec![span]),
        }
    }

    /// A number of bytes, with its unit.
    pub fn size(&mut self, key: &str) -> Option<u64> {
        self.read(key, value::size)
    }

    /// So many a second, exact.
    pub fn rate(&mut self, key: &str) -> Option<Rate> {
        self.read(key, value::rate)
    }

    /// A finite number, with or without a fraction.
    pub fn number(&mut self, key: &str) -> Option<f64> {
        self.read(key, value::number)
    }

    /// A whole number in `range`.
    pub fn integer(&mut self, key: &str, range: RangeInclusive<i64>) -> Option<i64> {
        self.read(key, |value| {
            let number = value.as_integer().and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
            number.filter(|number| range.contains(number)).ok_or_else(|| {
                let (first, last) = (range.start(), range.end());
                match *last {
                    i64::MAX => format!("must be a whole number, at least {first}"),
                    _ => format!("must be a whole number from {first} to {last}"),
                }
            })
        })
    }

    /// A whole number of hertz from 1 to 1,000,000, written as a rate is: 48000 or `"48 kHz"`.
    pub fn hertz(&mut self, key: &str) -> Option<u32> {
        self.read(key, |found| {
            let whole = value::rate(found).ok().filter(|rate| rate.den() == 1);
            let hertz = whole.and_then(|rate| u32::try_from(rate.num()).ok());
            hertz.ok_or_else(|| "must be a whole number of hertz up to 1 MHz, such as 48000 or \"48 kHz\"".to_owned())
        })
    }

    /// One period of the task whose section this is; `None` when its rate is no good, which is noted elsewhere.
    pub fn period(&self) -> Option<Span> {
        match (self.value("rate"), self.value("period")) {
            (Some(rate), None) => value::rate(rate).ok().map(Rate::period),
            (None, Some(period)) => value::duration(period).ok().and_then(Rate::from_period).map(Rate::period),
            _ => None,
        }
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        self.read(key, |value| value.as_bool().ok_or_else(|| "must be true or false".to_owned()))
    }

    /// The path of a file; whether it exists is not asked here.
    pub fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.read(key, |value| match value.as_str() {
            Some("") => Err("must not be empty".to_owned()),
            Some(path) if path.contains('\0') => Err("must not hold a NUL byte".to_owned()),
            Some(path) => Ok(PathBuf::from(path)),
            None => Err("must be a path in quotes".to_owned()),
        })
    }

    /// What one of the words stands for.
    pub fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let found = self.value(key)?.as_str();
        if let Some((_, meaning)) = choices.iter().find(|(word, _)| Some(*word) == found) {
            return Some(*meaning);
        }
        let words = || choices.iter().map(|(word, _)| *word);
        let near = found.and_then(|found| suggestion(found, words()));
        self.problem_with_help(
            key,
            format!("must be {}", alternatives(words())),
            near.map(|near| format!("did you mean \"{near}\"?")),
        );
        None
    }

    /// The keys of the section that `belongs` accepts as one value of the caller's own type; an error of serde is noted
    /// at the value it is about.
    pub fn deserialize<T: DeserializeOwned>(&mut self, belongs: impl Fn(&str) -> bool) -> Option<T> {
        let own = self.table.iter().filter(|(key, _)| belongs(key.get_ref()));
        let table: DeTable<'a> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        let table = Spanned::new(self.header.clone(), DeValue::Table(table));
        T::deserialize(ValueDeserializer::from(table)).map_err(|error| self.note_toml(&error)).ok()
    }

    pub(super) fn new(source: &'a Arc<Source>, place: &str, header: Range<usize>, table: &'a DeTable<'a>) -> Self {
        Self { source, place: place.to_owned(), header, table, problems: Vec::new() }
    }

    /// Reads the value of a key that is there, noting what is wanted when it is something else.
    pub(super) fn read<T>(&mut self, key: &str, read: impl FnOnce(&DeValue<'a>) -> Result<T, String>) -> Option<T> {
        read(self.value(key)?).map_err(|wanted| self.problem(key, wanted)).ok()
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a DeValue<'a>> {
        self.table.get(key).map(Spanned::get_ref)
    }

    /// Refuses every key that is not among `known`. `closed` is false when the full list could not be found out: then
    /// only what looks like a slip is refused.
    pub(super) fn refuse_unknown(&mut self, known: &[&str], closed: bool) {
        for name in self.table.keys() {
            let key: &str = name.get_ref();
            let near = suggestion(key, known.iter().copied());
            if known.contains(&key) || (near.is_none() && !closed) {
                continue;
            }
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            let mut problem = error::problem(self.source, &self.place, key, name.span(), false, "unknown key");
            problem.help = Some(help);
            self.problems.push(problem);
        }
    }

    /// Refuses a key that is there but would do nothing.
    pub fn refuse_idle(&mut self, key: &str, idle: bool, why: &str) {
        if idle && self.has(key) {
            self.problem(key, format!("has no effect {why}; remove it"));
        }
    }

    /// Refuses two keys of which one says what the other does, at the one that came later. True when both are there.
    pub fn refuse_both(&mut self, one: &str, other: &str) -> bool {
        let start = |key: &str| self.table.get(key).map(|value| value.span().start);
        let (Some(first), Some(second)) = (start(one), start(other)) else {
            return false;
        };
        let (earlier, later) = if first < second { (one, other) } else { (other, one) };
        let apart = self.source.piece(first) != self.source.piece(second);
        let help = apart.then(|| format!("to change what an earlier file says, override the same key: `{earlier}`"));
        self.problem_with_help(later, format!("write either {one} or {other}, not both"), help);
        true
    }

    /// The table that stands at `key`, as a section of its own with these keys.
    pub(super) fn table(&mut self, key: &str, known: &[Key]) -> Option<Self> {
        let (name, value) = self.table.get_key_value(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.problem(key, format!("must be a table: write its keys under [{}.{key}]", self.place));
            return None;
        };
        let mut section = Section::new(self.source, &format!("{}.{key}", self.place), name.span(), table);
        section.refuse_unknown(&known.iter().map(|key| key.name).collect::<Vec<_>>(), true);
        Some(section)
    }

    /// The tables of the list at `key` (`[[task.NAME.KEY]]`), in their order, as sections of their own with these keys;
    /// to be handed back to [`absorb`](Self::absorb) when they have been read. Empty when the key is absent or no good.
    pub fn tables(&mut self, key: &str, known: &[Key]) -> Vec<Self> {
        let wanted = format!("must be a list of tables: write the keys of each under [[{}.{key}]]", self.place);
        let list = match self.value(key) {
            Some(DeValue::Array(list)) if !list.is_empty() => list,
            Some(_) => {
                self.problem(key, wanted);
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let (place, known) = (format!("{}.{key}", self.place), known.iter().map(|key| key.name).collect::<Vec<_>>());
        let mut sections = Vec::with_capacity(list.len());
        for item in list {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let mut section = Section::new(self.source, &place, item.span(), table);
                    section.refuse_unknown(&known, true);
                    sections.push(section);
                }
                _ => self.note(key, item.span(), true, &wanted, None),
            }
        }
        sections
    }

    /// The named tables at `key` (`[task.NAME]`), in the order in which they first appear.
    pub(super) fn named(&mut self, key: &str) -> Vec<(String, Self)> {
        let entries = match self.value(key) {
            Some(DeValue::Table(table)) => table,
            Some(_) => {
                self.problem(key, format!("must be a table with a name: write [{key}.NAME]"));
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut sections = Vec::new();
        for (name, entry) in entries {
            let DeValue::Table(table) = entry.get_ref() else {
                let name: &str = name.get_ref();
                let wanted = format!("must be a table: each {key} has a name, and its keys stand under [{key}.NAME]");
                self.problems.push(error::problem(self.source, key, name, entry.span(), true, wanted));
                continue;
            };
            let place = format!("{key}.{}", name.get_ref());
            let mut section = Section::new(self.source, &place, name.span(), table);
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if !(1..=64).contains(&name.get_ref().len()) || !name.get_ref().chars().all(plain) {
                section.problem("", format!("a {key} is named with 1 to 64 letters, digits, `-` and `_`"));
            }
            sections.push((name.get_ref().to_string(), section));
        }
        sections.sort_by_key(|(_, section)| section.header.start);
        sections
    }

    /// See [`identity`](identity::identity).
    pub(super) fn identity(&self, resolved: &[(&str, &str)]) -> String {
        identity::identity(self.table, resolved)
    }

    pub(super) fn origin(&self) -> Origin {
        // A list of tables is no value that a message could quote.
        let values = self.table.iter().filter(|(_, value)| !holds_tables(value.get_ref()));
        let values = values.map(|(key, value)| (key.get_ref().to_string(), value.span())).collect();
        Origin { source: Arc::clone(self.source), place: self.place.clone(), header: self.header.clone(), values }
    }

    pub(super) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Takes over what a section inside this one noted.
    pub fn absorb(&mut self, inner: Section<'_>) {
        self.problems.extend(inner.problems);
    }

    fn note(&mut self, key: &str, span: Range<usize>, quoted: bool, message: impl Display, help: Option<String>) {
        let mut problem = error::problem(self.source, &self.place, key, span, quoted, message);
        problem.help = help;
        self.problems.push(problem);
    }

    fn note_toml(&mut self, error: &toml::de::Error) {
        let span = error.span().unwrap_or_else(|| self.header.clone());
        let key = self.table.iter().find(|(_, value)| holds(value, &span)).map(|(key, _)| key.get_ref().to_string());
        let place = key.as_deref().unwrap_or_default();
        self.note(place, span, key.is_some(), error.message(), None);
    }
}

fn holds_tables(value: &DeValue<'_>) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(|item| item.get_ref().is_table()))
}

/// Whether `span` lies in the value. The keys of a table may stand anywhere, in another file even.
fn holds(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    let inside = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    inside(&value.span())
        || value
            .get_ref()
            .as_table()
            .is_some_and(|table| table.iter().any(|(key, value)| inside(&key.span()) || holds(value, span)))
}

/// `"a", "b" or "c"`.
fn alternatives<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut quoted: Vec<_> = words.map(|word| format!("\"{word}\"")).collect();
    let last = quoted.pop().unwrap_or_default();
    if quoted.is_empty() { last } else { format!("{} or {last}", quoted.join(", ")) }
}
