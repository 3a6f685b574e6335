//! `hertzd run`: the main job.

use super::fail_if::FailIf;
use super::log::{self, Log, LogFormat, LogLevel};
use super::runtime::RuntimeDirectory;
use super::terminal::{Shown, print_json};
use super::{App, ConfigArg, Source, Stop, span, stop};
use crate::config::size_text;
use crate::daemon::{self, Connections, Failure, FlightOptions, Loader, Options, Progress, Requests};
use crate::log::LogOutput;
use crate::sys::memory::limit_arenas;
use crate::sys::signals::StopSignals;
use crate::sys::thread::{self, Held, helper};
use crate::time::Span;
use crate::views::table;
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{debug, info};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd run --for 10s               the demo for ten seconds, then a table\n  \
    hertzd run my.toml --json >x.json  until Ctrl-C; the log is on stderr\n  \
    hertzd run my.toml --for 60s --fail-if 'any.missed > 0'   in CI\n  \
    hertzd run new.toml --shadow       what it would write, beside the real one\n\n\
    A rule of --fail-if is TASK. or any. and a number of the JSON summary without \
    _ns, one of > >= < <= == != and a limit, which has a unit if it is a time: \
    'any.lateness.p99_9 > 80us', 'imu.causes.blocked > 5', or \
    'records.dropped > 0'.\n\n\
    The first Ctrl-C or SIGTERM stops each worker before its next tick, finishes \
    recordings and prints the summary; a second one ends hertzd at once. SIGHUP \
    reads the configuration again: tasks whose section is unchanged continue \
    without missing a tick.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Run exactly the releases of the first DURATION, then stop (10s, 1h 30m)
    #[arg(long = "for", value_name = "DURATION", value_parser = span, allow_hyphen_values = true)]
    length: Option<Span>,
    /// Print one JSON summary on stdout instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fail_if: FailIf,
    /// Compute, show and record everything, and write nothing to any output: to try a configuration beside the daemon that runs
    #[arg(long)]
    shadow: bool,
    /// Listen here for `hertzd status` [default: status.sock in the runtime directory]
    #[arg(long, value_name = "PATH")]
    status_socket: Option<PathBuf>,
    /// Keep the latest ticks in this many bytes of the file `flight` in the runtime directory (64 MiB), or 0 for no such file
    /// [default: two minutes, at most 16 MiB]
    #[arg(long, value_name = "SIZE", value_parser = flight_size)]
    flight: Option<u64>,
    /// How long a stop, or the end of --for, waits for a worker that does not advance; then the exit status is 70
    #[arg(long, value_name = "DURATION", value_parser = stop_timeout, default_value = "2s")]
    stop_timeout: Span,
    /// What the log looks like, and where it goes
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "auto")]
    log_format: LogFormat,
    /// How much is logged [default: $HERTZD_LOG, else info]
    #[arg(long, value_name = "LEVEL", value_enum)]
    log_level: Option<LogLevel>,
}

/// A SIGHUP `held` since the start of the process is delivered once there is a handler.
pub(super) fn run(app: App, args: RunArgs, held: Option<Held>) -> Result<(), Stop> {
    // Before there is a second thread, which would get its own arena.
    limit_arenas();
    let log = log::start(args.log_format, args.log_level)?;
    let ended = log.end(run_logged(app, args, log, held));
    // A thread that was given up because it gets no CPU time would otherwise keep the process from ending.
    thread::let_all_end();
    ended
}

fn run_logged(app: App, args: RunArgs, log: Log, held: Option<Held>) -> Result<(), Stop> {
    // First, so that a signal during the start is handled as a request like any other.
    let fault = |error| Stop::Fault(format!("handling signals: {error}"));
    let requests = requests().map_err(fault)?;
    drop(held);
    // The kernel prefers this thread for signals, and would deliver them to no other even while this one is stuck waiting for a disk.
    thread::leave_signals().map_err(fault)?;
    let on_terminal = log.progress();
    let (length, json) = (args.length, args.json);
    let mut draw = |progress: Progress| log::progress(progress, length);
    let connections = Connections {
        requests,
        output: Box::new(LogOutput),
        progress: if on_terminal { Some(&mut draw) } else { None },
    };
    let directory = RuntimeDirectory::of_this_process(args.shadow)?;
    let flight = directory.as_ref().filter(|_| args.flight != Some(0));
    let options = Options {
        length,
        status_socket: args.status_socket.clone().or_else(|| Some(directory.as_ref()?.socket())),
        status_readers: directory.as_ref().map(RuntimeDirectory::readers).unwrap_or_default(),
        flight: flight.map(|directory| FlightOptions { directory: directory.flight(), size: args.flight }),
        safe_plan: directory.as_ref().filter(|_| !args.shadow).map(RuntimeDirectory::safe_plan),
        left_plans: directory.as_ref().filter(|_| !args.shadow).map(RuntimeDirectory::left).unwrap_or_default(),
        turn: directory.as_ref().map(|directory| directory.turn.clone()).unwrap_or_default(),
        shadow: args.shadow,
        stop_timeout: args.stop_timeout,
        ..Options::default()
    };
    let app = if args.shadow { app.in_shadow() } else { app };
    let fail_if = Arc::new(args.fail_if);
    let outcome = daemon::run(loader(app, args.config, fail_if.clone()), &options, connections);
    log.settle();
    if on_terminal {
        log::clear_progress();
    }
    let mut outcome = outcome.map_err(|failure| match failure {
        Failure::Config(problems) => Stop::Config(problems),
        Failure::Usage(text) => Stop::Usage(text),
        Failure::Permission(text) => Stop::Permission(text),
        Failure::System(what, reason) => Stop::Fault(format!("{what}: {reason}")),
    })?;

    fail_if.judge(&mut outcome.summary)?;
    let printed = match json {
        true => print_json(&outcome.summary),
        false => Shown::styled(|coloured| table(&outcome.summary, coloured)).print(),
    };
    match outcome.fault {
        Some(fault) => Err(Stop::Fault(fault)),
        None => stop::ended(printed, outcome.summary.reason),
    }
}

/// Reads the configuration, on a thread that may block. The source is decided once.
fn loader(app: App, config: ConfigArg, fail_if: Arc<FailIf>) -> Loader {
    let mut source = None;
    let standard_input = config.is_standard_input();
    let load = move || -> Result<_, Failure> {
        let first = source.is_none();
        let source = source.get_or_insert_with(|| Source::of(&config));
        let config = app.load(source)?;
        if first {
            fail_if.check(&config).map_err(Failure::Usage)?;
            info!(tasks = config.tasks.len(), workers = config.workers.len(), "the configuration is {source}");
        }
        Ok(config)
    };
    if standard_input { Loader::once(load) } else { Loader::new(load) }
}

fn stop_timeout(text: &str) -> Result<Span, String> {
    let timeout = span(text)?;
    let least = Span::from_millis(100); // a healthy worker needs some milliseconds
    if timeout >= least { Ok(timeout) } else { Err(format!("must be at least {least}")) }
}

/// Parses a number of bytes; zero for no flight file.
fn flight_size(text: &str) -> Result<u64, String> {
    if text.trim() == "0" {
        return Ok(0);
    }
    let least = 64 << 10; // a few hundred ticks; less would be useless
    match size_text(text.trim())? {
        bytes if bytes > crate::flight::LONGEST => Err("must be at most 1 GiB".into()),
        bytes if bytes >= least => Ok(bytes),
        _ => Err("must be at least 64 KiB, or 0 for no such file".into()),
    }
}

/// Turns signals into requests, on its own thread.
fn requests() -> io::Result<Requests> {
    let mut signals = StopSignals::install()?;
    let requests = Requests::default();
    let asking = requests.clone();
    let wait = move || {
        if let Err(error) = thread::take_signals() {
            panic!("unblocking signals: {error}");
        }
        while let Some(request) = signals.wait() {
            asking.ask(request);
            debug!("a signal asks for: {request:?}");
        }
    };
    helper::spawn("hertzd-signals", wait)?;
    Ok(requests)
}
