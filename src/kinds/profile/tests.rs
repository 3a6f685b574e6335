use super::csv::{self, Wanted};
use super::shape::{Course, Shape, Wave};
use super::*;
use crate::config::NumberOrName;
use crate::time::{Instant, Span};
use std::fs;

const SECOND: i128 = 1_000_000_000;

fn rate(num: u64, den: u64) -> Rate {
    Rate::new(num, den).unwrap()
}

fn course(shape: Shape) -> Course {
    Course { shape, round: None }
}

#[test]
fn ramps_and_steps_stay_or_repeat() {
    let ramp = Shape::Ramp { from: 20.0, to: 180.0, duration: Span::from_seconds(16) };
    let (stays, repeats) = (course(ramp.clone()), Course { shape: ramp, round: Some(Span::from_seconds(16)) });
    let at = |course: &Course, seconds: i128| course.at(seconds * SECOND);
    assert_eq!([0, 1, 8, 15, 16, 1_000].map(|s| at(&stays, s)), [20.0, 30.0, 100.0, 170.0, 180.0, 180.0]);
    assert_eq!([0, 15, 16, 17, 160].map(|s| at(&repeats, s)), [20.0, 170.0, 20.0, 30.0, 20.0]);
    let points = || vec![(0, 1.0), (10_000_000_000, 5.0), (12_000_000_000, -1.0)].into();
    let steps =
        Course { shape: Shape::Points { points: points(), interpolates: false }, round: Some(Span::from_seconds(15)) };
    assert_eq!([0, 9, 10, 11, 12, 14, 15, 25].map(|s| at(&steps, s)), [1.0, 1.0, 5.0, 5.0, -1.0, -1.0, 1.0, 5.0]);
    assert_eq!(steps.at(10 * SECOND - 1), 1.0, "to the nanosecond");
    let lines = course(Shape::Points { points: points(), interpolates: true });
    assert_eq!([0, 5, 10, 11, 12, 99].map(|s| at(&lines, s)), [1.0, 3.0, 5.0, 2.0, -1.0, -1.0]);
    // A time before the first row.
    let late =
        course(Shape::Points { points: vec![(1_000_000_000, 7.0), (2_000_000_000, 9.0)].into(), interpolates: true });
    assert_eq!(late.at(0), 7.0);
}

#[test]
fn waves_are_exact_however_long_they_last() {
    let wave = Wave { offset: 10.0, amplitude: 2.0 };
    let sine = |num, den| course(Shape::Sine { wave, frequency: rate(num, den) });
    let quarter = sine(1, 4);
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found}, not {wanted}");
    for (seconds, wanted) in [(0, 10.0), (1, 12.0), (2, 10.0), (3, 8.0), (4, 10.0)] {
        near(quarter.at(seconds * SECOND), wanted);
        // After whole cycles, 30,000 years later, it is the same, bit for bit.
        let later = quarter.at((seconds + 1_000_000_000_000) * SECOND);
        assert_eq!(later.to_bits(), quarter.at(seconds * SECOND).to_bits(), "{seconds}");
    }
    let ntsc = sine(30_000, 1_001);
    assert_eq!(ntsc.at(123_456_789).to_bits(), ntsc.at(123_456_789 + 1_001 * SECOND * 1_000_000).to_bits());
    // The frequency of a chirp is the slope of its phase: 1 Hz to 3 Hz in 2 s make 4 cycles.
    let (from, to, duration) = (rate(1, 1), rate(3, 1), Span::from_seconds(2));
    let chirp = course(Shape::Chirp { wave, from, to, duration });
    for (seconds, cycles) in [(0.0_f64, 0.0), (0.5, 0.625), (1.0, 1.5), (1.5, 2.625), (2.0, 4.0), (9.0, 4.0)] {
        let wanted = 10.0 + 2.0 * (std::f64::consts::TAU * cycles).sin();
        #[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
        near(chirp.at((seconds * 1e9) as i128), wanted);
    }
    // Its last value stays: 1 Hz to 2 Hz in 1.5 s end a quarter of a cycle after the second full one.
    let (to, duration) = (rate(2, 1), Span::from_millis(1_500));
    let chirp = course(Shape::Chirp { wave, from, to, duration });
    for nanos in [1_500_000_000, 1_700_000_000, 9 * SECOND] {
        near(chirp.at(nanos), 12.0);
    }
}

#[test]
fn time_is_that_of_the_releases() {
    let ramp = Shape::Ramp { from: 0.0, to: 1_001.0, duration: Span::from_seconds(1_001) };
    let mut profile = Profile::new(course(ramp), rate(30_000, 1_001), "m".into());
    let mut run = |n: u64, skipped: u64| {
        let (zero, at) = (Span::ZERO, Instant::from_nanos(i128::from(n) * 77));
        let tick = Tick { n, release: at, started: at, lateness: zero, skipped, credit: zero, period: zero };
        let mut values = [f64::NAN];
        profile.tick(&tick, &mut values).unwrap();
        values[0]
    };
    // Its first release was tick 5; two were skipped before it ran.
    let found = [(7, 2), (8, 0), (15_005, 14_996), (30_005, 14_999), (99_999, 0)].map(|(n, skipped)| run(n, skipped));
    // 1001 units in 1001 seconds: the value is the time, in whole nanoseconds.
    let nanos = found.map(|value| (value * 1e9).round());
    assert_eq!(nanos, [66_733_333.0, 100_100_000.0, 500_500_000_000.0, 1_001e9, 1_001e9]);
}

fn wanted(time: NumberOrName, value: NumberOrName) -> Wanted {
    Wanted { time, value }
}

fn read(text: &str, wanted: &Wanted) -> Result<Vec<(i64, f64)>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    fs::write(&path, text).unwrap();
    let shown = format!("{}:", path.display());
    csv::read(&path, wanted)
        .map(Vec::from)
        .map_err(|why| why.replace(&shown, "x.csv:").replace(&shown[..shown.len() - 1], "x.csv"))
}

#[test]
fn a_table_is_read_with_or_without_a_header() {
    use NumberOrName::{Name, Number};
    let by_number = wanted(Number(1), Number(2));
    let points = vec![(0, 20.0), (1_500_000_000, -3.5)];
    let name = |name: &str| Name(name.into());
    for (text, wanted) in [
        ("0,20\n1.5,-3.5\n", &by_number),
        ("\u{feff}time, level\n# comment\n\n 0 , 20 \r\n1.5,\"-3.5\"", &by_number),
        ("level,\"note, long\",time\n20,\"a, b\",0\n-3.5,,1.5\n", &wanted(Number(3), Number(1))),
        ("level,\"note, long\",time\n20,\"a, b\",0\n-3.5,,1.5\n", &wanted(name("time"), name("level"))),
    ] {
        assert_eq!(read(text, wanted), Ok(points.clone()), "{text}");
    }
}

#[test]
fn a_wrong_table_is_refused_with_its_line() {
    use NumberOrName::{Name, Number};
    let by_number = wanted(Number(1), Number(2));
    for (text, why) in [
        ("", "x.csv: it has no rows"),
        ("time,level\n", "x.csv: it has a header and no rows"),
        ("time,level\n0,1\n1,x\n", "x.csv:3: the value \"x\" is not a number"),
        ("0,1\n1,\n", "x.csv:2: the value \"\" is not a number"),
        ("0,1\n1,nan\n", "x.csv:2: the value \"nan\" is not a number"),
        ("0,1\n1\n", "x.csv:2: the value is missing: the row has no column 2"),
        ("0,1\n\nt,2\n", "x.csv:3: the time \"t\" is not a number"),
        ("0,1\n1,2\n1,3\n", "x.csv:3: the time 1 is not after that of the row before"),
        ("-1,2\n", "x.csv:1: the time -1 must be from 0 to 9e9 seconds"),
        ("0\n", "x.csv:1: there is no column 2; this line has 1"),
        (
            "tick,release_utc,lateness_ns,temp\n0,2026-11-21T03:13:18.5Z,80,21.5\n",
            "x.csv:1: this is a recording of hertzd, whose times are dates, and a profile needs a column of seconds since its first release; \
             `simulate` plays a recording as it is (values in [task.NAME.simulate])",
        ),
    ] {
        assert_eq!(read(text, &by_number), Err(why.to_owned()), "{text:?}");
    }
    let named = wanted(Name("t".into()), Number(2));
    assert_eq!(read("time,x\n0,1\n", &named), Err("x.csv:1: there is no column \"t\"; the header has time, x".into()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.mcap");
    for (bytes, why) in
        [(&b"\x89MCAP0\r\n"[..], "x.mcap is an MCAP recording, and a"), (b"\x89PNG", "is no text in UTF-8")]
    {
        fs::write(&file, bytes).unwrap();
        let refused = csv::read(&file, &named).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    let refused = csv::read(folder.path(), &named).unwrap_err();
    assert!(refused.ends_with("it is no regular file"), "{refused}");
}
