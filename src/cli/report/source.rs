//! The source of a report: a running daemon, a flight file, a summary, or a recording. Blocks on files and sockets.

use super::recorded;
use crate::cli::Stop;
use crate::cli::socket::{SocketArg, fetch};
use crate::flight;
use crate::report::{Run, as_summary, of_flight, of_summary};
use crate::sys::{input, limited};
use crate::time::Span;
use serde_json::{Deserializer, Value};
use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

/// The first bytes of an MCAP file.
const MCAP: &[u8] = b"\x89MCAP0\r\n";

/// What was read.
pub(super) struct LoadedRuns {
    /// All summaries of a file in order; for any other source, one run.
    pub(super) runs: Vec<Run>,
    /// The numbers of the last run, structured as in a summary.
    pub(super) numbers: Value,
}

impl LoadedRuns {
    /// The run that the report is about.
    pub(super) fn last(&self) -> &Run {
        &self.runs[self.runs.len() - 1]
    }

    fn of_one(run: Run) -> Self {
        let numbers = as_summary(&run);
        Self { runs: vec![run], numbers }
    }
}

/// Asks the daemon.
pub(super) fn of_daemon(socket: &SocketArg) -> Result<LoadedRuns, Stop> {
    let socket = socket.found()?;
    let name = socket.socket.display().to_string();
    let snapshot: Value = serde_json::from_str(&fetch(&socket)?)
        .map_err(|error| Stop::Fault(format!("{name}: cannot understand the daemon's answer: {error}")))?;
    if let Some(why) = snapshot["error"].as_str() {
        return Err(Stop::Unavailable(format!("{name}: the daemon runs but cannot answer yet: {why}; try again")));
    }
    let run = of_summary(&snapshot, &name).map_err(|why| Stop::Fault(format!("{name}: the answer is {why}")))?;
    Ok(LoadedRuns { runs: vec![run], numbers: snapshot })
}

/// Limits reading to the bytes left, so that no single value in a text takes more memory than that.
struct Portioned<R> {
    from: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Portioned<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(into.len());
        if most == 0 {
            let text =
                format!("a value in it is larger than {} MiB, the most that is read of one", limited::JSON >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let count = self.from.read(&mut into[..most])?;
        self.left.set(self.left.get() - count as u64);
        Ok(count)
    }
}

/// Reads a part of a recording.
pub(super) fn of_part(path: &Path, from: Option<Span>, length: Option<Span>) -> Result<LoadedRuns, Stop> {
    if path == Path::new("-") {
        let why =
            "--from and --for choose a part of an MCAP recording, and none is read from standard input: name a file";
        return Err(Stop::Usage(why.into()));
    }
    recorded::run(path, from, length).map(LoadedRuns::of_one).map_err(Stop::Usage)
}

/// Reads any file that a report can be made from; `-` is a summary on standard input.
pub(super) fn of_file(path: &Path) -> Result<LoadedRuns, Stop> {
    if path == Path::new("-") {
        return of_summaries(io::stdin().lock(), "standard input").map_err(Stop::Usage);
    }
    let name = path.display().to_string();
    let wrong = |reason: io::Error| Stop::Usage(format!("{name}: {reason}"));
    let mut file = input::open(path).map_err(wrong)?;
    if !file.metadata().map_err(wrong)?.is_file() {
        // A pipe can be read only once, from its start, so only a summary can come from it.
        return of_summaries(file, &name).map_err(Stop::Usage);
    }
    let mut first = Vec::new();
    (&mut file).take(8).read_to_end(&mut first).map_err(wrong)?;
    if flight::is_flight(path).map_err(wrong)? {
        return Ok(LoadedRuns::of_one(of_flight(&flight::read(path).map_err(Stop::Fault)?, &name)));
    }
    if first == MCAP || path.extension().is_some_and(|ending| ending == "csv" || ending == "mcap") {
        return of_part(path, None, None);
    }
    of_summaries(input::open(path).map_err(wrong)?, &name).map_err(Stop::Usage)
}

/// The summaries in a text: one, or several in sequence. What `simulate` prints before its summary is ignored.
fn of_summaries(text: impl Read, name: &str) -> Result<LoadedRuns, String> {
    let (mut runs, mut numbers) = (Vec::new(), Value::Null);
    let left = Rc::new(Cell::new(limited::JSON));
    let text = BufReader::new(Portioned { from: text, left: left.clone() });
    for value in Deserializer::from_reader(text).into_iter::<Value>() {
        left.set(limited::JSON);
        let value = value.map_err(|error| {
            format!(
                "{name}: neither a flight file, nor an MCAP recording, nor a summary ({error}); `hertzd run --json > FILE` writes a summary"
            )
        })?;
        if value.get("release_ns").is_some() {
            continue;
        }
        runs.push(of_summary(&value, name).map_err(|why| format!("{name}: {why}"))?);
        numbers = value;
    }
    let others = runs.len().saturating_sub(1);
    match runs.last_mut() {
        None => return Err(format!("{name}: there is no summary in it; `hertzd run --json > FILE` writes one")),
        Some(last) if others > 0 => last.notes.insert(
            0,
            format!(
                "There are {} summaries in this file; this is the last. --compare uses all of them, as rounds.",
                others + 1
            ),
        ),
        Some(_) => {}
    }
    Ok(LoadedRuns { runs, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        of_summaries(text.as_bytes(), "x.json").map(|loaded| loaded.runs.len().to_string()).unwrap_or_else(|why| why)
    }

    #[test]
    fn what_is_no_summary_is_refused_with_what_to_do() {
        assert!(wrong("").contains("x.json: there is no summary in it; `hertzd run --json"));
        assert!(wrong("[1, 2").contains("x.json: neither a flight file"));
        assert!(
            wrong("{\"version\": 2, \"tasks\": []}")
                .contains("x.json: a summary of version 2; this hertzd reads version 1")
        );
        assert!(wrong("{\"tasks\": []}").contains("x.json: no summary: it has no \"version\""));
        assert!(wrong("{\"version\": 1}").contains("x.json: no summary: it has no \"tasks\""));
    }

    #[test]
    fn several_summaries_and_what_simulate_prints_are_read() {
        let tick = r#"{"task":"a","n":1,"release_ns":5}"#;
        assert_eq!(wrong(&format!("{tick}\n{tick}\n{{\"version\":1,\"tasks\":[]}}\n")), "1");
        assert_eq!(wrong("{\"version\":1,\"tasks\":[]}\n{\"version\":1,\n\"tasks\":[]}"), "2");
    }
}
