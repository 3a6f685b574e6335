//! A piece as the text of its attachment: JSON, with a table of the channels of ticks, so that the chunks behind it can be read
//! without those before it. Pure.

use super::piece::{Piece, Stretch, TaskPiece};
use super::tally::{Bin, Known, Miss, Tally, Worst};
use crate::metrics::{Cause, Histogram};
use crate::recording::content::{Why, Whys};
use crate::recording::message::{MOST_SKIPPED, cause};
use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the attachments.
pub(crate) const NAME: &str = "hertzd.digest";

/// Their version. A reader leaves aside what has a later one, and reads the ticks.
const VERSION: u32 = 1;

/// The topics of the channels with ticks and overruns, by their numbers.
pub(crate) type Channels = BTreeMap<u16, String>;

#[derive(Serialize, Deserialize)]
struct PieceText {
    version: u32,
    covers: (u64, u64),
    channels: Channels,
    tasks: Vec<TaskText>,
}

#[derive(Serialize, Deserialize)]
struct TaskText {
    task: String,
    ticks: u64,
    overruns: u64,
    skipped: u64,
    unrecorded: u64,
    restarts: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    causes: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    blockers: BTreeMap<Box<str>, u64>,
    first: (u64, i64, u64), // n, release, skipped after it
    last: (u64, i64, u64),
    grid: (u64, i64),
    lateness_ns: Vec<i64>,
    run_ns: Vec<i64>,
    response_ns: Vec<i64>,
    stretches: Vec<StretchText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    worst: Vec<MissText>,
}

#[derive(Serialize, Deserialize)]
struct StretchText(i64, i64, u64, u64, u64, Vec<i64>, Vec<i64>); // from, until, ticks, overruns, skipped, lateness, run

#[derive(Serialize, Deserialize)]
struct MissText {
    n: u64,
    release_ns: i64,
    lateness_ns: i64,
    response_ns: i64,
    worst_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<WhyText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overrun: Option<WhyText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<WhyText>,
}

#[derive(Serialize, Deserialize)]
struct WhyText {
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Box<str>>,
}

/// What a text says.
pub(super) struct Told {
    pub(super) piece: Piece,
    pub(super) channels: Channels,
    /// The bytes of the file that it sums up: from the end of the one before, or 0, to the beginning of its own record.
    pub(super) covers: (u64, u64),
}

/// The text of a piece.
pub(crate) fn write(piece: &Piece, channels: Channels, covers: (u64, u64)) -> Vec<u8> {
    let tasks = piece.told().map(|(name, task)| TaskText::of(name, task)).collect();
    serde_json::to_vec(&PieceText { version: VERSION, covers, channels, tasks }).unwrap_or_default()
}

/// `None`: it is none that this version understands.
pub(super) fn read(text: &[u8]) -> Option<Told> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let Head { version: VERSION } = serde_json::from_slice(text).ok()? else { return None };
    let PieceText { channels, tasks, covers, .. } = serde_json::from_slice(text).ok()?;
    let mut piece = Piece::default();
    for task in tasks {
        let name = task.task.clone();
        piece.tasks.insert(name, task.piece()?);
    }
    Some(Told { piece, channels, covers })
}

impl TaskText {
    fn of(name: &str, TaskPiece { tally, stretches, .. }: &TaskPiece) -> Self {
        let causes = Cause::ALL.into_iter().map(|cause| (cause.word().to_owned(), tally.causes[cause.index()]));
        let known = |known: Option<Known>| known.map_or((0, 0, 0), |Known { n, at, after }| (n, at, after));
        let stretch = |Stretch { from, until, bin }: &Stretch| {
            let Bin { ticks, overruns, skipped, lateness, run } = bin;
            StretchText(*from, *until, *ticks, *overruns, *skipped, lateness.numbers(), run.numbers())
        };
        Self {
            task: name.to_owned(),
            ticks: tally.ticks,
            overruns: tally.overruns,
            skipped: tally.skipped,
            unrecorded: tally.unrecorded,
            restarts: tally.restarts,
            causes: causes.filter(|(_, count)| *count > 0).collect(),
            blockers: tally.blockers.clone(),
            first: known(tally.first),
            last: known(tally.last),
            grid: tally.grid,
            lateness_ns: tally.lateness.numbers(),
            run_ns: tally.run.numbers(),
            response_ns: tally.response.numbers(),
            stretches: stretches.iter().map(stretch).collect(),
            worst: tally.worst.iter().map(MissText::of).collect(),
        }
    }

    /// `None`: its numbers cannot be added up.
    fn piece(self) -> Option<TaskPiece> {
        let counts =
            [self.ticks, self.overruns, self.skipped, self.unrecorded, self.restarts, self.grid.0, self.last.2];
        let stretches = self
            .stretches
            .iter()
            .flat_map(|StretchText(_, _, ticks, overruns, skipped, ..)| [ticks, overruns, skipped]);
        let counts = counts.iter().chain(self.causes.values()).chain(self.blockers.values()).chain(stretches);
        if counts.copied().any(|count| count >= MOST_SKIPPED) {
            return None;
        }
        let known = |(n, at, after)| Some(Known { n, at, after });
        let mut causes = [0; Cause::ALL.len()];
        for (word, count) in &self.causes {
            // A cause of a later version is none that is known.
            causes[cause(word).unwrap_or(Cause::Unknown).index()] += count;
        }
        let tally = Tally {
            ticks: self.ticks,
            overruns: self.overruns,
            skipped: self.skipped,
            unrecorded: self.unrecorded,
            restarts: self.restarts,
            causes,
            blockers: self.blockers,
            first: known(self.first),
            last: known(self.last),
            grid: self.grid,
            lateness: histogram(2, &self.lateness_ns)?,
            run: histogram(2, &self.run_ns)?,
            response: histogram(2, &self.response_ns)?,
            worst: Worst(self.worst.into_iter().map(MissText::miss).collect()),
        };
        let stretch = |StretchText(from, until, ticks, overruns, skipped, lateness, run)| {
            let (lateness, run) = (histogram(1, &lateness)?, histogram(1, &run)?);
            Some(Stretch { from, until, bin: Bin { ticks, overruns, skipped, lateness, run } })
        };
        let stretches = self.stretches.into_iter().map(stretch).collect::<Option<_>>()?;
        Some(TaskPiece { tally, stretches, before: None })
    }
}

impl MissText {
    fn of(miss: &Miss) -> Self {
        let why = |why: &Option<Why>| {
            let Why { cause, by, count } = why.clone()?;
            Some(WhyText { count, cause: cause.map(|cause| cause.word().to_owned()), by })
        };
        Self {
            n: miss.n,
            release_ns: miss.at,
            lateness_ns: miss.lateness.nanos(),
            response_ns: miss.response.nanos(),
            worst_ns: miss.worst.nanos(),
            before: why(&miss.whys.before),
            overrun: why(&miss.whys.overrun),
            after: why(&miss.whys.after),
        }
    }

    fn miss(self) -> Miss {
        let why = |text: Option<WhyText>| {
            let WhyText { count, cause: word, by } = text?;
            Some(Why { cause: word.map(|word| cause(&word).unwrap_or(Cause::Unknown)), by, count })
        };
        let nanos = Span::from_nanos;
        Miss {
            n: self.n,
            at: self.release_ns,
            lateness: nanos(self.lateness_ns),
            response: nanos(self.response_ns),
            whys: Whys { before: why(self.before), overrun: why(self.overrun), after: why(self.after) },
            worst: nanos(self.worst_ns),
        }
    }
}

fn histogram(digits: u8, numbers: &[i64]) -> Option<Histogram> {
    let mut histogram = Histogram::new(digits);
    histogram.add_numbers(numbers).then_some(histogram)
}
