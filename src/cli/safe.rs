//! `hertzd safe`: writes the safe values of outputs whose daemon was killed.

use super::{Stop, print, runtime};
use crate::daemon::{NoPlan, PlannedOutput, SafePlan};
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd safe              after a crash or a kill -9\n  \
    hertzd safe --dry-run    print what would be written\n\n\
    A daemon with outputs keeps the file safe-plan.json in its runtime directory: what\n\
    each output's safe value is, and where it is to be written. The service's unit\n\
    runs this command whenever the daemon has ended (ExecStopPost=). While the\n\
    daemon lives, the outputs are its own, and nothing is written: exit code 77.")]
pub(super) struct SafeArgs {
    /// The plan [default: those in the runtime directories of the service and of processes in the foreground]
    #[arg(long, value_name = "PATH")]
    plan: Option<PathBuf>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn safe(args: &SafeArgs) -> Result<(), Stop> {
    let plans = args.plan.as_ref().map_or_else(runtime::safe_plans, |plan| vec![plan.clone()]);
    let (mut text, mut failed, mut held) = (String::new(), Vec::new(), Vec::new());
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
            failed.extend(make(output, args.dry_run, &mut text).err().map(|why| format!("{}: {why}", output.task)));
        }
    }
    // systemd sets this where the service has ended: there it says something only if there is something to say.
    let is_asked = std::env::var_os("SERVICE_RESULT").is_none();
    if is_asked && text.is_empty() && failed.is_empty() && held.is_empty() {
        text = "no daemon has left a plan of safe values behind: nothing to do\n".into();
    }
    print(&text)?;
    match (&failed[..], &held[..]) {
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
fn make(output: &PlannedOutput, dry_run: bool, text: &mut String) -> Result<(), String> {
    for write in &output.writes {
        if !dry_run {
            write.make().map_err(|error| format!("{write}: {error}"))?;
        }
        let done = if dry_run { "would write" } else { "wrote" };
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {done} {write}", output.task);
    }
    Ok(())
}
