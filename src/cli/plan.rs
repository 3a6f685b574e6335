//! `hertzd plan`: the layout of workers, CPUs and phases that keeps each task's worst response lowest, as TOML.

mod document;
mod input;
mod report;

use super::check::too_much;
use super::{App, ConfigArg, Source, Stop, print};
use crate::config::Problems;
use crate::daemon::layout::{MOST, plan as lay_out};
use crate::daemon::{Models, capacities};
use crate::sys::host::Host;
use clap::Args;
use document::{Document, as_it_is, texts};
use input::{Input, Written, list};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd plan my.toml > planned.toml && hertzd check planned.toml\n  \
    hertzd plan my.toml --runs day.mcap    by run times that were recorded\n  \
    hertzd plan my.toml --cpus 2,3         on two CPUs only\n  \
    hertzd plan --free                     the demo, with nothing pinned\n\n\
    Prints the configuration with other workers, CPUs, priorities and phases; all\n\
    else stays, and so do phases and CPUs that are written in it, unless --free\n\
    is given. Comments at the top show the worst response of each task and the\n\
    load of each CPU before and after, and what the plan does not know. The same\n\
    input gives the same plan. Exits with 1 if the deadlines cannot all hold.\n\
    docs/planning.md says how it is found.")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Take the longest runs from this MCAP recording, and budgets only for tasks that are not in it
    #[arg(long, value_name = "RECORDING")]
    runs: Option<PathBuf>,
    /// CPUs to use, such as 1,4-7 [default: all that are online]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Let the plan also change phases and CPUs that are written in the configuration
    #[arg(long)]
    free: bool,
}

/// CPUs, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CpuList(Vec<usize>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let number = |text: &str| {
        text.trim().parse::<usize>().map_err(|_| format!("{text:?} is no CPU; write a list such as 1,4-7"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first || last - first > 1 << 16 {
                    return Err(format!("{part:?} is no range of CPUs; write the smaller number first"));
                }
                cpus.extend(first..=last);
            }
            None => cpus.push(number(part)?),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

pub(super) fn plan(app: &App, args: &PlanArgs) -> Result<(), Stop> {
    let source = Source::of(&args.config);
    if matches!(source, Source::StandardInput) {
        return Err(Stop::Usage("plan reads its configuration more than once, so it must be a file, not -".into()));
    }
    let config = app.load(&source).map_err(|problems: Problems| problems.ending_in("nothing was planned"))?;
    let online = Host::read().online_cpus;
    let cpus = cpus(args, &online)?;
    if config.tasks.len() > MOST {
        let count = config.tasks.len();
        return Err(Stop::Usage(format!(
            "{source}: {count} tasks; plan handles {MOST} at most, so plan a part of them at a time"
        )));
    }
    let models = Models::default();
    let models = match &args.runs {
        Some(path) => models.running(path).map_err(|error| Stop::Usage(error.to_string()))?,
        None => models,
    };
    let mut document = Document::parse(&texts(app, &source, &config)?).map_err(Stop::Fault)?;
    let written = if args.free { Written::default() } else { Written::of(&config, |task| document.has_phase(task)) };
    let input =
        Input::of(&config, &models, &cpus, written).map_err(|reason| Stop::Usage(format!("{source}: {reason}")))?;
    let layout = lay_out(&input.placed, cpus.len(), input.now_on_these(&config));
    let named = match layout.changed {
        true => document.lay_out(&config, &input, &layout),
        false => as_it_is(&config, &input),
    };
    let toml = document.text();
    let planned = app.parse(&toml, "the planned configuration").map_err(|problems| {
        // The text is ours: a problem in it is a fault of this program, or the file changed meanwhile.
        Stop::Fault(format!("the plan is no valid configuration: {}", problems.render(false)))
    })?;
    let (before, after) = (capacities(&config, &online), capacities(&planned, &online));
    let report = report::Report { source: &source, config: &config, input: &input, layout: &layout, named: &named };
    print(&(report.text(&before, &after) + &toml))?;
    let fails: Vec<_> = after.iter().filter_map(too_much).collect();
    if fails.is_empty() { Ok(()) } else { Err(Stop::TooMuch(fails.join("; "))) }
}

/// The CPUs to use.
fn cpus(args: &PlanArgs, online: &[usize]) -> Result<Vec<usize>, Stop> {
    let Some(CpuList(cpus)) = &args.cpus else { return Ok(online.to_vec()) };
    match cpus.iter().find(|cpu| !online.contains(cpu)) {
        Some(cpu) => {
            Err(Stop::Usage(format!("--cpus: CPU {cpu} is not online; this machine has CPU {}", list(online))))
        }
        None => Ok(cpus.clone()),
    }
}

#[cfg(test)]
mod tests;
