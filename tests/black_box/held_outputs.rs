//! Status, snapshot and scrape while a thread other than its task holds the target of an output: since when, why, and what ends it. The
//! worker hangs in a read of a sensor (`tests/support/program/device.c`).

use crate::program;
use crate::program::{HERTZD, Running, run_in};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// On the worker of a sensor: an output with a safe value, and one that keeps its value; and another output elsewhere.
const CONFIG: &str = "\
[worker.main]
policy = \"other\"
[worker.other]
policy = \"other\"
[task.source]
kind = \"sensor\"
worker = \"main\"
rate = 100
path = \"@HERE@/in\"
max-file-age = \"off\"
";

fn output(task: &str, keys: &str) -> String {
    format!("[task.{task}]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/{task}\"\nrecover-after = \"0s\"\n{keys}\n")
}

fn task(running: &Running, name: &str) -> Value {
    let snapshot = program::snapshot(&running.folder().join("status.sock"));
    program::task(&snapshot, name).clone()
}

fn text(running: &Running) -> String {
    let status = program::status(&running.folder().join("status.sock"), &[]);
    String::from_utf8(status.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn wait_until(running: &mut Running, name: &str, holds: &str) {
    running.wait_for(&format!("{name} is {holds}"), |running| {
        fs::read_to_string(running.folder().join(name)).unwrap_or_default() == format!("{holds}\n")
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn what_is_in_force_while_a_worker_hangs_is_shown_and_ends_with_that() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("faults")).unwrap();
    [("in", "0.75\n"), ("fan", "0\n"), ("valve", "0\n"), ("pump", "0\n")]
        .iter()
        .for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let hangs = "worker = \"main\"\ninput = \"source.value\"\nmax-age = \"100h\"\nsafe-after = \"300ms\"\n";
    let config = CONFIG.to_owned()
        + &output("fan", &format!("{hangs}safe = 1"))
        + &output("valve", &format!("{hangs}safe = \"hold\""))
        + &output("pump", "worker = \"other\"\ninput = 0.5\nsafe = 1\nsafe-after = \"100h\"");
    let mut running = run_in(folder, command, &config, &["--log-format", "json"]);
    for (name, holds) in [("fan", "0.75"), ("valve", "0.75"), ("pump", "0.5")] {
        wait_until(&mut running, name, holds);
        running.wait_for("its values", |running| task(running, name)["values"]["is-safe"]["last"] == 0.0);
    }
    running.wait_for("nothing holds it", |running| task(running, "fan")["held"].is_null());
    fs::write(running.folder().join("faults/in.hangs"), "").unwrap();
    wait_until(&mut running, "fan", "1");
    running.wait_for("it is held", |running| {
        let why = task(running, "fan")["held"]["why"].as_str().unwrap_or_default().to_owned();
        why.starts_with("its task does not tick: tick ") && why.ends_with(" of task source has not returned")
    });
    let fan = task(&running, "fan");
    assert!(fan["held"]["is_safe"] == true && fan["held"]["since_ns"].as_i64() >= Some(0), "{fan}");
    let ends = "its task ticks again, and its input has been good for ";
    assert!(fan["held"]["ends"].as_str().unwrap().starts_with(ends), "{fan}");
    assert_eq!([&fan["values"]["is-safe"]["last"], &fan["values"]["applied"]["last"]], [1.0, 1.0], "{fan}");
    running.wait_for("the other one is held too", |running| task(running, "valve")["held"].is_object());
    let valve = task(&running, "valve");
    assert!(valve["held"]["is_safe"] == false && valve["values"]["is-safe"]["last"] == 0.0, "{valve}");
    assert!(task(&running, "pump")["held"].is_null());
    let said = text(&running);
    assert!(said.contains("fan: another thread has held it at its safe value for "), "{said}");
    assert!(said.contains("valve: another thread has kept it from writing for "), "{said}");
    running.wait_for("a longer hold", |running| {
        task(running, "fan")["held"]["since_ns"].as_i64() > fan["held"]["since_ns"].as_i64()
    });
    fs::remove_file(running.folder().join("faults/in.hangs")).unwrap();
    wait_until(&mut running, "fan", "0.75");
    running.wait_for("that has an end", |running| {
        let fan = task(running, "fan");
        fan["held"].is_null() && fan["values"]["is-safe"]["last"] == 0.0
    });
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.stderr.contains("valve: has not ticked for "), "{}", ended.describe());
    assert!(
        ended.stderr.contains("by safe = \\\"hold\\\" nothing was written: its target keeps what was written last"),
        "{}",
        ended.describe()
    );
    assert!(!ended.stderr.contains("valve: its safe value"), "{}", ended.describe());
}

/// After a crash signal, the end waits for the output that hangs. Meanwhile the other output's task ticks, but the process may end at any
/// instant, even within that task's write.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn after_the_signal_of_a_crash_no_task_writes() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults");
    fs::create_dir(&faults).unwrap();
    ["fan", "pump"].iter().for_each(|name| fs::write(folder.path().join(name), "0\n").unwrap());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", &faults);
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let config = "[worker.main]\npolicy = \"other\"\n[worker.other]\npolicy = \"other\"\n".to_owned()
        + &output("fan", "worker = \"main\"\ninput = 0.75\nsafe = 1\nwrite = \"always\"")
        + &output("pump", "worker = \"other\"\ninput = 0.5\nsafe = 1\nwrite = \"always\"");
    let mut running = run_in(folder, command, &config, &[]);
    wait_until(&mut running, "fan", "0.75");
    wait_until(&mut running, "pump", "0.5");
    fs::write(faults.join("fan.hangs"), "").unwrap();
    fs::write(faults.join("pump.counted"), "").unwrap();
    let counted = || fs::metadata(faults.join("pump.counted")).unwrap().len();
    running.wait_for("its task writes", |_| counted() > 3);
    running.signal("SEGV");
    wait_until(&mut running, "pump", "1");
    let safe = counted();
    let ended = running.wait();
    assert_eq!(ended.status.signal(), Some(libc::SIGSEGV), "{}", ended.describe());
    // A tick that began to write before the signal may end after it.
    assert!(counted() <= safe + 2, "{safe} writes, then {}: {}", counted(), ended.describe());
}

#[test]
fn hertzd_safe_says_what_it_leaves_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    ["fan", "valve"].iter().for_each(|name| fs::write(folder.path().join(name), "0.5\n").unwrap());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let config = output("fan", "input = 0.75\nsafe = 1") + &output("valve", "input = 0.75\nsafe = \"hold\"");
    let mut running = run_in(folder, command, &config, &[]);
    wait_until(&mut running, "fan", "0.75");
    wait_until(&mut running, "valve", "0.75");
    running.signal("KILL");
    let ended = running.wait();
    let safe = Command::new(HERTZD).arg("safe").env("RUNTIME_DIRECTORY", ended.folder.path()).output().unwrap();
    let said = String::from_utf8(safe.stdout).unwrap();
    assert!(safe.status.success() && said.contains("fan: wrote 1 to "), "{said}");
    assert!(
        said.contains(
            "valve: left as it is: by safe = \"hold\" it keeps what was written last, whether that is safe or not"
        ),
        "{said}"
    );
    let holds = |name: &str| fs::read_to_string(ended.folder.path().join(name)).unwrap();
    assert_eq!([holds("fan"), holds("valve")], ["1\n", "0.75\n"]);
}

#[test]
fn so_it_does_where_no_output_has_a_safe_value() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("valve"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let mut running = run_in(folder, command, &output("valve", "input = 0.75\nsafe = \"hold\""), &[]);
    wait_until(&mut running, "valve", "0.75");
    let plan = running.folder().join("safe-plan.json");
    fs::remove_file(&plan).unwrap();
    running.wait_for("the plan is written again", |_| plan.exists());
    running.signal("KILL");
    let ended = running.wait();
    let safe = Command::new(HERTZD).arg("safe").env("RUNTIME_DIRECTORY", ended.folder.path()).output().unwrap();
    let said = String::from_utf8(safe.stdout).unwrap();
    assert!(safe.status.success() && said.starts_with("valve: left as it is: by safe = \"hold\" "), "{said}");
    assert_eq!(fs::read_to_string(ended.folder.path().join("valve")).unwrap(), "0.75\n");
}
