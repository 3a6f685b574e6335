//! This process's plan of safe values. It exists before anything but a safe value is written. Its file stays locked while the process
//! lives, so that no other process carries it out. Written by the builder; may block.

use super::guard_thread::GuardThread;
use super::left_meanwhile::{self, Meanwhile, SharedLeft, Shows, lock};
use super::left_outputs::LeftOutputs;
use super::left_plans::LeftPlans;
use super::safe_plan::{PlannedOutput, SafePlan, VERSION, is_at};
use crate::daemon::failure::Failure;
use crate::safety::Guard;
use crate::site::Common;
use crate::sys::dir::{Dir, Readers};
use crate::sys::lock as file_lock;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tracing::{info, warn};

/// Where a daemon keeps its plan, and the plan as written.
#[derive(Debug)]
pub(crate) struct PlanFile {
    path: Option<PathBuf>, // `None`: there is no runtime directory
    readers: Readers,
    written: Option<(SafePlan, File)>,
    folder: Option<File>, // locked, if recreated: shows that its process lives
    missing_is_said: bool,
    /// What earlier processes left; `None`: not looked up yet.
    left: Option<SharedLeft>,
    others: LeftPlans,
    turn: Vec<Arc<File>>, // locked until the start is over
    common: Arc<Common>,  // shared with the tasks
    /// What is wrong with the plan on disk, for the status.
    pub(crate) trouble: Option<String>,
}

impl PlanFile {
    /// `others`: plans of dead processes that this one also deals with. `turn`: locks that keep other starts waiting until this one is
    /// over. `common`: shared with the tasks.
    pub(crate) fn at(
        path: Option<PathBuf>,
        readers: Readers,
        others: LeftPlans,
        turn: Vec<Arc<File>>,
        common: Arc<Common>,
    ) -> Self {
        Self {
            path,
            readers,
            written: None,
            folder: None,
            missing_is_said: false,
            left: None,
            others,
            turn,
            common,
            trouble: None,
        }
    }

    /// Takes what earlier processes left. At a reload, takes what others have left since, and looks up where the devices are now.
    ///
    /// # Errors
    /// See [`LeftOutputs::take`].
    pub(crate) fn take_left(&mut self) -> Result<(), Failure> {
        match (&self.path, &mut self.left) {
            (_, Some(left)) => lock(left).take_more(self.others.now()),
            (Some(path), None) => {
                let left = LeftOutputs::take(path, &self.others.first, &self.common)?;
                self.left = Some(Arc::new(Mutex::new(left)));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Refuses these outputs if a process that had one of their targets was killed since.
    ///
    /// # Errors
    /// See [`LeftOutputs::refuse_left_since`].
    pub(crate) fn refuse_left_since(&self, guards: &[Arc<Guard>]) -> Result<(), Failure> {
        self.left.as_ref().map_or(Ok(()), |left| lock(left).refuse_left_since(&self.others.now(), guards))
    }

    /// The start can no longer be refused: lets other starts go ahead.
    pub(crate) fn has_started(&mut self) {
        if let Some(left) = &self.left {
            lock(left).has_started();
        }
        // Unlock explicitly: main shares these open files.
        std::mem::take(&mut self.turn).iter().for_each(|lock| drop(lock.unlock()));
    }

    /// While this start can still be refused or stopped: the tasks of earlier processes whose safe values are owed, separated by commas.
    /// `None`: there are none, or the start is complete.
    pub(crate) fn left_by_start(&self) -> Option<String> {
        self.left.as_ref().and_then(|left| lock(left).left_by_start())
    }

    /// The same, whether or not the start is complete.
    pub(crate) fn left(&self) -> Option<String> {
        self.left.as_ref().and_then(|left| lock(left).tasks())
    }

    /// Writes the owed safe values that none of these outputs has to write. `waits`: waits for the writes, for a limited time. Returns
    /// whether the state of any changed.
    pub(crate) fn write_left(&mut self, guards: &[Arc<Guard>], waits: bool) -> bool {
        self.left.as_ref().is_some_and(|left| lock(left).write(guards, waits))
    }

    /// Tries all of them once more at the end of the process, whenever they were last tried.
    pub(crate) fn write_left_at_end(&mut self, guards: &[Arc<Guard>]) -> bool {
        self.left.as_ref().is_some_and(|left| lock(left).write_at_end(guards))
    }

    /// If opening or closing devices takes this thread long, another thread writes the left outputs. See
    /// [`left_meanwhile`](super::left_meanwhile).
    pub(crate) fn write_left_meanwhile(
        &self,
        guard: &Arc<GuardThread>,
        stops: &Arc<AtomicBool>,
        shows: Box<Shows>,
    ) -> Option<Meanwhile> {
        left_meanwhile::begin(self.left.as_ref()?, guard.clone(), stops.clone(), shows)
    }

    /// What earlier processes left and is still owed.
    pub(crate) fn owed(&self) -> Option<String> {
        self.left.as_ref().and_then(|left| lock(left).trouble())
    }

    /// Whether the plan must be written again: someone removed it, or the last try failed.
    pub(crate) fn is_amiss(&self) -> bool {
        self.trouble.is_some() || self.is_gone()
    }

    /// Writes the plan of these outputs as [`update`](Self::update) does, logs the result, and keeps a failure as `trouble`. In that case
    /// `but` says what is wrong with the existing plan.
    pub(crate) fn try_update(&mut self, guards: &[Arc<Guard>], but: &str) {
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

    /// Whether the plan is no longer at its path, though it is not empty.
    fn is_gone(&self) -> bool {
        let written = self.written.as_ref().filter(|(plan, _)| !plan.is_empty());
        self.path.as_ref().zip(written).is_some_and(|(path, (_, file))| !is_at(file, path))
    }

    /// Whether this process has written a plan.
    pub(crate) fn is_written(&self) -> bool {
        self.written.is_some()
    }

    /// Writes the plan of these outputs, which must be all open ones, and of what is owed, if it differs from the existing plan.
    ///
    /// # Errors
    /// The plan could not be written; an existing plan stays.
    pub(crate) fn update(&mut self, guards: &[Arc<Guard>]) -> io::Result<()> {
        let output =
            |guard: &Guard| PlannedOutput { task: guard.task().to_owned(), writes: guard.plan(), written: false };
        let outputs = guards.iter().map(|guard| output(guard)).filter(|output| !output.writes.is_empty());
        let mut left = self.left.as_ref().map(lock);
        let owed = left.as_mut().map(|left| left.still_owed(guards)).unwrap_or_default();
        let outputs: Vec<_> = outputs.chain(owed).collect();
        let tasks = |is_one: fn(&Guard) -> bool| {
            guards.iter().filter(|guard| is_one(guard)).map(|guard| guard.task().to_owned()).collect()
        };
        let (holds, mut own): (_, Vec<String>) = (tasks(Guard::keeps_what_it_has), tasks(Guard::has_no_plan));
        for left in left.iter_mut().flat_map(|left| left.still_own(guards)) {
            if own.iter().all(|own| own != left) {
                own.push(left.to_owned());
            }
        }
        drop(left);
        let plan = SafePlan { version: VERSION, pid: std::process::id(), outputs, holds, own };
        let Some(path) = &self.path else {
            if !plan.outputs.is_empty() && !std::mem::replace(&mut self.missing_is_said, true) {
                warn!(
                    "there is no runtime directory, and so no plan of safe values: should this process be killed, its outputs keep what \
                     they hold, and `hertzd safe` does not know of them; set XDG_RUNTIME_DIR"
                );
            }
            return Ok(());
        };
        let unchanged = match &self.written {
            Some((written, _)) => *written == plan && !self.is_gone(),
            // An earlier process may have left one there.
            None => plan.is_empty() && path.symlink_metadata().is_err(),
        };
        if unchanged {
            return Ok(());
        }
        let other = || SafePlan::held(path).ok().flatten().filter(|other| other.pid != std::process::id());
        if let Some(other) = self.is_gone().then(other).flatten() {
            let text = format!("{}: the process {} keeps its plan there", path.display(), other.pid);
            return Err(io::Error::other(text));
        }
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        self.folder = made_again(path).map_err(failed)?.or(self.folder.take());
        let file = replace(path, &plan, self.readers).map_err(failed)?;
        self.written = Some((plan, file));
        if let Some(left) = &self.left {
            lock(left).are_planned();
        }
        Ok(())
    }
}

/// Recreates the plan's folder if someone removed it, and locks it to show that its process lives.
fn made_again(path: &Path) -> io::Result<Option<File>> {
    let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) else { return Ok(None) };
    fs::create_dir_all(folder)?;
    let made = File::open(folder)?;
    // Someone else may have it locked to check whether its process has died, and may remove it. Then the next update makes it again.
    let _ = made.try_lock();
    Ok(Some(made))
}

/// Atomically replaces the file at `path` by this plan, locked.
fn replace(path: &Path, plan: &SafePlan, readers: Readers) -> io::Result<File> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let new = Path::new(name).with_extension("new");
    let new = new.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    // Readers could lock the file too, so they get access only once it is locked.
    let folder = Dir::open(folder)?;
    let bytes = plan.to_bytes()?;
    let mut file = folder.create(new)?;
    file_lock::take(&file)?;
    let folder = folder.for_readers(readers);
    folder.share_file(new)?;
    file.write_all(&bytes)?;
    folder.rename(new, &folder, name)?;
    Ok(file)
}

impl SafePlan {
    /// Updates the plan at `path` with the outputs that have their safe values now. The caller holds its lock. Read permissions stay the
    /// same.
    ///
    /// # Errors
    /// The plan could not be written and is unchanged.
    pub(crate) fn note_written(&self, path: &Path) -> io::Result<()> {
        let facts = fs::symlink_metadata(path)?;
        let readers = if facts.mode() & 0o040 == 0 { Readers::Owner } else { Readers::Group(Some(facts.gid())) };
        replace(path, self, readers).map(drop)
    }
}
