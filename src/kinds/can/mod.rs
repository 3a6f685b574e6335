//! The kind `can`: signals in the frames of a CAN bus, received or sent.
//!
//! | file | contents |
//! | --- | --- |
//! | `keys`, `table_keys`, `tables`, `settings` | from a section to settings to a task; pure |
//! | `signal` | a number in the data of a frame; pure |
//! | `latest` | the newest frame of each id, and its maximum age; pure |
//! | `bus` | an open interface |
//! | `adapter` | the hardware of an interface |
//! | `interface` | finds the interface of a task's bus, under any name |
//! | `receive`, `send` | the tasks |
//! | `outgoing` | one frame that is sent, with its safe values |
//! | `desk` | replaces a sending task on the virtual clock and in a shadow run |
//! | `list` | the interfaces of this machine |
//!
//! Time comes with the ticks. A tick allocates nothing and never waits: it takes what the sockets have, and no more. Opening, and sending
//! the safe values from other threads, may block.

mod adapter;
mod bus;
mod desk;
mod interface;
mod keys;
mod latest;
mod list;
mod outgoing;
mod receive;
mod send;
mod settings;
mod signal;
mod table_keys;
mod tables;

#[cfg(test)]
mod tests;

pub(super) use adapter::{find_interface, interfaces_of, is_same_adapter};
pub(super) use keys::kind;
pub(super) use list::list;
pub(crate) use send::sends;
