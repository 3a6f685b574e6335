//! Before a start: whether the deadlines can hold, what it would open, what the kernel would grant, and which layout keeps responses lowest.
//! Nothing is changed.
//!
//! | file | what it does |
//! | --- | --- |
//! | `capacity` | whether the deadlines can hold |
//! | `layout` | which workers, CPUs and phases keep responses lowest |
//! | `look` | what a start would open |
//! | `trial`, `examination` | what the kernel would grant; what is known of the machine |

pub(super) mod capacity;
pub(super) mod examination;
pub(crate) mod layout;
pub(super) mod look;
mod trial;
