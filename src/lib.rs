//! hertzd runs tasks at exact rates on a pinned real-time Linux thread and reports how late every tick was.
//!
//! It is a program, `hertzd`, and a library for three uses:
//!
//! - **A daemon with your own kinds of task.** Implement [`Task`], add it to [`Kinds`], and pass the kinds to [`App`], which provides all
//!   of hertzd's commands.
//! - **A loop that keeps its own clock**, such as a game's: [`pacing::FixedStep`].
//! - **The arithmetic alone**: [`pacing::Rate`], [`pacing::Account`], [`pacing::Schedule`].
//!
//! The last two need only [`time`] and [`pacing`]. Build with `default-features = false` to get just these two modules, without
//! dependencies, for any operating system and for wasm. The daemon needs Linux and the feature `daemon`.
//!
//! # A daemon with its own task
//!
//! A task is a struct, whose fields are its keys in the configuration, and one function:
//!
#![cfg_attr(feature = "daemon", doc = "```no_run")]
#![cfg_attr(not(feature = "daemon"), doc = "```ignore")]
//! use hertzd::{App, Column, Kinds, Task, Tick, TickError};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields, rename_all = "kebab-case")]
//! struct Motor {
//!     setpoint: f64,
//!     gain: f64,
//!     #[serde(skip)]
//!     speed: f64,
//! }
//!
//! impl Task for Motor {
//!     fn columns(&self) -> Vec<Column> {
//!         vec![Column { name: "speed".into(), unit: "rad/s".into() }]
//!     }
//!
//!     fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
//!         self.speed += self.gain * (self.setpoint - self.speed) * tick.period.seconds();
//!         values[0] = self.speed;
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     App::new(Kinds::builtin().with::<Motor>("motor", "A simulated motor.")).main()
//! }
//! ```
//!
//! `hertzd new DIR` writes such a program as a project of its own, with a configuration, a test on the virtual clock, a service and a
//! package; `docs/own-daemon.md` explains it.
//!
//! With `kind = "motor"` in a `[task.NAME]` section, `run` ticks it, `simulate` ticks it on a virtual clock, and `check` and
//! `schema` know its keys.
//!
//! # The source
//!
//! Data flows from left to right:
//!
//! ```text
//!  hertzd.toml        main thread                one thread per worker               other threads
//! ┌───────────┐   ┌─────────────────┐   ┌─────────────────────────────────┐   ┌────────────────────────┐
//! │  config   │──▶│  kinds: tasks   │──▶│  worker: the hot loop           │   │                        │
//! │ valid, or │   │  daemon: wires  │   │    pacing   which, and when     │   │  metrics   histograms, │
//! │ refused   │   │        starts   │   │    sys      sleeps, reads clock │   │            causes,     │
//! └───────────┘   │        watches  │   │    task     does the work       │   │            events      │
//!       ▲         │        reloads  │   │    channels hand over ──────────│──▶│  recording, log, views │
//!       └─────────│        stops    │   └─────────────────────────────────┘   │            files, text │
//!         SIGHUP  └─────────────────┘     never waits, never allocates        └────────────────────────┘
//! ```
//!
//! The rooms (top-level modules) in the order of that flow. Rooms shown as links are public. `docs/architecture.md` lists which room may
//! use which.
//!
//! | room | contents |
//! | --- | --- |
//! | `atomic` | atomics for data that threads share without a lock |
//! | [`time`] | instants and spans in integer nanoseconds; the trait `Clock`, through which all code reads time |
//! | [`pacing`] | when a tick is due and how much debt is forgiven; arithmetic only |
//! | `channels` | everything that crosses from a hot thread to another: tick records, rows of values, blocks of samples, sound and pictures |
//! | `program` | the program's name, and how its messages use it |
//! | [`task`] | the contract of a task: [`Task`] and [`Tick`] |
//! | `sys` | the kernel: clocks, threads, signals, memory, devices; the only room with `unsafe` |
//! | [`config`] | from TOML files to valid values, or to every problem with its line |
//! | `kinds` | what tasks do: `sensor`, `i2c`, `gpio`, `audio`, `video`, `pid`, `filter`, `profile`, `expr`, `alarm`, `output`, `heartbeat`, `can`, `process`, `load` |
//! | `site` | what a task may ask of the daemon while it is built, and what it brings: [`Site`] and [`Built`] |
//! | `io` | work that may block, on its own threads |
//! | `safety` | targets with a safe value, and who writes it when the task does not |
//! | `worker` | the hot thread: its set-up, its loop, and the exchange of its tasks on a reload |
//! | `snapshot` | the summary and the snapshot of a daemon in their JSON form, and the verdict whether all is well |
//! | `metrics` | from tick records to histograms, causes and events |
//! | `recording` | CSV, WAV and MCAP files |
//! | `flight` | the flight recorder's file: the most recent ticks in a ring |
//! | `log` | events as text, JSON or journal entries |
//! | `measure` | how punctual this machine is: sleeps, the worker's loop, holes, costs; for `hertzd measure` |
//! | `views` | the summary as a table; ticks as a Perfetto trace |
//! | `report` | a run from any source as one page of HTML |
//! | `doctor` | from facts about the machine to what keeps the configured tasks from being on time |
//! | `top` | the live view: snapshots and keys in, lines of text out |
//! | `escape` | text from outside, made safe for a terminal |
//! | `daemon` | start, supervision, reload, status socket, stop; the same on the virtual clock for `simulate` |
//! | `sim` | the virtual clock, and the scripted task that replaces a real one |
//! | [`cli`] | the command line; the only code that talks to a terminal |
#![cfg_attr(
    not(feature = "daemon"),
    allow(rustdoc::broken_intra_doc_links, reason = "they lead to the daemon's rooms")
)]

#[cfg(all(target_feature = "crt-static", any(feature = "plugin", feature = "audio")))]
compile_error!(
    "a static program loads no libraries, so it has neither plugins nor audio: build it with --no-default-features --features static"
);

// Unit tests include files of integration tests, which refer to the crate by this name.
#[cfg(test)]
extern crate self as hertzd;

#[cfg_attr(
    not(feature = "daemon"),
    allow(dead_code, unused_imports, unreachable_pub, reason = "what the daemon alone uses")
)]
pub mod pacing;
#[cfg_attr(
    not(feature = "daemon"),
    allow(dead_code, unused_imports, unreachable_pub, reason = "what the daemon alone uses")
)]
pub mod time;

// The daemon: everything else.
#[cfg(feature = "daemon")]
pub(crate) mod atomic;
#[cfg(feature = "daemon")]
pub(crate) mod channels;
#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "daemon")]
#[cfg_attr(
    not(all(feature = "gpio", feature = "i2c", feature = "plugin", feature = "video")),
    allow(dead_code, unused_imports, reason = "what only the kinds use that are left out")
)]
pub mod config;
#[cfg(feature = "daemon")]
pub(crate) mod daemon;
#[cfg(feature = "daemon")]
pub(crate) mod doctor;
#[cfg(feature = "daemon")]
pub(crate) mod escape;
#[cfg(feature = "daemon")]
pub(crate) mod flight;
#[cfg(feature = "daemon")]
pub(crate) mod io;
#[cfg(feature = "daemon")]
pub(crate) mod kinds;
#[cfg(feature = "daemon")]
pub(crate) mod log;
#[cfg(feature = "daemon")]
pub(crate) mod measure;
#[cfg(feature = "daemon")]
pub(crate) mod metrics;
#[cfg(feature = "daemon")]
pub(crate) mod program;
#[cfg(test)]
#[path = "../tests/support/random.rs"]
pub(crate) mod random;
#[cfg(feature = "daemon")]
pub(crate) mod recording;
#[cfg(feature = "daemon")]
pub(crate) mod report;
#[cfg(feature = "daemon")]
pub(crate) mod safety;
#[cfg(feature = "daemon")]
pub(crate) mod sim;
#[cfg(feature = "daemon")]
pub(crate) mod site;
#[cfg(feature = "daemon")]
pub(crate) mod snapshot;
#[cfg(feature = "daemon")]
pub(crate) mod sys;
#[cfg(feature = "daemon")]
pub mod task;
#[cfg(feature = "top")]
pub(crate) mod top;
#[cfg(feature = "daemon")]
pub(crate) mod views;
#[cfg(feature = "daemon")]
pub(crate) mod worker;

#[cfg(feature = "daemon")]
pub use cli::App;
#[cfg(feature = "daemon")]
pub use config::Kinds;
#[cfg(feature = "daemon")]
pub use site::{Built, SafeOutput, Site};
#[cfg(all(feature = "daemon", any(test, target_env = "musl")))]
pub use sys::arena::Arena;
#[cfg(feature = "daemon")]
pub use task::{Column, Quality, Reason, Task, Tick, TickError};

/// Items that this crate's tests and benches use in addition to the public API. Any release may change them.
#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod internals {
    // A daemon with a test's own kinds, or one whose memory is counted.
    pub use crate::daemon::{Embedded, EmbeddedRun};
    pub use crate::snapshot::Summary;
    // The hot loop alone, for benches.
    pub use crate::channels::{EvidenceSource, TickRecord, TickSink, ticks};
    pub use crate::pacing::{sleep::Sleeps, tail::Tail};
    pub use crate::sim::{NeverPreempted, SimClock};
    pub use crate::worker::{Control, Runner, Slot, TaskSet, ThreadEvidence};
    // The clocks behind hertzd's own timestamps.
    pub use crate::sys::clock::{KernelClock, thread_cpu_time};
    pub use crate::time::clock::Clock;
    // Kernel calls that the standard library lacks.
    pub use crate::sys::lock::lock_as_hertzd;
    pub use crate::sys::thread::{pin, set_deadline, set_fifo};
}
