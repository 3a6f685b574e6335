//! The kind `heartbeat`: toggles a line at each tick while outputs are live. A hardware watchdog acts when the line stands still.
//!
//! Time comes with the ticks. A tick walks a list of the outputs without taking a lock. It allocates nothing, and makes one system call
//! while all outputs are live, else none.

mod keys;
mod watch;

pub(super) use keys::kind;

use crate::kinds::elapsed::seconds_since_last;
use crate::kinds::output::Switched;
use crate::safety::{LiveOutputs, Liveness, Named};
use crate::site::Built;
use crate::task::{Column, Task, Tick, TickError};
use std::sync::Arc;
use watch::Watch;

/// Maximum number of outputs that one heartbeat can watch. Any output beyond that never counts as live.
const MOST: usize = 1_024;

/// A task that toggles.
struct Heartbeat {
    switched: Option<Switched>, // `None` in a shadow run
    outputs: Arc<LiveOutputs>,
    wanted: Option<Box<[Named]>>, // `None`: all that are open or owe their safe values
    watches: Box<[Watch]>,        // one per output, by its index in the list
    is_on: bool,
}

impl Heartbeat {
    fn new(switched: Option<Switched>, outputs: Arc<LiveOutputs>, wanted: Option<Box<[Named]>>) -> Self {
        let most = wanted.as_ref().map_or(MOST, |wanted| wanted.len());
        Self { switched, outputs, wanted, watches: vec![Watch::default(); most].into(), is_on: false }
    }

    fn built(self) -> Built {
        Built::from(self).measures_nothing()
    }

    /// The number of outputs, and how many of them are live.
    fn count(&mut self, elapsed: f64) -> [usize; 2] {
        let mut counts = [0; 2];
        let mut count = |watch: Option<&mut Watch>, output: &Liveness| {
            let ticks = output.ticks(); // read before `follows`
            let seen = (output.follows(), ticks, output.safe_after().seconds());
            let is_live = watch.is_some_and(|watch| watch.is_live(seen, elapsed));
            counts[0] += 1;
            counts[1] += usize::from(is_live);
        };
        match &self.wanted {
            Some(wanted) => wanted.iter().zip(&mut self.watches).for_each(|(output, watch)| count(Some(watch), output)),
            None => {
                let all = self.outputs.iter().enumerate().filter(|(_, output)| output.counts());
                all.for_each(|(at, output)| count(self.watches.get_mut(at), output));
            }
        }
        counts
    }
}

impl Task for Heartbeat {
    fn columns(&self) -> Vec<Column> {
        columns()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of outputs")]
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let elapsed = seconds_since_last(tick);
        let [outputs, live] = self.count(elapsed);
        values[1] = (outputs - live) as f64;
        values[0] = 0.0;
        if let (Some(switched), true) = (&mut self.switched, outputs > 0 && live == outputs) {
            let set = switched.set(!self.is_on);
            set.map_err(|error| TickError::from_io("cannot switch the line", &error).of_no_value())?;
            self.is_on = !self.is_on;
            values[0] = 1.0;
        }
        Ok(())
    }
}

fn columns() -> Vec<Column> {
    ["beating", "not-live"].map(|name| Column { name: name.into(), unit: String::new() }).into()
}
