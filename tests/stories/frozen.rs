//! The part of a stage that lies on a disk that hangs. Writers to it wait in the kernel, and a process that has ended only disappears with
//! its last thread.

use crate::program::disk::Disk;
use crate::program::{state, threads};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use tempfile::TempDir;

/// A disk used by one story after another.
pub(crate) struct OwnDisk {
    pub(crate) disk: Disk,
    _folder: TempDir,
}

impl OwnDisk {
    /// Mounts a disk; `None` if that is not possible here.
    pub(crate) fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let on = folder.path().join("disk");
        fs::create_dir(&on).unwrap();
        let disk = Disk::mount(folder.path(), on)?;
        // A disk that cannot be frozen is of no use.
        (disk.freeze() && disk.thaw()).then_some(Self { disk, _folder: folder })
    }
}

/// The exit status of a process that has ended, even if one of its threads still waits for the disk; `None` if it has not ended.
pub(crate) fn ended(child: &mut Child) -> Option<ExitStatus> {
    if let Some(status) = child.try_wait().unwrap() {
        return Some(status);
    }
    let folders: Vec<_> = threads(child.id()).collect();
    let states: Vec<_> = folders.iter().filter_map(|thread| state(thread)).collect();
    let waits = |state: &char| matches!(state, 'Z' | 'X' | 'D' | 'I');
    let is_over = states.len() == folders.len() && states.iter().all(waits) && folders.iter().any(|it| is_killed(it));
    is_over.then(|| status(child.id())).flatten()
}

/// Whether the kernel has killed this thread, so that it runs no more code of its own.
fn is_killed(thread: &Path) -> bool {
    let text = fs::read_to_string(thread.join("status")).unwrap_or_default();
    let pending = text.lines().filter_map(|line| line.strip_prefix("SigPnd:"));
    let mut pending = pending.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.any(|mask| mask & 1 << (libc::SIGKILL - 1) != 0)
}

/// The exit status that the kernel will report: field 52 of `/proc/PID/stat`.
fn status(pid: u32) -> Option<ExitStatus> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let code = text.rsplit_once(") ")?.1.split_whitespace().nth(52 - 3)?.parse().ok()?;
    Some(ExitStatus::from_raw(code))
}
