//! Where foreground processes have their runtime directories. A login session sets `XDG_RUNTIME_DIR` to `/run/user/UID`. Directories there
//! are found without the variable too, because `cron`, `sudo` and units do not set it.

use crate::program;
use crate::sys::dir::{Dir, effective_user};
use crate::sys::trust;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where each user's login sessions have a folder, named by user id.
const LOGINS: &str = "/run/user";

/// Where foreground processes of this user put their directories: a folder, and the name of the place in it.
pub(in crate::cli) fn own_place() -> Option<(PathBuf, String)> {
    let is_root = effective_user() == 0;
    // Root may have inherited another user's environment; that user's directory is not for root's files.
    let is_ours = |folder: &PathBuf| !is_root || is_lasting(folder);
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    match given.filter(is_ours) {
        Some(folder) => Some((folder, program::name().to_owned())),
        None => is_root.then(|| ("/run".into(), format!("{}-root", program::name()))),
    }
}

fn is_lasting(folder: &Path) -> bool {
    trust::lasting(folder).and_then(|path| Dir::open(&path)?.must_be_own()).is_ok()
}

/// Every place where foreground processes of this user may have run, with this process's own place first: others may have had a different
/// environment.
pub(in crate::cli) fn own_places() -> Vec<PathBuf> {
    let own = own_place().map(|(folder, name)| folder.join(name));
    let of_logins = Path::new(LOGINS).join(effective_user().to_string());
    let of_logins = is_lasting(&of_logins).then(|| of_logins.join(program::name()));
    let of_root = (effective_user() == 0).then(program::root_directory);
    let mut places = Vec::new();
    for place in own.into_iter().chain(of_logins).chain(of_root) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Opens a place that exists and belongs to this user alone.
pub(in crate::cli) fn open_own(place: &Path) -> Option<Dir> {
    let place = trust::lasting(place).and_then(|path| Dir::open(&path)).ok()?;
    place.must_be_own().is_ok().then_some(place)
}

/// Every place to search for foreground directories: this user's, root's, and the service's, where earlier versions put root's.
pub(in crate::cli) fn places() -> Vec<PathBuf> {
    let mut places = own_places();
    for place in [program::root_directory(), program::runtime_directory()] {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// For root: where other users may have foreground directories through their logins. Each place is under its user's control, so this does
/// not access any of them.
pub(in crate::cli) fn places_of_others() -> Vec<PathBuf> {
    if effective_user() != 0 {
        return Vec::new();
    }
    let is_another_users = |folder: &PathBuf| user_of_login(folder).is_some_and(|uid| uid != 0);
    let folders = fs::read_dir(LOGINS).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(is_another_users).map(|folder| folder.join(program::name())).collect()
}

/// Whether such a place exists and belongs to the user of that login. Does not follow links: if the link's target is a place, it is found
/// there.
pub(in crate::cli) fn is_place_of_its_user(place: &Path) -> bool {
    let (Some(login), Some(uid)) = (place.parent(), user_of_login(place)) else { return false };
    let is_theirs = |facts: fs::Metadata| facts.is_dir() && facts.uid() == uid;
    [login, place].iter().all(|folder| folder.symlink_metadata().is_ok_and(is_theirs))
}

/// Whether a plan at this path may belong to this owner. Below a user's login, only that user's plans count: a link put there since the
/// check could lead elsewhere.
pub(in crate::cli) fn may_be_of(owner: u32, path: &Path) -> bool {
    user_of_login(path).is_none_or(|login| login == owner)
}

/// The user of the login that a path lies below.
pub(in crate::cli) fn user_of_login(path: &Path) -> Option<u32> {
    path.strip_prefix(LOGINS).ok()?.iter().next()?.to_str()?.parse().ok()
}

/// The directories of foreground processes: those named by a number. Links are excluded, because the service's user could create them.
pub(in crate::cli) fn others(place: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter(|folder| folder.file_name().to_str().is_some_and(is_number)).map(|folder| folder.path())
}

pub(in crate::cli) fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_login_there_are_only_plans_of_its_user() {
        let at = |path: &str, owner| may_be_of(owner, Path::new(path));
        assert!(at("/run/user/7/hertzd/12/safe-plan.json", 7) && !at("/run/user/7/hertzd/12/safe-plan.json", 0));
        assert!(at("/run/hertzd-root/12/safe-plan.json", 0) && at("/run/hertzd/safe-plan.json", 7));
    }
}
