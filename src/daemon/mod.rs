//! The wiring: a set of workers and tasks is started, watched, changed, stopped and summed up.
//!
//! | folder or file | what it does |
//! | --- | --- |
//! | `main/` | main: an event loop that starts, watches, changes, answers and stops, and waits for nothing but the next event |
//! | `change/` | from the set that runs to the set that is wanted, at a start as at a reload |
//! | `watch/` | whether every worker advances, on time and on its clock |
//! | `metrics/` | the metrics thread: it takes what the workers send, counts and judges it, writes the log, and feeds the recorder and the flight recorder |
//! | `disk/` | the threads that write to the disk: recordings, and the flight recorder's file |
//! | `outputs/` | what keeps outputs safe when their tasks do not: the guard, who writes for it, and the plan for when the process is gone; what the targets hold; and what processes before this one have left |
//! | `preview/` | before a start: whether the deadlines can hold, what it would open, what the kernel would grant, and which layout keeps responses lowest |
//! | `virtual_clock/` | the same on the virtual clock: the loop that `run` uses, with tasks that compute, recordings, and models of what is measured |
//! | `plan` | from a checked configuration to what the threads are given: schedules, paces, sizes |
//! | `busy`, `patience` | warnings while another thread takes long; how long main waits for one at the end |
//! | `failure` | why nothing was run, or why a reload was refused |
//! | `embedded` | a daemon as the tests and benches of this crate run one |
//!
//! Time comes from the kernel's clocks. No task runs on these threads, and none of them is waited for by a worker.

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
