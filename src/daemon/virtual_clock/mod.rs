//! Simulation on the virtual clock: the loop of `run`, with tasks that compute, recordings, and models of measured values.
//!
//! | file | what it does |
//! | --- | --- |
//! | `simulate`, `ledger` | the run; where its records are counted |
//! | `virtual_tasks`, `plant` | stand-ins for tasks; a first- or second-order process |
//! | `models` | how late sleeps end, and how long ticks run |

pub(super) mod ledger;
pub(super) mod models;
mod plant;
pub(super) mod simulate;
pub(super) mod virtual_tasks;
