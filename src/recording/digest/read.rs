//! The digest of a recording: from what its recorder has summed up, and from the ticks themselves where it has not. Blocks on the
//! file, and takes memory for its bins, and for 40 bytes a chunk.

use super::piece::{Grain, Piece};
use super::sum::{Digest, WorstStretch};
use super::text::{self, Channels, NAME};
use crate::recording::content::RecordedTick;
use crate::recording::mcap_file::{At, McapFile};
use crate::recording::mcap_record::{McapRecord, op};
use crate::recording::message::{Overrun, TickMessage};
use crate::recording::past::{Past, PastTick};
use crate::recording::read::{NO_TICK, Ticks};
use crate::time::{Instant, NANOS_PER_SECOND};
use std::collections::BTreeMap;
use std::path::Path;

/// Of a file that is no larger, all ticks are read: they say more finely what happened when.
const SMALL: u64 = 32 << 20;

/// Chunks of a file whose places are kept: half a year of one a second.
const MOST_CHUNKS: usize = 1 << 24;

/// What was read of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Digested {
    pub(crate) digest: Digest,
    /// The file ends in the middle: its run was killed, or still writes it.
    pub(crate) cut_off: bool,
    pub(crate) worst_second: Option<WorstSecond>,
}

/// The second in which most was missed, of the task that missed it; or, if nothing was, with the latest tick.
#[derive(Clone, Debug)]
pub(crate) struct WorstSecond {
    /// In nanoseconds since 1970 (UTC).
    pub(crate) from: i64,
    /// The ticks of all tasks that were released in it.
    pub(crate) ticks: Past,
}

/// Sums up a recording. Where it has to read ticks, it calls `progress` with the bytes read so far and their number in all.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub(crate) fn digest(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Digested, String> {
    digest_larger(path, SMALL, progress)
}

/// As [`digest`], of a file that is `small` at most from all of its ticks.
pub(super) fn digest_larger(path: &Path, small: u64, progress: &mut dyn FnMut(u64, u64)) -> Result<Digested, String> {
    let file = McapFile::open(path)?;
    let grain = if file.length <= small { Grain::Tick } else { Grain::Second };
    let mut reader = Reader { file, grain, digest: Digest::default(), channels: Channels::new(), chunks: Vec::new() };
    reader.walk(progress)?;
    if reader.digest.tasks.is_empty() {
        return Err(reader.file.wrong(NO_TICK));
    }
    let worst_second = reader.worst_second()?;
    let cut_off = !reader.file.is_whole()?;
    Ok(Digested { digest: reader.digest, cut_off, worst_second })
}

struct Reader {
    file: McapFile,
    grain: Grain,
    digest: Digest,
    channels: Channels,
    chunks: Vec<At>, // of the part that was walked through
}

impl Reader {
    /// Goes through the file. Chunks that are not summed up behind them are read.
    fn walk(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), String> {
        let (mut pending, mut covered) = (0, 0); // the first chunk that was not summed up, and where the last piece ended
        while let Some(at) = self.file.next()? {
            match at.opcode {
                op::CHUNK | op::CHANNEL | op::MESSAGE if self.chunks.len() < MOST_CHUNKS => self.chunks.push(at),
                op::CHUNK | op::CHANNEL | op::MESSAGE => {
                    return Err(self
                        .file
                        .wrong(format!("it has more than {MOST_CHUNKS} chunks; hertzd has not written it")));
                }
                op::ATTACHMENT if self.grain == Grain::Second => {
                    let Some(text) = self.file.attachment(at, NAME)? else { continue };
                    let (begin, end) = at.bounds();
                    match text::read(&text).filter(|told| told.covers == (covered, begin)) {
                        Some(told) => {
                            self.channels.extend(told.channels);
                            self.digest.add(&told.piece);
                        }
                        // It is damaged, of a later version, or belongs elsewhere: a program has rewritten the file.
                        None => self.parse(pending, progress)?,
                    }
                    (pending, covered) = (self.chunks.len(), end);
                }
                op::DATA_END => break,
                _ => {}
            }
        }
        self.parse(pending, progress)
    }

    /// Reads the chunks from this one on.
    fn parse(&mut self, from: usize, progress: &mut dyn FnMut(u64, u64)) -> Result<(), String> {
        let mut parse = Parse { piece: Piece::new(self.grain), waiting: BTreeMap::new() };
        let all = self.chunks[from..].iter().map(|at| at.length).sum();
        let mut read = 0;
        for at in &self.chunks[from..] {
            self.file.records(*at, |record| {
                topics(&mut self.channels, record);
                parse.take(record, &self.channels, &self.digest)
            })?;
            self.digest.add(&parse.piece);
            // The file may name many tasks: each piece costs as much as it tells, and not as there are tasks.
            parse.piece = Piece::new(self.grain);
            read += at.length;
            progress(read, all);
        }
        parse.finish(&self.digest);
        self.digest.add(&parse.piece);
        Ok(())
    }

    fn worst_second(&mut self) -> Result<Option<WorstSecond>, String> {
        let Some(WorstStretch { task, from, until, .. }) = self.digest.worst() else { return Ok(None) };
        let found = self.between(from, until.saturating_add(1))?;
        let name = &self.digest.tasks[task].name;
        let Some(task) = found.task(name) else { return Ok(None) };
        let from = worst_second(&task.ticks);
        let ticks = self.between(from, from.saturating_add(NANOS_PER_SECOND))?;
        Ok(Some(WorstSecond { from, ticks }))
    }

    /// The ticks that were released between two instants.
    fn between(&mut self, from: i64, to: i64) -> Result<Past, String> {
        let mut ticks = Ticks::default();
        self.channels
            .iter()
            .try_for_each(|(id, topic)| ticks.channel(*id, topic))
            .map_err(|why| self.file.wrong(why))?;
        let nanos = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
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

/// Keeps the topics of a task's ticks and overruns.
fn topics(channels: &mut Channels, record: McapRecord<'_>) {
    if let McapRecord::Channel { id, topic } = record
        && (topic.ends_with("/ticks") || topic.ends_with("/overruns"))
    {
        channels.insert(id, topic.to_owned());
    }
}

/// Where the second begins in which most is missed; what is missed lies in its middle.
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

/// What messages add up to.
struct Parse {
    piece: Piece,
    /// An overrun whose cause comes next, by task.
    waiting: BTreeMap<String, (RecordedTick, i64)>,
}

impl Parse {
    /// Takes what a record tells; the ticks go on where `before` ends.
    fn take(&mut self, record: McapRecord<'_>, channels: &Channels, before: &Digest) -> Result<(), String> {
        let McapRecord::Message { channel, log_time, data } = record else { return Ok(()) };
        let Some(topic) = channels.get(&channel) else { return Ok(()) };
        if let Some(task) = topic.strip_suffix("/overruns") {
            // One that cannot be understood is an overrun without a cause.
            if let Ok(overrun) = serde_json::from_slice::<Overrun>(data)
                && let Some((mut tick, at)) = self.waiting.remove(task)
            {
                if let Some(whys) = tick.missed.as_deref_mut().filter(|_| tick.n == overrun.n) {
                    overrun.explain(whys);
                }
                self.tick(task, &tick, at, before);
            }
        } else if let Some(task) = topic.strip_suffix("/ticks") {
            let at = i64::try_from(log_time).unwrap_or(i64::MAX);
            let tick = TickMessage::of(data, task)?.tick(Instant::from_nanos(at.into()));
            if let Some((earlier, at)) = self.waiting.remove(task) {
                self.tick(task, &earlier, at, before);
            }
            match tick.overrun() {
                Some(_) => drop(self.waiting.insert(task.to_owned(), (tick, at))),
                None => self.tick(task, &tick, at, before),
            }
        }
        Ok(())
    }

    /// What waits has no cause.
    fn finish(&mut self, before: &Digest) {
        for (task, (tick, at)) in std::mem::take(&mut self.waiting) {
            self.tick(&task, &tick, at, before);
        }
    }

    fn tick(&mut self, task: &str, tick: &RecordedTick, at: i64, before: &Digest) {
        if !self.piece.tasks.contains_key(task) {
            self.piece.goes_on(task, before.task(task).and_then(|task| task.tally.last));
        }
        self.piece.tick(task, tick, at);
    }
}
