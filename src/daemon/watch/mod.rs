//! Checks that every worker advances, on time and on its clock.
//!
//! | file | what it does |
//! | --- | --- |
//! | `notices` | checks all workers, and reports to the service manager, its watchdog and the log |
//! | `stall` | whether a worker advances, and which task is to blame if not |
//! | `clock` | how far a worker's clock is ahead of the monotonic clock, and when it was stepped |
//! | `cpu_limit` | which worker has used its CPU for too long without sleeping |
//! | `meter` | a worker's current CPU share |

pub(super) mod clock;
pub(super) mod cpu_limit;
pub(super) mod meter;
pub(super) mod notices;
pub(super) mod stall;
