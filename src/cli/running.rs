//! `hertzd status` and `hertzd reload`: talking to the running daemon.
//!
//! Its status socket can only be read; requests are signals. Both commands block, with a limit.

use super::stop::{CONFIGURATION, UNWELL, coloured, print_while_time_is_left};
use super::{Stop, print};
use crate::daemon::DaemonSummary;
use crate::log::journal;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::peer::Peer;
use crate::time::{Clock, Span};
use crate::views;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

pub(super) const SERVICE_SOCKET: &str = "/run/hertzd/status.sock";

/// How often a daemon is asked whether it has reloaded.
const ASK_EVERY: Span = Span::from_millis(20);

/// How long a daemon may take for an answer; `status` gives it less, with room for the start of the program.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const STATUS_WITHIN: Span = Span::from_millis(1_900);

/// How long `status` may take in all, with a reader that stalls too.
const STATUS_OVER: Span = Span::from_seconds(2);

#[derive(Clone, Debug, Args)]
pub(super) struct SocketArg {
    /// The daemon's status socket
    #[arg(long, value_name = "PATH", default_value = SERVICE_SOCKET)]
    socket: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd status                      is all well, and how is each task doing?\n  \
    hertzd status --json | jq .reason  why not, from the whole snapshot\n\n\
    Exit codes: 0 all is well; 1 not all is well; 69 no daemon answers. It waits\n\
    for 2 s at most.")]
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

/// What `status` reads first. An answer of any version has a part of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Brief {
    error: Option<String>,
    well: Option<bool>,
    daemon: BriefDaemon,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BriefDaemon {
    sentence: String,
}

/// The parts of a snapshot that these commands read.
#[derive(Debug, Deserialize)]
pub(super) struct Seen {
    pub(super) daemon: DaemonSummary,
}

/// What is known of the answer so far.
struct Shown {
    text: String,
    well: Option<bool>, // None: it does not say
}

/// Has its answer after [`STATUS_WITHIN`], whether the daemon is slow or the machine too busy to read its answer. Where only the table
/// is missing by then, the sentence is shown without it.
pub(super) fn status(args: &StatusArgs) -> Result<(), Stop> {
    let (socket, json, emphasis) = (args.socket.clone(), args.json, coloured(&io::stdout()));
    let (say, said) = mpsc::channel();
    let asking = move || {
        let result = ask_for_status(&socket, json, emphasis, |brief| _ = say.send(Ok(brief)));
        say.send(result)
    };
    let clock = KernelClock::monotonic();
    let begun = clock.now();
    let end = begun + STATUS_WITHIN;
    std::thread::spawn(asking);
    let mut latest = None;
    while let Ok(shown) = said.recv_timeout(duration(end - clock.now())) {
        latest = Some(shown);
    }
    let Shown { text, well } = latest.unwrap_or_else(|| {
        Err(silent(&args.socket, "the daemon has not finished its answer", duration(STATUS_WITHIN)))
    })?;
    print_while_time_is_left(&text, STATUS_OVER, || begun + STATUS_OVER - clock.now())?;
    match well {
        Some(true) => Ok(()),
        Some(false) => Err(Stop::Logged(UNWELL)), // the first line has said why
        None => Err(Stop::Fault(format!(
            "what answers at {} does not say whether all is well: it is another version of hertzd, or another program",
            args.socket.socket.display()
        ))),
    }
}

/// Asks the daemon; calls `so_far` with the sentence before it makes the table.
fn ask_for_status(socket: &SocketArg, json: bool, emphasis: bool, so_far: impl FnOnce(Shown)) -> Result<Shown, Stop> {
    // Each step has a little less, so that it can say which one it was.
    let each = duration(STATUS_WITHIN).mul_f64(0.9);
    let text = answer(socket, connect(socket, each)?, each)?;
    let Brief { error, well, daemon: BriefDaemon { sentence } } =
        serde_json::from_str(&text).map_err(not_understood)?;
    if let Some(why) = error {
        return Err(Stop::Unwell(format!("the daemon runs but cannot answer yet: {why}; try again")));
    }
    if json {
        return Ok(Shown { text, well });
    }
    let mut brief = views::sentence(&sentence, well != Some(false), emphasis);
    brief += "(there was no time to show more: the machine is busy)\n";
    so_far(Shown { text: brief, well });
    let snapshot: Value = serde_json::from_str(&text).map_err(not_understood)?;
    Ok(Shown { text: views::status(&snapshot, emphasis), well })
}

pub(super) fn reload(args: &ReloadArgs) -> Result<(), Stop> {
    let (daemon, before) = daemon(&args.socket)?;
    let id = daemon.id();
    let refused = |reason| format!("cannot ask process {id} to reload: {reason}; run this as root or as its user");
    daemon.ask_for_reload().map_err(|reason| Stop::Permission(refused(reason)))?;
    let (clock, mut sentence) = (KernelClock::monotonic(), before.sentence);
    let end = clock.now() + args.timeout;
    while clock.now() < end {
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
            sentence = now.sentence;
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
    Err(Stop::Fault(format!("process {id} has not reloaded within {}, but still may: {sentence}", args.timeout)))
}

/// The process that listens at the socket, and what it says about itself. Whom to signal comes from the kernel: anyone may
/// listen there and name any process.
fn daemon(socket: &SocketArg) -> Result<(Peer, DaemonSummary), Stop> {
    let stream = connect(socket, ANSWER_WITHIN)?;
    let fault = |text: String| Stop::Fault(format!("{}: {text}; nothing was signalled", socket.socket.display()));
    let peer = Peer::of(&stream)
        .map_err(|reason| fault(format!("cannot identify the process that listens here: {reason}")))?;
    // Its answer comes after `Peer::of`: so it is still the same process.
    let Seen { daemon, .. } = parse(&answer(socket, stream, ANSWER_WITHIN)?)?;
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
    answer(socket, connect(socket, ANSWER_WITHIN)?, ANSWER_WITHIN)
}

fn connect(SocketArg { socket }: &SocketArg, patience: Duration) -> Result<UnixStream, Stop> {
    // On a thread of its own: a daemon that is stopped, with a full queue of connections, would never let it return.
    let (path, (reply, answer)) = (socket.clone(), mpsc::channel());
    std::thread::spawn(move || reply.send(UnixStream::connect(path)));
    let connected = answer.recv_timeout(patience);
    let connected = connected
        .map_err(|_| silent(&SocketArg { socket: socket.clone() }, "the daemon takes no connection", patience))?;
    connected.map_err(|reason| {
        let shown = socket.display();
        let start = match socket.as_os_str() == SERVICE_SOCKET {
            true => "`sudo systemctl start hertzd` starts the service; name the socket of another daemon with --socket"
                .into(),
            false if is_something_else(socket) => "it is no socket; name that of a daemon with --socket".into(),
            false => format!("`hertzd run --status-socket {shown}` starts one"),
        };
        Stop::Unavailable(format!("no daemon answers at {shown}: {reason}; {start}"))
    })
}

fn is_something_else(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.file_type().is_socket())
}

fn answer(socket: &SocketArg, mut stream: UnixStream, patience: Duration) -> Result<String, Stop> {
    let mut text = String::new();
    let read = stream.set_read_timeout(Some(patience)).and_then(|()| stream.read_to_string(&mut text));
    let shown = socket.socket.display();
    match read {
        Ok(_) if !text.is_empty() => Ok(text),
        Ok(_) => Err(Stop::Unavailable(format!(
            "no daemon answers at {shown}: it closed the connection, as one does that is starting or stopping; try again"
        ))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let who = Peer::of(&stream).map_or("the daemon".into(), |peer| format!("process {}", peer.id()));
            Err(silent(socket, &format!("{who} listens there and does not answer"), patience))
        }
        Err(reason) => Err(Stop::Unavailable(format!("no daemon answers at {shown}: {reason}"))),
    }
}

/// Nothing for one that is over.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.max(Span::ZERO).nanos().unsigned_abs())
}

/// It runs, and says nothing.
fn silent(SocketArg { socket }: &SocketArg, what: &str, patience: Duration) -> Stop {
    Stop::Unavailable(format!(
        "no daemon answers at {}: {what} for {:.1} s; it hangs, or was stopped (SIGSTOP, a frozen cgroup)",
        socket.display(),
        patience.as_secs_f64()
    ))
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
    serde_json::from_str(text).map_err(not_understood)
}

fn not_understood(error: serde_json::Error) -> Stop {
    Stop::Fault(format!("cannot understand the daemon's answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_sentence_comes_before_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let socket = SocketArg { socket: folder.path().join("s") };
        let listener = UnixListener::bind(&socket.socket).unwrap();
        let answer = r#"{"well":false,"tasks":[{"task":"a"}],"daemon":{"pid":7,"sentence":"not well: a rains"}}"#;
        let answering = std::thread::spawn(move || listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap());
        let mut brief = None;
        let full = ask_for_status(&socket, false, false, |shown| brief = Some(shown));
        answering.join().unwrap();
        let (brief, full) = (brief.unwrap(), full.ok().unwrap());
        assert!(
            brief.text.starts_with("not well: a rains\n(there was no time ") && brief.well == Some(false),
            "{}",
            brief.text
        );
        assert!(
            full.text.starts_with("not well: a rains\nhertzd ?, process 7") && full.well == Some(false),
            "{}",
            full.text
        );
    }
}
