//! `hertzd safe`: writes the safe values of outputs whose daemon was killed.

use super::{App, Source, Stop, print, runtime, safe_anew, safe_readback};
use crate::daemon::{NoPlan, PlannedOutput, SafePlan};
use crate::kinds::output::PlannedWrite;
use crate::program;
use crate::sys::clock::pause;
use crate::sys::signals::end_flag;
use crate::time::Span;
use clap::Args;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a write may take; the next output waits for it meanwhile.
const RETURNS_WITHIN: Span = Span::from_seconds(2);

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
    daemon lives, the outputs are its own, and nothing is written: exit code 77.\n\
    The same holds for a file that another process with outputs has by now.\n\n\
    What was written is read back, where that can be read: each number that differs is\n\
    named, and the exit code is 1. A write that does not return is given up after 2 s\n\
    and named; the others are made all the same.\n\n\
    A GPIO line belongs to the process that has requested it: once this command has\n\
    ended, what becomes of the line's level is up to the driver of its chip. With\n\
    --hold it stays until SIGTERM or SIGINT, and keeps the lines; until then no\n\
    daemon can have them.\n\n\
    With CONFIG the outputs that it names are opened as at a start, and get their\n\
    safe values; PWM channels are set up. What \"restore\" stands for is known only\n\
    to a plan: such an output is left alone, and the exit code is 1. With \"hold\"\n\
    it is left alone as well. Outputs that a daemon has are its own: exit code 77.\n\n\
    The frames of tasks of the kind can are sent, each up to three times, unless a\n\
    daemon that lives has their id in its plan.")]
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
                held.push(format!(
                    "the daemon lives that has them (pid {pid}): when it is stopped, they get their safe values"
                ));
                continue;
            }
            Err(NoPlan::Unusable(why)) => {
                failed.push(format!("the plan {why}"));
                continue;
            }
        };
        let (mut made, before) = (Vec::new(), failed.len() + held.len());
        for output in &plan.outputs {
            match make(output, args, &mut text, &mut made) {
                Ok(()) => {}
                Err(Failed::Held(why)) => held.push(why),
                Err(Failed::Because(why)) => failed.push(why),
            }
        }
        let look = |it: &Made<'_>| it.write.amiss(it.line.as_ref());
        failed.extend(safe_readback::amiss(made.iter().map(|it| (Some(it.task), || look(it))).collect()));
        if !args.dry_run && !args.hold && failed.len() + held.len() == before {
            runtime::remove_carried_out(path);
        }
        lines.extend(made.into_iter().filter_map(|it| it.line).filter(|_| args.hold));
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
        ([], held) => Err(Stop::Permission(format!("outputs that are not written: {}", held.join("; ")))),
        (failed, held) => {
            let all = failed.iter().chain(held).map(String::as_str).collect::<Vec<_>>().join("; ");
            Err(Stop::Unwell(format!("not every output has its safe value: {all}")))
        }
    }
}

/// Why an output has not got its safe value.
enum Failed {
    /// Another process has the target.
    Held(String),
    Because(String),
}

/// A write that was made.
struct Made<'a> {
    task: &'a str,
    write: &'a PlannedWrite,
    line: Option<File>, // requested until this is dropped
}

/// Makes the writes of one output, and once more what failed: some chips take a value only once they are set to take it.
fn make<'a>(
    output: &'a PlannedOutput,
    args: &SafeArgs,
    text: &mut String,
    made: &mut Vec<Made<'a>>,
) -> Result<(), Failed> {
    let task = &output.task;
    let mut again = Vec::new();
    for write in &output.writes {
        // Writing to a String does not fail.
        match args.dry_run {
            true => {
                let before =
                    write.original().map(|held| format!("; before {} wrote to it, it held {held}", program::name()));
                _ = writeln!(text, "{task}: would write {write}{}", before.unwrap_or_default());
            }
            false => match make_one(write, args, task, text) {
                // Not once more, as others wait.
                Err(error) if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() => {
                    return Err(Failed::Because(format!("{task}: {write}: {error}")));
                }
                // What a driver calls busy is a write that failed.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && error.raw_os_error().is_none() => {
                    return Err(Failed::Held(format!("{task}: {write}: {error}")));
                }
                Err(_) => again.push(write),
                Ok(one) => made.push(one),
            },
        }
    }
    for write in again {
        let one = make_one(write, args, task, text);
        made.push(one.map_err(|error| Failed::Because(format!("{task}: {write}: {error}")))?);
    }
    Ok(())
}

fn make_one<'a>(write: &'a PlannedWrite, args: &SafeArgs, task: &'a str, text: &mut String) -> io::Result<Made<'a>> {
    let line = make_in_time(write)?;
    let then = match (&line, args.hold) {
        (None, _) => "",
        (Some(_), true) => ", and holds it",
        (Some(_), false) => "; the line is released now, so what becomes of its level is up to its chip's driver",
    };
    let _ = writeln!(text, "{task}: wrote {write}{then}");
    Ok(Made { task, write, line })
}

/// Makes a write, on a thread of its own: one that does not return holds up no other output.
fn make_in_time(write: &PlannedWrite) -> io::Result<Option<File>> {
    let (sender, made) = mpsc::channel();
    let own = write.clone();
    thread::Builder::new().spawn(move || _ = sender.send(own.make()))?;
    match made.recv_timeout(Duration::from_nanos(RETURNS_WITHIN.nanos().unsigned_abs())) {
        Ok(made) => made,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            let text = format!(
                "it has not returned within {RETURNS_WITHIN}: look at the device, or switch off what it drives, and run this again"
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(io::Error::other("the thread that writes it has panicked")),
    }
}
