//! Which file a recording is, who may write to it, and what happens when others interfere: with the real program.

use crate::program::{Ended, HERE, HERTZD, Running, count, run, run_in, task};
use crate::recorded::{counted, files, messages, python_agrees, recorded};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// A task with one value that is recorded to `path`. No release is given up.
fn recording(name: &str, path: &str, more: &str) -> String {
    format!(
        "[task.{name}]\nkind = \"sensor\"\nrate = 100\npath = \"/proc/uptime\"\nname = \"uptime\"\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\nrecord = \"{HERE}/{path}\"\n{more}"
    )
}

/// A task that cannot be built.
const BROKEN: &str = "[task.broken]\nkind = \"sensor\"\nrate = 1\npath = \"/nonexistent\"\n";

/// The number of rows in all these CSV files. Asserts that each line is whole.
fn rows(files: &[impl AsRef<Path>]) -> u64 {
    let rows = files.iter().map(|path| {
        let text = fs::read_to_string(path).unwrap();
        let columns = |line: &str| line.split(',').count();
        assert!(text.ends_with('\n') && text.lines().all(|line| columns(line) == 4), "{}", path.as_ref().display());
        text.lines().count() as u64 - 1
    });
    rows.sum()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: Result<fs::DirEntry, _>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(name).collect();
    names.retain(|name| !["test.toml", "stdout", "stderr"].contains(&name.as_str()));
    names.sort();
    names
}

/// Starts hertzd, and waits until it records to `file`.
fn run_until_recorded(config: &str, file: &str) -> Running {
    let mut running = run(config, &["--json"]);
    running
        .wait_for("it records", |running| fs::metadata(running.folder().join(file)).is_ok_and(|file| file.len() > 200));
    running
}

fn reload_with(running: &mut Running, config: &str, logged: &str) {
    let config = config.replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), config).unwrap();
    running.signal("HUP");
    running.wait_for(logged, |running| running.stderr().contains(logged));
}

fn stop(running: Running) -> Ended {
    running.signal("TERM");
    let ended = running.wait();
    ended.assert_no_fault();
    ended
}

#[test]
fn a_second_process_is_refused_and_the_first_loses_nothing() {
    let often = "record-max-time = \"1s\"\n";
    let config = recording("csv", "x.csv", often) + &recording("mcap", "x.mcap", often);
    let mut first = run_until_recorded(&config, "x.csv");
    let there = first.folder().to_str().unwrap().to_owned();
    let links = tempfile::tempdir().unwrap();
    symlink(first.folder().join("x.csv"), links.path().join("link.csv")).unwrap();
    symlink(first.folder(), links.path().join("folder")).unwrap();
    // Repeatedly, while one file follows another.
    let mut refused = 0;
    while files(first.folder(), "x", ".csv").len() < 3 {
        assert!(!first.has_ended(), "{}", first.stderr());
        let before = names(links.path());
        for path in
            [format!("{there}/x.csv"), format!("{there}/x.mcap"), "HERE/link.csv".into(), "HERE/folder/x.mcap".into()]
        {
            let path = path.replace("HERE", links.path().to_str().unwrap());
            // Another task's file is created first, and removed again.
            let other = recording("a", "new.csv", "").replace(HERE, links.path().to_str().unwrap());
            let config = other + &recording("b", "", "").replace(&format!("{HERE}/"), &path);
            let second = run(&config, &["--for", "1s"]).wait();
            assert_eq!(second.status.code(), Some(78), "{path}: {}", second.describe());
            let holder = format!("cannot record to {path}: in use by hertzd (pid {})", first.pid());
            assert!(second.stderr.contains(&holder), "{holder}: {}", second.describe());
            refused += 1;
        }
        assert_eq!(names(links.path()), before);
    }
    assert!(refused > 0);
    let ended = stop(first);
    let (summary, folder) = (ended.summary(), ended.folder.path());
    for name in ["csv", "mcap"] {
        let (of, part) = (task(&summary, name), recorded(&summary, name));
        assert_eq!((count(part, "rows"), count(part, "lost")), (count(of, "ran"), 0), "{part}");
    }
    assert_eq!(rows(&files(folder, "x", ".csv")), count(task(&summary, "csv"), "ran"));
    let mut found = 0;
    for path in files(folder, "x", ".mcap") {
        let messages = messages(&path);
        assert_eq!(counted(&path), Some(messages.len() as u64), "{}", path.display());
        python_agrees(&path, &messages, true);
        found += messages.iter().filter(|message| message.topic == "mcap/values").count() as u64;
    }
    assert_eq!(found, count(task(&summary, "mcap"), "ran"));
    // The lock ends with the process.
    let next = recording("csv", "x.csv", often);
    let ended = run_in(ended.folder, Command::new(HERTZD), &next, &["--for", "100ms"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
}

#[test]
fn a_refused_start_leaves_no_file() {
    let ended = run(&(recording("a", "a.csv", "") + &recording("b", "b.mcap", "") + BROKEN), &["--for", "1s"]).wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert_eq!(names(ended.folder.path()), [""; 0], "{}", ended.describe());
}

#[test]
fn a_refused_reload_leaves_no_file_and_the_recording_goes_on() {
    let config = recording("a", "a.csv", "");
    let mut running = run_until_recorded(&config, "a.csv");
    reload_with(&mut running, &(config + &recording("b", "b.mcap", "") + BROKEN), "reload refused");
    assert_eq!(names(running.folder()), ["a.csv"]);
    let ended = stop(running);
    assert_eq!(rows(&[ended.folder.path().join("a.csv")]), count(task(&ended.summary(), "a"), "ran"));
}

#[test]
fn other_columns_at_a_reload_begin_the_next_csv() {
    let config = recording("a", "a.csv", "");
    let mut running = run_until_recorded(&config, "a.csv");
    reload_with(&mut running, &config.replace("\"uptime\"", "\"other\""), "reloaded");
    running.wait_for("the next file begins", |running| files(running.folder(), "a", ".csv").len() == 2);
    let ended = stop(running);
    let files = files(ended.folder.path(), "a", ".csv");
    let headers = files.iter().map(|path| fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned());
    let header = |name| format!("tick,release_utc,lateness_ns,{name}");
    assert_eq!(headers.collect::<Vec<_>>(), [header("uptime"), header("other")]);
    assert!(rows(&files[..1]) > 0);
    assert_eq!(rows(&files[1..]), count(task(&ended.summary(), "a"), "ran"), "{}", ended.describe());
}

#[test]
fn an_mcap_that_another_program_moves_or_cuts_off_is_followed_by_a_whole_one() {
    let mut running = run_until_recorded(&recording("a", "a.mcap", ""), "a.mcap");
    let (path, moved) = (running.folder().join("a.mcap"), running.folder().join("moved"));
    let has_messages = |_: &Running| path.exists() && messages(&path).len() > 100;
    running.wait_for("a chunk is written", has_messages);
    fs::rename(&path, &moved).unwrap();
    running.wait_for("the next file has a chunk", has_messages);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5_000).unwrap();
    running.wait_for("the file is put aside", |running| files(running.folder(), "a", ".mcap").len() == 2);
    running.wait_for("the next file has a chunk", has_messages);
    let ended = stop(running);
    assert!(ended.stderr.contains("a: another program has moved the recording"), "{}", ended.describe());
    assert!(ended.stderr.contains("another program has made the file shorter"), "{}", ended.describe());
    for path in [&moved, &path].map(|path| ended.folder.path().join(path.file_name().unwrap())) {
        let messages = messages(&path);
        assert_eq!(counted(&path), Some(messages.len() as u64), "{}", path.display());
        python_agrees(&path, &messages, true);
    }
    let aside = &files(ended.folder.path(), "a", ".mcap")[0];
    assert_eq!(fs::metadata(aside).unwrap().len(), 5_000, "nothing is written behind what is left");
    let summary = ended.summary();
    let part = recorded(&summary, "a");
    let all = count(part, "rows") + count(part, "ticks") + count(part, "lost");
    assert_eq!(all, 2 * count(task(&summary, "a"), "ran"), "what was lost is counted: {part}");
    let found = |path: &Path| messages(path).iter().filter(|message| message.topic == "a/values").count() as u64;
    let whole = found(&ended.folder.path().join("moved")) + found(&ended.folder.path().join("a.mcap"));
    // The rest of a truncated chunk is not a whole chunk, though a reader may get something out of it.
    assert!((whole..=whole + found(aside)).contains(&count(part, "rows")), "{whole} rows in whole files: {part}");
    assert!(count(part, "lost") > 0 && ended.status.code() == Some(1), "{}", ended.describe());
}

#[test]
fn a_csv_that_another_program_deletes_moves_or_replaces_is_logged_with_what_went() {
    let mut running = run_until_recorded(&recording("a", "a.csv", ""), "a.csv");
    let [path, moved, other] = ["a.csv", "moved", "other"].map(|name| running.folder().join(name));
    let text = |what: &str| format!("a: another program has {what} the recording {}; ", path.display());
    fs::remove_file(&path).unwrap();
    running.wait_for("the deletion is logged", |running| running.stderr().contains(&text("deleted")));
    running.wait_for("the next file has rows", |_| fs::metadata(&path).is_ok_and(|file| file.len() > 200));
    fs::rename(&path, &moved).unwrap();
    running.wait_for("the move is logged", |running| running.stderr().contains(&text("moved")));
    running.wait_for("the next file has rows", |_| fs::metadata(&path).is_ok_and(|file| file.len() > 200));
    fs::write(&other, "years of work\n").unwrap();
    fs::rename(&other, &path).unwrap();
    running.wait_for("the replacement is logged", |running| running.stderr().contains(&text("replaced")));
    running.wait_for("it goes on", |running| running.stderr().contains("recording failed; the task continues"));
    let ended = stop(running);
    assert_eq!(fs::read_to_string(ended.folder.path().join("a.csv")).unwrap(), "years of work\n");
    let after = |what: &str| {
        let texts: Vec<_> = ended.stderr.split(&text(what)).collect();
        assert_eq!(texts.len(), 2, "{what}, once: {}", ended.describe());
        texts[1]
    };
    assert!(after("moved").starts_with("what was written so far went with it; a new file begins there"));
    let gone = |what: &str, follows: &str| -> u64 {
        let (rows, rest) =
            after(what).strip_prefix("the ").unwrap().split_once(" rows written to it are gone; ").unwrap();
        assert!(rest.starts_with(follows), "{rest}");
        rows.parse().unwrap()
    };
    let gone =
        gone("deleted", "a new file begins there") + gone("replaced", "no new file can begin there yet: it exists");
    let summary = ended.summary();
    let (of, part) = (task(&summary, "a"), recorded(&summary, "a"));
    let moved = rows(&[ended.folder.path().join("moved")]);
    assert_eq!(moved, count(part, "rows"), "{}", ended.describe());
    assert_eq!(count(part, "rows") + count(part, "lost"), count(of, "ran"), "{part}");
    assert!(gone > 0 && gone <= count(part, "lost") && ended.status.code() == Some(1), "{}", ended.describe());
    let reason = format!("the recording of task a lost {} rows, blocks or ticks", count(part, "lost"));
    assert!(summary["reason"].as_str().unwrap().contains(&reason), "{summary}");
}

#[test]
fn rows_of_a_csv_that_another_program_cuts_off_are_those_that_are_left() {
    for (cut, by) in [(0, "emptied"), (150, "cut off in a line")] {
        let mut running = run_until_recorded(&recording("a", "a.csv", ""), "a.csv");
        let path = running.folder().join("a.csv");
        running.wait_for("it has rows", |_| fs::metadata(&path).is_ok_and(|file| file.len() > 3_000));
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
        running.wait_for("the change is logged", |running| {
            running.stderr().contains("another program has changed the recording")
        });
        let ended = stop(running);
        let summary = ended.summary();
        let part = recorded(&summary, "a");
        assert_eq!(rows(&[ended.folder.path().join("a.csv")]), count(part, "rows"), "{by}: {}", ended.describe());
        assert_eq!(count(part, "rows") + count(part, "lost"), count(task(&summary, "a"), "ran"), "{by}: {part}");
        assert!(ended.stderr.contains(&format!("; {} rows are gone; ", count(part, "lost"))), "{}", ended.describe());
        assert_eq!(ended.status.code(), Some(1), "{by}: {}", ended.describe());
    }
}

#[test]
fn links_to_one_file_are_one_recording() {
    let two = |ending: &str, one: &str, other: &str| {
        let folder = tempfile::tempdir().unwrap();
        symlink(format!("a{ending}"), folder.path().join(format!("b{ending}"))).unwrap();
        let config = recording("a", &format!("a{ending}"), one) + &recording("b", &format!("b{ending}"), other);
        run_in(folder, Command::new(HERTZD), &config, &["--for", "500ms", "--json"]).wait()
    };
    let ended = two(".csv", "", "");
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(ended.stderr.contains("task.a records there too"), "{}", ended.describe());
    assert_eq!(names(ended.folder.path()), ["b.csv"], "the link");
    let ended = two(".mcap", "record-keep = 3\n", "record-keep = 4\n");
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(ended.stderr.contains("task.b: record-keep = 4; task.a records to the same file"), "{}", ended.describe());
    let ended = two(".mcap", "", "record-keep = 3\n");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    assert_eq!(names(ended.folder.path()), ["a.mcap", "b.mcap"]);
    let messages = messages(&ended.folder.path().join("a.mcap"));
    for name in ["a", "b"] {
        let rows = messages.iter().filter(|message| message.topic == format!("{name}/values")).count() as u64;
        assert_eq!(rows, count(task(&ended.summary(), name), "ran"));
    }
}

#[test]
fn a_number_that_a_crash_cut_off_is_never_completed() {
    let folder = tempfile::tempdir().unwrap();
    let header = "tick,release_utc,lateness_ns,uptime\n";
    let whole = format!("{header}0,2026-11-21T03:13:18.616908501Z,1026470,3071.07\n");
    fs::write(folder.path().join("a.csv"), format!("{whole}1,2026-11-21T03:13:18.626908501Z,102,30")).unwrap();
    let ended =
        run_in(folder, Command::new(HERTZD), &recording("a", "a.csv", ""), &["--for", "100ms", "--json"]).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let path = ended.folder.path().join("a.csv");
    assert!(fs::read_to_string(&path).unwrap().starts_with(&format!("{whole}0,")));
    assert_eq!(rows(&[path]), 1 + count(task(&ended.summary(), "a"), "ran"));
    assert!(ended.stderr.contains("the last line of the recording was cut off and is dropped"), "{}", ended.describe());
}

/// Numbers that look random, and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        usize::try_from((mixed ^ mixed >> 31) % limit as u64).unwrap()
    }
}

/// The start and length of each record, including those in uncompressed chunks.
fn records(bytes: &[u8], from: usize, to: usize, into: &mut Vec<(usize, usize)>) {
    let mut at = from;
    while at + 9 <= to {
        let length = usize::try_from(u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap())).unwrap();
        into.push((at, length));
        if bytes[at] == 0x06 {
            records(bytes, at + 9 + 40, at + 9 + length, into);
        }
        at += 9 + length;
    }
}

/// Damages a recording in one of many ways; most aim at lengths and numbers.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut all = Vec::new();
    records(bytes, 8, bytes.len() - 8, &mut all);
    if random.below(2) == 0 {
        // No checksum hides a fault in a chunk.
        let chunks: Vec<_> = all.iter().filter(|(at, _)| bytes[*at] == 0x06).collect();
        chunks.into_iter().for_each(|(at, _)| bytes[at + 33..at + 37].fill(0));
    }
    for _ in 0..=random.below(3) {
        let (at, length) = all[random.below(all.len())];
        let inside = (at + random.below(9 + length.min(200))).min(bytes.len() - 9);
        let huge = [u64::MAX, 1 << 63, 1 << 40, u64::from(u32::MAX), 1 << 31, 0][random.below(6)].to_le_bytes();
        match random.below(7) {
            0 => bytes[at + 1..at + 9].copy_from_slice(&huge),
            1 => bytes[inside..inside + 8].copy_from_slice(&huge),
            2 => bytes[inside..inside + 4].copy_from_slice(&huge[..4]),
            3 => bytes[inside] ^= 1 << random.below(8),
            4 => bytes[at] = u8::try_from(random.below(20)).unwrap(),
            // A digit of a number in a message.
            5 => {
                let digits = (inside..bytes.len()).take_while(|at| *at < inside + 300);
                digits
                    .filter(|at| bytes[*at].is_ascii_digit())
                    .take(30)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|at| bytes[at] = b'9');
            }
            _ => bytes.truncate(at.max(20) + random.below(9)),
        }
        if bytes.len() < all.last().unwrap().0 + 9 + 1_000 {
            return;
        }
    }
}

/// Each command that reads recordings rejects a damaged one with a sentence, or reads as much as it can, in little memory.
/// `HERTZD_MUTATIONS` sets how many to try.
#[test]
fn a_damaged_recording_is_refused_with_a_sentence() {
    let config = recording("up", "ticks.mcap", "")
        + "[task.slow]\nkind = \"load\"\nrate = 50\nrun = \"30ms\"\n"
        + &format!("max-missed = \"100%\"\nrecord = \"{HERE}/ticks.mcap\"\n");
    let ended = run(&config, &["--for", "500ms", "--json"]).wait();
    let folder = ended.folder.path();
    let whole = fs::read(folder.join("ticks.mcap")).unwrap();
    let planned = "[worker.w]\npolicy = \"fifo\"\npriority = 5\n[task.up]\nkind = \"load\"\nworker = \"w\"\nrate = 100\nbudget = \"1ms\"\n";
    fs::write(folder.join("plan.toml"), planned).unwrap();
    let commands: [&[&str]; 5] = [
        &["trace", "bad.mcap", "-o", "-"],
        &["report", "bad.mcap", "-o", "-"],
        &["simulate", "test.toml", "--replay", "bad.mcap", "--for", "500ms", "--summary-only"],
        &["simulate", "test.toml", "--oversleep", "bad.mcap", "--for", "500ms", "--summary-only"],
        &["plan", "plan.toml", "--runs", "bad.mcap"],
    ];
    // Limits of address space and of processor time.
    let limited = "ulimit -v 700000; ulimit -t 60; exec \"$@\"";
    let run = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", HERTZD]).args(arguments).current_dir(folder).output().unwrap()
    };
    fs::write(folder.join("bad.mcap"), &whole).unwrap();
    for arguments in commands {
        let output = run(arguments);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let mut refused = 0;
    for seed in 0..number("HERTZD_MUTATIONS", 300) {
        let (mut bytes, mut random) = (whole.clone(), Random(seed));
        mutate(&mut bytes, &mut random);
        fs::write(folder.join("bad.mcap"), &bytes).unwrap();
        let arguments = commands[random.below(commands.len())];
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        let is_sentence = match output.status.code() {
            Some(0 | 1) => true,
            Some(64) => error.contains("bad.mcap: "),
            _ => false,
        };
        assert!(is_sentence && !error.contains("panicked"), "{seed}: {arguments:?}: {:?}: {error}", output.status);
        refused += u64::from(output.status.code() == Some(64));
    }
    println!("{refused} were refused");
}
