//! The `hertzd` program: hands the command line to [`hertzd::cli`].

use hertzd::cli::App;
use hertzd::config::Kinds;
use std::process::ExitCode;

fn main() -> ExitCode {
    App::new(Kinds::builtin()).main()
}
