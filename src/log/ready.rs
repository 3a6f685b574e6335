//! What a thread sets up when it writes its first entry. Allocates, and may wait for the dynamic linker.

use std::io;

/// Makes this thread do now what its first text entry would do: register a buffer that is freed when the thread ends. Registering needs the
/// dynamic linker's lock. A library that hangs or crashes while it is loaded holds that lock, and the entry reporting it would wait.
pub(crate) fn make_ready() {
    let nowhere = tracing_subscriber::fmt().with_writer(io::sink).finish();
    tracing::subscriber::with_default(nowhere, || tracing::error!("read by nobody"));
}
