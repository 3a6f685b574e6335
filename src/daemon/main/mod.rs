//! Main: an event loop that starts, watches, changes, answers and stops. It waits only for the next event.
//!
//! | file | what it does |
//! | --- | --- |
//! | `run`, `connections` | the loop; what it is connected to |
//! | `requests`, `reloads` | requests to main; the results of reloads |
//! | `present`, `summary`, `condition` | the current state of the running set, for readers |
//! | `status_socket`, `clients` | serves that state, and limits its readers |
//! | `ending`, `finish` | how a run ends, and its numbers |
//! | `crash_report` | the last steps after a crash of hertzd or a user's library, or after a crash signal from outside |

mod clients;
mod condition;
pub(super) mod connections;
mod crash_report;
mod ending;
pub(super) mod finish;
mod present;
mod reloads;
pub(super) mod requests;
pub(super) mod run;
mod status_socket;
pub(super) mod summary;
