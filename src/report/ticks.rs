//! Reads a run from its single ticks, in a flight file or a recording. Pure; allocates a few words per tick.

use super::model::{
    Available, BINS, Bin, Counts, Kind, Miss, NO_VALUES, Run, SecondOfTask, SecondTick, Source, Spread, Task, WORST,
    WORST_SECOND_TICKS, WorstSecond, largest_first,
};
use super::story::{Found, story};
use crate::metrics::{Cause, Histogram};
use crate::program;
use crate::snapshot;
use crate::time::Span;
use crate::views::{Did, Timeline, TimelineMiss, TimelineTask, TimelineTick, Which};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

const SECOND: i64 = 1_000_000_000;

/// Lengths of stretches, in tenths of a second, chosen to be easy to read.
const STRETCHES: [i64; 17] =
    [1, 2, 5, 10, 20, 50, 100, 300, 600, 1_200, 3_000, 6_000, 9_000, 18_000, 36_000, 108_000, 216_000];

/// How many releases of one miss are dated one by one. The rest counts at the last of these.
const DATED: u64 = 1 << 20;

/// Maximum number of notes shown.
const NOTES: usize = 20;

/// The run that these ticks show.
pub(crate) fn of_ticks(timeline: &Timeline, source: Source) -> Run {
    let ticks = Ticks::of(timeline);
    let is_flight = source.kind == Kind::FlightFile;
    let tasks = (0..timeline.tasks.len()).filter(|task| ticks.appears(*task));
    let tasks: Vec<_> = tasks.map(|task| ticks.task(task, is_flight)).collect();
    let realtime = timeline.clocks.first().map(|(_, clocks)| clocks.realtime);
    let utc = |at: i64| if timeline.on_realtime { Some(at) } else { realtime.map(|ahead| at + ahead) };
    let mut notes: Vec<_> = timeline.notes.iter().map(|(at, text)| ticks.note(*at, text)).collect();
    if let Some(more @ 1..) = notes.len().checked_sub(NOTES) {
        notes.truncate(NOTES);
        notes.push(format!("There are {more} more such notes: `{} trace` shows them all.", program::name()));
    }
    if timeline.without_tick > 0 {
        notes.push(format!(
            "{} missed releases are left out: the file has overwritten their ticks.",
            timeline.without_tick
        ));
    }
    Run {
        source,
        well: None,
        sentence: None,
        hertzd: None,
        pid: timeline.pid.and_then(|pid| u32::try_from(pid).ok()),
        began_utc_ns: utc(ticks.begin),
        length_ns: Some(ticks.end - ticks.begin),
        machine: Available::not("A recording does not say which machine it was made on."),
        workers: Available::not("A recording does not say what its workers were granted."),
        tasks,
        bad_values: Available::not(NO_VALUES),
        bin_ns: Some(ticks.stretch),
        worst_misses: Available::Known(ticks.worst()),
        worst_second: match ticks.worst_second() {
            Some(second) => Available::Known(second),
            None => Available::not("There is no tick."),
        },
        notes,
    }
}

/// The ticks by task.
struct Ticks<'a> {
    timeline: &'a Timeline,
    begin: i64,
    end: i64,
    stretch: i64,
    of_task: Vec<Vec<(usize, usize)>>, // worker, position there
    periods: Vec<i64>,                 // 0: unknown
    unreported: Vec<Vec<(i64, &'a TimelineMiss)>>,
}

/// What was due in a stretch of time.
#[derive(Default)]
struct Stretch {
    counts: snapshot::Counts,
    lateness: Vec<i64>,
}

impl<'a> Ticks<'a> {
    fn of(timeline: &'a Timeline) -> Self {
        let mut of_task = vec![Vec::new(); timeline.tasks.len()];
        for (worker, all) in timeline.workers.iter().enumerate() {
            for (position, did) in all.did.iter().enumerate() {
                if let Some(tick) = &did.tick {
                    of_task[tick.task].push((worker, position));
                }
            }
        }
        let mut unreported = vec![Vec::new(); timeline.tasks.len()];
        for (at, miss, task) in &timeline.unreported {
            unreported[*task].push((*at, miss));
        }
        let mut ticks = Self { timeline, begin: 0, end: 0, stretch: SECOND, of_task, periods: Vec::new(), unreported };
        ticks.periods = (0..timeline.tasks.len()).map(|task| ticks.period(task)).collect();
        let releases = || (0..timeline.tasks.len()).flat_map(|task| ticks.all(task)).map(|(_, tick)| tick.release);
        let dated = || timeline.unreported.iter().map(|(at, ..)| *at);
        let ends = timeline.workers.iter().flat_map(|worker| &worker.did).map(|did| did.finished);
        (ticks.begin, ticks.end) =
            (releases().chain(dated()).min().unwrap_or(0), ends.chain(releases()).chain(dated()).max().unwrap_or(0));
        let tenth = SECOND / 10;
        let least = (ticks.end - ticks.begin) / i64::try_from(BINS).unwrap_or(i64::MAX);
        let enough = STRETCHES.iter().map(|tenths| tenths * tenth).find(|stretch| *stretch > least);
        // Beyond the longest of them, a whole number of hours.
        ticks.stretch = enough.unwrap_or((least / (3_600 * SECOND) + 1) * 3_600 * SECOND);
        ticks
    }

    fn appears(&self, task: usize) -> bool {
        !self.of_task[task].is_empty() || !self.unreported[task].is_empty()
    }

    fn all(&self, task: usize) -> impl Iterator<Item = (&'a Did, &'a TimelineTick)> {
        let timeline = self.timeline;
        let did = self.of_task[task].iter().map(|(worker, position)| &timeline.workers[*worker].did[*position]);
        did.filter_map(|did| Some((did, did.tick.as_ref()?)))
    }

    /// From the source, else computed from the first and last tick.
    fn period(&self, task: usize) -> i64 {
        let known = self.timeline.tasks[task].period;
        let ends = self.all(task).next().zip(self.all(task).last()).filter(|_| known == 0);
        ends.map_or(known, |((_, first), (_, last))| {
            let ticks = i64::try_from(last.n.saturating_sub(first.n)).unwrap_or(i64::MAX);
            (last.release - first.release).checked_div(ticks).unwrap_or(0)
        })
    }

    fn task(&self, task: usize, is_flight: bool) -> Task {
        let mut sum = Sum::default();
        for (did, tick) in self.all(task) {
            sum.counts.enter(1, 0, tick.overrun.into());
            sum.errors += u64::from(tick.failed);
            sum.lateness.add(Span::from_nanos(did.started - tick.release));
            sum.run.add(Span::from_nanos(did.finished - did.started));
            let own = sum.stretches.entry(self.stretch_of(tick.release)).or_default();
            own.counts.enter(1, 0, tick.overrun.into());
            own.lateness.push(did.started - tick.release);
            let of_overrun = tick.misses.iter().find(|miss| miss.which == Which::Overrun);
            match of_overrun {
                Some(miss) if tick.overrun => sum.explain(miss, 1),
                None if tick.overrun => *sum.causes.entry("unknown").or_default() += 1, // the record with its cause was lost
                _ => {}
            }
            for miss in tick.misses.iter().filter(|miss| miss.which != Which::Overrun) {
                self.skip(&mut sum, task, self.first_skipped(task, tick, miss), miss);
            }
        }
        for (first, miss) in &self.unreported[task] {
            self.skip(&mut sum, task, *first, miss);
        }
        let counts = Counts { releases: sum.counts, errors: is_flight.then_some(sum.errors) };
        let TimelineTask { name, .. } = &self.timeline.tasks[task];
        Task {
            ages: None, // records of ticks do not have them
            task: name.clone(),
            worker: None,
            rate: None,
            state: None,
            counts,
            causes: largest_first(sum.causes),
            blockers: match is_flight || !sum.blockers.is_empty() {
                true => Available::Known(largest_first(sum.blockers)),
                false => Available::not("This recording does not say who blocked a task."),
            },
            lateness_ns: Available::Known(Spread::of(&sum.lateness)),
            run_ns: Available::Known(Spread::of(&sum.run)),
            over_time: Available::Known(
                sum.stretches.into_iter().map(|(at, stretch)| stretch.bin(at * self.stretch)).collect(),
            ),
        }
    }

    fn stretch_of(&self, release: i64) -> i64 {
        (release - self.begin).div_euclid(self.stretch)
    }

    /// The release of the first of these skipped releases.
    fn first_skipped(&self, task: usize, tick: &TimelineTick, miss: &TimelineMiss) -> i64 {
        let period = self.periods[task];
        match miss.which {
            Which::SkippedAfter => tick.release.saturating_add(period),
            // The skips before a tick may have several causes, one after the other. Which came first is unknown.
            _ => tick.release.saturating_sub(period.saturating_mul(i64::try_from(miss.count).unwrap_or(i64::MAX))),
        }
        .max(self.begin)
    }

    /// Counts skipped releases, each when it was due.
    fn skip(&self, sum: &mut Sum<'a>, task: usize, first: i64, miss: &'a TimelineMiss) {
        sum.explain(miss, miss.count);
        sum.counts.enter(0, miss.count, 0);
        for index in 0..miss.count.min(DATED) {
            let release = first.saturating_add(self.periods[task].saturating_mul(index.cast_signed()));
            let stretch = sum.stretches.entry(self.stretch_of(release.min(self.end))).or_default();
            let more = if index + 1 == DATED { miss.count - DATED } else { 0 };
            stretch.counts.enter(0, 1 + more, 0);
        }
    }

    /// The worst misses of all tasks.
    fn worst(&self) -> Vec<Miss> {
        let mut found: Vec<Found> = Vec::new();
        for task in 0..self.timeline.tasks.len() {
            for (worker, position) in &self.of_task[task] {
                let did = &self.timeline.workers[*worker].did[*position];
                let Some(tick) = did.tick.as_ref().filter(|tick| tick.overrun || !tick.misses.is_empty()) else {
                    continue;
                };
                let before =
                    tick.misses.iter().filter(|miss| miss.which != Which::SkippedAfter && miss.which != Which::Overrun);
                let oldest = before.map(|miss| self.first_skipped(task, tick, miss)).min();
                let oldest = oldest.unwrap_or(tick.release);
                found.push(Found { task, worker: *worker, position: *position, oldest, worst: did.finished - oldest });
            }
            // Don't keep many more than are shown.
            if found.len() > 4_096 {
                keep_worst(&mut found);
            }
        }
        keep_worst(&mut found);
        found.iter().map(|found| story(self.timeline, found, self.begin)).collect()
    }

    fn worst_second(&self) -> Option<WorstSecond> {
        let mut seconds = HashMap::<i64, (u64, i64)>::new(); // missed, worst lateness
        let second_of = |at: i64| (at - self.begin).div_euclid(SECOND);
        for task in 0..self.timeline.tasks.len() {
            for (did, tick) in self.all(task) {
                let second = seconds.entry(second_of(tick.release)).or_default();
                second.0 += missed_in(tick);
                second.1 = second.1.max(did.started - tick.release);
            }
            for (at, miss) in &self.unreported[task] {
                seconds.entry(second_of(*at)).or_default().0 += miss.count;
            }
        }
        let (second, (missed, _)) = seconds.into_iter().max_by_key(|(second, worst)| (*worst, Reverse(*second)))?;
        let begin = self.begin + second * SECOND;
        let tasks = (0..self.timeline.tasks.len()).filter_map(|task| {
            let within = |(did, tick): &(&Did, &TimelineTick)| tick.release < begin + SECOND && did.finished > begin;
            let all = self.all(task).filter(within);
            let mut ticks: Vec<_> = all.map(|(did, tick)| second_tick(did, tick, begin)).collect();
            let left_out = ticks.len().saturating_sub(WORST_SECOND_TICKS);
            ticks.truncate(WORST_SECOND_TICKS);
            let task = self.timeline.tasks[task].name.clone();
            (!ticks.is_empty()).then_some(SecondOfTask { task, ticks, left_out: left_out as u64 })
        });
        Some(WorstSecond { begin_ns: second * SECOND, missed, tasks: tasks.collect() })
    }

    fn note(&self, at: i64, text: &str) -> String {
        format!("At {}: {text}.", Span::from_nanos(at.clamp(self.begin, self.end) - self.begin))
    }
}

/// The totals of a task's ticks.
struct Sum<'a> {
    counts: snapshot::Counts,
    errors: u64,
    causes: BTreeMap<&'a str, u64>,
    blockers: BTreeMap<&'a str, u64>,
    lateness: Histogram,
    run: Histogram,
    stretches: BTreeMap<i64, Stretch>,
}

impl Default for Sum<'_> {
    fn default() -> Self {
        Self {
            counts: snapshot::Counts::of(0, 0, 0),
            errors: 0,
            causes: BTreeMap::new(),
            blockers: BTreeMap::new(),
            lateness: Histogram::new(2),
            run: Histogram::new(2),
            stretches: BTreeMap::new(),
        }
    }
}

impl<'a> Sum<'a> {
    fn explain(&mut self, miss: &'a TimelineMiss, count: u64) {
        *self.causes.entry(miss.cause).or_default() += count;
        if let Some((_, by)) = miss.by.as_ref().filter(|_| miss.cause == Cause::Blocked.word()) {
            *self.blockers.entry(by).or_default() += count;
        }
    }
}

impl Stretch {
    fn bin(mut self, begin_ns: i64) -> Bin {
        self.lateness.sort_unstable();
        let ticks = self.lateness.len();
        let at = |share: usize| (ticks * share).div_ceil(100).checked_sub(1).map_or(0, |rank| self.lateness[rank]);
        let releases = self.counts.share();
        Bin { begin_ns, releases, ticks: ticks as u64, p50_ns: at(50), p99_ns: at(99), max_ns: at(100) }
    }
}

/// Releases that were missed in this tick.
pub(super) fn missed_in(tick: &TimelineTick) -> u64 {
    let skipped = tick.misses.iter().filter(|miss| miss.which != Which::Overrun);
    skipped.map(|miss| miss.count).sum::<u64>() + u64::from(tick.overrun)
}

fn keep_worst(found: &mut Vec<Found>) {
    found.sort_by_key(|found| Reverse(found.worst));
    found.truncate(WORST);
}

fn second_tick(did: &Did, tick: &TimelineTick, begin: i64) -> SecondTick {
    let cause = tick.misses.iter().max_by_key(|miss| miss.count).map(|miss| miss.cause.to_owned());
    SecondTick {
        n: tick.n,
        release_ns: tick.release - begin,
        started_ns: did.started - begin,
        finished_ns: did.finished - begin,
        missed: missed_in(tick),
        cause: cause.or_else(|| tick.overrun.then(|| "unknown".to_owned())),
    }
}
