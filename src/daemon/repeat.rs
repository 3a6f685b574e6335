//! A worker on the virtual clock that comes to do the same over and over: one repetition is run, the others are counted.
//!
//! The loop is deterministic. All grids of a worker lie on themselves when they are shifted by its hyperperiod, so when the
//! state of the loop, of the scripts and of the judge is the same at two instants a whole number of hyperperiods apart, then
//! so is everything between them and everything after them:
//!
//! ```text
//! in full  |---- from ----|-- cycle --|-- cycle --|-- cycle --|-- cycle --|- rest -|     length
//! run      |---- from ----|-- cycle --|- rest -|                                         length − 3 cycles
//! counted                  cycle ×4
//! ```
//!
//! The run with its end brought forward does exactly this, because the first part of a run does not depend on where it ends.
//! Two runs are made: one that looks for two equal states, and one that is counted.
//!
//! What `spin = "auto"` has learned is no part of the state. Where every sleep ends on time it decides nothing but how long the
//! worker sleeps and how long it spins until a release: ticks are exact, and wake-ups and the share of spinning are those of the
//! repetition that was run. Where sleeps end late, it decides when ticks start, and such a worker is run in full.
//!
//! A worker with a task that is run and not only scripted is run in full, and so are workers between which values flow.
//!
//! Time is virtual; nothing blocks but the writer that ticks are handed to.

use super::ledger::SimulatedTick;
use super::simulate::{Simulation, VirtualRunner};
use crate::config::Spin;
use crate::metrics::{Mark, Metrics, REMEMBERED, RecordsSummary, Summary};
use crate::time::{Instant, Span};
use crate::worker::{LoopState, Report};
use std::collections::BTreeMap;
use std::io;

/// The most states that are compared: without a repetition within so many hyperperiods, all is run.
const STATES: usize = 4_096;

/// After how many cycles one is counted: what the judge has learned about run times converges.
const SETTLING: [u64; 3] = [2, 40, 800];

/// What repeats in a worker's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeats {
    /// Everything that happens after this time happens again and again.
    pub(crate) from: Span,
    /// The time after which it happens again.
    pub(crate) every: Span,
    /// How many times it was counted without being run.
    pub(crate) counted: u64,
}

/// All that decides how a worker goes on; for two instants a whole number of hyperperiods apart.
#[derive(Clone, PartialEq)]
struct State {
    loop_state: LoopState,
    scripts: Vec<u64>, // which of the scripted times is next, of each task and of the sleeps
}

impl Simulation<'_> {
    /// Runs it as [`play`](Self::play) does, for the same summary. Of a worker that comes to do the same over and over, the repetitions are counted and not run; what
    /// repeats is said for each worker.
    ///
    /// # Errors
    /// The first error of `line`, which sees the ticks that are run.
    pub(crate) fn sum_up(
        &self,
        line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
    ) -> io::Result<(Summary, Vec<Option<Repeats>>)> {
        let mut metrics = self.metrics();
        let mut records = RecordsSummary::default();
        let (mut reports, mut all) = (BTreeMap::new(), vec![None; self.config.workers.len()]);
        for group in self.graph.groups() {
            if let [index] = group[..] {
                let (report, sent, repeats) = worker(self, index, &mut metrics, &mut *line)?;
                records.sent += sent;
                reports.insert(index, report);
                all[index] = repeats;
            } else {
                let (of_group, played) = self.together(group, &mut metrics, &mut *line)?;
                records.sent += played.sent;
                reports.extend(of_group);
            }
        }
        Ok((self.summary(&mut metrics, &reports.into_values().collect::<Vec<_>>(), records), all))
    }
}

/// Runs a worker, or as much of it as is needed. Returns its report, the number of its records, and what was repeated.
fn worker(
    simulation: &Simulation<'_>,
    index: usize,
    metrics: &mut Metrics,
    line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
) -> io::Result<(Report, u64, Option<Repeats>)> {
    let length = simulation.options.length;
    // What a task that is run has in mind is no part of the state that is compared.
    let may_repeat = !simulation.graph.has_state(simulation.config, index);
    if may_repeat && let Some(cycle) = find(simulation, index, &mut *line)? {
        for settling in SETTLING {
            if let Some(counted) = count(simulation, index, &cycle.settling(settling), metrics, &mut *line)? {
                return Ok(counted);
            }
        }
    }
    let (report, played) = simulation.worker(index, length, metrics, line, |_| {})?;
    Ok((report, played.sent, None))
}

/// A part of a run that repeats, in hyperperiods since the beginning.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    hyperperiod: i128,
    from: u64,
    hyperperiods: u64,
    records: u64,
    settling: u64,
}

impl Cycle {
    /// With time for what the judge learns to settle: as many cycles before the one that is counted.
    fn settling(self, cycles: u64) -> Self {
        // It also looks back over ticks from before the first cycle; let them all be of a cycle.
        Self { settling: REMEMBERED / self.records.max(1) + cycles, ..self }
    }
}

/// Looks for two instants with the same state in the first quarter of the run.
fn find(
    simulation: &Simulation<'_>,
    index: usize,
    line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
) -> io::Result<Option<Cycle>> {
    let length = i128::from(simulation.options.length.nanos());
    let Some(hyperperiod) = hyperperiod(simulation, index).filter(|nanos| *nanos <= length / 8) else {
        return Ok(None);
    };
    let Some(lengths) = simulation.models.script_lengths(simulation.config, index) else { return Ok(None) };
    let learns = matches!(simulation.config.workers[index].spin, Spin::Auto { .. });
    if learns && !simulation.models.sleeps_end_on_time(simulation.config, index) {
        return Ok(None);
    }
    let mut scratch = simulation.metrics();
    let mut states: Vec<(u64, State, u64)> = Vec::new(); // by how many hyperperiods have passed, with the records up to it
    let (mut found, mut began, mut next) = (None, None, Instant::MAX);
    let watch = |runner: &mut VirtualRunner<'_>| {
        let now = runner.now();
        let began: Instant = *began.get_or_insert_with(|| {
            next = now;
            now
        });
        if now < next {
            return;
        }
        // A tick may have lasted for several of them.
        let passed = u64::try_from((now.nanos() - began.nanos()) / hyperperiod).unwrap_or(0);
        let begun = |hyperperiods: u64| began.plus_nanos(hyperperiod * i128::from(hyperperiods));
        let loop_state = runner.state(begun(passed), !learns);
        let state = State { loop_state, scripts: positions(runner, &lengths) };
        let records = runner.sink().ledger.played.sent;
        if let Some((from, _, before)) = states.iter().find(|(_, before, _)| *before == state) {
            let (from, records) = (*from, records - before);
            found = Some(Cycle { hyperperiod, from, hyperperiods: passed - from, records, settling: 0 });
            return runner.sink().stop();
        }
        states.push((passed, state, records));
        next = begun(passed + 1);
        if states.len() == STATES || now - began >= Span::from_wide(length / 4) {
            runner.sink().stop();
        }
    };
    simulation.worker(index, simulation.options.length, &mut scratch, line, watch)?;
    Ok(found)
}

/// Runs a worker without the repetitions of `cycle`, and counts them; `None`: something is not the same in each of them, and
/// nothing was entered.
fn count(
    simulation: &Simulation<'_>,
    index: usize,
    cycle: &Cycle,
    metrics: &mut Metrics,
    line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
) -> io::Result<Option<(Report, u64, Option<Repeats>)>> {
    let length = i128::from(simulation.options.length.nanos());
    let Cycle { hyperperiod, hyperperiods, settling, .. } = *cycle;
    let settled = settling * hyperperiods;
    let (from, to) = (cycle.from + settled, cycle.from + settled + hyperperiods);
    let each = hyperperiod * i128::from(hyperperiods);
    let over = length - hyperperiod * i128::from(to + 1);
    let Some(times) = u64::try_from(over / each).ok().filter(|times| *times > 0) else { return Ok(None) };
    let left_out = Span::from_wide(each * i128::from(times));
    let mut entered = simulation.metrics();
    let (mut marks, mut began) = (Vec::new(), None);
    let watch = |runner: &mut VirtualRunner<'_>| {
        let now = runner.now();
        let began: Instant = *began.get_or_insert(now);
        let at = if marks.is_empty() { from } else { to };
        if marks.len() < 2 && now >= began.plus_nanos(hyperperiod * i128::from(at)) {
            let (wakes, spun) = runner.rested();
            let sink = runner.sink();
            marks.extend(sink.ledger.metrics.mark(index).map(|mark| (mark, sink.ledger.played.clone(), wakes, spun)));
        }
    };
    let shorter = Span::from_wide(length) - left_out;
    let (mut report, mut played) = simulation.worker(index, shorter, &mut entered, line, watch)?;
    let [(from_mark, before, wakes_before, spun_before), (to_mark, after, wakes, spun)] = &marks[..] else {
        return Ok(None);
    };
    if !Mark::judges_as(to_mark, from_mark, Span::from_wide(each)) {
        return Ok(None);
    }
    entered.repeat(index, from_mark, to_mark, times);
    metrics.take_over(index, entered);
    played.sent += (after.sent - before.sent) * times;
    for (id, counts) in &mut report.tasks {
        let (after, before) = (&after.counts[*id as usize], &before.counts[*id as usize]);
        counts.ran += (after.ran - before.ran) * times;
        counts.skipped += (after.skipped - before.skipped) * times;
        counts.overruns += (after.overruns - before.overruns) * times;
        counts.over_budget += (after.over_budget - before.over_budget) * times;
    }
    let spun_each = i128::from((*spun - *spun_before).nanos());
    report.wakes += (wakes - wakes_before) * times;
    report.spun += Span::from_wide(spun_each * i128::from(times));
    report.elapsed += left_out;
    let from = Span::from_wide(hyperperiod * i128::from(cycle.from));
    Ok(Some((report, played.sent, Some(Repeats { from, every: Span::from_wide(each), counted: times }))))
}

/// The shortest time by which all grids of a worker can be shifted and lie on themselves; `None` if that is no time anyone
/// simulates.
fn hyperperiod(simulation: &Simulation<'_>, index: usize) -> Option<i128> {
    let rates = simulation.tasks(index).map(|task| simulation.config.tasks[task].rate);
    crate::pacing::hyperperiod(rates)
}

fn positions(runner: &VirtualRunner<'_>, lengths: &[usize]) -> Vec<u64> {
    let used = runner.ran().chain([runner.rested().0]);
    used.zip(lengths).map(|(used, length)| used % (*length).max(1) as u64).collect()
}

#[cfg(test)]
mod tests;
