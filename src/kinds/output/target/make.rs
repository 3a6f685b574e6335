//! A target that is a missing regular file: what is known of it, and how it is created. May block.

use super::super::digits::{Digits, Form};
use super::super::place::Place;
use super::Target;
use super::files::folder_of;
use crate::kinds::device::Sight;
use crate::site::{DeviceId, Refusal};
use crate::sys::dir::effective_user;
use crate::sys::entry::Entry;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

impl Target {
    /// Finds the target; creates a missing file if `first` gives the number it holds from the start. `None`: it is missing, or was deleted
    /// at once.
    pub(in super::super) fn find_or_make(
        place: &Place,
        sys: &Path,
        first: Option<f64>,
    ) -> Result<Option<Self>, Refusal> {
        match (Self::find(place, sys)?, first) {
            (None, Some(first)) => {
                make(place, &Digits::of(first, Form::Any))?;
                Self::find(place, sys)
            }
            (found, _) => Ok(found),
        }
    }
}

/// What is known of a file that has yet to be created, and its path.
pub(in super::super) fn unmade(place: &Place) -> Option<(Sight, &Path)> {
    let Place::File(path) = place else { return None };
    let folder = folder_of(path).canonicalize().unwrap_or_default();
    let id = DeviceId::Named(folder.join(path.file_name().unwrap_or_default()).display().to_string());
    Some((Sight::of(place.key(), vec![id]).unknown("whether the file can be made"), path))
}

/// Creates a regular file that holds this text from the start.
fn make(place: &Place, text: &Digits) -> Result<(), Refusal> {
    let Place::File(path) = place else { return Ok(()) };
    let making = || {
        let entry = Entry::find(path)?;
        // No reader finds it empty. An existing entry of that name, perhaps a link, is not written to.
        let new = entry.draft();
        let written = new.make_anew().and_then(|mut file| {
            file.write_all(text.bytes())?;
            // A file that root creates in the service's folder gets the folder's owner.
            let folder = Some(entry.folder().metadata()?).filter(|_| effective_user() == 0);
            folder.map_or(Ok(()), |folder| fchown(&file, Some(folder.uid()), Some(folder.gid())))
        });
        match written.and_then(|()| new.rename_anew(&entry)).inspect_err(|_| _ = new.remove()) {
            // Another thread was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    };
    making().map_err(|error: io::Error| Refusal::new("path", format!("cannot make {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_made_and_a_link_in_its_way_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("fan"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        for number in 0..100 {
            let new = folder.path().join(format!(".fan.{}.{number}.new", std::process::id()));
            std::os::unix::fs::symlink(&victim, new).unwrap();
        }
        make(&Place::File(path.clone()), &Digits::of(7.0, Form::Any)).unwrap();
        assert_eq!([&path, &victim].map(|path| fs::read_to_string(path).unwrap()), ["7\n", "precious"]);
        assert!(!path.is_symlink());
    }

    #[test]
    fn threads_that_make_the_same_file_at_once_all_find_it() {
        let folder = tempfile::tempdir().unwrap();
        for file in 0..50 {
            let path = folder.path().join(file.to_string());
            std::thread::scope(|scope| {
                for number in 1..=4 {
                    let place = Place::File(path.clone());
                    scope.spawn(move || make(&place, &Digits::of(f64::from(number), Form::Any)).unwrap());
                }
            });
            assert_eq!(fs::read_to_string(path).unwrap().len(), 2);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 50, "nothing else is left");
    }
}
