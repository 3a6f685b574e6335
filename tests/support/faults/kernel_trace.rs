//! The kernel's own trace of a thread: when it was woken, put on a CPU and taken off it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The precision of the trace's instants, in nanoseconds.
pub(crate) const RESOLUTION: i64 = 1_000;

/// A separate instance of the kernel's trace, not shared with other readers. Removed on drop.
pub(crate) struct KernelTrace {
    folder: tempfile::TempDir,
    instance: PathBuf,
}

/// What happened to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It was made runnable.
    Woken,
    /// It was put on a CPU.
    In,
    /// It was taken off the CPU. `ready`: it could have continued.
    Out { ready: bool },
}

/// An event, with its instant on CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: i64,
    pub(crate) what: What,
}

impl KernelTrace {
    /// Creates a trace that is switched off. Returns the reason if there is none.
    pub(crate) fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tracefs", "nodev"]).arg(folder.path()).output();
        let mounted = mounted.map_err(|error| format!("mount: {error}"))?;
        if !mounted.status.success() {
            return Err(format!("no tracefs: {}", String::from_utf8_lossy(&mounted.stderr).trim()));
        }
        let instance = folder.path().join("instances").join(folder.path().file_name().unwrap());
        let trace = Self { folder, instance };
        fs::create_dir(&trace.instance).map_err(|error| format!("no instance of the trace: {error}"))?;
        trace.write("tracing_on", "0");
        trace.write("trace_clock", "mono");
        trace.write("buffer_size_kb", "4096");
        Ok(trace)
    }

    /// Records the switches and wake-ups of `thread` from now on.
    pub(crate) fn follow(&self, thread: u32) {
        let either = format!("prev_pid == {thread} || next_pid == {thread}");
        for (event, filter) in [("sched_switch", either), ("sched_wakeup", format!("pid == {thread}"))] {
            self.write(&format!("events/sched/{event}/filter"), &filter);
            self.write(&format!("events/sched/{event}/enable"), "1");
        }
        self.write("tracing_on", "1");
    }

    /// What happened to `thread`, in order.
    pub(crate) fn events(&self, thread: u32) -> Vec<Event> {
        self.write("tracing_on", "0");
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| event(line, thread)).collect()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.instance.join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Drop for KernelTrace {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
        let _ = Command::new("umount").arg::<&Path>(self.folder.path()).status();
    }
}

/// Reads a line such as `hz-main-412 [000] d..2. 1234.567890: sched_switch: prev_comm=hz-main prev_pid=412 … prev_state=R+ ==> …`.
fn event(line: &str, thread: u32) -> Option<Event> {
    let (head, rest) = line.split_once(": sched_")?;
    let (seconds, micros) = head.rsplit(' ').next()?.split_once('.')?;
    let at = seconds.parse::<i64>().ok()? * 1_000_000_000 + micros.parse::<i64>().ok()? * 1_000;
    // Names come first, and may contain anything.
    let field = |key: &str| Some(rest.rsplit_once(key)?.1.split(' ').next()?.to_owned());
    let what = if rest.starts_with("wakeup") {
        What::Woken
    } else if field(" next_pid=")? == thread.to_string() {
        What::In
    } else {
        What::Out { ready: field(" prev_state=")?.starts_with('R') }
    };
    Some(Event { at, what })
}

/// Whether each event between two instants fits the event before it: some kernels lose the switch from an idle CPU.
pub(crate) fn is_whole(events: &[Event], from: i64, to: i64) -> bool {
    let first = events.partition_point(|event| event.at < from).saturating_sub(1);
    let last = events.partition_point(|event| event.at <= to);
    events[first..last].windows(2).all(|pair| match pair[0].what {
        What::Woken | What::Out { ready: true } => pair[1].what == What::In,
        What::In => matches!(pair[1].what, What::Out { .. }),
        What::Out { ready: false } => pair[1].what == What::Woken,
    })
}

/// How long the thread with these events was ready but not on a CPU, between two instants.
pub(crate) fn away(events: &[Event], from: i64, to: i64) -> i64 {
    let mut ready_since = None;
    let mut away = 0;
    for event in events {
        match event.what {
            What::Woken | What::Out { ready: true } => ready_since = ready_since.or(Some(event.at)),
            What::Out { ready: false } => ready_since = None,
            What::In => {
                if let Some(since) = ready_since.take() {
                    away += (event.at.min(to) - since.max(from)).max(0);
                }
            }
        }
    }
    away
}
