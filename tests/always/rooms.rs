//! Compares the table of rooms in docs/architecture.md with the imports of the code. A room uses only the rooms that its row allows and no
//! path that its row forbids. No files import each other in a cycle (this covers benches/peers too). No process-wide state exists where
//! each daemon has its own.

use crate::imports::{Sources, Table, cycles, table, uses, violations};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn documented() -> Table {
    table(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md")).unwrap())
}

fn read_folder(folder: &Path, under: &str, into: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{under}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            read_folder(&path, &format!("{name}/"), into);
        } else if name.ends_with(".rs") {
            into.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The files under a folder of the repository; none if the folder does not exist.
fn folder(path: &str) -> Sources {
    let mut sources = Sources::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if folder.is_dir() {
        read_folder(&folder, "", &mut sources);
    }
    sources
}

/// The crate's own files.
pub(crate) fn sources() -> Sources {
    folder("src")
}

/// Adds `line` to a file.
fn add(sources: &mut Sources, path: &str, line: &str) {
    sources.get_mut(path).unwrap_or_else(|| panic!("no {path}")).push_str(&format!("\n{line}\n"));
}

/// A small crate: two rooms, one of which re-exports what its files define.
fn small(edit: impl Fn(&mut Sources)) -> Sources {
    let mut sources: Sources = [
        ("lib.rs", "mod low; mod high; pub use high::Wide;"),
        ("low/mod.rs", "mod leaf; pub(crate) use leaf::{Leaf, Twig as Stick}; pub(crate) struct Own;"),
        ("low/leaf.rs", "pub(crate) struct Leaf; pub(crate) struct Twig;"),
        ("high/mod.rs", "mod wide; pub use wide::Wide;"),
        ("high/wide.rs", "use crate::low::{self, Leaf}; pub struct Wide(Leaf, low::Stick, crate::low::Own);"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    edit(&mut sources);
    sources
}

fn small_table() -> Table {
    table(
        "| room | may use | must not name |\n| --- | --- | --- |\n| `low` | nothing | `std::fs` |\n| `high` | `low` | |",
    )
}

#[test]
fn every_room_uses_only_what_its_row_allows() {
    let found = violations(&documented(), &sources());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    // The package does not contain benches/peers.
    for crate_of in ["src", "benches/peers/src"].map(folder).into_iter().filter(|sources| !sources.is_empty()) {
        let found: Vec<_> = cycles(&crate_of).into_iter().map(|cycle| cycle.join(" -> ")).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

/// Files that may have statics and thread-locals, since these belong to the process or a thread. All other state belongs to a daemon, and a
/// process may have two daemons.
const WITH_STATICS: [&str; 7] = [
    "sys/",
    "main.rs",            // the allocator
    "program.rs",         // the program's name
    "log/journal/mod.rs", // the process's journal
    "log/lines.rs",       // the lines for its stderr
    "cli/base/log.rs",    // likewise
    "worker/panic.rs",    // per thread: where its panics go
];

/// The place where a file keeps process-wide state, its tests excluded.
fn keeps(text: &str) -> Option<&str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_static = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest).trim_start(),
            None => rest.trim_start(),
        });
        rest.starts_with("static ") || rest.starts_with("thread_local!") || rest.starts_with("std::thread_local!")
    };
    code.lines().find(|line| is_static(line))
}

#[test]
fn what_tasks_share_belongs_to_their_daemon() {
    for (path, text) in sources() {
        let may = WITH_STATICS.iter().any(|room| path.starts_with(room)) || path.contains("tests");
        assert!(may || keeps(&text).is_none(), "{path}: {:?}; keep it in `Site::common`", keeps(&text));
    }
    for way in [
        "static A: u8 = 0;",
        "pub(in crate::kinds) static A: u8 = 0;",
        "    thread_local! {",
        "pub static mut A: u8 = 0;",
    ] {
        assert!(keeps(&format!("fn f() {{\n{way}\n}}")).is_some(), "{way}");
    }
    assert_eq!(keeps("fn f(_: &'static str) {}\n// static\n#[cfg(test)]\nmod tests {\n static A: u8 = 0; }"), None);
}

/// The files that may write to stdout and stderr, and why.
const PRINTERS: [(&str, &str); 4] = [
    ("cli/base/terminal.rs", "escapes what would command a terminal"),
    ("cli/base/log.rs", "the log's lines, whose fields are escaped"),
    ("cli/top/screen.rs", "the live view, whose cells are cleaned"),
    ("log/journal/mod.rs", "only asks where stderr leads"),
];

/// The place where a file writes to stdout or stderr, its tests excluded.
fn prints(text: &str) -> Option<&str> {
    let code = text.split("mod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let ways = ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!(", "stdout()", "stderr()", "error.print()"];
    let is_word = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let has = |line: &str, way: &str| line.match_indices(way).any(|(at, _)| is_word(&line[..at]));
    lines.filter(|line| !line.contains("terminal::stdout(")).find(|line| ways.iter().any(|way| has(line, way)))
}

#[test]
fn text_leaves_the_process_in_one_place() {
    for (path, text) in sources() {
        let may = path.contains("tests") || PRINTERS.iter().any(|(printer, _)| *printer == path);
        assert!(may || prints(&text).is_none(), "{path} prints: {:?}; use cli/base/terminal.rs", prints(&text));
    }
    for (printer, why) in PRINTERS {
        assert!(prints(&sources()[printer]).is_some(), "{printer} prints nothing any more ({why})");
    }
    for way in ["eprintln!(\"x\");", "use std::io; io::stdout().write_all(b\"x\");", "let out = stderr();"] {
        assert!(prints(&format!("fn f() {{\n{way}\n}}")).is_some(), "{way}");
    }
    assert_eq!(prints("// println!(\n#[cfg(test)]\nmod tests { fn f() { println!(); } }"), None);
}

#[test]
fn a_forbidden_use_is_found_in_the_real_code() {
    let added = [
        ("pacing/rate.rs", "use crate::sys::clock::KernelClock;", "pacing/rate.rs uses sys/clock.rs"),
        ("time/mod.rs", "fn f() { crate::config::schema_with(todo!(), &[]); }", "time/mod.rs uses config/schema.rs"),
        ("worker/run.rs", "use tracing::info;", "worker/run.rs names tracing::info"),
        ("pacing/credit.rs", "fn f() { std::fs::read(\"x\"); }", "pacing/credit.rs names std::fs::read"),
        ("metrics/task.rs", "use super::Metrics;", "metrics/task.rs uses metrics/collect.rs"),
        (
            "daemon/watch/stall.rs",
            "use crate::daemon::main::run::run;",
            "daemon/watch/stall.rs uses daemon/main/run.rs",
        ),
        ("cli/base/app.rs", "use crate::cli::check;\nfn f() { check::check(); }", "cli/base/app.rs uses cli/check.rs"),
    ];
    let mut all = sources();
    added.iter().for_each(|(path, line, _)| add(&mut all, path, line));
    let expected: BTreeSet<_> = added.map(|(.., expected)| expected.to_owned()).into();
    assert_eq!(BTreeSet::from_iter(violations(&documented(), &all)), expected);
}

#[test]
fn a_cycle_is_found_in_the_real_code() {
    let mut sources = sources();
    let before = cycles(&sources);
    add(&mut sources, "time/mod.rs", "use crate::pacing::Rate;");
    let after = cycles(&sources);
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.contains(&&vec!["pacing/rate.rs".to_owned(), "time/mod.rs".to_owned()]), "{new:?}");
}

#[test]
fn allowed_uses_are_not_reported() {
    assert_eq!(violations(&small_table(), &small(|_| ())), Vec::<String>::new());
    assert_eq!(cycles(&small(|_| ())), BTreeSet::new());
}

#[test]
fn a_path_resolves_to_the_file_that_defines_the_name() {
    let uses = uses(&small(|_| ()));
    assert_eq!(uses["high/wide.rs"], BTreeSet::from(["low/leaf.rs".to_owned(), "low/mod.rs".to_owned()]));
    assert!(uses["high/mod.rs"].is_empty() && uses["low/mod.rs"].is_empty(), "passing names on is no use: {uses:?}");
}

#[test]
fn a_room_within_a_room_has_a_row_of_its_own() {
    let rows = |inner: &str, outer: &str| {
        table(&format!(
            "| room | may use | |\n| - | - | - |\n| `high/inner` | {inner} | |\n| `high` | {outer} | |\n| `low` | all but `high` | |"
        ))
    };
    let uses = |path: &str, used: &str| {
        small(|sources| {
            sources.get_mut("high/mod.rs").unwrap().push_str("pub(crate) mod inner; pub(crate) mod other;");
            for inner in ["inner/mod.rs", "inner/leaf.rs", "other.rs"] {
                sources.insert(format!("high/{inner}"), "pub(crate) struct Here;".into());
            }
            sources.get_mut("high/inner/mod.rs").unwrap().push_str("pub(crate) mod leaf;");
            sources.get_mut(path).unwrap().push_str(&format!("use crate::{used};"));
        })
    };
    let below = rows("`low`", "`low`, `high/inner`");
    let to_inner = "high::inner::leaf::Here";
    for (path, used, table, is_allowed) in [
        ("high/wide.rs", to_inner, &below, true),
        ("high/wide.rs", to_inner, &rows("`low`", "`low`"), false),
        ("high/inner/leaf.rs", "high::inner::Here", &below, true),
        ("high/inner/leaf.rs", "low::Leaf", &below, true),
        ("high/inner/leaf.rs", "low::Leaf", &rows("nothing", "`low`"), false),
        ("high/inner/leaf.rs", "high::other::Here", &below, false),
        ("high/inner/leaf.rs", "high::other::Here", &rows("`high`", "`low`"), true),
        ("low/leaf.rs", to_inner, &below, false),
        ("low/leaf.rs", "high::other::Here", &below, false),
    ] {
        assert_eq!(violations(table, &uses(path, used)).is_empty(), is_allowed, "{path} uses {used}: {table:?}");
    }
}

#[test]
fn every_way_to_write_a_forbidden_use_is_found() {
    for line in [
        "use crate::high::Wide;",
        "use crate::{high::{Wide as W}};",
        "use super::super::high::*;",
        "use crate::high; fn f(_: high::Wide) {}",
        "fn f(_: crate::high::Wide) {}",
        "use crate::Wide;",
        "fn f() -> [u8; 3] { super::super::high::wide::Wide::new::<'static>('\"', r#\"\"\"#) }",
    ] {
        let found =
            violations(&small_table(), &small(|sources| sources.get_mut("low/leaf.rs").unwrap().push_str(line)));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
    }
}

#[test]
fn comments_strings_and_tests_are_ignored() {
    for line in [
        "/// See [`crate::high::Wide`].\nfn f() {}",
        "const TEXT: &str = \"use crate::high::Wide; \\\" crate::high::Wide\";",
        "#[cfg(test)] mod tests { use super::*; use crate::high::Wide; }",
        "#[cfg(test)] use crate::high::Wide;",
    ] {
        let found =
            violations(&small_table(), &small(|sources| sources.get_mut("low/leaf.rs").unwrap().push_str(line)));
        assert_eq!(found, Vec::<String>::new(), "{line}");
    }
    let in_a_file = small(|sources| {
        sources.get_mut("low/mod.rs").unwrap().push_str("#[cfg(test)] mod tests;");
        sources.insert("low/tests.rs".into(), "use crate::high::Wide;".into());
    });
    assert_eq!(violations(&small_table(), &in_a_file), Vec::<String>::new());
}

#[test]
fn a_cycle_of_any_length_is_found() {
    let cycle_of = |edits: &[(&str, &str)]| {
        cycles(&small(|sources| edits.iter().for_each(|(path, line)| sources.get_mut(*path).unwrap().push_str(line))))
    };
    let files = |paths: &[&str]| BTreeSet::from([paths.iter().copied().map(str::to_owned).collect::<Vec<_>>()]);
    assert_eq!(cycle_of(&[("low/leaf.rs", "use super::Own;")]), BTreeSet::new());
    assert_eq!(
        cycle_of(&[("low/leaf.rs", "use super::Own;"), ("low/mod.rs", "fn f(_: Leaf) {}")]),
        files(&["low/leaf.rs", "low/mod.rs"])
    );
    assert_eq!(
        cycle_of(&[("low/leaf.rs", "use super::Own;"), ("low/mod.rs", "use crate::Wide;")]).len(),
        2,
        "one through each pair of files"
    );
}

#[test]
fn a_name_may_stand_for_a_module_and_for_another_item() {
    let edited = |edits: &[(&str, &str)]| {
        small(|sources| {
            for (path, line) in edits {
                sources.entry((*path).to_owned()).or_default().push_str(line);
            }
        })
    };
    let cycle = |one: &str, other: &str| BTreeSet::from([vec![one.to_owned(), other.to_owned()]]);
    let leaf_imports_it = ("low/leaf.rs", "use super::stem; fn f() { stem::twig(); }");
    // A function, and an imported module of the same name.
    let function = ("low/stem.rs", "use super::{leaf, twig}; pub(crate) fn twig(_: leaf::Leaf) { twig::N }");
    let twig = ("low/twig.rs", "pub(crate) const N: u8 = 0;");
    let modules = ("low/mod.rs", "mod stem; mod twig;");
    let sources = edited(&[modules, twig, function, leaf_imports_it]);
    assert_eq!(cycles(&sources), cycle("low/leaf.rs", "low/stem.rs"));
    assert!(uses(&sources)["low/stem.rs"].contains("low/twig.rs"));
    // The room's own module, and a function of the same name.
    let beside = ("low/mod.rs", "mod stem; pub(crate) fn stem(_: leaf::Leaf) {}");
    let called = ("low/leaf.rs", "fn f() { super::stem(); }");
    assert_eq!(cycles(&edited(&[beside, ("low/stem.rs", ""), called])), cycle("low/leaf.rs", "low/mod.rs"));
    // A function with its module's name, re-exported.
    let passed = ("low/mod.rs", "mod stem; pub(crate) use stem::stem;");
    let stem = ("low/stem.rs", "pub(crate) fn stem(_: super::Leaf) {}");
    assert_eq!(cycles(&edited(&[passed, stem, called])), cycle("low/leaf.rs", "low/stem.rs"));
}

#[test]
fn a_cycle_through_the_root_of_a_program_is_found() {
    let program: Sources = [
        ("main.rs", "mod page; struct Arguments; fn main() { page::print(&Arguments); }"),
        ("page.rs", "use crate::Arguments; pub(crate) fn print(_: &Arguments) {}"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    assert_eq!(cycles(&program), BTreeSet::from([vec!["main.rs".to_owned(), "page.rs".to_owned()]]));
}

#[test]
fn a_room_without_a_row_and_a_row_without_a_room_are_found() {
    let mut table = small_table();
    let row = table.remove("low").unwrap();
    table.insert("gone".into(), row);
    let found = violations(&table, &small(|_| ()));
    assert_eq!(found[..2], ["low is not in the table", "gone is not in src"]);
}
