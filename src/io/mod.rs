//! Work that may block, away from those who must not wait for it. Off the hot thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pool` | threads for work that may hang |
//! | `queue` | work of theirs that has an order |
//! | `backoff` | how long to wait between attempts at what is away |

mod backoff;
mod pool;
mod queue;

pub(crate) use backoff::Backoff;
pub(crate) use pool::Pool;
pub(crate) use queue::Queue;
