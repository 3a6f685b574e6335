//! The metrics of one task: histograms, counts and causes from its records, and the events to report about it.
//!
//! Pure arithmetic. Time comes with the records and as an argument. May allocate.

use super::cause::{By, Cause, Verdict};
use super::event::{Event, EventKind};
use super::facts::TaskFacts;
use super::health::{Health, TaskHealth};
use super::histogram::Histogram;
use super::judge::Terms;
use super::last_misses::Late;
use super::late_chains::LateChains;
use super::limiter::Limiter;
use super::missed::Quiet;
use super::recent::{Recent, TICKS};
use crate::channels::{Counts, TickRecord};
use crate::snapshot::{Causes, Distribution, LatencySummary, Sums};
use crate::time::{Instant, Span};
use std::collections::BTreeMap;

/// Running totals of all tasks, for a quick overview during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// The sums of all tasks' counts; `disabled` is set if any task has been ended.
    pub counts: Counts,
    /// The largest lateness.
    pub worst: Span,
}

/// By the number of the blocking task: its name, and how many releases it blocked.
pub(super) type Blockers = BTreeMap<u32, (String, u64)>;

/// One task.
#[derive(Debug)]
pub(super) struct TaskMetrics {
    pub(super) facts: TaskFacts,
    pub(super) lateness: Histogram,
    pub(super) run: Histogram,
    pub(super) response: Histogram,
    pub(super) ages: Option<Box<Histogram>>,         // at the end of a chain
    pub(super) late_chains: Option<Box<LateChains>>, // with `max-latency`
    pub(super) causes: Option<Box<[u64; Cause::ALL.len()]>>, // once anything was missed
    pub(super) blockers: Option<Box<Blockers>>,      // once a release was blocked
    pub(super) usual: Span,                          // typical run of a tick that misses nothing
    pub(super) overruns: u64,                        // entered so far
    pub(super) skipped: u64,                         // likewise
    pub(super) limiter: Limiter,
    pub(super) waited: Option<Box<Waited>>, // since it last ran
    pub(super) waits: bool,                 // it is in the list of tasks with something to report
    pub(super) health: Health,
    pub(super) finals: Option<Box<Counts>>, // the worker's own counts, once the worker has ended
}

/// Skipped releases that were entered while the task was waiting, before it ran or ended and reported them itself.
#[derive(Debug, Default)]
pub(super) struct Waited {
    next: Instant, // the first release it has not run
    since: u64,    // how many were entered from `next` on
    all: u64,      // the same plus those from before a clock step moved `next`
}

impl TaskMetrics {
    /// A task without any records yet. Its histograms keep this many digits.
    pub(super) fn new(facts: TaskFacts, digits: u8) -> Self {
        Self {
            health: Health::default(),
            late_chains: (facts.max_latency < Span::MAX).then(|| Box::new(LateChains::beyond(facts.max_latency))),
            facts,
            lateness: Histogram::new(digits),
            run: Histogram::new(digits),
            response: Histogram::new(digits),
            ages: None,
            causes: None,
            blockers: None,
            usual: Span::ZERO,
            overruns: 0,
            skipped: 0,
            limiter: Limiter::default(),
            waited: None,
            waits: false,
            finals: None,
        }
    }

    pub(super) fn histograms(&self) -> [&Histogram; 3] {
        [&self.lateness, &self.run, &self.response]
    }

    /// Enters the age of a tick's inputs at the end of a chain. Two digits, because there may be thousands of such tasks.
    pub(super) fn aged(&mut self, age: Span) {
        self.ages.get_or_insert_with(|| Box::new(Histogram::new(2))).add(age);
    }

    /// What the task's next record is judged against.
    pub(super) fn terms(&self) -> Terms {
        Terms { deadline: self.facts.deadline, period: self.facts.period, usual: self.usual }
    }

    /// Enters a record that was taken from its channel at `now`, except for the causes of its missed releases. `met`: none were missed.
    /// Also adds to the totals of `all` tasks. Returns the lateness of the oldest release in the record.
    pub(super) fn enter(&mut self, record: &TickRecord, met: bool, now: Instant, all: &mut Totals) -> Span {
        let period = self.facts.period;
        self.lateness.add(record.lateness);
        let mut oldest = record.lateness;
        if self.facts.grid_moves && record.lateness >= period {
            // Count the ticks that would have run meanwhile. Otherwise a stall of any length would count as one late tick.
            let put_off = (record.lateness.nanos() / period.nanos().max(1)).unsigned_abs();
            self.lateness.add_missed(record.lateness - period, period, put_off);
        }
        if record.missed > 0 {
            let before = i128::from(period.nanos()) * i128::from(record.missed);
            oldest = Span::from_wide(i128::from(record.lateness.nanos()) + before);
            self.lateness.add_missed(oldest, period, record.missed);
        }
        if record.dropped > 0 {
            let first = record.response - period;
            oldest = oldest.max(first);
            self.lateness.add_missed(first, period, record.dropped);
        }
        self.run.add(record.run());
        self.response.add(record.response);

        if met {
            learn(&mut self.usual, record.run());
        }
        let first = record.release - Span::from_wide(i128::from(period.nanos()) * i128::from(record.missed));
        self.limiter.note(record);
        self.limiter.misses.note(record, first, oldest);
        self.health.note(record, oldest, now);
        self.overruns += u64::from(record.overrun);
        self.skipped += record.skipped();
        all.worst = all.worst.max(oldest);
        let all = &mut all.counts;
        all.ran += 1;
        all.overruns += u64::from(record.overrun);
        all.over_budget += u64::from(record.over_budget);
        all.skipped += record.skipped();
        all.errors += u64::from(record.outcome.is_error());
        all.disabled |= record.outcome.ends_task();
        oldest
    }

    /// Enters plain ticks that were set aside: nothing was missed in them and nothing failed.
    pub(super) fn enter_recent(&mut self, recent: &mut Recent) {
        let Self { lateness, run, response, usual, .. } = self;
        enter_ticks(recent, [lateness, run, response], usual);
        recent.clear();
    }

    /// Prepares for entering the next tick on its own.
    pub(super) fn close(&mut self, recent: &mut Recent) {
        if let Some(quiet) = recent.close() {
            self.limiter.misses.go_on(quiet);
        }
        self.health.late(recent.take_worst());
    }

    /// What plain ticks change besides the histograms; `None` if they have to be entered one by one.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        self.limiter.misses.quiet().filter(|_| self.health.is_fine() && self.waited.is_none())
    }

    /// Counts the cause of missed releases, with the culprit's name.
    pub(super) fn count(&mut self, verdict: &Verdict, name: Option<String>, late: Late, kept: usize, now: Instant) {
        self.causes.get_or_insert_default()[verdict.cause.index()] += verdict.count;
        self.limiter.misses.blame(verdict.cause, name.as_deref(), verdict.count);
        let misses = self.health.misses.get_or_insert_default();
        misses.note((verdict.cause, name.as_deref(), verdict.count), late, kept, now);
        if let (Cause::Blocked, Some(By::Task(by)), Some(name)) = (verdict.cause, verdict.by, name) {
            self.blockers.get_or_insert_default().entry(by).or_insert((name, 0)).1 += verdict.count;
        }
    }

    /// The release that comes `count` releases after `first`.
    pub(super) fn later(&self, first: Instant, count: u64) -> Instant {
        first.plus_nanos(i128::from(self.facts.period.nanos()) * i128::from(count))
    }

    fn of(&self, cause: Cause) -> u64 {
        self.causes.as_ref().map_or(0, |causes| causes[cause.index()])
    }

    /// How many releases since the task was ended have been entered.
    pub(super) fn disabled(&self) -> u64 {
        self.of(Cause::Disabled)
    }

    /// The task gives up `count` releases from `next` on before it runs. Returns how many of them were already entered; afterwards all
    /// count as entered.
    pub(super) fn waits_from(&mut self, next: Instant, count: u64) -> u64 {
        let waited = self.waited.get_or_insert_default();
        let known = if waited.next == next { waited.since.min(count) } else { 0 };
        **waited = Waited { next, since: count.max(known), all: waited.all + count - known };
        known
    }

    /// The task reports that it gave up `count` releases from `first` on. Returns how many of them were already entered.
    pub(super) fn take_waited(&mut self, first: Instant, count: u64) -> u64 {
        let waited = self.waited.take().filter(|waited| first < waited.next + self.facts.period);
        waited.map_or(0, |waited| waited.all.min(count))
    }

    /// Passes the events that are due to `report`, as events of `worker`; with `last`, all events.
    pub(super) fn report(&mut self, worker: &str, now: Instant, last: bool, mut report: impl FnMut(&Event<'_>)) {
        self.limiter.report(now, last, |kind: EventKind| {
            report(&Event { task: &self.facts.name, worker, columns: self.facts.columns(), kind })
        });
    }

    /// Only the causes of missed releases.
    pub(super) fn brief(&self) -> TaskSnapshot {
        let causes = Cause::ALL.into_iter().map(|cause| (cause.word().into(), self.of(cause)));
        TaskSnapshot {
            causes: causes.filter(|(_, count)| *count > 0).collect(),
            blockers: self.blockers.iter().flat_map(|blockers| blockers.values()).cloned().collect(),
            latency: self.late_chains.as_ref().map(|late| Box::new(late.counts.clone())),
            ..TaskSnapshot::default()
        }
    }

    /// All numbers known about the task, except its health. The histogram is included only if `in_detail` is set.
    pub(super) fn snapshot(&self, in_detail: bool) -> TaskSnapshot {
        let [lateness, run, response] = self.histograms().map(Histogram::distribution);
        let late = if in_detail { self.lateness.coarse() } else { Vec::new() };
        let age = self.ages.as_ref().map(|ages| ages.distribution());
        TaskSnapshot { spans: Some(Box::new(Spans { lateness, run, response, late, age })), ..self.brief() }
    }
}

/// Enters plain ticks into the histograms of lateness, run and response.
pub(super) fn enter_ticks(recent: &Recent, [lateness, run, response]: [&mut Histogram; 3], usual: &mut Span) {
    let enter = |histogram: &mut Histogram, span: fn((Span, Span)) -> Span| {
        let mut nanos = [0; TICKS];
        let ticks = recent.ticks().zip(&mut nanos);
        let count = ticks.map(|(tick, place)| *place = span(tick).nanos().unsigned_abs()).count();
        histogram.add_few(&mut nanos[..count]);
    };
    enter(lateness, |(late, _)| late);
    enter(run, |(late, responded)| responded - late);
    enter(response, |(_, responded)| responded);
    recent.ticks().for_each(|(late, responded)| learn(usual, responded - late));
}

/// Updates the usual run from a tick that missed nothing.
fn learn(usual: &mut Span, run: Span) {
    let more = (run - *usual).nanos();
    *usual += Span::from_nanos(if *usual == Span::ZERO { more } else { more / 16 });
}

/// All numbers known about one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskSnapshot {
    pub spans: Option<Box<Spans>>, // only on request: with many tasks they take long and use much memory
    pub causes: Causes,            // missed releases by cause, if any
    pub blockers: BTreeMap<String, u64>, // releases that are `blocked`, by blocking task
    pub latency: Option<Box<LatencySummary>>, // with `max-latency`
    pub before: Option<Box<Sums>>, // totals of tasks with its name that reloads have ended
    pub health: TaskHealth,        // during the run
}

/// The distributions of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    pub lateness: Distribution, // started − release; releases given up count with their lateness at that time
    pub run: Distribution,      // finished − started
    pub response: Distribution, // finished − release
    pub late: Vec<(i64, u64)>,  // the histogram of `lateness`: see `Histogram::coarse`
    pub age: Option<Distribution>, // at the end of a chain: age of the oldest measurement behind the inputs, when a tick finished
}

impl TaskSnapshot {
    /// The distributions; all zero if they were not requested.
    pub(crate) fn spans(&self) -> Spans {
        self.spans.as_deref().cloned().unwrap_or_default()
    }
}
