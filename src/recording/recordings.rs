//! The open recordings. Tasks that record to the same file share one. Opening may block; a slow writer blocks only those who call it.

use super::append::{self, AppendFile};
use super::claim::{Claim, FileId, Target};
use super::content::Content;
use super::file::{Current, Moment, RecordingFile};
use super::ledger::WriteCounts;
#[cfg(feature = "mcap")]
use super::mcap::Mcap;
use super::own;
use super::progress::Progress;
use super::writer::Writer;
use crate::config::{RecordConfig, RecordFormat};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A recording, as one of its tasks sees it.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    config: RecordConfig,
    writer: Arc<Mutex<dyn Writer>>,
}

impl PartialEq for Recording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.writer, &other.writer)
    }
}

impl Recording {
    /// The file's path, as written in the task's section.
    pub(crate) fn path(&self) -> &Path {
        &self.config.path
    }

    pub(crate) const fn format(&self) -> RecordFormat {
        self.config.format
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, dyn Writer + 'static> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Each of these releases the lock before the caller uses the result, since the caller may lock again.
    pub(super) fn join(&self, id: u32, content: &Content) {
        self.lock().join(id, content, &self.config);
    }

    pub(super) fn leave(&self, id: u32) {
        self.lock().leave(id);
    }

    pub(super) fn begin(&self, at: Moment) {
        self.lock().begin(at);
    }

    pub(super) fn flush(&self) -> io::Result<bool> {
        self.lock().flush()
    }

    pub(super) fn hurry(&self) {
        self.lock().hurry();
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        self.lock().finish()
    }

    pub(super) fn counts(&self, id: u32) -> WriteCounts {
        self.lock().counts(id)
    }
}

/// What is known about an open recording without locking its writer, which a slow disk may block.
#[derive(Debug)]
struct Known {
    target: Target,
    current: Current,
    format: RecordFormat,
    writer: Weak<Mutex<dyn Writer>>,
}

impl Known {
    fn is_at(&self, target: &Target) -> bool {
        let linked = |current: FileId| FileId::at(&target.path).is_ok_and(|found| found == current);
        let current = *self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.target.is(target) || current.is_some_and(linked)
    }
}

/// All open recordings.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    progress: Arc<Progress>,
    open: Vec<Known>,
}

impl Recordings {
    /// Creates an empty list. `progress` tracks the recordings' writes.
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, open: Vec::new() }
    }

    /// Opens the recording that a task asks for. Its file is locked but not changed yet. If the file is created here, it is removed again
    /// unless the recording begins.
    ///
    /// # Errors
    /// The system's reason, the process that has locked the file, or that the task cannot be recorded there.
    pub(crate) fn open(&mut self, config: &RecordConfig, content: &Content) -> io::Result<Recording> {
        let layout = append::layout(config.format, content)?;
        let target = Target::of(&config.path)?;
        self.open.retain(|known| known.writer.strong_count() > 0);
        let known = self.open.iter().find(|known| known.is_at(&target));
        if let Some((known, writer)) = known.and_then(|known| Some((known, known.writer.upgrade()?))) {
            return match known.format == config.format {
                true => Ok(Recording { config: config.clone(), writer }),
                false => Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is recorded in another format")),
            };
        }
        let (claim, format) = (Claim::take(&target.path)?, config.format);
        own::refuse_others(&claim.file, format)?;
        let mut file = RecordingFile::new(target.path.clone(), claim, config.clone(), format == RecordFormat::Csv);
        file.progress = self.progress.clone();
        let current = Arc::clone(&file.current);
        let writer: Arc<Mutex<dyn Writer>> = match layout {
            Some(layout) => Arc::new(Mutex::new(AppendFile::new(file, layout.header)?)),
            #[cfg(feature = "mcap")]
            None => Arc::new(Mutex::new(Mcap::new(file))),
            #[cfg(not(feature = "mcap"))]
            None => return Err(io::Error::new(io::ErrorKind::Unsupported, "this hertzd was built without MCAP")),
        };
        self.open.push(Known { target, current, format, writer: Arc::downgrade(&writer) });
        Ok(Recording { config: config.clone(), writer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::testing::{UTC, column, content, limits, moment, names, row};
    use crate::time::Span;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn values() -> Content {
        content(vec![column("v", "")], None)
    }

    #[test]
    fn every_path_to_a_file_is_one_recording() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        fs::create_dir(inside("sub")).unwrap();
        symlink(".", inside("folder")).unwrap();
        symlink("x.csv", inside("link.csv")).unwrap();
        symlink("../link.csv", inside("sub/link.csv")).unwrap();
        let mut recordings = Recordings::default();
        let csv = recordings.open(&limits(&inside("sub/link.csv")), &values()).unwrap();
        fs::hard_link(inside("x.csv"), inside("hard.csv")).unwrap();
        for path in ["x.csv", "./sub/../x.csv", "link.csv", "folder/x.csv", "hard.csv"] {
            assert_eq!(recordings.open(&limits(&inside(path)), &values()).unwrap(), csv, "{path}");
        }
        assert_ne!(recordings.open(&limits(&inside("y.csv")), &values()).unwrap(), csv);
        symlink("x.csv", inside("x.wav")).unwrap();
        symlink("x.csv", inside("x.mcap")).unwrap();
        recordings.open(&limits(&inside("x.mcap")), &values()).unwrap_err();
        // These do not lead to a file either.
        symlink("cycle.csv", inside("cycle.csv")).unwrap();
        recordings.open(&limits(&inside("cycle.csv")), &values()).unwrap_err();
        recordings.open(&limits(&inside("..")), &values()).unwrap_err();
    }

    #[test]
    fn a_file_is_locked_until_its_recording_ends_and_so_is_each_that_follows() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("x.csv"), folder.path().join("y.csv"));
        symlink("x.csv", &link).unwrap();
        let limits = |path| RecordConfig { max_time: Some(Span::from_seconds(1)), ..limits(path) };
        let csv = Recordings::default().open(&limits(&path), &values()).unwrap();
        csv.join(0, &values());
        let refused = |path| {
            let error = Recordings::default().open(&limits(path), &values()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
        };
        for second in 0..3 {
            refused(&path);
            refused(&link);
            csv.begin(moment(second * 1_000));
            csv.lock().row(0, &row(1, &[1.0]), UTC);
            csv.flush().unwrap();
        }
        assert_eq!(names(folder.path()).len(), 4, "two finished files, the current one, and the link");
        assert_eq!((csv.counts(0).rows, csv.counts(0).files), (3, 3));
        csv.finish().unwrap();
        Recordings::default().open(&limits(&link), &values()).unwrap();
    }

    #[test]
    fn a_recording_that_never_begins_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        fs::write(inside("old.csv"), "").unwrap();
        let mut recordings = Recordings::default();
        let opened = ["new.csv", "old.csv", "new.mcap"].map(|name| {
            let config = limits(&inside(name));
            match cfg!(feature = "mcap") || config.format == RecordFormat::Csv {
                true => recordings.open(&config, &values()).ok(),
                false => None,
            }
        });
        drop(opened);
        assert_eq!(names(folder.path()), ["old.csv"], "and none that was there is removed");
        let begun = recordings.open(&limits(&inside("new.csv")), &values()).unwrap();
        begun.begin(moment(0));
        drop(begun);
        assert_eq!(names(folder.path()), ["new.csv", "old.csv"]);
    }
}
