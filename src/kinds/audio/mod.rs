//! The kind `audio`: captures sound from an ALSA device, without blocking and without a thread of its own.
//!
//! Each tick takes everything the device has gathered since the previous tick, so the blocks of all ticks form the whole stream. Frames
//! overwritten because a tick came late are an xrun: they are counted, reported as an error, and skipped in the index of the next block.
//! The time of a frame is when it was captured, on the monotonic clock, which is read once per tick. The hot thread never opens, starts or
//! recovers a device ([`Reconnecting`] does).

mod device;
mod drift;
mod keys;
mod level;
mod list;
mod position;
mod settings;
mod supported;

pub(super) use keys::kind;
pub(super) use list::list;

use crate::channels::{BlockSender, Format, Head, NONE, Shape, or_none};
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Reconnecting, Stalled, is_gone, preview};
use crate::site::{Label, Site};
use crate::sys::clock::KernelClock;
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Clock, Instant, Span};
use device::{Captured, Device, Status};
use drift::Drift;
use level::Level;
use position::StreamPosition;
use settings::AudioSettings;
use std::io;

const OVERRUN: TickError = TickError::new("frames are missing: the device's buffer overran before this tick (xrun)");

/// An overrun before the first tick is not an xrun.
const STOPPED_UNHEARD: TickError =
    TickError::new("the device's buffer overran before its first frame was taken, and it stopped; reopening it");

const STOPPED: TickError =
    TickError::new("frames are missing: the device's buffer overran and it stopped (xrun); reopening it");

const STALLED: TickError = TickError::new("the device is open and delivers no frames");

/// A task that captures sound.
#[derive(Debug)]
pub(super) struct Audio {
    settings: AudioSettings,
    device: Reconnecting<Device>,
    blocks: Option<BlockSender>,
    clock: KernelClock,
    position: StreamPosition,
    drift: Drift,
    latest: Instant,         // time of the last block
    oldest: Option<Instant>, // time of the first frame of this tick
    frames: u64,             // taken so far
    xruns: u64,
    stalled: Stalled,
    patience: Span,
}

impl Audio {
    fn open(site: &mut Site, label: Label, settings: AudioSettings) -> Result<Self, BuildError> {
        let wanted = settings.clone();
        let device = Reconnecting::open(site, label, settings.missing, move || Device::open(&wanted))?;
        let rate = settings.format.rate;
        let clock = KernelClock::monotonic();
        Ok(Self {
            device,
            blocks: site.stream(shape(&settings)),
            clock,
            position: StreamPosition::new(rate),
            drift: Drift::new(rate),
            latest: Instant::ZERO,
            oldest: None,
            frames: 0,
            xruns: 0,
            stalled: Stalled::default(),
            patience: Stalled::patience(0.0).max(settings.buffer + settings.buffer),
            settings,
        })
    }

    /// Previews `open`.
    fn look(site: &Site, label: &Label, settings: &AudioSettings) -> Result<Preview, BuildError> {
        let preview = preview(site, label, settings.missing, Device::look(settings))?;
        Ok(Preview { columns: Some(columns()), stream: Some(shape(settings)), ..preview })
    }

    /// Explains the device's error, and gives the device up, to be reopened: at once if it has stopped, else after some
    /// [failures](Reconnecting::failed). `unheard`: it failed before its first frame was taken. `period`: of the task; `None` if the
    /// failure may have cost frames, which only a new stream accounts for.
    fn failed(&mut self, error: &io::Error, unheard: bool, period: Option<Span>) -> TickError {
        match (error.raw_os_error(), period) {
            (Some(libc::EPIPE | libc::ESTRPIPE | libc::EBADFD), _) | (_, None) => self.device.lose(),
            (_, Some(period)) => self.device.failed(error, period),
        }
        self.stalled.reset();
        match error.raw_os_error() {
            Some(libc::EPIPE) if unheard => STOPPED_UNHEARD,
            Some(libc::EPIPE) => {
                self.xruns += 1;
                STOPPED
            }
            Some(libc::ESTRPIPE) => TickError::new("the device was suspended; reopening it"),
            _ if is_gone(error) => TickError::from_io("the device is gone", error),
            _ => TickError::from_io("the device cannot be read", error),
        }
    }
}

fn columns() -> Vec<Column> {
    let column = |(name, unit): (&str, &str)| Column { name: name.into(), unit: unit.into() };
    [("frames", ""), ("xruns", ""), ("rms", "FS"), ("peak", "FS"), ("drift-ppm", "ppm")].map(column).into()
}

/// Shape of the recorded sound.
#[expect(clippy::cast_precision_loss, reason = "a usual pace, rounded where it must be")]
fn shape(settings: &AudioSettings) -> Shape {
    let (format, frame) = (settings.format, settings.frame_bytes());
    Shape {
        format: Format::Audio(format),
        largest: settings.largest_take() * frame,
        bytes_per_second: f64::from(format.rate) * frame as f64,
    }
}

impl Task for Audio {
    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn origin(&self) -> Option<Instant> {
        self.oldest
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 frames are a thousand years")]
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let device = self.device.device().inspect_err(|_| self.stalled.reset())?;
        let unheard = device.fresh;
        let Status { available, behind, mut lost } = match device.status() {
            Ok(status) => status,
            Err(error) => return Err(self.failed(&error, unheard, Some(tick.period))),
        };
        let now = self.clock.now();
        let at = now - self.position.lasting(behind);
        if device.fresh && available > 0 {
            device.fresh = false;
            self.position.begin(at);
            self.drift = Drift::new(self.settings.format.rate);
            // An overrun before the first tick is not an xrun.
            lost = 0;
        }
        self.position.lose(lost);
        if !device.fresh {
            self.drift.observe(now, self.position.next() + behind);
        }
        let Captured { frames, lost: overwritten } = match device.take(available) {
            Ok(take) => take,
            Err(error) => return Err(self.failed(&error, unheard, None)),
        };
        self.position.lose(overwritten);
        let mut level = Level::default();
        self.oldest = (frames > 0).then_some(at);
        if frames > 0 {
            let bytes = device.taken(frames);
            level.add(self.settings.format.sample, bytes);
            let index = self.position.take(frames, at);
            if let Some(blocks) = &mut self.blocks {
                // A device that reports its position in steps, such as a sound server, may seem to go back by one step.
                self.latest = self.latest.max(at);
                blocks.offer(Head { n: tick.n, at: self.latest, index }, &[bytes]);
            }
            self.frames += frames;
        }
        self.device.worked();
        let stalled = self.stalled.exceeds(now, frames > 0, self.patience);
        if lost + overwritten > 0 && !unheard {
            self.xruns += 1;
            return Err(OVERRUN);
        }
        if stalled {
            return Err(STALLED);
        }
        // A level that is no number is bad: a sample was none.
        let [rms, peak] = [level.rms(), level.peak()].map(|level| level.unwrap_or(NONE));
        let measured = [self.frames as f64, self.xruns as f64, rms, peak, or_none(self.drift.ppm())];
        values.iter_mut().zip(measured).for_each(|(slot, value)| *slot = value);
        Ok(())
    }
}
