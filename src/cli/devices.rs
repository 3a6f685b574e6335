//! `hertzd devices`: what this machine offers, as sections of a configuration ready to paste.
//!
//! Only files of /sys and /proc are read, and GPIO chips and cameras asked what they are: no bus is probed, no line or
//! stream is taken. Works for an ordinary user, who is told what a device needs to be opened.

use super::{App, Stop, print};
use crate::config::Kinds;
use crate::config::TASK_KEYS;
use clap::Args;
use offer::Offer;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

mod buses;

mod cameras;

mod offer;

mod pins;

mod sensors;

mod sound;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd devices                      what there is, with a section for each\n  \
    hertzd devices | less               with names of lines, inputs and buses to choose from\n  \
    hertzd devices --json | jq -r '.devices[] | select(.class == \"hwmon\").name'\n\n\
    Sections are printed as they may stand in a configuration. Those with a # in front need something first, which is\n\
    said above them: an address, a choice of lines, a kind that this build was made without. The names are those that\n\
    stay the same when numbers change. Buses are not probed: which chips are on one is for `i2cdetect` to find out.")]
pub(super) struct DevicesArgs {
    /// Print them as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn devices(app: &App, args: &DevicesArgs) -> Result<(), Stop> {
    let offers = find(&Places::of_this_machine(), &app.kinds);
    print(&if args.json { as_json(&offers) } else { as_text(&offers) })
}

/// Where to look.
#[derive(Debug)]
struct Places {
    sys: PathBuf,
    dev: PathBuf,
    proc: PathBuf,
}

impl Places {
    fn of_this_machine() -> Self {
        Self::under(Path::new("/"))
    }

    fn under(root: &Path) -> Self {
        Self { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") }
    }
}

/// All there is; sections have names of their own, and keys that this build knows.
fn find(places: &Places, kinds: &Kinds) -> Vec<Offer> {
    let lists = [
        sensors::hwmon(places),
        sensors::iio(places),
        buses::list(places),
        pins::list(places),
        sound::list(places),
        cameras::list(places),
    ];
    let mut offers: Vec<_> = lists.into_iter().flatten().collect();
    let mut taken = BTreeSet::new();
    for offer in &mut offers {
        offer.task = offer::unique(&offer.task, &mut taken);
        if let Some(why) = unfit(offer, kinds) {
            offer.needs.push(why);
        }
    }
    offers
}

/// Why this build would refuse the section.
fn unfit(offer: &Offer, kinds: &Kinds) -> Option<String> {
    let kind = offer.kind;
    let Some(known) = kinds.get(kind) else {
        return Some(match kinds.remedy(kind) {
            Some(remedy) => format!("this build was made without the kind \"{kind}\": {remedy}"),
            None => format!("this build has no kind \"{kind}\""),
        });
    };
    let is_known = |key: &str| TASK_KEYS.iter().chain(&*known.keys).any(|known| known.name == key);
    let (key, ..) = offer.keys.iter().find(|(key, ..)| !is_known(key))?;
    Some(format!("this build does not know the key {key} of the kind \"{kind}\""))
}

const HEAD: &str = "\
# What this machine offers, as sections of a configuration. Those with a # in front need something first, as is said there.
";

const NOTHING: &str = "\
# This machine offers nothing to hertzd: no hwmon or IIO device, no I2C bus, no GPIO chip, no sound card that captures, no
# camera. A sensor may need its module, such as lm75; buses want the module i2c-dev. In a container, /sys and /dev show
# what it was given. Files of /proc and /sys can be polled all the same, with kind = \"sensor\" and path.
";

fn as_text(offers: &[Offer]) -> String {
    if offers.is_empty() {
        return NOTHING.to_owned();
    }
    let sections: String = offers.iter().map(|offer| format!("\n{offer}")).collect();
    format!("{HEAD}{sections}")
}

fn as_json(offers: &[Offer]) -> String {
    let devices: Vec<_> = offers.iter().map(Offer::to_json).collect();
    format!("{}\n", json!({"version": 1, "devices": devices}))
}

#[cfg(test)]
mod tests;
