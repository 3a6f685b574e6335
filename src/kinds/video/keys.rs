//! The keys of the kind `video`, and how a section becomes a task. Opens no device.

use super::luma::layout;
use super::settings::{FrameChoice, VideoSettings};
use super::{FrameReader, Video, look};
use crate::config::{Blueprint, Key, Kind, Section, Value, words};
use crate::kinds::device::{FIRST_VALUE, Missing};
use crate::site::Site;
use crate::sys::video::MOST_BUFFERS;
use crate::time::Span;

const CHOICES: [(&str, FrameChoice); 2] = [("every", FrameChoice::Every), ("latest", FrameChoice::Latest)];

const DEVICE: Key = Key::new(
    "device",
    Value::Name,
    "The camera: its path from the root (`\"/dev/video0\"`, or one below `/dev/v4l/by-id`, which stays the same when \
     numbers change), or a part of its name that only one camera has, in upper or lower case.",
)
.required("name the camera, such as \"/dev/video0\" or a part of its name");
const FORMAT: Key = Key::new(
    "format",
    Value::Format { like: "FOURCC", pattern: "^[!-~]{1,4}$" },
    "How a frame is stored: V4L2's four characters, such as `\"YUYV\"` or `\"MJPG\"`. If the camera does not support it, \
     the start is refused with the formats that it offers.",
)
.default("\"YUYV\"");
const SIZE: Key = Key::new(
    "size",
    Value::Format { like: "WIDTHxHEIGHT", pattern: concat!("^0*", side!(), "x0*", side!(), "$") },
    "Width and height of a frame in pixels, each 1 to 65536. If the camera does not support it, the start is refused with \
     the sizes that it offers. With `missing = \"wait\"` a frame may have 128 MiB at most.",
)
.default("\"640x480\"");
const FRAME_RATE: Key = Key::new(
    "frame-rate",
    Value::Rate,
    "Frames per second to ask the camera for. A warning says when it grants a rate more than 0.01 % away, and what it \
     offers. A camera has its own clock: it does not keep step with `rate`.",
)
.otherwise("as the camera is set");
const FRAMES: Key = Key::new(
    "frames",
    Value::Choice(&words(&CHOICES)),
    "Which frames a tick takes: all that are ready, in order; or the newest, with those before it returned unseen and \
     counted in `passed-over`.",
)
.default("\"every\"");
const BUFFERS: Key = Key::new(
    "buffers",
    Value::Integer { min: 2, max: MOST_BUFFERS as i64 },
    "How many frames the camera can have ready before it drops some. More are needed the longer a tick may be late, and \
     where several frames come in a period. The driver may grant another number.",
)
.default("4");

const KEYS: &[Key] = &[DEVICE, FORMAT, SIZE, FRAME_RATE, FRAMES, BUFFERS, Missing::KEY];

/// 1 to 65536 as a regular expression.
macro_rules! side {
    () => {
        "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-6])"
    };
}
use serde_json::json;
use side;

/// The most bytes per frame of a camera that is not present yet: enough for 7680x4320 in any format.
const LARGEST_EXPECTED: u32 = 128 << 20;

/// The most common formats, for suggestions.
const KNOWN: &[&str] = &[
    "YUYV", "YVYU", "UYVY", "VYUY", "GREY", "NV12", "NV21", "NV16", "YU12", "YV12", "RGB3", "BGR3", "MJPG", "JPEG",
    "H264",
];

/// The kind.
pub(in crate::kinds) fn kind() -> Kind {
    let either_case =
        |known: &&str| known.chars().map(|c| format!("[{c}{}]", c.to_ascii_lowercase())).collect::<String>();
    let known: Vec<String> = KNOWN.iter().chain(&["MJPEG"]).map(either_case).collect();
    Kind::new("video", "Takes frames from a camera, without waiting for them.", KEYS, parse).also(
        json!({"properties": {
            "format": {"anyOf": [{"enum": KNOWN}, {"not": {"pattern": format!("^({})$", known.join("|"))}}]},
        }}),
    )
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let device = section.text(&DEVICE);
    let format = section.text(&FORMAT).and_then(|text| match four_cc(&text) {
        Ok(format) => Some(format),
        Err(near) => {
            let wanted = "must be V4L2's four characters, such as \"YUYV\" or \"MJPG\"";
            match near {
                Some(near) => section.problem_with_help(&FORMAT, wanted, format!("did you mean \"{near}\"?")),
                None => section.problem(&FORMAT, wanted),
            }
            None
        }
    });
    let size = section.text(&SIZE).and_then(|text| {
        let size = size(&text);
        if size.is_none() {
            section.problem(&SIZE, "must be width and height in pixels, such as \"640x480\", each from 1 to 65536");
        }
        size
    });
    let frame_rate = section.rate(&FRAME_RATE).and_then(|rate| {
        let both = u32::try_from(rate.num()).ok().zip(u32::try_from(rate.den()).ok());
        if both.is_none() {
            section.problem(&FRAME_RATE, "must be a fraction of numbers below 4294967296");
        }
        both
    });
    let take = section.choice(&FRAMES, &CHOICES);
    let buffers = section.integer(&BUFFERS);
    let missing = Missing::of(section);
    let (width, height) = size?;
    let period = section.period()?;
    // A camera that is present refuses sizes it does not have. For an absent camera, memory is allocated in advance.
    if missing == Missing::Wait && format.is_some_and(|format| layout(format, width, height).1 > LARGEST_EXPECTED) {
        section.problem(
            &SIZE,
            "must be a frame of at most 128 MiB with missing = \"wait\"; the camera may not be there to refuse it",
        );
    }
    let settings = VideoSettings {
        device: device?,
        format: format?,
        width,
        height,
        frame_rate,
        take: take?,
        buffers: buffers?,
        missing,
        period,
    };
    let task = section.name().trim_start_matches("task.").to_owned();
    let (looked, of) = (settings.clone(), task.clone());
    let columns = FrameReader::new(settings.take, None).columns();
    let build = move |site: &mut Site| Ok(Video::open(site, settings, &task)?.into());
    // A frame is captured for an interval, and on its way for another one; the tick comes within a period.
    let interval = frame_rate
        .map_or(period, |(frames, seconds)| Span::from_wide(i128::from(seconds) * 1_000_000_000 / i128::from(frames)));
    let blueprint = Blueprint::new(build).looking(move |site| look(site, looked, &of)).with_columns(columns);
    Some(blueprint.holding(period + interval + interval).first_value_within(FIRST_VALUE))
}

/// V4L2's code for a format, padded with spaces. The error is the format that was probably meant.
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
