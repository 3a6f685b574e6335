//! Work that may block, kept away from threads that must not wait for it. Off the hot thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pool` | threads for work that may hang |
//! | `queue` | jobs for these threads that must keep their order |
//! | `keeper` | one thread that looks after things that may need such work while tasks run |
//! | `watches` | paths whose changes the kernel reports |
//! | `reopen`, `backoff` | things that go away and come back, and the waits between attempts to reopen them |

mod backoff;
mod keeper;
mod pool;
mod queue;
mod reopen;
mod watches;

pub(crate) use backoff::Backoff;
pub(crate) use keeper::{Keeper, Kept};
pub(crate) use pool::Pool;
pub(crate) use queue::Queue;
pub(crate) use reopen::{Gone, Outcome, Reopen, Reopening};
pub(crate) use watches::Watch;
