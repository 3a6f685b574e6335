//! A device of this machine, with a configuration section that would use it. Reads small files in `/sys` and `/proc`; may block; not for a
//! hot thread.

use serde_json::Value;
use std::io;
use std::path::Path;

/// A device that was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundDevice {
    pub(crate) class: &'static str,  // the kernel's name for such devices
    pub(crate) name: String,         // its name
    pub(crate) node: Option<String>, // its node in /dev, if the kind opens one
    pub(crate) about: Vec<String>,   // facts for the choice: channels, lines, formats
    /// What is missing before the section can be used. Empty: it can be pasted and run.
    pub(crate) needs: Vec<String>,
    pub(crate) refused: Option<String>, // why this user cannot open the node, with the remedy
    pub(crate) task: String,            // the section's name, kind and rate
    pub(crate) kind: &'static str,
    pub(crate) rate: &'static str,
    pub(crate) keys: Vec<(&'static str, String, &'static str)>, // the kind's own keys: name, value in TOML, comment
    /// Alternative or additional keys; always commented out.
    pub(crate) choices: Vec<(&'static str, String, &'static str)>,
}

impl FoundDevice {
    /// The text of the section.
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

/// The condition of the choice `stuck-after`.
pub(crate) const IF_IT_MOVES: &str = "if its readings always move a little";

/// The text as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    // TOML strings use the escapes of JSON, and also escape DEL.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A task name derived from this text.
pub(crate) fn task_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words: Vec<_> = text.split(|c| !fits(c)).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").to_lowercase().chars().take(40).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

/// The first line of a small file, trimmed; `None` if there is none.
pub(crate) fn first_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The files in a folder named with this prefix and a number, ordered by number.
pub(crate) fn numbered(folder: &Path, prefix: &str) -> io::Result<Vec<(u32, String)>> {
    let number = |name: String| Some((name.strip_prefix(prefix)?.parse().ok()?, name));
    let mut found: Vec<_> = file_names(folder)?.into_iter().filter_map(number).collect();
    found.sort();
    Ok(found)
}

/// The names of the files in a folder, sorted.
pub(crate) fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)?;
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}
