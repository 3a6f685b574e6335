//! Whether every worker advances, on time and on its clock.
//!
//! | file | what it does |
//! | --- | --- |
//! | `notices` | looks at all workers, and reports to the service manager, its watchdog and the log |
//! | `stall` | whether one advances, and which task is to blame if not |
//! | `clock` | how far its clock is ahead of the monotonic one, and when it was stepped |
//! | `cpu_limit` | which has used its CPU for too long without a sleep |
//! | `meter` | the share of its CPU that it uses |

pub(super) mod clock;
pub(super) mod cpu_limit;
pub(super) mod meter;
pub(super) mod notices;
pub(super) mod stall;
