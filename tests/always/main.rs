//! Tests whose outcome depends only on the sources: on what they read, compute, document and simulate. Time is an argument here, or comes
//! from the virtual clock.

#[path = "../support/desk.rs"]
mod desk;
#[path = "../support/imports/mod.rs"]
mod imports;
#[path = "../support/on_virtual_clock.rs"]
mod on_virtual_clock;
#[cfg(feature = "top")]
#[path = "../support/pendulum_example.rs"]
mod pendulum_example;
#[cfg(feature = "top")]
#[path = "../../examples/pendulum/physics.rs"]
#[allow(dead_code, reason = "the example uses more of it")]
mod physics;
#[path = "../support/program/mod.rs"]
mod program;
#[path = "../support/random.rs"]
mod random;
#[cfg(feature = "top")]
#[path = "../../examples/pendulum/row.rs"]
#[allow(dead_code, reason = "the example uses more of it")]
mod row;

mod cookbook;
mod crossed;
mod docs;
mod fixed_step;
mod loops;
mod models;
#[cfg(feature = "top")]
mod pendulum;
mod plan;
mod plan_against_check;
mod public;
mod rooms;
mod simulate;
mod wrong_graphs;
