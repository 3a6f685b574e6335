//! Finds devices in `/sys` by name. The numbers in `hwmon3` and `iio:device0` change from boot to boot, and when a device comes back. Reads
//! small files; may block; not for a hot thread.

use crate::kinds::device::{first_line, numbered};
use crate::site::Refusal;
use std::io;
use std::path::{Path, PathBuf};
use tracing::debug;

/// Names a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByName {
    /// The content of its file `name` or, for IIO, of `label`.
    pub(crate) name: String,
    /// Selects one of several devices with that name: what [stays](Candidate::stays) of its parent device, a link to its drive
    /// (`/dev/disk/by-id/…`), the kernel's name of its parent device (`0-0048`, `PCI0`), or its own (`hwmon3`) if it has no parent.
    pub(crate) device: Option<String>,
}

/// One class of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kinds) enum Class {
    Hwmon,
    Iio,
}

impl Class {
    /// The configuration key that names a device of this class.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Hwmon => "hwmon",
            Self::Iio => "iio",
        }
    }

    /// The class's name in messages, its folder of devices under `/sys`, and the prefix of their names.
    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Hwmon => ("hwmon", "class/hwmon", "hwmon"),
            Self::Iio => ("IIO", "bus/iio/devices", "iio:device"),
        }
    }
}

/// A device that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kinds) struct Candidate {
    pub(in crate::kinds) folder: PathBuf,
    pub(in crate::kinds) node: String, // its own: `hwmon3`
    pub(in crate::kinds) name: String,
    pub(in crate::kinds) label: Option<String>,
    pub(in crate::kinds) device: String, // the name of its parent device, or its own if it has none
    stays: Vec<String>, // the parent's serial number and PCI address, which do not change from boot to boot
    parent: Option<PathBuf>,
}

impl Candidate {
    /// Whether it is in a drive.
    pub(super) fn is_drive(&self) -> bool {
        ["nvme", "drivetemp"].contains(&&*self.name)
    }

    /// The names to offer for the key `device`, the best one first; `None`: none is needed. Drives come and go, and the name of one is that
    /// of all of them, so the only one is named too.
    pub(super) fn offers(&self) -> impl Iterator<Item = Option<&String>> {
        let first = self.stays.iter().filter(|_| self.is_drive()).map(Some);
        first.chain([None]).chain(self.names().map(Some))
    }

    /// Its names for the key `device`, the best one first.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.stays.iter().chain([&self.device, &self.node])
    }

    /// Whether the key `device` means this one. `drive`: the device of the drive that it links to, if it does.
    fn is(&self, wanted: &str, drive: Option<&Path>) -> bool {
        let is_its_drive = match (drive, self.parent.as_deref()) {
            // A drive with several controllers is a subsystem, which has a link to each of them.
            (Some(drive), Some(parent)) => {
                drive == parent || parent.file_name().is_some_and(|name| drive.join(name).is_symlink())
            }
            _ => false,
        };
        is_its_drive || self.names().any(|name| name == wanted)
    }
}

/// All devices of the class, in the order of their numbers.
pub(super) fn all(class: Class, sys: &Path) -> io::Result<Vec<Candidate>> {
    let (_, devices, prefix) = class.facts();
    let mut found = Vec::new();
    for (_, node) in numbered(&sys.join(devices), prefix)? {
        let folder = sys.join(devices).join(&node);
        // The device may disappear in between.
        let Some(name) = first_line(&folder.join("name")) else {
            continue;
        };
        let parent = parent(class, &folder);
        let named = parent.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let stays = parent.as_deref().map(stays).unwrap_or_default();
        let (device, label) = (named.unwrap_or_else(|| node.clone()), first_line(&folder.join("label")));
        found.push(Candidate { folder, node, name, label, device, stays, parent });
    }
    Ok(found)
}

/// The wanted device.
pub(in crate::kinds) fn find(class: Class, sys: &Path, wanted: &ByName) -> Result<Candidate, Refusal> {
    let ((word, devices, _), name) = (class.facts(), &wanted.name);
    let refuse = |key, message| Err(Refusal::new(key, message));
    let all = match all(class, sys) {
        Ok(all) => all,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return refuse(class.key(), format!("cannot list {}: {error}", sys.join(devices).display()));
        }
    };
    let quoted = |names: Vec<&String>| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let named: Vec<_> = all.iter().filter(|one| one.name == *name || one.label.as_ref() == Some(name)).collect();
    if named.is_empty() {
        let there = match all.is_empty() {
            true => format!("there is no {word} device at all"),
            false => {
                let names = all.iter().map(|one| one.label.as_ref().unwrap_or(&one.name));
                format!("there are {}", quoted(names.collect()))
            }
        };
        return refuse(class.key(), format!("no {word} device is named {name:?}; {there}"));
    }
    let drive = wanted.device.as_ref().and_then(|link| drive(sys, link));
    let is_wanted = |one: &Candidate| wanted.device.as_ref().is_none_or(|it| one.is(it, drive.as_deref()));
    let matching: Vec<_> = named.iter().copied().filter(|one| is_wanted(one)).collect();
    let is_only_its = |name: &&String, own: &Candidate| {
        named.iter().filter(|one| one.node != own.node).all(|other| other.names().all(|others| others != *name))
    };
    let best = |one: &&'_ Candidate| one.names().find(|name| is_only_its(name, one)).unwrap_or(&one.node).clone();
    let devices = || {
        let names: Vec<_> = named.iter().map(best).collect();
        quoted(names.iter().collect())
    };
    match (&matching[..], &wanted.device) {
        ([one], _) => {
            debug!("{word} device {name:?} is {}", one.folder.display());
            Ok((*one).clone())
        }
        (several, None) => {
            let (count, devices) = (several.len(), devices());
            let which = format!("say which with device = one of {devices}");
            refuse(class.key(), format!("{count} {word} devices are named {name:?}; {which}"))
        }
        ([], Some(device)) => {
            let which = format!("it is one of {}", devices());
            refuse("device", format!("no {word} device {name:?} belongs to {device:?}; {which}"))
        }
        (several, Some(device)) => {
            let (count, nodes) = (several.len(), quoted(several.iter().map(|one| &one.node).collect()));
            let which = format!("say which with device = one of {nodes}");
            refuse("device", format!("{count} {word} devices {name:?} belong to {device:?}; {which}"))
        }
    }
}

/// The folder of its parent device.
fn parent(class: Class, folder: &Path) -> Option<PathBuf> {
    let parent = match class {
        Class::Hwmon => folder.join("device").canonicalize().ok()?,
        // One folder up in the tree of all devices. The top of the tree is not a device.
        Class::Iio => folder.canonicalize().ok()?.parent()?.to_path_buf(),
    };
    (parent.file_name()? != "devices").then_some(parent)
}

/// The names of a device that do not change from boot to boot, the best one first: its serial number, as NVMe drives and USB devices have it
/// in a file and SCSI and ATA drives in a page of their vital product data, and the PCI address of what it is connected to.
fn stays(device: &Path) -> Vec<String> {
    let page = || {
        // A header of four bytes ends with the length of the serial number.
        let page = std::fs::read(device.join("vpd_pg80")).ok()?;
        let serial = String::from_utf8_lossy(page.get(4..)?.get(..usize::from(page[3]))?).into_owned();
        Some(serial.trim_matches([' ', '\0']).to_owned()).filter(|serial| !serial.is_empty())
    };
    // A part of a USB device has the number of the whole.
    let usb = || device.ancestors().find(|folder| folder.join("idVendor").exists());
    let serial = first_line(&device.join("serial")).or_else(page).or_else(|| first_line(&usb()?.join("serial")));
    let names = device.ancestors().filter_map(|folder| folder.file_name()?.to_str());
    let address = names.map(str::to_owned).find(|name| is_pci_address(name));
    [serial, address].into_iter().flatten().collect()
}

/// The names that stay of the device to which this one in a folder of `/sys/bus` belongs: as [`stays`], and the name of a platform device.
pub(in crate::kinds) fn names_of_parent(folder: &Path) -> Vec<String> {
    let Some(parent) = folder.canonicalize().ok().and_then(|folder| Some(folder.parent()?.to_path_buf())) else {
        return Vec::new();
    };
    let bus = parent.join("subsystem").canonicalize().ok();
    let is_platform = bus.is_some_and(|bus| bus.file_name().is_some_and(|name| name == "platform"));
    let named = parent.file_name().filter(|_| is_platform).map(|name| name.to_string_lossy().into_owned());
    stays(&parent).into_iter().chain(named).collect()
}

/// `0000:01:00.0`: domain, bus, device and function.
fn is_pci_address(name: &str) -> bool {
    let parts: Vec<_> = name.split([':', '.']).collect();
    let are_hex = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    are_hex && parts.iter().map(|part| part.len()).eq([4, 2, 2, 1]) && name.as_bytes()[10] == b'.'
}

/// The device of the drive whose node this is a link to, such as `/dev/disk/by-id/nvme-…`.
fn drive(sys: &Path, link: &str) -> Option<PathBuf> {
    let node = Path::new(link).is_absolute().then(|| Path::new(link).canonicalize().ok())??;
    sys.join("class/block").join(node.file_name()?).join("device").canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine with two NVMe drives and two SATA drives, numbered in this order.
    fn booted(numbers: [usize; 2]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let put = |path: String, content: &[u8]| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let link = |path: String, to: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(sys.path().join(to), path).unwrap();
        };
        for (drive, number) in numbers.into_iter().enumerate() {
            let nvme = format!("devices/pci0000:00/0000:00:1d.{drive}/0000:0{drive}:00.0/nvme/nvme{number}");
            put(format!("{nvme}/serial"), format!("S3Z{drive}  \n").as_bytes());
            put(format!("class/hwmon/hwmon{number}/name"), b"nvme\n");
            link(format!("class/hwmon/hwmon{number}/device"), &nvme);
            link(format!("class/block/nvme{number}n1/device"), &nvme);
            let disk =
                format!("devices/pci0000:00/0000:00:17.0/ata{drive}/host{number}/target{number}:0:0/{number}:0:0:0");
            put(format!("{disk}/vpd_pg80"), &[&b"\0\x80\0\x06 WD-"[..], [b"A", b"B"][drive], b"\0"].concat());
            put(format!("class/hwmon/hwmon{}/name", 2 + number), b"drivetemp\n");
            link(format!("class/hwmon/hwmon{}/device", 2 + number), &disk);
            put(format!("dev/nvme{number}n1"), b"");
            link(format!("dev/by-id/nvme-S3Z{drive}"), &format!("dev/nvme{number}n1"));
        }
        sys
    }

    #[test]
    fn a_drive_is_offered_by_what_stays_even_if_it_is_the_only_one() {
        let sys = booted([0, 1]);
        for gone in [1, 3] {
            fs::remove_dir_all(sys.path().join(format!("class/hwmon/hwmon{gone}"))).unwrap();
        }
        let all = all(Class::Hwmon, sys.path()).unwrap();
        let first = |one: &Candidate| one.offers().next().unwrap().cloned();
        assert_eq!(all.iter().map(first).collect::<Vec<_>>(), [Some("S3Z0".into()), Some("WD-A".into())]);
        let lm75 = Candidate { name: "lm75".into(), ..all[0].clone() };
        assert_eq!(first(&lm75), None, "one that is no drive is found by its name");
    }

    #[test]
    fn a_drive_is_found_by_what_stays_whatever_its_number() {
        for numbers in [[0, 1], [1, 0]] {
            let sys = booted(numbers);
            let link = sys.path().join("dev/by-id/nvme-S3Z1").display().to_string();
            for (name, device, number) in [
                ("nvme", "S3Z1", numbers[1]),
                ("nvme", "0000:01:00.0", numbers[1]),
                ("nvme", &link, numbers[1]),
                ("drivetemp", "WD-A", 2 + numbers[0]),
                ("nvme", "nvme0", 0),
                ("drivetemp", "1:0:0:0", 3),
            ] {
                let wanted = ByName { name: name.into(), device: Some(device.into()) };
                let found = find(Class::Hwmon, sys.path(), &wanted).map(|found| found.node);
                assert_eq!(found, Ok(format!("hwmon{number}")), "{device}");
            }
        }
        let sys = booted([0, 1]);
        let refused = |device: Option<&str>| {
            let wanted = ByName { name: "drivetemp".into(), device: device.map(str::to_owned) };
            find(Class::Hwmon, sys.path(), &wanted).unwrap_err().message
        };
        assert!(refused(None).ends_with("say which with device = one of \"WD-A\", \"WD-B\""), "{}", refused(None));
        // What both have is offered for neither.
        for drive in [0, 1] {
            let page = format!(
                "devices/pci0000:00/0000:00:17.0/ata{drive}/host{drive}/target{drive}:0:0/{drive}:0:0:0/vpd_pg80"
            );
            fs::remove_file(sys.path().join(page)).unwrap();
        }
        assert!(refused(None).ends_with("one of \"0:0:0:0\", \"1:0:0:0\""), "{}", refused(None));
        assert!(
            refused(Some("0000:00:17.0")).contains("2 hwmon devices \"drivetemp\" belong to"),
            "both are behind it"
        );
        assert!(!is_pci_address("0:0:0:0") && !is_pci_address("0000.01:00:0") && is_pci_address("0000:0a:1f.7"));
    }
}
