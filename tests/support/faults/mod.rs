//! Faults injected into a real daemon, each with notes of when it happened.

mod agreement;
pub(crate) mod confidence;
pub(crate) mod hog;
mod kernel;
mod kernel_trace;
pub(crate) mod kind;
pub(crate) mod scenario;
mod ticks;
pub(crate) mod truth;
