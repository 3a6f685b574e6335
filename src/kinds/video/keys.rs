//! The keys of the kind `video`, and how a section becomes a task. Opens no device.

use super::Video;
use super::settings::{Take, VideoSettings};
use crate::config::{Blueprint, Kind};
use crate::config::{Key, Section, Value};
use crate::kinds::device::Missing;
use crate::sys::video::MOST_BUFFERS;
use crate::task::Task;

const KEYS: &[Key] = &[
    Key {
        name: "device",
        value: Value::Text,
        default: "",
        about: "The camera: its path (\"/dev/video0\", or one below /dev/v4l/by-id), or a part of its name that only \
                one camera has. Required.",
    },
    Key {
        name: "format",
        value: Value::Text,
        default: "\"YUYV\"",
        about: "How a frame is stored, by V4L2's four characters. The start is refused where the camera has no such \
                format, with those that it has.",
    },
    Key {
        name: "size",
        value: Value::Text,
        default: "\"640x480\"",
        about: "Width and height of a frame in pixels. The start is refused where the camera has no such size, with \
                those that it has.",
    },
    Key {
        name: "frame-rate",
        value: Value::Rate,
        default: "as the camera is set",
        about: "Frames per second that the camera is asked for. A warning says when it grants another rate. It goes by \
                its own clock, so it does not keep step with `rate`.",
    },
    Key {
        name: "frames",
        value: Value::Choice(&["every", "latest"]),
        default: "\"every\"",
        about: "Which frames a tick takes: all that are ready, or the newest, with those before it handed back unseen.",
    },
    Key {
        name: "buffers",
        value: Value::Integer { min: *BUFFERS.start(), max: *BUFFERS.end() },
        default: "4",
        about: "Frames that the camera can have ready before it drops some. More are needed the longer a tick may be \
                late, and where several frames come in a period.",
    },
    Missing::KEY,
];

const BUFFERS: std::ops::RangeInclusive<i64> = 2..=MOST_BUFFERS as i64;

/// Formats that are met most often, for suggestions.
const KNOWN: &[&str] = &[
    "YUYV", "YVYU", "UYVY", "VYUY", "GREY", "NV12", "NV21", "NV16", "YU12", "YV12", "RGB3", "BGR3", "MJPG", "JPEG",
    "H264",
];

/// The kind.
pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("video", "Takes frames from a camera, without waiting for them.", KEYS, parse)
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    section.require("device", "the camera, such as \"/dev/video0\" or a part of its name");
    let device = section.text("device");
    if device.as_deref().is_some_and(|device| device.trim().is_empty() || device.contains('\0')) {
        section.problem("device", "must be the path of a camera, or a part of its name");
    }
    let format = section.text("format").and_then(|text| match four_cc(&text) {
        Ok(format) => Some(format),
        Err(near) => {
            let help = near.map(|near| format!("did you mean \"{near}\"?"));
            section.problem_with_help("format", "must be V4L2's four characters, such as \"YUYV\" or \"MJPG\"", help);
            None
        }
    });
    let size = section.text("size").and_then(|text| {
        let size = size(&text);
        if size.is_none() {
            section.problem("size", "must be width and height in pixels, such as \"640x480\", each from 1 to 65536");
        }
        size
    });
    let frame_rate = section.rate("frame-rate").and_then(|rate| {
        let both = u32::try_from(rate.num()).ok().zip(u32::try_from(rate.den()).ok());
        if both.is_none() {
            section.problem("frame-rate", "must be a fraction of numbers below 4294967296");
        }
        both
    });
    let take = section.choice("frames", &[("every", Take::Every), ("latest", Take::Latest)]);
    let buffers = section.integer("buffers", BUFFERS).and_then(|buffers| u32::try_from(buffers).ok());
    let missing = Missing::of(section);
    let default = VideoSettings::default();
    let (width, height) = size.unwrap_or((default.width, default.height));
    let settings = VideoSettings {
        device: device?,
        format: format.unwrap_or(default.format),
        width,
        height,
        frame_rate,
        take: take.unwrap_or(default.take),
        buffers: buffers.unwrap_or(default.buffers),
        missing,
    };
    let task = section.place().trim_start_matches("task.").to_owned();
    Some(Blueprint::new(move || Ok(Box::new(Video::open(settings, &task)?) as Box<dyn Task>)))
}

/// V4L2's code for a format, filled up with spaces; else what was probably meant.
fn four_cc(text: &str) -> Result<[u8; 4], Option<&'static str>> {
    let upper = text.to_ascii_uppercase();
    let near = || KNOWN.iter().copied().find(|known| *known == upper || upper == "MJPEG" && *known == "MJPG");
    if let Some(known) = near()
        && known != text
    {
        return Err(Some(known));
    }
    let mut code = [b' '; 4];
    let graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !graphic || text.is_empty() || text.len() > code.len() {
        return Err(None);
    }
    code[..text.len()].copy_from_slice(text.as_bytes());
    Ok(code)
}

/// Width and height.
fn size(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && (1..=65_536).contains(number))
    };
    number(width).zip(number(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        assert_eq!(four_cc("YUYV"), Ok(*b"YUYV"));
        assert_eq!(four_cc("Y8"), Ok(*b"Y8  "));
        assert_eq!(four_cc("pRAA"), Ok(*b"pRAA"));
        assert_eq!(four_cc("yuyv"), Err(Some("YUYV")));
        assert_eq!(four_cc("mjpeg"), Err(Some("MJPG")));
        for wrong in ["", "YUYV2", "Y 8", "Bäh", "\0\0\0\0"] {
            assert_eq!(four_cc(wrong), Err(None), "{wrong:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("640x480"), Some((640, 480)));
        assert_eq!(size("1x65536"), Some((1, 65_536)));
        for wrong in ["", "640", "640x", "x480", "0x480", "640x65537", "640X480", "+640x480", "640 x 480", "1x2x3"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
