//! The built binary on the virtual clock, a file for it in a new folder, and tasks whose releases meet.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub(crate) fn hertzd(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hertzd")).args(args).env_remove("HERTZD_LOG").output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A file in a new folder.
pub(crate) fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    (folder, path)
}

pub(crate) fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Four tasks that meet each other: a run longer than another's period, and a period that does not divide the others.
pub(crate) const MEETING: &str = r#"
# Above the section.
[worker.main]
policy = "fifo"          # beside the key
priority = 70

[task.fast]
kind = "load"
rate = "1 kHz"
run = "100us"
budget = "100us"

# About the slow one.
[task.slow]
kind = "load"
rate = "10 Hz"
run = "3ms"
budget = "3ms"
overrun = "credit"

[task.middle]
kind = "load"
rate = "100 Hz"
phase = "0s"             # may move
run = "400us"
budget = "400us"
"#;
