//! The kind `output`: writes one value to a device, or to any file, and leaves it in a safe state.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `keys`, `named`, `settings` | from a section to settings |
//! | `take`, `safe`, `open`, `begin` | from settings to a task: its target is taken; what makes it safe; what guards it; and what is written first |
//! | `look` | the same beforehand; nothing is changed |
//! | `task` | the task |
//! | `desk` | what runs in its place on the virtual clock |
//! | `held`, `identity` | who has a target, and hands it over to an output that has exactly the same one |
//! | `law` | what is put out at a tick, and when the output is safe; pure |
//! | `place`, `target` | what it writes to: named, and found |
//! | `target/files`, `target/pwm`, `target/line`, `target/register` | a file, a PWM channel, a GPIO line, a register |
//! | `target/means` | what these have in common |
//! | `target/make`, `target/left` | a regular file that is not there; what an earlier process has left |
//! | `setting`, `target/effect`, `fan` | files beside a target that give its value its effect, and what they say; the two of a fan |
//! | `port`, `safe_writer` | the open ends of that: the task's, and the one that others make it safe with |
//! | `digits`, `put`, `text` | from a number to text, from text into a file, and out of it |
//! | `driven` | for the kind heartbeat: a target that is switched on and off, and has no safe value |
//! | `reopen` | a target that goes away and comes back |
//! | `readback` | what the target holds, against what was written to it last |
//! | `left_writes` | safe values that an earlier process has left |
//! | `planned` | the safe value, as other threads and processes can write it, and read it back |
//!
//! Time comes with the ticks. A tick allocates nothing and makes one system call where something is to be written; that blocks for as
//! long as the file's driver takes, so put slow ones on a worker of their own. Opening, and writing the safe value from other
//! threads, may block.

mod begin;
mod desk;
mod digits;
mod driven;
mod fan;
mod held;
mod identity;
mod keys;
pub(super) mod law;
mod left_writes;
mod list;
mod look;
mod named;
mod open;
mod place;
mod planned;
mod port;
mod put;
mod readback;
mod reopen;
mod safe;
mod safe_writer;
mod setting;
mod settings;
mod take;
mod target;
mod task;
mod text;

pub(super) use driven::{Switch, Switched};
pub(crate) use held::Targets;
pub(super) use keys::{TAKES_OVER_WITHIN, kind, refuse_within_a_period};
pub(crate) use left_writes::{LeftWrite, LeftWrites};
pub(super) use list::list;
pub(super) use named::SWITCH_KEYS;
pub(crate) use planned::{MadeWrite, PassedOver, is_left_to_another, once_more};
pub(crate) use reopen::Reopened;
