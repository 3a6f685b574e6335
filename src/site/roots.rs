//! Where the kernel's trees of devices are. Plain values.

use std::path::{Path, PathBuf};

/// Where the kernel's trees are: by default where every machine has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    /// In place of `/sys`.
    pub sys: PathBuf,
    /// In place of `/dev`.
    pub dev: PathBuf,
    /// In place of `/proc`.
    pub proc: PathBuf,
}

impl Roots {
    /// Those of this machine are under `/`.
    pub(crate) fn under(root: &Path) -> Self {
        Self { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") }
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}
