//! The wiring: a set of workers and tasks is started, watched, changed, stopped and summed up.
//!
//! | file | what it does |
//! | --- | --- |
//! | `run`, `connections` | main: an event loop that waits for nothing but the next event; what it is connected to |
//! | `ending` | the way to the end of a run: workers are stopped, hung ticks are waited for |
//! | `finish` | the end of a run: every thread comes to its end, and the numbers are summed up |
//! | `requests` | the flags by which others ask main for something |
//! | `builder`, `loader`, `assemble`, `prepared` | the thread that does what may block: reads the configuration, opens devices, starts workers; what it hands to main |
//! | `busy` | warnings while the builder takes long |
//! | `grants` | what a worker's thread was granted and refused |
//! | `diff`, `change`, `running` | what differs, and the way from the set that runs to the set that is wanted |
//! | `cpu_limit` | which worker has used its CPU for too long |
//! | `watch`, `stall` | whether every worker advances; the service manager |
//! | `clock` | how far a worker's clock is ahead of the monotonic one, and when it was stepped |
//! | `metrics_thread`, `metrics_loop`, `recorder_thread`, `tick_feed`, `tick_trace` | the threads that take what the workers send |
//! | `flight_feed`, `flight_thread` | the flight recorder: the latest ticks in a ring on the disk |
//! | `joints` | the links between tasks, of which one takes the values of the other |
//! | `alarm_log` | what alarms have to say |
//! | `witnesses`, `heartbeat`, `suspects` | evidence of why releases were missed, beside the records |
//! | `guard_thread`, `guard_grant`, `guard_look`, `safe_writers`, `spare_threads`, `safe_plan`, `plan_file`, `left_outputs`, `left_own`, `left_plans` | the safe values of outputs whose tasks have stopped, or whose process has |
//! | `crash_report` | what is left to do when hertzd or a user's library has crashed, or was sent such a signal |
//! | `readback_thread`, `readback_record` | what the targets of outputs hold, against what was written to them |
//! | `status_socket`, `summary`, `condition`, `reloads` | what others can see of it |
//! | `views`, `meter` | what main knows of the tasks and of the workers' processor time |
//! | `plan`, `simulate` | schedules; the same on the virtual clock |
//! | `layout` | which workers, CPUs and phases keep responses lowest |
//! | `virtual_tasks`, `plant` | what makes values on the virtual clock: tasks that compute, recordings, models of what is measured |
//! | `models` | what the virtual clock plays |
//! | `look` | before the start: what it would open |
//! | `capacity` | before the start: whether the deadlines can hold |
//! | `trial`, `examination` | before the start: what the kernel would grant; what is known of the machine |
//!
//! Time comes from the kernel's clocks. No task runs on these threads, and none of them is waited for by a worker.

mod alarm_log;
mod assemble;
mod builder;
mod busy;
mod capacity;
mod change;
mod clients;
mod clock;
mod condition;
mod connections;
mod cool_cpus;
mod cpu_limit;
mod cpu_places;
mod crash_report;
mod diff;
mod digest;
mod ending;
mod examination;
mod failure;
mod finish;
mod flight_feed;
mod flight_thread;
mod grants;
mod guard_grant;
mod guard_look;
mod guard_thread;
mod heartbeat;
mod held_output;
mod joints;
pub(crate) mod layout;
mod ledger;
mod left_outputs;
mod left_own;
mod left_plans;
mod loader;
mod look;
mod meter;
mod metrics_command;
mod metrics_loop;
mod metrics_thread;
mod models;
mod panic_limit;
mod patience;
mod plan;
mod plan_file;
mod plant;
mod prepared;
mod present;
mod readback_record;
mod readback_thread;
mod recorder_thread;
mod reloads;
mod requests;
mod run;
mod running;
mod safe_orders;
mod safe_plan;
mod safe_writers;
mod simulate;
mod spare_descriptors;
mod spare_threads;
mod stall;
mod status_socket;
mod summary;
mod suspects;
mod tick_feed;
mod tick_trace;
mod trial;
mod view;
mod views;
mod virtual_tasks;
mod watch;
mod witnesses;

pub(crate) use capacity::{Capacity, Finding, capacities};
pub(crate) use connections::Progress;
pub use connections::{Connections, Options};
pub(crate) use diff::{Change, Diff, Sections};
pub(crate) use digest::Keys;
pub(crate) use examination::{examined, told};
pub(crate) use failure::Failure;
pub(crate) use flight_thread::FlightOptions;
pub(crate) use ledger::SimulatedTick;
pub use loader::Loader;
pub(crate) use look::{Looked, look};
pub(crate) use models::{ModelError, Models};
pub use requests::Requests;
pub use run::run;
pub(crate) use safe_plan::{FoundPlan, NoPlan, PlannedOutput, SafePlan};
pub use simulate::{SimulateOptions, simulate};
pub(crate) use simulate::{Simulation, highest_first_tick};
pub(crate) use summary::DaemonSummary;
pub(crate) use virtual_tasks::Graph;
