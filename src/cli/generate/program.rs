//! hertzd(8): generated from the command line, plus files, environment and signals.

use super::page::Page;
use crate::cli::{EXIT_CODES, SYSTEM_CONFIG};
use crate::program;
use clap::{Arg, Command};
use roff::{bold, italic, roman};

const DESCRIPTION: &[&str] = &[
    "Each task has a rate. Its ticks lie on a grid of exact instants, the releases, that are computed from the index \
     of the tick and never drift. Tasks share workers: threads that may be pinned to a CPU and run at a real-time \
     priority. A release without a tick that ends by its deadline is missed. All that was missed is counted with \
     its cause, and the log says so, once a second at most for each task. What happens to releases that came up in the \
     meantime is the task's choice.",
    "Without a privilege for real-time scheduling the tasks still run, with more lateness. The log and the summary show \
     what the kernel granted.",
];

const FILES: &[(&str, &str)] = &[
    (SYSTEM_CONFIG, "The configuration, unless one is named. See hertzd.toml(5)."),
    ("/etc/hertzd/hertzd.d/*.toml", "Additions and changes to it, read in the order of their names."),
    (
        "/run/hertzd/status.sock",
        "Sends one JSON snapshot of the running service on each connection, and reads nothing. In $RUNTIME_DIRECTORY. Only members of the group hertzd-status, the service's user and root may connect.",
    ),
    (
        "/run/hertzd/flight, /run/hertzd/flight.prev",
        "The latest ticks of the running service, and of the process before it, for `hertzd trace`.",
    ),
    ("/var/lib/hertzd", "Working directory of the service: recordings with a relative path are here."),
    (
        "/usr/lib/systemd/system/hertzd.service",
        "The service, with a comment on each setting. Change it with `systemctl edit hertzd`.",
    ),
];

/// Files of hertzd's package that another program's package need not have.
const FILES_OF_HERTZD: &[(&str, &str)] = &[
    (
        "/usr/lib/systemd/system/hertzd-exporter.service",
        "`hertzd exporter` as a service, which is not enabled by default.",
    ),
    (
        "/usr/share/doc/hertzd/monitoring",
        "A Grafana dashboard and alert rules for Prometheus, and what each metric says.",
    ),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "HERTZD_LOG",
        "Log level where --log-level is not given: error, warn, info (the default), debug or trace; or target=level pairs.",
    ),
    (
        "NOTIFY_SOCKET, WATCHDOG_USEC",
        "Set by systemd. hertzd reports readiness and state there, and feeds the watchdog only while every worker advances.",
    ),
    (
        "JOURNAL_STREAM",
        "Set by systemd when the log goes to the journal: entries then have their own fields, such as HERTZD_TASK.",
    ),
    ("RUNTIME_DIRECTORY", "Set by systemd: the directory of the status socket and the flight file."),
    (
        "XDG_RUNTIME_DIR",
        "Without RUNTIME_DIRECTORY: both are in hertzd/PID below it; for root, without one that belongs to root, in /run/hertzd-root/PID.",
    ),
];

const SIGNALS: &[(&str, &str)] = &[
    (
        "SIGTERM, SIGINT",
        "Stop: hertzd finishes the current ticks, writes out recordings and prints the summary. A second signal ends \
         it at once.",
    ),
    (
        "SIGHUP",
        "Read the configuration again. Unchanged tasks keep their grid and index; a configuration with problems \
         changes nothing.",
    ),
];

pub(super) fn page(mut command: Command, version: &str) -> String {
    command.build();
    let text = |text: Option<&clap::builder::StyledStr>| text.map_or_else(String::new, ToString::to_string);
    let about = text(command.get_about());
    let mut page = Page::new(program::name(), "8", version, about.trim_end_matches('.'));
    page.section("SYNOPSIS");
    let lines: Vec<_> = command.get_subcommands().cloned().map(usage).collect();
    page.literal(lines.iter().map(String::as_str));
    page.section("DESCRIPTION");
    DESCRIPTION.iter().for_each(|text| page.paragraph(text));
    page.section("COMMANDS");
    for sub in command.get_subcommands() {
        page.subsection(&format!("{} {}", program::name(), sub.get_name()));
        page.paragraph(&format!("{}.", text(sub.get_about()).trim_end_matches('.')));
        for argument in sub.get_arguments().filter(|argument| argument.get_id() != "help" && !argument.is_hide_set()) {
            describe(&mut page, argument);
        }
        page.help(&text(sub.get_after_help()));
    }
    page.section("FILES");
    page.items(FILES);
    if program::is_hertzd() {
        page.items(FILES_OF_HERTZD);
    }
    page.section("EXIT STATUS");
    for (code, text) in EXIT_CODES {
        page.item([bold(code.to_string())], text);
    }
    page.section("ENVIRONMENT");
    page.items(ENVIRONMENT);
    page.section("SIGNALS");
    page.items(SIGNALS);
    page.section("SEE ALSO");
    page.paragraph("hertzd.toml(5), journalctl(1), systemctl(1), sched(7), chrt(1)");
    page.render()
}

/// Formats the usage: `hertzd run [OPTIONS] [CONFIG]`
fn usage(mut command: Command) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.split_whitespace().skip(1); // "Usage:"
    usage.collect::<Vec<_>>().join(" ")
}

fn describe(page: &mut Page, argument: &Arg) {
    let mut head = Vec::new();
    if let Some(short) = argument.get_short() {
        head.extend([bold(format!("-{short}")), roman(", ")]);
    }
    let names = argument.to_string(); // "--for <DURATION>", "[CONFIG]"
    match names.split_once(' ') {
        Some((name, value)) => head.extend([bold(name), roman(" "), italic(value)]),
        None if argument.is_positional() => head.push(italic(names)),
        None => head.push(bold(names)),
    }
    let mut about = argument.get_help().map_or_else(String::new, ToString::to_string);
    if argument.get_action().takes_values() {
        let choices = argument.get_possible_values().iter().map(|choice| choice.get_name().to_owned()).collect();
        let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        let lists: [(&str, Vec<String>); 2] = [("one of", choices), ("default", defaults)];
        for (what, words) in lists.into_iter().filter(|(_, words)| !words.is_empty()) {
            about += &format!(" [{what}: {}]", words.join(", "));
        }
    }
    page.item(head, &about);
}
