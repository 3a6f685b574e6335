//! One run, and everything that shows its counts: status (text, JSON and followed), top, exporter, log, trace, report and summary agree.
//!
//! This program is also the daemon under test (`same_counts run CONFIG`, with a kind of task that waits at a gate), so it has no harness.
//! Its arguments select the test by name, as a harness's do.

#[path = "support/program/mod.rs"]
mod program;
#[path = "support/scraping.rs"]
mod scraping;

use hertzd::time::Span;
use hertzd::{App, Kinds, Task, Tick, TickError};
use program::{HERTZD, Running, count, pause, run_in, script, task};
use scraping::{Exporter, Samples};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

/// The name of this program's test, for selection by name.
const NAME: &str = "all_that_shows_counts_shows_the_same";

/// `hog` delays `fast`; each tenth tick of `slow` takes too long; `dead` ends at its first tick, and misses all that follow.
const CONFIG: &str = "[worker.main]\npolicy = \"other\"\n[worker.gate]\npolicy = \"other\"\n\
    [task.fast]\nkind = \"load\"\nworker = \"main\"\nrate = 500\nmax-missed = \"100%\"\n\
    [task.hog]\nkind = \"load\"\nworker = \"main\"\nperiod = \"300ms\"\nrun = \"7ms\"\nmax-missed = \"100%\"\n\
    [task.slow]\nkind = \"load\"\nworker = \"main\"\nrate = 50\nfault = \"long-run\"\nfault-every = 10\n\
    fault-run = \"25ms\"\nmax-missed = \"100%\"\n\
    [task.dead]\nkind = \"load\"\nworker = \"main\"\nrate = 100\nfault = \"error\"\nfault-every = 1\n\
    on-error = \"disable\"\nmax-missed = \"100%\"\n\
    [task.gate]\nkind = \"gate\"\nworker = \"gate\"\nrate = 20\npath = \"@HERE@/shut\"\nmax-missed = \"100%\"\n";

/// All tasks on the worker that ends first.
const NAMES: [&str; 4] = ["fast", "hog", "slow", "dead"];

/// A task whose tick waits for as long as a file exists: its worker delays the end of the run, while the counts of the other worker stay
/// constant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    path: PathBuf,
}

impl Task for Gate {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        while self.path.exists() {
            pause(Span::from_millis(1));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "run") {
        return App::new(Kinds::builtin().with::<Gate>("gate", "Waits behind a gate.")).main();
    }
    let mut words = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    if words.peek().is_none() || words.any(|word| NAME.contains(word.as_str())) {
        all_that_shows_counts_shows_the_same();
        println!("{NAME} ... ok");
    }
    ExitCode::SUCCESS
}

fn hertzd(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(HERTZD);
    command.args(args).current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C").env("COLUMNS", "80");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The status. On a busy machine an answer may come too late: then the query is repeated.
fn status(folder: &Path) -> Value {
    let ask = || {
        let output = hertzd(&["status", "--json", "--socket", "status.sock"], folder);
        serde_json::from_slice(&output.stdout).ok()
    };
    std::iter::repeat_with(ask).take(200).flatten().next().unwrap_or_default()
}

/// The output of a command about the daemon, once it has answered in time.
fn printed(args: &[&str], folder: &Path) -> String {
    let ask = || {
        let output = hertzd(&[args, &["--socket", "status.sock"]].concat(), folder);
        // `status` of a daemon that is not well exits with 1.
        matches!(output.status.code(), Some(0 | 1)).then(|| text(&output.stdout))
    };
    std::iter::repeat_with(ask).take(200).flatten().next().unwrap_or_else(|| panic!("no answer to {args:?}"))
}

/// Whether the start is over, and the daemon answers.
fn knows_tasks(shown: &Value) -> bool {
    shown["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty())
}

/// The counts of a task, by their keys and causes, from any source; counts that a source does not show are left out.
type Counts = BTreeMap<String, u64>;

const KEYS: [&str; 6] = ["due", "met", "missed", "ran", "skipped", "overruns"];

/// The counts of a part of a summary or snapshot.
fn counts(part: &Value) -> Counts {
    let causes = part["causes"].as_object().into_iter().flatten();
    let causes = causes.map(|(cause, number)| (cause.clone(), number.as_u64().unwrap()));
    KEYS.iter().map(|key| ((*key).to_owned(), count(part, key))).chain(causes).collect()
}

/// The counts of all tasks of this name since the daemon started.
fn since_the_start(part: &Value) -> Counts {
    let before = &part["before_reload"];
    if before.is_null() { counts(part) } else { added(counts(part), counts(before)) }
}

fn added(mut one: Counts, other: Counts) -> Counts {
    other.into_iter().for_each(|(key, number)| *one.entry(key).or_default() += number);
    one
}

/// Only the wanted counts.
fn of(counts: &Counts, wanted: impl Fn(&str) -> bool) -> Counts {
    counts
        .iter()
        .filter(|(key, number)| wanted(key) && **number > 0)
        .map(|(key, number)| (key.clone(), *number))
        .collect()
}

fn is_cause(key: &str) -> bool {
    !KEYS.contains(&key)
}

/// The numbers after the name in the first line that begins with it, from this word on.
fn row(shown: &str, name: &str, keys: &[&str], from: usize) -> Counts {
    let line = shown.lines().find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no line of {name}: {shown}"));
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word}: {line}"));
    let words = line.split_whitespace().skip(from).map(number);
    keys.iter().map(|key| (*key).to_owned()).zip(words).collect()
}

/// `blocked=3 own-debt=1`, as counts.
fn causes_of_entry(causes: &str) -> Counts {
    let part = |part: &str| part.split_once('=').map(|(cause, number)| (cause.to_owned(), number.parse().unwrap()));
    causes.split(' ').filter_map(part).collect()
}

/// The sum of the misses that a log's entries report for a task, without the final entries, which repeat them.
fn logged(entries: &[Value], name: &str) -> Counts {
    let ids = ["b63f63a8dc1e44a9b7b66fb32412be1f", "16ae69641d87436c81b908f551571cbd"];
    let of_task =
        entries.iter().filter(|entry| entry["task"] == name && ids.iter().any(|id| entry["message_id"] == *id));
    of_task.fold(Counts::new(), |sum, entry| {
        let keys = [("missed", "missed"), ("skipped", "skipped"), ("overruns", "overrun")];
        let numbers = keys.map(|(key, field)| (key.to_owned(), count(entry, field)));
        let causes = causes_of_entry(entry["causes"].as_str().unwrap());
        added(added(sum, numbers.into()), causes)
    })
}

fn lines_of_json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// The output of `hertzd log --json` for a journal with these entries, from a stand-in for its reader.
fn log_of_journal(entries: &[Value], folder: &Path) -> Vec<Value> {
    let as_in_journal = |entry: &Value| {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let named = |name: &str| match name {
            "message" | "message_id" => name.to_uppercase(),
            name => format!("HERTZD_{}", name.to_uppercase()),
        };
        let fields = entry.as_object().unwrap().iter().map(|(name, value)| (named(name), text(value).into()));
        Value::Object(fields.collect()).to_string() + "\n"
    };
    fs::write(folder.join("entries"), entries.iter().map(as_in_journal).collect::<String>()).unwrap();
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let reader = bin.join("journalctl");
    script(&reader, "while IFS= read -r line; do printf '%s\\n' \"$line\"; done <entries");
    let mut command = Command::new(HERTZD);
    command.args(["log", "--json", "--since", "1h"]).current_dir(folder).env("PATH", &bin);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    lines_of_json(&text(&output.stdout))
}

/// The scraped counts of a task.
fn scraped(samples: &Samples, name: &str) -> Counts {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    let number = |series: &str| *samples.get(series).unwrap_or_else(|| panic!("no {series}")) as u64;
    let counted = KEYS.map(|key| (key.to_owned(), number(&format!("hertzd_task_{key}_total{{task=\"{name}\"}}"))));
    let begin = format!("hertzd_task_missed_causes_total{{task=\"{name}\",cause=\"");
    let causes = samples.keys().filter_map(|series| {
        let cause = series.strip_prefix(&begin)?.strip_suffix("\"}")?;
        Some((cause.to_owned(), number(series)))
    });
    counted.into_iter().chain(causes).collect()
}

/// The counts of each task in a trace of the whole run, read with Perfetto's official schema; `None` if the schema is not installed.
fn traced(folder: &Path) -> Option<impl Fn(&str) -> Counts> {
    let schema = "import perfetto.protos.perfetto.trace.perfetto_trace_pb2";
    if !Command::new("python3").args(["-c", schema]).output().is_ok_and(|output| output.status.success()) {
        program::skip("python3 has no package perfetto");
        return None;
    }
    let questions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/trace/questions.py");
    let output = Command::new("python3").arg(questions).arg(folder.join("t.pftrace")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    Some(move |name: &str| {
        let track = format!("task {name}");
        let of_task = |key: &str| answers[key].as_array().unwrap().iter().filter(|one| one["task"] == track);
        let mut counts = Counts::from([("ran".into(), of_task("ticks").count() as u64)]);
        for miss in of_task("misses") {
            let which = if miss["which"] == "overrun" { "overruns" } else { "skipped" };
            for key in [which, "missed", miss["cause"].as_str().unwrap()] {
                *counts.entry(key.to_owned()).or_default() += count(miss, "count");
            }
        }
        let number = |key: &str| counts.get(key).copied().unwrap_or(0);
        let (met, due) = (number("ran") - number("overruns"), number("ran") + number("skipped"));
        counts.extend([("met".into(), met), ("due".into(), due)]);
        counts
    })
}

/// The counts in `hertzd report --json` of the tasks with a name.
fn reported(report: &Value, name: &str) -> Counts {
    let of_name = report["run"]["tasks"].as_array().unwrap().iter().filter(|one| one["task"] == name);
    let counts = |one: &Value| {
        let causes = one["causes"].as_array().unwrap().iter();
        let causes = causes.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_u64().unwrap()));
        KEYS.iter().map(|key| ((*key).to_owned(), count(&one["counts"], key))).chain(causes).collect::<Counts>()
    };
    of_name.map(counts).fold(Counts::new(), added)
}

/// Waits until each of these tasks has missed something. The cause depends on the machine: if other programs keep it busy, whatever takes
/// too long was preempted.
fn wait_for_misses(running: &mut Running, names: &[&str]) {
    running.wait_for("misses", |running| {
        let shown = status(running.folder());
        knows_tasks(&shown) && names.iter().all(|name| count(task(&shown, name), "missed") > 0)
    });
}

/// A run that misses releases for several causes. A reload has replaced its task `slow`. All tasks except `gate` have ended, so their
/// counts stay constant.
fn run_until_counts_stand_still(exporter: &mut Option<Exporter>) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("RUNTIME_DIRECTORY", folder.path());
    let args = ["--json", "--log-format", "json", "--stop-timeout", "1h"];
    let mut running = run_in(folder, command, CONFIG, &args);
    wait_for_misses(&mut running, &["fast", "slow", "dead"]);
    // Counts continue from this scrape.
    let exporter = exporter.insert(Exporter::start(&running.folder().join("status.sock")));
    exporter.scrape_until(|samples| samples.contains_key("hertzd_task_due_total{task=\"slow\"}"));
    let stalled = |task: &Value| task["causes"]["stalled"].as_u64() > Some(0);
    let missed = |shown: &Value| shown["tasks"][0]["missed"].as_u64();
    let mut shown = status(running.folder());
    for _ in 0..5 {
        if shown["tasks"].as_array().is_some_and(|tasks| tasks.iter().any(stalled)) {
            break;
        }
        let before = missed(&shown);
        running.hold(Span::from_millis(300));
        running.wait_for("it goes on, and misses more", |running| {
            shown = status(running.folder());
            missed(&shown) > before
        });
    }

    let here = running.folder().to_str().unwrap().to_owned();
    let changed = CONFIG.replace(program::HERE, &here).replace("fault-every = 10", "fault-every = 5");
    fs::write(running.folder().join("test.toml"), changed).unwrap();
    let output = hertzd(&["reload", "--socket", "status.sock"], running.folder());
    assert!(output.status.success(), "{output:?}");
    wait_for_misses(&mut running, &["slow"]);
    running.wait_for("what the task came to before is known", |running| {
        status(running.folder())["tasks"][2]["before_reload"].is_object()
    });

    fs::write(running.folder().join("shut"), "").unwrap();
    running
        .wait_for("it waits behind the gate", |running| status(running.folder())["tasks"][4]["stalled_tick"].is_u64());
    running.signal("TERM");
    running.wait_for("the others have ended", |running| {
        let shown = status(running.folder());
        knows_tasks(&shown) && NAMES[..3].iter().all(|name| task(&shown, name)["state"] == "ended")
    });
    running
}

fn all_that_shows_counts_shows_the_same() {
    let mut exporter = None;
    let running = run_until_counts_stand_still(&mut exporter);
    let exporter = exporter.unwrap();
    let folder = running.folder();
    let shown = status(folder);
    let plain = printed(&["status"], folder);
    let unwrapped = plain.replace("\n  ", " ");
    let top = printed(&["top", "--once"], folder);
    let report: Value = serde_json::from_str(&printed(&["report", "-o", "live.html", "--json"], folder)).unwrap();
    let samples = exporter.scrape_until(|samples| samples["hertzd_up"] == 1.0);
    let followed = {
        let mut command = Command::new(HERTZD);
        command.args(["status", "--follow", "--socket", "status.sock"]).current_dir(folder).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    assert_eq!(shown["records"], status(folder)["records"], "nothing has ticked meanwhile");
    fs::remove_file(folder.join("shut")).unwrap();
    let ended = running.wait();
    let (summary, folder) = (ended.summary(), ended.folder.path());
    fs::write(folder.join("summary.json"), &ended.stdout).unwrap();
    let report_of_summary = hertzd(&["report", "summary.json", "-o", "s.html", "--json"], folder);
    let report_of_summary: Value = serde_json::from_slice(&report_of_summary.stdout).unwrap();
    let total = |part: &'static str| NAMES.iter().map(|name| count(task(&summary, name), part)).sum::<u64>();
    println!("due {}, missed {}", total("due"), total("missed"));

    for name in NAMES {
        let last = task(&summary, name);
        let (now, all) = (counts(last), since_the_start(last));
        assert_eq!(of(&now, is_cause).values().sum::<u64>(), now["missed"], "{last}");
        assert_eq!(counts(task(&shown, name)), now, "status --json: {name}");
        assert_eq!(since_the_start(task(&shown, name)), all, "status --json: {name}");
        assert_eq!(since_the_start(task(&followed, name)), all, "status --follow: {name}");
        for report in [&report, &report_of_summary] {
            let from = &report["run"]["source"]["kind"];
            assert_eq!(of(&reported(report, name), |_| true), of(&now, |_| true), "report of a {from}: {name}");
        }
        assert_eq!(
            row(&plain, name, &["due", "met", "missed"], 2),
            of_keys(&now, &["due", "met", "missed"]),
            "{plain}"
        );
        assert_eq!(row(&top, name, &["met", "missed"], 3), of_keys(&now, &["met", "missed"]), "{top}");
        if now["missed"] > 0 {
            let begin = format!("{name}: missed {}: ", now["missed"]);
            let told = unwrapped.lines().find_map(|line| line.strip_prefix(&begin));
            let told = told.unwrap_or_else(|| panic!("{name}: {plain}")).split("; ").next().unwrap();
            let cause = |part: &str| {
                let mut words = part.split(' ');
                let number = words.next().and_then(|number| number.parse().ok());
                (words.next().unwrap_or_default().to_owned(), number.unwrap_or_else(|| panic!("{part}: {plain}")))
            };
            assert_eq!(told.split(", ").map(cause).collect::<Counts>(), of(&now, is_cause), "{name}: {plain}");
        }
        assert_eq!(of(&scraped(&samples, name), |_| true), of(&all, |_| true), "exporter: {name}");
    }
    let causes =
        NAMES.iter().map(|name| of(&since_the_start(task(&summary, name)), is_cause)).fold(Counts::new(), added);
    println!("{causes:?}");
    assert!(causes.len() > 1 && causes["disabled"] > 0, "the test would show little: {causes:?}");
    assert!(task(&summary, "slow")["before_reload"].is_object() && task(&summary, "fast")["before_reload"].is_null());

    // A dropped record is in none of the following, and is counted.
    if (count(&summary["records"], "dropped"), count(&summary["flight"], "lost")) != (0, 0) {
        println!("not compared with log and trace, which lack records: {}", summary["records"]);
        return;
    }
    let (entries, before) = (lines_of_json(&ended.stderr), &task(&summary, "slow")["before_reload"]);
    let from_journal = log_of_journal(&entries, folder);
    for entries in [&entries, &from_journal] {
        let is_final = |entry: &&Value| entry["task"] == "slow" && entry["ran"].is_u64();
        let [told] = entries.iter().filter(is_final).collect::<Vec<_>>()[..] else { panic!("{entries:?}") };
        assert!(KEYS.iter().all(|key| told[key] == before[key]), "{told}, {before}");
    }
    let written = hertzd(&["trace", "flight", "-o", "t.pftrace", "--json"], folder);
    assert!(written.status.success(), "{written:?}");
    let written: Value = serde_json::from_slice(&written.stdout).unwrap();
    let traced = traced(folder);
    let mut sums = (0, 0);
    for name in NAMES.into_iter().chain(["gate"]) {
        let all = since_the_start(task(&summary, name));
        sums = (sums.0 + all["ran"], sums.1 + all["missed"]);
        let missed = of(&all, |key| !["due", "met", "ran"].contains(&key));
        assert_eq!(of(&logged(&entries, name), |_| true), missed, "the log: {name}");
        assert_eq!(of(&logged(&from_journal, name), |_| true), missed, "hertzd log: {name}");
        if let Some(traced) = &traced {
            assert_eq!(of(&traced(name), |_| true), of(&all, |_| true), "the trace: {name}");
        }
    }
    assert_eq!((count(&written, "ticks"), count(&written, "missed")), sums, "{written}");
    assert_eq!(written["flight"]["ended"], json!(true));
    let report = hertzd(&["report", "flight", "-o", "r.html", "--json"], folder);
    assert!(report.status.success(), "{report:?}");
    let report = serde_json::from_slice(&report.stdout).unwrap();
    for name in NAMES.into_iter().chain(["gate"]) {
        let all = since_the_start(task(&summary, name));
        assert_eq!(of(&reported(&report, name), |_| true), of(&all, |_| true), "report of the flight file: {name}");
    }
}

fn of_keys(counts: &Counts, keys: &[&str]) -> Counts {
    keys.iter().map(|key| ((*key).to_owned(), counts[*key])).collect()
}
