//! The real-time priority of the threads that have safe values written: asked for above that of every worker, and what was granted.
//!
//! Each thread asks for itself. What the kernel says of it now is read where it is shown; nothing waits.

use crate::log::Message;
use crate::metrics::{GuardSummary, ThreadPolicySummary};
use crate::sys::grant::{self, Privilege};
use crate::sys::thread::{self, ThreadId, set_fifo};
use crate::worker::Refusal;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use tracing::{info, warn};

/// The highest priority that a thread may have.
const HIGHEST: u8 = 99;

/// What the threads ask for, and what came of it.
#[derive(Debug, Default)]
pub(super) struct GuardGrant {
    wanted: AtomicU8,          // 0: no worker has asked for a real-time priority
    refused: AtomicU8,         // the latest that was refused; 0: none
    errno: AtomicI32,          // why
    guard: OnceLock<ThreadId>, // the guard thread
}

impl GuardGrant {
    /// Asks for more than this, which workers have. A reload that lowers their priority changes nothing: until it is over, others have theirs.
    pub(super) fn be_above(&self, workers: Option<u8>) {
        let wanted = workers.map_or(0, |priority| (priority + 1).min(HIGHEST));
        self.wanted.fetch_max(wanted, Ordering::Relaxed);
    }

    /// Has the calling thread ask for the priority that is wanted now, if it has not asked for that yet. What it asked for last is in `asked`.
    pub(super) fn promote(&self, asked: &mut u8) -> Option<(u8, io::Result<()>)> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == *asked {
            return None;
        }
        *asked = wanted;
        Some((wanted, set_fifo(wanted)))
    }

    /// The same for the guard thread, which notes and logs what comes of it.
    pub(super) fn promote_guard(&self, asked: &mut u8) {
        self.guard.get_or_init(thread::id);
        let Some((wanted, result)) = self.promote(asked) else { return };
        match result {
            Ok(()) => {
                self.refused.store(0, Ordering::Relaxed);
                info!(
                    thread = "hertzd-guard",
                    policy = "fifo",
                    priority = wanted,
                    "the thread that has safe values written runs at real-time priority {wanted}"
                );
            }
            Err(reason) => {
                self.errno.store(reason.raw_os_error().unwrap_or(0), Ordering::Relaxed);
                self.refused.store(wanted, Ordering::Relaxed);
                let refusal = refusal(wanted, &reason);
                warn!(
                    message_id = Message::PrivilegeRefused.id(),
                    thread = "hertzd-guard",
                    "the thread that has safe values written: {refusal}"
                );
            }
        }
    }

    /// What it asked for, and has; `None`: there is no such thread.
    pub(super) fn summary(&self) -> Option<GuardSummary> {
        let guard = *self.guard.get()?;
        let asked = |priority| match priority {
            0 => ThreadPolicySummary { policy: "other", priority },
            _ => ThreadPolicySummary { policy: "fifo", priority },
        };
        // What the kernel does not say is not known to be granted.
        let granted =
            thread::scheduling_of(guard).map_or(ThreadPolicySummary { policy: "unknown", priority: 0 }, |now| {
                ThreadPolicySummary { policy: now.policy, priority: now.priority }
            });
        let reason = || io::Error::from_raw_os_error(self.errno.load(Ordering::Relaxed));
        let refused = match self.refused.load(Ordering::Relaxed) {
            0 => Vec::new(),
            priority => vec![refusal(priority, &reason()).to_string()],
        };
        Some(GuardSummary { asked: asked(self.wanted.load(Ordering::Relaxed)), granted, refused })
    }
}

fn refusal(priority: u8, reason: &io::Error) -> Refusal {
    let remedy = match reason.raw_os_error() {
        Some(libc::EPERM) => {
            format!("{}, or lower the priority of the workers", grant::remedy(Privilege::Priority(priority)))
        }
        _ => "see sched(7)".into(),
    };
    let meaning = "a worker that keeps its CPU to itself may keep it from writing safe values";
    Refusal::new(format!("fifo priority {priority}"), reason, meaning, remedy)
}
