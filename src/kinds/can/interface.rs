//! Finds the interface of a task's bus: by its number while it exists, and by its adapter afterwards. Reads small files in `/sys`; may
//! block. Reads no clock.

use super::adapter::{Adapter, Interfaces, adapter, find_interface, is_hardware, is_same_adapter};
use crate::kinds::output::Reopened;
use crate::site::{Label, Site};
use crate::sys::can::{Interface, Socket};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tracing::info;

/// The interface that a section names. It is still found when it was renamed, and when it has gone away and come back.
#[derive(Debug)]
pub(super) struct NamedBus {
    label: Label,
    name: String, // in the section
    sys: PathBuf,
    index: AtomicI32, // of the open interface; 0: it was never open
    seen: Mutex<Option<Seen>>,
    reopened: Arc<Reopened>,
}

/// The interface as of its last opening.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    adapter: Option<Adapter>,
}

impl NamedBus {
    pub(super) fn new(site: &Site, label: &Label, name: &str) -> Arc<Self> {
        Arc::new(Self {
            label: label.clone(),
            name: name.to_owned(),
            sys: site.sys().to_owned(),
            index: AtomicI32::new(0),
            seen: Mutex::default(),
            reopened: site.common(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the interface in order to open it; before the first opening, by the name in the section.
    ///
    /// # Errors
    /// See [`find_interface`].
    pub(super) fn find(&self, all: &impl Interfaces) -> io::Result<Interface> {
        if self.index.load(Ordering::Relaxed) == 0 { all.named(&self.name) } else { self.find_again(all) }
    }

    /// Finds the interface once it has been opened. Takes no lock while the interface exists.
    ///
    /// # Errors
    /// See [`find_interface`]. ENETDOWN: it was never opened, and may be another task's bus under another name.
    pub(super) fn find_again(&self, all: &impl Interfaces) -> io::Result<Interface> {
        let index = self.index.load(Ordering::Relaxed);
        let away = || io::Error::from_raw_os_error(libc::ENETDOWN);
        if index == 0 {
            return Err(away());
        }
        all.at(index).or_else(|_| {
            let Seen { name, adapter } = self.seen().clone().ok_or_else(away)?;
            let name = if adapter.as_ref().is_some_and(is_hardware) { &name } else { &self.name };
            find_interface(&self.sys, name, adapter.as_ref(), all)
        })
    }

    /// Notes which interface earlier tasks had under this name; it is missing now.
    fn was(&self, index: libc::c_int, adapter: Option<Adapter>) {
        self.seen().get_or_insert_with(|| Seen { name: self.name.clone(), adapter });
        _ = self.index.compare_exchange(0, index, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that this interface was opened.
    pub(super) fn is_now(&self, interface: &Interface) {
        let adapter = adapter(&self.sys, interface);
        let mut seen = self.seen();
        let before = seen.take();
        let known = before.as_ref().and_then(|before| before.adapter.clone());
        let now = Some(Seen { name: interface.name.clone(), adapter: adapter.or(known) });
        seen.clone_from(&now);
        drop(seen);
        self.index.store(interface.index, Ordering::Relaxed);
        if before != now {
            self.reopened.again();
        }
        if before.is_some_and(|before| before.name != interface.name) {
            info!("{} is called {} now", self.label, interface.name);
        }
    }

    /// The interface's name and adapter, for the plan of safe values.
    pub(super) fn planned(&self) -> (String, Option<Adapter>) {
        self.planned_as(self.seen().clone())
    }

    /// Like [`planned`](Self::planned), but never waits. `None`: another thread is changing it.
    pub(super) fn planned_unless_locked(&self) -> Option<(String, Option<Adapter>)> {
        match self.seen.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(seen)) => Some(self.planned_as(seen.into_inner().clone())),
            Ok(seen) => Some(self.planned_as(seen.clone())),
        }
    }

    fn planned_as(&self, seen: Option<Seen>) -> (String, Option<Adapter>) {
        seen.map_or_else(|| (self.name.clone(), None), |seen| (seen.name, seen.adapter))
    }
}

/// The buses that a daemon's tasks have had. A bus keeps its index under any name, and the index identifies its targets. A mutex guards the
/// list: it is locked when tasks are built and interfaces are opened, never at a tick.
#[derive(Debug, Default)]
pub(super) struct Buses(Mutex<Vec<KnownBus>>);

#[derive(Debug, Default)]
struct KnownBus {
    names: Vec<String>, // under which tasks have found it
    index: libc::c_int, // of its interface; 0: it never existed
    adapter: Option<Adapter>,
}

impl Buses {
    /// The index of this bus; its interface may be missing.
    pub(super) fn of(&self, bus: &NamedBus) -> usize {
        let all = Socket::new().ok();
        let found = all.as_ref().and_then(|all| bus.find(all).ok());
        self.among(bus, found.as_ref(), all.as_ref())
    }

    /// The index of this bus, for an interface that was found.
    pub(super) fn of_found(&self, bus: &NamedBus, found: &Interface) -> usize {
        self.among(bus, Some(found), Socket::new().ok().as_ref())
    }

    /// `interfaces`: all that exist; `None`: unknown.
    fn among(&self, bus: &NamedBus, found: Option<&Interface>, interfaces: Option<&impl Interfaces>) -> usize {
        let own = found.and_then(|interface| adapter(&bus.sys, interface));
        let names: Vec<&String> = std::iter::once(&bus.name).chain(found.map(|it| &it.name)).collect();
        let is_away = |it: &KnownBus| it.index == 0 || interfaces.is_none_or(|all| all.at(it.index).is_err());
        let is_same =
            |it: &KnownBus| it.adapter.as_ref().zip(own.as_ref()).map(|(one, other)| is_same_adapter(one, other));
        let may_be = |it: &KnownBus| is_away(it) && is_same(it) != Some(false);
        let is_open = |it: &KnownBus| found.is_some_and(|interface| interface.index == it.index);
        let is_named = |it: &KnownBus| may_be(it) && it.names.iter().any(|name| names.contains(&name));
        let is_by_adapter =
            |it: &KnownBus| may_be(it) && own.as_ref().is_some_and(is_hardware) && is_same(it) == Some(true);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(is_open).or_else(|| all.iter().position(is_named));
        let known = known.or_else(|| all.iter().position(is_by_adapter));
        let at = known.unwrap_or_else(|| {
            all.push(KnownBus::default());
            all.len() - 1
        });
        if let Some(interface) = found {
            // These names no longer belong to any other bus.
            all.iter_mut().for_each(|it| it.names.retain(|name| !names.contains(&name)));
            all[at].index = interface.index;
            all[at].adapter = own.or(all[at].adapter.take());
        }
        let KnownBus { names: has, index, adapter } = &mut all[at];
        if found.is_none() && *index != 0 {
            bus.was(*index, adapter.clone());
        }
        for name in names {
            if !has.contains(name) {
                has.push(name.clone());
            }
        }
        at
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::adapter::folder;
    use super::*;
    use crate::kinds::device::{file_names, first_line};
    use crate::site::Roots;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A tree in place of `/sys`. Its interfaces stand for the kernel's.
    pub(in super::super) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(in super::super) fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(folder(&tree.sys())).unwrap();
            tree
        }

        pub(in super::super) fn site(&self) -> Site {
            Site::under(Roots::under(self.0.path()))
        }

        pub(in super::super) fn sys(&self) -> PathBuf {
            self.0.path().join("sys")
        }

        /// Adds an interface. `device`: its hardware, and its number there; `None`: without hardware.
        pub(in super::super) fn add(&self, name: &str, index: i32, device: Option<(&str, u32)>) -> Interface {
            let hardware = self.sys().join("devices").join(device.map_or("virtual", |(device, _)| device));
            let own = hardware.join("net").join(name);
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("ifindex"), format!("{index}\n")).unwrap();
            fs::write(own.join("dev_id"), format!("{:#x}\n", device.map_or(0, |(_, number)| number))).unwrap();
            fs::write(own.join("dev_port"), "0\n").unwrap();
            if device.is_some() {
                symlink("../..", own.join("device")).unwrap();
            }
            symlink(&own, folder(&self.sys()).join(name)).unwrap();
            self.named(name).unwrap()
        }

        /// Gives an interface an alternative name, which only the kernel knows.
        pub(in super::super) fn call(&self, name: &str, alternative: &str) {
            symlink(folder(&self.sys()).join(name), self.0.path().join(alternative)).unwrap();
        }

        /// Removes these interfaces.
        pub(in super::super) fn remove(&self, names: &[&str]) {
            for path in names.iter().map(|name| folder(&self.sys()).join(name)) {
                fs::remove_dir_all(path.canonicalize().unwrap()).unwrap();
                fs::remove_file(path).unwrap();
            }
        }
    }

    impl Interfaces for Tree {
        fn named(&self, name: &str) -> io::Result<Interface> {
            let paths = [folder(&self.sys()).join(name), self.0.path().join(name)];
            let Some(own) = paths.iter().find_map(|path| path.canonicalize().ok()) else {
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            };
            let index = first_line(&own.join("ifindex")).unwrap().parse().unwrap();
            let name = own.file_name().unwrap().to_str().unwrap().to_owned();
            Ok(Interface { index, name, fd: false, is_up: true, has_carrier: true })
        }

        fn at(&self, index: libc::c_int) -> io::Result<Interface> {
            let all = file_names(&folder(&self.sys())).unwrap();
            let mut all = all.iter().map(|name| self.named(name).unwrap());
            all.find(|it| it.index == index).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
        }
    }

    pub(in super::super) fn bus(site: &Site, name: &str) -> Arc<NamedBus> {
        NamedBus::new(site, &Label::new(format!("interface {name}"), "drive"), name)
    }

    const ONE: Option<(&str, u32)> = Some(("pci0/usb1/1-1/1-1:1.0", 0));
    const TWO: Option<(&str, u32)> = Some(("pci0/usb1/1-2/1-2:1.0", 0));

    #[test]
    fn an_interface_is_the_same_by_its_number_while_it_lasts() {
        let tree = Tree::new();
        let bus = bus(&tree.site(), "can0");
        tree.add("can0", 3, None);
        assert_eq!(bus.find_again(&tree).unwrap_err().raw_os_error(), Some(libc::ENETDOWN), "it was not opened");
        bus.is_now(&bus.find(&tree).unwrap());
        tree.remove(&["can0"]);
        tree.add("motor", 3, None);
        tree.add("can0", 4, None);
        for found in [bus.find(&tree), bus.find_again(&tree)] {
            assert_eq!(found.unwrap().name, "motor", "it was renamed, and another one has its name");
        }
        bus.is_now(&bus.find(&tree).unwrap());
        assert_eq!(bus.planned().0, "motor");
        tree.remove(&["motor"]);
        assert_eq!(bus.find(&tree).unwrap().index, 4, "without hardware there is only the name of the section");
    }

    #[test]
    fn interfaces_that_exchange_their_names_are_told_by_their_adapters() {
        let tree = Tree::new();
        let bus = bus(&tree.site(), "can0");
        tree.add("can0", 3, ONE);
        tree.add("can1", 4, TWO);
        bus.is_now(&bus.find(&tree).unwrap());
        assert_eq!(bus.planned().0, "can0");
        tree.remove(&["can0", "can1"]);
        assert_eq!(bus.find(&tree).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        tree.add("can0", 5, None);
        assert!(bus.find(&tree).unwrap_err().to_string().contains("virtual"), "one without hardware");
        tree.remove(&["can0"]);
        tree.add("can0", 6, TWO);
        let error = bus.find(&tree).unwrap_err();
        assert_eq!(error.raw_os_error(), None, "nothing is missing");
        let error = error.to_string();
        assert!(error.starts_with("can0 is at ") && error.contains("it is another interface"), "{error}");
        tree.add("can1", 7, ONE);
        let found = bus.find(&tree).unwrap();
        assert_eq!((found.name.as_str(), found.index), ("can1", 7));
        bus.is_now(&found);
        let (name, adapter) = bus.planned();
        assert_eq!((name.as_str(), &adapter.unwrap().1[..]), ("can1", "0x0 0"));
    }

    #[test]
    fn interfaces_of_one_adapter_are_told_by_their_numbers_there_or_by_their_names() {
        let tree = Tree::new();
        let (one, other) = (bus(&tree.site(), "can0"), bus(&tree.site(), "can1"));
        let of = |number| Some(("pci0/card", number));
        tree.add("can0", 3, of(0));
        tree.add("can1", 4, of(1));
        [&one, &other].iter().for_each(|bus| bus.is_now(&bus.find(&tree).unwrap()));
        tree.remove(&["can0", "can1"]);
        tree.add("can0", 5, of(1));
        tree.add("can1", 6, of(0));
        assert_eq!([&one, &other].map(|bus| bus.find(&tree).unwrap().name), ["can1", "can0"]);
        [&one, &other].iter().for_each(|bus| bus.is_now(&bus.find(&tree).unwrap()));
        // The driver of these interfaces does not number them.
        let (one, other) = (bus(&tree.site(), "can3"), bus(&tree.site(), "can4"));
        tree.add("can3", 7, ONE);
        one.is_now(&one.find(&tree).unwrap());
        tree.add("can4", 8, ONE);
        other.is_now(&other.find(&tree).unwrap());
        assert_eq!([&one, &other].map(|bus| bus.planned().1.unwrap().1), ["0x0 0", "0x0 0 can4"]);
        one.is_now(&one.find(&tree).unwrap());
        tree.remove(&["can3", "can4"]);
        tree.add("can4", 9, ONE);
        assert!(one.find(&tree).is_err(), "the other one was there first");
        tree.add("can3", 10, ONE);
        assert_eq!([&one, &other].map(|bus| bus.find(&tree).unwrap().index), [10, 9]);
    }

    #[test]
    fn files_of_another_network_namespace_tell_nothing() {
        let tree = Tree::new();
        let mut found = tree.add("can0", 3, ONE);
        assert!(adapter(&tree.sys(), &found).is_some());
        found.index = 4;
        assert_eq!(adapter(&tree.sys(), &found), None);
    }

    #[test]
    fn a_bus_has_one_index_by_all_its_names() {
        let (tree, buses) = (Tree::new(), Buses::default());
        let site = tree.site();
        let of = |bus: &NamedBus| {
            let found = bus.find(&tree).ok();
            let at = buses.among(bus, found.as_ref(), Some(&tree));
            found.iter().for_each(|found| bus.is_now(found));
            at
        };
        let waits = bus(&site, "waits");
        let absent = of(&waits);
        assert_eq!(of(&bus(&site, "waits")), absent, "the next task of that name");
        tree.add("can0", 3, ONE);
        tree.add("can1", 4, TWO);
        let (one, two) = (bus(&site, "can0"), bus(&site, "can1"));
        let (first, second) = (of(&one), of(&two));
        assert!(first != second && first != absent);
        tree.call("can0", "motor");
        assert_eq!(of(&bus(&site, "motor")), first, "an alternative name");
        tree.call("can1", "waits");
        assert_eq!(of(&waits), second, "what was missing is that one");
        tree.remove(&["can0", "can1"]);
        assert_eq!([&one, &two].map(|bus| of(bus)), [first, second], "while they are away");
        let next = bus(&site, "can0");
        assert_eq!(of(&next), first, "a reload meanwhile");
        tree.add("can0", 5, TWO);
        tree.add("can1", 6, ONE);
        assert_eq!([&one, &two, &next].map(|bus| of(bus)), [first, second, first], "under each other's name");
        assert_eq!(["can0", "can1"].map(|name| of(&bus(&site, name))), [second, first], "by the names of now");
    }
}
