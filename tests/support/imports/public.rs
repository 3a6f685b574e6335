//! Finds a crate's public API: every `pub` item that a path of public modules and re-exports leads to. Fields, variants and the functions
//! of a trait belong to their type and are not separate items. Items under `#[doc(hidden)]` are listed separately.

use super::{File, Import, Module, Sources, item_end, module_of, modules, read_use, resolve, tokens, without_tests};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

/// The public items of a crate, each by its shortest path.
#[derive(Debug, Default)]
pub(crate) struct Public {
    pub(crate) items: BTreeSet<String>,
    /// Those that are `#[doc(hidden)]`, except for items inside a hidden module.
    pub(crate) hidden: BTreeSet<String>,
}

/// One item, or one function or constant of an `impl`.
struct Item<'a> {
    keyword: &'a str,
    name: &'a str,
    is_public: bool,
    is_hidden: bool,
    /// From its keyword to its end.
    tokens: &'a [&'a str],
}

const KEYWORDS: [&str; 10] = ["mod", "use", "fn", "const", "static", "struct", "enum", "trait", "type", "impl"];

/// The items of a file or a block, in order.
fn items<'a>(tokens: &'a [&'a str]) -> Vec<Item<'a>> {
    let (mut found, mut at) = (Vec::new(), 0);
    let (mut is_public, mut is_hidden) = (false, false);
    while at < tokens.len() {
        let word = tokens[at];
        if word == "#" && tokens.get(at + 1) == Some(&"[") {
            let end = closing(tokens, at + 1);
            is_hidden |= tokens[at..end].windows(4).any(|part| part == ["doc", "(", "hidden", ")"]);
            at = end;
        } else if word == "pub" {
            is_public = tokens.get(at + 1) != Some(&"(");
            at = if is_public { at + 1 } else { closing(tokens, at + 1) };
        } else if KEYWORDS.contains(&word) && !(word == "const" && matches!(tokens[at + 1], "fn" | "unsafe")) {
            let end = item_end(tokens, at);
            found.push(Item { keyword: word, name: tokens[at + 1], is_public, is_hidden, tokens: &tokens[at..end] });
            (is_public, is_hidden) = (false, false);
            at = end;
        } else {
            // `const fn`, `unsafe`, or the content of a macro call.
            at = if matches!(word, "{" | "(" | "[") { closing(tokens, at) } else { at + 1 };
        }
    }
    found
}

/// The position after the bracket that closes the one at `start`.
fn closing(tokens: &[&str], start: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The type of an inherent `impl`; `None` if it implements a trait.
fn implemented<'a>(item: &Item<'a>) -> Option<&'a str> {
    let head = item.tokens.split(|token| *token == "{").next()?;
    let mut depth = 0;
    let mut name = None;
    for (at, token) in head.iter().enumerate().skip(1) {
        match *token {
            "<" => depth += 1,
            ">" if head[at - 1] != "-" => depth -= 1,
            "for" if depth == 0 => return None,
            "where" if depth == 0 => break,
            word if depth == 0 && word.starts_with(char::is_alphabetic) => name = name.or(Some(word)),
            _ => (),
        }
    }
    name
}

struct Crate<'a> {
    items: BTreeMap<Module, Vec<Item<'a>>>,
    files: BTreeMap<Module, File>,
    found: Public,
    /// The path of each type that was reached, by its file and name.
    types: BTreeMap<(String, String), String>,
    walked: BTreeSet<Module>,
}

impl Crate<'_> {
    fn note(&mut self, path: String, is_hidden: bool) {
        if is_hidden { &mut self.found.hidden } else { &mut self.found.items }.insert(path);
    }

    /// Adds the public items of a module, under this path.
    fn walk(&mut self, module: &Module, path: &str) {
        if !self.walked.insert(module.clone()) {
            return;
        }
        let file = self.files[module].path.clone();
        let (mut own, mut inner, mut imports) = (Vec::new(), Vec::new(), Vec::new());
        for item in self.items[module].iter().filter(|item| item.is_public) {
            match item.keyword {
                "mod" if item.is_hidden => (),
                "mod" => inner.push(item.name.to_owned()),
                "use" if !item.is_hidden => _ = read_use(item.tokens, 1, &[], true, &mut imports),
                "use" => (),
                _ => own.push((item.name.to_owned(), item.is_hidden)),
            }
        }
        for (name, is_hidden) in own {
            self.reach(&file, &name, &format!("{path}{name}"), is_hidden);
        }
        for Import { path: from, name, .. } in imports {
            let defined = from.last().unwrap().clone();
            let files: Vec<String> = resolve(&self.files, module, &from).into_iter().map(str::to_owned).collect();
            for file in files {
                let items = &self.items[&module_of(&file)];
                let Some(item) = items.iter().find(|item| item.name == defined && item.keyword != "use") else {
                    continue;
                };
                let is_hidden = item.is_hidden;
                self.reach(&file, &defined, &format!("{path}{name}"), is_hidden);
            }
        }
        for name in inner {
            let inner = [&module[..], std::slice::from_ref(&name)].concat();
            if self.files.contains_key(&inner) {
                self.note(format!("{path}{name}"), false);
                self.walk(&inner, &format!("{path}{name}::"));
            }
        }
    }

    /// Notes an item once, under the first path that leads to it.
    fn reach(&mut self, file: &str, name: &str, path: &str, is_hidden: bool) {
        let key = (file.to_owned(), name.to_owned());
        if let Entry::Vacant(entry) = self.types.entry(key) {
            entry.insert(path.to_owned());
            self.note(path.to_owned(), is_hidden);
        }
    }

    /// Adds the members of the types that were reached, from any file.
    fn members(&mut self) {
        let mut members = Vec::new();
        for (module, items) in &self.items {
            for item in items.iter().filter(|item| item.keyword == "impl") {
                let Some(name) = implemented(item) else { continue };
                let mut of = resolve(&self.files, module, &[name.to_owned()]);
                of.insert(&self.files[module].path);
                let path = of.into_iter().find_map(|file| self.types.get(&(file.to_owned(), name.to_owned())));
                let Some(path) = path else { continue };
                let block = item.tokens.iter().position(|token| *token == "{").unwrap();
                let inside = self::items(&item.tokens[block + 1..item.tokens.len() - 1]);
                let inside = inside.iter().filter(|item| item.is_public);
                members.extend(inside.map(|item| (format!("{path}::{}", item.name), item.is_hidden)));
            }
        }
        for (path, is_hidden) in members {
            self.note(path, is_hidden);
        }
    }
}

/// The public API of a crate.
pub(crate) fn public(sources: &Sources) -> Public {
    let files = modules(sources);
    let texts: BTreeMap<Module, Vec<&str>> =
        files.iter().map(|(module, file)| (module.clone(), without_tests(&tokens(&sources[&file.path])).0)).collect();
    let items = texts.iter().map(|(module, tokens)| (module.clone(), items(tokens))).collect();
    let mut all = Crate { items, files, found: Public::default(), types: BTreeMap::new(), walked: BTreeSet::new() };
    all.walk(&Module::new(), "");
    all.members();
    all.found
}
