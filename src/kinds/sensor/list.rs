//! Lists hwmon and IIO devices for `hertzd devices`, with the same code that finds them for a task. May block; not for a hot thread.

use super::buffer::triggers;
use super::find::{self, ByName, Candidate, Class};
use super::{hwmon, iio};
use crate::kinds::device::{FoundDevice, access, file_names, first_line, quoted, task_name};
use crate::site::Roots;
use crate::sys::host::may_open;

/// The devices of both classes that have values to read, each with a section that finds it.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let all = |class| find::all(class, &roots.sys).unwrap_or_default();
    let hwmon = all(Class::Hwmon).into_iter().filter_map(|one| hwmon_device(&one, keys(Class::Hwmon, &one, roots)));
    let iio = all(Class::Iio).into_iter().map(|one| iio_device(&one, keys(Class::Iio, &one, roots), roots));
    hwmon.chain(iio).collect()
}

type Keys = Vec<(&'static str, String, &'static str)>;

/// The keys with which a task finds this device and no other, if possible also after the next boot.
fn keys(class: Class, one: &Candidate, roots: &Roots) -> Keys {
    let names = one.label.iter().chain([&one.name]);
    let devices = || [None].into_iter().chain(one.names().map(Some));
    let mut choices =
        names.flat_map(|name| devices().map(|device| ByName { name: name.clone(), device: device.cloned() }));
    let is_found = |by: &ByName| find::find(class, &roots.sys, by).is_ok_and(|found| found.node == one.node);
    let by = choices.find(is_found).unwrap_or(ByName { name: one.name.clone(), device: Some(one.node.clone()) });
    let device = by.device.map(|device| ("device", quoted(&device), ""));
    [(class.key(), quoted(&by.name), "")].into_iter().chain(device).collect()
}

/// `None` if the device measures nothing.
fn hwmon_device(one: &Candidate, keys: Keys) -> Option<FoundDevice> {
    let inputs = hwmon::inputs(&one.folder).ok().filter(|inputs| !inputs.is_empty())?;
    let mut about = Vec::new();
    let mut needs = vec!["a value that can be read; none can now".to_owned()];
    for (input, _) in inputs {
        let reading = first_line(&one.folder.join(&input)).map(|text| format!("now {text}"));
        if reading.is_some() {
            needs.clear();
        }
        let reading = reading.unwrap_or_else(|| "no reading".into());
        let label = first_line(&one.folder.join(format!("{}_label", hwmon::channel(&input))));
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        about.push(format!("{input}{label}: {reading}"));
    }
    let (name, task) = (one.name.clone(), task_name(&one.name));
    let class = "hwmon";
    Some(FoundDevice { class, name, about, needs, task, kind: "sensor", rate: "1 Hz", keys, ..FoundDevice::default() })
}

fn iio_device(one: &Candidate, mut keys: Keys, roots: &Roots) -> FoundDevice {
    let name = one.label.as_ref().unwrap_or(&one.name);
    let polled: Vec<_> = iio::inputs(&one.folder).unwrap_or_default().into_iter().map(|(file, _)| file).collect();
    let is_readable = |file: &String| std::fs::read(one.folder.join(file)).is_ok();
    let channel = |file: String| file.strip_suffix("_en").map(str::to_owned);
    let buffered: Vec<_> =
        file_names(&one.folder.join("scan_elements")).unwrap_or_default().into_iter().filter_map(channel).collect();
    let mut about = vec![match polled.is_empty() {
        true => "no channel that can be polled".to_owned(),
        false => format!("polled: {}", polled.join(", ")),
    }];
    let dev = roots.dev.join(&one.node);
    let (mut choices, mut refused, mut needs) = (Vec::new(), None, Vec::new());
    if !buffered.is_empty() {
        let triggers: Vec<_> = triggers(&roots.sys).into_iter().map(|(name, _)| name).collect();
        about.push(format!("buffered: {}", buffered.join(", ")));
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
    if !polled.iter().any(is_readable) {
        keys.append(&mut choices);
        needs.push(match buffered.is_empty() {
            true => "a channel that can be read; none can now".to_owned(),
            false => "a choice of trigger: its channels can only be buffered".to_owned(),
        });
    }
    FoundDevice {
        class: "iio",
        name: name.clone(),
        node: (!buffered.is_empty()).then(|| dev.display().to_string()),
        about,
        needs,
        refused,
        task: task_name(name),
        kind: "sensor",
        rate: "10 Hz",
        keys,
        choices,
    }
}
