//! A device that this machine has, and the section of a configuration that would use it. Reads small files of `/sys` and
//! `/proc`; may block; not for a hot thread.

use serde_json::Value;
use std::io;
use std::path::Path;

/// One device.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundDevice {
    pub(crate) class: &'static str,  // what the kernel calls such devices
    pub(crate) name: String,         // what it is called
    pub(crate) node: Option<String>, // its node in /dev, where the kind opens one
    pub(crate) about: Vec<String>,   // facts to choose by: channels, lines, formats
    /// What is missing before the section can be used. Empty: it can be pasted and run.
    pub(crate) needs: Vec<String>,
    pub(crate) refused: Option<String>, // why this user cannot open the node, with the remedy
    pub(crate) task: String,            // the section's name, kind and rate
    pub(crate) kind: &'static str,
    pub(crate) rate: &'static str,
    pub(crate) keys: Vec<(&'static str, String, &'static str)>, // the kind's own keys: name, value in TOML, comment
    /// Keys to choose instead or as well; commented out in any case.
    pub(crate) choices: Vec<(&'static str, String, &'static str)>,
}

impl FoundDevice {
    /// The section for a configuration.
    pub(crate) fn section(&self) -> String {
        let line = |key: &str, value: &str, comment: &str| match comment {
            "" => format!("{key} = {value}\n"),
            comment => format!("{key} = {value} # {comment}\n"),
        };
        let mut section = format!("[task.{}]\nkind = {}\nrate = {}\n", self.task, quoted(self.kind), quoted(self.rate));
        section.extend(self.keys.iter().map(|(key, value, comment)| line(key, value, comment)));
        section.extend(self.choices.iter().map(|(key, value, comment)| format!("#{}", line(key, value, comment))));
        section
    }
}

/// A text in TOML.
pub(crate) fn quoted(text: &str) -> String {
    // A TOML string escapes as JSON does, and DEL as well.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A name for a task, made of this text.
pub(crate) fn task_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words: Vec<_> = text.split(|c| !fits(c)).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").to_lowercase().chars().take(40).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

/// The first line of a small file, without white space around it; `None` if there is none.
pub(crate) fn first_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The files of a folder whose names are this prefix and a number, in the order of those numbers.
pub(crate) fn numbered(folder: &Path, prefix: &str) -> io::Result<Vec<(u32, String)>> {
    let number = |name: String| Some((name.strip_prefix(prefix)?.parse().ok()?, name));
    let mut found: Vec<_> = file_names(folder)?.into_iter().filter_map(number).collect();
    found.sort();
    Ok(found)
}

/// The names of the files in a folder, in order.
pub(crate) fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)?;
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}
