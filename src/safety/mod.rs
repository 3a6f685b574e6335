//! Keeps a target at its safe value when its task does not: who watches over it, what was last written to it, and what another process
//! would have to write. Lock-free wherever a hot thread takes part.
//!
//! Targets live elsewhere: files, PWM channels, GPIO lines and registers in `kinds/output/target`, CAN frames in `kinds/can/outgoing`,
//! those of users' own kinds in `site/guarded`. Targets that a heartbeat switches have no safe value: `kinds/output/driven`.
//!
//! | file | contents |
//! | --- | --- |
//! | `guard`, `safe_write` | the safe value of one output as other threads write it, and the interface through which its kind says how |
//! | `owed` | outputs that have ended without their safe value, until it is written |
//! | `planned_write` | the safe value as another process writes it |
//! | `live` | for the kind heartbeat: which outputs follow their inputs |
//! | `settled` | reading back until a driver shows what was written |
//! | `written`, `reading` | what was last written to the target, and what it reads back |

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
