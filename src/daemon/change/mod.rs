//! From the running set to the wanted set, at a start or a reload.
//!
//! | file | what it does |
//! | --- | --- |
//! | `builder`, `builder_loop`, `loader`, `assemble`, `prepared` | the builder thread, which may block; its result for main |
//! | `diff`, `digest` | what differs between two configurations |
//! | `running_set`, `running` | main's steps from one set to the next; the set that runs |
//! | `joints` | links between tasks that produce values and tasks that read them |
//! | `grants` | what a worker's thread was granted and refused |
//! | `cpu_places`, `cool_cpus` | which threads run on which CPUs |
//! | `spare_descriptors` | whether enough file descriptors are left |

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
