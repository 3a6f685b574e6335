//! The command line: one file per command, and the only code that talks to a terminal.
//!
//! What a command was asked for goes to stdout; what is said about it goes to stderr.

mod check;

mod devices;

mod generate;

mod log;

mod run;

mod running;

mod schema;

mod simulate;

use crate::config::Kinds;
use crate::config::{Config, Facts, Problems};
use crate::sys::host::{Host, cpu_set_size};
use crate::time::Span;
use clap::{Args, Parser, Subcommand};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the configuration is looked for when none is named.
pub const SYSTEM_CONFIG: &str = "/etc/hertzd/hertzd.toml";

/// Where the drop-ins to it are.
const SYSTEM_DROPINS: &str = "/etc/hertzd/hertzd.d";

/// How messages call it.
const DEMO_NAME: &str = "the embedded demo";

/// What runs when there is no other configuration.
pub const DEMO_CONFIG: &str = include_str!("../../config/demo.toml");

/// The command line was wrong.
const USAGE: u8 = 64;
/// A fault of the program, of a task that may end it, or of the system.
const INTERNAL: u8 = 70;
/// The kernel refused what `require-realtime` asks for.
const PERMISSION: u8 = 77;
/// The configuration was wrong.
const CONFIGURATION: u8 = 78;

#[derive(Debug, Parser)]
#[command(
    name = "hertzd",
    version,
    about = "Runs tasks at exact rates on a pinned real-time thread and says how late every tick was.",
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        hertzd run --for 10s                         run the demo for ten seconds\n  \
        hertzd check my.toml && hertzd run my.toml   check a configuration, then run it\n  \
        hertzd simulate my.toml --for 1h             an hour on the virtual clock, in seconds\n\n\
        Without CONFIG, /etc/hertzd/hertzd.toml is used, and the embedded demo where that is missing.\n\
        Exit status: 0; 64 wrong usage; 70 a fault or a task with on-error = \"exit\"; 77 refused by the kernel;\n\
        78 wrong configuration. HERTZD_LOG=warn (error, warn, info, debug) sets how much is logged."
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the tasks until Ctrl-C, SIGTERM or the end of --for
    Run(run::RunArgs),
    /// Check a configuration, and whether its tasks can hold their deadlines
    Check(check::CheckArgs),
    /// Run the same loop on a virtual clock: every tick to the nanosecond, an hour in seconds
    Simulate(simulate::SimulateArgs),
    /// Show how the running daemon is doing
    Status(running::StatusArgs),
    /// Let the running daemon read its configuration again, and say what came of it
    Reload(running::ReloadArgs),
    /// List what this machine offers: sensors, buses, lines, sound cards and cameras, ready to paste
    Devices(devices::DevicesArgs),
    /// Print the JSON schema of the configuration, for editors
    Schema,
    /// Write the manual pages and shell completions into a folder, for packages
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
}

#[derive(Debug, Args)]
struct ConfigArg {
    /// The configuration [default: /etc/hertzd/hertzd.toml, else the embedded demo]
    config: Option<PathBuf>,
}

/// A daemon of one's own: the full command line of hertzd over kinds of one's own.
///
/// ```no_run
/// # use hertzd::{cli::App, tasks::Kinds};
/// fn main() -> std::process::ExitCode {
///     App::new(Kinds::builtin()).main()
/// }
/// ```
#[derive(Debug)]
pub struct App {
    kinds: Kinds,
    demo: &'static str,
}

impl App {
    /// The command line of hertzd with these kinds of task.
    pub const fn new(kinds: Kinds) -> Self {
        Self { kinds, demo: DEMO_CONFIG }
    }

    /// Runs this configuration, instead of hertzd's demo, when none is named and the system has none.
    #[must_use]
    pub fn demo(self, text: &'static str) -> Self {
        Self { demo: text, ..self }
    }

    /// Does what the command line asks for; returns the exit status.
    pub fn main(self) -> ExitCode {
        let line = match Line::try_parse() {
            Ok(line) => line,
            Err(error) => {
                // Help and version come this way too, and are no errors.
                let _ = error.print();
                return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
            }
        };
        let done = match line.command {
            Command::Run(args) => run::run(&self, &args),
            Command::Check(args) => check::check(&self, &args),
            Command::Simulate(args) => simulate::simulate(&self, &args),
            Command::Status(args) => running::status(&args),
            Command::Reload(args) => running::reload(&args),
            Command::Devices(args) => devices::devices(&self, &args),
            Command::Schema => schema::schema(&self.kinds),
            Command::Generate(args) => generate::generate(&self, &args),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(stop) => stop.tell(),
        }
    }

    /// Reads a configuration.
    fn load(&self, source: &Source) -> Result<Config, Problems> {
        let host = Host::read();
        let facts = Facts { online_cpus: host.online_cpus, cpu_set_size: cpu_set_size() };
        match source {
            Source::File(path) => Config::load(path, &self.kinds, &facts),
            Source::Demo => Config::parse(self.demo, DEMO_NAME, &self.kinds, &facts),
        }
    }
}

/// Where the configuration comes from. Decided once: a daemon whose file has gone does not reload the demo instead.
#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Demo,
}

impl Source {
    /// The one that is meant.
    fn of(arg: &ConfigArg) -> Self {
        // What cannot be looked at is there; and with a folder of drop-ins the file is missed, not absent. Then an error
        // is better than the demo.
        let is_there = |path: &&str| Path::new(path).try_exists().unwrap_or(true);
        match &arg.config {
            Some(path) => Self::File(path.clone()),
            None if [SYSTEM_CONFIG, SYSTEM_DROPINS].iter().any(is_there) => Self::File(SYSTEM_CONFIG.into()),
            None => Self::Demo,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Demo => write!(f, "{DEMO_NAME} (there is no {SYSTEM_CONFIG})"),
        }
    }
}

/// Whether a stream gets colours: it is a terminal, and nobody has asked for none (no-color.org).
fn coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|asked| asked.is_empty())
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
enum Stop {
    Config(Problems),
    /// The running daemon did not take the configuration.
    Refused(String),
    Permission(String),
    Fault(String),
    /// Whoever reads stdout has gone: there is nobody left to tell.
    NobodyReads,
    /// The log has told why; this is the exit status.
    Told(u8),
}

impl Stop {
    fn tell(self) -> ExitCode {
        let mut stderr = io::stderr();
        let (text, code) = match self {
            Self::Config(problems) => (problems.render(coloured(&stderr)), CONFIGURATION),
            Self::Refused(text) => (text, CONFIGURATION),
            Self::Permission(text) => (format!("hertzd: {text}"), PERMISSION),
            Self::Fault(text) => (format!("hertzd: {text}"), INTERNAL),
            Self::NobodyReads => return ExitCode::SUCCESS,
            Self::Told(code) => return ExitCode::from(code),
        };
        let _ = writeln!(stderr, "{text}");
        ExitCode::from(code)
    }

    /// The reason as plain text, and the exit status, for telling it elsewhere; `None` where there is nothing to tell.
    fn reason(&self) -> Option<(String, u8)> {
        match self {
            Self::Config(problems) => Some((problems.render(false), CONFIGURATION)),
            Self::Refused(text) => Some((text.clone(), CONFIGURATION)),
            Self::Permission(text) => Some((text.clone(), PERMISSION)),
            Self::Fault(text) => Some((text.clone(), INTERNAL)),
            Self::NobodyReads | Self::Told(_) => None,
        }
    }
}

impl From<Problems> for Stop {
    fn from(problems: Problems) -> Self {
        Self::Config(problems)
    }
}

/// A write to stdout failed.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Fault(format!("writing to stdout: {error}")),
        }
    }
}

fn print(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// A length of time on the command line: `10s`, `1h 30m`, `250ms`.
fn span(text: &str) -> Result<Span, String> {
    let length = humantime::parse_duration(text).map_err(|error| format!("{error}; write a unit, e.g. 10s or 1h"))?;
    Ok(Span::from_wide(i128::try_from(length.as_nanos()).unwrap_or(i128::MAX)))
}
