//! A worker that gets no processor time any more, because another program monopolises its CPU. Neither the end of a run nor the end of the
//! process waits for it without limit. This is a separate program, as no other test can use that CPU meanwhile.

use crate::program;
use crate::program::{Ended, HERTZD, Running, affinity, pause, run_in, stopwatch, task};
use hertzd::internals::{pin, set_fifo};
use hertzd::time::Span;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// One hog at a time.
static CPU: Mutex<()> = Mutex::new(());

/// After this time the hog ends by itself, whatever the test does.
const HOGS_FOR: Span = Span::from_seconds(60);

/// The length of a run that must end while the worker is starved. On a busy machine the run may end before that; then another one is
/// started.
const LENGTH: Span = Span::from_seconds(1);
const ATTEMPTS: u32 = 60;

/// A thread that monopolises a CPU. It ends on drop.
struct Hog {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Returns once no other thread gets the CPU.
    fn on(cpu: usize) -> Self {
        let (over, hogs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_over, begins) = (over.clone(), hogs.clone());
        let thread = std::thread::spawn(move || {
            pin(&[cpu]).unwrap();
            set_fifo(99).unwrap();
            let passed = stopwatch();
            begins.store(true, Ordering::Relaxed);
            while passed() < HOGS_FOR && !is_over.load(Ordering::Relaxed) {}
        });
        let hog = Self { over, thread: Some(thread) };
        while !hogs.load(Ordering::Relaxed) {
            assert!(hog.is_there(), "the hog has ended");
            pause(Span::from_millis(1));
        }
        hog
    }

    fn is_there(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Starts a run whose worker has a CPU of its own, starves the worker, and passes both to `meanwhile` until the run ends. `None`: this
/// machine does not allow that. The returned process is reaped while the worker is still starved.
fn run_starved(args: &[&str], meanwhile: impl Fn(&mut Running)) -> Option<Ended> {
    let _one = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let (own, Some(hogged)) = (affinity()[0], affinity().get(1).copied()) else {
        program::skip("there is one CPU only");
        return None;
    };
    if let Err(error) = std::thread::spawn(|| set_fifo(99)).join().unwrap() {
        program::skip(&format!("no real-time policy is granted: {error}"));
        return None;
    }
    // This thread, and all of hertzd except the worker.
    pin(&[own]).unwrap();
    for _ in 0..ATTEMPTS {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let args = [&["--json", "--status-socket", socket.to_str().unwrap()], args].concat();
        let config = format!("[worker.main]\ncpu = {hogged}\n[task.a]\nkind = \"load\"\nrate = 100\n");
        let waited = stopwatch();
        let mut running = run_in(folder, Command::new(HERTZD), &config, &args);
        running.wait_until_granted();
        let hog = Hog::on(hogged);
        if args.contains(&"--for") && waited() >= LENGTH {
            continue;
        }
        meanwhile(&mut running);
        let ended = running.wait();
        assert!(hog.is_there(), "the process ended with the hog: {}", ended.describe());
        return Some(ended);
    }
    panic!("no run was starved before its end");
}

#[test]
fn the_end_of_a_run_gives_up_a_worker_that_gets_no_processor_time() {
    let _turn = crate::turn(module_path!());
    let Some(ended) = run_starved(&["--for", "1s", "--stop-timeout", "500ms"], |_| {}) else { return };
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    // The worker may have lost its CPU within a tick.
    let given_up = ["worker main did not stop within 500 ms", " of task a has not returned for "];
    assert!(given_up.iter().any(|text| ended.stderr.contains(text)), "{}", ended.describe());
    assert!(ended.stderr.contains("the run is over: waiting up to 500 ms for "), "{}", ended.describe());
    assert!(ended.stderr.contains("; Ctrl-C or SIGTERM, sent twice, ends hertzd at once"), "{}", ended.describe());
    assert_eq!(task(&ended.summary(), "a")["state"], "stalled", "{}", ended.describe());
}

#[test]
fn a_stop_gives_up_a_worker_that_gets_no_processor_time() {
    let _turn = crate::turn(module_path!());
    let stop = |running: &mut Running| running.signal("TERM");
    let Some(ended) = run_starved(&["--stop-timeout", "500ms"], stop) else { return };
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert!(ended.stderr.contains("stopping: waiting up to 500 ms for "), "{}", ended.describe());
    assert_eq!(task(&ended.summary(), "a")["state"], "stalled", "{}", ended.describe());
}

#[test]
fn status_says_what_a_run_that_is_over_waits_for_and_a_second_signal_ends_it() {
    let _turn = crate::turn(module_path!());
    let Some(ended) = run_starved(&["--for", "1s", "--stop-timeout", "90s"], |running| {
        let socket = running.folder().join("s");
        running.wait_for("status says so", |_| {
            let status = Command::new(HERTZD).args(["status", "--json", "--socket"]).arg(&socket).output().unwrap();
            String::from_utf8_lossy(&status.stdout).contains("; the run is over and waits for worker main\"")
        });
        running.signal("TERM");
        running.wait_for("it stops", |running| running.stderr().contains("stopping: waiting up to 90.0 s for "));
        running.signal("TERM");
    }) else {
        return;
    };
    assert_eq!(ended.status.code(), Some(143), "{}", ended.describe());
}
