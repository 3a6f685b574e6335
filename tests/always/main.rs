//! Tests whose outcome depends on nothing but the sources: what is read, computed, documented and simulated. Time is an argument here, or
//! that of the virtual clock. Cargo runs test programs in the order of their names, so this one comes before those that need real time.

#[path = "../cases/mod.rs"]
mod cases;
#[path = "../desk/mod.rs"]
mod desk;
#[path = "../../src/sys/emulation.rs"]
#[allow(dead_code, reason = "what is skipped is all that these tests use of it")]
mod emulation;
#[path = "../imports/mod.rs"]
mod imports;
#[path = "../on_virtual_clock/mod.rs"]
mod on_virtual_clock;
#[path = "../virtual_worker/mod.rs"]
mod virtual_worker;

mod articles;
mod config;
mod config_fuzz;
mod crossed;
mod docs;
mod fixed_step;
mod loops;
mod mean_rate;
mod models;
mod pacing_properties;
mod plan;
mod rooms;
mod schema;
mod simulate;
mod wrong_graphs;
