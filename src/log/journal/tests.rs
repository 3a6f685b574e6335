//! The protocol byte for byte, and the behaviour of a full socket, with our own socket in place of journald's. The real journald is tested
//! in `tests/system`.

use super::*;
use crate::log::Message;
use crate::sys::clock::pause;
use crate::time::Instant;
use std::ops::Range;
use std::os::unix::net::UnixDatagram;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tempfile::TempDir;
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;

const NOW: Instant = Instant::from_nanos(1_700_000_000_250_000_999);

struct Receiver {
    folder: TempDir,
    socket: UnixDatagram,
}

impl Receiver {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = Self::bind(&folder.path().join("socket"));
        Self { folder, socket }
    }

    fn bind(path: &Path) -> UnixDatagram {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn journal(&self, entries: usize) -> Journal {
        let bounds = Bounds { entries, ..Bounds::default() };
        Journal::new(self.path(), bounds).unwrap()
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 1 << 20];
        let length = self.socket.recv(&mut bytes).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }

    /// Everything that has arrived.
    fn entries(&self) -> impl Iterator<Item = String> {
        std::iter::from_fn(|| self.take()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn messages(&self) -> Vec<String> {
        self.entries().map(|entry| message(&entry)).collect()
    }
}

fn message(entry: &str) -> String {
    entry.rsplit_once("\nMESSAGE=").unwrap().1.trim_end().to_owned()
}

fn entry(message: impl Into<String>) -> Entry {
    Entry { time: NOW, level: Level::INFO, message: message.into(), fields: Vec::new(), source: None }
}

fn numbered(numbers: Range<u64>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// Submits numbers from `first` on until one had to be kept; returns the next number.
fn fill(journal: &Journal, first: u64) -> u64 {
    let mut number = first;
    while journal.waiting() == 0 {
        journal.submit(&entry(number.to_string()));
        number += 1;
    }
    number
}

#[test]
fn an_entry_is_sent_byte_for_byte() {
    let receiver = Receiver::new();
    let journal = receiver.journal(8);
    let mut said = entry("late by 1 ms");
    said.level = Level::WARN;
    said.source = Some(("src/x.rs", 7));
    said.fields = vec![
        ("message_id", Message::Overrun.id().into()),
        ("task", "imu".into()),
        ("lateness_ns", (-5).into()),
        ("share", 0.5.into()),
        ("late", true.into()),
        ("odd.na-me", "two\nlines".into()),
        ("empty", "".into()),
    ];
    journal.submit(&said);
    let expected = b"PRIORITY=4\nSYSLOG_IDENTIFIER=hertzd\nHERTZD_TIME=2023-11-14T22:13:20.250000Z\n\
        CODE_FILE=src/x.rs\nCODE_LINE=7\nMESSAGE_ID=b63f63a8dc1e44a9b7b66fb32412be1f\nHERTZD_TASK=imu\n\
        HERTZD_LATENESS_NS=-5\nHERTZD_SHARE=0.5\nHERTZD_LATE=true\n\
        HERTZD_ODD_NA_ME\n\x09\0\0\0\0\0\0\0two\nlines\nHERTZD_EMPTY=\nMESSAGE=late by 1 ms\n";
    assert_eq!(String::from_utf8_lossy(&receiver.take().unwrap()), String::from_utf8_lossy(expected));

    journal.submit(&entry("it says:\nno"));
    let taken = receiver.take().unwrap();
    assert!(taken.ends_with(b"\nMESSAGE\n\x0b\0\0\0\0\0\0\0it says:\nno\n"), "{taken:?}");
    assert_eq!((journal.sent(), journal.lost(), journal.waiting()), (2, 0, 0));
}

#[test]
fn events_arrive_with_their_fields() {
    let receiver = Receiver::new();
    let journal: &'static Journal = Box::leak(Box::new(receiver.journal(8)));
    let subscriber = tracing_subscriber::registry().with(JournalLayer(journal));
    tracing::subscriber::with_default(subscriber, || {
        let message_id = Message::TaskFailed.id();
        tracing::error!(message_id, task = "imu", tick = 9_u64, "failed: {}", "gone");
        tracing::debug!("quiet");
    });
    let text = String::from_utf8(receiver.take().unwrap()).unwrap();
    assert!(text.starts_with("PRIORITY=3\n"), "{text}");
    assert!(text.contains(concat!("\nCODE_FILE=", file!(), "\nCODE_LINE=")), "{text}");
    let end =
        format!("\nMESSAGE_ID={}\nHERTZD_TASK=imu\nHERTZD_TICK=9\nMESSAGE=failed: gone\n", Message::TaskFailed.id());
    assert!(text.ends_with(&end), "{text}");
    assert!(receiver.take().unwrap().starts_with(b"PRIORITY=7\n"));
}

#[test]
fn what_a_full_socket_does_not_take_comes_later_and_in_order() {
    let receiver = Receiver::new();
    let journal = receiver.journal(4_096);
    let next = fill(&journal, 0);
    for number in next..next + 1_000 {
        journal.submit(&entry(number.to_string()));
    }
    assert_eq!(journal.waiting(), 1_001);
    let mut messages = receiver.messages();
    journal.submit(&entry((next + 1_000).to_string()));
    while journal.waiting() > 0 {
        messages.extend(receiver.messages());
        journal.flush(NOW);
    }
    messages.extend(receiver.messages());
    assert_eq!(messages, numbered(0..next + 1_001));
    assert_eq!((journal.sent(), journal.lost()), (next + 1_001, 0));
    assert_eq!(journal.queue().bytes, 0);
}

#[test]
fn a_socket_that_comes_late_or_is_replaced_gets_everything() {
    let receiver = Receiver::new();
    let journal = receiver.journal(16);
    std::fs::remove_file(receiver.path()).unwrap();
    journal.submit(&entry("not there"));
    drop(UnixDatagram::bind(receiver.path()).unwrap());
    journal.submit(&entry("nobody behind it"));
    assert_eq!((journal.waiting(), journal.sent()), (2, 0));
    std::fs::remove_file(receiver.path()).unwrap();
    let receiver = Receiver { socket: Receiver::bind(&receiver.path()), ..receiver };
    journal.flush(NOW);
    journal.submit(&entry("there"));
    assert_eq!(receiver.messages(), ["not there", "nobody behind it", "there"]);
}

#[test]
fn what_exceeds_the_bound_is_counted_and_told_in_its_place() {
    let receiver = Receiver::new();
    let journal = receiver.journal(8);
    let next = fill(&journal, 0);
    for number in next..next + 20 {
        journal.submit(&entry(number.to_string()));
    }
    assert_eq!((journal.waiting(), journal.lost()), (8, 13));

    let mut messages = Vec::new();
    let mut told = None;
    while journal.waiting() > 0 || told.is_none() {
        for entry in receiver.entries() {
            messages.push(message(&entry));
            told = Some(entry).filter(|entry| entry.contains("HERTZD_LOST=")).or(told);
        }
        journal.flush(NOW);
    }
    journal.submit(&entry("after"));
    messages.extend(receiver.messages());

    let mut expected = numbered(0..next + 7);
    expected.extend(["13 log entries lost: the journal did not accept them in time".into(), "after".into()]);
    assert_eq!(messages, expected);
    assert_eq!(
        told.unwrap(),
        "PRIORITY=4\nSYSLOG_IDENTIFIER=hertzd\nHERTZD_TIME=2023-11-14T22:13:20.250000Z\n\
         MESSAGE_ID=09aff006b2644c47bf2b75199a648cd7\nHERTZD_LOST=13\n\
         MESSAGE=13 log entries lost: the journal did not accept them in time\n"
    );
    assert_eq!((journal.sent(), journal.lost()), (next + 7 + 2, 13));
}

#[test]
fn bytes_are_bounded_too() {
    let receiver = Receiver::new();
    let bounds = Bounds { entries: 4_096, bytes: 10_000 };
    let journal = Journal::new(receiver.path(), bounds).unwrap();
    fill(&journal, 0);
    for _ in 0..20 {
        journal.submit(&entry("x".repeat(1_000)));
    }
    assert!(journal.queue().bytes <= 10_000);
    assert_eq!((journal.waiting(), journal.lost()), (10, 11));
}

#[test]
fn an_entry_too_large_for_a_datagram_is_cut_short() {
    let receiver = Receiver::new();
    let journal = receiver.journal(8);
    let mut large = entry("é\n".repeat(1 << 20));
    large.fields = vec![("task", "y".repeat(10_000).into())];
    journal.submit(&large);
    let bytes = receiver.take().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains(&format!("\nHERTZD_TASK={}\nMESSAGE\n", "y".repeat(4_096))), "{text}");
    assert!(text.ends_with(" [cut from 3145728 bytes]\n"), "{text}");
    assert!(bytes.len() < 13_000, "{}", bytes.len());
    assert_eq!((journal.sent(), journal.lost(), journal.waiting()), (1, 0, 0));
}

#[test]
fn the_end_waits_for_the_journal_but_not_for_long() {
    let receiver = Receiver::new();
    let journal = receiver.journal(4_096);
    let next = fill(&journal, 0);
    let taken = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            pause(Span::from_millis(20));
            let mut messages = Vec::new();
            while messages.len() < usize::try_from(next).unwrap() {
                messages.extend(receiver.messages());
                pause(Span::from_millis(1));
            }
            messages
        });
        journal.finish(Span::from_seconds(20));
        reader.join().unwrap()
    });
    assert_eq!((taken, journal.lost()), (numbered(0..next), 0));

    fill(&journal, 0);
    let start = KernelClock::monotonic().now();
    journal.finish(Span::from_millis(30));
    assert!(KernelClock::monotonic().now() - start >= Span::from_millis(30));
    assert_eq!((journal.waiting(), journal.lost()), (0, 1));
}

#[test]
fn the_journal_is_chosen_only_where_stderr_leads_to_it() {
    let receiver = Receiver::new();
    let (ours, other) = UnixStream::pair().unwrap();
    let name = |stream: &UnixStream| {
        let metadata = File::from(stream.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap();
        format!("{}:{}", metadata.dev(), metadata.ino())
    };
    let socket = receiver.path();
    let named = name(&ours);
    assert!(is_stream(Some(&named), &ours, &socket));
    assert!(!is_stream(None, &ours, &socket), "started by hand");
    assert!(!is_stream(Some(&named), &other, &socket), "stderr led elsewhere");
    assert!(!is_stream(Some(&named), &ours, Path::new("/nonexistent")), "no journald");
    assert!(!is_stream(Some(&named), &ours, receiver.folder.path()), "not a socket");
    for odd in ["", ":", "1", "x:y", "99999999999999999999999:1", "-1:-1"] {
        assert!(!is_stream(Some(odd), &ours, &socket), "{odd:?}");
    }
}
