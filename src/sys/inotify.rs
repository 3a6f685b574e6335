//! Changes in folders as the kernel reports them (inotify): names that come, go, or lead somewhere else. Off the hot thread; does not wait.

use super::filesystem::magic;
use super::{from_minus_one, invalid};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// File systems that change without this kernel noticing: network and cluster file systems, FUSE programs, shares of a virtual machine's
/// host.
const OF_OTHERS: [u32; 14] = [
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x6573_5546, // FUSE
    0x0102_1997, // 9p
    0x00C3_6400, // Ceph
    0x5346_414F, // AFS
    0x6B41_4653, // kAFS
    0x7375_7245, // Coda
    0x7461_636F, // OCFS2
    0x0116_1970, // GFS2
    0x786F_4256, // VirtualBox
    0xBACB_ACBC, // VMware
];

/// The most buffers read per call, because any user may write to a folder; the rest counts as lost.
const MOST_READS: usize = 16;

const HEADER: usize = 16;

/// The watched folders.
#[derive(Debug)]
pub(crate) struct Inotify(File);

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// Something happened to this name in the folder with this number.
    In(i32, &'a OsStr),
    /// The folder with this number is gone and is no longer watched.
    Over(i32),
    /// More events than were read.
    Lost,
}

impl Inotify {
    /// Creates an instance that watches no folder yet.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes flags only.
        let number = from_minus_one(unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) })?;
        // SAFETY: the descriptor is new, and no one else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }.into()))
    }

    /// Watches a folder; a folder that is watched already keeps its number. May block.
    ///
    /// # Errors
    /// The system's reason; EINVAL where the kernel does not see all changes.
    pub(crate) fn add(&self, folder: &Path) -> io::Result<i32> {
        let path = CString::new(folder.as_os_str().as_bytes())?;
        if magic(folder)?.is_none_or(|magic| OF_OTHERS.contains(&magic)) {
            return Err(invalid());
        }
        let what = libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVED_FROM | libc::IN_MOVED_TO | libc::IN_ONLYDIR;
        // SAFETY: `path` is a C string.
        from_minus_one(unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), what) })
    }

    /// Stops watching the folder.
    pub(crate) fn remove(&self, watch: i32) {
        // SAFETY: takes numbers only; a number that is not watched is refused.
        let _ = unsafe { libc::inotify_rm_watch(self.0.as_raw_fd(), watch) };
    }

    /// Reads what has happened since the last call.
    pub(crate) fn read(&self, mut happened: impl FnMut(Event<'_>)) {
        let mut buffer = [0; 4096];
        for _ in 0..MOST_READS {
            let Ok(length) = (&self.0).read(&mut buffer) else { return };
            let mut rest = &buffer[..length];
            while let Some((event, after)) = event(rest) {
                event.into_iter().for_each(&mut happened);
                rest = after;
            }
        }
        happened(Event::Lost);
    }
}

/// The first event, if it is complete, and the bytes after it.
fn event(bytes: &[u8]) -> Option<(Option<Event<'_>>, &[u8])> {
    let word = |at: usize| <[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok();
    let (watch, mask) = (i32::from_ne_bytes(word(0)?), u32::from_ne_bytes(word(4)?));
    let length = usize::try_from(u32::from_ne_bytes(word(12)?)).ok()?;
    let name = bytes.get(HEADER..HEADER.checked_add(length)?)?;
    let name = OsStr::from_bytes(name.split(|byte| *byte == 0).next().unwrap_or_default());
    let event = match () {
        () if mask & libc::IN_Q_OVERFLOW != 0 => Some(Event::Lost),
        () if mask & (libc::IN_IGNORED | libc::IN_UNMOUNT) != 0 => Some(Event::Over(watch)),
        () => Some(Event::In(watch, name)),
    };
    Some((event, &bytes[HEADER + length..]))
}
