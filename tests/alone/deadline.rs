//! `policy = "deadline"` on the real kernel: the kernel promises a share of all CPUs, and refuses more than they have.

use crate::program;
use crate::program::{HERTZD, Running, count, is_root, nanos, pause, run, run_in, task, thread_named};
use hertzd::internals::set_deadline;
use hertzd::time::Span;
use serde_json::Value;
use std::fs::{self, File};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The kernel's limit on real-time bandwidth, which every user may read.
const LIMIT: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The maximum number of repetitions of a test whose subject the machine may delay.
const ATTEMPTS: u32 = 10;

/// Only one test runs at a time: the machine has a single supply of this bandwidth. Locks the kernel's file with the limit, so that tests
/// of all users are excluded; released on drop.
fn alone() -> File {
    let file = File::open(LIMIT).unwrap();
    file.lock().unwrap();
    file
}

/// Whether the kernel grants the policy here, and with a limit.
fn is_granted(running: &mut Running) -> bool {
    running.wait_until_granted();
    let limit = fs::read_to_string(LIMIT).unwrap_or_default();
    let granted = running.stderr().contains("granted deadline") && limit.trim() != "-1";
    if !granted {
        program::skip("the policy \"deadline\" is not granted here, or without a limit");
    }
    granted
}

fn run_with_socket(config: &str) -> Running {
    run_by_with_socket(Command::new(HERTZD), config)
}

fn run_by_with_socket(command: Command, config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    run_in(folder, command, config, &["--json", "--status-socket", socket.to_str().unwrap()])
}

fn run_client(running: &Running, args: &[&str]) -> Output {
    Command::new(HERTZD).args(args).arg("--socket").arg(running.folder().join("status.sock")).output().unwrap()
}

fn reload(running: &Running, config: &str) -> Output {
    fs::write(running.folder().join("test.toml"), config).unwrap();
    run_client(running, &["reload"])
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

/// The policies of all workers, and their names.
fn policies(summary: &Value) -> Vec<(&str, &str)> {
    let workers = summary["workers"].as_array().unwrap().iter();
    workers.map(|one| (one["worker"].as_str().unwrap(), one["granted"]["policy"].as_str().unwrap())).collect()
}

#[test]
fn tick_0_is_on_time() {
    let _turn = crate::turn(module_path!());
    let _alone = alone();
    let config =
        "[worker.main]\npolicy = \"deadline\"\n[task.slow]\nkind = \"load\"\nworker = \"main\"\nperiod = \"2s\"\n";
    // Otherwise it would be late by nearly a period each time, because the thread had given up the rest of its first period. The machine
    // may delay it as long, but not each time.
    let is_on_time = (0..ATTEMPTS).any(|_| {
        let mut running = run(config, &["--for", "3s", "--json"]);
        if !is_granted(&mut running) {
            return true;
        }
        let ended = running.wait();
        let summary = ended.summary();
        let slow = task(&summary, "slow");
        println!("lateness {}", slow["lateness_ns"]);
        assert_eq!(count(slow, "due"), 2, "{}", ended.describe());
        count(slow, "ran") == 2 && nanos(slow, "lateness_ns", "max") < Span::from_seconds(1).nanos()
    });
    assert!(is_on_time);
}

/// Half a period of work beside a tail of two fifths: the kernel would stop the thread in each tick if the tail came out of the
/// runtime that the ticks need.
#[test]
fn the_default_runtime_covers_the_spin_tail() {
    let _turn = crate::turn(module_path!());
    let _alone = alone();
    let config = "[worker.main]\npolicy = \"deadline\"\nspin = \"4ms\"\n\
                  [task.busy]\nkind = \"load\"\nworker = \"main\"\nperiod = \"10ms\"\nrun = \"4500us\"\n";
    // If stopped in each tick, it would miss each deadline. The machine may delay it as well, but not each time.
    let is_covered = (0..ATTEMPTS).any(|_| {
        let mut running = run(config, &["--for", "3s", "--json"]);
        if !is_granted(&mut running) {
            return true;
        }
        // The run may have ended if this test was delayed.
        let thread = thread_named(running.pid(), "hz-main").map(|thread| thread.to_string()).unwrap_or_default();
        let asked = Command::new("chrt").args(["--pid", &thread]).output();
        let asked = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned()).unwrap_or_default();
        assert!(asked.is_empty() || asked.contains("9010000/10000000/10000000"), "{asked}");
        let ended = running.wait();
        let summary = ended.summary();
        let busy = task(&summary, "busy");
        println!("{busy}");
        2 * (count(busy, "skipped") + count(busy, "overruns")) < count(busy, "due")
    });
    assert!(is_covered);
}

/// This many workers with this runtime in each 10 ms.
fn workers(count: usize, runtime: &str) -> String {
    let one = |n| {
        format!(
            "[worker.w{n}]\npolicy = \"deadline\"\nruntime = \"{runtime}\"\nrequire-realtime = true\n\
             [task.t{n}]\nkind = \"load\"\nworker = \"w{n}\"\nperiod = \"10ms\"\n"
        )
    };
    (0..count).map(one).collect()
}

/// The number of CPUs that share the bandwidth: all online CPUs, even those that a quota keeps this process from using.
fn cpus() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
}

/// Each tick needs twice the runtime, so the kernel stops it until the next period. The misses that follow are `throttled`. Time taken by
/// this machine's host looks like a long run, so no share is certain here, unlike in tests/causes.rs.
#[test]
fn a_worker_that_overruns_its_runtime_is_throttled() {
    let _turn = crate::turn(module_path!());
    let _alone = alone();
    let config = "[worker.main]\npolicy = \"deadline\"\nruntime = \"5ms\"\n\
                  [task.long]\nkind = \"load\"\nworker = \"main\"\nperiod = \"20ms\"\nrun = \"10ms\"\ndeadline = \"15ms\"\n";
    let mut running = run_with_socket(config);
    if !is_granted(&mut running) {
        return;
    }
    running.wait_for("200 releases are throttled", |running| {
        task(&snapshot(running), "long")["causes"]["throttled"].as_u64() >= Some(200)
    });
    running.signal("TERM");
    let ended = running.wait();
    println!("{}", task(&ended.summary(), "long"));
}

#[test]
fn a_reload_waits_for_the_bandwidth_of_the_workers_that_end() {
    let _turn = crate::turn(module_path!());
    let _alone = alone();
    if !is_root() {
        program::skip("the policy \"deadline\" is granted to root only");
        return;
    }
    let mut running = run_with_socket(&workers(cpus(), "6ms"));
    if !is_granted(&mut running) {
        return;
    }
    // Together with the running workers, each of these needs more than all CPUs have; some need more than is given back.
    for runtime in ["5999us", "5ms", "8500us", "8400us", "2ms", "8500us"] {
        let output = reload(&running, &workers(cpus(), runtime));
        assert!(output.status.success(), "{runtime}: {output:?}\n{}", running.stderr());
        let seen = snapshot(&running);
        assert!(policies(&seen).iter().all(|(_, policy)| *policy == "deadline"), "{runtime}: {seen}");
    }
    // A configuration that does not fit even then is refused before anything is changed.
    let before = snapshot(&running);
    let output = reload(&running, &workers(cpus(), "9999us"));
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let after = snapshot(&running);
    assert_eq!(policies(&after), policies(&before));
    assert!(count(&after["tasks"][0], "ran") >= count(&before["tasks"][0], "ran"));
    running.wait_for("its threads have ended", |running| {
        program::threads(running.pid()).filter(|thread| name(thread).starts_with("hz-")).count()
            == policies(&after).len()
    });
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    assert!(!ended.stderr.contains("at normal priority"), "{}", ended.describe());
}

/// Between the end of the old threads and the promotion of the new ones, their bandwidth belongs to no one. Here another program takes it:
/// the new threads are delayed until it ends.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_worker_that_requires_its_policy_does_not_run_without_it_after_a_reload() {
    let _turn = crate::turn(module_path!());
    let _alone = alone();
    if !is_root() {
        program::skip("the policy \"deadline\" is granted to root only");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (library, path) = (folder.path().join("late_again.so"), folder.path().join("taken"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/program/late_again.c");
    let built = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.unwrap().success());
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", &library).env("TAKEN", &path);
    let mut running = run_by_with_socket(command, &workers(cpus(), "9ms"));
    if !is_granted(&mut running) {
        return;
    }
    running.wait_for("all are granted", |running| running.stderr().matches("granted deadline").count() == cpus());
    let (over, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
    let output = std::thread::scope(|threads| {
        for _ in 0..cpus() {
            threads.spawn(|| {
                let period = Span::from_millis(10);
                // More than is free before the old threads end.
                while set_deadline(Span::from_millis(5), period, period).is_err() {
                    if over.load(Ordering::Acquire) {
                        return;
                    }
                    pause(Span::from_millis(1));
                }
                if taken.fetch_add(1, Ordering::AcqRel) + 1 == cpus() {
                    fs::write(&path, "").unwrap();
                }
                while !over.load(Ordering::Acquire) {
                    pause(period);
                }
            });
        }
        let output = reload(&running, &workers(cpus(), "8999us"));
        over.store(true, Ordering::Release);
        output
    });
    assert_eq!(taken.into_inner(), cpus(), "{output:?}");
    assert!(!output.status.success(), "{output:?}");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let lost = "refused (Device or resource busy), and require-realtime is set; the CPUs have no bandwidth left";
    assert!(ended.stderr.contains(lost), "{}", ended.describe());
    assert!(!ended.stderr.contains("at normal priority"), "{}", ended.describe());
}

fn name(thread: &std::path::Path) -> String {
    fs::read_to_string(thread.join("comm")).unwrap_or_default()
}

#[test]
fn a_refused_reload_leaves_no_worker_behind() {
    let _turn = crate::turn(module_path!());
    let _alone = alone();
    let steady = "[worker.main]\n[task.steady]\nkind = \"load\"\nworker = \"main\"\nrate = 100\n";
    let mut running = run_with_socket(steady);
    running.wait_until_granted();
    // More processor time than the kernel can guarantee: one worker is refused after the others were created.
    let more = workers(2 * cpus() + 1, "9ms");
    for refused in 1..=3 {
        let output = reload(&running, &format!("{steady}{more}"));
        assert!(!output.status.success(), "{output:?}");
        if !is_granted(&mut running) {
            return;
        }
        let seen = snapshot(&running);
        assert_eq!(count(&seen["daemon"], "reloads_refused"), refused, "{output:?}");
        assert_eq!(policies(&seen).len(), 1);
        running.wait_for("their threads have ended", |running| thread_named(running.pid(), "hz-w").is_none());
    }
    assert!(reload(&running, &steady.replace("rate = 100", "rate = 50")).status.success());
    running.wait_for("it keeps ticking", |running| count(task(&snapshot(running), "steady"), "ran") > 10);
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let summary = ended.summary();
    let [main] = &summary["workers"].as_array().unwrap()[..] else { panic!("{summary}") };
    assert!(count(&main["oversleep_ns"], "count") > 0, "its records are its own: {main}");
}
