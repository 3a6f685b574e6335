//! `hertzd check`: what a configuration means, and whether its tasks can hold their deadlines.

use super::running::{SocketArg, read};
use super::{App, ConfigArg, Source, Stop, print};
use crate::config::{Config, Scheduling, Spin, TaskConfig, WorkerConfig};
use crate::daemon::{Diff, Sections};
use crate::pacing::{Demand, Overrun, Verdict, feasible};
use crate::time::Span;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd check my.toml\n  \
    hertzd check --against-running    what `systemctl reload hertzd` would do\n\n\
    Prints every worker with its tasks, its share of a CPU by budgets, and\n\
    whether every deadline holds while no tick exceeds its budget. Files and\n\
    devices of tasks are not opened. If the configuration is wrong, prints\n\
    every problem with its line and exits with 78.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Print what a reload would do to the running daemon
    #[arg(long)]
    against_running: bool,
    #[command(flatten)]
    socket: SocketArg,
}

pub(super) fn check(app: &App, args: &CheckArgs) -> Result<(), Stop> {
    let source = Source::of(&args.config);
    let wrong = "a start with this configuration would be refused"; // nothing was to be started
    let config = app.load(&source).map_err(|problems| problems.ending_in(wrong))?;
    let mut text = format!("{source}: ok\n");
    for file in config.files.iter().skip(1) {
        let _ = writeln!(text, "with {}", file.display());
    }
    for (index, worker) in config.workers.iter().enumerate() {
        describe(&mut text, &config, index, worker);
    }
    shared_cpus(&mut text, &config);
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
    print(&text)
}

fn describe(text: &mut String, config: &Config, index: usize, worker: &WorkerConfig) {
    let tasks: Vec<_> = config.tasks.iter().filter(|task| task.worker == index).collect();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "\nworker {}: {}", worker.name, asked(worker));
    let width = tasks.iter().map(|task| task.name.len()).max().unwrap_or(0);
    for task in &tasks {
        let _ = writeln!(text, "  {:<width$}  {}", task.name, terms(task));
    }
    let _ = writeln!(text, "  {}", verdict(&tasks));
}

/// Workers that are pinned to one CPU share it, and each verdict above is for a CPU of its own.
fn shared_cpus(text: &mut String, config: &Config) {
    let mut by_cpu: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, worker) in config.workers.iter().enumerate() {
        if let [cpu] = worker.cpus[..] {
            by_cpu.entry(cpu).or_default().push(index);
        }
    }
    for (cpu, workers) in by_cpu.into_iter().filter(|(_, workers)| workers.len() > 1) {
        let tasks = || config.tasks.iter().filter(|task| workers.contains(&task.worker));
        // Summed up from zero: the sum of no floats is -0.0.
        let share = |cost: &dyn Fn(&TaskConfig) -> Option<Span>| {
            tasks().fold(0.0, |sum, task| sum + cost(task).map_or(0.0, |cost| cost.seconds() * task.rate.hertz()))
        };
        let budgets = share(&|task| task.budget);
        let tails = share(&|task| match config.workers[task.worker].spin {
            Spin::Fixed(length) => Some(length),
            Spin::Off | Spin::Auto { .. } => None,
        });
        let names: Vec<_> = workers.iter().map(|index| config.workers[*index].name.as_str()).collect();
        let warning = match budgets + tails {
            share if share > 1.0 => "; more work than time, releases will be missed",
            share if share > 0.8 => "; real-time throttling will stop them now and then",
            _ => "",
        };
        let _ = writeln!(
            text,
            "\nCPU {cpu} is shared by workers {}: {:.1} % by budgets, {:.1} % by fixed spin tails{warning}. They interrupt or \
             hold up each other, which the verdicts above leave out.",
            listed(&names),
            budgets * 100.0,
            tails * 100.0
        );
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

fn verdict(tasks: &[&TaskConfig]) -> String {
    let without: Vec<_> = tasks.iter().filter(|task| task.budget.is_none()).map(|task| task.name.as_str()).collect();
    let demands: Vec<_> = tasks
        .iter()
        .filter_map(|task| Some(Demand { rate: task.rate, deadline: task.deadline, budget: task.budget? }))
        .collect();
    if demands.is_empty() {
        return "no task has a budget: whether the deadlines hold is unknown".into();
    }
    let by_budgets = |share: f64| format!("{:.1} % of a CPU by budgets", share * 100.0);
    if !without.is_empty() {
        let share = by_budgets(demands.iter().map(|demand| demand.budget.seconds() * demand.rate.hertz()).sum());
        return format!("{share}; whether the deadlines hold is unknown without a budget for {}", listed(&without));
    }
    let name = |task: usize| &tasks[task].name;
    match feasible(&demands) {
        Verdict::Holds { utilisation, tightest, slack } => {
            let tightest = tightest.map_or(String::new(), |task| format!("; tightest is {}", name(task)));
            let left = if slack == Span::MAX { String::new() } else { format!(", with {slack} left") };
            format!("{}; every deadline holds{tightest}{left}", by_budgets(utilisation))
        }
        Verdict::Fails { utilisation, task, at, excess } => {
            let why = format!("the work due within {at} is {excess} too much");
            format!("{}, but {} can miss its deadline: {why}", by_budgets(utilisation), name(task))
        }
        Verdict::Overloaded { utilisation } => {
            format!("{}: more work than time, releases will be missed", by_budgets(utilisation))
        }
        Verdict::Unknown { reason } => format!("whether the deadlines hold is unknown: {reason}"),
    }
}

/// The first few of them.
fn listed(names: &[&str]) -> String {
    match names.len() {
        0..=4 => names.join(", "),
        count => format!("{} and {} more", names[..3].join(", "), count - 3),
    }
}
