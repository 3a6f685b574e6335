//! Collects the records of all workers: the judge sees all of them, and each task receives its own records with their verdicts. Time comes
//! with the records and as an argument. Nothing here waits; it may allocate.

use super::cause::{By, Cause, Verdict, Verdicts};
use super::event::Event;
use super::facts::TaskFacts;
use super::health::TaskHealth;
use super::histogram::Histogram;
use super::last_misses::{KEPT, Late};
use super::machine::{Accuser, WorkerFacts};
use super::pasts::Pasts;
use super::recent::is_plain;
use super::task::{TaskMetrics, TaskSnapshot, Totals};
use super::tasks::Tasks;
use super::weigh::Threads;
use crate::channels::{Counts, IdleWake, InputAge, Sent, TickRecord};
use crate::pacing::GivenUp;
use crate::snapshot::{BeforeReloadDropped, Distribution};
use crate::time::{Instant, Span};
use std::collections::BTreeMap;

/// With more tasks than this, per-task data that takes much memory is left out: the histogram in a snapshot, and all but the most recent
/// miss.
const MANY: usize = 1_024;

type Workers = BTreeMap<usize, WorkerMetrics>; // by number

#[derive(Debug)]
struct WorkerMetrics {
    name: String,
    oversleep: Histogram,
}

/// Histograms, counts and causes of every task.
///
/// Workers and tasks have numbers that are never reused.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    workers: Workers,
    tasks: Tasks,
    waiting: Vec<u32>, // tasks with something to report, each once
    pasts: Pasts,      // of ended tasks
    totals: Totals,
    threads: Threads,
    now: Instant,                        // time of the current drain
    unreported: Option<Vec<Unreported>>, // None: no flight recorder needs them
}

/// Missed releases of a task that no record reports: its number, when the first release came up (if known), and the verdict.
pub(crate) type Unreported = (u32, Option<Instant>, Verdict);

impl Metrics {
    /// Adds the worker with this number.
    pub(crate) fn add_worker(&mut self, number: usize, name: String, facts: WorkerFacts) {
        self.workers.insert(number, WorkerMetrics { name, oversleep: Histogram::new(3) });
        self.threads.add_worker(number, facts);
    }

    /// Forgets an ended worker, after the last of its tasks.
    pub(crate) fn remove_worker(&mut self, number: usize) {
        self.workers.remove(&number);
        self.threads.remove_worker(number);
    }

    /// The evidence that causes are judged by besides the records. The caller keeps it up to date.
    pub(crate) fn threads(&mut self) -> &mut Threads {
        &mut self.threads
    }

    /// Adds the task with this number.
    pub(crate) fn add_task(&mut self, id: u32, facts: TaskFacts) {
        self.tasks.add(id, facts);
    }

    /// Forgets an ended task, after its last events. The totals that a later task of the same name continues are kept.
    pub(crate) fn remove_task(&mut self, id: u32) {
        if let Some(task) = self.tasks.entered(id) {
            self.pasts.add(task);
        }
        self.tasks.remove(id);
        if self.pasts.are_many(self.tasks.len()) {
            let running = self.tasks.iter().map(|task| &*task.facts.name).collect();
            self.pasts.drop_oldest(&running);
        }
    }

    /// Totals of ended tasks whose names are no longer known; `None` if all names are known.
    pub(crate) fn before_reload_dropped(&self) -> Option<BeforeReloadDropped> {
        self.pasts.dropped()
    }

    /// Whether there is a task with this number.
    pub(crate) fn knows(&self, id: u32) -> bool {
        self.tasks.knows(id)
    }

    /// The facts about a task.
    pub(crate) fn facts(&self, id: u32) -> Option<&TaskFacts> {
        Some(&self.tasks.get(id)?.facts)
    }

    /// From now on, keeps misses that no record reports for [`unreported`](Self::unreported).
    pub(crate) fn keep_unreported(&mut self) {
        self.unreported = Some(Vec::new());
    }

    /// Takes the misses, since the last call, that no record reports.
    pub(crate) fn unreported(&mut self) -> Vec<Unreported> {
        self.unreported.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The records that follow are taken from their channel at `now`, on any monotonic clock.
    pub(crate) fn drains_at(&mut self, now: Instant) {
        self.now = now;
    }

    /// Looks ahead at what [`take`](Self::take) or [`take_idle`](Self::take_idle) enters later. Everything relevant from all workers must
    /// be observed first: only both sides together show who delayed whom.
    pub(crate) fn observe(&mut self, worker: usize, sent: &Sent) {
        match sent {
            Sent::Tick(record) if self.knows(record.task) => self.threads.observe(worker, record),
            Sent::Tick(_) => {}
            Sent::IdleWake(wake) => self.threads.observe_idle(worker, wake),
        }
    }

    /// Enters a wake-up that was observed. The order must be the order of its worker's records.
    pub(crate) fn take_idle(&mut self, worker: usize, wake: &IdleWake) {
        if let (Some((asked, woke)), Some(worker)) = (wake.sleep, self.workers.get_mut(&worker)) {
            worker.oversleep.add(woke - asked);
        }
        self.threads.judge_idle(worker, wake);
    }

    /// Enters a record that was observed; a record of an unknown task is ignored. Returns why releases were missed in it. A worker's
    /// records must come in order.
    pub(crate) fn take(&mut self, record: &TickRecord, accuser: &mut dyn Accuser) -> Verdicts {
        let id = record.task;
        let Some((worker, open)) = self.tasks.recent(id).map(|recent| (recent.worker(), recent.is_open())) else {
            return Verdicts::default();
        };
        if !open && self.tasks.get(id).is_some_and(|task| task.health.is_given_up()) {
            return Verdicts::default(); // its tick returned after all, but its counts are final
        }
        if let (Some(oversleep), Some(worker)) = (record.oversleep, self.workers.get_mut(&worker)) {
            worker.oversleep.add(oversleep);
        }
        if let Some(input) = record.age {
            self.aged(id, record.n, input); // separate from the ticks that are entered together
        }
        let plain = is_plain(record);
        let terms = if plain { None } else { self.tasks.entered(id).map(|task| task.terms()) };
        let verdicts = self.threads.judge(worker, record, terms.unwrap_or_default(), accuser);
        if plain && self.tasks.add_plain(record) {
            self.totals.counts.ran += 1;
            self.totals.worst = self.totals.worst.max(record.lateness);
            return verdicts;
        }
        let Some(task) = self.tasks.entered(id) else { return verdicts };
        let first = record.release.plus_nanos(-i128::from(task.facts.period.nanos()) * i128::from(record.missed));
        let known = task.take_waited(first, record.missed);
        let (verdicts, record) =
            (Verdicts { known, ..verdicts }, &TickRecord { missed: record.missed - known, ..*record });
        let oldest = task.enter(record, verdicts == Verdicts::default(), self.now, &mut self.totals);
        if !task.waits && task.limiter.waits() {
            task.waits = true;
            self.waiting.push(id);
        }
        let unknown = verdicts.unknown();
        for verdict in unknown.iter() {
            let is_of_the_tick = unknown.overrun.as_ref().is_some_and(|own| std::ptr::eq(own, verdict));
            let worst = if is_of_the_tick { record.response } else { oldest };
            self.count(id, verdict, Late { tick: Some(record.n), worst });
        }
        self.tasks.settled(id);
        verdicts
    }

    /// Enters the age of what tick `n` of a task used.
    fn aged(&mut self, id: u32, n: u64, InputAge { age, measured_by }: InputAge) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.aged(age);
        let most = task.facts.max_latency;
        if age <= most {
            return;
        }
        let by = self.facts(measured_by).map(|facts| facts.name.to_string());
        let Some(task) = self.tasks.get_mut(id) else { return };
        if let Some(late) = &mut task.late_chains {
            late.add(by.as_deref());
        }
        task.limiter.note_late_chain(n, age, most, by);
        if !std::mem::replace(&mut task.waits, true) {
            self.waiting.push(id);
        }
    }

    /// Counts the cause of a task's missed releases.
    fn count(&mut self, id: u32, verdict: &Verdict, late: Late) {
        let name = verdict.by.map(|by| self.name_of(by));
        let kept = if self.tasks.len() > MANY { 1 } else { KEPT };
        let Some(task) = self.tasks.entered(id) else { return };
        task.count(verdict, name, late, kept, self.now);
    }

    /// The culprit's name, for people: the name of a task, `worker fast`, `stress-ng (pid 123)`, `steal`, `interrupts`.
    pub(crate) fn name_of(&self, by: By) -> String {
        match by {
            By::Task(id) => self.facts(id).map_or("?", |facts| &facts.name).into(),
            By::Worker(number) => format!("worker {}", worker_name(&self.workers, number)),
            By::Program(program) => program.to_string(),
            By::Steal => "steal".into(),
            By::Interrupts => "interrupts".into(),
        }
    }

    /// Enters releases of a task that were given up without a record.
    pub(crate) fn take_given_up(&mut self, id: u32, given_up: GivenUp) {
        let Some(task) = self.tasks.entered(id) else { return };
        let GivenUp { count, oldest, at, disabled, .. } = given_up;
        let mut verdict = self.threads.given_up(task.facts.worker, id, &given_up);
        // Some of them were already entered when they came up.
        let known = if disabled { task.disabled() } else { task.take_waited(at - oldest, count) };
        verdict.count = count.saturating_sub(known);
        let first = task.later(at - oldest, known);
        // Releases of a disabled task were not late: nothing was supposed to run.
        let late = if disabled || verdict.count == 0 { Span::ZERO } else { at - first };
        if !disabled {
            task.lateness.add_missed(late, task.facts.period, verdict.count);
            self.totals.worst = self.totals.worst.max(late);
        }
        self.take_unreported(id, 0, late, Some((first, at)), verdict);
    }

    /// Enters the final counts of a task, after its last record and the releases it gave up. What was missed in dropped records gets the
    /// cause unknown.
    pub(crate) fn take_counts(&mut self, id: u32, counts: &Counts) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.finals = Some(Box::new(*counts));
        let overruns = counts.overruns.saturating_sub(task.overruns);
        let skipped = counts.skipped.saturating_sub(task.skipped);
        self.take_unreported(id, overruns, Span::ZERO, None, Verdict::plain(Cause::Unknown, overruns + skipped));
    }

    /// The number of ticks a task has run, once its counts are final.
    pub(crate) fn final_ticks(&self, id: u32) -> Option<u64> {
        Some(self.tasks.get(id)?.finals.as_deref()?.ran)
    }

    /// Enters what a task missed because its worker was given up: the tick of `hung` does not return. Every task that waits for that tick
    /// is blocked by it. Nothing is known about the tick itself.
    pub(crate) fn give_up(&mut self, id: u32, worker_now: Instant, hung: Option<u32>) {
        let Some(task) = self.tasks.entered(id) else { return };
        let (mut counts, mut open, mut oldest) = task.health.give_up(&task.facts, worker_now);
        let mut first = worker_now - oldest;
        if counts.disabled {
            let known = task.disabled();
            counts.skipped += known;
            (open, oldest) = (open.saturating_sub(known), Span::ZERO);
            first = task.later(first, known);
        } else {
            let known = task.take_waited(first, open);
            counts.skipped += known;
            open -= known;
            first = task.later(first, known);
            oldest = worker_now - first;
            task.lateness.add_missed(oldest, task.facts.period, open);
        }
        self.take_counts(id, &counts);
        let (own, (cause, by)) = match hung {
            _ if counts.disabled => (0, (Cause::Disabled, None)),
            Some(hung) if hung == id => (open.min(1), (Cause::OwnDebt, None)),
            Some(hung) => (0, (Cause::Blocked, Some(By::Task(hung)))),
            None => (open, (Cause::Unknown, None)),
        };
        let within = Some((first, worker_now));
        self.take_unreported(id, 0, oldest, within, Verdict::plain(Cause::Unknown, own));
        self.take_unreported(id, 0, oldest, within, Verdict { by, time: oldest, ..Verdict::plain(cause, open - own) });
    }

    /// Enters the misses that `verdict` covers: these overruns, and skipped releases, the oldest of which was `oldest` late. They came up
    /// `within` this time, if it is known.
    fn take_unreported(
        &mut self,
        id: u32,
        overruns: u64,
        oldest: Span,
        within: Option<(Instant, Instant)>,
        verdict: Verdict,
    ) {
        let Some(task) = self.tasks.entered(id).filter(|_| verdict.count > 0) else { return };
        let skipped = verdict.count - overruns;
        task.limiter.misses.note_unreported(overruns, skipped, oldest, within);
        self.unreported.iter_mut().for_each(|kept| kept.push((id, within.map(|(first, _)| first), verdict)));
        if !std::mem::replace(&mut task.waits, true) {
            self.waiting.push(id);
        }
        for sum in [&mut task.overruns, &mut self.totals.counts.overruns] {
            *sum += overruns;
        }
        for sum in [&mut task.skipped, &mut self.totals.counts.skipped] {
            *sum += skipped;
        }
        self.count(id, &verdict, Late { tick: None, worst: oldest });
    }

    /// Passes the events that are due at `now` (on any monotonic clock) to `report`. There is at most one event per kind, task and second;
    /// it covers everything since the one before. With `last`, all remaining events are reported. Costs time only for tasks with something
    /// to report.
    pub(crate) fn report(&mut self, now: Instant, last: bool, mut report: impl FnMut(&Event<'_>)) {
        self.waiting.sort_unstable();
        self.waiting.retain(|id| {
            let Some(task) = self.tasks.get_mut(*id) else { return false };
            task.report(worker_name(&self.workers, task.facts.worker), now, last, &mut report);
            task.waits = task.limiter.waits();
            task.waits
        });
    }

    /// Like [`report`](Self::report) with `last`, for one task.
    pub(crate) fn report_last(&mut self, id: u32, now: Instant, report: impl FnMut(&Event<'_>)) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.report(worker_name(&self.workers, task.facts.worker), now, true, report);
        }
    }

    /// Totals so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// How late a worker's sleeps ended.
    pub(crate) fn oversleep(&self, worker: usize) -> Distribution {
        self.workers.get(&worker).map_or(Distribution::default(), |worker| worker.oversleep.distribution())
    }

    /// Enters what is due by now into a task's windows, and what it misses because it was ended. `worker_now` is the time on the clock of
    /// its releases. Must be called at least once a second.
    pub(crate) fn sample(&mut self, id: u32, worker_now: Instant) {
        let Some(task) = self.tasks.sampled(id) else { return };
        if let Some(late) = &mut task.late_chains {
            late.sample(self.now);
        }
        self.waits(id);
        let Some(task) = self.tasks.get_mut(id) else { return };
        if !task.health.sample(&task.facts, self.now, worker_now).disabled {
            return;
        }
        if let Some((missed, first, until)) = task.health.missed_since_ended(&task.facts, worker_now) {
            let known = task.disabled();
            let within = Some((task.later(first, known), until));
            let verdict = Verdict::plain(Cause::Disabled, missed.saturating_sub(known));
            self.take_unreported(id, 0, Span::ZERO, within, verdict);
        }
    }

    /// Enters what a task has missed because its worker ran other tasks, if it is still waiting. The task's own record of these misses
    /// comes once it runs.
    pub(crate) fn waits(&mut self, id: u32) {
        let Some(TaskMetrics { facts, health, .. }) = self.tasks.get(id) else { return };
        let (worker, period) = (facts.worker, facts.period);
        // It was not running at `at`, so when it runs it starts with a release that its policy still keeps at `at`, or a later one.
        let Some(at) = self.threads.judged_until(worker) else { return };
        let Some((next, count)) = health.waits(facts, at) else { return };
        let Some(task) = self.tasks.entered(id) else { return };
        let known = task.waits_from(next, count);
        if known == count {
            return;
        }
        let (first, count) = (task.later(next, known), count - known);
        let oldest = at - first;
        task.lateness.add_missed(oldest, period, count);
        task.health.late(oldest);
        self.totals.worst = self.totals.worst.max(oldest);
        let given_up = GivenUp { task: 0, count, oldest, at, jumped: Span::ZERO, disabled: false };
        let verdict = self.threads.given_up(worker, id, &given_up);
        self.take_unreported(id, 0, oldest, Some((first, at)), verdict);
    }

    /// A task's health.
    pub(crate) fn health(&mut self, id: u32, worker_now: Instant) -> TaskHealth {
        let Some(task) = self.tasks.sampled(id) else { return TaskHealth::default() };
        let mut health = task.health.at(&task.facts, self.now, worker_now);
        if let Some(late) = &mut task.late_chains {
            [health.short.late_chains, health.long.late_chains] = late.lately(self.now).map(Some);
        }
        health
    }

    /// Frees what only later checks of a task's health need, after the last such check. With thousands of tasks, memory use peaks at the
    /// end of a run, when all of them are checked.
    pub(crate) fn close(&mut self, id: u32) {
        self.tasks.get_mut(id).into_iter().for_each(|task| task.health.close());
    }

    /// Only the causes of one task's missed releases.
    pub(crate) fn brief(&self, id: u32) -> TaskSnapshot {
        let Some(task) = self.tasks.get(id) else { return TaskSnapshot::default() };
        TaskSnapshot { before: self.pasts.of(&task.facts.name), ..task.brief() }
    }

    /// All numbers known about one task, except its health.
    pub(crate) fn snapshot(&mut self, id: u32) -> TaskSnapshot {
        let in_detail = self.tasks.len() <= MANY;
        let Some(task) = self.tasks.entered(id) else { return TaskSnapshot::default() };
        TaskSnapshot { before: self.pasts.of(&task.facts.name), ..task.snapshot(in_detail) }
    }
}

fn worker_name(workers: &Workers, number: usize) -> &str {
    workers.get(&number).map_or("?", |worker| &worker.name)
}

#[cfg(test)]
mod tests;
