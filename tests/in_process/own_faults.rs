//! Users' own kinds that panic outside a tick: at most a reload is refused, and no task is dropped on a thread that must not block.

use crate::program::pause;
use hertzd::config::{Blueprint, Kind, Kinds};
use hertzd::internals::{Embedded, EmbeddedRun, Summary};
use hertzd::task::{Task, Tick, TickError};
use hertzd::time::Span;
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// State shared by the tasks of a test.
#[derive(Default)]
struct Shared {
    ticking: AtomicBool,
    waiting: AtomicBool,
    may_return: AtomicBool,
    dropped_on: Mutex<Vec<String>>,
}

/// Records the thread on which it is dropped. It may wait in its first tick, or panic when it is dropped.
struct Own {
    shared: Arc<Shared>,
    waits: bool,
    panics: bool,
}

impl Task for Own {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        self.shared.ticking.store(true, Ordering::Release);
        self.shared.waiting.fetch_or(self.waits, Ordering::Release);
        while self.waits && !self.shared.may_return.load(Ordering::Acquire) {
            pause(Span::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.shared.dropped_on.lock().unwrap().push(std::thread::current().name().unwrap_or("main").into());
        assert!(!self.panics, "a drop that panics");
    }
}

/// Kinds of own tasks: `plain`; `waits`, in its tick; `panics`, when it is dropped; and `unbuilt`, whose construction panics.
fn kinds(shared: &Arc<Shared>) -> Kinds {
    let own = |waits, panics| {
        let shared = shared.clone();
        move |_: &mut hertzd::config::Section<'_>| {
            let shared = shared.clone();
            Some(Blueprint::new(move |_| Ok(Own { shared, waits, panics }.into())))
        }
    };
    Kinds::empty()
        .add(Kind::new("plain", "Ticks.", &[], own(false, false)))
        .add(Kind::new("waits", "Waits.", &[], own(true, false)))
        .add(Kind::new("panics", "Panics when it is dropped.", &[], own(false, true)))
        .add(Kind::new("unbuilt", "Cannot be made.", &[], |_: &mut hertzd::config::Section<'_>| {
            Some(Blueprint::new(|_| panic!("a constructor that panics")))
        }))
}

fn snapshot(socket: &Path) -> Value {
    let text = UnixStream::connect(socket).and_then(std::io::read_to_string).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn names(summary: &Summary) -> Vec<&str> {
    summary.tasks.iter().map(|task| &task.task[..]).collect()
}

/// Runs this configuration until a task ticks and `then` has returned, then stops.
fn run(shared: &Arc<Shared>, config: &str, then: impl Fn(&Path, &EmbeddedRun)) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let daemon = Embedded::of(kinds(shared), config).status_socket(&socket).start();
    daemon.until("a tick", || shared.ticking.load(Ordering::Acquire));
    then(&socket, &daemon);
    daemon.stop();
    let outcome = daemon.end();
    assert_eq!(outcome.fault, None);
    outcome.summary
}

#[test]
fn a_panic_while_a_reload_builds_or_closes_is_a_refusal_at_most() {
    let first = "[task.steady]\nkind = \"plain\"\nrate = 100\n[task.old]\nkind = \"panics\"\nrate = 100\n";
    let configs = [
        "[task.steady]\nkind = \"plain\"\nrate = 100\n[task.broken]\nkind = \"unbuilt\"\nrate = 100\n",
        "[task.steady]\nkind = \"plain\"\nrate = 100\n",
        "[task.steady]\nkind = \"plain\"\nrate = 100\n[task.new]\nkind = \"plain\"\nrate = 100\n",
    ];
    let summary = run(&Arc::default(), first, |socket, daemon| {
        for (reloads, config) in (1..).zip(configs) {
            daemon.reload(config);
            daemon.until("the reload is over", || snapshot(socket)["daemon"]["reloads"] == reloads);
            let daemon = &snapshot(socket)["daemon"];
            assert_eq!(daemon["reloads_refused"], 1, "{daemon}");
            if reloads == 1 {
                let text = daemon["last_reload"].as_str().unwrap();
                assert!(text.contains("task broken") && text.contains("a constructor that panics"), "{text}");
                assert!(text.contains("please report this"), "{text}");
            }
        }
    });
    assert_eq!(names(&summary), ["steady", "new"]);
}

#[test]
fn tasks_are_dropped_by_the_builder_when_a_stop_overtakes_a_reload() {
    let shared = Arc::<Shared>::default();
    let waits = "[worker.main]\n[task.waits]\nkind = \"waits\"\nworker = \"main\"\nrate = 100\n";
    let first = format!("{waits}[worker.leaves]\n[task.leaves]\nkind = \"plain\"\nworker = \"leaves\"\nrate = 100\n");
    let summary = run(&shared, &first, |socket, daemon| {
        daemon.until("the tick that waits", || shared.waiting.load(Ordering::Acquire));
        daemon.reload(format!("{waits}[task.begins]\nkind = \"plain\"\nworker = \"main\"\nrate = 100\n"));
        // The worker `leaves` ends at once; `main` takes its new tasks only after its tick.
        daemon.until("the reload is under way", || {
            snapshot(socket)["daemon"]["sections"]["tasks"].as_object().unwrap().contains_key("begins")
        });
        daemon.stop();
        // Main has processed its requests before it answers.
        snapshot(socket);
        shared.may_return.store(true, Ordering::Release);
    });
    assert_eq!(names(&summary), ["waits", "leaves"], "the tasks in force");
    assert_eq!(*shared.dropped_on.lock().unwrap(), ["hertzd-builder"; 3]);
}
