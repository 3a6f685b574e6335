//! Decides from a summary whether everything that was asked for happened. Only arithmetic and text: it never blocks and reads no clock.
//!
//! `well` is false exactly when there is a `reason`.

use super::summary::{EndedRecordingSummary, Summary, WorkerSummary, list};
use super::task::{TaskState, TaskSummary};
use crate::time::{Age, Span};

/// What a run has failed to do so far: one clause for each failure, without a full stop; empty if all is well.
pub(crate) fn trouble(summary: &Summary) -> Vec<String> {
    let mut clauses = Vec::new();
    for task in &summary.tasks {
        let name = &task.task;
        if task.disabled {
            clauses.push(format!("task {name} was disabled"));
        }
        if let Some(recorded) = &task.recorded
            && recorded.lost > recorded.replaced
        {
            let lost = recorded.lost - recorded.replaced;
            clauses.push(format!("the recording of task {name} lost {lost} rows, blocks or ticks"));
        }
    }
    for EndedRecordingSummary { task, lost, .. } in &summary.recordings_ended {
        clauses.push(format!("the recording of task {task}, which a reload ended, lost {lost} rows, blocks or ticks"));
    }
    clauses
}

/// The maximum number of reasons in a sentence.
const MOST: usize = 5;

/// For how long a loss or a clock step counts as a reason.
const RECENT: Span = Span::from_seconds(60);

/// Why a running daemon is not well now, judged from its summary: one clause for each reason, without a full stop; empty if all is well.
/// Reasons that affect a whole worker come first.
pub(crate) fn trouble_now(summary: &Summary) -> Vec<String> {
    let mut clauses = Vec::new();
    for worker in &summary.workers {
        let name = &worker.worker;
        let mut held_up = summary.tasks.iter().filter(|task| task.worker == *name && task.state == TaskState::Stalled);
        let cause = held_up.clone().find(|task| task.stalled_tick.is_some()).or_else(|| held_up.next());
        if let Some(stalled_ns) = worker.stalled_ns {
            let since = Span::from_nanos(stalled_ns);
            clauses.push(match cause.map(|task| &**task) {
                Some(TaskSummary { task, stalled_tick: Some(n), .. }) => {
                    format!("worker {name} is stalled: tick {n} of task {task} has not returned for {since}")
                }
                _ => format!("worker {name} is stalled: it should have woken up {since} ago"),
            });
        }
    }
    for task in &summary.tasks {
        clauses.extend(ailment(task));
        clauses.extend(inputs(task, &summary.tasks));
        clauses.extend(values(task, &summary.tasks));
        clauses.extend(missed(task));
        clauses.extend(late_chains(task));
        clauses.extend(lost(task));
    }
    for EndedRecordingSummary { task, lost, lost_age_ns, .. } in &summary.recordings_ended {
        let age = Span::from_nanos(*lost_age_ns);
        if age < RECENT {
            clauses.push(format!(
                "the recording of task {task}, which a reload ended, has lost {lost} rows, blocks or ticks, the last {} ago",
                Age(age)
            ));
        }
    }
    for worker in &summary.workers {
        let name = &worker.worker;
        if let Some(step) = worker.clock_step.filter(|step| Span::from_nanos(step.age_ns) < RECENT) {
            let (clock, by, age) = (&worker.clock, Span::from_nanos(step.by_ns), Age(Span::from_nanos(step.age_ns)));
            clauses.push(format!("the clock {clock} of worker {name} was stepped by {by} {age} ago"));
        }
        if worker.is_otherwise() {
            let (granted, asked) = (&worker.granted.policy, &worker.asked.policy);
            clauses.push(format!("worker {name} runs with policy {granted} instead of {asked}"));
        }
        if worker.is_elsewhere() {
            clauses.push(format!(
                "worker {name} may run on CPU {} instead of CPU {}: allow that CPU (AllowedCPUs=, the cpuset of a container), bring it online, \
                 or choose another one",
                list(&worker.granted.cpus),
                list(&worker.asked.cpus)
            ));
        }
    }
    // Locked memory has no setting of its own: it is part of real-time operation.
    let real_time = |worker: &WorkerSummary| worker.asked.policy.name != "other" && !worker.granted.memory_locked;
    if summary.workers.iter().any(real_time) {
        clauses.push("the memory is not locked".into());
    }
    if clauses.len() > MOST {
        let more = clauses.len() - MOST;
        clauses.truncate(MOST);
        clauses.push(format!("and {more} more"));
    }
    clauses
}

/// Whether [`trouble_now`] needs this task: it reports something about the task, or about a value that the task provides or takes.
pub(crate) fn is_troubled(task: &TaskSummary) -> bool {
    task.state == TaskState::Stalled
        || !task.inputs.is_empty()
        || task.values.values().any(|value| value.reason.is_some())
        || ailment(task).or_else(|| missed(task)).or_else(|| late_chains(task)).or_else(|| lost(task)).is_some()
}

/// Whether `count` is more than this share of `all`.
#[expect(clippy::cast_precision_loss, reason = "a share needs no more")]
pub(crate) fn exceeds(count: u64, all: u64, share: f64) -> bool {
    count as f64 > all as f64 * share
}

fn ailment(task: &TaskSummary) -> Option<String> {
    let name = &task.task;
    let reason = task.state_reason.as_deref().unwrap_or("no reason is known");
    let since = Age(Span::from_nanos(task.state_since_ns.unwrap_or(0)));
    match task.state {
        TaskState::Ticking | TaskState::Ended | TaskState::Other(_) => None,
        TaskState::Stalled => None, // the worker's clause already covers it
        TaskState::Failing => Some(format!("task {name} has been failing for {since}: {reason}")),
        TaskState::Waiting => Some(format!("task {name} has been waiting for its device for {since}")),
        TaskState::Disabled => Some(format!("task {name} is disabled: {reason}")),
    }
}

/// For how long a value or an input must be bad to be a reason.
pub(crate) const LASTING: Span = Span::from_seconds(1);

/// The inputs that the task cannot use, each with the reason at its source. What was only computed from a bad value is not named, nor what
/// comes from a task that is a reason itself.
fn inputs<'a>(task: &'a TaskSummary, tasks: &'a [Box<TaskSummary>]) -> impl Iterator<Item = String> + 'a {
    let lasting = task.inputs.iter().filter(|(_, input)| {
        input.reason != "inherited" && Span::from_nanos(input.since_ns) >= LASTING && task.state != TaskState::Disabled
    });
    lasting.filter_map(move |(name, input)| {
        let (from, value) = name.split_once('.')?;
        let source = tasks.iter().find(|task| task.task == from);
        if source.is_some_and(|source| ailment(source).is_some() || source.state == TaskState::Stalled) {
            return None;
        }
        let at_source = source.and_then(|source| source.values.get(value)?.trouble());
        let trouble = at_source.unwrap_or_else(|| input.trouble());
        Some(format!("task {} cannot use {name}: {trouble}", task.task))
    })
}

/// The values that are bad although the task ticks, unless a task that takes them says so.
fn values<'a>(task: &'a TaskSummary, tasks: &'a [Box<TaskSummary>]) -> impl Iterator<Item = String> + 'a {
    let is_known = task.state == TaskState::Stalled || ailment(task).is_some();
    let lasting = task.values.iter().filter(move |(_, value)| {
        let is_own = matches!(value.reason.as_deref(), Some("out-of-range" | "stuck" | "stale"));
        is_own && !is_known && value.since_ns.is_some_and(|since| Span::from_nanos(since) >= LASTING)
    });
    lasting.filter_map(move |(value, summary)| {
        let name = format!("{}.{value}", task.task);
        let says = |taker: &TaskSummary| taker.state != TaskState::Disabled && taker.inputs.contains_key(&name);
        let is_said = tasks.iter().any(|taker| says(taker));
        (!is_said).then(|| Some(format!("value {name} has been {}", summary.trouble()?)))?
    })
}

fn missed(task: &TaskSummary) -> Option<String> {
    let window = task.last_10s?;
    let named_already = matches!(task.state, TaskState::Disabled | TaskState::Stalled);
    if named_already || !exceeds(window.missed, window.due, task.max_missed) {
        return None;
    }
    let (name, missed, due) = (&task.task, window.missed, window.due);
    let most =
        task.blockers.iter().max_by_key(|(_, count)| **count).filter(|_| task.last_cause.as_deref() == Some("blocked"));
    let by = most.map(|(name, _)| format!(" by {name}")).unwrap_or_default();
    let cause = task.last_cause.as_ref().map(|cause| format!(" (latest cause: {cause}{by})")).unwrap_or_default();
    Some(format!("task {name} missed {missed} of {due} releases in the last 10 s{cause}"))
}

fn late_chains(task: &TaskSummary) -> Option<String> {
    let window = task.last_10s?;
    let late = window.late_chains.filter(|late| exceeds(*late, window.due, task.max_missed))?;
    let latency = task.latency.as_ref()?;
    let (name, max_latency) = (&task.task, Span::from_nanos(latency.max_latency_ns));
    let most = latency.late_chains_by.iter().max_by_key(|(_, count)| **count);
    let by = most.map(|(name, _)| format!(" (mostly of {name})")).unwrap_or_default();
    let ticks = if late == 1 { "tick" } else { "ticks" };
    Some(format!(
        "task {name} used measurements{by} older than its max-latency {max_latency} in {late} {ticks} in the last 10 s"
    ))
}

fn lost(task: &TaskSummary) -> Option<String> {
    let recorded = task.recorded.as_ref()?;
    let age = Age(recorded.lost_age_ns.map(Span::from_nanos).filter(|age| *age < RECENT)?);
    let (name, lost) = (&task.task, recorded.lost.saturating_sub(recorded.replaced));
    Some(format!("the recording of task {name} has lost {lost} rows, blocks or ticks, the last {age} ago"))
}

impl Summary {
    /// Adds reasons why not all is well. An empty list changes nothing.
    pub(crate) fn object(&mut self, clauses: impl IntoIterator<Item = String>) {
        for clause in clauses {
            self.well = false;
            self.reason = Some(match self.reason.take() {
                Some(before) => format!("{before}; {clause}"),
                None => clause,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn summary(tasks: &Value) -> Summary {
        serde_json::from_value(json!({"tasks": tasks})).unwrap()
    }

    /// All reasons, which must be the same if only the troubled tasks are there.
    fn reasons(tasks: &Value) -> Vec<String> {
        let mut summary = summary(tasks);
        let all = trouble_now(&summary);
        summary.tasks.retain(|task| is_troubled(task));
        assert_eq!(trouble_now(&summary), all);
        all
    }

    fn bad(reason: &str, since_ns: i64) -> Value {
        json!({"quality": "bad", "reason": reason, "since_ns": since_ns, "refused": 16, "valid": [0, 10], "last_good": 9})
    }

    #[test]
    fn a_bad_input_is_a_reason_also_among_the_troubled_tasks_alone() {
        let second = 1_000_000_000;
        let input = json!({"oven.temp": {"reason": "out-of-range", "since_ns": 12 * second, "max_age_ns": second}});
        let tasks = |since| {
            json!([{"task": "oven", "values": {"temp": bad("out-of-range", since)}}, {"task": "idle"},
                {"task": "heater", "inputs": input}])
        };
        let told = ["task heater cannot use oven.temp: bad for 12.0 s: 16 is outside valid 0 to 10"];
        assert_eq!(reasons(&tasks(12 * second)), told);
        // The source's reason is used even if it is new there.
        let told = ["task heater cannot use oven.temp: bad for a moment: 16 is outside valid 0 to 10"];
        assert_eq!(reasons(&tasks(1_000_000)), told);
    }

    #[test]
    fn a_bad_value_that_no_task_takes_is_a_reason() {
        let (second, none) = (1_000_000_000, Vec::<String>::new());
        let tasks = |task: &Value| json!([task, {"task": "idle"}]);
        let of = |reason, since| json!({"task": "oven", "values": {"temp": bad(reason, since)}});
        let told = ["value oven.temp has been bad for 12.0 s: 16 is outside valid 0 to 10"];
        assert_eq!(reasons(&tasks(&of("out-of-range", 12 * second))), told);
        assert_eq!(reasons(&tasks(&of("out-of-range", second - 1))), none);
        let told = ["value oven.temp has been bad for 1.00 s: it has not changed for stuck-after"];
        assert_eq!(reasons(&tasks(&of("stuck", second))), told);
        for reason in ["failed", "inherited", "not-available"] {
            assert_eq!(reasons(&tasks(&of(reason, 12 * second))), none, "{reason}");
        }
        let mut failing = of("stale", 12 * second);
        (failing["state"], failing["state_reason"]) = ("failing".into(), "it was not written".into());
        failing["state_since_ns"] = (12 * second).into();
        assert_eq!(reasons(&tasks(&failing)), ["task oven has been failing for 12.0 s: it was not written"]);
    }
}
