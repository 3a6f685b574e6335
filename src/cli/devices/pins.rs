//! GPIO chips and their lines, for the kind `gpio`. Lines are only asked for their names: taking one would change it.

use super::Places;
use super::offer::{Offer, numbered, quoted, several, task_name};
use crate::kinds::device::access;
use crate::sys::host::may_open;
use std::path::Path;

/// What a chip says of itself.
struct Facts {
    label: String,
    /// Offset, name and whether it is in use.
    lines: Vec<(u32, String, bool)>,
}

/// Lines named in the section; all stand above it.
const SHOWN: usize = 4;

pub(super) fn list(places: &Places) -> Vec<Offer> {
    let chips = numbered(&places.sys.join("bus/gpio/devices"), "gpiochip");
    let found: Vec<_> = chips
        .into_iter()
        .map(|(_, name)| {
            let dev = places.dev.join(&name);
            let facts = if may_open(&dev, false) { facts(&dev) } else { Err(access::permission(&dev)) };
            (name, dev, facts)
        })
        .collect();
    let labels: Vec<_> = found.iter().filter_map(|(.., facts)| Some(facts.as_ref().ok()?.label.clone())).collect();
    let offer = |(name, dev, facts): &(String, std::path::PathBuf, Result<Facts, String>)| {
        let (label, lines) = facts.as_ref().map_or(("", &[][..]), |facts| (&facts.label, &facts.lines));
        let key = match label.is_empty() || several(labels.iter().map(String::as_str), label) {
            true => name.as_str(),
            false => label,
        };
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
        // A name that two lines have does not say which.
        let unclear = |name: &str| several(named().map(|(_, name, _)| name.as_str()), name);
        let free = named().filter(|(_, name, used)| !used && !unclear(name));
        let chosen: Vec<_> = free.take(SHOWN).map(|(_, name, _)| quoted(name)).collect();
        let chosen = if chosen.is_empty() { "0".to_owned() } else { chosen.join(", ") };
        Offer {
            class: "gpio",
            name: if label.is_empty() { name.clone() } else { label.to_owned() },
            node: Some(dev.display().to_string()),
            about,
            needs: vec!["a choice of lines: each that is asked for becomes an input".to_owned()],
            refused: facts.as_ref().err().cloned(),
            task: task_name(name),
            kind: "gpio",
            rate: "100 Hz",
            keys: vec![("chip", quoted(key), ""), ("lines", format!("[{chosen}]"), "names or offsets")],
            ..Offer::default()
        }
    };
    found.iter().map(offer).collect()
}

#[cfg(feature = "gpio")]
fn facts(dev: &Path) -> Result<Facts, String> {
    let facts = crate::kinds::gpio::chip_facts(dev)?;
    Ok(Facts { label: facts.label, lines: facts.lines })
}

#[cfg(not(feature = "gpio"))]
fn facts(_: &Path) -> Result<Facts, String> {
    Ok(Facts { label: String::new(), lines: Vec::new() })
}
