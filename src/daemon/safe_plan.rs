//! The plan of safe values: a file in the runtime directory that says what is to be written, and where, should this process not come to it.
//!
//! It is there before anything but a safe value is written. It is locked for as long as the process lives, so that nobody else carries it out
//! meanwhile. Written by the builder; may block.

use crate::kinds::output::{Guard, PlannedWrite};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};

/// What the file says first.
const VERSION: u32 = 1;

/// All outputs of a daemon.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SafePlan {
    version: u32,
    /// The process that wrote it.
    pub(crate) pid: u32,
    /// Its outputs; those that hold what they have, whatever happens, are not among them.
    pub(crate) outputs: Vec<PlannedOutput>,
}

/// One output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedOutput {
    /// Its task.
    pub(crate) task: String,
    /// In this order.
    pub(crate) writes: Vec<PlannedWrite>,
}

/// Where a daemon keeps its plan, and the plan that it has.
#[derive(Debug)]
pub(super) struct PlanFile {
    path: Option<PathBuf>, // `None`: there is no runtime directory
    written: Option<(Vec<PlannedOutput>, File)>,
    folder: Option<File>, // locked, if it was made again: that of a process that lives
    missing_is_said: bool,
    /// What is wrong with the plan that lies there, for those who ask whether all is well.
    pub(super) trouble: Option<String>,
}

impl PlanFile {
    pub(super) fn at(path: Option<PathBuf>) -> Self {
        Self { path, written: None, folder: None, missing_is_said: false, trouble: None }
    }

    /// Whether it is to be written again: somebody has removed it, or that failed before.
    pub(super) fn is_amiss(&self) -> bool {
        self.trouble.is_some() || self.is_gone()
    }

    /// Writes the plan of these outputs, as [`update`](Self::update); what comes of it is logged, and is its trouble. `but`: what is wrong
    /// with the one that there is, should that fail.
    pub(super) fn try_update(&mut self, guards: &[Arc<Guard>], but: &str) {
        let was_gone = self.is_gone();
        let (failed, path) = (self.update(guards).err(), self.path.as_deref().unwrap_or(Path::new("")).display());
        let trouble = failed.map(|reason| {
            format!("the plan of safe values {but}: it could not be written: {reason}; it is tried again every second")
        });
        match &trouble {
            Some(trouble) if self.trouble.as_ref() != Some(trouble) => {
                warn!("{trouble}; until then `hertzd safe` does not know all outputs, should this process be killed");
            }
            None if self.trouble.is_some() => info!("the plan of safe values could be written again: {path}"),
            None if was_gone => warn!("the plan of safe values was removed, and is written again: {path}"),
            _ => {}
        }
        self.trouble = trouble;
    }

    /// Whether the plan that was written lies there no more, though there are outputs.
    fn is_gone(&self) -> bool {
        let written = self.written.as_ref().filter(|(outputs, _)| !outputs.is_empty());
        self.path.as_ref().zip(written).is_some_and(|(path, (_, file))| !is_at(file, path))
    }

    /// Whether there is one.
    pub(super) fn is_written(&self) -> bool {
        self.written.is_some()
    }

    /// Writes the plan of these outputs, which are all that are open, if it differs from what is there.
    ///
    /// # Errors
    /// It could not be written; the plan from before, if there is one, stays.
    pub(super) fn update(&mut self, guards: &[Arc<Guard>]) -> io::Result<()> {
        let output = |guard: &Guard| PlannedOutput { task: guard.task().to_owned(), writes: guard.plan() };
        let outputs: Vec<_> =
            guards.iter().map(|guard| output(guard)).filter(|output| !output.writes.is_empty()).collect();
        let Some(path) = &self.path else {
            if !outputs.is_empty() && !std::mem::replace(&mut self.missing_is_said, true) {
                warn!(
                    "there is no runtime directory, and so no plan of safe values: should this process be killed, its outputs keep what \
                     they hold, and `hertzd safe` does not know of them; set XDG_RUNTIME_DIR"
                );
            }
            return Ok(());
        };
        let unchanged = match &self.written {
            Some((written, _)) => *written == outputs && !self.is_gone(),
            // Of a process before this one there may be another.
            None => outputs.is_empty() && !path.exists(),
        };
        if unchanged {
            return Ok(());
        }
        let other = || SafePlan::held(path).filter(|other| other.pid != std::process::id());
        if let Some(other) = self.is_gone().then(other).flatten() {
            let text = format!("{}: the process {} keeps its plan there", path.display(), other.pid);
            return Err(io::Error::other(text));
        }
        let plan = SafePlan { version: VERSION, pid: std::process::id(), outputs };
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        self.folder = made_again(path).map_err(failed)?.or(self.folder.take());
        let file = replace(path, &serde_json::to_vec_pretty(&plan)?).map_err(failed)?;
        self.written = Some((plan.outputs, file));
        Ok(())
    }
}

/// Makes the folder of the plan, should somebody have removed it, and locks it: others see by that that its process lives.
fn made_again(path: &Path) -> io::Result<Option<File>> {
    let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) else { return Ok(None) };
    fs::create_dir_all(folder)?;
    let made = File::open(folder)?;
    // Whoever has it locked meanwhile looks whether it is one of a process that died, and may remove it: then it is made once more.
    let _ = made.try_lock();
    Ok(Some(made))
}

/// Whether it is this file that the path leads to.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: fs::Metadata, there: fs::Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
    file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(|(own, there)| same(own, there))
}

/// Puts a file with this content in the place of what is there, in one step, locked.
fn replace(path: &Path, content: &[u8]) -> io::Result<File> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.lock()?;
    file.write_all(content)?;
    fs::rename(&new, path)?;
    Ok(file)
}

/// Why a plan cannot be carried out.
#[derive(Debug)]
pub(crate) enum NoPlan {
    /// There is no such file.
    Missing,
    /// The process that wrote it lives.
    Held(u32),
    /// It cannot be read, or is no plan.
    Unusable(String),
}

impl SafePlan {
    /// The plan of a process that lives; `None`: there is none, or its process does not live.
    pub(crate) fn held(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let plan = serde_json::from_reader(io::BufReader::new(&file)).ok()?;
        matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)).then_some(plan)
    }

    /// Reads a plan, and keeps it locked for as long as the file lives that comes with it.
    ///
    /// # Errors
    /// Why it cannot be carried out.
    pub(crate) fn take(path: &Path) -> Result<(Self, File), NoPlan> {
        let unusable = |why: &dyn std::fmt::Display| NoPlan::Unusable(format!("{}: {why}", path.display()));
        // Opening a pipe must not block.
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoPlan::Missing),
            Err(error) => return Err(unusable(&error)),
        };
        if !file.metadata().map_err(|error| unusable(&error))?.is_file() {
            return Err(unusable(&"it is no regular file"));
        }
        let plan: Self = serde_json::from_reader(io::BufReader::new(&file)).map_err(|error| unusable(&error))?;
        if plan.version != VERSION {
            return Err(unusable(&format_args!(
                "is of version {}, and this is hertzd for version {VERSION}",
                plan.version
            )));
        }
        match file.try_lock() {
            Ok(()) => Ok((plan, file)),
            Err(fs::TryLockError::WouldBlock) => Err(NoPlan::Held(plan.pid)),
            Err(fs::TryLockError::Error(error)) => Err(unusable(&error)),
        }
    }
}
