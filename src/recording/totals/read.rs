//! Reads the ticks of a recording and sums them up. Blocks on the file. Takes memory for the bins, and 40 bytes per chunk.

use super::sum::Totals;
use crate::recording::content::RecordedTick;
use crate::recording::mcap_file::{At, McapFile};
use crate::recording::mcap_record::{McapRecord, op};
use crate::recording::message::{Overrun, TickMessage};
use crate::recording::past::{Past, PastTick};
use crate::recording::read::{NO_TICK, Ticks};
use crate::time::{Instant, NANOS_PER_SECOND, Span};
use std::collections::BTreeMap;
use std::path::Path;

/// The maximum number of chunks whose positions are kept: half a year at one per second.
const MOST_CHUNKS: usize = 1 << 24;

/// A part of a recording: its start, relative to the first tick, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: Span,
    pub(crate) length: Span,
}

/// The result of summing up a recording.
#[derive(Clone, Debug)]
pub(crate) struct Summed {
    pub(crate) totals: Totals,
    /// The file has no proper end: its run was killed, or is still writing.
    pub(crate) cut_off: bool,
    pub(crate) worst_second: Option<WorstSecond>,
}

/// The second in which a single task missed the most or, if nothing was missed, the second with the worst lateness.
#[derive(Clone, Debug)]
pub(crate) struct WorstSecond {
    /// Its start, in nanoseconds since 1970 (UTC).
    pub(crate) from: i64,
    /// The ticks of all tasks released within it.
    pub(crate) ticks: Past,
}

/// Sums up a part of a recording. Calls `progress` with the number of bytes read so far and the total.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub(crate) fn sum_up(path: &Path, part: Part, progress: &mut dyn FnMut(u64, u64)) -> Result<Summed, String> {
    let sums =
        Sums { part, totals: Totals::default(), channels: BTreeMap::new(), waiting: BTreeMap::new(), first: None };
    let mut reader = Reader { file: McapFile::open(path)?, sums, chunks: Vec::new() };
    reader.walk(progress)?;
    if reader.sums.totals.tasks.is_empty() {
        let empty = if reader.sums.first.is_some() { "there is no tick in that part of it" } else { NO_TICK };
        return Err(reader.file.wrong(empty));
    }
    let worst_second = reader.worst_second()?;
    let cut_off = !reader.file.is_whole()?;
    Ok(Summed { totals: reader.sums.totals, cut_off, worst_second })
}

struct Reader {
    file: McapFile,
    sums: Sums,
    chunks: Vec<At>, // those within the part that was read
}

/// The sums of the messages read so far.
struct Sums {
    part: Part,
    totals: Totals,
    channels: BTreeMap<u16, String>, // topics of ticks and overruns
    /// By task: an overrun whose cause is still expected in a following message.
    waiting: BTreeMap<String, (RecordedTick, i64)>,
    first: Option<i64>, // when the first tick was released
}

impl Reader {
    /// Reads the file up to the end of the part.
    fn walk(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), String> {
        while let Some(at) = self.file.next()? {
            match at.opcode {
                op::CHUNK | op::CHANNEL | op::MESSAGE if self.chunks.len() < MOST_CHUNKS => {
                    if self.sums.first.is_some_and(|first| nanos(at.times.0) >= self.sums.until(first)) {
                        continue;
                    }
                    self.chunks.push(at);
                    self.file.records(at, |record| self.sums.take(record))?;
                    progress(at.begin + at.length, self.file.length);
                }
                op::CHUNK | op::CHANNEL | op::MESSAGE => {
                    return Err(self
                        .file
                        .wrong(format!("it has more than {MOST_CHUNKS} chunks; hertzd has not written it")));
                }
                op::DATA_END => break,
                _ => {}
            }
        }
        // Overruns still waiting have no cause.
        let Sums { waiting, totals, .. } = &mut self.sums;
        std::mem::take(waiting).iter().for_each(|(task, (tick, at))| totals.tick(task, tick, *at));
        Ok(())
    }

    fn worst_second(&mut self) -> Result<Option<WorstSecond>, String> {
        let Some((from, task)) = self.sums.totals.worst().map(|(from, task)| (from, task.to_owned())) else {
            return Ok(None);
        };
        let found = self.between(from, from.saturating_add(NANOS_PER_SECOND))?;
        let Some(task) = found.task(&task) else { return Ok(None) };
        let from = worst_second(&task.ticks);
        let ticks = self.between(from, from.saturating_add(NANOS_PER_SECOND))?;
        Ok(Some(WorstSecond { from, ticks }))
    }

    /// The ticks released between two instants.
    fn between(&mut self, from: i64, to: i64) -> Result<Past, String> {
        let mut ticks = Ticks::default();
        self.sums
            .channels
            .iter()
            .try_for_each(|(id, topic)| ticks.channel(*id, topic))
            .map_err(|why| self.file.wrong(why))?;
        let overlaps = |at: &&At| at.opcode != op::CHUNK || nanos(at.times.0) < to && nanos(at.times.1) >= from;
        for at in self.chunks.iter().filter(overlaps) {
            self.file.records(*at, |record| match record {
                McapRecord::Message { log_time, .. } if (from..to).contains(&nanos(log_time)) => ticks.take(record),
                _ => Ok(()),
            })?;
        }
        Ok(ticks.past())
    }
}

impl Sums {
    /// Where the part ends, if the first tick was released at `first`.
    fn until(&self, first: i64) -> i64 {
        first.saturating_add(self.part.from.nanos()).saturating_add(self.part.length.nanos())
    }

    /// Enters the content of a record.
    fn take(&mut self, record: McapRecord<'_>) -> Result<(), String> {
        let (channel, log_time, data) = match record {
            McapRecord::Channel { id, topic } if topic.ends_with("/ticks") || topic.ends_with("/overruns") => {
                self.channels.insert(id, topic.to_owned());
                return Ok(());
            }
            McapRecord::Message { channel, log_time, data } => (channel, log_time, data),
            _ => return Ok(()),
        };
        let Some(topic) = self.channels.get(&channel) else { return Ok(()) };
        let at = nanos(log_time);
        let first = *self.first.get_or_insert(at);
        // With several tasks, the first tick in the file need not be the first that was released.
        let from = if self.part.from == Span::ZERO { i64::MIN } else { first.saturating_add(self.part.from.nanos()) };
        if !(from..self.until(first)).contains(&at) {
            return Ok(());
        }
        if let Some(task) = topic.strip_suffix("/overruns") {
            // An overrun message that cannot be parsed is ignored: the overrun then has no cause.
            if let Ok(overrun) = serde_json::from_slice::<Overrun>(data)
                && let Some((mut tick, at)) = self.waiting.remove(task)
            {
                if let Some(whys) = tick.missed.as_deref_mut().filter(|_| tick.n == overrun.n) {
                    overrun.explain(whys);
                }
                self.totals.tick(task, &tick, at);
            }
        } else if let Some(task) = topic.strip_suffix("/ticks") {
            let tick = TickMessage::of(data, task)?.tick(Instant::from_nanos(at.into()));
            if let Some((earlier, at)) = self.waiting.remove(task) {
                self.totals.tick(task, &earlier, at);
            }
            match tick.overrun() {
                Some(_) => drop(self.waiting.insert(task.to_owned(), (tick, at))),
                None => self.totals.tick(task, &tick, at),
            }
        }
        Ok(())
    }
}

fn nanos(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// The start of the second in which the most was missed; the misses lie in its middle.
fn worst_second(ticks: &[PastTick]) -> i64 {
    let at = |tick: &PastTick| (tick.release - Instant::ZERO).nanos();
    let missed = |tick: &PastTick| tick.skipped + u64::from(tick.overrun);
    let late = |tick: &PastTick| (tick.response - tick.run).nanos();
    let any = ticks.iter().any(|tick| missed(tick) > 0);
    let counts: Vec<_> = ticks.iter().filter(|tick| !any || missed(tick) > 0).collect();
    let (mut best, mut sum, mut last) = (None, 0, 0);
    for (first, tick) in counts.iter().enumerate() {
        while last < counts.len() && at(counts[last]) - at(tick) < NANOS_PER_SECOND {
            sum += missed(counts[last]);
            last += 1;
        }
        let end = counts[last.max(first + 1) - 1];
        let rank = (sum, if any { 0 } else { late(tick) });
        if best.is_none_or(|(best, _, _)| rank > best) {
            best = Some((rank, at(tick), if any { at(end) } else { at(tick) }));
        }
        sum = sum.saturating_sub(missed(tick));
    }
    best.map_or(0, |(_, first, last)| first - (NANOS_PER_SECOND - (last - first).max(0)) / 2)
}
