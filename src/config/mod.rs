//! The configuration. Files are read and checked as a whole. The result is a `Config` that holds only valid values, or [`Problems`] that
//! show every fault with its line.
//!
//! ```text
//! files -> source (texts, spans) -> file (syntax, merge) -> task, worker, kinds (through Section) -> Config
//!                                                                 ^
//!                        key, keys, KIND/keys.rs ---- getters, rules, limits
//!                                                 \-- schema, manual page, docs/configuration.md
//! ```
//!
//! A [`Key`] is the only description of a key: values, range, default, rules and text.
//!
//! # Drop-ins
//!
//! hertzd reads the files `hertzd.d/*.toml` beside `hertzd.toml` in byte order of their names (`10-…` comes before `9-…`). Hidden files and
//! other extensions are ignored. Each drop-in is merged into what was read before: tables key by key; any other value, including a whole
//! list, replaces the earlier one. If a drop-in has problems, or the folder cannot be read, the whole configuration is invalid: the daemon
//! never runs half of it. See `docs/configuration.md` for more.
//!
//! Runs on the main thread or the builder, never on a hot thread, and reads no clock. It reads only the configuration files from the
//! machine; the CPUs are passed in as `Facts`.

mod blueprint;
mod choices;
mod describe;
mod error;
mod fellows;
mod file;
mod files;
mod getters;
mod graph;
mod identity;
mod input;
mod key;
mod keys;
mod kinds;
mod limits;
mod meant;
mod merge;
mod record;
mod rules;
mod schema;
mod section;
mod source;
mod stand_in;
mod taken;
mod task;
#[cfg(test)]
mod tests;
pub(crate) mod types;
mod value;
mod worker;

pub use crate::site::BuildError;
pub(crate) use blueprint::Exceptional;
pub use blueprint::{Blueprint, Preview};
pub(crate) use choices::{ClockKind, LimitAction, OnError, TakeEvidence};
pub use error::Problems;
pub(crate) use error::{Origin, Problem};
#[cfg(feature = "plugin")]
pub(crate) use file::written_at;
pub(crate) use files::base_folder;
pub(crate) use getters::NumberOrName;
pub(crate) use key::{Absent, Rule, words};
pub use key::{Key, Value};
pub(crate) use keys::{PLANT_KEYS, TASK_KEYS, TASK_SIMULATE_KEYS, WORKER_KEYS, WORKER_SIMULATE_KEYS};
pub use kinds::{Kind, Kinds};
pub(crate) use limits::refuse_value_name;
pub(crate) use meant::suggestion;
pub(crate) use record::{Conflict, RecordConfig, RecordFormat, share};
#[cfg(test)]
pub(crate) use schema::schema;
pub(crate) use schema::{Variant, schema_with};
pub use section::Section;
pub(crate) use section::is_name;
pub(crate) use stand_in::{Dynamics, Failing, PlantConfig, StandIn};
pub(crate) use taken::{Taken, Valid};
pub(crate) use types::{Config, Facts, Scheduling, Spin, TaskConfig, WorkerConfig};
pub(crate) use value::{duration_text, rate_text, size_text, written as duration_written};
