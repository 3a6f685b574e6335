//! What other users can change: whose code this process may run, and whether a path still leads where it did. With rights that other users
//! lack, this process runs only code that only root can change.
//!
//! Asks the kernel about files and this process. Opens nothing; no clock is read.

use super::dir::effective_user;
use super::entry::Entry;
use super::other_user::is_private_group;
#[cfg(feature = "plugin")]
use super::secure::is_secure;
#[cfg(feature = "plugin")]
use super::user::is_root;
use super::user::name_of;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The sticky bit of a folder: only the owner of a file, or of the folder, can move or replace that file.
const STICKY: u32 = 0o1000;

/// Refuses a library that anyone but root could have changed, if this process has more rights than they. `path` has no links, and `opened`
/// is the file that was found there.
///
/// After this succeeds, only root can put another file there. So a later load by this path loads the file that was checked.
///
/// # Errors
/// The file or folder, who could change it, and the remedy.
#[cfg(feature = "plugin")]
pub(crate) fn refuse_code_of_others(path: &Path, opened: &Metadata) -> Result<(), String> {
    match privilege() {
        Some(privilege) => refuse_changeable(path, opened)
            .map_err(|why| format!("{why}, or put a copy into /usr/lib/hertzd/plugins; {privilege}")),
        None => Ok(()),
    }
}

/// Why root does not load other users' code.
pub(crate) const AS_ROOT: &str = "as root, hertzd loads only code that no other user can change";

/// The path with links resolved in all but its last part. It keeps leading there: only root and this user can move or replace its folders.
///
/// # Errors
/// The folder that others could change, with the remedy; the system's reason.
pub(crate) fn lasting(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return fs::canonicalize(path) };
    let folder = fs::canonicalize(folder)?;
    for folder in folder.ancestors() {
        refuse(folder, &fs::symlink_metadata(folder)?, effective_user()).map_err(|why| {
            let text = format!("another user could replace it: {why}");
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        })?;
    }
    Ok(folder.join(name))
}

/// Whether the file at this path is root's and only root could redirect the path, by a link or by replacing the file. If so, whatever root
/// later does by this path happens to the file that is there now.
pub(crate) fn only_root_could_exchange(path: &Path) -> bool {
    let Ok(path) = Entry::find_for(0, path).map(|entry| entry.path()) else { return false };
    let Some(folder) = path.parent() else { return false };
    let is_roots = |folder: &Path| fs::symlink_metadata(folder).is_ok_and(|found| refuse(folder, &found, 0).is_ok());
    let (found, beside) = (fs::symlink_metadata(&path), fs::symlink_metadata(folder));
    folder.ancestors().all(is_roots)
        && matches!((found, beside), (Ok(found), Ok(folder)) if found.uid() == 0 && !may_be_planted(&found, &folder, 0))
}

/// Whether a file has a second name (a hard link) and someone besides root and this user could have created the name in this folder. A
/// sticky bit does not prevent that. The file may then be one that they cannot write to. If they could not have created the name, they
/// gain nothing by the link.
pub(crate) fn may_be_planted(file: &Metadata, folder: &Metadata, user: u32) -> bool {
    let is_of_others = || ![0, user].contains(&folder.uid()) || folder.mode() & 0o002 != 0;
    file.nlink() > 1 && (is_of_others() || a_group_may_write(folder, user))
}

/// Whether a group may write that is not this user's private group. Root's own group counts too: with an access control list these bits
/// show the most that it grants to anyone.
fn a_group_may_write(found: &Metadata, user: u32) -> bool {
    found.mode() & 0o020 != 0 && !(user != 0 && is_private_group(found.gid(), user))
}

/// Why only root's code is loaded; `None`: this process has no more rights than the user who started it.
#[cfg(feature = "plugin")]
fn privilege() -> Option<&'static str> {
    if is_root() {
        return Some(AS_ROOT);
    }
    is_secure().then_some("a program with capabilities of its own (`setcap`) loads only code that only root can change")
}

#[cfg(feature = "plugin")]
fn refuse_changeable(path: &Path, opened: &Metadata) -> Result<(), String> {
    refuse(path, opened, 0)?;
    for folder in path.ancestors().skip(1) {
        let found = fs::symlink_metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        refuse(folder, &found, 0)?;
    }
    // Only root could have replaced it since, so this is the file that was opened, unless it was replaced before.
    let found = fs::symlink_metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match (found.dev(), found.ino()) == (opened.dev(), opened.ino()) {
        true => Ok(()),
        false => Err(format!("{} was replaced while it was being checked: try again", path.display())),
    }
}

/// Refuses anything that belongs neither to root nor to the user `own`, or that others may write.
fn refuse(path: &Path, found: &Metadata, own: u32) -> Result<(), String> {
    let (name, mode) = (path.display(), found.mode());
    let what = if found.is_dir() { "the folder " } else { "" };
    let user = |uid| name_of(uid).map_or_else(|| format!("the user {uid}"), |name| format!("{name} (user {uid})"));
    if ![0, own].contains(&found.uid()) {
        return Err(format!(
            "{what}{name} belongs to {}, who could change it: let it belong to root (`sudo chown root:root {name}`) or run hertzd as \
             that user",
            user(found.uid())
        ));
    }
    let whom = match mode {
        _ if found.is_dir() && mode & STICKY != 0 => return Ok(()),
        _ if mode & 0o002 != 0 => "everyone".to_owned(),
        _ if !a_group_may_write(found, own) => return Ok(()),
        _ => format!("the group {}, or users by its access control list", found.gid()),
    };
    Err(format!("{what}{name} may be written by {whom} (mode {:04o}): `sudo chmod go-w {name}`", mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn what_others_could_exchange_is_not_roots_alone() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make folders of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, others) = (folder.path().join("file"), folder.path().join("others"));
        fs::write(&file, "1\n").unwrap();
        fs::create_dir(&others).unwrap();
        chown(&others, Some(64_999), Some(64_999)).unwrap();
        assert!(only_root_could_exchange(&file) && only_root_could_exchange(Path::new("/dev/null")));
        // Its folder is not root's, whether or not the link in it is.
        std::os::unix::fs::symlink(&file, others.join("link")).unwrap();
        fs::write(others.join("file"), "1\n").unwrap();
        assert!(!only_root_could_exchange(&others.join("link")) && !only_root_could_exchange(&others.join("file")));
        assert!(!only_root_could_exchange(&others) && !only_root_could_exchange(&folder.path().join("absent")));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(only_root_could_exchange(&link), "root's own leads to root's");
        chown(&file, Some(64_999), Some(64_999)).unwrap();
        assert!(!only_root_could_exchange(&file));
    }

    #[test]
    fn a_second_name_counts_where_others_could_have_given_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "1\n").unwrap();
        let own = effective_user();
        let is_planted = |mode, user| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            may_be_planted(&fs::metadata(&file).unwrap(), &fs::metadata(folder.path()).unwrap(), user)
        };
        assert!(!is_planted(0o1777, own), "it has one name");
        fs::hard_link(&file, folder.path().join("other")).unwrap();
        for (mode, planted) in [(0o755, false), (0o1755, false), (0o777, true), (0o1777, true)] {
            assert_eq!(is_planted(mode, own), planted, "{mode:o}");
        }
        if own == 0 {
            assert!(is_planted(0o775, own), "a group, or a list");
            chown(folder.path(), Some(64_999), Some(64_999)).unwrap();
            assert!(is_planted(0o700, 0) && !is_planted(0o700, 64_999));
        }
    }

    #[cfg(feature = "plugin")]
    #[test]
    fn only_what_root_alone_can_change_is_loaded_by_root() {
        use crate::sys::emulation::{OTHER_OWNERS, cannot_be_emulated};
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let (below, file) = (folder.path().join("below"), folder.path().join("below/libx.so"));
        fs::create_dir(&below).unwrap();
        fs::write(&file, "x").unwrap();
        let of = |path: &Path| refuse_changeable(path, &fs::metadata(path).unwrap());
        if fs::metadata(&file).unwrap().uid() != 0 {
            let said = of(&file).unwrap_err();
            assert!(said.contains("who could change it: let it belong to root"), "{said}");
            crate::sys::emulation::say_skipped("only root can make files of root");
            return;
        }
        if cannot_be_emulated(OTHER_OWNERS) {
            return;
        }
        let with_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for (folder_mode, file_mode, wanted) in [
            (0o755, 0o644, None),
            (
                0o755,
                0o664,
                Some("libx.so may be written by the group 0, or users by its access control list (mode 0664)"),
            ),
            (0o775, 0o644, Some("below may be written by the group 0")),
            (0o757, 0o644, Some("below may be written by everyone (mode 0757): `sudo chmod go-w ")),
            (0o1777, 0o644, None),
            (0o755, 0o646, Some("libx.so may be written by everyone (mode 0646)")),
            (0o1777, 0o666, Some("libx.so may be written by everyone")),
        ] {
            with_mode(&below, folder_mode);
            with_mode(&file, file_mode);
            let said = of(&file).err();
            let agrees =
                wanted.map_or(said.is_none(), |wanted| said.as_ref().is_some_and(|said| said.contains(wanted)));
            assert!(agrees, "{folder_mode:o} {file_mode:o}: {said:?}");
        }
        with_mode(&below, 0o755);
        with_mode(&file, 0o664);
        chown(&file, Some(0), Some(64_999)).unwrap();
        assert!(of(&file).unwrap_err().contains("may be written by the group 64999"));
        chown(&file, Some(0), Some(0)).unwrap();
        with_mode(&file, 0o644);
        with_mode(&below, 0o1755);
        chown(&below, Some(64_999), Some(0)).unwrap();
        let said = of(&file).unwrap_err();
        assert!(said.contains("the folder ") && said.contains("belongs to the user 64999"), "sticky or not: {said}");
        chown(&below, Some(0), Some(0)).unwrap();
        // The opened file is not the one that is there now.
        let other = folder.path().join("other.so");
        fs::write(&other, "y").unwrap();
        assert!(refuse_changeable(&file, &fs::metadata(&other).unwrap()).unwrap_err().contains("was replaced"));
        // Links are resolved before.
        let link = folder.path().join("link.so");
        symlink(&file, &link).unwrap();
        assert_eq!(of(&fs::canonicalize(&link).unwrap()), Ok(()));
    }
}
