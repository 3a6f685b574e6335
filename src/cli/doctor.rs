//! `hertzd doctor`: tries what a start would do, and reports what keeps the configured tasks from being on time, with the line that fixes
//! it.

mod report;

use super::stop::UNWELL;
use super::terminal::{Shown, note, print_json};
use super::{App, ConfigArg, Source, Stop};
use crate::config::Problems;
use crate::daemon::{examined, service_view};
use crate::doctor::{ServiceView, Weight, examine};
use crate::program;
use crate::sys::other_user::run_as_service;
use crate::sys::user::service_user;
use clap::Args;
use report::{Report, as_json, as_text};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd doctor                       for the service's configuration\n  \
    sudo hertzd doctor                  also what the service's user may open\n  \
    hertzd doctor my.toml --all         with what is well, in full\n  \
    hertzd doctor my.toml --json | jq -r '.findings[].mend[].line'\n\n\
    Asks the kernel for what a start would ask for, on threads like those of \
    the workers, and reads what else decides how late ticks are. Nothing is \
    changed, no task is built, and no device is taken. The worst comes first: \
    what was tried, what came back, what it means for the configured tasks, \
    and the lines that mend it, of which each is enough alone. Exits with 1 if \
    something that is configured cannot work, 78 if the configuration is wrong.")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Print the findings as one JSON object
    #[arg(long)]
    json: bool,
    /// Also print in full what is well
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Answer root, as a process of the service's user
    #[arg(long, hide = true)]
    as_service: bool,
}

pub(super) fn doctor(app: &App, args: &DoctorArgs) -> Result<(), Stop> {
    let source = Source::of(&args.config);
    if args.as_service {
        return print_json(&service_view(app.load(&source), source.of_service().is_some_and(Path::is_absolute)));
    }
    let load = || app.load(&source).map_err(|problems: Problems| problems.ending_in("nothing was tried"));
    let mut config = load()?;
    let again = if matches!(source, Source::StandardInput) { None } else { load().ok() };
    let is_of_service = source.of_service().is_some();
    let view = source.of_service().and_then(view_of_service);
    let facts = examined(&mut config, again, is_of_service, view);
    let findings = examine(&config, &facts);
    let report = Report { configuration: source.to_string(), uid: facts.rights.uid, findings: &findings };
    let shown = match args.json {
        true => Shown::json(as_json(&report)?),
        false => Shown::styled(|coloured| program::owned(as_text(&report, args.all, coloured))),
    };
    shown.print_beside_verdict()?;
    // The findings already give the reason.
    match findings.iter().any(|finding| finding.weight == Weight::Fails) {
        true => Err(Stop::Logged(UNWELL)),
        false => Ok(()),
    }
}

/// For root: how the service's configuration looks to a process of the service's user, so that no plugin of that user runs as root. `None`:
/// there is no such process, or it gave no answer.
fn view_of_service(path: &Path) -> Option<ServiceView> {
    let arguments = ["doctor", "--as-service", "--config"].map(OsString::from).into_iter().chain([path.into()]);
    // From another folder, a relative path would mean another file.
    let output = run_as_service(&arguments.collect::<Vec<_>>(), path.is_absolute());
    if let Err(error) = &output
        && error.kind() == ErrorKind::TimedOut
    {
        note(&format!(
            "cannot tell what the service's user {} may open; the process that looked as that user failed: {error}",
            service_user()
        ));
    }
    let output = output.ok()??;
    serde_json::from_slice(&output.stdout).ok()
}
