//! The kind `video`: frames of a camera, taken on the tick.
//!
//! The camera fills buffers on its own clock, so a tick may find no frame, or several; it never waits for one. Every number of the driver's
//! sequence is counted once, as a frame or as a gap.
//!
//! Other threads open, set up, map and close the device (see [`device`](super::device)). A tick makes one system call for each frame taken,
//! one for each returned, and one that finds no more; it allocates nothing. The kernel's timestamps are compared with the monotonic clock,
//! even if the worker uses another clock.

mod count;
mod frames;
mod keys;
mod list;
mod luma;
mod modes;
mod open;
mod settings;

pub(super) use keys::kind;
pub(super) use list::list;

use crate::channels::{Format, ImageFormat, Shape};
use crate::config::{BuildError, Preview};
use crate::kinds::device::{First, Reconnecting, Stalled, preview};
use crate::site::{Label, Site};
use crate::sys::clock::KernelClock;
use crate::sys::video::PixelFormat;
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Clock, Instant, Span};
use frames::{FrameReader, TickTime};
use open::{Expected, Opened, Opener};
use settings::VideoSettings;

/// A task that takes frames from a camera.
#[derive(Debug)]
pub(crate) struct Video {
    camera: Reconnecting<Opened>,
    frames: FrameReader,
    stalled: Stalled,
    patience: Span,
    failed: bool, // since the stream was started; it may have cost buffers, as V4L2 says of EIO
}

const STALLED: TickError = TickError::new("the camera is open and delivers no frames");

impl Video {
    /// Finds the camera, sets it up and starts its stream, now and whenever it has been lost. `task` is the task's name in the log.
    pub(crate) fn open(site: &mut Site, settings: VideoSettings, task: &str) -> Result<Self, BuildError> {
        let label = Label::new(format!("camera {}", settings.device), task);
        let (take, missing, usual) = (settings.take, settings.missing, usual(&settings));
        let mut opener = Opener { settings, label: label.clone(), warned: String::new(), rate_compared: false };
        let opened = opener.open(None);
        // Waiting for the device fixes no other problem.
        if let Err(refusal) = &opened
            && refusal.key != "device"
        {
            return Err(refusal.clone().into());
        }
        let first = First::of(site, &label, missing, opened)?;
        let expected = match &first {
            First::Opened(camera) => camera.expected(),
            First::HandedOver(_) => opener.preview()?,
            First::Missing => usual,
        };
        let camera = Reconnecting::new(site, label, first, move || opener.open(Some(&expected)))?;
        let interval = expected.rate.map_or(0.0, |(frames, seconds)| f64::from(seconds) / f64::from(frames) * 1e9);
        let (stalled, patience) = (Stalled::default(), Stalled::patience(interval));
        let frames = FrameReader::new(take, site.stream(expected.shape()));
        Ok(Self { camera, frames, stalled, patience, failed: false })
    }
}

/// What [`Video::open`] would find.
fn look(site: &Site, settings: VideoSettings, task: &str) -> Result<Preview, BuildError> {
    let label = Label::new(format!("camera {}", settings.device), task);
    let (take, missing, usual) = (settings.take, settings.missing, usual(&settings));
    let opener = Opener { settings, label: label.clone(), warned: String::new(), rate_compared: false };
    let looked = opener.look();
    // Waiting for the device fixes no other problem.
    if let Err(refusal) = &looked
        && refusal.key != "device"
    {
        return Err(refusal.clone().into());
    }
    let expected = looked.as_ref().ok().and_then(|(_, expected)| *expected).unwrap_or(usual);
    let preview = preview(site, &label, missing, looked.map(|(sight, _)| sight))?;
    let columns = Some(FrameReader::new(take, None).columns());
    Ok(Preview { columns, stream: Some(expected.shape()), ..preview })
}

/// What a camera most likely delivers, for a camera that is not present yet.
fn usual(settings: &VideoSettings) -> Expected {
    let (stride, largest) = luma::layout(settings.format, settings.width, settings.height);
    let (four_cc, width, height) = (settings.format, settings.width, settings.height);
    let format = PixelFormat { four_cc, width, height, stride, largest, alternating: false };
    Expected { format, rate: settings.frame_rate }
}

impl Expected {
    /// The shape of the frames for the recorder.
    fn shape(&self) -> Shape {
        let PixelFormat { four_cc, width, height, stride, largest, .. } = self.format;
        let rate = self.rate.map_or(30.0, |(frames, seconds)| f64::from(frames) / f64::from(seconds));
        let format = Format::Image(ImageFormat { width, height, stride, four_cc });
        let largest_frame = usize::try_from(largest).unwrap_or(usize::MAX);
        Shape { format, largest: largest_frame, bytes_per_second: f64::from(largest) * rate }
    }
}

impl Task for Video {
    fn columns(&self) -> Vec<Column> {
        self.frames.columns()
    }

    fn origin(&self) -> Option<Instant> {
        self.frames.shown_at()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let moment = TickTime { n: tick.n, release: KernelClock::monotonic().now() - tick.lateness };
        let Self { frames, stalled, failed, .. } = self;
        let before = frames.frames();
        let taken = self.camera.with("taking frames", tick.period, |camera| {
            if camera.begins {
                (*stalled, *failed) = (Stalled::default(), false);
                frames.begin(&mut camera.stream)?;
                camera.begins = false;
            }
            frames.take(&mut camera.stream, moment, values).inspect_err(|_| *failed = true)
        });
        taken?;
        let came = self.frames.frames() > before;
        if self.stalled.exceeds(moment.release, came, self.patience) {
            if self.failed {
                // The driver may have no buffer left to fill.
                self.camera.lose();
            }
            return Err(STALLED);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::device::Missing;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};
    use crate::time::Instant;

    fn settings(device: &str, missing: Missing) -> VideoSettings {
        VideoSettings { device: device.into(), missing, ..VideoSettings::default() }
    }

    #[test]
    fn what_is_no_camera_is_refused_and_waited_for_if_asked() {
        let refused =
            Video::open(&mut Site::default(), settings("/nonexistent", Missing::Refuse), "eye").unwrap_err().message;
        assert!(refused.starts_with("cannot open /nonexistent: No such file or directory (os error 2); "), "{refused}");

        let mut site = Site::default();
        let mut video = Video::open(&mut site, settings("/nonexistent", Missing::Wait), "eye").unwrap();
        let (zero, at) = (Span::ZERO, Instant::ZERO);
        let tick = Tick { n: 0, release: at, started: at, lateness: zero, skipped: 0, credit: zero, period: zero };
        let mut values = [f64::NAN; 6];
        let gone = video.tick(&tick, &mut values).unwrap_err();
        assert_eq!(gone.to_string(), "the device is not available; trying to open it");
        // The shape is already known.
        let shape = site.take_stream().unwrap().shape;
        let image = ImageFormat { width: 640, height: 480, stride: 1_280, four_cc: *b"YUYV" };
        assert_eq!((shape.format, shape.largest), (Format::Image(image), 614_400));
        assert_eq!(shape.bytes_per_second, 614_400.0 * 30.0);
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        let refused = Video::open(&mut Site::default(), settings("/dev/null", Missing::Refuse), "eye").unwrap_err();
        assert_eq!(refused, BuildError { key: "device", message: "/dev/null is no video device".into() });
    }
}
