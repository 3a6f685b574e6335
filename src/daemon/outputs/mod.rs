//! What keeps outputs safe when their tasks do not: the guard, who writes for it, and the plan for when the process is gone; what the
//! targets hold; and what processes before this one have left.
//!
//! | file | what it does |
//! | --- | --- |
//! | `guard_thread`, `guard_look` | sees which tasks of outputs have stopped ticking, and has their safe values written |
//! | `guard_grant` | the real-time priority of these threads |
//! | `safe_writers` | the threads that write, of which one is always free |
//! | `safe_orders` | what others ask of the guard |
//! | `held_output` | what the summary says of an output that the guard holds |
//! | `safe_plan`, `plan_file` | what is to be written should this process not come to it |
//! | `left_plans`, `left_outputs`, `left_output`, `left_own` | outputs that processes before this one have left without their safe values, by their plans |
//! | `readbacks`, `readback_record` | what the targets hold, against what was written to them |

pub(super) mod guard_grant;
mod guard_look;
pub(super) mod guard_thread;
mod held_output;
mod left_output;
mod left_outputs;
mod left_own;
pub(super) mod left_plans;
pub(super) mod plan_file;
mod readback_record;
mod readbacks;
mod safe_orders;
pub(super) mod safe_plan;
mod safe_writers;
