//! The lock of a runtime directory: who holds it is the daemon whose files are there.
//!
//! It is a file that only the directory's user may open for writing, and the kernel's lock on it needs a descriptor that is: another user
//! cannot hold it, as anyone could hold one on the directory itself. It consists of a few bytes, and each holder takes one.
//! Thus a killed process that the kernel cannot end yet (it waits for a file system that does not answer) keeps its byte and
//! keeps no one out. Who holds a byte stands in the file. No clock is read; nothing blocks.

use crate::sys::dir::Dir;
use crate::sys::lock::{self, Holder, Taken};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The file in the directory.
const LOCK: &str = "lock";

/// Its bytes that are locked: one for the daemon that lives, the others for killed ones.
const BYTES: u32 = 8;

/// The length of the line that names a byte's holder.
const LINE: usize = 12;

/// The lock of a directory, held for as long as this lives.
#[derive(Debug)]
pub(in crate::cli) struct DirectoryLock {
    _file: File,
}

/// Why a directory could not be locked.
#[derive(Debug)]
pub(in crate::cli) enum NotLocked {
    /// A process lives that has it; its number, if it has written that already.
    Held(Option<u32>),
    Because(io::Error),
}

impl DirectoryLock {
    /// Locks the directory for a daemon; what a killed process holds is no obstacle.
    pub(in crate::cli) fn take(directory: &Dir) -> Result<Self, NotLocked> {
        Self::take_unless(directory, |holder| !holder.and_then(Holder::of).is_some_and(|holder| holder.is_killed()))
    }

    /// Locks the directory of a process that has ended, for clearing up.
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
            // The bytes that stand for registers of a bus: in hertzd's own file they are as good.
            if passes(byte, lock::take_register(&file, byte, 1).map_err(NotLocked::Because)?)? {
                own = Some(byte);
                break;
            }
        }
        let own = own.ok_or_else(|| NotLocked::Held(written(&file, 0)))?;
        let line = format!("{:<width$}\n", std::process::id(), width = LINE - 1);
        file.write_all_at(line.as_bytes(), u64::from(own) * LINE as u64).map_err(NotLocked::Because)?;
        // A byte before it may have become free, and the one of another since: of two, at least the second sees the first.
        for byte in (0..BYTES).filter(|byte| *byte != own) {
            passes(byte, lock::probe_register(&file, byte).map_err(NotLocked::Because)?)?;
        }
        Ok(Self { _file: file })
    }
}

/// Who has written its number for this byte last.
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

    /// As if the kernel could not end the killed holder.
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
        // It is gone at last: its byte is free, and the living one keeps others out all the same.
        drop(killed);
        assert!(matches!(take(7), Err(NotLocked::Held(Some(pid))) if pid == own));
        drop(next);
        take(7).unwrap();
    }
}
