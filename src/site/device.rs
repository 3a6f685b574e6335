//! Identifies a device, however a configuration names it. Pure, except for the look-up in `/sys`.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
#[cfg(feature = "gpio")]
use std::path::{Path, PathBuf};

/// The identity of a device, independent of how it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceId {
    /// A device node's number; for any other file, its file system and inode.
    Node(u64, u64),
    /// A GPIO line: the number of the chip's node, and the offset.
    #[cfg_attr(not(feature = "gpio"), expect(dead_code, reason = "only the kind gpio has lines"))]
    Line(u64, u32),
    /// A device without its own node, by name.
    Named(String),
}

impl DeviceId {
    /// The id of a device node or file.
    pub(crate) fn of(node: &Metadata) -> Self {
        match node.file_type().is_char_device() {
            true => Self::Node(node.rdev(), 0),
            false => Self::Node(node.dev(), node.ino()),
        }
    }
}

/// The path of a node's device in `/sys`, without links.
#[cfg(feature = "gpio")]
pub(crate) fn in_sys(node: &Path) -> Option<PathBuf> {
    let number = node.metadata().ok().filter(|node| node.file_type().is_char_device())?.rdev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    Path::new(&format!("/sys/dev/char/{major}:{minor}")).canonicalize().ok()
}

/// A device that a task opens.
pub(crate) trait OpenDevice {
    /// The devices that no other task may have meanwhile.
    fn exclusive(&self) -> Vec<DeviceId> {
        Vec::new()
    }
}
