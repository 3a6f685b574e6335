//! An entry in the journal's native protocol, as one datagram.
//!
//! Pure: entries in, bytes out. It allocates.

use crate::log::Entry;
use crate::program;
use serde_json::Value;
use std::ops::Range;
use tracing::Level;

/// Maximum length of any value but the message, in bytes. tracing has at most 32 fields, so together they fit into a datagram.
const LONGEST_VALUE: usize = 4 << 10;

/// Length in bytes to which the message is cut if its entry is too large for a datagram (208 KiB, unless `net.core.wmem_default` says
/// otherwise).
const CUT_MESSAGE: usize = 8 << 10;

/// An entry as it is sent over the socket.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) bytes: Vec<u8>,
    message: usize,     // where the field MESSAGE begins; it is the last
    text: Range<usize>, // of the message itself
    cut: bool,
}

impl Datagram {
    pub(super) fn new(entry: &Entry) -> Self {
        let mut bytes = Vec::with_capacity(512 + entry.message.len());
        put(&mut bytes, "PRIORITY", priority(entry.level));
        put(&mut bytes, "SYSLOG_IDENTIFIER", program::name());
        put(&mut bytes, "HERTZD_TIME", &entry.rfc3339());
        if let Some((file, line)) = entry.source {
            put(&mut bytes, "CODE_FILE", file);
            put(&mut bytes, "CODE_LINE", &line.to_string());
        }
        for (name, value) in &entry.fields {
            let name = match *name {
                "message_id" => "MESSAGE_ID".into(),
                name => field_name(name),
            };
            match value {
                Value::String(text) => put(&mut bytes, &name, shortened(text, LONGEST_VALUE)),
                other => put(&mut bytes, &name, &other.to_string()),
            }
        }
        // Last, so that it can be cut without parsing the rest.
        let message = bytes.len();
        put(&mut bytes, "MESSAGE", &entry.message);
        let end = bytes.len() - 1;
        Self { text: end - entry.message.len()..end, bytes, message, cut: false }
    }

    /// Cuts the message to its beginning; `false` if it is that short already.
    pub(super) fn cut(&mut self) -> bool {
        if self.cut || self.text.len() <= CUT_MESSAGE {
            return false;
        }
        let text = String::from_utf8_lossy(&self.bytes[self.text.clone()]);
        let text = format!("{} [cut from {} bytes]", shortened(&text, CUT_MESSAGE), text.len());
        self.bytes.truncate(self.message);
        put(&mut self.bytes, "MESSAGE", &text);
        self.bytes.shrink_to_fit();
        self.cut = true;
        true
    }
}

/// Appends a field: `NAME=value`, or with the length in front of a value that contains a line feed.
fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend((value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend(value.as_bytes());
    bytes.push(b'\n');
}

/// journald accepts capitals, digits and underscores, at most 64 characters.
fn field_name(name: &str) -> String {
    let allowed = |byte: u8| match byte.to_ascii_uppercase() {
        byte @ (b'A'..=b'Z' | b'0'..=b'9') => char::from(byte),
        _ => '_',
    };
    "HERTZD_".chars().chain(name.bytes().map(allowed)).take(64).collect()
}

fn shortened(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// As in syslog.
const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    }
}
