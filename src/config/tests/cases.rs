//! Configurations and the messages they are rejected with. One file of `tests/fixtures` holds many cases, written as
//!
//! ```text
//! ### NAME
//! the configuration
//! ---
//! the whole message
//! ```
//!
//! Accepted configurations have neither `---` nor a message.

use std::fs;
use std::path::{Path, PathBuf};

/// One configuration.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) toml: String,
    /// The error message; empty if the configuration is accepted.
    pub(crate) message: String,
}

/// The files of a folder of fixtures, by topic.
pub(crate) fn topics(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(fixtures().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut topics: Vec<_> = entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    topics.sort();
    topics
}

/// The cases of one file.
pub(crate) fn read(folder: &str, topic: &str) -> Vec<Case> {
    let text = fs::read_to_string(file(folder, topic)).unwrap();
    let (first, rest) = text.split_once("### ").unwrap();
    assert!(first.is_empty(), "{folder}/{topic} does not begin with a name");
    let case = |text: &str| {
        let (name, text) = text.split_once('\n').unwrap();
        let (toml, message) = text.split_once("---\n").unwrap_or((text, ""));
        Case { name: name.to_owned(), toml: toml.to_owned(), message: message.to_owned() }
    };
    rest.split("\n### ").map(case).map(|case| Case { message: with_newline(case.message), ..case }).collect()
}

/// Writes the cases of one file.
pub(crate) fn write(folder: &str, topic: &str, cases: &[Case]) {
    let text = cases.iter().map(|case| format!("### {}\n{}---\n{}", case.name, case.toml, case.message));
    fs::write(file(folder, topic), text.collect::<Vec<_>>().join("\n")).unwrap();
}

/// Restores the final line break, which `split` removed with the empty line before the next name.
fn with_newline(message: String) -> String {
    if message.is_empty() || message.ends_with('\n') { message } else { message + "\n" }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn file(folder: &str, topic: &str) -> PathBuf {
    fixtures().join(folder).join(format!("{topic}.txt"))
}
