//! Builds plugins for tests.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where `hertzd.h` is.
pub(crate) fn header_folder() -> PathBuf {
    root().join("src/kinds/plugin")
}

/// Builds `tests/support/plugin/NAME` as the library `to`, with additional compiler arguments.
pub(crate) fn build_c(name: &str, to: &Path, more: &[&str]) {
    let mut gcc = Command::new("gcc");
    gcc.arg("-I").arg(header_folder()).args(["-O1", "-w", "-fPIC", "-shared"]).args(more).arg("-o").arg(to);
    let built = gcc.arg(root().join("tests/support/plugin").join(name)).arg("-lm").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// The probe in C, in `folder`.
pub(crate) fn probe(folder: &Path) -> PathBuf {
    let library = folder.join("libprobe.so");
    build_c("probe.c", &library, &[]);
    library
}

pub(crate) fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
}

/// The probe in Rust, in `folder`.
pub(crate) fn rust_probe(folder: &Path) -> PathBuf {
    let library = folder.join("librust_probe.so");
    let mut rustc = rustc();
    rustc
        .args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-A", "warnings", "-o"])
        .arg(&library);
    let built = rustc.arg(root().join("tests/support/plugin/probe.rs")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}
