//! Questions before a start: can the deadlines hold, what would be opened, what would the kernel grant, and which layout keeps responses
//! lowest? Changes nothing.
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
