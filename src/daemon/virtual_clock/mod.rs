//! The same on the virtual clock: the loop that `run` uses, with tasks that compute, recordings, and models of what is measured.
//!
//! | file | what it does |
//! | --- | --- |
//! | `simulate`, `ledger` | the run; where its records are counted |
//! | `virtual_tasks`, `plant` | what runs in place of a task; a process of first or second order |
//! | `models` | how late sleeps end, and how long ticks run |

pub(super) mod ledger;
pub(super) mod models;
mod plant;
pub(super) mod simulate;
pub(super) mod virtual_tasks;
