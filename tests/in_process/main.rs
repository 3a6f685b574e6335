//! Daemons in this process: tests of what only their own kinds of task, or their own folders in place of those in `/`, can show.

#[path = "../desk/mod.rs"]
mod desk;
#[path = "../program/mod.rs"]
mod program;
#[path = "../random/mod.rs"]
mod random;

mod chains;
mod closed_loops;
mod links;
mod outputs;
mod own_faults;
mod own_output;
mod own_parts;
mod reopened_devices;
mod two_daemons;
