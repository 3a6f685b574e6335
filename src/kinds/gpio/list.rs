//! Lists GPIO chips, for tasks and for `hertzd devices`. Only queries names of lines, because requesting a line would change it. May block;
//! not for a hot thread.

#[cfg(feature = "gpio")]
use super::chip::{ChipFacts, facts};
use crate::config::refuse_value_name;
use crate::kinds::device::{FoundDevice, access, numbered, quoted, task_name};
use crate::kinds::sensor::names_of_parent;
use crate::site::Roots;
use crate::sys::host::may_open;
use std::path::{Path, PathBuf};

/// Lines named in a sample section; all are listed above it.
const SHOWN: usize = 4;

/// The name and node of each chip, ordered by number.
pub(super) fn chips(roots: &Roots) -> Vec<(String, PathBuf)> {
    let chips = numbered(&roots.sys.join("bus/gpio/devices"), "gpiochip").unwrap_or_default();
    chips.into_iter().map(|(_, name)| (name.clone(), roots.dev.join(name))).collect()
}

/// The names of the device that a chip belongs to, which stay the same when numbers change.
pub(super) fn stays(roots: &Roots, chip: &str) -> Vec<String> {
    names_of_parent(&roots.sys.join("bus/gpio/devices").join(chip))
}

/// The chips, each with a sample section; the lines are left to choose.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let facts = |dev: &Path| if may_open(dev, false) { facts(dev) } else { Err(access::permission(dev)) };
    let chip = |(name, dev): (String, PathBuf)| (stays(roots, &name), name, facts(&dev), dev);
    let found: Vec<_> = chips(roots).into_iter().map(chip).collect();
    // A name does not identify a chip if another chip may have it, or if it is another chip's node.
    let is_clear = |wanted: &&str| {
        let may_have = |(stays, _, facts, _): &&(Vec<String>, String, Result<ChipFacts, String>, PathBuf)| {
            facts.as_ref().map_or(true, |facts| facts.label == *wanted) || stays.iter().any(|name| name == wanted)
        };
        let is_text = !wanted.is_empty() && !wanted.contains('/') && !roots.dev.join(wanted).exists();
        is_text && found.iter().filter(may_have).count() == 1
    };
    let device = |(stays, name, facts, dev): &(Vec<String>, String, Result<ChipFacts, String>, PathBuf)| {
        let (label, lines) = facts.as_ref().map_or(("", &[][..]), |facts| (&facts.label, &facts.lines));
        let mut names = [label].into_iter().chain(stays.iter().map(String::as_str));
        let named = || lines.iter().filter(|(_, name, _)| !name.is_empty());
        let mut about = Vec::new();
        if facts.is_ok() {
            about.push(format!("{} lines, {} of them in use", lines.len(), lines.iter().filter(|line| line.2).count()));
        }
        about.extend(
            named().map(|(offset, name, used)| {
                format!("{offset}: {}{}", quoted(name), if *used { ", in use" } else { "" })
            }),
        );
        // Two lines may have the same name, and not every name is valid for a value.
        let is_clear_line = |wanted: &str| {
            named().filter(|(_, name, _)| name == wanted).count() == 1 && refuse_value_name(wanted).is_none()
        };
        let free = named().filter(|(_, name, used)| !used && is_clear_line(name));
        let chosen: Vec<_> = free.take(SHOWN).map(|(_, name, _)| quoted(name)).collect();
        let free_offset = lines.iter().find(|(.., used)| !used).map_or(0, |(offset, ..)| *offset);
        let chosen = if chosen.is_empty() { free_offset.to_string() } else { chosen.join(", ") };
        FoundDevice {
            class: "gpio",
            name: if label.is_empty() { name.clone() } else { label.to_owned() },
            node: Some(dev.display().to_string()),
            about,
            needs: vec!["a choice of lines: each one in the section becomes an input".to_owned()],
            refused: facts.as_ref().err().cloned(),
            task: task_name(name),
            kind: "gpio",
            rate: "100 Hz",
            keys: vec![
                ("chip", quoted(names.find(is_clear).unwrap_or(name)), ""),
                ("lines", format!("[{chosen}]"), "names or offsets"),
            ],
            ..FoundDevice::default()
        }
    };
    found.iter().map(device).collect()
}

/// Chips cannot be queried without this kind.
#[cfg(not(feature = "gpio"))]
struct ChipFacts {
    label: String,
    lines: Vec<(u32, String, bool)>,
}

#[cfg(not(feature = "gpio"))]
fn facts(_: &Path) -> Result<ChipFacts, String> {
    Ok(ChipFacts { label: String::new(), lines: Vec::new() })
}
