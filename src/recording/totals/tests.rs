//! The totals of a recording must match its ticks, wherever the file was cut off, for any number of files and any part of it.

use super::read::{Part, Summed, sum_up};
use super::tally::Tally;
use crate::config::RecordConfig;
use crate::metrics::Cause;
use crate::recording::content::{Content, RecordedTick, Why, Whys};
use crate::recording::recordings::{Recording, Recordings};
use crate::recording::tests::testing::{UTC, in_folder, limits, moment, names};
use crate::time::{Instant, Span};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Repeatable pseudo-random numbers.
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

/// A run of three tasks that tick and miss at random, lose ticks, and start over.
struct Run {
    random: Random,
    n: [u64; 3],
    now: i64, // milliseconds
    recording: Recording,
    offered: u64,
}

impl Run {
    fn new(seed: u64, limits: &RecordConfig) -> Self {
        let content = |task: &str| Content {
            task: task.into(),
            columns: Vec::new(),
            raw: false,
            valid: Vec::new(),
            format: None,
        };
        let recording = Recordings::default().open(limits, &content(TASKS[0])).unwrap();
        for (id, task) in (0..).zip(TASKS) {
            recording.join(id, &content(task));
        }
        Self { random: Random(seed), n: [0; 3], now: 0, recording, offered: 0 }
    }

    /// A round of the recorder in which `ticks` ticks arrive; the next round comes `pause` milliseconds later.
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

const ALL: Part = Part { from: Span::ZERO, length: Span::MAX };

fn read(path: &Path) -> Result<Summed, String> {
    sum_up(path, ALL, &mut |_, _| {})
}

/// Counts of a file's messages: ticks, overruns, skipped, and misses by cause. The file may have no end.
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

type Counted = BTreeMap<String, (u64, u64, u64, BTreeMap<String, u64>)>;

/// Asserts that a file's totals agree with its messages and are consistent. Returns the number of ticks.
fn agree(path: &Path) -> u64 {
    let counted = counted(path);
    let read = match read(path) {
        Ok(read) => read,
        Err(error) => {
            assert!(counted.is_empty(), "{error}");
            return 0;
        }
    };
    let totals = &read.totals;
    for task in &totals.tasks {
        let tally = &task.tally;
        let causes = Cause::ALL.into_iter().map(|cause| (cause.word().to_owned(), tally.causes[cause.index()]));
        let causes = causes.filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            (tally.counts.ran, tally.counts.overruns, tally.counts.skipped, causes),
            counted[&task.name],
            "{}",
            task.name
        );
        // The file may end between a tick and the cause of its overrun.
        assert!(tally.without_cause() == 0 || tally.without_cause() == 1 && read.cut_off);
        assert!(tally.worst.iter().map(|miss| miss.worst).is_sorted_by(|a, b| a >= b));
        let mut sum = super::Bin::default();
        let bins: Vec<_> = totals.bins(task).collect();
        assert!(bins.len() <= 240 && bins.iter().all(|(at, _)| (0..240).contains(at)));
        bins.iter().for_each(|(_, bin)| sum.add(bin));
        let of_bins = (
            sum.counts.ran,
            sum.counts.overruns,
            sum.counts.skipped,
            sum.lateness.count(),
            sum.lateness.distribution().max,
        );
        let of_all = (
            tally.counts.ran,
            tally.counts.overruns,
            tally.counts.skipped,
            tally.counts.ran,
            tally.lateness.distribution().max,
        );
        assert_eq!(of_bins, of_all, "{}", task.name);
    }
    totals.tasks.iter().map(|task| task.tally.counts.ran).sum()
}

#[test]
fn totals_say_what_the_ticks_say_wherever_the_file_is_cut_off() {
    for seed in 0..2 {
        let (_folder, path) = in_folder("x.mcap");
        let mut run = Run::new(seed, &limits(&path));
        for round in 0..60 {
            run.round(10 + round % 50, if round % 3 == 0 { 21_000 } else { 900 });
        }
        // As left by a kill: without an end.
        let killed = path.with_file_name("killed.mcap");
        fs::copy(&path, &killed).unwrap();
        assert!(agree(&killed) > 1_000 && read(&killed).unwrap().cut_off);
        run.recording.finish().unwrap();
        assert_eq!(agree(&path), run.offered);
        assert!(!read(&path).unwrap().cut_off);
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
fn parts_of_a_recording_add_up_to_the_whole() {
    let (_folder, path) = in_folder("x.mcap");
    let mut run = Run::new(77, &limits(&path));
    (0..300).for_each(|_| run.round(5, 1_100));
    run.recording.finish().unwrap();
    let part = |from, length| sum_up(&path, Part { from, length }, &mut |_, _| {});
    let ticks = |read: &Summed| read.totals.tasks.iter().map(|task| task.tally.counts.ran).sum::<u64>();
    let minute = Span::from_seconds(60);
    // The run lasts 330 s.
    let parts: Vec<_> = (0..6).map(|n| ticks(&part(Span::from_seconds(60 * n), minute).unwrap())).collect();
    assert_eq!(parts.iter().sum::<u64>(), run.offered, "{parts:?}");
    assert!(parts.iter().all(|ticks| *ticks > 50), "{parts:?}");
    let rest = part(Span::from_seconds(300), Span::MAX).unwrap();
    assert_eq!(ticks(&rest), parts[5]);
    assert!(part(Span::from_seconds(360), Span::MAX).unwrap_err().ends_with("there is no tick in that part of it"));
}

#[test]
fn a_recording_that_says_that_more_is_missing_than_can_be_counted_is_read() {
    let mut tally = Tally::default();
    for (n, at) in [0, u64::MAX, 0, u64::MAX].into_iter().zip(0..) {
        let tick = RecordedTick {
            task: 0,
            n,
            release: Instant::ZERO,
            lateness: Span::ZERO,
            response: Span::ZERO,
            skipped: 0,
            woke: Span::ZERO,
            oversleep: None,
            missed: None,
        };
        tally.enter(&tick, at);
    }
    assert_eq!((tally.counts.ran, tally.restarts, tally.unrecorded), (4, 1, u64::MAX));
}

#[test]
fn each_of_the_files_of_a_recording_keeps_to_its_size() {
    for (size, seed) in [(60_000, 1), (600_000, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.mcap");
        let mut run = Run::new(seed, &RecordConfig { max_size: Some(size), ..limits(&path) });
        (0..400).for_each(|round| run.round(round % 40, 1_700));
        run.recording.finish().unwrap();
        // Another run puts the existing file aside.
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
        }
        assert_eq!(ticks, run.offered + next.offered);
    }
}

#[test]
fn a_reader_of_a_long_recording_keeps_few_bins() {
    let (_folder, path) = in_folder("x.mcap");
    let content = Content { task: "t".into(), columns: Vec::new(), raw: false, valid: Vec::new(), format: None };
    let recording = Recordings::default().open(&limits(&path), &content).unwrap();
    recording.join(0, &content);
    // Four minutes at 1 kHz, with spans that use every bucket within a few powers of two.
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
    let summed = read(&path).unwrap();
    let [task] = &summed.totals.tasks[..] else { panic!("one task") };
    assert_eq!((task.tally.counts.ran, task.tally.grid), (n, (n - 1, (n.cast_signed() - 1) * 1_000_000)));
    let (_, width) = summed.totals.bins_from().unwrap();
    let bins: Vec<_> = summed.totals.bins(task).map(|(at, bin)| (at, bin.counts.ran)).collect();
    assert_eq!((width, bins.len()), (Span::from_seconds(1), 240));
    assert!(bins.iter().zip(0..).all(|(bin, at)| *bin == (at, 1_000)), "{bins:?}");
    // The second that is read again contains the ticks of only one second.
    let worst = summed.worst_second.unwrap();
    let ticks = &worst.ticks.task("t").unwrap().ticks;
    assert!((500..=1_000).contains(&ticks.len()), "{}", ticks.len());
    let late = |response: Span, run: Span| response - run;
    let latest = ticks.iter().map(|tick| late(tick.response, tick.run)).max().unwrap();
    assert_eq!(latest.nanos(), task.tally.lateness.distribution().max);
}
