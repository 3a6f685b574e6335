//! Finds devices in `/sys` by name. The numbers in `hwmon3` and `iio:device0` change from boot to boot, and when a device comes back. Reads
//! small files; may block; not for a hot thread.

use crate::kinds::device::{first_line, numbered};
use crate::site::Refusal;
use std::io;
use std::path::{Path, PathBuf};
use tracing::debug;

/// Names a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByName {
    /// The content of its file `name` or, for IIO, of `label`.
    pub(crate) name: String,
    /// Selects one of several devices with that name: the kernel's name of its parent device (`0-0048`, `PCI0`), or its own (`hwmon3`) if
    /// it has no parent.
    pub(crate) device: Option<String>,
}

/// One class of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kinds) enum Class {
    Hwmon,
    Iio,
}

impl Class {
    /// The configuration key that names a device of this class.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Hwmon => "hwmon",
            Self::Iio => "iio",
        }
    }

    /// The class's name in messages, its folder of devices under `/sys`, and the prefix of their names.
    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Hwmon => ("hwmon", "class/hwmon", "hwmon"),
            Self::Iio => ("IIO", "bus/iio/devices", "iio:device"),
        }
    }
}

/// A device that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kinds) struct Candidate {
    pub(in crate::kinds) folder: PathBuf,
    pub(in crate::kinds) node: String, // its own: `hwmon3`
    pub(in crate::kinds) name: String,
    pub(in crate::kinds) label: Option<String>,
    pub(in crate::kinds) device: String, // the name of its parent device, or its own if it has none
}

/// All devices of the class, in the order of their numbers.
pub(super) fn all(class: Class, sys: &Path) -> io::Result<Vec<Candidate>> {
    let (_, devices, prefix) = class.facts();
    let mut found = Vec::new();
    for (_, node) in numbered(&sys.join(devices), prefix)? {
        let folder = sys.join(devices).join(&node);
        // The device may disappear in between.
        let Some(name) = first_line(&folder.join("name")) else {
            continue;
        };
        let device = parent(class, &folder).unwrap_or_else(|| node.clone());
        let label = first_line(&folder.join("label"));
        found.push(Candidate { folder, node, name, label, device });
    }
    Ok(found)
}

/// The wanted device.
pub(in crate::kinds) fn find(class: Class, sys: &Path, wanted: &ByName) -> Result<Candidate, Refusal> {
    let ((word, devices, _), name) = (class.facts(), &wanted.name);
    let refuse = |key, message| Err(Refusal::new(key, message));
    let all = match all(class, sys) {
        Ok(all) => all,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return refuse(class.key(), format!("cannot list {}: {error}", sys.join(devices).display()));
        }
    };
    let quoted = |names: Vec<&String>| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let named: Vec<_> = all.iter().filter(|one| one.name == *name || one.label.as_ref() == Some(name)).collect();
    if named.is_empty() {
        let there = match all.is_empty() {
            true => format!("there is no {word} device at all"),
            false => {
                let names = all.iter().map(|one| one.label.as_ref().unwrap_or(&one.name));
                format!("there are {}", quoted(names.collect()))
            }
        };
        return refuse(class.key(), format!("no {word} device is named {name:?}; {there}"));
    }
    let is_wanted = |one: &Candidate| wanted.device.as_ref().is_none_or(|it| one.device == *it || one.node == *it);
    let matching: Vec<_> = named.iter().copied().filter(|one| is_wanted(one)).collect();
    let devices = || quoted(named.iter().map(|one| &one.device).collect());
    match (&matching[..], &wanted.device) {
        ([one], _) => {
            debug!("{word} device {name:?} is {}", one.folder.display());
            Ok((*one).clone())
        }
        (several, None) => {
            let (count, devices) = (several.len(), devices());
            let which = format!("say which with device = one of {devices}");
            refuse(class.key(), format!("{count} {word} devices are named {name:?}; {which}"))
        }
        ([], Some(device)) => {
            let which = format!("it is one of {}", devices());
            refuse("device", format!("no {word} device {name:?} belongs to {device:?}; {which}"))
        }
        (several, Some(device)) => {
            let (count, nodes) = (several.len(), quoted(several.iter().map(|one| &one.node).collect()));
            let which = format!("say which with device = one of {nodes}");
            refuse("device", format!("{count} {word} devices {name:?} belong to {device:?}; {which}"))
        }
    }
}

/// The name of its parent device.
fn parent(class: Class, folder: &Path) -> Option<String> {
    let parent = match class {
        Class::Hwmon => folder.join("device").canonicalize().ok()?,
        // One folder up in the tree of all devices. The top of the tree is not a device.
        Class::Iio => folder.canonicalize().ok()?.parent()?.to_path_buf(),
    };
    let name = parent.file_name()?.to_string_lossy().into_owned();
    (name != "devices").then_some(name)
}
