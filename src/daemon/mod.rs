//! The wiring: starts, watches, changes and stops a set of workers and tasks, and sums up the run.
//!
//! | folder or file | what it does |
//! | --- | --- |
//! | `main/` | main's event loop: starts, watches, changes, answers and stops; waits only for the next event |
//! | `change/` | gets from the running set to the wanted set, at a start or a reload |
//! | `watch/` | checks that every worker advances, on time and on its clock |
//! | `metrics/` | the metrics thread: counts and judges the workers' records, writes the log, feeds the recorder and the flight recorder |
//! | `disk/` | the threads that write to disk: recordings, and the flight recorder's file |
//! | `outputs/` | keeps outputs safe when their tasks fail: guard, writers, safe plan, readbacks, what earlier processes left |
//! | `preview/` | before a start: can the deadlines hold, what would be opened and granted, which layout responds fastest |
//! | `virtual_clock/` | the same loop on the virtual clock, with tasks that compute, recordings, and models of measured values |
//! | `plan` | turns a checked configuration into schedules, paces and sizes for the threads |
//! | `busy`, `patience` | warnings while another thread takes long; how long main waits for a thread at the end |
//! | `failure` | why nothing was run, or why a reload was refused |
//! | `embedded` | a daemon for this crate's own tests and benches |
//!
//! Time comes from the kernel's clocks. No task runs on these threads, and no worker waits for any of them.

mod busy;
mod change;
mod disk;
mod embedded;
mod failure;
mod main;
mod metrics;
mod outputs;
mod patience;
mod plan;
mod preview;
mod virtual_clock;
mod watch;

pub(crate) use change::diff::{Change, Diff, Sections};
pub(crate) use change::digest::Keys;
pub(crate) use change::loader::Loader;
pub(crate) use disk::flight_thread::FlightOptions;
pub use embedded::{Embedded, EmbeddedRun};
pub(crate) use failure::Failure;
pub(crate) use main::connections::Progress;
pub(crate) use main::connections::{Connections, Options};
pub(crate) use main::requests::Requests;
pub(crate) use main::run::run;
pub(crate) use main::summary::RunningDaemon;
pub(crate) use outputs::left_plans::{FindPlans, LeftPlans};
pub(crate) use outputs::safe_plan::{FoundPlan, NoPlan, PlannedOutput, SafePlan};
pub(crate) use preview::capacity::{Capacity, Claim, Finding, capacities};
pub(crate) use preview::examination::{examined, service_view};
pub(crate) use preview::layout;
pub(crate) use preview::look::{Looked, look};
pub(crate) use virtual_clock::ledger::SimulatedTick;
pub(crate) use virtual_clock::models::{ModelError, Models};
pub(crate) use virtual_clock::simulate::{SimulateOptions, simulate};
pub(crate) use virtual_clock::simulate::{Simulation, highest_first_tick};
pub(crate) use virtual_clock::virtual_tasks::Graph;
