//! `hertzd simulate`: the hot loop on the virtual clock.

mod csv;

use super::fail_if::FailIf;
use super::output::{ForceArg, OutputFile};
use super::terminal::{self, Shown, stderr_is_terminal, stdout_is_terminal, write_json};
use super::{App, ConfigArg, Source, Stop, log, span, stop};
use crate::config::Config;
use crate::daemon::{self, Graph, ModelError, Models, SimulateOptions, SimulatedTick, Simulation};
use crate::snapshot::{Share, Summary};
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use crate::views::table;
use clap::Args;
use csv::Table;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd simulate my.toml --for 200ms              each tick, then the summary\n  \
    hertzd simulate my.toml --for 1h --summary-only  only the summary\n  \
    hertzd simulate --first-tick 1000000000000       the demo far in the future\n  \
    hertzd simulate my.toml --runs day.mcap --oversleep day.mcap --for 1h\n                                                   \
        with measured times\n  \
    hertzd simulate other.toml --replay day.mcap --summary-only\n                                                   \
        that day, otherwise\n  \
    hertzd simulate loop.toml --for 10min --summary-only --csv loop.csv\n                                                   \
        every value of a loop\n  \
    hertzd measure --save m.json && hertzd simulate my.toml --oversleep m.json\n                                                   \
        on this machine\n\n\
    [task.NAME.simulate] run = [\"18ms\", \"3ms\"] sets how long ticks take, used in \
    turn, cyclically; [worker.NAME.simulate] oversleep = [\"60us\"] how late each \
    sleep ends. Instants count from the epoch. Workers are independent, and \
    simulated one after the other, unless values flow between them.\n\n\
    Tasks that only compute, such as pid, are run. In place of a sensor, \
    [task.NAME.simulate] values = \"FILE.csv\" plays a recording, and plant a model \
    that a controller can be tuned on. docs/planning.md says more.")]
pub(super) struct SimulateArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Simulate exactly the releases of the first DURATION (10s, 1h 30m) [default: 10s; with --replay the whole recording]
    #[arg(long = "for", value_name = "DURATION", value_parser = span, allow_hyphen_values = true)]
    length: Option<Span>,
    /// Print one JSON object per tick, and the JSON summary on the last line
    #[arg(long)]
    json: bool,
    /// Start every task at tick N; --for counts from there
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_tick: u64,
    /// Print the summary only
    #[arg(long)]
    summary_only: bool,
    /// Write every value of every tick to FILE, a column for each TASK.VALUE; `-` is stdout, in place of all else
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    csv: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArg,
    /// Let sleeps end as late as FILE says: an MCAP recording, or JSON that `measure --save` or `run --json` wrote
    #[arg(long, value_name = "FILE")]
    oversleep: Option<PathBuf>,
    /// Let ticks run as long as in this MCAP recording, one after the other
    #[arg(long, value_name = "RECORDING")]
    runs: Option<PathBuf>,
    /// Play this MCAP recording: each tick runs as long, and each sleep ends as late, as it did at that time
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["oversleep", "runs", "first_tick"])]
    replay: Option<PathBuf>,
    #[command(flatten)]
    fail_if: FailIf,
}

pub(super) fn simulate(app: &App, args: &SimulateArgs) -> Result<(), Stop> {
    let mut config = app.load(&Source::of(&args.config))?;
    args.fail_if.check(&config).map_err(Stop::Usage)?;
    let models = models(args, &config).map_err(|error| Stop::Usage(error.to_string()))?;
    let length = args.length.or(models.replayed_length()).unwrap_or(Span::from_seconds(10));
    if let Some((highest, task)) = daemon::highest_first_tick(&config, length)
        && args.first_tick > highest
    {
        return Err(Stop::Usage(format!(
            "--first-tick {}: task.{task} could not count its ticks or their nanoseconds; start at {highest} at most",
            args.first_tick
        )));
    }
    let graph = Graph::build(&mut config).map_err(Stop::Config)?;
    if args.first_tick > 0 && graph.flows() {
        return Err(Stop::Usage(
            "--first-tick: here values flow between tasks, and with different rates the same tick is at different times; leave it out"
                .to_owned(),
        ));
    }
    let csv_alone = args.csv.as_deref().is_some_and(Table::is_stdout);
    if csv_alone && args.json {
        return Err(Stop::Usage("--csv -: --json writes to stdout as well; write one of them to a file".to_owned()));
    }
    let inputs = read_by(args, &config);
    let file = args.csv.as_deref().filter(|_| !csv_alone);
    let file = file.map(|path| OutputFile::prepare("--csv", path, args.force, inputs)).transpose()?;
    let csv = args.csv.as_ref().map(|path| Table::begin(path, file, &config, graph.columns()));
    let mut csv = csv.transpose().map_err(Stop::Usage)?;
    for note in models.notes(&config).into_iter().chain(graph.notes(length)) {
        terminal::say(&format!("note: {note}"));
    }
    let mut stdout = terminal::stdout(!args.json);
    let width = config.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).max("task".len());
    if !args.json && !args.summary_only && !csv_alone {
        writeln!(stdout, "{:<width$}      tick         release s        late         run  skipped", "task")?;
    }
    let mut progress = Progress::new(args.summary_only);
    let mut line = |tick: SimulatedTick<'_>| -> io::Result<()> {
        progress.tick(&tick);
        if let Some(csv) = &mut csv {
            csv.tick(&tick)?;
        }
        if args.summary_only || csv_alone {
            return Ok(());
        }
        if args.json {
            write_json(&mut stdout, &tick)?;
            return stdout.write_all(b"\n");
        }
        let at = Instant::from_nanos;
        let late = at(tick.started_ns) - at(tick.release_ns);
        let run = at(tick.finished_ns) - at(tick.started_ns);
        let release = format!("{}.{:09}", tick.release_ns / 1_000_000_000, tick.release_ns % 1_000_000_000);
        let skipped = if tick.skipped > 0 { tick.skipped.to_string() } else { String::new() };
        let text = format!("{:<width$}  {:>8}  {release:>16}  {late:>10}  {run:>10}  {skipped}", tick.task, tick.n);
        writeln!(stdout, "{}", text.trim_end())
    };
    let options = SimulateOptions { length, first_tick: args.first_tick };
    let simulation = Simulation { config: &config, options, models: &models, graph: &graph };
    let simulated = simulation.play(&mut line);
    progress.clear();
    let mut summary = simulated.map_err(|error| args.fail_if.unjudged(csv::stop(error)))?;
    if let Some(csv) = csv {
        csv.end().map_err(|error| args.fail_if.unjudged(csv::stop(error)))?;
    }
    args.fail_if.judge(&mut summary)?;
    if csv_alone {
        return stop::ended(Ok(()), summary.reason);
    }
    let after = after_the_table(&summary);
    stop::ended(print_summary(args, stdout, &summary, &after), summary.reason)
}

/// All files that are read: those of the configuration and its tasks, and those that options name.
fn read_by<'a>(args: &'a SimulateArgs, config: &'a Config) -> impl Iterator<Item = &'a Path> {
    let standard_input = args.config.is_standard_input().then_some(Path::new("-"));
    let named = [&args.oversleep, &args.runs, &args.replay].into_iter().flatten().map(PathBuf::as_path);
    config.inputs().chain(standard_input).chain(named)
}

/// The models that the options select.
fn models(args: &SimulateArgs, config: &Config) -> Result<Models, ModelError> {
    if let Some(path) = &args.replay {
        return Models::replaying(path, config);
    }
    let mut models = Models::default();
    if let Some(path) = &args.oversleep {
        models = models.oversleeping(path)?;
    }
    match &args.runs {
        Some(path) => models.running(path),
        None => Ok(models),
    }
}

/// Compares with the results in the replayed recording.
fn after_the_table(summary: &Summary) -> String {
    let mut text = String::new();
    for task in &summary.tasks {
        if let Some(Share { due, missed }) = task.as_recorded {
            let (task, now, of) = (&task.task, task.counts.missed, task.counts.due);
            let _ = writeln!(text, "{task}: missed {missed} of {due} when it was recorded, {now} of {of} as replayed");
        }
    }
    text
}

fn print_summary(args: &SimulateArgs, mut stdout: impl Write, summary: &Summary, after: &str) -> Result<(), Stop> {
    if args.json {
        write_json(&mut stdout, summary)?;
        stdout.write_all(b"\n")?;
        return Ok(stdout.flush()?);
    }
    if !args.summary_only {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()?;
    drop(stdout);
    Shown::styled(|coloured| table(summary, coloured) + after).print()
}

/// A progress line on stderr for long simulations, unless the ticks themselves are on the terminal.
struct Progress {
    drawn: Option<Instant>, // None: no terminal, or the ticks are on it
    ticks: u64,
}

impl Progress {
    fn new(summary_only: bool) -> Self {
        let wanted = stderr_is_terminal() && (summary_only || !stdout_is_terminal());
        Self { drawn: wanted.then(|| KernelClock::monotonic().now()), ticks: 0 }
    }

    fn tick(&mut self, tick: &SimulatedTick<'_>) {
        self.ticks += 1;
        // Checking the clock every 65,536 ticks means a few times a second at most.
        if !self.ticks.is_multiple_of(1 << 16) {
            return;
        }
        let now = KernelClock::monotonic().now();
        if let Some(drawn) = &mut self.drawn
            && now - *drawn >= Span::from_millis(250)
        {
            *drawn = now;
            let at = Instant::from_nanos(tick.started_ns) - Instant::ZERO;
            log::draw(&format!("simulated {:.1} s, {} ticks", at.seconds(), self.ticks));
        }
    }

    fn clear(&self) {
        if self.drawn.is_some() {
            log::clear_progress();
        }
    }
}
