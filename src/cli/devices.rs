//! `hertzd devices`: prints this machine's devices as configuration sections, ready to paste.
//!
//! The kinds find their devices themselves, with the code that their tasks use. No bus is probed, and no line or stream is claimed. Works
//! for an ordinary user, and says what is needed to open a device.

use super::terminal::Shown;
use super::{App, Stop};
use crate::config::{Kinds, TASK_KEYS};
use crate::escape::is_command;
use crate::kinds::device::FoundDevice;
use crate::kinds::found_devices;
use crate::program;
use crate::site::Roots;
use clap::Args;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd devices                      all devices, with a section for each\n  \
    hertzd devices | less               the same, page by page\n  \
    hertzd devices --json | jq -r '.devices[] | select(.class == \"hwmon\").name'\n\n\
    Each section can be pasted into a configuration. One with a # in front \
    needs something first, which the lines above it say: an address, a choice \
    of lines, a kind that this build was made without. Devices go by names that \
    stay the same when numbers change, unless several have the same name. Buses \
    are not probed; `i2cdetect` finds the chips.")]
pub(super) struct DevicesArgs {
    /// Print them as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn devices(app: &App, args: &DevicesArgs) -> Result<(), Stop> {
    let devices = find(&Roots::under(Path::new("/")), &app.kinds);
    match args.json {
        true => Shown::json(as_json(&devices)).print(),
        false => Shown::document(&as_text(&devices)).print(),
    }
}

/// All devices found. Section names are unique, and sections contain only keys that this build knows.
fn find(roots: &Roots, kinds: &Kinds) -> Vec<FoundDevice> {
    let mut devices = found_devices(roots);
    let mut names = BTreeSet::new();
    for device in &mut devices {
        let name = std::mem::take(&mut device.task);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut free = std::iter::once(name.clone()).chain(numbered).filter(|name| names.insert(name.clone()));
        device.task = free.next().unwrap_or_default(); // there is always a free name
        device.needs.extend(unfit(device, kinds));
    }
    devices
}

/// Why this build would reject the section.
fn unfit(device: &FoundDevice, kinds: &Kinds) -> Option<String> {
    let kind = device.kind;
    let Some(known) = kinds.get(kind) else {
        return Some(match kinds.remedy(kind) {
            Some(remedy) => format!("this build was made without the kind \"{kind}\": {remedy}"),
            None => format!("this build has no kind \"{kind}\""),
        });
    };
    let is_known = |key: &str| TASK_KEYS.iter().chain(&*known.keys).any(|known| known.name == key);
    let (key, ..) = device.keys.iter().find(|(key, ..)| !is_known(key))?;
    Some(format!("this build does not know the key {key} of the kind \"{kind}\""))
}

const HEAD: &str = "\
# Devices of this machine, as sections of a configuration. A section with a # in front needs something first; see there.
";

const NOTHING: &str = "\
# This machine has no device that hertzd can use: no hwmon or IIO device, no I2C bus, no GPIO or PWM chip, no CAN
# interface, no sound card that captures, no camera. A sensor may need its kernel module, such as lm75; buses need the module i2c-dev. A container only
# has the /sys and /dev that it was given. Files of /proc and /sys can be polled with kind = \"sensor\" and path.
";

fn as_text(devices: &[FoundDevice]) -> String {
    match devices {
        [] => program::owned(NOTHING),
        _ => {
            HEAD.to_owned()
                + &devices.iter().map(|device| format!("\n{}", program::own(&entry(device)))).collect::<String>()
        }
    }
}

/// What is known about a device, as comments, followed by its section. The section is commented out if something is needed first.
fn entry(device: &FoundDevice) -> String {
    let node = device.node.iter().map(|node| format!(", {node}")).collect::<String>();
    let mut lines = vec![format!("# {}: {}{node}", device.class, device.name)];
    lines.extend(device.about.iter().map(|line| format!("#   {line}")));
    lines.extend(device.refused.iter().map(|reason| format!("# You may not open it: {reason}")));
    lines.extend(device.needs.iter().map(|line| format!("# Needed: {line}")));
    let hidden = |line: &str| !device.needs.is_empty() && !line.starts_with('#');
    lines.extend(device.section().lines().map(|line| format!("{}{line}", if hidden(line) { "#" } else { "" })));
    lines.iter().map(|line| one_line(line) + "\n").collect()
}

/// A text from the kernel or a device, made fit for one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_command(c) { '?' } else { c }).collect()
}

fn as_json(devices: &[FoundDevice]) -> String {
    let device = |device: &FoundDevice| {
        json!({
            "class": device.class,
            "name": device.name,
            "node": device.node,
            "about": device.about,
            "needs": device.needs,
            "refused": device.refused,
            "section": device.section(),
        })
    };
    let devices: Vec<_> = devices.iter().map(device).collect();
    format!("{}\n", json!({"version": 1, "devices": devices}))
}

#[cfg(test)]
mod tests;
