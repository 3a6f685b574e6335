//! `hertzd status` and `hertzd reload`: talking to the running daemon.
//!
//! Its status socket can only be read; requests are signals. Both commands block, with a limit.

use super::stop::CONFIGURATION;
use super::{Stop, print};
use crate::daemon::DaemonSummary;
use crate::log::journal;
use crate::sys::clock::pause;
use crate::sys::peer::Peer;
use crate::time::Span;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

pub(super) const SERVICE_SOCKET: &str = "/run/hertzd/status.sock";

/// How often a daemon is asked whether it has reloaded.
const ASK_EVERY: Span = Span::from_millis(20);

/// How long a daemon may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct SocketArg {
    /// The daemon's status socket
    #[arg(long, value_name = "PATH", default_value = SERVICE_SOCKET)]
    socket: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd status                 a line on the daemon, one on each task\n  \
    hertzd status --json | jq     the whole snapshot")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Print the snapshot as it comes, in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd check --against-running && hertzd reload\n\n\
    Waits until the daemon runs the new configuration, or has refused it: then\n\
    the exit status is 78, and the old configuration stays in force.")]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// How long to wait for the daemon's answer
    #[arg(long, value_name = "DURATION", value_parser = super::span, default_value = "30s")]
    timeout: Span,
}

impl SocketArg {
    pub(super) fn is(&self, path: &str) -> bool {
        self.socket.as_os_str() == path
    }
}

/// The parts of a snapshot that these commands read.
#[derive(Debug, Deserialize)]
pub(super) struct Seen {
    pub(super) daemon: DaemonSummary,
    workers: Vec<Value>,
    tasks: Vec<Value>,
}

pub(super) fn status(args: &StatusArgs) -> Result<(), Stop> {
    let text = fetch(&args.socket)?;
    if args.json {
        return print(&text);
    }
    let Seen { daemon, workers, tasks } = parse(&text)?;
    let mut shown = String::new();
    // Writing to a String does not fail, here and below.
    let (running, state) = (Span::from_nanos(daemon.running_ns), if daemon.ready { "ready" } else { "starting" });
    let _ = writeln!(shown, "hertzd {}, process {}, running for {running}, {state}", daemon.version, daemon.pid);
    if daemon.reloads > 0 {
        let refused = if daemon.last_reload_refused { "was refused" } else { "succeeded" };
        let _ =
            writeln!(shown, "reloads: {}, refused: {}; the last one {refused}", daemon.reloads, daemon.reloads_refused);
    }
    for worker in &workers {
        let [name, policy, priority] =
            ["/worker", "/granted/policy", "/granted/priority"].map(|pointer| text_at(worker, pointer));
        let share = worker.pointer("/cpu_share").and_then(Value::as_f64).unwrap_or_default() * 100.0;
        let _ = writeln!(shown, "worker {name}: {policy} {priority}, {share:.1} % of a CPU");
    }
    for task in &tasks {
        let span = |pointer| Span::from_nanos(task.pointer(pointer).and_then(Value::as_i64).unwrap_or_default());
        let [name, ran, skipped, overruns, errors] =
            ["/task", "/ran", "/skipped", "/overruns", "/errors"].map(|pointer| text_at(task, pointer));
        let late = format!("late p99 {}, max {}", span("/lateness_ns/p99"), span("/lateness_ns/max"));
        let disabled = if task["disabled"] == true { "; disabled" } else { "" };
        let counts = format!("ran {ran}, skipped {skipped}, {overruns} overruns, {errors} errors");
        let _ = writeln!(shown, "task {name}: {counts}; {late}{disabled}");
    }
    print(&shown)
}

pub(super) fn reload(args: &ReloadArgs) -> Result<(), Stop> {
    let (daemon, before) = daemon(&args.socket)?;
    let id = daemon.id();
    let refused = |reason| format!("cannot ask process {id} to reload: {reason}; run this as root or as its user");
    daemon.ask_for_reload().map_err(|reason| Stop::Permission(refused(reason)))?;
    let tries = args.timeout.nanos() / ASK_EVERY.nanos() + 1;
    for _ in 0..tries {
        pause(ASK_EVERY);
        let text = fetch(&args.socket)?;
        if held_up(&text).is_some() {
            continue;
        }
        let now = parse(&text)?.daemon;
        if now.pid != before.pid {
            return Err(Stop::Fault("the daemon was restarted during the reload".into()));
        }
        // One that had begun before may have read the old files.
        if now.reloads <= before.reloads_begun {
            continue;
        }
        // In the unit's journal the daemon's own entry says it already.
        let is_logged = journal::stderr_leads_there();
        return match now.last_reload_refused {
            false if is_logged => Ok(()),
            true if is_logged => Err(Stop::Logged(CONFIGURATION)),
            false => print(&format!("reloaded: {}\n", now.last_reload)),
            true => Err(Stop::Refused(now.last_reload)),
        };
    }
    Err(Stop::Fault(format!("process {} has not reloaded within {}", id, args.timeout)))
}

/// The process that listens at the socket, and what it says about itself. Whom to signal comes from the kernel: anyone may
/// listen there and name any process.
fn daemon(socket: &SocketArg) -> Result<(Peer, DaemonSummary), Stop> {
    let stream = connect(socket)?;
    let fault = |text: String| Stop::Fault(format!("{}: {text}; nothing was signalled", socket.socket.display()));
    let peer = Peer::of(&stream)
        .map_err(|reason| fault(format!("cannot identify the process that listens here: {reason}")))?;
    // Its answer comes after `Peer::of`: so it is still the same process.
    let Seen { daemon, .. } = parse(&answer(socket, stream)?)?;
    match peer.calls_itself(daemon.pid) {
        Ok(true) => Ok((peer, daemon)),
        Ok(false) => {
            Err(fault(format!("process {} listens here, but its answer names process {}", peer.id(), daemon.pid)))
        }
        Err(reason) => Err(fault(format!("cannot compare process {} with its answer: {reason}", peer.id()))),
    }
}

/// One snapshot of the running daemon.
pub(super) fn read(socket: &SocketArg) -> Result<Seen, Stop> {
    parse(&fetch(socket)?)
}

fn fetch(socket: &SocketArg) -> Result<String, Stop> {
    answer(socket, connect(socket)?)
}

fn connect(SocketArg { socket }: &SocketArg) -> Result<UnixStream, Stop> {
    // On a thread of its own: a daemon that is stopped, with a full queue of connections, would never let it return.
    let (path, (reply, answer)) = (socket.clone(), mpsc::channel());
    std::thread::spawn(move || reply.send(UnixStream::connect(path)));
    let shown = socket.display();
    let connected = answer.recv_timeout(ANSWER_WITHIN).map_err(|_| {
        Stop::Fault(format!(
            "{shown}: no connection within {} s: the daemon hangs, or is stopped",
            ANSWER_WITHIN.as_secs()
        ))
    })?;
    connected.map_err(|reason| {
        let start = match socket.as_os_str() == SERVICE_SOCKET {
            true => "`sudo systemctl start hertzd` starts the service; name the socket of another daemon with --socket"
                .into(),
            false => format!("`hertzd run --status-socket {shown}` starts one"),
        };
        Stop::Unavailable(format!("no daemon answers at {shown}: {reason}; {start}"))
    })
}

fn answer(SocketArg { socket }: &SocketArg, mut stream: UnixStream) -> Result<String, Stop> {
    let mut text = String::new();
    let read = stream.set_read_timeout(Some(ANSWER_WITHIN)).and_then(|()| stream.read_to_string(&mut text));
    let why = match read {
        Ok(_) if !text.is_empty() => return Ok(text),
        Ok(_) => "the daemon closed the connection without an answer: it is starting or stopping".to_owned(),
        Err(reason) => format!("no answer from the daemon: {reason}"),
    };
    Err(Stop::Fault(format!("{}: {why}", socket.display())))
}

/// Why the daemon cannot answer for now, if that is what its answer says.
fn held_up(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct HeldUp {
        error: String,
    }
    serde_json::from_str(text).ok().map(|HeldUp { error }| error)
}

fn parse(text: &str) -> Result<Seen, Stop> {
    if let Some(why) = held_up(text) {
        return Err(Stop::Fault(format!("the daemon runs but cannot answer yet: {why}; try again")));
    }
    serde_json::from_str(text).map_err(|error| Stop::Fault(format!("cannot understand the daemon's answer: {error}")))
}

fn text_at(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".into(),
    }
}
