//! Tests only: reports of skipped tests, and what QEMU's user emulation (`tests/user-emulation`) cannot do.

use std::io::{self, Write};

/// For an ioctl request that QEMU does not know, it reports that no such call exists. The kernel would report that the request does not fit
/// this file.
#[allow(dead_code, reason = "for kinds that are features")]
pub(crate) const NO_IOCTL: &str = "it answers an ioctl that it does not know with ENOSYS where the kernel says ENOTTY";

/// Programs for ARM run in a user namespace that knows only one user.
pub(crate) const OTHER_OWNERS: &str = "in its user namespace devices belong to another user and group than root";

/// Under emulation, gcc builds programs for ARM, but rustc builds for the host machine.
#[allow(dead_code, reason = "for integration tests, which include this file")]
pub(crate) const NO_RUST: &str = "Rust's compiler would build for this machine";

/// Why a file cannot be found folder by folder from the root.
pub(crate) const OTHER_ROOT: &str = "the folder / that it opens is that of the emulated machine's libraries";

/// Why the parent cannot see that a program could not be started.
pub(crate) const OWN_MEMORY: &str =
    "a child that shares its parent's memory gets a copy there, so the parent does not see which step failed";

/// Prints that this test, or the rest of it, is skipped, and why. Writes directly to stderr: the harness hides the output of passing tests,
/// and whoever runs the tests should see what was not tested.
pub(crate) fn say_skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(io::stderr(), "skipped: {test}: {why}");
}

/// Whether this test, or the rest of it, is impossible because it runs under emulation. If so, prints that and why.
pub(crate) fn cannot_be_emulated(why: &str) -> bool {
    if is_emulated() {
        say_skipped(&format!("it cannot be done under QEMU's user emulation: {why}"));
    }
    is_emulated()
}

/// Whether this runs under QEMU's user emulation.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("HERTZD_TEST_USER_EMULATION").is_some()
}
