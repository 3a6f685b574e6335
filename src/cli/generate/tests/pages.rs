//! Compares the lists in the documentation pages with the source: keys and defaults, exit codes, causes, events.

use crate::cli::EXIT_CODES;
use crate::config::{Key, Kinds, Value};
use crate::config::{PLANT_KEYS, TASK_KEYS, TASK_SIMULATE_KEYS, WORKER_KEYS, WORKER_SIMULATE_KEYS};
use crate::log::{Advice, Message, advice};
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of a key table, in Markdown.
fn rows(keys: &[Key]) -> String {
    let head = "| key | value | default | what it does |\n| --- | --- | --- | --- |\n";
    let row = |key: &Key| {
        let cells = [format!("`{}`", key.name), key.value.shape(), key.default_text(), key.text()];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
    };
    keys.iter().map(row).fold(head.to_owned(), |all, row| all + &row)
}

#[test]
fn the_tables_of_keys_are_those_of_the_source() {
    let page = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let kinds = Kinds::builtin();
    let mut tables: Vec<(String, &[Key])> = vec![
        ("worker".into(), WORKER_KEYS),
        ("worker.simulate".into(), WORKER_SIMULATE_KEYS),
        ("task".into(), TASK_KEYS),
        ("task.simulate".into(), TASK_SIMULATE_KEYS),
        ("task.simulate.plant".into(), PLANT_KEYS),
    ];
    for kind in kinds.iter() {
        tables.push((kind.name.into(), &kind.keys));
        for key in kind.keys.iter() {
            if let Value::Tables(keys) = key.value {
                tables.push((format!("{}.{}", kind.name, key.name), keys));
            }
        }
    }
    let made: Vec<_> = tables.iter().map(|(name, keys)| (format!("keys of {name}"), rows(keys))).collect();
    for name in page.split("<!-- keys of ").skip(1).filter_map(|rest| rest.split(" -->").next()) {
        let left_out = kinds.left_out().any(|kind| name.split('.').next() == Some(kind));
        assert!(left_out || tables.iter().any(|(known, _)| known == name), "no kind has the keys of {name}");
    }
    assert_generated("docs/configuration.md", &made);
}

/// Compares each text between `<!-- NAME -->` and `<!-- end -->` on a page with the one generated from the source. With `UPDATE_DOCS=1` the
/// page is updated first.
fn assert_generated(page: &str, made: &[(String, String)]) {
    let path = root().join(page);
    let mut wanted = fs::read_to_string(&path).unwrap();
    for (name, text) in made {
        let begin = format!("<!-- {name} -->\n");
        let (before, rest) = wanted.split_once(&begin).unwrap_or_else(|| panic!("{page} has no place for {name}"));
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        wanted = format!("{before}{begin}{text}<!-- end -->{after}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(found == wanted, "{page} differs from the source; write it with UPDATE_DOCS=1");
}

#[test]
fn the_exit_codes_are_those_of_the_source() {
    let rows = EXIT_CODES.map(|(code, when)| format!("| {code} | {when} |\n")).concat();
    assert_generated("docs/summary.md", &[("exit codes".into(), format!("| code | when |\n| --- | --- |\n{rows}"))]);
}

#[test]
fn the_causes_are_those_of_the_source() {
    let row = |(word, advice): (&str, _)| {
        let Advice { meaning, check, change } = advice;
        format!("| `{word}` | {meaning} | {check} | {change} |\n")
    };
    let head = "| cause | meaning | how to make sure | what to change |\n| --- | --- | --- | --- |\n";
    assert_generated(
        "docs/causes.md",
        &[("causes".into(), advice().map(row).fold(head.into(), |all, row| all + &row))],
    );
}

#[test]
fn every_event_is_documented_with_its_id_and_fields() {
    let page = fs::read_to_string(root().join("docs/summary.md")).unwrap();
    for message in Message::ALL {
        let (word, id) = (message.word(), message.id());
        let head = format!("| `{word}` | `{id}` |");
        let row = page.lines().find(|line| line.starts_with(&head));
        let row = row.unwrap_or_else(|| panic!("{word} is not documented with {id}"));
        for field in message.fields() {
            assert!(row.contains(&format!("`{field}`")), "{word}: {field} is missing");
        }
    }
}
