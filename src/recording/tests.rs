//! Blocks and rows of every form go in, and the files are read back.

use super::*;
use crate::channels::{AudioFormat, Head, SampleFormat};
use crate::time::{Instant, Span};
use std::fs;

/// 2023-11-14T22:13:20 UTC.
pub(super) const UTC: i128 = 1_700_000_000_000_000_000;

pub(super) fn limits(path: &Path) -> RecordConfig {
    RecordConfig {
        path: path.into(),
        format: RecordFormat::of(path).unwrap_or(RecordFormat::Csv),
        max_size: None,
        max_time: None,
        keep: None,
    }
}

pub(super) fn column(name: &str, unit: &str) -> Column {
    Column { name: name.into(), unit: unit.into() }
}

pub(super) fn content(columns: Vec<Column>, format: Option<Format>) -> Content {
    Content { task: "t".into(), columns, format }
}

pub(super) fn moment(millis: i64) -> Moment {
    Moment { now: Instant::ZERO + Span::from_millis(millis), to_utc: UTC }
}

pub(super) fn row(n: u64, values: &[f64]) -> Row<'_> {
    Row { n, release: Instant::ZERO, lateness: Span::from_nanos(83), values }
}

pub(super) fn block(index: u64, bytes: &[u8]) -> Block<'_> {
    Block { head: Head { n: index + 7, at: Instant::from_nanos(1_500_000_000 + i128::from(index)), index }, bytes }
}

/// A recording that task 0 has joined and that has begun.
pub(super) fn begun(limits: &RecordConfig, content: &Content) -> Recording {
    let recording = Recordings::default().open(limits, content).unwrap();
    recording.join(0, content);
    recording.begin(moment(0));
    recording
}

/// Names in a folder, in order.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Samples of two columns, with these times.
pub(super) fn samples(samples: &[(i64, f64, f64)]) -> Vec<u8> {
    samples.iter().flat_map(|(at, a, b)| [at.to_ne_bytes(), a.to_ne_bytes(), b.to_ne_bytes()].concat()).collect()
}

#[test]
fn csv_rows_have_the_time_and_gaps_stay_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let content = content(vec![column("temp", "°C"), column("a,b", "")], None);
    for (n, values) in [(7, [21.5, f64::NAN]), (8, [f64::NAN, -3.0])] {
        let csv = begun(&limits(&path), &content);
        csv.lock().row(0, &row(n, &values), UTC + 250_000_001);
        assert!(csv.flush().unwrap());
        assert!(!csv.flush().unwrap());
        csv.finish().unwrap();
        assert_eq!((csv.tally(0).rows, csv.tally(0).lost, csv.tally(0).files), (1, 0, 1));
    }
    let text = "tick,release_utc,lateness_ns,temp [°C],\"a,b\"\n\
                7,2023-11-14T22:13:20.250000001Z,83,21.5,\n\
                8,2023-11-14T22:13:20.250000001Z,83,,-3\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn csv_of_samples_has_a_line_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let format = Format::Samples(vec![column("x", "m/s²"), column("y", "")]);
    let csv = begun(&limits(&path), &content(vec![column("rms", "")], Some(format)));
    let bytes = samples(&[(1, 0.5, -1.0), (2, f64::NAN, 3.0)]);
    csv.lock().row(0, &row(1, &[9.0]), UTC);
    csv.lock().block(0, &block(0, &bytes), UTC);
    csv.lock().block(0, &block(2, &[]), UTC);
    csv.lock().block(0, &block(5, &bytes[..24]), UTC);
    csv.flush().unwrap();
    let text = "tick,sample_utc,x [m/s²],y\n\
                7,2023-11-14T22:13:20.000000001Z,0.5,-1\n\
                7,2023-11-14T22:13:20.000000002Z,,3\n\
                12,2023-11-14T22:13:20.000000001Z,0.5,-1\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let tally = csv.tally(0);
    assert_eq!((tally.rows, tally.samples, tally.gaps, tally.lost), (3, 3, 1, 0));
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thesis.csv");
    fs::write(&path, "years of work\n").unwrap();
    let mut recordings = Recordings::default();
    let mut open = |path: &Path, columns| recordings.open(&limits(path), &content(columns, None));
    assert_eq!(open(&path, Vec::new()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "years of work\n");
    assert!(open(Path::new("/dev/null"), Vec::new()).is_err());
    // Nor is another task let into a file that is open with other columns.
    let csv = open(&folder.path().join("x.csv"), vec![column("a", "")]).unwrap();
    assert_eq!(open(csv.path(), Vec::new()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(open(csv.path(), vec![column("a", "")]).unwrap(), csv);
    let roundabout = folder.path().join("../").join(folder.path().file_name().unwrap()).join("x.csv");
    assert_eq!(open(&roundabout, vec![column("a", "")]).unwrap(), csv);
}

#[test]
fn only_sound_is_recorded_as_wav() {
    let folder = tempfile::tempdir().unwrap();
    let error = Recordings::default().open(&limits(&folder.path().join("x.wav")), &content(Vec::new(), None));
    assert!(error.unwrap_err().to_string().contains("this task has none"));
    assert!(names(folder.path()).is_empty());
}

fn sound(sample: SampleFormat, channels: u16) -> Content {
    content(vec![column("rms", "")], Some(Format::Audio(AudioFormat { rate: 48_000, channels, sample })))
}

/// Samples of a WAV file as they stand in it.
fn wav<S: hound::Sample>(path: &Path) -> (hound::WavSpec, Vec<S>) {
    let mut reader = hound::WavReader::open(path).unwrap();
    (reader.spec(), reader.samples().map(Result::unwrap).collect())
}

#[test]
fn wav_has_every_sample_as_it_was_captured() {
    let folder = tempfile::tempdir().unwrap();
    let integers = [0, 1, -1, 0x12_3456, 8_388_607, -8_388_608];
    for (sample, channels) in [(SampleFormat::S16, 1), (SampleFormat::S24, 2), (SampleFormat::S32, 3)] {
        let path = folder.path().join(format!("{channels}.wav"));
        let shift = if sample == SampleFormat::S16 { 8 } else { 0 };
        let wanted: Vec<i32> = integers.iter().map(|value| value >> shift).collect();
        let bytes: Vec<u8> = wanted.iter().flat_map(|value| value.to_le_bytes()[..sample.bytes()].to_vec()).collect();
        let recording = begun(&limits(&path), &sound(sample, channels));
        assert!(wav::<i32>(&path).1.is_empty(), "it can be opened before there is any sound");
        let frames = 6 / u64::from(channels);
        recording.lock().block(0, &block(0, &bytes), UTC);
        recording.lock().block(0, &block(frames, &bytes), UTC);
        recording.lock().block(0, &block(3 * frames, &bytes), UTC);
        recording.flush().unwrap();
        // Read before it is finished, as after a kill.
        let (spec, samples) = wav::<i32>(&path);
        assert_eq!((spec.channels, spec.sample_rate, spec.sample_format), (channels, 48_000, hound::SampleFormat::Int));
        assert_eq!(spec.bits_per_sample, [16, 24, 32][usize::from(channels) - 1]);
        assert_eq!(samples, [&wanted[..], &wanted, &wanted].concat());
        let tally = recording.tally(0);
        assert_eq!((tally.blocks, tally.samples, tally.gaps, tally.lost), (3, 3 * frames, 1, 0));
        assert_eq!((tally.rows, tally.files), (0, 1));
        recording.finish().unwrap();
        assert_eq!(wav::<i32>(&path).1.len(), 18);
    }
    let path = folder.path().join("f.wav");
    let recording = begun(&limits(&path), &sound(SampleFormat::F32, 1));
    let wanted = [0.25_f32, -1.0, 1e-30];
    recording.lock().block(0, &block(0, &wanted.map(f32::to_le_bytes).concat()), UTC);
    recording.flush().unwrap();
    assert_eq!(wav::<f32>(&path).1, wanted);
}

#[test]
fn wav_that_was_there_is_put_aside_and_never_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.wav");
    for run in 0..3_i16 {
        let recording = begun(&limits(&path), &sound(SampleFormat::S16, 1));
        recording.lock().block(0, &block(0, &run.to_le_bytes()), UTC);
        recording.finish().unwrap();
    }
    let all = names(folder.path());
    assert_eq!(all.len(), 3, "{all:?}");
    let mut found: Vec<_> = all.iter().map(|name| wav::<i16>(&folder.path().join(name)).1[0]).collect();
    assert_eq!(wav::<i16>(&path).1, [2]);
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2]);
}

#[test]
fn wav_that_was_emptied_goes_on_with_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.wav");
    let recording = begun(&limits(&path), &sound(SampleFormat::S16, 1));
    for n in 0..2_i16 {
        recording.lock().block(0, &block(n.unsigned_abs().into(), &n.to_le_bytes()), UTC);
        recording.flush().unwrap();
        assert_eq!(wav::<i16>(&path).1, [n]);
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    }
}

#[test]
fn files_are_finished_by_size_and_none_is_larger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.wav");
    let recording = begun(&RecordConfig { max_size: Some(1_000), ..limits(&path) }, &sound(SampleFormat::S16, 1));
    let all: Vec<i16> = (0..2_000).collect();
    for (piece, index) in all.chunks(100).zip((0..).step_by(100)) {
        let bytes: Vec<u8> = piece.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        recording.lock().block(0, &block(index, &bytes), UTC);
    }
    recording.finish().unwrap();
    let tally = recording.tally(0);
    assert_eq!((tally.samples, tally.lost, tally.gaps, tally.files), (2_000, 0, 0, 5));
    let stamped = |number: &str| format!("x.20231114T221321Z{number}.wav");
    let order = [stamped(""), stamped("-2"), stamped("-3"), stamped("-4"), "x.wav".into()];
    let mut found = Vec::new();
    for name in &order {
        let path = folder.path().join(name);
        assert!(fs::metadata(&path).unwrap().len() <= 1_000);
        found.extend(wav::<i16>(&path).1);
    }
    assert_eq!(found, all);
    assert_eq!(names(folder.path()).len(), 5);
}

#[test]
fn files_are_finished_by_age_and_the_oldest_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let limits = RecordConfig { max_time: Some(Span::from_seconds(10)), keep: Some(2), ..limits(&path) };
    let csv = begun(&limits, &content(Vec::new(), None));
    for second in 0..50 {
        csv.begin(moment(second * 1_000));
        csv.lock().row(0, &row(second.unsigned_abs(), &[]), UTC + i128::from(second) * 1_000_000_000);
        csv.flush().unwrap();
    }
    assert_eq!(names(folder.path()), ["x.20231114T221340Z.csv", "x.20231114T221350Z.csv", "x.csv"]);
    let ticks = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ticks("x.20231114T221340Z.csv"), (20..30).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(ticks("x.csv"), (40..50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!((csv.tally(0).rows, csv.tally(0).lost, csv.tally(0).files), (50, 0, 5));
    // What stays empty is not finished.
    csv.begin(moment(100_000));
    csv.begin(moment(200_000));
    csv.flush().unwrap();
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn what_has_vanished_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/x.csv");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let csv = begun(&limits(&path), &content(Vec::new(), None));
    csv.lock().row(0, &row(1, &[]), UTC);
    csv.flush().unwrap();
    fs::rename(&path, folder.path().join("moved.csv")).unwrap();
    csv.begin(moment(2_000));
    csv.lock().row(0, &row(2, &[]), UTC);
    csv.flush().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().nth(1).unwrap()[..2], *"2,");
    // Where it cannot be, what comes is lost; and when it can be again, it goes on.
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    csv.begin(moment(4_000));
    csv.lock().row(0, &row(3, &[]), UTC);
    csv.flush().unwrap_err();
    assert_eq!((csv.tally(0).rows, csv.tally(0).lost), (2, 1));
    fs::create_dir(path.parent().unwrap()).unwrap();
    csv.begin(moment(4_100));
    csv.lock().row(0, &row(4, &[]), UTC);
    assert_eq!(csv.tally(0).lost, 2, "it is not tried all the time");
    csv.begin(moment(5_100));
    csv.lock().row(0, &row(5, &[]), UTC);
    csv.flush().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().nth(1).unwrap()[..2], *"5,");
    assert_eq!((csv.tally(0).rows, csv.tally(0).lost, csv.tally(0).files), (3, 2, 3));
    // Nor is anything written into what somebody else has put there.
    fs::rename(&path, folder.path().join("moved.csv")).unwrap();
    fs::write(&path, "years of work\n").unwrap();
    csv.begin(moment(7_000));
    csv.lock().row(0, &row(6, &[]), UTC);
    csv.flush().unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "years of work\n");
    assert_eq!((csv.tally(0).rows, csv.tally(0).lost), (3, 3));
}
