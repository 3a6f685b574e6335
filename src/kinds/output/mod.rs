//! The kind `output`: writes one value to a device, or to any file, and leaves it in a safe state.
//!
//! | file | contents |
//! | --- | --- |
//! | `keys`, `named`, `settings` | from a section to settings |
//! | `take`, `safe`, `open`, `begin` | from settings to a task: take the target, determine its safe state, set up its guard, make the first writes |
//! | `look` | a preview of the same; changes nothing |
//! | `task` | the task |
//! | `desk` | its replacement on the virtual clock |
//! | `held`, `identity` | which output has a target, and the handover to an output that has exactly the same one |
//! | `law` | the value at each tick, and when the output is safe; pure |
//! | `place`, `target` | the target: as named in the section, and as found |
//! | `target/files`, `target/pwm`, `target/line`, `target/register` | a file, a PWM channel, a GPIO line, a register |
//! | `target/means` | what these four have in common |
//! | `target/make`, `target/left` | creating a missing regular file; what an earlier process left behind |
//! | `setting`, `target/effect`, `fan` | files beside a target that decide what effect its value has; `fan`: the two files of a fan |
//! | `port`, `safe_writer` | a target's open files: the task's, and those that others make it safe with |
//! | `digits`, `put`, `text` | formats numbers as text, writes text to a file, reads it back |
//! | `driven` | for the kind heartbeat: a target that is switched on and off and has no safe value |
//! | `reopen` | a target that goes away and comes back |
//! | `readback` | compares what the target holds with what was last written |
//! | `left_writes` | safe values left by an earlier process |
//! | `planned` | the safe value, as other threads and processes write it and read it back |
//!
//! Time comes with the ticks. A tick allocates nothing. A write takes one system call, up to three for a regular file, and more when settings
//! have to be written too. It blocks for as long as the file's driver takes: put slow outputs on a worker of their own. Opening, and writing
//! the safe value from other threads, may block.

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
pub(crate) use left_writes::{LeftWrite, LeftWrites, UnderWay};
pub(super) use list::list;
pub(super) use named::SWITCH_KEYS;
pub(crate) use planned::{MadeWrite, PassedOver, is_left_to_another, once_more};
pub(crate) use reopen::Reopened;
