//! Work that may block, away from those who must not wait for it. Off the hot thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pool` | threads for work that may hang |
//! | `queue` | work of theirs that has an order |
//! | `keeper` | one thread that looks after what may need such work while tasks run |
//! | `watches` | paths whose changes the kernel reports |
//! | `reopen`, `backoff` | what goes away and comes back, and how long to wait between attempts at it |

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
