//! Video devices, for the kind `video`.

use super::Places;
use super::offer::{Offer, line, numbered, quoted, task_name};
use crate::sys::host::may_open;
use crate::tasks::node;

pub(super) fn list(places: &Places) -> Vec<Offer> {
    let folder = places.sys.join("class/video4linux");
    let offer = |(_, node): (u32, String)| {
        let name = line(&folder.join(&node).join("name")).unwrap_or_else(|| node.clone());
        let dev = places.dev.join(&node);
        Offer {
            class: "v4l2",
            task: task_name(&name),
            name,
            node: Some(dev.display().to_string()),
            about: vec![format!("what it can do: v4l2-ctl -d {} --list-formats-ext", dev.display())],
            refused: (dev.exists() && !may_open(&dev, true)).then(|| node::permission(&dev)),
            kind: "video",
            rate: "30 Hz",
            keys: vec![
                ("device", quoted(&dev.display().to_string()), ""),
                ("format", quoted("YUYV"), ""),
                ("size", quoted("640x480"), ""),
                ("frames", quoted("latest"), "or \"every\""),
            ],
            ..Offer::default()
        }
    };
    numbered(&folder, "video").into_iter().map(offer).collect()
}
