//! The parts that a task of a user's own kind adds when it is built, besides its ticks: faults in them are detected, and the task gets
//! its farewell when it leaves.

use crate::program;
use hertzd::Built;
use hertzd::config::{Blueprint, Kind, Kinds, Section};
use hertzd::internals::Embedded;
use hertzd::task::{Task, Tick, TickError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of times that the task has ticked, got its farewell, and was dropped.
#[derive(Clone, Default)]
struct Seen(Arc<[AtomicU64; 3]>);

const TICKED: usize = 0;
const LEFT: usize = 1;
const DROPPED: usize = 2;

impl Seen {
    fn add(&self, what: usize) {
        self.0[what].fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self, what: usize) -> u64 {
        self.0[what].load(Ordering::SeqCst)
    }
}

struct Pump(Seen);

impl Task for Pump {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        self.0.add(TICKED);
        Ok(())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        assert_eq!(self.0.count(LEFT), self.0.count(DROPPED) + 1, "it hears of it before");
        self.0.add(DROPPED);
    }
}

#[test]
fn what_is_wrong_beside_the_ticks_is_seen_while_it_is_and_a_reload_that_ends_the_task_is_heard_of() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let (seen, is_dry) = (Seen::default(), Arc::new(AtomicU64::new(0)));
    let (its_seen, dry) = (seen.clone(), is_dry.clone());
    let pump = move |_: &mut Section<'_>| {
        let (seen, left, dry) = (its_seen.clone(), its_seen.clone(), dry.clone());
        Some(Blueprint::new(move |_| {
            let trouble = move || (dry.load(Ordering::SeqCst) == 1).then(|| "the pump of task a is dry".to_owned());
            Ok(Built::from(Pump(seen)).troubled_by(trouble).leaving(move || left.add(LEFT)))
        }))
    };
    let kinds = Kinds::builtin().add(Kind::new("pump", "A pump.", &[], pump));
    let task = |name: &str, kind: &str| format!("[task.{name}]\nkind = \"{kind}\"\nrate = 100\n");
    let alone = task("other", "load");
    let daemon = Embedded::of(kinds, task("a", "pump") + &alone).status_socket(&socket).start();
    let is_told = || {
        let snapshot = program::snapshot(&socket);
        let reason = snapshot["reason"].as_str().unwrap_or_default().to_owned();
        let is_told = reason.contains("the pump of task a is dry");
        assert!(!is_told || snapshot["well"] == false, "{snapshot}");
        is_told
    };
    daemon.until("it ticks", || seen.count(TICKED) > 0);
    assert!(!is_told());
    is_dry.store(1, Ordering::SeqCst);
    assert!(is_told());
    // The task continues.
    daemon.reload(task("a", "pump") + &alone + &task("more", "load"));
    daemon.until("the reload is done", || {
        program::snapshot(&socket)["tasks"].as_array().is_some_and(|all| all.len() == 3)
    });
    assert!(is_told() && seen.count(LEFT) == 0);
    daemon.reload(alone.clone());
    daemon.until("it is dropped", || seen.count(DROPPED) == 1);
    assert_eq!(seen.count(LEFT), 1);
    daemon.until("it is not told any more", || !is_told());
    daemon.stop();
    daemon.end();
}
