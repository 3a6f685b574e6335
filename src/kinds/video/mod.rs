//! The kind `video`: frames of a camera, taken on the tick.
//!
//! The camera fills buffers by its own clock; a tick takes what is ready and never waits for a frame. So a tick may find
//! none, or several, and which of them it works on is [`Take`]'s choice. Every number of the driver's sequence is counted
//! once, as a frame or as a gap.
//!
//! Opening, setting up, mapping and closing are done on other threads (see [`link`](super::link)). A tick makes one
//! system call for each frame taken, one for each handed back, and one that finds no more; it allocates nothing. What the
//! kernel's own time stamps are compared with is the monotonic clock, whatever clock the worker goes by.

mod count;

mod keys;

mod luma;

mod offers;

mod open;

mod reel;

pub(super) use keys::kind;
pub use offers::{cameras, offers};
pub(crate) use reel::Take;

use crate::channels::{BlockSender, Format, ImageFormat, Shape};
use crate::config::BuildError;
use crate::kinds::device::Silence;
use crate::kinds::device::{Missing, Reconnecting};
use crate::sys::clock::KernelClock;
use crate::sys::video::Form;
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Clock, Span};
use open::{Opened, Opener, Promise};
use reel::{Moment, Reel};
use std::mem;
use std::sync::{Arc, OnceLock};

/// Which camera, and how its frames are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VideoSettings {
    /// Its path, from the root; or a part of its name that only one camera has, upper or lower case.
    pub device: String,
    /// V4L2's four characters, filled up with spaces.
    pub format: [u8; 4],
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Frames per second to ask for, as a fraction without zeros; `None`: as the camera is set.
    pub frame_rate: Option<(u32, u32)>,
    /// Which frames a tick works on.
    pub take: Take,
    /// Buffers to ask for, 2 to 32.
    pub buffers: u32,
    /// What to do when it is not there at the start.
    pub missing: Missing,
}

/// Every frame of 640x480 in YUYV, four buffers. The device is missing.
impl Default for VideoSettings {
    fn default() -> Self {
        Self {
            device: String::new(),
            format: *b"YUYV",
            width: 640,
            height: 480,
            frame_rate: None,
            take: Take::Every,
            buffers: 4,
            missing: Missing::Refuse,
        }
    }
}

/// A task that takes frames from a camera.
#[derive(Debug)]
pub(crate) struct Video {
    link: Reconnecting<Opened>,
    reel: Reel,
    promise: Promise,
    silence: Silence,
    patience: Span,
}

const SILENT: TickError = TickError::new("the camera is there and gives no frames");

impl Video {
    /// Finds the camera, sets it up and starts its stream, and goes on doing so whenever it has been lost. `task` names
    /// the task in the log.
    ///
    /// A camera that streams to another task of this process is waited for: that task may be the one which this one
    /// replaces.
    ///
    /// # Errors
    /// At the key to blame: `device` when it cannot be found, opened or started, `format`, `size` and `buffers` when the
    /// camera does not have them, with what it has instead.
    pub(crate) fn open(settings: VideoSettings, task: &str) -> Result<Self, BuildError> {
        let what = format!("camera {} of task {task}", settings.device);
        let (take, mut missing) = (settings.take, settings.missing);
        let usual = usual(&settings);
        let mut opener = Opener { settings, what: what.clone(), told: String::new() };
        let promise = Arc::new(OnceLock::new());
        if let Some(held) = opener.promise_of_held() {
            missing = Missing::Wait;
            promise.get_or_init(|| held);
        }
        // What is wrong with anything but the device does not become right by waiting.
        let first = opener.open(&promise);
        if let Err(error) = &first
            && (missing == Missing::Refuse || error.key != "device")
        {
            return Err(error.clone());
        }
        let (mut first, promised) = (Some(first), promise.clone());
        let open = move || {
            let opened = first.take().unwrap_or_else(|| opener.open(&promised));
            opened.map_err(|error| error.message)
        };
        let link = Reconnecting::open(what, missing, open).map_err(|message| BuildError { key: "device", message })?;
        let promise = *promise.get_or_init(|| usual);
        let interval = promise.rate.map_or(0.0, |(frames, seconds)| f64::from(seconds) / f64::from(frames) * 1e9);
        let (silence, patience) = (Silence::default(), Silence::patience(interval));
        Ok(Self { link, reel: Reel::new(take), promise, silence, patience })
    }
}

/// What a camera most likely delivers, for one that is not there yet.
fn usual(settings: &VideoSettings) -> Promise {
    let (stride, largest) = luma::layout(settings.format, settings.width, settings.height);
    let (four_cc, width, height) = (settings.format, settings.width, settings.height);
    let form = Form { four_cc, width, height, stride, largest, alternating: false };
    Promise { form, rate: settings.frame_rate }
}

impl Task for Video {
    fn columns(&self) -> Vec<Column> {
        self.reel.columns()
    }

    fn stream(&self) -> Option<Shape> {
        let Form { four_cc, width, height, stride, largest, .. } = self.promise.form;
        let rate = self.promise.rate.map_or(30.0, |(frames, seconds)| f64::from(frames) / f64::from(seconds));
        let format = Format::Image(ImageFormat { width, height, stride, four_cc });
        let largest_frame = usize::try_from(largest).unwrap_or(usize::MAX);
        Some(Shape { format, largest: largest_frame, bytes_per_second: f64::from(largest) * rate })
    }

    fn connect(&mut self, blocks: BlockSender) {
        self.reel.connect(blocks);
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let moment = Moment { n: tick.n, release: KernelClock::monotonic().now() - tick.lateness };
        let reel = &mut self.reel;
        let before = reel.frames();
        let taken = self.link.with("taking frames", |camera| {
            if mem::take(&mut camera.begins) {
                reel.begin(&mut camera.stream)?;
            }
            reel.take(&mut camera.stream, moment, values)
        });
        if taken.is_err() {
            // Whatever it was, a stream that failed once only goes on when it is started anew.
            self.link.lose();
            self.silence.end();
            return taken;
        }
        let came = self.reel.frames() > before;
        if self.silence.lasts(moment.release, came, self.patience) {
            return Err(SILENT);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    fn settings(device: &str, missing: Missing) -> VideoSettings {
        VideoSettings { device: device.into(), missing, ..VideoSettings::default() }
    }

    #[test]
    fn what_is_no_camera_is_refused_and_waited_for_if_asked() {
        let refused = Video::open(settings("/dev/null", Missing::Refuse), "eye").unwrap_err();
        assert_eq!(refused, BuildError { key: "device", message: "/dev/null is no video device".into() });
        let refused = Video::open(settings("/nonexistent", Missing::Refuse), "eye").unwrap_err().message;
        assert!(refused.starts_with("cannot open /nonexistent: No such file or directory (os error 2); "), "{refused}");

        let mut video = Video::open(settings("/nonexistent", Missing::Wait), "eye").unwrap();
        let (zero, at) = (Span::ZERO, Instant::ZERO);
        let tick = Tick {
            n: 0,
            release: at,
            started: at,
            lateness: zero,
            skipped: 0,
            credit: zero,
            period: Span::from_millis(33),
        };
        let mut values = [f64::NAN; 6];
        let gone = video.tick(&tick, &mut values).unwrap_err();
        assert_eq!(gone.to_string(), "the device is gone, and looked for");
        // What it will deliver is known all the same.
        let shape = video.stream().unwrap();
        let image = ImageFormat { width: 640, height: 480, stride: 1_280, four_cc: *b"YUYV" };
        assert_eq!((shape.format, shape.largest), (Format::Image(image), 614_400));
        assert_eq!(shape.bytes_per_second, 614_400.0 * 30.0);
    }
}
