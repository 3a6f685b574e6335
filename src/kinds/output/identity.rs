//! What identifies a target and distinguishes it from all others. Pure.

use crate::kinds::layout::SampleLayout;
use crate::site::DeviceId;
use std::path::{Path, PathBuf};

/// The identity of a target: a takeover requires exactly the same one.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Every file and byte that is written, read back or relied on.
    pub(super) ids: Vec<DeviceId>,
    /// How the number is stored in these bytes, if not as text: bytes read or written in one layout mean something else in another.
    pub(super) layout: Option<SampleLayout>,
    /// The target's name in messages.
    pub(super) shown: String,
    pub(super) device: Device,
}

/// The device that a target belongs to, identified without its number: the kernel may give that number to another device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    /// The target's path in `/sys`, down to the part of the device. `None`: a regular file has no device.
    pub(super) path: Option<PathBuf>,
    /// The device's own name.
    pub(super) name: Option<String>,
}

impl Device {
    /// Whether both may be the same device, even under another number. `in_place`: it has to be in the same place.
    pub(super) fn may_be(&self, other: &Self, in_place: bool) -> bool {
        let is_there = || self.path.as_ref().zip(other.path.as_ref()).is_none_or(|(own, other)| same_place(own, other));
        self.name.as_ref().zip(other.name.as_ref()).is_none_or(|(own, other)| own == other) && (!in_place || is_there())
    }

    /// The device's name in messages.
    pub(super) fn shown(&self) -> String {
        let path = self.path.as_ref().map_or_else(|| "an unknown place".to_owned(), |path| path.display().to_string());
        self.name.as_ref().map_or_else(|| path.clone(), |name| format!("{name:?} at {path}"))
    }
}

/// Whether two `/sys` paths lead to the same place, ignoring device numbers.
pub(super) fn same_place(one: &Path, other: &Path) -> bool {
    let kind = |part: &std::path::Component<'_>| part.as_os_str().to_str().and_then(kind_of).map(str::to_owned);
    let (parts, others): (Vec<_>, Vec<_>) = (one.components().collect(), other.components().collect());
    let is_same = |(one, other)| one == other || kind(one).is_some_and(|own| kind(other) == Some(own));
    parts.len() == others.len() && parts.iter().zip(&others).all(is_same)
}

/// The name of a device folder without the number the kernel assigned: `hwmon3`, `iio:device0`, `gpiochip1`, and `0003:1B1C:0C10.0004` of a
/// USB fan controller. `None` for names numbered by place, such as `1-0048` or a PCI function: another number there is another device.
pub(super) fn kind_of(name: &str) -> Option<&str> {
    let by_class = ["hwmon", "iio:device", "pwmchip", "gpiochip", "i2c-"].into_iter().find(|class| {
        name.strip_prefix(class)
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
    });
    by_class.or_else(|| Some(name.rsplit_once('.')?.0).filter(|kind| is_of_hid(kind)))
}

/// Whether the name is bus, vendor and product of a HID device: `0003:1B1C:0C10`.
fn is_of_hid(name: &str) -> bool {
    name.split(':').count() == 3 && name.split(':').all(|part| part.len() == 4)
}

impl Identity {
    pub(super) fn is(&self, other: &Self) -> bool {
        self.layout == other.layout && self.has_the_same_bytes(other)
    }

    pub(super) fn has_the_same_bytes(&self, other: &Self) -> bool {
        self.ids.len() == other.ids.len() && self.ids.iter().all(|id| other.ids.contains(id))
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.ids.iter().any(|id| other.ids.contains(id))
    }

    /// Whether `other` is the same target after it went away and came back: same by name or place, though not by the open files. `is_lost`:
    /// the loss was noticed. Until then, a target in the same place except for its number may be a twin.
    pub(super) fn came_back_as(&self, other: &Self, is_lost: bool) -> bool {
        let (own, its) = (&self.device, &other.device);
        let in_place = || own.path.as_ref().zip(its.path.as_ref()).is_some_and(|(own, its)| same_place(own, its));
        (self.shown == other.shown || is_lost && in_place()) && own.may_be(its, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::layout::TYPES;

    #[test]
    fn a_target_is_the_same_only_with_all_its_bytes_in_the_same_layout() {
        let of = |bytes: std::ops::Range<u64>, layout: &str| Identity {
            ids: bytes.map(|byte| DeviceId::Node(byte, 0)).collect(),
            layout: TYPES.iter().find(|(name, _)| *name == layout).map(|(_, layout)| *layout),
            shown: String::new(),
            device: Device::default(),
        };
        let old = of(0x10..0x13, "u24be");
        assert!(old.is(&of(0x10..0x13, "u24be")));
        for (other, overlaps, same_bytes) in [
            (of(0x10..0x13, "u24le"), true, true),
            (of(0x10..0x18, "u64be"), true, false),
            (of(0x12..0x13, "u8"), true, false),
            (of(0x13..0x16, "u24be"), false, false),
        ] {
            assert!(!old.is(&other) && !other.is(&old), "{other:?}");
            assert_eq!((old.overlaps(&other), old.has_the_same_bytes(&other)), (overlaps, same_bytes), "{other:?}");
        }
    }

    #[test]
    fn a_device_is_known_by_its_place_and_its_name_and_not_by_its_number() {
        let of = |path: &str, name: &str| Device { path: Some(path.into()), name: Some(name.into()) };
        let (bus, other) =
            ("/sys/devices/pci0/0000:00:15.0/i2c-1/0x48/0x10", "/sys/devices/pci0/0000:00:16.0/i2c-1/0x48/0x10");
        let own = of(bus, "DW adapter");
        assert!(own.may_be(&of("/sys/devices/pci0/0000:00:15.0/i2c-4/0x48/0x10", "DW adapter"), true));
        assert!(!own.may_be(&of(bus, "another adapter"), false));
        assert!(!own.may_be(&of(other, "DW adapter"), true), "a twin has its number now");
        assert!(own.may_be(&of(other, "DW adapter"), false), "one that is looked for by its name may be anywhere");
        assert!(own.may_be(&Device::default(), true), "nothing is known");
        for (one, other, is) in [
            ("/sys/a/hwmon/hwmon3/pwm1", "/sys/a/hwmon/hwmon12/pwm1", true),
            ("/sys/a/hwmon/hwmon3/pwm1", "/sys/a/hwmon/hwmon3/pwm2", false),
            ("/sys/a/1-0018/hwmon/hwmon3/pwm1", "/sys/a/1-0019/hwmon/hwmon3/pwm1", false),
            ("/sys/a/0003:1E71:170E.0004/hwmon/hwmon3", "/sys/a/0003:1E71:170E.000A/hwmon/hwmon5", true),
            ("/sys/a/0000:00:15.0/i2c-1/name", "/sys/a/0000:00:15.1/i2c-1/name", false),
            ("/sys/a/gpiochip1/line 3", "/sys/a/gpiochip2/line 3", true),
            ("/sys/a/gpiochip1/line 3", "/sys/a/gpiochip2", false),
        ] {
            assert_eq!(same_place(Path::new(one), Path::new(other)), is, "{one} {other}");
        }
    }
}
