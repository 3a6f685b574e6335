//! Lists CAN interfaces for `hertzd devices`. Reads small files; may block; not for a hot thread.

use crate::kinds::device::{FoundDevice, file_names, first_line, quoted};
use crate::site::Roots;

/// The number for CAN in an interface's file `type`.
const TYPE: &str = "280"; // ARPHRD_CAN

/// The interfaces, each with a sample section; ids and signals are left to fill in.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let folder = roots.sys.join("class/net");
    let names = file_names(&folder).unwrap_or_default().into_iter();
    let of_can = names.filter(|name| first_line(&folder.join(name).join("type")).as_deref() == Some(TYPE));
    let found = |name: String| {
        let line = |file: &str| first_line(&folder.join(&name).join(file));
        let flags = line("flags").and_then(|flags| u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok());
        let is_up = flags.is_none_or(|flags| flags & 1 == 1); // IFF_UP
        let fd = line("mtu").and_then(|mtu| mtu.parse().ok()).is_some_and(|mtu: u32| mtu >= 72);
        let mut needs = vec!["the ids and signals of its frames, from a DBC file or a data sheet".to_owned()];
        if !is_up {
            needs.push(format!(
                "it is down: `ip link set {name} up`, a real one after `ip link set {name} type can bitrate BITS`"
            ));
        }
        FoundDevice {
            class: "can",
            about: vec![if fd { "CAN FD: frames of up to 64 bytes" } else { "frames of up to 8 bytes" }.to_owned()],
            needs,
            task: name.clone(),
            kind: "can",
            rate: "100 Hz",
            keys: vec![
                ("interface", quoted(&name), ""),
                ("receive", "[{ id = 0x181, name = \"speed\", start-bit = 0, length = 16 }]".to_owned(), ""),
            ],
            choices: if fd { vec![("fd", "true".to_owned(), "also frames of CAN FD")] } else { Vec::new() },
            name,
            ..FoundDevice::default()
        }
    };
    of_can.map(found).collect()
}
