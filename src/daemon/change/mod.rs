//! From the set that runs to the set that is wanted, at a start as at a reload.
//!
//! | file | what it does |
//! | --- | --- |
//! | `builder`, `builder_loop`, `loader`, `assemble`, `prepared` | the thread that does what may block: reads the configuration, opens devices, starts workers; what it hands to main |
//! | `diff`, `digest` | what differs |
//! | `running_set`, `running` | main's steps from one set to the other; the set that runs |
//! | `joints` | the links between tasks, of which one takes the values of the other |
//! | `grants` | what a worker's thread was granted and refused |
//! | `cpu_places`, `cool_cpus` | which CPUs are for whom |
//! | `spare_descriptors` | whether descriptors are left for what comes |

pub(super) mod assemble;
pub(super) mod builder;
pub(super) mod builder_loop;
pub(super) mod cool_cpus;
pub(super) mod cpu_places;
pub(super) mod diff;
pub(super) mod digest;
pub(super) mod grants;
pub(super) mod joints;
pub(super) mod loader;
pub(super) mod prepared;
pub(super) mod running;
pub(super) mod running_set;
mod spare_descriptors;
