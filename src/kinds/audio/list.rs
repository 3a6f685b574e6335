//! Lists sound cards that capture, for `hertzd devices`; reads `/proc/asound`, without the ALSA library. May block; not for a hot thread.

use crate::kinds::device::{FoundDevice, access, first_line, quoted, task_name};
use crate::site::Roots;
use crate::sys::host::may_open;

/// The capture devices of sound cards. Sections name the card by its unique id and let ALSA convert, so that they run on every card.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let pcms = std::fs::read_to_string(roots.proc.join("asound/pcm")).unwrap_or_default();
    pcms.lines().filter_map(|pcm| found(roots, pcm)).collect()
}

/// Parses a line such as `00-01: Loopback PCM : Loopback PCM : playback 8 : capture 8`.
fn found(roots: &Roots, pcm: &str) -> Option<FoundDevice> {
    let mut fields = pcm.split(": ").map(str::trim);
    let (card, device) = fields.next()?.split_once('-')?;
    let (card, device): (u32, u32) = (card.parse().ok()?, device.parse().ok()?);
    let name = fields.next()?.to_owned();
    fields.find(|field| field.starts_with("capture "))?;
    // A card's id stays when its number changes, unless several cards have one name: ALSA tells those apart by the order in which it finds them.
    let id = first_line(&roots.proc.join(format!("asound/card{card}/id"))).unwrap_or_else(|| card.to_string());
    let dev = roots.dev.join(format!("snd/pcmC{card}D{device}c"));
    Some(FoundDevice {
        class: "alsa",
        name: format!("{id}, {name}"),
        node: Some(dev.display().to_string()),
        about: vec![format!("what it can do: arecord -D hw:{id},{device} --dump-hw-params -d 1 /dev/null")],
        refused: (dev.exists() && !may_open(&dev, true)).then(|| access::permission(&dev)),
        task: task_name(&format!("{id}-{device}")),
        kind: "audio",
        rate: "50 Hz",
        keys: vec![
            ("device", quoted(&format!("plughw:{id},{device}")), "ALSA converts; \"hw:\" is the card itself"),
            ("sample-rate", "48000".to_owned(), ""),
            ("channels", "2".to_owned(), ""),
        ],
        ..FoundDevice::default()
    })
}
