//! The task that polls files.
//!
//! A tick allocates nothing, takes no lock and opens nothing. No clock is read: time comes with the tick.

use super::number::Counter;
use super::plan::{OpenSensor, ReadPlan};
use super::settings::SensorSettings;
use crate::config::{BuildError, Preview};
use crate::io::Keeper;
use crate::kinds::device::{First, Missing, Reconnecting, preview};
use crate::site::{Label, OpenDevice, Site};
use crate::task::{Column, Task, Tick, TickError};

impl OpenDevice for OpenSensor {}

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
        let plan = ReadPlan::new(settings, site.sys())?;
        let columns = plan.columns.clone();
        let counters = plan.rates().map(|counts| counts.map(Counter::new)).collect();
        let first = First::of(site, &label, missing, plan.open(&keeper, &label.task, missing == Missing::Refuse))?;
        let task = label.task.clone();
        let device = Reconnecting::new(site, label, first, move || plan.open(&keeper, &task, false))?;
        Ok(Self { columns, device, counters })
    }

    /// What `open` would find.
    pub(super) fn look(site: &Site, settings: SensorSettings, label: &Label) -> Result<Preview, BuildError> {
        let missing = settings.missing;
        let plan = ReadPlan::new(settings, site.sys())?;
        let (looked, fresh) = (plan.look(&site.common(), &label.task, missing == Missing::Refuse), plan.ages());
        Ok(Preview { columns: Some(plan.columns), fresh, ..preview(site, label, missing, looked)? })
    }
}

impl Task for Polled {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let OpenSensor { files, conversions } = self.device.device()?;
        let (counters, mut too_large) = (&mut self.counters, false);
        let read = files.read(|column, number| {
            let (scale, offset) = conversions[column];
            let value = match &mut counters[column] {
                Some(counter) => counter.rate(number, tick.started).map(|rate| rate * scale),
                None => Some(number.value() * scale + offset),
            };
            too_large |= value.is_some_and(|value| !value.is_finite());
            values[column] = value.filter(|value| value.is_finite()).unwrap_or(f64::NAN);
        });
        let read = read.and(if too_large { Err((TOO_LARGE, false)) } else { Ok(()) });
        read.map_err(|(error, lost)| {
            if lost {
                self.device.lose();
                // A device that comes back may count from zero.
                counters.iter_mut().flatten().for_each(Counter::forget);
            }
            error
        })
    }
}
