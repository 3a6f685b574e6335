//! Tests that everything written to an MCAP file can be read back.

mod faults;

use crate::channels::{AudioFormat, Format, ImageFormat, SampleFormat};
use crate::config::RecordConfig;
use crate::metrics::Cause;
use crate::recording::content::{Content, RecordedTick, Why, Whys};
use crate::recording::recordings::Recordings;
use crate::recording::tests::testing::{
    UTC, begun, block, column, content, in_folder, limits, moment, names, row, samples,
};
use crate::time::{Instant, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One message from a file.
#[derive(Debug)]
struct Read {
    topic: String,
    schema: String,
    encoding: String,
    time: u64,
    sequence: u32,
    data: Vec<u8>,
}

impl Read {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.data).unwrap()
    }
}

/// All messages of a file, which may have no end.
fn read(path: &Path) -> Vec<Read> {
    let bytes = fs::read(path).unwrap();
    let messages =
        ::mcap::MessageStream::new_with_options(&bytes, ::mcap::read::Options::IgnoreEndMagic.into()).unwrap();
    let messages = messages.map(Result::unwrap).map(|message| Read {
        topic: message.channel.topic.clone(),
        schema: message.channel.schema.as_ref().unwrap().name.clone(),
        encoding: message.channel.message_encoding.clone(),
        time: message.log_time,
        sequence: message.sequence,
        data: message.data.into_owned(),
    });
    messages.collect()
}

fn summary(path: impl AsRef<Path>) -> ::mcap::Summary {
    ::mcap::Summary::read(&fs::read(path).unwrap()).unwrap().unwrap()
}

/// The number of messages according to the summary at the end of a file.
fn count(path: &Path) -> Option<u64> {
    ::mcap::Summary::read(&fs::read(path).unwrap()).ok()??.stats.map(|stats| stats.message_count)
}

fn utc(nanos: u64) -> u64 {
    u64::try_from(UTC).unwrap() + nanos
}

#[test]
fn values_samples_ticks_and_overruns_are_json() {
    let (_folder, path) = in_folder("x.mcap");
    let columns = vec![column("a\"b", "°C"), column("y", "")];
    let mcap = begun(&limits(&path), &content(columns.clone(), Some(Format::Samples(columns))));
    mcap.lock().row(0, &row(7, &[21.0, f64::NAN]), UTC + 1);
    mcap.lock().row(0, &row(8, &[f64::INFINITY, 1e-7]), UTC + 2);
    mcap.lock().block(0, &block(40, &samples(&[(10, 1.0, 2.0), (20, -1.5, 1e22)])), UTC);
    let tick = RecordedTick {
        task: 0,
        n: 1 << 33 | 5,
        release: Instant::ZERO,
        lateness: Span::from_nanos(100),
        response: Span::from_nanos(350),
        skipped: 2,
        woke: Span::from_nanos(80),
        oversleep: None,
        missed: None,
    };
    mcap.lock().tick(&tick, UTC + 3);
    mcap.lock().tick(&RecordedTick { oversleep: Some(Span::from_nanos(90)), ..tick.clone() }, UTC + 3);
    let why = |cause, by: Option<&str>, count| Some(Why { cause: Some(cause), by: by.map(Box::from), count });
    let whys = Whys {
        before: None,
        overrun: why(Cause::Preempted, Some("a \"b\" (pid 1)"), 1),
        after: why(Cause::OwnDebt, None, 2),
    };
    mcap.lock().tick(&RecordedTick { missed: Some(Box::new(whys)), ..tick }, UTC + 4);
    mcap.finish().unwrap();

    let messages = read(&path);
    let seen: Vec<_> = messages.iter().map(|m| (m.topic.as_str(), m.sequence, m.time - utc(0), m.json())).collect();
    let tick = |overrun: bool| json!({"n": 8_589_934_597_u64, "lateness_ns": 100, "run_ns": 250, "response_ns": 350, "skipped": 2, "overrun": overrun});
    let mut overrun = tick(true);
    overrun.as_object_mut().unwrap().remove("overrun");
    (overrun["cause"], overrun["by"]) = (json!("preempted"), json!("a \"b\" (pid 1)"));
    let mut missed = tick(true);
    (missed["skipped_after"], missed["cause_after"]) = (json!(2), json!("own-debt"));
    let mut slept = tick(false);
    (slept["woke_ns"], slept["oversleep_ns"]) = (json!(80), json!(90));
    let wanted = [
        ("t/values", 7, 1, json!({"a\"b": 21.0})),
        ("t/values", 8, 2, json!({"y": 1e-7})),
        ("t/samples", 40, 10, json!({"a\"b": 1.0, "y": 2.0})),
        ("t/samples", 41, 20, json!({"a\"b": -1.5, "y": 1e22})),
        ("t/ticks", 5, 3, tick(false)),
        ("t/ticks", 5, 3, slept),
        ("t/ticks", 5, 4, missed),
        ("t/overruns", 5, 4, overrun),
    ];
    assert_eq!(seen, wanted);
    assert!(messages.iter().all(|m| m.encoding == "json"));
    assert_eq!(count(&path), Some(8));
    let counts = mcap.counts(0);
    assert_eq!((counts.rows, counts.blocks, counts.samples, counts.ticks, counts.lost), (2, 1, 2, 3, 0));

    // The schemas describe the messages in the few words that viewers understand.
    let summary = summary(&path);
    let mut named: Vec<_> = summary.schemas.values().map(|schema| schema.name.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["hertzd.Overrun", "hertzd.Tick", "hertzd.t.samples", "hertzd.t.values"]);
    for schema in summary.schemas.values() {
        let text: Value = serde_json::from_slice(&schema.data).unwrap();
        assert_eq!((schema.encoding.as_str(), &text["type"]), ("jsonschema", &json!("object")));
        for message in messages.iter().filter(|message| message.schema == schema.name) {
            for (key, value) in message.json().as_object().unwrap() {
                let kind = text["properties"][key]["type"].as_str().unwrap();
                let fits = match kind {
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "boolean" => value.is_boolean(),
                    "string" => value.is_string(),
                    other => panic!("{other}"),
                };
                assert!(fits, "{key}: {value} is no {kind}");
            }
        }
    }
}

/// The fields of a protobuf message: by number, the values or bytes.
fn fields(mut bytes: &[u8]) -> BTreeMap<u64, Vec<Vec<u8>>> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => varint(&mut bytes).to_le_bytes().to_vec(),
            kind => {
                let length = if kind == 5 { 4 } else { usize::try_from(varint(&mut bytes)).unwrap() };
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                value.to_vec()
            }
        };
        found.entry(tag >> 3).or_default().push(value);
    }
    found
}

/// The names of the fields in a topic's schema, by number.
fn described(path: &Path, topic: &str) -> BTreeMap<u64, String> {
    let summary = summary(path);
    let channel = summary.channels.values().find(|channel| channel.topic == topic).unwrap();
    let schema = channel.schema.as_ref().unwrap();
    assert_eq!(schema.encoding, "protobuf");
    let files = fields(&schema.data);
    let [stamp, own] = &files[&1][..] else { panic!("{} files", files[&1].len()) };
    assert_eq!(fields(own)[&3], [fields(stamp)[&1][0].clone()], "it names the file that it uses");
    let message = fields(&fields(own)[&4][0]);
    let name = format!("foxglove.{}", String::from_utf8_lossy(&message[&1][0]));
    assert_eq!(schema.name, name);
    let number = |field: &BTreeMap<u64, Vec<Vec<u8>>>| u64::from_le_bytes(field[&3][0].as_slice().try_into().unwrap());
    let fields = message[&2].iter().map(|field| fields(field));
    fields.map(|field| (number(&field), String::from_utf8(field[&1][0].clone()).unwrap())).collect()
}

#[test]
fn sound_and_pictures_are_what_foxglove_shows() {
    let folder = tempfile::tempdir().unwrap();
    let image =
        |four_cc: &[u8; 4], stride| Format::Image(ImageFormat { width: 4, height: 2, stride, four_cc: *four_cc });
    let audio = |sample| Format::Audio(AudioFormat { rate: 16_000, channels: 2, sample });
    let bytes: Vec<u8> = (0..16).collect();
    for (format, topic, wanted) in [
        (image(b"YUYV", 8), "t/image", [(4, "encoding", "yuv422_yuy2"), (7, "frame_id", "t")]),
        (image(b"GREY", 4), "t/image", [(4, "encoding", "mono8"), (7, "frame_id", "t")]),
        (image(b"NV12", 4), "t/image", [(4, "encoding", "NV12"), (7, "frame_id", "t")]),
        (image(b"MJPG", 0), "t/image", [(3, "format", "jpeg"), (4, "frame_id", "t")]),
        (audio(SampleFormat::S16), "t/audio", [(3, "format", "pcm-s16"), (4, "sample_rate", "\u{80}>\0\0")]),
    ] {
        let path = folder.path().join("x.mcap");
        let mcap = begun(&limits(&path), &content(Vec::new(), Some(format.clone())));
        mcap.lock().block(0, &block(3, &bytes), UTC);
        mcap.lock().block(0, &block(9, &bytes), UTC);
        mcap.finish().unwrap();
        let messages = read(&path);
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].topic.as_str(), messages[0].encoding.as_str()), (topic, "protobuf"));
        assert_eq!((messages[0].sequence, messages[0].time), (3, utc(1_500_000_003)));
        let (message, names) = (fields(&messages[0].data), described(&path, topic));
        assert_eq!(message.keys().collect::<Vec<_>>(), names.keys().collect::<Vec<_>>(), "every field is there");
        for (number, name, value) in wanted {
            let found: String = message[&number][0].iter().map(|byte| char::from(*byte)).collect();
            assert_eq!((names[&number].as_str(), found.as_str()), (name, value));
        }
        let data = names.iter().find(|(_, name)| *name == "data").unwrap().0;
        assert_eq!(message[data][0], bytes);
        let stamp = fields(&message[&1][0]);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(number(&stamp[&1][0]) * 1_000_000_000 + number(&stamp[&2][0]), utc(1_500_000_003));
        let counts = mcap.counts(0);
        let frames = if topic == "t/audio" { 8 } else { 0 };
        assert_eq!((counts.blocks, counts.samples, counts.gaps, counts.lost), (2, frames, 1, 0), "{format:?}");
    }
}

#[test]
fn several_tasks_share_a_file() {
    let (folder, path) = in_folder("x.mcap");
    let mut recordings = Recordings::default();
    let of = |task: &str, unit: &str| Content {
        task: task.into(),
        columns: vec![column("v", unit)],
        raw: false,
        valid: Vec::new(),
        format: None,
    };
    let one = recordings.open(&limits(&path), &of("a", "m")).unwrap();
    let two = recordings.open(&limits(&path), &of("b", "m")).unwrap();
    assert_eq!(one, two);
    one.join(0, &of("a", "m"));
    one.begin(moment(0));
    one.join(1, &of("b", "m"));
    one.lock().row(0, &row(1, &[1.0]), UTC);
    one.lock().row(1, &row(2, &[2.0]), UTC + 1);
    // A task of the same name with different columns: its first message begins the next file.
    one.join(2, &of("a", "s"));
    one.lock().row(0, &row(2, &[2.0]), UTC + 1);
    one.lock().row(2, &row(3, &[3.0]), UTC + 2);
    let before = one.counts(0);
    one.leave(0);
    one.lock().row(0, &row(4, &[4.0]), UTC + 3);
    one.finish().unwrap();
    let all = names(folder.path());
    assert_eq!(all, ["x.20231114T221320Z.mcap", "x.mcap"]);
    let topics = |name: &str| -> Vec<_> {
        read(&folder.path().join(name)).into_iter().map(|message| (message.topic, message.sequence)).collect()
    };
    assert_eq!(topics(&all[0]), [("a/values".into(), 1), ("b/values".into(), 2), ("a/values".into(), 2)]);
    assert_eq!(topics(&all[1]), [("a/values".into(), 3)]);
    assert_eq!([before, one.counts(1), one.counts(2)].map(|counts| counts.rows), [2, 1, 1]);
    for name in &all {
        let summary = summary(folder.path().join(name));
        let topics: Vec<_> = summary.channels.values().map(|channel| channel.topic.as_str()).collect();
        assert_eq!(topics.iter().filter(|topic| **topic == "a/values").count(), 1, "{name}: {topics:?}");
    }
}

#[test]
fn chunks_are_written_every_second_and_a_file_without_an_end_has_them() {
    let (folder, path) = in_folder("x.mcap");
    let mcap = begun(&limits(&path), &content(vec![column("v", "")], None));
    let there = || read(&path).len();
    for (millis, wanted) in [(0, 0), (500, 0), (999, 0), (1_000, 4), (1_500, 4), (2_499, 4), (2_500, 7)] {
        mcap.begin(moment(millis));
        mcap.lock().row(0, &row(millis.unsigned_abs(), &[1.0]), UTC);
        mcap.flush().unwrap();
        assert_eq!((there(), mcap.counts(0).rows), (wanted, wanted as u64), "after {millis} ms");
    }
    assert_eq!(count(&path), None, "it has no end yet");
    // The next run puts a file without an end aside, unchanged.
    drop(mcap);
    let mcap = begun(&limits(&path), &content(vec![column("v", "")], None));
    mcap.finish().unwrap();
    assert_eq!(names(folder.path()).len(), 2);
    assert_eq!((there(), count(&path)), (0, Some(0)));
}

#[test]
fn files_are_finished_by_size_and_none_is_larger() {
    let (folder, path) = in_folder("x.mcap");
    let limits = RecordConfig { max_size: Some(64_000), ..limits(&path) };
    let mcap = begun(&limits, &content(vec![column("v", "")], None));
    for n in 0..10_000_u32 {
        mcap.lock().row(0, &row(n.into(), &[n.into()]), UTC + i128::from(n) * 1_000_000);
    }
    mcap.finish().unwrap();
    let all = names(folder.path());
    let mut found = Vec::new();
    for name in &all {
        let path = folder.path().join(name);
        let messages = read(&path);
        assert_eq!(count(&path), Some(messages.len() as u64), "{name} has its end");
        assert!(fs::metadata(&path).unwrap().len() <= 64_000, "{name}");
        found.extend(messages.into_iter().map(|message| message.sequence));
    }
    found.sort_unstable();
    assert_eq!(found, (0..10_000).collect::<Vec<_>>());
    assert_eq!((mcap.counts(0).rows, mcap.counts(0).lost), (10_000, 0));
    assert!(all.len() > 5 && mcap.counts(0).files == all.len() as u64, "{all:?}");
}
