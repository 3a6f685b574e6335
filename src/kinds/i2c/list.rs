//! Lists I²C buses, for tasks and for `hertzd devices`. Does not probe a bus, because to some chips a read is a command. Reads small files;
//! may block; not for a hot thread.

use crate::kinds::device::{FoundDevice, access, file_names, first_line, numbered, quoted};
use crate::site::Roots;
use crate::sys::host::may_open;
use std::path::Path;

/// The number and adapter name of each bus, ordered by number.
pub(super) fn adapters(sys: &Path) -> Vec<(u32, String)> {
    let folder = sys.join("bus/i2c/devices");
    let named = |(number, bus): (u32, String)| (number, first_line(&folder.join(&bus).join("name")).unwrap_or(bus));
    numbered(&folder, "i2c-").unwrap_or_default().into_iter().map(named).collect()
}

/// The buses, each with a sample section; a chip's address and registers are left to fill in.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let adapters = adapters(&roots.sys);
    let folder = roots.sys.join("bus/i2c/devices");
    let found = |(number, name): &(u32, String)| {
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
        // A name does not identify a bus if another bus has it, or if it parses as a number or a path.
        let is_clear = adapters.iter().filter(|(_, other)| other == name).count() == 1
            && !name.starts_with('/')
            && name.strip_prefix("i2c-").is_none_or(|number| number.parse::<u32>().is_err());
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
                ("bus", if is_clear { quoted(name) } else { number.to_string() }, ""),
                ("address", "0x48".to_owned(), ""),
                ("register", "0x00".to_owned(), ""),
                ("type", quoted("s16be"), ""),
            ],
            ..FoundDevice::default()
        }
    };
    adapters.iter().map(found).collect()
}
