//! An output of a user's own kind, `examples/own_output.rs`, in a daemon in this process: its safe value is written in every case in which
//! hertzd's own outputs get theirs.

#[path = "../../examples/own_output.rs"]
#[allow(dead_code, reason = "its main is that of a program")]
mod example;

use crate::program::pause;
use hertzd::config::{Blueprint, Key, Kind, Kinds, Section, Value};
use hertzd::internals::{Embedded, EmbeddedRun};
use hertzd::task::{Column, Input, Task, Tick, TickError};
use hertzd::time::Span;
use hertzd::{Built, SafeOutput, Site};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The source's value in percent; and two special states: no value, and a worker that hangs.
const MISSING: u64 = 1_000;
const HANGS: u64 = 1_001;

struct Source(Arc<AtomicU64>);

impl Task for Source {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "value".into(), unit: String::new() }]
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        while self.0.load(Ordering::SeqCst) == HANGS {
            pause(Span::from_millis(1));
        }
        let percent = self.0.load(Ordering::SeqCst);
        if percent != MISSING {
            values[0] = percent as f64 / 100.0;
        }
        Ok(())
    }
}

fn config(tasks: &str) -> String {
    format!("[task.source]\nkind = \"source\"\nrate = 100\n{tasks}")
}

fn lamp(name: &str, port: &Path) -> String {
    let keys = "kind = \"dimmer\"\nrate = 100\ninput = \"source.value\"\nmax-age = \"1h\"";
    format!("[task.{name}]\n{keys}\nport = \"{}\"\n", port.display())
}

struct Running {
    gives: Arc<AtomicU64>,
    daemon: EmbeddedRun,
}

impl Running {
    fn start(text: String, first: u64) -> Self {
        Self::start_with(example::kinds(), text, first, |daemon| daemon)
    }

    fn start_with(kinds: Kinds, text: String, first: u64, set_up: impl Fn(Embedded) -> Embedded) -> Self {
        let gives = Arc::new(AtomicU64::new(first));
        let given = gives.clone();
        let source = move |_: &mut Section<'_>| Some(Blueprint::built(Source(given.clone())));
        let kinds = kinds.add(Kind::new("source", "A value that the test controls.", &[], source));
        Self { gives, daemon: set_up(Embedded::of(kinds, text)).start() }
    }

    fn give(&self, percent: u64) {
        self.gives.store(percent, Ordering::SeqCst);
    }

    /// Waits until this is the last line received.
    fn until_lamp_is(&self, port: &Path, wanted: &str) {
        self.daemon.until(wanted, || fs::read_to_string(port).unwrap().lines().last() == Some(wanted));
    }

    fn reload(&self, text: String) {
        self.daemon.reload(text);
    }

    fn stop(self) {
        self.daemon.stop();
        self.daemon.end();
    }
}

#[test]
fn an_output_of_ones_own_is_made_safe_wherever_those_of_hertzd_are() {
    let folder = tempfile::tempdir().unwrap();
    let (port, other) = (folder.path().join("port"), folder.path().join("other"));
    [&port, &other].into_iter().for_each(|file| fs::write(file, "").unwrap());
    let text = config(&lamp("lamp", &port));
    let daemon = Running::start(text.clone(), 50);
    daemon.until_lamp_is(&port, "050");
    assert!(fs::read_to_string(&port).unwrap().starts_with("000\n"), "before its first tick");
    daemon.give(MISSING);
    daemon.until_lamp_is(&port, "000");
    daemon.give(60);
    daemon.until_lamp_is(&port, "060");
    daemon.give(HANGS);
    daemon.until_lamp_is(&port, "000");
    daemon.give(70);
    daemon.until_lamp_is(&port, "070");
    // A reload hands the lamp over to a task of another name, and makes it safe once no task has it.
    daemon.reload(config(&(lamp("renamed", &port) + &lamp("more", &other))));
    daemon.until_lamp_is(&other, "070");
    daemon.until_lamp_is(&port, "070");
    daemon.reload(config(&lamp("more", &other)));
    daemon.until_lamp_is(&port, "000");
    daemon.stop();
    assert!(fs::read_to_string(&other).unwrap().ends_with("000\n"), "at the end");
}

/// Each tick sends 77 and then fails: with a panic if the source gives a value, otherwise with an error.
struct Careless(Input, std::path::PathBuf);

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    use std::io::Write;
    fs::File::options().append(true).open(path)?.write_all(line.as_bytes())
}

impl Task for Careless {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "level".into(), unit: String::new() }]
    }

    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        append(&self.1, "077\n").unwrap();
        assert!(self.0.get().is_nan(), "this panic is a part of the test");
        Err(TickError::new("no answer"))
    }
}

#[test]
fn after_each_tick_that_fails_it_is_made_safe_whatever_the_tick_has_sent() {
    const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
    let folder = tempfile::tempdir().unwrap();
    let port = folder.path().join("port");
    fs::write(&port, "").unwrap();
    let its_port = port.clone();
    let careless = move |section: &mut Section<'_>| {
        let (task, input) = (section.name().to_owned(), section.input(&INPUT)?);
        let port = its_port.clone();
        Some(Blueprint::new(move |site: &mut Site| {
            let for_safe = port.clone();
            let safe =
                SafeOutput::new(&task, "the port", Span::from_seconds(3_600), move || append(&for_safe, "000\n"));
            Built::from(Careless(input, port)).guarded(site, safe)
        }))
    };
    let kinds = Kinds::builtin().add(Kind::new("careless", "Fails.", vec![INPUT], careless));
    let task = "[task.careless]\nkind = \"careless\"\nrate = 100\ninput = \"source.value\"\non-error = \"continue\"\n";
    let daemon = Running::start_with(kinds, config(task), MISSING, |daemon| daemon);
    let sent = || fs::read_to_string(&port).unwrap().lines().filter(|line| *line == "077").count();
    let until_sent = |times: usize| daemon.daemon.until("it was sent", || sent() >= times);
    until_sent(5);
    daemon.give(50);
    until_sent(sent() + 5);
    daemon.stop();
    let all = fs::read_to_string(&port).unwrap();
    let lines: Vec<_> = all.lines().collect();
    assert!(!lines.windows(2).any(|two| two == ["077", "077"]) && lines.last() == Some(&"000"), "{lines:?}");
}

/// Panics while it holds the lock that the function writing its safe value takes.
struct Shared(Input, Arc<Mutex<std::path::PathBuf>>);

impl Task for Shared {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "level".into(), unit: String::new() }]
    }

    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let port = self.1.lock().unwrap();
        append(&port, "077\n").unwrap();
        assert!(self.0.get().is_nan(), "this panic is a part of the test");
        Ok(())
    }
}

#[test]
fn a_safe_write_that_panics_is_tried_again_also_after_a_panic_of_the_tick() {
    const INPUT: Key = Key::new("input", Value::Input, "What it takes.");
    let folder = tempfile::tempdir().unwrap();
    let port = folder.path().join("port");
    fs::write(&port, "").unwrap();
    let (panics, its_port) = (Arc::new(AtomicU64::new(0)), port.clone());
    let panicked = panics.clone();
    let shared = move |section: &mut Section<'_>| {
        let (task, input) = (section.name().to_owned(), section.input(&INPUT)?);
        let (port, panics) = (its_port.clone(), panics.clone());
        Some(Blueprint::new(move |site: &mut Site| {
            let port = Arc::new(Mutex::new(port));
            let for_safe = port.clone();
            let write = move || {
                if for_safe.is_poisoned() && panics.fetch_add(1, Ordering::SeqCst) >= 3 {
                    for_safe.clear_poison();
                }
                append(&for_safe.lock().unwrap(), "000\n")
            };
            let safe = SafeOutput::new(&task, "the port", Span::from_seconds(3_600), write);
            Built::from(Shared(input, port)).guarded(site, safe)
        }))
    };
    let kinds = Kinds::builtin().add(Kind::new("shared", "Panics.", vec![INPUT], shared));
    let task = "[task.shared]\nkind = \"shared\"\nrate = 100\ninput = \"source.value\"\n";
    let daemon = Running::start_with(kinds, config(task), MISSING, |daemon| daemon);
    daemon.until_lamp_is(&port, "077");
    daemon.give(50);
    daemon.until_lamp_is(&port, "000");
    assert!(panicked.load(Ordering::SeqCst) >= 3, "by the task, and by the thread that writes in its place");
    daemon.stop();
}

#[test]
fn what_an_earlier_run_has_left_is_made_safe_by_the_task_of_its_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (port, plan) = (folder.path().join("port"), folder.path().join("plan.json"));
    fs::write(&port, "080\n").unwrap();
    fs::write(&plan, r#"{"version": 1, "pid": 0, "outputs": [], "own": ["lamp", "gone"]}"#).unwrap();
    let text = config(&lamp("lamp", &port));
    let daemon = Running::start_with(example::kinds(), text, 50, |daemon| daemon.safe_plan(&plan));
    daemon.until_lamp_is(&port, "050");
    assert!(fs::read_to_string(&port).unwrap().starts_with("080\n000\n"), "before its first tick");
    // Its safe value may be left unwritten or not: this test is about something else.
    daemon.stop();
    let text: String = fs::read_to_string(&plan).unwrap().split_whitespace().collect();
    assert!(text.contains("\"own\":[\"gone\"]"), "{text}");
}

#[test]
fn two_tasks_cannot_have_one_target_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let port = folder.path().join("port");
    fs::write(&port, "").unwrap();
    let daemon = Running::start(config(&(lamp("a", &port) + &lamp("b", &port))), 50);
    let refused = daemon.daemon.refusal();
    assert!(refused.contains("is in use by task a; only one task at a time can have it"), "{refused}");
    assert_eq!(fs::read_to_string(&port).unwrap(), "", "nothing was written");
}
