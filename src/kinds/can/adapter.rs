//! Identifies the hardware of an interface. When an interface goes away, the kernel may give its name and number to another one; the path
//! of the hardware in `/sys` stays. Reads small files in `/sys`; may block. Reads no clock.

use crate::kinds::device::{file_names, first_line};
use crate::sys::can::{Interface, Socket};
use std::io;
use std::path::{Path, PathBuf};

/// The hardware of an interface: its path in `/sys`, and the interface's numbers there (`dev_id` and `dev_port`). The interface's name
/// follows them if the driver gave another interface the same numbers. All interfaces without hardware share one path and have no numbers:
/// only their names distinguish them.
pub(crate) type Adapter = (PathBuf, String);

/// Whether both may be the same. A name counts only if both have one.
pub(crate) fn is_same_adapter((place, numbers): &Adapter, (its_place, its): &Adapter) -> bool {
    place == its_place && numbers.split(' ').zip(its.split(' ')).all(|(own, its)| own == its)
}

/// The interfaces of this network namespace.
pub(crate) trait Interfaces {
    /// Finds an interface by its name or alternative name.
    ///
    /// # Errors
    /// ENODEV: no interface has this name.
    fn named(&self, name: &str) -> io::Result<Interface>;

    /// Finds an interface by its number.
    ///
    /// # Errors
    /// ENODEV: it is gone.
    fn at(&self, index: libc::c_int) -> io::Result<Interface>;
}

impl Interfaces for Socket {
    fn named(&self, name: &str) -> io::Result<Interface> {
        self.interface(name)
    }

    fn at(&self, index: libc::c_int) -> io::Result<Interface> {
        self.interface_at(index)
    }
}

/// The folder that lists all interfaces.
pub(super) fn folder(sys: &Path) -> PathBuf {
    sys.join("class/net")
}

/// The adapter of an interface. `None`: unknown, because this `/sys` may belong to another network namespace.
pub(super) fn adapter(sys: &Path, interface: &Interface) -> Option<Adapter> {
    let index = first_line(&folder(sys).join(&interface.name).join("ifindex"))?;
    let (place, all) = adapter_with_name(sys, &interface.name).filter(|_| index.parse() == Ok(interface.index))?;
    let without_name =
        (place.clone(), all.rsplit_once(' ').map_or_else(String::new, |(numbers, _)| numbers.to_owned()));
    Some(if interfaces_of(sys, &without_name).len() > 1 { (place, all) } else { without_name })
}

fn adapter_with_name(sys: &Path, name: &str) -> Option<Adapter> {
    let own = folder(sys).join(name).canonicalize().ok()?;
    let Ok(device) = own.join("device").canonicalize() else {
        return Some((own.ancestors().nth(2)?.into(), String::new()));
    };
    let [id, port] = ["dev_id", "dev_port"].map(|file| first_line(&own.join(file)).unwrap_or_else(|| "-".into()));
    Some((device, format!("{id} {port} {name}")))
}

pub(super) fn is_hardware((_, numbers): &Adapter) -> bool {
    !numbers.is_empty()
}

/// The names of all interfaces that this adapter may have now.
pub(crate) fn interfaces_of(sys: &Path, wanted: &Adapter) -> Vec<String> {
    let is_it = |name: &String| adapter_with_name(sys, name).is_some_and(|it| is_same_adapter(&it, wanted));
    let all = file_names(&folder(sys)).ok().filter(|_| is_hardware(wanted));
    all.into_iter().flatten().filter(is_it).collect()
}

/// Finds the interface that had this name and this adapter. If the adapter has a single interface, finds that one under any name.
///
/// # Errors
/// ENODEV: no such interface exists. Any other: the name now belongs to another adapter.
pub(crate) fn find_interface(
    sys: &Path,
    name: &str,
    wanted: Option<&Adapter>,
    all: &impl Interfaces,
) -> io::Result<Interface> {
    let names = wanted.map(|wanted| interfaces_of(sys, wanted)).unwrap_or_default();
    let name = match &names[..] {
        [one] => one,
        _ => name,
    };
    let found = all.named(name)?;
    match (adapter(sys, &found), wanted) {
        (Some(is), Some(wanted)) if !is_same_adapter(&is, wanted) => {
            let [is, was] = [&is, wanted].map(|(place, numbers)| format!("{} {numbers}", place.display()));
            let (is, was) = (is.trim_end(), was.trim_end());
            Err(io::Error::other(format!("{name} is at {is} now, and not at {was}: it is another interface")))
        }
        _ => Ok(found),
    }
}
