//! Lists what a device supports, for the message that refuses anything else. Only for opening; may block.

use super::settings::{AudioSettings, FORMATS};
use crate::channels::SampleFormat;
use crate::time::Span;
use alsa::Output;
use alsa::pcm::{Format, HwParams, PCM};

/// Common sample rates.
const USUAL_RATES: [u32; 13] =
    [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000, 176_400, 192_000];

/// The library's reason, with a remedy if there is one. `said` is what the library printed.
pub(super) fn reason(error: &alsa::Error, said: &str) -> String {
    let reason = std::io::Error::from_raw_os_error(error.errno());
    let remedy = match error.errno() {
        libc::ENOENT => "; `arecord -L` lists the names that ALSA knows, `arecord -l` the sound cards",
        libc::EACCES | libc::EPERM => "; hertzd's user needs to be in the group of /dev/snd/*, which is usually audio",
        _ => "",
    };
    let said = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    if said.is_empty() { format!("{reason}{remedy}") } else { format!("{reason}{remedy} (ALSA: {said})") }
}

pub(super) fn formats(settings: &AudioSettings, there: &HwParams<'_>) -> String {
    let ours: Vec<_> = FORMATS
        .iter()
        .filter(|(_, sample)| there.test_format(alsa_format(*sample)).is_ok())
        .map(|(word, _)| format!("\"{word}\""))
        .collect();
    let found = if ours.is_empty() {
        let theirs: Vec<_> = Format::all().iter().filter(|format| there.test_format(**format).is_ok()).collect();
        format!("none of the formats there are here, but {}", listed(theirs.iter().map(ToString::to_string)))
    } else {
        listed(ours.into_iter())
    };
    format!("{:?} does not support it; it offers {found}{}", settings.device, convert(settings))
}

pub(super) fn channels(settings: &AudioSettings, there: &HwParams<'_>) -> String {
    let (least, most) = (there.get_channels_min().unwrap_or(1), there.get_channels_max().unwrap_or(1));
    let found: Vec<_> = (least..=most.min(1_024)).filter(|count| there.test_channels(*count).is_ok()).collect();
    let all = found.len() > 1 && found.len() == usize::try_from(most - least).unwrap_or(0) + 1;
    let found = if all { format!("{least} to {most}") } else { listed(found.iter().map(ToString::to_string)) };
    format!("{:?} does not support that many; it offers {found}{}", settings.device, convert(settings))
}

pub(super) fn rates(settings: &AudioSettings, there: &HwParams<'_>) -> String {
    let (least, most) = (there.get_rate_min().unwrap_or(0), there.get_rate_max().unwrap_or(0));
    let within = || USUAL_RATES.iter().copied().filter(|rate| (least..=most).contains(rate));
    let mut found: Vec<_> = within().filter(|rate| there.test_rate(*rate).is_ok()).collect();
    let found = if least < most && found.len() > 2 && found.len() == within().count() {
        format!("{least} to {most} Hz")
    } else {
        found.extend([least, most]);
        found.sort_unstable();
        found.dedup();
        listed(found.iter().map(|rate| format!("{rate} Hz")))
    };
    format!("{:?} does not support it; it offers {found}{}", settings.device, convert(settings))
}

/// ALSA's name for this format.
pub(super) fn alsa_format(format: SampleFormat) -> Format {
    match format {
        SampleFormat::S16 => Format::S16LE,
        SampleFormat::S24 => Format::S24LE,
        SampleFormat::S32 => Format::S32LE,
        SampleFormat::F32 => Format::FloatLE,
    }
}

/// The remedy, if there is one.
fn convert(settings: &AudioSettings) -> String {
    match settings.device.strip_prefix("hw:") {
        Some(rest) => format!("; as \"plughw:{rest}\" ALSA converts it"),
        None => String::new(),
    }
}

/// The message for a device whose buffer, of this many frames, is too short.
pub(super) fn too_short(settings: &AudioSettings, buffer: u64) -> String {
    let rate = i128::from(settings.format.rate);
    let held = Span::from_wide(i128::from(buffer) * 1_000_000_000 / rate);
    let ms = |span: Span| span.seconds() * 1e3;
    format!(
        "{:?} holds {:.1} ms at the most; the task needs {:.1} ms, four of its periods: raise its rate",
        settings.device,
        ms(held),
        ms(settings.least_buffer)
    )
}

/// Whether the PCM is a sound card used directly.
pub(super) fn is_hardware(pcm: &PCM) -> bool {
    let Ok(mut text) = Output::buffer_open() else {
        return false;
    };
    pcm.dump(&mut text).is_ok() && text.to_string().starts_with("Hardware PCM")
}

fn listed(words: impl Iterator<Item = String>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "nothing that ALSA can name".into() } else { words.join(", ") }
}
