//! The rules of `record` and its related keys: the formats, and which tasks may share a file. Pure.

use super::keys::{RECORD, RECORD_KEEP, RECORD_MAX_SIZE, RECORD_MAX_TIME};
use super::section::Section;
use crate::time::Span;
use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};

/// Where and how a task is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordConfig {
    /// The file being written; finished files have a time in their names. A leading `./` is removed, so that equal paths compare equal.
    pub path: PathBuf,
    /// The format of the file.
    pub format: RecordFormat,
    /// Maximum size of a file in bytes, at least 64,000. `None`: unlimited.
    pub max_size: Option<u64>,
    /// Maximum age of a file, at least 1 s. `None`: unlimited.
    pub max_time: Option<Span>,
    /// How many finished files are kept, at least 1. `None`: all.
    pub keep: Option<usize>,
}

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordFormat {
    /// Lines of text: values, or buffered samples.
    Csv,
    /// Sound.
    Wav,
    /// Everything, from one task or several.
    Mcap,
}

impl RecordFormat {
    /// The format for the extension of `path`, ignoring case. `None`: no recorder supports it.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "wav" => Some(Self::Wav),
            "mcap" => Some(Self::Mcap),
            _ => None,
        }
    }
}

/// WAV files store sizes in 32 bits.
const LARGEST_WAV: u64 = 4_000_000_000;
const LIMITS: [&str; 3] = [RECORD_MAX_SIZE.name, RECORD_MAX_TIME.name, RECORD_KEEP.name];

pub(super) fn judge(section: &mut Section<'_>) -> Option<RecordConfig> {
    let path = section.path(&RECORD);
    let max_size = section.size(&RECORD_MAX_SIZE);
    let max_time = section.duration(&RECORD_MAX_TIME);
    let keep = section.integer(&RECORD_KEEP);
    let path = path?;
    let Some(format) = RecordFormat::of(&path) else {
        let help = ".csv takes values or buffered samples, .wav takes sound, .mcap takes everything";
        section.problem_with_help(&RECORD, "must end in .csv, .wav or .mcap", help);
        return None;
    };
    if format == RecordFormat::Wav && max_size.is_some_and(|size| size > LARGEST_WAV) {
        section.problem(&RECORD_MAX_SIZE, "must be at most 4 GB: a WAV file cannot be larger");
    }
    let limited = section.has(&RECORD_MAX_SIZE) || section.has(&RECORD_MAX_TIME);
    if format == RecordFormat::Csv && section.has(&RECORD_KEEP) && !limited {
        let message = "has no effect for CSV without record-max-size or record-max-time; remove it";
        section.problem(&RECORD_KEEP, message);
    }
    if format == RecordFormat::Mcap && !cfg!(feature = "mcap") {
        let help = "build it with `cargo build --release --features mcap`, or record to a .csv";
        section.problem_with_help(&RECORD, "this hertzd was built without MCAP", help);
    }
    let path = path.strip_prefix(".").unwrap_or(&path).components().collect();
    Some(RecordConfig { path, format, max_size, max_time, keep })
}

/// A key of one task that contradicts what an earlier task sets for the same file.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) task: usize, // its index
    pub(crate) key: &'static str,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// Lets tasks share an MCAP file: each gets the limits that any of them sets. Contradictory limits are rejected, and so is any other file
/// that several tasks record to. Two paths are the same file if `file` returns the same for both.
pub(crate) fn share<'a, F: Eq + Hash>(
    tasks: impl Iterator<Item = (&'a str, Option<&'a mut RecordConfig>)>,
    file: impl Fn(&Path) -> F,
) -> Vec<Conflict> {
    // Ask the file system only once per path: the next answer may differ.
    let mut known: HashMap<F, usize> = HashMap::new();
    let mut shared: Vec<(&str, RecordConfig)> = Vec::new();
    let mut conflicts = Vec::new();
    let mut users = Vec::new();
    for (task, (name, record)) in tasks.enumerate() {
        let Some(record) = record else { continue };
        let place = *known.entry(file(&record.path)).or_insert(shared.len());
        match shared.get_mut(place) {
            None => shared.push((name, record.clone())),
            Some((other, first)) if [record.format, first.format] == [RecordFormat::Mcap; 2] => {
                let agreed = [
                    agree(&mut first.max_size, record.max_size),
                    agree(&mut first.max_time, record.max_time),
                    agree(&mut first.keep, record.keep),
                ];
                let message = format!("task.{other} records to the same file and sets another limit; set it once");
                let contradicting = LIMITS.into_iter().zip(agreed).filter(|(_, agreed)| !agreed);
                let conflict = |(key, _)| Conflict { task, key, message: message.clone(), help: None };
                conflicts.extend(contradicting.map(conflict));
            }
            Some((other, _)) => conflicts.push(Conflict {
                task,
                key: RECORD.name,
                message: format!("task.{other} records there too; give each its own file"),
                help: Some("or record all of them to one .mcap".to_owned()),
            }),
        }
        users.push((place, record));
    }
    for (place, record) in users {
        let RecordConfig { max_size, max_time, keep, .. } = shared[place].1;
        (record.max_size, record.max_time, record.keep) = (max_size, max_time, keep);
    }
    conflicts
}

/// Adopts a value that only one of them sets. Returns false if they differ.
fn agree<T: Copy + PartialEq>(shared: &mut Option<T>, own: Option<T>) -> bool {
    *shared = shared.or(own);
    own.is_none() || *shared == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_another_one_at_each_look_is_no_panic() {
        let path = PathBuf::from("x.mcap");
        let record = || RecordConfig {
            path: path.clone(),
            format: RecordFormat::Mcap,
            max_size: None,
            max_time: None,
            keep: None,
        };
        let (mut one, mut other) = (record(), RecordConfig { keep: Some(2), ..record() });
        let looks = std::cell::Cell::new(0);
        let conflicts = share([("a", Some(&mut one)), ("b", Some(&mut other))].into_iter(), |_| {
            looks.set(looks.get() + 1);
            looks.get()
        });
        assert!(conflicts.is_empty() && looks.get() == 2);
        assert_eq!([one.keep, other.keep], [None, Some(2)], "each is a file of its own");
    }
}
