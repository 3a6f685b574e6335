//! Cameras, for the kind `video`. They are asked what they can, and nothing is set.

use super::Places;
use super::offer::{Offer, line, numbered, quoted, several, task_name};
use crate::kinds::device::access;
use crate::sys::host::may_open;
use std::path::Path;

/// What a camera says of itself.
struct Facts {
    about: Vec<String>,
    needs: Vec<String>,
    format: String,
    size: (u32, u32),
}

/// What a section says where the camera cannot be asked.
const USUAL: (&str, (u32, u32)) = ("YUYV", (640, 480));

pub(super) fn list(places: &Places) -> Vec<Offer> {
    let folder = places.sys.join("class/video4linux");
    let found: Vec<_> = numbered(&folder, "video")
        .into_iter()
        .filter_map(|(_, node)| {
            let name = line(&folder.join(&node).join("name")).unwrap_or_else(|| node.clone());
            let dev = places.dev.join(&node);
            let facts = match may_open(&dev, true) {
                true => facts(&dev),
                false => Err(if dev.exists() { access::permission(&dev) } else { "its node is not there".to_owned() }),
            };
            // What does not capture is an output, a converter or the like.
            Some((name, dev, facts.transpose()?))
        })
        .collect();
    let offer = |(name, dev, facts): &(String, std::path::PathBuf, Result<Facts, String>)| {
        let (format, size) = facts.as_ref().map_or(USUAL, |facts| (&facts.format, facts.size));
        let (about, needs) =
            facts.as_ref().map_or_else(|_| <_>::default(), |facts| (&facts.about[..], &facts.needs[..]));
        // A name stays the same when numbers change, but has to be one camera's alone.
        let unclear = several(found.iter().map(|(name, ..)| name.as_str()), name)
            || found.iter().any(|(other, ..)| other != name && other.to_lowercase().contains(&name.to_lowercase()));
        let device = if unclear || name.starts_with('/') { dev.display().to_string() } else { name.clone() };
        Offer {
            class: "v4l2",
            name: name.clone(),
            node: Some(dev.display().to_string()),
            about: about.to_vec(),
            needs: needs.to_vec(),
            refused: facts.as_ref().err().cloned(),
            task: task_name(name),
            kind: "video",
            rate: "30 Hz",
            keys: vec![
                ("device", quoted(&device), ""),
                ("format", quoted(format), ""),
                ("size", quoted(&format!("{}x{}", size.0, size.1)), ""),
                ("frames", quoted("latest"), "or \"every\""),
            ],
            ..Offer::default()
        }
    };
    found.iter().map(offer).collect()
}

/// `None`: it does not capture.
#[cfg(feature = "video")]
fn facts(dev: &Path) -> Result<Option<Facts>, String> {
    use crate::sys::video::{Device, Sizes};
    let device = Device::open(dev).map_err(|error| access::refusal(dev, &error))?;
    let capability = device.capability().map_err(|error| format!("it does not say what it is: {error}"))?;
    if !capability.captures && !capability.multi_planar {
        return Ok(None);
    }
    let mut facts = Facts { about: Vec::new(), needs: Vec::new(), format: USUAL.0.to_owned(), size: USUAL.1 };
    if !capability.captures {
        facts
            .needs
            .push("another camera: the planes of its frames lie apart, which the kind \"video\" cannot read".into());
        return Ok(Some(facts));
    }
    let formats = device.formats().map_err(|error| format!("it does not say what it captures: {error}"))?;
    // The usual one, or else its first.
    let chosen = formats.iter().map(|(code, _)| *code).find(|code| code == USUAL.0.as_bytes());
    let chosen = chosen.or_else(|| formats.first().map(|(code, _)| *code));
    for (code, about) in &formats {
        let sizes = device.sizes(*code).unwrap_or_default();
        let (mut shown, mut fits) = (Vec::new(), None);
        for Sizes { smallest, largest } in sizes {
            shown.push(match smallest == largest {
                true => format!("{}x{}", smallest.0, smallest.1),
                false => format!("{}x{} to {}x{}", smallest.0, smallest.1, largest.0, largest.1),
            });
            let size = (
                USUAL.1.0.clamp(smallest.0, largest.0.max(smallest.0)),
                USUAL.1.1.clamp(smallest.1, largest.1.max(smallest.1)),
            );
            // The usual one, or else its first.
            fits = fits.filter(|fits| size != USUAL.1 || *fits == USUAL.1).or(Some(size));
        }
        let code_text = String::from_utf8_lossy(code).trim_end().to_owned();
        facts.about.push(format!(
            "{code_text} ({about}): {}",
            if shown.is_empty() { "any size".into() } else { shown.join(", ") }
        ));
        if Some(*code) == chosen {
            (facts.format, facts.size) = (code_text, fits.unwrap_or(USUAL.1));
        }
    }
    Ok(Some(facts))
}

#[cfg(not(feature = "video"))]
fn facts(_: &Path) -> Result<Option<Facts>, String> {
    Ok(Some(Facts { about: Vec::new(), needs: Vec::new(), format: USUAL.0.to_owned(), size: USUAL.1 }))
}
