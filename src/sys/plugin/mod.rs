//! Shared libraries of users: loaded, their tables read and checked, their functions called.
//!
//! What a library says is copied once it has been checked, so that nothing of it is read later but its functions. Only
//! [`Instance::tick`] is for the hot thread: it allocates and locks nothing, and what the library does there is its own affair. No clock
//! is read. Each call of a function is [marked](super::crash), so that a crash in it names its task.

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
