//! What a value is worth when its source misbehaves: each source × fault × view, generated from three lists. All views show the same truth,
//! and the table in docs/quality.md is made of the same lists.

use crate::program::{HERE, HERTZD, Running, pause, run_in, skip, snapshot, task};
use crate::recorded;
use crate::scraping::Exporter;
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    File,
    Program,
}

const SOURCES: [Source; 2] = [Source::File, Source::Program];

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Frozen,
    DeadWriter,
    Away,
    Back,
    Garbage,
    OutOfRange,
    Transient,
    Slow,
}

const FAULTS: [Fault; 8] = [
    Fault::Frozen,
    Fault::DeadWriter,
    Fault::Away,
    Fault::Back,
    Fault::Garbage,
    Fault::OutOfRange,
    Fault::Transient,
    Fault::Slow,
];

/// Where a value is shown.
#[derive(Clone, Copy, Debug)]
enum View {
    Json,
    Status,
    Top,
    Log,
    Exporter,
    Report,
    Csv,
    Mcap,
    Summary,
}

const VIEWS: [View; 9] = [
    View::Json,
    View::Status,
    View::Top,
    View::Log,
    View::Exporter,
    View::Report,
    View::Csv,
    View::Mcap,
    View::Summary,
];

/// What the value is then, in all views.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Worth {
    Good,
    /// Now and then nothing new, which is no error.
    None,
    /// Bad for this reason, at the source.
    Bad(&'static str),
    /// Good at the source, but the task that takes it refuses it, for this reason.
    Refused(&'static str),
}

fn wanted(source: Source, fault: Fault) -> Worth {
    match (source, fault) {
        (_, Fault::Frozen) => Worth::Bad("stuck"),
        (_, Fault::DeadWriter) => Worth::Bad("stale"),
        (_, Fault::Away) => Worth::Bad("unavailable"),
        (_, Fault::Back) => Worth::Good,
        (Source::File, Fault::Garbage) => Worth::Bad("failed"),
        (Source::Program, Fault::Garbage) => Worth::Bad("not-available"),
        (_, Fault::OutOfRange) => Worth::Bad("out-of-range"),
        (Source::File, Fault::Transient) => Worth::None,
        (Source::Program, Fault::Transient) => Worth::Good,
        (_, Fault::Slow) => Worth::Refused("stale"),
    }
}

/// What happens, in words, for the table.
fn told(source: Source, fault: Fault) -> &'static str {
    match (source, fault) {
        (Source::File, Fault::Frozen) => "the same number is written again and again, for `stuck-after`",
        (Source::Program, Fault::Frozen) => "it gives the same number for `stuck-after`",
        (Source::File, Fault::DeadWriter) => "nothing is written for `max-file-age`",
        (Source::Program, Fault::DeadWriter) => {
            "it hangs: it has not answered for 1 s, or ten periods if that is longer; until then its last answer is refused once it is older than the `max-age` of who takes it"
        }
        (Source::File, Fault::Away) => "the file is deleted",
        (Source::Program, Fault::Away) => "it has ended",
        (Source::File, Fault::Back) => "the file is written again",
        (Source::Program, Fault::Back) => "it runs again",
        (Source::File, Fault::Garbage) => "the file holds no number",
        (Source::Program, Fault::Garbage) => "it gives `null`",
        (_, Fault::OutOfRange) => "the number is outside `valid`",
        (Source::File, Fault::Transient) => "the file is empty: its writer truncates it before it writes",
        (Source::Program, Fault::Transient) => "an answer is late",
        (_, Fault::Slow) => "its rate is lower than the `max-age` of who takes it allows",
    }
}

/// Replaces the file that the source reads every 10 ms.
struct Writer {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What a writer writes.
#[derive(Clone, Copy)]
enum Written {
    Changing(f64),
    Same,
    Text(&'static str),
    /// A number every second time, nothing in between.
    Truncated,
}

impl Writer {
    fn start(path: PathBuf, what: Written) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let over = ends.clone();
        let thread = std::thread::spawn(move || {
            let new = path.with_extension("new");
            for n in 0_u32.. {
                let text = match what {
                    Written::Changing(from) => format!("{}\n", from + f64::from(n % 64) / 64.0),
                    Written::Same => "5\n".to_owned(),
                    Written::Text(text) => text.to_owned(),
                    Written::Truncated if n % 2 == 0 => String::new(),
                    Written::Truncated => format!("{}\n", 3.0 + f64::from(n % 64) / 64.0),
                };
                fs::write(&new, text).unwrap();
                fs::rename(&new, &path).unwrap();
                pause(Span::from_millis(10));
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A program that gives what the file `number` holds: a number, nothing, or no answer at all; it ends while `away` exists.
const CLIENT: &str = "import hertzd, os, sys, time\nhere = sys.argv[1]\nfor tick in hertzd.ticks():\n    \
    if os.path.exists(here + '/away'): sys.exit(0)\n    \
    while os.path.exists(here + '/hangs'): time.sleep(0.01)\n    \
    text = open(here + '/number').read().strip()\n    \
    if text == 'late' and tick.n % 7 == 0: time.sleep(0.03)\n    \
    hertzd.out(v=None if text == 'null' else 1 + tick.n % 8 if text == 'late' else float(text))\n";

fn config(source: Source) -> String {
    let keys = match source {
        Source::File => format!("kind = \"sensor\"\npath = \"{HERE}/number\"\nname = \"v\"\nmax-file-age = \"500ms\""),
        Source::Program => {
            let client = CLIENT.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds/process/python");
            format!(
                "kind = \"process\"\nenv = [\"PYTHONPATH={}\"]\ncommand = [\"python3\", \"-c\", \"{client}\", \"{HERE}\"]",
                module.display()
            )
        }
    };
    let value = if source == Source::Program { "[[task.source.value]]\nname = \"v\"\n" } else { "" };
    format!(
        "[worker.main]\npolicy = \"other\"\n[worker.source]\npolicy = \"other\"\n\
         [task.source]\nworker = \"source\"\nrate = 50\nvalid = {{ v = [0, 10] }}\nstuck-after = {{ v = \"1s\" }}\nrecord = \"{HERE}/values.csv\"\nrecord-raw = true\n\
         {keys}\n{value}\
         [task.copy]\nkind = \"expr\"\nworker = \"main\"\nrate = 50\nmax-age = \"500ms\"\nrecord = \"{HERE}/copy.mcap\"\n\
         inputs = {{ x = \"source.v\" }}\n[[task.copy.value]]\nname = \"v\"\nexpression = \"x\"\n\
         [task.rare]\nkind = \"sensor\"\nworker = \"main\"\nperiod = \"1h\"\npath = \"/proc/uptime\"\nname = \"v\"\n\
         [task.waits]\nkind = \"expr\"\nworker = \"main\"\nrate = 50\nmax-age = \"500ms\"\n\
         inputs = {{ x = \"rare.v\" }}\n[[task.waits.value]]\nname = \"v\"\nexpression = \"x\"\n"
    )
}

/// Brings the fault about; it lasts until the result is dropped.
fn cause(source: Source, fault: Fault, folder: &Path) -> Option<Writer> {
    let number = folder.join("number");
    let write = |what| Some(Writer::start(number.clone(), what));
    for name in ["away", "hangs"] {
        let _ = fs::remove_file(folder.join(name));
    }
    match (source, fault) {
        (_, Fault::Frozen) => write(Written::Same),
        (_, Fault::Back | Fault::Slow) => write(Written::Changing(3.0)),
        (_, Fault::OutOfRange) => write(Written::Changing(16.0)),
        (Source::File, Fault::Garbage) => write(Written::Text("abc\n")),
        (Source::File, Fault::Transient) => write(Written::Truncated),
        (Source::File, Fault::DeadWriter) => None,
        (Source::File, Fault::Away) => {
            fs::remove_file(number).unwrap();
            None
        }
        (Source::Program, Fault::Garbage) => write(Written::Text("null\n")),
        (Source::Program, Fault::Transient) => write(Written::Text("late\n")),
        (Source::Program, Fault::DeadWriter) => {
            fs::write(folder.join("hangs"), "").unwrap();
            write(Written::Changing(3.0))
        }
        (Source::Program, Fault::Away) => {
            fs::write(folder.join("away"), "").unwrap();
            write(Written::Changing(3.0))
        }
    }
}

/// The value in question, and who takes it: of a slow source it is another one.
fn names(fault: Fault) -> (&'static str, &'static str) {
    if fault == Fault::Slow { ("rare", "waits") } else { ("source", "copy") }
}

fn value_of<'a>(snapshot: &'a Value, task_name: &str) -> &'a Value {
    &task(snapshot, task_name)["values"]["v"]
}

/// Whether a snapshot or summary shows this.
fn is_shown(snapshot: &Value, fault: Fault, worth: Worth) -> bool {
    let (source, taker) = names(fault);
    let (value, input) = (value_of(snapshot, source), &task(snapshot, taker)["inputs"][format!("{source}.v")]);
    let taken = value_of(snapshot, taker);
    match worth {
        Worth::Good => {
            value["quality"] == "good" && value["last"].is_f64() && input.is_null() && taken["quality"] == "good"
        }
        Worth::None => {
            let is_so = ["none", "good"].iter().any(|word| value["quality"] == *word);
            is_so && value["last"].is_f64() && value["reason"].is_null() && input.is_null()
        }
        Worth::Bad(reason) => {
            let is_told = value["last"].is_null() && value["since_ns"].is_i64() && value["last_good"].is_f64();
            let taken = taken["quality"] == "bad" && taken["reason"] == "inherited" && taken["last"].is_null();
            value["quality"] == "bad" && value["reason"] == reason && is_told && input["reason"] == reason && taken
        }
        Worth::Refused(reason) => {
            value["quality"] == "good" && input["reason"] == reason && taken["reason"] == "inherited"
        }
    }
}

/// The words of a reason, for people.
fn meaning(reason: &str) -> &'static str {
    match reason {
        "stuck" => "it has not changed for stuck-after",
        "stale" => "it is too old",
        "unavailable" => "its source is not there",
        "failed" => "it could not be read or computed",
        "not-available" => "its source says that it has none",
        "out-of-range" => "is outside valid 0 to 10",
        other => panic!("{other}"),
    }
}

fn text_of(args: &[&str], folder: &Path) -> String {
    let socket = folder.join("s");
    let mut command = Command::new(HERTZD);
    command.args(args).arg("--socket").arg(&socket).current_dir(folder).stdin(Stdio::null());
    let output = command.env("LC_ALL", "C").env("COLUMNS", "400").output().unwrap();
    // Lines may be wrapped anywhere.
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks one view while the fault lasts, which began when `before` bytes had been logged. `None`: not shown yet.
fn check(
    view: View,
    (fault, worth): (Fault, Worth),
    before: usize,
    running: &Running,
    exporter: &Exporter,
) -> Option<()> {
    let folder = running.folder();
    let (source, taker) = names(fault);
    // A task that has no device is a reason itself.
    let sentence = match worth {
        Worth::Bad("unavailable" | "failed" | "stale") => "task source".to_owned(),
        Worth::Bad(_) | Worth::Refused(_) => format!("task {taker} cannot use {source}.v: "),
        _ => String::new(),
    };
    let holds = match (view, worth) {
        (View::Json, _) => is_shown(&snapshot(&folder.join("s")), fault, worth),
        (View::Status, Worth::Bad(reason)) => {
            let text = text_of(&["status"], folder);
            text.contains("source: v bad for ") && text.contains(meaning(reason)) && text.contains(" old)")
        }
        (View::Status, Worth::Refused(_)) => {
            text_of(&["status"], folder).contains(&format!("{taker}: its input {source}.v is stale for "))
        }
        (View::Status, _) => !text_of(&["status"], folder).contains("source: v bad"),
        (View::Top, Worth::Bad(_) | Worth::Refused(_)) => text_of(&["top", "--once"], folder).contains(&sentence),
        (View::Top, _) => !text_of(&["top", "--once"], folder).contains("cannot use source.v"),
        (View::Log, Worth::Bad(_) | Worth::Refused(_)) => {
            let said = running.stderr();
            let line = format!("{taker}: cannot use {source}.v: ");
            // A slow source is slow from the start.
            let (before, after) = said.split_at(before);
            after.contains(&line) || fault == Fault::Slow && before.contains(&line)
        }
        (View::Log, _) => !running.stderr()[before..].contains(": cannot use source.v: "),
        (View::Exporter, _) => {
            let samples = exporter.scrape();
            let value =
                samples.keys().any(|key| key.starts_with(&format!("hertzd_task_value{{task=\"{source}\",value=\"v\"")));
            let bad =
                |reason: &str| format!("hertzd_task_value_bad{{task=\"source\",value=\"v\",reason=\"{reason}\"}}");
            let refused = |reason: &str| {
                samples.contains_key(&format!(
                    "hertzd_task_input_bad{{task=\"{taker}\",input=\"{source}.v\",reason=\"{reason}\"}}"
                ))
            };
            match worth {
                Worth::Good | Worth::None => {
                    value && !samples.keys().any(|key| key.starts_with("hertzd_task_value_bad{task=\"source\""))
                }
                Worth::Bad(reason) => !value && samples.contains_key(&bad(reason)) && refused(reason),
                Worth::Refused(reason) => value && refused(reason),
            }
        }
        (View::Report, _) => {
            let mut command = Command::new(HERTZD);
            command.args(["report", "--socket", "s", "-o", "r.html", "--force"]).current_dir(folder);
            assert!(command.output().unwrap().status.success());
            let page = fs::read_to_string(folder.join("r.html")).unwrap();
            match worth {
                Worth::Bad(_) | Worth::Refused(_) => page.contains(&sentence),
                _ => !page.contains("cannot use source.v"),
            }
        }
        (View::Csv, _) => {
            let text = fs::read_to_string(folder.join("values.csv")).unwrap();
            let cells: Vec<_> = text.lines().last().unwrap_or_default().split(',').collect();
            let place = text.lines().next().unwrap_or_default().split(',').position(|name| name == "v raw").unwrap();
            let (row, raw) = (cells.get(3).copied().unwrap_or("?"), cells.get(place).copied().unwrap_or("?"));
            match worth {
                Worth::Good => row.parse::<f64>().is_ok(),
                Worth::Refused(_) => true,
                Worth::Bad("out-of-range") => row.is_empty() && raw.parse::<f64>().is_ok_and(|raw| raw >= 16.0),
                Worth::None => {
                    let last: Vec<_> = text.lines().rev().take(50).map(|line| line.split(',').nth(3)).collect();
                    last.contains(&Some("")) && last.iter().flatten().any(|cell| cell.parse::<f64>().is_ok())
                }
                Worth::Bad(_) => row.is_empty(),
            }
        }
        // What these hold is known only at the end of the run.
        (View::Mcap | View::Summary, _) => true,
    };
    holds.then_some(())
}

fn every_fault_of(source: Source) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_owned();
    let socket = here.join("s");
    let mut writer = cause(source, Fault::Back, &here);
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    fs::write(here.join("number"), "3\n").unwrap();
    let mut running = run_in(folder, Command::new(HERTZD), &config(source), &args);
    running.wait_for("it has ticked", |running| snapshot(&running.folder().join("s"))["daemon"]["ready"] == true);
    running.wait_for("its first value", |running| {
        is_shown(&snapshot(&running.folder().join("s")), Fault::Back, Worth::Good)
    });
    let exporter = Exporter::start(&socket);
    for fault in FAULTS {
        drop(writer.take());
        let before = running.stderr().len();
        writer = cause(source, fault, &here);
        let worth = wanted(source, fault);
        for view in VIEWS {
            let what = format!("{source:?}, {fault:?} in {view:?}: {worth:?}");
            running.wait_for(&what, |running| check(view, (fault, worth), before, running, &exporter).is_some());
        }
        // The next fault begins from a good value.
        drop(writer.take());
        writer = cause(source, Fault::Back, &here);
        running.wait_for("the value is good again", |running| {
            is_shown(&snapshot(&running.folder().join("s")), Fault::Back, Worth::Good)
        });
    }
    drop(writer.take());
    writer = cause(source, Fault::OutOfRange, &here);
    let last = Worth::Bad("out-of-range");
    running.wait_for("the last fault", |running| {
        is_shown(&snapshot(&running.folder().join("s")), Fault::OutOfRange, last)
    });
    running.signal("TERM");
    let ended = running.wait();
    drop(writer);
    assert!(is_shown(&ended.summary(), Fault::OutOfRange, last), "{}", ended.describe());
    let messages = recorded::messages(&here.join("copy.mcap"));
    let topics = recorded::by_topic(&messages);
    let qualities: Vec<_> =
        topics["copy/values"].iter().map(|message| serde_json::from_slice::<Value>(&message.data).unwrap()).collect();
    for message in &qualities {
        let quality = &message["@quality"]["v"];
        assert!(message["v"].is_f64() == quality.is_null() || quality == "held", "{message}");
    }
    let has = |word: &str| qualities.iter().any(|message| message["@quality"]["v"] == word);
    assert!(has("inherited") && qualities.iter().any(|message| message["v"].is_f64()));
    assert!(source == Source::Program || has("none"), "{source:?}");
}

#[test]
fn every_fault_of_a_file_is_the_same_truth_in_every_view() {
    every_fault_of(Source::File);
}

#[test]
fn every_fault_of_a_program_is_the_same_truth_in_every_view() {
    if !crate::program::works(Command::new("python3")) {
        return skip("there is no python3");
    }
    every_fault_of(Source::Program);
}

/// The table of the page.
fn table() -> String {
    let mut text = String::from("| source | what happens | the value is |\n| --- | --- | --- |\n");
    for source in SOURCES {
        for fault in FAULTS {
            let name = match source {
                Source::File => "a file (`sensor`)",
                Source::Program => "a program (`process`)",
            };
            let worth = match wanted(source, fault) {
                Worth::Good => "good".to_owned(),
                Worth::None => "`none`; what takes it waits for `max-age`".to_owned(),
                Worth::Bad(reason) => format!("bad: `{reason}`"),
                Worth::Refused(reason) => format!("good at its source; who takes it refuses it: `{reason}`"),
            };
            text += &format!("| {name} | {} | {worth} |\n", told(source, fault));
        }
    }
    text
}

#[test]
fn the_page_has_the_table_of_this_test() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/quality.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- sources and faults -->\n\n", "\n<!-- end -->");
    let (head, rest) = page.split_once(begin).unwrap();
    let (found, tail) = rest.split_once(end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, format!("{head}{begin}{}{end}{tail}", table())).unwrap();
        return;
    }
    assert_eq!(found, table(), "write it with UPDATE_DOCS=1");
}
