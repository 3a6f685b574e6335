//! The threads that write to disk: recordings, and the flight recorder's file.

pub(super) mod flight_thread;
pub(super) mod recorder_thread;
