//! What several commands share: where the configuration comes from and what is refused in it, where a daemon is found, where text goes,
//! how a command ends. No command is imported here.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `app`, `named` | the program: its kinds, its configuration, its name in what is printed |
//! | `virtual_run` | a configuration on the virtual clock, for the tests of a daemon of one's own |
//! | `graph`, `latency` | how old what tasks take from each other can be, and what is refused of that |
//! | `fail_if` | rules on the numbers of a summary |
//! | `runtime`, `runtime_lock`, `runtime_places`, `runtime_turn`, `socket` | which daemons there are, and what one answers |
//! | `terminal`, `log`, `output` | text on stdout and stderr, the log, the file that a command writes |
//! | `stop` | how a command ends |

pub(super) mod app;
pub(super) mod fail_if;
pub(super) mod graph;
pub(super) mod latency;
pub(super) mod log;
pub(super) mod named;
pub(super) mod output;
pub(super) mod runtime;
mod runtime_lock;
pub(super) mod runtime_places;
mod runtime_turn;
pub(super) mod socket;
pub(super) mod stop;
pub(super) mod terminal;
mod virtual_run;

pub use app::App;
pub(crate) use app::SYSTEM_CONFIG;
pub(crate) use stop::EXIT_CODES;
pub use virtual_run::{VirtualCounts, VirtualRun, VirtualTick};

use stop::Stop;
