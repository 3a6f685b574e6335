//! `hertzd status` and `hertzd reload`: talking to the running daemon.
//!
//! The daemon's status socket is read-only; requests are sent as signals. Both commands block, with a limit.

use super::socket::{ANSWER_WITHIN, Came, SocketArg, answer, connect, duration, fetch, late, not_understood};
use super::stop::{CONFIGURATION, UNWELL};
use super::terminal::{Shown, stderr_is_terminal};
use super::{Stop, log, print};
use crate::daemon::RunningDaemon;
use crate::log::journal;
use crate::snapshot::{DaemonSummary, FlightSummary, Summary};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::peer::Peer;
use crate::time::{Clock, Instant, Span};
use crate::views;
use clap::Args;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// How often to ask a daemon whether it has reloaded.
const ASK_EVERY: Span = Span::from_millis(20);

/// How long a daemon may take after its start before it can report its state.
const ONE_THAT_STARTS: Span = Span::from_seconds(10);

/// A longer wait shows a progress line.
const LONG: Span = Span::from_seconds(2);

/// How long `status` waits for the daemon, leaving time for the program's own start.
const STATUS_WITHIN: Span = Span::from_millis(1_900);

/// How long `status` may take in total, even if its reader stalls.
const STATUS_OVER: Span = Span::from_seconds(2);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd status                      is all well, and how is each task doing?\n  \
    hertzd status --json | jq .reason  why not, from the whole snapshot\n  \
    hertzd status --follow | jq -c .tasks[].missed\n                                     \
    a snapshot a second, for programs\n\n\
    Exit codes: 0 all is well; 1 not all is well; 69 no daemon answers, or \
    not wholly in time. It waits for 2 s at most. --follow: 0 when the daemon \
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
    Waits until the daemon runs the new configuration, or has refused it: then \
    the exit status is 78, and the old configuration stays in force.")]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// How long to wait for the daemon's answer
    #[arg(long, value_name = "DURATION", value_parser = super::span, default_value = "30s")]
    timeout: Span,
}

/// What `status` reads first; answers of every version contain some of it.
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
    pub(super) daemon: RunningDaemon,
    #[serde(default)]
    pub(super) flight: Option<FlightSummary>,
}

/// What is known of the answer so far.
struct StatusText {
    text: Shown,
    well: Option<bool>, // None: the answer does not say
}

/// Answers within [`STATUS_WITHIN`], whether the daemon is slow or the machine is too busy to read its answer. If only the table is missing
/// by then, the sentence is shown without it.
pub(super) fn status(args: &StatusArgs) -> Result<(), Stop> {
    let found = args.socket.found()?;
    let (socket, json) = (found.clone(), args.json);
    let (say, said) = mpsc::channel();
    let came = Arc::new(Mutex::new(Came::default()));
    let comes = came.clone();
    let asking = move || {
        let comes = |now| *comes.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let result = ask_for_status(&socket, json, comes, |brief| _ = say.send(Ok(brief)));
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
    text.print_while_time_is_left(STATUS_OVER, || begun + STATUS_OVER - clock.now())?;
    match well {
        Some(true) => Ok(()),
        Some(false) => Err(Stop::Logged(UNWELL)), // the first line already gave the reason
        None => Err(Stop::Fault(format!(
            "what answers at {} does not say whether all is well: it is another version of hertzd, or another program",
            found.socket.display()
        ))),
    }
}

/// Asks the daemon. Calls `so_far` with the sentence before formatting the table.
fn ask_for_status(
    socket: &SocketArg,
    json: bool,
    comes: impl FnMut(Came),
    so_far: impl FnOnce(StatusText),
) -> Result<StatusText, Stop> {
    // Each step gets slightly less time, so that it can report which one was slow.
    let each = duration(STATUS_WITHIN).mul_f64(0.9);
    let text = answer(socket, connect(socket, each)?, each, comes)?;
    let Brief { error, well, daemon: BriefDaemon { sentence } } =
        serde_json::from_str(&text).map_err(not_understood)?;
    if let Some(why) = error {
        return Err(Stop::Unwell(format!("the daemon runs but cannot answer yet: {why}; try again")));
    }
    if json {
        return Ok(StatusText { text: Shown::json(text), well });
    }
    let brief = |coloured| {
        let sentence = views::sentence(&sentence, well != Some(false), coloured);
        sentence + "(there was no time to show more: the machine is busy)\n"
    };
    so_far(StatusText { text: Shown::styled(brief), well });
    let snapshot: Summary = serde_json::from_str(&text).map_err(not_understood)?;
    Ok(StatusText { text: Shown::styled(|coloured| views::status(&snapshot, coloured)), well })
}

pub(super) fn reload(args: &ReloadArgs) -> Result<(), Stop> {
    let mut wait = Wait::of(args.timeout);
    let (daemon, before) = daemon(&args.socket, &mut wait)?;
    let id = daemon.id();
    let refused = |reason| format!("cannot ask process {id} to reload: {reason}; run this as root or as its user");
    daemon.ask_for_reload().map_err(|reason| Stop::Permission(refused(reason)))?;
    let mut sentence = before.sentence;
    while wait.goes_on(|| format!("process {id} has not reloaded yet: {sentence}")) {
        let text = fetch(&args.socket)?;
        if held_up(&text).is_some() {
            continue;
        }
        let now = parse(&text)?.daemon.daemon;
        if now.pid != before.pid {
            return Err(Stop::Fault("the daemon was restarted during the reload".into()));
        }
        // A reload that had begun before may have read the old files.
        if now.reloads <= before.reloads_begun {
            sentence = now.sentence;
            continue;
        }
        drop(wait);
        // In the unit's journal, the daemon's own entry already says it.
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

/// The process that listens at the socket, and its own report once it can give one. The kernel says which process to signal: anyone may
/// listen there and claim to be any process.
fn daemon(socket: &SocketArg, wait: &mut Wait) -> Result<(Peer, DaemonSummary), Stop> {
    let socket = &socket.found()?;
    let fault = |text: String| Stop::Fault(format!("{}: {text}; nothing was signalled", socket.socket.display()));
    let ask = || {
        let stream = connect(socket, ANSWER_WITHIN)?;
        let peer = Peer::of(&stream)
            .map_err(|reason| fault(format!("cannot identify the process that listens here: {reason}")))?;
        Ok((peer, answer(socket, stream, ANSWER_WITHIN, drop)?))
    };
    let (peer, text) = until_it_can(wait, ask, |(_, text)| text)?;
    let Seen { daemon: RunningDaemon { daemon, .. }, .. } = parse(&text)?;
    let begun = KernelClock::boottime().now() - Span::from_nanos(daemon.running_ns);
    let another = match peer.calls_itself(daemon.pid) {
        Ok(true) => peer.is_another(begun),
        Ok(false) => Ok(Some(format!("its answer names process {}", daemon.pid))),
        Err(reason) => Err(reason),
    };
    match another {
        Ok(None) => Ok((peer, daemon)),
        Ok(Some(why)) => Err(fault(format!("process {} listens here, but {why}", peer.id()))),
        Err(reason) => Err(fault(format!("cannot compare process {} with its answer: {reason}", peer.id()))),
    }
}

/// The process id of the running daemon: the one the kernel reports, if the daemon's answer agrees.
pub(super) fn process(socket: &SocketArg) -> Result<u32, Stop> {
    daemon(socket, &mut Wait::of(Span::ZERO)).map(|(peer, _)| peer.id())
}

/// One snapshot of the running daemon.
pub(super) fn read(socket: &SocketArg) -> Result<Seen, Stop> {
    parse(&fetch(socket)?)
}

/// The same, but waits for a daemon that has just started and cannot answer yet.
pub(super) fn read_once_it_can(socket: &SocketArg) -> Result<Seen, Stop> {
    read_within(socket, &mut Wait::of(ONE_THAT_STARTS))
}

fn read_within(socket: &SocketArg, wait: &mut Wait) -> Result<Seen, Stop> {
    parse(&until_it_can(wait, || fetch(socket), |text| text)?)
}

/// A limited wait for the daemon. On a terminal, a progress line says what it waits for, from [`LONG`] on until this is dropped.
struct Wait {
    begun: Instant,
    length: Span,
    shown: String,
}

impl Wait {
    fn of(length: Span) -> Self {
        Self { begun: KernelClock::monotonic().now(), length, shown: String::new() }
    }

    /// Waits a little. Returns false if no time was left.
    fn goes_on(&mut self, what: impl FnOnce() -> String) -> bool {
        let passed = KernelClock::monotonic().now() - self.begun;
        if passed >= self.length {
            return false;
        }
        if passed >= LONG && stderr_is_terminal() {
            let line = format!("{:.0} s of {:.0} s: {}", passed.seconds(), self.length.seconds(), what());
            // Redrawing on every poll would overwhelm a slow terminal.
            if line != self.shown {
                log::draw(&line);
                self.shown = line;
            }
        }
        pause(ASK_EVERY);
        true
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            log::clear_progress();
        }
    }
}

/// Asks again, as long as there is time, if the daemon answers that it has nothing to report yet. On a slow machine that can last a while
/// after the start.
fn until_it_can<T>(
    wait: &mut Wait,
    mut ask: impl FnMut() -> Result<T, Stop>,
    text: impl Fn(&T) -> &String,
) -> Result<T, Stop> {
    loop {
        let answer = ask()?;
        match held_up(text(&answer)) {
            Some(why) if wait.goes_on(|| format!("the daemon cannot answer yet: {why}")) => {}
            _ => return Ok(answer),
        }
    }
}

/// Why the daemon cannot answer for now, if its answer says so.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    /// The result of `ask` while a daemon gives these answers in turn. All of them must be requested.
    fn asked<T>(answers: &'static [&'static str], ask: impl FnOnce(&SocketArg) -> Result<T, Stop>) -> Result<T, Stop> {
        let folder = tempfile::tempdir().unwrap();
        let socket = SocketArg { socket: folder.path().join("s") };
        let listener = UnixListener::bind(&socket.socket).unwrap();
        let answering = std::thread::spawn(move || {
            answers.iter().for_each(|answer| listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap());
        });
        let result = ask(&socket);
        answering.join().unwrap();
        result
    }

    #[test]
    fn a_daemon_that_cannot_answer_yet_is_asked_again() {
        const NOT_YET: &str = r#"{"error":"the metrics thread is delayed"}"#;
        const ANSWER: &str = r#"{"daemon":{"pid":7,"version":"","files":[],"running_ns":0,"ready":true,"reloads":0,
            "reloads_refused":0,"last_reload":"","last_reload_refused":false,"sections":{"workers":{},"tasks":{}}}}"#;
        let seen =
            asked(&[NOT_YET, NOT_YET, ANSWER], |socket| read_within(socket, &mut Wait::of(Span::from_seconds(3_600))));
        assert!(matches!(&seen, Ok(seen) if seen.daemon.daemon.pid == 7), "{seen:?}");
        // Only until the time is up.
        let seen = asked(&[NOT_YET], |socket| daemon(socket, &mut Wait::of(Span::ZERO)));
        let Err(Stop::Fault(text)) = seen else { panic!("it has no answer") };
        assert!(text.contains("cannot answer yet: the metrics thread is delayed; try again"), "{text}");
    }

    #[test]
    fn an_answer_that_names_another_process_is_not_believed() {
        const OF_ANOTHER: &str = r#"{"daemon":{"pid":1,"version":"","files":[],"running_ns":0,"ready":true,"reloads":0,
            "reloads_refused":0,"last_reload":"","last_reload_refused":false,"sections":{"workers":{},"tasks":{}}}}"#;
        let Err(Stop::Fault(text)) = asked(&[OF_ANOTHER], process) else { panic!("it is believed") };
        let own = format!("process {} listens here, but its answer names process 1; nothing", std::process::id());
        assert!(text.contains(&own), "{text}");
    }

    #[test]
    fn the_sentence_comes_before_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let socket = SocketArg { socket: folder.path().join("s") };
        let listener = UnixListener::bind(&socket.socket).unwrap();
        let answer = r#"{"well":false,"tasks":[{"task":"a"}],"daemon":{"pid":7,"sentence":"not well: a rains"}}"#;
        let answering = std::thread::spawn(move || listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap());
        let mut brief = None;
        let mut all = Came::Nothing;
        let full = ask_for_status(&socket, false, |now| all = now, |shown| brief = Some(shown));
        answering.join().unwrap();
        assert!(matches!(all, Came::All(_, bytes) if bytes == answer.len()), "{all:?}");
        let (brief, full) = (brief.unwrap(), full.ok().unwrap());
        assert!(
            brief.text.as_str().starts_with("not well: a rains\n(there was no time ") && brief.well == Some(false),
            "{}",
            brief.text.as_str()
        );
        assert!(
            full.text.as_str().starts_with("not well: a rains\nhertzd ?, process 7") && full.well == Some(false),
            "{}",
            full.text.as_str()
        );
    }
}
