//! The plan of safe values: a file in the runtime directory that says what to write, and where, if this process no longer can. This file
//! finds and reads plans; [`PlanFile`](super::plan_file::PlanFile) writes them.
//!
//! A plan's location does not prove who wrote it. It is carried out with its owner's rights, and only if no other user could have put it
//! there. May block.

use crate::config::is_name;
use crate::daemon::failure::Failure;
use crate::safety::PlannedWrite;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::dir::effective_user;
use crate::sys::lock::{self, Holder, Taken};
use crate::sys::open::{Mode, without_links};
use crate::sys::other_user::is_private_group;
use crate::sys::trust::may_be_planted;
use crate::time::{Clock, Instant, Span};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The version at the start of the file.
pub(super) const VERSION: u32 = 1;

/// The largest plan written or read, in bytes.
const LARGEST: u64 = 16 << 20;

/// How long to wait for a killed process to end, since it keeps its targets locked until then; and how often to check.
const ENDS_WITHIN: Span = Span::from_seconds(5);
const BETWEEN: Span = Span::from_millis(10);

/// How many times to check a process that does not appear to be killed: between the signal and its end, it shows no sign for an instant.
const LOOKS: u32 = 20;

/// All outputs of a daemon.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SafePlan {
    pub(crate) version: u32,
    /// The process that wrote it.
    pub(crate) pid: u32,
    /// Its outputs, except those that always hold what they have.
    pub(crate) outputs: Vec<PlannedOutput>,
    /// The tasks of outputs that always hold what they have: nothing is written to their targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) holds: Vec<String>,
    /// The tasks of outputs whose safe value only the process itself could write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own: Vec<String>,
}

/// One output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedOutput {
    /// Its task.
    pub(crate) task: String,
    /// In this order.
    pub(crate) writes: Vec<PlannedWrite>,
    /// Its safe value was written since, by a process that carried out the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) written: bool,
}

/// Why a plan cannot be carried out.
#[derive(Debug)]
pub(crate) enum NoPlan {
    /// The file does not exist.
    Missing,
    /// A process has the plan locked: either its author, or a process that is carrying it out.
    Held {
        by: u32,
        /// The process that wrote it, which may have ended.
        of: u32,
    },
    /// Only another user may carry it out.
    NotOurs(String),
    /// It cannot be read, or is not a plan.
    Unusable(String),
}

/// A plan that was found and opened, but not yet read.
#[derive(Debug)]
pub(crate) struct FoundPlan {
    path: PathBuf,
    file: File,
    /// Its user and group.
    pub(crate) owner: (u32, u32),
}

impl FoundPlan {
    /// Opens a plan that only its owner or root can have put there.
    ///
    /// # Errors
    /// Why no one can carry it out.
    pub(crate) fn open(path: &Path) -> Result<Self, NoPlan> {
        match Self::open_once(path) {
            // The file exists after all: its folder was just replaced.
            Err(NoPlan::Missing) if path.symlink_metadata().is_ok() => Self::open_once(path),
            opened => opened,
        }
    }

    fn open_once(path: &Path) -> Result<Self, NoPlan> {
        let unusable = |why: &dyn Display| NoPlan::Unusable(format!("{}: {why}", path.display()));
        let not_ours = |error: &io::Error| {
            NoPlan::NotOurs(format!(
                "{}: {error}: run this as root, or as the user that the plan belongs to",
                path.display()
            ))
        };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => NoPlan::Missing,
            io::ErrorKind::PermissionDenied => not_ours(&error),
            _ => unusable(&error),
        };
        // The folder's path may contain links. The resolved path is opened again without following any.
        let name = path.file_name().ok_or(NoPlan::Missing)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let real = folder.canonicalize().map_err(failed)?.join(name);
        let opened = match without_links(&real, Mode::ReadWrite) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
            {
                without_links(&real, Mode::Read)
            }
            opened => opened,
        };
        let opened = opened.map_err(failed)?;
        let found = Self::of(opened.file, real).map_err(|why| unusable(&why))?;
        let (owner, _) = found.owner;
        // In a sticky folder owned by root, others can link to files that are not theirs.
        let facts = found.file.metadata().map_err(|error| unusable(&error))?;
        if opened.folders.last().is_some_and(|(_, folder)| may_be_planted(&facts, folder, owner)) {
            return Err(unusable(&"it has another name too, and may be another user's"));
        }
        if let Some((folder, _)) = opened.folders.iter().find(|(_, folder)| others_may_write(folder, owner, true)) {
            let why = format!(
                "others than its owner may write to {}, so it may be another user's: `chmod go-w` that folder, or move the plan",
                folder.display()
            );
            return Err(unusable(&why));
        }
        Ok(found)
    }

    /// A plan that another process opened, after checking its location.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn inherited(file: File, path: &Path) -> Result<Self, NoPlan> {
        Self::of(file, path.into()).map_err(|why| NoPlan::Unusable(format!("{}: {why}", path.display())))
    }

    fn of(file: File, path: PathBuf) -> Result<Self, String> {
        let facts = file.metadata().map_err(|error| error.to_string())?;
        let owner = (facts.uid(), facts.gid());
        match () {
            () if !facts.is_file() => Err("it is no regular file".into()),
            () if others_may_write(&facts, owner.0, false) => Err("others than its owner may write to it".into()),
            () if facts.len() > LARGEST => {
                Err(format!("it has {} MB, and no plan has more than 16", facts.len() >> 20))
            }
            () => Ok(Self { path, file, owner }),
        }
    }

    /// Whether its owner is the user this process runs as.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.0 == effective_user()
    }

    /// Its path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for a process with its owner's rights.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// If the process that wrote the plan was killed, waits until it has ended: until then it keeps its targets locked. The wait since
    /// `began` is limited, because a device may keep the process from ending. Returns a message about the wait, if there was one.
    pub(crate) fn await_end(&self, began: Instant) -> Option<String> {
        let clock = KernelClock::monotonic();
        let mut waited = None;
        let writer = read(&self.file).ok().and_then(|plan| Holder::of(plan.pid)).filter(Holder::is_ours);
        for look in 0_u32.. {
            match self.killed(writer.as_ref()) {
                Some(it) if clock.now() - began > ENDS_WITHIN => {
                    return Some(format!(
                        "{} (pid {}) was killed and has not ended yet, so a disk or a device holds it up; continuing without it: \
                         should a write of it be under way, it comes later than this one",
                        it.name, it.pid
                    ));
                }
                Some(it) => waited = Some(it),
                None if waited.is_some() || look >= LOOKS || clock.now() - began > ENDS_WITHIN => break,
                None if !self.is_kept(writer.as_ref()) => break,
                None => {}
            }
            pause(BETWEEN);
        }
        waited.map(|it| format!("waited until {} (pid {}), which was killed, had ended", it.name, it.pid))
    }

    /// A process that was killed but has not ended: the plan's writer, or one that holds its lock.
    fn killed(&self, writer: Option<&Holder>) -> Option<Holder> {
        let locked_by = || match lock::probe(&self.file) {
            Ok(Taken::Peer(holder) | Taken::Stranger(holder)) => holder,
            _ => None,
        };
        let is_killed = |holder: &Holder| holder.is_killed() && !holder.has_ended();
        writer.cloned().filter(is_killed).or_else(|| locked_by().filter(is_killed))
    }

    /// Whether its writer lives, or another hertzd holds its lock.
    fn is_kept(&self, writer: Option<&Holder>) -> bool {
        let is_locked = || matches!(lock::probe(&self.file), Ok(Taken::Peer(_)));
        writer.is_some_and(|writer| !writer.has_ended()) || is_locked()
    }

    /// Reads the plan, and keeps it locked while the returned file is open.
    ///
    /// # Errors
    /// Why it cannot be carried out.
    pub(crate) fn take(self) -> Result<(SafePlan, File), NoPlan> {
        let unusable = |why: &dyn Display| NoPlan::Unusable(format!("{}: {why}", self.path.display()));
        if !self.is_own() {
            return Err(NoPlan::NotOurs(format!("{}: it belongs to user {}", self.path.display(), self.owner.0)));
        }
        let plan = read(&self.file).map_err(|why| unusable(&why))?;
        match keeper(&self.file, &plan).map_err(|error| unusable(&error))? {
            Some(by) => Err(NoPlan::Held { by, of: plan.pid }),
            None => Ok((plan.followed(), self.file)),
        }
    }
}

impl SafePlan {
    /// Whether it names no outputs, not even held ones.
    pub(crate) const fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.holds.is_empty() && self.own.is_empty()
    }

    /// The text of the file.
    ///
    /// # Errors
    /// It would be larger than the limit for reading, so `hertzd safe` would refuse it.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let bytes = serde_json::to_vec_pretty(self)?;
        match bytes.len() as u64 > LARGEST {
            true => {
                let (outputs, most) = (self.outputs.len(), LARGEST >> 20);
                let text = format!(
                    "the plan of {outputs} outputs is larger than {most} MiB; divide them among several daemons"
                );
                Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
            }
            false => Ok(bytes),
        }
    }

    /// The plan at `path` if the process that keeps it lives; `None`: there is no plan, or its process is dead.
    ///
    /// # Errors
    /// It cannot be read, or is not a plan; a live process may still keep it.
    pub(crate) fn held(path: &Path) -> Result<Option<Self>, NoPlan> {
        let unusable = |why: String| NoPlan::Unusable(format!("{}: {why}", path.display()));
        let file = match FoundPlan::open(path) {
            Ok(found) => found.file,
            Err(NoPlan::Missing) => return Ok(None),
            Err(why) => return Err(why),
        };
        let probed = lock::probe(&file).map_err(|error| unusable(error.to_string()))?;
        match matches!(probed, Taken::Peer(_)) || lock::writer(&file).is_some() {
            true => read(&file).map(Some).map_err(unusable),
            false => Ok(None),
        }
    }

    /// Reads a plan of this user without locking it, even if another process has it locked.
    ///
    /// # Errors
    /// It no longer exists, or cannot be read.
    pub(crate) fn look(path: &Path) -> Result<Self, NoPlan> {
        let found = FoundPlan::open(path)?;
        let unusable = |why: &dyn Display| NoPlan::Unusable(format!("{}: {why}", path.display()));
        if !found.is_own() {
            return Err(unusable(&"it belongs to another user"));
        }
        Ok(read(&found.file).map_err(|why| unusable(&why))?.followed())
    }

    /// The same plan, with the current paths of the devices.
    fn followed(mut self) -> Self {
        for output in &mut self.outputs {
            output.writes = output.writes.drain(..).map(PlannedWrite::followed).collect();
        }
        self
    }

    /// Reads a plan of this user, and keeps it locked while the returned file is open.
    ///
    /// # Errors
    /// Why it cannot be carried out.
    pub(crate) fn take(path: &Path) -> Result<(Self, File), NoPlan> {
        FoundPlan::open(path)?.take()
    }
}

/// Locks a plan, or returns the hertzd process that keeps it. A read-only file is only checked: its owner cannot write it either.
fn keeper(file: &File, plan: &SafePlan) -> io::Result<Option<u32>> {
    let taken = match lock::take(file) {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => lock::probe(file)?,
        taken => taken?,
    };
    Ok(match taken {
        Taken::Locked | Taken::Unsupported => None,
        // The lock's holder cannot be seen; it may be the writer, which was killed.
        Taken::Peer(None) if Holder::of(plan.pid).is_some_and(|writer| writer.is_ours() && writer.is_killed()) => None,
        Taken::Peer(holder) => Some(holder.map_or(plan.pid, |holder| holder.pid)),
        // This lock does not count, but it may hide a process that could not lock the plan either.
        Taken::Stranger(_) => lock::writer(file).map(|writer| writer.pid),
    })
}

/// Why nothing starts while process `pid` keeps the plan there. The process that wrote it keeps it as long as it lives. Any other keeps it
/// only while carrying it out, which may take longer than the start has `waited`.
pub(crate) fn refused(path: &Path, pid: u32, waited: Span) -> Failure {
    let (keeper, shown) = (Holder::of(pid), path.display());
    let has_written_it = || SafePlan::held(path).ok().flatten().is_some_and(|plan| plan.pid == pid);
    if keeper.as_ref().is_some_and(Holder::is_ours) && has_written_it() {
        return Failure::Permission(format!(
            "{shown}: process {pid} lives and keeps the plan of its safe values there, so nothing was started: stop it, or give this one a runtime \
             directory of its own by RUNTIME_DIRECTORY"
        ));
    }
    let who = keeper.map_or_else(|| "another process".into(), |_| format!("process {pid}"));
    let text = format!(
        "{shown}: {who} has had it locked for {waited}, as `hertzd safe` has while it carries it out, so nothing was started: start hertzd again when \
         that has ended; systemd does so by itself"
    );
    Failure::System("taking over the plan of safe values that an earlier run has left", io::Error::other(text))
}

fn read(mut file: &File) -> Result<SafePlan, String> {
    file.rewind().map_err(|error| error.to_string())?;
    let reader = io::BufReader::new(file.take(LARGEST));
    let plan: SafePlan = serde_json::from_reader(reader).map_err(|error| error.to_string())?;
    let names = || plan.outputs.iter().map(|output| &output.task).chain(&plan.holds).chain(&plan.own);
    match plan.version {
        // An invalid task name would be printed as if hertzd had said it.
        VERSION => match names().find(|name| !is_name(name)) {
            None => Ok(plan),
            Some(_) => Err("it names a task as none can be called: no hertzd has written it".into()),
        },
        other => Err(format!("is of version {other}, and this is hertzd for version {VERSION}")),
    }
}

/// Whether the path leads to this very file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: Metadata, there: Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
    file.metadata().ok().zip(fs::symlink_metadata(path).ok()).is_some_and(|(own, there)| same(own, there))
}

/// Whether anyone but root and the plan's owner may write to this: the file itself, or a folder on its path. A folder's sticky bit keeps
/// others from replacing files that are not theirs.
fn others_may_write(facts: &Metadata, owner: u32, is_folder: bool) -> bool {
    if ![0, owner].contains(&facts.uid()) {
        return true;
    }
    let is_sticky = is_folder && facts.mode() & 0o1000 != 0;
    let by_group = facts.mode() & 0o020 != 0 && facts.gid() != 0 && !is_private_group(facts.gid(), owner);
    !is_sticky && (facts.mode() & 0o002 != 0 || by_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_a_plan_has_a_name_that_a_task_can_have() {
        let read = |name: &str, holds: &str| {
            let output = PlannedOutput { task: name.into(), writes: Vec::new(), written: false };
            let plan = SafePlan {
                version: VERSION,
                pid: 1,
                outputs: vec![output],
                holds: vec![holds.into()],
                own: Vec::new(),
            };
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), plan.to_bytes().unwrap()).unwrap();
            read(&File::open(file.path()).unwrap())
        };
        assert!(read("fan-1", "Valve_2").is_ok());
        for no_name in ["", "a\nfan: wrote 255 to /sys/pwm1\nb", "a b", "\u{1b}[2J", &"x".repeat(65)] {
            for plan in [read(no_name, "a"), read("a", no_name)] {
                assert!(plan.unwrap_err().contains("as none can be called"), "{no_name:?}");
            }
        }
    }

    #[test]
    fn a_plan_that_would_not_be_read_is_not_written() {
        let long = |length: usize| PlannedWrite::File {
            path: "x".repeat(length).into(),
            witness: None,
            text: "1\n".into(),
            cut: false,
            file_system: None,
            original: None,
        };
        let of = |outputs: usize, name: usize| {
            let output = PlannedOutput { task: "x".into(), writes: vec![long(name)], written: false };
            SafePlan { version: VERSION, pid: 1, outputs: vec![output; outputs], holds: Vec::new(), own: Vec::new() }
        };
        let written = |plan: &SafePlan| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), plan.to_bytes().unwrap()).unwrap();
            read(&File::open(file.path()).unwrap())
        };
        let most = of(10_000, 1_400);
        assert_eq!(written(&most).unwrap(), most, "any number of outputs");
        let error = of(10_000, 1_700).to_bytes().unwrap_err().to_string();
        assert_eq!(error, "the plan of 10000 outputs is larger than 16 MiB; divide them among several daemons");
    }
}
