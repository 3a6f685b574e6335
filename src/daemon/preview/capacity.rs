//! Whether the deadlines of a configuration can hold, per CPU over all its workers. Pure.
//!
//! A worker that is not pinned to a single CPU is judged as if it had its own. Whether enough CPUs exist for these is judged over all of
//! them. A task takes its budget, or the run that its kind knows, whichever is longer. With neither it counts as no work, so whatever fails
//! even then really fails. A tick that sleeps all that time delays the tasks of its worker but takes no processor time.

use crate::config::{Config, Scheduling, TaskConfig, WorkerConfig};
use crate::daemon::plan;
use crate::pacing::{Demand, Interference, Rate, Tail, Verdict, feasible_beside};
use crate::time::Span;
use std::collections::BTreeMap;

/// The share of a CPU that the kernel leaves to real-time threads: by default it stops them for 50 ms in every second.
const REALTIME_SHARE: f64 = 0.95;

/// Tolerance for the rounding of sums.
const ROUNDING: f64 = 1e-9;

/// The verdict on one CPU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capacity {
    /// The CPU and its workers: `CPU 1 (control, log)`, `worker log on a CPU of its own`.
    pub(crate) label: String,
    /// The demand on it: `26.0 % of its time: 20.0 % by budgets, 6.0 % by spin tails`; also names the tasks whose demand is unknown.
    pub(crate) sum: String,
    /// The conclusions, one sentence each.
    pub(crate) findings: Vec<Finding>,
}

/// One sentence of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) text: String,
    /// A deadline cannot be held.
    pub(crate) fails: bool,
}

impl Finding {
    fn holds(text: String) -> Self {
        Self { text, fails: false }
    }

    fn fails(text: String) -> Self {
        Self { text, fails: true }
    }
}

/// The verdicts on a machine with these CPUs.
pub(crate) fn capacities(config: &Config, online_cpus: &[usize]) -> Vec<Capacity> {
    let loads: Vec<_> =
        config.workers.iter().enumerate().map(|(index, worker)| Load::of(config, index, worker)).collect();
    let mut by_cpu: BTreeMap<usize, Vec<&Load<'_>>> = BTreeMap::new();
    for load in &loads {
        if let [cpu] = load.worker.cpus[..] {
            by_cpu.entry(cpu).or_default().push(load);
        }
    }
    let pinned = by_cpu.iter().map(|(cpu, loads)| one_cpu(format!("CPU {cpu} ({})", named(loads)), loads));
    let free = loads.iter().filter(|load| load.worker.cpus.len() != 1);
    let free = free.map(|load| one_cpu(format!("worker {} on a CPU of its own", load.worker.name), &[load]));
    let mut verdicts: Vec<_> = pinned.chain(free).collect();
    verdicts.extend(sets(&loads, online_cpus));
    verdicts
}

/// What counts for a task.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    rate: Rate,
    deadline: Span,
    cost: Span,  // longest time of a tick
    work: Span,  // most processor time of a tick
    usual: Span, // average time of a tick
    awake: Span, // average processor time of a tick
}

impl Claim {
    pub(crate) fn of(task: &TaskConfig) -> Self {
        let (cost, work, usual, awake) = (cost(task), work(task), usual(task), awake(task, usual));
        Self { rate: task.rate, deadline: task.deadline, cost, work, usual, awake }
    }

    /// The claim of a task that has only a budget.
    #[cfg(test)]
    pub(super) fn budget(rate: Rate, deadline: Span, budget: Span) -> Self {
        Self { rate, deadline, cost: budget, work: budget, usual: budget, awake: budget }
    }
}

/// The number of objections to real-time workers on one CPU, where each worker interrupts those after it.
pub(crate) fn objections(workers: &[(Vec<Claim>, Tail)]) -> usize {
    let share: f64 =
        workers.iter().map(|(claims, tail)| shares(claims, *tail)).map(|(_, budgets, spin)| budgets + spin).sum();
    let too_much = usize::from(too_much(share, share).is_some());
    if too_much > 0 && workers.len() == 1 {
        return too_much;
    }
    let mut above = Vec::new();
    let mut objections = too_much;
    for (claims, tail) in workers {
        objections += usize::from(fails(&verdict(claims, &above)));
        above.extend(interference(claims, shares(claims, *tail).0));
    }
    objections
}

/// The most processor time that a worker's spin tail takes per release; the worker's work as a share of a CPU; and the tail as such a
/// share. The tail takes no more than the ticks leave.
fn shares(claims: &[Claim], tail: Tail) -> (Span, f64, f64) {
    // Sum up from zero: the sum of no floats is -0.0.
    let hertz = claims.iter().fold(0.0, |sum, claim| sum + claim.rate.hertz());
    let tail = tail.cost(hertz);
    let share = |of: &dyn Fn(&Claim) -> Span| {
        claims.iter().fold(0.0, |sum, claim| sum + of(claim).seconds() * claim.rate.hertz())
    };
    (tail, share(&|claim| claim.awake), (tail.seconds() * hertz).min((1.0 - share(&|claim| claim.usual)).max(0.0)))
}

/// A worker's work and tails, as interference for the workers after it.
fn interference(claims: &[Claim], tail: Span) -> impl Iterator<Item = Interference> {
    let each = claims.iter().map(move |claim| Interference { rate: claim.rate, cost: claim.work + tail });
    each.filter(|one| one.cost > Span::ZERO)
}

/// The objection to a CPU whose workers take `share` of it, and those with a real-time policy `realtime`; `None`: neither is too much.
fn too_much(share: f64, realtime: f64) -> Option<String> {
    if share > 1.0 + ROUNDING {
        Some("more work than time, so releases will be missed".into())
    } else if realtime > REALTIME_SHARE + ROUNDING {
        Some(format!(
            "real-time threads may use {} %: the kernel stops them for the rest of each second, so releases will be missed",
            REALTIME_SHARE * 100.0
        ))
    } else {
        None
    }
}

/// A worker's demand.
struct Load<'a> {
    worker: &'a WorkerConfig,
    tasks: Vec<&'a TaskConfig>,
    claims: Vec<Claim>, // of the tasks
    /// The most processor time that its spin tail takes per release.
    tail: Span,
    budgets: f64, // processor time as a share of a CPU
    spin: f64,    // the same for the spin tail, limited to what the ticks leave
}

impl<'a> Load<'a> {
    fn of(config: &'a Config, index: usize, worker: &'a WorkerConfig) -> Self {
        let tasks: Vec<_> = plan::of_worker(&config.tasks, index).map(|task| &config.tasks[task]).collect();
        let claims: Vec<_> = tasks.iter().map(|task| Claim::of(task)).collect();
        let (tail, budgets, spin) = shares(&claims, worker.spin.tail());
        Self { worker, tasks, claims, tail, budgets, spin }
    }

    fn share(&self) -> f64 {
        self.budgets + self.spin
    }

    /// Its priority among the workers of its CPU. A worker without a real-time policy comes last.
    fn priority(&self) -> u8 {
        match self.worker.scheduling {
            Scheduling::Fifo { priority } | Scheduling::Rr { priority } => priority,
            Scheduling::Deadline { .. } => u8::MAX,
            Scheduling::Other => 0,
        }
    }

    fn without_budget(&self) -> impl Iterator<Item = &'a TaskConfig> {
        self.tasks.iter().copied().filter(|task| regular(task).is_none())
    }

    fn sleeping(&self) -> impl Iterator<Item = &'a TaskConfig> {
        self.tasks.iter().copied().filter(|task| task.blueprint.sleeps() && cost(task) > Span::ZERO)
    }

    /// Its work and tails, as interference for the workers after it.
    fn interference(&self) -> impl Iterator<Item = Interference> {
        interference(&self.claims, self.tail)
    }
}

/// The longest time that a tick may take, or is known to take.
fn known(task: &TaskConfig) -> Option<Span> {
    regular(task).max(task.blueprint.exceptional().map(|tick| tick.run))
}

/// The same, except ticks that now and then take a different time.
fn regular(task: &TaskConfig) -> Option<Span> {
    task.budget.max(task.blueprint.run().iter().copied().max())
}

/// The average time of a tick: its budget, or what its kind knows, if that is more.
fn usual(task: &TaskConfig) -> Span {
    let runs = task.blueprint.run();
    let all = runs.iter().map(|run| i128::from(run.nanos())).sum::<i128>();
    let mean = i128::try_from(runs.len()).ok().and_then(|count| all.checked_div(count)).unwrap_or(0);
    Span::from_wide(mean).max(task.budget.unwrap_or_default())
}

fn cost(task: &TaskConfig) -> Span {
    known(task).unwrap_or_default()
}

/// The most processor time that a tick takes.
fn work(task: &TaskConfig) -> Span {
    match task.blueprint.exceptional() {
        Some(tick) if tick.sleeps => awake(task, |task| regular(task).unwrap_or_default()),
        _ => awake(task, cost),
    }
}

/// The part of `time` that a tick spends on the processor.
fn awake(task: &TaskConfig, time: fn(&TaskConfig) -> Span) -> Span {
    if task.blueprint.sleeps() { Span::ZERO } else { time(task) }
}

/// The verdict on a CPU that only these workers use.
fn one_cpu(label: String, loads: &[&Load<'_>]) -> Capacity {
    let total = |of: &dyn Fn(&Load<'_>) -> f64| loads.iter().fold(0.0, |sum, load| sum + of(load));
    let mut findings = Vec::new();
    let realtime = total(&|load| if load.priority() > 0 { load.share() } else { 0.0 });
    let share = total(&|load| load.share());
    findings.extend(too_much(share, realtime).map(Finding::fails));
    for load in loads {
        let is_first = |other: &Load<'_>| !std::ptr::eq(other, *load) && other.priority() >= load.priority();
        let first: Vec<_> = loads.iter().copied().filter(|other| is_first(other)).collect();
        let name = if loads.len() > 1 { format!("{}: ", load.worker.name) } else { String::new() };
        // An overload of the whole CPU already covers its only worker.
        let runtime = runtime(load);
        let deadlines =
            (runtime.is_none() && (findings.is_empty() || loads.len() > 1)).then(|| deadlines(load, &first));
        let texts = runtime.into_iter().chain(deadlines);
        findings.extend(texts.map(|finding| Finding { text: name.clone() + &finding.text, ..finding }));
    }
    Capacity { label, sum: sum(loads), findings }
}

fn sum(loads: &[&Load<'_>]) -> String {
    let total = |of: &dyn Fn(&Load<'_>) -> f64| loads.iter().fold(0.0, |sum, load| sum + of(load));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let (budgets, spin) = (total(&|load| load.budgets), total(&|load| load.spin));
    let tasks: Vec<_> = loads.iter().flat_map(|load| &load.tasks).collect();
    let without: Vec<_> = loads.iter().flat_map(|load| load.without_budget()).map(|task| task.name.as_str()).collect();
    let unknown = format!("no budget is given for {}", listed(&without));
    let by = sources(tasks.iter().copied().copied());
    let sleeping: Vec<_> = loads.iter().flat_map(|load| load.sleeping()).map(|task| task.name.as_str()).collect();
    let asleep = match &sleeping[..] {
        [] => String::new(),
        names => format!("; the ticks of {} sleep, and take none", listed(names)),
    };
    let sum = match (without.len(), tasks.len()) {
        (0, _) => {
            let share = percent(budgets + spin);
            format!("{share} of its time: {} by {by}, {} by spin tails", percent(budgets), percent(spin))
        }
        (none, all) if none == all && spin == 0.0 => unknown,
        (none, all) if none == all => format!("at least {} of its time, by spin tails; {unknown}", percent(spin)),
        _ => {
            let share = percent(budgets + spin);
            let by = format!("{} by {by}, {} by spin tails", percent(budgets), percent(spin));
            format!("at least {share} of its time: {by}; {unknown}")
        }
    };
    sum + &asleep
}

/// Where the times of these tasks come from.
fn sources<'a>(mut tasks: impl Iterator<Item = &'a TaskConfig>) -> &'static str {
    if tasks.any(|task| known(task) > task.budget) { "budgets and known runs" } else { "budgets" }
}

/// Whether a worker with the policy `deadline` has asked for too little; `None`: it has not, or has another policy.
fn runtime(load: &Load<'_>) -> Option<Finding> {
    let Scheduling::Deadline { runtime, period } = load.worker.scheduling else { return None };
    let sum = |of: &dyn Fn(&TaskConfig) -> Span| {
        let all = load
            .tasks
            .iter()
            .map(|task| i128::from(task.rate.ticks_before(period.nanos().into())) * i128::from(of(task).nanos()));
        Span::from_wide(all.sum())
    };
    let (budgets, tails) = (sum(&work), sum(&|_| load.tail));
    let (needed, by) = (budgets + tails, sources(load.tasks.iter().copied()));
    (needed > runtime).then(|| {
        Finding::fails(format!(
            "runtime = {runtime} in every {period} is less than the {needed} that can come up in that time: {budgets} by \
             {by}, {tails} by spin tails"
        ))
    })
}

/// Whether a worker meets its deadlines if no tick exceeds its budget and the workers in `first` go first.
fn deadlines(load: &Load<'_>, first: &[&Load<'_>]) -> Finding {
    let above: Vec<_> = first.iter().flat_map(|other| other.interference()).collect();
    let name = |task: usize| &load.tasks[task].name;
    match verdict(&load.claims, &above) {
        Verdict::Fails { task, at, excess, .. } => {
            let beside = if above.is_empty() { "" } else { ", with what the other workers take" };
            let why = format!("the work due within {at} is {excess} too much{beside}");
            Finding::fails(format!("{} can miss its deadline: {why}", name(task)))
        }
        Verdict::Overloaded { .. } if load.tasks.iter().any(|task| usual(task) < cost(task)) => Finding::fails(
            "more work than time while ticks take as long as the longest, so releases will be missed".into(),
        ),
        Verdict::Overloaded { .. } => Finding::fails("more work than time, so releases will be missed".into()),
        Verdict::Unknown { reason } => Finding::holds(format!("whether the deadlines hold is unknown: {reason}")),
        Verdict::Holds { tightest, slack, .. } => {
            let without: Vec<_> =
                std::iter::once(load).chain(first.iter().copied()).flat_map(Load::without_budget).collect();
            let names: Vec<_> = without.iter().map(|task| task.name.as_str()).collect();
            Finding::holds(match tightest {
                _ if load.without_budget().count() == load.tasks.len() => {
                    "no task has a budget: whether the deadlines hold is unknown".into()
                }
                _ if !names.is_empty() => {
                    format!("whether the deadlines hold is unknown without a budget for {}", listed(&names))
                }
                Some(task) => format!("every deadline holds; tightest is {}, with {slack} left", name(task)),
                None => "every deadline holds".into(),
            })
        }
    }
}

/// Whether a worker meets its deadlines beside the interference of the workers `above`. That may or may not delay a tick that sleeps. So
/// the deadlines hold if they hold with all of it, and fail if they fail without it or without the sleeps.
fn verdict(claims: &[Claim], above: &[Interference]) -> Verdict {
    let demands = |of: &dyn Fn(&Claim) -> Span| -> Vec<_> {
        let demand = |claim: &Claim| Demand { rate: claim.rate, deadline: claim.deadline, budget: of(claim) };
        claims.iter().map(demand).collect()
    };
    let all = demands(&|claim| claim.cost);
    let verdict = feasible_beside(&all, above);
    if !fails(&verdict) || above.is_empty() || claims.iter().all(|claim| claim.work == claim.cost) {
        return verdict;
    }
    let certain = [feasible_beside(&all, &[]), feasible_beside(&demands(&|claim| claim.work), above)];
    certain.into_iter().find(fails).unwrap_or(Verdict::Unknown {
        reason: "its ticks sleep, and what comes first may take the processor then, or after it",
    })
}

fn fails(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Fails { .. } | Verdict::Overloaded { .. })
}

/// Sets of CPUs whose workers demand more than those CPUs have together.
fn sets(loads: &[Load<'_>], online_cpus: &[usize]) -> Vec<Capacity> {
    let allowed = |load: &Load<'_>| match &load.worker.cpus[..] {
        [] => online_cpus.to_vec(),
        cpus => cpus.to_vec(),
    };
    let mut sets: Vec<_> = loads.iter().filter(|load| load.worker.cpus.len() != 1).map(allowed).collect();
    sets.sort();
    sets.dedup();
    let verdict = |set: Vec<usize>| {
        let inside: Vec<_> = loads.iter().filter(|load| allowed(load).iter().all(|cpu| set.contains(cpu))).collect();
        let total = |of: &dyn Fn(&Load<'_>) -> f64| inside.iter().fold(0.0, |sum, load| sum + of(load));
        #[expect(clippy::cast_precision_loss, reason = "a few CPUs")]
        let there = set.len() as f64;
        (inside.len() > 1 && total(&|load| load.share()) > there + ROUNDING).then(|| Capacity {
            label: format!("{} CPUs together ({})", set.len(), named(&inside)),
            sum: sum(&inside),
            findings: vec![Finding::fails("more work than time, so releases will be missed".into())],
        })
    };
    sets.into_iter().filter_map(verdict).collect()
}

fn named(loads: &[&Load<'_>]) -> String {
    listed(&loads.iter().map(|load| load.worker.name.as_str()).collect::<Vec<_>>())
}

/// The first few names.
fn listed(names: &[&str]) -> String {
    match names.len() {
        0..=4 => names.join(", "),
        count => format!("{} and {} more", names[..3].join(", "), count - 3),
    }
}
