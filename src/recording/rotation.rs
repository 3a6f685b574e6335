//! The names of a recording's finished files: `x.mcap` becomes `x.20261121T192629Z.mcap`, after the time of its first message. No file is
//! ever overwritten, and only files with exactly such a name are ever deleted.

use super::claim::Claim;
use super::own;
use crate::config::RecordFormat;
use crate::sys::dir::effective_user;
use crate::sys::entry::Entry;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Length of a time in a name: digits, `T` and `Z`.
const TIME: usize = 16;

/// The maximum number of files per second.
const IN_A_SECOND: u32 = 10_000;

/// Gives the file at `place` the name for `utc` (in nanoseconds since 1970), and puts the next file in its place, empty and locked. Returns
/// that name.
///
/// # Errors
/// The system's reason; the file then still has its old name.
pub(super) fn put_aside(place: &Entry, utc: i128) -> io::Result<(OsString, Claim)> {
    // Use a number above all existing ones: a deleted number must not be reused, or the file would pass for the oldest.
    let time = time(utc);
    let there = finished_ones(place).unwrap_or_default();
    let highest = there.iter().filter(|((of, _), _)| *of == time.as_bytes()).map(|((_, number), _)| *number).max();
    for number in (1..=IN_A_SECOND).skip(highest.unwrap_or(0) as usize) {
        let name = finished(Path::new(place.name()), &time, number);
        // The next file is created under that name, then the two exchange names, so nothing is replaced.
        match Claim::make(&place.beside(&name)) {
            Ok(next) => return Ok((name, next.follows(place)?)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for this second is taken"))
}

/// Deletes the oldest finished files of the recording at `place`, all but `keep`. `ours` lists the files this process has finished, in that
/// order. They count as newer than all others, whatever their names say, because UTC may have been set back. Other files are ordered by
/// name. Returns how many files with such a name are left alone, because it is not certain that this user's hertzd wrote them.
///
/// # Errors
/// The system's reason for the first failure; the remaining files are still deleted.
pub(super) fn prune(place: &Entry, format: RecordFormat, keep: usize, ours: &[OsString]) -> io::Result<usize> {
    let order: HashMap<_, _> = ours.iter().zip(0_usize..).collect();
    let all = finished_ones(place)?.into_iter().map(|(_, name)| name);
    let (mut own, others): (Vec<_>, Vec<_>) = all.partition(|name| is_own(&place.beside(name), format));
    // `None` sorts first; the sort is stable.
    own.sort_by_key(|name| order.get(name).copied());
    let surplus = own.len().saturating_sub(keep);
    let removed = own.iter().take(surplus).map(|name| place.beside(name).remove());
    removed.fold(Ok(()), io::Result::and).map(|()| others.len())
}

/// Whether this user wrote the file, it has no other name, and it begins like a recording.
fn is_own(file: &Entry, format: RecordFormat) -> bool {
    if !file.metadata().is_ok_and(|it| it.is_file() && it.uid() == effective_user() && it.nlink() == 1) {
        return false;
    }
    file.open(libc::O_RDONLY).and_then(|file| own::is_own(&file, format)).unwrap_or(false)
}

/// The sort key of finished files: time and number.
type Age = (Vec<u8>, u32);

/// Entries named like finished files of the recording at `place`, oldest first.
fn finished_ones(place: &Entry) -> io::Result<Vec<(Age, OsString)>> {
    let path = Path::new(place.name());
    let mut found: Vec<_> = place.folder().list()?.filter_map(|name| Some((age(path, &name)?, name))).collect();
    found.sort();
    Ok(found)
}

/// Formats a time as in a file name.
fn time(utc: i128) -> String {
    let since_1970 = u64::try_from(utc).map_or(Duration::ZERO, Duration::from_nanos);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string().replace(['-', ':'], "")
}

fn finished(path: &Path, time: &str, number: u32) -> OsString {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!(".{time}"));
    if number > 1 {
        name.push(format!("-{number}"));
    }
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    name
}

/// Parses a name; `None` if it does not belong to a finished file of this recording.
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
    use crate::recording::tests::testing::in_folder;
    use std::fs;

    /// The beginning of an MCAP file.
    const HEAD: &[u8] = b"\x89MCAP0\r\n\x01........\0\0\0\0....hertzd ";

    const UTC: i128 = 1_795_289_189_000_000_000;

    fn place(path: &Path) -> Entry {
        Entry::find(path).unwrap()
    }

    #[test]
    fn names_have_the_time_and_are_never_taken_twice() {
        let (folder, path) = in_folder("x.mcap");
        let mut names = Vec::new();
        for content in ["a", "b", "c"] {
            fs::write(&path, content).unwrap();
            let (name, next) = put_aside(&place(&path), UTC).unwrap();
            assert!(next.is_there(), "nobody else gets the path");
            assert_eq!(fs::read_to_string(folder.path().join(&name)).unwrap(), content);
            names.push(name.to_str().unwrap().to_owned());
        }
        let wanted = ["x.20261121T192629Z.mcap", "x.20261121T192629Z-2.mcap", "x.20261121T192629Z-3.mcap"];
        assert_eq!(names, wanted);
        assert!(put_aside(&place(&path), UTC).is_err(), "there is nothing to put aside");
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
        let at = place(&folder.path().join("x.mcap"));
        assert_eq!(prune(&at, RecordFormat::Mcap, 2, &[own[3].into()]).unwrap(), 1, "the folder");
        let there = |name: &&&str| folder.path().join(name).exists();
        assert_eq!(strangers.iter().filter(there).count(), strangers.len());
        assert_eq!(own.iter().filter(there).collect::<Vec<_>>(), [&own[0], &own[3]]);
        assert!(folder.path().join("x.20201121T192629Z.mcap").is_dir());
    }

    /// In a folder that other users may write to, a name alone does not prove who wrote a file.
    #[test]
    fn what_another_user_or_program_has_named_like_a_finished_file_is_left_alone() {
        let (folder, path) = in_folder("x.csv");
        let at = |nth: u32| folder.path().join(format!("x.2026112{nth}T192629Z.csv"));
        let recording = "tick,release_utc,lateness_ns,v\n";
        for nth in 0..7 {
            fs::write(at(nth), recording).unwrap();
        }
        fs::write(at(1), "years of work").unwrap();
        fs::write(at(2), "\0\0\0\0\0\0\0\0").unwrap();
        fs::hard_link(at(3), folder.path().join("a second name")).unwrap();
        fs::remove_file(at(4)).unwrap();
        std::os::unix::fs::symlink("a second name", at(4)).unwrap();
        let is_root = effective_user() == 0;
        if is_root {
            std::os::unix::fs::chown(at(5), Some(65_534), None).unwrap();
        }
        let left = prune(&place(&path), RecordFormat::Csv, 1, &[]).unwrap();
        let there: Vec<_> = (0..7).filter(|nth| at(*nth).symlink_metadata().is_ok()).collect();
        if is_root {
            assert_eq!((there, left), (vec![1, 3, 4, 5, 6], 4));
        } else {
            assert_eq!((there, left), (vec![1, 3, 4, 6], 3));
        }
    }

    #[test]
    fn the_newest_files_stay_even_if_their_names_are_older() {
        let (folder, path) = in_folder("x.mcap");
        let mut ours = Vec::new();
        let mut aside = |content: &str, utc| {
            fs::write(&path, [HEAD, content.as_bytes()].concat()).unwrap();
            ours.push(put_aside(&place(&path), utc).unwrap().0);
            prune(&place(&path), RecordFormat::Mcap, 3, &ours).unwrap();
            let left = fs::read_dir(folder.path()).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
            let mut left = left.map(|content| content[HEAD.len()..].to_vec()).collect::<Vec<_>>();
            left.sort();
            String::from_utf8(left.concat()).unwrap()
        };
        // All within one second; then UTC is set back and forth.
        ["a", "b", "c"].iter().for_each(|content| drop(aside(content, UTC)));
        let back = UTC - 7_200_000_000_000;
        assert_eq!(["d", "e", "f"].map(|content| aside(content, back)), ["bcd", "cde", "def"]);
        assert_eq!(["g", "h"].map(|content| aside(content, UTC)), ["efg", "fgh"]);
    }
}
