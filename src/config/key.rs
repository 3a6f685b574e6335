//! What a key is: its values, what holds without it, and which other keys it goes with. Plain constants that parsing, the
//! schema, the manual page and the reference tables all read.

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
    /// Its name in the file, in kebab-case.
    pub name: &'static str,
    /// The values that it accepts.
    pub value: Value,
    /// What it does and why, in a sentence or two: without range, default and rules, which are added by themselves.
    pub about: &'static str,
    /// What holds when it is absent.
    pub(crate) absent: Absent,
    /// Keys that cannot be written beside it, because they say the same in another way.
    pub(crate) excludes: &'static [&'static str],
    /// What it needs to have an effect. A key without effect is refused.
    pub(crate) rules: &'static [Rule],
}

impl Key {
    /// An optional key without a default.
    pub const fn new(name: &'static str, value: Value, about: &'static str) -> Self {
        Self { name, value, about, absent: Absent::Nothing, excludes: &[], rules: &[] }
    }

    /// The value that holds when the key is absent, as TOML.
    #[must_use]
    pub const fn default(self, toml: &'static str) -> Self {
        Self { absent: Absent::Value(toml), ..self }
    }

    /// What holds when the key is absent, in words.
    #[must_use]
    pub(crate) const fn otherwise(self, words: &'static str) -> Self {
        Self { absent: Absent::Words(words), ..self }
    }

    /// Refuses a table without this key. `hint` says what to write: "name the bus, such as 1".
    #[must_use]
    pub const fn required(self, hint: &'static str) -> Self {
        self.required_unless(&[], hint)
    }

    /// The same, unless one of the `others` is there, or a rule keeps the key from having an effect.
    #[must_use]
    pub(crate) const fn required_unless(self, others: &'static [&'static str], hint: &'static str) -> Self {
        Self { absent: Absent::Refused { unless: others, hint }, ..self }
    }

    /// Refuses these keys beside this one.
    #[must_use]
    pub(crate) const fn excludes(self, others: &'static [&'static str]) -> Self {
        Self { excludes: others, ..self }
    }

    /// Sets what the key needs to have an effect.
    #[must_use]
    pub(crate) const fn rules(self, rules: &'static [Rule]) -> Self {
        Self { rules, ..self }
    }

    /// The word that holds when it is absent, of a default in quotes.
    pub(super) fn default_word(&self) -> Option<&'static str> {
        match self.absent {
            Absent::Value(toml) => toml.strip_prefix('"')?.strip_suffix('"'),
            _ => None,
        }
    }
}

/// What holds when a key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Nothing.
    Nothing,
    /// This value, as TOML.
    Value(&'static str),
    /// What the words say.
    Words(&'static str),
    /// The table is refused.
    Refused {
        /// But not when one of these keys is there.
        unless: &'static [&'static str],
        /// What to write.
        hint: &'static str,
    },
}

/// The values that a key accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A length of time: `"250us"`.
    Duration {
        /// The shortest; `Span::ZERO` accepts zero.
        min: Span,
        /// The longest.
        max: Span,
    },
    /// A length of time, or a list of at least one; zero is accepted.
    Durations,
    /// A number per second: `1000`, `"60 Hz"`, `"30000/1001"`.
    Rate,
    /// A whole number of hertz from 1 to 1,000,000: `48000`, `"48 kHz"`.
    Hertz,
    /// A whole number.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A whole number, or a text that is not empty.
    NumberOrName {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A finite number, or one of these words.
    NumberOr(&'static [&'static str]),
    /// A list of these, none of them twice.
    NumbersOrNames {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
        /// The most that the list holds; at least one.
        most: usize,
    },
    /// A finite number, with or without a fraction.
    Number,
    /// The same, but not zero.
    Factor,
    /// The same, above zero.
    Positive,
    /// A number, or a value of another task: `55`, `"board.temp1"`, `{ previous = "fan.applied", initial = 0.3 }`.
    Input,
    /// A table of these, by names of the user's own.
    Inputs,
    /// A range of numbers, the lower end first: `[0, 1]`.
    Range,
    /// The range that values are good in: `[0, 120]`, or a table of such ranges by the names of values.
    Ranges,
    /// Any text.
    Text,
    /// A text that is not empty.
    Name,
    /// The name of a value: not empty, no column that each recording has, and without control characters.
    ValueName,
    /// A list of at least one text, none of them twice.
    Texts,
    /// A program and its arguments: a list of texts, of which the first is not empty.
    Command,
    /// A text in a format of its own, which the kind reads.
    Format {
        /// What it looks like, for people: `WIDTHxHEIGHT`.
        like: &'static str,
        /// The same as a regular expression.
        pattern: &'static str,
    },
    /// The path of a file.
    Path,
    /// The path of a file with one of these endings, in upper or lower case.
    PathEnding(&'static [&'static str]),
    /// The name of a file, without a folder.
    FileName,
    /// A list of lists of bytes.
    Bytes {
        /// The most that a list holds; at least one.
        most: usize,
    },
    /// A share: `"5%"`.
    Percent {
        /// Whether it may be zero.
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
    /// `"off"`, `"auto"` or a length of time.
    Spin,
    /// A percentile and a length of time above zero: `"p99 < 1us"`.
    SpinTarget,
    /// The name of a kind of task.
    Kind,
    /// A table with these keys: `[task.NAME.KEY]`.
    Table(&'static [Key]),
    /// A list of tables with these keys: `[[task.NAME.KEY]]`.
    Tables(&'static [Key]),
    /// Any value; the kind reads it.
    Any,
}

impl Value {
    /// A length of time above zero.
    pub(crate) const DURATION: Self = Self::Duration { min: Span::from_nanos(1), max: Span::MAX };
}

/// The words of a list of choices, for [`Value::Choice`]: so that a word and its meaning are written once.
pub(crate) const fn words<T: Copy, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut index = 0;
    while index < N {
        words[index] = choices[index].0;
        index += 1;
    }
    words
}

/// What a key needs to have an effect. Of an inner table, `../KEY` is a key of the table around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What is needed.
    pub needs: Needs,
    /// Only this word of the key needs it; `None`: each value does, but `false` never.
    pub word: Option<&'static str>,
    /// What to do about it.
    pub advice: &'static str,
    /// What the error says, instead of "has no effect" and the advice.
    pub message: Option<&'static str>,
}

/// The condition of a [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// One of these keys is there.
    With(&'static [&'static str]),
    /// None of these keys is there.
    Without(&'static [&'static str]),
    /// The key has one of these words, by default or as written.
    Is(&'static str, &'static [&'static str]),
    /// The key has none of these words.
    IsNot(&'static str, &'static [&'static str]),
    /// The key is `true`.
    On(&'static str),
    /// The key is not `true`.
    Off(&'static str),
}

impl Rule {
    /// One of `keys` has to be there.
    pub(crate) const fn with(keys: &'static [&'static str]) -> Self {
        Self::new(Needs::With(keys))
    }

    /// None of `keys` may be there.
    pub(crate) const fn without(keys: &'static [&'static str]) -> Self {
        Self::new(Needs::Without(keys))
    }

    /// `key` has to have one of these words.
    pub(crate) const fn when(key: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(Needs::Is(key, words))
    }

    /// `key` must have none of these words.
    pub(crate) const fn unless(key: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(Needs::IsNot(key, words))
    }

    /// `key` has to be `true`.
    pub(crate) const fn when_on(key: &'static str) -> Self {
        Self::new(Needs::On(key))
    }

    /// `key` must not be `true`.
    pub(crate) const fn when_off(key: &'static str) -> Self {
        Self::new(Needs::Off(key))
    }

    const fn new(needs: Needs) -> Self {
        Self { needs, word: None, advice: "remove it", message: None }
    }

    /// Says what to do about it, instead of "remove it".
    #[must_use]
    pub(crate) const fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// Says this instead of "has no effect ...".
    #[must_use]
    pub(crate) const fn message(self, message: &'static str) -> Self {
        Self { message: Some(message), ..self }
    }

    /// Makes it a rule for this word of the key alone.
    #[must_use]
    pub(crate) const fn for_word(self, word: &'static str) -> Self {
        Self { word: Some(word), ..self }
    }
}
