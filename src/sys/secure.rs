//! Rights that this process has and its user lacks: from file capabilities or the set-user-ID bit. With such rights, no code that the user
//! could have supplied may run in this process.
//!
//! Asks the kernel, and may change the environment. No clock is read.

use std::env;
use std::ffi::OsStr;

/// The environment variables that a privileged process keeps, besides `LC_*`: none of them can lead to code.
const KEPT: [&str; 22] = [
    "COLORTERM",
    "HERTZD_LOG",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LANG",
    "LANGUAGE",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LOGNAME",
    "MAINPID",
    "NOTIFY_SOCKET",
    "NO_COLOR",
    "RUNTIME_DIRECTORY",
    "SERVICE_RESULT",
    "STATE_DIRECTORY",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "USER",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "XDG_RUNTIME_DIR",
];

/// The search path for programs when the user's own folders do not count.
const SAFE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// If the kernel gave this process rights that its user lacks, removes everything from the environment that may lead to the user's code.
/// Libraries read the environment (ALSA loads modules named by its variables and by a file in HOME), and programs are searched by PATH.
///
/// Call this before a second thread exists.
pub(crate) fn keep_out_code_of_the_environment() {
    if !is_secure() {
        return;
    }
    for (name, _) in env::vars_os() {
        if !is_kept(&name) {
            // SAFETY: no other thread exists yet that could read the environment.
            unsafe { env::remove_var(name) };
        }
    }
    for (name, value) in [("PATH", SAFE_PATH), ("HOME", "/nonexistent")] {
        // SAFETY: as above.
        unsafe { env::set_var(name, value) };
    }
}

fn is_kept(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with("LC_"))
}

/// Whether the kernel gave this process rights that its user lacks, by file capabilities or the set-user-ID bit.
pub(crate) fn is_secure() -> bool {
    // SAFETY: takes a number; the result is 0 for one that the kernel did not pass on.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_lead_to_code_is_not_kept() {
        for name in ["TERM", "LC_TIME", "HERTZD_LOG"] {
            assert!(is_kept(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "HOME", "LD_PRELOAD", "ALSA_PLUGIN_DIR", "XDG_CONFIG_HOME", "PYTHONPATH", "TZ", "LC"] {
            assert!(!is_kept(OsStr::new(name)), "{name}");
        }
        assert!(!is_secure(), "a test has no rights that its user lacks");
    }
}
