//! What the operator asked for: a file is read, judged as a whole, and becomes a [`Config`] that holds valid values
//! only, or [`Problems`] that name every fault with its line.
//!
//! ```text
//! files -> source (texts, spans) -> file (syntax, merge) -> task, worker (rules, through Section and value) -> Config
//!                                                                  keys -> schema, manual, suggestions
//! ```
//!
//! # Drop-ins
//!
//! Beside `hertzd.toml` the files `hertzd.d/*.toml` are read, in the order of their names (compared as bytes, so
//! `10-…` stands before `9-…`); hidden files and other endings are left alone. Each is merged into what came before:
//! tables key by key, so that a drop-in may change one key of a task, add a task, or bring the worker that a task
//! asks for; every other value, whole lists too, replaces the earlier one. Nothing takes a key away. So `period` cannot
//! follow a `rate` in an earlier file, nor `cpus` a `cpu`: override the same key.
//!
//! There is only this one folder. A drop-in is masked by an empty file, or a link to /dev/null, in its place under its
//! own name; a package's file cannot be masked from another folder as systemd's can. A drop-in with problems, or a
//! folder that cannot be read, is refused with all the rest: the daemon never runs on half of what was asked for.
//!
//! Runs on the main thread before anything is real-time. No clock is read, and nothing is asked of the machine but
//! the files themselves: its CPUs are handed in as [`Facts`].

mod choices;
mod describe;
mod error;
mod file;
mod files;
mod getters;
mod identity;
mod key;
mod keys;
mod kinds;
mod limits;
mod merge;
mod record;
mod rules;
mod schema;
mod section;
mod source;
mod task;
mod types;
mod value;
mod worker;

pub use choices::{ClockKind, LimitAction, OnError};
pub use error::{Origin, Problem, Problems};
pub use getters::NumberOrName;
pub use key::{Absent, Key, Needs, Rule, Value, words};
pub use keys::{TASK_KEYS, TASK_SIMULATE_KEYS, WORKER_KEYS, WORKER_SIMULATE_KEYS};
pub use kinds::{Blueprint, BuildError, Kind, Kinds, Parse};
pub use limits::refuse_value_name;
pub(crate) use record::{Conflict, share};
pub use record::{RecordConfig, RecordFormat};
pub use schema::schema;
pub use section::Section;
pub use types::{Config, Facts, OverrunLimit, Scheduling, Spin, TaskConfig, WorkerConfig};
