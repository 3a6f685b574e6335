//! One device, and the section that would read it.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// One device.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// What the kernel calls such devices.
    pub(super) class: &'static str,
    /// What it is called.
    pub(super) name: String,
    /// Its node in /dev, where the kind opens one.
    pub(super) node: Option<String>,
    /// What there is to know about it.
    pub(super) about: Vec<String>,
    /// What stands in the way of the section.
    pub(super) needs: Vec<String>,
    /// Why the node cannot be opened by this user, with the remedy.
    pub(super) refused: Option<String>,
    /// The section's name, kind and rate.
    pub(super) task: String,
    pub(super) kind: &'static str,
    pub(super) rate: &'static str,
    /// The kind's own keys: name, value in TOML, comment.
    pub(super) keys: Vec<(&'static str, String, &'static str)>,
    /// Keys to choose instead or as well; commented out in any case.
    pub(super) choices: Vec<(&'static str, String, &'static str)>,
}

impl Offer {
    /// The section, as it may stand in a configuration.
    fn section(&self) -> String {
        let line = |key: &str, value: &str, comment: &str| match comment {
            "" => format!("{key} = {value}\n"),
            comment => format!("{key} = {value} # {comment}\n"),
        };
        let mut section = format!("[task.{}]\nkind = {}\nrate = {}\n", self.task, quoted(self.kind), quoted(self.rate));
        section.extend(self.keys.iter().map(|(key, value, comment)| line(key, value, comment)));
        section.extend(self.choices.iter().map(|(key, value, comment)| format!("#{}", line(key, value, comment))));
        section
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "class": self.class,
            "name": self.name,
            "node": self.node,
            "about": self.about,
            "needs": self.needs,
            "refused": self.refused,
            "section": self.section(),
        })
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.iter().map(|node| format!(", {node}")).collect::<String>();
        writeln!(f, "# {}: {}{}", self.class, plain(&self.name), plain(&node))?;
        self.about.iter().try_for_each(|line| writeln!(f, "#   {}", plain(line)))?;
        self.refused.iter().try_for_each(|reason| writeln!(f, "# You may not open it: {}", plain(reason)))?;
        self.needs.iter().try_for_each(|line| writeln!(f, "# Needed: {}", plain(line)))?;
        for line in self.section().lines() {
            let hidden = !self.needs.is_empty() && !line.starts_with('#');
            writeln!(f, "{}{line}", if hidden { "#" } else { "" })?;
        }
        Ok(())
    }
}

/// A text of the kernel's or a device's, fit for one line.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A text in TOML.
pub(super) fn quoted(text: &str) -> String {
    // A TOML string escapes as JSON does, and DEL beside that.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A name for a task, made of this text.
pub(super) fn task_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words: Vec<_> = text.split(|c| !fits(c)).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").to_lowercase().chars().take(40).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

/// The name, or with a number after it where it was taken before.
pub(super) fn unique(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or_default(); // there is always one
    taken.insert(free.clone());
    free
}

/// The first line of a small file; `None` where there is none.
pub(super) fn line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// What is in a folder and has this prefix and then a number, in the order of those numbers.
pub(super) fn numbered(folder: &Path, prefix: &str) -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some((name.strip_prefix(prefix)?.parse().ok()?, name))
        })
        .collect();
    found.sort();
    found
}

/// The names of the files in a folder, in order.
pub(super) fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Whether a list has this more than once.
pub(super) fn several<'a>(list: impl IntoIterator<Item = &'a str>, wanted: &str) -> bool {
    list.into_iter().filter(|item| *item == wanted).count() > 1
}
