//! Finds the process that has locked a file or has it open for writing, for messages and to tell a dying process from a live one. Reads
//! `/proc`, where an ordinary user sees only the descriptors of its own processes.

use super::descriptors::{
    Descriptor, EFFECTIVE, FileId, OF_OTHERS, descriptors, descriptors_of, processes, threads, user_of,
};
use crate::program;
use crate::sys::dir::effective_user;
use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// SIGKILL in the masks of `/proc/PID/status`.
const KILL: u64 = 1 << (libc::SIGKILL - 1);

/// Flags in `/proc/PID/stat`: the thread is ending, or is about to because of a signal.
const ENDS: u64 = 0x4 | 0x400;

/// A process that has locked a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) pid: u32,
}

/// Displays as `hertzd (pid 1234)`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)?;
        if self.is_killed() { f.write_str(", which was killed and has not ended yet") } else { Ok(()) }
    }
}

impl Holder {
    /// The process with this id, if it is visible from here.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(Self { name: name.trim_end().to_owned(), pid })
    }

    /// The process with this id, if it belongs to this program and this user, was killed, and has not ended.
    pub(super) fn of_killed(pid: u32) -> Option<Self> {
        let is_own = user_of(pid, EFFECTIVE) == Some(effective_user());
        Self::of(pid).filter(|holder| is_own && holder.is_ours() && holder.is_killed() && !holder.has_ended())
    }

    /// Whether it is another process of this program. Started through a descriptor, this process may itself have another name.
    pub(crate) fn is_ours(&self) -> bool {
        let own = Self::of(std::process::id()).map(|own| own.name);
        let usual: String = program::name().chars().take(15).collect();
        self.pid != std::process::id() && (own.as_ref() == Some(&self.name) || self.name == usual)
    }

    /// Whether it is a child of this process. Until its program runs, it has copies of all descriptors.
    pub(super) fn is_child(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        parent == Some(std::process::id())
    }

    /// Whether it was killed or is ending: it runs no more code of its own, however long a system call keeps it from ending.
    pub(crate) fn is_killed(&self) -> bool {
        let read = |thread: &Path, file: &str| fs::read_to_string(thread.join(file)).ok();
        let is_killed = |thread: &PathBuf| read(thread, "status").is_some_and(|text| has_kill(&text));
        // SIGKILL is no longer shown for a thread that has started to end because of it.
        let ends = |thread: &PathBuf| read(thread, "stat").is_none_or(|text| End::of(&text) != End::Lives);
        let all: Vec<_> = threads(self.pid).collect();
        !all.is_empty() && (all.iter().any(is_killed) || all.iter().all(ends))
    }

    /// Whether it has ended and has nothing open any more.
    pub(crate) fn has_ended(&self) -> bool {
        threads(self.pid)
            .all(|thread| fs::read_to_string(thread.join("stat")).map_or(true, |text| End::of(&text) == End::Over))
    }
}

/// How far a thread's end has come.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Lives,
    Begun,
    Over,
}

impl End {
    /// From the text of `/proc/PID/stat`. The program's name in it may contain any characters.
    fn of(stat: &str) -> Self {
        let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
        let state = fields.next().unwrap_or_default();
        let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or_default();
        match state {
            "Z" | "X" => Self::Over,
            _ if flags & ENDS != 0 => Self::Begun,
            _ => Self::Lives,
        }
    }
}

/// Whether SIGKILL is pending for a thread or for its process.
fn has_kill(status: &str) -> bool {
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & KILL != 0)
}

/// One line `lock:` of an `fdinfo`: `1: OFDLCK ADVISORY WRITE -1 fd:01:42 7 7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockLine<'a> {
    pub(super) is_write: bool,
    pub(super) start: u64,
    device: &'a str,
    inode: u64,
}

impl<'a> LockLine<'a> {
    /// A lock of a part of a file; `None` for `flock`'s locks.
    fn of(line: &'a str) -> Option<Self> {
        let [_, _, "OFDLCK" | "POSIX", _, mode, _, file, start, _] =
            line.strip_prefix("lock:")?.split_whitespace().fold([""; 9], shifted)
        else {
            return None;
        };
        let (device, inode) = file.rsplit_once(':')?;
        Some(Self { is_write: mode == "WRITE", start: start.parse().ok()?, device, inode: inode.parse().ok()? })
    }
}

/// Shifts a word in at the end: of a longer line the last nine words remain.
fn shifted<'a>(mut words: [&'a str; 9], next: &'a str) -> [&'a str; 9] {
    words.rotate_left(1);
    words[8] = next;
    words
}

/// A lock whose holder is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sought {
    path: PathBuf, // of its file, as `/proc` shows it
    device: String,
    inode: u64,
    is_write: bool,
    start: i128,
}

impl Sought {
    /// A lock of this kind that begins at this byte of the file.
    pub(super) fn of(file: &File, is_write: bool, start: i128) -> Option<Self> {
        let facts = file.metadata().ok()?;
        let device = format!("{:02x}:{:02x}", libc::major(facts.dev()), libc::minor(facts.dev()));
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        Some(Self { path, device, inode: facts.ino(), is_write, start })
    }

    fn is(&self, line: &LockLine<'_>) -> bool {
        line.inode == self.inode && line.is_write == self.is_write && i128::from(line.start) == self.start
    }
}

/// The process with such a lock.
pub(super) fn of_lock(sought: Sought) -> Option<Holder> {
    let mut found = None;
    of_locks(&[sought], |_, holder| found = Some(holder));
    found
}

/// Reports the processes with these locks as they are found, each with the index of its lock. Some file systems show another device number
/// there than `stat` does. So the inode decides, and the device only between several candidates.
pub(super) fn of_locks(sought: &[Sought], mut found: impl FnMut(usize, Holder)) {
    let mut left: Vec<_> = sought.iter().enumerate().map(|(index, sought)| (index, sought, None)).collect();
    for descriptor in descriptors_of(processes()) {
        if left.is_empty() {
            return;
        }
        let may_have = descriptor.link().is_some_and(|link| match descriptor.is_own {
            true => link.is_absolute(),
            // A path that is not a file's may be as long as its owner likes, and reading it may hang.
            false => left.iter().any(|(_, sought, _)| sought.path == link),
        });
        let Some(text) = may_have.then(|| descriptor.text()).flatten() else { continue };
        left.retain_mut(|(index, sought, similar)| {
            match text.lines().filter_map(LockLine::of).find(|line| sought.is(line)) {
                Some(line) if line.device == sought.device => {
                    Holder::of(descriptor.pid).into_iter().for_each(|holder| found(*index, holder));
                    return false;
                }
                Some(_) if similar.is_none() => *similar = Holder::of(descriptor.pid),
                _ => {}
            }
            true
        });
    }
    for (index, _, similar) in left {
        similar.into_iter().for_each(|holder| found(index, holder));
    }
}

/// A process of this program that is ending and no longer shows its open files, because it is closing them. `None` too if a live one hides
/// its open files from this user: the file may be open there.
pub(super) fn of_the_ending() -> Option<Holder> {
    ending_among(|_| true)
}

/// The same, among the processes for which `may_be` is true.
fn ending_among(may_be: impl Fn(u32) -> bool) -> Option<Holder> {
    let ours = |pid| Holder::of(pid).filter(|holder| holder.is_ours() && may_be(pid));
    let is_hidden = |holder: &Holder| !holder.has_ended() && descriptors(holder.pid, OF_OTHERS).is_empty();
    let mut hidden = processes().filter_map(ours).filter(is_hidden).peekable();
    let first = hidden.peek().cloned();
    first.filter(|_| hidden.all(|holder| holder.is_killed()))
}

/// Another process of this program that has the file open for writing and was not killed.
pub(super) fn of_writer(file: &File) -> Option<Holder> {
    let sought = file.metadata().ok()?;
    let (id, path) = (FileId::of(file), fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok());
    let ours = |pid: &u32| Holder::of(*pid).is_some_and(|holder| holder.is_ours() && !holder.is_killed());
    let has_it = |descriptor: &Descriptor| {
        // Check this first, so that no other file system is asked: it may hang. If the kernel does not identify the file, its path must do.
        if !descriptor.may_write(id.as_ref()) || id.is_none() && descriptor.link() != path {
            return false;
        }
        let open = descriptor.in_fd().and_then(|path| fs::metadata(path).ok());
        open.is_some_and(|open| (open.dev(), open.ino()) == (sought.dev(), sought.ino()))
    };
    let all = descriptors_of(processes().filter(ours)).filter(has_it).filter_map(|it| Holder::of(it.pid));
    { all }.find(|holder| !holder.is_killed())
}

/// Whether all processes with a Unix socket at this path were killed and have not ended yet: no one answers there.
pub(crate) fn is_abandoned(socket: &Path) -> bool {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let ends = format!(" {}", socket.display());
    let inodes = text.lines().filter(|line| line.ends_with(&ends)).filter_map(|line| line.split_whitespace().nth(6));
    let links: Vec<_> = inodes.map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    let has_it = |descriptor: &Descriptor| descriptor.link().is_some_and(|link| links.contains(&link));
    let mut holders = descriptors_of(processes()).filter(has_it).filter_map(|it| Holder::of(it.pid)).peekable();
    match holders.peek() {
        Some(_) => holders.all(|holder| holder.is_killed()),
        // The socket belongs to the user whose process created it.
        None => fs::symlink_metadata(socket).is_ok_and(|facts| {
            !links.is_empty() && ending_among(|pid| user_of(pid, EFFECTIVE) == Some(facts.uid())).is_some()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_line_of_fdinfo_is_read() {
        let line = LockLine::of("lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:01:42 7 EOF").unwrap();
        assert_eq!(line, LockLine { is_write: true, start: 7, device: "fe:01", inode: 42 });
        assert!(!LockLine::of("lock:\t2: POSIX  ADVISORY  READ  12 fe:01:42 0 EOF").unwrap().is_write);
        assert_eq!(LockLine::of("lock:\t1: FLOCK  ADVISORY  WRITE 11 fd:01:42 0 EOF"), None);
        assert_eq!(LockLine::of("flags:\t0100002"), None);
    }

    #[test]
    fn a_socket_is_abandoned_only_by_who_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        assert!(!is_abandoned(&path), "nobody has it");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(!is_abandoned(&path), "this process has it");
    }

    #[test]
    fn a_thread_that_ends_is_known_by_its_flags() {
        let stat = |state: &str, flags: u64| format!("12 (a) b) Z) {state} 1 12 12 0 -1 {flags} 309 0 1 0");
        assert_eq!(End::of(&stat("S", 0x0040_0140)), End::Lives);
        assert_eq!([End::of(&stat("D", 0x0040_0104)), End::of(&stat("R", 0x0040_0500))], [End::Begun, End::Begun]);
        assert_eq!([End::of(&stat("Z", 0x4)), End::of(&stat("X", 0))], [End::Over, End::Over]);
        let mut child = Command::new("true").spawn().unwrap();
        let holder = Holder { name: "true".into(), pid: child.id() };
        while !holder.has_ended() {
            crate::sys::clock::pause(crate::time::Span::from_millis(1));
        }
        assert!(holder.is_killed(), "it was not waited for yet");
        child.wait().unwrap();
        assert!(holder.has_ended() && !holder.is_killed());
        assert!(!Holder::of(std::process::id()).unwrap().has_ended());
    }

    #[test]
    fn a_process_that_was_killed_is_known_by_its_masks() {
        let status = |private: &str, shared: &str| format!("Name:\thertzd\nSigPnd:\t{private}\nShdPnd:\t{shared}\n");
        let (none, kill, term) = ("0000000000000000", "0000000000000100", "0000000000004000");
        assert!(has_kill(&status(kill, none)) && has_kill(&status(none, kill)));
        assert!(!has_kill(&status(none, term)));
        assert!(!Holder::of(std::process::id()).unwrap().is_killed());
    }
}
