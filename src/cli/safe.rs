//! `hertzd safe`: writes the safe values of outputs whose daemon was killed.

use super::{App, Source, Stop, print, runtime, safe_anew};
use crate::daemon::{NoPlan, PlannedOutput, SafePlan};
use crate::sys::clock::pause;
use crate::sys::signals::end_flag;
use crate::time::Span;
use clap::Args;
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// How often it looks for a signal while it holds lines.
const LOOK_EVERY: Span = Span::from_millis(50);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd safe              after a crash or a kill -9\n  \
    hertzd safe --dry-run    print what would be written\n  \
    hertzd safe my.toml      by the configuration, where there is no plan\n  \
    hertzd safe --hold       keep GPIO lines at their safe levels until SIGTERM\n\n\
    A daemon with outputs keeps the file safe-plan.json in its runtime directory: what\n\
    each output's safe value is, and where it is to be written. The service's unit\n\
    runs this command whenever the daemon has ended (ExecStopPost=). While the\n\
    daemon lives, the outputs are its own, and nothing is written: exit code 77.\n\n\
    A GPIO line belongs to the process that has requested it: once this command has\n\
    ended, what becomes of the line's level is up to the driver of its chip. With\n\
    --hold it stays until SIGTERM or SIGINT, and keeps the lines; until then no\n\
    daemon can have them.\n\n\
    With CONFIG the outputs that it names are opened as at a start, and get their\n\
    safe values; PWM channels are set up. What \"restore\" stands for is known only\n\
    to a plan: such an output is left alone, and the exit code is 1. With \"hold\"\n\
    it is left alone as well. Outputs that a daemon has are its own: exit code 77.")]
pub(super) struct SafeArgs {
    /// The configuration whose outputs get their safe values, in place of a plan
    #[arg(conflicts_with_all = ["plan", "hold"])]
    config: Option<PathBuf>,
    /// The plan [default: those in the runtime directories of the service and of processes in the foreground]
    #[arg(long, value_name = "PATH")]
    plan: Option<PathBuf>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Keep GPIO lines at their safe levels, until SIGTERM or SIGINT
    #[arg(long, conflicts_with = "dry_run")]
    hold: bool,
}

pub(super) fn safe(app: &App, args: &SafeArgs) -> Result<(), Stop> {
    if let Some(config) = &args.config {
        return safe_anew::safe(app, &Source::File(config.clone()), args.dry_run);
    }
    let plans = args.plan.as_ref().map_or_else(runtime::safe_plans, |plan| vec![plan.clone()]);
    let (mut text, mut failed, mut held, mut lines) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    for path in &plans {
        let (plan, _locked) = match SafePlan::take(path) {
            Ok(taken) => taken,
            Err(NoPlan::Missing) if args.plan.is_none() => continue, // it was there just now
            Err(NoPlan::Missing) => return Err(Stop::Usage(format!("{}: there is no such file", path.display()))),
            Err(NoPlan::Held(pid)) => {
                held.push(pid.to_string());
                continue;
            }
            Err(NoPlan::Unusable(why)) => {
                failed.push(format!("the plan {why}"));
                continue;
            }
        };
        for output in &plan.outputs {
            failed.extend(make(output, args, &mut text, &mut lines).err().map(|why| format!("{}: {why}", output.task)));
        }
    }
    // systemd sets this where the service has ended: there it says something only if there is something to say.
    let is_asked = std::env::var_os("SERVICE_RESULT").is_none();
    if is_asked && text.is_empty() && failed.is_empty() && held.is_empty() {
        text = "no daemon has left a plan of safe values behind: nothing to do\n".into();
    }
    print(&text)?;
    if args.hold && !lines.is_empty() {
        // What failed is said now, and once more by the exit code.
        if let Some((text, _)) = end(&failed, &held).err().and_then(|stop| stop.text(false)) {
            print(&(text + "\n"))?;
        }
        let ended = end_flag().map_err(|error| Stop::Fault(format!("cannot wait for SIGTERM: {error}")))?;
        while !ended.load(Ordering::Relaxed) {
            pause(LOOK_EVERY);
        }
    }
    end(&failed, &held)
}

/// What the command says at its end.
fn end(failed: &[String], held: &[String]) -> Result<(), Stop> {
    match (failed, held) {
        ([], []) => Ok(()),
        ([], held) => {
            let text = format!(
                "the daemon lives that has the outputs (pid {}): when it is stopped, they get their safe values",
                held.join(", ")
            );
            Err(Stop::Permission(text))
        }
        (failed, _) => Err(Stop::Unwell(format!("not every output has its safe value: {}", failed.join("; ")))),
    }
}

/// Makes the writes of one output, as far as that goes.
fn make(output: &PlannedOutput, args: &SafeArgs, text: &mut String, lines: &mut Vec<File>) -> Result<(), String> {
    for write in &output.writes {
        let line = match args.dry_run {
            true => None,
            false => write.make().map_err(|error| format!("{write}: {error}"))?,
        };
        let done = if args.dry_run { "would write" } else { "wrote" };
        let then = match (&line, args.hold) {
            (None, _) => "",
            (Some(_), true) => ", and holds it",
            (Some(_), false) => "; the line is released now, so what becomes of its level is up to its chip's driver",
        };
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {done} {write}{then}", output.task);
        lines.extend(line.filter(|_| args.hold));
    }
    Ok(())
}
