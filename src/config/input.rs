//! Keys that take an input: a number, or a value of another task. Also the ranges outside which values are bad. Pure.

use super::key::{Key, Value};
use super::limits;
use super::section::Section;
use super::taken::{ByValue, Taken, Valid};
use super::value::number;
use crate::channels::{Input, InputSource, ValueName};
use crate::time::Span;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl Section<'_> {
    /// A number, or a value of another task that is copied into the input before each tick.
    pub fn input(&mut self, key: &Key) -> Option<Input> {
        let source = self.read(key, input)?;
        let span = self.table.get(key.name).map_or(0..0, Spanned::span);
        Some(self.taken(key, source, span))
    }

    /// Like [`input`](Self::input), plus the value called `beside` from the same row, if the producer has one. While no row has arrived, or
    /// if there is no such value, it reads as missing; for a value of the previous tick, as 0. A number has none.
    pub(crate) fn input_with(&mut self, key: &Key, beside: &str) -> Option<(Input, Option<Input>)> {
        let taken = self.input(key)?;
        let InputSource::Value(ValueName { task, previous, .. }) = taken.source() else { return Some((taken, None)) };
        let name = ValueName { task: task.clone(), value: beside.to_owned(), previous: previous.map(|_| 0.0) };
        let beside = Input::value_of(name).spared();
        if let Some(last) = self.taken.last_mut() {
            last.beside = Some(beside.clone());
        }
        Some((taken, Some(beside)))
    }

    /// Like [`input`](Self::input), for a task that acts on it. Its own values say what it has done, so they are good even while the input is
    /// bad. A value of the previous tick is rejected: it never grows old, so the task would not notice when its input stops.
    pub fn input_that_ages(&mut self, key: &Key) -> Option<Input> {
        let taken = self.input(key)?;
        if matches!(taken.source(), InputSource::Value(name) if name.previous.is_some()) {
            let help = "close the cycle at another link of it";
            let text = "cannot be a value of the tick before: that is never stale, and what acts must see that nothing comes any more";
            let span = self.table.get(key.name).map_or(0..0, Spanned::span);
            self.note(key.name, span, true, text, Some(help.to_owned()));
        }
        Some(taken.acted_on())
    }

    /// A table of inputs under names the user chooses, in file order.
    pub(crate) fn inputs(&mut self, key: &Key) -> Option<Vec<(String, Input)>> {
        let wanted = "must be a table of values by name, such as { speed = \"motor.speed\" }";
        let table = match self.value(key)? {
            DeValue::Table(table) if !table.is_empty() => table,
            _ => {
                self.problem(key, wanted);
                return None;
            }
        };
        let mut written: Vec<_> = table.iter().collect();
        written.sort_by_key(|(name, _)| name.span().start);
        let mut inputs = Vec::with_capacity(written.len());
        for (name, value) in written {
            match input(value.get_ref()) {
                Ok(source) => inputs.push((name.get_ref().to_string(), self.taken(key, source, value.span()))),
                Err(wanted) => self.note(key.name, value.span(), true, wanted, None),
            }
        }
        (inputs.len() == table.len()).then_some(inputs)
    }

    fn taken(&mut self, key: &Key, source: InputSource, span: Range<usize>) -> Input {
        match source {
            InputSource::Number(number) => Input::number(number),
            InputSource::Value(name) => {
                let input = Input::value_of(name);
                self.taken.push(Taken { key: key.name, input: input.clone(), beside: None, span });
                input
            }
        }
    }

    /// A range of numbers; the lower end comes first and is below the upper end.
    pub(crate) fn range(&mut self, key: &Key) -> Option<[f64; 2]> {
        self.read(key, |found| {
            range(found).map_err(|_| "must be a range such as [0, 1], the lower end first".to_owned())
        })
    }

    pub(super) fn ranges(&mut self, key: &Key) -> Valid {
        self.read(key, valid).unwrap_or_default()
    }

    pub(super) fn durations_by_value(&mut self, key: &Key) -> ByValue<Span> {
        self.read(key, |found| by_value(found, |one| limits::duration_of(&Value::DURATION, one))).unwrap_or_default()
    }
}

fn by_value<T>(found: &DeValue<'_>, one: impl Fn(&DeValue<'_>) -> Result<T, String>) -> Result<ByValue<T>, String> {
    match found {
        DeValue::Table(table) if !table.is_empty() => {
            let named = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                Ok((name.to_string(), one(value.get_ref())?))
            };
            table.iter().map(named).collect::<Result<_, String>>().map(ByValue::Named)
        }
        found => one(found).map(ByValue::All),
    }
}

fn input(found: &DeValue<'_>) -> Result<InputSource, String> {
    match found {
        DeValue::String(text) => value_name(text, None).map(InputSource::Value),
        DeValue::Table(table) => previous(table).map(InputSource::Value),
        _ => number(found).map(InputSource::Number).map_err(|_| WANTED.to_owned()),
    }
}

const WANTED: &str = "must be a number, or a value of another task such as \"board.temp1\"";

fn value_name(text: &str, previous: Option<f64>) -> Result<ValueName, String> {
    let (task, value) = text.split_once('.').ok_or_else(|| WANTED.to_owned())?;
    match (task, value) {
        ("", _) | (_, "") => Err(WANTED.to_owned()),
        (task, value) => Ok(ValueName { task: task.into(), value: value.into(), previous }),
    }
}

fn previous(table: &DeTable<'_>) -> Result<ValueName, String> {
    let wanted = || "must be { previous = \"TASK.VALUE\", initial = NUMBER }".to_owned();
    let get = |key: &str| table.get(key).map(Spanned::get_ref);
    match (get("previous"), get("initial"), table.len()) {
        (Some(DeValue::String(text)), Some(initial), 2) => {
            value_name(text, Some(number(initial).map_err(|_| wanted())?)).map_err(|_| wanted())
        }
        _ => Err(wanted()),
    }
}

fn valid(found: &DeValue<'_>) -> Result<Valid, String> {
    by_value(found, range)
}

const RANGE: &str = "must be a range such as [0, 120], the lower end first, or a table of them by value";

fn range(found: &DeValue<'_>) -> Result<[f64; 2], String> {
    let ends = found.as_array().filter(|ends| ends.len() == 2).ok_or_else(|| RANGE.to_owned())?;
    let [low, high] = [&ends[0], &ends[1]].map(|end| number(end.get_ref()));
    match (low, high) {
        (Ok(low), Ok(high)) if low < high => Ok([low, high]),
        _ => Err(RANGE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<InputSource, String> {
        input(DeValue::parse(text).unwrap().get_ref())
    }

    #[test]
    fn an_input_is_a_number_or_names_a_value() {
        assert_eq!(of("55"), Ok(InputSource::Number(55.0)));
        assert_eq!(of("-0.5"), Ok(InputSource::Number(-0.5)));
        let name = |task: &str, value: &str, previous| {
            Ok(InputSource::Value(ValueName { task: task.into(), value: value.into(), previous }))
        };
        assert_eq!(of("'board.temp1'"), name("board", "temp1", None));
        assert_eq!(of("'mic.left.peak'"), name("mic", "left.peak", None));
        assert_eq!(of("{ previous = 'fan.applied', initial = 1 }"), name("fan", "applied", Some(1.0)));
        let wrong = ["'board'", "'.x'", "'x.'", "true", "nan", "[1]", "{ previous = 'a.b' }", "{ initial = 1 }"];
        let odd = ["{ previous = 'a', initial = 1 }", "{ previous = 'a.b', initial = 'x' }", "{}"];
        assert_eq!(wrong.iter().chain(&odd).find(|wrong| of(wrong).is_ok()), None);
    }

    #[test]
    fn ranges_have_two_ends_in_order() {
        let of = |text: &str| valid(DeValue::parse(text).unwrap().get_ref());
        assert_eq!(of("[0, 120]"), Ok(Valid::All([0.0, 120.0])));
        assert_eq!(of("{ t = [-1.5, 2] }"), Ok(Valid::Named(vec![("t".into(), [-1.5, 2.0])])));
        assert_eq!(
            ["[1, 1]", "[2, 1]", "[1]", "1", "{}", "[0, inf]", "{ t = 1 }"].iter().find(|wrong| of(wrong).is_ok()),
            None
        );
    }
}
