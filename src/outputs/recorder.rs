//! The recorder: drains the tasks' rings of values, keeps the last, smallest and largest of each, and writes rows.
//!
//! It runs on a thread of its own, so that a slow disk holds up neither workers nor metrics. Time comes from the clock
//! that its owner hands to [`Recorder::drain`], as the offset of UTC.

use super::CsvFile;
use crate::metrics::{RecordedSummary, ValueSummary};
use crate::stream::{BlockReceiver, Format, RowReceiver};
use crate::sys::clock::KernelClock;
use crate::tasks::Column;
use crate::time::{Instant, Span};
use std::collections::BTreeMap;
use tracing::{info, warn};

/// Failures to write are told at most this often.
const TELL_EVERY: Span = Span::from_seconds(10);

/// One task's values on their way out.
#[derive(Debug)]
pub struct Stream {
    /// Number of the task.
    pub id: u32,
    /// Name of the task.
    pub task: String,
    /// The clock its releases are on.
    pub clock: KernelClock,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The cool end of its queue of rows.
    pub rows: RowReceiver,
    /// The cool end of its queue of blocks, and what they hold; `None`: nobody wants them.
    pub blocks: Option<(BlockReceiver, Format)>,
    /// Where rows are recorded, if anywhere.
    pub csv: Option<CsvFile>,
}

/// What became of one task's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// Number of the task.
    pub id: u32,
    /// Its values, by name.
    pub values: BTreeMap<String, ValueSummary>,
    /// The recording, if there is one.
    pub recorded: Option<RecordedSummary>,
}

#[derive(Debug)]
struct Taken {
    stream: Stream,
    extremes: Vec<Option<[f64; 3]>>, // last, smallest, largest
    failing: Option<Instant>,        // told last
}

/// Drains the tasks' rings of values.
#[derive(Debug, Default)]
pub struct Recorder {
    taken: Vec<Taken>,
    row: Vec<f64>,
}

impl Recorder {
    /// Adds a stream.
    pub fn add(&mut self, stream: Stream) {
        self.taken.push(Taken { extremes: vec![None; stream.columns.len()], stream, failing: None });
    }

    /// Lets go of streams whose tasks have ended, after the last [`drain`](Self::drain) of them.
    pub fn remove(&mut self, ids: &[u32]) {
        self.taken.retain(|taken| !ids.contains(&taken.stream.id));
    }

    /// Takes and writes all rows that are there. `utc_offset` says what to add to a clock to get nanoseconds since 1970.
    pub fn drain(&mut self, now: Instant, utc_offset: impl Fn(KernelClock) -> i128) {
        for Taken { stream, extremes, failing } in &mut self.taken {
            let offset = utc_offset(stream.clock);
            while let Some(row) = stream.rows.take(&mut self.row) {
                for (seen, &value) in extremes.iter_mut().zip(row.values) {
                    if !value.is_nan() {
                        let [_, min, max] = seen.unwrap_or([value; 3]);
                        *seen = Some([value, value.min(min), value.max(max)]);
                    }
                }
                if let Some(csv) = &mut stream.csv {
                    csv.add(&row, row.release.nanos() + offset);
                }
            }
            let Some(csv) = &mut stream.csv else { continue };
            let path = csv.path().display().to_string();
            match csv.flush() {
                // Nothing to write proves nothing.
                Ok(false) => {}
                Ok(true) if failing.take().is_some() => info!(task = stream.task, path, "recording goes on"),
                Ok(true) => {}
                Err(error) if failing.is_none_or(|told| now - told >= TELL_EVERY) => {
                    *failing = Some(now);
                    warn!(task = stream.task, path, lost = csv.lost(), "recording failed, the task goes on: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// What has become of each stream so far.
    pub fn streamed(&self) -> Vec<Streamed> {
        let streamed = |Taken { stream, extremes, .. }: &Taken| {
            let values = stream.columns.iter().zip(extremes).map(|(Column { name, unit }, seen)| {
                let part = |index| seen.map(|seen: [f64; 3]| seen[index]);
                (name.clone(), ValueSummary { last: part(0), min: part(1), max: part(2), unit: unit.clone() })
            });
            let recorded = stream.csv.as_ref().map(|csv| RecordedSummary {
                path: csv.path().display().to_string(),
                rows: csv.rows(),
                lost: csv.lost() + stream.rows.traffic().dropped(),
            });
            Streamed { id: stream.id, values: values.collect(), recorded }
        };
        self.taken.iter().map(streamed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Queue, Row, rows};

    #[test]
    fn values_are_summed_up_and_recorded_in_utc() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let columns = vec![Column { name: "v".into(), unit: "m".into() }];
        let (mut sender, receiver) = rows(Queue::Fifo, 4, 1);
        for (n, value) in [2.0, f64::NAN, -1.0, 0.5, 9.0].iter().enumerate() {
            let n = n as u64;
            let release = Instant::from_nanos(i128::from(n));
            sender.offer(Row { n, release, lateness: Span::ZERO, values: std::slice::from_ref(value) });
        }
        let csv = Some(CsvFile::open(&path, &columns).unwrap());
        let mut recorder = Recorder::default();
        let clock = KernelClock::monotonic();
        recorder.add(Stream { id: 7, task: "t".into(), clock, columns, rows: receiver, blocks: None, csv });
        recorder.drain(Instant::ZERO, |_| 1_000_000_000);
        let streamed = recorder.streamed();
        let value = ValueSummary { last: Some(0.5), min: Some(-1.0), max: Some(2.0), unit: "m".into() };
        assert_eq!(streamed[0].values["v"], value);
        let recorded = streamed[0].recorded.clone().unwrap();
        assert_eq!((recorded.rows, recorded.lost), (4, 1));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().nth(3), Some("2,1970-01-01T00:00:01.000000002Z,0,-1"));
    }
}
