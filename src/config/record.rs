//! The rules of `record` and the keys around it: the form follows from the file's name, and several tasks may share an
//! MCAP file.

use super::keys::RECORD_KEEP;
use super::section::Section;
use crate::time::Span;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What a task is recorded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordConfig {
    /// The file that is written; finished ones have a time in their names. Without `./`, so that equal paths are equal.
    pub path: PathBuf,
    /// What is written there.
    pub form: RecordForm,
    /// Bytes that a file may have; `None`: any number. At least 64,000.
    pub max_size: Option<u64>,
    /// How old a file may get; `None`: any age. At least 1 s.
    pub max_time: Option<Span>,
    /// How many finished files are kept; `None`: all. At least 1.
    pub keep: Option<usize>,
}

/// What kind of file a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordForm {
    /// Lines of text.
    Csv,
    /// Sound.
    Wav,
    /// Everything, of one task or several.
    Mcap,
}

impl RecordForm {
    /// The form that the name of `path` asks for.
    pub fn of(path: &Path) -> Self {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("wav") => Self::Wav,
            Some("mcap") => Self::Mcap,
            _ => Self::Csv,
        }
    }
}

const LEAST_SIZE: u64 = 64_000;
const LEAST_TIME: Span = Span::from_seconds(1);
/// The sizes in a WAV file have 32 bits.
const LARGEST_WAV: u64 = 4_000_000_000;
const KEYS: [&str; 3] = ["record-max-size", "record-max-time", "record-keep"];

pub(super) fn judge(section: &mut Section<'_>) -> Option<RecordConfig> {
    let path = section.path("record");
    let max_size = section.size(KEYS[0]);
    let max_time = section.duration(KEYS[1]);
    let keep = section.integer(KEYS[2], RECORD_KEEP).and_then(|keep| usize::try_from(keep).ok());
    KEYS.iter().for_each(|key| section.refuse_idle(key, !section.has("record"), "without record"));
    if max_size.is_some_and(|size| size < LEAST_SIZE) {
        section.problem(KEYS[0], "must be at least 64 kB");
    }
    if max_time.is_some_and(|time| time < LEAST_TIME) {
        section.problem(KEYS[1], "must be at least 1s");
    }
    let path = path?;
    let form = RecordForm::of(&path);
    if form == RecordForm::Wav && max_size.is_some_and(|size| size > LARGEST_WAV) {
        section.problem(KEYS[0], "must be at most 4 GB: a WAV file cannot say that it is larger");
    }
    if form == RecordForm::Csv && max_size.is_none() && max_time.is_none() {
        section.refuse_idle(KEYS[2], true, "for CSV without record-max-size or record-max-time");
    }
    if form == RecordForm::Mcap && !cfg!(feature = "mcap") {
        let help = "build it with `cargo build --release --features mcap`, or record to a .csv";
        section.problem_with_help("record", "this hertzd was built without MCAP", Some(help.to_owned()));
    }
    let path = path.strip_prefix(".").unwrap_or(&path).components().collect();
    Some(RecordConfig { path, form, max_size, max_time, keep })
}

/// Refuses files that several tasks record to, unless it is MCAP: then they have the same limits, said at any of them.
pub(super) fn share<'a>(
    tasks: &mut [(String, Section<'_>)],
    records: impl Iterator<Item = Option<&'a mut RecordConfig>>,
) {
    let mut first: HashMap<PathBuf, (String, RecordConfig)> = HashMap::new();
    let mut records: Vec<_> = records.collect();
    for ((name, section), record) in tasks.iter_mut().zip(&mut records) {
        let Some(record) = record else { continue };
        let Some((other, shared)) = first.get_mut(&record.path) else {
            first.insert(record.path.clone(), (name.clone(), record.clone()));
            continue;
        };
        if record.form != RecordForm::Mcap {
            let help = "or record all of them to one .mcap";
            let text = format!("task.{other} records there too; give each its own file");
            section.problem_with_help("record", text, Some(help.to_owned()));
            continue;
        }
        let agreed = [
            agree(&mut shared.max_size, record.max_size),
            agree(&mut shared.max_time, record.max_time),
            agree(&mut shared.keep, record.keep),
        ];
        for (key, _) in KEYS.iter().zip(agreed).filter(|(_, agreed)| !agreed) {
            section.problem(key, format!("task.{other} records to the same file, and something else is said there"));
        }
    }
    for record in records.into_iter().flatten() {
        if let Some((_, shared)) = first.get(&record.path) {
            record.clone_from(shared);
        }
    }
}

/// Takes over what only one of them says; false: they say different things.
fn agree<T: Copy + PartialEq>(shared: &mut Option<T>, own: Option<T>) -> bool {
    *shared = shared.or(own);
    own.is_none() || *shared == own
}
