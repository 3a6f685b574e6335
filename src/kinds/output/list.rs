//! Lists PWM chips for `hertzd devices`. Reads small files; may block; not for a hot thread.

use crate::kinds::device::{FoundDevice, first_line, numbered, quoted, task_name};
use crate::kinds::output::target::pwm;
use crate::site::Roots;
use crate::sys::lock::{self, Taken};
use crate::time::Span;
use std::fs::File;
use std::path::Path;

/// The PWM chips, each with a sample section for a channel; what the channel drives is left to fill in.
pub(in crate::kinds) fn list(roots: &Roots) -> Vec<FoundDevice> {
    let class = roots.sys.join("class/pwm");
    let chips: Vec<_> = numbered(&class, "pwmchip").unwrap_or_default().into_iter().map(|(_, name)| name).collect();
    let parent = |chip: &str| {
        let parent = class.join(chip).join("device").canonicalize().ok()?;
        Some(parent.file_name()?.to_string_lossy().into_owned())
    };
    let parents: Vec<_> = chips.iter().map(|chip| parent(chip)).collect();
    let found = |(chip, parent): (&String, &Option<String>)| {
        let folder = class.join(chip);
        let channels: u32 = first_line(&folder.join("npwm")).and_then(|line| line.parse().ok()).unwrap_or(0);
        let mut about = vec![if channels == 1 { "1 channel".to_owned() } else { format!("{channels} channels") }];
        let of = |channel: u32| pwm::folder_of(&folder, channel);
        about.extend(
            (0..channels).filter(|channel| of(*channel).is_dir()).map(|channel| exported(channel, &of(channel))),
        );
        let free = (0..channels).find(|channel| !of(*channel).is_dir()).unwrap_or(0);
        // The device name stays the same when the chip gets another number.
        let alone = parent.as_ref().filter(|_| parents.iter().filter(|other| *other == parent).count() == 1);
        let name = alone.unwrap_or(chip).clone();
        FoundDevice {
            class: "pwm",
            about,
            needs: vec!["what it drives: its period, the value that it follows, and the duty that is safe".to_owned()],
            task: task_name(&name),
            kind: "output",
            rate: "10 Hz",
            keys: vec![
                ("pwm", quoted(&name), ""),
                ("channel", free.to_string(), ""),
                ("pwm-period", quoted("40us"), ""),
                ("input", "0.0".to_owned(), "from 0 to 1; mostly a value of another task"),
                ("safe", "1.0".to_owned(), ""),
            ],
            name,
            ..FoundDevice::default()
        }
    };
    chips.iter().zip(&parents).map(found).collect()
}

/// What is known of a channel that some program has exported.
fn exported(channel: u32, folder: &Path) -> String {
    let line = |file: &str| first_line(&folder.join(file));
    let mut says = vec![format!("channel {channel}: exported")];
    says.extend(line("enable").map(|on| if on == "1" { "enabled" } else { "not enabled" }.to_owned()));
    let period = line("period").and_then(|line| line.parse().ok()).map(Span::from_nanos);
    says.extend(period.filter(|period| *period > Span::ZERO).map(|period| format!("period {period}")));
    says.extend(line("polarity").map(|polarity| format!("polarity {polarity}")));
    match File::open(folder.join("duty_cycle")).and_then(|duty| lock::probe(&duty)) {
        Ok(Taken::Peer(Some(holder))) => says.push(format!("in use by {holder}")),
        Ok(Taken::Peer(None)) => says.push("in use by another process".to_owned()),
        _ => {}
    }
    says.join(", ")
}
