//! A tick's record in transit: one part that every tick has, preceded by parts that few ticks have.
//!
//! A part and its slot's bookkeeping together fill one cache line, so an ordinary tick writes one line instead of four. Consumers that
//! store records for later keep the parts, because a whole record takes four lines. No clock is read; nothing waits or allocates.

use super::Evidence;
use super::record::{IdleWake, InputAge, Outcome, Sent, TickRecord};
use crate::time::{Instant, Span};

/// The contents of one slot of the channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The end of a record: its times, the number of its task, and flags.
    Tick(Times, u32, u8),
    /// The end of an idle wake-up: asked, woke, ended, and flags.
    IdleWake([i64; 3], u8),
    /// Belongs to the record that ends next.
    Skips(Skips),
    /// Belongs to the record that ends next.
    Outcome(Outcome),
    /// Belongs to the record that ends next.
    Age(InputAge),
    /// Belongs to the record that ends next.
    Evidence(Evidence),
}

const _: () = assert!(size_of::<Part>() <= 56, "with the place's own eight bytes it fills one line");

/// The times that every record has. Nanoseconds in 64 bits hold any reading of a real clock for the next 292 years.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    release: i64,
    n: u64,
    woke: Span,
    oversleep: i64, // NONE: there was no sleep
    lateness: Span,
    response: Span,
}

const NONE: i64 = i64::MIN;

const OVERRUN: u8 = 1;
const OVER_BUDGET: u8 = 2;
const OVER_LIMIT: u8 = 4;
const AFTER_LOSS: u8 = 8;
const SLEPT: u8 = 16;

/// Releases given up, and steps of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skips {
    missed: u64,
    dropped: u64,
    stepped: Span,
    jumped: Span,
}

/// The parts that few records have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rare {
    skips: Skips,
    outcome: Option<Outcome>, // `None`: done
    age: Option<InputAge>,
    evidence: Option<Evidence>,
}

/// Reassembles what was sent from its parts, which arrive in order.
#[derive(Debug, Default)]
pub(crate) struct Assembly(Option<Rare>); // parts of the next record so far

fn nanos(at: Instant) -> i64 {
    (at - Instant::ZERO).nanos()
}

fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

/// Splits an idle wake-up into parts.
pub(super) fn wake_apart(wake: &IdleWake) -> (Rare, Part) {
    let IdleWake { sleep, ended, after_loss, evidence } = *wake;
    let (asked, woke) = sleep.unwrap_or((ended, ended));
    let flags = flag(after_loss, AFTER_LOSS) | flag(sleep.is_some(), SLEPT);
    let end = Part::IdleWake([asked, woke, ended].map(nanos), flags);
    (Rare { evidence, ..Rare::default() }, end)
}

/// Splits a record into parts; most have no rare ones.
#[inline]
pub(super) fn apart(record: &TickRecord) -> (Option<Rare>, Part) {
    let TickRecord { release, n, woke, oversleep, lateness, response, missed, stepped, jumped, dropped, .. } = *record;
    let release = nanos(release);
    let times = Times { release, n, woke, oversleep: oversleep.map_or(NONE, Span::nanos), lateness, response };
    let flags = flag(record.overrun, OVERRUN)
        | flag(record.over_budget, OVER_BUDGET)
        | flag(record.over_limit, OVER_LIMIT)
        | flag(record.after_loss, AFTER_LOSS);
    let outcome = (!matches!(record.outcome, Outcome::Done)).then_some(record.outcome);
    let skips = Skips { missed, dropped, stepped, jumped };
    let TickRecord { age, evidence, .. } = *record;
    let rare = skips != Skips::default() || outcome.is_some() || age.is_some() || evidence.is_some();
    let rare = rare.then_some(Rare { skips, outcome, age, evidence });
    (rare, Part::Tick(times, record.task, flags))
}

impl Assembly {
    /// Adds a part. Returns the whole once its last part has been added.
    #[inline]
    pub(crate) fn add(&mut self, part: &Part) -> Option<Sent> {
        match (part, &self.0) {
            (Part::Tick(times, task, flags), None) => Some(Sent::Tick(Rare::default().ended(times, *task, *flags))),
            _ => self.add_rare(part),
        }
    }

    #[inline(never)]
    fn add_rare(&mut self, part: &Part) -> Option<Sent> {
        let begun = self.0.get_or_insert_default();
        match *part {
            Part::Skips(skips) => begun.skips = skips,
            Part::Outcome(outcome) => begun.outcome = Some(outcome),
            Part::Age(age) => begun.age = Some(age),
            Part::Evidence(evidence) => begun.evidence = Some(evidence),
            Part::Tick(ref times, task, flags) => {
                return Some(Sent::Tick(self.0.take().unwrap_or_default().ended(times, task, flags)));
            }
            Part::IdleWake(instants, flags) => {
                let [asked, woke, ended] = instants.map(|nanos| Instant::from_nanos(nanos.into()));
                let (after_loss, evidence) = (flags & AFTER_LOSS != 0, self.0.take().and_then(|rare| rare.evidence));
                let sleep = (flags & SLEPT != 0).then_some((asked, woke));
                return Some(Sent::IdleWake(IdleWake { sleep, ended, after_loss, evidence }));
            }
        }
        None
    }
}

impl Rare {
    /// The parts that are present.
    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        let skips = (self.skips != Skips::default()).then_some(Part::Skips(self.skips));
        let outcome = self.outcome.map(Part::Outcome);
        let others = [skips, outcome, self.age.map(Part::Age), self.evidence.map(Part::Evidence)];
        others.into_iter().flatten()
    }

    #[inline]
    fn ended(self, times: &Times, task: u32, flags: u8) -> TickRecord {
        let Skips { missed, dropped, stepped, jumped } = self.skips;
        let Times { release, n, woke, oversleep, lateness, response } = *times;
        TickRecord {
            release: Instant::from_nanos(release.into()),
            n,
            woke,
            oversleep: (oversleep != NONE).then_some(Span::from_nanos(oversleep)),
            lateness,
            response,
            missed,
            stepped,
            jumped,
            dropped,
            task,
            overrun: flags & OVERRUN != 0,
            over_budget: flags & OVER_BUDGET != 0,
            over_limit: flags & OVER_LIMIT != 0,
            after_loss: flags & AFTER_LOSS != 0,
            outcome: self.outcome.unwrap_or(Outcome::Done),
            age: self.age,
            evidence: self.evidence,
        }
    }
}
