//! Finds which files of a crate import each other, and compares that with a table of rooms.
//!
//! A path (in a `use` or inline) resolves to the file that defines its name; re-exports are followed. If a name stands for several things,
//! such as a function and a module, the path resolves to the files of all of them. `mod child;` and
//! `pub use child::Name;` alone import nothing. Naming a module imports nothing until something in it is used.
//! Code under `#[cfg(test)]` is ignored, as is `main.rs` beside a `lib.rs`. The root may name every room.

pub(crate) mod public;

use std::collections::{BTreeMap, BTreeSet};

/// The text of each file, by its path under `src/`.
pub(crate) type Sources = BTreeMap<String, String>;

/// The row of each room: a folder, or a file without `.rs`. A folder or file within another room is its own room if it has a row.
pub(crate) type Table = BTreeMap<String, Row>;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The rooms that this room may use.
    allowed: BTreeSet<String>,
    /// The paths of std and of other crates that it must not name.
    forbidden: BTreeSet<String>,
}

/// A module by its path from the crate's root; the root is empty.
type Module = Vec<String>;

/// The references of one file to others.
#[derive(Debug, Default)]
struct File {
    path: String,
    /// The names of the items it defines itself, except inside blocks.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths with at least two segments, outside of `use`.
    inline: Vec<Vec<String>>,
    /// The number of times each word occurs outside of `use`.
    words: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Import {
    path: Vec<String>,
    /// Its name in this file; `*` for all names of a module.
    name: String,
    public: bool,
}

/// The words and punctuation of `text`, without comments, strings and lifetimes. `::` is one token.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let after = &rest[word..];
        let raw = matches!(&rest[..word], "r" | "br" | "cr") && after.trim_start_matches('#').starts_with('"');
        let length = if raw {
            let hashes = after.find('"').unwrap();
            let end = format!("\"{}", "#".repeat(hashes));
            word + hashes + 1 + after[hashes + 1..].find(&end).unwrap() + end.len()
        } else if word > 0 {
            tokens.push(&rest[..word]);
            word
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            let mut next = rest[1..].chars();
            let escaped = next.next() == Some('\\');
            if escaped || next.next() == Some('\'') { quoted(rest, '\'') } else { 1 }
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(&rest[..length]);
            }
            length
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of the literal at the start of `text`, including both quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = true; // do not stop at the opening quote
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    panic!("no closing {quote}: {text}");
}

/// The end of the item that begins at `start`: after its `;` or its block.
fn item_end(tokens: &[&str], start: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match *token {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" => depth -= 1,
            _ => (),
        }
        if depth == 0 && matches!(*token, ";" | "}") {
            return at + 1;
        }
    }
    tokens.len()
}

/// Removes every item under `#[cfg(test)]`. Also returns the test modules that have their own files.
fn without_tests<'a>(tokens: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut files, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at..].starts_with(&ATTRIBUTE) {
            let start = at + ATTRIBUTE.len();
            at = item_end(tokens, start);
            if let ["mod", name, ";"] = tokens[start..at] {
                files.push(name);
            }
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    (kept, files)
}

/// Reads the tree of a `use` from `at`; returns the index of the token that ends it.
fn read_use(tokens: &[&str], mut at: usize, prefix: &[String], public: bool, into: &mut Vec<Import>) -> usize {
    let mut path = prefix.to_vec();
    let mut name = None;
    loop {
        match tokens[at] {
            "," | ";" | "}" => break,
            "::" => (),
            "{" => {
                while tokens[at] != "}" {
                    at = read_use(tokens, at + 1, &path, public, into);
                }
                return at + 1;
            }
            "as" => {
                at += 1;
                name = Some(tokens[at].to_owned());
            }
            "*" => {
                path.push("*".to_owned());
                name = Some("*".to_owned());
            }
            "self" if !path.is_empty() => (),
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    if path.len() > prefix.len() || tokens[at - 1] == "self" || name.is_some() {
        let name = name.or(path.last().cloned()).unwrap_or_default();
        into.push(Import { path, name, public });
    }
    at
}

/// The names of the items that `tokens` define outside of any block.
fn items(tokens: &[&str]) -> BTreeSet<String> {
    const KEYWORDS: [&str; 8] = ["fn", "const", "static", "struct", "enum", "union", "trait", "type"];
    let mut depth = 0;
    let mut items = BTreeSet::new();
    for pair in tokens.windows(2) {
        match pair[0] {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            word if depth == 0 && KEYWORDS.contains(&word) => _ = items.insert(pair[1].to_owned()),
            _ => (),
        }
    }
    items
}

/// The paths and words of a file, without its tests.
fn read_file(path: &str, tokens: &[&str]) -> File {
    let is_word =
        |at: usize| tokens.get(at).is_some_and(|token| token.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    let mut file = File { path: path.to_owned(), items: items(tokens), ..File::default() };
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            let public = at > 0 && matches!(tokens[at - 1], "pub" | ")");
            at = read_use(tokens, at + 1, &[], public, &mut file.imports);
        } else if is_word(at) {
            let mut segments = vec![tokens[at].to_owned()];
            while tokens.get(at + 1) == Some(&"::") && is_word(at + 2) {
                segments.push(tokens[at + 2].to_owned());
                at += 2;
            }
            *file.words.entry(segments[0].clone()).or_default() += 1;
            if segments.len() > 1 {
                file.inline.push(segments);
            }
            at += 1;
        } else {
            at += 1;
        }
    }
    file
}

/// The module that a file holds.
fn module_of(path: &str) -> Module {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(module.last().unwrap().as_str(), "mod" | "lib" | "main") {
        module.pop();
    }
    module
}

/// All files that are not tests.
fn modules(sources: &Sources) -> BTreeMap<Module, File> {
    let (mut modules, mut tests) = (BTreeMap::new(), Vec::new());
    let has_library = sources.contains_key("lib.rs");
    for (path, text) in sources.iter().filter(|(path, _)| !has_library || *path != "main.rs") {
        let (tokens, files) = without_tests(&tokens(text));
        let module = module_of(path);
        tests.extend(files.into_iter().map(|name| [&module[..], &[name.to_owned()]].concat()));
        modules.insert(module, read_file(path, &tokens));
    }
    modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    modules
}

/// The files that define the name at `path`, as seen from `module`. Empty for another crate, or for a module itself.
fn resolve<'a>(modules: &'a BTreeMap<Module, File>, module: &[String], path: &[String]) -> BTreeSet<&'a str> {
    let Some((first, rest)) = path.split_first() else { return BTreeSet::new() };
    match first.as_str() {
        "crate" => resolve_in(modules, &[], rest),
        "self" => resolve_in(modules, module, rest),
        "super" => {
            let ups = path.iter().take_while(|segment| *segment == "super").count();
            // More `super`s than parents: this is inside an inline module.
            resolve_in(modules, &module[..module.len().saturating_sub(ups)], &path[ups..])
        }
        _ if modules.contains_key(&[module, std::slice::from_ref(first)].concat()) => resolve_in(modules, module, path),
        _ => resolve_imported(modules, module, path),
    }
}

/// Like `resolve`, for a path whose first segment is in `module`.
fn resolve_in<'a>(modules: &'a BTreeMap<Module, File>, module: &[String], path: &[String]) -> BTreeSet<&'a str> {
    let Some((first, rest)) = path.split_first() else { return BTreeSet::new() };
    let child = [module, std::slice::from_ref(first)].concat();
    let is_module = modules.contains_key(&child);
    // A module and another item may share a name, but only the module contains items.
    if is_module && !rest.is_empty() {
        return resolve_in(modules, &child, rest);
    }
    let file = &modules[module];
    let mut found = resolve_imported(modules, module, path);
    let is_imported = file.imports.iter().any(|import| import.name == *first);
    if rest.is_empty() && file.items.contains(first) || !is_module && !is_imported {
        found.insert(&file.path);
    }
    found
}

/// Like `resolve`, for a path whose first segment is the name of an import of `module`.
fn resolve_imported<'a>(modules: &'a BTreeMap<Module, File>, module: &[String], path: &[String]) -> BTreeSet<&'a str> {
    let is_module = |name: &String| modules.contains_key(&[module, std::slice::from_ref(name)].concat());
    let named = modules[module].imports.iter().filter(|import| import.name == path[0]);
    // Paths such as `use name::Thing as name;` resolve to another crate, unless they begin with a module.
    let of_the_crate = named.filter(|import| import.path[0] != path[0] || import.path.len() > 1 && is_module(&path[0]));
    of_the_crate.flat_map(|import| resolve(modules, module, &[&import.path, &path[1..]].concat())).collect()
}

/// Every file with the files that it uses.
pub(crate) fn uses(sources: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let modules = modules(sources);
    let used_by = |(module, file): (&Module, &File)| {
        let imports = file.imports.iter().filter(|import| {
            let only_passed_on = import.public && !file.words.contains_key(&import.name);
            !only_passed_on
        });
        let paths = imports.map(|import| &import.path).chain(&file.inline);
        let files = paths.flat_map(|path| resolve(&modules, module, path));
        let files = files.filter(|used| *used != file.path).map(str::to_owned).collect();
        (file.path.clone(), files)
    };
    modules.iter().map(used_by).collect()
}

/// The room that a file is in: the innermost room with a row, otherwise the top-level module.
fn room<'a>(table: &Table, path: &'a str) -> &'a str {
    let module = path.trim_end_matches(".rs");
    let folders = module.rmatch_indices('/').map(|(end, _)| &module[..end]);
    let mut rooms = [module].into_iter().chain(folders);
    rooms.find(|room| table.contains_key(*room)).unwrap_or_else(|| module.split('/').next().unwrap())
}

/// Whether `room` is `outer` or lies within it.
fn is_within(room: &str, outer: &str) -> bool {
    room.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a file is the root of its crate.
fn is_root(path: &str) -> bool {
    module_of(path).is_empty()
}

/// Each use that the table forbids, and each room that exists only in the code or only in the table.
pub(crate) fn violations(table: &Table, sources: &Sources) -> Vec<String> {
    let mut uses = uses(sources);
    uses.retain(|path, _| !is_root(path));
    let rooms: BTreeSet<_> = uses.keys().map(|path| room(table, path)).collect();
    let listed: BTreeSet<_> = table.keys().map(String::as_str).collect();
    let mut found: Vec<_> = rooms.difference(&listed).map(|room| format!("{room} is not in the table")).collect();
    found.extend(listed.difference(&rooms).map(|room| format!("{room} is not in src")));
    for (path, used) in &uses {
        let own = room(table, path);
        // A room in a row stands for the rooms within it too, unless the row's own room lies within it.
        let is_meant = |used: &str, room: &str| used == room || is_within(used, room) && !is_within(own, room);
        let is_allowed =
            |used: &str| table.get(own).is_some_and(|row| row.allowed.iter().any(|room| is_meant(used, room)));
        let outside = used.iter().map(|used| (used, room(table, used))).filter(|(_, used)| *used != own);
        found.extend(outside.filter(|(_, room)| !is_allowed(room)).map(|(used, _)| format!("{path} uses {used}")));
    }
    for file in modules(sources).values() {
        let paths = file.imports.iter().map(|import| &import.path).chain(&file.inline);
        for named in paths.map(|path| path.join("::")) {
            let is = |forbidden: &String| named == *forbidden || named.starts_with(&format!("{forbidden}::"));
            if table.get(room(table, &file.path)).is_some_and(|row| row.forbidden.iter().any(is)) {
                found.push(format!("{} names {named}", file.path));
            }
        }
    }
    found
}

/// For each file in a cycle, a shortest cycle through it: its files in the order of their imports.
pub(crate) fn cycles(sources: &Sources) -> BTreeSet<Vec<String>> {
    let uses = uses(sources);
    let through = |start: &String| {
        let mut came_from: BTreeMap<&String, &String> = BTreeMap::new();
        let mut queue = vec![start];
        let mut next = 0;
        while let Some(file) = queue.get(next).copied() {
            next += 1;
            for used in &uses[file] {
                if used == start {
                    let mut cycle = vec![file];
                    while let Some(earlier) = came_from.get(cycle.last().unwrap()) {
                        cycle.push(earlier);
                    }
                    cycle.reverse();
                    let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap();
                    cycle.rotate_left(first);
                    return Some(cycle.into_iter().cloned().collect());
                }
                if !came_from.contains_key(used) {
                    came_from.insert(used, file);
                    queue.push(used);
                }
            }
        }
        None
    };
    uses.keys().filter_map(through).collect()
}

/// Reads the table of rooms from a page. Only words in backticks count: the rooms, the rooms they may use, and the paths they must not
/// name.
pub(crate) fn table(page: &str) -> Table {
    let rows = page.lines().skip_while(|line| !line.starts_with("| room |")).skip(2);
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let cells = |row: &str| row.split('|').map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).map(cells).collect();
    let all: BTreeSet<_> = rows.iter().flat_map(|cells| quoted(&cells[1])).collect();
    let mut table = Table::new();
    for cells in rows {
        let mut allowed = quoted(&cells[2]);
        if cells[2].trim().starts_with("all") {
            let excepted = |room: &String| allowed.iter().any(|excepted| is_within(room, excepted));
            allowed = all.iter().filter(|room| !excepted(room)).cloned().collect();
        }
        let row = Row { allowed, forbidden: quoted(&cells[3]) };
        table.extend(quoted(&cells[1]).into_iter().map(|room| (room, row.clone())));
    }
    table
}
