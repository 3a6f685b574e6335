//! The registry of task kinds. Other crates can add their own.
//!
//! It is filled before the configuration is read. Nothing here runs later, and no clock is read.

use super::blueprint::Blueprint;
use super::key::{Key, Value};
use super::keys::TASK_KEYS;
use super::section::Section;
use crate::task::Task;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// How a kind makes a blueprint from a task's section. `None` if it has noted a problem there.
type Parse = Box<dyn Fn(&mut Section<'_>) -> Option<Blueprint> + Send + Sync>;

/// The kinds that `kind = "…"` may name.
#[derive(Default)]
pub struct Kinds {
    kinds: BTreeMap<&'static str, Kind>,
    left_out: BTreeMap<&'static str, &'static str>, // with the remedy
    shadow: bool,
}

impl Kinds {
    /// No kinds at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a kind, replacing one of the same name.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "kinds are listed, not summed")]
    pub fn add(mut self, kind: Kind) -> Self {
        self.left_out.remove(kind.name);
        self.kinds.insert(kind.name, kind);
        self
    }

    /// Marks a shadow run: tasks compute and write nothing. Kinds see it through [`Section::is_shadow`].
    #[must_use]
    pub(crate) fn in_shadow(self) -> Self {
        Self { shadow: true, ..self }
    }

    /// Whether this is for a shadow run.
    pub(super) fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Records a kind that this build does not include, and how to get it, for the error message.
    #[must_use]
    #[allow(dead_code, reason = "a build with every feature leaves nothing out")]
    pub(crate) fn leaving_out(mut self, name: &'static str, remedy: &'static str) -> Self {
        self.left_out.insert(name, remedy);
        self
    }

    /// How to get a kind that this build does not include. `None`: no such kind is known.
    pub(crate) fn remedy(&self, name: &str) -> Option<&'static str> {
        self.left_out.get(name).copied()
    }

    /// The kinds this build does not include.
    #[doc(hidden)]
    pub fn left_out(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.left_out.keys().copied()
    }

    /// Adds a kind whose tasks serde deserializes directly from their section, ready to run.
    ///
    /// The kind's own keys are the fields of `T`, under their serde names. A field named like a common key (`rate`, `phase`) receives the
    /// value as written in the file. Unknown keys are rejected here, except for a `T` with `#[serde(flatten)]`: its fields cannot be known,
    /// so `T` must reject them itself.
    ///
    /// ```
    /// use hertzd::time::Span;
    /// use hertzd::{App, Kinds, Task, Tick, TickError};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Blink { pin: u32 }
    ///
    /// impl Task for Blink {
    ///     fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> { Ok(()) }
    /// }
    ///
    /// let kinds = Kinds::empty().with::<Blink>("blink", "Toggles a pin at every tick.");
    /// let run = App::new(kinds).simulate("[task.led]\nkind = \"blink\"\nrate = 2\npin = 7\n", Span::from_seconds(1)).unwrap();
    /// assert_eq!(run.counts_of("led").ran, 2);
    /// ```
    #[must_use]
    pub fn with<T: Task + DeserializeOwned + 'static>(self, name: &'static str, about: &'static str) -> Self {
        self.deserializing(name, about, |task: T| Blueprint::built(task))
    }

    /// Like [`with`](Self::with), for tasks that open nothing and compute from their keys and ticks alone. `simulate` runs them on the
    /// virtual clock; a task of any other kind is a script without values there.
    #[must_use]
    pub fn with_computing<T: Task + DeserializeOwned + 'static>(self, name: &'static str, about: &'static str) -> Self {
        self.deserializing(name, about, |task: T| Blueprint::built(task).computing())
    }

    fn deserializing<T: Task + DeserializeOwned + 'static>(
        self,
        name: &'static str,
        about: &'static str,
        blueprint: fn(T) -> Blueprint,
    ) -> Self {
        let fields = fields_of::<T>();
        let key = |name| Key::new(name, Value::Any, "");
        let common = |name: &str| name == "simulate" || TASK_KEYS.iter().any(|key| key.name == name);
        let keys: Vec<Key> = fields.unwrap_or_default().iter().copied().filter(|name| !common(name)).map(key).collect();
        let parse = move |section: &mut Section<'_>| {
            let task: T = section.deserialize(|key| match fields {
                Some(fields) => fields.contains(&key),
                None => !common(key),
            })?;
            Some(blueprint(task))
        };
        self.add(Kind { open: fields.is_none(), ..Kind::new(name, about, keys, parse) })
    }

    /// The kind with this name.
    #[doc(hidden)]
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// Every name, in alphabetical order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.kinds.keys().copied()
    }

    /// Every kind, ordered by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values()
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// One kind of task.
pub struct Kind {
    /// The name written in `kind = "…"`.
    pub name: &'static str,
    /// What its tasks do, in a sentence or two.
    pub about: &'static str,
    /// The kind's own keys, besides those every task has.
    pub keys: Cow<'static, [Key]>,
    /// Makes a blueprint from a section.
    pub parse: Parse,
    pub(super) also: Option<serde_json::Value>, // what the keys cannot express, as a JSON schema of the section
    open: bool,                                 // the keys are not known; `parse` rejects those it does not want
}

impl Kind {
    /// A kind with these keys of its own. `parse` only receives sections without unknown keys.
    pub fn new(
        name: &'static str,
        about: &'static str,
        keys: impl Into<Cow<'static, [Key]>>,
        parse: impl Fn(&mut Section<'_>) -> Option<Blueprint> + Send + Sync + 'static,
    ) -> Self {
        Self { name, about, keys: keys.into(), parse: Box::new(parse), also: None, open: false }
    }

    /// Adds what `parse` rejects beyond the rules of the keys, as a JSON schema of the section.
    #[must_use]
    pub(crate) fn also(self, schema: serde_json::Value) -> Self {
        Self { also: Some(schema), ..self }
    }

    /// Declares that sections may have further keys, known only from the section itself. `parse` must reject unwanted ones with
    /// [`Section::refuse_beyond`].
    #[must_use]
    pub(crate) fn with_more_keys(self) -> Self {
        Self { open: true, ..self }
    }

    /// Whether the keys are not known beforehand, so that `parse` itself must reject unwanted ones.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The fields that serde's derive lists for `T`. `None` if `T` does not deserialize as a plain struct.
fn fields_of<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let fields = Cell::new(None);
    let _ = T::deserialize(Probe(&fields));
    fields.get()
}

/// A deserializer without data: it only records which fields are requested, then fails.
struct Probe<'a>(&'a Cell<Option<&'static [&'static str]>>);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("nothing is read here"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.set(Some(fields));
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Plain {
        _warm_up: String,
        #[serde(rename = "gain")]
        _g: f64,
    }

    #[derive(Deserialize)]
    struct Wrapped(#[expect(dead_code, reason = "only its type matters")] Plain);

    #[derive(Deserialize)]
    struct Flat {
        #[serde(flatten)]
        _plain: Plain,
    }

    #[test]
    fn fields_come_from_the_derive() {
        assert_eq!(fields_of::<Plain>(), Some(&["-warm-up", "gain"][..]));
        assert_eq!(fields_of::<Wrapped>(), fields_of::<Plain>());
        assert_eq!(fields_of::<Flat>(), None);
        assert_eq!(fields_of::<String>(), None);
    }
}
