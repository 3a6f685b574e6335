//! The kind `can`: signals in the frames of a CAN bus, received or sent.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `keys`, `table_keys`, `tables`, `settings` | from a section to settings to a task; pure |
//! | `signal` | a number in the data of a frame; pure |
//! | `latest` | the latest frame of each id, and how old it can be; pure |
//! | `bus` | an interface that is open |
//! | `receive`, `send` | the tasks |
//! | `outgoing`, `held` | one frame that is sent, with its safe values; who sends it |
//! | `desk` | what runs in place of a task that sends on the virtual clock and in a shadow run |
//! | `list` | the interfaces that there are |
//!
//! Time comes with the ticks. A tick allocates nothing and never waits: the sockets are asked, and what is not there is not there.
//! Opening, and sending the safe values from other threads, may block.

mod bus;
mod desk;
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

pub(super) use keys::kind;
pub(super) use list::list;
pub(crate) use send::sends;
