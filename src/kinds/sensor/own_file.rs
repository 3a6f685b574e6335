//! A file of `/proc` or `/sys` that goes and comes back while others of its task are there: of a process, a network interface, or a device
//! whose driver takes one file away. A thread of the pool closes one that is gone, and opens it again once it is there.

use crate::io::Keeper;
use crate::kinds::device::{First, Reconnecting};
use crate::site::{Label, OpenDevice, Refusal};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The file at this path that `task` has opened, if it was there, and that `open` opens again. `of_a_device`: its folder belongs to one
/// device, and may be another's later.
pub(super) fn reopened<D: OpenDevice + Send + 'static>(
    keeper: &Keeper,
    task: &str,
    path: &Path,
    of_a_device: bool,
    opened: Option<D>,
    mut open: impl FnMut(&Path) -> io::Result<D> + Send + 'static,
) -> Result<Reconnecting<D>, Refusal> {
    let identity = move |path: &Path| {
        fs::metadata(path.parent().unwrap_or(path)).map(|facts| (facts.dev(), facts.ino())).ok().filter(|_| of_a_device)
    };
    let (device, label, path) = (identity(path), Label::new(format!("file {}", path.display()), task), path.to_owned());
    let open = move || {
        let file = open(&path).map_err(|error| Refusal::new("path", error.to_string()))?;
        // Checked after opening, so that it is in that folder.
        if identity(&path) == device { Ok(file) } else { Err(Refusal::new("path", "its device is gone")) }
    };
    Reconnecting::kept(keeper, Arc::default(), label, opened.map_or(First::Missing, First::Opened), open)
}
