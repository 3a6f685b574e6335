//! Everything except the pinned workers runs on other CPUs, as the kernel shows it from outside: threads, programs, and their child
//! processes.

use crate::program;
use crate::program::{HERTZD, Running, affinity, signal, skip};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

type Cpus = BTreeSet<usize>;

/// A program that has a child, and a process whose parent has ended.
const PROGRAM: &str = r#"
[task.brain]
kind = "process"
worker = "free"
rate = 10
value = [{ name = "echo" }]
command = ["sh", "-c", "sleep 1000 & echo $! >@HERE@/child; (sleep 1000 & echo $! >@HERE@/orphan); echo $$ >@HERE@/program; wait"]
"#;

/// Threads that write safe values, and a worker that is not pinned.
const REST: &str = r#"
[worker.free]
policy = "other"
[task.out]
kind = "output"
worker = "free"
rate = 10
path = "@HERE@/out"
input = 1
safe = 0
[task.free]
kind = "load"
worker = "free"
rate = 10
"#;

fn pinned(name: &str, cpus: &Cpus) -> String {
    format!(
        "[worker.{name}]\npolicy = \"other\"\ncpus = {cpus:?}\n[task.{name}]\nkind = \"load\"\nworker = \"{name}\"\nrate = 10\n",
        cpus = cpus.iter().collect::<Vec<_>>()
    )
}

fn run(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("out"), "0\n").unwrap();
    let socket = folder.path().join("s");
    let mut running =
        program::run_in(folder, Command::new(HERTZD), config, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_for("it is ready", |running| socket.exists() && snapshot(running)["daemon"]["ready"] == true);
    running
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("s"))
}

fn text(running: &Running) -> String {
    let output = program::status(&running.folder().join("s"), &[]);
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn reload(running: &mut Running, config: &str) {
    let config = config.replace(program::HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), config).unwrap();
    let before = snapshot(running)["daemon"]["reloads"].as_u64().unwrap();
    signal(running.pid(), "HUP");
    running.wait_for("it has reloaded", |running| snapshot(running)["daemon"]["reloads"].as_u64() > Some(before));
}

/// This process's CPUs without the last one, and the last one. `None`: there is only one.
fn usable() -> Option<(Cpus, usize)> {
    let mut all: Cpus = affinity().into_iter().collect();
    let last = all.pop_last().unwrap();
    if all.is_empty() {
        skip("this process may use one CPU only");
        return None;
    }
    Some((all, last))
}

/// The CPUs that a thread may run on, by its folder; `None`: it has ended.
fn allowed(folder: &Path) -> Option<Cpus> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let parts = list.split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
    Some(parts.flat_map(|(low, high)| low.parse::<usize>().unwrap()..=high.parse().unwrap()).collect())
}

fn name(thread: &Path) -> String {
    fs::read_to_string(thread.join("comm")).unwrap_or_default().trim_end().to_owned()
}

/// Threads of hertzd that may run on CPUs outside `cpus`, except pinned workers and threads that write safe values.
fn elsewhere(running: &Running, cpus: &Cpus, pinned: &[&str]) -> Vec<String> {
    let threads = program::threads(running.pid()).filter_map(|thread| Some((name(&thread), allowed(&thread)?)));
    let exempt = |name: &str| name == "hertzd-guard" || name == "hertzd-safe" || pinned.contains(&name);
    let wrong = threads.filter(|(name, allowed)| !exempt(name) && allowed != cpus);
    wrong.map(|(name, allowed)| format!("{name}: {allowed:?}")).collect()
}

fn wait_until_on(running: &mut Running, cpus: &Cpus, pinned: &[&str]) {
    let mut last = Vec::new();
    running.wait_for(&format!("all threads are on {cpus:?}"), |running| {
        let wrong = elsewhere(running, cpus, pinned);
        if wrong != last {
            println!("not yet on {cpus:?}: {wrong:?}");
            last = wrong;
        }
        last.is_empty()
    });
    let all: Cpus = affinity().into_iter().collect();
    running.wait_for("the guard may run anywhere", |running| {
        let guard = program::threads(running.pid()).find(|thread| name(thread) == "hertzd-guard");
        guard.is_some_and(|guard| allowed(&guard).as_ref() == Some(&all))
    });
}

/// Waits until the program and its child processes may run on `cpus` and nowhere else.
fn wait_until_program_on(running: &mut Running, cpus: &Cpus) {
    for file in ["program", "child", "orphan"] {
        running.wait_for(&format!("the {file} is on {cpus:?}"), |running| {
            let process = fs::read_to_string(running.folder().join(file)).unwrap_or_default();
            let process = process.trim();
            !process.is_empty() && allowed(Path::new(&format!("/proc/{process}"))).as_ref() == Some(cpus)
        });
    }
}

fn numbers(value: &Value) -> Cpus {
    value.as_array().unwrap().iter().map(|cpu| usize::try_from(cpu.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn one_pinned_worker_has_its_cpu_alone() {
    let Some((rest, last)) = usable() else { return };
    let own = Cpus::from([last]);
    let config = pinned("main", &own) + REST + PROGRAM;
    let mut running = run(&config);
    wait_until_on(&mut running, &rest, &["hz-main"]);
    wait_until_program_on(&mut running, &rest);
    let worker = program::thread_named(running.pid(), "hz-main").unwrap();
    let of_thread =
        |running: &Running, thread: u32| allowed(Path::new(&format!("/proc/{}/task/{thread}", running.pid())));
    assert_eq!(of_thread(&running, worker), Some(own.clone()));

    running.wait_for("status says so", |running| snapshot(running)["cool_threads"]["apart"] == true);
    let cool = snapshot(&running)["cool_threads"].clone();
    assert_eq!((numbers(&cool["cpus"]), numbers(&cool["pinned"])), (rest.clone(), own.clone()), "{cool}");
    let shown = rest.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let wanted = format!("other threads and programs: on CPU {shown}, apart from the workers on CPU {last}");
    assert!(text(&running).contains(&wanted), "{}", text(&running));
    let checked = Command::new(HERTZD).arg("check").arg(running.folder().join("test.toml")).output().unwrap();
    let checked = String::from_utf8(checked.stdout).unwrap();
    let wanted = format!("other threads and programs: on CPU {shown}, apart from the pinned workers");
    assert!(checked.contains(&wanted), "{checked}");

    // Any thread that is moved there is moved back, and the program too.
    let moves = |thread: u32, cpus: &str| {
        assert!(Command::new("taskset").args(["-pc", cpus, &thread.to_string()]).output().unwrap().status.success());
    };
    moves(program::thread_named(running.pid(), "hertzd-metrics").unwrap(), &last.to_string());
    let program = fs::read_to_string(running.folder().join("program")).unwrap();
    moves(program.trim().parse().unwrap(), &last.to_string());
    wait_until_on(&mut running, &rest, &["hz-main"]);
    wait_until_program_on(&mut running, &rest);

    // As after a change of the cpuset that takes the worker's CPU away.
    let all = rest.iter().chain(&own).map(ToString::to_string).collect::<Vec<_>>().join(",");
    moves(worker, &all);
    running.wait_for("the worker is pinned again", |running| of_thread(running, worker).as_ref() == Some(&own));
    running.wait_for("that is logged", |running| running.stderr().contains("main: pinned again to CPU"));

    // Someone has moved it elsewhere: it stays there, and is not well.
    let other = *rest.first().unwrap();
    moves(worker, &other.to_string());
    let wanted = format!("worker main may run on CPU {other} instead of CPU {last}");
    running.wait_for("it is not well", |running| {
        snapshot(running)["reason"].as_str().is_some_and(|reason| reason.contains(&wanted))
    });
    assert_eq!(of_thread(&running, worker), Some(Cpus::from([other])));
    moves(worker, &last.to_string());
    running.wait_for("it is where it belongs", |running| {
        !snapshot(running)["reason"].as_str().is_some_and(|reason| reason.contains("instead of CPU"))
    });
}

#[test]
fn workers_on_all_cpus_leave_the_rest_where_it_was() {
    let Some((rest, last)) = usable() else { return };
    let all: Cpus = affinity().into_iter().collect();
    let config = pinned("one", &Cpus::from([last])) + &pinned("two", &rest) + REST + PROGRAM;
    let mut running = run(&config);
    let workers = ["hz-one", "hz-two"];
    wait_until_on(&mut running, &all, &workers);
    wait_until_program_on(&mut running, &all);
    running.wait_for("status says so", |running| snapshot(running)["cool_threads"]["apart"] == false);
    let said = "not apart from workers: workers are pinned to all CPUs that hertzd may use";
    assert!(text(&running).contains(said), "{}", text(&running));
    let checked = Command::new(HERTZD).arg("check").arg(running.folder().join("test.toml")).output().unwrap();
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.contains("other threads and programs: on any CPU, also on those of the workers"), "{checked}");

    // Without one of the workers, a CPU is left.
    reload(&mut running, &(pinned("one", &Cpus::from([last])) + REST + PROGRAM));
    wait_until_on(&mut running, &rest, &["hz-one"]);
    wait_until_program_on(&mut running, &rest);
    if rest.len() > 1 {
        let two = Cpus::from([*rest.first().unwrap()]);
        reload(&mut running, &(pinned("one", &Cpus::from([last])) + &pinned("two", &two) + REST + PROGRAM));
        let left = rest.difference(&two).copied().collect();
        wait_until_on(&mut running, &left, &workers);
        wait_until_program_on(&mut running, &left);
    }
}

#[test]
fn a_reload_that_pins_a_worker_clears_its_cpu_and_one_that_ends_it_gives_it_back() {
    let Some((rest, last)) = usable() else { return };
    let all: Cpus = affinity().into_iter().collect();
    let without = format!("{REST}{PROGRAM}");
    let mut running = run(&without);
    wait_until_on(&mut running, &all, &[]);
    assert!(snapshot(&running)["cool_threads"].is_null());
    for _ in 0..2 {
        reload(&mut running, &(pinned("main", &Cpus::from([last])) + &without));
        wait_until_on(&mut running, &rest, &["hz-main"]);
        wait_until_program_on(&mut running, &rest);
        reload(&mut running, &without);
        wait_until_on(&mut running, &all, &[]);
        wait_until_program_on(&mut running, &all);
        running.wait_for("nothing is said", |running| snapshot(running)["cool_threads"].is_null());
    }
    assert!(!running.stderr().contains("were changed from outside"), "{}", running.stderr());
}

#[test]
fn cpus_that_hertzd_was_started_on_are_all_that_it_uses() {
    let Some((rest, last)) = usable() else { return };
    let first = *rest.first().unwrap();
    let config = pinned("main", &Cpus::from([last])) + REST + PROGRAM;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("out"), "0\n").unwrap();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &first.to_string(), HERTZD]);
    // The worker can leave its CPUs: the kernel allows that.
    let mut running = program::run_in(folder, command, &config, &[]);
    running.wait_for("the program runs", |running| running.folder().join("program").exists());
    wait_until_program_on(&mut running, &Cpus::from([first]));
    assert_eq!(elsewhere(&running, &Cpus::from([first]), &["hz-main"]), Vec::<String>::new());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn what_the_kernel_refuses_is_said_and_nothing_else_is_claimed() {
    let Some((mut all, last)) = usable() else { return };
    all.insert(last);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("out"), "0\n").unwrap();
    let socket = folder.path().join("s");
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", program::preload(folder.path(), "no_affinity"));
    let config = pinned("main", &Cpus::from([last])) + REST;
    let mut running = program::run_in(folder, command, &config, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_for("status says so", |running| {
        socket.exists()
            && snapshot(running)["cool_threads"]["reason"].as_str().is_some_and(|reason| reason.contains("refuses"))
    });
    let cool = snapshot(&running)["cool_threads"].clone();
    assert_eq!((&cool["apart"], numbers(&cool["cpus"])), (&Value::from(false), all), "{cool}");
    let said = "not apart from workers: the kernel refuses to move threads (Operation not permitted";
    assert!(text(&running).contains(said), "{}", text(&running));
    assert_eq!(running.stderr().matches("may run on the CPUs of pinned workers").count(), 1, "{}", running.stderr());
}

#[test]
fn a_worker_with_the_policy_deadline_may_run_anywhere_as_the_kernel_demands() {
    let Some((rest, last)) = usable() else { return };
    let deadline = "[worker.free]\npolicy = \"deadline\"\n";
    let config = pinned("main", &Cpus::from([last])) + &REST.replace("[worker.free]\npolicy = \"other\"\n", deadline);
    assert!(config.contains(deadline));
    let mut running = run(&config);
    wait_until_on(&mut running, &rest, &["hz-main", "hz-free"]);
    let all: Cpus = affinity().into_iter().collect();
    let free = program::threads(running.pid()).find(|thread| name(thread) == "hz-free").unwrap();
    assert_eq!(allowed(&free), Some(all));
}
