//! How a command ends: exit codes and reasons. Also parses durations on the command line.
//!
//! [`EXIT_CODES`] is the one list of exit codes: the manual page and docs/summary.md show it.

use crate::config::Problems;
use crate::escape::styled;
use crate::program;
use crate::time::Span;
use std::io;

/// It ran, but something that was asked for did not happen.
pub(in crate::cli) const UNWELL: u8 = 1;
/// The command line was wrong.
pub(in crate::cli) const USAGE: u8 = 64;
/// No daemon responds.
const UNAVAILABLE: u8 = 69;
/// A fault of the program, of a task that is allowed to end it, or of the system.
pub(in crate::cli) const INTERNAL: u8 = 70;
/// The kernel refused what `require-realtime` demands, or refused a signal.
pub(in crate::cli) const PERMISSION: u8 = 77;
/// The configuration was wrong.
pub(in crate::cli) const CONFIGURATION: u8 = 78;

/// Every exit code, and when a command ends with it.
pub(crate) const EXIT_CODES: [(u8, &str); 9] = [
    (
        0,
        "Everything that was asked for happened: the end of `--for`, or stopped by SIGINT or SIGTERM (`measure`: with a result). `status --follow` and `log --follow` end \
         with it once the daemon has ended (the former) or their lines are no longer read. Two things change no exit code: lines of the log that were lost (stderr on a full disk, `--log-format journal` without a journal), and a reader of \
         stdout that closes it early, as `head` does: it is taken to have had enough.",
    ),
    (
        UNWELL,
        "`run`, `simulate`: it ran, but a task was disabled (by an error, a panic or its `overrun-limit`), a recording lost \
         rows, blocks or ticks, or a rule of `--fail-if` was broken. The reason is on stderr, and in the summary. \
         `check`: the configuration is valid, but its deadlines cannot all hold. `plan`: no layout that was tried holds all deadlines and every `max-latency`. \
         `doctor`: something that is configured cannot work on this machine. \
         `measure`: it was stopped before anything was measured. \
         `safe`: not every output could be given its safe value. \
         `status`: not all is well. `report`: a rule of `--fail-if` is broken.",
    ),
    (
        USAGE,
        "The command line was wrong; `stop`: it only says how a daemon is stopped; `top` without `--once`: standard output is no terminal.",
    ),
    (
        UNAVAILABLE,
        "`status`, `top`, `reload`, `stop`, `check --against-running`, `report` without a source, `log` with `--socket`: no daemon answers at the socket, or not wholly \
         in time. `log`: there is no journal to read, or the daemon does not log there. `trace`: the same as `status`, and no daemon has \
         left a flight file.",
    ),
    (
        INTERNAL,
        "A fault: a task with `on-error = \"exit\"` failed or one with `on-overrun-limit = \"exit\"` reached its limit, a \
         thread died or did not stop in time, a reload lost the bandwidth of a worker with `require-realtime` to another \
         program, or the system refused something essential; `run`: `hertzd safe` was still carrying out the plan that an earlier \
         run had left, so start it again; `status`, `reload`, `stop`, `check --against-running`: the daemon \
         gives an answer that cannot be used or does not say whether all is well, or that names another process than the one \
         that listens at the socket; `log`: journalctl failed; `exporter`: the address is taken; `reload`: the daemon has not reloaded within `--timeout`, but still may; stdout is not read \
         for 10 s (`status`: within its 2 s).",
    ),
    (
        PERMISSION,
        "The kernel refused the policy at the start, and `require-realtime` is set; `run`: RUNTIME_DIRECTORY belongs to another user, or to a \
         daemon that runs; `status` and other commands that ask a daemon: its status socket is not for this user; `reload`: the daemon belongs to another \
         user; `safe`: the daemon that has the outputs lives; `log`: the journal shows nothing of a daemon that logs there, because its entries may not be \
         read; `trace --kernel`: the kernel's trace is not there, or may not be used; \
         `exporter`: the address is not for this user.",
    ),
    (
        CONFIGURATION,
        "The configuration is wrong, or one of its tasks cannot be built; nothing was started. `reload`: the daemon refused \
         it, and nothing was changed.",
    ),
    (
        130,
        "A second SIGINT ended the program without a summary: at once, or with outputs as soon as their safe values were written.",
    ),
    (
        143,
        "A second SIGTERM ended the program without a summary: at once, or with outputs as soon as their safe values were written.",
    ),
];

#[derive(Debug)]
pub(in crate::cli) enum Stop {
    Config(Problems),
    /// The running daemon rejected the configuration, or a plugin that it names cannot be queried for its keys.
    Refused(String),
    Permission(String),
    /// An option contradicts the configuration.
    Usage(String),
    /// No daemon responds.
    Unavailable(String),
    Fault(String),
    /// It ran, but something that was asked for did not happen.
    Unwell(String),
    /// The deadlines of a configuration cannot all be met.
    TooMuch(String),
    /// No layout was found in which everything holds.
    Unplanned(String),
    /// The reader of stdout closed it.
    StdoutClosed,
    /// The reason is in the log already; this is the exit status.
    Logged(u8),
}

impl Stop {
    /// The exit status.
    pub(in crate::cli) fn code(&self) -> Option<u8> {
        match self {
            Self::Logged(code) => Some(*code),
            _ => self.said().map(|(_, code)| code),
        }
    }

    /// The reason as shown to people, and the exit status. `None` if there is nothing to report.
    pub(in crate::cli) fn text(&self, coloured: bool) -> Option<(String, u8)> {
        let (reason, code) = self.reason()?;
        let text = |coloured| match self {
            Self::Config(problems) => problems.render(coloured),
            Self::Refused(_) => reason.clone(),
            _ => format!("{}: {reason}", program::name()),
        };
        Some((styled(coloured, text), code))
    }

    /// The reason as plain text, and the exit status. `None` if there is nothing to report.
    pub(in crate::cli) fn reason(&self) -> Option<(String, u8)> {
        // Problems of a configuration quote its lines unchanged.
        let own = |(text, code)| (if matches!(self, Self::Config(_)) { text } else { program::owned(text) }, code);
        self.said().map(own)
    }

    /// The reason in this crate's own words, where the program is called hertzd.
    fn said(&self) -> Option<(String, u8)> {
        match self {
            Self::Config(problems) => Some((problems.render(false), CONFIGURATION)),
            Self::Refused(text) => Some((text.clone(), CONFIGURATION)),
            Self::Permission(text) => Some((text.clone(), PERMISSION)),
            Self::Usage(text) => Some((text.clone(), USAGE)),
            Self::Unavailable(text) => Some((text.clone(), UNAVAILABLE)),
            Self::Fault(text) => Some((text.clone(), INTERNAL)),
            Self::Unwell(text) => Some((format!("not well: {text}"), UNWELL)),
            Self::TooMuch(text) => Some((format!("the deadlines cannot all hold: {text}"), UNWELL)),
            Self::Unplanned(text) => Some((text.clone(), UNWELL)),
            Self::StdoutClosed | Self::Logged(_) => None,
        }
    }
}

impl From<Problems> for Stop {
    fn from(problems: Problems) -> Self {
        Self::Config(problems)
    }
}

/// A summary could not be written as JSON.
impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// A write to stdout failed.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::StdoutClosed,
            _ => Self::Fault(format!("writing to stdout: {error}")),
        }
    }
}

/// The result of a command that has printed its summary, or tried to. The reason why not all is well takes precedence over a closed stdout.
pub(in crate::cli) fn ended(printed: Result<(), Stop>, reason: Option<String>) -> Result<(), Stop> {
    match (printed, reason) {
        (Ok(()) | Err(Stop::StdoutClosed), Some(reason)) => Err(Stop::Unwell(reason)),
        (printed, _) => printed,
    }
}

/// Parses a duration on the command line: `10s`, `1h 30m`, `250ms`.
pub(in crate::cli) fn span(text: &str) -> Result<Span, String> {
    let length = humantime::parse_duration(text).map_err(|error| match error {
        // This message already gives examples.
        humantime::DurationError::UnknownUnit { .. } => error.to_string(),
        _ => format!("{error}; write a number with a unit, e.g. 10s or 1h"),
    })?;
    Ok(Span::from_wide(i128::try_from(length.as_nanos()).unwrap_or(i128::MAX)))
}
