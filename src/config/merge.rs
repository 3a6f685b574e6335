//! Merges several parsed files into one: shifts spans to each text's position in the [`Source`](super::source::Source), and puts later
//! values over earlier ones. Pure.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Shifts all spans of a table by `by`, the total length of the texts before it.
pub(super) fn shifted(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    let moved = table.into_iter().map(|(key, value)| {
        let span = key.span();
        let key = Spanned::new(span.start + by..span.end + by, key.into_inner());
        (key, shifted_value(value, by))
    });
    moved.collect()
}

fn shifted_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = value.span();
    let moved = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(shifted(table, by)),
        DeValue::Array(list) => DeValue::Array(list.into_iter().map(|item| shifted_value(item, by)).collect()),
        other => other,
    };
    Spanned::new(span.start + by..span.end + by, moved)
}

/// Merges `later` into `earlier`. Tables are merged key by key; any other value, including a list, replaces the earlier one as a whole. A
/// key keeps the span of its first appearance; a value keeps its own.
pub(super) fn merge<'a>(earlier: &mut DeTable<'a>, later: DeTable<'a>) {
    for (key, value) in later {
        let Some(there) = earlier.get_mut(key.get_ref().as_ref()) else {
            earlier.insert(key, value);
            continue;
        };
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(value) => match there.get_mut() {
                DeValue::Table(there) => merge(there, value),
                _ => *there = Spanned::new(span, DeValue::Table(value)),
            },
            value => *there = Spanned::new(span, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_first_span_and_values_have_their_own() {
        let parsed = |text, by| shifted(DeTable::parse(text).unwrap().into_inner(), by);
        let mut all = parsed("[a]\nx = 1\n", 0);
        merge(&mut all, parsed("a.x = 22\na.y = [[3]]\n", 100));
        let (key, a) = all.get_key_value("a").unwrap();
        assert_eq!(key.span(), 1..2);
        let (key, value) = a.get_ref().as_table().unwrap().get_key_value("x").unwrap();
        assert_eq!((key.span(), value.span()), (4..5, 106..108));
        let y = a.get_ref().get("y").unwrap();
        assert_eq!(y.get_ref().get(0).unwrap().get_ref().get(0).unwrap().span(), 117..118);
    }
}
