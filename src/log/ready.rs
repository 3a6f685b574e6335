//! What a thread sets up when it writes its first entry. Allocates, and may wait for the dynamic linker.

use std::io;

/// Has this thread do now what it would do at its first entry as text: it registers a buffer that its end gives back, for which it needs
/// the lock of the dynamic linker. A library that hangs or crashes while it is loaded has that lock, and the entry that says so would wait for it.
pub(crate) fn make_ready() {
    let nowhere = tracing_subscriber::fmt().with_writer(io::sink).finish();
    tracing::subscriber::with_default(nowhere, || tracing::error!("read by nobody"));
}
