//! Reads recordings with widely used crates and with the official Python reader.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

use crate::program::task;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A message of an MCAP file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) sequence: u32,
    pub(crate) time: u64,
    pub(crate) data: Vec<u8>,
}

/// The messages of a file; if it has no end record, the messages up to its last whole chunk.
pub(crate) fn messages(path: &Path) -> Vec<Message> {
    let bytes = fs::read(path).unwrap();
    let stream = mcap::MessageStream::new_with_options(&bytes, mcap::read::Options::IgnoreEndMagic.into());
    let messages = stream.unwrap().map_while(Result::ok).map(|message| Message {
        topic: message.channel.topic.clone(),
        sequence: message.sequence,
        time: message.log_time,
        data: message.data.into_owned(),
    });
    messages.collect()
}

/// The number of messages in the summary at the end of the file; `None` without a summary.
pub(crate) fn counted(path: &Path) -> Option<u64> {
    mcap::Summary::read(&fs::read(path).unwrap()).ok()??.stats.map(|stats| stats.message_count)
}

pub(crate) fn by_topic(messages: &[Message]) -> BTreeMap<&str, Vec<&Message>> {
    let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
    messages.iter().for_each(|message| topics.entry(message.topic.as_str()).or_default().push(message));
    topics
}

/// Prints what the official Python reader finds: one line per message, with the fields of sound and pictures. Verifies the checksums of
/// chunks.
const READER: &str = r#"
import json, sys
from mcap.exceptions import EndOfFile, McapError
from mcap.reader import NonSeekingReader, make_reader
from mcap_protobuf.decoder import DecoderFactory
path, whole = sys.argv[1], sys.argv[2] == "whole"
decode = DecoderFactory()
with open(path, "rb") as file:
    reader = make_reader(file, validate_crcs=True) if whole else NonSeekingReader(file)
    try:
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            line = [channel.topic, message.sequence, message.log_time, message.data.hex()]
            if channel.message_encoding == "json":
                json.loads(message.data), json.loads(schema.data)
            else:
                m = decode.decoder_for(channel.message_encoding, schema)(message.data)
                line.append({f.name: getattr(m, f.name) for f in m.DESCRIPTOR.fields if f.name not in ("data", "timestamp")})
                line.append([m.timestamp.seconds * 10**9 + m.timestamp.nanos, m.data.hex()])
            print(json.dumps(line))
    except (EndOfFile, McapError) as error:
        if whole: raise
"#;

/// The output of the Python reader; `None` if it is not installed.
pub(crate) fn python(path: &Path, whole: bool) -> Option<Vec<Value>> {
    let installed = Command::new("python3").args(["-c", "import mcap.reader, mcap_protobuf.decoder"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        crate::program::emulation::say_skipped("python3 has no mcap and mcap-protobuf-support");
        return None;
    }
    let mut reader = Command::new("python3");
    reader.args(["-c", READER]).arg(path).arg(if whole { "whole" } else { "cut off" });
    let output = reader.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// How many messages are printed by the recipe in docs/recordings.md for the MCAP file of a killed run; `None` if Python's reader is not
/// installed.
pub(crate) fn recipe_for_killed_run(path: &Path) -> Option<usize> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recordings.md")).unwrap();
    let blocks = page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let recipe = blocks.filter(|block| block.contains("\"killed.mcap\"")).collect::<Vec<_>>();
    assert_eq!(recipe.len(), 1, "there is one recipe");
    if !crate::program::works({
        let mut python = Command::new("python3");
        python.args(["-c", "import mcap.reader"]);
        python
    }) {
        crate::program::emulation::say_skipped("python3 has no mcap");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::copy(path, folder.path().join("killed.mcap")).unwrap();
    let output = Command::new("python3").args(["-c", recipe[0]]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count())
}

/// Asserts that the Python reader finds the same messages.
pub(crate) fn python_agrees(path: &Path, messages: &[Message], whole: bool) {
    let Some(lines) = python(path, whole) else { return };
    let found = lines.iter().map(|line| {
        let text = |index: usize| line[index].as_str().unwrap().to_owned();
        (text(0), line[1].as_u64().unwrap(), line[2].as_u64().unwrap(), text(3))
    });
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let wanted = messages.iter().map(|m| (m.topic.clone(), u64::from(m.sequence), m.time, hex(&m.data)));
    assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
}

/// The files of a recording: finished ones in the order of their names, then the current one.
pub(crate) fn files(folder: &Path, stem: &str, ending: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{stem}.")) && name.ends_with(ending)
    };
    let mut files: Vec<_> = names.filter(ours).collect();
    // `x.2026…Z.csv` comes before `x.2026…Z-2.csv`, and `x.csv` comes last.
    files.sort_by_key(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(ending).to_owned();
        let (time, number) = name.split_once("Z-").unwrap_or((name.trim_end_matches('Z'), "1"));
        (time == stem, time.to_owned(), number.parse::<u32>().unwrap())
    });
    files
}

pub(crate) fn recorded<'a>(summary: &'a Value, name: &str) -> &'a Value {
    &task(summary, name)["recorded"]
}
