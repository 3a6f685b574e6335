//! `hertzd check`: what a configuration means, whether its tasks can meet their deadlines, and whether a start could open what it needs.

mod against;
mod chains;
mod cpus;
mod drawing;
mod frozen;
mod guarded;
mod units;

use self::against::Against;
use self::drawing::Language;
use super::graph::Graph;
use super::latency;
use super::socket::SocketArg;
use super::stop::{CONFIGURATION, UNWELL};
use super::terminal::{Shown, note, say};
use super::{App, ConfigArg, Source, Stop};
use crate::config::{Config, Problems, Scheduling, Spin, TaskConfig, WorkerConfig};
use crate::daemon::{Capacity, Finding, Looked, capacities, look};
use crate::pacing::Overrun;
use crate::program;
use crate::sys::host::Host;
use crate::sys::other_user::run_as_service;
use crate::sys::user::service_user;
use clap::Args;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd check my.toml\n  \
    hertzd check --no-open other.toml    for another machine\n  \
    hertzd check --against-running       what `systemctl reload hertzd` would do\n  \
    hertzd check --graph my.toml         who takes values from whom, to paste\n\n\
    Prints every worker with its tasks, each chain of tasks that take values from \
    each other with the delay that every link adds, and for each CPU the share of \
    its time that budgets, runs known to the kind and spin tails take, and \
    whether every deadline holds while no tick exceeds that; exits with 1 if \
    not. Looks at what a start would open: reads the files of sensors, asks \
    devices what they can do, tries the folders of recordings. No line is taken, \
    no register written, and nothing changed. If a start would be refused, prints \
    every problem with its line and exits with 78. What only the service's user may open is a warning; root \
    looks at the service's own configuration with the rights of that user.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Leave files, devices and recordings alone: for a configuration that is meant for another machine
    #[arg(long)]
    no_open: bool,
    /// Print what a reload would do to the running daemon
    #[arg(long)]
    against_running: bool,
    /// Print what the configuration means, but no problems: for a unit, whose `run` reports them
    #[arg(long)]
    explain: bool,
    /// Print the graph of who takes values from whom instead, for Mermaid or Graphviz; opens nothing
    #[arg(
        long,
        value_name = "LANGUAGE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "mermaid",
        conflicts_with_all = ["against_running", "explain", "no_open"]
    )]
    graph: Option<Language>,
    #[command(flatten)]
    socket: SocketArg,
}

pub(super) fn check(app: &App, args: &CheckArgs) -> Result<(), Stop> {
    match looked_at(app, args) {
        Err(Stop::Config(_)) if args.explain => Err(Stop::Logged(CONFIGURATION)),
        Err(Stop::TooMuch(_)) if args.explain => Err(Stop::Logged(UNWELL)), // already printed
        other => other,
    }
}

fn looked_at(app: &App, args: &CheckArgs) -> Result<(), Stop> {
    let source = Source::of(&args.config);
    if let Some(ended) = look_as_service(&source, args) {
        return ended;
    }
    let wrong = "a start with this configuration would be refused"; // nothing was going to be started
    let refused = |problems: Problems| Stop::Config(problems.ending_in(wrong));
    let mut config = app.load(&source).map_err(refused)?;
    if let Some(language) = args.graph {
        return Shown::document(&drawing::draw(&Graph::of(&config), language)).print_beside_verdict();
    }
    let against = if args.against_running { Some(Against::running(&config, &args.socket)?) } else { None };
    let Looked { problems, mut warnings, safe, fresh, may_freeze, taken, unknown, columns } =
        match (&against, args.no_open) {
            (_, true) => Looked { warnings: unchecked(&config), ..Looked::default() },
            (Some(against), false) => look(&mut config, |task| against.begins(task), Some(against.process())),
            (None, false) => look(&mut config, |_| true, None),
        };
    if let Some(problems) = problems {
        return Err(refused(problems));
    }
    let capacities = capacities(&config, &Host::read().online_cpus);
    let graph = Graph::of(&config);
    warnings.extend(doubts(&graph));
    warnings.extend(units::doubts(&graph, &columns));
    let too_much: Vec<_> = capacities.iter().filter_map(too_much).collect();
    let valid = if too_much.is_empty() { "ok" } else { "valid, but its deadlines cannot all hold" };
    let mut text = format!("{source}: {valid}\n");
    for file in config.files.iter().skip(1) {
        let _ = writeln!(text, "with {}", file.display());
    }
    for (index, worker) in config.workers.iter().enumerate() {
        describe(&mut text, &config, index, worker);
    }
    text += &cpus::describe(&config);
    text += &chains::describe(&graph);
    for Capacity { label, sum, findings } in &capacities {
        let _ = writeln!(text, "\n{label}: {sum}");
        findings.iter().for_each(|Finding { text: finding, .. }| _ = writeln!(text, "  {finding}"));
    }
    let unknown: Vec<_> = match &against {
        Some(against) => unknown.into_iter().chain(against.unknown()).collect(),
        None => unknown,
    };
    let (taken, finds_out) = match &against {
        Some(against) => {
            text += &against.describe(&config);
            (Vec::new(), "Only the reload itself finds out:") // the running daemon hands these over
        }
        None => (taken, "Only a start finds out:"),
    };
    list(&mut text, "Safe states:", &safe);
    list(&mut text, "Files that must keep changing:", &fresh);
    list(&mut text, "Sensors that may freeze unnoticed:", &frozen::unnoticed(&graph, &may_freeze));
    let warnings = Problems::joined(warnings);
    let all = |coloured| {
        let mut text = text.clone();
        if let Some(warnings) = &warnings {
            let _ = writeln!(text, "\nWarnings:\n{}", warnings.warnings(coloured).trim_end());
        }
        list(
            &mut text,
            "In use by a hertzd that runs, so a second one could not be started now; a reload can:",
            &taken,
        );
        list(&mut text, finds_out, &unknown);
        text
    };
    Shown::styled(all).print_beside_verdict()?;
    if too_much.is_empty() { Ok(()) } else { Err(Stop::TooMuch(too_much.join("; "))) }
}

/// Root checks the service's configuration with the rights of the service's user. That shows what the service can open and load, and no
/// plugin of that user runs as root. `None`: this process does the check itself.
fn look_as_service(source: &Source, args: &CheckArgs) -> Option<Result<(), Stop>> {
    let path = source.of_service()?;
    // From another folder, relative paths would mean other files.
    let is_anywhere = path.is_absolute() && args.socket.socket.is_absolute();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match run_as_service(&arguments, is_anywhere) {
        Ok(None) => None,
        Ok(Some(output)) => Some(said(&output)),
        // Root would wait for the same thing.
        Err(error) if error.kind() == ErrorKind::TimedOut => Some(Err(Stop::Unwell(format!(
            "cannot check with the rights of the service's user {}: {error}; to find the cause, comment out the tasks one by one",
            service_user()
        )))),
        // A container may have only its root's rights; checking as root then loads only root's own libraries.
        Err(error) => {
            note(&format!(
                "looks as root, since the rights of the service's user {} cannot be taken on: {error}",
                service_user()
            ));
            None
        }
    }
}

/// Ends in the same way as the process of the service's user.
fn said(output: &Output) -> Result<(), Stop> {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    if !err.is_empty() {
        say(err.trim_end());
    }
    Shown::document(&out).print_beside_verdict()?;
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Stop::Logged(u8::try_from(code).unwrap_or(UNWELL))),
        (None, signal) => Err(Stop::Unwell(format!(
            "the check with the rights of the service's user {} was ended by signal {}",
            service_user(),
            signal.unwrap_or_default()
        ))),
    }
}

/// What is probably unintended, as far as the configuration alone shows.
pub(super) fn doubts(graph: &Graph<'_>) -> Vec<Problems> {
    [chains::doubts(graph), guarded::doubts(graph.config), latency::doubts(graph)].concat()
}

/// Settings that could not be checked.
fn unchecked(config: &Config) -> Vec<Problems> {
    let of_task = |task: &TaskConfig| {
        let left = task.blueprint.left_unchecked()?;
        Some(Problems::at(&task.section, left.key, &left.message))
    };
    config.tasks.iter().filter_map(of_task).collect()
}

fn list(text: &mut String, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{}\n  {}", program::own(heading), program::own(&lines.join("\n  ")));
    }
}

/// The deadlines that a CPU cannot meet, with the sum of the load. `None`: there are none.
pub(super) fn too_much(Capacity { label, sum, findings }: &Capacity) -> Option<String> {
    let fails: Vec<_> = findings.iter().filter(|finding| finding.fails).map(|finding| finding.text.as_str()).collect();
    (!fails.is_empty()).then(|| format!("{label}: {sum}; {}", fails.join("; ")))
}

fn describe(text: &mut String, config: &Config, index: usize, worker: &WorkerConfig) {
    let tasks: Vec<_> = config.tasks.iter().filter(|task| task.worker == index).collect();
    // Writing to a String cannot fail, here and below.
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
        Spin::Auto { cpu_max, target } => {
            let target = target.map_or(String::new(), |target| format!(" for {target}"));
            format!("spin tail auto{target}, at most {:.1} % of a CPU", cpu_max * 100.0)
        }
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
