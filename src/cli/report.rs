//! `hertzd report`: a run as one HTML page. Blocks on files and sockets.

mod recorded;
mod source;

use super::fail_if::FailIf;
use super::output::{ForceArg, OutputFile};
use super::socket::SocketArg;
use super::terminal::Shown;
use super::{Stop, span};
use crate::report::{Comparison, Run, compared, page, page_of_two, verdict};
use crate::time::Span;
use clap::Args;
use serde::Serialize;
use source::LoadedRuns;
use std::path::{Path, PathBuf};

/// For the end of the page.
const WRITTEN_BY: &str = concat!("hertzd ", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd report                             the running daemon, so far\n  \
    hertzd report /run/hertzd/flight.prev     the process before it, to its end\n  \
    hertzd report day.mcap -o day.html        a recording of ticks\n  \
    hertzd report day.mcap --from 2h --for 10m   ten minutes of it\n  \
    hertzd run --for 1m --json > a.json && hertzd report a.json -o a.html\n  \
    hertzd report --compare before.mcap after.mcap\n\n\
    The page is one file that loads nothing: mail it, print it, keep it. It says \
    what its source lacks: figures over time, single misses with their stories \
    and the worst second need a flight file or a recording. docs/seeing.md says \
    more. Exits with 1 if a rule of --fail-if is broken, 69 if no daemon answers.")]
pub(super) struct ReportArgs {
    /// A flight file, an MCAP recording with ticks, or a summary (run --json); - for a summary on standard input [default: the running daemon]
    source: Option<PathBuf>,
    /// Show two beside each other, each of them as SOURCE, with what is significant and what is noise; --fail-if judges B
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "source")]
    compare: Vec<PathBuf>,
    /// Read a recording from this long after its first tick on, such as 2h
    #[arg(long, value_name = "DURATION", value_parser = span, requires = "source")]
    from: Option<Span>,
    /// Read only this much of a recording, such as 10m
    #[arg(long = "for", value_name = "DURATION", value_parser = span, requires = "source")]
    length: Option<Span>,
    /// Write the page here; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "hertzd-report.html")]
    output: PathBuf,
    #[command(flatten)]
    force: ForceArg,
    #[command(flatten)]
    fail_if: FailIf,
    #[command(flatten)]
    socket: SocketArg,
    /// Print all that was read as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was written about two runs.
#[derive(Debug, Serialize)]
struct WrittenOfTwo<'a> {
    output: &'a Path,
    bytes: usize,
    verdict: String,
    broken: &'a [String],
    comparison: &'a Comparison,
    a: &'a Run,
    b: &'a Run,
}

/// What was written, and what it contains.
#[derive(Debug, Serialize)]
struct Written<'a> {
    output: &'a Path,
    bytes: usize,
    verdict: String,
    /// The rules of `--fail-if` that are violated.
    broken: &'a [String],
    run: &'a Run,
}

pub(super) fn report(args: &ReportArgs) -> Result<(), Stop> {
    if args.json && args.output == Path::new("-") {
        return Err(Stop::Usage("--json and -o - both write to standard output: name a file with -o".into()));
    }
    let inputs = args.source.iter().chain(&args.compare).map(PathBuf::as_path);
    let output = match args.output == Path::new("-") {
        true => None,
        false => Some(OutputFile::prepare("-o", &args.output, args.force, inputs)?),
    };
    if let [a, b] = &args.compare[..] {
        return compare(args, output, &source::of_file(a)?, &source::of_file(b)?);
    }
    let loaded = match &args.source {
        Some(path) if args.from.is_some() || args.length.is_some() => source::of_part(path, args.from, args.length)?,
        Some(path) => source::of_file(path)?,
        None => source::of_daemon(&args.socket)?,
    };
    let broken = args.fail_if.broken_by(&loaded.numbers).map_err(Stop::Usage)?;
    let run = loaded.last();
    let page = page(run, WRITTEN_BY);
    let verdict = verdict(run);
    let json = Written { output: &args.output, bytes: page.len(), verdict: verdict.clone(), broken: &broken, run };
    finish(args, output, &page, &verdict, &format!("read from {}", run.source.name), &json)?;
    judged(&broken)
}

fn compare(args: &ReportArgs, output: Option<OutputFile>, a: &LoadedRuns, b: &LoadedRuns) -> Result<(), Stop> {
    let broken = args.fail_if.broken_by(&b.numbers).map_err(Stop::Usage)?;
    let comparison = Comparison::between(&a.runs, &b.runs);
    let (of_a, of_b) = (a.last(), b.last());
    let page = page_of_two([of_a, of_b], &comparison, WRITTEN_BY);
    let verdict = compared(&comparison);
    let bytes = page.len();
    let json = WrittenOfTwo {
        output: &args.output,
        bytes,
        verdict: verdict.clone(),
        broken: &broken,
        comparison: &comparison,
        a: of_a,
        b: of_b,
    };
    let read = format!("A: {}, B: {}", of_a.source.name, of_b.source.name);
    finish(args, output, &page, &verdict, &read, &json)?;
    judged(&broken)
}

/// Writes the page, and reports that.
fn finish(
    args: &ReportArgs,
    output: Option<OutputFile>,
    page: &str,
    verdict: &str,
    read: &str,
    json: &impl Serialize,
) -> Result<(), Stop> {
    let to_stdout = output.is_none();
    write(args, output, page)?;
    match (args.json, to_stdout) {
        (true, _) => Shown::json(serde_json::to_string(json)? + "\n").print_beside_verdict(),
        (false, true) => Ok(()),
        (false, false) => Shown::text(&format!(
            "{}: {verdict}\n{} kB, {read}; open it in any browser\n",
            args.output.display(),
            page.len().div_ceil(1_000),
        ))
        .print_beside_verdict(),
    }
}

fn judged(broken: &[String]) -> Result<(), Stop> {
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Stop::Unwell(broken.join("; "))),
    }
}

fn write(args: &ReportArgs, output: Option<OutputFile>, page: &str) -> Result<(), Stop> {
    let Some(output) = output else { return Shown::document(page).print_beside_verdict() };
    output.write(page.as_bytes()).map_err(|reason| {
        Stop::Fault(format!(
            "{}: the report cannot be written: {reason}; name another file with -o",
            args.output.display()
        ))
    })
}
