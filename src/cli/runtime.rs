//! The runtime directory: where a daemon's status socket and flight file are, and which daemons there are.
//!
//! ```text
//! $RUNTIME_DIRECTORY               of a service: systemd makes it
//! $XDG_RUNTIME_DIR/hertzd/PID      of a `run` in the foreground
//! /run/hertzd/PID                  the same as root, without XDG_RUNTIME_DIR
//! ```
//!
//! A foreground process locks its directory, so others know whether it lives. What a dead one left is removed by the next, which
//! keeps the latest flight file as `flight.prev`, and a plan of safe values that nobody has carried out.

use crate::daemon::{NoPlan, SafePlan};
use crate::kinds::output::PlannedWrite;
use crate::program;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tracing::{debug, warn};

/// The file of the flight recorder, and what the process before left of it.
pub(super) const FLIGHT: &str = "flight";
pub(super) const FLIGHT_BEFORE: &str = "flight.prev";
/// The plan of the outputs' safe values.
const SAFE_PLAN: &str = "safe-plan.json";
const SOCKET: &str = "status.sock";

/// Where the service's files are, and those of root's processes in the foreground.
fn system() -> PathBuf {
    program::runtime_directory()
}

/// This process's own directory.
#[derive(Debug)]
pub(super) struct RuntimeDirectory {
    path: PathBuf,
    _lock: Option<File>, // of a process in the foreground
    /// The plans of safe values of those that died, which still owe some.
    pub(super) left_plans: Vec<PathBuf>,
}

impl RuntimeDirectory {
    /// The directory that systemd has made, else one in the foreground's place. `None`: there is none, and the log says why. Of a shadow
    /// run, what a process that died has left stays: the plan of its safe values may be still to be carried out.
    pub(super) fn of_this_process(is_shadow: bool) -> Option<Self> {
        if let Some(path) = given() {
            return Some(Self { path, _lock: None, left_plans: Vec::new() });
        }
        let Some(place) = own_place() else {
            debug!("no runtime directory: without XDG_RUNTIME_DIR there is no status socket and no flight file");
            return None;
        };
        let made = Self::in_foreground(&place, is_shadow);
        made.inspect_err(|error| {
            let place = place.display();
            warn!("no runtime directory in {place} ({error}): there is no status socket and no flight file; set XDG_RUNTIME_DIR");
        })
        .ok()
    }

    fn in_foreground(place: &Path, is_shadow: bool) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        let path = place.join(std::process::id().to_string());
        // Another process that removes what dead ones left may remove this one before it is locked.
        for _ in 0..100 {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let Ok(lock) = File::open(&path) else { continue };
            if lock.try_lock().is_err() || !is_at(&lock, &path) {
                continue;
            }
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
            let mut directory = Self { path, _lock: Some(lock), left_plans: Vec::new() };
            if !is_shadow {
                directory.take_over(place);
            }
            return Ok(directory);
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is in use", path.display())))
    }

    /// Keeps the latest flight file of the dead processes, and removes the rest of what they left, but for safe values that are owed.
    fn take_over(&mut self, place: &Path) {
        let dead =
            || others(place).filter(|folder| *folder != self.path).filter_map(|folder| Some((dead(&folder)?, folder)));
        let dead: Vec<_> = dead().collect();
        let latest = dead.iter().filter_map(|(_, folder)| Some((changed(&folder.join(FLIGHT))?, folder))).max();
        if let Some((_, folder)) = latest {
            let _ = fs::rename(folder.join(FLIGHT), self.path.join(FLIGHT_BEFORE));
        }
        for (_locked, folder) in &dead {
            let plan = folder.join(SAFE_PLAN);
            if is_settled(&plan) {
                let _ = fs::remove_dir_all(folder);
            } else {
                self.left_plans.push(plan);
            }
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    pub(super) fn safe_plan(&self) -> PathBuf {
        self.path.join(SAFE_PLAN)
    }

    pub(super) fn flight(&self) -> PathBuf {
        self.path.join(FLIGHT)
    }
}

/// Whether the plan of a process that is dead owes nothing to anything that is there. One that cannot be read may.
fn is_settled(plan: &Path) -> bool {
    match SafePlan::take(plan) {
        Ok((plan, _locked)) => plan.outputs.iter().all(|output| {
            let is_there = |write: &PlannedWrite| write.check().is_err() || write.is_there();
            output.written || !output.writes.iter().any(is_there)
        }),
        Err(why) => matches!(why, NoPlan::Missing),
    }
}

/// Removes a plan that was carried out, if it is one of the foreground: the next process there need not tell of it any more. That of the
/// service stays until the next start. Whether it was removed.
pub(super) fn remove_carried_out(plan: &Path) -> bool {
    let folder = plan.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().parse::<u32>().is_ok() && fs::remove_file(plan).is_ok()
}

/// The directory that systemd has made for this process; of several, separated by colons, the first.
fn given() -> Option<PathBuf> {
    let given = std::env::var_os("RUNTIME_DIRECTORY").filter(|folder| !folder.is_empty());
    given.map(|folders| PathBuf::from(folders.to_string_lossy().split(':').next().unwrap_or_default()))
}

/// Where processes of this user have their directories in the foreground.
fn own_place() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute());
    let is_root = || fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    given.map(|folder| Path::new(&folder).join(program::name())).or_else(|| is_root().then(system))
}

/// Every place where one may find directories of the foreground.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<_> = own_place().into_iter().chain([system()]).collect();
    places.dedup();
    places
}

/// The status sockets of processes that run in the foreground.
pub(super) fn foreground_sockets() -> Vec<PathBuf> {
    let living =
        |folder: PathBuf| dead(&folder).is_none().then(|| folder.join(SOCKET)).filter(|socket| socket.exists());
    places().iter().flat_map(|place| others(place)).filter_map(living).collect()
}

/// All flight files that can be found without a daemon, the latest first.
pub(super) fn flight_files() -> Vec<PathBuf> {
    let of = |folder: PathBuf| [folder.join(FLIGHT), folder.join(FLIGHT_BEFORE)];
    let folders = places().into_iter().flat_map(|place| others(&place).chain([place.clone()]).collect::<Vec<_>>());
    let mut files: Vec<_> = folders.flat_map(of).filter_map(|file| Some((changed(&file)?, file))).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    files.into_iter().map(|(_, file)| file).collect()
}

/// All plans of safe values that can be found without a daemon: that of the service, or of what systemd has started, and those of processes
/// in the foreground.
pub(super) fn safe_plans() -> Vec<PathBuf> {
    let folders = match given() {
        Some(folder) => vec![folder],
        None => {
            places().into_iter().flat_map(|place| others(&place).chain([place.clone()]).collect::<Vec<_>>()).collect()
        }
    };
    folders.into_iter().map(|folder| folder.join(SAFE_PLAN)).filter(|plan| plan.symlink_metadata().is_ok()).collect()
}

/// The directories of processes in the foreground: those that are a number.
fn others(place: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some();
    fs::read_dir(place).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).filter(numbered)
}

/// The directory with its lock, if its process has died.
fn dead(folder: &Path) -> Option<File> {
    let lock = File::open(folder).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: fs::Metadata, there: fs::Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
    file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(|(own, there)| same(own, there))
}

fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_flight_of_the_dead_is_kept_and_the_living_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let left = |pid: u32, text: &str| {
            let folder = place.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(FLIGHT), text).unwrap();
            File::options().write(true).open(folder.join(FLIGHT)).unwrap()
        };
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        left(4_000_000_001, "old").set_modified(at(1)).unwrap();
        left(4_000_000_002, "latest").set_modified(at(2)).unwrap();
        left(4_000_000_003, "of one that lives").set_modified(at(3)).unwrap();
        fs::write(place.path().join(FLIGHT), "of the service").unwrap();
        let living = File::open(place.path().join("4000000003")).unwrap();
        living.try_lock().unwrap();
        let own = RuntimeDirectory::in_foreground(place.path(), false).unwrap();
        assert_eq!(fs::read_to_string(own.path.join(FLIGHT_BEFORE)).unwrap(), "latest");
        let mut there: Vec<_> = others(place.path()).collect();
        there.sort();
        assert_eq!(there.len(), 2, "{there:?}");
        assert!(there.contains(&own.path) && there.contains(&place.path().join("4000000003")), "{there:?}");
        assert!(dead(&own.path).is_none() && place.path().join(FLIGHT).exists());
        drop(own);
        let again = RuntimeDirectory::in_foreground(place.path(), false).unwrap();
        assert_eq!(fs::read_to_string(again.path.join(FLIGHT_BEFORE)).unwrap(), "latest", "its own directory, again");
    }
}
