//! `hertzd log`: the daemon's log entries from the journal. Reads them through journalctl, and blocks.

use super::Stop;
use super::socket::{SocketArg, fetch};
use super::terminal::{Shown, note};
use crate::log::LATE_CHAIN;
use crate::metrics::Cause;
use crate::program;
use crate::views::{self, Widths};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

/// systemd's own journal reader.
const READER: &str = "journalctl";

/// How many entries are shown if neither a number nor a start time is given.
const LINES: usize = 100;

/// Maximum length of an entry, as journalctl prints it.
const LONGEST: u64 = 4 << 20;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd log                               the latest 100 entries\n  \
    hertzd log --since 10m --cause blocked   what was blocked in ten minutes\n  \
    hertzd log --task imu --follow           go on with what comes\n\n\
    Each line: when (UTC), the task, the cause of most of what it missed, and \
    what happened. Only root and members of systemd-journal and adm can read \
    the journal of the service. Without a journal this says where the log goes \
    instead, and exits with 69.")]
pub(super) struct LogArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Only entries about this task
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Only entries that count this cause among others
    #[arg(long, value_name = "CAUSE", value_parser = PossibleValuesParser::new(Cause::ALL.map(Cause::word).into_iter().chain([LATE_CHAIN])), hide_possible_values = true)]
    cause: Option<String>,
    /// Only entries since then: 10m (ago), today, "2026-11-22 10:00", as journalctl takes it
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only the latest entries, this many [default: 100 without --since]
    #[arg(short = 'n', long, value_name = "COUNT")]
    lines: Option<usize>,
    /// Go on with entries as they come
    #[arg(short, long)]
    follow: bool,
    /// Print each entry as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn log(args: &LogArgs) -> Result<(), Stop> {
    let meant = Meant::by(&args.socket)?;
    let of = match meant.process {
        Some(process) => vec![format!("_PID={process}")],
        None => vec!["-u".into(), program::unit()],
    };
    let mut reader = match reader(args).args(of).spawn() {
        Ok(reader) => Reading(reader),
        Err(error) => return Err(no_reader(&args.socket, &error)),
    };
    let shown = show(args, &mut reader);
    if !matches!(shown, Ok(_) | Err(Stop::StdoutClosed)) || args.follow {
        return shown.map(drop);
    }
    let ended = reader.0.wait().map_err(|error| Stop::Fault(format!("waiting for {READER}: {error}")))?;
    match shown? {
        _ if !ended.success() => {
            Err(Stop::Fault(format!("{READER} could not read the journal ({ended}); it has said why")))
        }
        0 => nothing(args, &meant),
        _ => Ok(()),
    }
}

/// Whose entries to show.
struct Meant {
    /// `None`: the service's entries, which can be found without a daemon; they include those of its earlier processes.
    process: Option<u64>,
    /// Where else to look if there are none.
    elsewhere: Option<String>,
}

impl Meant {
    /// If no daemon is named, and the only one running is not the service, that one is meant if it logs to the journal.
    fn by(socket: &SocketArg) -> Result<Self, Stop> {
        if !socket.is_of_service() {
            return Ok(Self { process: Some(logging(socket)?), elsewhere: None });
        }
        let elsewhere = match socket.found() {
            Ok(only) if !only.is_of_service() => match logging(&only) {
                Ok(process) => return Ok(Self { process: Some(process), elsewhere: None }),
                Err(stop) => stop.reason().map(|(why, _)| why),
            },
            _ => Some("a daemon started by hand logs to its standard error".into()),
        };
        Ok(Self { process: None, elsewhere })
    }
}

/// The journalctl command, except for whose entries are wanted.
fn reader(args: &LogArgs) -> Command {
    let mut command = Command::new(READER);
    // --all keeps long fields, which are left out otherwise; --quiet suppresses unrelated remarks.
    command.args(["--output=json", "--all", "--quiet", "--no-pager"]).stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(since) = &args.since {
        // A duration means "this long ago"; journalctl parses everything else better.
        let ago = super::span(since).map(|ago| format!("-{}us", ago.nanos() / 1_000));
        command.arg(format!("--since={}", ago.unwrap_or_else(|_| since.clone())));
    }
    if args.follow {
        command.arg("--follow");
    }
    // journalctl counts entries before they are filtered by cause.
    if args.follow || args.cause.is_none() {
        let lines = args.lines.or((args.since.is_none()).then_some(if args.follow { 10 } else { LINES }));
        command.arg(lines.map_or("--lines=all".into(), |lines| format!("--lines={lines}")));
    }
    command.args(args.task.iter().map(|task| format!("HERTZD_TASK={task}")));
    command
}

/// Prints the entries it reads; returns their number.
fn show(args: &LogArgs, reader: &mut Reading) -> Result<usize, Stop> {
    let (mut widths, mut count) = (Widths::default(), 0);
    let mut line = |entry: &Value| match args.json {
        true => Shown::json(views::entry_json(entry, utc)),
        false => Shown::styled(|coloured| views::entry_line(entry, &mut widths, utc, coloured)),
    };
    let latest = match (args.follow, args.lines) {
        (true, _) => None,
        (false, None) => args.since.is_none().then_some(LINES),
        (false, lines) => lines,
    };
    let mut kept = VecDeque::new();
    let failed = |error: io::Error| Stop::Fault(format!("reading from {READER}: {error}"));
    for text in reader.lines() {
        let text = text.map_err(failed)?;
        let entry: Value = serde_json::from_str(&text)
            .map_err(|error| Stop::Fault(format!("cannot understand what {READER} prints: {error}")))?;
        if args.cause.as_ref().is_some_and(|cause| !views::has_cause(&entry, cause)) {
            continue;
        }
        count += 1;
        let Some(latest) = latest else {
            line(&entry).print()?;
            continue;
        };
        kept.push_back(entry);
        if kept.len() > latest {
            kept.pop_front();
        }
    }
    kept.iter().try_for_each(|entry| line(entry).print())?;
    Ok(count)
}

fn utc(micros: u64) -> String {
    humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(micros)).to_string()
}

/// The outcome if no entry was found.
fn nothing(args: &LogArgs, meant: &Meant) -> Result<(), Stop> {
    let filtered = args.task.is_some() || args.cause.is_some() || args.since.is_some();
    let process = match meant.process {
        None if args.socket.is_listened_at() => Some(logging(&args.socket)?),
        process => process,
    };
    if let Some(process) = process.filter(|_| !filtered) {
        return Err(Stop::Permission(format!(
            "process {process} logs to the journal, but no entry of it can be read: run this as root, or as a member of the \
             group systemd-journal"
        )));
    }
    let such = if filtered { " such" } else { "" };
    let whose = meant.process.map_or(program::unit(), |process| format!("process {process}"));
    let elsewhere = meant.elsewhere.as_ref().map_or_else(String::new, |elsewhere| format!("; {elsewhere}"));
    note(&format!("the journal shows no{such} entry of {whose}{elsewhere}"));
    Ok(())
}

/// The process that listens at the socket, if it logs to the journal.
///
/// # Errors
/// No daemon responds; or its log goes elsewhere, and where.
fn logging(socket: &SocketArg) -> Result<u64, Stop> {
    let snapshot: Value = serde_json::from_str(&fetch(socket)?).map_err(super::socket::not_understood)?;
    let Some(process) = snapshot["daemon"]["pid"].as_u64() else {
        return Err(Stop::Fault(format!("the daemon runs but cannot answer yet: {}; try again", snapshot["error"])));
    };
    if snapshot["journal"].is_object() {
        return Ok(process);
    }
    Err(Stop::Unavailable(format!("process {process} does not log to the journal: {}", where_it_logs(process))))
}

/// The error if there is no journal reader; says where the log is instead.
fn no_reader(socket: &SocketArg, error: &io::Error) -> Stop {
    let hint = match socket.is_listened_at().then(|| logging(socket)) {
        Some(Ok(process)) => format!("process {process} logs to the journal: install systemd's {READER}"),
        Some(Err(stop)) => stop.reason().map(|(text, _)| text).unwrap_or_default(),
        None => "without systemd hertzd logs to its standard error: look where what starts it sends that".into(),
    };
    Stop::Unavailable(format!("cannot run {READER}, which reads the journal: {error}; {hint}"))
}

/// Where the standard error of a process leads.
fn where_it_logs(process: u64) -> String {
    let path = match fs::read_link(format!("/proc/{process}/fd/2")) {
        Ok(path) => path.display().to_string(),
        Err(error) => {
            return format!(
                "its log goes to its standard error, and where that leads cannot be seen ({error}): run this as root or as its \
                 user"
            );
        }
    };
    match path.split_once(':').map_or(&*path, |(kind, _)| kind) {
        "/dev/null" => "its standard error is /dev/null, so its log is lost".into(),
        "pipe" | "socket" => "its log goes to the program that reads its standard error".into(),
        path if path.starts_with("/dev/pts/") || path.starts_with("/dev/tty") => {
            format!("its log goes to the terminal {path}")
        }
        path => format!("its log goes to {path}"),
    }
}

/// A running journalctl, ended when this is dropped.
struct Reading(Child);

impl Reading {
    fn lines(&mut self) -> impl Iterator<Item = io::Result<String>> {
        self.0.stdout.take().into_iter().flat_map(|stdout| limited_lines(BufReader::new(stdout)))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Both fail if it has already ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines without their line ends, up to the first that is too long: the journal keeps other programs' entries, of any size.
fn limited_lines(mut from: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    let mut next = move || {
        let mut line = Vec::new();
        (&mut from).take(LONGEST + 1).read_until(b'\n', &mut line)?;
        if line.len() as u64 > LONGEST {
            let text = format!("an entry is longer than {} MiB, which no hertzd logs", LONGEST >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        if line.is_empty() {
            return Ok(None);
        }
        line.pop_if(|last| *last == b'\n');
        String::from_utf8(line).map(Some).map_err(io::Error::other)
    };
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed {
            return None;
        }
        next().inspect_err(|_| failed = true).transpose()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let all = |text: &str| limited_lines(text.as_bytes()).collect::<io::Result<Vec<_>>>().ok();
        assert_eq!(all("a\n\nb"), Some(vec!["a".into(), String::new(), "b".into()]));
        let endless = BufReader::new(io::repeat(b'x'));
        let found = limited_lines(endless).map(|line| line.map_err(|error| error.to_string())).collect::<Vec<_>>();
        assert_eq!(found, [Err("an entry is longer than 4 MiB, which no hertzd logs".into())]);
    }
}
