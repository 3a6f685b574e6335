//! The log in systemd's journal: every field by a name of its own, over the journal's native protocol.
//!
//! Nothing here ever waits for journald. The socket does not block (that of tracing-journald does, so a stopped journald
//! would stop the metrics thread with it, and ticks would go uncounted): what the journal does not take now is kept in
//! memory, in order and within bounds, and offered again with every later entry and by [`flush`]. What exceeds the bounds
//! is dropped, counted, and told in the journal once it takes entries again. The path is looked up anew for every
//! entry, so it does not matter whether journald, or its socket, was replaced in between.
//!
//! Time comes with the entries, and from the kernel. Only cool threads come here: this allocates, takes a lock, and
//! makes system calls. [`finish`] waits, with a limit, for the end of the process.
//!
//! Fields: `MESSAGE`, `PRIORITY`, `SYSLOG_IDENTIFIER`, `CODE_FILE`, `CODE_LINE`, `MESSAGE_ID` where the event has one,
//! and each field of the event as `HERTZD_` and its name in capitals. `HERTZD_TIME` says when it happened, since the
//! journal's own time is that of the arrival.

mod datagram;

mod queue;

#[cfg(test)]
mod tests;

pub(crate) use queue::{Bounds, Journal};

use super::Entry;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Span};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Where the journal listens.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// How long [`finish`] goes on offering what waits.
const PATIENCE: Span = Span::from_seconds(1);

/// The one that [`layer`] has opened.
static OPENED: OnceLock<Journal> = OnceLock::new();

/// Opens the way to the system's journal, for the whole process; the layer sends every event there.
///
/// # Errors
/// As [`Journal::new`].
pub(crate) fn layer() -> io::Result<JournalLayer> {
    let journal = match OPENED.get() {
        Some(journal) => journal,
        None => {
            let journal = Journal::new(SOCKET, Bounds::default())?;
            OPENED.get_or_init(|| journal)
        }
    };
    Ok(JournalLayer(journal))
}

/// Sends every event to a [`Journal`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalLayer(&'static Journal);

impl JournalLayer {
    /// Sends an entry that is no event.
    pub(crate) fn submit(&self, entry: &Entry) {
        self.0.submit(entry);
    }
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.submit(&Entry::of(event));
    }
}

/// Offers the journal again what it did not take. To be called a few times a second at least; without a journal, or with
/// nothing waiting, it costs next to nothing.
pub(crate) fn flush() {
    if let Some(journal) = OPENED.get() {
        journal.flush(KernelClock::realtime().now());
    }
}

/// Before the process ends: for up to a second, offers the journal what it did not take. What is left then is lost.
pub(crate) fn finish() {
    if let Some(journal) = OPENED.get() {
        journal.finish(PATIENCE);
    }
}

/// Entries the journal has taken; 0 where the log goes elsewhere.
pub(crate) fn sent() -> u64 {
    OPENED.get().map_or(0, Journal::sent)
}

/// Entries the journal will never get; 0 where the log goes elsewhere.
pub(crate) fn lost() -> u64 {
    OPENED.get().map_or(0, Journal::lost)
}

/// Whether stderr leads to the journal anyway, and its socket is there: then entries lose nothing by the native way.
pub(crate) fn stderr_leads_there() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    is_stream(named.as_deref(), io::stderr(), Path::new(SOCKET))
}

/// Whether there is a socket at [`SOCKET`].
pub(crate) fn present() -> bool {
    is_socket(Path::new(SOCKET))
}

/// JOURNAL_STREAM is inherited by programs whose stderr was led elsewhere, so its word alone is not enough.
fn is_stream(named: Option<&str>, stderr: impl AsFd, socket: &Path) -> bool {
    let Some((device, inode)) = named.and_then(|named| named.split_once(':')) else {
        return false;
    };
    let stderr = stderr.as_fd().try_clone_to_owned().map(File::from);
    let Ok(metadata) = stderr.and_then(|stderr| stderr.metadata()) else {
        return false;
    };
    (device.parse(), inode.parse()) == (Ok(metadata.dev()), Ok(metadata.ino())) && is_socket(socket)
}

fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket())
}

// A datagram socket in a temporary folder stands in for journald, so that every byte can be looked at; what the real
// journald makes of them is for the system tests to see.
