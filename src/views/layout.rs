//! Text of at most 80 columns. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The width that every terminal has.
const COLUMNS: usize = 80;

/// Task names are cut to the space left by the numbers, but not below this width.
const NAME_MIN: usize = 4;

/// Appends a table: a head and rows. With `emphasis`, marked rows are red. The first column is cut to the space that the others leave.
pub(crate) fn columns<const N: usize>(
    text: &mut String,
    head: [String; N],
    rows: &[([String; N], bool)],
    emphasis: bool,
) {
    let rows: Vec<_> = std::iter::once((&head, false)).chain(rows.iter().map(|(row, marked)| (row, *marked))).collect();
    let mut widths = [0; N];
    for (row, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(row.iter()) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let numbers: usize = widths[1..].iter().map(|width| 2 + width).sum();
    widths[0] = widths[0].min(COLUMNS.saturating_sub(numbers).max(NAME_MIN));
    for (index, (row, marked)) in rows.iter().enumerate() {
        let mut line = format!("{:<width$}", cut(&row[0], widths[0]), width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            // Writing to a String cannot fail, here and below.
            let _ = write!(line, "  {cell:>width$}");
        }
        let (on, off) = match (emphasis, index, marked) {
            (true, 0, _) => ("\x1b[1m", "\x1b[0m"),
            (true, _, true) => ("\x1b[31m", "\x1b[0m"),
            _ => ("", ""),
        };
        let _ = writeln!(text, "{on}{}{off}", line.trim_end());
    }
}

/// The first `width` characters; the last is `…` if something was cut.
fn cut(name: &str, width: usize) -> String {
    match name.chars().count() > width {
        true => name.chars().take(width - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Appends a line. If it is too long, it continues on lines indented by two spaces, starting with the next clause. A clause that is too
/// long itself is broken between words.
pub(crate) fn wrap(text: &mut String, line: &str) {
    let mut width = 0;
    for clause in line.split_inclusive("; ") {
        let whole = width + clause.trim_end().chars().count() <= COLUMNS;
        if !whole && width > 2 {
            text.push_str("\n  ");
            width = 2;
        }
        for word in clause.split_inclusive(' ') {
            if width + word.trim_end().chars().count() > COLUMNS && width > 2 {
                text.push_str("\n  ");
                width = 2;
            }
            text.push_str(word);
            width += word.chars().count();
        }
    }
    text.push('\n');
}

/// Names with their counts, largest first; equal counts are sorted by name.
pub(crate) fn largest_first<Name: AsRef<str>>(counts: &BTreeMap<Name, u64>) -> Vec<(&str, u64)> {
    let mut counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_ref(), *count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count)); // stable, so equal counts stay sorted by name
    counts
}

/// Up to six digits; larger numbers as `12.3M`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn count(count: u64) -> String {
    if count < 1_000_000 {
        return count.to_string();
    }
    let (mut scaled, mut units) = (count as f64 / 1e6, "MGTPE".chars());
    let mut unit = units.next();
    while scaled >= 1_000.0 {
        (scaled, unit) = (scaled / 1e3, units.next());
    }
    format!("{scaled:.1}{}", unit.unwrap_or('?'))
}

/// Up to three decimals, without trailing zeros.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
