//! The libraries loaded in this process, for all its daemons: which file a section names, and whether that file is loaded already.
//!
//! Two sections that name one file share the library and its globals. If the file is replaced by another one at the same path, the new file
//! is loaded beside the old one, for sections built from then on. Reads files, locks, may block.

use super::library::{Library, Refused};
use crate::sys::trust;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Where a library name without a folder is looked up.
pub(crate) const FOLDER: &str = "/usr/lib/hertzd/plugins";

/// Which file it is, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    file: (u64, u64), // device and inode
    written: (i64, i64, u64),
}

/// The libraries that the process has loaded.
#[derive(Debug, Default)]
struct Loaded {
    live: Vec<(Identity, Weak<Library>, Option<File>)>,
    paths: BTreeSet<PathBuf>, // from which some library was loaded, ever
    replaced: usize,
}

/// Loads the library that a section calls `written`, in a configuration in `folder`, or shares the one already loaded.
///
/// # Errors
/// Why the file is not a usable plugin.
pub(crate) fn open(folder: &Path, written: &Path) -> Result<Arc<Library>, Refused> {
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.get_or_insert_default().open(&place(folder, written))
}

/// The path of a library that a section in a configuration in `folder` calls `written`.
fn place(folder: &Path, written: &Path) -> PathBuf {
    let has_folder = written.to_string_lossy().contains('/');
    if has_folder { folder.join(written) } else { Path::new(FOLDER).join(written) }
}

impl Loaded {
    fn open(&mut self, path: &Path) -> Result<Arc<Library>, Refused> {
        self.live.retain(|(_, library, _)| library.strong_count() > 0);
        let unreadable = |error: io::Error| {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            Refused::NotLoaded(format!("{}: {reason}", path.display()))
        };
        let path = fs::canonicalize(path).map_err(unreadable)?;
        // Checked before opening: opening a pipe waits for a writer.
        if !fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(Refused::NotLoaded(format!("{} is not a file", path.display())));
        }
        let file = File::open(&path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        trust::refuse_code_of_others(&path, &metadata).map_err(Refused::NotLoaded)?;
        let identity = Identity {
            file: (metadata.dev(), metadata.ino()),
            written: (metadata.mtime(), metadata.mtime_nsec(), metadata.len()),
        };
        if let Some((known, library, _)) = self.live.iter().find(|(known, ..)| known.file == identity.file) {
            return match library.upgrade() {
                Some(library) if *known == identity => Ok(library),
                _ => Err(Refused::NotAPlugin(
                    "the file was changed in place while tasks run from it (its time or its length is another), which they may not survive: put a \
                     new file there instead (`install`, `mv`, a linker), and restart hertzd"
                        .into(),
                )),
            };
        }
        // The linker recognises a loaded library by the path it was given, and would not look at another file there.
        let (from, kept) = if self.paths.contains(&path) {
            self.replaced += 1;
            let gap = "/".repeat(1 + self.replaced % 4_000); // so that no such path is used twice
            (PathBuf::from(format!("/proc/self/fd{gap}{}", file.as_raw_fd())), Some(file))
        } else {
            (path.clone(), None)
        };
        let library = Arc::new(Library::open(&from, &path)?);
        self.paths.insert(path);
        self.live.push((identity, Arc::downgrade(&library), kept));
        Ok(library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_folder_is_one_of_the_system() {
        let of = |written| place(Path::new("/etc/hertzd"), Path::new(written));
        assert_eq!(of("libx.so"), Path::new("/usr/lib/hertzd/plugins/libx.so"));
        assert_eq!(of("./libx.so"), Path::new("/etc/hertzd/./libx.so"), "beside the configuration");
        assert_eq!(of("/opt/libx.so"), Path::new("/opt/libx.so"));
        assert_eq!(place(Path::new(""), Path::new("./libx.so")), Path::new("./libx.so"), "of standard input");
    }

    #[test]
    fn what_is_not_there_or_is_no_library_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| match Loaded::default().open(path).unwrap_err() {
            Refused::NotLoaded(why) => why,
            Refused::NotAPlugin(why) => panic!("{why}"),
        };
        let gone = folder.path().join("gone.so");
        assert_eq!(refused(&gone), format!("{}: No such file or directory", gone.display()));
        assert!(refused(folder.path()).ends_with(" is not a file"));
        let text = folder.path().join("text.so");
        fs::write(&text, "no library").unwrap();
        assert!(refused(&text).contains("file too short"), "{}", refused(&text));
    }
}
