//! The command line: one file or folder per command, shared code in `base`, and the only code that talks to a terminal.
//!
//! The result of a command goes to stdout; messages about it go to stderr.

mod base;
mod check;
mod devices;
mod doctor;
#[cfg(feature = "exporter")]
mod exporter;
mod follow;
mod generate;
mod journal;
mod measure;
mod new;
mod plan;
mod report;
mod run;
mod running;
mod safe;
mod safe_anew;
mod safe_owner;
mod safe_readback;
mod safe_writes;
mod schema;
mod simulate;
mod stop_command;
#[cfg(feature = "top")]
mod top;
mod trace;

pub use base::{App, VirtualCounts, VirtualRun, VirtualTick};
pub(crate) use base::{EXIT_CODES, SYSTEM_CONFIG};

use crate::sys::{crash, secure, thread};
use app::{ConfigArg, Source};
// Commands reach these as `super::terminal`.
use base::{app, fail_if, graph, latency, log, named, output, runtime, runtime_places, socket, stop, terminal};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use stop::{Stop, USAGE, span};
use terminal::{print, print_json};

#[derive(Debug, Parser)]
#[command(
    name = "hertzd",
    version,
    about = "Runs tasks at exact rates on a pinned real-time thread and says how late every tick was.",
    arg_required_else_help = true,
    max_term_width = 80,
    after_help = "Examples:\n  \
        hertzd run --for 10s                         run the demo for ten seconds\n  \
        hertzd check my.toml && hertzd run my.toml   check it, then run it\n  \
        hertzd simulate my.toml --for 1h             an hour in seconds\n  \
        hertzd plan my.toml                          workers, CPUs and phases\n  \
        hertzd measure                               how punctual is this machine?\n\n\
        Without CONFIG, /etc/hertzd/hertzd.toml is used, or the embedded demo if \
        that is missing. Exit codes: 0 everything that was asked for happened; 1 it \
        ran, but not all is well; 64 wrong usage; 69 no daemon answers; 70 a fault; \
        77 refused by the kernel; 78 wrong configuration. hertzd(8) says more. \
        HERTZD_LOG or --log-level sets how much is logged: error, warn, info, debug, \
        trace."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the tasks until Ctrl-C, SIGTERM or the end of --for
    Run(run::RunArgs),
    /// Check a configuration, and whether its tasks can hold their deadlines
    Check(check::CheckArgs),
    /// Find what keeps the tasks from being on time here, and the line that mends it
    Doctor(doctor::DoctorArgs),
    /// Run the same loop on a virtual clock: every tick to the nanosecond, an hour in seconds
    Simulate(simulate::SimulateArgs),
    /// Print the configuration with the workers, CPUs and phases that keep responses lowest
    Plan(plan::PlanArgs),
    /// Measure how punctual this machine is: sleeps, ticks, holes; which CPU, which spin tail, which rate
    Measure(measure::MeasureArgs),
    /// Show how the running daemon is doing
    Status(running::StatusArgs),
    /// Show the daemon's entries in the journal: when, which task, why, and what happened
    Log(journal::LogArgs),
    /// Watch the running daemon: rates, lateness, misses and their causes, live
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    /// Make the running daemon read its configuration again, and print the outcome
    Reload(running::ReloadArgs),
    /// Write the safe values of outputs whose daemon was killed
    Safe(safe::SafeArgs),
    /// Make a Perfetto trace of the latest ticks: a track per worker and task, misses with their cause
    Trace(trace::TraceArgs),
    /// Make a page of HTML: verdict, histograms, lateness over time, causes, the worst misses
    Report(report::ReportArgs),
    /// Serve the running daemon's numbers to Prometheus
    #[cfg(feature = "exporter")]
    Exporter(exporter::ExporterArgs),
    /// List the sensors, buses, GPIO lines, PWM chips, CAN interfaces, sound cards and cameras of this machine, ready to paste
    Devices(devices::DevicesArgs),
    /// Print the JSON schema of the configuration, for editors
    Schema(schema::SchemaArgs),
    /// Make a project of your own in Rust: a daemon with its own kind of task, its test, service and package
    New(new::NewArgs),
    /// Say how the running daemon is stopped: by a signal
    Stop(stop_command::StopArgs),
    /// Print the version
    Version,
    /// Write the manual pages and shell completions into a folder, for packages
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
}

impl App {
    /// Parses the arguments of this process.
    fn command_line(&self) -> Result<CommandLine, clap::Error> {
        let mut command = named::called_by_its_name(CommandLine::command());
        let read = command.try_get_matches_from_mut(std::env::args_os());
        read.and_then(|found| CommandLine::from_arg_matches(&found)).map_err(|error| error.format(&mut command))
    }

    /// Runs the command line of this process, and returns the exit status.
    pub fn main(self) -> ExitCode {
        secure::keep_out_code_of_the_environment();
        // First, before anything that may take time: a reload requested before the handlers exist would end the process.
        let held = thread::hold_reload().ok();
        self.introduce();
        crash::install_all();
        let line = match self.command_line() {
            Ok(line) => line,
            Err(error) => {
                // clap reports help and version as errors too.
                if error.kind() == ErrorKind::DisplayVersion {
                    let printed = print(&(self.version_line() + "\n"));
                    return printed.map_or_else(|stop| terminal::report(&stop), |()| ExitCode::SUCCESS);
                }
                terminal::report_usage(&error);
                return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
            }
        };
        let held = held.filter(|_| matches!(line.command, Command::Run(_)));
        let done = match line.command {
            Command::Run(args) => run::run(self, args, held),
            Command::Check(args) => check::check(&self, &args),
            Command::Doctor(args) => doctor::doctor(&self, &args),
            Command::Simulate(args) => simulate::simulate(&self, &args),
            Command::Plan(args) => plan::plan(&self, &args),
            Command::Measure(args) => measure::measure(&args),
            Command::Status(args) if args.follow => follow::follow(&args.socket),
            Command::Status(args) => running::status(&args),
            Command::Log(args) => journal::log(&args),
            #[cfg(feature = "top")]
            Command::Top(args) => top::top(&args),
            Command::Reload(args) => running::reload(&args),
            Command::Safe(args) => safe::safe(&self, &args),
            Command::Trace(args) => trace::trace(&args),
            Command::Report(args) => report::report(&args),
            #[cfg(feature = "exporter")]
            Command::Exporter(args) => exporter::exporter(&args),
            Command::Devices(args) => devices::devices(&self, &args),
            Command::Schema(args) => schema::schema(&self.kinds, &args),
            Command::New(args) => new::new(&args),
            Command::Stop(args) => stop_command::stop(&args),
            Command::Version => print(&(self.version_line() + "\n")),
            Command::Generate(args) => {
                generate::generate(&self, &named::called_by_its_name(CommandLine::command()), &args)
            }
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(stop) => terminal::report(&stop),
        }
    }
}
