//! Work that may block, away from those who must not wait for it. Off the hot thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pool` | threads for work that may hang, of which one is always free |

mod pool;

pub(crate) use pool::SpareThreads;
