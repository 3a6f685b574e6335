//! The getters of a [`Section`]: from a key to its value, within the key's limits. Each getter notes what is wrong.

use super::describe::or;
use super::key::{Absent, Key, Value};
use super::keys::{MAX_MISSED, PERIOD, RATE};
use super::limits::{self, percent_of};
use super::meant::{self, did_you_mean};
use super::section::Section;
use super::value;
use crate::pacing::Rate;
use crate::time::Span;
use std::fmt::Display;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::DeValue;

/// An integer, or a non-empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NumberOrName {
    /// The number.
    Number(i64),
    /// The text.
    Name(String),
}

impl Section<'_> {
    /// A text.
    pub fn text(&mut self, key: &Key) -> Option<String> {
        self.read(key, |found| match (limits::text(&key.value, found), key.absent) {
            (Err(wanted), Absent::Refused { hint, .. }) if found.as_str().is_some() => Err(format!("{wanted}; {hint}")),
            (read, _) => read,
        })
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, key: &Key) -> Option<Vec<String>> {
        self.list(key, "texts", |item| limits::text(&Value::Text, item))
    }

    /// A program and its arguments; never empty.
    pub(crate) fn command(&mut self, key: &Key) -> Option<Vec<String>> {
        let wanted = "must be a list of texts, a program and its arguments, such as [\"python3\", \"client.py\"]";
        let part = |item: &DeValue<'_>, first: bool| match item.as_str() {
            Some(text) if first && text.trim().is_empty() => Err("the program must not be empty".to_owned()),
            Some(text) if text.contains('\0') => Err("must not contain a NUL byte".to_owned()),
            Some(text) => Ok(text.to_owned()),
            None => Err("must be a text in quotes".to_owned()),
        };
        let list = match self.value(key)? {
            DeValue::Array(list) if !list.is_empty() => list,
            _ => {
                self.refuse(key, wanted, &|better| better.as_array().is_some_and(|list| !list.is_empty()));
                return None;
            }
        };
        let mut first = true;
        self.items(key, list, |item| part(item, std::mem::take(&mut first)))
    }

    /// A duration.
    pub fn duration(&mut self, key: &Key) -> Option<Span> {
        self.read(key, |found| limits::duration_of(&key.value, found))
    }

    /// A duration above zero; `None` within: `"off"`.
    pub(crate) fn duration_or_off(&mut self, key: &Key) -> Option<Option<Span>> {
        self.read(key, |found| match found.as_str() {
            Some("off") => Ok(None),
            _ => limits::duration_of(&Value::DURATION, found).map(Some).map_err(|why| format!("{why}, or \"off\"")),
        })
    }

    /// One duration or a list of them; never empty. Zero is allowed.
    pub(crate) fn durations(&mut self, key: &Key) -> Option<Vec<Span>> {
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
    pub(crate) fn size(&mut self, key: &Key) -> Option<u64> {
        self.read(key, |found| limits::size_of(&key.value, found))
    }

    /// An exact rate, in ticks per second.
    pub(crate) fn rate(&mut self, key: &Key) -> Option<Rate> {
        self.read(key, value::rate)
    }

    /// A whole number of hertz from 1 to 1,000,000.
    #[cfg_attr(not(feature = "audio"), expect(dead_code, reason = "sound alone needs it"))]
    pub(crate) fn hertz(&mut self, key: &Key) -> Option<u32> {
        self.read(key, limits::hertz)
    }

    /// A finite number.
    pub fn number(&mut self, key: &Key) -> Option<f64> {
        self.read(key, |found| limits::number_of(&key.value, found))
    }

    /// An integer. If the key's range is wider than `T`, a value that does not fit is noted as a problem and returns `None`.
    pub fn integer<T: TryFrom<i64>>(&mut self, key: &Key) -> Option<T> {
        self.read(key, |found| {
            let number = limits::integer(&key.value, found)?;
            T::try_from(number).map_err(|_| "does not fit; that is a fault of this key's range".to_owned())
        })
    }

    /// One integer or a list of them; never empty.
    pub(crate) fn integers(&mut self, key: &Key) -> Option<Vec<i64>> {
        match self.value(key) {
            Some(DeValue::Array(_)) => self.list(key, "whole numbers", |item| limits::integer(&key.value, item)),
            _ => self.read(key, |found| limits::integer(&key.value, found)).map(|number| vec![number]),
        }
    }

    /// Like [`integer`](Self::integer); for a number out of range, `help` says what was probably meant.
    pub(crate) fn integer_or_help<T: TryFrom<i64>>(
        &mut self,
        key: &Key,
        help: impl Fn(i64) -> Option<String>,
    ) -> Option<T> {
        let number = self.value(key).and_then(limits::whole);
        let read = self.integer(key);
        if let (None, Some(number), Some(problem)) = (&read, number, self.problems.last_mut()) {
            problem.help = help(number);
        }
        read
    }

    /// A finite number, or the meaning of one of the words. The key must list the same words, through `words`.
    pub(crate) fn number_or<T: Copy>(&mut self, key: &Key, words: &[(&str, T)]) -> Option<Result<f64, T>> {
        let wanted = || {
            let words = or(words.iter().map(|(word, _)| format!("\"{word}\"")));
            format!("must be a number, or {words}")
        };
        self.read(key, |found| match found.as_str() {
            Some(text) => {
                let word = words.iter().find(|(word, _)| *word == text).ok_or_else(wanted)?;
                Ok(Err(word.1))
            }
            None => value::number(found).map(Ok).map_err(|_| wanted()),
        })
    }

    /// An integer, or a non-empty text.
    pub(crate) fn number_or_name(&mut self, key: &Key) -> Option<NumberOrName> {
        self.read(key, |found| Self::either(&key.value, found))
    }

    /// A list of integers and non-empty texts.
    pub(crate) fn numbers_or_names(&mut self, key: &Key) -> Option<Vec<NumberOrName>> {
        self.list(key, "numbers and texts", |item| Self::either(&key.value, item))
    }

    fn either(wanted: &Value, found: &DeValue<'_>) -> Result<NumberOrName, String> {
        match found {
            DeValue::String(_) => limits::text(&Value::Name, found).map(NumberOrName::Name),
            _ => limits::integer(wanted, found).map(NumberOrName::Number),
        }
    }

    /// A list of byte lists, none of them empty.
    pub(crate) fn bytes(&mut self, key: &Key) -> Option<Vec<Vec<u8>>> {
        let Value::Bytes { most } = key.value else { return None };
        let wanted = format!("must be a list of lists of 1 to {most} bytes");
        let has_length = |bytes: &[Spanned<DeValue<'_>>]| (1..=most).contains(&bytes.len());
        let lists = self
            .value(key)?
            .as_array()
            .filter(|lists| lists.is_empty() || lists.iter().any(|list| list.get_ref().is_array()));
        let Some(lists) = lists else {
            let is_list = |list: &DeValue<'_>| {
                let bytes = list.as_array().filter(|bytes| has_length(bytes));
                bytes.is_some_and(|bytes| bytes.iter().all(|byte| limits::byte(byte.get_ref()).is_ok()))
            };
            let accepted =
                |lists: &DeValue<'_>| lists.as_array().is_some_and(|all| all.iter().all(|one| is_list(one.get_ref())));
            self.refuse(key, wanted, &accepted);
            return None;
        };
        let mut all = Vec::with_capacity(lists.len());
        for list in lists {
            match list.get_ref() {
                DeValue::Array(bytes) if has_length(bytes) => {
                    all.extend(self.items(key, bytes, limits::byte));
                }
                _ => self.note(key.name, list.span(), true, &wanted, None),
            }
        }
        (all.len() == lists.len()).then_some(all)
    }

    /// One period of this section's task. `None` if its rate is wrong, which is noted elsewhere.
    pub fn period(&self) -> Option<Span> {
        self.task_rate().map(Rate::period)
    }

    /// The share of releases that may be missed before the task is not well. If the value is wrong, which is noted elsewhere, the default
    /// applies.
    pub(crate) fn max_missed(&self) -> f64 {
        let share = |value: &DeValue<'_>| percent_of(&MAX_MISSED.value, value).ok();
        self.value(&MAX_MISSED).and_then(share).unwrap_or(0.01)
    }

    /// The exact rate of this section's task. `None` if it is wrong, which is noted elsewhere.
    pub(crate) fn task_rate(&self) -> Option<Rate> {
        match (self.value(&RATE), self.value(&PERIOD)) {
            (Some(rate), None) => value::rate(rate).ok(),
            (None, Some(period)) => value::duration(period).ok().and_then(Rate::from_period),
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

    /// The meaning of one of the words. The key must list the same words, as [`Value::Choice`].
    pub fn choice<T: Copy>(&mut self, key: &Key, choices: &[(&str, T)]) -> Option<T> {
        let meaning = |word| choices.iter().find(|(known, _)| Some(*known) == word).map(|(_, meaning)| *meaning);
        let Some(value) = self.value(key) else { return meaning(key.default_word()) };
        let found = value.as_str();
        if meaning(found).is_none() {
            let words = || choices.iter().map(|(word, _)| *word);
            let help = found.and_then(|found| did_you_mean(found, words()));
            let wanted = format!("must be {}", or(words().map(|word| format!("\"{word}\""))));
            self.problem_at(key.name, wanted, help);
        }
        meaning(found)
    }

    /// Reads the value of a key, or its default. If the value is wrong, notes what is wanted.
    pub(super) fn read<T>(&mut self, key: &Key, read: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Option<T> {
        match (self.value(key), key.absent) {
            (Some(found), _) => {
                read(found).map_err(|wanted| self.refuse(key, wanted, &|better| read(better).is_ok())).ok()
            }
            (None, Absent::Value(default)) => read(DeValue::parse(default).ok()?.get_ref()).ok(),
            (None, _) => None,
        }
    }

    /// Notes that the key's value is not what is wanted, and suggests what was probably meant if that would be `accepted`.
    fn refuse(&mut self, key: &Key, wanted: impl Display, accepted: &dyn Fn(&DeValue<'_>) -> bool) {
        let found = self.table.get(key.name);
        let help =
            found.and_then(|found| meant::value(key, found.get_ref(), &self.source.excerpt(&found.span()), accepted));
        self.problem_at(key.name, wanted, help);
    }

    /// The items of a list. Notes each item that is wrong.
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

    /// A list of at least one item, without duplicates.
    fn list<T: PartialEq + Clone>(
        &mut self,
        key: &Key,
        what: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let (most, wanted) = match key.value {
            Value::NumbersOrNames { most, .. } | Value::Integers { most, .. } => {
                (most, format!("must be a list of 1 to {most} {what}"))
            }
            _ => (usize::MAX, format!("must be a list of {what}, with at least one")),
        };
        let list = match self.value(key)? {
            DeValue::Array(list) if (1..=most).contains(&list.len()) => list,
            _ => {
                let accepted = |list: &DeValue<'_>| {
                    list.as_array().is_some_and(|list| list.iter().all(|item| read(item.get_ref()).is_ok()))
                };
                self.refuse(key, wanted, &accepted);
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
}
