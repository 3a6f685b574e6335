//! `hertzd measure`: the built binary on the real clock. The tests assert only what always holds: no time is compared with a limit.

use crate::on_virtual_clock::{MEETING, file, hertzd, text, word};
use crate::program::emulation;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const HERTZD: &str = env!("CARGO_BIN_EXE_hertzd");

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// The counts of a distribution add up, and its numbers are in order; values that nothing can be below are not.
fn holds_together(late: &Value, count: u64) {
    assert_eq!(number(&late["count"]), count, "{late}");
    let pairs: Vec<(i64, u64)> = serde_json::from_value(late["counts"].clone()).unwrap();
    assert_eq!(pairs.iter().map(|(_, count)| count).sum::<u64>(), count, "{late}");
    assert!(pairs.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{late}");
    let names = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
    let known: Vec<i64> = names.iter().filter_map(|name| late[name].as_i64()).collect();
    assert!(known.is_sorted(), "{late}");
    assert!(known.iter().all(|nanos| *nanos >= 0), "never early: {late}");
    for (name, needed) in [("p50", 10), ("p90", 50), ("p99", 500), ("p99_9", 5_000), ("p99_99", 50_000)] {
        assert_eq!(late[name].is_i64(), count >= needed, "{name}: {late}");
    }
}

fn rounds_add_up(rounds: &Value, total: &Value) {
    let counts = rounds.as_array().unwrap().iter().map(|round| number(&round["count"]));
    assert_eq!(counts.sum::<u64>(), number(total), "{rounds}");
}

/// Asserts what always holds for a result.
fn holds(measured: &Value) {
    assert_eq!((&measured["version"], &measured["command"]), (&json!(1), &json!("measure")));
    for (key, is) in [
        ("complete", Value::is_boolean as fn(&Value) -> bool),
        ("took_ns", Value::is_i64),
        ("memory_locked", Value::is_boolean),
        ("cpu_latency_held", Value::is_boolean),
        ("refused", Value::is_array),
        ("cpus", Value::is_array),
        ("recommendation", Value::is_object),
    ] {
        assert!(is(&measured[key]), "{key}: {measured}");
    }
    for key in ["kernel", "preempt", "clocksource"] {
        assert!(measured["host"][key].is_string(), "{measured}");
    }
    for cost in ["clock_reading_ns", "channel_push_ns"] {
        let all = measured["costs"][cost].as_array().unwrap();
        assert!(all.iter().all(|nanos| nanos.as_i64().is_some_and(|nanos| nanos > 0)), "{cost}: {all:?}");
    }
    let asked = &measured["asked"];
    let cpus: Vec<_> = measured["cpus"].as_array().unwrap().iter().map(|cpu| cpu["cpu"].clone()).collect();
    assert_eq!(json!(cpus), asked["cpus"]);
    for cpu in measured["cpus"].as_array().unwrap() {
        let conditions = cpu["conditions"].as_array().unwrap();
        let loads: Vec<_> = conditions.iter().map(|condition| condition["load"].as_bool().unwrap()).collect();
        assert_eq!(loads, if asked["load"] == true { vec![false, true] } else { vec![false] });
        for condition in conditions {
            let sleep = &condition["sleep"];
            let count = number(&sleep["oversleep_ns"]["count"]);
            assert!(count > 0, "{sleep}");
            holds_together(&sleep["oversleep_ns"], count);
            rounds_add_up(&sleep["rounds"], &json!(count));
            let spins: Vec<_> =
                condition["ticks"].as_array().unwrap().iter().map(|ticks| ticks["spin"].clone()).collect();
            assert_eq!(spins, ["off", "auto"]);
            for ticks in condition["ticks"].as_array().unwrap() {
                let [due, met, missed, ran, skipped, overruns] =
                    ["due", "met", "missed", "ran", "skipped", "overruns"].map(|key| number(&ticks[key]));
                assert!(
                    due > 0 && met + missed == due && ran + skipped == due && skipped + overruns == missed,
                    "{ticks}"
                );
                if ticks["records_dropped"] == 0 {
                    holds_together(&ticks["lateness_ns"], due);
                    rounds_add_up(&ticks["rounds"], &json!(due));
                }
                assert!(number(&ticks["spin_ns"]) == 0 || ticks["spin"] == "auto", "{ticks}");
            }
            let holes = &condition["holes"];
            let [looked, longest, lost] = ["looked_ns", "longest_ns", "lost_ns"].map(|key| number(&holes[key]));
            assert!(longest <= lost && lost <= looked && looked > 0, "{holes}");
        }
    }
    let recommendation = &measured["recommendation"];
    assert!(cpus.contains(&recommendation["cpu"]), "{recommendation}");
    for trial in recommendation["tried"].as_array().unwrap() {
        assert!(number(&trial["met"]) <= number(&trial["due"]), "{trial}");
    }
}

/// This many rounds with a number suffice for a verdict.
const ENOUGH_ROUNDS: usize = 5;

/// The number of rounds without load that have this number, on this CPU.
fn rounds_with(measured: &Value, cpu: &str, what: &str) -> usize {
    let of_cpu = measured["cpus"].as_array().unwrap().iter().find(|of| of["cpu"].as_u64() == cpu.parse().ok()).unwrap();
    let idle = &of_cpu["conditions"][0];
    let rounds = match what {
        "clock reading" => return measured["costs"]["clock_reading_ns"].as_array().unwrap().len(),
        "channel push" => return measured["costs"]["channel_push_ns"].as_array().unwrap().len(),
        "sleep p50" => &idle["sleep"]["rounds"],
        "tick off p50" => &idle["ticks"][0]["rounds"],
        "tick auto p50" => &idle["ticks"][1]["rounds"],
        _ => unreachable!("{what}"),
    };
    rounds.as_array().unwrap().iter().filter(|round| round["p50"].is_i64()).count()
}

/// A CPU that this process may use.
fn cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().to_owned()
}

/// From one run: the result itself, stored, compared, simulated with, and planned with.
#[test]
fn a_result_adds_up_is_kept_compared_and_feeds_simulate_and_plan() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.json");
    let saving = hertzd(&["measure", "--for", "1s", "--json", "--save", word(&kept)]);
    assert!(saving.status.success() && saving.stderr.is_empty(), "no progress where stderr is no terminal: {saving:?}");
    let mut printed = parsed(&saving);
    holds(&printed);
    assert_eq!(printed.as_object_mut().unwrap().remove("comparison"), Some(Value::Null));
    assert_eq!(read(&kept), printed, "what is kept is what is printed");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");

    // The file compared with is not replaced, and no other file is replaced silently.
    let one = cpu();
    let next = folder.path().join("next.json");
    fs::write(&next, "old").unwrap();
    let args = ["measure", "--for", "1s", "--cpus", &one, "--load", "--against", word(&kept), "--save"];
    for (file, force, why) in
        [(&kept, "--force", "this command reads that file"), (&next, "--json", "it exists already")]
    {
        let output = hertzd(&[&args[..], &[word(file), force]].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(64) && said.contains(why), "{said}");
    }
    assert!(read(&kept) == printed && fs::read_to_string(&next).unwrap() == "old");
    let output = hertzd(&[&args[..], &[word(&next), "--force"]].concat());
    let kept = next;
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("\nAgainst "), "{output:?}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let loaded = read(&kept);
    holds(&loaded);
    for what in ["sleep p50", "tick off p50", "tick auto p50", "clock reading", "channel push"] {
        let row = shown.lines().find(|line| line.contains(what));
        // On a busy machine a round may have too few values for a p50.
        match rounds_with(&printed, &one, what).min(rounds_with(&loaded, &one, what)) {
            0 => assert_eq!(row, None, "{what}: {shown}"),
            1..ENOUGH_ROUNDS => assert!(row.unwrap().ends_with("too few rounds"), "{shown}"),
            _ => assert!(["significant", "noise"].iter().any(|verdict| row.unwrap().ends_with(verdict)), "{shown}"),
        }
    }
    assert!(loaded["asked"]["load"] == true && loaded["recommendation"]["under_load"] == true, "{loaded}");

    let (_config_folder, config) = file("my.toml", &MEETING.replace("priority = 70", &format!("cpu = {one}")));
    let simulated =
        hertzd(&["simulate", word(&config), "--for", "2s", "--summary-only", "--json", "--oversleep", word(&kept)]);
    let note = format!("worker.main: its sleeps end as late as those measured on CPU {one}, under load\n");
    assert!(simulated.status.success() && text(&simulated.stderr).contains(&note), "{simulated:?}");
    let oversleep = &parsed(&simulated)["workers"][0]["oversleep_ns"];
    let measured = &loaded["cpus"][0]["conditions"][1]["sleep"]["oversleep_ns"];
    assert!(oversleep["max"].as_i64() <= measured["max"].as_i64(), "{oversleep} {measured}");
    assert!(
        oversleep["max"].as_i64() > Some(0) && oversleep["min"].as_i64() >= measured["min"].as_i64(),
        "{oversleep}"
    );
    let planned = hertzd(&["plan", word(&config), "--cpus", &one, "--oversleep", word(&kept)]);
    let plan = text(&planned.stdout);
    assert!(
        planned.stderr.is_empty() && plan.contains("sleeps ended late, at the median, at p99 and at most, by "),
        "{planned:?}"
    );
}

/// The names of this process's threads, without zombies.
fn threads(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let name = |path: PathBuf| fs::read_to_string(path.join("comm")).ok();
    tasks.filter_map(|task| name(task.ok()?.path())).map(|name| name.trim().to_owned()).collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what}: not within a minute");
}

fn started(args: &[&str]) -> std::process::Child {
    Command::new(HERTZD).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_ends_it_with_its_load_and_shows_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.json");
    let child =
        started(&["measure", "--for", "1h", "--load", "--cpus", &cpu(), "--rate", "100 Hz", "--save", word(&kept)]);
    wait_for("it measures", || threads(child.id()).iter().any(|name| name.starts_with("hz-sleep")));
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    // The first part of the first round of an hour takes some seconds, so there is no result yet.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("stopped before anything was measured"), "{output:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is kept");

    let child = started(&["measure", "--for", "4s", "--load", "--cpus", &cpu(), "--json"]);
    wait_for("there is load after the first part", || threads(child.id()).iter().any(|name| name == "hz-load-memory"));
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let measured = parsed(&output);
    assert_eq!(measured["complete"], false);
    let cpu = &measured["cpus"][0];
    assert!(number(&cpu["conditions"][0]["sleep"]["oversleep_ns"]["count"]) > 0, "{measured}");
}

#[test]
fn each_load_has_ended_before_the_next_begins() {
    let child = started(&["measure", "--for", "2s", "--load", "--cpus", &cpu(), "--json"]);
    let pid = child.id();
    let mut most = 0;
    wait_for("it ends", || {
        let load = threads(pid).iter().filter(|name| name.starts_with("hz-load")).count();
        most = most.max(load);
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    });
    assert_eq!(most, 3, "three threads on a CPU, as its help says");
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn what_the_kernel_refuses_is_told_and_the_rest_is_measured() {
    // An ordinary user whose limits allow neither a priority nor locked memory. Uses a copy that everyone can execute.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("hertzd");
    assert!(Command::new("cp").arg(HERTZD).arg(&copy).status().unwrap().success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let user = if is_root { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
    let line = format!("ulimit -l 0; ulimit -r 0; exec {user} \"$0\" measure --for 500ms");
    let output = Command::new("bash").args(["-c", &line]).arg(&copy).env("HOME", "/nonexistent").output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let flowing = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "memory not locked",
        "fifo priority 80 refused (Operation not permitted): at normal priority, ticks may be milliseconds late; grant it with",
        "locked memory refused (",
        "So this shows what a daemon without real-time priority would get, and not what the machine can do.",
    ] {
        assert!(flowing.contains(sentence), "{sentence}: {shown}");
    }
    // It has the scheduling policy of the thread that started it.
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let policy = match stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap() {
        "3" => "batch",
        "5" => "idle",
        _ => "other",
    };
    assert!(flowing.contains(&format!("granted: {policy} on CPU")), "{policy}: {shown}");
    assert!(!shown.contains("[worker.main]"), "nothing is recommended that is not granted: {shown}");
}

#[test]
fn wrong_arguments_are_clear_and_nothing_is_measured() {
    let (folder, other) = file("other.json", "{\"version\": 1, \"tasks\": []}");
    let newer = folder.path().join("newer.json");
    fs::write(&newer, "{\"version\": 2, \"command\": \"measure\"}").unwrap();
    let slower = folder.path().join("slower.json");
    let asked =
        json!({"rate": "100/1", "for_ns": 1, "period_ns": 1, "rounds": 1, "cpus": [], "load": false, "priority": 1});
    let host = json!({"kernel": "", "cpus": 1, "preempt": "", "clocksource": ""});
    let costs = json!({"clock_reading_ns": [], "channel_push_ns": []});
    let result = json!({"version": 1, "command": "measure", "complete": true, "asked": asked, "took_ns": 1, "host": host,
        "memory_locked": true, "cpu_latency_held": true, "refused": [], "costs": costs, "cpus": [], "recommendation": null});
    fs::write(&slower, result.to_string()).unwrap();
    let short = folder.path().join("short.json");
    let mut without = result.clone();
    without["host"].as_object_mut().unwrap().remove("cpus");
    fs::write(&short, without.to_string()).unwrap();
    let here = folder.path().to_str().unwrap();
    for (args, reason) in [
        (
            &["--for", "1ms"][..],
            "--for 1.00 ms: too short to see anything in rounds at 1000 Hz; must be at least 500 ms",
        ),
        (&["--for", "5s", "--rate", "1 Hz", "--load"], "idle and under load; must be at least 250 s"),
        (&["--for", "banana"], "invalid value 'banana'"),
        (&["--rate", "21 kHz"], "must be from 1 Hz to 20 kHz"),
        (&["--rate", "fast"], "must be a number of Hz"),
        (&["--cpus", "9999"], "--cpus: this process may not use CPU 9999; it may use CPU "),
        (&["--cpus", "x"], "is no CPU; write a list such as 1,4-7"),
        (&["--priority", "100"], "100 is not in 1..=99"),
        (&["--against", "/nonexistent.json"], "--against /nonexistent.json: No such file"),
        (&["--against", word(&other)], "it is no result of `hertzd measure`"),
        (&["--against", word(&short)], "missing field `cpus`; another version of hertzd wrote it, or it was changed"),
        (&["--against", word(&newer)], "it has version 2; this hertzd reads version 1"),
        (
            &["--against", word(&slower)],
            "it was measured at 100 Hz, and how late a sleep ends depends on its length; add --rate 100",
        ),
        (&["--save", here], "it is a folder; name a file"),
        (&["--save", "/nonexistent/a.json"], "cannot write there: No such file"),
    ] {
        let output = hertzd(&[&["measure"], args].concat());
        let text = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {output:?}");
        assert!(text.contains(reason) && output.stdout.is_empty(), "{args:?}: {text}");
    }
    // A measurement is not a list of runs, and other JSON does not distinguish CPUs.
    let (_folder, config) = file("my.toml", MEETING);
    fs::write(&other, "[5, 6]").unwrap();
    let output = hertzd(&["plan", word(&config), "--oversleep", word(&other)]);
    assert!(
        output.status.code() == Some(64) && text(&output.stderr).contains("does not tell CPUs apart"),
        "{output:?}"
    );
}

/// On a terminal of 60 columns, which `script` provides.
#[test]
fn progress_is_shown_on_a_terminal() {
    let line = format!("stty cols 60; {HERTZD} measure --for 2100ms --cpus {} >/dev/null", cpu());
    let output = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        emulation::say_skipped("there is no script (util-linux) here");
        return;
    };
    let shown = text(&output.stdout);
    let drawn: Vec<_> = shown.split("\r\x1b[K").filter(|part| part.starts_with("measuring ")).collect();
    assert!(drawn.len() > 1 && drawn.iter().all(|line| line.chars().count() < 60), "{shown:?}");
    assert!(drawn.iter().any(|line| line.contains("sleeps: ") && line.contains(" s of about 2 s")), "{drawn:?}");
}
