//! What a digest says is what its ticks say: wherever the file was cut off, however many files there are, whatever another
//! program did to it.

use super::read::{Digested, digest_larger};
use super::tally::Tally;
use crate::config::RecordConfig;
use crate::metrics::Cause;
use crate::recording::content::{Content, RecordedTick, Why, Whys};
use crate::recording::mcap_record::op;
use crate::recording::recordings::{Recording, Recordings};
use crate::recording::testing::{UTC, in_folder, limits, moment, names};
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The same numbers again and again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn why(&mut self, count: u64) -> Option<Why> {
        let cause = Cause::ALL[usize::try_from(self.below(11)).unwrap()];
        let by = (cause == Cause::Blocked).then(|| format!("task-{}", self.below(3)).into());
        (count > 0).then_some(Why { cause: Some(cause), by, count })
    }
}

const TASKS: [&str; 3] = ["fast", "slow", "odd"];

/// A run of three tasks that tick at random, miss at random, lose ticks, and begin again.
struct Run {
    random: Random,
    n: [u64; 3],
    now: i64, // milliseconds
    recording: Recording,
    offered: u64,
}

impl Run {
    fn new(seed: u64, limits: &RecordConfig) -> Self {
        let content = |task: &str| Content { task: task.into(), columns: Vec::new(), format: None };
        let recording = Recordings::default().open(limits, &content(TASKS[0])).unwrap();
        for (id, task) in (0..).zip(TASKS) {
            recording.join(id, &content(task));
        }
        Self { random: Random(seed), n: [0; 3], now: 0, recording, offered: 0 }
    }

    /// A round of the recorder, in which `ticks` ticks come; the next one comes `pause` milliseconds later.
    fn round(&mut self, ticks: u64, pause: i64) {
        self.recording.begin(moment(self.now));
        for _ in 0..ticks {
            let (tick, utc) = self.tick();
            self.recording.lock().tick(&tick, utc);
            self.offered += 1;
        }
        self.recording.flush().unwrap();
        self.now += pause;
    }

    fn tick(&mut self) -> (RecordedTick, i128) {
        let random = &mut self.random;
        let task = [0, 0, 0, 0, 1, 2][usize::try_from(random.below(6)).unwrap()];
        let rare = |random: &mut Random, most: u64| if random.below(20) == 0 { random.below(most) } else { 0 };
        let (before, after, overrun, lost) =
            (rare(random, 40), rare(random, 9), u64::from(random.below(15) == 0), rare(random, 3));
        let n = self.n[task] + lost + before;
        self.n[task] = if random.below(5_000) == 0 { 0 } else { n + 1 + after };
        let lateness = Span::from_nanos(i64::try_from(random.below(1 << (10 + n % 20))).unwrap() - 100);
        let run = Span::from_nanos(i64::try_from(random.below(1_000_000)).unwrap());
        let whys = Whys { before: random.why(before), overrun: random.why(overrun), after: random.why(after) };
        let release =
            Instant::ZERO + Span::from_millis(self.now) + Span::from_micros(random.below(40_000).cast_signed());
        let tick = RecordedTick {
            task: u32::try_from(task).unwrap(),
            n,
            release,
            lateness,
            response: lateness + run,
            skipped: before + after,
            woke: Span::ZERO,
            oversleep: n.is_multiple_of(2).then_some(Span::from_nanos(7)),
            missed: (whys.count() > 0).then(|| Box::new(whys)),
        };
        (tick, release.nanos() + UTC)
    }
}

fn by_digest(path: &Path) -> Result<Digested, String> {
    digest_larger(path, 0, &mut |_, _| {})
}

fn by_ticks(path: &Path) -> Result<Digested, String> {
    digest_larger(path, u64::MAX, &mut |_, _| {})
}

/// All that a tally says.
fn told(tally: &Tally) -> String {
    let spread = [&tally.lateness, &tally.run, &tally.response].map(|histogram| histogram.numbers());
    let Tally { ticks, overruns, skipped, unrecorded, restarts, causes, blockers, first, last, grid, worst, .. } =
        tally;
    format!(
        "{ticks} {overruns} {skipped} {unrecorded} {restarts} {causes:?} {blockers:?} {first:?} {last:?} {grid:?} {worst:#?} {spread:?}"
    )
}

/// What all bins of all tasks say together.
fn in_bins(digested: &Digested) -> BTreeMap<String, ([u64; 3], [Vec<i64>; 2])> {
    let digest = &digested.digest;
    let all = digest.tasks.iter().map(|task| {
        let mut sum = super::Bin::default();
        let bins: Vec<_> = digest.bins(task).collect();
        assert!(bins.len() <= 240 && bins.iter().all(|(at, _)| (0..240).contains(at)));
        bins.iter().for_each(|(_, bin)| sum.add(bin));
        (task.name.clone(), ([sum.ticks, sum.overruns, sum.skipped], [sum.lateness.numbers(), sum.run.numbers()]))
    });
    all.collect()
}

fn by_name(digested: &Digested) -> BTreeMap<&str, String> {
    digested.digest.tasks.iter().map(|task| (task.name.as_str(), told(&task.tally))).collect()
}

/// Counts of the messages of a file, which may have no end: ticks, overruns, skipped, and missed by cause.
fn counted(path: &Path) -> Counted {
    let bytes = fs::read(path).unwrap();
    let mut counts = Counted::new();
    let Ok(messages) = ::mcap::MessageStream::new_with_options(&bytes, ::mcap::read::Options::IgnoreEndMagic.into())
    else {
        return counts;
    };
    for message in messages.map_while(Result::ok) {
        let (task, kind) = message.channel.topic.split_once('/').unwrap();
        let value: Value = serde_json::from_slice(&message.data).unwrap();
        let number = |key: &str| value[key].as_u64().unwrap_or(0);
        let (ticks, overruns, skipped, causes) = counts.entry(task.into()).or_default();
        let mut blame = |key: &str, count| {
            value[key].as_str().into_iter().for_each(|word| *causes.entry(word.into()).or_default() += count);
        };
        if kind == "overruns" {
            blame("cause", 1);
        } else {
            *ticks += 1;
            *overruns += u64::from(value["overrun"] == true);
            *skipped += number("skipped");
            blame("cause_before", number("skipped_before"));
            blame("cause_after", number("skipped_after"));
        }
    }
    counts
}

/// Asserts that both ways of reading a file agree, and agree with its messages; returns how many ticks it has.
fn agree(path: &Path) -> u64 {
    agree_with(path, &counted(path))
}

type Counted = BTreeMap<String, (u64, u64, u64, BTreeMap<String, u64>)>;

fn agree_with(path: &Path, counted: &Counted) -> u64 {
    let (digested, parsed) = match (by_digest(path), by_ticks(path)) {
        (Ok(digested), Ok(parsed)) => (digested, parsed),
        (Err(one), Err(other)) => {
            assert_eq!((one, counted.len()), (other, 0), "{}", path.display());
            return 0;
        }
        (one, other) => panic!("{}: {:?} {:?}", path.display(), one.err(), other.err()),
    };
    assert_eq!(by_name(&digested), by_name(&parsed), "{}", path.display());
    assert_eq!(in_bins(&digested), in_bins(&parsed));
    assert_eq!(digested.cut_off, parsed.cut_off);
    for task in &digested.digest.tasks {
        let tally = &task.tally;
        let causes = Cause::ALL.into_iter().map(|cause| (cause.word().to_owned(), tally.causes[cause.index()]));
        let causes = causes.filter(|(_, count)| *count > 0).collect();
        assert_eq!((tally.ticks, tally.overruns, tally.skipped, causes), counted[&task.name], "{}", task.name);
        // Where the file ends between a tick and the cause of its overrun.
        assert!(tally.without_cause() == 0 || tally.without_cause() == 1 && digested.cut_off);
        assert!(tally.worst.iter().map(|miss| miss.worst).is_sorted_by(|a, b| a >= b));
    }
    digested.digest.tasks.iter().map(|task| task.tally.ticks).sum()
}

/// The digests of a file: where each begins, and what it says.
fn digests(path: &Path) -> Vec<(u64, Value)> {
    let mut file = crate::recording::mcap_file::McapFile::open(path).unwrap();
    let mut found = Vec::new();
    while let Some(at) = file.next().unwrap() {
        if at.opcode == op::ATTACHMENT
            && let Some(text) = file.attachment(at, super::NAME).unwrap()
        {
            found.push((at.begin, serde_json::from_slice(&text).unwrap()));
        }
    }
    found
}

#[test]
fn a_digest_says_what_its_ticks_say_wherever_the_file_is_cut_off() {
    for seed in 0..2 {
        let (_folder, path) = in_folder("x.mcap");
        let mut run = Run::new(seed, &limits(&path));
        for round in 0..60 {
            run.round(10 + round % 50, if round % 3 == 0 { 21_000 } else { 900 });
        }
        // As a kill leaves it: no end, and ticks behind the last digest.
        let killed = path.with_file_name("killed.mcap");
        fs::copy(&path, &killed).unwrap();
        assert!(agree(&killed) > 1_000 && by_digest(&killed).unwrap().cut_off);
        run.recording.finish().unwrap();
        assert_eq!(agree(&path), run.offered);
        assert!(!by_digest(&path).unwrap().cut_off);
        assert!(digests(&path).len() > 4, "{}", digests(&path).len());
        let whole = fs::read(&path).unwrap();
        for _ in 0..25 {
            let length = usize::try_from(run.random.below(whole.len() as u64)).unwrap();
            fs::write(&killed, &whole[..length]).unwrap();
            if length >= 8 {
                agree(&killed);
            }
        }
    }
}

#[test]
fn of_a_damaged_or_misplaced_digest_the_ticks_are_read() {
    let (_folder, path) = in_folder("x.mcap");
    let mut run = Run::new(77, &limits(&path));
    (0..300).for_each(|_| run.round(5, 1_100));
    run.recording.finish().unwrap();
    let (whole, found, counted) = (fs::read(&path).unwrap(), digests(&path), counted(&path));
    for (begin, _) in &found {
        let mut damaged = whole.clone();
        damaged[usize::try_from(*begin).unwrap() + 300] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(agree_with(&path, &counted), run.offered);
        assert!(crate::recording::read(&path).is_ok());
    }
    // A later version, with a checksum of its own.
    let at = usize::try_from(found[1].0).unwrap();
    let mut later = whole.clone();
    let length = usize::try_from(u64::from_le_bytes(later[at - 8..at].try_into().unwrap())).unwrap();
    let version = later[at..].windows(11).position(|window| window == b"\"version\":1").unwrap();
    later[at + version + 10] = b'2';
    let crc = crc32fast::hash(&later[at..at + length - 4]);
    later[at + length - 4..at + length].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, &later).unwrap();
    assert_eq!(agree(&path), run.offered);
    // As a program leaves it that takes out a chunk and keeps the attachments.
    let mut file = crate::recording::mcap_file::McapFile::open(&path).unwrap();
    let chunks = std::iter::from_fn(|| file.next().unwrap()).filter(|at| at.opcode == op::CHUNK);
    let (begin, end) = chunks.skip(100).map(|at| at.bounds()).next().unwrap();
    let place = |offset: u64| usize::try_from(offset).unwrap();
    let rewritten = [&whole[..place(begin)], &whole[place(end)..]].concat();
    fs::write(&path, rewritten).unwrap();
    assert_eq!(by_name(&by_digest(&path).unwrap()), by_name(&by_ticks(&path).unwrap()));
}

#[test]
fn each_of_the_files_of_a_recording_has_digests_and_keeps_to_its_size() {
    for (size, seed) in [(60_000, 1), (600_000, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.mcap");
        let mut run = Run::new(seed, &RecordConfig { max_size: Some(size), ..limits(&path) });
        (0..400).for_each(|round| run.round(round % 40, 1_700));
        run.recording.finish().unwrap();
        // Another run puts aside what is there.
        let mut next = Run::new(seed + 10, &RecordConfig { max_size: Some(size), ..limits(&path) });
        (0..90).for_each(|_| next.round(20, 1_700));
        next.recording.finish().unwrap();
        let files = names(folder.path());
        assert!(files.len() > 2, "{files:?}");
        let mut ticks = 0;
        for name in &files {
            let file = folder.path().join(name);
            ticks += agree(&file);
            assert!(fs::metadata(&file).unwrap().len() <= size, "{name}");
            assert!(!digests(&file).is_empty() || size < 600_000, "{name}");
        }
        assert_eq!(ticks, run.offered + next.offered);
    }
}

#[test]
fn a_digest_is_a_small_part_of_a_long_recording_and_a_reader_keeps_few_bins() {
    let (_folder, path) = in_folder("x.mcap");
    let content = Content { task: "t".into(), columns: Vec::new(), format: None };
    let recording = Recordings::default().open(&limits(&path), &content).unwrap();
    recording.join(0, &content);
    // Four minutes at 1 kHz, of which all buckets of a few powers of two are in use.
    let (mut random, mut n) = (Random(5), 0);
    for second in 0..240 {
        recording.begin(moment(second * 1_000));
        for milli in 0..1_000 {
            let release = Instant::ZERO + Span::from_millis(second * 1_000 + milli);
            let lateness = Span::from_nanos(i64::try_from(1_000 + random.below(40_000)).unwrap());
            let response = lateness + Span::from_nanos(i64::try_from(20_000 + random.below(200_000)).unwrap());
            let tick = RecordedTick {
                task: 0,
                n,
                release,
                lateness,
                response,
                skipped: 0,
                woke: Span::ZERO,
                oversleep: None,
                missed: None,
            };
            recording.lock().tick(&tick, release.nanos() + UTC);
            n += 1;
        }
        recording.flush().unwrap();
    }
    recording.finish().unwrap();
    let found = digests(&path);
    let largest = found.iter().map(|(_, text)| text.to_string().len()).max().unwrap();
    assert!((4..=5).contains(&found.len()), "about one a minute: {}", found.len());
    let share = fs::metadata(&path).unwrap().len() / (largest * found.len()) as u64;
    assert!(share >= 50, "the file is only {share} times as large as its digests");
    let digested = by_digest(&path).unwrap();
    let [task] = &digested.digest.tasks[..] else { panic!("one task") };
    assert_eq!((task.tally.ticks, task.tally.grid), (n, (n - 1, (n.cast_signed() - 1) * 1_000_000)));
    let (_, width) = digested.digest.bins_from().unwrap();
    let bins: Vec<_> = digested.digest.bins(task).map(|(at, bin)| (at, bin.ticks)).collect();
    assert_eq!((width, bins.len()), (Span::from_seconds(1), 240));
    assert!(bins.iter().zip(0..).all(|(bin, at)| *bin == (at, 1_000)), "{bins:?}");
    // The second that is read back has the ticks of one second.
    let worst = digested.worst_second.unwrap();
    let ticks = &worst.ticks.task("t").unwrap().ticks;
    assert!((500..=1_000).contains(&ticks.len()), "{}", ticks.len());
    let late = |response: Span, run: Span| response - run;
    let latest = ticks.iter().map(|tick| late(tick.response, tick.run)).max().unwrap();
    assert_eq!(Some(latest.nanos()), task.tally.lateness.numbers().get(1).copied());
}

/// `HERTZD_DAY=FOLDER cargo test --release --lib a_day_at_1_khz -- --ignored --nocapture` writes 13 GB there, reads them, prints what
/// that took, and deletes them; with `HERTZD_DAY_KEEP=1` it leaves them for `hertzd report`.
#[test]
#[ignore = "writes 13 GB; docs/recordings.md has what it prints"]
fn a_day_at_1_khz_is_read_in_seconds() {
    const TICKS: u64 = 86_400_000;
    let folder = std::env::var_os("HERTZD_DAY").expect("HERTZD_DAY names a folder with room for 13 GB");
    let path = Path::new(&folder).join("hertzd-day.mcap");
    let content = Content { task: "day".into(), columns: Vec::new(), format: None };
    let recording = Recordings::default().open(&limits(&path), &content).unwrap();
    recording.join(0, &content);
    let mut random = Random(1);
    let clock = KernelClock::monotonic();
    let (mut n, begun) = (0, clock.now());
    while n < TICKS {
        recording.begin(moment(n.cast_signed()));
        for _ in 0..50 {
            let release = Instant::ZERO + Span::from_millis(n.cast_signed());
            let late = random.below(40_000) + if random.below(1_000) == 0 { random.below(2_000_000) } else { 0 };
            let lateness = Span::from_nanos(late.cast_signed());
            let response = lateness + Span::from_nanos((20_000 + random.below(200_000)).cast_signed());
            let overrun = u64::from(response > Span::from_millis(1));
            let whys = Whys { before: None, overrun: random.why(overrun), after: None };
            let tick = RecordedTick {
                task: 0,
                n,
                release,
                lateness,
                response,
                skipped: 0,
                woke: Span::ZERO,
                oversleep: None,
                missed: (overrun > 0).then(|| Box::new(whys)),
            };
            recording.lock().tick(&tick, release.nanos() + UTC);
            n += 1;
        }
        recording.flush().unwrap();
    }
    recording.finish().unwrap();
    let (written, length) = (clock.now() - begun, fs::metadata(&path).unwrap().len());
    // From here on the peak of the memory is the reader's.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let begun = clock.now();
    let digested = super::digest(&path, &mut |_, _| {});
    let took = clock.now() - begun;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let digests: usize = digests(&path).iter().map(|(_, text)| text.to_string().len()).sum();
    if std::env::var_os("HERTZD_DAY_KEEP").is_none() {
        fs::remove_file(&path).unwrap();
    }
    let tally = &digested.unwrap().digest.tasks[0].tally;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!(
        "{} ticks, {} missed; {length} bytes, of which digests {digests}; written in {written}",
        tally.ticks,
        tally.missed()
    );
    println!("read in {took}; {peak}");
    assert_eq!(tally.ticks, TICKS);
}
