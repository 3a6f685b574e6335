//! The open files of processes, as `/proc` shows them. Other users can open any number of files, so the search among theirs is limited.

use crate::sys::clock::thread_cpu_time;
use crate::sys::dir::effective_user;
use crate::sys::limited;
use crate::time::Span;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::iter;
use std::mem;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The access mode in the `flags` of a descriptor's `fdinfo`.
const ACCESS: libc::c_int = libc::O_ACCMODE;

/// The most descriptors examined per other user: a user with millions of them must not decide how long a search takes.
pub(super) const OF_OTHERS: usize = 4_096;

/// Processor time that a search may spend on all other users. It is not wall time, so a busy machine finds just as much.
const FOR_OTHERS: Span = Span::from_millis(200);

/// Bytes of an `fdinfo` that are read: its locks come first.
const OF_FDINFO: u64 = 4_096;

/// How much of a list of mounts is read, in bytes: a user with a mount namespace of their own may have very many mounts.
const OF_MOUNTS: u64 = 4 << 20;

/// Index of the effective user, whose rights a process has. The real user, who started it, differs for a program such as `sudo`.
pub(super) const EFFECTIVE: usize = 1;
const REAL: usize = 0;

/// One of the users of a process. Not the owner of its folder in `/proc`, which is root if its program has capabilities.
pub(super) fn user_of(pid: u32, which: usize) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(which)?.parse().ok()
}

/// A descriptor of a process.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) pid: u32,
    info: PathBuf,           // its `fdinfo`
    pub(super) is_own: bool, // of this user
}

impl Descriptor {
    /// One of this process.
    fn of(file: &File) -> Self {
        let info = PathBuf::from(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
        Self { pid: std::process::id(), info, is_own: true }
    }

    pub(super) fn in_fd(&self) -> Option<PathBuf> {
        let (folder, number) = self.info.parent().zip(self.info.file_name())?;
        Some(folder.with_file_name("fd").join(number))
    }

    /// The path of the open file.
    pub(super) fn link(&self) -> Option<PathBuf> {
        fs::read_link(self.in_fd()?).ok()
    }

    /// The content of its `fdinfo`.
    pub(super) fn text(&self) -> Option<String> {
        let mut text = Vec::new();
        File::open(&self.info).ok()?.take(OF_FDINFO).read_to_end(&mut text).ok()?;
        String::from_utf8(text).ok()
    }

    /// Whether it is open for writing, and is this file according to the kernel's `fdinfo`. `None`: the kernel does not identify files, so
    /// it may be this file.
    pub(super) fn may_write(&self, sought: Option<&FileId>) -> bool {
        let text = self.text().unwrap_or_default();
        let flags = |line: &str| libc::c_int::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok();
        let is_written = text.lines().find_map(flags).is_some_and(|flags| flags & ACCESS != libc::O_RDONLY);
        is_written
            && sought.is_none_or(|sought| {
                number(&text, "ino:") == Some(sought.inode) && self.id(&text).as_ref() == Some(sought)
            })
    }

    /// Identifies its file. `None` on kernels before 5.14.
    fn id(&self, fdinfo: &str) -> Option<FileId> {
        let (inode, mount) = (number(fdinfo, "ino:")?, number(fdinfo, "mnt_id:")?);
        let mounts = File::open(self.info.ancestors().nth(2)?.join("mountinfo")).ok()?;
        let mounts = String::from_utf8_lossy(&limited::read(mounts, OF_MOUNTS).ok()?).into_owned();
        let is_it = |line: &&str| line.split(' ').next().and_then(|id| id.parse().ok()) == Some(mount);
        let device = mounts.lines().find(is_it)?.split(' ').nth(2)?.to_owned();
        Some(FileId { device, inode })
    }
}

/// Identifies an open file without asking its file system, which may hang if its server is dead, or if a user wants it to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: String, // of its mount
    inode: u64,
}

impl FileId {
    pub(super) fn of(file: &File) -> Option<Self> {
        let own = Descriptor::of(file);
        own.id(&own.text()?)
    }
}

/// The number of this key in an `fdinfo`.
fn number(fdinfo: &str, key: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// The ids of all visible processes.
pub(super) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The folders of a process's threads.
pub(super) fn threads(pid: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|thread| thread.path())
}

/// The descriptors of these processes: first all of this user's own, then a limited number of each other user's, for a limited time.
pub(super) fn descriptors_of(pids: impl Iterator<Item = u32>) -> impl Iterator<Item = Descriptor> {
    let own = effective_user();
    let (own, mut others): (Vec<_>, Vec<_>) =
        pids.filter_map(|pid| Some((user_of(pid, REAL)?, pid))).partition(|(user, _)| *user == own);
    let others = iter::once_with(thread_cpu_time).flat_map(move |began| {
        let is_in_time = move || thread_cpu_time() - began < FOR_OTHERS;
        let mut left = HashMap::new();
        let all = mem::take(&mut others).into_iter().take_while(move |_| is_in_time()).flat_map(move |(user, pid)| {
            let left = left.entry(user).or_insert(OF_OTHERS);
            let some = descriptors(pid, *left);
            *left = left.saturating_sub(some.len().max(1));
            some.into_iter().map(move |info| Descriptor { pid, info, is_own: false })
        });
        all.take_while(move |_| is_in_time())
    });
    let of =
        |(_, pid)| descriptors(pid, usize::MAX).into_iter().map(move |info| Descriptor { pid, info, is_own: true });
    own.into_iter().flat_map(of).chain(others)
}

/// The descriptors of one process, read from a thread that has not ended (its main thread may have). `most` limits both threads and
/// descriptors.
pub(super) fn descriptors(pid: u32, most: usize) -> Vec<PathBuf> {
    for thread in threads(pid).take(most) {
        match fs::read_dir(thread.join("fdinfo")) {
            // The other threads' descriptors are not visible either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            Err(_) => {}
            Ok(entries) => {
                let all: Vec<_> = entries.flatten().map(|entry| entry.path()).take(most).collect();
                if !all.is_empty() {
                    return all;
                }
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Other files are not accessed: asking a hanging file system about its file would take forever.
    #[test]
    fn only_what_may_be_the_file_is_looked_at() {
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        let Some(sought) = FileId::of(&files[0]) else {
            return crate::sys::emulation::say_skipped(
                "this kernel does not name open files: it is older than Linux 5.14",
            );
        };
        let [one, other] = files.each_ref().map(Descriptor::of);
        assert!(one.may_write(Some(&sought)) && !other.may_write(Some(&sought)), "{sought:?}");
        // A file with the same number on another file system. Anyone can make one.
        assert!(!one.may_write(Some(&FileId { device: "0:0".into(), ..sought })));
    }

    /// Otherwise any user could determine how long a search takes, and thereby delay a start or a safe value.
    #[test]
    fn of_other_users_a_limited_number_of_descriptors_is_looked_at() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can be another user");
        }
        let script = "ulimit -n 20000; exec perl -e 'for (1..9000) { open(my $f, q(<), q(/dev/null)) or exit; push @f, $f } sleep 1000'";
        let hoards = || {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65533", "--regid=65533", "--clear-groups", "sh", "-c", script]).spawn()
        };
        let Ok(mut child) = hoards() else { return crate::sys::emulation::say_skipped("setpriv is missing") };
        let pid = child.id();
        let all = || descriptors(pid, usize::MAX).len();
        while all() < 9_000 && child.try_wait().is_ok_and(|ended| ended.is_none()) {
            crate::sys::clock::pause(Span::from_millis(5));
        }
        let looked_at = descriptors_of([pid, pid].into_iter()).count();
        let has = all();
        child.kill().unwrap();
        child.wait().unwrap();
        match has {
            9_000.. => assert_eq!(looked_at, OF_OTHERS),
            _ => crate::sys::emulation::say_skipped("perl is missing, or it may not open as many files"),
        }
    }
}
