//! The plan of safe values as this process keeps it: it is there before anything but a safe value is written. It is locked for as long as the
//! process lives, so that no one else carries it out meanwhile. Written by the builder; may block.

use super::left_outputs::LeftOutputs;
use super::left_plans::LeftPlans;
use super::safe_plan::{PlannedOutput, SafePlan, VERSION, is_at};
use crate::daemon::failure::Failure;
use crate::safety::Guard;
use crate::site::Common;
use crate::sys::dir::{Dir, Readers};
use crate::sys::lock;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};

/// Where a daemon keeps its plan, and the plan that it has.
#[derive(Debug)]
pub(crate) struct PlanFile {
    path: Option<PathBuf>, // `None`: there is no runtime directory
    readers: Readers,
    written: Option<(SafePlan, File)>,
    folder: Option<File>, // locked, if it was made again: that of a process that lives
    missing_is_said: bool,
    /// What processes before this one have left; `None`: no one has looked.
    left: Option<LeftOutputs>,
    others: LeftPlans,
    turn: Vec<Arc<File>>, // locked until the start is over
    common: Arc<Common>,  // with the tasks
    /// What is wrong with the plan that lies there, for those who ask whether all is well.
    pub(crate) trouble: Option<String>,
}

impl PlanFile {
    /// `others`: the plans of processes that have died, which this one deals with as well. `turn`: locked, it keeps other starts waiting until this one
    /// is over. `common`: with the tasks.
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

    /// Takes what processes before this one have left, and at a reload what others have left since; then it looks where the devices are now.
    ///
    /// # Errors
    /// See [`LeftOutputs::take`].
    pub(crate) fn take_left(&mut self) -> Result<(), Failure> {
        match (&self.path, &mut self.left) {
            (_, Some(left)) => left.take_more(self.others.now()),
            (Some(path), None) => self.left = Some(LeftOutputs::take(path, &self.others.first, &self.common)?),
            (None, None) => {}
        }
        Ok(())
    }

    /// Refuses these outputs if the process that had one of their targets was killed since.
    ///
    /// # Errors
    /// See [`LeftOutputs::refuse_left_since`].
    pub(crate) fn refuse_left_since(&self, guards: &[Arc<Guard>]) -> Result<(), Failure> {
        self.left.as_ref().map_or(Ok(()), |left| left.refuse_left_since(&self.others.now(), guards))
    }

    /// The start was not refused.
    pub(crate) fn has_started(&mut self) {
        if let Some(left) = &mut self.left {
            left.has_started();
        }
        // Main has the same open files.
        std::mem::take(&mut self.turn).iter().for_each(|lock| drop(lock.unlock()));
    }

    /// Of a start that is refused, or was stopped: the tasks of processes before this one whose safe values are still owed, separated by commas; `None`:
    /// there is none, or it has started.
    pub(crate) fn left_by_start(&self) -> Option<String> {
        self.left.as_ref().filter(|left| left.is_starting()).and_then(LeftOutputs::tasks)
    }

    /// The same, whether it has started or not.
    pub(crate) fn left(&self) -> Option<String> {
        self.left.as_ref().and_then(LeftOutputs::tasks)
    }

    /// Writes the safe values that are still owed, and that none of these outputs has to write. `waits`: for a while. True: something has become of
    /// them.
    pub(crate) fn write_left(&mut self, guards: &[Arc<Guard>], waits: bool) -> bool {
        self.left.as_mut().is_some_and(|left| left.write(guards, waits))
    }

    /// The same at the end of the process: all are tried once more, whenever that was last done.
    pub(crate) fn write_left_at_end(&mut self, guards: &[Arc<Guard>]) -> bool {
        self.left.as_mut().is_some_and(|left| left.write_at_end(guards))
    }

    /// What processes before this one have left, and is still owed.
    pub(crate) fn owed(&self) -> Option<String> {
        self.left.as_ref().and_then(LeftOutputs::trouble)
    }

    /// Whether it is to be written again: somebody has removed it, or that failed before.
    pub(crate) fn is_amiss(&self) -> bool {
        self.trouble.is_some() || self.is_gone()
    }

    /// Writes the plan of these outputs, as [`update`](Self::update); what comes of it is logged, and is its trouble. `but`: what is wrong
    /// with the one that there is, should that fail.
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

    /// Whether the plan that was written lies there no more, though it says something.
    fn is_gone(&self) -> bool {
        let written = self.written.as_ref().filter(|(plan, _)| !plan.is_empty());
        self.path.as_ref().zip(written).is_some_and(|(path, (_, file))| !is_at(file, path))
    }

    /// Whether there is one.
    pub(crate) fn is_written(&self) -> bool {
        self.written.is_some()
    }

    /// Writes the plan of these outputs, which are all that are open, and of what is owed, if it differs from what is there.
    ///
    /// # Errors
    /// It could not be written; the plan from before, if there is one, stays.
    pub(crate) fn update(&mut self, guards: &[Arc<Guard>]) -> io::Result<()> {
        let output =
            |guard: &Guard| PlannedOutput { task: guard.task().to_owned(), writes: guard.plan(), written: false };
        let outputs = guards.iter().map(|guard| output(guard)).filter(|output| !output.writes.is_empty());
        let owed = self.left.as_mut().map(|left| left.still_owed(guards)).unwrap_or_default();
        let outputs: Vec<_> = outputs.chain(owed).collect();
        let tasks = |is_one: fn(&Guard) -> bool| {
            guards.iter().filter(|guard| is_one(guard)).map(|guard| guard.task().to_owned()).collect()
        };
        let (holds, mut own): (_, Vec<String>) = (tasks(Guard::keeps_what_it_has), tasks(Guard::has_no_plan));
        for left in self.left.iter_mut().flat_map(|left| left.still_own(guards)) {
            if own.iter().all(|own| own != left) {
                own.push(left.to_owned());
            }
        }
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
            // Of a process before this one there may be another.
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
        if let Some(left) = &mut self.left {
            left.are_planned();
        }
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

/// Puts a file with this plan in the place of what is there, in one step, locked.
fn replace(path: &Path, plan: &SafePlan, readers: Readers) -> io::Result<File> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let new = Path::new(name).with_extension("new");
    let new = new.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    // Its readers, who could lock it as well, have it only when it is locked.
    let folder = Dir::open(folder)?;
    let bytes = plan.to_bytes()?;
    let mut file = folder.create(new)?;
    lock::take(&file)?;
    let folder = folder.for_readers(readers);
    folder.share_file(new)?;
    file.write_all(&bytes)?;
    folder.rename(new, &folder, name)?;
    Ok(file)
}

impl SafePlan {
    /// Notes in the plan at `path`, whose lock the caller has, which of its outputs have their safe values now. Who may read it, still may.
    ///
    /// # Errors
    /// It could not be written, and is as it was.
    pub(crate) fn note_written(&self, path: &Path) -> io::Result<()> {
        let facts = fs::symlink_metadata(path)?;
        let readers = if facts.mode() & 0o040 == 0 { Readers::Owner } else { Readers::Group(Some(facts.gid())) };
        replace(path, self, readers).map(drop)
    }
}
