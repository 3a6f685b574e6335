//! I²C buses, for the kind `i2c`. None is probed: to some chips a reading is an order.

use super::Places;
use super::offer::{Offer, files, line, numbered, quoted, several};
use crate::kinds::device::access;
use crate::sys::host::may_open;

pub(super) fn list(places: &Places) -> Vec<Offer> {
    let folder = places.sys.join("bus/i2c/devices");
    let found: Vec<_> = numbered(&folder, "i2c-")
        .into_iter()
        .map(|(number, bus)| (number, line(&folder.join(&bus).join("name")).unwrap_or_else(|| bus.clone()), bus))
        .collect();
    let offer = |(number, name, bus): &(u32, String, String)| {
        let dev = places.dev.join(bus);
        let prefix = format!("{number}-");
        let chips = files(&folder).into_iter().filter_map(|file| {
            let address = u16::from_str_radix(file.strip_prefix(&prefix)?, 16).ok()?;
            let chip = line(&folder.join(&file).join("name"))?;
            Some(match folder.join(&file).join("driver").exists() {
                true => format!("{address:#04x}: {chip}, which a driver of the kernel has: read it as a sensor"),
                false => format!("{address:#04x}: {chip}"),
            })
        });
        let bus_key = match several(found.iter().map(|(_, name, _)| name.as_str()), name) {
            true => number.to_string(),
            false => quoted(name),
        };
        let mut needs = vec!["the address and registers of a chip, from its data sheet".to_owned()];
        if !dev.exists() {
            needs.push(format!("{}: load the module i2c-dev (`modprobe i2c-dev`)", dev.display()));
        }
        Offer {
            class: "i2c",
            name: name.clone(),
            node: Some(dev.display().to_string()),
            about: chips.collect(),
            needs,
            refused: (dev.exists() && !may_open(&dev, true)).then(|| access::permission(&dev)),
            task: bus.clone(),
            kind: "i2c",
            rate: "10 Hz",
            keys: vec![
                ("bus", bus_key, ""),
                ("address", "0x48".to_owned(), ""),
                ("register", "0x00".to_owned(), ""),
                ("type", quoted("s16be"), ""),
            ],
            ..Offer::default()
        }
    };
    found.iter().map(offer).collect()
}
