//! Recordings of the real program, read back by the crates that others use, and by the official Python reader.

use crate::program;
use crate::program::{
    Ended, HERE, HERTZD, Running, affinity, count, is_root, pause, run, run_by, run_in, snapshot, start, task,
};
use crate::recorded::{
    Message, by_topic, counted, files, messages, python, python_agrees, recipe_for_killed_run, recorded,
};
use hertzd::Site;
use hertzd::config::{Blueprint, Kind, Kinds, Section};
use hertzd::internals::{Clock, Embedded, KernelClock};
use hertzd::task::{
    AudioFormat, BlockSender, Column, Format, Head, ImageFormat, SampleFormat, Shape, Task, Tick, TickError,
};
use hertzd::time::Span;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Two tasks in one file: one with values, and one that overruns in every other tick. No release is given up.
fn two_in_one(more: &str) -> String {
    format!(
        "[worker.main]\npolicy = \"other\"\n\
         [task.up]\nkind = \"sensor\"\nrate = 200\npath = \"/proc/uptime\"\nname = \"uptime\"\nunit = \"s\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\nrecord = \"{HERE}/x.mcap\"\n{more}\
         [task.busy]\nkind = \"load\"\nrate = 200\nrun = [\"0s\", \"2ms\"]\nphase = \"2ms\"\ndeadline = \"1ms\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\nrecord = \"{HERE}/x.mcap\"\n"
    )
}

/// Asserts that the messages are those counted in the summary, each in its place.
fn as_summed_up(summary: &Value, messages: &[Message]) {
    let topics = by_topic(messages);
    let length = |topic: &str| topics.get(topic).map_or(0, |messages| messages.len() as u64);
    for name in ["up", "busy"] {
        let (of, part) = (task(summary, name), recorded(summary, name));
        assert_eq!(length(&format!("{name}/ticks")), count(part, "ticks"), "{part}");
        assert_eq!((count(part, "lost"), count(part, "ticks")), (0, count(of, "ran")));
        assert_eq!(length(&format!("{name}/overruns")), count(of, "overruns"));
        let bytes: usize = messages.iter().filter(|m| m.topic.starts_with(name)).map(|m| m.data.len()).sum();
        assert_eq!(count(part, "bytes"), bytes as u64);
    }
    assert_eq!(length("up/values"), count(recorded(summary, "up"), "rows"));
    assert_eq!(count(recorded(summary, "up"), "rows"), count(task(summary, "up"), "ran"));
    assert!(!topics.contains_key("busy/values"));
    for (topic, messages) in topics {
        let sequences: Vec<_> = messages.iter().map(|message| message.sequence).collect();
        let wrong: Vec<_> = sequences.windows(2).filter(|two| two[0] >= two[1]).collect();
        assert!(wrong.is_empty(), "{topic}: in order, and none twice: {wrong:?}");
    }
}

#[test]
fn an_mcap_has_every_value_tick_and_overrun() {
    let ended = run(&two_in_one(""), &["--for", "3s", "--json"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let (summary, path) = (ended.summary(), ended.folder.path().join("x.mcap"));
    let messages = messages(&path);
    as_summed_up(&summary, &messages);
    assert_eq!(counted(&path), Some(messages.len() as u64));
    python_agrees(&path, &messages, true);

    let topics = by_topic(&messages);
    for (message, n) in topics["busy/ticks"].iter().zip(0_u64..) {
        let tick: Value = serde_json::from_slice(&message.data).unwrap();
        assert_eq!(
            (tick["n"].as_u64(), u64::from(message.sequence)),
            (Some(n), n),
            "with so much credit none is skipped"
        );
        let span = |key: &str| tick[key].as_i64().unwrap();
        assert_eq!(span("response_ns"), span("lateness_ns") + span("run_ns"));
        assert_eq!(tick["overrun"], span("response_ns") > 1_000_000, "{tick}");
    }
    for message in &topics["busy/overruns"] {
        let overrun: Value = serde_json::from_slice(&message.data).unwrap();
        let causes = &task(&summary, "busy")["causes"];
        assert!(causes[overrun["cause"].as_str().unwrap()].is_u64(), "{overrun}");
    }
    let values: Vec<f64> = topics["up/values"]
        .iter()
        .map(|message| serde_json::from_slice::<Value>(&message.data).unwrap()["uptime"].as_f64().unwrap())
        .collect();
    assert!(values.is_sorted());
    assert_eq!(Some(values[values.len() - 1]), task(&summary, "up")["values"]["uptime"]["last"].as_f64());
}

#[test]
fn files_of_an_mcap_follow_each_other_without_a_gap() {
    let ended = run(&two_in_one("record-max-time = \"1s\"\n"), &["--for", "3500ms", "--json"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let files = files(ended.folder.path(), "x", ".mcap");
    assert!(files.len() > 1, "{files:?}");
    let mut all = Vec::new();
    for path in &files {
        let messages = messages(path);
        assert_eq!(counted(path), Some(messages.len() as u64), "{}", path.display());
        python_agrees(path, &messages, true);
        all.extend(messages);
    }
    as_summed_up(&ended.summary(), &all);
    assert_eq!(count(recorded(&ended.summary(), "up"), "files"), files.len() as u64);
}

#[test]
fn files_of_a_csv_are_no_larger_than_they_may_be_and_only_so_many() {
    let config = |keep: &str| {
        format!(
            "[task.up]\nkind = \"sensor\"\nrate = 2000\npath = \"/proc/uptime\"\noverrun = \"credit\"\nmax-debt = \"1h\"\n\
             record = \"{HERE}/x.csv\"\nrecord-max-size = \"64 kB\"\n{keep}"
        )
    };
    for (keep, most) in [("", usize::MAX), ("record-keep = 1\n", 2)] {
        let ended = run(&config(keep), &["--for", "3s", "--json"]).wait();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
        let (summary, files) = (ended.summary(), files(ended.folder.path(), "x", ".csv"));
        let mut ticks = Vec::new();
        for path in &files {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.len() <= 64_000 && text.ends_with('\n'), "{}: {}", path.display(), text.len());
            assert!(text.starts_with("tick,release_utc,lateness_ns,value\n"));
            ticks.extend(text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse::<u64>().unwrap()));
        }
        let part = recorded(&summary, "up");
        assert_eq!((count(part, "rows"), count(part, "lost")), (6_000, 0));
        assert!(files.len() <= most && files.len() > 1, "{files:?}");
        let left = ticks.len() as u64;
        assert_eq!(ticks, (6_000 - left..6_000).collect::<Vec<_>>(), "the latest are there, each once and in order");
        assert!(keep.is_empty() == (left == 6_000));
        assert!(count(part, "files") >= files.len() as u64);
    }
}

#[test]
fn a_killed_run_leaves_whole_chunks_and_lines_which_the_next_leaves_alone() {
    let csv = format!(
        "[task.lines]\nkind = \"sensor\"\nrate = 500\npath = \"/proc/uptime\"\nrecord = \"{HERE}/lines.csv\"\n"
    );
    let config = two_in_one("") + &csv;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let mut running =
        run_in(folder, Command::new(HERTZD), &config, &["--json", "--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    let path = running.folder().join("x.mcap");
    running.wait_for("a few chunks are written", |_| path.exists() && messages(&path).len() > 1_000);
    let rows = running.folder().join("lines.csv");
    running
        .wait_for("a few lines are written", |_| fs::read_to_string(&rows).is_ok_and(|text| text.lines().count() > 3));
    let before = messages(&path);
    // If other programs leave hertzd no processor for half a second, catch-up ticks find no room. They are counted.
    let mut lost = None;
    running.wait_for("it counts", |_| {
        let now = snapshot(&socket);
        if !now["daemon"]["stale_ns"].is_null() {
            return false;
        }
        let of_task = |name| if now["tasks"].is_array() { count(recorded(&now, name), "lost") } else { 0 };
        lost = now["records"]["dropped"].as_u64().map(|dropped| dropped + of_task("up") + of_task("busy"));
        lost.is_some()
    });
    running.signal("KILL");
    let Ended { folder, status, .. } = running.wait();
    assert_eq!(status.code(), None);
    let left = messages(&path);
    assert!(left.len() >= before.len(), "what was once in a chunk stays");
    assert_eq!(counted(&path), None, "it has no end");
    python_agrees(&path, &left, false);
    assert!(recipe_for_killed_run(&path).is_none_or(|found| found == left.len()), "as docs/recordings.md says");
    for (topic, messages) in by_topic(&left) {
        let sequences: Vec<_> = messages.iter().map(|message| message.sequence).collect();
        assert!(sequences.is_sorted_by(|a, b| a < b), "{topic}");
    }
    for (topic, messages) in by_topic(&before) {
        let all = topic.ends_with("/ticks") || topic.ends_with("/values");
        let missing = u64::from(messages.last().unwrap().sequence) + 1 - messages.len() as u64;
        assert!(!all || Some(missing) <= lost, "{topic}: {missing} are missing, {lost:?} were counted");
    }
    // A kill in the middle of a write may leave a partial line, which the next run ends.
    let text = fs::read_to_string(folder.path().join("lines.csv")).unwrap();
    let whole = &text[..=text.rfind('\n').unwrap()];
    let lines = text.lines().count();
    assert!(whole.lines().count() > 1 && whole.lines().all(|line| line.split(',').count() == 4));

    let bytes = fs::read(&path).unwrap();
    let ended = run_in(folder, Command::new(HERTZD), &config, &["--for", "1s", "--json"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let files = files(ended.folder.path(), "x", ".mcap");
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(fs::read(&files[0]).unwrap(), bytes);
    as_summed_up(&ended.summary(), &messages(&files[1]));
    let text = fs::read_to_string(ended.folder.path().join("lines.csv")).unwrap();
    let rows = count(recorded(&ended.summary(), "lines"), "rows");
    assert_eq!(text.lines().count() as u64, lines as u64 + rows, "a CSV is continued");
}

#[test]
fn a_mailbox_keeps_the_latest_and_counts_the_rest() {
    let config = |queue: &str| {
        format!(
            "[task.up]\nkind = \"sensor\"\nrate = 1000\npath = \"/proc/uptime\"\nrecord = \"{HERE}/x.csv\"\nqueue = \"{queue}\"\n\
             overrun = \"credit\"\nmax-debt = \"1h\"\n"
        )
    };
    for queue in ["fifo", "mailbox"] {
        let ended = run(&config(queue), &["--for", "2s", "--json"]).wait();
        let (summary, text) = (ended.summary(), fs::read_to_string(ended.folder.path().join("x.csv")).unwrap());
        let (of, part) = (task(&summary, "up"), recorded(&summary, "up"));
        let (rows, lost) = (count(part, "rows"), count(part, "lost"));
        assert_eq!((text.lines().count() as u64 - 1, rows + lost), (rows, count(of, "ran")), "{queue}");
        // The recorder rests 50 ms between two polls. In a mailbox it finds one row at each.
        assert!((queue == "mailbox") == (lost > 0), "{queue}: {rows} rows, {lost} lost");
        // The configuration asks for this loss.
        assert_eq!((count(part, "replaced"), &summary["well"]), (lost, &true.into()), "{queue}");
    }
    let ended = run("[task.a]\nkind = \"load\"\nrate = 1\nqueue = \"mailbox\"\n", &["--for", "1s"]).wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(ended.stderr.contains("has no effect: the task has no values and no recording"), "{}", ended.describe());
}

#[test]
fn a_reload_goes_on_in_the_same_file() {
    let mut running = run(&two_in_one(""), &["--json"]);
    running.wait_until_granted();
    let (config, path) = (running.folder().join("test.toml"), running.folder().join("x.mcap"));
    let recorded = |topic: &str| messages(&path).iter().filter(|message| message.topic == topic).count();
    running.wait_for("something is recorded", |_| path.exists() && recorded("busy/ticks") > 0);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("[task.busy]", "[task.busier]")).unwrap();
    running.signal("HUP");
    running.wait_for("the new one is recorded", |_| recorded("busier/ticks") > 0);
    running.signal("TERM");
    let ended = running.wait();
    let all = messages(&path);
    assert_eq!(files(ended.folder.path(), "x", ".mcap").len(), 1, "{}", ended.describe());
    assert_eq!(counted(&path), Some(all.len() as u64));
    python_agrees(&path, &all, true);
    let topics = by_topic(&all);
    let summary = ended.summary();
    let ran = |name: &str| count(task(&summary, name), "ran");
    // If the machine delayed the metrics thread, ticks may have found no room: they are counted.
    let [up, busier] = ["up", "busier"].map(|name| count(self::recorded(&summary, name), "lost"));
    let dropped = count(&summary["records"], "dropped");
    assert!(up + busier <= dropped, "{}", ended.describe());
    let found = |topic: &str| topics[topic].len() as u64;
    assert_eq!((found("up/values"), found("up/ticks") + up), (ran("up"), ran("up")));
    assert_eq!(found("busier/ticks") + busier, ran("busier"));
    // The log reports the old recording's final counts.
    let told = ended.stderr.lines().find(|line| line.contains("busy: ended by the reload"));
    let words = told.unwrap_or_else(|| panic!("{}", ended.describe())).split_whitespace();
    let ran: Vec<u64> = words.filter_map(|word| word.strip_prefix("ran=")?.parse().ok()).collect();
    let [ran] = ran[..] else { panic!("{}", ended.describe()) };
    assert!((found("busy/ticks")..=found("busy/ticks") + dropped - up - busier).contains(&ran), "{}", ended.describe());
}

#[test]
fn a_full_disk_costs_messages_and_nothing_else_until_there_is_room_again() {
    // In a separate mount namespace, whose disk vanishes with it: so the files are copied at the end. The disk is full from the start until
    // something on it is deleted.
    let script = format!(
        "set -e; mount -t tmpfs -o size=512k hertzd-test {HERE}/disk; head -c 300k /dev/zero >{HERE}/disk/filler; \
         setpriv --pdeathsig KILL {HERTZD} run {HERE}/test.toml --json --status-socket {HERE}/s & \
         until_there() {{ while [ ! -e $1 ]; do kill -0 $!; sleep 0.05; done; }}; \
         until_there {HERE}/make-room; rm {HERE}/disk/filler; until_there {HERE}/stop; \
         kill -TERM $!; code=0; wait $! || code=$?; cp {HERE}/disk/* {HERE}/; exit $code"
    );
    let there = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|output| output.status.success());
    if !is_root() || !there {
        program::skip("mounting a small disk takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    fs::create_dir(folder.path().join("disk")).unwrap();
    let config = format!(
        "[task.csv]\nkind = \"sensor\"\nrate = 1000\npath = \"/proc/uptime\"\nrecord = \"{HERE}/disk/x.csv\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\n\
         [task.mcap]\nkind = \"sensor\"\nrate = 500\npath = \"/proc/uptime\"\nrecord = \"{HERE}/disk/x.mcap\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\n"
    );
    fs::write(folder.path().join("test.toml"), config.replace(HERE, here)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script.replace(HERE, here)]);
    let mut running = start(folder, command);
    let of_both = |running: &Running, wanted: &dyn Fn(&Value) -> bool| {
        let snapshot = snapshot(&running.folder().join("s"));
        ["csv", "mcap"].iter().all(|name| wanted(recorded(&snapshot, name)))
    };
    running.wait_for("it is there", |running| running.folder().join("s").exists());
    running.wait_for("it runs", |running| snapshot(&running.folder().join("s"))["daemon"]["ready"] == true);
    running.wait_for("both have lost something", |running| of_both(running, &|part| part["lost"].as_u64() > Some(0)));
    fs::write(running.folder().join("make-room"), "").unwrap();
    running.wait_for("both go on", |running| running.stderr().matches("recording resumed").count() >= 2);
    running.wait_for("both have rows", |running| of_both(running, &|part| part["rows"].as_u64() > Some(0)));
    fs::write(running.folder().join("stop"), "").unwrap();
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.describe());
    let summary = ended.summary();
    for name in ["csv", "mcap"] {
        let (of, part) = (task(&summary, name), recorded(&summary, name));
        println!("{name}: {part}");
        assert_eq!(count(of, "errors"), 0, "{name}");
        assert!(count(part, "rows") > 0 && count(part, "lost") > 0, "{name}: {part}");
    }
    let text = fs::read_to_string(ended.folder.path().join("x.csv")).unwrap();
    let part = recorded(&summary, "csv");
    assert!(text.ends_with('\n') && text.lines().all(|line| line.split(',').count() == 4));
    assert_eq!(text.lines().count() as u64 - 1, count(part, "rows"));
    assert_eq!(count(part, "rows") + count(part, "lost"), count(task(&summary, "csv"), "ran"));

    let path = ended.folder.path().join("x.mcap");
    let (all, part) = (messages(&path), recorded(&summary, "mcap"));
    let topics = by_topic(&all);
    let there = (topics["mcap/values"].len() as u64, topics["mcap/ticks"].len() as u64);
    assert_eq!(there, (count(part, "rows"), count(part, "ticks")));
    assert_eq!(there.0 + there.1 + count(part, "lost"), 2 * count(task(&summary, "mcap"), "ran"));
    python_agrees(&path, &all, counted(&path).is_some());
    for part in ["recording failed; the task continues", "recording resumed"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.describe());
    }
}

/// More ticks at once than the queue to the metrics thread has room for. That thread is on the same CPU.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn what_a_disk_has_taken_and_could_not_store_counts_as_lost() {
    let task = |name: &str, file: &str| {
        format!(
            "[task.{name}]\nkind = \"sensor\"\nrate = 100\npath = \"/proc/uptime\"\nrecord = \"{HERE}/{file}\"\n\
             overrun = \"credit\"\nmax-debt = \"1h\"\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let (refuses, socket) = (folder.path().join("refuses"), folder.path().join("s"));
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", program::preload(folder.path(), "refusing_disk")).env("REFUSING_DISK", &refuses);
    let config = task("csv", "x.csv") + &task("mcap", "x.mcap");
    let mut running = run_in(folder, command, &config, &["--json", "--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    let of_both = |key: &str| {
        let now = snapshot(&socket);
        let of = |name| if now["tasks"].is_array() { recorded(&now, name)[key].as_u64() } else { None };
        ["csv", "mcap"].map(|name| of(name).unwrap_or_default())
    };
    let grows = |running: &mut Running, key: &str| {
        let before = of_both(key);
        running.wait_for(key, |_| of_both(key).iter().zip(before).all(|(now, before)| *now > before));
    };
    grows(&mut running, "rows");
    fs::write(&refuses, "").unwrap();
    let begun = |running: &mut Running, wanted: usize| {
        running.wait_for("the next files begin", |running| {
            [".csv", ".mcap"].iter().all(|ending| files(running.folder(), "x", ending).len() == wanted)
        });
    };
    begun(&mut running, 2);
    grows(&mut running, "lost");
    grows(&mut running, "lost");
    assert!(running.stderr().contains("the disk has not stored what it had taken"), "{}", running.stderr());
    fs::remove_file(&refuses).unwrap();
    begun(&mut running, 3);
    grows(&mut running, "rows");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.describe());
    let summary = ended.summary();
    for name in ["csv", "mcap"] {
        let (of, part) = (program::task(&summary, name), recorded(&summary, name));
        assert_eq!(count(part, "files"), 3, "one for the time in which it refuses, and one after it: {part}");
        let of_ticks = if name == "mcap" { 2 } else { 1 };
        let all = count(part, "rows") + part["ticks"].as_u64().unwrap_or(0) + count(part, "lost");
        assert_eq!(all, of_ticks * count(of, "ran"), "{part}");
    }
}

#[test]
fn ticks_that_found_no_room_count_as_lost() {
    let config = format!(
        "[task.many]\nkind = \"load\"\nrate = 2000\noverrun = \"credit\"\nmax-debt = \"1h\"\nrecord = \"{HERE}/x.mcap\"\n"
    );
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &affinity()[0].to_string(), HERTZD]);
    let mut running = run_by(command, &config, &["--json"]);
    running.wait_until_granted();
    let is_alone = running.stderr().contains("granted fifo");
    let path = running.folder().join("x.mcap");
    running.wait_for("it records", |_| path.exists() && !messages(&path).is_empty());
    running.hold(Span::from_seconds(3));
    let before = messages(&path).len();
    running.wait_for("what came up meanwhile was run", |_| messages(&path).len() > before + 4_096);
    running.signal("TERM");
    let ended = running.wait();
    let (summary, all) = (ended.summary(), messages(&path));
    if summary["reason"].as_str().is_some_and(|reason| reason.contains("the metrics thread did not answer")) {
        program::emulation::say_skipped("other programs left hertzd too little processor time to sum up");
        return;
    }
    let (many, part) = (task(&summary, "many"), recorded(&summary, "many"));
    let (ran, lost) = (count(many, "ran"), count(part, "lost"));
    println!("ran {ran}, lost {lost}, records {}", summary["records"]);
    let found = by_topic(&all)["many/ticks"].len() as u64;
    assert_eq!((found, found + lost), (count(part, "ticks"), ran), "{part}");
    assert!(lost >= count(&summary["records"], "dropped") && (lost > 0 || !is_alone), "{}", ended.describe());
}

/// Streams a block per tick; the content follows from its position in the stream.
struct Streaming {
    format: Format,
    blocks: Option<BlockSender>,
    index: u64,
}

/// Frames of sound, or samples, in a block.
const PER_BLOCK: u64 = 80;

fn shape(kind: &str) -> Shape {
    let column = |name: &str| Column { name: name.into(), unit: String::new() };
    let (format, largest) = match kind {
        "tone" => (Format::Audio(AudioFormat { rate: 8_000, channels: 2, sample: SampleFormat::S16 }), 320),
        "pictures" => (Format::Image(ImageFormat { width: 64, height: 32, stride: 64, four_cc: *b"GREY" }), 2_048),
        "film" => (Format::Image(ImageFormat { width: 64, height: 32, stride: 0, four_cc: *b"MJPG" }), 2_048),
        _ => (Format::Samples(vec![column("a"), column("b")]), 24 * 80),
    };
    Shape { format, largest, bytes_per_second: 1e6 }
}

/// The bytes of the block at `index`; samples are taken at `at`.
fn bytes(format: &Format, index: u64, at: i64) -> Vec<u8> {
    match format {
        Format::Audio(_) => (2 * index..2 * (index + PER_BLOCK)).flat_map(|n| n.to_le_bytes()[..2].to_vec()).collect(),
        Format::Image(_) => (index..index + 2_048).map(|n| n.to_le_bytes()[0]).collect(),
        Format::Samples(_) => (index..index + PER_BLOCK)
            .flat_map(|n| [at.to_ne_bytes(), (n as f64).to_ne_bytes(), f64::NAN.to_ne_bytes()].concat())
            .collect(),
    }
}

impl Task for Streaming {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let at = KernelClock::monotonic().now();
        let nanos = i64::try_from(at.nanos()).unwrap();
        let block = bytes(&self.format, self.index, nanos);
        if let Some(blocks) = &mut self.blocks {
            blocks.offer(Head { n: self.index, at, index: self.index }, &[&block]);
        }
        self.index += if matches!(self.format, Format::Image(_)) { 1 } else { PER_BLOCK };
        Ok(())
    }
}

/// Has both values in every third tick. Otherwise it fails: first with the first value, then with neither.
struct Failing;

impl Task for Failing {
    fn columns(&self) -> Vec<Column> {
        ["a", "b"].map(|name| Column { name: name.into(), unit: String::new() }).into()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let read = [2, 1, 0].into_iter().cycle().nth(usize::try_from(tick.n).unwrap()).unwrap();
        values[..read].fill(tick.n as f64);
        let error = TickError::new("a value cannot be read");
        match read {
            2 => Ok(()),
            1 => Err(error.of_value(1)),
            _ => Err(error),
        }
    }
}

/// A program with kinds of its own: runs the configuration in its environment, and prints the summary.
#[test]
#[ignore = "the other tests start it"]
fn program() {
    let (config, length) = (std::env::var("TEST_CONFIG").unwrap(), std::env::var("TEST_SECONDS").unwrap());
    let kind = |name: &'static str| {
        let parse = move |_: &mut Section<'_>| {
            let streaming = move |site: &mut Site| {
                let (shape, blocks) = (shape(name), site.stream(shape(name)));
                Ok(Streaming { format: shape.format, blocks, index: 0 }.into())
            };
            Some(Blueprint::new(streaming))
        };
        Kind::new(name, "Streams.", vec![], parse)
    };
    let failing = Kind::new("failing", "Fails.", vec![], |_| Some(Blueprint::new(|_| Ok(Failing.into()))));
    let kinds = Kinds::empty().add(failing);
    let kinds = ["tone", "pictures", "film", "steps"].map(kind).into_iter().fold(kinds, Kinds::add);
    let outcome = Embedded::of(kinds, config).lasting(Span::from_seconds(length.parse().unwrap())).run();
    println!("\nSUMMARY {}", serde_json::to_string(&outcome.summary).unwrap());
}

fn program_with(config: &str, seconds: u32) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "recordings::program", "--ignored", "--nocapture"]);
    command.env("TEST_CONFIG", config.replace(HERE, folder.path().to_str().unwrap()));
    command.env("TEST_SECONDS", seconds.to_string());
    start(folder, command)
}

fn summary_of(ended: &Ended) -> Value {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix("SUMMARY "));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{}", ended.describe()))).unwrap()
}

fn streaming(kind: &str, ending: &str) -> String {
    format!(
        "[task.{kind}]\nkind = \"{kind}\"\nworker = \"main\"\nrate = 100\nrecord = \"{HERE}/{kind}{ending}\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\n"
    )
}

const WORKER: &str = "[worker.main]\npolicy = \"other\"\n";

/// The samples of a WAV file.
fn wav(path: &Path) -> Vec<i16> {
    let mut reader = hound::WavReader::open(path).unwrap();
    assert_eq!((reader.spec().channels, reader.spec().sample_rate), (2, 8_000));
    reader.samples().map(Result::unwrap).collect()
}

/// Whether the samples are those of `bytes`.
fn is_gapless(samples: &[i16]) -> bool {
    samples.iter().zip(0_u16..=u16::MAX).all(|(sample, n)| *sample == n.cast_signed())
}

#[test]
fn a_wav_has_every_sample_once() {
    let ended = program_with(&(WORKER.to_owned() + &streaming("tone", ".wav")), 3).wait();
    let summary = summary_of(&ended);
    let (part, samples) = (recorded(&summary, "tone"), wav(&ended.folder.path().join("tone.wav")));
    assert_eq!((count(part, "blocks"), count(part, "lost"), count(part, "gaps")), (300, 0, 0));
    assert_eq!((count(part, "samples"), samples.len()), (24_000, 48_000));
    assert!(is_gapless(&samples));
}

#[test]
fn the_wav_of_a_killed_run_opens() {
    let mut running = program_with(&(WORKER.to_owned() + &streaming("tone", ".wav")), 3_600);
    let path = running.folder().join("tone.wav");
    let frames = || hound::WavReader::open(&path).map_or(0, |reader| reader.duration());
    running.wait_for("something is recorded", |_| frames() > 8_000);
    let before = frames();
    pause(Span::from_millis(20));
    running.signal("KILL");
    let ended = running.wait();
    let samples = wav(&path);
    assert!(samples.len() >= 2 * before as usize && is_gapless(&samples), "{}", ended.describe());
}

#[test]
fn sound_pictures_and_samples_come_back_from_an_mcap() {
    let kinds = ["tone", "pictures", "film", "steps"];
    let config = kinds.map(|kind| streaming(kind, "").replace(&format!("/{kind}\""), "/x.mcap\"")).concat();
    let ended = program_with(&(WORKER.to_owned() + &config), 2).wait();
    let (summary, path) = (summary_of(&ended), ended.folder.path().join("x.mcap"));
    let all = messages(&path);
    let topics = by_topic(&all);
    assert_eq!(counted(&path), Some(all.len() as u64));
    python_agrees(&path, &all, true);
    for (kind, topic) in kinds.iter().zip(["tone/audio", "pictures/image", "film/image", "steps/samples"]) {
        let (part, found) = (recorded(&summary, kind), &topics[topic]);
        assert_eq!((count(part, "blocks"), count(part, "ticks"), count(part, "lost")), (200, 200, 0), "{kind}");
        assert_eq!(found.len() as u64, if *kind == "steps" { 200 * PER_BLOCK } else { 200 });
    }
    for (message, n) in topics["steps/samples"].iter().zip(0_u32..) {
        assert_eq!((message.sequence, &*message.data), (n, format!("{{\"a\":{n}.0}}").as_bytes()));
    }

    // The messages as a reader decodes them that knows only the schemas.
    let Some(lines) = python(&path, true) else { return };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut seen = BTreeMap::new();
    for line in lines.iter().filter(|line| line.get(4).is_some()) {
        let topic = line[0].as_str().unwrap();
        let wanted = match topic {
            "tone/audio" => serde_json::json!({"format": "pcm-s16", "sample_rate": 8_000, "number_of_channels": 2}),
            "film/image" => serde_json::json!({"format": "jpeg", "frame_id": "film"}),
            _ => {
                serde_json::json!({"encoding": "mono8", "frame_id": "pictures", "width": 64, "height": 32, "step": 64})
            }
        };
        let kind = topic.split('/').next().unwrap();
        let content = hex(&bytes(&shape(kind).format, line[1].as_u64().unwrap(), 0));
        assert_eq!((&line[4], &line[5]), (&wanted, &serde_json::json!([line[2], content])), "{topic}");
        *seen.entry(topic).or_insert(0) += 1;
    }
    assert_eq!(seen, BTreeMap::from([("film/image", 200), ("pictures/image", 200), ("tone/audio", 200)]));
}

#[test]
fn buffered_samples_are_lines_of_a_csv() {
    let ended = program_with(&(WORKER.to_owned() + &streaming("steps", ".csv")), 2).wait();
    let (summary, text) = (summary_of(&ended), fs::read_to_string(ended.folder.path().join("steps.csv")).unwrap());
    let part = recorded(&summary, "steps");
    let wanted = 200 * PER_BLOCK;
    assert_eq!((count(part, "rows"), count(part, "samples"), count(part, "lost")), (wanted, wanted, 0));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("tick,sample_utc,a,b"));
    for (line, n) in lines.by_ref().zip(0..wanted) {
        assert!(line.ends_with(&format!("Z,{n},")), "{line}");
    }
    assert_eq!((lines.next(), text.lines().count() as u64), (None, wanted + 1));
}

#[test]
fn a_value_that_cannot_be_read_costs_no_other_value() {
    let lines = streaming("failing", ".csv");
    let json = lines.replace("[task.failing]", "[task.json]").replace(".csv", ".mcap");
    let ended = program_with(&(WORKER.to_owned() + &lines + &json), 1).wait();
    let (summary, folder) = (summary_of(&ended), ended.folder.path());
    for name in ["failing", "json"] {
        let (of, part) = (task(&summary, name), recorded(&summary, name));
        assert_eq!(
            (count(of, "ran"), count(of, "errors"), count(part, "rows"), count(part, "lost")),
            (100, 66, 100, 0)
        );
    }
    let (messages, text) =
        (messages(&folder.join("failing.mcap")), fs::read_to_string(folder.join("failing.csv")).unwrap());
    let rows = messages.iter().filter(|message| message.topic == "json/values");
    for ((line, message), n) in text.lines().skip(1).zip(rows).zip(0_u64..) {
        let (cells, json) = match n % 3 {
            0 => (format!(",{n},{n}"), format!("{{\"a\":{n}.0,\"b\":{n}.0}}")),
            1 => (format!(",{n},"), format!("{{\"a\":{n}.0,\"@quality\":{{\"b\":\"failed\"}}}}")),
            _ => (",,".to_owned(), "{\"@quality\":{\"a\":\"failed\",\"b\":\"failed\"}}".to_owned()),
        };
        assert!(line.starts_with(&format!("{n},")) && line.ends_with(&cells), "{line}");
        assert_eq!((u64::from(message.sequence), &*message.data), (n, json.as_bytes()));
    }
    assert_eq!(text.lines().count(), 101);
}
