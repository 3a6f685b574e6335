//! Identifies a bus: by its number, its node, or its adapter's name, which does not change from boot to boot. For opening only; allocates,
//! and may block.

use super::list::adapters;
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
    /// Its adapter's name.
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
        let found: Vec<_> = adapters.iter().filter(|(_, name)| name == wanted).map(|(number, _)| number).collect();
        match found[..] {
            [number] => Ok(dev.join(format!("i2c-{number}"))),
            [] if adapters.is_empty() => Err(format!(
                "no bus is called {wanted:?}: there is none; is the module i2c-dev loaded (`modprobe i2c-dev`)?"
            )),
            [] => {
                let names: Vec<_> = adapters.iter().map(|(number, name)| format!("{name:?} (i2c-{number})")).collect();
                Err(format!("no bus is called {wanted:?}; there are {}", names.join(", ")))
            }
            _ => {
                let nodes: Vec<_> = found.iter().map(|number| format!("i2c-{number}")).collect();
                Err(format!("several buses are called {wanted:?}: {}; name one by its number", nodes.join(", ")))
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
        assert_eq!(node("DDC").unwrap_err(), "several buses are called \"DDC\": i2c-0, i2c-11; name one by its number");
    }
}
