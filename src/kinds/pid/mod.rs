//! The kind `pid`: a controller. Its [`law`] is pure; this feeds it what a tick knows.
//!
//! Time comes with the ticks and the rows. A tick makes no system call and allocates nothing. What a controller put out last is kept
//! where the one that follows it at a reload finds it.

mod keys;
mod law;

pub(super) use keys::kind;

use crate::task::{Column, Input, Quality, Task, Tick, TickError};
use crate::time::Instant;
use law::{Law, Mode, Output, Settings, Step};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a controller takes.
#[derive(Clone, Debug)]
struct Inputs {
    input: Input,
    setpoint: Input,
    feed_forward: Input,
    enable: Input,
    track: Option<Input>,
    manual: Option<Input>,
}

/// A controller that runs.
struct Pid {
    law: Law,
    inputs: Inputs,
    row: Option<Instant>, // the release of the latest row of the input
    ticked: bool,
    put_out: Arc<PutOut>,
    before: Option<Arc<PutOut>>, // of the one that it follows
}

/// What a controller put out last; NaN: nothing yet.
#[derive(Debug)]
struct PutOut(AtomicU64);

/// What the controllers of this process put out, by the names of their sections: read where tasks are built, never at a tick.
static RUNNING: Mutex<BTreeMap<String, Weak<PutOut>>> = Mutex::new(BTreeMap::new());

impl Pid {
    fn new(settings: Settings, inputs: Inputs) -> Self {
        let put_out = Arc::new(PutOut(AtomicU64::new(f64::NAN.to_bits())));
        Self { law: Law::new(settings), inputs, row: None, ticked: false, put_out, before: None }
    }

    /// One that goes on from what the controller of this name puts out until it takes over, if there is one.
    fn going_on(name: &str, settings: Settings, inputs: Inputs) -> Self {
        let pid = Self::new(settings, inputs);
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, put_out| put_out.strong_count() > 0);
        let before = running.insert(name.to_owned(), Arc::downgrade(&pid.put_out)).and_then(|before| before.upgrade());
        Self { before, ..pid }
    }

    fn mode(&self) -> Mode {
        let enable = self.inputs.enable.get();
        let manual = self.inputs.manual.as_ref().map(Input::get).filter(|value| value.is_finite());
        match manual {
            _ if enable == 0.0 || !enable.is_finite() => Mode::Off,
            Some(value) => Mode::Manual(value),
            None => Mode::Automatic,
        }
    }

    /// Seconds from the release of the row before to that of this one; 0: it is still the same.
    fn row_elapsed(&mut self, elapsed: f64) -> f64 {
        if self.inputs.input.quality() != Quality::Good {
            return 0.0;
        }
        // A number has no rows: it is new at each tick.
        let Some(release) = self.inputs.input.release() else { return elapsed };
        let before = self.row.replace(release);
        before.map_or(0.0, |before| (release - before).seconds())
    }
}

impl Task for Pid {
    fn columns(&self) -> Vec<Column> {
        let names = [
            ("out", ""),
            ("error", ""),
            ("p", ""),
            ("i", ""),
            ("d", ""),
            ("ff", ""),
            ("saturated", ""),
            ("saturated-for", "s"),
        ];
        names.into_iter().map(|(name, unit)| Column { name: name.into(), unit: unit.into() }).collect()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        if !std::mem::replace(&mut self.ticked, true)
            && let Some(before) = self.before.take()
        {
            self.law.go_on_from(f64::from_bits(before.0.load(Ordering::Relaxed)));
        }
        #[expect(clippy::cast_precision_loss, reason = "a gap of 2^53 periods is past any max-gap")]
        let elapsed = (tick.skipped + 1) as f64 * tick.period.seconds();
        let row_elapsed = self.row_elapsed(elapsed);
        let Inputs { input, setpoint, feed_forward, track, .. } = &self.inputs;
        let step = Step {
            mode: self.mode(),
            elapsed,
            input: input.get(),
            row_elapsed,
            setpoint: setpoint.get(),
            feed_forward: feed_forward.get(),
            applied: track.as_ref().map(Input::get).filter(|applied| applied.is_finite()),
        };
        let Output { out, error, p, i, d, ff, saturated, saturated_for } = self.law.step(&step);
        if out.is_finite() {
            self.put_out.0.store(out.to_bits(), Ordering::Relaxed);
        }
        values.copy_from_slice(&[out, error, p, i, d, ff, saturated, saturated_for]);
        Ok(())
    }
}
