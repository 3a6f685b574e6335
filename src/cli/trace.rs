//! `hertzd trace`: turns a flight file, or a recording of ticks, into a Perfetto trace. Blocks on files.

mod recorded;
mod tracefs;

#[cfg(feature = "mcap")]
pub(super) use recorded::refuse_csv;
#[cfg(not(feature = "mcap"))]
pub(super) use recorded::timeline as of_recording;

use super::output::{ForceArg, OutputFile};
use super::socket::SocketArg;
use super::terminal::{self, print, stdout_is_terminal};
use super::{Stop, runtime};
use crate::flight::{self, Flight};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use crate::views::{Kernel, Timeline, draw};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How long to wait for the ticks of the recorded time.
const HANDED_OVER_WITHIN: Span = Span::from_seconds(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd trace -o t.pftrace             the latest ticks of the running daemon\n  \
    hertzd trace /run/hertzd/flight.prev  those of the process before it\n  \
    hertzd trace day.mcap -o t.pftrace    those of a recording\n  \
    sudo hertzd trace --kernel 10         ten seconds, with the kernel's scheduler\n\n\
    Open the trace at https://ui.perfetto.dev (Open trace file); nothing is \
    uploaded. Without FILE and without a daemon, the latest flight file that was \
    left is read, so it works after a crash as well. docs/seeing.md says more.")]
pub(super) struct TraceArgs {
    /// A flight file, or an MCAP recording with ticks [default: the flight file of the running daemon]
    file: Option<PathBuf>,
    /// Write the trace here; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "hertzd.pftrace")]
    output: PathBuf,
    #[command(flatten)]
    force: ForceArg,
    /// Record what the kernel's scheduler does, for SECONDS (5 if not given) or until Ctrl-C, beside the ticks of that time; needs
    /// root
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "5",
        value_parser = clap::value_parser!(u16).range(1..=600),
        conflicts_with = "file"
    )]
    kernel: Option<u16>,
    #[command(flatten)]
    socket: SocketArg,
    /// Print what the trace has as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was read, and what the trace contains.
#[derive(Debug, Default, Serialize)]
struct Written {
    source: PathBuf,
    output: PathBuf,
    ticks: u64,
    missed: u64,
    workers: usize,
    tasks: usize,
    span_ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    flight: Option<WrittenFlight>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<WrittenKernel>,
}

/// What the kernel has recorded.
#[derive(Debug, Serialize)]
struct WrittenKernel {
    events: u64,
    /// Events lost because the kernel's buffer was full.
    overwritten: u64,
}

/// What a flight file reports about itself.
#[derive(Debug, Serialize)]
struct WrittenFlight {
    pid: u32,
    /// Whether the run ended by itself. If not, it is still running or was killed.
    ended: bool,
    /// Everything workers had sent by this instant of the monotonic clock is there, or counted as lost.
    until_ns: i64,
    /// Whether older ticks have been overwritten.
    came_round: bool,
    lost: u64,
    dropped: u64,
    torn: u64,
    /// Missed releases at the beginning whose ticks have been overwritten.
    missed_without_tick: u64,
}

pub(super) fn trace(args: &TraceArgs) -> Result<(), Stop> {
    let source = match &args.file {
        Some(file) => file.clone(),
        None if args.kernel.is_some() => running_flight_file(&args.socket)?,
        None => flight_file(&args.socket)?,
    };
    let output = match args.output == Path::new("-") {
        true if stdout_is_terminal() => {
            return Err(Stop::Usage("-o -: a trace is no text, and standard output is a terminal; name a file".into()));
        }
        true => None,
        false => Some(OutputFile::prepare("-o", &args.output, args.force, [&*source])?),
    };
    let recorded = args.kernel.map(|seconds| record(seconds, &source)).transpose()?;
    let wrong = |reason: io::Error| Stop::Usage(format!("{}: {reason}", source.display()));
    let (mut timeline, flight) = match flight::is_flight(&source).map_err(wrong)? {
        true => {
            let flight = flight::read(&source).map_err(Stop::Fault)?;
            (Timeline::of(&flight), Some(flight))
        }
        false => (recorded::timeline(&source).map_err(Stop::Usage)?, None),
    };
    if let Some(Recorded { from, to, .. }) = &recorded {
        timeline.cut(*from, *to);
    }
    let kernel = recorded.map(|recorded| recorded.kernel);
    let (ticks, missed) = timeline.counts();
    let written = Written {
        source,
        output: args.output.clone(),
        ticks,
        missed,
        workers: timeline.workers.len(),
        tasks: timeline.tasks.len(),
        span_ns: timeline.span().map_or(0, |(first, last)| last - first),
        flight: flight.as_ref().map(|flight| of_itself(flight, timeline.without_tick)),
        kernel: kernel.as_ref().map(|kernel| WrittenKernel { events: kernel.count(), overwritten: kernel.overwritten }),
    };
    let bytes = draw(&timeline, kernel.as_ref());
    drop((timeline, flight));
    let Some(output) = output else {
        let out = terminal::stdout(false).write_all(&bytes);
        return out.map_err(|reason| Stop::Fault(format!("standard output: {reason}")));
    };
    output.write(&bytes).map_err(|reason| Stop::Fault(format!("{}: {reason}", args.output.display())))?;
    match args.json {
        true => super::print_json(&written),
        false => print(&written.text()),
    }
}

/// The flight file of the daemon that is meant; if none is running, the newest one left behind.
fn flight_file(socket: &SocketArg) -> Result<PathBuf, Stop> {
    match running_flight_file(socket) {
        Err(Stop::Unavailable(why)) if socket.is_of_service() => {
            let left = runtime::flight_files().into_iter().next();
            left.ok_or_else(|| Stop::Unavailable(format!("{why}; and no daemon has left a flight file")))
        }
        found => found,
    }
}

fn running_flight_file(socket: &SocketArg) -> Result<PathBuf, Stop> {
    let seen = super::running::read(socket)?;
    seen.flight.map(|flight| flight.path.into()).ok_or_else(|| {
        let pid = seen.daemon.daemon.pid;
        Stop::Usage(format!("process {pid} writes no flight file: it has no runtime directory, or --flight 0"))
    })
}

/// What the kernel recorded, and from when to when, on the monotonic clock.
struct Recorded {
    kernel: Kernel,
    from: i64,
    to: i64,
}

/// Records the kernel's scheduler, then waits until the flight file has the ticks of that time.
fn record(seconds: u16, flight: &Path) -> Result<Recorded, Stop> {
    let clock = KernelClock::monotonic();
    let now = || (clock.now() - Instant::ZERO).nanos();
    let from = now();
    let kernel = tracefs::record(Span::from_seconds(seconds.into()))?;
    let to = now();
    // If ticks are more than a second apart, there may be none to wait for.
    while now() - to < HANDED_OVER_WITHIN.nanos() {
        let until = flight::read(flight).map_err(Stop::Fault)?.mark.map_or(0, |mark| mark.at);
        if until >= to {
            break;
        }
        pause(Span::from_millis(20));
    }
    Ok(Recorded { kernel, from, to })
}

fn of_itself(flight: &Flight, missed_without_tick: u64) -> WrittenFlight {
    let mark = flight.mark;
    WrittenFlight {
        pid: flight.who.run.pid,
        ended: mark.is_some_and(|mark| mark.ended),
        until_ns: mark.map_or(0, |mark| mark.at),
        came_round: flight.came_round,
        lost: mark.map_or(0, |mark| mark.lost),
        dropped: mark.map_or(0, |mark| mark.dropped),
        torn: flight.torn,
        missed_without_tick,
    }
}

impl Written {
    fn text(&self) -> String {
        let Self { ticks, missed, tasks, .. } = self;
        let (output, source, span) = (self.output.display(), self.source.display(), Span::from_nanos(self.span_ns));
        let mut text = format!("{output}: {ticks} ticks of {tasks} tasks over {span}, {missed} releases missed\n");
        if let Some(WrittenKernel { events, overwritten }) = &self.kernel {
            text += &format!("{events} events of the kernel's scheduler beside them");
            text += &match overwritten {
                0 => "\n".to_owned(),
                more => format!("; {more} earlier ones found no room in its buffer\n"),
            };
        }
        let Some(flight) = &self.flight else { return text + &format!("read from {source}\n") };
        let WrittenFlight { pid, lost, dropped, torn, .. } = flight;
        text += &format!("read from {source}, of process {pid}");
        text += match flight.ended {
            true => ": the run has ended, and all of its end is there\n",
            false => {
                ": it still runs or was killed; ticks of its last\n\
                 moments, 20 ms unless it was held up, had not been handed over\n"
            }
        };
        for (count, what) in [
            (*lost, "records are missing: the disk did not take them"),
            (*dropped, "ticks are missing: the metrics thread was too slow"),
            (*torn, "records are torn, and left out"),
        ] {
            if count > 0 {
                text += &format!("{count} {what}\n");
            }
        }
        text
    }
}
