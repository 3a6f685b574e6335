//! `hertzd safe`: writes the safe values of outputs whose daemon was killed.

use super::safe_writes::{Done, Manner};
use super::{App, Source, Stop, print, runtime, runtime_places, safe_anew, safe_owner};
use crate::daemon::{FoundPlan, NoPlan};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::dir::effective_user;
use crate::sys::signals::{catch_interrupts, end_flag};
use crate::time::{Clock, Span};
use clap::Args;
use std::collections::HashMap;
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
    A daemon with outputs keeps the file safe-plan.json in its runtime directory: what \
    each output's safe value is, and where it is to be written. The service's unit \
    runs this command whenever the daemon has ended (ExecStopPost=). While the \
    daemon lives, the outputs are its own, and nothing is written: exit code 77. \
    The same holds for a file or a register that another hertzd has by now.\n\n\
    A plan is carried out with the rights of the user that it belongs to, also by \
    root. No link is followed, and nothing is written but numbers, to files that \
    hold one, and lines, registers and frames. A plan in a folder that other users \
    may write to is refused.\n\n\
    What was written is read back, where that can be read: each number that differs is \
    named, and the exit code is 1. A write that does not return is given up after 2 s \
    and named; the others are made all the same.\n\n\
    A GPIO line belongs to the process that has requested it: once this command has \
    ended, what becomes of the line's level is up to the driver of its chip. With \
    --hold it stays until SIGTERM or SIGINT, and keeps the lines; until then no \
    daemon can have them.\n\n\
    With CONFIG the outputs that it names are opened as at a start, and get their \
    safe values; PWM channels are set up. What \"restore\" stands for is known only \
    to a plan: such an output is left alone, and the exit code is 1. With \"hold\" \
    it is left alone as well. Outputs that a daemon has are its own: exit code 77.\n\n\
    The frames of tasks of the kind can are sent, each up to three times, unless a \
    daemon that lives has their id in its plan.")]
pub(super) struct SafeArgs {
    /// The configuration whose outputs get their safe values, in place of a plan
    #[arg(conflicts_with_all = ["plan", "hold"])]
    config: Option<PathBuf>,
    /// The plan [default: those in the runtime directories of the service and of processes in the foreground; for root those of all users]
    #[arg(long, value_name = "PATH")]
    plan: Option<PathBuf>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Keep GPIO lines at their safe levels, until SIGTERM or SIGINT
    #[arg(long, conflicts_with = "dry_run")]
    hold: bool,
    /// The plan is open as standard input, and belongs to this user; the answer is JSON, for the process that has started this one
    #[arg(long, hide = true, requires = "plan", value_name = "UID:GID", value_parser = safe_owner::user_of)]
    as_owner: Option<(u32, u32)>,
}

pub(super) fn safe(app: &App, args: &SafeArgs) -> Result<(), Stop> {
    // A file that may not be longer is a write that fails, as any other, and not the end of this process.
    let _ = catch_interrupts();
    let manner = Manner { dry_run: args.dry_run, hold: args.hold };
    if let (Some(owner), Some(plan)) = (args.as_owner, &args.plan) {
        let done = safe_owner::answer_for_root(owner, plan, manner)?;
        return if done.holds { wait_for_the_end() } else { Ok(()) };
    }
    if let Some(config) = &args.config {
        return safe_anew::safe(app, &Source::File(config.clone()), args.dry_run);
    }
    let all_plans = || runtime::safe_plans().into_iter().chain(runtime::safe_plans_of_others()).collect();
    let plans = args.plan.as_ref().map_or_else(all_plans, |plan| vec![plan.clone()]);
    let (mut done, mut owners) = (Done::default(), Vec::new());
    // For each user: none decides how long root waits for the plans of the others.
    let (clock, mut spent) = (KernelClock::monotonic(), HashMap::new());
    for path in &plans {
        match FoundPlan::open(path) {
            Ok(found) if !runtime_places::may_be_of(found.owner.0, path) => {
                let path = path.display();
                done.refuse(NoPlan::Unusable(format!("{path}: a link leads to a plan of user {}", found.owner.0)));
            }
            Ok(found) if !found.is_own() && effective_user() == 0 => {
                let (spent, began) = (spent.entry(found.owner.0).or_insert(Span::ZERO), clock.now());
                let (theirs, owner) = safe_owner::carry_out(found, manner, safe_owner::PATIENCE - *spent);
                *spent += clock.now() - began;
                done.add(theirs);
                owners.extend(owner);
            }
            Ok(found) => done.carry_out(found, manner),
            Err(NoPlan::Missing) if args.plan.is_some() => {
                return Err(Stop::Usage(format!("{}: there is no such file", path.display())));
            }
            Err(why) => done.refuse(why), // one that was there just now, and is gone, is not missed
        }
    }
    // systemd sets this where the service has ended: there it says something only if there is something to say.
    let is_asked = std::env::var_os("SERVICE_RESULT").is_none();
    if is_asked && args.plan.is_none() {
        done.failed.extend(runtime::kept_plans().iter().map(|path| {
            format!(
                "{}: a start could not read this plan, so what its outputs do is not known: look at them, then remove it",
                path.display()
            )
        }));
    }
    if is_asked && done.is_empty() {
        done.text = "no daemon has left a plan of safe values behind: nothing to do\n".into();
        if effective_user() != 0 && args.plan.is_none() {
            done.text += "the plans of root and of other users were not looked for: `sudo hertzd safe` does that\n";
        }
    }
    print(&done.text)?;
    if done.holds {
        // What failed is said now, and once more by the exit code.
        if let Some((text, _)) = end(&done).err().and_then(|stop| stop.text(false)) {
            print(&(text + "\n"))?;
        }
        wait_for_the_end()?;
    }
    drop(owners);
    end(&done)
}

fn wait_for_the_end() -> Result<(), Stop> {
    let ended = end_flag().map_err(|error| Stop::Fault(format!("cannot wait for SIGTERM: {error}")))?;
    while !ended.load(Ordering::Relaxed) {
        pause(LOOK_EVERY);
    }
    Ok(())
}

/// What the command says at its end.
fn end(done: &Done) -> Result<(), Stop> {
    match (&done.failed[..], &done.held[..]) {
        ([], []) => Ok(()),
        ([], held) => Err(Stop::Permission(format!("outputs that are not written: {}", held.join("; ")))),
        (failed, held) => {
            let all = failed.iter().chain(held).map(String::as_str).collect::<Vec<_>>().join("; ");
            Err(Stop::Unwell(format!("not every output has its safe value: {all}")))
        }
    }
}
