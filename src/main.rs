//! The `hertzd` program: hands the command line to [`hertzd::cli`].

use hertzd::cli::App;
use hertzd::config::Kinds;
use std::process::ExitCode;

/// With musl, whose own allocator keeps returning memory to the kernel and thereby interrupts the real-time threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: hertzd::Arena = hertzd::Arena::new();

fn main() -> ExitCode {
    App::new(Kinds::builtin()).main()
}
