//! Sound devices that capture, for the kind `audio`; read from /proc/asound, without the ALSA library.

use super::Places;
use super::offer::{Offer, line, quoted, task_name};
use crate::kinds::device::access;
use crate::sys::host::may_open;
use std::fs;

pub(super) fn list(places: &Places) -> Vec<Offer> {
    let pcms = fs::read_to_string(places.proc.join("asound/pcm")).unwrap_or_default();
    pcms.lines().filter_map(|pcm| offer(places, pcm)).collect()
}

/// Of a line such as `00-01: Loopback PCM : Loopback PCM : playback 8 : capture 8`.
fn offer(places: &Places, pcm: &str) -> Option<Offer> {
    let mut fields = pcm.split(": ").map(str::trim);
    let (card, device) = fields.next()?.split_once('-')?;
    let (card, device): (u32, u32) = (card.parse().ok()?, device.parse().ok()?);
    let name = fields.next()?.to_owned();
    fields.find(|field| field.starts_with("capture "))?;
    // A card's id stays the same where its number does not.
    let id = line(&places.proc.join(format!("asound/card{card}/id"))).unwrap_or_else(|| card.to_string());
    let dev = places.dev.join(format!("snd/pcmC{card}D{device}c"));
    let pcm = format!("hw:{id},{device}");
    Some(Offer {
        class: "alsa",
        name: format!("{id}, {name}"),
        node: Some(dev.display().to_string()),
        about: vec![format!("what it can do: arecord -D {pcm} --dump-hw-params -d 1 /dev/null")],
        refused: (dev.exists() && !may_open(&dev, true)).then(|| access::permission(&dev)),
        task: task_name(&format!("{id}-{device}")),
        kind: "audio",
        rate: "50 Hz",
        keys: vec![
            ("device", quoted(&pcm), ""),
            ("sample-rate", "48000".to_owned(), ""),
            ("channels", "2".to_owned(), ""),
        ],
        ..Offer::default()
    })
}
