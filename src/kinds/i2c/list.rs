//! Lists I²C buses, for tasks and for `hertzd devices`. Does not probe a bus, because to some chips a read is a command. Reads small files;
//! may block; not for a hot thread.

use crate::kinds::device::{FoundDevice, IF_IT_MOVES, access, file_names, first_line, numbered, quoted};
use crate::kinds::sensor::names_of_parent;
use crate::site::Roots;
use crate::sys::host::may_open;
use std::path::Path;

/// A bus.
pub(super) struct Adapter {
    pub(super) number: u32,
    pub(super) name: String,
    stays: Vec<String>, // names of the device that it belongs to
}

impl Adapter {
    /// Whether this is one of its names.
    pub(super) fn is(&self, wanted: &str) -> bool {
        self.name == wanted || self.stays.iter().any(|name| name == wanted)
    }

    /// The first of its names that identifies it: no other bus has it, and it parses neither as a number nor as a path.
    pub(super) fn clear_name(&self, all: &[Self]) -> Option<&String> {
        let is_text = |name: &str| {
            !name.starts_with('/') && name.strip_prefix("i2c-").is_none_or(|number| number.parse::<u32>().is_err())
        };
        let is_clear = |name: &&String| is_text(name) && all.iter().filter(|one| one.is(name)).count() == 1;
        [&self.name].into_iter().chain(&self.stays).find(is_clear)
    }
}

/// All buses, ordered by number.
pub(super) fn adapters(sys: &Path) -> Vec<Adapter> {
    let folder = sys.join("bus/i2c/devices");
    let adapter = |(number, bus): (u32, String)| {
        let folder = folder.join(&bus);
        Adapter { number, name: first_line(&folder.join("name")).unwrap_or(bus), stays: names_of_parent(&folder) }
    };
    numbered(&folder, "i2c-").unwrap_or_default().into_iter().map(adapter).collect()
}

/// The buses, each with a sample section; a chip's address and registers are left to fill in.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let adapters = adapters(&roots.sys);
    let folder = roots.sys.join("bus/i2c/devices");
    let found = |adapter: &Adapter| {
        let Adapter { number, name, .. } = adapter;
        let bus = format!("i2c-{number}");
        let dev = roots.dev.join(&bus);
        let prefix = format!("{number}-");
        let chip = |file: String| {
            let address = u16::from_str_radix(file.strip_prefix(&prefix)?, 16).ok()?;
            let chip = first_line(&folder.join(&file).join("name"))?;
            Some(match folder.join(&file).join("driver").exists() {
                true => format!("{address:#04x}: {chip}, used by a driver of the kernel: read it as a sensor"),
                false => format!("{address:#04x}: {chip}"),
            })
        };
        let mut needs = vec!["the address and registers of a chip, from its data sheet".to_owned()];
        if !dev.exists() {
            needs.push(format!("{}: load the module i2c-dev (`modprobe i2c-dev`)", dev.display()));
        }
        FoundDevice {
            class: "i2c",
            name: name.clone(),
            node: Some(dev.display().to_string()),
            about: file_names(&folder).unwrap_or_default().into_iter().filter_map(chip).collect(),
            needs,
            refused: (dev.exists() && !may_open(&dev, true)).then(|| access::permission(&dev)),
            task: bus,
            kind: "i2c",
            rate: "10 Hz",
            keys: vec![
                ("bus", adapter.clear_name(&adapters).map_or_else(|| number.to_string(), |name| quoted(name)), ""),
                ("address", "0x48".to_owned(), ""),
                ("register", "0x00".to_owned(), ""),
                ("type", quoted("s16be"), ""),
            ],
            choices: vec![("stuck-after", quoted("10s"), IF_IT_MOVES)],
        }
    };
    adapters.iter().map(found).collect()
}
