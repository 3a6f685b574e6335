//! Opens a camera for its task: finds it, sets it up, compares the result with the settings, and starts the stream.
//!
//! Runs before the start, and on a cool thread after the device has been lost. May block and allocate.

use super::modes::{cannot_open, find, formats, four_cc, nodes, of_device, rate_text, rates_text, sizes};
use super::settings::VideoSettings;
use crate::kinds::device::{Sight, hidden};
use crate::site::{DeviceId, Label, OpenDevice, Refusal};
use crate::sys::video::{CaptureStream, Device, FrameSource, PixelFormat};
use std::io;
use std::path::Path;
use tracing::warn;

/// A streaming camera.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) stream: CaptureStream,
    pub(super) begins: bool,  // no tick has used it yet
    rate: Option<(u32, u32)>, // frames per second, if the driver reports them
    id: Option<DeviceId>,
}

impl OpenDevice for Opened {
    fn exclusive(&self) -> Vec<DeviceId> {
        self.id.iter().cloned().collect()
    }
}

impl Opened {
    pub(super) fn expected(&self) -> Expected {
        Expected { format: *self.stream.format(), rate: self.rate }
    }
}

/// What is known of a camera before its first tick, and must stay the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) format: PixelFormat,
    pub(super) rate: Option<(u32, u32)>, // frames per second, if the driver reports them
}

/// Opens cameras for one task.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) settings: VideoSettings,
    pub(super) label: Label,
    pub(super) warned: String, // the last warning about the frame rate, so that it is not repeated each time
    pub(super) rate_compared: bool, // whether its rate was compared with the task's; done once
}

impl Opener {
    /// Opens the camera and starts its stream. Its frames must be as `expected`, if that is given.
    pub(super) fn open(&mut self, expected: Option<&Expected>) -> Result<Opened, Refusal> {
        let settings = &self.settings;
        let path = &find(&settings.device).map_err(|message| Refusal::new("device", message))?;
        let device = open(path)?;
        let id = device.metadata().ok().as_ref().map(DeviceId::of);
        let at = |key, what: String| Refusal::new(key, format!("{}: {what}", path.display()));
        let failed = |what: &str, error: &io::Error| match (error.raw_os_error(), &id) {
            (Some(libc::EBUSY), Some(id)) => Refusal::in_use("device", path.display(), [id.clone()]),
            _ => at("device", format!("{what}: {error}")),
        };
        let format = match device.set_format(settings.format, settings.width, settings.height) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                return Err(failed("setting the format", &error));
            }
            granted => self.fitting(path, &device, granted)?,
        };
        if let Some(Expected { format: expected, .. }) = expected
            && !fits(&format, expected)
        {
            let was = format!("{} bytes with {} to a row", expected.largest, expected.stride);
            let is = format!("{} with {}", format.largest, format.stride);
            return Err(at("device", format!("its frames have {is}, where {was} were expected; restart hertzd")));
        }
        let rate = set_rate(&device, settings, &self.label, &mut self.warned);
        let stream = device.stream(settings.buffers, format).map_err(|(what, error)| failed(what, &error))?;
        if stream.buffers() < 2 {
            return Err(at("buffers", "the driver has a single buffer to give, and two are needed".into()));
        }
        if let Some(rate) = rate.filter(|_| !std::mem::replace(&mut self.rate_compared, true))
            && let Some(consequence) = settings.rate_mismatch(rate)
        {
            let (camera, task) = (rate_text(rate), (1e3 / settings.period.seconds()).round() / 1e3);
            warn!(
                "{}: the camera delivers {camera} frames per second, the task runs at {task} Hz; {consequence}",
                self.label
            );
        }
        Ok(Opened { stream, begins: true, rate, id })
    }

    /// What [`open`](Self::open) would find. The camera's settings are not changed.
    pub(super) fn look(&self) -> Result<(Sight, Option<Expected>), Refusal> {
        let expected = match self.preview() {
            Ok(expected) => expected,
            Err(refusal) => {
                let hidden = nodes(&self.settings.device).iter().find_map(|node| hidden(node, true));
                return hidden.map(|hidden| (hidden, None)).ok_or(refusal);
            }
        };
        let path = find(&self.settings.device).map_err(|message| Refusal::new("device", message))?;
        let device = path.metadata().iter().map(DeviceId::of).collect();
        let unknown = format!("whether {} is free, and streams with these settings", path.display());
        Ok((Sight::of("device", device).unknown(unknown), Some(expected)))
    }

    /// What to expect of a camera that currently streams to another task. Changes nothing.
    pub(super) fn preview(&self) -> Result<Expected, Refusal> {
        let settings = &self.settings;
        let path = find(&settings.device).map_err(|message| Refusal::new("device", message))?;
        let device = open(&path)?;
        let granted = device.try_format(settings.format, settings.width, settings.height);
        Ok(Expected { format: self.fitting(&path, &device, granted)?, rate: device.rate().ok().flatten() })
    }

    /// The granted format, if it is the requested one. The error names the key at fault and what the camera has.
    fn fitting(&self, path: &Path, device: &Device, granted: io::Result<PixelFormat>) -> Result<PixelFormat, Refusal> {
        let VideoSettings { format, width, height, .. } = self.settings;
        let has = || modes_text(device, format);
        let (key, what) = match granted {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                ("device", format!("asking for the format: {error}"))
            }
            Ok(granted) if granted.four_cc == format && (granted.width, granted.height) == (width, height) => {
                if !granted.alternating {
                    return Ok(granted);
                }
                ("device", "it delivers the two fields of a frame apart, which is not supported".into())
            }
            Ok(granted) if granted.four_cc == format => {
                let near = format!("the nearest is {}x{}", granted.width, granted.height);
                ("size", format!("it has no frames of {width}x{height}; {near}; {}", has()))
            }
            _ => ("format", format!("it has no format {:?}; {}", four_cc(format), has())),
        };
        Err(Refusal::new(key, format!("{}: {what}", path.display())))
    }
}

fn open(path: &Path) -> Result<Device, Refusal> {
    let shown = path.display();
    let message = match Device::open(path).and_then(|device| Ok((device.capability()?, device))) {
        Ok((capability, device)) if capability.captures => return Ok(device),
        Ok((capability, _)) if capability.multi_planar => {
            format!("{shown} has planes that lie apart, which is not supported")
        }
        Ok(_) => format!("{shown} does not capture video"),
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => format!("{shown} is no video device"),
        Err(error) => cannot_open(path, &error),
    };
    Err(Refusal::new("device", message))
}

/// Whether frames of this format are as expected: with the same stride, if it was known, and no larger than the reserved room, if the size
/// was known.
fn fits(format: &PixelFormat, expected: &PixelFormat) -> bool {
    let rows = expected.stride == 0 || format.stride == expected.stride;
    rows && (expected.largest == 0 || format.largest <= expected.largest)
}

/// Describes the modes that a camera offers instead.
fn modes_text(device: &Device, format: [u8; 4]) -> String {
    let modes = match of_device(device) {
        Ok(modes) => modes,
        Err(error) => return format!("it cannot list what it has: {error}"),
    };
    match modes.iter().any(|mode| mode.format == format) {
        true => format!("it has {:?} in {}", four_cc(format), sizes(&modes, format)),
        false if modes.is_empty() => "it does not list its formats".into(),
        false => format!("it has {}", formats(&modes)),
    }
}

/// Requests the rate, if one is wanted, and warns if another is granted. Returns the rate, if the driver reports it.
fn set_rate(device: &Device, settings: &VideoSettings, label: &Label, warned: &mut String) -> Option<(u32, u32)> {
    let Some(wanted) = settings.frame_rate else {
        return device.rate().ok().flatten();
    };
    let granted = device.set_rate(wanted);
    let warning = match &granted {
        Ok(Some(rate)) if is_near(wanted, *rate) => String::new(),
        Ok(Some(rate)) => format!("the driver granted {}", rate_text(*rate)),
        Ok(None) => "the driver cannot set a rate".into(),
        Err(error) => format!("the driver refused: {error}"),
    };
    if !warning.is_empty() && *warned != warning {
        let rates = device.rates(settings.format, (settings.width, settings.height)).unwrap_or_default();
        let has = if rates.is_empty() { String::new() } else { format!("; it has {}", rates_text(&rates)) };
        warn!("{label}: {} frames per second requested, {warning}{has}", rate_text(wanted));
    }
    *warned = warning;
    granted.ok().flatten()
}

/// Equal to one part in 10,000: cameras round intervals to 100 ns, and 30 is not 30000/1001.
fn is_near((frames, seconds): (u32, u32), (other_frames, other_seconds): (u32, u32)) -> bool {
    let (one, other) = (u64::from(frames) * u64::from(other_seconds), u64::from(other_frames) * u64::from(seconds));
    one.abs_diff(other) <= one / 10_000
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
    fn frames_fit_what_was_expected() {
        let format = |stride, largest| PixelFormat {
            four_cc: *b"MJPG",
            width: 640,
            height: 480,
            stride,
            largest,
            alternating: false,
        };
        let guessed = format(0, 4_000_000);
        for camera in [format(0, 614_400), format(0, 4_000_000), format(1_280, 614_989)] {
            assert!(fits(&camera, &guessed), "{camera:?}");
        }
        assert!(!fits(&format(0, 4_000_001), &guessed));
        let known = format(1_280, 614_400);
        assert!(fits(&known, &known) && fits(&format(1_280, 600_000), &known));
        assert!(!fits(&format(1_344, 614_400), &known) && !fits(&format(0, 614_400), &known));
    }
}
