//! A daemon with many observers: `top` on twenty terminals, and clients of the status socket that hang, stay silent, flood or send garbage.
//! The tasks notice nothing, and the observers leave nothing behind.

#![cfg(feature = "top")]

use crate::program::{HERTZD, Running, count, pause, run_in, signal, skip, task, thread_named, threads};
use hertzd::time::Span;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// At this rate nothing is dropped even while the metrics thread gets no processor time for seconds.
const CONFIG: &str = "[worker.main]\npolicy = \"other\"\nevidence = \"off\"\n[task.a]\nkind = \"load\"\nrate = 100\nmax-missed = \"100%\"\n";

/// Enough tasks that a snapshot does not fit into a socket: if a client reads nothing, a part keeps waiting.
const BESIDE: usize = 250;

const TOPS: usize = 20;

/// The number of sleeps after which a worker is in its loop: earlier it waits for its orders.
const IN_LOOP: u64 = 50;

/// A daemon whose socket is `s` in its folder, and whose worker is in its loop.
fn daemon(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), config, &args);
    running.wait_for("it has ticked", |running| status(running)["daemon"]["ready"] == true);
    running.wait_for("its worker is in its loop", |running| waits(running) > IN_LOOP);
    running
}

fn status(running: &Running) -> Value {
    let socket = running.folder().join("s");
    let output = Command::new(HERTZD).args(["status", "--json", "--socket"]).arg(socket).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The number of times that the hot thread has gone to sleep or waited.
fn waits(running: &Running) -> u64 {
    let Some(thread) = thread_named(running.pid(), "hz-") else { return 0 };
    let status = fs::read_to_string(format!("/proc/{}/task/{thread}/status", running.pid())).unwrap();
    let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waits.unwrap().trim().parse().unwrap()
}

/// The threads and descriptors of a process.
fn held(running: &Running) -> (usize, usize) {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", running.pid())).unwrap().count();
    (threads(running.pid()).count(), descriptors)
}

/// In bytes.
fn resident(running: &Running) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{}/statm", running.pid())).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Waits until the process holds no more than before.
fn wait_until_nothing_is_left(running: &mut Running, before: (usize, usize)) {
    running.wait_for("nothing of them is left", |running| {
        let now = held(running);
        now.0 <= before.0 && now.1 <= before.1
    });
}

/// Ends the run, and asserts that it lost nothing.
fn ends_well(running: Running) {
    running.signal("TERM");
    let ended = running.wait();
    let summary = ended.summary();
    assert_eq!(count(&summary["records"], "dropped"), 0, "{summary}");
    assert_eq!(count(task(&summary, "a"), "errors"), 0, "{summary}");
    assert!(count(task(&summary, "a"), "ran") > IN_LOOP / 2, "{summary}");
}

/// The system calls of the hot thread until `end` has returned; `None`: it cannot be traced here.
fn calls(running: &mut Running, end: impl FnOnce(&mut Running)) -> Option<BTreeSet<String>> {
    let thread = thread_named(running.pid(), "hz-").unwrap();
    let path = running.folder().join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-p", &thread.to_string(), "-o"]).arg(&path).stderr(Stdio::null());
    let strace = strace.spawn();
    end(running);
    let Ok(mut strace) = strace else {
        skip("there is no strace here");
        return None;
    };
    if strace.try_wait().unwrap().is_none() {
        signal(strace.id(), "INT");
        strace.wait().unwrap();
    }
    let seen = fs::read_to_string(path).unwrap_or_default();
    if seen.is_empty() {
        println!("not traced: strace may not attach here");
        return None;
    }
    // A sleep in progress restarts when strace attaches.
    Some(seen.lines().filter_map(|line| Some(line.split_once('(')?.0.to_owned())).collect())
}

/// A `top` on a separate terminal, which `script` provides; `script` also notes what is shown.
struct Top(Child);

impl Top {
    /// Its standard input stays open: at the end of input `script` types Ctrl-D, which ends `top`.
    fn start(line: &str, shown: &Path) -> Self {
        let mut script = Command::new("script");
        script.args(["-qfec", line]).arg(shown).env("TERM", "xterm").env("LC_ALL", "C");
        Self(script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Top {
    /// Its terminal is gone then, and so is `top`.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn twenty_tops_change_nothing_for_the_tasks() {
    if Command::new("script").arg("--version").output().is_err() {
        return skip("there is no script (util-linux) here");
    }
    let mut running = daemon(CONFIG);
    let before = held(&running);
    let socket = running.folder().join("s");
    let line = format!("stty cols 80 rows 24; exec {HERTZD} top --socket {}", socket.display());
    let shown = |index: usize| running.folder().join(format!("shown-{index}"));
    let paths: Vec<PathBuf> = (0..TOPS).map(shown).collect();
    let tops: Vec<_> = paths.iter().map(|path| Top::start(&line, path)).collect();
    for path in &paths {
        running
            .wait_for("it shows the task", |_| fs::read_to_string(path).is_ok_and(|shown| shown.contains("ticking")));
    }
    // While all of them keep asking.
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
    let then: Vec<_> = paths.iter().map(length).collect();
    let calls = calls(&mut running, |running| {
        for (path, then) in paths.iter().zip(then) {
            running.wait_for("it shows the next figures", |_| length(path) > then);
        }
        pause(Span::from_seconds(1));
    });
    if let Some(calls) = calls {
        // The last two occur only if the kernel has no other way to read the clock, and at the edges of the trace.
        let own = ["clock_nanosleep", "clock_gettime", "restart_syscall"];
        let others: Vec<_> = calls.iter().filter(|call| !own.contains(&call.as_str())).collect();
        assert!(others.is_empty() && calls.contains("clock_nanosleep"), "{calls:?}");
    }
    drop(tops);
    wait_until_nothing_is_left(&mut running, before);
    ends_well(running);
}

#[test]
fn no_client_of_the_status_socket_keeps_others_out_or_leaves_anything_behind() {
    let beside: String = (0..BESIDE)
        .map(|index| format!("[task.beside-{index}]\nkind = \"load\"\nperiod = \"10h\"\nmax-missed = \"100%\"\n"))
        .collect();
    let mut running = daemon(&format!("{CONFIG}{beside}"));
    let before = held(&running);
    let socket = running.folder().join("s");
    let mut most = [0; 2];
    for round in 0..6 {
        let connect = || {
            let stream = UnixStream::connect(&socket).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        };
        let mut hold: Vec<_> = (0..60).map(|_| connect()).collect();
        for (index, stream) in hold.iter_mut().enumerate() {
            // The connection may have been given up already; then this fails.
            let _ = match index % 4 {
                0 => stream.write_all(&[0xff; 3_000]),
                1 => stream.shutdown(Shutdown::Write),
                2 => stream.read(&mut [0; 100]).map(drop),
                _ => Ok(()),
            };
        }
        // Clients that leave at once.
        (0..200).for_each(|_| drop(connect()));
        running.wait_for("an answer while they are all there", |running| {
            status(running)["tasks"].as_array().is_some_and(|tasks| tasks.len() == BESIDE + 1)
        });
        drop(hold);
        wait_until_nothing_is_left(&mut running, before);
        let half = &mut most[round / 3];
        *half = resident(&running).max(*half);
    }
    let [first, last] = most;
    assert!(last <= first + (8 << 20), "{first} bytes, then {last}");
    ends_well(running);
}
