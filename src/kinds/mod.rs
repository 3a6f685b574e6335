//! The built-in kinds of task, depending on the features selected at build time.
//!
//! Each kind's folder has its keys, what it opens, and the task itself. Building a task may block and allocate; only `Task::tick` runs on
//! the hot thread.

pub(crate) mod alarm;
pub(crate) mod can;
pub(crate) mod device;
mod elapsed;
mod expr;
mod filter;
mod heartbeat;
mod layout;
pub(crate) mod load;
pub(crate) mod output;
mod pid;
#[cfg(feature = "plugin")]
pub(crate) mod plugin;
pub(crate) mod process;
mod profile;
mod register;
pub(crate) mod sensor;
mod slope;
mod succession;

#[cfg(test)]
mod tests;

// If a kind is left out, its list of devices stays.
#[cfg_attr(not(feature = "audio"), path = "audio/list.rs")]
mod audio;
#[cfg_attr(not(feature = "gpio"), path = "gpio/list.rs")]
mod gpio;
#[cfg_attr(not(feature = "i2c"), path = "i2c/list.rs")]
mod i2c;
#[cfg_attr(not(feature = "video"), path = "video/list.rs")]
pub(crate) mod video;

use crate::config::Kinds;
use crate::site::Roots;
use device::FoundDevice;

/// The devices on this machine for all kinds, in the order in which `hertzd devices` prints them. May block.
pub(crate) fn found_devices(roots: &Roots) -> Vec<FoundDevice> {
    [sensor::list, i2c::list, gpio::list, can::list, output::list, audio::list, video::list]
        .into_iter()
        .flat_map(|list| list(roots))
        .collect()
}

impl Kinds {
    /// The built-in kinds, depending on the features selected at build time.
    pub fn builtin() -> Self {
        let kinds = Self::empty();
        // One line each, with the feature it depends on.
        let kinds = kinds.add(sensor::kind());
        let kinds = kinds.add(load::kind());
        let kinds = kinds.add(pid::kind());
        let kinds = kinds.add(filter::kind());
        let kinds = kinds.add(profile::kind());
        let kinds = kinds.add(expr::kind());
        let kinds = kinds.add(output::kind());
        let kinds = kinds.add(alarm::kind());
        let kinds = kinds.add(heartbeat::kind());
        let kinds = kinds.add(can::kind());
        let kinds = kinds.add(process::kind());
        #[cfg(feature = "audio")]
        let kinds = kinds.add(audio::kind());
        #[cfg(feature = "video")]
        let kinds = kinds.add(video::kind());
        #[cfg(not(feature = "video"))]
        let kinds = kinds.leaving_out("video", "build it with `--features video`, which is on by default");
        #[cfg(feature = "gpio")]
        let kinds = kinds.add(gpio::kind());
        #[cfg(not(feature = "gpio"))]
        let kinds = kinds.leaving_out("gpio", "build it with the feature gpio, which is one of the default features");
        #[cfg(feature = "i2c")]
        let kinds = kinds.add(i2c::kind());
        #[cfg(not(feature = "i2c"))]
        let kinds = kinds.leaving_out("i2c", "build it with the feature i2c, which is one of the default features");
        #[cfg(feature = "plugin")]
        let kinds = kinds.add(plugin::kind());
        #[cfg(not(feature = "plugin"))]
        let kinds = kinds.leaving_out(
            "plugin",
            with_libraries("build it with the feature plugin, which is one of the default features"),
        );
        #[cfg(not(feature = "audio"))]
        let kinds = kinds.leaving_out(
            "audio",
            with_libraries(
                "build it with `cargo build --release --features audio`, which needs libasound2-dev and pkg-config",
            ),
        );
        kinds
    }
}

/// How to get a kind that loads libraries at run time. A static program cannot; all others get `remedy`.
#[cfg(not(all(feature = "plugin", feature = "audio")))]
const fn with_libraries(remedy: &'static str) -> &'static str {
    if cfg!(target_feature = "crt-static") {
        "it loads libraries while hertzd runs, which a static program cannot: take hertzd's package, or a build for the C library of the machine"
    } else {
        remedy
    }
}
