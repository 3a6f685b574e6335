//! Writes rows and blocks to CSV and WAV files and reads the files back.

pub(super) mod testing;

use super::content::Content;
use super::file::Moment;
use super::recordings::Recordings;
use crate::channels::{AudioFormat, Format, SampleFormat};
use crate::config::RecordConfig;
use crate::sys::entry::Entry;
use crate::time::Span;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use testing::{UTC, begun, block, column, content, in_folder, limits, moment, names, put_row, row, samples};

#[test]
fn csv_rows_have_the_time_and_gaps_stay_empty() {
    let (_folder, path) = in_folder("x.csv");
    let content = content(vec![column("temp", "°C"), column("a,b", "")], None);
    for (n, values) in [(7, [21.5, f64::NAN]), (8, [f64::NAN, -3.0])] {
        let csv = begun(&limits(&path), &content);
        csv.lock().row(0, &row(n, &values), UTC + 250_000_001);
        assert!(csv.flush().unwrap());
        assert!(!csv.flush().unwrap());
        csv.finish().unwrap();
        assert_eq!((csv.counts(0).rows, csv.counts(0).lost, csv.counts(0).files), (1, 0, 1));
    }
    let text = "tick,release_utc,lateness_ns,temp [°C],\"a,b\"\n\
                7,2023-11-14T22:13:20.250000001Z,83,21.5,\n\
                8,2023-11-14T22:13:20.250000001Z,83,,-3\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn csv_of_samples_has_a_line_for_each() {
    let (_folder, path) = in_folder("x.csv");
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
    let counts = csv.counts(0);
    assert_eq!((counts.rows, counts.samples, counts.gaps, counts.lost), (3, 3, 1, 0));
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let (_folder, path) = in_folder("thesis.csv");
    let open = |path: &Path| Recordings::default().open(&limits(path), &content(Vec::new(), None));
    fs::write(&path, "years of work\n").unwrap();
    assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "years of work\n");
    assert!(open(Path::new("/dev/null")).is_err());
    // 64 GiB without a line break, of which only the beginning and the end are read; also with the right header.
    for text in ["years of work", "tick,release_utc,lateness_ns\n"] {
        fs::write(&path, text).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(64 << 30).unwrap();
        assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{text}");
        assert_eq!(fs::metadata(&path).unwrap().len(), 64 << 30, "{text}");
    }
}

#[test]
fn other_columns_begin_the_next_csv() {
    let (folder, path) = in_folder("x.csv");
    let mut recordings = Recordings::default();
    let (one, other) = (content(vec![column("a", "")], None), content(vec![column("b", ""), column("c", "")], None));
    let csv = recordings.open(&limits(&path), &one).unwrap();
    csv.join(0, &one);
    csv.begin(moment(0));
    csv.lock().row(0, &row(1, &[1.0]), UTC);
    // As in a reload: the new task joins and has its first row, and the old one leaves.
    assert_eq!(recordings.open(&limits(&path), &other).unwrap(), csv);
    csv.join(1, &other);
    csv.lock().row(0, &row(2, &[2.0]), UTC);
    csv.lock().row(1, &row(0, &[3.0, 4.0]), UTC);
    let before = csv.counts(0);
    csv.leave(0);
    csv.finish().unwrap();
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(names(folder.path()), ["x.20231114T221320Z.csv", "x.csv"]);
    let time = "2023-11-14T22:13:20.000000000Z";
    let header = "tick,release_utc,lateness_ns";
    assert_eq!(text("x.20231114T221320Z.csv"), format!("{header},a\n1,{time},83,1\n2,{time},83,2\n"));
    assert_eq!(text("x.csv"), format!("{header},b,c\n0,{time},83,3,4\n"));
    assert_eq!([before, csv.counts(1)].map(|counts| (counts.rows, counts.lost)), [(2, 0), (1, 0)]);
}

#[test]
fn files_follow_each_other_in_the_folder_that_a_link_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let (link, data) = (folder.path().join("x.csv"), folder.path().join("data"));
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink("data/real.csv", &link).unwrap();
    let limits = RecordConfig { max_time: Some(Span::from_seconds(10)), keep: Some(1), ..limits(&link) };
    let csv = begun(&limits, &content(Vec::new(), None));
    for second in [0, 10, 20] {
        put_row(&csv, second * 1_000, second.unsigned_abs(), UTC + i128::from(second) * 1_000_000_000).unwrap();
    }
    assert_eq!(names(folder.path()), ["data", "x.csv"]);
    assert_eq!(names(&data), ["real.20231114T221330Z.csv", "real.csv"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
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

/// The samples stored in a WAV file.
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
        // Read before the file is finished, as after a kill.
        let (spec, samples) = wav::<i32>(&path);
        assert_eq!((spec.channels, spec.sample_rate, spec.sample_format), (channels, 48_000, hound::SampleFormat::Int));
        assert_eq!(spec.bits_per_sample, [16, 24, 32][usize::from(channels) - 1]);
        assert_eq!(samples, [&wanted[..], &wanted, &wanted].concat());
        let counts = recording.counts(0);
        assert_eq!((counts.blocks, counts.samples, counts.gaps, counts.lost), (3, 3 * frames, 1, 0));
        assert_eq!((counts.rows, counts.files), (0, 1));
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
    let (folder, path) = in_folder("x.wav");
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
fn wav_that_was_cut_off_goes_on_after_a_whole_frame() {
    let (_folder, path) = in_folder("x.wav");
    let recording = begun(&limits(&path), &sound(SampleFormat::S16, 2));
    let write = |index: u64| {
        let frames: Vec<u8> = (0..20).map(|byte| byte + u8::try_from(index).unwrap()).collect();
        recording.lock().block(0, &block(index, &frames), UTC);
        recording.flush().unwrap();
    };
    write(0);
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();
    write(5);
    let bytes: Vec<u8> = (0..16).chain(5..25).collect();
    let samples: Vec<i16> = bytes.as_chunks().0.iter().map(|sample| i16::from_le_bytes(*sample)).collect();
    assert_eq!(wav::<i16>(&path).1, samples);
}

#[test]
fn wav_that_was_emptied_goes_on_with_a_header() {
    let (_folder, path) = in_folder("x.wav");
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
    let (folder, path) = in_folder("x.wav");
    let recording = begun(&RecordConfig { max_size: Some(1_000), ..limits(&path) }, &sound(SampleFormat::S16, 1));
    let all: Vec<i16> = (0..2_000).collect();
    for (piece, index) in all.chunks(100).zip((0..).step_by(100)) {
        let bytes: Vec<u8> = piece.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        recording.lock().block(0, &block(index, &bytes), UTC);
    }
    recording.finish().unwrap();
    let counts = recording.counts(0);
    assert_eq!((counts.samples, counts.lost, counts.gaps, counts.files), (2_000, 0, 0, 5));
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
    let (folder, path) = in_folder("x.csv");
    let limits = RecordConfig { max_time: Some(Span::from_seconds(10)), keep: Some(2), ..limits(&path) };
    let csv = begun(&limits, &content(Vec::new(), None));
    for second in 0..50 {
        put_row(&csv, second * 1_000, second.unsigned_abs(), UTC + i128::from(second) * 1_000_000_000).unwrap();
    }
    assert_eq!(names(folder.path()), ["x.20231114T221340Z.csv", "x.20231114T221350Z.csv", "x.csv"]);
    let ticks = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ticks("x.20231114T221340Z.csv"), (20..30).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(ticks("x.csv"), (40..50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!((csv.counts(0).rows, csv.counts(0).lost, csv.counts(0).files), (50, 0, 5));
    // A file that stays empty is not finished.
    csv.begin(moment(100_000));
    csv.begin(moment(200_000));
    csv.flush().unwrap();
    assert_eq!(names(folder.path()).len(), 3);
}

/// The owner of a folder in the path can replace the folder by a link while root records.
#[test]
fn root_begins_no_file_behind_a_link_that_came_meanwhile() {
    if crate::sys::dir::effective_user() != 0 {
        return crate::sys::emulation::say_skipped("others follow links");
    }
    let (folder, _) = in_folder("x.csv");
    let [data, moved, others] = ["data", "moved", "others"].map(|name| folder.path().join(name));
    [&data, &others].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let limits = RecordConfig { max_time: Some(Span::from_seconds(10)), keep: Some(1), ..limits(&data.join("x.csv")) };
    let csv = begun(&limits, &content(Vec::new(), None));
    put_row(&csv, 0, 0, UTC).unwrap();
    fs::rename(&data, &moved).unwrap();
    std::os::unix::fs::symlink(&others, &data).unwrap();
    std::os::unix::fs::lchown(&data, Some(65_534), None).unwrap();
    let precious = others.join("x.20231114T221340Z.csv");
    fs::write(&precious, "precious").unwrap();
    for second in 1..50 {
        let _ = put_row(&csv, second * 1_000, second.unsigned_abs(), UTC + i128::from(second) * 1_000_000_000);
    }
    assert_eq!(
        (names(&others), fs::read_to_string(&precious).unwrap()),
        (vec!["x.20231114T221340Z.csv".into()], "precious".into())
    );
}

/// The same continuously: the folder is exchanged for a link while files are created, renamed and deleted.
#[test]
fn root_records_nothing_elsewhere_while_a_folder_is_exchanged_for_a_link() {
    use crate::sys::emulation::{OTHER_ROOT, cannot_be_emulated};
    if crate::sys::dir::effective_user() != 0 || cannot_be_emulated(OTHER_ROOT) {
        return crate::sys::emulation::say_skipped("others follow links");
    }
    let folder = tempfile::tempdir().unwrap();
    let [theirs, others] = ["theirs", "others"].map(|name| folder.path().join(name));
    let [data, link] = ["data", "link"].map(|name| theirs.join(name));
    [&theirs, &data, &others].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let precious = others.join("x.20231114T221340Z.csv");
    fs::write(&precious, "tick,precious").unwrap();
    std::os::unix::fs::symlink(&others, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
    [&theirs, &data].into_iter().for_each(|it| std::os::unix::fs::chown(it, Some(65_534), None).unwrap());
    let limits = RecordConfig { max_time: Some(Span::from_seconds(1)), keep: Some(1), ..limits(&data.join("x.csv")) };
    let csv = begun(&limits, &content(Vec::new(), None));
    let [one, other] =
        [&data, &link].map(|path| Entry::find(&theirs.join("-")).unwrap().beside(path.file_name().unwrap()));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                one.exchange(&other).unwrap();
            }
        });
        for second in 0..500 {
            let _ = put_row(&csv, second * 1_000, second.unsigned_abs(), UTC + i128::from(second) * 1_000_000_000);
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(csv.counts(0).files > 0);
    assert_eq!(names(&others), ["x.20231114T221340Z.csv"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "tick,precious");
}

#[test]
fn a_file_of_zeros_alone_is_put_aside() {
    let (folder, path) = in_folder("x.csv");
    fs::write(&path, [0; 5_000]).unwrap();
    let csv = begun(&limits(&path), &content(Vec::new(), None));
    put_row(&csv, 0, 1, UTC).unwrap();
    let there = names(folder.path());
    assert_eq!(there.len(), 2, "{there:?}");
    assert_eq!(fs::read(folder.path().join(&there[0])).unwrap(), [0; 5_000]);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().nth(1).unwrap()[..2], *"1,");
}

#[test]
fn names_are_in_the_order_of_the_files_where_the_first_row_of_one_is_late() {
    let (folder, path) = in_folder("x.csv");
    let limits = RecordConfig { max_time: Some(Span::from_seconds(10)), ..limits(&path) };
    let csv = begun(&limits, &content(Vec::new(), None));
    for (at, n, release) in [(5, 0, 5), (11, 1, 4), (16, 2, 16), (22, 3, 22)] {
        put_row(&csv, at * 1_000, n, UTC + i128::from(release) * 1_000_000_000).unwrap();
    }
    let there = names(folder.path());
    assert_eq!(there, ["x.20231114T221325Z-2.csv", "x.20231114T221325Z.csv", "x.csv"]);
    let first =
        |name: &str| fs::read_to_string(folder.path().join(name)).unwrap().lines().nth(1).unwrap()[..1].to_owned();
    assert_eq!([&there[1], &there[0], &there[2]].map(|name| first(name)), ["0", "1", "3"]);
}

#[test]
fn the_files_that_were_finished_last_are_kept_when_the_clock_is_set_back() {
    let (folder, path) = in_folder("x.csv");
    let limits = RecordConfig { max_time: Some(Span::from_seconds(10)), keep: Some(2), ..limits(&path) };
    let csv = begun(&limits, &content(Vec::new(), None));
    for second in 0..70 {
        let to_utc = UTC - if second < 25 { 0 } else { 7_200_000_000_000 };
        csv.begin(Moment { to_utc, ..moment(second * 1_000) });
        csv.lock().row(0, &row(second.unsigned_abs(), &[]), to_utc + i128::from(second) * 1_000_000_000);
        csv.flush().unwrap();
    }
    let first = |name: &String| {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(names(folder.path()).iter().map(first).collect::<Vec<_>>(), ["40", "50", "60"]);
}

#[test]
fn a_file_that_has_vanished_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/x.csv");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let csv = begun(&limits(&path), &content(Vec::new(), None));
    put_row(&csv, 0, 1, UTC).unwrap();
    fs::rename(&path, folder.path().join("moved.csv")).unwrap();
    put_row(&csv, 2_000, 2, UTC).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().nth(1).unwrap()[..2], *"2,");
    // The second row is lost with its file. While no file can be created, rows are lost.
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    put_row(&csv, 4_000, 3, UTC).unwrap_err();
    assert_eq!((csv.counts(0).rows, csv.counts(0).lost), (1, 2));
    fs::create_dir(path.parent().unwrap()).unwrap();
    csv.begin(moment(4_100));
    csv.lock().row(0, &row(4, &[]), UTC);
    assert_eq!(csv.counts(0).lost, 3, "it is tried once a second");
    put_row(&csv, 5_100, 5, UTC).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().nth(1).unwrap()[..2], *"5,");
    assert_eq!((csv.counts(0).rows, csv.counts(0).lost, csv.counts(0).files), (2, 3, 3));
    // Nothing is written to another file that was put in its place.
    fs::rename(&path, folder.path().join("moved.csv")).unwrap();
    fs::write(&path, "years of work\n").unwrap();
    put_row(&csv, 7_000, 6, UTC).unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "years of work\n");
    assert_eq!((csv.counts(0).rows, csv.counts(0).lost), (2, 4));
}
