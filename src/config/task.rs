//! The rules of `[task.NAME]`.

use super::keys::{CATCH_UP, OVERRUN_LIMIT, TASK_KEYS, TASK_SIMULATE_KEYS, suggestion};
use super::kinds::{Blueprint, Kind, Kinds};
use super::section::Section;
use super::{LimitAction, OnError, OverrunLimit, RecordConfig, TaskConfig, record, value};
use crate::channels::Queue;
use crate::pacing::{Overrun, Rate};
use crate::time::Span;

const DEFAULT_CATCH_UP: u32 = 4;
const DEFAULT_MAX_DEBT: Span = Span::from_seconds(1);
const DEFAULT_OVERRUN_LEAK: Span = Span::from_seconds(1);

/// The parameters are the defaults; they are read from keys of their own.
const OVERRUNS: &[(&str, Overrun)] = &[
    ("drop", Overrun::Drop),
    ("keep-working", Overrun::KeepWorking),
    ("catch-up", Overrun::CatchUp { max: DEFAULT_CATCH_UP }),
    ("credit", Overrun::Credit { max_debt: DEFAULT_MAX_DEBT }),
    ("delay", Overrun::Delay),
];
const ON_ERRORS: &[(&str, OnError)] =
    &[("continue", OnError::Continue), ("disable", OnError::Disable), ("exit", OnError::Exit)];
const QUEUES: &[(&str, Queue)] = &[("fifo", Queue::Fifo), ("mailbox", Queue::Mailbox)];
const LIMIT_ACTIONS: &[(&str, LimitAction)] =
    &[("warn", LimitAction::Warn), ("disable", LimitAction::Disable), ("exit", LimitAction::Exit)];

/// What is known of a task; its worker, rate and recording even when something else of it is wrong.
pub(super) struct Judged {
    pub(super) worker: Option<usize>,
    pub(super) rate: Option<Rate>,
    pub(super) record: Option<RecordConfig>,
    config: Option<TaskConfig>, // `None` only when a problem was noted
}

impl Judged {
    /// The task, when nothing was wrong with it.
    pub(super) fn into_config(self) -> Option<TaskConfig> {
        Some(TaskConfig { record: self.record, ..self.config? })
    }
}

pub(super) fn judge(name: &str, section: &mut Section<'_>, workers: &[&str], kinds: &Kinds) -> Judged {
    let kind = kind(section, kinds);
    refuse_unknown(section, kind);
    let worker = worker(section, workers);
    let rate = rate(section);
    let timing = timing(section, rate);
    let overrun = overrun(section);
    let overrun_limit = overrun_limit(section);
    let on_error = section.choice("on-error", ON_ERRORS).unwrap_or(OnError::Continue);
    let record = record::judge(section);
    let queue = section.choice("queue", QUEUES).unwrap_or_default();
    let mut simulated_run = None;
    if let Some(mut simulate) = section.table("simulate", TASK_SIMULATE_KEYS) {
        simulated_run = simulate.durations("run");
        section.absorb(simulate);
    }
    let blueprint = kind.and_then(|kind| blueprint(section, kind));
    let config = || {
        let Timing { phase, deadline, budget } = timing?;
        Some(TaskConfig {
            name: name.to_owned(),
            kind: kind?.name,
            worker: worker?,
            rate: rate?,
            phase,
            overrun: overrun?,
            deadline,
            budget,
            overrun_limit,
            on_error,
            record: None,
            queue,
            identity: section.identity(&[("worker", workers[worker?])]),
            simulated_run,
            blueprint: blueprint?,
            section: section.origin(),
        })
    };
    Judged { worker, rate, config: config(), record }
}

fn kind<'k>(section: &mut Section<'_>, kinds: &'k Kinds) -> Option<&'k Kind> {
    let known = format!("known kinds: {}", kinds.names().collect::<Vec<_>>().join(", "));
    if !section.require("kind", &known) {
        return None;
    }
    let name = section.text("kind")?;
    let kind = kinds.get(&name);
    if kind.is_none() {
        if let Some(remedy) = kinds.remedy(&name) {
            section.problem_with_help("kind", "this build of hertzd was made without this kind", Some(remedy.into()));
            return None;
        }
        let help =
            suggestion(&name, kinds.names().chain(kinds.left_out())).map(|near| format!("did you mean \"{near}\"?"));
        section.problem_with_help("kind", format!("there is no such kind; {known}"), help);
    }
    kind
}

fn refuse_unknown(section: &mut Section<'_>, kind: Option<&Kind>) {
    let mut known: Vec<_> = TASK_KEYS.iter().map(|key| key.name).collect();
    known.push("simulate");
    known.extend(kind.iter().flat_map(|kind| kind.keys.iter()).map(|key| key.name));
    match kind {
        Some(kind) if kind.is_open() => (), // serde refuses what it does not know
        _ => section.refuse_unknown(&known, kind.is_some()),
    }
}

fn worker(section: &mut Section<'_>, workers: &[&str]) -> Option<usize> {
    let known = format!("known workers: {}", workers.join(", "));
    if workers.len() == 1 && !section.has("worker") {
        return Some(0);
    }
    if !section.require("worker", &known) {
        return None;
    }
    let name = section.text("worker")?;
    let index = workers.iter().position(|worker| *worker == name);
    if index.is_none() {
        let help = suggestion(&name, workers.iter().copied()).map(|near| format!("did you mean \"{near}\"?"));
        section.problem_with_help("worker", format!("there is no such worker; {known}"), help);
    }
    index
}

fn rate(section: &mut Section<'_>) -> Option<Rate> {
    if section.refuse_both("rate", "period") {
        return None;
    }
    match (section.has("rate"), section.has("period")) {
        (true, _) => section.read("rate", value::rate),
        (false, true) => section.read("period", |found| {
            Rate::from_period(value::duration(found)?).ok_or_else(|| "must be from 1us to 24h".to_owned())
        }),
        (false, false) => {
            section.problem("rate", "missing; write rate (\"1 kHz\") or period (\"1ms\")");
            None
        }
    }
}

#[derive(Clone, Copy)]
struct Timing {
    phase: Span,
    deadline: Span,
    budget: Option<Span>,
}

fn timing(section: &mut Section<'_>, rate: Option<Rate>) -> Option<Timing> {
    let phase = section.duration_or_zero("phase").unwrap_or_default();
    let deadline = section.duration("deadline");
    let budget = section.duration("budget");
    let period = rate?.period();
    if phase >= period {
        section.problem("phase", format!("must be below one period, {}", value::written(period)));
    }
    if deadline.is_none() && section.has("deadline") {
        return None;
    }
    let deadline = deadline.unwrap_or(period);
    if budget.is_some_and(|budget| budget > deadline) {
        section.problem("budget", format!("must be at most the deadline, {}", value::written(deadline)));
    }
    Some(Timing { phase, deadline, budget })
}

fn overrun(section: &mut Section<'_>) -> Option<Overrun> {
    let max = section.integer("max-catch-up", CATCH_UP).and_then(|max| u32::try_from(max).ok());
    let max_debt = section.duration("max-debt");
    let overrun = if section.has("overrun") { section.choice("overrun", OVERRUNS)? } else { Overrun::KeepWorking };
    let catch_up = matches!(overrun, Overrun::CatchUp { .. });
    let credit = matches!(overrun, Overrun::Credit { .. });
    section.refuse_idle("max-catch-up", !catch_up, "unless overrun = \"catch-up\"");
    section.refuse_idle("max-debt", !credit, "unless overrun = \"credit\"");
    Some(match overrun {
        Overrun::CatchUp { max: default } => Overrun::CatchUp { max: max.unwrap_or(default) },
        Overrun::Credit { max_debt: default } => Overrun::Credit { max_debt: max_debt.unwrap_or(default) },
        other => other,
    })
}

fn overrun_limit(section: &mut Section<'_>) -> Option<OverrunLimit> {
    let count = section.integer("overrun-limit", OVERRUN_LIMIT).and_then(|count| u32::try_from(count).ok());
    let leak = section.duration("overrun-leak").unwrap_or(DEFAULT_OVERRUN_LEAK);
    let action = section.choice("on-overrun-limit", LIMIT_ACTIONS).unwrap_or(LimitAction::Warn);
    for key in ["overrun-leak", "on-overrun-limit"] {
        section.refuse_idle(key, !section.has("overrun-limit"), "without overrun-limit");
    }
    count.map(|count| OverrunLimit { count, leak, action })
}

fn blueprint(section: &mut Section<'_>, kind: &Kind) -> Option<Blueprint> {
    let blueprint = (kind.parse)(section);
    if blueprint.is_none() && !section.has_problems() {
        section.problem("kind", "the kind refused this section without a reason; that is a fault of the kind");
    }
    blueprint
}
