//! Command lines that are right for other programs: each is answered with the one that does the same here. Text only.

use super::Stop;
use super::running::process;
use super::socket::SocketArg;
use super::terminal::say;
use crate::program::{name, own};
use clap::Args;
use std::ffi::OsString;
use std::path::Path;

/// First words that are no command of ours, and what to do instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["start", "daemon", "serve", "--daemon", "-d", "-D", "--foreground", "-f"],
        "`hertzd run [CONFIG]` runs the tasks in this terminal until Ctrl-C; `sudo systemctl start hertzd` starts the service",
    ),
    (
        &["restart"],
        "`sudo systemctl restart hertzd` restarts the service; `hertzd reload` makes it read its configuration again \
         without a stop",
    ),
    (
        &["kill", "quit", "end", "shutdown", "terminate", "halt"],
        "`sudo systemctl stop hertzd` stops the service; `hertzd stop --socket PATH` says which signal to which process stops \
         another daemon",
    ),
    (&["validate", "verify", "test", "lint", "configtest", "-t", "--check", "--test"], "write `hertzd check [CONFIG]`"),
    (
        &["list", "ls", "scan", "detect"],
        "`hertzd devices` lists the sensors, buses, lines, cards and cameras of this machine",
    ),
    (
        &["logs", "journal", "events"],
        "`hertzd log` shows what the daemon has logged; `hertzd log --follow` goes on with it",
    ),
    #[cfg(not(feature = "top"))]
    (
        &["top"],
        "this build has no live view: `hertzd status` shows how each task is doing; `watch hertzd status` repeats it",
    ),
    (
        &["stats", "info", "show", "health", "monitor", "watch", "htop"],
        "`hertzd status` shows how each task is doing; `hertzd top` shows it live",
    ),
    (
        &["diagnose", "setup"],
        "`hertzd doctor [CONFIG]` says what keeps the tasks from being on time here, and the line that mends it",
    ),
    (
        &["cyclictest", "hwlatdetect", "latency", "jitter", "bench", "benchmark"],
        "`hertzd measure` shows how late this machine wakes a thread, and how late ticks start",
    ),
    (&["metrics", "prometheus", "export"], "`hertzd exporter` serves the numbers of the running daemon to Prometheus"),
    (&["-v"], "`hertzd version` prints the version; `hertzd run --log-level debug` logs more"),
];

/// The options of other programs, and what to write after `run` instead.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["-v", "-vv", "--verbose", "--debug"], "`--log-level debug` logs more, `--log-level trace` every tick"),
    (
        &["-d", "-D", "--daemon", "--daemonize", "--background"],
        "`hertzd run` stays in the foreground; `sudo systemctl start hertzd` starts the service",
    ),
    (&["-q", "--quiet", "--silent"], "`--log-level error` logs errors only"),
    (&["-t", "--time", "--duration", "--seconds", "-n"], "`--for 10s` sets how long it runs"),
    (&["-o", "--output", "--output-file"], "results go to stdout: `> FILE` writes them to a file"),
];

/// What to do instead of a command line that was not understood, of which `words` are the arguments.
pub(super) fn advice(words: &[OsString]) -> Option<String> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (first, rest) = words.split_first()?;
    let of = |table: &[(&[&str], &str)], word: &str| {
        table.iter().find(|(known, _)| known.contains(&word)).map(|(_, advice)| own(advice).into_owned())
    };
    if let Some(advice) = of(COMMANDS, first) {
        return Some(advice);
    }
    if let Some(file) = first.strip_prefix("--config=").or_else(|| file_after(first, rest)) {
        return Some(format!(
            "write a command first: `{} run {file}` runs it, `{} check {file}` checks it",
            name(),
            name()
        ));
    }
    if first.starts_with('-') {
        return Some(format!("write a command first: `{} run {}`", name(), words.join(" ")));
    }
    match first.as_str() {
        "run" => rest.iter().find_map(|word| of(OPTIONS, word)),
        "status" | "reload" | "stop" => {
            let names_a_file = |word: &String| word == "-c" || word.starts_with("--config") || word.ends_with(".toml");
            let named = rest.iter().any(names_a_file) && !rest.iter().any(|word| word.starts_with("--socket"));
            named.then(|| {
                format!(
                    "a daemon is known by its socket, and keeps the configuration it was started with: write `{name} \
                     {first}` for the service, `{name} {first} --socket PATH` for another one",
                    name = name()
                )
            })
        }
        _ => None,
    }
}

/// Prints what was wrong, with this advice instead of clap's.
pub(super) fn print(error: &clap::Error, advice: &str) {
    let text = error.to_string();
    let wrong = text.lines().next().unwrap_or_default();
    say(&format!("{wrong}\n\n  tip: {advice}\n\nFor more information, try '--help'."));
}

/// The file that a command line without a command is about.
fn file_after<'a>(first: &'a str, rest: &'a [String]) -> Option<&'a str> {
    match first {
        "--config" | "-c" => Some(rest.first().map_or("FILE", String::as_str)),
        _ if first == "-" || first.ends_with(".toml") || Path::new(first).is_file() => Some(first),
        _ => None,
    }
}

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    socket: SocketArg,
}

/// The status socket can only be read, and a stop is a signal: says which.
pub(super) fn stop(args: &StopArgs) -> Result<(), Stop> {
    let pid = process(&args.socket)?;
    let service = match args.socket.is_of_service() {
        true => "`sudo systemctl stop hertzd` stops the service; ",
        false => "",
    };
    Err(Stop::Usage(format!(
        "process {pid} runs and was not stopped: {service}`kill {pid}` (SIGTERM) stops it, as root or as its user; a \
         second signal ends it at once, without a summary"
    )))
}
