//! What a recording tells, for a report. Blocks on the file.

use crate::cli::trace;
use crate::report::{Kind, Run, Source, of_ticks};
use std::path::Path;

/// The run that was recorded.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub(super) fn run(path: &Path) -> Result<Run, String> {
    let timeline = trace::of_recording(path)?;
    Ok(of_ticks(&timeline, Source { kind: Kind::Recording, name: path.display().to_string() }))
}
