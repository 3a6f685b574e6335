//! Keeps outputs safe when their tasks cannot: the guard and its writers, the plan for after the process is gone, readbacks of the targets,
//! and what earlier processes left.
//!
//! | file | what it does |
//! | --- | --- |
//! | `guard_thread`, `guard_look` | detects tasks that have stopped ticking, and gets their safe values written |
//! | `guard_grant` | the real-time priority of these threads |
//! | `safe_writers` | the threads that write; one is always free |
//! | `safe_orders` | requests to the guard from other threads |
//! | `held_output` | shows in the summary that the guard holds an output |
//! | `safe_plan`, `plan_file` | what another process has to write if this one no longer can |
//! | `left_plans`, `left_outputs`, `left_output`, `left_own` | outputs that earlier processes left without their safe values, found by their plans |
//! | `left_meanwhile` | writes their safe values while devices are opened |
//! | `readbacks`, `readback_record` | compares what the targets hold with what was written |

pub(super) mod guard_grant;
mod guard_look;
pub(super) mod guard_thread;
mod held_output;
pub(super) mod left_meanwhile;
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
