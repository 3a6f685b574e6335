//! The settings of a task of the kind `video`. Plain data.

use crate::kinds::device::Missing;
use crate::time::Span;

/// Which frames a tick takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FrameChoice {
    /// All frames that are ready, in order.
    #[default]
    Every,
    /// The newest frame; earlier ones are returned at once.
    Latest,
}

/// The camera, and the requested form of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VideoSettings {
    /// The absolute path, or a part of the name that only one camera has, in upper or lower case.
    pub device: String,
    pub format: [u8; 4], // V4L2's four characters, padded with spaces
    pub width: u32,      // in pixels
    pub height: u32,     // in pixels
    /// Frames per second to request, as a fraction without zeros; `None`: leave the camera's setting.
    pub frame_rate: Option<(u32, u32)>,
    pub take: FrameChoice, // which frames a tick takes
    pub buffers: u32,      // number of buffers to request, 2 to 32
    pub missing: Missing,  // what to do if the camera is missing at the start
    pub period: Span,      // the task's; above zero
}

impl VideoSettings {
    /// The consequence for the task if the camera delivers this many frames per second; `None` if that equals the task's rate.
    pub(super) fn rate_mismatch(&self, (frames, seconds): (u32, u32)) -> Option<String> {
        let per_tick = f64::from(frames) / f64::from(seconds) * self.period.seconds();
        if (per_tick - 1.0).abs() <= 1e-4 {
            return None;
        }
        let most = per_tick.ceil();
        let held = f64::from(self.buffers) - 1.0;
        Some(match self.take {
            _ if per_tick < 1.0 => format!("{:.1} % of the ticks find no new frame", (1.0 - per_tick) * 100.0),
            FrameChoice::Latest => format!("{:.1} % of the frames are skipped", (1.0 - 1.0 / per_tick) * 100.0),
            FrameChoice::Every if most > held => {
                format!("a tick finds up to {most} frames, but the buffers hold {held}: frames are lost; raise buffers")
            }
            FrameChoice::Every => format!("a tick takes up to {most} frames"),
        })
    }
}

/// Every frame of 640x480 in YUYV, with four buffers. The device is not given.
impl Default for VideoSettings {
    fn default() -> Self {
        Self {
            device: String::new(),
            format: *b"YUYV",
            width: 640,
            height: 480,
            frame_rate: None,
            take: FrameChoice::Every,
            buffers: 4,
            missing: Missing::Refuse,
            period: Span::from_nanos(33_333_333),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_rate_than_the_tasks_has_consequences() {
        let said = |hertz: i64, take, camera| {
            let period = Span::from_nanos(1_000_000_000 / hertz);
            VideoSettings { period, take, ..VideoSettings::default() }.rate_mismatch(camera)
        };
        let (every, latest) = (FrameChoice::Every, FrameChoice::Latest);
        assert_eq!(said(30, every, (30, 1)), None);
        assert_eq!(said(30, latest, (10_000_000, 333_333)), None, "rounded by the driver");
        assert_eq!(said(60, every, (30, 1)).unwrap(), "50.0 % of the ticks find no new frame");
        assert_eq!(said(10, latest, (30, 1)).unwrap(), "66.7 % of the frames are skipped");
        assert_eq!(said(20, every, (30, 1)).unwrap(), "a tick takes up to 2 frames");
        let lost = "a tick finds up to 6 frames, but the buffers hold 3: frames are lost; raise buffers";
        assert_eq!(said(5, every, (30, 1)).unwrap(), lost);
        assert!(said(30, every, (30_000, 1_001)).unwrap().contains("0.1 % of the ticks"));
    }
}
