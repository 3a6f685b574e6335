//! Results that were kept, to compare with.

use crate::cli::Stop;
use crate::measure::{Measured, Options, VERSION};
use crate::sys::limited;
use serde_json::Value;
use std::path::Path;

/// A result that was kept.
pub(super) struct Kept {
    pub(super) name: String,
    pub(super) measured: Measured,
}

impl Kept {
    /// Reads it, if it can be compared with what is going to be measured.
    pub(super) fn read(path: &Path, options: &Options) -> Result<Self, Stop> {
        let name = path.display().to_string();
        let wrong = |reason: String| Stop::Usage(format!("--against {name}: {reason}"));
        let text = limited::read_text(path, limited::JSON).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("{error}; name a file that `hertzd measure --save` or `--json` wrote")))?;
        if value["command"] != "measure" {
            return Err(wrong(
                "it is no result of `hertzd measure`; name a file that `--save` or `--json` wrote".into(),
            ));
        }
        if value["version"] != VERSION {
            return Err(wrong(format!("it has version {}; this hertzd reads version {VERSION}", value["version"])));
        }
        let measured: Measured = serde_json::from_value(value)
            .map_err(|error| wrong(format!("{error}; another version of hertzd wrote it, or it was changed")))?;
        let rate = format!("{}/{}", options.rate.num(), options.rate.den());
        if measured.asked.rate != rate {
            let theirs = measured.asked.rate.trim_end_matches("/1");
            return Err(wrong(format!(
                "it was measured at {theirs} Hz, and how late a sleep ends depends on its length; add --rate {theirs}"
            )));
        }
        if !measured.cpus.iter().any(|cpu| options.cpus.contains(&cpu.cpu)) {
            return Err(wrong("it has none of the CPUs that are to be measured".into()));
        }
        Ok(Self { name, measured })
    }
}
