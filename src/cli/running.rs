//! `hertzd status` and `hertzd reload`: talking to the running daemon.
//!
//! Its status socket can only be read; requests are signals. Both commands block, with a limit.

use super::stop::{CONFIGURATION, UNWELL, coloured, print_while_time_is_left};
use super::{Stop, print, runtime};
use crate::daemon::DaemonSummary;
use crate::log::journal;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::peer::{self, Peer};
use crate::time::{Clock, Span};
use crate::views;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
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
    /// The daemon's status socket; where the service does not run, that of the only daemon that does
    #[arg(long, value_name = "PATH", default_value = SERVICE_SOCKET)]
    socket: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd status                      is all well, and how is each task doing?\n  \
    hertzd status --json | jq .reason  why not, from the whole snapshot\n  \
    hertzd status --follow | jq -c .tasks[].missed\n                                     \
    a snapshot a second, for programs\n\n\
    Exit codes: 0 all is well; 1 not all is well; 69 no daemon answers, or\n\
    not wholly in time. It waits for 2 s at most. --follow: 0 when the daemon\n\
    has ended or its lines are no longer read; 69 there is none, or it hangs.")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) socket: SocketArg,
    /// Print the snapshot as it comes, in JSON
    #[arg(long)]
    json: bool,
    /// Print a snapshot every second, each as one line of JSON, until the daemon ends
    #[arg(long)]
    pub(super) follow: bool,
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

    /// Where it is.
    #[cfg(any(feature = "exporter", feature = "top"))]
    pub(super) fn path(&self) -> &Path {
        &self.socket
    }

    /// Whether anyone listens there. Never waits, unlike a connection to a daemon whose queue of them is full: a datagram socket
    /// is refused at once.
    pub(super) fn is_listened_at(&self) -> bool {
        let refused = UnixDatagram::unbound().and_then(|socket| socket.connect(&self.socket));
        refused.is_err_and(|error| error.raw_os_error() == Some(libc::EPROTOTYPE))
    }

    /// The socket of the daemon that is meant: where none is named and the service does not run, that of the only one in the
    /// foreground.
    pub(super) fn found(&self) -> Result<Self, Stop> {
        if !self.is(SERVICE_SOCKET) || peer::may_listen(&self.socket) {
            return Ok(self.clone());
        }
        let mut others = runtime::foreground_sockets();
        others.retain(|path| peer::may_listen(path));
        match &others[..] {
            [] => Ok(self.clone()),
            [only] => Ok(Self { socket: only.clone() }),
            _ => {
                let lines = others.iter().map(|path| format!("\n  --socket {}", path.display())).collect::<String>();
                Err(Stop::Usage(format!(
                    "the service does not run, but {} other daemons do: name one{lines}",
                    others.len()
                )))
            }
        }
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
    #[serde(default)]
    pub(super) flight: Option<SeenFlight>,
}

/// The daemon's flight file.
#[derive(Debug, Deserialize)]
pub(super) struct SeenFlight {
    pub(super) path: PathBuf,
}

/// What is known of the answer so far.
struct StatusText {
    text: String,
    well: Option<bool>, // None: it does not say
}

/// How far an answer has come.
#[derive(Clone, Debug, Default)]
enum Came {
    /// No connection was made.
    #[default]
    Nothing,
    /// This process listens.
    Connection(String),
    /// It has sent as many bytes.
    Part(String, usize),
    /// That was all of them.
    All(String, usize),
}

/// Has its answer after [`STATUS_WITHIN`], whether the daemon is slow or the machine too busy to read its answer. Where only the table
/// is missing by then, the sentence is shown without it.
pub(super) fn status(args: &StatusArgs) -> Result<(), Stop> {
    let found = args.socket.found()?;
    let (socket, json, emphasis) = (found.clone(), args.json, coloured(&io::stdout()));
    let (say, said) = mpsc::channel();
    let came = Arc::new(Mutex::new(Came::default()));
    let comes = came.clone();
    let asking = move || {
        let comes = |now| *comes.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let result = ask_for_status(&socket, json, emphasis, comes, |brief| _ = say.send(Ok(brief)));
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
    let StatusText { text, well } = latest.unwrap_or_else(|| {
        let came = came.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(late(&found, &came, duration(STATUS_WITHIN)))
    })?;
    print_while_time_is_left(&text, STATUS_OVER, || begun + STATUS_OVER - clock.now())?;
    match well {
        Some(true) => Ok(()),
        Some(false) => Err(Stop::Logged(UNWELL)), // the first line has said why
        None => Err(Stop::Fault(format!(
            "what answers at {} does not say whether all is well: it is another version of hertzd, or another program",
            found.socket.display()
        ))),
    }
}

/// Asks the daemon; calls `so_far` with the sentence before it makes the table.
fn ask_for_status(
    socket: &SocketArg,
    json: bool,
    emphasis: bool,
    comes: impl FnMut(Came),
    so_far: impl FnOnce(StatusText),
) -> Result<StatusText, Stop> {
    // Each step has a little less, so that it can say which one it was.
    let each = duration(STATUS_WITHIN).mul_f64(0.9);
    let text = answer(socket, connect(socket, each)?, each, comes)?;
    let Brief { error, well, daemon: BriefDaemon { sentence } } =
        serde_json::from_str(&text).map_err(not_understood)?;
    if let Some(why) = error {
        return Err(Stop::Unwell(format!("the daemon runs but cannot answer yet: {why}; try again")));
    }
    if json {
        return Ok(StatusText { text, well });
    }
    let mut brief = views::sentence(&sentence, well != Some(false), emphasis);
    brief += "(there was no time to show more: the machine is busy)\n";
    so_far(StatusText { text: brief, well });
    let snapshot: Value = serde_json::from_str(&text).map_err(not_understood)?;
    Ok(StatusText { text: views::status(&snapshot, emphasis), well })
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
    let socket = &socket.found()?;
    let stream = connect(socket, ANSWER_WITHIN)?;
    let fault = |text: String| Stop::Fault(format!("{}: {text}; nothing was signalled", socket.socket.display()));
    let peer = Peer::of(&stream)
        .map_err(|reason| fault(format!("cannot identify the process that listens here: {reason}")))?;
    // Its answer comes after `Peer::of`: so it is still the same process.
    let Seen { daemon, .. } = parse(&answer(socket, stream, ANSWER_WITHIN, drop)?)?;
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

/// One snapshot, as this part of it. A daemon that takes no connection, or stops in an answer, is given up after `patience` each.
#[cfg(feature = "top")]
pub(super) fn ask<T: serde::de::DeserializeOwned>(socket: &SocketArg, patience: Duration) -> Result<T, Stop> {
    let socket = &socket.found()?;
    let text = answer(socket, connect(socket, patience)?, patience, drop)?;
    serde_json::from_str(&text).map_err(not_understood)
}

pub(super) fn fetch(socket: &SocketArg) -> Result<String, Stop> {
    let socket = &socket.found()?;
    answer(socket, connect(socket, ANSWER_WITHIN)?, ANSWER_WITHIN, drop)
}

fn connect(SocketArg { socket }: &SocketArg, patience: Duration) -> Result<UnixStream, Stop> {
    // On a thread of its own: a daemon that is stopped, with a full queue of connections, would never let it return.
    let (path, (reply, answer)) = (socket.clone(), mpsc::channel());
    std::thread::spawn(move || reply.send(UnixStream::connect(path)));
    let connected = answer.recv_timeout(patience);
    let connected = connected.map_err(|_| late(&SocketArg { socket: socket.clone() }, &Came::Nothing, patience))?;
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

/// All that the daemon sends; `comes` learns how far that is.
fn answer(
    socket: &SocketArg,
    mut stream: UnixStream,
    patience: Duration,
    mut comes: impl FnMut(Came),
) -> Result<String, Stop> {
    let who = || Peer::of(&stream).map_or("the daemon".into(), |peer| format!("process {}", peer.id()));
    let (who, shown) = (who(), socket.socket.display());
    let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    comes(Came::Connection(who.clone()));
    let read = stream.set_read_timeout(Some(patience)).and_then(|()| {
        loop {
            match stream.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => text.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            comes(Came::Part(who.clone(), text.len()));
        }
    });
    match read {
        Ok(()) if text.is_empty() => Err(Stop::Unavailable(format!(
            "no daemon answers at {shown}: it closed the connection, as one does that is starting or stopping; try again"
        ))),
        Ok(()) => {
            comes(Came::All(who, text.len()));
            String::from_utf8(text)
                .map_err(|error| Stop::Fault(format!("cannot understand the daemon's answer: {error}")))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(match text.len() {
            0 => late(socket, &Came::Connection(who), patience),
            bytes => late(socket, &Came::Part(who, bytes), patience),
        }),
        Err(reason) => Err(Stop::Unavailable(format!("no daemon answers at {shown}: {reason}"))),
    }
}

/// Nothing for one that is over.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.max(Span::ZERO).nanos().unsigned_abs())
}

/// No whole answer has come for so long.
fn late(SocketArg { socket }: &SocketArg, came: &Came, patience: Duration) -> Stop {
    let (shown, patience) = (socket.display(), format!("{:.1} s", patience.as_secs_f64()));
    let hangs = "it hangs, was stopped (SIGSTOP, a frozen cgroup), gets no processor time, or has very many to answer";
    let slow = "the daemon or the machine is slow; try again";
    Stop::Unavailable(match came {
        Came::Nothing => {
            format!("no daemon answers at {shown}: the daemon there has taken no connection for {patience}; {hangs}")
        }
        Came::Connection(who) => {
            format!("no daemon answers at {shown}: {who} listens there and has sent nothing for {patience}; {hangs}")
        }
        Came::Part(who, bytes) => {
            format!("no whole answer from {shown}: of that of {who} only {bytes} bytes came within {patience}; {slow}")
        }
        Came::All(who, bytes) => format!(
            "the answer from {shown} came but was not read: there was no time for the {bytes} bytes of {who} within \
             {patience}; the machine is busy; try again"
        ),
    })
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

pub(super) fn not_understood(error: serde_json::Error) -> Stop {
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
        let mut all = Came::Nothing;
        let full = ask_for_status(&socket, false, false, |now| all = now, |shown| brief = Some(shown));
        answering.join().unwrap();
        assert!(matches!(all, Came::All(_, bytes) if bytes == answer.len()), "{all:?}");
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
