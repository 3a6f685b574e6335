//! What comes before a first value, and what one value that cannot be read leaves of the others.

use crate::program::{HERE, HERTZD, Running, run_in, snapshot, task};
use crate::scraping::Exporter;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A task that reads two files.
const TWO: &str = "\
[worker.main]
policy = \"other\"
[task.two]
kind = \"sensor\"
worker = \"main\"
rate = 10
[[task.two.value]]
path = \"@HERE@/a\"
name = \"a\"
[[task.two.value]]
path = \"@HERE@/b\"
name = \"b\"
";

fn start(folder: TempDir, config: &str) -> Running {
    let socket = folder.path().join("s");
    let mut running = run_in(folder, Command::new(HERTZD), config, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    running
}

fn run_at(config: &str, files: &[(&str, &str)]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    start(folder, config)
}

fn value(running: &Running, of: &str, name: &str) -> Value {
    task(&snapshot(&running.folder().join("s")), of)["values"][name].clone()
}

/// A program that answers once `ready` is there, an alarm on what it says, and one on what is computed from that.
fn slow_program() -> String {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds/process/python");
    format!(
        "[task.brain]\nkind = \"process\"\nworker = \"brain\"\nrate = 10\nmax-missed = \"100%\"\nenv = [\"PYTHONPATH={}\"]\n\
         command = [\"python3\", \"-c\", \"import os, sys, time\\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\\n\
         import hertzd\\nfor tick in hertzd.ticks(): hertzd.out(v=1)\", \"{HERE}/ready\"]\n\
         [[task.brain.value]]\nname = \"v\"\n[worker.brain]\npolicy = \"other\"\n[worker.main]\npolicy = \"other\"\n\
         [task.twice]\nkind = \"expr\"\nworker = \"main\"\nrate = 10\ninputs = {{ x = \"brain.v\" }}\nexpression = \"2 * x\"\n\
         [task.hot]\nkind = \"alarm\"\nworker = \"main\"\nrate = 10\ninput = \"brain.v\"\nhigh = 70\n\
         [task.twice-hot]\nkind = \"alarm\"\nworker = \"main\"\nrate = 10\ninput = \"twice.out\"\nhigh = 70\n",
        module.display()
    )
}

#[test]
fn a_program_that_starts_slowly_raises_no_alarm() {
    let mut running = run_at(&slow_program(), &[]);
    // More than the `max-age` of both, which is below a second.
    running.wait_for("thirty ticks", |running| {
        let snapshot = snapshot(&running.folder().join("s"));
        ["hot", "twice-hot"].iter().all(|name| task(&snapshot, name)["ran"].as_u64() > Some(30))
    });
    assert_eq!(value(&running, "brain", "v")["quality"], "none");
    fs::write(running.folder().join("ready"), "").unwrap();
    running.wait_for("its answers", |running| value(running, "twice", "out")["last"] == 2.0);
    running.signal("TERM");
    let ended = running.wait();
    assert!(!ended.stderr.contains("no good value"), "{}", ended.stderr);
}

#[test]
fn one_file_of_two_that_is_gone_leaves_the_other_in_every_metric() {
    let mut running = run_at(TWO, &[("a", "21.5\n"), ("b", "22.5\n")]);
    running
        .wait_for("both", |running| ["a", "b"].map(|name| value(running, "two", name)["last"].clone()) == [21.5, 22.5]);
    let exporter = Exporter::start(&running.folder().join("s"));
    let has = |what: &str, name: &str| {
        let start = format!("hertzd_task_{what}{{task=\"two\",value=\"{name}\"");
        exporter.scrape().keys().any(|key| key.starts_with(&start))
    };
    assert!(has("value", "a") && has("value", "b"));
    fs::remove_file(running.folder().join("a")).unwrap();
    running.wait_for("a gap", |_| !has("value", "a"));
    assert!(has("value_bad", "a") && has("value", "b") && !has("value_bad", "b"));
}

#[test]
fn a_file_that_is_empty_at_a_start_keeps_its_column_in_a_recording_that_continues() {
    let config = TWO.replace("rate = 10\n", "rate = 10\nrecord = \"@HERE@/two.csv\"\n");
    let mut running = run_at(&config, &[("a", "21.5\n"), ("b", "22.5\n")]);
    let shown = |running: &Running| ["a", "b"].map(|name| value(running, "two", name)["last"].clone());
    running.wait_for("both", |running| shown(running) == [21.5, 22.5]);
    running.signal("TERM");
    let folder = running.wait().folder;
    fs::write(folder.path().join("b"), "").unwrap();
    let mut running = start(folder, &config);
    running.wait_for("the first", |running| shown(running)[0] == 21.5);
    assert_eq!(value(&running, "two", "b")["quality"], "none");
    fs::write(running.folder().join("b"), "23.5\n").unwrap();
    running.wait_for("the second", |running| shown(running)[1] == 23.5);
    running.signal("TERM");
    let recorded = fs::read_to_string(running.wait().folder.path().join("two.csv")).unwrap();
    let mut lines = recorded.lines();
    assert!(lines.next().unwrap().ends_with(",a,b"), "{recorded}");
    let cells: Vec<_> = lines.map(|line| line.rsplit(',').next().unwrap()).collect();
    let at = |cell: &str| cells.iter().position(|other| *other == cell).unwrap_or(usize::MAX);
    assert!(at("22.5") < at("") && at("") < at("23.5") && at("23.5") < cells.len(), "{recorded}");
}

#[test]
fn an_alarm_waits_for_the_first_tick_of_a_slow_sensor() {
    let config = format!(
        "[worker.main]\npolicy = \"other\"\n[worker.slow]\npolicy = \"other\"\n\
         [task.temp]\nkind = \"sensor\"\nworker = \"slow\"\nrate = 1\nphase = \"500ms\"\npath = \"{HERE}/a\"\nname = \"v\"\n\
         [task.hot]\nkind = \"alarm\"\nworker = \"main\"\nrate = 10\ninput = \"temp.v\"\nhigh = 70\n"
    );
    let mut running = run_at(&config, &[("a", "21.5\n")]);
    running.wait_for("a value", |running| value(running, "temp", "v")["last"] == 21.5);
    running.wait_for("twenty ticks", |running| {
        task(&snapshot(&running.folder().join("s")), "hot")["ran"].as_u64() > Some(20)
    });
    running.signal("TERM");
    let ended = running.wait();
    assert!(!ended.stderr.contains("no good value"), "{}", ended.stderr);
}

#[test]
fn one_file_of_two_that_cannot_be_read_leaves_an_output_of_the_other_as_it_is() {
    let fan = format!(
        "[task.fan]\nkind = \"output\"\nworker = \"main\"\nrate = 10\ninput = \"two.a\"\npath = \"{HERE}/fan\"\nsafe = 255\n"
    );
    let mut running = run_at(&(TWO.to_owned() + &fan), &[("a", "21.5\n"), ("b", "22.5\n"), ("fan", "0\n")]);
    let fan = |running: &Running| fs::read_to_string(running.folder().join("fan")).unwrap().trim().to_owned();
    running.wait_for("it follows", |running| fan(running) == "21.5");
    fs::write(running.folder().join("b"), "warm\n").unwrap();
    running.wait_for("the other is bad", |running| value(running, "two", "b")["quality"] == "bad");
    fs::write(running.folder().join("a"), "23.5\n").unwrap();
    running.wait_for("it goes on", |running| fan(running) == "23.5");
    assert_eq!(value(&running, "fan", "is-safe")["max"], 0.0);
    let said = format!("b: {}: the field is not a number", running.folder().join("b").display());
    running.wait_for("the log names it", |running| running.stderr().contains(&said));
    running.signal("TERM");
    running.wait();
}
