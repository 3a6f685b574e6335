//! Runs in place of a task that sends, on the virtual clock and in a shadow run: the same law, without a socket. Pure.

use super::send::columns;
use super::settings::{SendSettings, SentSignal};
use crate::channels::or_none;
use crate::kinds::elapsed::seconds_since_last;
use crate::kinds::output::law::{Law, Step, Wanted};
use crate::task::{Column, Input, Quality, Task, Tick, TickError};

/// A simulated sender.
pub(super) struct AtTheDesk {
    columns: Vec<Column>,
    signals: Vec<(SentSignal, Law)>,
    frames: f64,
    sent: f64,
    reset: Option<Input>,
}

impl AtTheDesk {
    pub(super) fn new(settings: SendSettings) -> Self {
        let columns = columns(&settings);
        #[expect(clippy::cast_precision_loss, reason = "at most 512")]
        let frames = settings.frames.len() as f64;
        let safe = |signal: SentSignal| {
            let law = Law::safe(signal.law, signal.safe);
            (signal, law)
        };
        let signals = settings.frames.into_iter().flat_map(|frame| frame.signals).map(safe).collect();
        Self { columns, signals, frames, sent: 0.0, reset: settings.reset }
    }
}

impl Task for AtTheDesk {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let elapsed = seconds_since_last(tick);
        let reset = self.reset.as_ref().and_then(Input::is_on);
        let mut is_safe = false;
        for (signal, law) in &mut self.signals {
            let (input, is_missing) = (signal.input.get(), !signal.input.has_come());
            let is_none = signal.input.quality() == Quality::None;
            match law.step(&Step { input, is_none, is_missing, tripped: false, reset, elapsed }) {
                Wanted::Nothing => {}
                Wanted::Value(value) | Wanted::Ramp(value) => law.put_out(value),
                Wanted::Safe => law.put_out_safe(signal.safe),
            }
            values[signal.column] = or_none(law.applied());
            is_safe |= law.is_safe();
        }
        self.sent += self.frames;
        values[self.columns.len() - 3..].copy_from_slice(&[f64::from(u8::from(is_safe)), self.sent, 0.0]);
        Ok(())
    }
}
