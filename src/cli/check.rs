//! `hertzd check`: what a configuration means, and whether its tasks can hold their deadlines.

use super::running::{SocketArg, read};
use super::stop::CONFIGURATION;
use super::{App, ConfigArg, Source, Stop, print};
use crate::config::{Config, Scheduling, Spin, TaskConfig, WorkerConfig};
use crate::daemon::{Capacity, Diff, Finding, Sections, capacities};
use crate::pacing::Overrun;
use crate::sys::host::Host;
use clap::Args;
use std::fmt::Write as _;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd check my.toml\n  \
    hertzd check --against-running    what `systemctl reload hertzd` would do\n\n\
    Prints every worker with its tasks, and for each CPU the share of its time\n\
    that budgets and spin tails take and whether every deadline holds while no\n\
    tick exceeds its budget; exits with 1 if not. Files and devices of tasks are\n\
    not opened. If the configuration is wrong, prints every problem with its\n\
    line and exits with 78.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Print what a reload would do to the running daemon
    #[arg(long)]
    against_running: bool,
    /// Print what the configuration means, but no problems: for a unit, whose `run` reports them
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    socket: SocketArg,
}

pub(super) fn check(app: &App, args: &CheckArgs) -> Result<(), Stop> {
    match looked_at(app, args) {
        Err(Stop::Config(_)) if args.explain => Err(Stop::Logged(CONFIGURATION)),
        other => other,
    }
}

fn looked_at(app: &App, args: &CheckArgs) -> Result<(), Stop> {
    let source = Source::of(&args.config);
    let wrong = "a start with this configuration would be refused"; // nothing was to be started
    let config = app.load(&source).map_err(|problems| problems.ending_in(wrong))?;
    let capacities = capacities(&config, &Host::read().online_cpus);
    let too_much: Vec<_> = capacities.iter().filter_map(too_much).collect();
    let valid = if too_much.is_empty() { "ok" } else { "valid, but its deadlines cannot all hold" };
    let mut text = format!("{source}: {valid}\n");
    for file in config.files.iter().skip(1) {
        let _ = writeln!(text, "with {}", file.display());
    }
    for (index, worker) in config.workers.iter().enumerate() {
        describe(&mut text, &config, index, worker);
    }
    for Capacity { label, sum, findings } in &capacities {
        let _ = writeln!(text, "\n{label}: {sum}");
        findings.iter().for_each(|Finding { text: finding, .. }| _ = writeln!(text, "  {finding}"));
    }
    if args.against_running {
        let running = read(&args.socket)?.daemon;
        let diff = Diff::between(&running.sections, &Sections::of(&config));
        let _ = writeln!(text, "\nA reload of process {} would do this:", running.pid);
        for (what, changes) in [("worker", &diff.workers), ("task", &diff.tasks)] {
            for (name, change) in changes {
                let _ = writeln!(text, "  {what} {name} {change}");
            }
        }
    }
    print(&text)?;
    if too_much.is_empty() { Ok(()) } else { Err(Stop::TooMuch(too_much.join("; "))) }
}

/// The deadlines that a CPU cannot hold, with the sum; `None`: there is none.
fn too_much(Capacity { label, sum, findings }: &Capacity) -> Option<String> {
    let fails: Vec<_> = findings.iter().filter(|finding| finding.fails).map(|finding| finding.text.as_str()).collect();
    (!fails.is_empty()).then(|| format!("{label}: {sum}; {}", fails.join("; ")))
}

fn describe(text: &mut String, config: &Config, index: usize, worker: &WorkerConfig) {
    let tasks: Vec<_> = config.tasks.iter().filter(|task| task.worker == index).collect();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "\nworker {}: {}", worker.name, asked(worker));
    let width = tasks.iter().map(|task| task.name.len()).max().unwrap_or(0);
    for task in &tasks {
        let _ = writeln!(text, "  {:<width$}  {}", task.name, terms(task));
    }
}

/// What a worker asks of the machine.
fn asked(worker: &WorkerConfig) -> String {
    let policy = match worker.scheduling {
        Scheduling::Fifo { priority } => format!("fifo {priority}"),
        Scheduling::Rr { priority } => format!("rr {priority}"),
        Scheduling::Deadline { runtime, period } => format!("deadline, {runtime} in every {period}"),
        Scheduling::Other => "other".into(),
    };
    let cpus: Vec<_> = worker.cpus.iter().map(ToString::to_string).collect();
    let pinned = match cpus.len() {
        0 => "not pinned".into(),
        _ => format!("on CPU {}", cpus.join(", ")),
    };
    let spin = match worker.spin {
        Spin::Off => "no spin tail".into(),
        Spin::Fixed(length) => format!("spin tail {length}"),
        Spin::Auto { cpu_max } => format!("spin tail auto, at most {:.1} % of a CPU", cpu_max * 100.0),
    };
    format!("{policy}, {pinned}, {spin}")
}

fn terms(task: &TaskConfig) -> String {
    let rate = task.rate.to_string();
    let rate = rate.strip_suffix("/1").unwrap_or(&rate);
    let overrun = match task.overrun {
        Overrun::Drop => "drop".into(),
        Overrun::KeepWorking => "keep-working".into(),
        Overrun::CatchUp { max } => format!("catch-up {max}"),
        Overrun::Credit { max_debt } => format!("credit up to {max_debt}"),
        Overrun::Delay => "delay".into(),
    };
    let budget = task.budget.map_or("no budget".into(), |budget| format!("budget {budget}"));
    format!("{}, {rate} Hz, deadline {}, {budget}, {overrun}", task.kind, task.deadline)
}
