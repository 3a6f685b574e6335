//! Lists cameras, for tasks and for `hertzd devices`. Cameras are asked for their capabilities; nothing is set. May block; not for a hot
//! thread.

use crate::kinds::device::{FoundDevice, access, file_names, first_line, numbered, quoted, task_name};
use crate::site::Roots;
use crate::sys::host::may_open;
use std::path::{Path, PathBuf};

/// A video node of this machine. It does not necessarily capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Camera {
    /// Its path: `/dev/video0`.
    pub path: PathBuf,
    /// The driver's name for it.
    pub name: String,
}

/// The video nodes, ordered by number.
pub(super) fn cameras(roots: &Roots) -> Vec<Camera> {
    let folder = roots.sys.join("class/video4linux");
    let camera = |(_, node): (u32, String)| {
        let name = first_line(&folder.join(&node).join("name")).unwrap_or_else(|| node.clone());
        Camera { path: roots.dev.join(node), name }
    };
    numbered(&folder, "video").unwrap_or_default().into_iter().map(camera).collect()
}

/// A camera's description of itself.
struct Facts {
    about: Vec<String>,
    needs: Vec<String>,
    format: String,
    size: (u32, u32),
}

impl Default for Facts {
    /// For a camera that cannot be asked: a format and size that most cameras have.
    fn default() -> Self {
        Self { about: Vec::new(), needs: Vec::new(), format: "YUYV".into(), size: (640, 480) }
    }
}

/// The cameras, each with a section that finds it and uses a mode that it supports.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let asked = |camera: Camera| {
        let facts = match may_open(&camera.path, true) {
            true => facts(&camera.path),
            false if camera.path.exists() => Err(access::permission(&camera.path)),
            false => Err("its node is not there".to_owned()),
        };
        // A node that does not capture is an output, a converter or the like.
        Some((camera, facts.transpose()?))
    };
    let found: Vec<_> = cameras(roots).into_iter().filter_map(asked).collect();
    let device = |(Camera { path, name }, facts): &(Camera, Result<Facts, String>)| {
        let usual = Facts::default();
        let Facts { about, needs, format, size } = facts.as_ref().unwrap_or(&usual);
        // A name stays the same when numbers change, but must not occur in another camera's name.
        let contains = |other: &str| other.to_lowercase().contains(&name.to_lowercase());
        let is_clear = found.iter().filter(|(other, _)| contains(&other.name)).count() == 1 && !name.starts_with('/');
        let device = if is_clear { name.clone() } else { stable_path(path, roots).display().to_string() };
        FoundDevice {
            class: "v4l2",
            name: name.clone(),
            node: Some(path.display().to_string()),
            about: about.clone(),
            needs: needs.clone(),
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
            ..FoundDevice::default()
        }
    };
    found.iter().map(device).collect()
}

/// A link to the node that stays the same when numbers change; the node itself if there is none.
fn stable_path(node: &Path, roots: &Roots) -> PathBuf {
    let folders = ["v4l/by-id", "v4l/by-path"].map(|folder| roots.dev.join(folder));
    let mut links = folders
        .iter()
        .flat_map(|folder| file_names(folder).unwrap_or_default().into_iter().map(|link| folder.join(link)));
    let target = node.canonicalize().ok();
    links.find(|link| target.is_some() && link.canonicalize().ok() == target).unwrap_or_else(|| node.to_owned())
}

/// Asks a camera for its capabilities. `None` if it does not capture.
#[cfg(feature = "video")]
fn facts(path: &Path) -> Result<Option<Facts>, String> {
    use crate::sys::video::{Device, Sizes};
    let device = Device::open(path).map_err(|error| access::refusal(path, &error))?;
    let capability = device.capability().map_err(|error| format!("it does not say what it is: {error}"))?;
    let mut facts = Facts::default();
    match (capability.captures, capability.multi_planar) {
        (false, false) => return Ok(None),
        (false, true) => {
            facts
                .needs
                .push("another camera: this one delivers planes apart, which the kind \"video\" cannot read".into());
            return Ok(Some(facts));
        }
        _ => {}
    }
    let formats = device.formats().map_err(|error| format!("it does not say what it captures: {error}"))?;
    for (code, description) in &formats {
        let sizes = device.sizes(*code).unwrap_or_default();
        let range = |Sizes { smallest, largest }: Sizes| match smallest == largest {
            true => format!("{}x{}", smallest.0, smallest.1),
            false => format!("{}x{} to {}x{}", smallest.0, smallest.1, largest.0, largest.1),
        };
        let sizes: Vec<_> = sizes.into_iter().map(range).collect();
        let sizes = if sizes.is_empty() { "any size".to_owned() } else { sizes.join(", ") };
        facts.about.push(format!("{} ({description}): {sizes}", String::from_utf8_lossy(code).trim_end()));
    }
    // The usual format, or else the first that can be written in a configuration, in the size nearest to the usual one.
    let codes = || formats.iter().map(|(code, _)| *code).filter(|code| code.trim_ascii_end().is_ascii());
    let usual = codes().find(|code| code == facts.format.as_bytes());
    let granted = usual.or_else(|| codes().next()).and_then(|code| {
        let granted = device.try_format(code, facts.size.0, facts.size.1).ok()?;
        (granted.four_cc == code && !granted.alternating).then_some(granted)
    });
    match granted {
        Some(granted) => {
            facts.format = String::from_utf8_lossy(&granted.four_cc).trim_end().to_owned();
            facts.size = (granted.width, granted.height);
        }
        None => facts.needs.push("a format that this camera has, and its size".into()),
    }
    Ok(Some(facts))
}

/// Without the kind, cameras cannot be asked.
#[cfg(not(feature = "video"))]
fn facts(_: &Path) -> Result<Option<Facts>, String> {
    Ok(Some(Facts::default()))
}
