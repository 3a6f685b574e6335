//! Devices of the classes hwmon and IIO, for the kind `sensor`.

use super::Places;
use super::offer::{Offer, files, line, numbered, quoted, several, task_name};
use crate::kinds::device::access;
use crate::sys::host::may_open;
use std::path::Path;

pub(super) fn hwmon(places: &Places) -> Vec<Offer> {
    let folder = places.sys.join("class/hwmon");
    let found: Vec<_> = numbered(&folder, "hwmon")
        .into_iter()
        .filter_map(|(_, node)| {
            let path = folder.join(&node);
            let inputs: Vec<_> = files(&path).into_iter().filter(|file| file.ends_with("_input")).collect();
            (!inputs.is_empty()).then_some((line(&path.join("name"))?, node, inputs))
        })
        .collect();
    let offer = |(name, node, inputs): &(String, String, Vec<String>)| {
        let path = folder.join(node);
        let about = inputs.iter().map(|input| {
            let label = line(&path.join(input.replace("_input", "_label")));
            let reading = line(&path.join(input)).map_or_else(|| "no reading".into(), |text| format!("now {text}"));
            label.map_or_else(|| format!("{input}: {reading}"), |label| format!("{input} ({label}): {reading}"))
        });
        let mut keys = vec![("hwmon", quoted(name), "")];
        if several(found.iter().map(|(name, ..)| name.as_str()), name) {
            keys.push(("device", quoted(&parent(path.join("device")).unwrap_or_else(|| node.clone())), ""));
        }
        Offer {
            class: "hwmon",
            name: name.clone(),
            about: about.collect(),
            task: task_name(name),
            kind: "sensor",
            rate: "1 Hz",
            keys,
            ..Offer::default()
        }
    };
    found.iter().map(offer).collect()
}

pub(super) fn iio(places: &Places) -> Vec<Offer> {
    let folder = places.sys.join("bus/iio/devices");
    let found: Vec<_> = numbered(&folder, "iio:device")
        .into_iter()
        .filter_map(|(_, node)| {
            let path = folder.join(&node);
            let name = line(&path.join("label")).or_else(|| line(&path.join("name")))?;
            Some((name, node))
        })
        .collect();
    let triggers: Vec<_> = numbered(&folder, "trigger")
        .into_iter()
        .filter_map(|(_, trigger)| line(&folder.join(trigger).join("name")))
        .collect();
    let offer = |(name, node): &(String, String)| {
        let path = folder.join(node);
        let readable = |file: &String| file.starts_with("in_") && (file.ends_with("_raw") || file.ends_with("_input"));
        let channels: Vec<_> = files(&path).into_iter().filter(readable).collect();
        let scanned: Vec<_> = files(&path.join("scan_elements"))
            .into_iter()
            .filter_map(|file| file.strip_suffix("_en").map(str::to_owned))
            .collect();
        let mut about = vec![match channels.is_empty() {
            true => "no channel that can be polled".to_owned(),
            false => format!("polled: {}", channels.join(", ")),
        }];
        let mut keys = vec![("iio", quoted(name), "")];
        let (mut choices, mut refused) = (Vec::new(), None);
        if several(found.iter().map(|(name, _)| name.as_str()), name) {
            let device = path.canonicalize().ok().and_then(|path| parent(path.parent()?));
            keys.push(("device", quoted(&device.unwrap_or_else(|| node.clone())), ""));
        }
        let dev = places.dev.join(node);
        if !scanned.is_empty() {
            about.push(format!("buffered: {}", scanned.join(", ")));
            about.push(match triggers.is_empty() {
                true => "triggers: none; the device may have one of its own".to_owned(),
                false => format!("triggers: {}", triggers.join(", ")),
            });
            choices.push(("buffered", "true".to_owned(), "every sample, instead of a reading at each tick"));
            choices.extend(triggers.first().map(|trigger| ("trigger", quoted(trigger), "")));
            if dev.exists() && !may_open(&dev, false) {
                refused = Some(format!("polling works; for its buffer, {}", access::permission(&dev)));
            }
        }
        Offer {
            class: "iio",
            name: name.clone(),
            node: (!scanned.is_empty()).then(|| dev.display().to_string()),
            about,
            refused,
            task: task_name(name),
            kind: "sensor",
            rate: "10 Hz",
            keys,
            choices,
            ..Offer::default()
        }
    };
    found.iter().map(offer).collect()
}

/// The name of the device that a link or folder leads to.
fn parent(path: impl AsRef<Path>) -> Option<String> {
    let path = path.as_ref().canonicalize().ok()?;
    path.file_name()?.to_str().filter(|name| *name != "devices").map(str::to_owned)
}
