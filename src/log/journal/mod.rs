//! The log in systemd's journal, over its native protocol: every field has its own name.
//!
//! Nothing here waits for journald. The socket does not block. (tracing-journald's does: a stopped journald would stop the metrics thread,
//! and ticks would not be counted.) Entries that the journal does not accept wait in memory, in order and within bounds. They are sent
//! again with every later entry and by [`flush`]. Entries beyond the bounds are dropped, counted, and reported in the journal once it
//! accepts entries again. Each entry looks the path up again, so journald and its socket may be replaced at any time.
//!
//! Time comes with the entries and from the kernel. Not for hot threads: this allocates, locks, and makes system calls. [`finish`] waits at
//! the end of the process, with a limit.
//! `HERTZD_TIME` says when an event happened, because the journal's own timestamp is the time of arrival.

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

/// The journal's socket.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// How long [`finish`] tries to send the waiting entries.
const PATIENCE: Span = Span::from_seconds(1);

/// The journal that [`layer`] opened.
static OPENED: OnceLock<Journal> = OnceLock::new();

/// Opens the system's journal for the whole process; the layer sends every event there.
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
    /// Sends an entry that is not an event.
    pub(crate) fn submit(&self, entry: &Entry) {
        self.0.submit(entry);
    }
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.submit(&Entry::of(event));
    }
}

/// Sends the waiting entries again. Call it at least a few times a second; it costs almost nothing without a journal or waiting entries.
pub(crate) fn flush() {
    if let Some(journal) = OPENED.get() {
        journal.flush(KernelClock::realtime().now());
    }
}

/// Call before the process ends: tries for up to a second to send the waiting entries. The rest is lost.
pub(crate) fn finish() {
    if let Some(journal) = OPENED.get() {
        journal.finish(PATIENCE);
    }
}

/// Entries that the journal has accepted; 0 if the log goes elsewhere.
pub(crate) fn sent() -> u64 {
    OPENED.get().map_or(0, Journal::sent)
}

/// Entries that were lost; 0 if the log goes elsewhere.
pub(crate) fn lost() -> u64 {
    OPENED.get().map_or(0, Journal::lost)
}

/// Whether stderr is connected to the journal and the journal's socket exists: then entries can go there directly.
pub(crate) fn stderr_leads_there() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    is_stream(named.as_deref(), io::stderr(), Path::new(SOCKET))
}

/// Whether a socket exists at [`SOCKET`].
pub(crate) fn present() -> bool {
    is_socket(Path::new(SOCKET))
}

/// Programs inherit JOURNAL_STREAM even if their stderr was redirected, so the variable alone is not enough.
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
