//! The status socket of the daemon that a command talks to: which daemon is meant, and reading its answer. Blocks, with a limit.

use super::{Stop, runtime};
use crate::program;
use crate::sys::clock::KernelClock;
use crate::sys::limited;
use crate::sys::peer::{self, Peer};
use crate::sys::user::{group_name, name_of};
use crate::time::{Clock, Span};
use clap::Args;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Where the service listens.
pub(in crate::cli) fn service_socket() -> PathBuf {
    program::runtime_directory().join("status.sock")
}

/// How long a daemon may take to answer.
pub(in crate::cli) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Maximum length of an answer.
#[expect(clippy::cast_possible_truncation, reason = "it fits 32 bits")]
const LONGEST: usize = limited::JSON as usize;

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct SocketArg {
    /// The daemon's status socket; where the service does not run, that of the only daemon that does
    #[arg(long, value_name = "PATH", default_value_os_t = service_socket())]
    pub(in crate::cli) socket: PathBuf,
}

impl SocketArg {
    pub(in crate::cli) fn is_of_service(&self) -> bool {
        self.socket == service_socket()
    }

    /// The path of the socket.
    #[cfg(any(feature = "exporter", feature = "top"))]
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.socket
    }

    /// Whether anyone listens there. Never waits: connecting a datagram socket is refused at once, while a connection to a daemon whose
    /// queue is full would block.
    pub(in crate::cli) fn is_listened_at(&self) -> bool {
        let refused = UnixDatagram::unbound().and_then(|socket| socket.connect(&self.socket));
        refused.is_err_and(|error| error.raw_os_error() == Some(libc::EPROTOTYPE))
    }

    /// The socket of the daemon that is meant. If none is named and the service is not running: that of the only daemon in the foreground.
    pub(in crate::cli) fn found(&self) -> Result<Self, Stop> {
        if !self.is_of_service() || peer::may_listen(&self.socket) {
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

/// How much of an answer has arrived.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) enum Came {
    /// No connection was made.
    #[default]
    Nothing,
    /// This process listens.
    Connection(String),
    /// It has sent this many bytes so far.
    Part(String, usize),
    /// These were all its bytes.
    All(String, usize),
}

/// One snapshot, parsed as `T`. Connecting and answering may each take `patience` before the daemon is given up.
#[cfg(feature = "top")]
pub(in crate::cli) fn ask<T: serde::de::DeserializeOwned>(socket: &SocketArg, patience: Duration) -> Result<T, Stop> {
    let socket = &socket.found()?;
    let text = answer(socket, connect(socket, patience)?, patience, drop)?;
    serde_json::from_str(&text).map_err(not_understood)
}

pub(in crate::cli) fn fetch(socket: &SocketArg) -> Result<String, Stop> {
    let socket = &socket.found()?;
    answer(socket, connect(socket, ANSWER_WITHIN)?, ANSWER_WITHIN, drop)
}

pub(in crate::cli) fn connect(SocketArg { socket }: &SocketArg, patience: Duration) -> Result<UnixStream, Stop> {
    // On a separate thread: if a daemon is stopped and its connection queue is full, `connect` would never return.
    let (path, (reply, answer)) = (socket.clone(), mpsc::channel());
    std::thread::spawn(move || reply.send(UnixStream::connect(path)));
    let connected = answer.recv_timeout(patience);
    let connected = connected.map_err(|_| late(&SocketArg { socket: socket.clone() }, &Came::Nothing, patience))?;
    connected.map_err(|reason| {
        let shown = socket.display();
        if reason.kind() == io::ErrorKind::PermissionDenied {
            return Stop::Permission(format!("{shown} is not for this user: {}", who_may(socket)));
        }
        let start = match *socket == service_socket() {
            true => "`sudo systemctl start hertzd` starts the service; name the socket of another daemon with --socket"
                .into(),
            false if is_something_else(socket) => "it is no socket; name that of a daemon with --socket".into(),
            false => format!("`hertzd run --status-socket {shown}` starts one"),
        };
        Stop::Unavailable(format!("no daemon answers at {shown}: {reason}; {start}"))
    })
}

/// Who may connect there, and how this user can gain access.
pub(in crate::cli) fn who_may(socket: &Path) -> String {
    let Ok(found) = socket.metadata() else {
        return "the folder that it is in is closed to it; run this as root or as the daemon's user".into();
    };
    let group = group_name(found.gid()).filter(|_| found.mode() & 0o020 != 0);
    match group.filter(|group| *group == program::status_group()) {
        Some(group) => {
            format!("the group {group} may read it: `sudo usermod -aG {group} $USER`, then log in again")
        }
        None => {
            let owner = name_of(found.uid()).unwrap_or_else(|| found.uid().to_string());
            format!("run this as root or as the daemon's user, {owner}")
        }
    }
}

fn is_something_else(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.file_type().is_socket())
}

/// Everything the daemon sends. `comes` gets the number of bytes so far.
pub(in crate::cli) fn answer(
    socket: &SocketArg,
    mut stream: UnixStream,
    patience: Duration,
    mut comes: impl FnMut(Came),
) -> Result<String, Stop> {
    let who = || Peer::of(&stream).map_or("the daemon".into(), |peer| format!("process {}", peer.id()));
    let (who, shown) = (who(), socket.socket.display());
    let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    comes(Came::Connection(who.clone()));
    let clock = KernelClock::monotonic();
    let end = clock.now() + Span::from_wide(i128::try_from(patience.as_nanos()).unwrap_or(i128::MAX));
    let mut read = || {
        loop {
            // One deadline for the whole answer: a daemon that sends a byte now and then would never finish.
            let left = end - clock.now();
            if left <= Span::ZERO {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            stream.set_read_timeout(Some(duration(left)))?;
            match stream.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) if text.len() + count > LONGEST => return Err(io::ErrorKind::FileTooLarge.into()),
                Ok(count) => text.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            comes(Came::Part(who.clone(), text.len()));
        }
    };
    let read = read();
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
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(Stop::Fault(format!(
            "the answer from {shown} is longer than {} MiB, which no hertzd sends: {who} listens there and is another program; \
             name the socket of a daemon with --socket",
            LONGEST >> 20
        ))),
        Err(reason) => Err(Stop::Unavailable(format!("no daemon answers at {shown}: {reason}"))),
    }
}

/// As a std `Duration`; zero if the span is negative.
pub(in crate::cli) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.max(Span::ZERO).nanos().unsigned_abs())
}

/// The error for an answer that was not complete after `patience`.
pub(in crate::cli) fn late(SocketArg { socket }: &SocketArg, came: &Came, patience: Duration) -> Stop {
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

pub(in crate::cli) fn not_understood(error: serde_json::Error) -> Stop {
    Stop::Fault(format!("cannot understand the daemon's answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_answer_that_comes_byte_by_byte_has_one_time_for_all() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let dribbling = std::thread::spawn(move || {
            while other.write_all(b" ").is_ok() {
                crate::sys::clock::pause(Span::from_millis(10));
            }
        });
        let socket = SocketArg { socket: "s".into() };
        let mut bytes = 0;
        let comes = |came| {
            if let Came::Part(_, so_far) = came {
                bytes = so_far
            }
        };
        let Err(Stop::Unavailable(text)) = answer(&socket, own, Duration::from_millis(300), comes) else {
            panic!("it has come to an end")
        };
        assert!(bytes > 0 && text.starts_with("no whole answer from s"), "{text}");
        dribbling.join().unwrap();
    }
}
