//! Outputs of the real program whose device refuses writes, is slow, or lets an old write through after the safe one; and the consequences
//! at the end and over reloads. Faults come from `tests/support/program/device.c`; the tests read the file from outside.

use crate::program;
use crate::program::{Ended, HERE, HERTZD, Running, count, pause, run_in, stopwatch, task};
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// An output with these additional keys.
fn output(name: &str, keys: &str) -> String {
    format!(
        "[task.{name}]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/{name}\"\nmax-age = \"100h\"\nsafe-after = \"100h\"\n\
         start = \"keep\"\n{keys}\n"
    )
}

/// The input of the outputs: the number in the file `in`.
const SOURCE: &str = "[task.source]\nkind = \"sensor\"\nrate = 100\npath = \"@HERE@/in\"\nmax-file-age = \"off\"\n";

/// A task that never returns from its first tick.
const HANGS: &str = "[task.other]\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 1\n";

/// Starts hertzd with these faults. The files of outputs hold 0.5.
fn start(config: &str, files: &[&str], faults: &[&str], args: &[&str]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("faults")).unwrap();
    files.iter().for_each(|file| fs::write(folder.path().join(file), "0.5\n").unwrap());
    faults.iter().for_each(|fault| fs::write(folder.path().join("faults").join(fault), "").unwrap());
    set_input(folder.path(), "0.75");
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    run_in(folder, command, config, args)
}

/// Replaces the file in one step: a reader finds either the old or the new text.
fn set_input(folder: &std::path::Path, text: &str) {
    fs::write(folder.join("new-in"), format!("{text}\n")).unwrap();
    fs::rename(folder.join("new-in"), folder.join("in")).unwrap();
}

fn read(running: &Running, name: &str) -> String {
    fs::read_to_string(running.folder().join(name)).unwrap()
}

fn left(ended: &Ended, name: &str) -> String {
    fs::read_to_string(ended.folder.path().join(name)).unwrap()
}

fn wait_until(running: &mut Running, name: &str, holds: &str) {
    running.wait_for(&format!("{name} is {holds}"), |running| read(running, name) == format!("{holds}\n"));
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

/// Waits until the output's task shows these values.
fn wait_until_shown(running: &mut Running, name: &str, applied: f64, is_safe: bool) {
    let mut latest = Value::Null;
    running.wait_for(&format!("{name} shows {applied}, safe: {is_safe}"), |running| {
        let values = task(&snapshot(running), name)["values"].clone();
        let is_shown =
            values["applied"]["last"] == applied && values["is-safe"]["last"] == f64::from(u8::from(is_safe));
        latest = values;
        is_shown
    });
}

fn wait_until_said(running: &mut Running, text: &str, said: bool) {
    running.wait_for(&format!("it says {text}: {said}"), |running| {
        snapshot(running)["reason"].as_str().unwrap_or_default().contains(text) == said
    });
}

/// Asserts that at most one write per 100 ms is made, over half a second or more.
fn assert_few_writes(running: &Running, name: &str) {
    let counted = running.folder().join("faults").join(name).with_extension("counted");
    let passed = stopwatch();
    fs::write(&counted, "").unwrap();
    pause(Span::from_millis(500));
    let (writes, took) = (fs::read(&counted).unwrap().len(), passed());
    fs::remove_file(&counted).unwrap();
    let most = took.nanos() / 100_000_000 + 3;
    assert!(i64::try_from(writes).unwrap() <= most, "{writes} writes in {took}");
}

fn stop(running: Running) -> Ended {
    running.signal("TERM");
    running.wait()
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_safe_value_that_is_refused_is_tried_again_by_the_task() {
    let keys = "input = \"source.value\"\nsafe = 1\nrecover-after = \"0s\"";
    let huge = output("huge", "input = 1e308\nscale = 1e10\nsafe = 1");
    let huge = huge.replace("\"keep\"", "\"safe\"").replace("max-age = \"100h\"\n", "");
    let config = format!("{SOURCE}{}{huge}", output("fan", keys));
    let mut running = start(&config, &["fan", "huge"], &[], &[]);
    wait_until(&mut running, "fan", "0.75");
    wait_until_shown(&mut running, "fan", 0.75, false);
    let broken = running.folder().join("faults/fan.broken");
    fs::write(&broken, "").unwrap();
    set_input(running.folder(), "nothing");
    wait_until_said(&mut running, "fan: its safe value, 1 to ", true);
    wait_until_said(&mut running, "could not be written: Input/output error", true);
    wait_until_shown(&mut running, "fan", 0.75, false);
    assert_few_writes(&running, "fan");
    assert_eq!(read(&running, "fan"), "0.75\n");
    fs::remove_file(&broken).unwrap();
    wait_until(&mut running, "fan", "1");
    wait_until_shown(&mut running, "fan", 1.0, true);
    wait_until_said(&mut running, "fan: its safe value", false);
    set_input(running.folder(), "0.25");
    wait_until(&mut running, "fan", "0.25");
    wait_until_shown(&mut running, "fan", 0.25, false);
    // The value is too large for its target.
    running.wait_for("an error of the one that is too large", |running| {
        count(task(&snapshot(running), "huge"), "errors") > 1
    });
    assert_eq!(read(&running, "huge"), "10000000000\n");
    let ended = stop(running);
    assert_eq!((left(&ended, "fan"), left(&ended, "huge")), ("1\n".into(), "10000000000\n".into()));
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn an_output_goes_on_over_a_reload_where_it_was() {
    let keys = |after: &str| format!("input = \"source.value\"\nsafe = 1\nrecover-after = \"{after}\"");
    let config = |after: &str| format!("{SOURCE}{}", output("fan", &keys(after)));
    let mut running = start(&config("100h"), &["fan"], &[], &[]);
    wait_until(&mut running, "fan", "0.75");
    set_input(running.folder(), "nothing");
    wait_until_shown(&mut running, "fan", 1.0, true);
    let text = config("200h").replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), text).unwrap();
    let socket = running.folder().join("status.sock");
    let reload = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
    assert!(reload.status.success(), "{reload:?}");
    let wait_for_ticks = |running: &mut Running| {
        let ran = |running: &Running| count(task(&snapshot(running), "fan"), "ran");
        let before = ran(running);
        running.wait_for("some ticks", |running| ran(running) > before + 10);
    };
    wait_for_ticks(&mut running);
    wait_until_shown(&mut running, "fan", 1.0, true);
    assert_eq!(read(&running, "fan"), "1\n");
    // The restarted output waits only for its first good value.
    set_input(running.folder(), "0.25");
    wait_until(&mut running, "fan", "0.25");
    // From then on it has its own state.
    set_input(running.folder(), "nothing");
    wait_until(&mut running, "fan", "1");
    wait_until_shown(&mut running, "fan", 1.0, true);
    set_input(running.folder(), "0.5");
    running
        .wait_for("the input is good", |running| task(&snapshot(running), "source")["values"]["value"]["last"] == 0.5);
    wait_for_ticks(&mut running);
    wait_until_shown(&mut running, "fan", 1.0, true);
    assert_eq!(read(&running, "fan"), "1\n", "it has not recovered");
    let guards = program::threads(running.pid())
        .filter(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "hertzd-guard"));
    assert_eq!(guards.count(), 1);
    assert_eq!(left(&stop(running), "fan"), "1\n");
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn another_thread_makes_it_safe_and_leaves_it_to_the_task() {
    let recovers = output("fan", "input = \"source.value\"\nsafe = 1\nrecover-after = \"0s\"");
    let refuses = output("valve", "input = \"source.value\"\nsafe = 1\nrecover = \"latch\"");
    let ends = output("pump", "input = \"source.value\"\nsafe = 1\nwrite = \"always\"\non-error = \"disable\"");
    let mut running = start(&format!("{SOURCE}{recovers}{refuses}{ends}"), &["fan", "valve", "pump"], &[], &[]);
    ["fan", "valve", "pump"].iter().for_each(|name| wait_until(&mut running, name, "0.75"));
    let broken = ["valve", "pump"].map(|name| running.folder().join("faults").join(name).with_extension("broken"));
    broken.iter().for_each(|broken| fs::write(broken, "").unwrap());
    running.signal("XCPU");
    running.wait_for("it is said", |running| {
        ["valve", "pump"].iter().all(|name| running.stderr().contains(&format!("{name}: its safe value, 1 to ")))
    });
    wait_until_shown(&mut running, "fan", 0.75, false);
    wait_until(&mut running, "fan", "0.75");
    assert_few_writes(&running, "pump");
    broken.iter().for_each(|broken| fs::remove_file(broken).unwrap());
    // One output does it itself; the task of the other is disabled.
    wait_until_shown(&mut running, "valve", 1.0, true);
    wait_until(&mut running, "pump", "1");
    wait_until_said(&mut running, "pump: its safe value", false);
    assert_few_writes(&running, "pump");
    wait_until(&mut running, "fan", "0.75");
    running.signal("XCPU");
    running.wait_for("what had failed is there", |running| {
        let stderr = running.stderr();
        ["valve", "pump"].iter().all(|name| {
            stderr
                .lines()
                .any(|line| line.contains(&format!("{name}: its safe value")) && line.contains("was written at last"))
        })
    });
    assert!(!running.stderr().contains("has not ticked"), "{}", running.stderr());
    let ended = stop(running);
    assert!(["fan", "valve", "pump"].iter().all(|name| left(&ended, name) == "1\n"), "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_write_of_the_task_that_comes_after_the_safe_value_does_not_stay() {
    let keys = "input = \"source.value\"\nsafe = 1\nrecover = \"latch\"";
    let output = output("fan", keys).replace("safe-after = \"100h\"", "safe-after = \"200ms\"");
    // The device delays its first write, and there is no second tick that could correct it: the worker hangs after the first.
    let config = format!("{SOURCE}{output}{HANGS}");
    let mut running = start(&config, &["fan"], &["fan.takes", "fan.held"], &["--stop-timeout", "100ms"]);
    wait_until(&mut running, "fan", "1");
    // Without such a write, the last write would have happened by now.
    pause(Span::from_millis(500));
    fs::remove_file(running.folder().join("faults/fan.held")).unwrap();
    let socket = running.folder().join("status.sock");
    running.wait_for("its task is past it", |_| {
        let snapshot = program::snapshot(&socket);
        count(task(&snapshot, "fan"), "ran") > 0
    });
    wait_until(&mut running, "fan", "1");
    let ended = stop(running);
    assert_eq!(left(&ended, "fan"), "1\n", "{}", ended.describe());
    assert_eq!(ended.stderr.matches("so its safe value was written").count(), 1, "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn the_end_waits_for_what_is_slow_and_tries_again_what_fails() {
    let names = ["fan", "slow", "fails"];
    let config =
        SOURCE.to_owned() + &names.map(|name| output(name, "input = \"source.value\"\nsafe = 1")).concat() + HANGS;
    let mut running = start(&config, &names, &[], &["--stop-timeout", "100ms"]);
    names.iter().for_each(|name| wait_until(&mut running, name, "0.75"));
    let faults = running.folder().join("faults");
    fs::write(faults.join("slow.slow"), "").unwrap();
    fs::write(faults.join("fails.fails"), "four").unwrap(); // five times
    let ended = stop(running);
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert_eq!(names.map(|name| left(&ended, name)), ["1\n"; 3], "{}", ended.describe());
    assert!(!ended.stderr.contains("has not ticked"), "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn the_end_does_not_wait_for_ever() {
    let config = SOURCE.to_owned() + &output("fan", "input = \"source.value\"\nsafe = 1") + HANGS;
    let mut running = start(&config, &["fan"], &[], &["--stop-timeout", "100ms"]);
    wait_until(&mut running, "fan", "0.75");
    fs::write(running.folder().join("faults/fan.hangs"), "").unwrap();
    let ended = stop(running);
    assert_eq!((ended.status.code(), left(&ended, "fan").as_str()), (Some(70), "0.75\n"), "{}", ended.describe());
    let said = "not all safe values were written within 4.00 s: ";
    assert!(ended.stderr.contains(said), "{}", ended.describe());
}

/// The number of writes that the device has seen, for an output with the fault `counted` from the start.
fn writes(running: &Running, name: &str) -> usize {
    fs::read(running.folder().join("faults").join(name).with_extension("counted")).unwrap().len()
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn what_does_not_change_is_not_written_again() {
    let still = output("still", "input = \"source.value\"\nsafe = 1");
    let always = output("always", "input = \"source.value\"\nsafe = 1\nwrite = \"always\"");
    let faults = ["still.counted", "always.counted"];
    let mut running = start(&format!("{SOURCE}{still}{always}"), &["still", "always"], &faults, &[]);
    let ticks_of_always = |running: &mut Running| {
        let before = writes(running, "always");
        running.wait_for("many ticks", |running| writes(running, "always") > before + 50);
    };
    wait_until(&mut running, "still", "0.75");
    wait_until_shown(&mut running, "still", 0.75, false);
    let before = writes(&running, "still");
    ticks_of_always(&mut running);
    assert_eq!(writes(&running, "still"), before, "nothing has changed");
    // A text of the same length is one write.
    set_input(running.folder(), "0.25");
    wait_until(&mut running, "still", "0.25");
    ticks_of_always(&mut running);
    assert_eq!(writes(&running, "still"), before + 1);
    stop(running);
}

/// Like any other failing write: it does not end the process, and the plan stays.
#[test]
fn safe_names_what_a_limit_of_the_length_of_files_keeps_it_from() {
    let config = "[task.fan]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/fan\"\ninput = 0.75\nsafe = 1\n";
    let mut running = start(config, &["fan"], &[], &[]);
    running.wait_for("it is live", |running| read(running, "fan") == "0.75\n");
    running.signal("KILL");
    let ended = running.wait();
    let plan = ended.folder.path().join("safe-plan.json");
    let done = Command::new("prlimit").args(["--fsize=0", HERTZD, "safe", "--plan"]).arg(&plan).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains("File too large"), "{done:?}");
    assert!(plan.exists());
}
