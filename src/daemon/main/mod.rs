//! Main: an event loop that starts, watches, changes, answers and stops, and waits for nothing but the next event.
//!
//! | file | what it does |
//! | --- | --- |
//! | `run`, `connections` | the loop; what it is connected to |
//! | `requests`, `reloads` | what others ask it for; what came of the reloads |
//! | `present`, `summary`, `condition` | what the set that runs shows of itself |
//! | `status_socket`, `clients` | who may see that |
//! | `ending`, `finish` | the way to the end of a run, and its numbers |
//! | `crash_report` | what is left to do when hertzd or a user's library has crashed, or was sent such a signal |

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
