//! The kernel, in small wrappers that take and return our own types. The only room where unsafe code is allowed.
//!
//! Only these are for the hot thread, and neither allocate nor lock: [`cache`], [`clock`], [`usage`], [`fd::FdSlot`], the frames of `video`
//! and `can`, the transfers of `i2c` and the ticks of `plugin`. Everything else is for setup and may do both. Refusals are [`io::Error`]s
//! that keep the errno, so that the caller can name the remedy.

#![allow(unsafe_code, reason = "system calls are unsafe functions of libc; this room is where they are made safe")]

#[cfg(any(test, target_env = "musl"))]
pub(crate) mod arena;
pub(crate) mod cache;
pub(crate) mod can;
pub(crate) mod clock;
pub(crate) mod crash;
pub(crate) mod descriptors;
pub(crate) mod dir;
#[cfg(test)]
#[path = "../../tests/support/emulation.rs"]
pub(crate) mod emulation;
pub(crate) mod entry;
pub(crate) mod fd;
pub(crate) mod filesystem;
pub(crate) mod grant;
pub(crate) mod host;
#[cfg(feature = "i2c")]
pub(crate) mod i2c;
pub(crate) mod inotify;
pub(crate) mod input;
pub(crate) mod limited;
pub(crate) mod lock;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod open;
pub(crate) mod other_user;
pub(crate) mod peer;
#[cfg(feature = "plugin")]
pub(crate) mod plugin;
pub(crate) mod process;
pub(crate) mod processor;
pub(crate) mod rights;
pub(crate) mod secure;
pub(crate) mod signals;
pub(crate) mod thread;
#[cfg(all(target_pointer_width = "32", target_os = "linux"))]
mod time64;
pub(crate) mod trust;
pub(crate) mod usage;
pub(crate) mod user;
#[cfg(feature = "video")]
pub(crate) mod video;
pub(crate) mod writeback;

use std::io;

/// The C library's `time_t`. libc marks the name deprecated with musl, because on 32-bit processors libc has 32 bits there and musl itself
/// 64.
#[cfg_attr(target_env = "musl", allow(deprecated, reason = "the fields of libc's structures have this type"))]
type Seconds = libc::time_t;

/// Checks a call that returns -1, as `int` or as `long`, and leaves the reason in `errno`.
fn from_minus_one<T: PartialEq + From<i8>>(returned: T) -> io::Result<T> {
    if returned == T::from(-1) { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Checks a call that returns the error number itself and leaves `errno` alone, like all of `pthread_*`.
fn from_code(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Widens a number of the kernel, whose `long` and `time_t` have 32 bits on some architectures.
fn wide(number: impl Into<i64>) -> i64 {
    number.into()
}

/// The error for an invalid argument, which must reach neither the kernel nor the crate in between.
fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errno_is_kept() {
        assert_eq!(from_minus_one(7i64).unwrap(), 7);
        assert_eq!(from_code(0).unwrap(), ());
        assert_eq!(from_code(libc::EPERM).unwrap_err().raw_os_error(), Some(libc::EPERM));
        // SAFETY: an invalid descriptor is refused; no memory is involved.
        let refused = from_minus_one(unsafe { libc::close(-1) }).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
    }
}
