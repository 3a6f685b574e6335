//! Who may open a file: this process, or the service's user. Reads small files and asks the kernel, but does not open the files in
//! question: opening may affect a device. Reads no clock.

use super::from_minus_one;
use super::host::may_open;
use crate::program;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

/// The user that the service runs as.
pub(crate) fn service_user() -> &'static str {
    program::name()
}

/// The folders of units, the one with the highest precedence first.
const UNITS: [&str; 3] = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// Whether an existing file may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// This process may open it.
    Granted,
    /// This process cannot open it, but the service can.
    ServiceOnly,
    Denied,
}

/// Whether `path` may be opened for reading, or for reading and writing. A path that does not exist counts as granted: opening it shows the
/// reason.
pub(crate) fn access(path: &Path, write: bool) -> Access {
    let hidden = || fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    match may_open(path, write) {
        true => Access::Granted,
        false if !hidden() && !path.exists() => Access::Granted,
        false if Identity::of_service(Path::new("/")).is_some_and(|service| service.may_open(path, write)) => {
            Access::ServiceOnly
        }
        false => Access::Denied,
    }
}

/// Whether the service's user exists.
pub(crate) fn has_service() -> bool {
    Identity::of_service(Path::new("/")).is_some()
}

/// Whether the kernel keeps the calling thread from opening an existing file.
pub(crate) fn is_denied(path: &Path, write: bool) -> bool {
    let hidden = || fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    !may_open(path, write) && (path.exists() || hidden())
}

/// Whether the calling thread cannot look up names in an existing folder.
pub(crate) fn may_not_enter(folder: &Path) -> bool {
    let inside = fs::metadata(folder.join("."));
    folder.is_dir() && inside.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// A user's name; `None`: it has none here.
pub(crate) fn name_of(uid: u32) -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// A group's number; `None`: no group has this name here.
pub(crate) fn group_number(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok())
}

/// A group's name; `None`: it has none here.
pub(crate) fn group_name(gid: u32) -> Option<String> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    let named = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    };
    groups.lines().find_map(named)
}

/// Runs `work` with the rights of the service's user, on a thread of its own: the kernel keeps rights per thread, so the others keep
/// theirs.
///
/// # Errors
/// The user does not exist; the kernel refuses, as it does for all but root; `work` panicked.
pub(crate) fn as_service<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let service = Identity::of_service(Path::new("/")).ok_or(io::ErrorKind::NotFound)?;
    let body = || service.assume().map(|()| work());
    let ended = std::thread::scope(|scope| scope.spawn(body).join());
    ended.unwrap_or_else(|_| Err(io::Error::other("the look panicked")))
}

/// The name of this process's group, or its number if it has no name.
pub(crate) fn own_group() -> String {
    // SAFETY: takes nothing, and cannot fail.
    let own = unsafe { libc::getegid() };
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(own)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| own.to_string())
}

/// Whether the calling thread is root.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A user and all its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gids: Vec<u32>,
}

impl Identity {
    /// The service's user on the machine whose files are under `root`; `None`: it does not exist.
    pub(super) fn of_service(root: &Path) -> Option<Self> {
        let passwd = fs::read_to_string(root.join("etc/passwd")).ok()?;
        let line = passwd.lines().find_map(|line| line.strip_prefix(service_user())?.strip_prefix(':'))?;
        let mut numbers = line.split(':').skip(1).map(str::parse);
        let (Some(Ok(uid)), Some(Ok(gid))) = (numbers.next(), numbers.next()) else { return None };
        let groups = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
        let supplementary = supplementary_groups(root);
        let of_service = groups.lines().filter_map(|line| {
            let [name, _, gid, members] = line.split(':').collect::<Vec<_>>()[..] else { return None };
            let is_member = members.split(',').any(|member| member == service_user());
            (is_member || supplementary.iter().any(|group| group == name || group == gid)).then(|| gid.parse().ok())?
        });
        Some(Self { uid, gids: std::iter::once(gid).chain(of_service).collect() })
    }

    /// Gives these rights to the calling thread alone, for good. libc's own functions would change all threads.
    pub(super) fn assume(&self) -> io::Result<()> {
        // On these architectures the plain calls take 16-bit numbers.
        #[cfg(any(target_arch = "x86", target_arch = "arm"))]
        const CALLS: [libc::c_long; 3] = [libc::SYS_setgroups32, libc::SYS_setresgid32, libc::SYS_setresuid32];
        #[cfg(not(any(target_arch = "x86", target_arch = "arm")))]
        const CALLS: [libc::c_long; 3] = [libc::SYS_setgroups, libc::SYS_setresgid, libc::SYS_setresuid];
        let [groups, gid, uid] = CALLS;
        let own = self.gids.first().copied().unwrap_or(u32::MAX);
        // SAFETY: the list outlives the call, and its length is passed with it.
        from_minus_one(unsafe { libc::syscall(groups, self.gids.len(), self.gids.as_ptr()) })?;
        // SAFETY: three numbers, no pointer.
        from_minus_one(unsafe { libc::syscall(gid, own, own, own) })?;
        // SAFETY: three numbers, no pointer.
        from_minus_one(unsafe { libc::syscall(uid, self.uid, self.uid, self.uid) }).map(drop)
    }

    /// Decided by the modes of the file and of all folders on the way, as far as this process can see them.
    fn may_open(&self, path: &Path, write: bool) -> bool {
        let path = absolute(path).unwrap_or_else(|_| path.into());
        let folders = path.ancestors().skip(1).filter_map(|folder| fs::metadata(folder).ok());
        let leads_there = folders.into_iter().all(|folder| self.has(&folder, 0o1));
        leads_there && fs::metadata(path).map_or(true, |file| self.has(&file, if write { 0o6 } else { 0o4 }))
    }

    fn has(&self, file: &Metadata, wanted: u32) -> bool {
        let granted = match file {
            _ if self.uid == 0 => return true,
            file if file.uid() == self.uid => file.mode() >> 6,
            file if self.gids.contains(&file.gid()) => file.mode() >> 3,
            _ => file.mode(),
        };
        granted & wanted == wanted
    }
}

/// The groups that the unit and its drop-ins give to the service.
fn supplementary_groups(root: &Path) -> Vec<String> {
    let mut groups = Vec::new();
    for value in unit_values(root, "SupplementaryGroups=") {
        match &*value {
            "" => groups.clear(),
            names => groups.extend(names.split_whitespace().map(str::to_owned)),
        }
    }
    groups
}

/// The service's working directory.
pub(super) fn working_directory(root: &Path) -> Option<PathBuf> {
    let last = unit_values(root, "WorkingDirectory=").pop()?;
    let folder = PathBuf::from(last.trim_start_matches('-'));
    folder.is_absolute().then_some(folder)
}

/// The values of a key in the unit and its drop-ins, in their order.
fn unit_values(root: &Path, key: &str) -> Vec<String> {
    let units = || UNITS.iter().map(|folder| root.join(folder));
    let unit = units().map(|folder| folder.join(program::unit())).find(|unit| unit.exists());
    let drop_ins = units().flat_map(|folder| conf_files(&folder.join(program::unit() + ".d")));
    let texts = unit.into_iter().chain(drop_ins).filter_map(|file| fs::read_to_string(file).ok());
    let values = |text: String| {
        let values = text.lines().filter_map(|line| line.trim().strip_prefix(key));
        values.map(|value| value.trim().to_owned()).collect::<Vec<_>>()
    };
    texts.flat_map(values).collect()
}

fn conf_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "conf")).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host::tests::tree;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_service_has_the_groups_of_its_user_and_of_its_unit() {
        assert_eq!(Identity::of_service(Path::new("/nonexistent")), None);
        let root = tree(&[
            ("etc/passwd", "root:x:0:0::/root:/bin/sh\nhertzd2:x:7:7::/:/x\nhertzd:x:990:991:a:/var/lib/hertzd:/x\n"),
            ("etc/group", "root:x:0:\nhertzd:x:991:\ngpio:x:50:\ni2c:x:51:pi,hertzd\nvideo:x:52:\nadm:x:4:pi\n"),
            (
                "usr/lib/systemd/system/hertzd.service",
                "[Service]\nSupplementaryGroups=audio gpio\nWorkingDirectory=/var/lib/hertzd\n",
            ),
            ("etc/systemd/system/hertzd.service.d/a.conf", "[Service]\nSupplementaryGroups=video\n"),
            ("etc/systemd/system/hertzd.service.d/b.txt", "[Service]\nSupplementaryGroups=adm\n"),
        ]);
        let service = Identity::of_service(root.path()).unwrap();
        assert_eq!(service, Identity { uid: 990, gids: vec![991, 50, 51, 52] });
        assert_eq!(working_directory(root.path()).as_deref(), Some(Path::new("/var/lib/hertzd")));
    }

    #[test]
    fn modes_decide_for_the_service() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "1").unwrap();
        let own = fs::metadata(&file).unwrap();
        let with_mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let (owner, member, stranger) = (
            Identity { uid: own.uid().max(1), gids: vec![] },
            Identity { uid: 64_999, gids: vec![own.gid()] },
            Identity { uid: 64_999, gids: vec![64_999] },
        );
        for (mode, write, wanted) in [
            (0o600, true, [true, false, false]),
            (0o640, false, [true, true, false]),
            (0o640, true, [true, false, false]),
            (0o060, true, [false, true, false]),
            (0o604, false, [true, false, true]),
        ] {
            with_mode(mode);
            let may = |user: &Identity| user.may_open(&file, write);
            // Where root runs the tests, root owns the file; an owner with another number serves as well.
            let own_may = if own.uid() == 0 { wanted[0] } else { may(&owner) };
            assert_eq!([own_may, may(&member), may(&stranger)], wanted, "{mode:o}");
        }
        with_mode(0o666);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!stranger.may_open(&file, false), "a folder on the way is closed");
    }

    #[test]
    fn what_is_not_there_is_not_denied() {
        assert_eq!(access(Path::new("/nonexistent/file"), true), Access::Granted);
        assert_eq!(access(Path::new("/dev/null"), true), Access::Granted);
    }
}
