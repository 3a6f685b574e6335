//! Lists hwmon and IIO devices for `hertzd devices`, with the same code that finds them for a task. May block; not for a hot thread.

use super::buffer::triggers;
use super::find::{self, ByName, Candidate, Class};
use super::{hwmon, iio};
use crate::kinds::device::{FoundDevice, IF_IT_MOVES, access, file_names, first_line, quoted, task_name};
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
    let mut choices =
        names.flat_map(|name| one.offers().map(|device| ByName { name: name.clone(), device: device.cloned() }));
    let is_found = |by: &ByName| find::find(class, &roots.sys, by).is_ok_and(|found| found.node == one.node);
    let by = choices.find(is_found).unwrap_or(ByName { name: one.name.clone(), device: Some(one.node.clone()) });
    let device = by.device.map(|device| ("device", quoted(&device), ""));
    [(class.key(), quoted(&by.name), "")].into_iter().chain(device).collect()
}

/// IIO channels whose readings have noise.
const ANALOGUE: [&str; 7] = ["in_voltage", "in_current", "in_accel", "in_anglvel", "in_magn", "in_temp", "in_pressure"];

/// With a buffer there are counts beside the readings.
const IF_IT_MOVES_POLLED: &str =
    "if its readings always move a little; with a buffer only for the channels: { accel_x = \"10s\" }";

/// `None` if the device measures nothing.
fn hwmon_device(one: &Candidate, keys: Keys) -> Option<FoundDevice> {
    let inputs = hwmon::inputs(&one.folder).ok().filter(|inputs| !inputs.is_empty())?;
    let mut about = Vec::new();
    let mut needs = vec!["a value that can be read; none can now".to_owned()];
    let mut moves = !one.is_drive();
    for (input, _) in inputs {
        let reading = first_line(&one.folder.join(&input)).map(|text| format!("now {text}"));
        if reading.is_some() {
            needs.clear();
        }
        moves &= reading.as_ref().is_none_or(|now| is_fine(&input, &now["now ".len()..]));
        let reading = reading.unwrap_or_else(|| "no reading".into());
        let label = first_line(&one.folder.join(format!("{}_label", hwmon::channel(&input))));
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        about.push(format!("{input}{label}: {reading}"));
    }
    let (name, task) = (one.name.clone(), task_name(&one.name));
    let class = "hwmon";
    let mut choices = Vec::new();
    if moves && needs.is_empty() {
        choices.push(("stuck-after", quoted("60s"), IF_IT_MOVES));
    }
    let (kind, rate) = ("sensor", "1 Hz");
    Some(FoundDevice { class, name, about, needs, task, kind, rate, keys, choices, ..FoundDevice::default() })
}

/// Whether a hwmon input is an analogue one with steps so small that its readings may always move.
fn is_fine(input: &str, now: &str) -> bool {
    let is_fraction = now.parse().is_ok_and(|now: i64| now % 500 != 0);
    match hwmon::channel(input).trim_end_matches(|c: char| c.is_ascii_digit()) {
        "temp" => is_fraction,
        kind => matches!(kind, "in" | "curr" | "power"),
    }
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
    let is_analogue = |file: &String| ANALOGUE.iter().any(|kind| iio::channel(file).starts_with(kind));
    if polled.iter().any(is_readable) && polled.iter().all(is_analogue) {
        let condition = if buffered.is_empty() { IF_IT_MOVES } else { IF_IT_MOVES_POLLED };
        choices.push(("stuck-after", quoted("10s"), condition));
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
