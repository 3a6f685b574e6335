//! Kinds of file systems, as the kernel numbers them (`linux/magic.h`). Makes one system call, which may block; not for a hot thread.

use super::from_minus_one;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// File systems whose files the kernel makes when they are read.
const OF_THE_KERNEL: [u32; 12] = [
    0x0000_9FA0, // proc
    0x6265_6572, // sysfs
    0x0027_E0EB, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x6265_6570, // configfs
    0x7363_6673, // securityfs
    0x6165_676C, // pstore
    0xDE5E_81E4, // efivarfs
    0xCAFE_4A11, // bpf
    0x0765_5821, // resctrl
];

/// The number of the file system that a path leads to; `None`: one beyond 32 bits, which no file system has.
///
/// # Errors
/// The system's reason.
pub(super) fn magic(path: &Path) -> io::Result<Option<u32>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is a C string, and the result goes where there is room for it.
    number(|facts| unsafe { libc::statfs(path.as_ptr(), facts) })
}

/// Whether the kernel makes the content of this file when it is read, so that no program writes it.
pub(crate) fn is_of_the_kernel(file: &File) -> bool {
    // SAFETY: the descriptor is open, and the result goes where there is room for it.
    let magic = number(|facts| unsafe { libc::fstatfs(file.as_raw_fd(), facts) });
    matches!(magic, Ok(Some(magic)) if OF_THE_KERNEL.contains(&magic))
}

fn number(ask: impl FnOnce(*mut libc::statfs) -> libc::c_int) -> io::Result<Option<u32>> {
    let mut facts = MaybeUninit::uninit();
    from_minus_one(ask(facts.as_mut_ptr()))?;
    // SAFETY: the call succeeded, so it is filled.
    let kind = unsafe { facts.assume_init() }.f_type;
    Ok(u32::try_from(kind).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_known_at_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("load"), folder.path().join("file"));
        std::os::unix::fs::symlink("/proc/loadavg", &link).unwrap();
        std::fs::write(&file, "1").unwrap();
        let is_of_the_kernel = |path: &Path| is_of_the_kernel(&File::open(path).unwrap());
        assert!(is_of_the_kernel(&link) && is_of_the_kernel(Path::new("/sys/kernel")));
        assert!(!is_of_the_kernel(&file) && !is_of_the_kernel(folder.path()));
    }
}
