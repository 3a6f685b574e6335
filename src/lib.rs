//! hertzd runs tasks at exact rates on a pinned real-time thread and says how late every tick was.
//!
//! This page is the map of the source. The data flows from left to right:
//!
//! ```text
//!  hertzd.toml        main thread                one thread per worker               cool threads
//! ┌───────────┐   ┌─────────────────┐   ┌─────────────────────────────────┐   ┌────────────────────────┐
//! │  config   │──▶│  tasks: built   │──▶│  worker: the hot loop           │   │                        │
//! │ valid, or │   │  daemon: wires  │   │    pacing   which, and when     │   │  metrics   histograms, │
//! │ refused   │   │        starts   │   │    sys      sleeps, reads clock │   │            causes,     │
//! └───────────┘   │        watches  │   │    tasks    do the work         │   │            events      │
//!       ▲         │        reloads  │   │    tick     hands over ─────────│──▶│  outputs   log, files, │
//!       └─────────│        stops    │   └─────────────────────────────────┘   │            JSON, table │
//!         SIGHUP  └─────────────────┘     never waits, never allocates        └────────────────────────┘
//! ```
//!
//! The rooms, in the order of that flow:
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`time`] | instants and spans in integer nanoseconds; the trait [`Clock`](time::Clock) that all else reads time through |
//! | [`sys`] | the kernel: clocks, threads, signals, memory, the service manager, facts of the machine; the only room with `unsafe` |
//! | [`config`] | from TOML, drop-ins included, to values that are all valid, or every problem with its line |
//! | [`tasks`] | the trait [`Task`](tasks::Task), the registry of kinds, the kinds `sensor`, `i2c`, `gpio`, `audio`, `video` and `load` |
//! | [`pacing`] | when things run: rates, accounts, the schedule, the spin tail; arithmetic only |
//! | [`worker`] | the hot thread: its set-up, its loop, what others see of it, and the exchange of its tasks |
//! | [`tick`] | what crosses to the metrics thread: a record per tick |
//! | [`stream`] | what crosses to the recorder: a row per set of values, blocks of samples, sound and pictures |
//! | [`metrics`] | what the records add up to: histograms, causes, events, the summary |
//! | [`outputs`] | what leaves the process: the log as text, JSON or journal entries, recordings as CSV, WAV and MCAP, the table |
//! | [`daemon`] | the wiring: start in order, watch, reload, answer at the status socket, stop in reverse; the same on the virtual clock for `simulate` |
//! | [`sim`] | the virtual clock, and the scripted task that stands in for a real one |
//! | [`cli`] | the command line; the only code that talks to a terminal |
//!
//! Three ways in:
//!
//! - A daemon with tasks of one's own: implement [`Task`](tasks::Task), add it to [`Kinds`](tasks::Kinds), and hand
//!   those to [`App`](cli::App). `examples/own_task.rs` is a whole one.
//! - A loop that keeps its own clock, such as a game's: [`FixedStep`](pacing::FixedStep).
//! - The arithmetic alone: [`Rate`](pacing::Rate), [`Account`](pacing::Account), [`Schedule`](pacing::Schedule).

pub mod time;

pub(crate) mod sys;

pub mod channels;

pub mod task;

pub mod pacing;

pub mod config;

pub(crate) mod kinds;

pub(crate) mod worker;

pub(crate) mod metrics;

pub(crate) mod recording;

pub(crate) mod log;

pub(crate) mod views;

pub(crate) mod daemon;

pub(crate) mod sim;

pub mod cli;

pub use cli::App;
pub use config::Kinds;
pub use task::{Column, Task, Tick, TickError};

/// What the tests and benches of this crate reach beside the public API. Not for others: any release may change it.
#[doc(hidden)]
pub mod internals {
    pub use crate::daemon::{Options, SimulateOptions, Surroundings, run as run_daemon, simulate};
    pub use crate::kinds::sensor::{BufferSettings, ByName, SensorSettings, Source, open_under as open_sensor_under};
    #[cfg(feature = "video")]
    pub use crate::kinds::video::{cameras, modes};
    pub use crate::log::{Message, Output};
    pub use crate::metrics::{Event, Summary, TaskSummary};
    pub use crate::sim::{Scripted, SimClock};
    pub use crate::sys::clock::{KernelClock, pause, thread_cpu_time};
    pub use crate::sys::host::{Host, cpu_set_size};
    pub use crate::sys::signals::Request;
    pub use crate::sys::thread;
    pub use crate::worker::{Control, Report, Runner, Slot, TaskSet};
}
