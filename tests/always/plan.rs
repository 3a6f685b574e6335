//! `hertzd plan`: the built binary, on the virtual clock.

use crate::on_virtual_clock::{MEETING, file, hertzd, text, word};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The first CPU that is online: every machine has it.
fn cpu() -> String {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    online.split([',', '-', '\n']).next().unwrap().to_owned()
}

/// The configuration with this plan as a drop-in, without the workers that the plan says to remove.
pub(crate) fn planned(config: &str, plan: &str) -> (TempDir, PathBuf) {
    let removed = plan.lines().find_map(|line| {
        line.strip_prefix("# No task is left on these workers, so remove their sections if they have any: ")
    });
    let removed = removed.map_or("", |names| names.trim_end_matches('.')).split(", ");
    let config = removed.fold(config.to_owned(), |config, name| config.replace(&format!("[worker.{name}]\n"), ""));
    let (folder, path) = file("my.toml", &config);
    fs::create_dir(folder.path().join("my.d")).unwrap();
    fs::write(folder.path().join("my.d/99-plan.toml"), plan).unwrap();
    (folder, path)
}

/// The worst response of each task when it is simulated for two seconds, in nanoseconds.
fn worst(path: &Path) -> Vec<(String, i64)> {
    let output = hertzd(&["simulate", word(path), "--for", "2s", "--summary-only", "--json"]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let worst =
        |task: &Value| (task["task"].as_str().unwrap().to_owned(), task["response_ns"]["max"].as_i64().unwrap());
    summary["tasks"].as_array().unwrap().iter().map(worst).collect()
}

#[test]
fn a_plan_passes_check_as_a_drop_in_and_is_the_same_each_time() {
    let (_folder, path) = file("my.toml", MEETING);
    let output = hertzd(&["plan", word(&path), "--free", "--cpus", &cpu()]);
    let plan = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(plan, text(&hertzd(&["plan", word(&path), "--free", "--cpus", &cpu()]).stdout));
    assert_eq!(plan.matches("[worker.").count(), 2, "{plan}");
    assert!(!plan.contains("overrun = ") && !plan.contains("rate = "), "only what changes: {plan}");
    let (_planned_folder, planned) = planned(MEETING, &plan);
    let check = hertzd(&["check", "--no-open", word(&planned)]);
    assert!(check.status.success(), "{check:?}\n{plan}");
    // A plan of the plan finds nothing better.
    let again = text(&hertzd(&["plan", word(&planned), "--free", "--cpus", &cpu()]).stdout);
    assert!(again.contains("# Nothing that was tried is better than this layout"), "{again}");
    assert!(!again.contains("\n["), "{again}");
}

#[test]
fn what_is_written_down_stays_unless_the_plan_is_free() {
    let config =
        MEETING.replace("phase = \"0s\"", "phase = \"123us\"").replace("priority = 70", &format!("cpu = {}", cpu()));
    let (_folder, path) = file("my.toml", &config);
    let plan = text(&hertzd(&["plan", word(&path)]).stdout);
    for line in [
        "(phases of tasks): middle. --free lets the plan change them.",
        "(CPUs of workers): main. --free lets the plan change them.",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    let pinned = plan.lines().filter(|line| line.starts_with("cpu = ")).collect::<Vec<_>>();
    assert!(pinned.iter().all(|line| *line == format!("cpu = {}", cpu())), "{plan}");
    let free = text(&hertzd(&["plan", word(&path), "--free"]).stdout);
    assert!(!free.contains("Kept, as") && !free.contains("\"123us\""), "{free}");
}

#[test]
fn the_responses_of_a_plan_for_one_worker_are_those_of_the_real_loop() {
    // Without the slow task all others fit between each other, on one worker: the simulation runs the same workers.
    let text_of_all = MEETING.replace("\"3ms\"", "\"300us\"");
    let (_folder, path) = file("my.toml", &text_of_all);
    let plan = text(&hertzd(&["plan", word(&path), "--cpus", &cpu()]).stdout);
    assert!(plan.contains("[worker.main]") && plan.matches("[worker.").count() == 1, "{plan}");
    let (_planned_folder, planned) = planned(&text_of_all, &plan);
    // Before, all are released together: fast waits for slow's tick, or for middle's.
    assert_eq!(worst(&path), [("fast".into(), 100_000), ("slow".into(), 800_000), ("middle".into(), 500_000)]);
    assert_eq!(worst(&planned), [("fast".into(), 100_000), ("slow".into(), 300_000), ("middle".into(), 400_000)]);
    for (task, after) in [("fast", "100 µs"), ("slow", "300 µs"), ("middle", "400 µs")] {
        let row = plan.lines().find(|line| line.starts_with(&format!("# {task} "))).unwrap();
        assert!(
            row.ends_with(&format!(
                "{after}{}main on CPU {}",
                " ".repeat(row.rfind("main").unwrap() - row.rfind(after).unwrap() - after.len()),
                cpu()
            )),
            "{row}"
        );
    }
}

#[test]
fn a_plan_says_what_it_does_not_know_and_what_cannot_hold() {
    let (_folder, path) =
        file("my.toml", "[task.a]\nkind = \"sensor\"\nrate = 10\npath = \"/proc/uptime\"\nname = \"x\"\n");
    let plan = text(&hertzd(&["plan", word(&path)]).stdout);
    assert!(plan.contains("which count as no work: a. Give each a budget"), "{plan}");

    let task = |name: &str| format!("[task.{name}]\nkind = \"load\"\nrate = 100\nrun = \"6ms\"\nbudget = \"6ms\"\n");
    let (_folder, path) = file("my.toml", &(task("a") + &task("b")));
    let output = hertzd(&["plan", word(&path), "--cpus", &cpu()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr)
            .contains("120.0 % of its time: 120.0 % by budgets, 0.0 % by spin tails; more work than time")
            && text(&output.stdout).contains("\n# b "),
        "{output:?}"
    );

    for (args, reason) in [
        (&["--cpus", "99999"][..], "CPU 99999 is not online"),
        (&["--runs", "/dev/null"], "this is no MCAP file"),
        (&["--runs", "/nowhere.mcap"], "/nowhere.mcap: No such file"),
    ] {
        let output = hertzd(&[&["plan", word(&path)], args].concat());
        assert!(output.status.code() == Some(64) && text(&output.stderr).contains(reason), "{args:?}: {output:?}");
    }
    let (_folder, path) =
        file("my.toml", "[worker.w]\npolicy = \"other\"\n[task.a]\nkind = \"load\"\nrate = 100\nrun = \"1ms\"\n");
    let output = hertzd(&["plan", word(&path)]);
    assert!(output.status.code() == Some(64) && text(&output.stderr).contains("no worker has policy"), "{output:?}");
}

#[test]
fn drop_ins_are_part_of_a_plan() {
    let (folder, path) = file("my.toml", MEETING);
    fs::create_dir(folder.path().join("my.d")).unwrap();
    fs::write(folder.path().join("my.d/10.toml"), "[task.slow]\nbudget = \"4ms\"\n").unwrap();
    let plan = text(&hertzd(&["plan", word(&path)]).stdout);
    let row = plan.lines().find(|line| line.starts_with("# slow ")).unwrap();
    assert!(row.contains(" 4.00 ms ") && !row.contains(" 3.00 ms "), "{plan}");
}

#[test]
fn the_cpu_on_which_sleeps_end_least_late_is_used_first() {
    let online = hertzd(&["plan", "--free"]);
    let online =
        text(&online.stdout).lines().find_map(|line| line.strip_prefix("# On CPU ").map(str::to_owned)).unwrap();
    let cpus: Vec<_> = online.split_once(';').unwrap().0.split(", ").map(|cpu| cpu.parse::<usize>().unwrap()).collect();
    let on = |cpu: usize, late: i64| json!({"cpu": cpu, "conditions": [{"sleep": {"oversleep_ns": {"counts": [[late, 9]]}}}]});
    let last = *cpus.last().unwrap();
    let measured: Vec<_> = cpus.iter().map(|cpu| on(*cpu, if *cpu == last { 250_000 } else { 500_000 })).collect();
    let (_measured_folder, measured) = file("m.json", &json!({"cpus": measured}).to_string());
    let (_folder, config) = file("my.toml", "[task.a]\nkind = \"load\"\nrate = 100\nbudget = \"1ms\"\n");
    let plan = text(&hertzd(&["plan", word(&config), "--oversleep", word(&measured)]).stdout);
    assert!(plan.contains(&format!("\ncpu = {last}\n")), "{plan}");
    assert!(plan.contains(&format!("250 µs, 250 µs and 250 µs on CPU {last}")), "{plan}");
    // A wake-up that is 250 µs late, and 1 ms of run.
    let row = plan.lines().find(|line| line.starts_with("# a ")).unwrap();
    assert!(row.contains("  1.25 ms  "), "{plan}");
    assert!(!plan.contains("deadlines are missed as planned"), "{plan}");
    let (_folder, tight) =
        file("tight.toml", "[task.a]\nkind = \"load\"\nrate = 100\nbudget = \"1ms\"\ndeadline = \"1200us\"\n");
    let planned = text(&hertzd(&["plan", word(&tight), "--oversleep", word(&measured)]).stdout);
    assert!(planned.contains("# With them, deadlines are missed as planned, too: a.\n"), "{planned}");
    let without = text(&hertzd(&["plan", word(&config)]).stdout);
    assert!(
        without.contains(&format!("\ncpu = {}\n", cpus[0])) && without.contains("`hertzd measure --save FILE`"),
        "{without}"
    );
}

/// A loop of three tasks, and one that runs for longer than the loop's deadlines.
const CHAIN: &str = r#"
[worker.main]

[task.imu]
kind = "sensor"
rate = 100
path = "/proc/uptime"
name = "x"
budget = "10us"

[task.control]
kind = "pid"
rate = 100
input = "imu.x"
setpoint = 1
kp = 1
budget = "10us"

[task.motor]
kind = "output"
rate = 100
input = "control.out"
path = "/nowhere"
safe = 0
budget = "10us"

[task.report]
kind = "load"
rate = 10
run = "12ms"
budget = "12ms"

[task.imu.simulate]
plant = { value = "x", input = "motor.applied", time-constant = "1s" }
"#;

fn chain(max_latency: &str) -> String {
    CHAIN.replace("safe = 0\n", &format!("safe = 0\nmax-latency = \"{max_latency}\"\n"))
}

/// The maximum age of `motor`'s input, when simulated for two seconds.
fn oldest(path: &Path) -> i64 {
    let output = hertzd(&["simulate", word(path), "--for", "2s", "--summary-only", "--json"]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let motor = summary["tasks"].as_array().unwrap().iter().find(|task| task["task"] == "motor").unwrap();
    motor["age_ns"]["max"].as_i64().unwrap()
}

/// The line of the plan's comments about the chain, without the padding between its columns.
fn row(plan: &str) -> String {
    let row = plan.lines().find(|line| line.starts_with("# imu, control, motor ")).unwrap_or_else(|| panic!("{plan}"));
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_chain_stays_on_one_worker_and_in_phase() {
    let (_folder, path) = file("my.toml", &chain("4ms"));
    for args in [&[][..], &["--free"], &["--cpus", &cpu()], &["--free", "--cpus", &cpu()], &["--split-chains"]] {
        let output = hertzd(&[&["plan", word(&path)], args].concat());
        let plan = text(&output.stdout);
        assert!(output.status.success(), "{args:?}: {output:?}");
        // Before, report's tick of 12 ms is not over when the chain is released again.
        assert_eq!(row(&plan), "# imu, control, motor | 4.00 ms | 2.06 ms | 30.0 µs", "{args:?}: {plan}");
        let (_planned_folder, planned) = planned(&chain("4ms"), &plan);
        assert_eq!(oldest(&planned), 30_000, "{args:?}: as promised: {plan}");
        let check = text(&hertzd(&["check", "--no-open", word(&planned)]).stdout);
        assert!(!check.contains("Warnings:"), "{args:?}: {check}");
        if args.contains(&"--split-chains") {
            assert!(plan.contains("# --split-chains: chains stay together all the same. With them split, "), "{plan}");
        }
    }
}

#[test]
fn a_chain_without_a_limit_is_split_if_that_is_asked_for() {
    let (_folder, path) = file("my.toml", CHAIN);
    let kept = text(&hertzd(&["plan", word(&path), "--cpus", &cpu()]).stdout);
    assert_eq!(row(&kept), "# imu, control, motor | none | 2.06 ms | 30.0 µs", "{kept}");
    let split = text(&hertzd(&["plan", word(&path), "--cpus", &cpu(), "--split-chains"]).stdout);
    assert!(split.contains("phase = "), "its tasks no longer wait for each other: {split}");
    assert!(!row(&split).ends_with("| 30.0 µs"), "and its age is told: {split}");
}

#[test]
fn a_chain_keeps_the_distances_between_its_phases() {
    let apart = chain("4ms").replace("input = \"imu.x\"", "phase = \"1ms\"\ninput = \"imu.x\"");
    let apart = apart.replace("input = \"control.out\"", "phase = \"3ms\"\ninput = \"control.out\"");
    let (_folder, path) = file("my.toml", &apart);
    let plan = text(&hertzd(&["plan", word(&path), "--free", "--cpus", &cpu()]).stdout);
    let (_planned_folder, planned) = planned(&apart, &plan);
    assert_eq!(oldest(&planned), 3_010_000, "{plan}");
    assert!(row(&plan).ends_with("| 3.01 ms"), "{plan}");
}

#[test]
fn a_latency_that_no_plan_keeps_is_said_and_fails() {
    // The sensor is on another worker: its deadline allows an age of 20 ms, and the plan does not change that.
    let apart = chain("4ms").replacen("rate = 100", "worker = \"other\"\nrate = 100", 1);
    let apart = apart.replace("[worker.main]", "[worker.main]\n[worker.other]\npolicy = \"other\"");
    let apart = apart
        .replace("kind = \"pid\"", "kind = \"pid\"\nworker = \"main\"")
        .replace("kind = \"output\"", "kind = \"output\"\nworker = \"main\"");
    let (_folder, path) = file("my.toml", &apart.replace("kind = \"load\"", "kind = \"load\"\nworker = \"main\""));
    let output = hertzd(&["plan", word(&path)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let warning = "#   warning: task.motor: max-latency = \"4ms\"; may not hold: what the task uses can be 20.0 ms old";
    assert_eq!(text(&output.stdout).matches(warning).count(), 2, "before and after: {output:?}");

    let (_folder, path) = file("my.toml", &chain("20us"));
    let output = hertzd(&["plan", word(&path)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = "in the best of them, imu, control, motor is up to 30.0 µs old when its last tick has finished, and its max-latency is \
                20.0 µs";
    assert!(text(&output.stderr).contains(said), "{output:?}");
    assert!(text(&output.stdout).contains("\n[worker."), "the best that was found is printed: {output:?}");
}

#[test]
fn a_chain_over_two_workers_stays_in_phase() {
    // On two workers, each task has its own phase; on one CPU the phases can coincide.
    let text_of = chain("30ms").replace("[worker.main]", "[worker.main]\n[worker.second]");
    let apart = text_of.replace("kind = \"sensor\"", "kind = \"sensor\"\nworker = \"second\"");
    let apart = ["pid", "output", "load"].iter().fold(apart, |text, kind| {
        text.replace(&format!("kind = \"{kind}\""), &format!("kind = \"{kind}\"\nworker = \"main\""))
    });
    let (_folder, path) = file("my.toml", &apart);
    let output = hertzd(&["plan", word(&path), "--free", "--cpus", &cpu()]);
    let plan = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let (_planned_folder, planned) = planned(&apart, &plan);
    assert!(oldest(&planned) <= 30_000, "the measurement of the same release: {plan}");
    assert!(hertzd(&["check", "--no-open", word(&planned)]).status.success(), "{plan}");
}

/// A sensor on one worker, the rest of its chain and a long task on others with the same settings.
const APART: &str = r#"
[worker.a]

[worker.b]

[task.src]
kind = "sensor"
worker = "a"
rate = 100
path = "/proc/loadavg"
budget = "1ms"

[task.c]
kind = "pid"
worker = "b"
rate = 100
input = "src.value"
setpoint = 1
kp = 1
budget = "1ms"

[task.o]
kind = "output"
worker = "b"
rate = 100
input = "c.out"
path = "/nowhere"
safe = 0
max-latency = "8ms"
budget = "1ms"

[task.heavy]
kind = "load"
worker = "a"
rate = 50
run = "5ms"
"#;

#[test]
fn a_chain_is_brought_to_one_worker_if_its_max_latency_holds_only_there() {
    let pinned = APART.replace("[worker.a]", &format!("[worker.a]\ncpu = {}", cpu()));
    for config in [APART, &pinned] {
        let (_folder, path) = file("my.toml", config);
        for args in [&[][..], &["--free"], &["--cpus", &cpu()], &["--split-chains"], &["--free", "--split-chains"]] {
            let output = hertzd(&[&["plan", word(&path)], args].concat());
            let plan = text(&output.stdout);
            assert!(output.status.success(), "{args:?}: {output:?}");
            assert!(plan.contains("\n# src, c, o  8.00 ms      22.0 ms         3.00 ms\n"), "{args:?}: {plan}");
            let (_planned_folder, planned) = planned(config, &plan);
            let check = hertzd(&["check", "--no-open", word(&planned)]);
            assert!(check.status.success() && !text(&check.stdout).contains("max-latency ="), "{args:?}: {check:?}");
        }
    }
    // With other settings the plan cannot join the workers, and no plan makes it worse.
    let other = APART.replace("[worker.a]", &format!("[worker.a]\nspin = \"20us\"\ncpu = {}", cpu()));
    let (_folder, path) = file("my.toml", &other);
    for args in [&[][..], &["--split-chains"]] {
        let output = hertzd(&[&["plan", word(&path)], args].concat());
        let said = "hertzd: no layout that was tried holds every max-latency, also with the tasks of a chain on one worker, as far as its \
                    settings and CPUs allow; in the best of them, src, c, o is up to ";
        assert!(output.status.code() == Some(1) && text(&output.stderr).contains(said), "{args:?}: {output:?}");
        let row = text(&output.stdout).lines().find(|line| line.starts_with("# src, c, o ")).unwrap().to_owned();
        assert!(["22.0 ms", "21.0 ms"].iter().any(|age| row.ends_with(age)), "{args:?}: {row}");
    }
}
