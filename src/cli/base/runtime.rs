//! The runtime directory, which holds a daemon's status socket and flight file; also finds the daemons that exist.
//!
//! ```text
//! $RUNTIME_DIRECTORY               of a service: systemd makes it
//! $XDG_RUNTIME_DIR/hertzd/PID      of a `run` in the foreground
//! /run/hertzd-root/PID             the same as root, without an XDG_RUNTIME_DIR of root's own
//! ```
//!
//! A daemon uses only a directory of its own user that no one else can write to or replace. It keeps the directory open by descriptor and
//! locks it; the lock shows others whether the daemon is alive. The next foreground process cleans up after a dead one. It keeps the newest
//! flight file as `flight.prev`, and carries out an abandoned plan of safe values. A directory whose plan could not be read stays.

use super::Stop;
use super::runtime_lock::{DirectoryLock, NotLocked};
use super::runtime_places::{is_number, open_own, others, own_place, own_places, places, places_of_others};
use super::runtime_turn::take_turn;
use crate::daemon::{FindPlans, LeftPlans, NoPlan, SafePlan};
use crate::flight::{FLIGHT, FLIGHT_BEFORE};
use crate::program;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::dir::{Dir, Readers, effective_user};
use crate::sys::entry::Entry;
use crate::sys::lock::Holder;
use crate::sys::trust;
use crate::sys::user::group_number;
use crate::time::{Clock, Span};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tracing::{debug, warn};

/// The plan with the outputs' safe values.
const SAFE_PLAN: &str = "safe-plan.json";
const SOCKET: &str = "status.sock";

/// How long a foreground start waits for killed processes in its place to end.
const ENDS_WITHIN: Span = Span::from_seconds(2);

/// How many times to retry creating our own directory if other processes mistake it for a dead one's.
const ATTEMPTS: u32 = 100;

/// This process's own directory.
#[derive(Debug)]
pub(in crate::cli) struct RuntimeDirectory {
    dir: Arc<Dir>,
    readers: Readers,
    _lock: DirectoryLock,
    _lock_of_before: Option<File>, // for foreground processes: earlier versions check this lock
    /// Safe-value plans of dead processes that still owe something.
    left_plans: Vec<PathBuf>,
    /// The places, locked until the leftovers there are dealt with; other starts wait until then.
    pub(in crate::cli) turn: Vec<Arc<File>>,
}

impl RuntimeDirectory {
    /// The directory systemd created, otherwise one in the place for foreground processes. `None`: there is none, and the log says why. In
    /// a shadow run, leftovers of dead processes stay untouched: their safe values may still have to be written.
    ///
    /// # Errors
    /// The directory systemd created belongs to another user, or to another live daemon.
    pub(in crate::cli) fn of_this_process(is_shadow: bool) -> Result<Option<Self>, Stop> {
        if let Some(path) = given() {
            return Self::of_service(&path).map(Some);
        }
        let Some((parent, name)) = own_place() else {
            debug!("no runtime directory: without XDG_RUNTIME_DIR there is no status socket and no flight file");
            return Ok(None);
        };
        let lasting = trust::lasting(&parent.join(&name)).and_then(|place| Dir::open(place.parent().unwrap_or(&place)));
        let made = lasting.and_then(|parent| parent.private_dir(&name));
        let made = made.and_then(|place| Self::in_foreground(&place, is_shadow));
        let made = made.inspect_err(|error| {
            let place = parent.join(name);
            let place = place.display();
            warn!("no runtime directory in {place} ({error}): there is no status socket and no flight file; set XDG_RUNTIME_DIR");
        });
        Ok(made.ok())
    }

    fn of_service(path: &Path) -> Result<Self, Stop> {
        let refused = |error: io::Error| {
            let text = format!("the runtime directory {} (RUNTIME_DIRECTORY): {error}", path.display());
            match error.kind() {
                io::ErrorKind::PermissionDenied => Stop::Permission(text),
                _ => Stop::Fault(text),
            }
        };
        let readers = Readers::Group(group_number(&program::status_group()));
        // With DynamicUser=, systemd puts a link there, owned by root.
        let is_roots_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink() && found.uid() == 0);
        let led_to = is_roots_link.then(|| fs::canonicalize(path)).transpose().map_err(refused)?;
        let path_of_dir = trust::lasting(led_to.as_deref().unwrap_or(path)).map_err(refused)?;
        let dir = Dir::open(&path_of_dir).map_err(refused)?.for_readers(readers);
        dir.must_be_own().map_err(refused)?;
        let lock = DirectoryLock::take(&dir).map_err(|reason| match reason {
            NotLocked::Because(error) => refused(error),
            NotLocked::Held(holder) => Stop::Permission(format!(
                "the runtime directory {} belongs to another daemon that runs{}: two would replace each other's plan of safe values and \
                 flight file; stop that one, or set RUNTIME_DIRECTORY to another directory",
                path.display(),
                holder.map_or(String::new(), |pid| format!(" (pid {pid})"))
            )),
        })?;
        Ok(Self {
            dir: Arc::new(dir),
            readers,
            _lock: lock,
            _lock_of_before: None,
            left_plans: Vec::new(),
            turn: Vec::new(),
        })
    }

    fn in_foreground(place: &Dir, is_shadow: bool) -> io::Result<Self> {
        let name = std::process::id().to_string();
        // Another process that cleans up after dead ones may remove this directory before it is locked.
        for _ in 0..ATTEMPTS {
            let dir = match place.private_dir(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                dir => dir?,
            };
            match DirectoryLock::take(&dir) {
                Ok(lock) if dir.is_at_its_path() => {
                    let lock_of_before = dir.try_flock();
                    let (dir, readers) = (Arc::new(dir), Readers::Owner);
                    let (left_plans, turn, _lock) = (Vec::new(), Vec::new(), lock);
                    let mut directory = Self { dir, readers, _lock, _lock_of_before: lock_of_before, left_plans, turn };
                    if !is_shadow {
                        let turn = take_turn(place);
                        directory.take_over(place, &name);
                        directory.look_elsewhere(place);
                        if !directory.left_plans.is_empty() {
                            directory.turn = turn;
                        }
                    }
                    return Ok(directory);
                }
                Err(NotLocked::Because(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => pause(Span::from_millis(1)),
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is in use", place.path().join(name).display())))
    }

    /// Keeps the newest flight file of the dead processes and removes their other leftovers, except plans that still owe safe values.
    fn take_over(&mut self, place: &Dir, own: &str) {
        let names: Vec<_> = place.names().filter(|name| is_number(name) && name != own).collect();
        await_ends(&names);
        // If a killed process cannot end, what it owes passes to this process as well. Its directory stays.
        let plans =
            names.iter().filter(|name| killed(name).is_some()).map(|name| place.path().join(name).join(SAFE_PLAN));
        self.left_plans.extend(plans);
        let dead = |name: String| Some((dead(place, &name)?, name));
        let dead: Vec<_> = names.into_iter().filter_map(dead).collect();
        let changed = |dir: &Dir| dir.open_file(FLIGHT, libc::O_PATH).and_then(|file| file.metadata()?.modified()).ok();
        let latest = dead.iter().filter_map(|((dir, ..), _)| Some((changed(dir)?, dir))).max_by_key(|(at, _)| *at);
        if let Some((_, dir)) = latest {
            let _ = dir.rename(FLIGHT, &self.dir, FLIGHT_BEFORE);
        }
        for ((dir, ..), name) in &dead {
            let plan = dir.path().join(SAFE_PLAN);
            if is_settled(&plan) {
                let _ = place.remove_dir(name);
            } else {
                self.left_plans.push(plan);
            }
        }
    }

    /// Collects the plans that this user's processes left in other places. Everything else there is left to the next process in that place.
    fn look_elsewhere(&mut self, own: &Dir) {
        for place in own_places().into_iter().filter(|place| place != own.path()) {
            let Some(place) = open_own(&place) else { continue };
            self.left_plans.extend(left_in(&place));
        }
    }

    /// The plans found so far, and a function that searches again: other processes of this user may die while this one runs.
    pub(in crate::cli) fn left(&self) -> LeftPlans {
        let find =
            || own_places().iter().filter_map(|place| open_own(place)).flat_map(|place| left_in(&place)).collect();
        let is_in_foreground = given().is_none();
        LeftPlans { first: self.left_plans.clone(), find: is_in_foreground.then(|| Arc::new(find) as Arc<FindPlans>) }
    }

    pub(in crate::cli) fn socket(&self) -> PathBuf {
        self.dir.path().join(SOCKET)
    }

    pub(in crate::cli) fn safe_plan(&self) -> PathBuf {
        self.dir.path().join(SAFE_PLAN)
    }

    /// The directory that holds the flight file.
    pub(in crate::cli) fn flight(&self) -> Arc<Dir> {
        self.dir.clone()
    }

    /// Who may read what this process publishes.
    pub(in crate::cli) const fn readers(&self) -> Readers {
        self.readers
    }
}

/// The plans in this place whose processes are dead or about to be, and that still owe something.
fn left_in(place: &Dir) -> Vec<PathBuf> {
    let names: Vec<_> = place.names().filter(|name| is_number(name)).collect();
    await_ends(&names);
    let is_left = |name: &String| killed(name).is_some() || dead(place, name).is_some();
    let plans = names.iter().filter(|name| is_left(name)).map(|name| place.path().join(name).join(SAFE_PLAN));
    plans.filter(|plan| !is_settled(plan)).collect()
}

/// Whether a dead process's plan owes nothing. Asks only the plan: a target's file system may hang, and whoever deals with the plan finds
/// out which targets no longer exist. A plan that cannot be read may owe anything, and so may a plan that a start has kept beside it.
fn is_settled(plan: &Path) -> bool {
    let mut beside = plan.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
    if beside.any(|entry| is_kept_plan(&entry.file_name().to_string_lossy())) {
        return false;
    }
    match SafePlan::take(plan) {
        Ok((plan, _locked)) => plan.outputs.iter().all(|output| output.written || output.writes.is_empty()),
        Err(why) => matches!(why, NoPlan::Missing),
    }
}

/// Removes a plan that was carried out, if it belongs to a foreground process: the next process there need not report it again. The
/// service's plan stays until the next start. Returns whether it was removed.
pub(in crate::cli) fn remove_carried_out(plan: &Path) -> bool {
    let folder = plan.parent().and_then(Path::file_name).unwrap_or_default();
    // The folder may belong to another user, who may have replaced it with a link.
    folder.to_string_lossy().parse::<u32>().is_ok() && Entry::find(plan).and_then(|plan| plan.remove()).is_ok()
}

/// The directory systemd created for this process. If there are several, separated by colons: the first.
fn given() -> Option<PathBuf> {
    let given = std::env::var_os("RUNTIME_DIRECTORY").filter(|folder| !folder.is_empty());
    given.map(|folders| PathBuf::from(folders.to_string_lossy().split(':').next().unwrap_or_default()))
}

/// The status sockets in foreground directories. Does not check whether anyone listens there.
pub(in crate::cli) fn foreground_sockets() -> Vec<PathBuf> {
    let sockets = |place: &PathBuf| others(place).map(|folder| folder.join(SOCKET)).collect::<Vec<_>>();
    places().iter().flat_map(sockets).filter(|socket| socket.exists()).collect()
}

/// All flight files that can be found without a daemon, newest first.
pub(in crate::cli) fn flight_files() -> Vec<PathBuf> {
    let of = |folder: PathBuf| [folder.join(FLIGHT), folder.join(FLIGHT_BEFORE)];
    let folders = places().into_iter().flat_map(|place| others(&place).chain([place.clone()]).collect::<Vec<_>>());
    let mut files: Vec<_> = folders.flat_map(of).filter_map(|file| Some((changed(&file)?, file))).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    files.into_iter().map(|(_, file)| file).collect()
}

/// All safe-value plans that can be found without a daemon: those of the service (or of the unit systemd started) and of foreground
/// processes. Plans of other users' logins are not included.
pub(in crate::cli) fn safe_plans() -> Vec<PathBuf> {
    // A plan that cannot be accessed may exist. If no one named the folder explicitly, it belongs to another user.
    let is_another_users = effective_user() != 0 && given().is_none();
    let may_be_there = |plan: &PathBuf| match plan.symlink_metadata().map_err(|error| error.kind()) {
        Ok(_) => true,
        Err(io::ErrorKind::NotFound) => false,
        Err(io::ErrorKind::PermissionDenied) => !is_another_users,
        Err(_) => true,
    };
    plan_folders().into_iter().map(|folder| folder.join(SAFE_PLAN)).filter(may_be_there).collect()
}

/// The plans in a place of another user's login: the plans of safe values, and the plans that a start could not read. hertzd did not write
/// anything there that even root cannot access.
pub(in crate::cli) fn plans_in(place: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let folders: Vec<_> = others(place).collect();
    let plans = folders.iter().map(|folder| folder.join(SAFE_PLAN)).filter(|plan| plan.symlink_metadata().is_ok());
    (plans.collect(), kept_in(folders))
}

/// The places of other users' logins; only for root. A user may have mounted a file system there that does not answer.
pub(in crate::cli) fn logins() -> Vec<PathBuf> {
    if given().is_none() { places_of_others() } else { Vec::new() }
}

/// Plans that a start could not read and has kept beside its own; not those of other users' logins.
pub(in crate::cli) fn kept_plans() -> Vec<PathBuf> {
    kept_in(plan_folders())
}

fn kept_in(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let user = effective_user();
    let is_ours = |path: &PathBuf| path.symlink_metadata().is_ok_and(|facts| user == 0 || facts.uid() == user);
    let entries = folders.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    entries
        .filter(|entry| is_kept_plan(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .filter(is_ours)
        .collect()
}

/// Whether this is the name a start gives to a plan it could not read.
fn is_kept_plan(name: &str) -> bool {
    let number = name.strip_prefix(SAFE_PLAN).and_then(|rest| rest.strip_prefix(".prev"));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The folders that may hold plans. The service's comes before folders its user may have put beside it.
fn plan_folders() -> Vec<PathBuf> {
    let of = |place: PathBuf| [place.clone()].into_iter().chain(others(&place)).collect::<Vec<_>>();
    given().map_or_else(|| places().into_iter().flat_map(of).collect(), |folder| vec![folder])
}

/// Waits a limited time for killed processes to end: their directories are locked until then.
fn await_ends(names: &[String]) {
    let clock = KernelClock::monotonic();
    let began = clock.now();
    while names.iter().any(|name| killed(name).is_some()) && clock.now() - began < ENDS_WITHIN {
        pause(Span::from_millis(10));
    }
}

/// The process with this number, if it was killed and has not ended yet.
fn killed(name: &str) -> Option<Holder> {
    let holder = Holder::of(name.parse().ok()?)?;
    (holder.is_ours() && holder.is_killed() && !holder.has_ended()).then_some(holder)
}

/// The directory with its locks, if its process is dead.
fn dead(place: &Dir, name: &str) -> Option<(Dir, File, DirectoryLock)> {
    let dir = place.open_dir(name).ok()?;
    // A directory from an earlier version has only this lock.
    let lock_of_before = dir.try_flock()?;
    let lock = DirectoryLock::of_the_dead(&dir).ok()?;
    Some((dir, lock_of_before, lock))
}

/// When a regular file was last modified.
fn changed(file: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(file).ok().filter(fs::Metadata::is_file)?.modified().ok()
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
        let own = RuntimeDirectory::in_foreground(&Dir::open(place.path()).unwrap(), false).unwrap();
        assert_eq!(fs::read_to_string(own.dir.path().join(FLIGHT_BEFORE)).unwrap(), "latest");
        let mut there: Vec<_> = others(place.path()).collect();
        there.sort();
        assert_eq!(there.len(), 2, "{there:?}");
        assert!(
            there.iter().any(|folder| folder == own.dir.path()) && there.contains(&place.path().join("4000000003")),
            "{there:?}"
        );
        let own_name = std::process::id().to_string();
        assert!(dead(&Dir::open(place.path()).unwrap(), &own_name).is_none());
        assert!(place.path().join(FLIGHT).exists());
        drop(own);
        let again = RuntimeDirectory::in_foreground(&Dir::open(place.path()).unwrap(), false).unwrap();
        assert_eq!(
            fs::read_to_string(again.dir.path().join(FLIGHT_BEFORE)).unwrap(),
            "latest",
            "its own directory, again"
        );
    }
}
