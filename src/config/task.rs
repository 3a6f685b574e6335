//! The rules of `[task.NAME]`.

use super::blueprint::Blueprint;
use super::choices::{ClockKind, OnError};
use super::graph::{Linked, Node};
use super::identity::identity;
use super::key::Key;
use super::keys::*;
use super::kinds::{Kind, Kinds};
use super::limits::percent_of;
use super::meant::did_you_mean;
use super::record::RecordConfig;
use super::section::Section;
use super::taken::ByValue;
use super::types::{OverrunLimit, TaskConfig};
use super::{record, stand_in, value};
use crate::pacing::{Overrun, Rate};
use crate::time::Span;

/// What is known about a task. Its worker, rate and recording are known even if something else is wrong.
pub(super) struct Judged {
    pub(super) worker: Option<usize>,
    pub(super) rate: Option<Rate>,
    pub(super) record: Option<RecordConfig>,
    deadline: Option<Span>,
    config: Option<TaskConfig>, // `None` only if a problem was noted
}

impl Judged {
    /// What the graph needs to order this task among the others.
    pub(super) fn node(&self) -> Node {
        let blueprint = self.config.as_ref().map(|config| &config.blueprint);
        let (held, first_value) = blueprint.map_or((Span::ZERO, Span::ZERO), |it| (it.held(), it.first_value()));
        Node { worker: self.worker, rate: self.rate, deadline: self.deadline, held, first_value }
    }

    /// The task, if nothing was wrong with it.
    pub(super) fn into_config(self, linked: Linked) -> Option<TaskConfig> {
        let Linked { taken, turn } = linked;
        Some(TaskConfig { record: self.record, taken, turn, ..self.config? })
    }
}

/// Checks one task. `workers`: their names and clocks.
pub(super) fn judge(name: &str, section: &mut Section<'_>, workers: &[(&str, ClockKind)], kinds: &Kinds) -> Judged {
    let clocks = workers;
    let workers: &[&str] = &workers.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let kind = kind(section, kinds);
    refuse_unknown(section, kind);
    let worker = worker(section, workers);
    let rate = rate(section);
    let timing = timing(section, rate);
    let overrun = overrun(section);
    let overrun_limit = overrun_limit(section);
    let max_missed = section.read(&MAX_MISSED, |value| percent_of(&MAX_MISSED.value, value));
    let on_error = section.choice(&ON_ERROR, &ON_ERRORS).unwrap_or(OnError::Continue);
    let record = record::judge(section);
    let record_raw = section.boolean(&RECORD_RAW).unwrap_or(false);
    if record_raw && record.as_ref().is_some_and(|record| record.format == record::RecordFormat::Wav) {
        section.problem(&RECORD_RAW, "has no effect: a .wav has no values; remove it");
    }
    let queue = section.choice(&QUEUE, &QUEUES).unwrap_or_default();
    let simulated = stand_in::judge(section, overrun);
    section.shadow = kinds.is_shadow();
    section.clock = worker.map_or(ClockKind::Monotonic, |worker| clocks[worker].1);
    let blueprint = kind.and_then(|kind| blueprint(section, kind));
    let valid = section.ranges(&VALID);
    let (stuck_after, hold) = (section.durations_by_value(&STUCK_AFTER), section.durations_by_value(&HOLD));
    let max_latency = section.duration(&MAX_LATENCY);
    let file = blueprint.as_ref().and_then(Blueprint::read_state);
    let config = || {
        let Timing { phase, deadline, budget } = timing?;
        let mut resolved = vec![("worker", workers[worker?])];
        resolved.extend(file.as_ref().map(|(key, state)| (*key, state.as_str())));
        Some(TaskConfig {
            name: name.to_owned(),
            kind: kind?.name,
            worker: worker?,
            rate: rate?,
            phase,
            overrun: overrun?,
            deadline,
            turn: deadline.into(),
            valid,
            stuck_after: Some(stuck_after).filter(|after| *after != ByValue::Any).map(Box::new),
            hold: Some(hold).filter(|hold| *hold != ByValue::Any).map(Box::new),
            max_latency,
            taken: Vec::new(),
            max_missed: max_missed?,
            budget,
            overrun_limit,
            on_error,
            record: None,
            record_raw,
            queue,
            identity: identity(section.table, &resolved),
            simulated_run: simulated.run,
            stand_in: simulated.stand_in.map(Box::new),
            fails: simulated.fails.map(Box::new),
            acts: section.acts,
            blueprint: blueprint?,
            section: section.origin(),
        })
    };
    Judged { worker, rate, deadline: timing.map(|timing| timing.deadline), config: config(), record }
}

fn kind<'k>(section: &mut Section<'_>, kinds: &'k Kinds) -> Option<&'k Kind> {
    let known = format!("known kinds: {}", kinds.names().collect::<Vec<_>>().join(", "));
    if !section.has(&KIND) {
        section.problem(&KIND, format!("missing; {known}"));
    }
    let name = section.text(&KIND)?;
    let kind = kinds.get(&name);
    if kind.is_none() {
        if let Some(remedy) = kinds.remedy(&name) {
            section.problem_with_help(&KIND, "this build of hertzd was made without this kind", remedy);
            return None;
        }
        let help = did_you_mean(&name, kinds.names().chain(kinds.left_out()));
        section.problem_at(KIND.name, format!("there is no such kind; {known}"), help);
    }
    kind
}

/// Rejects unknown keys, and keys that break a rule of the tables.
fn refuse_unknown(section: &mut Section<'_>, kind: Option<&Kind>) {
    let keys: Vec<&Key> = TASK_KEYS.iter().chain(kind.iter().flat_map(|kind| kind.keys.iter())).collect();
    let mut known: Vec<_> = keys.iter().map(|key| key.name).collect();
    known.insert(TASK_KEYS.len(), "simulate");
    match kind {
        Some(kind) if kind.is_open() => (), // serde rejects what it does not know
        _ => section.refuse_unknown(&known, kind.is_some()),
    }
    section.refuse_broken_rules(&keys);
}

fn worker(section: &mut Section<'_>, workers: &[&str]) -> Option<usize> {
    let known = format!("known workers: {}", workers.join(", "));
    if !section.has(&WORKER) {
        if workers.len() > 1 {
            section.problem(&WORKER, format!("missing; {known}"));
        }
        return (workers.len() == 1).then_some(0);
    }
    let name = section.text(&WORKER)?;
    let index = workers.iter().position(|worker| *worker == name);
    if index.is_none() {
        let help = did_you_mean(&name, workers.iter().copied());
        section.problem_at(WORKER.name, format!("there is no such worker; {known}"), help);
    }
    index
}

fn rate(section: &mut Section<'_>) -> Option<Rate> {
    match (section.has(&RATE), section.has(&PERIOD)) {
        (true, false) => section.rate(&RATE),
        (false, true) => section.duration(&PERIOD).and_then(Rate::from_period),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Timing {
    phase: Span,
    deadline: Span,
    budget: Option<Span>,
}

fn timing(section: &mut Section<'_>, rate: Option<Rate>) -> Option<Timing> {
    let phase = section.duration(&PHASE).unwrap_or_default();
    let deadline = section.duration(&DEADLINE);
    let budget = section.duration(&BUDGET);
    let period = rate?.period();
    if phase >= period {
        section.problem(&PHASE, format!("must be below one period, {}", value::written(period)));
    }
    if deadline.is_none() && section.has(&DEADLINE) {
        return None;
    }
    let deadline = deadline.unwrap_or(period);
    if budget.is_some_and(|budget| budget > deadline) {
        section.problem(&BUDGET, format!("must be at most the deadline, {}", value::written(deadline)));
    }
    Some(Timing { phase, deadline, budget })
}

fn overrun(section: &mut Section<'_>) -> Option<Overrun> {
    let (max, max_debt) = (section.integer(&MAX_CATCH_UP), section.duration(&MAX_DEBT));
    Some(match section.choice(&OVERRUN, &OVERRUNS)? {
        Overrun::CatchUp { .. } => Overrun::CatchUp { max: max? },
        Overrun::Credit { .. } => Overrun::Credit { max_debt: max_debt? },
        other => other,
    })
}

fn overrun_limit(section: &mut Section<'_>) -> Option<OverrunLimit> {
    let (leak, action) = (section.duration(&OVERRUN_LEAK), section.choice(&ON_OVERRUN_LIMIT, &LIMIT_ACTIONS));
    let count = section.integer(&OVERRUN_LIMIT);
    Some(OverrunLimit { count: count?, leak: leak?, action: action? })
}

fn blueprint(section: &mut Section<'_>, kind: &Kind) -> Option<Blueprint> {
    let blueprint = (kind.parse)(section);
    if blueprint.is_none() && section.problems.is_empty() {
        section.problem(&KIND, "the kind refused this section without a reason; that is a fault of the kind");
    }
    blueprint
}
