//! The names of finished files of a recording: `x.mcap` becomes `x.20261121T192629Z.mcap`, after the time of its first
//! message. Nothing is ever overwritten, and only files with exactly such a name are ever deleted.

use super::claim::folder_of;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Digits, `T` and `Z` of a time.
const TIME: usize = 16;

/// Files of one second at most.
const IN_A_SECOND: u32 = 10_000;

/// Gives the file at `path` the name for `utc`, in nanoseconds since 1970. Returns that name.
///
/// # Errors
/// The system's reason; the file then still has its old name.
pub(super) fn put_aside(path: &Path, utc: i128) -> io::Result<PathBuf> {
    // Above all that exist: a number that was deleted must not be used again, since it would pass for the oldest.
    let time = time(utc);
    let there = finished_ones(path).unwrap_or_default();
    let highest = there.iter().filter(|((of, _), _)| *of == time.as_bytes()).map(|((_, number), _)| *number).max();
    for number in (1..=IN_A_SECOND).skip(highest.unwrap_or(0) as usize) {
        let name = finished(path, &time, number);
        // Made first, so that a rename can only replace what was made here.
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(_) => return fs::rename(path, &name).inspect_err(|_| drop(fs::remove_file(&name))).map(|()| name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for this second is taken"))
}

/// Deletes the oldest finished files of the recording at `path`, all but `keep`. `ours` are those that this process has finished, in
/// that order: they are newer than all others, whatever their names say, since UTC may have been set back. Others are in the order of
/// their names.
///
/// # Errors
/// The system's reason, the first one; the others are deleted all the same.
pub(super) fn prune(path: &Path, keep: usize, ours: &[PathBuf]) -> io::Result<()> {
    let order: HashMap<_, _> = ours.iter().zip(0_usize..).map(|(path, nth)| (path.file_name(), nth)).collect();
    let mut found = finished_ones(path)?;
    // `None` comes first; the sort keeps the order of equal ones.
    found.sort_by_key(|(_, path)| order.get(&path.file_name()).copied());
    let surplus = found.len().saturating_sub(keep);
    found.iter().take(surplus).map(|(_, path)| fs::remove_file(path)).fold(Ok(()), io::Result::and)
}

/// What finished files are sorted by: time and number.
type Age = (Vec<u8>, u32);

/// The finished files of the recording at `path`, the oldest first.
fn finished_ones(path: &Path) -> io::Result<Vec<(Age, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder_of(path))? {
        let entry = entry?;
        if let Some(age) = age(path, &entry.file_name()).filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file()))
        {
            found.push((age, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// A time as it is in a name.
fn time(utc: i128) -> String {
    let since_1970 = u64::try_from(utc).map_or(Duration::ZERO, Duration::from_nanos);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string().replace(['-', ':'], "")
}

fn finished(path: &Path, time: &str, number: u32) -> PathBuf {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!(".{time}"));
    if number > 1 {
        name.push(format!("-{number}"));
    }
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// `None`: it is not a finished file of this recording.
fn age(path: &Path, name: &OsStr) -> Option<Age> {
    let rest = name.as_bytes().strip_prefix(path.file_stem()?.as_bytes())?.strip_prefix(b".")?;
    let rest = match path.extension() {
        Some(ending) => rest.strip_suffix(ending.as_bytes())?.strip_suffix(b".")?,
        None => rest,
    };
    let (time, number) = rest.split_at_checked(TIME)?;
    let fits = time.iter().enumerate().all(|(index, byte)| match index {
        8 => *byte == b'T',
        15 => *byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    let number = match number {
        [] => Some(1),
        [b'-', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    };
    fits.then_some((time.to_vec(), number?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::testing::in_folder;

    const UTC: i128 = 1_795_289_189_000_000_000;

    #[test]
    fn names_have_the_time_and_are_never_taken_twice() {
        let (folder, path) = in_folder("x.mcap");
        let mut names = Vec::new();
        for content in ["a", "b", "c"] {
            fs::write(&path, content).unwrap();
            let name = put_aside(&path, UTC).unwrap();
            assert_eq!(fs::read_to_string(&name).unwrap(), content);
            names.push(name.file_name().unwrap().to_str().unwrap().to_owned());
        }
        let wanted = ["x.20261121T192629Z.mcap", "x.20261121T192629Z-2.mcap", "x.20261121T192629Z-3.mcap"];
        assert_eq!(names, wanted);
        assert!(put_aside(&path, UTC).is_err(), "there is nothing to put aside");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "and nothing is left of the attempt");
    }

    #[test]
    fn only_files_of_the_recording_are_deleted_and_the_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let strangers = [
            "x.mcap",
            "x.20261121T192629Z.wav",
            "x.20261121T192629.mcap",
            "x.20261121T192629Z-.mcap",
            "x.20261121T192629Z-a.mcap",
            "x.20261121T192629Z.old.mcap",
            "y.20261121T192629Z.mcap",
            "xx.20261121T192629Z.mcap",
            "x.2026112XT192629Z.mcap",
        ];
        let own = [
            "x.20251121T192629Z-10.mcap",
            "x.20251121T192629Z-9.mcap",
            "x.20251121T192629Z.mcap",
            "x.20261121T192629Z.mcap",
        ];
        for name in strangers.iter().chain(&own) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("x.20201121T192629Z.mcap")).unwrap();
        prune(&folder.path().join("x.mcap"), 2, &[folder.path().join(own[3])]).unwrap();
        let there = |name: &&&str| folder.path().join(name).exists();
        assert_eq!(strangers.iter().filter(there).count(), strangers.len());
        assert_eq!(own.iter().filter(there).collect::<Vec<_>>(), [&own[0], &own[3]]);
        assert!(folder.path().join("x.20201121T192629Z.mcap").is_dir());
    }

    #[test]
    fn the_newest_files_stay_even_if_their_names_are_older() {
        let (folder, path) = in_folder("x.mcap");
        let mut ours = Vec::new();
        let mut aside = |content: &str, utc| {
            fs::write(&path, content).unwrap();
            ours.push(put_aside(&path, utc).unwrap());
            prune(&path, 3, &ours).unwrap();
            let left =
                fs::read_dir(folder.path()).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
            let mut left = left.collect::<Vec<_>>();
            left.sort();
            left.concat()
        };
        // All in one second, and then UTC is set back, and forth.
        ["a", "b", "c"].iter().for_each(|content| drop(aside(content, UTC)));
        let back = UTC - 7_200_000_000_000;
        assert_eq!(["d", "e", "f"].map(|content| aside(content, back)), ["bcd", "cde", "def"]);
        assert_eq!(["g", "h"].map(|content| aside(content, UTC)), ["efg", "fgh"]);
    }
}
