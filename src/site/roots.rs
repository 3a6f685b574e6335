//! Where the kernel's device trees are. Plain values.

use std::path::{Path, PathBuf};

/// Paths of the kernel's trees; the default is their usual place.
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
    /// The trees below this root; a real machine has them below `/`.
    pub(crate) fn under(root: &Path) -> Self {
        Self { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") }
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}
