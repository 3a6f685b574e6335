//! A separate file system for a test, which can be frozen.

use super::is_root;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A separate file system that can be frozen. The guard thaws and unmounts it on drop, and also if the test is killed.
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    guard: Child,
}

impl Disk {
    /// Mounts a file system on the folder `disk`; its image lies in the separate `folder`. `None` without root, loop devices or mkfs.ext4.
    pub(crate) fn mount(folder: &Path, disk: PathBuf) -> Option<Self> {
        let (image, on) = (folder.join("image"), disk.to_str()?);
        let image = image.to_str()?;
        let steps: [&[&str]; 3] =
            [&["truncate", "-s", "32M", image], &["mkfs.ext4", "-q", "-F", image], &["mount", "-o", "loop", image, on]];
        let done = steps.iter().all(|step| {
            let output = Command::new(step[0]).args(&step[1..]).output();
            output.is_ok_and(|output| output.status.success())
        });
        let ready = is_root() && done;
        let script = "trap '' INT TERM; cat >/dev/null; fsfreeze --unfreeze \"$0\"; umount --lazy \"$0\"";
        let mut guard = Command::new("sh");
        guard.args(["-c", script, on]).stdin(Stdio::piped()).stderr(Stdio::null());
        ready.then(|| Self { guard: guard.spawn().unwrap(), path: disk })
    }

    /// From now on, writers to it wait. Returns whether that worked.
    pub(crate) fn freeze(&self) -> bool {
        self.fsfreeze("--freeze")
    }

    /// Ends the freeze. Returns whether that worked.
    pub(crate) fn thaw(&self) -> bool {
        self.fsfreeze("--unfreeze")
    }

    fn fsfreeze(&self, action: &str) -> bool {
        Command::new("fsfreeze").arg(action).arg(&self.path).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
