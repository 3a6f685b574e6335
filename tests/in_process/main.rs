//! Daemons in this process: tests that need their own kinds of task, or their own folders in place of those in `/`.

#[path = "../support/desk.rs"]
mod desk;
#[path = "../support/program/mod.rs"]
mod program;

mod chains;
mod closed_loops;
mod links;
mod outputs;
mod own_faults;
mod own_output;
mod own_parts;
mod reopened_devices;
mod two_daemons;
