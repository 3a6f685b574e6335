//! One table of the configuration, read key by key. Problems are collected instead of ending the reading, so that it is
//! all judged in one go. Used by this room itself and by every kind of task. No clock is read.

use super::describe::or;
use super::error::{self, Origin, Problem};
use super::key::{Absent, Key, Needs, Rule, Value};
use super::keys::{PERIOD, RATE, suggestion};
use super::source::Source;
use super::{identity, value};
use crate::pacing::Rate;
use crate::time::Span;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// One table of the file and its drop-ins; its keys may come from several.
///
/// A getter takes the [`Key`], whose range, choices and default it applies. It returns `None` when the key is absent and
/// has no default, and also when the value is wrong; then the problem has been noted, and the configuration will be
/// refused. So `section.integer(&STEP)?` is all that a key with a default needs. Unknown keys, missing ones and keys
/// without effect have been noted before.
pub struct Section<'a> {
    source: &'a Arc<Source>,
    place: String,
    header: Range<usize>,
    table: &'a DeTable<'a>,
    outer: Option<&'a DeTable<'a>>, // the table around it, for rules
    problems: Vec<Problem>,
}

/// A whole number, or a text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberOrName {
    /// The number.
    Number(i64),
    /// The text.
    Name(String),
}

impl<'a> Section<'a> {
    /// What the section is called: `task.imu`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether the key is there, with any value.
    pub fn has(&self, key: &Key) -> bool {
        self.table.contains_key(key.name)
    }

    /// Notes a problem, at the key's value or, when the key is absent, at the section's header.
    pub fn problem(&mut self, key: &Key, message: impl Display) {
        self.problem_at(key.name, message, None);
    }

    /// The same, with what to do about it.
    pub fn problem_with_help(&mut self, key: &Key, message: impl Display, help: impl Into<String>) {
        self.problem_at(key.name, message, Some(help.into()));
    }

    /// Notes a problem with the task's rate, at `rate` or `period`.
    pub fn problem_with_rate(&mut self, message: impl Display) {
        let key = if self.has(&RATE) { RATE } else { PERIOD };
        self.problem(&key, message);
    }

    /// A text.
    pub fn text(&mut self, key: &Key) -> Option<String> {
        self.read(key, |found| match (value::text(&key.value, found), key.absent) {
            (Err(wanted), Absent::Refused { hint, .. }) if found.as_str().is_some() => Err(format!("{wanted}; {hint}")),
            (read, _) => read,
        })
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &Key) -> Option<Vec<String>> {
        self.list(key, "texts", |item| value::text(&Value::Text, item))
    }

    /// A length of time.
    pub fn duration(&mut self, key: &Key) -> Option<Span> {
        self.read(key, |found| value::duration_of(&key.value, found))
    }

    /// One length of time or a list of them; never empty, and zero is allowed.
    pub fn durations(&mut self, key: &Key) -> Option<Vec<Span>> {
        match self.value(key) {
            Some(DeValue::Array(list)) if list.is_empty() => {
                self.problem(key, "must hold at least one duration");
                None
            }
            Some(DeValue::Array(list)) => self.items(key, list, value::duration),
            _ => self.read(key, value::duration).map(|span| vec![span]),
        }
    }

    /// A number of bytes.
    pub fn size(&mut self, key: &Key) -> Option<u64> {
        self.read(key, |found| value::size_of(&key.value, found))
    }

    /// A number per second, exact.
    pub fn rate(&mut self, key: &Key) -> Option<Rate> {
        self.read(key, value::rate)
    }

    /// A whole number of hertz from 1 to 1,000,000.
    pub fn hertz(&mut self, key: &Key) -> Option<u32> {
        self.read(key, value::hertz)
    }

    /// A finite number.
    pub fn number(&mut self, key: &Key) -> Option<f64> {
        self.read(key, |found| value::number_of(&key.value, found))
    }

    /// A whole number. `None` too, with a problem noted, where the key's range is wider than `T`.
    pub fn integer<T: TryFrom<i64>>(&mut self, key: &Key) -> Option<T> {
        self.read(key, |found| {
            let number = value::integer(&key.value, found)?;
            T::try_from(number).map_err(|_| "does not fit; that is a fault of this key's range".to_owned())
        })
    }

    /// A whole number, or a text that is not empty.
    pub fn number_or_name(&mut self, key: &Key) -> Option<NumberOrName> {
        self.read(key, |found| Self::either(&key.value, found))
    }

    /// A list of these.
    pub fn numbers_or_names(&mut self, key: &Key) -> Option<Vec<NumberOrName>> {
        self.list(key, "numbers and texts", |item| Self::either(&key.value, item))
    }

    fn either(wanted: &Value, found: &DeValue<'_>) -> Result<NumberOrName, String> {
        match found {
            DeValue::String(_) => value::text(&Value::Name, found).map(NumberOrName::Name),
            _ => value::integer(wanted, found).map(NumberOrName::Number),
        }
    }

    /// A list of lists of bytes, of which none is empty.
    pub fn bytes(&mut self, key: &Key) -> Option<Vec<Vec<u8>>> {
        let Value::Bytes { most } = key.value else { return None };
        let wanted = format!("must be a list of lists of 1 to {most} bytes");
        let lists = match self.value(key)? {
            DeValue::Array(lists) => lists,
            _ => {
                self.problem(key, wanted);
                return None;
            }
        };
        let mut all = Vec::with_capacity(lists.len());
        for list in lists {
            match list.get_ref() {
                DeValue::Array(bytes) if (1..=most).contains(&bytes.len()) => {
                    all.extend(self.items(key, bytes, value::byte));
                }
                _ => self.note(key.name, list.span(), true, &wanted, None),
            }
        }
        (all.len() == lists.len()).then_some(all)
    }

    /// One period of the task whose section this is; `None` when its rate is wrong, which is noted elsewhere.
    pub fn period(&self) -> Option<Span> {
        match (self.value(&RATE), self.value(&PERIOD)) {
            (Some(rate), None) => value::rate(rate).ok().map(Rate::period),
            (None, Some(period)) => value::duration(period).ok().and_then(Rate::from_period).map(Rate::period),
            _ => None,
        }
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &Key) -> Option<bool> {
        self.read(key, |value| value.as_bool().ok_or_else(|| "must be true or false".to_owned()))
    }

    /// The path of a file, which need not exist.
    pub fn path(&mut self, key: &Key) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// What one of the words stands for. The key lists the same words, by way of [`words`](super::words).
    pub fn choice<T: Copy>(&mut self, key: &Key, choices: &[(&str, T)]) -> Option<T> {
        let meaning = |word| choices.iter().find(|(known, _)| Some(*known) == word).map(|(_, meaning)| *meaning);
        let Some(value) = self.value(key) else { return meaning(key.default_word()) };
        let found = value.as_str();
        if meaning(found).is_none() {
            let words = || choices.iter().map(|(word, _)| *word);
            let help =
                found.and_then(|found| suggestion(found, words())).map(|near| format!("did you mean \"{near}\"?"));
            let wanted = format!("must be {}", or(words().map(|word| format!("\"{word}\""))));
            self.problem_at(key.name, wanted, help);
        }
        meaning(found)
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
        Self { source, place: place.to_owned(), header, table, outer: None, problems: Vec::new() }
    }

    /// Reads the value of a key, or its default, noting what is wanted when it is something else.
    pub(super) fn read<T>(&mut self, key: &Key, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Option<T> {
        match (self.value(key), key.absent) {
            (Some(found), _) => read(found).map_err(|wanted| self.problem(key, wanted)).ok(),
            (None, Absent::Value(default)) => read(DeValue::parse(default).ok()?.get_ref()).ok(),
            (None, _) => None,
        }
    }

    /// The items of a list, noting each that is wrong.
    fn items<T>(
        &mut self,
        key: &Key,
        list: &[Spanned<DeValue<'_>>],
        mut read: impl FnMut(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            match read(item.get_ref()) {
                Ok(value) => items.push(value),
                Err(wanted) => self.note(key.name, item.span(), true, wanted, None),
            }
        }
        (items.len() == list.len()).then_some(items)
    }

    /// A list of at least one item, none of them twice.
    fn list<T: PartialEq + Clone>(
        &mut self,
        key: &Key,
        what: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let (most, wanted) = match key.value {
            Value::NumbersOrNames { most, .. } => (most, format!("must be a list of 1 to {most} {what}")),
            _ => (usize::MAX, format!("must be a list of {what}, with at least one")),
        };
        let list = match self.value(key)? {
            DeValue::Array(list) if (1..=most).contains(&list.len()) => list,
            _ => {
                self.problem(key, wanted);
                return None;
            }
        };
        let mut earlier: Vec<T> = Vec::with_capacity(list.len());
        self.items(key, list, |item| match read(item)? {
            item if earlier.contains(&item) => Err("is listed twice".to_owned()),
            item => {
                earlier.push(item.clone());
                Ok(item)
            }
        })
    }

    fn value(&self, key: &Key) -> Option<&'a DeValue<'a>> {
        self.table.get(key.name).map(Spanned::get_ref)
    }

    /// Notes a problem at the value of `key`, or at the section's header when there is no such key.
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

    /// Refuses what breaks the rules of these keys: those that exclude each other, those that are missing, and those that
    /// have no effect.
    pub(super) fn refuse_broken_rules(&mut self, keys: &[&Key]) {
        for key in keys {
            for other in key.excludes {
                self.refuse_both(key.name, other);
            }
        }
        let mut missing = Vec::new();
        for key in keys {
            if let Absent::Refused { unless, hint } = key.absent
                && key.value != Value::Kind
                && !self.has(key)
                && !unless.iter().any(|other| self.is_there(other))
                && key.rules.iter().all(|rule| self.holds(rule, keys, &[]))
            {
                self.problem(key, format!("missing; {hint}"));
                missing.push(key.name);
            }
        }
        for key in keys {
            let Some(found) = self.value(key) else { continue };
            let concerns = |rule: &&Rule| match rule.word {
                Some(word) => found.as_str() == Some(word),
                None => key.value != Value::Bool || found.as_bool() != Some(false),
            };
            if let Some(rule) = key.rules.iter().filter(concerns).find(|rule| !self.holds(rule, keys, &missing)) {
                self.problem(key, rule.refusal());
            }
        }
    }

    /// Whether what the rule needs is there. So it is when that cannot be said, since another problem says what to do.
    fn holds(&self, rule: &Rule, keys: &[&Key], missing: &[&str]) -> bool {
        let word = |name: &str| {
            let key = keys.iter().find(|key| key.name == name)?;
            let word = self.value(key).map_or_else(|| key.default_word(), |value| value.as_str())?;
            value::is_word(&key.value, word).then_some(word)
        };
        let is_on = |name: &str| self.table.get(name).is_some_and(|value| value.get_ref().as_bool() == Some(true));
        match rule.needs {
            Needs::With(others) => others.iter().any(|other| self.is_there(other) || missing.contains(other)),
            Needs::Without(others) => !others.iter().any(|other| self.is_there(other)),
            Needs::Is(name, words) => word(name).is_none_or(|word| words.contains(&word)),
            Needs::IsNot(name, words) => word(name).is_none_or(|word| !words.contains(&word)),
            Needs::On(name) => is_on(name),
            Needs::Off(name) => !is_on(name),
        }
    }

    /// Whether this table has the key or, for `../KEY`, the one around it.
    fn is_there(&self, key: &str) -> bool {
        match key.strip_prefix("../") {
            Some(key) => self.outer.is_some_and(|outer| outer.contains_key(key)),
            None => self.table.contains_key(key),
        }
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

    /// Refuses two keys of which one says what the other does, at the one that came later.
    fn refuse_both(&mut self, one: &str, other: &str) {
        let start = |key: &str| self.table.get(key).map(|value| value.span().start);
        let (Some(first), Some(second)) = (start(one), start(other)) else { return };
        let (earlier, later) = if first < second { (one, other) } else { (other, one) };
        let apart = self.source.piece(first) != self.source.piece(second);
        let help = apart.then(|| format!("to change what an earlier file says, override the same key: `{earlier}`"));
        self.problem_at(later, format!("write either {one} or {other}, not both"), help);
    }

    /// A table inside this one, whose keys are `known`.
    fn inner(&self, place: &str, header: Range<usize>, table: &'a DeTable<'a>, known: &[Key]) -> Self {
        let mut section = Section { outer: Some(self.table), ..Section::new(self.source, place, header, table) };
        section.refuse_unknown(&known.iter().map(|key| key.name).collect::<Vec<_>>(), true);
        section.refuse_broken_rules(&known.iter().collect::<Vec<_>>());
        section
    }

    /// The table `simulate`, as a section with these keys.
    pub(super) fn simulate(&mut self, known: &[Key]) -> Option<Self> {
        let (name, value) = self.table.get_key_value("simulate")?;
        let place = format!("{}.simulate", self.place);
        let DeValue::Table(table) = value.get_ref() else {
            self.problem_at("simulate", format!("must be a table: write its keys under [{place}]"), None);
            return None;
        };
        Some(self.inner(&place, name.span(), table, known))
    }

    /// The tables of a list (`[[task.NAME.KEY]]`), in their order, as sections with the keys of [`Value::Tables`]; to be
    /// handed back to [`absorb`](Self::absorb) when they have been read. Empty when the key is absent or wrong.
    pub fn tables(&mut self, key: &Key) -> Vec<Self> {
        let place = format!("{}.{}", self.place, key.name);
        let wanted = format!("must be a list of tables: write the keys of each under [[{place}]]");
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
                DeValue::Table(table) => sections.push(self.inner(&place, item.span(), table, known)),
                _ => self.note(key.name, item.span(), true, &wanted, None),
            }
        }
        sections
    }

    /// The named tables at `key` (`[task.NAME]`), in the order in which they first appear.
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
                let wanted = format!("must be a table: each {key} has a name, and its keys stand under [{key}.NAME]");
                self.problems.push(error::problem(self.source, key, name, entry.span(), true, wanted));
                continue;
            };
            let place = format!("{key}.{}", name.get_ref());
            let mut section = Section::new(self.source, &place, name.span(), table);
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if !(1..=64).contains(&name.get_ref().len()) || !name.get_ref().chars().all(plain) {
                section.problem_at("", format!("a {key} is named with 1 to 64 letters, digits, `-` and `_`"), None);
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
