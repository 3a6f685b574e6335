//! Users' shared libraries: loads them, reads and checks their tables, calls their functions.
//!
//! A library's texts are copied once they have been checked, so later only its functions are used. Only [`Instance::tick`] is for the hot
//! thread: it neither allocates nor locks, but what the library does in it is the library's own responsibility. No clock is read. Each call
//! is [marked](super::crash), so that a crash report names the task.

mod abi;
mod instance;
pub(crate) mod libraries;
mod library;
mod table;
mod text;

pub(crate) use abi::Sample;
pub(crate) use instance::{Instance, Moment, Setting, Start};
pub(crate) use library::{Library, Refused};
pub(crate) use table::{Described, DescribedKey, KeyKind};
pub(crate) use text::kept;
