//! Receives a simulation's records: counts, judges and reports each tick. Reads no clock.

use crate::channels::{Counts, IdleWake, Quality, RowReceiver, Sent, TickRecord, TickSink};
use crate::config::Config;
use crate::metrics::{Metrics, NoAccuser};
use crate::worker::Control;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// One tick, as `simulate --json` prints it. Instants count from the worker's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct SimulatedTick<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// Index of the tick.
    pub n: u64,
    /// When it was meant to start.
    pub release_ns: i128,
    /// When it started.
    pub started_ns: i128,
    /// When it finished.
    pub finished_ns: i128,
    /// Releases given up before it, because something else held the worker, and after it finished.
    pub skipped: u64,
    /// Its values, in column order; empty for a task that is only a script. `NaN`: no value.
    #[serde(skip)]
    pub values: &'a [f64],
    /// What each of them is worth.
    #[serde(skip)]
    pub qualities: &'a [Quality],
}

/// The values of a task's last tick, and what each is worth.
#[derive(Clone, Default)]
pub(crate) struct ShownRow {
    pub(super) values: Vec<f64>,
    pub(super) qualities: Vec<Quality>,
}

/// The end of a task's queue of rows.
pub(crate) struct Shown {
    rows: RowReceiver,
    valid: Vec<[f64; 2]>, // the range of each value; empty: any number
    row: ShownRow,
}

impl Shown {
    pub(super) fn new(rows: RowReceiver, valid: Vec<[f64; 2]>, width: usize) -> Self {
        let row = ShownRow { values: vec![f64::NAN; width], qualities: vec![Quality::None; width] };
        Self { rows, valid, row }
    }

    /// The row of the tick that has just ended. One that panicked has none.
    fn next(&mut self) -> &ShownRow {
        let ShownRow { values, qualities } = &mut self.row;
        if let Some(basis) = self.rows.take(values).map(|row| row.basis) {
            for (at, (value, quality)) in values.iter().zip(qualities).enumerate() {
                *quality = Quality::of(*value, basis, self.valid.get(at));
            }
        } else {
            values.fill(f64::NAN);
            qualities.fill(Quality::None);
        }
        &self.row
    }
}

/// What went through the sink.
#[derive(Clone, Debug, Default)]
pub(crate) struct Played {
    /// Records.
    pub(crate) sent: u64,
    /// The counts of each task, by its number.
    pub(crate) counts: Vec<Counts>,
}

impl Played {
    pub(crate) fn of(config: &Config) -> Self {
        Self { sent: 0, counts: vec![Counts::default(); config.tasks.len()] }
    }
}

/// Receives all records, for the metrics and for printing.
pub(crate) struct Ledger<'a> {
    config: &'a Config,
    pub(crate) metrics: &'a mut Metrics,
    line: &'a mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
    pub(super) played: Played,
    broken: Option<io::Error>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(
        config: &'a Config,
        metrics: &'a mut Metrics,
        line: &'a mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
    ) -> Self {
        Self { config, metrics, line, played: Played::of(config), broken: None }
    }

    /// Enters a tick. Returns whether the run should continue.
    pub(crate) fn tick(&mut self, worker: usize, record: &TickRecord, row: &ShownRow) -> bool {
        self.played.sent += 1;
        let counts = &mut self.played.counts[record.task as usize];
        counts.ran += 1;
        counts.skipped += record.skipped();
        counts.overruns += u64::from(record.overrun);
        counts.over_budget += u64::from(record.over_budget);
        self.metrics.observe(worker, &Sent::Tick(*record));
        self.metrics.take(record, &mut NoAccuser);
        let line = SimulatedTick {
            task: &self.config.tasks[record.task as usize].name,
            n: record.n,
            release_ns: record.release.nanos(),
            started_ns: record.started().nanos(),
            finished_ns: record.finished().nanos(),
            skipped: record.skipped(),
            values: &row.values,
            qualities: &row.qualities,
        };
        if self.broken.is_none() {
            self.broken = (self.line)(line).err();
        }
        self.broken.is_none()
    }

    pub(super) fn woke_idle(&mut self, worker: usize, wake: IdleWake) {
        self.metrics.observe(worker, &Sent::IdleWake(wake));
        self.metrics.take_idle(worker, &wake);
    }

    pub(crate) fn finish(self) -> io::Result<Played> {
        self.broken.map_or(Ok(self.played), Err)
    }
}

/// Takes the records of one worker's loop.
pub(crate) struct Lines<'a> {
    pub(crate) worker: usize,
    pub(crate) ledger: Ledger<'a>,
    pub(crate) control: Arc<Control>,
    pub(crate) shown: BTreeMap<u32, Shown>,
}

impl TickSink for Lines<'_> {
    fn offer(&mut self, record: TickRecord) {
        let none = ShownRow::default();
        let row = self.shown.get_mut(&record.task).map_or(&none, Shown::next);
        if !self.ledger.tick(self.worker, &record, row) {
            self.control.stop();
        }
    }

    fn woke_idle(&mut self, wake: IdleWake) {
        self.ledger.woke_idle(self.worker, wake);
    }
}

/// Forwards the records of one of several loops, with the values of each tick.
pub(crate) struct Relay {
    pub(crate) worker: usize,
    pub(crate) shown: BTreeMap<u32, Shown>,
    pub(super) relay: SyncSender<(usize, Sent, ShownRow)>,
}

/// How many records the loops may be ahead of the ledger.
pub(super) const RELAYED_AHEAD: usize = 1_024;

impl TickSink for Relay {
    fn offer(&mut self, record: TickRecord) {
        let row = self.shown.get_mut(&record.task).map(|shown| shown.next().clone());
        // The ledger receives until all loops have ended.
        let _ = self.relay.send((self.worker, Sent::Tick(record), row.unwrap_or_default()));
    }

    fn woke_idle(&mut self, wake: IdleWake) {
        let _ = self.relay.send((self.worker, Sent::IdleWake(wake), ShownRow::default()));
    }
}
