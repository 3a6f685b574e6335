//! Opening a camera as its task wants it: found, set up, compared with what the driver granted, and streaming.
//!
//! Runs before the start, and off the hot thread whenever the device has been lost. May block and allocate.

use super::VideoSettings;
use super::offers::{cannot_open, find, formats, four_cc, of_device, rate_text, rates_text, sizes};
use crate::config::BuildError;
use crate::kinds::device::IN_USE;
use crate::sys::video::{Device, Form, Stream};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing::warn;

/// A camera that streams.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) stream: Stream,
    /// No tick has seen it yet.
    pub(super) begins: bool,
    _held: Held, // after the stream: given up when that is closed
}

/// What is known of a camera before its first tick, and has to stay so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) form: Form,
    /// Frames per second, as far as the driver tells.
    pub(super) rate: Option<(u32, u32)>,
}

/// Opens cameras for one task.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) settings: VideoSettings,
    /// In messages: "camera vivid of task eye".
    pub(super) what: String,
    /// What was warned of, so that it is not said again each time.
    pub(super) told: String,
}

impl Opener {
    /// Opens the camera and starts its stream, in the promised form if one has been promised; else this is it.
    pub(super) fn open(&mut self, promise: &OnceLock<Promise>) -> Result<Opened, BuildError> {
        let settings = &self.settings;
        let path = &find(&settings.device).map_err(|message| BuildError { key: "device", message })?;
        let refuse = |key, what: String| Err(BuildError { key, message: format!("{}: {what}", path.display()) });
        let device = open(path)?;
        let form = match device.set_form(settings.format, settings.width, settings.height) {
            Ok(form) => form,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let message = format!("{} {IN_USE}: it streams to another program or task", path.display());
                return Err(BuildError { key: "device", message });
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                return refuse("format", format!("{}; {}", no_format(settings), on_offer(&device, settings.format)));
            }
            Err(error) => return refuse("device", format!("setting the format: {error}")),
        };
        if form.four_cc != settings.format {
            return refuse("format", format!("{}; {}", no_format(settings), on_offer(&device, settings.format)));
        }
        let (width, height) = (form.width, form.height);
        if (width, height) != (settings.width, settings.height) {
            let asked = format!("no frames of {}x{}", settings.width, settings.height);
            let offer = on_offer(&device, settings.format);
            return refuse("size", format!("it has {asked}, but of {width}x{height}; {offer}"));
        }
        if form.alternating {
            return refuse("device", "it delivers the two fields of a frame apart, which is not supported".into());
        }
        if let Some(Promise { form: promised, .. }) = promise.get()
            && !fits(&form, promised)
        {
            let was = format!("{} bytes with {} to a row", promised.largest, promised.stride);
            let is = format!("{} with {}", form.largest, form.stride);
            return refuse("device", format!("its frames have {is}, where {was} were expected; restart hertzd"));
        }
        let rate = set_rate(&device, settings, &self.what, &mut self.told);
        let number = device.number().unwrap_or_default();
        let stream = match device.stream(settings.buffers, form) {
            Ok(stream) => stream,
            Err((what, error)) => return refuse("device", format!("{what}: {error}")),
        };
        if stream.buffers() < 2 {
            return refuse("buffers", "the driver has a single buffer to give, and two are needed".into());
        }
        promise.get_or_init(|| Promise { form, rate });
        Ok(Opened { stream, begins: true, _held: Held::new(number) })
    }

    /// What [`open`](Self::open) would promise, if the device streams to a task of this process now: to one that this
    /// one is about to replace, after which it can be opened.
    pub(super) fn promise_of_held(&self) -> Option<Promise> {
        let settings = &self.settings;
        let device = open(&find(&settings.device).ok()?).ok()?;
        let number = device.number().ok()?;
        if !held().contains(&number) {
            return None;
        }
        let form = device.try_form(settings.format, settings.width, settings.height).ok()?;
        // A driver answers with what is nearest to what it was asked for.
        let wanted = (settings.format, settings.width, settings.height);
        if (form.four_cc, form.width, form.height) != wanted {
            return None;
        }
        Some(Promise { form, rate: device.rate().ok().flatten() })
    }
}

fn open(path: &Path) -> Result<Device, BuildError> {
    let refuse = |message| Err(BuildError { key: "device", message });
    let device = match Device::open(path) {
        Ok(device) => device,
        Err(error) => return refuse(cannot_open(path, &error)),
    };
    match device.capability() {
        Ok(capability) if capability.captures => Ok(device),
        Ok(capability) if capability.multi_planar => {
            refuse(format!("{} has planes that lie apart, which is not supported", path.display()))
        }
        Ok(_) => refuse(format!("{} does not capture video", path.display())),
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            refuse(format!("{} is no video device", path.display()))
        }
        Err(error) => refuse(cannot_open(path, &error)),
    }
}

/// Whether frames of this form are what was promised of them: with the same rows, where anything was known of those, and
/// no larger than there is room for, where the driver said how large they get.
fn fits(form: &Form, promised: &Form) -> bool {
    let rows = promised.stride == 0 || form.stride == promised.stride;
    rows && (promised.largest == 0 || form.largest <= promised.largest)
}

fn no_format(settings: &VideoSettings) -> String {
    format!("it has no format {:?}", four_cc(settings.format))
}

/// What a device has to offer beside what was asked for.
fn on_offer(device: &Device, format: [u8; 4]) -> String {
    let offers = match of_device(device) {
        Ok(offers) => offers,
        Err(error) => return format!("what it has cannot be asked: {error}"),
    };
    match offers.iter().any(|offer| offer.format == format) {
        true => format!("{:?} is on offer in {}", four_cc(format), sizes(&offers, format)),
        false if offers.is_empty() => "it does not tell what it has".into(),
        false => format!("on offer are {}", formats(&offers)),
    }
}

/// Asks for the rate, if one is wanted, and warns where another is granted. Returns what the driver says it is.
fn set_rate(device: &Device, settings: &VideoSettings, what: &str, told: &mut String) -> Option<(u32, u32)> {
    let Some(wanted) = settings.frame_rate else {
        return device.rate().ok().flatten();
    };
    let granted = device.set_rate(wanted);
    let warning = match &granted {
        Ok(Some(rate)) if is_near(wanted, *rate) => String::new(),
        Ok(Some(rate)) => format!("{} granted", rate_text(*rate)),
        Ok(None) => "the driver has no say in it".into(),
        Err(error) => format!("refused: {error}"),
    };
    if !warning.is_empty() && *told != warning {
        let rates = device.rates(settings.format, (settings.width, settings.height)).unwrap_or_default();
        let offer = if rates.is_empty() { String::new() } else { format!("; on offer: {}", rates_text(&rates)) };
        warn!("{what}: {} frames per second asked for, {warning}{offer}", rate_text(wanted));
    }
    *told = warning;
    granted.ok().flatten()
}

/// Equal to one part in 10,000: cameras round intervals to 100 ns, and 30 is not 30000/1001.
fn is_near((frames, seconds): (u32, u32), (other_frames, other_seconds): (u32, u32)) -> bool {
    let (one, other) = (u64::from(frames) * u64::from(other_seconds), u64::from(other_frames) * u64::from(seconds));
    one.abs_diff(other) <= one / 10_000
}

/// The devices that tasks of this process hold.
static HELD: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn held() -> std::sync::MutexGuard<'static, Vec<u64>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That a task of this process holds a device.
#[derive(Debug)]
struct Held(u64);

impl Held {
    fn new(number: u64) -> Self {
        held().push(number);
        Self(number)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = held();
        if let Some(place) = held.iter().position(|number| *number == self.0) {
            held.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_only_differ_by_rounding_are_near() {
        assert!(is_near((30, 1), (10_000_000, 333_333)));
        assert!(is_near((30_000, 1_001), (10_000_000, 333_667)));
        assert!(is_near((u32::MAX, 1), (u32::MAX, 1)));
        assert!(!is_near((30_000, 1_001), (30, 1)));
        assert!(!is_near((30, 1), (25, 1)));
        assert!(!is_near((1, u32::MAX), (u32::MAX, 1)));
    }

    #[test]
    fn frames_fit_what_was_promised_of_them() {
        let form =
            |stride, largest| Form { four_cc: *b"MJPG", width: 640, height: 480, stride, largest, alternating: false };
        let guessed = form(0, 4_000_000);
        for camera in [form(0, 614_400), form(0, 4_000_000), form(1_280, 614_989)] {
            assert!(fits(&camera, &guessed), "{camera:?}");
        }
        assert!(!fits(&form(0, 4_000_001), &guessed));
        let known = form(1_280, 614_400);
        assert!(fits(&known, &known) && fits(&form(1_280, 600_000), &known));
        assert!(!fits(&form(1_344, 614_400), &known) && !fits(&form(0, 614_400), &known));
    }

    #[test]
    fn what_is_held_is_known_until_it_is_closed() {
        let (one, other) = (Held::new(u64::MAX), Held::new(u64::MAX));
        drop(one);
        assert!(held().contains(&u64::MAX));
        drop(other);
        assert!(!held().contains(&u64::MAX));
    }
}
