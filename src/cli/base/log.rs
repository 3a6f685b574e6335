//! Where the log goes: lines or JSON on stderr, or the journal; on a terminal also one progress line below the log.

use super::Stop;
use super::terminal::{stderr_is_coloured, stderr_is_terminal};
use crate::daemon::Progress;
use crate::escape::visible;
use crate::log::journal::{self, JournalLayer};
use crate::log::{Entry, JsonLayer, lines};
use crate::program;
use crate::sys::fd::{columns, writable, write_within};
use crate::time::Span;
use clap::ValueEnum;
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use tracing::Level;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// What the log is to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum LogFormat {
    /// The journal where stderr leads to it, otherwise text
    Auto,
    /// Lines on stderr, for people
    Text,
    /// One JSON object per line on stderr
    Json,
    /// The journal's own protocol, with every value in a field of its own
    Journal,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum LogLevel {
    /// What ends or harms the run
    Error,
    /// Missed ticks, failures, refusals too
    Warn,
    /// Starts, stops, reloads too
    Info,
    /// What the cool threads do too: files, devices, sets of tasks
    Debug,
    /// Every tick too, with its numbers; records of fast tasks may be dropped, and are counted
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// How long the end of a run waits for the log's destination.
const LAST_PATIENCE: Span = Span::from_seconds(1);

/// How long the log's thread waits for a reader before it waits again.
const HOUR: Span = Span::from_seconds(3_600);

/// stderr, shared by the thread that writes the log and the one that draws the progress line. `None` if its descriptor could not be
/// duplicated. std's handle is not used, because waiting for its lock has no limit.
static STDERR: LazyLock<Mutex<Option<File>>> =
    LazyLock::new(|| Mutex::new(io::stderr().as_fd().try_clone_to_owned().map(File::from).ok()));

/// stderr, if no other thread is writing to it.
fn idle_stderr() -> Option<MutexGuard<'static, Option<File>>> {
    match STDERR.try_lock() {
        Ok(stderr) => Some(stderr),
        Err(TryLockError::Poisoned(stderr)) => Some(stderr.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The log thread's sink: writes whole lines to stderr, over the progress line if there is one.
struct Stderr {
    over_progress: bool,
}

impl lines::Write for Stderr {
    fn wait(&mut self) {
        // Waits while a pipe is not read, or a terminal is paused with Ctrl-S.
        while STDERR
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(|stderr| !writable(stderr, HOUR))
        {}
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut stderr = STDERR.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stderr) = stderr.as_mut() else { return Ok(()) };
        if self.over_progress {
            stderr.write_all(CLEAR.as_bytes())?;
        }
        write_within(stderr, line, HOUR).map(drop)
    }
}

/// Passes a line to the log's thread.
#[derive(Clone, Copy, Debug)]
struct Given;

impl Write for Given {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        lines::give(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Given {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        *self
    }
}

/// Formats a line for people: without the message id, and without characters that would command a terminal. The layer adds colours around
/// it.
struct WithoutIds;

impl<'w> FormatFields<'w> for WithoutIds {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = SkipIds(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

struct SkipIds<'w>(DefaultVisitor<'w>);

impl Visit for SkipIds<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message_id" => {}
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let said = format!("{value:?}");
        let said = if field.name() == "message" { program::own(&said) } else { Cow::Borrowed(&*said) };
        self.0.record_debug(field, &format_args!("{}", visible(&said)));
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Log {
    kind: Kind,
    progress: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Json,
    Journal(JournalLayer),
}

/// Starts logging at this level. `None`: as set in `HERTZD_LOG`, which holds a level or `target=level` pairs; `info` by default.
pub(in crate::cli) fn start(format: LogFormat, level: Option<LogLevel>) -> Result<Log, Stop> {
    let kind = match format {
        LogFormat::Text => Kind::Text,
        LogFormat::Json => Kind::Json,
        LogFormat::Journal => {
            let layer = journal::layer().map_err(|error| Stop::Fault(format!("opening the journal: {error}")))?;
            if !journal::present() {
                let path = journal::SOCKET;
                last_line(&format!(
                    "{}: no journal at {path}; entries wait in memory until there is one\n",
                    program::name()
                ));
            }
            Kind::Journal(layer)
        }
        LogFormat::Auto if journal::stderr_leads_there() => journal::layer().map_or(Kind::Text, Kind::Journal),
        LogFormat::Auto => Kind::Text,
    };
    // A progress line between JSON objects would be one more thing to parse.
    let progress = stderr_is_terminal() && !matches!(kind, Kind::Json);

    let asked = if level.is_some() { String::new() } else { std::env::var("HERTZD_LOG").unwrap_or_default() };
    // A word that is not a level would be parsed as the only target to log.
    let parsed = match asked.parse::<LevelFilter>() {
        Ok(level) if !asked.is_empty() => Some(Targets::new().with_default(level)),
        Ok(_) => None,
        Err(_) => asked.parse::<Targets>().ok().filter(|_| asked.contains('=')),
    };
    let understood = parsed.is_some() || asked.is_empty();
    let filter =
        parsed.unwrap_or_else(|| Targets::new().with_default(level.map_or(LevelFilter::INFO, LevelFilter::from)));
    if !matches!(kind, Kind::Journal(_)) {
        lines::open(Stderr { over_progress: progress })
            .map_err(|error| Stop::Fault(format!("starting the thread that writes the log: {error}")))?;
    }
    let layer = match kind {
        Kind::Text => tracing_subscriber::fmt::layer()
            .with_target(false)
            .with_ansi(stderr_is_coloured())
            .fmt_fields(WithoutIds)
            .with_writer(Given)
            .boxed(),
        Kind::Json => JsonLayer(|| Given).boxed(),
        Kind::Journal(layer) => layer.boxed(),
    };
    // A custom daemon may have set up logging already; its setup is used then.
    let _ = tracing_subscriber::registry().with(layer).with(filter).try_init();
    if !understood {
        tracing::warn!("HERTZD_LOG={asked} is not a level (error, warn, info, debug, trace): using info");
    }
    Ok(Log { kind, progress })
}

impl Log {
    /// Waits until everything logged so far is written, so that it appears before what is printed next.
    pub(in crate::cli) fn settle(self) {
        lines::settle(LAST_PATIENCE);
    }

    /// Whether there is a terminal for a progress line.
    pub(in crate::cli) const fn progress(&self) -> bool {
        self.progress
    }

    /// Ends the log of a run with this result. The reason for stopping is written in the log's own format, regardless of the level; if the
    /// journal does not accept it, to stderr. Does not wait for a stalled reader.
    pub(in crate::cli) fn end(self, ran: Result<(), Stop>) -> Result<(), Stop> {
        let Err(stop) = ran else {
            if let Kind::Journal(_) = self.kind {
                close_journal();
            }
            return Ok(());
        };
        let Some((text, code)) = stop.text(stderr_is_coloured()) else { return Err(stop) };
        let entry = || stop.reason().map(|(text, _)| Entry::now(Level::ERROR, text));
        match self.kind {
            Kind::Text => last_line(&(text + "\n")),
            Kind::Json => entry().iter().for_each(|entry| last_line(&entry.json_line())),
            Kind::Journal(layer) => {
                let before = journal::lost();
                entry().iter().for_each(|entry| layer.submit(entry));
                close_journal();
                if journal::lost() > before {
                    last_line(&(text + "\n"));
                }
            }
        }
        Err(Stop::Logged(code))
    }
}

/// Sends the remaining entries to the journal, and reports how many it did not accept.
fn close_journal() {
    journal::finish();
    let (sent, lost) = (journal::sent(), journal::lost());
    if lost > 0 {
        last_line(&format!("{}: {sent} log entries reached the journal, {lost} were lost\n", program::name()));
    }
}

/// Writes the final line, after everything else.
fn last_line(text: &str) {
    if lines::is_open() {
        lines::give_last(text.as_bytes(), LAST_PATIENCE);
    } else if let Some(stderr) = idle_stderr().as_mut().and_then(|stderr| stderr.as_mut()) {
        // Without stderr there is nowhere else to write it.
        let _ = write_within(stderr, text.as_bytes(), LAST_PATIENCE);
    }
}

pub(in crate::cli) fn progress(progress: Progress, of: Option<Span>) {
    let Progress { elapsed, totals } = progress;
    let elapsed = elapsed.max(Span::ZERO).seconds();
    let of = of.map_or_else(String::new, |of| format!(" of {:.1} s", of.seconds()));
    let (ticks, missed, worst) = (totals.counts.ran, totals.counts.overruns + totals.counts.skipped, totals.worst);
    draw(&format!("{elapsed:.1} s{of}  {ticks} ticks  {missed} missed  latest by {worst}"));
}

/// Draws a progress line over the previous one. It is cut to the terminal's width: if a line wraps, only its last part would be cleared.
pub(in crate::cli) fn draw(text: &str) {
    if let Some(stderr) = idle_stderr().as_mut().and_then(|stderr| stderr.as_mut())
        && writable(&*stderr, Span::ZERO)
    {
        // Keep the last column free: some terminals wrap when it is written.
        let room = columns(&*stderr).unwrap_or(80).saturating_sub(1);
        let _ = write!(stderr, "{CLEAR}{}", visible(text).chars().take(room).collect::<String>());
        let _ = stderr.flush();
    }
}

/// Removes the progress line.
pub(in crate::cli) fn clear_progress() {
    draw("");
}
