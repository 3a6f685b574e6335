//! Reopens a target that went away and came back, on other threads than the task's. May block and allocate; no clock is read.
//!
//! The hot thread takes no part. Everyone who has the target open shares its descriptors with this module. When the target is gone, they
//! are redirected to nothing; when it is back, to the new one, each in one step. Nothing is written in between. Then the safe value is
//! written, and the task recovers from it.

use super::digits::number;
use super::held::{End, Held};
use super::left_writes::LeftWrites;
use super::place::Place;
use super::planned::is_on;
use super::port::{Content, OpenFiles, SafeText};
use super::target::Target;
use super::target::means::Kept;
use crate::io::{Gone, Keeper, Outcome, Reopen, Reopening, Watch};
use crate::safety::PlannedWrite;
use crate::site::{Label, Refusal, Site};
use crate::sys::fd::replace;
use crate::time::{Instant, Span};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use tracing::warn;

/// How often to check whether a target is there.
const LOOK_EVERY: Span = Span::from_millis(100);

/// Counts how often targets of a daemon were reopened. Whoever keeps a plan of their safe values has to refresh it.
#[derive(Debug, Default)]
pub(crate) struct Reopened(AtomicU64);

impl Reopened {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Another one was.
    pub(crate) fn again(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The target to look for.
pub(super) struct Wanted {
    pub(super) place: Place,
    pub(super) sys: PathBuf,
    pub(super) label: Label,
}

/// Reopens the target whenever it is gone, for as long as it is held.
pub(super) fn reopens(site: &Site, held: &Arc<Held>, wanted: Wanted, target: &Target) -> Result<(), Refusal> {
    let refuse = |error: io::Error| Refusal::new("kind", format!("cannot watch {}: {error}", target.shown()));
    let keeper = site.common::<Keeper>();
    let lost = LostTarget {
        held: Arc::downgrade(held),
        reopened: site.common(),
        left: site.common(),
        watch: target.regular_file().is_some().then(|| keeper.watch(target.node(), LOOK_EVERY)),
        seen: Seen::of(target).map_err(refuse)?,
        nothing: File::open("/dev/null").map_err(refuse)?,
        next: Instant::ZERO,
        wanted,
    };
    keeper.keep(Reopening::new(lost)).map_err(refuse)
}

/// Identifies the open target, to detect a change.
#[derive(Debug, PartialEq)]
struct Seen {
    node: PathBuf,
    file: (u64, u64),         // file system and inode: a recreated node has another one
    file_system: Option<u64>, // of a regular file's folder
}

impl Seen {
    fn of(target: &Target) -> io::Result<Self> {
        let node = target.node().to_owned();
        let folder = target.regular_file().and_then(Path::parent).and_then(|folder| folder.metadata().ok());
        Ok(Self { file: inode(&fs::metadata(&node)?), file_system: folder.map(|folder| folder.dev()), node })
    }
}

fn inode(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

struct LostTarget {
    held: Weak<Held>,
    reopened: Arc<Reopened>,
    left: Arc<LeftWrites>,
    wanted: Wanted,
    watch: Option<Watch>, // for a regular file
    seen: Seen,
    nothing: File, // where descriptors lead meanwhile; writes to it fail
    next: Instant, // next check of a target that is not a regular file
}

impl Reopen for LostTarget {
    fn is_abandoned(&self) -> bool {
        self.held.strong_count() == 0
    }

    fn is_suspect(&mut self, now: Instant) -> bool {
        match &self.watch {
            // Its file system may be slow, and must not delay devices.
            Some(watch) => watch.is_due(now),
            None if now < self.next => false,
            None => {
                self.next = now + LOOK_EVERY;
                self.is_gone()
            }
        }
    }

    fn gone(&mut self, now: Instant) -> Option<Gone> {
        self.watch.iter_mut().for_each(|watch| watch.begins(now));
        if !self.is_gone() {
            return None;
        }
        // A reload may have given the target another task since.
        let end = self.held.upgrade()?.end();
        if let Some((end, guard)) = end.and_then(|end| Some((end.clone(), end.guard.upgrade()?))) {
            self.wanted.label = Label::new(end.place.to_string(), guard.task());
        }
        Some(Gone::Lost)
    }

    fn label(&self) -> &Label {
        &self.wanted.label
    }

    /// Closes everything that leads to the lost target: removal of its driver may wait for that.
    fn close(&mut self) {
        let Some(held) = self.held.upgrade() else { return };
        let _opening = held.opening();
        let ends = held.ends();
        ends.iter().filter_map(|end| end.guard.upgrade()).for_each(|guard| guard.lose());
        let close = |file: &File| _ = replace(file, &self.nothing);
        for end in &ends {
            end.files().for_each(close);
        }
        close(held.taken());
        held.close_beside();
    }

    fn open(&mut self) -> Result<Outcome, Refusal> {
        let Some(held) = self.held.upgrade() else { return Ok(Outcome::Abandoned) };
        let opening = held.opening();
        // Uses the section in force: a reload may have changed its target name or safe state since.
        let current = held.end();
        if let Some(end) = &current {
            self.wanted.place.clone_from(&end.place);
        }
        let Wanted { place, sys, label } = &self.wanted;
        let safe = current.as_ref().and_then(|end| end.safe.as_ref());
        let first = safe.and_then(|safe| number(&safe.text.value));
        // If the file system is unmounted, the empty folder in its place must not get the file: wait until the file system is back.
        let is_mounted =
            || self.seen.file_system.is_none_or(|was| self.seen.node.parent().is_some_and(|it| is_on(it, was)));
        let makes = safe.is_some_and(|safe| safe.makes) && is_mounted();
        let gone = || Refusal::new(place.key(), format!("there is no {place}"));
        let found = Target::find_or_make(place, sys, first.filter(|_| makes))?.ok_or_else(gone)?;
        let (was, is) = (held.identity().device, found.identity().device);
        if !is.may_be(&was, place.is_numbered()) {
            let text = format!(
                "{place} is another device now, {}, in place of {}, and is left alone; to have this one, restart hertzd, and name it by what stays \
                 the same",
                is.shown(),
                was.shown()
            );
            return Err(Refusal::new(place.key(), text));
        }
        if current.as_ref().is_some_and(|end| end.numbers != (found.raw, found.form)) {
            let text = format!("the numbers of {} mean something else now; restart hertzd", found.shown());
            return Err(Refusal::new(place.key(), text));
        }
        found.loses_nothing()?;
        let target = found.exported()?.with_polarity(held.polarity());
        let refuse = |error: io::Error| Refusal::new(place.key(), format!("cannot open {}: {error}", target.shown()));
        let seen = Seen::of(&target).map_err(refuse)?;
        let (Kept { file: taken, lock }, beside) = target.take(&self.left, &label.task)?;
        target.init()?;
        target.put_in_force(first, held.watched().written())?;
        target.set_up(&taken, first)?;
        let ends = held.ends();
        // Everything is opened before any of it is used.
        let open = |end: &Arc<End>| Ok((end.clone(), OpenEnd::of(&target, &taken, end, held.found())?));
        let opened = ends.iter().map(open).collect::<io::Result<Vec<_>>>().map_err(refuse)?;
        replace(held.taken(), &taken).map_err(refuse)?;
        for (end, new) in &opened {
            new.replaces(end, &target).map_err(refuse)?;
        }
        held.is_now(target.identity(), beside, lock);
        opened.iter().filter_map(|(end, _)| end.claim.upgrade()).for_each(|claim| claim.is_now(&target.ids));
        self.seen = seen;
        self.reopened.again();
        held.watched().set_lost(false);
        drop(opening); // the safe write may never return, and a reload must not wait for it
        for guard in opened.iter().filter_map(|(end, _)| end.guard.upgrade()) {
            if let Err(error) = guard.find() {
                // Its task and the guard thread keep trying.
                warn!("{label} is there again, but its safe value could not be written: {error}");
            }
        }
        Ok(Outcome::Opened)
    }
}

impl LostTarget {
    /// Whether the path leads to something else than the open target. Always false before the target was set up, because reopening includes
    /// writing to it.
    fn is_gone(&self) -> bool {
        if self.held.upgrade().is_none_or(|held| !held.is_ready()) {
            return false;
        }
        match fs::metadata(&self.seen.node) {
            Ok(found) => inode(&found) != self.seen.file,
            Err(error) => matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO | libc::ESTALE)
            ),
        }
    }
}

/// The new open files of an output.
struct OpenEnd {
    files: OpenFiles,
    safe: Option<(OpenFiles, Vec<PlannedWrite>)>,
    taken: File,
}

impl OpenEnd {
    /// `found`: what the target held before hertzd first wrote to it.
    fn of(target: &Target, taken: &File, end: &End, found: Option<&Content>) -> io::Result<Self> {
        let safe = |text: &SafeText| {
            let writer = target.safe_writer(taken, text.clone(), found)?;
            Ok::<_, io::Error>((writer.files(), target.plan(text, found)))
        };
        let safe = end.safe.as_ref().map(|end| safe(&end.text)).transpose()?;
        Ok(Self { files: target.writer(taken)?.files(), safe, taken: taken.try_clone()? })
    }

    /// Switches the output over to these files.
    fn replaces(&self, end: &End, target: &Target) -> io::Result<()> {
        let pair = |old: &OpenFiles, new: &OpenFiles| {
            replace(&old.0, &new.0)?;
            old.1.iter().zip(&new.1).try_for_each(|(old, new)| replace(old, new))
        };
        pair(&end.files, &self.files)?;
        if let (Some(old), Some((new, plan))) = (&end.safe, &self.safe) {
            pair(&old.files, new)?;
            old.plan.lock().unwrap_or_else(PoisonError::into_inner).clone_from(plan);
        }
        if let Some(readback) = &end.readback {
            readback.is_now(target.clone());
            readback.taken().map_or(Ok(()), |old| replace(old, &self.taken))?;
        }
        Ok(())
    }
}

impl End {
    /// All open files of the output.
    fn files(&self) -> impl Iterator<Item = &File> {
        let all = [Some(&self.files), self.safe.as_ref().map(|safe| &safe.files)];
        let files = all.into_iter().flatten().flat_map(|(value, settings)| std::iter::once(value).chain(settings));
        let readback = self.readback.iter().filter_map(|readback| readback.taken());
        files.map(|file| &**file).chain(readback)
    }
}
