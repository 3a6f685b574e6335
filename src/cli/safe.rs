//! `hertzd safe`: writes the safe values of outputs whose daemon was killed.

use super::safe_owner::{Owner, Theirs};
use super::safe_writes::{CarriedOut, Done, Manner, RETURNS_WITHIN, in_time};
use super::{App, Source, Stop, print, runtime, runtime_places, safe_anew, safe_owner};
use crate::daemon::{FoundPlan, NoPlan};
use crate::escape::visible_line;
use crate::sys::clock::pause;
use crate::sys::dir::effective_user;
use crate::sys::signals::{catch_interrupts, end_flag};
use crate::time::Span;
use clap::Args;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// How often to check for a signal while lines are held.
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
    and named, a read after 4 s; the others are made all the same.\n\n\
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
    // With the signal caught, exceeding the file size limit is a failed write like any other, and does not end this process.
    let _ = catch_interrupts();
    let manner = Manner { dry_run: args.dry_run, hold: args.hold };
    if let (Some(owner), Some(plan)) = (args.as_owner, &args.plan) {
        let done = safe_owner::answer_for_root(owner, plan, manner)?;
        return if done.holds { wait_for_the_end() } else { Ok(()) };
    }
    if let Some(config) = &args.config {
        return safe_anew::safe(app, &Source::File(config.clone()), args.dry_run);
    }
    let plans = args.plan.as_ref().map_or_else(runtime::safe_plans, |plan| vec![plan.clone()]);
    let (mut all, mut printed) = (All::default(), Ok(()));
    for path in &plans {
        match FoundPlan::open(path) {
            Err(NoPlan::Missing) if args.plan.is_some() => {
                return Err(Stop::Usage(format!("{}: there is no such file", path.display())));
            }
            found => all.carry_out(found, path, manner),
        }
    }
    let places = if args.plan.is_none() { runtime::logins() } else { Vec::new() };
    let has_done_something = !all.done.is_empty();
    if has_done_something {
        // Print before anything that may take long: reading back, and other users' plans.
        printed = all.done.print();
    }
    all.read_back(manner);
    if has_done_something && !places.is_empty() {
        printed = printed.and_then(|()| print_failed(&all.done));
    }
    let mut kept = Vec::new();
    for place in &places {
        // Its user may have mounted a file system there that never answers.
        let own = place.clone();
        match in_time(move || Login::at(&own)) {
            Ok(login) => {
                login.plans.into_iter().for_each(|(path, found)| all.carry_out(found, &path, manner));
                kept.extend(login.kept);
            }
            Err(error) => {
                let what = match error.kind() {
                    ErrorKind::TimedOut => format!("it has not answered within {RETURNS_WITHIN}"),
                    _ => error.to_string(),
                };
                let why = format!("{}: {what}, so plans there are not known", place.display());
                all.add(owner_of_folder(&place.join("any")), Done::failed(why));
            }
        }
    }
    all.read_back(manner);
    // systemd sets this after the service has ended. Then the command speaks only if there is something to report.
    let is_asked = std::env::var_os("SERVICE_RESULT").is_none();
    if is_asked && args.plan.is_none() {
        for path in runtime::kept_plans().into_iter().chain(kept) {
            let why = format!(
                "{}: a start could not carry out all of this plan, so what its outputs do is not known: look at them, then remove it",
                path.display()
            );
            all.add(owner_of_folder(&path), Done::failed(why));
        }
    }
    let All { mut done, owners, .. } = all;
    if is_asked && !has_done_something && done.is_empty() {
        done.said.push("no daemon has left a plan of safe values behind: nothing to do".into());
        if effective_user() != 0 && args.plan.is_none() {
            done.said
                .push("the plans of root and of other users were not looked for: `sudo hertzd safe` does that".into());
        }
    }
    printed.and(done.print())?;
    if done.holds {
        print_failed(&done)?;
        wait_for_the_end()?;
    }
    drop(owners);
    end(&done)
}

/// The results of all plans.
#[derive(Default)]
struct All {
    done: Done,
    carried_out: Vec<CarriedOut>, // of this user, still to be read back
    owners: Vec<Owner>,
    others: HashMap<u32, Theirs>,
}

impl All {
    /// Carries out a plan, if it still exists. A plan that was there a moment ago and has gone is not an error.
    fn carry_out(&mut self, found: Result<FoundPlan, NoPlan>, at: &Path, manner: Manner) {
        let refused = |why| {
            let mut done = Done::default();
            done.refuse(why);
            done
        };
        let (owner, done) = match found {
            Ok(found) if !runtime_places::may_be_of(found.owner.0, at) => {
                let (path, owner) = (at.display(), found.owner.0);
                (
                    owner_of_folder(at),
                    refused(NoPlan::Unusable(format!("{path}: a link leads to a plan of user {owner}"))),
                )
            }
            Ok(found) if !found.is_own() && effective_user() == 0 => {
                let owner = found.owner.0;
                let (done, holding) = self.others.entry(owner).or_default().carry_out(found, manner);
                self.owners.extend(holding);
                (owner, done)
            }
            Ok(found) => return self.carried_out.extend(self.done.carry_out(found, manner)),
            Err(why) => (owner_of_folder(at), refused(why)),
        };
        self.add(owner, done);
    }

    fn read_back(&mut self, manner: Manner) {
        self.done.read_back(std::mem::take(&mut self.carried_out), manner);
    }

    fn add(&mut self, owner: u32, done: Done) {
        match effective_user() == 0 && owner != 0 {
            true => self.others.entry(owner).or_default().add(owner, done, &mut self.done),
            false => self.done.extend(done),
        }
    }
}

/// The plans found in the place of another user's login.
struct Login {
    plans: Vec<(PathBuf, Result<FoundPlan, NoPlan>)>,
    kept: Vec<PathBuf>,
}

impl Login {
    /// Reads the place, and opens the plans in it. May hang.
    fn at(place: &Path) -> Self {
        let is_there = runtime_places::is_place_of_its_user(place);
        let (plans, kept) = if is_there { runtime::plans_in(place) } else { Default::default() };
        let open = |path: PathBuf| (path.clone(), FoundPlan::open(&path));
        Self { plans: plans.into_iter().map(open).collect(), kept }
    }
}

/// The user who controls this path. Below a login, finds out without accessing any file.
fn owner_of_folder(path: &Path) -> u32 {
    if let Some(user) = runtime_places::user_of_login(path) {
        return user;
    }
    let folder = path.parent().and_then(|folder| folder.symlink_metadata().ok());
    folder.map_or(0, |facts| facts.uid())
}

/// Prints what has failed so far; the exit code reports it again.
fn print_failed(done: &Done) -> Result<(), Stop> {
    match end(done).err().and_then(|stop| stop.text(false)) {
        Some((text, _)) => print(&(text + "\n")),
        None => Ok(()),
    }
}

fn wait_for_the_end() -> Result<(), Stop> {
    let ended = end_flag().map_err(|error| Stop::Fault(format!("cannot wait for SIGTERM: {error}")))?;
    while !ended.load(Ordering::Relaxed) {
        pause(LOOK_EVERY);
    }
    Ok(())
}

/// The result at the end of the command.
fn end(done: &Done) -> Result<(), Stop> {
    match (&done.failed[..], &done.held[..]) {
        ([], []) => Ok(()),
        ([], held) => Err(Stop::Permission(format!("outputs that are not written: {}", joined(held.iter())))),
        (failed, held) => {
            let all = joined(failed.iter().chain(held));
            Err(Stop::Unwell(format!("not every output has its safe value: {all}")))
        }
    }
}

/// Joins the texts into one line, whatever they contain.
fn joined<'a>(all: impl Iterator<Item = &'a String>) -> String {
    all.map(|what| visible_line(what)).collect::<Vec<_>>().join("; ")
}
