//! The real-time priority of the threads that write safe values: requested above every worker, with a record of what was granted.
//!
//! Each thread asks for its own priority. The summary reads the current priority from the kernel. Nothing waits, except [`tried`].

use crate::log::Message;
use crate::snapshot::{GuardSummary, Policy};
use crate::sys::grant::{self, Privilege};
use crate::sys::thread::{self, ThreadId, helper, set_fifo};
use crate::worker::Refusal;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use tracing::{info, warn};

/// The highest priority that a thread may have.
const HIGHEST: u8 = 99;

const KEPT: &str = "a worker that keeps its CPU to itself may keep it from writing safe values";

/// What the threads ask for, and the result.
#[derive(Debug, Default)]
pub(crate) struct GuardGrant {
    workers: AtomicU8,         // highest that workers asked for; 0: none
    wanted: AtomicU8,          // 0: no worker has asked for a real-time priority
    refused: AtomicU64,        // the last refused priority and its errno, as `Refused`; 0: none
    guard: OnceLock<ThreadId>, // the guard thread
}

/// A refusal packed into one number, so that a reader always sees the reason that belongs to the priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    priority: u8,
    errno: Option<i32>,
}

impl Refused {
    fn to_number(self) -> u64 {
        let [a, b, c, d] = self.errno.unwrap_or(0).to_le_bytes();
        u64::from_le_bytes([a, b, c, d, self.priority, 0, 0, 0])
    }

    fn of_number(number: u64) -> Option<Self> {
        let [a, b, c, d, priority, ..] = number.to_le_bytes();
        let errno = Some(i32::from_le_bytes([a, b, c, d])).filter(|errno| *errno != 0);
        (priority > 0).then_some(Self { priority, errno })
    }

    fn text(self) -> String {
        let reason = self.errno.map_or_else(|| io::Error::other("for a reason unknown"), io::Error::from_raw_os_error);
        refusal(self.priority, &reason).to_string()
    }
}

impl GuardGrant {
    /// Asks for more than `workers`, the workers' highest priority. A reload that lowers it changes nothing: workers of the old set keep
    /// their priority until the reload is complete.
    pub(super) fn be_above(&self, workers: Option<u8>) {
        let wanted = workers.map_or(0, above);
        self.workers.fetch_max(workers.unwrap_or(0), Ordering::Relaxed);
        self.wanted.fetch_max(wanted, Ordering::Relaxed);
    }

    /// Makes the calling thread ask for the wanted priority, unless `asked`, its last request, is the same.
    pub(crate) fn promote(&self, asked: &mut u8) -> Option<(u8, io::Result<()>)> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == *asked {
            return None;
        }
        *asked = wanted;
        Some((wanted, set_fifo(wanted)))
    }

    /// Does the same for the guard thread, and records and logs the result.
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
                if self.workers.load(Ordering::Relaxed) >= wanted {
                    warn!(
                        thread = "hertzd-guard",
                        "the thread that has safe values written is no higher than the highest worker, which has priority {wanted} as well: \
                         {KEPT}; set the priority of every worker to 98 or lower"
                    );
                }
            }
            Err(reason) => {
                self.refused
                    .store(Refused { priority: wanted, errno: reason.raw_os_error() }.to_number(), Ordering::Relaxed);
                let refusal = refusal(wanted, &reason);
                warn!(
                    message_id = Message::PrivilegeRefused.id(),
                    thread = "hertzd-guard",
                    "the thread that has safe values written: {refusal}"
                );
            }
        }
    }

    /// What the guard thread asked for and what it has; `None`: there is no such thread.
    pub(crate) fn summary(&self) -> Option<GuardSummary> {
        let guard = *self.guard.get()?;
        let asked = |priority| match priority {
            0 => Policy { name: "other".into(), priority },
            _ => Policy { name: "fifo".into(), priority },
        };
        // If the kernel does not answer, the grant is unknown.
        let granted = thread::scheduling_of(guard).map_or(Policy { name: "unknown".into(), priority: 0 }, |now| {
            Policy { name: now.policy.into(), priority: now.priority }
        });
        let refused = Refused::of_number(self.refused.load(Ordering::Relaxed)).map(Refused::text);
        Some(GuardSummary {
            asked: asked(self.wanted.load(Ordering::Relaxed)),
            granted,
            refused: refused.into_iter().collect(),
        })
    }
}

/// The priority that the guard asks for above workers of this priority.
fn above(workers: u8) -> u8 {
    (workers + 1).min(HIGHEST)
}

/// Tests on a short-lived thread whether the kernel grants the priority the guard asks for above these workers. May block.
pub(crate) fn tried(workers: u8) -> (u8, Result<(), Refusal>) {
    let wanted = above(workers);
    let (answer, answered) = mpsc::channel();
    // If the thread ends without an answer, the receive fails, so the caller never hangs.
    let asked = helper::spawn("hertzd-guard", move || _ = answer.send(set_fifo(wanted)));
    let no_thread = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let granted = match asked {
        Ok(thread) => {
            let granted = answered.recv().map_err(|_| no_thread()).and_then(|granted| granted);
            let _ = thread.join();
            granted
        }
        Err(reason) => Err(reason),
    };
    (wanted, granted.map_err(|reason| refusal(wanted, &reason)))
}

fn refusal(priority: u8, reason: &io::Error) -> Refusal {
    let remedy = match reason.raw_os_error() {
        Some(libc::EPERM) => {
            format!("{}, or lower the priority of the workers", grant::remedy(Privilege::Priority(priority)))
        }
        _ => "see sched(7)".into(),
    };
    Refusal::new(format!("fifo priority {priority}"), reason, KEPT, remedy)
}
