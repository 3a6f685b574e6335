//! Results that are kept: reading one to compare with, and writing one whole or not at all.

use crate::cli::Stop;
use crate::measure::{Measured, Options, VERSION};
use crate::sys::limited;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

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

/// Where a result goes. Tried before anything is measured.
pub(super) struct Saving {
    path: PathBuf,
    beside: Option<PathBuf>, // written first, and then renamed; None: the file is no regular one, so it is written to
}

impl Saving {
    pub(super) fn prepare(path: &Path) -> Result<Self, Stop> {
        let wrong = |reason: String| Stop::Usage(format!("--save {}: {reason}", path.display()));
        // Through links, to the file itself.
        let found = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&found) {
            Ok(metadata) if metadata.is_dir() => return Err(wrong("it is a folder; name a file".into())),
            Ok(metadata) if !metadata.is_file() => return Ok(Self { path: found, beside: None }),
            _ => {}
        }
        let name = found.file_name().ok_or_else(|| wrong("name a file".into()))?;
        let beside = found.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        File::create(&beside).map_err(|error| wrong(format!("cannot write there: {error}")))?;
        Ok(Self { path: found, beside: Some(beside) })
    }

    pub(super) fn save(self, measured: &Measured) -> Result<(), Stop> {
        let write = |path: &Path| -> std::io::Result<()> {
            let mut file = File::create(path)?;
            serde_json::to_writer(&mut file, measured)?;
            file.write_all(b"\n")?;
            file.sync_all().or_else(|error| if self.beside.is_some() { Err(error) } else { Ok(()) })
        };
        let saved = match &self.beside {
            Some(beside) => write(beside).and_then(|()| fs::rename(beside, &self.path)),
            None => write(&self.path),
        };
        saved.map_err(|error| Stop::Fault(format!("--save {}: {error}; nothing was kept", self.path.display())))
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // After it was renamed, there is none.
            let _ = fs::remove_file(beside);
        }
    }
}
