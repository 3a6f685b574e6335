//! From texts to a [`Config`]: TOML syntax, named tables, and the rules that span several tables.

use super::error::{self, Problem, Problems};
use super::files;
use super::kinds::Kinds;
use super::record::{self, Conflict};
use super::section::Section;
use super::source::Source;
use super::types::{Config, Facts};
use super::{fellows, graph, merge, stand_in, task, worker};
use crate::pacing::Rate;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl Config {
    /// Reads a configuration of at most 1 MiB from a file or pipe. If its name ends in `.toml`, its [drop-ins](super#drop-ins) are read
    /// too: for `NAME.toml`, those in the folder `NAME.d` beside it, if that exists.
    ///
    /// # Errors
    /// Everything that is wrong with these files, or why one of them could not be read.
    pub(crate) fn load(path: &Path, kinds: &Kinds, facts: &Facts) -> Result<Self, Problems> {
        let (read, problems) = files::read(path);
        let texts: Vec<_> = read.iter().map(|(path, bytes)| (path.display().to_string(), bytes.as_slice())).collect();
        let config = understand(&files::base_folder(path), &texts, &[], problems, kinds, facts)?;
        let files = read.into_iter().map(|(path, _)| path).collect();
        Ok(Self { files, ..config })
    }

    /// Reads a configuration of at most 1 MiB, without drop-ins. Messages refer to it as `name`.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it could not be read.
    pub(crate) fn read(reader: impl io::Read, name: &str, kinds: &Kinds, facts: &Facts) -> Result<Self, Problems> {
        match files::limited(reader) {
            Ok(bytes) => Self::parse(bytes, name, kinds, facts),
            Err(reason) => {
                understand(Path::new(""), &[], &[], vec![files::unreadable(Path::new(name), &reason)], kinds, facts)
            }
        }
    }

    /// Reads a configuration from its text. Messages refer to it as `name`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn parse(text: impl AsRef<[u8]>, name: &str, kinds: &Kinds, facts: &Facts) -> Result<Self, Problems> {
        understand(Path::new(""), &[(name.to_owned(), text.as_ref())], &[], Vec::new(), kinds, facts)
    }

    /// Like [`parse`](Self::parse), for several named texts that are merged like drop-ins. `folder` is the configuration's folder (empty:
    /// the working directory). The sections of the workers in `without` are left out.
    pub(crate) fn parse_merged(
        folder: &Path,
        texts: &[(String, &[u8])],
        without: &[String],
        kinds: &Kinds,
        facts: &Facts,
    ) -> Result<Self, Problems> {
        understand(folder, texts, without, Vec::new(), kinds, facts)
    }
}

/// Reads the named texts as one configuration, leaving out the sections of the workers in `without`. If there are `problems` already, it is
/// rejected, but only after every text has been parsed. Rules are not checked in that case, because whatever seems missing may be in a text
/// that could not be read.
fn understand(
    folder: &Path,
    texts: &[(String, &[u8])],
    without: &[String],
    mut problems: Vec<Problem>,
    kinds: &Kinds,
    facts: &Facts,
) -> Result<Config, Problems> {
    let (source, spans) = put_together(folder, texts);
    let mut root = merged(&source, texts, spans, &mut problems);
    if let Some(DeValue::Table(workers)) = root.get_mut("worker").map(Spanned::get_mut) {
        without.iter().for_each(|name| drop(workers.remove(name.as_str())));
    }
    let judged = match problems.is_empty() {
        true => judge(&source, &root, kinds, facts),
        false => Err(problems),
    };
    judged.map_err(|list| Problems::new(Arc::clone(&source), list))
}

/// The values that tasks of `kind` in the configuration at `path` have at `key`, without duplicates. Nothing else in the configuration is
/// checked.
///
/// # Errors
/// Which part could not be read or is not TOML.
#[cfg(feature = "plugin")]
pub(crate) fn written_at(path: &Path, kind: &str, key: &str) -> Result<std::collections::BTreeSet<String>, Problems> {
    use super::keys::KIND;
    let (read, mut problems) = files::read(path);
    let texts: Vec<_> = read.iter().map(|(path, bytes)| (path.display().to_string(), bytes.as_slice())).collect();
    let (source, spans) = put_together(&files::base_folder(path), &texts);
    let root = merged(&source, &texts, spans, &mut problems);
    let tasks = root.get("task").and_then(|tasks| tasks.get_ref().as_table());
    let text = |task: &DeTable<'_>, key: &str| Some(task.get(key)?.get_ref().as_str()?.to_owned());
    let tasks = tasks.into_iter().flatten().filter_map(|(_, task)| task.get_ref().as_table());
    let of_kind = tasks.filter(|task| text(task, KIND.name).is_some_and(|found| found == kind));
    let written = of_kind.filter_map(|task| text(task, key)).collect();
    if problems.is_empty() { Ok(written) } else { Err(Problems::new(Arc::clone(&source), problems)) }
}

/// Concatenates the named texts; returns the source and the position of each.
fn put_together(folder: &Path, texts: &[(String, &[u8])]) -> (Arc<Source>, Vec<Range<usize>>) {
    let mut source = Source::of(folder);
    let add = |(name, bytes): &(String, &[u8])| source.add(name, &String::from_utf8_lossy(bytes));
    let spans = texts.iter().map(add).collect();
    (Arc::new(source), spans)
}

/// The texts merged into one table. Text that is not TOML is added to `problems`.
fn merged<'s>(
    source: &'s Source,
    texts: &[(String, &[u8])],
    spans: Vec<Range<usize>>,
    problems: &mut Vec<Problem>,
) -> DeTable<'s> {
    let mut root = DeTable::new();
    for ((_, bytes), span) in texts.iter().zip(spans) {
        match table(source, bytes, span) {
            Ok(table) => merge::merge(&mut root, table),
            Err(list) => problems.extend(list),
        }
    }
    root
}

/// Parses the text at `span`, read from `bytes`, as a table whose spans refer to the whole source.
fn table<'s>(source: &'s Source, bytes: &[u8], span: Range<usize>) -> Result<DeTable<'s>, Vec<Problem>> {
    let text = &source.text()[span.clone()];
    let at = |start: usize, end: usize| span.start + start..span.start + end;
    if let Err(error) = std::str::from_utf8(bytes) {
        let start = error.valid_up_to();
        let what = format!("byte 0x{:02X} is not UTF-8; save the file as UTF-8", bytes[start]);
        return Err(vec![error::problem(source, "", "", at(start, start + 1), false, what)]);
    }
    if text.starts_with('\u{feff}') {
        let what = "starts with a byte order mark; save the file as UTF-8 without one";
        return Err(vec![error::problem(source, "", "", at(0, 0), false, what)]);
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(merge::shifted(root.into_inner(), span.start));
    }
    if let Some((other, line)) = other_format(text) {
        let what = format!("this is {other}; hertzd reads TOML");
        let mut problem = error::problem(source, "", "", at(line.start, line.end), false, what);
        problem.help = Some("a task is written as [task.NAME], and below it each key as key = value".to_owned());
        return Err(vec![problem]);
    }
    Err(first_of_each_line(text, &errors).map(|error| syntax(source, error, span.start)).collect())
}

/// Keeps the first error of each line: one slip often causes a second error further along, and a single line may have very many.
fn first_of_each_line<'e>(text: &str, errors: &'e [toml::de::Error]) -> impl Iterator<Item = &'e toml::de::Error> {
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start).min(text.len());
    let mut sorted: Vec<_> = errors.iter().map(|error| (start(error), error)).collect();
    sorted.sort_by_key(|(start, _)| *start);
    let mut line_end = None;
    sorted.retain(|(start, _)| {
        let is_first = line_end.is_none_or(|end| end < *start);
        if is_first {
            line_end = Some(
                text.as_bytes()[*start..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| start + at),
            );
        }
        is_first
    });
    sorted.into_iter().map(|(_, error)| error)
}

/// Guesses the format of a text that is not TOML from its first line that is not a comment; returns the format and that line.
fn other_format(text: &str) -> Option<(&'static str, Range<usize>)> {
    let start = |line: &str| line.as_ptr().addr() - text.as_ptr().addr();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.next()?;
    let key = line.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_\"'".contains(c));
    let format = match line {
        "---" => "YAML",
        _ if line.starts_with("- ") || line.len() > key.len() && (key == ":" || key.starts_with(": ")) => "YAML",
        _ if line.starts_with('{') => "JSON",
        _ => return None,
    };
    Some((format, start(line)..start(line) + line.len()))
}

fn syntax(source: &Source, error: &toml::de::Error, offset: usize) -> Problem {
    let span = error.span().unwrap_or(0..0);
    let span = span.start + offset..span.end + offset;
    let line_start = source.text().get(..span.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = source.text().get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let colon = line.find([':', '=', '"', '\'', '#']).is_some_and(|at| line[at..].starts_with(':'));
    let what = match (error.message(), source.text().get(span.clone())) {
        ("duplicate key", Some(key)) => format!("`{}` is defined a second time", key.trim()),
        (message, _) if message.starts_with("string values must be quoted") => match span.is_empty() {
            true => "the value is missing".to_owned(),
            false => "strings must be in quotes".to_owned(),
        },
        (message, _)
            if colon && (message.starts_with("key with no value") || message.starts_with("invalid unquoted key")) =>
        {
            "a key and its value are written with `=` between them, not `:`".to_owned()
        }
        (message, _) => format!("not TOML: {message}"),
    };
    error::problem(source, "", "", span, false, what)
}

fn judge(source: &Arc<Source>, root: &DeTable<'_>, kinds: &Kinds, facts: &Facts) -> Result<Config, Vec<Problem>> {
    let mut top = Section::new(source, "", 0..0, root);
    top.refuse_unknown(&["worker", "task"], true);
    let mut tasks = top.named("task");
    if tasks.is_empty() && top.problems.is_empty() {
        let wanted = "a configuration needs at least one task; write [task.NAME] with kind and rate";
        top.problem_at("task", wanted, None);
    }
    let mut workers = top.named("worker");
    let nothing = DeTable::new();
    if workers.is_empty() {
        workers.push(("main".to_owned(), Section::new(source, "worker.main", 0..0, &nothing)));
    }

    let names: Vec<_> = workers.iter().map(|(name, section)| (name.as_str(), worker::clock(section))).collect();
    let mut judged: Vec<_> =
        tasks.iter_mut().map(|(name, section)| task::judge(name, section, &names, kinds)).collect();
    let linked = graph::link(&mut tasks, &judged.iter().map(task::Judged::node).collect::<Vec<_>>());
    stand_in::refuse_unknown(&mut tasks);
    fellows::refuse_unknown(&mut tasks);
    let records = judged.iter_mut().map(|task| task.record.as_mut());
    let conflicts = record::share(tasks.iter().map(|(name, _)| name.as_str()).zip(records), Path::to_path_buf);
    for Conflict { task, key, message, help } in conflicts {
        tasks[task].1.problem_at(key, message, help);
    }

    let every_task_has_a_worker = judged.iter().all(|task| task.worker.is_some());
    let mut made = Vec::new();
    for (index, (name, section)) in workers.iter_mut().enumerate() {
        let own = || judged.iter().filter(|task| task.worker == Some(index));
        let rates: Vec<Rate> = own().filter_map(|task| task.rate).collect();
        made.push(worker::judge(name, section, facts, &rates));
        if own().next().is_none() && every_task_has_a_worker && !judged.is_empty() {
            let wanted = format!("no task runs on it; give a task worker = \"{name}\", or remove it");
            section.problem_at("", wanted, None);
        }
    }

    let sections = tasks.into_iter().chain(workers).map(|(_, section)| section).chain([top]);
    let problems: Vec<Problem> = sections.flat_map(|section| section.problems).collect();
    let workers: Option<Vec<_>> = made.into_iter().collect();
    let tasks: Option<Vec<_>> =
        judged.into_iter().zip(linked).map(|(judged, linked)| judged.into_config(linked)).collect();
    match (workers, tasks) {
        (Some(workers), Some(tasks)) if problems.is_empty() => Ok(Config { workers, tasks, files: Vec::new() }),
        _ => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_recognised_and_slips_in_toml_are_not() {
        let format = |text| other_format(text).map(|(format, line)| (format, &text[line]));
        assert_eq!(format("---\ntask: {}\n"), Some(("YAML", "---")));
        assert_eq!(format("# tasks\n\n  - name: imu\n"), Some(("YAML", "- name: imu")));
        assert_eq!(format("\"task\":\n  a: 1\n"), Some(("YAML", "\"task\":")));
        assert_eq!(format("\n{\"task\": {}}"), Some(("JSON", "{\"task\": {}}")));
        let toml = ["", "# only a comment", "[task.a]\nkind: load", "task.a.rate = 1:2", "x", ":", "[[task", "a.b: 1"];
        assert_eq!(toml.iter().find(|text| format(text).is_some()), None);
    }
}
