//! `hertzd plan`: the layout of workers, CPUs and phases with the lowest worst response of each task, printed as the sections that change.

mod chains;
mod changes;
mod input;
mod places;
mod planned;
mod report;

use super::check::too_much;
use super::terminal::Shown;
use super::{App, ConfigArg, Source, Stop};
use crate::config::Problems;
use crate::daemon::layout::MOST;
use crate::daemon::{Models, capacities};
use crate::sys::host::Host;
use crate::time::Span;
use chains::too_old;
use changes::texts;
use clap::Args;
use input::{Written, list};
use planned::Planning;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd plan my.toml > p.toml && mv p.toml my.d/99-plan.toml\n  \
    hertzd plan my.toml --runs day.mcap    by run times that were recorded\n  \
    hertzd plan my.toml --oversleep m.json by what `hertzd measure --save` found\n  \
    hertzd plan my.toml --cpus 2,3         on two CPUs only\n  \
    hertzd plan --free                     the demo, with nothing pinned\n\n\
    Prints the sections whose workers, CPUs, priorities and phases change, with \
    the keys that do: to write into the configuration, or to save as a drop-in. \
    Phases and CPUs that are written in it stay, unless --free is given. Tasks that take values from each other \
    stay on one worker, and in phase, unless --split-chains is given. Comments at the top show the worst \
    response of each task, the age of each chain and the load of each CPU before \
    and after, and what the plan does not know. The same input gives the same \
    plan. Exits with 1 if no layout that was tried holds all deadlines and every max-latency. \
    docs/planning.md says how it is found.")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Take the longest runs from this MCAP recording, and budgets only for tasks that are not in it
    #[arg(long, value_name = "RECORDING")]
    runs: Option<PathBuf>,
    /// Use the CPUs on which sleeps end least late first, by this file that `hertzd measure --save` wrote
    #[arg(long, value_name = "FILE")]
    oversleep: Option<PathBuf>,
    /// CPUs to use, such as 1,4-7 [default: all that are online]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Let the plan also change phases and CPUs that are written in the configuration
    #[arg(long)]
    free: bool,
    /// Let the plan place tasks that take values from each other one by one, as far as every max-latency holds
    #[arg(long)]
    split_chains: bool,
}

/// CPUs, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuList(pub(super) Vec<usize>);

pub(super) fn cpu_list(text: &str) -> Result<CpuList, String> {
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
    let mut cpus = cpus(args, &online)?;
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
    let (models, late) = match &args.oversleep {
        Some(path) => late_on(models, path)?,
        None => (models, Vec::new()),
    };
    // CPUs without a measurement come last.
    let p99 = |cpu: &usize| late.iter().find(|(on, _)| on == cpu).map_or(Span::MAX, |(_, [_, p99, _])| *p99);
    cpus.sort_by_key(|cpu| (p99(cpu), *cpu));
    let texts = texts(app, &source, &config)?;
    let written = if args.free { Written::default() } else { Written::of(&config) };
    let planning = Planning {
        app,
        source: &source,
        texts: &texts,
        config: &config,
        models: &models,
        late: &late,
        cpus: &cpus,
        online: &online,
    };
    let mut planned = planning.planned(written.clone(), false)?;
    let mut notes = Vec::new();
    if let Some(reason) = planning.objection(&planned) {
        notes.push(format!("The best layout that was found is not used: {reason}."));
        planned = planning.unchanged(planned)?;
    }
    if args.split_chains {
        let split = planning.planned(written, true)?;
        match planning.split_is_worse(&split, &planned) {
            None => planned = split,
            Some(reason) => {
                notes.push(format!("--split-chains: chains stay together all the same. With them split, {reason}."))
            }
        }
    }
    let (before, after) = (capacities(&config, &online), capacities(&planned.config, &online));
    let ages = [planned.ages(&config, &planned.before), planned.ages(&planned.config, &planned.after)];
    let report =
        report::Report { source: &source, config: &config, planned: &planned, late: &late, notes: &notes, ages: &ages };
    Shown::document(&(report.text(&before, &after) + &planned.changes.toml)).print()?;
    let fails: Vec<_> = after.iter().filter_map(too_much).collect();
    let (old, best) = (too_old(&ages[1]), "no layout that was tried");
    let together = match planned.input.placed.iter().any(|task| task.chain.is_some()) {
        true => " with the tasks of chains together (--split-chains places them one by one)",
        false => "",
    };
    let fails = (!fails.is_empty())
        .then(|| format!("{best} holds all deadlines{together}; the best of them: {}", fails.join("; ")));
    let old = old.map(|old| {
        format!("{best} holds every max-latency, also with the tasks of a chain on one worker, as far as its settings and CPUs allow; in the best of them, {old}")
    });
    let reasons: Vec<_> = fails.into_iter().chain(old).collect();
    if reasons.is_empty() { Ok(()) } else { Err(Stop::Unplanned(reasons.join(". And "))) }
}

/// How late sleeps on each CPU ended when it was measured: median, 99th percentile, maximum.
type LateOn = Vec<(usize, [Span; 3])>;

fn late_on(models: Models, path: &Path) -> Result<(Models, LateOn), Stop> {
    let models = models.oversleeping(path).map_err(|error| Stop::Usage(error.to_string()))?;
    let late = models.measured_cpus();
    match late.is_empty() {
        true => Err(Stop::Usage(format!(
            "--oversleep {}: it does not tell CPUs apart; name a file that `hertzd measure --save` wrote",
            path.display()
        ))),
        false => Ok((models, late)),
    }
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
