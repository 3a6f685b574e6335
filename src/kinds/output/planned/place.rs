//! Finds where the device of a planned write is now: the kernel renumbers devices when they come back, and gives old numbers to others. May
//! block.

use super::super::identity::kind_of;
#[cfg(feature = "gpio")]
use super::check::{CHIP, is_device};
use super::{SYS, is_still};
use crate::kinds::can::{interfaces_of, is_same_adapter};
use crate::safety::PlannedWrite;
#[cfg(feature = "gpio")]
use crate::site::in_sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of devices of one kind in one place. With more, none is found.
const MOST: usize = 256;

impl PlannedWrite {
    /// The same write where its device is now, found by place and name instead of number: the chip of `hwmon3` may now be `hwmon7`, and
    /// `hwmon3` another chip. Unchanged if the device is missing or may be one of several.
    pub(crate) fn followed(self) -> Self {
        self.followed_by(Self::is_there)
    }

    fn followed_by(self, is_there: impl Fn(&Self) -> bool) -> Self {
        let now = self.may_be(is_there);
        if let [one] = &now[..] { one.clone() } else { self }
    }

    /// Whether both writes are to the same device, not to two that had the same number one after the other. Unknown properties of a device
    /// count as equal.
    pub(super) fn is_on_device_of(&self, other: &Self) -> bool {
        let named = |own: &Option<(PathBuf, String)>, its: &Option<(PathBuf, String)>| {
            let is_same = |((own, text), (its, its_text)): (&(PathBuf, String), &(PathBuf, String))| {
                own == its && text.trim() == its_text.trim()
            };
            own.as_ref().zip(its.as_ref()).is_none_or(is_same)
        };
        match (self, other) {
            (Self::File { witness, .. }, Self::File { witness: its, .. }) => named(witness, its),
            (
                Self::Line { chip, label, device, .. },
                Self::Line { chip: its_chip, label: its_label, device: its_device, .. },
            ) => {
                let is_there = || device.as_ref().zip(its_device.as_ref()).is_none_or(|(own, its)| own == its);
                (chip, label) == (its_chip, its_label) && is_there()
            }
            (Self::Register { bus, adapter, .. }, Self::Register { bus: its_bus, adapter: its, .. }) => {
                bus == its_bus && named(adapter, its)
            }
            (Self::Can { interface, adapter, .. }, Self::Can { interface: its_interface, adapter: its, .. }) => {
                let is_same = |(own, its)| is_same_adapter(own, its);
                interface == its_interface && adapter.as_ref().zip(its.as_ref()).is_none_or(is_same)
            }
            _ => false,
        }
    }

    /// The error of a failed write. If its device may be one of several, the error adds that they cannot be told apart.
    pub(super) fn unless_known(&self, error: io::Error) -> io::Error {
        match &self.may_be(Self::is_there)[..] {
            several @ [_, _, ..] => {
                let nodes: Vec<_> = several.iter().map(|write| write.node().display().to_string()).collect();
                let nodes = nodes.join(", ");
                io::Error::new(error.kind(), format!("{error}; which of these it is now cannot be told: {nodes}"))
            }
            _ => error,
        }
    }

    /// Where the device may be now. Devices of the same name in the same place, such as the banks of one GPIO controller, come and go
    /// together. The device with the old number is taken as a match; any other only if it is the only one.
    fn may_be(&self, is_there: impl Fn(&Self) -> bool) -> Vec<Self> {
        if self.sends().is_some() {
            return self.buses(Path::new(SYS));
        }
        if is_there(self) {
            return vec![self.clone()];
        }
        let all: Vec<_> = self.place().map(places).unwrap_or_default().iter().map(|place| self.at(place)).collect();
        let named: Vec<_> = all.iter().filter(|write| is_there(write)).cloned().collect();
        // A different name is compared, and reported, at the write.
        if named.is_empty() && all.len() == 1 { all } else { named }
    }

    /// The same frame for each interface that may be the planned one now: the interface of that name if it has the same adapter, otherwise
    /// all interfaces of that adapter.
    fn buses(&self, sys: &Path) -> Vec<Self> {
        let Self::Can { interface: was, adapter: Some(adapter), .. } = self else { return vec![self.clone()] };
        let now = interfaces_of(sys, adapter);
        if now.contains(was) {
            return vec![self.clone()];
        }
        let named = |name| {
            let mut now = self.clone();
            if let Self::Can { interface, .. } = &mut now {
                *interface = name;
            }
            now
        };
        now.into_iter().map(named).collect()
    }

    /// The path in `/sys` that shows where the device is, including the device's number.
    fn place(&self) -> Option<&Path> {
        match self {
            Self::File { path, witness: Some(_), cut: false, .. } => Some(path),
            Self::Line { device, .. } => device.as_deref(),
            Self::Register { adapter, .. } => adapter.as_ref().map(|(name, _)| &**name),
            Self::File { .. } | Self::Can { .. } => None,
        }
    }

    /// The same write with its device in another place.
    fn at(&self, place: &Path) -> Self {
        let mut now = self.clone();
        match &mut now {
            Self::File { path, witness, .. } => {
                place.clone_into(path);
                if let Some((beside, _)) = witness {
                    *beside = place.with_file_name(beside.file_name().unwrap_or_default());
                }
            }
            Self::Line { chip, device, .. } => {
                chip.set_file_name(place.file_name().unwrap_or_default());
                *device = Some(place.into());
            }
            Self::Register { bus, adapter, .. } => {
                bus.set_file_name(place.parent().and_then(Path::file_name).unwrap_or_default());
                if let Some((name, _)) = adapter {
                    place.clone_into(name);
                }
            }
            Self::Can { .. } => {}
        }
        now
    }

    /// Whether the device is there, judged by its name. A device of which nothing is known counts as there.
    fn is_there(&self) -> bool {
        match self {
            Self::File { path, witness, cut: false, .. } => {
                path.exists() && is_still(witness.as_ref(), "device").is_ok()
            }
            Self::Line { chip, label, device: Some(device), .. } => is_chip(chip, label, device),
            Self::Register { adapter, .. } => is_still(adapter.as_ref(), "bus").is_ok(),
            Self::File { .. } | Self::Line { .. } | Self::Can { .. } => true,
        }
    }

    fn node(&self) -> &Path {
        match self {
            Self::File { path, .. } => path,
            Self::Line { chip, .. } => chip,
            Self::Register { bus, .. } => bus,
            Self::Can { interface, .. } => Path::new(interface),
        }
    }
}

/// Whether this is the GPIO chip with this label and device.
#[cfg(feature = "gpio")]
fn is_chip(chip: &Path, label: &str, device: &Path) -> bool {
    let is_it = is_device(chip, CHIP).is_ok() && in_sys(chip).as_deref() == Some(device);
    is_it && crate::kinds::gpio::DrivenLine::label_of(chip).as_deref() == Some(label)
}

#[cfg(not(feature = "gpio"))]
fn is_chip(_: &Path, _: &str, _: &Path) -> bool {
    true
}

/// All existing paths to this place, whatever numbers the devices have.
fn places(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![PathBuf::new()];
    for part in path.components() {
        let kind = part.as_os_str().to_str().and_then(kind_of);
        all = all
            .iter()
            .flat_map(|folder| kind.map_or_else(|| vec![folder.join(part)], |kind| of_kind(folder, kind)))
            .collect();
        all.retain(|path| path.exists());
        if all.len() > MOST {
            return Vec::new();
        }
    }
    all.sort();
    all
}

/// The devices of a kind in a folder.
fn of_kind(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_str().and_then(kind_of) == Some(kind)).map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_is_found_under_the_new_number_of_its_chip() {
        let sys = tempfile::tempdir().unwrap();
        let folder = |name: &str| sys.path().join(name);
        let file = |name: &str, path: &str| PlannedWrite::File {
            path: folder(path),
            witness: Some((folder(path).with_file_name("name"), name.into())),
            text: "255\n".into(),
            cut: false,
            file_system: None,
            original: None,
        };
        for chip in ["1-0018/hwmon/hwmon7", "usb1/0003:1E71:170E.000A/hwmon/hwmon5", "1-0048/iio:device2"] {
            fs::create_dir_all(folder(chip)).unwrap();
            ["name", "pwm1"].iter().for_each(|name| fs::write(folder(chip).join(name), "chip\n").unwrap());
        }
        for (old, new) in [
            ("1-0018/hwmon/hwmon3/pwm1", "1-0018/hwmon/hwmon7/pwm1"),
            ("1-0018/hwmon/hwmon7/pwm1", "1-0018/hwmon/hwmon7/pwm1"),
            ("usb1/0003:1E71:170E.0004/hwmon/hwmon3/pwm1", "usb1/0003:1E71:170E.000A/hwmon/hwmon5/pwm1"),
            ("1-0048/iio:device0/pwm1", "1-0048/iio:device2/pwm1"),
            // A chip in another place is another chip, and another file is another target.
            ("1-0019/hwmon/hwmon3/pwm1", "1-0019/hwmon/hwmon3/pwm1"),
            ("1-0018/hwmon/hwmon3/pwm2", "1-0018/hwmon/hwmon3/pwm2"),
        ] {
            assert_eq!(file("chip", old).followed(), file("chip", new));
        }
        let twin = folder("1-0018/hwmon/hwmon8");
        fs::create_dir(&twin).unwrap();
        ["name", "pwm1"].iter().for_each(|name| fs::write(twin.join(name), "chip\n").unwrap());
        let several = file("chip", "1-0018/hwmon/hwmon3/pwm1");
        assert_eq!(several.clone().followed(), several, "which of the two is not known");
        let other = file("other", "1-0048/iio:device0/pwm1").followed().make_of("fan", None).unwrap_err().to_string();
        assert!(other.contains("it is another device"), "{other}");
    }

    /// A device tree in which each chip's `name` file holds its name.
    fn chips(all: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (chip, name) in all {
            fs::create_dir_all(sys.path().join(chip)).unwrap();
            fs::write(sys.path().join(chip).join("name"), name).unwrap();
        }
        sys
    }

    #[test]
    fn a_line_is_found_by_the_place_and_the_label_of_its_chip() {
        let followed = |chip: &str, label: &str, now: &[(&str, &str)]| {
            let sys = chips(now);
            let line = PlannedWrite::Line {
                chip: Path::new("/dev").join(chip.rsplit_once('/').unwrap().1),
                label: label.into(),
                device: Some(sys.path().join(chip)),
                offset: 2,
                high: true,
                original: None,
            };
            let is_there = |write: &PlannedWrite| match write {
                PlannedWrite::Line { label, device: Some(device), .. } => {
                    fs::read_to_string(device.join("name")).is_ok_and(|name| name == *label)
                }
                _ => false,
            };
            let PlannedWrite::Line { chip, device, .. } = line.followed_by(is_there) else { panic!("it is a line") };
            let device = device.unwrap();
            assert_eq!(device.file_name(), chip.file_name());
            device.strip_prefix(sys.path()).unwrap().display().to_string()
        };
        let swapped = [("usb1/gpiochip1", "relays"), ("usb2/gpiochip0", "leds")];
        assert_eq!(followed("usb1/gpiochip0", "relays", &swapped), "usb1/gpiochip1");
        assert_eq!(followed("usb2/gpiochip1", "leds", &swapped), "usb2/gpiochip0");
        let banks = [("usb1/gpiochip0", "high"), ("usb1/gpiochip1", "low")];
        assert_eq!(followed("usb1/gpiochip0", "low", &banks), "usb1/gpiochip1", "its number is another one's");
        let twins = [("usb1/gpiochip1", "relays"), ("usb1/gpiochip2", "relays")];
        assert_eq!(followed("usb1/gpiochip0", "relays", &twins), "usb1/gpiochip0", "which one is not known");
        assert_eq!(followed("usb1/gpiochip2", "relays", &twins), "usb1/gpiochip2");
        assert_eq!(followed("usb3/gpiochip0", "relays", &swapped), "usb3/gpiochip0", "one at another place is a twin");
        let cards = [("0000:00:15.1/gpiochip1", "relays")];
        assert_eq!(followed("0000:00:15.0/gpiochip0", "relays", &cards), "0000:00:15.0/gpiochip0");
    }

    #[test]
    fn a_register_is_found_by_the_place_and_the_name_of_its_bus() {
        let sys = chips(&[
            ("usb1/i2c-3", "one\n"),
            ("usb1/i2c-4", "two\n"),
            ("usb2/i2c-5", "one\n"),
            ("usb2/i2c-6", "one\n"),
        ]);
        let register = |bus: &str, name: &str| PlannedWrite::Register {
            bus: Path::new("/dev").join(bus.rsplit_once('/').unwrap().1),
            adapter: Some((sys.path().join(bus).join("name"), name.into())),
            address: 0x48,
            force: false,
            bytes: vec![0x10, 1],
            bits: Vec::new(),
            original: None,
            held: Vec::new(),
        };
        for (old, name, new) in [
            ("usb1/i2c-3", "one", "usb1/i2c-3"),
            ("usb1/i2c-3", "two", "usb1/i2c-4"),
            ("usb1/i2c-9", "one", "usb1/i2c-3"),
            ("usb1/i2c-3", "three", "usb1/i2c-3"),
            ("usb2/i2c-7", "one", "usb2/i2c-7"),
            ("usb3/i2c-3", "one", "usb3/i2c-3"),
        ] {
            assert_eq!(register(old, name).followed(), register(new, name));
        }
        let why = register("usb2/i2c-7", "one").unless_known(io::ErrorKind::NotFound.into()).to_string();
        assert!(why.ends_with("which of these it is now cannot be told: /dev/i2c-5, /dev/i2c-6"), "{why}");
        let why = register("usb3/i2c-3", "one").unless_known(io::ErrorKind::NotFound.into()).to_string();
        assert!(!why.contains("cannot be told"), "{why}");
    }

    fn frame(interface: &str, adapter: Option<(PathBuf, String)>) -> PlannedWrite {
        let (interface, data) = (interface.to_owned(), vec![1]);
        PlannedWrite::Can { interface, adapter, id: 1, extended: false, fd: false, bit_rate_switch: false, data }
    }

    #[test]
    fn a_frame_follows_the_adapter_of_its_interface() {
        let sys = tempfile::tempdir().unwrap();
        let at = sys.path().canonicalize().unwrap();
        let folder = |device: &str| at.join("devices").join(device);
        fs::create_dir_all(at.join("class/net")).unwrap();
        for (device, name) in [("1-1", "can1"), ("1-2", "can0"), ("1-3", "can2"), ("1-3", "can3")] {
            let own = folder(device).join("net").join(name);
            fs::create_dir_all(&own).unwrap();
            ["dev_id", "dev_port"].iter().for_each(|file| fs::write(own.join(file), "0\n").unwrap());
            std::os::unix::fs::symlink("../..", own.join("device")).unwrap();
            std::os::unix::fs::symlink(&own, at.join("class/net").join(name)).unwrap();
        }
        let of = frame;
        let frame = |name: &str, device: &str| of(name, Some((folder(device), "0 0".into())));
        for (name, device, now) in [
            ("can0", "1-1", &["can1"][..]),
            ("can1", "1-2", &["can0"]),
            ("can0", "1-2", &["can0"]),
            ("can3", "1-3", &["can3"]),
            ("can0", "1-3", &["can2", "can3"]),
            ("can0", "1-4", &[]),
        ] {
            let wanted: Vec<_> = now.iter().map(|name| frame(name, device)).collect();
            assert_eq!(frame(name, device).buses(&at), wanted, "{name} {device}");
        }
        let unknown = of("can7", None);
        assert_eq!(unknown.buses(&at), std::slice::from_ref(&unknown), "of an older hertzd");
    }

    #[test]
    fn frames_on_two_adapters_have_two_targets() {
        let adapter = |device: &str| Some((PathBuf::from(device), "0x0 0".to_owned()));
        let own = frame("can0", adapter("/sys/devices/usb1/1-1"));
        assert!(own.has_target_of(&own) && own.has_target_of(&frame("can0", None)), "of an older hertzd");
        assert!(!own.has_target_of(&frame("can0", adapter("/sys/devices/usb1/1-2"))));
        assert!(!own.has_target_of(&frame("can1", adapter("/sys/devices/usb1/1-1"))));
        let old =
            r#"{"to":"can","interface":"can0","id":1,"extended":false,"fd":false,"bit_rate_switch":false,"data":[1]}"#;
        assert_eq!(serde_json::from_str::<PlannedWrite>(old).unwrap(), frame("can0", None));
        assert_eq!(serde_json::to_string(&frame("can0", None)).unwrap(), old);
    }

    #[test]
    fn a_device_with_the_number_of_another_one_is_not_that() {
        let line = |label: &str, device: Option<&str>| PlannedWrite::Line {
            chip: "/dev/gpiochip0".into(),
            label: label.into(),
            device: device.map(PathBuf::from),
            offset: 2,
            high: true,
            original: None,
        };
        let (one, two) = ("/sys/devices/usb1/1-1/gpiochip0", "/sys/devices/usb1/1-2/gpiochip0");
        assert!(line("relays", Some(one)).has_target_of(&line("relays", Some(one))));
        assert!(line("relays", Some(one)).has_target_of(&line("relays", None)), "of an older hertzd");
        assert!(!line("relays", Some(one)).has_target_of(&line("leds", Some(one))));
        assert!(!line("relays", None).has_target_of(&line("leds", None)));
        assert!(!line("relays", Some(one)).has_target_of(&line("relays", Some(two))), "a twin");
        let named = |name: &str, text: &str| Some((PathBuf::from(name), text.to_owned()));
        let register = |adapter, first| PlannedWrite::Register {
            bus: "/dev/i2c-1".into(),
            adapter,
            address: 0x48,
            force: false,
            bytes: vec![first, 1, 2],
            bits: Vec::new(),
            original: None,
            held: Vec::new(),
        };
        let fan = |witness| PlannedWrite::File {
            path: "/sys/devices/a/hwmon/hwmon3/pwm1".into(),
            witness,
            text: "255\n".into(),
            cut: false,
            file_system: None,
            original: None,
        };
        let own = named("/sys/devices/a/i2c-1/name", "DDC");
        for (other, is_same) in [
            (named("/sys/devices/a/i2c-1/name", "DDC\n"), true),
            (None, true),
            (named("/sys/devices/a/i2c-1/name", "AUX"), false),
            (named("/sys/devices/b/i2c-1/name", "DDC"), false),
        ] {
            let (left, next) = (register(own.clone(), 0x10), register(other.clone(), 0x11));
            assert_eq!(left.has_target_of(&register(other.clone(), 0x10)), is_same, "{other:?}");
            assert_eq!(left.overlaps(&next), is_same, "{other:?}");
            assert_eq!(left.shared_with(&next), if is_same { 1..2 } else { 0..0 }, "{other:?}");
            assert_eq!(fan(own.clone()).has_target_of(&fan(other.clone())), is_same, "{other:?}");
        }
    }
}
