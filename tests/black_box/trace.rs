//! The flight recorder and `hertzd trace`: the file that a killed process leaves, read with Perfetto's official schema.

use crate::program;
use crate::program::{HERTZD, Running, count, run_in, signal, task};
use hertzd::internals::{Clock, KernelClock};
use hertzd::time::Instant;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `hog` delays `fast` every third of a second, for several of its releases.
const CONFIG: &str = "[worker.main]\npolicy = \"other\"\n\
    [task.fast]\nkind = \"load\"\nworker = \"main\"\nrate = \"1 kHz\"\nmax-missed = \"100%\"\n\
    [task.hog]\nkind = \"load\"\nworker = \"main\"\nperiod = \"300ms\"\nrun = \"7ms\"\nmax-missed = \"100%\"\n";

/// A task that a reload adds, on a separate worker and on the clock that can be stepped.
const ADDED: &str = "[worker.other]\npolicy = \"other\"\nclock = \"realtime\"\n\
    [task.added]\nkind = \"load\"\nworker = \"other\"\nrate = 100\nmax-missed = \"100%\"\n";

/// A daemon whose runtime directory is its folder.
fn daemon(folder: tempfile::TempDir, config: &str, args: &[&str]) -> Running {
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    run_in(folder, command, config, args)
}

fn hertzd(args: &[&str], folder: &Path) -> Output {
    Command::new(HERTZD).args(args).current_dir(folder).output().unwrap()
}

fn status(folder: &Path) -> Option<Value> {
    let output = hertzd(&["status", "--json", "--socket", "status.sock"], folder);
    serde_json::from_slice(&output.stdout).ok()
}

/// Makes a trace of this flight file. Returns the command's report.
fn trace(file: &str, folder: &Path) -> Value {
    let output = hertzd(&["trace", file, "-o", "t.pftrace", "--force", "--json"], folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The content of the trace according to the official schema; `None`: the schema is not installed.
fn answers(folder: &Path) -> Option<Value> {
    let schema = "import perfetto.protos.perfetto.trace.perfetto_trace_pb2";
    let installed = Command::new("python3").args(["-c", schema]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        program::skip("python3 has no package perfetto");
        return None;
    }
    let questions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/trace/questions.py");
    let output = Command::new("python3").arg(questions).arg(folder.join("t.pftrace")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn list<'a>(answers: &'a Value, key: &str) -> &'a Vec<Value> {
    answers[key].as_array().unwrap()
}

/// The events of one task's track.
fn of_task<'a>(answers: &'a Value, key: &str, name: &str) -> Vec<&'a Value> {
    list(answers, key).iter().filter(|event| event["task"] == format!("task {name}")).collect()
}

fn sum<'a>(misses: impl IntoIterator<Item = &'a Value>) -> u64 {
    misses.into_iter().map(|miss| count(miss, "count")).sum()
}

/// The number of releases that each cause explains, and how many of them are blamed on `hog`.
fn causes(misses: &[&Value]) -> (BTreeMap<String, u64>, u64) {
    let mut causes = BTreeMap::<String, u64>::new();
    for miss in misses {
        *causes.entry(miss["cause"].as_str().unwrap().into()).or_default() += count(miss, "count");
    }
    let by_hog = |miss: &&&Value| miss["cause"] == "blocked" && miss["by"] == "hog";
    (causes, misses.iter().filter(by_hog).map(|miss| count(miss, "count")).sum())
}

/// Asserts what holds for each trace of a run with these tasks.
fn check(answers: &Value, written: &Value, tasks: &[&str]) {
    let mut tracks: Vec<_> =
        answers["tracks"].as_object().unwrap().values().map(|name| name.as_str().unwrap()).collect();
    tracks.sort_unstable();
    for name in tasks {
        assert!(tracks.contains(&format!("task {name}").as_str()), "{tracks:?}");
    }
    assert!(tracks.iter().all(|name| ["hertzd ", "worker ", "task "].iter().any(|kind| name.starts_with(kind))));
    // Each tick appears once on its worker's track and once on its task's track.
    assert_eq!(list(answers, "ticks").len() as u64, count(written, "ticks"));
    assert_eq!(list(answers, "runs").len(), list(answers, "ticks").len());
    assert_eq!(sum(list(answers, "misses")), count(written, "missed"));
    assert!(answers["slices"]["sleep"].as_u64() > Some(0), "{}", answers["slices"]);
    for miss in list(answers, "misses") {
        let blocked = miss["cause"] == "blocked";
        assert!(count(miss, "count") > 0 && miss["cause"].is_string(), "{miss}");
        assert_eq!(miss["by"].is_string() && blocked, blocked, "{miss}");
        if blocked {
            assert_eq!(
                miss["blockers"],
                serde_json::json!([format!("task {}", miss["by"].as_str().unwrap())]),
                "{miss}"
            );
        }
    }
}

#[test]
fn what_a_killed_process_leaves_has_every_tick_and_every_miss_with_its_cause() {
    let mut running = daemon(tempfile::tempdir().unwrap(), CONFIG, &[]);
    let blocks = |snapshot: &Value| {
        let hog = snapshot["tasks"][0]["blockers"]["hog"].as_u64();
        snapshot["tasks"][1]["ran"].as_u64() > Some(1) && hog > Some(0)
    };
    running.wait_for("a tick was blocked", |running| status(running.folder()).is_some_and(|now| blocks(&now)));
    fs::write(running.folder().join("test.toml"), format!("{CONFIG}{ADDED}")).unwrap();
    let output = hertzd(&["reload", "--socket", "status.sock"], running.folder());
    assert!(output.status.success(), "{output:?}");
    let mut before = Value::Null;
    running.wait_for("the task that was added has run", |running| {
        before = status(running.folder()).unwrap_or_default();
        before["tasks"][2]["ran"].as_u64() > Some(10)
    });
    assert_eq!((count(&before["flight"], "lost"), count(&before["records"], "dropped")), (0, 0), "{before}");
    // Records up to the request have been written once the file says so; later ones may be missing.
    let asked = (KernelClock::monotonic().now() - Instant::ZERO).nanos();
    running.wait_for("the file has all of that", |running| {
        trace("flight", running.folder())["flight"]["until_ns"].as_i64() >= Some(asked)
    });
    signal(running.pid(), "KILL");
    let (pid, folder) = (running.pid(), running.wait().folder);
    let written = trace("flight", folder.path());
    let flight = &written["flight"];
    assert_eq!((flight["pid"].as_u64(), &flight["ended"]), (Some(pid.into()), &false.into()), "{written}");
    assert_eq!((count(flight, "lost"), count(flight, "torn"), count(flight, "missed_without_tick")), (0, 0, 0));

    // Compare with the status shortly before: its ticks come first in the file, and their misses are the ones it counted.
    let names = ["fast", "hog", "added"];
    if let Some(answers) = answers(folder.path()) {
        check(&answers, &written, &names);
        for name in names {
            let (shown, ticks) = (task(&before, name), of_task(&answers, "ticks", name));
            let misses = of_task(&answers, "misses", name);
            let ran = usize::try_from(count(shown, "ran")).unwrap();
            assert!(ticks.len() >= ran, "{name}: {} of {ran} ticks", ticks.len());
            // Releases given up before an unfinished tick are counted at once, and reported with that tick.
            let last = ran.checked_sub(1).map(|at| count(ticks[at], "n"));
            let upto = |n: Option<u64>, more: Option<u64>| {
                let early = |miss: &&&Value| Some(count(miss, "n")) <= n;
                let next =
                    |miss: &&&Value| Some(count(miss, "n")) == more && miss["which"] == "skipped before this tick";
                sum(misses.iter().filter(|miss| early(miss) || next(miss)).copied())
            };
            let next = ticks.get(ran).map(|tick| count(tick, "n"));
            let counted = count(shown, "skipped") + count(shown, "overruns");
            let (least, most) = (upto(last, None), upto(last, next));
            assert!((least..=most).contains(&counted), "{name}: {counted} missed, not {least} to {most}");
            // Causes come from the same records.
            let (causes, by_hog) = causes(&misses);
            for (cause, counted) in shown["causes"].as_object().unwrap().iter().filter(|(cause, _)| *cause != "unknown")
            {
                assert!(causes.get(cause) >= counted.as_u64().as_ref(), "{name}: {cause} in {causes:?} and {shown}");
            }
            assert!(Some(by_hog) >= shown["blockers"]["hog"].as_u64().or(Some(0)), "{name}: {by_hog} and {shown}");
        }
        let notes = list(&answers, "notes");
        for note in ["reload: task added begins", "the file ends: what came later had not been handed over"] {
            assert_eq!(notes.iter().filter(|known| *known == note).count(), 1, "{notes:?}");
        }
        assert_eq!(list(&answers, "notes").len(), 2, "{notes:?}");
        assert_eq!(answers["threads"]["worker main"][0].as_u64(), Some(pid.into()), "{answers}");
    }

    // The next process keeps the file. That process ends by itself, and its own file matches its summary.
    let ended = daemon(folder, CONFIG, &["--for", "1s", "--json"]).wait();
    let (summary, folder) = (ended.summary(), ended.folder.path());
    assert_eq!(trace("flight.prev", folder)["ticks"], written["ticks"]);
    let written = trace("flight", folder);
    assert_eq!((&written["flight"]["ended"], summary["flight"]["lost"].as_u64()), (&true.into(), Some(0)), "{written}");
    assert_eq!(count(&summary["records"], "dropped"), 0, "{summary}");
    if let Some(answers) = answers(folder) {
        check(&answers, &written, &["fast", "hog"]);
        for name in ["fast", "hog"] {
            let (last, misses) = (task(&summary, name), of_task(&answers, "misses", name));
            assert_eq!(of_task(&answers, "ticks", name).len() as u64, count(last, "ran"), "{name}");
            assert_eq!(sum(misses.iter().copied()), count(last, "missed"), "{name}");
            let (causes, by_hog) = causes(&misses);
            assert_eq!(serde_json::to_value(causes).unwrap(), last["causes"], "{name}");
            assert_eq!(by_hog, last["blockers"]["hog"].as_u64().unwrap_or(0), "{name}");
        }
    }
}

/// The kernel's trace, mounted for this test.
struct Tracefs(tempfile::TempDir);

impl Tracefs {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tracefs", "nodev"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn the_kernel_and_the_ticks_are_on_one_clock() {
    let Some(tracefs) = Tracefs::mount() else {
        program::emulation::say_skipped("tracefs cannot be mounted here");
        return;
    };
    let mut running = daemon(tempfile::tempdir().unwrap(), CONFIG, &[]);
    running
        .wait_for("it answers", |running| status(running.folder()).is_some_and(|now| now["daemon"]["ready"] == true));
    let args = ["trace", "--kernel", "600", "--socket", "status.sock", "-o", "t.pftrace", "--json"];
    // A signal ends the recording, and the trace has everything until then. Only a kill leaves an instance.
    let instance = |pid: u32| tracefs.0.path().join(format!("instances/hertzd-{pid}"));
    let mut left = Vec::new();
    for name in ["INT", "TERM", "HUP", "KILL"] {
        let _ = fs::remove_file(running.folder().join("t.pftrace"));
        let mut command = Command::new(HERTZD);
        command.args(args).current_dir(running.folder()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        running.wait_for("the kernel records", |_| {
            fs::read_to_string(instance(child.id()).join("tracing_on")).is_ok_and(|on| on.trim() == "1")
        });
        signal(child.id(), name);
        let ended = child.wait().unwrap();
        assert_eq!(ended.success(), name != "KILL", "{name}: {ended}");
        assert_eq!(running.folder().join("t.pftrace").exists(), name != "KILL", "{name}");
        assert_eq!(instance(child.id()).exists(), name == "KILL", "{name}");
        left.push(child.id());
    }
    let args = args.map(|arg| if arg == "600" { "1" } else { arg });
    let output = hertzd(&args, running.folder());
    assert!(output.status.success(), "{output:?}");
    let written: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(left.iter().all(|pid| !instance(*pid).exists()), "the next one removes it");
    let Some(answers) = answers(running.folder()) else { return };
    check(&answers, &written, &["fast", "hog"]);
    let events: u64 = answers["kernel"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(events, count(&written["kernel"], "events"), "{written}");
    if count(&written["kernel"], "overwritten") > 0 {
        return; // the machine switched threads very often
    }
    // The kernel rounds its instants to a microsecond. In each tick that the recording does not cut, the thread was on a CPU.
    let (on_cpu, thread) = (list(&answers, "on_cpu"), answers["threads"]["worker main"][1].as_i64().unwrap());
    let own: Vec<(i64, i64)> = on_cpu
        .iter()
        .filter(|part| part[0].as_i64() == Some(thread))
        .map(|part| (part[1].as_i64().unwrap(), part[2].as_i64().unwrap()))
        .collect();
    let ticks: Vec<(i64, i64)> = list(&answers, "ticks")
        .iter()
        .map(|tick| (tick["boot"].as_i64().unwrap(), tick["boot_end"].as_i64().unwrap()))
        .collect();
    let (first, last) = (own.first().unwrap().0, own.last().unwrap().1);
    let within: Vec<_> = ticks.iter().filter(|(from, to)| *from > first + 2_000 && *to < last - 2_000).collect();
    let touches = |&&(from, to): &&(i64, i64)| own.iter().any(|&(on, off)| on <= to + 2_000 && off >= from - 2_000);
    assert!(
        !within.is_empty() && within.iter().all(touches),
        "{} of {} ticks",
        within.iter().filter(|tick| touches(tick)).count(),
        within.len()
    );
}

#[test]
fn a_flight_file_that_cannot_be_written_is_told_and_changes_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    // A new flight file begins under this name.
    fs::create_dir(folder.path().join("flight.new")).unwrap();
    let ended = daemon(folder, CONFIG, &["--for", "300ms", "--json"]).wait();
    let summary = ended.summary();
    let flight = &summary["flight"];
    assert!(count(task(&summary, "fast"), "due") == 300 && summary["well"] == true, "{summary}");
    assert!(count(flight, "lost") >= count(task(&summary, "fast"), "ran") && count(flight, "records") == 0, "{flight}");
    assert!(flight["trouble"].as_str().is_some_and(|why| why.contains("flight: ")), "{flight}");
    assert!(
        ended.stderr.contains("flight recorder: ") && ended.stderr.contains("are not affected"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_run_in_the_foreground_has_a_runtime_directory_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", folder.path());
    let mut running = run_in(folder, command, CONFIG, &[]);
    let own = running.folder().join("hertzd").join(running.pid().to_string());
    running.wait_for("it answers", |_| {
        own.exists() && status(&own).is_some_and(|now| now["flight"]["records"].as_u64() > Some(0))
    });
    let output = hertzd(&["trace", "--socket", "status.sock", "-o", "t.pftrace"], &own);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("t.pftrace: ") && text.contains("it still runs or was killed"), "{text}");
    let none = daemon(tempfile::tempdir().unwrap(), CONFIG, &["--for", "10ms", "--json", "--flight", "0"]).wait();
    assert!(none.summary()["flight"].is_null() && !none.folder.path().join("flight").exists());
}
