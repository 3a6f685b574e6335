//! `hertzd simulate`: the hot loop on the virtual clock.

use super::fail_if::FailIf;
use super::{App, ConfigArg, Source, Stop, coloured, log, print, span, stop};
use crate::daemon::{self, SimulateOptions, SimulatedTick};
use crate::metrics::Summary;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use crate::views::table;
use clap::Args;
use std::io::{self, BufWriter, IsTerminal, Write};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd simulate my.toml --for 200ms               each tick, then the summary\n  \
    hertzd simulate my.toml --for 1h --summary-only   only the summary\n  \
    hertzd simulate --first-tick 1000000000000        the demo far in the future\n\n\
    [task.NAME.simulate] run = [\"18ms\", \"3ms\"] sets how long ticks take, used in\n\
    turn, cyclically; [worker.NAME.simulate] oversleep = [\"60us\"] how late each\n\
    sleep ends. Instants count from the epoch. Workers are independent, and\n\
    simulated one after the other.")]
pub(super) struct SimulateArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Simulate exactly the releases of the first DURATION (10s, 1h 30m)
    #[arg(long = "for", value_name = "DURATION", value_parser = span, default_value = "10s", allow_hyphen_values = true)]
    length: Span,
    /// Print one JSON object per tick, and the JSON summary on the last line
    #[arg(long)]
    json: bool,
    /// Start every task at tick N; --for counts from there
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_tick: u64,
    /// Print the summary only
    #[arg(long)]
    summary_only: bool,
    #[command(flatten)]
    fail_if: FailIf,
}

pub(super) fn simulate(app: &App, args: &SimulateArgs) -> Result<(), Stop> {
    let config = app.load(&Source::of(&args.config))?;
    args.fail_if.check(&config).map_err(Stop::Usage)?;
    if let Some((highest, task)) = daemon::highest_first_tick(&config, args.length)
        && args.first_tick > highest
    {
        return Err(Stop::Usage(format!(
            "--first-tick {}: task.{task} could not count its ticks or their nanoseconds; start at {highest} at most",
            args.first_tick
        )));
    }
    let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let width = config.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).max("task".len());
    if !args.json && !args.summary_only {
        writeln!(stdout, "{:<width$}      tick         release s        late         run  skipped", "task")?;
    }
    let mut progress = Progress::new(args.summary_only);
    let mut line = |tick: SimulatedTick<'_>| -> io::Result<()> {
        progress.tick(&tick);
        if args.summary_only {
            return Ok(());
        }
        if args.json {
            serde_json::to_writer(&mut stdout, &tick)?;
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
    let options = SimulateOptions { length: args.length, first_tick: args.first_tick };
    let simulated = daemon::simulate(&config, options, &mut line);
    progress.clear();
    let mut summary = simulated.map_err(|error| args.fail_if.unjudged(error.into()))?;
    args.fail_if.judge(&mut summary)?;
    stop::ended(print_summary(args, stdout, &summary), summary.reason)
}

fn print_summary(args: &SimulateArgs, mut stdout: impl Write, summary: &Summary) -> Result<(), Stop> {
    if args.json {
        serde_json::to_writer(&mut stdout, summary)?;
        stdout.write_all(b"\n")?;
        return Ok(stdout.flush()?);
    }
    if !args.summary_only {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()?;
    drop(stdout);
    print(&table(summary, coloured(&io::stdout())))
}

/// A progress line on stderr for long simulations, unless the ticks themselves are on the terminal.
struct Progress {
    drawn: Option<Instant>, // None: no terminal, or the ticks are on it
    ticks: u64,
}

impl Progress {
    fn new(summary_only: bool) -> Self {
        let wanted = io::stderr().is_terminal() && (summary_only || !io::stdout().is_terminal());
        Self { drawn: wanted.then(|| KernelClock::monotonic().now()), ticks: 0 }
    }

    fn tick(&mut self, tick: &SimulatedTick<'_>) {
        self.ticks += 1;
        // A look at the clock every 65,536 ticks is a few times a second at the most.
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
