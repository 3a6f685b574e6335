//! A folder that gets all of its files or none: they are written to a draft folder beside or inside it, then moved.

use super::files::NewFile;
use crate::sys::dir::effective_user;
use crate::sys::trust;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The prefix of a draft's name; the process id follows.
const DRAFT: &str = ".hertzd-new-";

/// A project's folder, which is empty or does not exist.
#[derive(Debug)]
pub(super) struct Target {
    folder: PathBuf,
    is_there: bool,
}

impl Target {
    /// The folder, or why it cannot be used.
    pub(super) fn at(folder: &Path) -> Result<Self, String> {
        let shown = folder.display();
        let is_there = match fs::read_dir(folder) {
            Ok(mut entries) => match entries.next() {
                Some(first) => {
                    // Left behind by a `hertzd new` that was killed.
                    let left = first.into_iter().chain(entries.flatten()).map(|entry| entry.path());
                    let left = left
                        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DRAFT)));
                    let left = left.last().map_or_else(String::new, |path| {
                        format!(
                            "; {} is what is left of a `hertzd new` that was killed, and can be deleted",
                            path.display()
                        )
                    });
                    return Err(format!(
                        "{shown} is not empty; nothing was written: name a new folder, or an empty one{left}"
                    ));
                }
                None => true,
            },
            Err(error) if error.kind() == ErrorKind::NotFound && folder.symlink_metadata().is_err() => false,
            Err(error) => {
                return Err(format!(
                    "{shown} cannot be the project's folder ({error}); nothing was written: name another one"
                ));
            }
        };
        let parent = parent(folder);
        if !is_there && !parent.is_dir() {
            let parent = parent.display();
            return Err(format!(
                "there is no folder {parent} for {shown}; nothing was written: make it with `mkdir -p {parent}`"
            ));
        }
        // Files are written by path, and another user could meanwhile make that path lead to a file of root's.
        let within = if is_there { folder } else { parent };
        if effective_user() == 0
            && let Err(why) = trust::lasting(&within.join(DRAFT))
        {
            return Err(format!(
                "{shown}: {why}; nothing was written: as root, name a folder that only root can change"
            ));
        }
        Ok(Self { folder: folder.to_owned(), is_there })
    }

    /// Writes the files; returns how many.
    ///
    /// # Errors
    /// What could not be written. The folder is then unchanged.
    pub(super) fn fill(&self, files: &[NewFile]) -> Result<usize, (PathBuf, io::Error)> {
        let draft = Draft::beside(if self.is_there { &self.folder } else { parent(&self.folder) })?;
        for file in files {
            let path = draft.0.join(&file.path);
            write(&path, file).map_err(|error| (self.folder.join(&file.path), error))?;
        }
        let moved = if self.is_there { self.move_in(&draft) } else { fs::rename(&draft.0, &self.folder) };
        moved.map_err(|error| (self.folder.clone(), error))?;
        Ok(files.len())
    }

    /// Moves the files into a folder that exists and must stay the same folder, because a shell may be in it.
    fn move_in(&self, draft: &Draft) -> io::Result<()> {
        let mut moved = Vec::new();
        for entry in fs::read_dir(&draft.0)? {
            let from = entry?.path();
            let to = self.folder.join(from.file_name().unwrap_or_default());
            // Do not overwrite what appeared in the meantime.
            let free = match to.symlink_metadata() {
                Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                Err(_) => Ok(()),
            };
            if let Err(error) = free.and_then(|()| fs::rename(&from, &to)) {
                for (from, to) in &moved {
                    let _ = fs::rename(to, from);
                }
                return Err(error);
            }
            moved.push((from, to));
        }
        Ok(())
    }
}

fn write(path: &Path, file: &NewFile) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, &file.text)?;
    if file.is_program {
        // Executable for everyone who may read it.
        let readable = fs::metadata(path)?.permissions().mode();
        fs::set_permissions(path, Permissions::from_mode(readable | (readable & 0o444) >> 2))?;
    }
    Ok(())
}

/// The folder that contains it, or will contain it.
fn parent(folder: &Path) -> &Path {
    match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => folder,
    }
}

/// A folder private to this process, removed at the end with whatever is left in it.
#[derive(Debug)]
struct Draft(PathBuf);

impl Draft {
    fn beside(folder: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let path = folder.join(format!("{DRAFT}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| (path.clone(), error))?;
        Ok(Self(path))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It has become the project, or is no longer needed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    fn file(path: &str) -> NewFile {
        NewFile { path: path.into(), text: "text".into(), is_program: path == "program" }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_gets_all_files_or_none() {
        let place = tempfile::tempdir().unwrap();
        let empty = place.path().join("empty");
        fs::create_dir(&empty).unwrap();
        for folder in [empty, place.path().join("new")] {
            let target = Target::at(&folder).unwrap();
            // A file cannot also be a folder.
            let before = names(place.path());
            assert!(target.fill(&[file("src/a"), file("b"), file("b/c")]).is_err());
            assert_eq!(names(place.path()), before);
            assert!(!folder.exists() || names(&folder).is_empty());
            assert_eq!(target.fill(&[file("src/a"), file("program")]).unwrap(), 2);
            assert_eq!(names(&folder), ["program", "src"]);
            let mode = fs::metadata(folder.join("program")).unwrap().permissions().mode();
            assert_eq!(mode & 0o111, (mode & 0o444) >> 2);
            assert!(Target::at(&folder).unwrap_err().contains("is not empty"));
        }
        assert_eq!(names(place.path()), ["empty", "new"]);
    }

    #[test]
    fn root_makes_no_project_where_another_user_could_exchange_it() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make folders of others");
        }
        let place = tempfile::tempdir().unwrap();
        chown(place.path(), Some(65_534), None).unwrap();
        for folder in [place.path().to_owned(), place.path().join("project")] {
            let why = Target::at(&folder).unwrap_err();
            assert!(
                why.contains("another user could replace it: the folder ") && why.contains("(user 65534)"),
                "{why}"
            );
        }
        assert!(names(place.path()).is_empty());
        fs::create_dir(place.path().join("roots")).unwrap();
        assert!(Target::at(&place.path().join("roots")).is_err());
    }

    #[test]
    fn what_came_in_meanwhile_is_not_written_over() {
        let place = tempfile::tempdir().unwrap();
        let target = Target::at(place.path()).unwrap();
        fs::write(place.path().join("b"), "mine").unwrap();
        assert!(target.fill(&[file("a"), file("b"), file("c")]).is_err());
        assert_eq!(names(place.path()), ["b"]);
        assert_eq!(fs::read_to_string(place.path().join("b")).unwrap(), "mine");
        let later = Target { folder: place.path().join("later"), is_there: false };
        fs::create_dir(&later.folder).unwrap();
        fs::write(later.folder.join("mine"), "").unwrap();
        assert!(later.fill(&[file("a")]).is_err());
        assert_eq!(names(&later.folder), ["mine"]);
    }
}
