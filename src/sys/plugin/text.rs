//! Texts that a plugin points to: each is copied once for the whole process.
//!
//! Descriptions of keys live as long as the process (`&'static`). A library that is loaded again has the same texts, so each distinct text
//! is kept once. Locks and allocates.

use super::abi::MAX_TEXT;
use libc::c_char;
use std::collections::BTreeSet;
use std::slice;
use std::sync::{Mutex, PoisonError};

/// The text at `at`, called `what` in errors; `None`: the pointer is null.
pub(super) fn optional(at: *const c_char, what: &str) -> Result<Option<&'static str>, String> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the interface promises a text that ends in a zero byte; no more than MAX_TEXT + 1 bytes are read.
    let length = unsafe { libc::strnlen(at, MAX_TEXT + 1) };
    if length > MAX_TEXT {
        return Err(format!("{what} is longer than {MAX_TEXT} bytes, or does not end in a zero byte"));
    }
    // SAFETY: strnlen has just read that many bytes there.
    let bytes = unsafe { slice::from_raw_parts(at.cast::<u8>(), length) };
    let text = str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        format!("{what} is not UTF-8: byte {at} is 0x{:02X}", bytes[at])
    })?;
    Ok(Some(kept(text)))
}

/// The same for a text that must exist.
pub(super) fn required(at: *const c_char, what: &str) -> Result<&'static str, String> {
    optional(at, what)?.ok_or_else(|| format!("{what} is a null pointer"))
}

/// A copy of the text that lives as long as the process.
pub(crate) fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    all.insert(text);
    text
}

/// A list that lives as long as the process.
pub(super) fn kept_list(list: Vec<&'static str>) -> &'static [&'static str] {
    static KEPT: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&list[..]) {
        return known;
    }
    let list: &'static [&'static str] = list.leak();
    all.insert(list);
    list
}
