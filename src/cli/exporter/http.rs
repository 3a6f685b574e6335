//! As much HTTP as a scraper needs: a request without a body, an answer, the end of the connection.
//!
//! Each connection has its own thread, a time limit and a byte limit. The number of connections is limited. When all are in use, the oldest
//! is closed for a new one, so that clients that hang or flood cannot keep a scraper out. Blocks.

use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of connections, and of threads: threads of connections that were closed for others may still be ending.
const CONNECTIONS: usize = 32;
const THREADS: usize = 2 * CONNECTIONS;

/// More stack than a thread needs.
const STACK: usize = 512 << 10;

/// Maximum length of a request's head, and of its number of fields.
const HEAD: usize = 8 << 10;
const FIELDS: usize = 64;

/// How long receiving a request, delivering an answer, and the client's close may take.
const REQUEST_WITHIN: Span = Span::from_seconds(5);
const TAKEN_WITHIN: Span = Span::from_seconds(10);
const CLOSED_WITHIN: Span = Span::from_seconds(1);

/// How often to check whether a thread has ended.
const LOOK_EVERY: Span = Span::from_millis(2);

/// The answer for a path.
pub(super) enum Answer {
    Page { kind: &'static str, body: Arc<str> },
    NotFound,
}

/// What a client would like to get: the values of its `Accept` fields.
#[derive(Debug, Default)]
pub(super) struct Accept(Vec<String>);

impl Accept {
    /// Whether it lists `one`, and prefers it at least as much as `other`.
    pub(super) fn prefers(&self, one: &str, other: &str) -> bool {
        let liking = |kind: &str| {
            let known = self.0.iter().flat_map(|value| value.split(',')).filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let named = parts.next()?.eq_ignore_ascii_case(kind);
                let parameter = |name: &str| {
                    let mut all = range.split(';').skip(1).filter_map(|part| part.split_once('='));
                    all.find(|(known, _)| known.trim().eq_ignore_ascii_case(name))
                        .map(|(_, value)| value.trim().trim_matches('"'))
                };
                // The only version of each format that is supported.
                let version = parameter("version").is_none_or(|version| matches!(version, "1.0.0" | "0.0.4"));
                let quality = parameter("q").map_or(Some(1.0), |quality| quality.parse::<f64>().ok());
                quality.filter(|_| named && version)
            });
            known.fold(0.0, f64::max)
        };
        liking(one) > 0.0 && liking(one) >= liking(other)
    }
}

/// The open connections by number; the first is the oldest.
#[derive(Default)]
struct Open {
    next: u64,
    threads: usize,
    places: BTreeMap<u64, TcpStream>,
}

impl Open {
    /// Makes room for one more connection.
    fn close_oldest(&mut self) {
        while self.places.len() >= CONNECTIONS
            && let Some((_, oldest)) = self.places.pop_first()
        {
            let _ = oldest.shutdown(Shutdown::Both); // fails if the client has closed already
        }
    }
}

/// Answers requests through `handler`.
pub(super) struct Server<H> {
    handler: Arc<H>,
    open: Arc<Mutex<Open>>,
}

impl<H: Fn(&str, &Accept) -> Answer + Send + Sync + 'static> Server<H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler: Arc::new(handler), open: Arc::default() }
    }

    /// Accepts connections until the process ends.
    pub(super) fn run(&self, listener: &TcpListener) -> ! {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.take(stream),
                // Probably out of file descriptors: retrying at once would only burn CPU time.
                Err(_) => pause(Span::from_millis(100)),
            }
        }
    }

    /// Serves a connection on its own thread. Closes it on an error or if there is no room.
    fn take(&self, stream: TcpStream) {
        let Ok(kept) = stream.try_clone() else { return };
        let mut open = lock(&self.open);
        open.close_oldest();
        let mut waited = Span::ZERO;
        while open.threads >= THREADS {
            drop(open);
            if waited >= CLOSED_WITHIN {
                return;
            }
            // Ending threads need some CPU time.
            pause(LOOK_EVERY);
            waited += LOOK_EVERY;
            open = lock(&self.open);
        }
        let number = open.next;
        open.next += 1;
        open.threads += 1;
        open.places.insert(number, kept);
        drop(open);
        let (handler, connections) = (self.handler.clone(), self.open.clone());
        let served = move || {
            let left = Left { open: connections, number };
            serve(&stream, &*handler);
            drop((stream, left));
        };
        let spawned = std::thread::Builder::new().name("http".into()).stack_size(STACK).spawn(served);
        if spawned.is_err() {
            // Everything moved into the thread is dropped with it, but the thread count must be corrected here.
            let mut open = lock(&self.open);
            open.threads -= 1;
            open.places.remove(&number);
        }
    }
}

/// Frees a connection's slot, even if its thread panics.
struct Left {
    open: Arc<Mutex<Open>>,
    number: u64,
}

impl Drop for Left {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        open.threads -= 1;
        open.places.remove(&self.number);
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a request, answers it, and closes. On an error the client has gone or took too long; either ends the connection.
fn serve(stream: &TcpStream, handler: impl Fn(&str, &Accept) -> Answer) {
    let Ok(head) = read_head(stream) else { return };
    let (status, kind, body, has_body) = match head.and_then(|head| parse(&head)) {
        Err(refused) => (refused, "text/plain; charset=utf-8", Arc::from(format!("{refused}\n")), true),
        Ok(Request { path, accept, head_only }) => match handler(&path, &accept) {
            Answer::Page { kind, body } => ("200 OK", kind, body, !head_only),
            Answer::NotFound => {
                ("404 Not Found", "text/plain; charset=utf-8", Arc::from("Metrics are at /metrics.\n"), !head_only)
            }
        },
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    let end = KernelClock::monotonic().now() + TAKEN_WITHIN;
    let body = if has_body { body.as_bytes() } else { &[] };
    if write(stream, head.as_bytes(), end).and_then(|()| write(stream, body, end)).is_ok() {
        close(stream);
    }
}

struct Request {
    path: String,
    accept: Accept,
    head_only: bool,
}

/// Reads up to the end of a request's head.
///
/// # Errors
/// The client has gone or took too long. The inner error is the answer to a request that is too long.
fn read_head(mut stream: &TcpStream) -> io::Result<Result<Vec<u8>, &'static str>> {
    let end = KernelClock::monotonic().now() + REQUEST_WITHIN;
    let (mut head, mut piece) = (Vec::new(), [0; 2_048]);
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let count = match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&piece[..count]);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        match httparse::Request::new(&mut fields).parse(&head) {
            Ok(httparse::Status::Partial) if head.len() < HEAD => {}
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Ok(Err("431 Request Header Fields Too Large"));
            }
            _ => return Ok(Ok(head)),
        }
    }
}

/// Parses a head into a request. The error is the status to answer.
fn parse(head: &[u8]) -> Result<Request, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    request.parse(head).map_err(|_| "400 Bad Request")?;
    let (Some(method), Some(target)) = (request.method, request.path) else { return Err("400 Bad Request") };
    if !matches!(method, "GET" | "HEAD") {
        return Err("405 Method Not Allowed");
    }
    let accept = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
    let accept = accept.map(|field| String::from_utf8_lossy(field.value).into_owned()).collect();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Ok(Request { path, accept: Accept(accept), head_only: method == "HEAD" })
}

/// Writes all bytes before `end`.
fn write(mut stream: &TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Lets the client close first: closing with unread input would discard the answer.
fn close(mut stream: &TcpStream) {
    let end = KernelClock::monotonic().now() + CLOSED_WITHIN;
    let (mut read, mut piece) = (0, [0; 2_048]);
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    while read < 8 * HEAD
        && let Ok(left) = left(end)
        && stream.set_read_timeout(Some(left)).is_ok()
        && let Ok(count @ 1..) = stream.read(&mut piece)
    {
        read += count;
    }
}

/// The time left until `end`.
///
/// # Errors
/// No time is left.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end - KernelClock::monotonic().now();
    // A very short timeout would round down to zero, which means no timeout.
    match left > Span::from_micros(10) {
        true => Ok(Duration::from_nanos(left.nanos().unsigned_abs())),
        false => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_the_form_it_prefers() {
        let prefers = |accept: &str| Accept(vec![accept.into()]).prefers("application/openmetrics-text", "text/plain");
        for (accept, open) in [
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                true,
            ),
            ("application/openmetrics-text; version=\"1.0.0\"; charset=utf-8; q=0.5, text/plain;q=0.5", true),
            ("Application/OpenMetrics-Text", true),
            ("application/openmetrics-text;version=2.0.0", false),
            ("application/openmetrics-text;q=0.4,text/plain;q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=nonsense", false),
            ("text/plain;version=0.0.4", false),
            ("*/*", false),
            ("", false),
            (";;,=;q", false),
        ] {
            assert_eq!(prefers(accept), open, "{accept}");
        }
        assert!(!Accept::default().prefers("application/openmetrics-text", "text/plain"));
    }

    #[test]
    fn only_a_whole_request_to_read_is_taken() {
        let parsed = |head: &str| parse(head.as_bytes()).map(|request| (request.path, request.head_only));
        assert_eq!(parsed("GET /metrics?a=b HTTP/1.1\r\n\r\n"), Ok(("/metrics".into(), false)));
        assert_eq!(parsed("HEAD / HTTP/1.0\r\nHost: x\r\n\r\n"), Ok(("/".into(), true)));
        assert_eq!(parsed("POST /metrics HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        assert_eq!(parsed("GET / HTTP/9\r\n\r\n"), Err("400 Bad Request"));
        assert_eq!(parsed("\u{16}\u{3}\u{1}"), Err("400 Bad Request"));
    }
}
