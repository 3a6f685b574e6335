//! Where the numbers come from: the daemon's status socket. A single thread asks, regardless of how many clients scrape.
//!
//! A daemon that hangs delays only that thread. A scrape waits for a limited time, and then reports that there was no answer.

use super::super::socket::who_may;
use crate::snapshot::Summary;
use crate::sys::clock::KernelClock;
use crate::sys::limited;
use crate::time::{Clock, Instant, Span};
use crate::views::{self, Format, Totals};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Scrapes within this time share a snapshot, so the daemon makes few, however many scrapes there are.
const FRESH: Span = Span::from_millis(200);

/// How long the daemon may take to answer, and how long a scrape waits for the answer.
const ANSWERED_WITHIN: Span = Span::from_millis(2_500);
const SCRAPED_WITHIN: Span = Span::from_seconds(3);

/// A snapshot with its tasks' totals; `None` if no daemon answered. Its text in each format is generated on first request.
#[derive(Default)]
struct Shown {
    snapshot: Option<(Summary, Totals)>,
    text: OnceLock<Arc<str>>,
    open_metrics: OnceLock<Arc<str>>,
}

impl Shown {
    fn page(&self, format: Format) -> Arc<str> {
        let page = match format {
            Format::Text => &self.text,
            Format::OpenMetrics => &self.open_metrics,
        };
        page.get_or_init(|| views::scrape(self.snapshot.as_ref(), format).into()).clone()
    }
}

#[derive(Default)]
struct State {
    latest: Option<(Instant, Arc<Shown>)>, // with the time it was requested
    asking: Option<Instant>,               // when the pending request started
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

/// The status socket of a daemon.
pub(super) struct Source {
    shared: Arc<Shared>,
    ask: SyncSender<()>,
}

impl Source {
    /// Starts the thread that asks. It reports through `say` when the daemon starts or stops answering.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn new(socket: PathBuf, say: fn(&str)) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (ask, asked) = sync_channel(1);
        let answers = shared.clone();
        std::thread::Builder::new().name("asks".into()).spawn(move || answer_all(&socket, &answers, &asked, say))?;
        Ok(Self { shared, ask })
    }

    /// The page with the current metrics, or the one that reports that no daemon answers.
    pub(super) fn page(&self, format: Format) -> Arc<str> {
        let clock = KernelClock::monotonic();
        let begun = clock.now();
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = loop {
            let now = clock.now();
            match &state.latest {
                Some((asked, shown)) if begun - *asked <= FRESH => break shown.clone(),
                _ => {}
            }
            let since = *state.asking.get_or_insert_with(|| {
                // There is room: no other request is pending.
                let _ = self.ask.try_send(());
                now
            });
            // Scrapes have already waited for a daemon that hangs.
            let left = since + SCRAPED_WITHIN - now;
            if left <= Span::ZERO {
                break Arc::default();
            }
            let left = Duration::from_nanos(left.nanos().unsigned_abs());
            let waited = self.shared.arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(state);
        shown.page(format)
    }
}

/// Asks the daemon on every request; reports when it starts or stops answering.
fn answer_all(socket: &Path, shared: &Shared, asked: &Receiver<()>, say: fn(&str)) {
    let clock = KernelClock::monotonic();
    let (mut totals, mut reported) = (Totals::default(), None);
    for () in asked {
        let begun = clock.now();
        let snapshot = fetch(socket);
        let answers = snapshot.is_ok();
        if reported.replace(answers) != Some(answers) {
            match &snapshot {
                Ok(_) => say(&format!("the daemon at {} answers", socket.display())),
                Err(reason) => {
                    let how = match reason.kind() {
                        io::ErrorKind::PermissionDenied => format!("; {}", who_may(socket)),
                        _ => String::new(),
                    };
                    let shown = socket.display();
                    say(&format!("no daemon answers at {shown}: {reason}{how}; hertzd_up is 0 until one does"));
                }
            }
        }
        let snapshot = snapshot.ok().map(|snapshot| {
            totals.go_on(&snapshot);
            (snapshot, totals.clone())
        });
        let shown = Arc::new(Shown { snapshot, ..Shown::default() });
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.latest, state.asking) = (Some((begun, shown)), None);
        drop(state);
        shared.arrived.notify_all();
    }
}

/// Reads one snapshot.
fn fetch(socket: &Path) -> io::Result<Summary> {
    let clock = KernelClock::monotonic();
    let stream = UnixStream::connect(socket)?;
    let end = clock.now() + ANSWERED_WITHIN;
    let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    let mut stream = stream.take(limited::JSON + 1);
    loop {
        let left = (end - clock.now()).max(Span::from_micros(100));
        stream.get_ref().set_read_timeout(Some(Duration::from_nanos(left.nanos().unsigned_abs())))?;
        match stream.read(&mut piece) {
            Ok(0) if text.len() as u64 > limited::JSON => {
                let text = format!("its answer is longer than {} MiB, so it is no hertzd", limited::JSON >> 20);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {ANSWERED_WITHIN}")));
            }
            Err(error) => return Err(error),
        }
        if clock.now() >= end {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no whole answer within {ANSWERED_WITHIN}")));
        }
    }
    if text.is_empty() {
        return Err(io::Error::other("it closes connections, as one does that is starting or stopping"));
    }
    let snapshot: Summary = serde_json::from_slice(&text)?;
    match snapshot {
        Summary { error: Some(why), .. } => Err(io::Error::other(format!("it cannot answer yet: {why}"))),
        Summary { daemon: None, .. } => Err(io::Error::other("what it sends is not from hertzd")),
        snapshot => Ok(snapshot),
    }
}
