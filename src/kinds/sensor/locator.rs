//! The position of a number in a text file. Plain values.

/// Selects a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineSelector {
    /// By its number, from 1.
    Number(usize),
    /// The first line that starts with this text, ignoring leading white space. The text must end where a field or a name ends: `cpu1` does
    /// not find `cpu10`, `FOO` finds `FOO=1`.
    Prefix(String),
}

/// Selects a field of a line. Fields are separated by white space and colons; several of these count as one. In a line found by its prefix,
/// fields count from the end of the prefix: field 1 of `MemAvailable:` is the number itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldSelector {
    /// By its number, from 1.
    Number(usize),
    /// By the name before its equals sign: `avg10` finds 0.25 in `avg10=0.25`.
    Name(String),
}

/// The position of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueLocator {
    /// The line.
    pub(crate) line: LineSelector,
    /// The field in the line.
    pub(crate) field: FieldSelector,
}

/// The first field of the first line.
impl Default for ValueLocator {
    fn default() -> Self {
        Self { line: LineSelector::Number(1), field: FieldSelector::Number(1) }
    }
}
