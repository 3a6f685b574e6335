//! `hertzd check --against-running`: what a reload would do to the running daemon, according to its status socket.

use crate::cli::Stop;
use crate::cli::running::read_once_it_can;
use crate::cli::socket::SocketArg;
use crate::config::Config;
use crate::daemon::{Change, Diff, Keys, RunningDaemon, Sections};
use std::fmt::Write as _;
use std::path::Path;

/// A running daemon, and how a configuration differs from the one it runs.
pub(super) struct Against {
    running: RunningDaemon,
    new: Sections,
    diff: Diff,
}

impl Against {
    /// The daemon that listens at this socket.
    pub(super) fn running(config: &Config, socket: &SocketArg) -> Result<Self, Stop> {
        let (running, new) = (read_once_it_can(socket)?.daemon, Sections::of(config));
        let diff = Diff::between(&running.sections, &new);
        Ok(Self { running, new, diff })
    }

    pub(super) fn process(&self) -> u32 {
        self.running.daemon.pid
    }

    /// Whether a reload would open what this task uses.
    pub(super) fn begins(&self, task: &str) -> bool {
        self.diff.tasks.get(task) != Some(&Change::Kept)
    }

    /// What a reload would do to each section, and whether it would read this configuration at all.
    pub(super) fn describe(&self, config: &Config) -> String {
        let (pid, version) = (self.running.daemon.pid, &self.running.daemon.version);
        let mut text = format!("\nA reload of process {pid} would do this:\n");
        // Writing to a String cannot fail.
        for (what, changes, old, new) in [
            ("worker", &self.diff.workers, &self.running.sections.worker_keys, &self.new.worker_keys),
            ("task", &self.diff.tasks, &self.running.sections.task_keys, &self.new.task_keys),
        ] {
            for (name, change) in changes {
                let why =
                    if *change == Change::Restarted { why(what, old.get(name), new.get(name)) } else { String::new() };
                let _ = writeln!(text, "  {what} {name} {change}{why}");
            }
        }
        let read = self.running.daemon.files.first().map(Path::new);
        let given = config.files.first().map(|file| &**file);
        let same =
            |a: &Path, b: &Path| a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a));
        if let Some(read) = read.filter(|read| !given.is_some_and(|given| same(read, given))) {
            let _ = writeln!(text, "But it would read {}, which is another file.", read.display());
        }
        if version != env!("CARGO_PKG_VERSION") {
            let _ = writeln!(text, "It runs hertzd {version}, which may judge a configuration differently.");
        }
        text
    }

    /// What cannot be determined from here about workers that would start.
    pub(super) fn unknown(&self) -> impl Iterator<Item = String> + '_ {
        let begins = |change: &Change| matches!(change, Change::Restarted | Change::Added);
        let workers = self.diff.workers.iter().filter(move |(_, change)| begins(change));
        workers.map(|(name, _)| format!("worker {name}: whether the kernel grants its policy, its CPUs and its memory"))
    }
}

/// Why a section restarts: `: rate, budget changed`.
fn why(what: &str, old: Option<&Keys>, new: Option<&Keys>) -> String {
    let (Some(old), Some(new)) = (old, new) else { return String::new() };
    let names: Vec<_> = old.differing(new).into_iter().collect();
    match names[..] {
        [] if what == "task" => " with its worker".to_owned(),
        [] => String::new(),
        _ => format!(": {} changed", names.join(", ")),
    }
}
