//! Work that may block, away from those who must not wait for it. Off the hot thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pool` | threads for work that may hang |
//! | `queue` | work of theirs that has an order |

mod pool;
mod queue;

pub(crate) use pool::Pool;
pub(crate) use queue::Queue;
