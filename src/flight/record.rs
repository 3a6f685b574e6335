//! The records of the ring: 64 bytes each, little-endian, with a checksum. Pure.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0–3 | CRC-32 of the rest |
//! | 4–7 | the lap around the ring in which it was written, from 1 |
//! | 8 | its kind: 1 a tick, 2 missed releases, 3 a wake-up without a tick, 4 a mark |
//! | 9 | flags |
//! | 10–63 | the fields of its kind, see [`pack`] |

use super::RECORD;
use crate::channels::TickRecord;
use crate::metrics::{By, Cause, Program};
use crate::time::{Instant, Span};

/// A record as stored in the file.
pub(crate) type Packed = [u8; RECORD];

const SLEPT: u8 = 1;
const OVERRUN: u8 = 2;
const OVER_BUDGET: u8 = 4;
const AFTER_LOSS: u8 = 16;
const ERROR: u8 = 32;
const ENDED: u8 = 64;

/// The content of a record. Instants of ticks and wake-ups are on the worker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Ran(Ran),
    Missed(Miss),
    Woke(Woken),
    Mark(Mark),
}

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) task: u32,
    pub(crate) n: u64,
    pub(crate) release: i64, // ns
    pub(crate) lateness: i64,
    pub(crate) response: i64,
    pub(crate) sleep: Option<Slept>, // the worker's sleep, if this is the first tick after it
    pub(crate) overrun: bool,
    pub(crate) over_budget: bool,
    pub(crate) failed: bool,
    pub(crate) ended_task: bool,
    pub(crate) after_loss: bool,
}

/// A worker's sleep, relative to the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slept {
    pub(crate) woke: i64, // ns
    pub(crate) oversleep: i64,
}

/// Which releases of a task were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Given up before this tick.
    Before(u64),
    /// This tick's own release: the tick overran.
    Overrun(u64),
    /// Given up when this tick had finished.
    After(u64),
    /// No tick reports them. With the instant on the worker's clock at which the first of them came up, if known.
    Unreported(Option<i64>),
}

/// Releases that were missed for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) task: u32,
    pub(crate) place: Place,
    pub(crate) cause: Cause,
    pub(crate) by: Option<By>,
    pub(crate) time: i64, // ns of the delay that the cause explains
    pub(crate) count: u64,
}

/// The worker woke up but ran no tick, although releases had been given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Woken {
    pub(crate) worker: u32,
    pub(crate) sleep: Option<(i64, i64)>, // the instant asked for, and when it woke
    pub(crate) ended: i64,
    pub(crate) after_loss: bool,
}

/// How many nanoseconds these clocks are ahead of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    pub(crate) realtime: i64,
    pub(crate) boottime: i64,
    pub(crate) tai: i64,
}

/// The end of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Everything that workers had sent by this instant of the monotonic clock is in the file, or counted as lost.
    pub(crate) at: i64,
    /// Records lost so far because the disk was full or slow.
    pub(crate) lost: u64,
    /// Ticks that workers have dropped so far because the metrics thread was slow.
    pub(crate) dropped: u64,
    pub(crate) clocks: Clocks,
    /// The process ended by itself: nothing follows.
    pub(crate) ended: bool,
}

impl Ran {
    /// The part of a tick that the file keeps.
    pub(crate) fn of(record: &TickRecord) -> Self {
        let sleep = |oversleep: Span| Slept { woke: record.woke.nanos(), oversleep: oversleep.nanos() };
        Self {
            task: record.task,
            n: record.n,
            release: narrow(record.release),
            lateness: record.lateness.nanos(),
            response: record.response.nanos(),
            sleep: record.oversleep.map(sleep),
            overrun: record.overrun,
            over_budget: record.over_budget,
            failed: record.outcome.is_error(),
            ended_task: record.outcome.ends_task(),
            after_loss: record.after_loss,
        }
    }
}

/// Nanoseconds since the clock's zero; 64 bits last until 2262.
pub(crate) fn narrow(at: Instant) -> i64 {
    (at - Instant::ZERO).nanos()
}

/// Packs an entry into a record, without lap and checksum.
pub(crate) fn pack(entry: &Entry) -> Packed {
    let mut out = Fields([0; RECORD]);
    match entry {
        Entry::Ran(ran) => {
            let flags = [
                (ran.sleep.is_some(), SLEPT),
                (ran.overrun, OVERRUN),
                (ran.over_budget, OVER_BUDGET),
                (ran.after_loss, AFTER_LOSS),
                (ran.failed, ERROR),
                (ran.ended_task, ENDED),
            ];
            out.head(1, flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag));
            out.put(12, ran.task.to_le_bytes());
            out.put(16, ran.n.to_le_bytes());
            out.put(24, ran.release.to_le_bytes());
            out.put(40, ran.lateness.to_le_bytes());
            out.put(48, ran.response.to_le_bytes());
            if let Some(Slept { woke, oversleep }) = ran.sleep {
                out.put(32, woke.to_le_bytes());
                out.put(56, oversleep.to_le_bytes());
            }
        }
        Entry::Missed(miss) => {
            let (place, n) = match miss.place {
                Place::Before(n) => (0, n.cast_signed()),
                Place::Overrun(n) => (1, n.cast_signed()),
                Place::After(n) => (2, n.cast_signed()),
                Place::Unreported(at) => (3, at.unwrap_or(i64::MIN)),
            };
            out.head(2, place);
            out.0[10] = miss.cause.index().to_le_bytes()[0];
            out.put(12, miss.task.to_le_bytes());
            out.put(16, n.to_le_bytes());
            out.put(24, miss.count.to_le_bytes());
            out.put(32, miss.time.to_le_bytes());
            let (kind, number) = match miss.by {
                None => (0, 0),
                Some(By::Task(task)) => (1, task),
                Some(By::Worker(worker)) => (2, u32::try_from(worker).unwrap_or(u32::MAX)),
                Some(By::Program(program)) => {
                    let (name, pid) = program.parts();
                    out.put(44, name);
                    (3, pid)
                }
                Some(By::Steal) => (4, 0),
                Some(By::Interrupts) => (5, 0),
            };
            out.0[11] = kind;
            out.put(40, number.to_le_bytes());
        }
        Entry::Woke(woken) => {
            let slept = if woken.sleep.is_some() { SLEPT } else { 0 };
            out.head(3, slept | if woken.after_loss { AFTER_LOSS } else { 0 });
            let (asked, woke) = woken.sleep.unwrap_or_default();
            out.put(12, woken.worker.to_le_bytes());
            out.put(16, asked.to_le_bytes());
            out.put(24, woke.to_le_bytes());
            out.put(32, woken.ended.to_le_bytes());
        }
        Entry::Mark(mark) => {
            out.head(4, if mark.ended { ENDED } else { 0 });
            out.put(16, mark.at.to_le_bytes());
            out.put(24, mark.lost.to_le_bytes());
            out.put(32, mark.dropped.to_le_bytes());
            out.put(40, mark.clocks.realtime.to_le_bytes());
            out.put(48, mark.clocks.boottime.to_le_bytes());
            out.put(56, mark.clocks.tai.to_le_bytes());
        }
    }
    out.0
}

/// Writes the lap and the checksum into a record.
pub(super) fn seal(record: &mut Packed, lap: u32) {
    record[4..8].copy_from_slice(&lap.to_le_bytes());
    let sum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The lap and the content of a record. `None`: it was never written, is torn, or is of a kind that this version does not know.
pub(super) fn unseal(record: &Packed) -> Option<(u32, Entry)> {
    let fields = Fields(*record);
    let lap = u32::from_le_bytes(fields.get(4));
    if lap == 0 || u32::from_le_bytes(fields.get(0)) != crc32fast::hash(&record[4..]) {
        return None;
    }
    Some((lap, fields.entry()?))
}

/// Whether nothing was ever written here.
pub(super) fn is_blank(record: &Packed) -> bool {
    record.iter().all(|byte| *byte == 0)
}

struct Fields(Packed);

impl Fields {
    fn head(&mut self, kind: u8, flags: u8) {
        (self.0[8], self.0[9]) = (kind, flags);
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&bytes);
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0[at + index])
    }

    fn signed(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.get(at))
    }

    fn unsigned(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at))
    }

    fn entry(&self) -> Option<Entry> {
        let (flags, number) = (self.0[9], u32::from_le_bytes(self.get(12)));
        let has = |flag| flags & flag != 0;
        Some(match self.0[8] {
            1 => Entry::Ran(Ran {
                task: number,
                n: self.unsigned(16),
                release: self.signed(24),
                lateness: self.signed(40),
                response: self.signed(48),
                sleep: has(SLEPT).then(|| Slept { woke: self.signed(32), oversleep: self.signed(56) }),
                overrun: has(OVERRUN),
                over_budget: has(OVER_BUDGET),
                failed: has(ERROR),
                ended_task: has(ENDED),
                after_loss: has(AFTER_LOSS),
            }),
            2 => Entry::Missed(self.miss(number)?),
            3 => Entry::Woke(Woken {
                worker: number,
                sleep: has(SLEPT).then(|| (self.signed(16), self.signed(24))),
                ended: self.signed(32),
                after_loss: has(AFTER_LOSS),
            }),
            4 => Entry::Mark(Mark {
                at: self.signed(16),
                lost: self.unsigned(24),
                dropped: self.unsigned(32),
                clocks: Clocks { realtime: self.signed(40), boottime: self.signed(48), tai: self.signed(56) },
                ended: has(ENDED),
            }),
            _ => return None,
        })
    }

    fn miss(&self, task: u32) -> Option<Miss> {
        let n = self.unsigned(16);
        let by = u32::from_le_bytes(self.get(40));
        Some(Miss {
            task,
            place: match self.0[9] {
                0 => Place::Before(n),
                1 => Place::Overrun(n),
                2 => Place::After(n),
                3 => Place::Unreported(Some(self.signed(16)).filter(|at| *at != i64::MIN)),
                _ => return None,
            },
            cause: *Cause::ALL.get(usize::from(self.0[10]))?,
            by: match self.0[11] {
                1 => Some(By::Task(by)),
                2 => Some(By::Worker(by as usize)),
                3 => Some(By::Program(Program::from_parts(self.get(44), by))),
                4 => Some(By::Steal),
                5 => Some(By::Interrupts),
                _ => None,
            },
            time: self.signed(32),
            count: self.unsigned(24),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const RAN: Ran = Ran {
        task: 7,
        n: u64::MAX,
        release: i64::MAX,
        lateness: -3,
        response: 9,
        sleep: Some(Slept { woke: -50, oversleep: 70_000 }),
        overrun: true,
        over_budget: false,
        failed: true,
        ended_task: false,
        after_loss: true,
    };

    #[test]
    fn each_entry_comes_back_as_it_was() {
        let miss =
            |place, by| Entry::Missed(Miss { task: 1, place, cause: Cause::Preempted, by, time: 5, count: u64::MAX });
        let entries = [
            Entry::Ran(RAN),
            Entry::Ran(Ran { sleep: None, overrun: false, over_budget: true, ended_task: true, ..RAN }),
            miss(Place::Before(3), None),
            miss(Place::Overrun(u64::MAX), Some(By::Task(2))),
            miss(Place::After(0), Some(By::Worker(4))),
            miss(Place::Unreported(None), Some(By::Program(Program::new("stress-ng", 123)))),
            miss(Place::Unreported(Some(-8)), Some(By::Steal)),
            miss(Place::Before(1), Some(By::Interrupts)),
            Entry::Woke(Woken { worker: 3, sleep: Some((1, 2)), ended: 3, after_loss: false }),
            Entry::Woke(Woken { worker: 3, sleep: None, ended: 3, after_loss: true }),
            Entry::Mark(Mark {
                at: 1,
                lost: 2,
                dropped: 3,
                clocks: Clocks { realtime: 4, boottime: 5, tai: -6 },
                ended: true,
            }),
        ];
        for entry in entries {
            let mut record = pack(&entry);
            seal(&mut record, 9);
            assert_eq!(unseal(&record), Some((9, entry)));
            for byte in 0..RECORD {
                let mut torn = record;
                torn[byte] ^= 1;
                assert_eq!(unseal(&torn), None, "{entry:?} torn at {byte}");
            }
        }
        assert!(unseal(&[0; RECORD]).is_none() && is_blank(&[0; RECORD]));
    }
}
