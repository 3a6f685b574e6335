//! Records the kernel's scheduler in a private tracefs instance, which no other reader shares. Blocks; writes to tracefs.

use crate::cli::Stop;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::signals::Interrupts;
use crate::time::{Clock, Span};
use crate::views::Kernel;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Memory per CPU: a few seconds on a busy machine. The oldest events are overwritten.
const BUFFER_KIB: &str = "16384";

/// `sched_waking` instead of `sched_wakeup`, so that the time of the wake-up itself is included.
const EVENTS: [&str; 2] = ["sched_switch", "sched_waking"];

/// Maximum delay before a signal is noticed while recording.
const LOOK_EVERY: Span = Span::from_millis(50);

/// A tracefs instance; removed on drop.
struct Instance(PathBuf);

/// Records for this long, or until SIGINT, SIGTERM or SIGHUP.
///
/// # Errors
/// There is no tracefs, this process cannot use it, or a signal came before everything was read. The instance is removed in every case.
pub(super) fn record(length: Span) -> Result<Kernel, Stop> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let Some(root) = tracefs(&mounts) else {
        return Err(Stop::Permission(
            "--kernel: tracefs is not mounted here; as root: `mount -t tracefs nodev /sys/kernel/tracing`".into(),
        ));
    };
    let refused = |what: &str, reason: io::Error| {
        Stop::Permission(format!("--kernel: {what} in {}: {reason}; run this as root", root.display()))
    };
    // Before the instance is created, so that no signal leaves it behind; `instance` is dropped first.
    let interrupts = Interrupts::caught().map_err(|reason| Stop::Fault(format!("catching signals: {reason}")))?;
    remove_dead(&root);
    let path = root.join("instances").join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&path).map_err(|reason| refused("making an instance of the trace", reason))?;
    let instance = Instance(path);
    let write = |file: &str, text: &str| fs::write(instance.0.join(file), text).map_err(|reason| refused(file, reason));
    write("tracing_on", "0")?;
    write("trace_clock", "boot")?;
    write("buffer_size_kb", BUFFER_KIB)?;
    for event in EVENTS {
        write(&format!("events/sched/{event}/enable"), "1")?;
    }
    write("tracing_on", "1")?;
    let clock = KernelClock::monotonic();
    let until = clock.now() + length;
    while clock.now() < until && !interrupts.take() {
        pause((until - clock.now()).max(Span::ZERO).min(LOOK_EVERY));
    }
    write("tracing_on", "0")?;
    // On a busy machine this is tens of megabytes, which the kernel takes seconds to write.
    let mut text = Vec::new();
    let mut trace = File::open(instance.0.join("trace")).map_err(|reason| refused("reading the trace", reason))?;
    let mut piece = vec![0; 1 << 16];
    loop {
        match trace.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
            Err(reason) => return Err(refused("reading the trace", reason)),
        }
        if interrupts.take() {
            return Err(Stop::Fault("--kernel: stopped while the trace was read: nothing is written".into()));
        }
    }
    drop((trace, instance, interrupts));
    // Thread names may contain any bytes.
    Ok(Kernel::parse(&String::from_utf8_lossy(&text)))
}

const PREFIX: &str = "hertzd-";

/// Where tracefs is mounted.
fn tracefs(mounts: &str) -> Option<PathBuf> {
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.find(|fields| fields.get(2) == Some(&"tracefs")).map(|fields| PathBuf::from(fields[1]))
}

/// Removes the instances of killed processes: their buffers occupy kernel memory.
fn remove_dead(root: &Path) {
    for entry in fs::read_dir(root.join("instances")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_wherever_it_is() {
        let mounts = "proc /proc proc rw 0 0\nnodev /tmp/t tracefs rw,relatime 0 0\n";
        assert_eq!(tracefs(mounts), Some("/tmp/t".into()));
        assert_eq!(tracefs("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn only_what_a_dead_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = format!("{PREFIX}{}", child.id());
        child.wait().unwrap();
        let own = format!("{PREFIX}{}", std::process::id());
        let all = [&*dead, &own, "hertzd-notes", "other", "12"];
        for name in all {
            fs::create_dir_all(folder.path().join("instances").join(name)).unwrap();
        }
        remove_dead(folder.path());
        for name in all {
            assert_eq!(folder.path().join("instances").join(name).exists(), name != dead, "{name}");
        }
    }
}
