//! Descriptions of configuration keys: accepted values, defaults, and which keys go together. They are plain constants, read by the parser,
//! the schema, the manual page and the reference tables.

use crate::time::Span;

/// One key of a table.
///
/// ```
/// use hertzd::config::{Key, Value};
///
/// const LINES: Key = Key::new("lines", Value::Integer { min: 1, max: 64 }, "Lines to read.").default("8");
/// const CHIP: Key = Key::new("chip", Value::Path, "The chip that has them.").required("name it, such as \"/dev/gpiochip0\"");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name in the file, in kebab-case.
    pub name: &'static str,
    /// The values it accepts.
    pub value: Value,
    /// What the key does and why, in a sentence or two. Range, default and rules are added automatically.
    pub about: &'static str,
    /// What applies when the key is absent.
    pub(crate) absent: Absent,
    /// Keys that must not appear beside this one, because they express the same thing in another way.
    pub(crate) excludes: &'static [&'static str],
    /// What the key needs in order to have an effect. A key without effect is rejected.
    pub(crate) rules: &'static [Rule],
}

impl Key {
    /// An optional key without a default.
    pub const fn new(name: &'static str, value: Value, about: &'static str) -> Self {
        Self { name, value, about, absent: Absent::Nothing, excludes: &[], rules: &[] }
    }

    /// Sets the default: the value that applies when the key is absent, as TOML.
    #[must_use]
    pub const fn default(self, toml: &'static str) -> Self {
        Self { absent: Absent::Value(toml), ..self }
    }

    /// Describes in words what applies when the key is absent.
    #[must_use]
    pub(crate) const fn otherwise(self, words: &'static str) -> Self {
        Self { absent: Absent::Words(words), ..self }
    }

    /// Makes the key mandatory. `hint` says what to write: "name the bus, such as 1".
    #[must_use]
    pub const fn required(self, hint: &'static str) -> Self {
        self.required_unless(&[], hint)
    }

    /// Makes the key mandatory, unless one of `others` is present or a rule keeps the key from having an effect.
    #[must_use]
    pub(crate) const fn required_unless(self, others: &'static [&'static str], hint: &'static str) -> Self {
        Self { absent: Absent::Refused { unless: others, hint }, ..self }
    }

    /// Rejects a table that has both this key and one of these.
    #[must_use]
    pub(crate) const fn excludes(self, others: &'static [&'static str]) -> Self {
        Self { excludes: others, ..self }
    }

    /// Sets what the key needs in order to have an effect.
    #[must_use]
    pub(crate) const fn rules(self, rules: &'static [Rule]) -> Self {
        Self { rules, ..self }
    }

    /// The default, if it is a text: without its quotes.
    pub(super) fn default_word(&self) -> Option<&'static str> {
        match self.absent {
            Absent::Value(toml) => toml.strip_prefix('"')?.strip_suffix('"'),
            _ => None,
        }
    }
}

/// What applies when a key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Nothing.
    Nothing,
    /// This value, as TOML.
    Value(&'static str),
    /// What these words describe.
    Words(&'static str),
    /// The table is rejected.
    Refused {
        /// The table is accepted if it has one of these keys.
        unless: &'static [&'static str],
        /// What to write.
        hint: &'static str,
    },
}

/// The values a key accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A duration: `"250us"`.
    Duration {
        /// The shortest; `Span::ZERO` accepts zero.
        min: Span,
        /// The longest.
        max: Span,
    },
    /// A duration, or a list of at least one. Zero is allowed.
    Durations,
    /// A number per second: `1000`, `"60 Hz"`, `"30000/1001"`.
    Rate,
    /// A whole number of hertz from 1 to 1,000,000: `48000`, `"48 kHz"`.
    Hertz,
    /// A duration above zero, or `"off"`.
    DurationOrOff,
    /// An integer.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// An integer, or a list of integers without duplicates.
    Integers {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
        /// Maximum number of list items; at least one.
        most: usize,
    },
    /// An integer, or a non-empty text.
    NumberOrName {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A finite number, or one of these words.
    NumberOr(&'static [&'static str]),
    /// A list of integers and non-empty texts, without duplicates.
    NumbersOrNames {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
        /// Maximum number of list items; at least one.
        most: usize,
    },
    /// A finite number, with or without a fraction.
    Number,
    /// A finite number other than zero.
    Factor,
    /// A finite number above zero.
    Positive,
    /// A number, or another task's value: `55`, `"board.temp1"`, `{ previous = "fan.applied", initial = 0.3 }`.
    Input,
    /// A table of such inputs, under names the user chooses.
    Inputs,
    /// A range of numbers, lower end first: `[0, 1]`.
    Range,
    /// The range in which values are good: `[0, 120]`, or a table with a range for each value name.
    Ranges,
    /// A duration above zero, or a table of them by the name of a value.
    DurationsByValue,
    /// Any text.
    Text,
    /// A non-empty text.
    Name,
    /// The name of a value: not empty, without control characters, and not a column that every recording has.
    ValueName,
    /// A list of at least one text, without duplicates.
    Texts,
    /// A program and its arguments: a list of texts. The first must not be empty.
    Command,
    /// A text in a custom format that the kind parses.
    Format {
        /// The format for people: `WIDTHxHEIGHT`.
        like: &'static str,
        /// The same format as a regular expression.
        pattern: &'static str,
    },
    /// The path of a file.
    Path,
    /// The path of a file with one of these extensions; case is ignored.
    PathEnding(&'static [&'static str]),
    /// The name of a file, without a folder.
    FileName,
    /// A list of lists of bytes.
    Bytes {
        /// Maximum length of an inner list; at least one.
        most: usize,
    },
    /// A percentage: `"5%"`.
    Percent {
        /// Whether zero is allowed.
        zero: bool,
        /// The largest, in percent: a multiple of ten.
        max: u8,
    },
    /// A number of bytes: `"100 MB"`.
    Size {
        /// The smallest.
        min: u64,
    },
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The number of a CPU.
    Cpu,
    /// A list of CPUs.
    Cpus,
    /// `"off"`, `"auto"` or a duration.
    Spin,
    /// A percentile and a duration above zero: `"p99 < 1us"`.
    SpinTarget,
    /// The name of a kind of task.
    Kind,
    /// A table with these keys: `[task.NAME.KEY]`.
    Table(&'static [Key]),
    /// A list of tables with these keys: `[[task.NAME.KEY]]`.
    Tables(&'static [Key]),
    /// Any value; the kind interprets it.
    Any,
}

impl Value {
    /// A duration above zero.
    pub(crate) const DURATION: Self = Self::Duration { min: Span::from_nanos(1), max: Span::MAX };
}

/// The words of a list of choices, for [`Value::Choice`], so that each word and its meaning are written only once.
pub(crate) const fn words<T: Copy, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut index = 0;
    while index < N {
        words[index] = choices[index].0;
        index += 1;
    }
    words
}

/// What a key needs in order to have an effect. In an inner table, `../KEY` refers to a key of the enclosing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What is needed.
    pub needs: Needs,
    /// The rule applies only to this value of the key. `None`: to every value except `false`.
    pub word: Option<&'static str>,
    /// What to do about it.
    pub advice: &'static str,
    /// The error message, in place of "has no effect" and the advice.
    pub message: Option<&'static str>,
}

/// The condition of a [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// One of these keys is present.
    With(&'static [&'static str]),
    /// None of these keys is present.
    Without(&'static [&'static str]),
    /// The key has one of these values, written or by default.
    Is(&'static str, &'static [&'static str]),
    /// The key has none of these values.
    IsNot(&'static str, &'static [&'static str]),
    /// The key is `true`.
    On(&'static str),
    /// The key is not `true`.
    Off(&'static str),
}

impl Rule {
    /// Requires one of `keys`.
    pub(crate) const fn with(keys: &'static [&'static str]) -> Self {
        Self::new(Needs::With(keys))
    }

    /// Forbids all of `keys`.
    pub(crate) const fn without(keys: &'static [&'static str]) -> Self {
        Self::new(Needs::Without(keys))
    }

    /// Requires `key` to have one of these values.
    pub(crate) const fn when(key: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(Needs::Is(key, words))
    }

    /// Forbids these values of `key`.
    pub(crate) const fn unless(key: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(Needs::IsNot(key, words))
    }

    /// Requires `key` to be `true`.
    pub(crate) const fn when_on(key: &'static str) -> Self {
        Self::new(Needs::On(key))
    }

    /// Forbids `key` to be `true`.
    pub(crate) const fn when_off(key: &'static str) -> Self {
        Self::new(Needs::Off(key))
    }

    const fn new(needs: Needs) -> Self {
        Self { needs, word: None, advice: "remove it", message: None }
    }

    /// Sets the advice that replaces "remove it".
    #[must_use]
    pub(crate) const fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// Sets the message that replaces "has no effect ...".
    #[must_use]
    pub(crate) const fn message(self, message: &'static str) -> Self {
        Self { message: Some(message), ..self }
    }

    /// Restricts the rule to this value of the key.
    #[must_use]
    pub(crate) const fn for_word(self, word: &'static str) -> Self {
        Self { word: Some(word), ..self }
    }
}
