//! What keeps a target at its safe value when its task does not: who watches over it, what was written to it last, and what another process would
//! have to write. Without a lock wherever a hot thread takes part.
//!
//! The targets: files, PWM channels, GPIO lines and registers are in `kinds/output/target`, frames in `kinds/can/outgoing`, those of users' own kinds
//! in `site/guarded`. What a heartbeat switches has no safe value: `kinds/output/driven`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `guard`, `safe_write` | the safe value of one output, as other threads can write it; and how, which its kind says |
//! | `owed` | outputs that have ended without their safe value, until it is written |
//! | `planned_write` | the same, as another process can |
//! | `live` | for the kind heartbeat: which outputs put out what they are told |
//! | `settled` | reading back until a driver shows what was written |
//! | `written`, `reading` | what the target was given last, and what it is read back to hold |

mod guard;
mod live;
mod owed;
mod planned_write;
mod reading;
mod safe_write;
mod settled;
mod written;

pub(crate) use guard::{Guard, HeldFor, MadeSafe, Terms, Watched, Writing, was_replaced};
pub(crate) use live::{Live, LiveOutputs, Liveness, Named, Owing};
pub(crate) use owed::{Leave, Owed};
pub(crate) use planned_write::PlannedWrite;
pub(crate) use reading::{Lapse, ReadBack, Reading};
pub(crate) use safe_write::SafeWrite;
pub(crate) use settled::wrong_in_the_end;
pub(crate) use written::{LastWritten, SETTINGS};
