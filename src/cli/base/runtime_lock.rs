//! The lock of a runtime directory: its holder is the daemon that owns the files there.
//!
//! The lock is a file that only the directory's user may open for writing, and the kernel grants it only through a writable descriptor. So
//! another user cannot hold it, as anyone could with a lock on the directory itself. The file has a few lockable bytes, and each holder
//! takes one. A killed process may be stuck because a file system does not respond: it keeps its byte, but does not keep others out. The
//! file records who holds each byte. No clock is read; nothing blocks.

use crate::sys::dir::Dir;
use crate::sys::lock::{self, Holder, Taken};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The lock file in the directory.
const LOCK: &str = "lock";

/// The lockable bytes: one for the live daemon, the others for killed ones.
const BYTES: u32 = 8;

/// The length of the line that names a byte's holder.
const LINE: usize = 12;

/// The lock of a directory, held while this value lives.
#[derive(Debug)]
pub(in crate::cli) struct DirectoryLock {
    _file: File,
}

/// Why a directory could not be locked.
#[derive(Debug)]
pub(in crate::cli) enum NotLocked {
    /// A live process holds it; its process id, if it has written that already.
    Held(Option<u32>),
    Because(io::Error),
}

impl DirectoryLock {
    /// Locks the directory for a daemon. Locks held by killed processes do not count.
    pub(in crate::cli) fn take(directory: &Dir) -> Result<Self, NotLocked> {
        Self::take_unless(directory, |holder| !holder.and_then(Holder::of).is_some_and(|holder| holder.is_killed()))
    }

    /// Locks the directory of a process that has ended, to clean up.
    pub(in crate::cli) fn of_the_dead(directory: &Dir) -> Result<Self, NotLocked> {
        Self::take_unless(directory, |_| true)
    }

    fn take_unless(directory: &Dir, keeps_out: impl Fn(Option<u32>) -> bool) -> Result<Self, NotLocked> {
        let file = directory.open_file(LOCK, libc::O_RDWR | libc::O_CREAT).map_err(NotLocked::Because)?;
        let passes = |byte: u32, taken: Taken| match taken {
            Taken::Locked | Taken::Unsupported => Ok(true),
            Taken::Peer(seen) | Taken::Stranger(seen) => {
                let holder = written(&file, byte).or(seen.map(|seen| seen.pid));
                if keeps_out(holder) { Err(NotLocked::Held(holder)) } else { Ok(false) }
            }
        };
        let mut own = None;
        for byte in 0..BYTES {
            // These byte locks otherwise stand for the registers of a bus; they work just as well in hertzd's own file.
            if passes(byte, lock::take_register(&file, byte, 1).map_err(NotLocked::Because)?)? {
                own = Some(byte);
                break;
            }
        }
        let own = own.ok_or_else(|| NotLocked::Held(written(&file, 0)))?;
        let line = format!("{:<width$}\n", std::process::id(), width = LINE - 1);
        file.write_all_at(line.as_bytes(), u64::from(own) * LINE as u64).map_err(NotLocked::Because)?;
        // A byte before this one may have become free, and another process may have taken it since. If there are two such processes, at
        // least the second sees the first.
        for byte in (0..BYTES).filter(|byte| *byte != own) {
            passes(byte, lock::probe_register(&file, byte).map_err(NotLocked::Because)?)?;
        }
        Ok(Self { _file: file })
    }
}

/// Who last wrote its process id for this byte.
fn written(file: &File, byte: u32) -> Option<u32> {
    let mut line = [0; LINE];
    file.read_exact_at(&mut line, u64::from(byte) * LINE as u64).ok()?;
    str::from_utf8(&line).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_has_a_directory_and_the_other_learns_which() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Dir::open(folder.path()).unwrap();
        let first = DirectoryLock::take(&directory).unwrap();
        for refused in [DirectoryLock::take(&directory), DirectoryLock::of_the_dead(&directory)] {
            assert!(matches!(refused, Err(NotLocked::Held(Some(pid))) if pid == std::process::id()), "{refused:?}");
        }
        drop(first);
        drop(DirectoryLock::of_the_dead(&directory).unwrap());
        DirectoryLock::take(&directory).unwrap();
    }

    /// Acts as if the kernel could not end the killed holder.
    #[test]
    fn what_a_killed_process_holds_keeps_out_no_daemon_but_is_not_cleared_up() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Dir::open(folder.path()).unwrap();
        let killed = DirectoryLock::take(&directory).unwrap();
        let file = directory.open_file(LOCK, libc::O_RDWR).unwrap();
        file.write_all_at(format!("{:<11}\n", 7).as_bytes(), 0).unwrap();
        let take = |killed: u32| DirectoryLock::take_unless(&directory, |holder| holder != Some(killed));
        assert!(matches!(take(8), Err(NotLocked::Held(Some(7)))));
        assert!(matches!(DirectoryLock::of_the_dead(&directory), Err(NotLocked::Held(Some(7)))));
        let next = take(7).unwrap();
        let own = std::process::id();
        assert!(matches!(take(7), Err(NotLocked::Held(Some(pid))) if pid == own));
        // The killed process is finally gone: its byte is free, and the live process still keeps others out.
        drop(killed);
        assert!(matches!(take(7), Err(NotLocked::Held(Some(pid))) if pid == own));
        drop(next);
        take(7).unwrap();
    }
}
