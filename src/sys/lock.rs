//! Locks of a part of a file, and which process has locked a whole one, for an error message. Reads `/proc`.

use super::{from_minus_one, invalid};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// How often `/proc/locks` is read before the holder counts as unseen.
const LOOKS: u32 = 20;

/// Locks bytes of a file, which is open for writing, for as long as a copy of its descriptor is open. The bytes need not be there: of
/// a device file they are numbers that programs have agreed on. EAGAIN, EACCES: they are locked by another one.
#[cfg_attr(not(feature = "i2c"), allow(dead_code, reason = "for registers"))]
#[expect(clippy::cast_possible_truncation, reason = "the kernel's constants are small")]
pub(crate) fn lock_bytes(file: &File, start: u32, length: u32) -> io::Result<()> {
    // Through 128 bits, because the width of the fields depends on the platform.
    let offset = |number: u32| libc::off_t::try_from(i128::from(number)).map_err(|_| invalid());
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset(start)?,
        l_len: offset(length)?,
        l_pid: 0,
    };
    // SAFETY: F_OFD_SETLK reads one flock from where the pointer leads, which outlives the call.
    from_minus_one(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) })?;
    Ok(())
}

/// A process that has locked a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) pid: u32,
}

/// `hertzd (pid 1234)`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

impl Holder {
    /// The process of this number, if it can be seen from here.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(Self { name: name.trim_end().to_owned(), pid })
    }

    /// Whether it is another process of this program.
    pub(crate) fn is_ours(&self) -> bool {
        self.pid != std::process::id() && Self::of(std::process::id()).is_some_and(|own| own.name == self.name)
    }
}

/// The process that holds a lock on the file. `None`: there is none any more, or it cannot be seen from here.
pub(crate) fn holder(file: &Metadata) -> Option<Holder> {
    // The kernel returns the list in pieces. Locks that come and go meanwhile move the others, so a piece may leave one out.
    (0..LOOKS).find_map(|_| Holder::of(find(&fs::read_to_string("/proc/locks").ok()?, file.dev(), file.ino())?))
}

/// The process, in the text of `/proc/locks`. Some file systems have another device number there than `stat` tells, so
/// the inode decides, and the device only between several.
fn find(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let device = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
    let holders = locks.lines().filter_map(|line| {
        let [_, "FLOCK", _, _, pid, file, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let (its_device, its_inode) = file.rsplit_once(':')?;
        (its_inode.parse() == Ok(inode)).then_some((its_device == device, pid.parse().ok()?))
    });
    holders.max_by_key(|(same_device, _)| *same_device).map(|(_, pid)| pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn the_holder_is_found_by_inode_and_device() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fd:01:42 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 12 fe:01:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:01:42 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fe:01:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 15 00:2f:43 0 EOF\n";
        let device = libc::makedev(0xfe, 1);
        assert_eq!(find(locks, device, 42), Some(13));
        assert_eq!(find(locks, device, 43), Some(15), "the device may be another");
        assert_eq!(find(locks, device, 44), None);
    }

    #[test]
    fn parts_of_a_file_are_locked_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (one, other) = (open(), open());
        lock_bytes(&one, 0x4810, 2).unwrap();
        lock_bytes(&other, 0x4812, 2).unwrap();
        assert_eq!(lock_bytes(&other, 0x4811, 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let copy = one.try_clone().unwrap();
        drop(one);
        assert!(lock_bytes(&other, 0x4811, 1).is_err(), "a copy is open");
        drop(copy);
        lock_bytes(&other, 0x4811, 1).unwrap();
    }

    #[test]
    fn this_process_is_named() {
        let file = tempfile::tempfile().unwrap();
        file.try_lock().unwrap();
        let holder = holder(&file.metadata().unwrap()).unwrap();
        assert!(!holder.is_ours());
        let holder = holder.to_string();
        assert!(holder.ends_with(&format!(" (pid {})", std::process::id())), "{holder}");
    }
    /// Locks that come and go move the others between the reads that make up one look at `/proc/locks`.
    #[test]
    fn the_holder_is_found_while_many_locks_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("held")).unwrap();
        file.try_lock().unwrap();
        let metadata = file.metadata().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for name in ["a", "b"] {
                let others = || (0..300).map(|n| File::create(folder.path().join(format!("{name}{n}"))).unwrap());
                let others: Vec<_> = others().collect();
                let done = &done;
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        others.iter().for_each(|other| other.try_lock().unwrap());
                        others.iter().for_each(|other| other.unlock().unwrap());
                    }
                });
            }
            let missed = (0..500).filter(|_| holder(&metadata).is_none()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
