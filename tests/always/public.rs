//! The library's public items: `public.txt` lists them (`UPDATE_DOCS=1` writes it), so that no item becomes public, or ceases to be,
//! unnoticed.

use crate::imports::{Sources, public::public};
use crate::rooms::sources;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The maximum number of public items: a user reads them all.
const MOST: usize = 150;

/// The maximum number of items that are public only for the tests, beside `internals`.
const MOST_HIDDEN: usize = 7;

/// The maximum number of names in `internals`: a test of anything else uses the program, or is beside the code it tests.
const MOST_INTERNAL: usize = 23;

#[test]
fn what_is_public_is_listed_and_little() {
    let found = public(&sources());
    let list = |items: &BTreeSet<String>| items.iter().map(|item| format!("{item}\n")).collect::<String>();
    let text = format!("{}\nHidden, for the tests:\n{}", list(&found.items), list(&found.hidden));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/always/public.txt");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let listed = fs::read_to_string(&path).unwrap();
    assert!(listed == text, "tests/always/public.txt differs: UPDATE_DOCS=1 writes it:\n{text}");
    assert!(found.items.len() <= MOST, "{} public items; at most {MOST}", found.items.len());
    assert!(found.hidden.len() <= MOST_HIDDEN, "{} hidden items; at most {MOST_HIDDEN}", found.hidden.len());
}

#[test]
fn what_tests_use_of_the_inside_is_little() {
    let text = &sources()["lib.rs"];
    let (_, inside) = text.split_once("pub mod internals {").unwrap();
    let (inside, _) = inside.split_once("\n}").unwrap();
    let code: String = inside.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let names = |used: &str| used.split(',').filter(|name| name.contains(char::is_alphanumeric)).count();
    let found: usize = code.split(';').map(names).sum();
    assert!(found <= MOST_INTERNAL, "{found} names in internals; at most {MOST_INTERNAL}");
}

#[test]
fn an_item_is_found_by_each_way_that_makes_it_public() {
    let sources: Sources = [
        (
            "lib.rs",
            "pub mod open; mod shut; #[doc(hidden)] pub mod internals { pub use crate::shut::Unseen; } pub use shut::{Shown, free}; #[cfg(test)] pub use shut::Test;",
        ),
        ("open/mod.rs", "mod leaf; pub use crate::shut::Shown; pub(crate) use leaf::Kept; pub use leaf::Leaf; pub const ONE: u8 = 1;"),
        ("open/leaf.rs", "pub struct Leaf { pub field: u8 } pub struct Kept; impl<T: Fn() -> u8> Leaf<T> { pub const fn new() {} fn own() {} #[doc(hidden)] #[must_use] pub fn seen() {} }"),
        (
            "shut.rs",
            "use crate::open::Leaf; pub struct Shown; pub struct Unseen; impl Unseen { pub fn no() {} } impl Leaf { pub fn far() {} pub(crate) fn near() {} } \
             impl From<Shown> for Leaf { fn from() {} } pub fn free() {} pub fn bound() {} pub trait Lost {}",
        ),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    let found = public(&sources);
    assert_eq!(
        found.items.into_iter().collect::<Vec<_>>(),
        ["Shown", "free", "open", "open::Leaf", "open::Leaf::far", "open::Leaf::new", "open::ONE"]
    );
    assert_eq!(found.hidden.into_iter().collect::<Vec<_>>(), ["open::Leaf::seen"]);
}
