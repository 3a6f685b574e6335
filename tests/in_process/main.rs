//! Daemons in this process: tests of what only their own kinds of task, or their own folders in place of those in `/`, can show.

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
