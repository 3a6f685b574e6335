//! The task that polls files.
//!
//! A tick allocates nothing, takes no lock and opens nothing. No clock is read: time comes with the tick.

use super::files::{NoNumber, Opening};
use super::number::Counter;
use super::plan::{OpenSensor, ReadPlan};
use super::settings::SensorSettings;
use crate::channels::NONE;
use crate::config::{BuildError, Preview};
use crate::io::Keeper;
use crate::kinds::device::{First, Missing, Reconnecting, preview};
use crate::site::{Label, OpenDevice, Site};
use crate::task::{Column, Reason, Task, Tick, TickError};

impl OpenDevice for OpenSensor {}

const WAS_RESET: TickError = TickError::new(
    "a counter is lower than before and counts as reset, without a rate at this tick; one that counts both ways needs counter = \"both\"",
);
const TOO_LARGE: TickError =
    TickError::new("a value is infinite: after `scale` and `offset` it is too large for a floating-point number");

/// A sensor that polls files.
#[derive(Debug)]
pub(super) struct Polled {
    columns: Vec<Column>,
    device: Reconnecting<OpenSensor>,
    counters: Box<[Option<Counter>]>, // for columns that are rates
}

impl Polled {
    pub(super) fn open(site: &Site, settings: SensorSettings, label: Label) -> Result<Self, BuildError> {
        let (missing, keeper) = (settings.missing, site.common::<Keeper>());
        let plan = ReadPlan::new(settings, site)?;
        let columns = plan.columns.clone();
        let counters = plan.rates().map(|counts| counts.map(Counter::new)).collect();
        let first = First::of(site, &label, missing, plan.open(&keeper, &label.task, Self::opening(missing)))?;
        let (task, mut opening) = (label.task.clone(), Opening::First);
        if matches!(first, First::Opened(_)) {
            opening = Opening::Again;
        }
        let open = move || plan.open(&keeper, &task, opening).inspect(|_| opening = Opening::Again);
        let device = Reconnecting::new(site, label, first, open)?;
        Ok(Self { columns, device, counters })
    }

    fn opening(missing: Missing) -> Opening {
        if missing == Missing::Refuse { Opening::Strict } else { Opening::First }
    }

    /// What `open` would find.
    pub(super) fn look(site: &Site, settings: SensorSettings, label: &Label) -> Result<Preview, BuildError> {
        let missing = settings.missing;
        let plan = ReadPlan::new(settings, site)?;
        let (looked, fresh) = (plan.look(&site.common(), &label.task, Self::opening(missing)), plan.ages());
        let may_freeze = plan.is_of_device();
        Ok(Preview { columns: Some(plan.columns), fresh, may_freeze, ..preview(site, label, missing, looked)? })
    }
}

impl Task for Polled {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let OpenSensor { files, conversions } = self.device.device()?;
        let (counters, mut too_large, mut was_reset) = (&mut self.counters, None, false);
        let mut read = files.read(|column, number| {
            let (scale, offset) = conversions[column];
            values[column] = match (number, &mut counters[column]) {
                (Ok(number), Some(counter)) => {
                    let rate = counter.rate(number, tick.started).inspect_err(|_| was_reset = true);
                    rate.ok().flatten().map_or(NONE, |rate| rate * scale)
                }
                (Ok(number), None) => number.value() * scale + offset,
                (Err(NoNumber { mark, is_gone }), counter) => {
                    // What comes back may count from zero.
                    counter.iter_mut().filter(|_| is_gone).for_each(Counter::forget);
                    mark
                }
            };
            if values[column].is_infinite() {
                values[column] = Reason::NotFinite.value();
                too_large = too_large.or(Some(column));
            }
        });
        if let Some(column) = too_large {
            read.fails(column, TOO_LARGE);
        }
        if read.lost {
            self.device.lose();
            counters.iter_mut().flatten().for_each(Counter::forget);
        }
        if was_reset { read.error().and(Err(WAS_RESET.of_no_value())) } else { read.error() }
    }
}
