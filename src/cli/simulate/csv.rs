//! `simulate --csv`: a line for each tick of a task with values, and a column for each value of each task. Spreadsheets and plotting
//! programs read it directly: each column is a curve over `release_s`.

use super::super::output::OutputFile;
use super::super::terminal;
use crate::channels::Column;
use crate::cli::stop::Stop;
use crate::config::Config;
use crate::daemon::SimulatedTick;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The columns before the values.
const OWN: &str = "task,tick,release_s,lateness_ns,skipped";

/// The table being written.
pub(super) struct Table {
    to: Box<dyn Write>,
    path: PathBuf,
    file: Option<OutputFile>,
    first: BTreeMap<String, usize>, // the first column of each task with values
    width: usize,
}

impl Table {
    /// Begins the table at `path`, written to `file` or, without one, to stdout. `columns` has the values, by task index.
    ///
    /// # Errors
    /// The file cannot be written, or no task has values.
    pub(super) fn begin(
        path: &Path,
        file: Option<OutputFile>,
        config: &Config,
        columns: &BTreeMap<usize, Vec<Column>>,
    ) -> Result<Self, String> {
        if columns.is_empty() {
            return Err(
                "--csv: no task has values here; write values = \"FILE.csv\" or a plant under [task.NAME.simulate], or add a task that \
                 computes"
                    .to_owned(),
            );
        }
        let to: Box<dyn Write> = match &file {
            None => Box::new(terminal::stdout(true)),
            Some(file) => Box::new(file.file().map_err(|error| format!("--csv {}: {error}", path.display()))?),
        };
        let mut table = Self {
            to: Box::new(BufWriter::with_capacity(1 << 16, to)),
            path: path.into(),
            file,
            first: BTreeMap::new(),
            width: 0,
        };
        let mut header = OWN.to_owned();
        for (index, columns) in columns {
            let task = &config.tasks[*index].name;
            table.first.insert(task.clone(), table.width);
            table.width += columns.len();
            for Column { name, unit } in columns {
                let unit = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
                header.push(',');
                header.push_str(&quoted(&format!("{task}.{name}{unit}")));
            }
        }
        table.write(&format!("{header}\n")).map_err(|error| format!("--csv {}: {error}", path.display()))?;
        Ok(table)
    }

    /// Whether the path means stdout.
    pub(super) fn is_stdout(path: &Path) -> bool {
        path.as_os_str() == "-"
    }

    /// Adds a tick. A tick of a task without values gets no line.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(super) fn tick(&mut self, tick: &SimulatedTick<'_>) -> io::Result<()> {
        let Some(first) = self.first.get(tick.task) else { return Ok(()) };
        let release = format!("{}.{:09}", tick.release_ns / 1_000_000_000, tick.release_ns % 1_000_000_000);
        let late = tick.started_ns - tick.release_ns;
        let mut line = format!("{},{},{release},{late},{}{}", tick.task, tick.n, tick.skipped, ",".repeat(*first));
        for (value, quality) in tick.values.iter().zip(tick.qualities) {
            line.push(',');
            if quality.is_usable() {
                line.push_str(&value.to_string());
            }
        }
        line.push_str(&",".repeat(self.width - first - tick.values.len()));
        line.push('\n');
        self.write(&line)
    }

    /// Completes the table.
    ///
    /// # Errors
    /// The rest cannot be written.
    pub(super) fn end(mut self) -> io::Result<()> {
        let ended = self.to.flush().and_then(|()| self.file.take().map_or(Ok(()), OutputFile::end));
        ended.map_err(|error| self.at(&error))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self.to.write_all(text.as_bytes());
        written.map_err(|error| self.at(&error))
    }

    /// Adds the file name to an error. A closed stdout is passed on unchanged.
    fn at(&self, error: &io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => io::ErrorKind::BrokenPipe.into(),
            _ => io::Error::other(NotWritten(format!("--csv {}: {error}", self.path.display()))),
        }
    }
}

/// The table could not be written: the path and the reason.
#[derive(Debug)]
struct NotWritten(String);

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotWritten {}

/// How the command ends after an error of the table or of stdout.
pub(super) fn stop(error: io::Error) -> Stop {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<NotWritten>()) {
        Some(NotWritten(reason)) => Stop::Fault(reason.clone()),
        None => error.into(),
    }
}

/// A cell, quoted if necessary.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}
