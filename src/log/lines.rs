//! Log lines for stderr, written by a dedicated thread: code that logs never waits for a reader, a file system or another thread.
//!
//! Lines wait in a channel with room for [`ROOM`] of them. A line that finds no room is counted, and the next line that does is preceded by
//! that count. Queueing a line allocates but takes no lock; only [`settle`] waits, with a limit. The clock is read for that limit and to
//! measure how long a write takes.

use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::{helper, with_signals_blocked};
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Thread, park};

/// How many lines may wait: as many as entries for the journal.
const ROOM: usize = 4_096;

/// In bytes. The full size of a stack counts as locked memory.
const STACK: usize = 256 << 10;

/// A write that takes longer is a fault of the log's destination.
const LONG: Span = Span::from_seconds(2);

const TRY_EVERY: Span = Span::from_millis(1);

/// The process's stderr, once [`open`] was called.
static OPENED: OnceLock<Lines> = OnceLock::new();

struct Lines {
    give: Sender<Vec<u8>>,
    writer: Thread,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    given: AtomicU64,
    written: AtomicU64, // or given up, after an error or for lack of room
    missing: AtomicU64, // since the last line that was queued
    since: AtomicI64, // when the write in progress began, on the monotonic clock in nanoseconds; 0: no write is in progress
}

/// Writes lines, on the log's thread: first waits as long as necessary until there is room for a line, then writes it.
pub(crate) trait Write: Send + 'static {
    /// Waits until a write would not have to wait for a reader.
    fn wait(&mut self);

    /// Writes a line.
    ///
    /// # Errors
    /// The write's error.
    fn write(&mut self, line: &[u8]) -> io::Result<()>;
}

/// Starts the writing thread. Once per process; later calls do nothing.
///
/// # Errors
/// The system's reason why the thread could not be started.
pub(crate) fn open(writer: impl Write) -> io::Result<()> {
    if OPENED.get().is_none() {
        let _ = OPENED.set(Lines::start(writer)?);
    }
    Ok(())
}

/// Writes lines until the process ends.
fn write_all(lines: &Receiver<Vec<u8>>, counts: &Counts, writer: &mut impl Write) {
    let clock = KernelClock::monotonic();
    loop {
        match lines.try_recv() {
            Ok(line) => {
                writer.wait();
                counts.since.store(nanos(clock.now()), Ordering::Relaxed);
                if writer.write(&line).is_err() {
                    counts.missing.fetch_add(1, Ordering::Relaxed);
                }
                counts.since.store(0, Ordering::Relaxed);
                counts.written.fetch_add(1, Ordering::Release);
            }
            // Whoever queues a line unparks this thread afterwards.
            Err(_) => park(),
        }
    }
}

fn nanos(now: Instant) -> i64 {
    i64::try_from(now.nanos()).unwrap_or(i64::MAX).max(1)
}

/// Whether the writing thread exists.
pub(crate) fn is_open() -> bool {
    OPENED.get().is_some()
}

/// Queues a line for writing. Returns whether there was room for it.
pub(crate) fn give(line: &[u8]) -> bool {
    OPENED.get().is_some_and(|lines| lines.give(line))
}

/// The same for a last line: waits up to `within` for room, and then for the write.
pub(crate) fn give_last(line: &[u8], within: Span) {
    let clock = KernelClock::monotonic();
    let until = clock.now() + within;
    while !give(line) && clock.now() < until {
        // The line is not missing yet.
        OPENED.get().into_iter().for_each(|lines| _ = lines.counts.missing.fetch_sub(1, Ordering::Relaxed));
        pause(TRY_EVERY);
    }
    settle(within);
}

impl Lines {
    fn start(mut writer: impl Write) -> io::Result<Self> {
        let (give, lines) = bounded(ROOM);
        let counts = Arc::<Counts>::default();
        let shared = counts.clone();
        let body = move || write_all(&lines, &shared, &mut writer);
        let thread = with_signals_blocked(|| helper::spawn_with_stack("hertzd-log", STACK, body))??;
        Ok(Self { give, writer: thread.thread().clone(), counts })
    }

    fn give(&self, line: &[u8]) -> bool {
        let missing = self.counts.missing.swap(0, Ordering::Relaxed);
        let mut text = if missing > 0 { notice(missing, line) } else { Vec::with_capacity(line.len()) };
        text.extend_from_slice(line);
        // Counted before the thread can have written it.
        self.counts.given.fetch_add(1, Ordering::Relaxed);
        let given = self.give.try_send(text).is_ok();
        if !given {
            self.counts.missing.fetch_add(missing + 1, Ordering::Relaxed);
            self.counts.written.fetch_add(1, Ordering::Release);
        }
        self.writer.unpark();
        given
    }
}

/// Reports lines for which there was no room, in the form of the next line: text, or an object with the same time.
fn notice(missing: u64, line: &[u8]) -> Vec<u8> {
    let said = format!("{missing} lines of the log are missing here: stderr did not take them");
    let time = line.split(|byte| *byte == b',').next().filter(|_| line.starts_with(b"{"));
    match time.and_then(|time| str::from_utf8(time).ok()) {
        Some(time) => format!("{time},\"level\":\"warn\",\"message\":\"{said}\"}}\n").into_bytes(),
        None => (said + "\n").into_bytes(),
    }
}

/// Waits until all lines queued so far are written, for `within` at most.
pub(crate) fn settle(within: Span) {
    let Some(Lines { counts, .. }) = OPENED.get() else { return };
    let clock = KernelClock::monotonic();
    let (given, until) = (counts.given.load(Ordering::Relaxed), clock.now() + within);
    while counts.written.load(Ordering::Acquire) < given && clock.now() < until {
        pause(TRY_EVERY);
    }
}

/// The fault of the log's destination, if any, at `now` on the monotonic clock.
pub(crate) fn trouble(now: Instant) -> Option<String> {
    let Lines { give, counts, .. } = OPENED.get()?;
    let since = counts.since.load(Ordering::Relaxed);
    let lasting = Span::from_nanos(nanos(now).saturating_sub(since));
    (since != 0 && lasting > LONG).then(|| {
        format!(
            "the log hangs: a write to stderr has not returned for {lasting}, and {} lines wait; check the file system that stderr goes to",
            give.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, Receiver as Lets, SyncSender};

    /// Takes a line only when the test allows it.
    struct Held {
        lets: Lets<()>,
        takes: SyncSender<String>,
    }

    impl Write for Held {
        fn wait(&mut self) {
            let _ = self.lets.recv();
        }

        fn write(&mut self, line: &[u8]) -> io::Result<()> {
            self.takes.send(String::from_utf8_lossy(line).into_owned()).map_err(io::Error::other)
        }
    }

    #[test]
    fn who_logs_never_waits_and_lines_without_room_are_counted() {
        let ((allow, lets), (takes, taken)) = (mpsc::channel(), mpsc::sync_channel(2 * ROOM));
        let lines = Lines::start(Held { lets, takes }).unwrap();
        // The writer may hold one line already, besides the waiting ones.
        let given = (0..ROOM + 3).filter(|number| lines.give(format!("{number}\n").as_bytes())).count();
        assert!((ROOM..=ROOM + 1).contains(&given), "{given}");
        (0..given).for_each(|_| allow.send(()).unwrap());
        (0..given).for_each(|number| assert_eq!(taken.recv().unwrap(), format!("{number}\n")));
        assert!(lines.give(b"{\"time\":\"now\",\"level\":\"info\"}\n"));
        allow.send(()).unwrap();
        let said = taken.recv().unwrap();
        let objects: Vec<serde_json::Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let missing = format!("{} lines of the log are missing here: stderr did not take them", ROOM + 3 - given);
        assert_eq!((objects.len(), &objects[0]["time"], &objects[0]["message"]), (2, &"now".into(), &missing.into()));
        assert!(lines.give(b"text\n"));
        allow.send(()).unwrap();
        assert_eq!(taken.recv().unwrap(), "text\n");
    }
}
