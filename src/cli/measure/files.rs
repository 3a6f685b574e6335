//! Saved results, to compare with.

use crate::cli::Stop;
use crate::measure::{Measured, Options, VERSION};
use crate::sys::limited;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// A saved result.
pub(super) struct Kept {
    pub(super) name: String,
    pub(super) measured: Measured,
}

impl Kept {
    /// Reads a saved result, if it is comparable with the coming measurement.
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
        let changed = |error: String| wrong(format!("{error}; another version of hertzd wrote it, or it was changed"));
        let measured = Measured::deserialize(&value).map_err(|error| changed(error.to_string()))?;
        // A missing count is not 0.
        let known = serde_json::to_value(&measured).map_err(|error| changed(error.to_string()))?;
        if let Some(key) = lacking(&known, &value) {
            return Err(changed(format!("missing field `{key}`")));
        }
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

/// A key that has a value in `known` but is missing in `found`.
fn lacking<'a>(known: &'a Value, found: &Value) -> Option<&'a str> {
    match (known, found) {
        (Value::Object(known), _) => known.iter().find_map(|(key, known)| match found.get(key) {
            None => (!known.is_null()).then_some(key.as_str()),
            Some(found) => lacking(known, found),
        }),
        (Value::Array(known), Value::Array(found)) => {
            known.iter().zip(found).find_map(|(known, found)| lacking(known, found))
        }
        _ => None,
    }
}
