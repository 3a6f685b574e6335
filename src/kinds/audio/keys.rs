//! The keys of the kind `audio`, and their meaning. No device is opened here, and no clock is read.

use super::settings::{AudioSettings, FORMATS};
use super::{Audio, columns};
use crate::channels::AudioFormat;
use crate::config::{Blueprint, Key, Kind, Section, Value, words};
use crate::kinds::device::{FIRST_VALUE, Missing};
use crate::site::{Label, Site};
use crate::time::Span;

/// Task periods that the device's buffer must hold at least: with fewer, one late tick loses sound.
const LEAST_PERIODS: i64 = 4;

/// The default buffer to request, unless the task's rate needs a longer one.
const USUAL_BUFFER: Span = Span::from_millis(200);

const LONGEST_BUFFER: Span = Span::from_seconds(10);

/// Bytes. Real devices have less; and a recording locks several times as much memory.
const LARGEST_BUFFER: u64 = 16_000_000;

const DEVICE: Key = Key::new(
    "device",
    Value::Name,
    "The ALSA device (PCM) to capture from: `\"hw:0,1\"` (card 0, device 1), `\"hw:CARD=Device\"` (by the card's name, \
     which stays the same when another card is plugged in), `\"plughw:0\"` (with ALSA's conversions), `\"default\"`, or \
     one of an `asound.conf`. `arecord -l` lists the sound cards, `arecord -L` the names.",
)
.required("name the ALSA device to capture from, such as \"hw:0\"; `arecord -l` lists the sound cards");
const SAMPLE_RATE: Key = Key::new(
    "sample-rate",
    Value::Hertz,
    "Frames per second: `48000` or `\"48 kHz\"`. If the device does not support it, the start is refused with what it \
     offers; the same goes for `channels` and `sample-format`.",
)
.default("48000");
const CHANNELS: Key = Key::new("channels", Value::Integer { min: 1, max: 64 }, "Channels in a frame.").default("2");
const SAMPLE_FORMAT: Key = Key::new(
    "sample-format",
    Value::Choice(&words(&FORMATS)),
    "Format of a sample: integer of 16, 24 (in 32) or 32 bits, or floating point.",
)
.default("\"s16\"");
const BUFFER: Key = Key::new(
    "buffer",
    Value::Duration { min: Span::from_nanos(1), max: LONGEST_BUFFER },
    "How much sound the device can hold, and so how late a tick may be: at least four periods of the task, at most \
     16 MB. The device may choose a similar length; less than four periods is refused.",
)
.otherwise("`\"200ms\"`, or eight periods of the task if that is more");

const KEYS: &[Key] = &[DEVICE, SAMPLE_RATE, CHANNELS, SAMPLE_FORMAT, BUFFER, Missing::KEY];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("audio", "Captures sound from an ALSA device: each tick takes what the device has.", KEYS, parse)
}

#[expect(clippy::cast_precision_loss, reason = "a number of bytes for people, in MB")]
fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let device = section.text(&DEVICE);
    let rate = section.hertz(&SAMPLE_RATE);
    let channels = section.integer(&CHANNELS);
    let sample = section.choice(&SAMPLE_FORMAT, &FORMATS);
    let missing = Missing::of(section);
    let asked = section.duration(&BUFFER);
    let period = section.period()?;
    let periods = |count: i64| Span::from_nanos(period.nanos().saturating_mul(count));
    let least = periods(LEAST_PERIODS);
    if asked.is_some_and(|asked| asked < least) {
        let ms = least.seconds() * 1e3;
        let help = format!("four periods of the task are {ms} ms");
        section.problem_with_help(&BUFFER, "must hold four periods of the task, or a late tick loses sound", help);
    }
    if least > LONGEST_BUFFER {
        let wanted = "must be at least a tick in 2.5 s: the device has to hold four periods, and holds at most 10 s";
        section.problem_with_rate(wanted);
    }
    let settings = AudioSettings {
        device: device?,
        format: AudioFormat { rate: rate?, channels: channels?, sample: sample? },
        buffer: asked.unwrap_or_else(|| periods(2 * LEAST_PERIODS).max(USUAL_BUFFER).min(LONGEST_BUFFER)),
        least_buffer: least,
        period,
        missing,
    };
    let held = settings.buffer_frames(settings.buffer).saturating_mul(settings.frame_bytes() as u64);
    if held > LARGEST_BUFFER {
        let help = format!("of this sound it would be {:.1} MB", held as f64 / 1e6);
        section.problem_with_help(&BUFFER, "must be at most 16 MB", help);
    }
    let label = Label::new(format!("audio device {}", settings.device), section.name());
    let looked = (label.clone(), settings.clone());
    let build = move |site: &mut Site| Ok(Audio::open(site, label, settings)?.into());
    let look = move |site: &mut Site| Audio::look(site, &looked.0, &looked.1);
    // The first frame of a tick came right after the tick before, or waited in the device for its block to be full.
    Some(
        Blueprint::new(build).looking(look).with_columns(columns()).holding(periods(2)).first_value_within(FIRST_VALUE),
    )
}
