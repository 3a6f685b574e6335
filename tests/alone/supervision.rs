//! Main watches what runs: a tick that never returns, a worker that keeps its CPU busy, a helper thread that dies, and a process
//! that was stopped itself.

use crate::program;
use crate::program::{HERE, HERTZD, Running, count, pause, run_by, run_in, stopwatch, task};
use hertzd::time::Span;
use std::fs;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A worker `well` with a task that records its value at 1 kHz.
const WELL: &str = "[worker.well]\n[task.well]\nkind = \"sensor\"\nworker = \"well\"\nrate = \"1 kHz\"\n\
                    path = \"@HERE@/value\"\nmax-file-age = \"off\"\nrecord = \"@HERE@/well.mcap\"\n";

/// A worker `stuck` whose only task hangs in its tick `tick`. None of its releases before that is given up.
fn stuck(tick: u64) -> String {
    let every = tick + 1;
    format!(
        "[worker.stuck]\n[task.stuck]\nworker = \"stuck\"\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = {every}\n\
         overrun = \"credit\"\nmax-debt = \"1h\"\n"
    )
}

/// Waits until status says that tick 9 of the task `stuck` hangs.
fn wait_until_stuck(running: &mut Running, socket: &Path) {
    running.wait_for("it is stuck", |_| {
        program::snapshot(socket).to_string().contains("tick 9 of task stuck has not returned for ")
    });
}

/// Starts `command run CONFIG ARGS`, where the configuration contains [`WELL`].
fn run_well(command: Command, config: &str, args: &[&str]) -> Running {
    assert!(config.contains(HERE));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("value"), "7\n").unwrap();
    run_in(folder, command, config, args)
}

/// Whether the recording has its end.
fn is_complete(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.len() > 8 && bytes.ends_with(b"\x89MCAP0\r\n"))
}

#[test]
fn a_first_tick_that_never_returns_fails_the_start() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manager");
    let messages = program::messages_to(&path);
    let mut command = Command::new(HERTZD);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "6000000").env_remove("WATCHDOG_PID");
    let running = run_well(command, &format!("{WELL}{}", stuck(0)), &["--json"]);
    let passed = stopwatch();
    let ended = running.wait();
    println!("ended {} after the start; the watchdog's time is 6 s", passed());
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let summary = ended.summary();
    assert_eq!(task(&summary, "stuck")["state"], "stalled");
    let well = task(&summary, "well");
    assert_eq!(well["state"], "ticking");
    assert!(count(well, "ran") > 0 && count(&well["recorded"], "rows") == count(well, "ran"), "{well}");
    let failed = "the start failed: tick 0 of task stuck has not returned for ";
    assert!(ended.stderr.contains(failed), "{}", ended.describe());
    assert!(summary["reason"].as_str().unwrap().contains(failed), "{summary}");
    UnixDatagram::unbound().unwrap().send_to(&[], &path).unwrap();
    let messages = messages.join().unwrap();
    assert!(messages.contains("STOPPING=1\n") && !messages.contains("READY=1\n"), "{messages}");
}

#[test]
fn a_stop_beside_a_hung_tick_writes_all_else_and_says_what_it_waits_for() {
    let _turn = crate::turn(module_path!());
    let config = format!("{WELL}{}", stuck(9));
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("s");
    let args = ["--json", "--stop-timeout", "90s", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_well(Command::new(HERTZD), &config, &args);
    let path = running.folder().join("well.mcap");
    running.wait_for("it records", |_| fs::metadata(&path).is_ok_and(|file| file.len() > 4_096));
    wait_until_stuck(&mut running, &socket);
    running.signal("TERM");
    let passed = stopwatch();
    running.wait_for("the recording is complete", |_| is_complete(&path));
    println!("the recording was complete {} after SIGTERM", passed());
    let waits = "waiting up to 90.0 s for tick 9 of task stuck; a second Ctrl-C or SIGTERM ends hertzd at once";
    running.wait_for("what it waits for", |running| running.stderr().contains(waits));
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(143), "{}", ended.describe());
}

#[test]
fn a_hung_tick_is_given_up_after_the_stop_timeout() {
    let _turn = crate::turn(module_path!());
    let config = format!("{WELL}{}", stuck(9));
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("s");
    let args = ["--json", "--stop-timeout", "300ms", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_well(Command::new(HERTZD), &config, &args);
    let path = running.folder().join("well.mcap");
    running.wait_for("it records", |_| fs::metadata(&path).is_ok_and(|file| file.len() > 4_096));
    wait_until_stuck(&mut running, &socket);
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert!(ended.stderr.contains("waiting up to 300 ms for tick 9 of task stuck"), "{}", ended.describe());
    let summary = ended.summary();
    assert_eq!(task(&summary, "stuck")["state"], "stalled");
    assert!(summary["reason"].as_str().unwrap().contains("tick 9 of task stuck has not returned for"), "{summary}");
    let well = task(&summary, "well");
    assert_eq!((&well["state"], count(&well["recorded"], "rows")), (&"ticking".into(), count(well, "ran")));
    let refused = Command::new(HERTZD).args(["run", "--stop-timeout", "0s"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
}

#[test]
fn a_stall_is_logged_once_when_it_is_known_and_once_when_it_is_over() {
    let _turn = crate::turn(module_path!());
    let config = "[worker.main]\npolicy = \"other\"\n[task.slow]\nkind = \"load\"\nrate = 100\n\
                  fault = \"sleep\"\nfault-every = 20\nfault-run = \"4s\"\n";
    let mut running = program::run(config, &["--json"]);
    // Not the first one, if hertzd itself had no processor time meanwhile: then no one has noticed.
    let over = |line: &str| {
        let (_, rest) = line.split_once("slow: tick ")?;
        Some(rest.split_once(", which was stalled, has returned")?.0.to_owned())
    };
    running.wait_for("a stall is over", |running| running.stderr().lines().any(|line| over(line).is_some()));
    running.signal("TERM");
    let log = running.wait().stderr;
    let tick = log.lines().find_map(over).unwrap();
    let text = format!("slow: stalled, tick {tick} has not returned for ");
    let known = log.lines().find(|line| line.contains(&text)).unwrap();
    let field = format!("tick={tick}");
    assert!(known.contains("ERROR") && known.contains("worker=\"main\"") && known.contains(&field), "{known}");
    let times = [&text, &format!("tick {tick}, which was")].map(|text| log.matches(text.as_str()).count());
    assert_eq!(times, [1, 1], "{log}");
}

#[test]
fn a_process_that_was_stopped_has_no_stalled_worker() {
    let _turn = crate::turn(module_path!());
    let config = "[task.rare]\nkind = \"load\"\nrate = 0.25\n";
    let is_taken_for_stalled = || {
        let mut command = Command::new(HERTZD);
        // A worker counts as stalled after 1 s.
        command.env("NOTIFY_SOCKET", "/dev/null").env("WATCHDOG_USEC", "2000000").env_remove("WATCHDOG_PID");
        let mut running = run_by(command, config, &["--json"]);
        running.wait_until_granted();
        // Its release comes 4 s after the first one, and then waits for at least 2 s.
        running.hold(Span::from_seconds(6));
        running.wait_for("the gap is logged", |running| running.stderr().contains("hertzd had no processor time for "));
        pause(Span::from_seconds(2));
        running.signal("TERM");
        let ended = running.wait();
        println!("{}", ended.describe());
        assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
        assert_eq!(task(&ended.summary(), "rare")["state"], "ticking");
        ended.stderr.contains("stalled,")
    };
    // The machine may stall the worker alone besides, but not each time.
    assert!(!(0..5).all(|_| is_taken_for_stalled()));
}

#[test]
fn the_workers_that_used_the_cpu_are_demoted_and_not_one_that_waits() {
    let _turn = crate::turn(module_path!());
    // The hard limit would end the process. All is in a tick for longer than the limit, `waits` for longest.
    let mut config = "[worker.waits]\n[task.waits]\nworker = \"waits\"\nkind = \"load\"\nrate = 0.01\nrun = \"99s\"\nmode = \"sleep\"\n\
                      [worker.brief]\n[task.brief]\nworker = \"brief\"\nkind = \"load\"\nrate = 100\nrun = \"5ms\"\n"
        .to_owned();
    for (name, phase) in [("first", "200ms"), ("second", "6s")] {
        config += &format!(
            "[worker.{name}]\n[task.{name}]\nworker = \"{name}\"\nkind = \"load\"\nperiod = \"20s\"\nphase = \"{phase}\"\nrun = \"9s\"\n"
        );
    }
    let mut command = Command::new("prlimit");
    command.args(["--rttime=500000:8000000", HERTZD]);
    let mut running = run_by(command, &config, &["--json", "--stop-timeout", "200ms"]);
    running.wait_until_granted();
    if !running.stderr().contains("granted fifo") {
        program::skip("no real-time policy was granted");
        return;
    }
    for name in ["first", "second"] {
        let demoted = format!("worker {name} runs at normal priority from now on");
        running.wait_for("it was demoted", |running| running.stderr().contains(&demoted));
        let busy = format!("{name}: tick 0 has kept its CPU busy for ");
        assert!(running.stderr().contains(&busy), "{}", running.stderr());
        running.wait_for("the limit is the same for the others", |running| {
            let limits = fs::read_to_string(format!("/proc/{}/limits", running.pid())).unwrap_or_default();
            let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"));
            limit.is_some_and(|limit| limit.split_whitespace().next() == Some("500000"))
        });
    }
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let summary = ended.summary();
    for worker in summary["workers"].as_array().unwrap() {
        let hog = ["first", "second"].contains(&worker["worker"].as_str().unwrap());
        assert_eq!(worker["granted"]["policy"], if hog { "other" } else { "fifo" }, "{worker}");
    }
}

/// Makes a system call that never fails do so in the thread that the file `FAILING_THREAD` names.
fn failing_calls(folder: &Path) -> PathBuf {
    program::preload(folder, "failing_calls")
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn without_the_metrics_thread_a_worker_that_hangs_is_summed_up_by_what_it_shows() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let (fails, socket) = (folder.path().join("fails"), folder.path().join("status.sock"));
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", failing_calls(folder.path())).env("FAILING_THREAD", &fails);
    let config = format!("{WELL}{}", stuck(9));
    let args = ["--json", "--stop-timeout", "100ms", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_well(command, &config, &args);
    wait_until_stuck(&mut running, &socket);
    fs::write(&fails, "hertzd-metrics").unwrap();
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert!(ended.stderr.contains("the thread hertzd-metrics panicked at "), "{}", ended.describe());
    assert!(ended.stderr.contains("the counts of worker stuck are the last that it showed"), "{}", ended.describe());
    let summary = ended.summary();
    let stuck = task(&summary, "stuck");
    assert_eq!((count(stuck, "ran"), count(stuck, "met") + count(stuck, "overruns")), (9, 9), "{stuck}");
    assert!(count(stuck, "skipped") > 0 && count(stuck, "pending") == 0, "{stuck}");
    assert_eq!(count(stuck, "met") + count(stuck, "missed"), count(stuck, "due"), "{stuck}");
    assert_eq!(count(&stuck["causes"], "unknown"), count(stuck, "missed"), "{stuck}");
}

/// Such a thread cannot be made to panic directly. A system call that normally never fails does so here, and makes it panic.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn the_death_of_a_thread_ends_the_run_at_once() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let library = failing_calls(folder.path());
    let threads = [
        "hertzd-metrics",
        "hertzd-recorder",
        "hertzd-status",
        "hertzd-keeper",
        "hertzd-signals",
        "hertzd-io",
        "hz-well",
    ];
    // The thread that tries to open a device exists for as long as the device is missing.
    let config = format!(
        "{WELL}[worker.away]\n[task.away]\nkind = \"i2c\"\nworker = \"away\"\nrate = 1\nbus = \"no such bus\"\naddress = 0x48\n\
         register = 0\ntype = \"u8\"\nmissing = \"wait\"\n"
    );
    for thread in threads {
        let (fails, socket) = (folder.path().join("fails"), folder.path().join("status.sock"));
        let mut command = Command::new(HERTZD);
        command.env("LD_PRELOAD", &library).env("FAILING_THREAD", &fails);
        let mut running = run_well(command, &config, &["--json", "--status-socket", socket.to_str().unwrap()]);
        let path = running.folder().join("well.mcap");
        running.wait_for("it records", |_| fs::metadata(&path).is_ok_and(|file| file.len() > 4_096));
        fs::write(&fails, thread).unwrap();
        let passed = stopwatch();
        match thread {
            "hertzd-status" => drop(UnixStream::connect(&socket).unwrap()), // wakes it
            "hertzd-signals" => running.signal("HUP"),
            _ => {}
        }
        let ended = running.wait();
        println!("{thread}: ended {} after its death", passed());
        assert_eq!(ended.status.code(), Some(70), "{thread}: {}", ended.describe());
        let died = format!("the thread {thread} panicked at ");
        assert!(ended.stderr.contains(&died), "{thread}: {}", ended.describe());
        assert!(!ended.stderr.contains("did not answer"), "{thread}: {}", ended.describe());
        let summary = ended.summary();
        assert!(summary["reason"].as_str().unwrap().contains(&died), "{summary}");
        // The counts are the worker's own.
        let well = task(&summary, "well");
        assert!(count(well, "ran") > 0, "{well}");
        let recorded = &well["recorded"];
        let (rows, lost) = (count(recorded, "rows"), count(recorded, "lost"));
        match thread {
            // Ticks are lost as well as rows.
            "hertzd-recorder" => assert!(rows + lost >= count(well, "ran"), "{well}"),
            // Each row is written; the ticks that were not passed on are lost.
            "hertzd-metrics" => {
                assert_eq!(rows, count(well, "ran"), "{well}");
                assert_eq!(count(recorded, "ticks") + lost, rows, "{well}");
                let without = "the metrics thread has died: no histograms, 0 records, and no more ticks in recordings";
                assert!(summary["reason"].as_str().unwrap().contains(without), "{summary}");
            }
            // A machine that is too busy for the metrics thread drops records, and counts them.
            _ => {
                let dropped = count(&summary["records"], "dropped");
                assert_eq!((rows, lost), (count(well, "ran"), dropped), "{thread}: {well}");
            }
        }
        fs::remove_file(&fails).unwrap();
    }
}
