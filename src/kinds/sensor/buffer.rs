//! Sets up the buffer of an IIO device (trigger, frequency, channels, clock, length), and determines the layout of its samples.
//!
//! For cool threads: everything here may block. A file that already has the wanted content is not written, so a user with more rights can
//! prepare the device.

use super::find::{self, ByName, Candidate, Class};
use super::iio::{self, file_error};
use super::settings::BufferSettings;
use crate::kinds::device::{Sight, file_names, first_line, hidden, numbered};
use crate::kinds::layout::{SampleLayout, positions};
use crate::site::{DeviceId, OpenDevice, Refusal};
use crate::sys::clock::{KernelClock, utc_offset};
use crate::sys::user::{Access, access};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// One channel of the samples.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) channel: String, // `in_accel_x`
    pub(super) layout: SampleLayout,
    pub(super) start: usize, // its position in a sample
    pub(super) scale: f64,
    pub(super) offset: f64,
}

/// A device that fills its buffer until this value is dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) file: File,
    pub(super) elements: Vec<Element>,
    /// The position of the timestamp in a sample, its storage format, and its offset to the monotonic clock in nanoseconds.
    pub(super) timestamp: Option<(usize, SampleLayout, i64)>,
    pub(super) size: usize,      // bytes of a sample; above zero
    pub(super) bytes: Box<[u8]>, // room for everything that the kernel keeps
    /// Nanoseconds between samples, if known; not for a trigger that is fired from outside.
    pub(super) period: Option<f64>,
    pub(super) fresh: bool, // no tick has read from it yet
    enable: PathBuf,
}

impl OpenDevice for Buffer {
    fn exclusive(&self) -> Vec<DeviceId> {
        self.file.metadata().iter().map(DeviceId::of).collect()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A device that is gone needs no switching off.
        let _ = write(&self.enable, "0");
    }
}

impl Buffer {
    /// Samples per second, if known.
    pub(super) fn frequency(&self) -> Option<f64> {
        self.period.map(|period| 1e9 / period)
    }

    /// Finds the device, sets it up and switches its buffer on.
    pub(super) fn open(wanted: &ByName, settings: &BufferSettings, sys: &Path, dev: &Path) -> Result<Self, Refusal> {
        let (device, elements) = find_with_buffer(wanted, sys)?;
        let folder = &device.folder;
        let file = open_device(&dev.join(&device.node))?;
        // An open device belongs to one program alone, so no other program changes it now. It may have been left switched on.
        let enable = folder.join("buffer/enable");
        set(&enable, "0").map_err(at("buffered"))?;
        let Prepared { trigger, channels, frequency } = prepare(&device, &elements, settings, sys, set)?;
        let is_off = |channel: &&String| first_line(&elements.join(format!("{channel}_en"))).as_deref() != Some("1");
        if let Some(channel) = channels.iter().find(is_off) {
            return Err(at("channels")(format!("the device does not capture {channel:?} together with the others")));
        }
        let clock_offset = set_clock(folder);
        let length = settings.length.next_power_of_two();
        // Makes every sample readable as soon as it arrives.
        let _ = set(&folder.join("buffer/watermark"), "1");

        let parts = in_order(&elements, channels).map_err(at("iio"))?;
        let (starts, size) = positions(parts.iter().map(|(_, layout)| *layout));
        let (mut found, mut timestamp) = (Vec::new(), None);
        for ((channel, layout), start) in parts.into_iter().zip(starts) {
            if channel == TIMESTAMP {
                timestamp = Some((start, layout, clock_offset));
                continue;
            }
            let (scale, offset) = iio::conversion(folder, &channel).map_err(at("iio"))?;
            found.push(Element { channel, layout, start, scale, offset });
        }
        // Filled with ones, so that every page is touched here.
        let bytes = vec![1; size.max(1) * length as usize].into_boxed_slice();
        let frequency = frequency.filter(|_| !trigger.as_deref().is_some_and(is_fired_from_outside));
        let period = frequency.filter(|frequency| *frequency > 0.0).map(|frequency| 1e9 / frequency);
        let (size, elements) = (size.max(1), found);
        let buffer = Self { file, elements, timestamp, size, bytes, period, fresh: true, enable };
        set(&buffer.enable, "1").map_err(|message| {
            let has_none = folder.join("trigger").is_dir() && trigger.is_none();
            let remedy = match has_none {
                true => format!("; the device has no trigger: write trigger = one of {}", names(&triggers(sys))),
                false => String::new(),
            };
            Refusal::new(if has_none { "trigger" } else { "buffered" }, message + &remedy)
        })?;
        Ok(buffer)
    }
}

/// A function that gives an attribute this text.
type Set = fn(&Path, &str) -> Result<(), String>;

/// The settings made before the buffer is switched on.
struct Prepared {
    trigger: Option<PathBuf>,
    channels: Vec<String>,
    frequency: Option<f64>, // in use, if known
}

/// Sets trigger, channels, frequency and length with `set`.
fn prepare(
    device: &Candidate,
    elements: &Path,
    settings: &BufferSettings,
    sys: &Path,
    set: Set,
) -> Result<Prepared, Refusal> {
    let folder = &device.folder;
    let trigger = set_trigger(device, settings, sys, set).map_err(at("trigger"))?;
    let channels = set_channels(elements, &settings.channels, set).map_err(at("channels"))?;
    let frequency = set_frequency(folder, trigger.as_deref(), &channels, settings.sampling_frequency, set)
        .map_err(at("sampling-frequency"))?;
    let length = settings.length.next_power_of_two();
    set(&folder.join("buffer/length"), &length.to_string()).map_err(at("buffer-length"))?;
    Ok(Prepared { trigger, channels, frequency })
}

fn at(key: &'static str) -> impl Fn(String) -> Refusal {
    move |message| Refusal::new(key, message)
}

/// Finds the device and the folder of its channels.
fn find_with_buffer(wanted: &ByName, sys: &Path) -> Result<(Candidate, PathBuf), Refusal> {
    let device = find::find(Class::Iio, sys, wanted)?;
    let elements = device.folder.join("scan_elements");
    if !elements.is_dir() {
        let message = format!("the IIO device {:?} has no buffer; without buffered = true it is polled", wanted.name);
        return Err(Refusal::new("buffered", message));
    }
    Ok((device, elements))
}

/// What [`Buffer::open`] would find, and the channels that would be captured. Does not open the device, because an open device belongs to
/// one program alone, and writes no attribute.
pub(super) fn look(
    wanted: &ByName,
    settings: &BufferSettings,
    sys: &Path,
    dev: &Path,
) -> Result<(Sight, Vec<(String, SampleLayout)>), Refusal> {
    let (device, elements) = find_with_buffer(wanted, sys)?;
    let there = || channels(wanted, &settings.channels, sys);
    let node = dev.join(&device.node);
    if let Some(hidden) = hidden(&node, false) {
        return Ok((hidden, there()?));
    }
    let denied = || io::Error::from_raw_os_error(libc::EACCES);
    let of_node = match node.metadata() {
        Ok(_) if access(&node, false) == Access::Denied => Err(denied()),
        found => found,
    };
    let of_node = of_node.map_err(|error| Refusal::new("iio", file_error("open", &node, &error)))?;
    prepare(&device, &elements, settings, sys, may_set)?;
    let channels = there()?;
    for (channel, _) in &channels {
        iio::conversion(&device.folder, channel).map_err(at("iio"))?;
    }
    let unknown = format!("whether {} is free, and its driver captures with these settings", node.display());
    Ok((Sight::of("iio", vec![DeviceId::of(&of_node)]).unknown(unknown), channels))
}

/// The channels that would be captured. Changes nothing.
pub(super) fn channels(device: &ByName, wanted: &[String], sys: &Path) -> Result<Vec<(String, SampleLayout)>, Refusal> {
    let found = find::find(Class::Iio, sys, device)?;
    let elements = found.folder.join("scan_elements");
    let mut there = listed(&elements, wanted).map_err(|message| Refusal::new("channels", message))?;
    there.retain(|channel| channel != TIMESTAMP && (wanted.is_empty() || wanted.contains(channel)));
    in_order(&elements, there).map_err(|message| Refusal::new("iio", message))
}

const TIMESTAMP: &str = "in_timestamp";

/// Each channel with its layout, in sample order.
fn in_order(elements: &Path, channels: Vec<String>) -> Result<Vec<(String, SampleLayout)>, String> {
    let mut parts = Vec::new();
    for channel in channels {
        let index: u32 = read(elements, &channel, "index", |text| text.parse().ok())?;
        parts.push((index, read(elements, &channel, "type", SampleLayout::parse)?, channel));
    }
    parts.sort_by_key(|(index, ..)| *index);
    Ok(parts.into_iter().map(|(_, layout, channel)| (channel, layout)).collect())
}

/// All channels that the device can capture; the wanted ones must be among them.
fn listed(elements: &Path, wanted: &[String]) -> Result<Vec<String>, String> {
    let files = file_names(elements).map_err(|error| file_error("list", elements, &error))?;
    let mut there: Vec<_> = files.iter().filter_map(|file| file.strip_suffix("_en").map(str::to_owned)).collect();
    there.sort();
    if let Some(unknown) = wanted.iter().find(|channel| !there.contains(channel)) {
        let known: Vec<_> = there.iter().filter(|channel| *channel != TIMESTAMP).cloned().collect();
        return Err(format!("the device cannot capture {unknown:?}; it has {}", known.join(", ")));
    }
    Ok(there)
}

fn open_device(path: &Path) -> Result<File, Refusal> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|error| match (error.raw_os_error(), path.metadata()) {
        (Some(libc::EBUSY), Ok(node)) => Refusal::in_use("iio", path.display(), [DeviceId::of(&node)]),
        _ => Refusal::new("iio", file_error("open", path, &error)),
    })
}

/// Writes an attribute, unless it already has that text.
fn set(path: &Path, wanted: &str) -> Result<(), String> {
    if first_line(path).is_some_and(|text| text == wanted) {
        return Ok(());
    }
    write(path, wanted).map_err(|error| file_error(&format!("write {wanted} to"), path, &error))
}

/// Checks that an attribute could be written, unless it already has that text.
fn may_set(path: &Path, wanted: &str) -> Result<(), String> {
    if first_line(path).is_some_and(|text| text == wanted) {
        return Ok(());
    }
    let errno = match path.metadata().map(|_| access(path, true)) {
        Err(error) => error,
        Ok(Access::Denied) => io::Error::from_raw_os_error(libc::EACCES),
        Ok(Access::Granted | Access::ServiceOnly) => return Ok(()),
    };
    Err(file_error(&format!("write {wanted} to"), path, &errno))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // A single write of the whole text, as the kernel requires for attributes.
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// Name and folder of each trigger, ordered by number.
pub(super) fn triggers(sys: &Path) -> Vec<(String, PathBuf)> {
    let devices = sys.join("bus/iio/devices");
    let folders =
        numbered(&devices, "trigger").unwrap_or_default().into_iter().map(|(_, trigger)| devices.join(trigger));
    folders.filter_map(|folder| Some((first_line(&folder.join("name"))?, folder))).collect()
}

fn names(triggers: &[(String, PathBuf)]) -> String {
    let names: Vec<_> = triggers.iter().map(|(name, _)| format!("{name:?}")).collect();
    if names.is_empty() { "none; there is no trigger".into() } else { names.join(", ") }
}

/// Sets the trigger. Returns the folder of the trigger in use, if any.
fn set_trigger(device: &Candidate, settings: &BufferSettings, sys: &Path, set: Set) -> Result<Option<PathBuf>, String> {
    let current = device.folder.join("trigger/current_trigger");
    let triggers = triggers(sys);
    let folder = |name: &str| triggers.iter().find(|(known, _)| known == name).map(|(_, folder)| folder.clone());
    // The name that drivers give to their device's own trigger.
    let number = device.node.trim_start_matches("iio:device");
    let own = format!("{}-dev{number}", device.name);
    let name = match (&settings.trigger, first_line(&current)) {
        (Some(name), _) if folder(name).is_none() => {
            return Err(format!("there is no trigger {name:?}; there is {}", names(&triggers)));
        }
        (Some(_), _) if !current.exists() => return Err("the device takes no trigger; remove it".into()),
        (Some(name), _) => name.clone(),
        (None, Some(set)) => set,
        (None, None) if current.exists() && folder(&own).is_some() => own,
        (None, None) => return Ok(None),
    };
    set(&current, &name)?;
    Ok(folder(&name))
}

/// Whether a trigger fires when a program writes to its file, or at another device's interrupt. Recognised by the names that the kernel's
/// drivers give to such triggers.
fn is_fired_from_outside(trigger: &Path) -> bool {
    first_line(&trigger.join("name"))
        .is_some_and(|name| ["sysfstrig", "irqtrig"].iter().any(|kind| name.starts_with(kind)))
}

/// Sets the frequency, if one is wanted. Returns the frequency in use, if known.
fn set_frequency(
    folder: &Path,
    trigger: Option<&Path>,
    channels: &[String],
    wanted: Option<f64>,
    set: Set,
) -> Result<Option<f64>, String> {
    let of_a_channel = channels.iter().flat_map(|channel| iio::names(channel, FREQUENCY));
    let paths = trigger
        .map(|trigger| trigger.join(FREQUENCY))
        .into_iter()
        .chain([folder.join(FREQUENCY)])
        .chain(of_a_channel.map(|name| folder.join(name)));
    let Some(path) = paths.into_iter().find(|path| path.exists()) else {
        return match wanted {
            Some(_) => Err("neither the trigger nor the device has a frequency to set".into()),
            None => Ok(None),
        };
    };
    let current = || first_line(&path).and_then(|text| text.parse::<f64>().ok());
    if let Some(wanted) = wanted
        && current() != Some(wanted)
    {
        set(&path, &wanted.to_string())?;
    }
    Ok(current())
}

const FREQUENCY: &str = "sampling_frequency";

/// Switches the wanted channels on and all others off. Returns the channels that are on, including the timestamp if there is one.
fn set_channels(elements: &Path, wanted: &[String], set: Set) -> Result<Vec<String>, String> {
    let mut there = listed(elements, wanted)?;
    let is_wanted = |channel: &String| channel == TIMESTAMP || wanted.is_empty() || wanted.contains(channel);
    let enable = |channel: &String| elements.join(format!("{channel}_en"));
    for channel in there.iter().filter(|channel| !is_wanted(channel)) {
        set(&enable(channel), "0")?;
    }
    there.retain(is_wanted);
    for channel in &there {
        set(&enable(channel), "1").map_err(|message| match wanted.is_empty() {
            true => format!(
                "{message}; the device may not capture all channels together: choose some with channels = [...]"
            ),
            false => message,
        })?;
    }
    Ok(there)
}

/// Switches the device's timestamps to the monotonic clock. If that fails, returns the offset that converts them, in nanoseconds; otherwise
/// 0.
fn set_clock(folder: &Path) -> i64 {
    let path = folder.join("current_timestamp_clock");
    let _ = set(&path, "monotonic");
    let clock = match first_line(&path).as_deref() {
        Some("monotonic" | "monotonic_coarse") => return 0,
        Some("monotonic_raw") => KernelClock::monotonic_raw(),
        Some("boottime") => KernelClock::boottime(),
        Some("tai") => KernelClock::tai(),
        _ => KernelClock::realtime(),
    };
    let offset = utc_offset(clock) - utc_offset(KernelClock::monotonic());
    i64::try_from(offset).unwrap_or(0)
}

/// Parses a channel's file, such as `in_accel_x_type`.
fn read<T>(elements: &Path, channel: &str, what: &str, parse: fn(&str) -> Option<T>) -> Result<T, String> {
    let path = elements.join(format!("{channel}_{what}"));
    let text = std::fs::read_to_string(&path).map_err(|error| file_error("read", &path, &error))?;
    parse(text.trim()).ok_or_else(|| format!("{} has an unknown format: {:?}", path.display(), text.trim()))
}
