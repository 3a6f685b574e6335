//! Reads a flight file, even one that is still being written or that a dead process left. May block; allocates a few hundred bytes per
//! record.

use super::record::{Entry, Mark, Packed, is_blank, unseal};
use super::text::WhoIsWho;
use super::{HEADER, MAGIC, RECORD, VERSION};
use crate::sys::input;
use std::io::{self, Read};
use std::path::Path;

/// The content of a flight file.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    pub(crate) who: WhoIsWho,
    /// Oldest first, as the metrics thread judged them.
    pub(crate) entries: Vec<Entry>,
    /// Earlier records have been overwritten.
    pub(crate) came_round: bool,
    /// Torn records: the process ended, or the machine stopped, while they were written.
    pub(crate) torn: u64,
    pub(crate) mark: Option<Mark>, // the most recent
}

/// Reads the file.
///
/// # Errors
/// What is wrong with the file, and the remedy.
pub(crate) fn read(path: &Path) -> Result<Flight, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let bytes = bytes(path).map_err(|error| wrong(&error))?;
    parse(&bytes).map_err(|reason| wrong(&reason))
}

/// The maximum length of a flight file, in bytes.
pub(crate) const LONGEST: u64 = 1 << 30;

/// The bytes that the file has now. Its length is read first, because the file may be growing, or may have no end.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = input::open_regular(path)?;
    let metadata = file.metadata()?;
    if metadata.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is longer than 1 GiB: no flight file is"));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(metadata.len()).unwrap_or(usize::MAX))?;
    file.take(metadata.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file begins like a flight file.
///
/// # Errors
/// The system's reason why the file cannot be read.
pub(crate) fn is_flight(path: &Path) -> io::Result<bool> {
    let mut first = Vec::new();
    input::open_regular(path)?.take(MAGIC.len() as u64).read_to_end(&mut first)?;
    Ok(first == MAGIC)
}

fn parse(bytes: &[u8]) -> Result<Flight, &'static str> {
    let field = |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes);
    if bytes.get(..8) != Some(&MAGIC) {
        return Err("this is no flight file; hertzd run writes one, named flight, in its runtime directory");
    }
    if field(8) != Some(u64::from(VERSION) | (RECORD as u64) << 32) || field(16) != Some(HEADER as u64) {
        return Err("another version of hertzd has written this; read it with that one");
    }
    let capacity = field(24).and_then(|capacity| usize::try_from(capacity).ok()).unwrap_or(0);
    let start = HEADER;
    let end = capacity.checked_mul(RECORD).and_then(|length| length.checked_add(start));
    let Some((end, ring)) = end.and_then(|end| Some((end, bytes.get(start..end)?))) else {
        return Err("it is shorter than its header says: it was cut off when it was copied");
    };
    let who = WhoIsWho::of(&String::from_utf8_lossy(&bytes[end..]));
    let (slots, _) = ring.as_chunks::<RECORD>();
    Ok(Flight { who, ..entries(slots) })
}

/// The entries of a ring, in order.
fn entries(slots: &[Packed]) -> Flight {
    let capacity = slots.len() as u64;
    let number = |slot: usize, lap: u32| u64::from(lap - 1) * capacity + slot as u64;
    let sealed = || slots.iter().enumerate().filter_map(|(slot, record)| Some((slot, unseal(record)?)));
    let latest = sealed().map(|(slot, (lap, _))| number(slot, lap)).max();
    let mut flight = Flight::default();
    let Some(latest) = latest else { return flight };
    // Anything older than one lap was written before records that are torn now.
    let oldest = (latest + 1).saturating_sub(capacity);
    let mut kept: Vec<_> = sealed().map(|(slot, (lap, entry))| (number(slot, lap), entry)).collect();
    kept.retain(|(number, _)| *number >= oldest);
    kept.sort_unstable_by_key(|(number, _)| *number);
    flight.came_round = oldest > 0;
    let written = slots.iter().filter(|record| !is_blank(record)).count();
    flight.torn = (written - kept.len()) as u64;
    flight.entries = kept.into_iter().map(|(_, entry)| entry).collect();
    flight.mark = flight.entries.iter().rev().find_map(|entry| match entry {
        Entry::Mark(mark) => Some(*mark),
        _ => None,
    });
    flight
}

#[cfg(test)]
mod tests {
    use super::super::FlightFile;
    use super::super::record::tests::RAN;
    use super::super::record::{Clocks, Ran, pack};
    use super::super::text::{Known, KnownTask};
    use super::*;
    use crate::sys::dir::Dir;
    use std::fs::{self, File};
    use std::os::unix::fs::OpenOptionsExt;
    use std::sync::Arc;

    fn ran(n: u64) -> Entry {
        Entry::Ran(Ran { n, ..RAN })
    }

    fn begin(folder: &tempfile::TempDir) -> FlightFile {
        FlightFile::begin(&Arc::new(Dir::open(folder.path()).unwrap()), 8).unwrap()
    }

    fn numbers(flight: &Flight) -> Vec<u64> {
        let n = |entry: &Entry| if let Entry::Ran(ran) = entry { Some(ran.n) } else { None };
        flight.entries.iter().filter_map(n).collect()
    }

    #[test]
    fn a_ring_keeps_the_latest_of_each_number_of_laps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flight");
        for total in 0..40u64 {
            let mut file = begin(&folder);
            file.describe(&Known::Task(KnownTask { number: 7, ..KnownTask::default() })).unwrap();
            let mut n = 0;
            for size in [1, 3, 2, 5].into_iter().cycle() {
                let mut batch: Vec<_> = (n..total.min(n + size)).map(|n| pack(&ran(n))).collect();
                if batch.is_empty() {
                    break;
                }
                n += batch.len() as u64;
                file.write(&mut batch).unwrap();
            }
            let flight = read(&path).unwrap();
            assert_eq!(numbers(&flight), (total.saturating_sub(8)..total).collect::<Vec<_>>());
            assert_eq!((flight.came_round, flight.torn, flight.who.tasks.len()), (total > 8, 0, 1));
        }
        assert_eq!(numbers(&read(&folder.path().join("flight.prev")).unwrap()), (30..38).collect::<Vec<_>>());
    }

    #[test]
    fn a_torn_record_is_left_out_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flight");
        let mut file = begin(&folder);
        let clocks = Clocks { realtime: 1, boottime: 2, tai: 3 };
        let mark = Mark { at: 9, lost: 1, dropped: 2, clocks, ended: false };
        let mut batch: Vec<_> = (0..10).map(|n| pack(&ran(n))).chain([pack(&Entry::Mark(mark))]).collect();
        file.write(&mut batch).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        // Records 8 and 9 and the mark lie in the first three slots; half of record 9 still has the old content.
        let second = HEADER + RECORD;
        bytes[second + 32..second + 64].fill(0xEE);
        fs::write(&path, &bytes).unwrap();
        let flight = read(&path).unwrap();
        assert_eq!(numbers(&flight), [3, 4, 5, 6, 7, 8]);
        assert_eq!((flight.torn, flight.mark), (1, Some(mark)));
        fs::write(&path, &bytes[..second]).unwrap();
        assert!(read(&path).unwrap_err().contains("cut off"));
        fs::write(&path, "tick,release_utc\n").unwrap();
        assert!(read(&path).unwrap_err().contains("no flight file") && !is_flight(&path).unwrap());
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/version", folder.path().join("link")).unwrap();
        for path in [&folder.path().join("link"), Path::new("/proc/version")] {
            assert!(read(path).unwrap_err().ends_with("it is a file of the kernel's"));
        }
        let pipe = folder.path().join("flight");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // While a reader has it open, a non-blocking writer can open it too.
        let has_reader = || File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).is_ok();
        let seen = std::thread::scope(|scope| {
            let looking = scope.spawn(|| (0..2_000).any(|_| has_reader()));
            while !looking.is_finished() {
                assert_eq!(read(&pipe).unwrap_err().split(": ").last(), Some("it is no regular file"));
            }
            looking.join().unwrap()
        });
        assert!(!seen);
    }

    #[test]
    fn very_many_reloads_begin_a_new_file_that_knows_who_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flight");
        let mut file = begin(&folder);
        let task = |number| Known::Task(KnownTask { number, name: "x".repeat(1 << 16), ..KnownTask::default() });
        file.describe(&task(0)).unwrap();
        let mut begun = 0;
        for number in 1..200 {
            begun += u32::from(file.describe(&task(number)).unwrap());
            file.write(&mut [pack(&ran(number.into()))]).unwrap();
            begun += u32::from(file.describe(&Known::TaskEnded { number, at_ns: 0 }).unwrap());
        }
        assert_eq!(begun, 3);
        let flight = read(&path).unwrap();
        assert!(flight.who.tasks.contains_key(&0) && numbers(&flight).last() == Some(&199), "{:?}", flight.entries);
        assert!(fs::metadata(&path).unwrap().len() < TEXT_LIMIT);
    }

    const TEXT_LIMIT: u64 = 5 << 20;
}
