//! A section as one canonical text, so that a reload can tell which sections have changed. Pure.
//!
//! Comments, whitespace, the order of keys, the file a key is in and the way a table is written do not affect it. Values are compared as
//! written: `1000` and `"1 kHz"` differ. This module knows nothing about the keys; the price is an occasional needless restart of a task.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use toml::de::{DeTable, DeValue};

/// One line per key, in alphabetical order. `resolved` has keys and texts that replace what is written or supply what is missing. The
/// `simulate` table is left out: nothing reads it in a real run.
pub(super) fn identity(table: &DeTable<'_>, resolved: &[(&str, &str)]) -> String {
    let written = table.iter().map(|(key, value)| {
        let mut text = String::new();
        write_value(&mut text, value.get_ref());
        (&**key.get_ref(), text)
    });
    let mut lines: BTreeMap<&str, String> = written.filter(|(key, _)| *key != "simulate").collect();
    lines.extend(resolved.iter().map(|(key, text)| (*key, format!("{text:?}"))));
    let mut identity = String::new();
    for (key, value) in lines {
        write_key(&mut identity, key);
        identity += &value;
        identity.push('\n');
    }
    identity
}

fn write_key(text: &mut String, key: &str) {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(bare) {
        text.push_str(key);
    } else {
        let _ = write!(text, "{key:?}"); // quoted, so that no key can look like two
    }
    text.push_str(" = ");
}

fn write_value(text: &mut String, value: &DeValue<'_>) {
    // Writing to a String cannot fail.
    let _ = match value {
        DeValue::String(value) => write!(text, "{value:?}"),
        DeValue::Integer(value) => write!(text, "{value}"),
        DeValue::Float(value) => write!(text, "{value}"),
        DeValue::Boolean(value) => write!(text, "{value}"),
        DeValue::Datetime(value) => write!(text, "{value}"),
        DeValue::Array(list) => {
            text.push('[');
            for item in list {
                write_value(text, item.get_ref());
                text.push(',');
            }
            text.push(']');
            Ok(())
        }
        // A table is already sorted.
        DeValue::Table(table) => {
            text.push('{');
            for (key, value) in table {
                write_key(text, key.get_ref());
                write_value(text, value.get_ref());
                text.push(',');
            }
            text.push('}');
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        identity(DeTable::parse(text).unwrap().get_ref(), &[("worker", "main")])
    }

    #[test]
    fn it_is_what_is_written_in_one_order() {
        let text = "rate = 1_000 # fast\nkind='a\"b'\nlist = [ 1, 0x2 ]\nat = 1979-05-27\n\"ä b\".c = 1.50\nx.b = {}\nx.a = true";
        assert_eq!(
            of(text),
            "at = 1979-05-27\nkind = \"a\\\"b\"\nlist = [1,0x2,]\nrate = 1000\nworker = \"main\"\n\
             x = {a = true,b = {},}\n\"ä b\" = {c = 1.50,}\n"
        );
    }

    #[test]
    fn what_differs_is_told_apart() {
        let texts = [
            "a = 1",
            "a = 2",
            "a = 1.0",
            "a = \"1\"",
            "a = [1]",
            "a = [[1]]",
            "a = [1, 1]",
            "a = {b = 1}",
            "a = 'b = 1'",
            "a.b = 1\nb = 1",
            "a = [{b = 1}, {c = 1}]",
            "a = [{b = 1, c = 1}]",
            "'a = 1, b' = 1",
            "a = 1\nb = 1",
            "",
        ];
        let identities: std::collections::BTreeSet<_> = texts.map(of).into_iter().collect();
        assert_eq!(identities.len(), texts.len(), "{identities:#?}");
    }
}
