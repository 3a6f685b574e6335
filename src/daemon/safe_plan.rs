//! The plan of safe values: a file in the runtime directory that says what is to be written, and where, should this process not come to it.
//!
//! It is there before anything but a safe value is written. It is locked for as long as the process lives, so that nobody else carries it out
//! meanwhile. Written by the builder; may block.

use crate::kinds::output::{Guard, PlannedWrite};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

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
    missing_is_said: bool,
}

impl PlanFile {
    pub(super) fn at(path: Option<PathBuf>) -> Self {
        Self { path, written: None, missing_is_said: false }
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
            Some((written, _)) => *written == outputs,
            // Of a process before this one there may be another.
            None => outputs.is_empty() && !path.exists(),
        };
        if unchanged {
            return Ok(());
        }
        let plan = SafePlan { version: VERSION, pid: std::process::id(), outputs };
        let file = replace(path, &serde_json::to_vec_pretty(&plan)?)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        self.written = Some((plan.outputs, file));
        Ok(())
    }
}

/// Puts a file with this content in the place of what is there, in one step, locked.
fn replace(path: &Path, content: &[u8]) -> io::Result<File> {
    // Somebody may have removed the folder since.
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
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
