//! The keys of the kind `audio`, and what they mean. No device is opened here, and no clock is read.

use super::Audio;
use crate::channels::{AudioFormat, SampleFormat};
use crate::config::{Blueprint, Kind};
use crate::config::{Key, Section, Value};
use crate::kinds::device::{Label, Missing};
use crate::task::Task;
use crate::time::{NANOS_PER_SECOND, Span};

pub(super) const FORMATS: &[(&str, SampleFormat)] =
    &[("s16", SampleFormat::S16), ("s24", SampleFormat::S24), ("s32", SampleFormat::S32), ("f32", SampleFormat::F32)];

/// Periods of the task that the device's buffer has to hold at least: less, and one late tick costs sound.
const LEAST_PERIODS: i64 = 4;

/// The buffer asked for where nothing is said, unless the task's rate needs more.
const USUAL_BUFFER: Span = Span::from_millis(200);

const LONGEST_BUFFER: Span = Span::from_seconds(10);

/// In bytes. Devices have less; and several times as much is locked in memory for a recording.
const LARGEST_BUFFER: u64 = 16_000_000;

const KEYS: &[Key] = &[
    Key {
        name: "device",
        value: Value::Text,
        default: "",
        about: "The ALSA PCM to capture from: \"hw:0,1\", \"hw:CARD=Device\", \"plughw:0\", \"default\". Required.",
    },
    Key {
        name: "sample-rate",
        value: Value::Rate,
        default: "48000",
        about: "Frames per second: a whole number of hertz, 48000 or \"48 kHz\".",
    },
    Key { name: "channels", value: Value::Integer { min: 1, max: 64 }, default: "2", about: "Channels in a frame." },
    Key {
        name: "sample-format",
        value: Value::Choice(&["s16", "s24", "s32", "f32"]),
        default: "\"s16\"",
        about: "One channel's sample: integers of 16, 24 or 32 bits, or floating point.",
    },
    Key {
        name: "buffer",
        value: Value::Duration,
        default: "\"200ms\", or eight periods of the task if that is more",
        about: "How much the device is to hold for a late tick: four periods of the task at least, 10 s and 16 MB at most. The \
                device may give another length near it.",
    },
    Missing::KEY,
];

/// Which device, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AudioSettings {
    pub(super) device: String,
    pub(super) format: AudioFormat,
    pub(super) buffer: Span,       // asked for
    pub(super) least_buffer: Span, // below which the device is refused
    pub(super) period: Span,       // the task's
    pub(super) missing: Missing,
}

impl AudioSettings {
    /// Bytes of one frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.format.sample.bytes() * usize::from(self.format.channels)
    }

    /// How many frames come in this time.
    pub(super) fn buffer_frames(&self, span: Span) -> u64 {
        let frames = i128::from(span.nanos()) * i128::from(self.format.rate) / i128::from(NANOS_PER_SECOND);
        u64::try_from(frames).unwrap_or(0)
    }

    /// The most frames that one tick takes: twice what was asked for, since the device may give more.
    pub(super) fn largest_take(&self) -> usize {
        usize::try_from(2 * self.buffer_frames(self.buffer)).unwrap_or(usize::MAX).max(64)
    }
}

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("audio", "Captures sound from an ALSA device: each tick takes what the device has.", KEYS, parse)
}

#[expect(clippy::cast_precision_loss, reason = "a number of bytes for people, in MB")]
fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    section.require("device", "the ALSA device to capture from, such as \"hw:0\"; `arecord -l` lists the sound cards");
    let device = section.text("device");
    if device.as_deref().is_some_and(|name| name.is_empty() || name.contains('\0')) {
        section.problem("device", "must be the name of an ALSA device, such as \"hw:0\"");
    }
    let rate = section.hertz("sample-rate");
    let channels = section.integer("channels", 1..=64).and_then(|channels| u16::try_from(channels).ok());
    let sample = section.choice("sample-format", FORMATS);
    let missing = Missing::of(section);
    let asked = section.duration("buffer");
    let period = section.period()?;
    let periods = |count: i64| Span::from_nanos(period.nanos().saturating_mul(count));
    let least = periods(LEAST_PERIODS);
    if asked.is_some_and(|asked| asked < least) {
        let ms = least.seconds() * 1e3;
        let help = format!("four periods of the task are {ms} ms");
        section.problem_with_help(
            "buffer",
            "must hold four periods of the task, or a late tick costs sound",
            Some(help),
        );
    }
    if asked.is_some_and(|asked| asked > LONGEST_BUFFER) {
        section.problem("buffer", "must be at most 10s");
    }
    if least > LONGEST_BUFFER {
        let key = if section.has("rate") { "rate" } else { "period" };
        section.problem(
            key,
            "must be at least a tick in 2.5 s: the device has to hold four periods, and holds at most 10 s",
        );
    }
    let settings = AudioSettings {
        device: device?,
        format: AudioFormat {
            rate: rate.unwrap_or(48_000),
            channels: channels.unwrap_or(2),
            sample: sample.unwrap_or(SampleFormat::S16),
        },
        buffer: asked.unwrap_or_else(|| periods(2 * LEAST_PERIODS).max(USUAL_BUFFER).min(LONGEST_BUFFER)),
        least_buffer: least,
        period,
        missing,
    };
    let held = settings.buffer_frames(settings.buffer).saturating_mul(settings.frame_bytes() as u64);
    if held > LARGEST_BUFFER {
        let help = format!("of this sound it would be {:.1} MB", held as f64 / 1e6);
        section.problem_with_help("buffer", "must be at most 16 MB", Some(help));
    }
    let label = Label::new(format!("audio device {}", settings.device), section.place());
    Some(Blueprint::new(move || Ok(Box::new(Audio::open(label, settings)?) as Box<dyn Task>)))
}
