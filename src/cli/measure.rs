//! `hertzd measure`: how punctual this machine is.

mod files;
mod follows;
mod text;
mod words;

use super::output::{ForceArg, OutputFile};
use super::plan::{CpuList, cpu_list};
use super::terminal::{Shown, print_json, stderr_is_terminal, stdout_is_terminal};
use super::{Stop, log, span, stop};
use crate::config::rate_text;
use crate::measure::{Comparison, Measured, Options, Watch, measure as run};
use crate::pacing::Rate;
use crate::sys::clock::KernelClock;
use crate::sys::memory::limit_arenas;
use crate::sys::signals::{StopSignals, catch_interrupts};
use crate::sys::thread::{self, affinity, helper, with_signals_blocked};
use crate::time::{Clock, Instant, Span};
use clap::Args;
use files::Kept;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shorter command needs no progress line.
const SHORT: Span = Span::from_seconds(2);
const DRAW_EVERY: Span = Span::from_millis(250);

/// The rates at which sleeps can be measured.
const SLOWEST: f64 = 1.0;
const FASTEST: f64 = 20_000.0;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd measure                                every CPU, idle, for 20 s\n  \
    hertzd measure --load --for 2m --save a.json  under load as well; keep it\n  \
    hertzd measure --load --for 2m --against a.json\n                                                \
        what has changed since\n  \
    hertzd measure --cpus 1 --json | jq .recommendation\n  \
    hertzd simulate my.toml --oversleep a.json    with sleeps as late as these\n  \
    hertzd plan my.toml --oversleep a.json\n\n\
    Measures on each CPU how late an absolute sleep ends, as cyclictest does; how \
    late ticks of hertzd's own loop start, with spin = \"off\" and \"auto\"; and the \
    longest hole in which a thread that only reads the clock did not run. Each of \
    these threads has the policy fifo while it measures: give the command the same \
    privileges as the daemon. A percentile is shown if at least five values lie \
    beyond it: p99.9 needs 5000 of them, which takes about 15 s at 1 kHz, and \
    twice that with --load. Ctrl-C ends it and shows what is known by then. \
    docs/seeing.md says what each number means.")]
pub(super) struct MeasureArgs {
    /// How long to measure in all, about
    #[arg(long = "for", value_name = "DURATION", value_parser = span, default_value = "20s", allow_hyphen_values = true)]
    length: Span,
    /// CPUs to measure, such as 1,4-7 [default: all that this process may use]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Sleeps and ticks a second, from 1 Hz to 20 kHz
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1 kHz")]
    rate: Rate,
    /// The priority to ask for, from 1 to 99
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99), default_value_t = 80)]
    priority: u8,
    /// Measure also under a load: on each CPU three threads of normal priority that compute, use memory and make system calls
    #[arg(long)]
    load: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Keep the result in FILE, as JSON, for --against, `simulate --oversleep` and `plan --oversleep`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArg,
    /// Compare with the result in FILE: what differs by more than the rounds of a measurement do
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    measured: &'a Measured,
    comparison: Option<&'a Comparison>,
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = rate_text(text.trim())?;
    match (SLOWEST..=FASTEST).contains(&rate.hertz()) {
        true => Ok(rate),
        false => Err("must be from 1 Hz to 20 kHz".into()),
    }
}

pub(super) fn measure(args: &MeasureArgs) -> Result<(), Stop> {
    limit_arenas();
    let options = options(args)?;
    let before = args.against.as_deref().map(|path| Kept::read(path, &options)).transpose()?;
    let saving = args
        .save
        .as_deref()
        .map(|path| OutputFile::prepare("--save", path, args.force, args.against.as_deref()))
        .transpose()?;
    let stop = stopped_by_signals().map_err(|error| Stop::Fault(format!("handling signals: {error}")))?;
    let mut line = Line::new(options.length, args.json);
    let mut progress = |what: &str| line.draw(what);
    let mut watch = Watch { stop, progress: &mut progress };
    let measured = with_signals_blocked(|| run(&options, &mut watch)).flatten();
    line.clear();
    if measured.is_err() {
        // A thread that gets no CPU time would keep the process from ending.
        thread::let_all_end();
    }
    let measured = measured.map_err(|error| Stop::Fault(format!("measuring: {error}")))?;
    if measured.cpus.is_empty() {
        return Err(Stop::Unwell("it was stopped before anything was measured".into()));
    }
    let comparison = before.map(|kept| Comparison::between(&kept.name, &kept.measured, &measured));
    // Save first: a closed stdout must not lose the result.
    let saved = saving.map_or(Ok(()), |saving| save(saving, args, &measured));
    let printed = match args.json {
        true => print_json(&Printed { measured: &measured, comparison: comparison.as_ref() }),
        false => Shown::styled(|coloured| text::text(&measured, comparison.as_ref(), coloured)).print(),
    };
    saved.and(stop::ended(printed, None))
}

fn save(to: OutputFile, args: &MeasureArgs, measured: &Measured) -> Result<(), Stop> {
    let path = args.save.as_deref().unwrap_or(Path::new(""));
    let saved = serde_json::to_vec(measured).map_err(io::Error::from).and_then(|mut json| {
        json.push(b'\n');
        to.write(&json)
    });
    saved.map_err(|error| Stop::Fault(format!("--save {}: {error}; nothing was kept", path.display())))
}

fn options(args: &MeasureArgs) -> Result<Options, Stop> {
    let allowed = affinity().map_err(|error| Stop::Fault(format!("asking which CPUs may be used: {error}")))?;
    let cpus = args.cpus.as_ref().map_or_else(|| allowed.clone(), |list| list.0.clone());
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let all = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Stop::Usage(format!("--cpus: this process may not use CPU {cpu}; it may use CPU {all}")));
    }
    let options = Options { length: args.length, cpus, rate: args.rate, priority: args.priority, load: args.load };
    let least = options.least().max(Span::from_millis(500));
    if args.length < least {
        let hertz = args.rate.hertz();
        let load = if args.load { ", idle and under load" } else { "" };
        return Err(Stop::Usage(format!(
            "--for {}: too short to see anything in rounds at {hertz} Hz{load}; must be at least {least}",
            args.length
        )));
    }
    Ok(options)
}

/// A flag set by the first SIGINT, SIGTERM or SIGHUP. A second SIGINT or SIGTERM ends the process.
fn stopped_by_signals() -> io::Result<Arc<AtomicBool>> {
    let mut signals = StopSignals::install()?;
    catch_interrupts()?;
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    let wait = move || {
        while signals.wait().is_some() {
            raised.store(true, Ordering::Relaxed);
        }
    };
    helper::spawn("hertzd-signals", wait)?;
    Ok(stop)
}

/// The progress line, on a terminal.
struct Line {
    wanted: bool,
    length: Span,
    begun: Instant,
    drawn: Option<Instant>,
}

impl Line {
    fn new(length: Span, json: bool) -> Self {
        // JSON on the same terminal would get mixed up with the line.
        let wanted = stderr_is_terminal() && length > SHORT && !(json && stdout_is_terminal());
        Self { wanted, length, begun: KernelClock::monotonic().now(), drawn: None }
    }

    fn draw(&mut self, what: &str) {
        let now = KernelClock::monotonic().now();
        if !self.wanted || self.drawn.is_some_and(|drawn| now - drawn < DRAW_EVERY) {
            return;
        }
        self.drawn = Some(now);
        let passed = (now - self.begun).seconds();
        log::draw(&format!("measuring {what}: {passed:.0} s of about {:.0} s", self.length.seconds()));
    }

    fn clear(&self) {
        if self.drawn.is_some() {
            log::clear_progress();
        }
    }
}
