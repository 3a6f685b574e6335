//! Identifies a bus: by its number, its node, its adapter's name, or a name of the device that the adapter
//! belongs to; these names do not change from boot to boot. For opening only; allocates,
//! and may block.

use super::list::{Adapter, adapters};
use crate::config::NumberOrName;
use std::fmt;
use std::path::{Path, PathBuf};

/// A bus as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bus {
    /// Number 1 is `/dev/i2c-1`.
    Number(u32),
    /// Its node.
    Path(PathBuf),
    /// Its adapter's name, or the PCI address, serial number or platform name of the adapter's device.
    Name(String),
}

impl Bus {
    /// Parses the value of a key.
    pub(super) fn named(bus: NumberOrName) -> Option<Self> {
        match bus {
            NumberOrName::Number(number) => u32::try_from(number).ok().map(Self::Number),
            NumberOrName::Name(name) => Some(Self::of(name)),
        }
    }

    /// Parses a text.
    pub(super) fn of(text: String) -> Self {
        match text.strip_prefix("i2c-").and_then(|number| number.parse().ok()) {
            Some(number) => Self::Number(number),
            // Some adapter names contain a slash, so only a leading one marks a path.
            None if text.starts_with('/') => Self::Path(text.into()),
            None => Self::Name(text),
        }
    }

    /// Its node in `dev`; names are looked up in `sys`.
    pub(super) fn node(&self, sys: &Path, dev: &Path) -> Result<PathBuf, String> {
        let wanted = match self {
            Self::Number(number) => return Ok(dev.join(format!("i2c-{number}"))),
            Self::Path(path) => return Ok(path.clone()),
            Self::Name(name) => name,
        };
        let adapters = adapters(sys);
        let found: Vec<_> = adapters.iter().filter(|one| one.is(wanted)).collect();
        match found[..] {
            [one] => Ok(dev.join(format!("i2c-{}", one.number))),
            [] if adapters.is_empty() => Err(format!(
                "no bus is called {wanted:?}: there is none; is the module i2c-dev loaded (`modprobe i2c-dev`)?"
            )),
            [] => {
                let names: Vec<_> = adapters.iter().map(|one| format!("{:?} (i2c-{})", one.name, one.number)).collect();
                Err(format!("no bus is called {wanted:?}; there are {}", names.join(", ")))
            }
            _ => {
                let name = |one: &&Adapter| match one.clear_name(&adapters) {
                    Some(name) => format!("{name:?} (i2c-{})", one.number),
                    None => format!("i2c-{}", one.number),
                };
                let names: Vec<_> = found.iter().map(name).collect();
                Err(format!("several buses are called {wanted:?}: {}; write one of these", names.join(", ")))
            }
        }
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "i2c-{number}"),
            Self::Path(path) => path.display().fmt(f),
            Self::Name(name) => write!(f, "bus {name:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_bus_is_found_by_name() {
        let sys = tempfile::tempdir().unwrap();
        let node = |text: &str| Bus::of(text.into()).node(sys.path(), Path::new("/dev"));
        assert_eq!(node("i2c-7").unwrap(), Path::new("/dev/i2c-7"));
        assert_eq!(node("/dev/by-name/x").unwrap(), Path::new("/dev/by-name/x"));
        assert!(node("stub").unwrap_err().contains("modprobe i2c-dev"));
        for (number, name) in [(0, "DDC\n"), (10, "SMBus stub driver\n"), (11, "DDC\n"), (12, "AUX A/DDI A/PHY A\n")] {
            let folder = sys.path().join(format!("bus/i2c/devices/i2c-{number}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("name"), name).unwrap();
        }
        assert_eq!(node("SMBus stub driver").unwrap(), Path::new("/dev/i2c-10"));
        assert_eq!(node("AUX A/DDI A/PHY A").unwrap(), Path::new("/dev/i2c-12"));
        assert_eq!(
            node("stub").unwrap_err(),
            "no bus is called \"stub\"; there are \"DDC\" (i2c-0), \"SMBus stub driver\" (i2c-10), \"DDC\" (i2c-11), \
             \"AUX A/DDI A/PHY A\" (i2c-12)"
        );
        assert_eq!(node("DDC").unwrap_err(), "several buses are called \"DDC\": i2c-0, i2c-11; write one of these");
    }

    #[test]
    fn a_bus_is_found_by_the_device_of_its_adapter() {
        use std::os::unix::fs::symlink;
        let sys = tempfile::tempdir().unwrap();
        // In the order of one boot and of another.
        for numbers in [[3, 4, 5, 6], [5, 3, 6, 4]] {
            let parents = [
                "pci0000:00/0000:00:15.0",
                "pci0000:00/0000:00:15.1",
                "platform/fe804000.i2c",
                "pci0000:00/0000:00:15.1",
            ];
            let _ = fs::remove_dir_all(sys.path().join("bus"));
            fs::create_dir_all(sys.path().join("bus/i2c/devices")).unwrap();
            fs::create_dir_all(sys.path().join("bus/platform")).unwrap();
            for (at, (number, parent)) in numbers.into_iter().zip(parents).enumerate() {
                let parent = sys.path().join("devices").join(parent);
                let folder = parent.join(format!("i2c-{number}"));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("name"), if at == 3 { "other\n" } else { "Designware\n" }).unwrap();
                symlink(&folder, sys.path().join(format!("bus/i2c/devices/i2c-{number}"))).unwrap();
                if at == 2 {
                    let _ = symlink(sys.path().join("bus/platform"), parent.join("subsystem"));
                }
            }
            let node = |text: &str| Bus::of(text.into()).node(sys.path(), Path::new("/dev"));
            let i2c = |number| Ok(PathBuf::from(format!("/dev/i2c-{number}")));
            assert_eq!(node("0000:00:15.0"), i2c(numbers[0]));
            assert_eq!(node("fe804000.i2c"), i2c(numbers[2]));
            assert_eq!(node("other"), i2c(numbers[3]));
            let several = node("Designware").unwrap_err();
            // Two buses of one device have the same address, so the number is left.
            for name in [format!("\"0000:00:15.0\" (i2c-{})", numbers[0]), format!(" i2c-{}", numbers[1])] {
                assert!(several.contains(&name), "{several}");
            }
            assert!(node("0000:00:15.1").unwrap_err().starts_with("several buses are called"));
        }
    }
}
