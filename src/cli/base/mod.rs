//! What several commands share: the source of the configuration and its checks, finding a daemon, output, and how a command ends. No
//! command is imported here.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `app`, `named` | the program: its kinds, its configuration, its name in what is printed |
//! | `virtual_run` | runs a configuration on the virtual clock, for tests of custom daemons |
//! | `graph`, `latency` | how old the values between tasks can be, and which ages are rejected |
//! | `fail_if` | rules on the numbers of a summary |
//! | `runtime`, `runtime_lock`, `runtime_places`, `runtime_turn`, `socket` | which daemons there are, and their answers |
//! | `terminal`, `log`, `output` | text on stdout and stderr, the log, a command's output file |
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
