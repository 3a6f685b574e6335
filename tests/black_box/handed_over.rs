//! A target that a reload hands over from one worker to another, while its last write takes long. Faults come from
//! `tests/support/program/device.c`; the tests read the file from outside.

use crate::program;
use crate::program::{HERE, HERTZD, Running, run_in};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// An output on this worker. Only its own task writes to the target.
fn output(task: &str, worker: &str, keys: &str) -> String {
    format!(
        "[task.{task}]\nkind = \"output\"\nrate = 100\nworker = \"{worker}\"\npath = \"@HERE@/{task}\"\nsafe = 1\nsafe-after = \"100h\"\n\
         recover-after = \"0s\"\n{keys}\n"
    )
}

/// Two workers that continue, and a source that never has a value.
const OTHERS: &str = "\
[worker.one]
policy = \"other\"
[worker.two]
policy = \"other\"
[task.source]
kind = \"sensor\"
rate = 100
worker = \"two\"
path = \"@HERE@/nothing\"
max-file-age = \"off\"
missing = \"wait\"
[task.beat]
kind = \"load\"
rate = 10
worker = \"one\"
";

/// Moves `fan` to worker two, with these keys. There the file `holds` a different text, and still does after a later write of the old task.
#[track_caller]
fn hands_over(keys: &str, holds: &str) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [fan, config, socket] = ["fan", "test.toml", "status.sock"].map(at);
    let (faults, place) = (at("faults"), folder.path().to_str().unwrap().to_owned());
    fs::create_dir(&faults).unwrap();
    ["fan", "pump"].iter().for_each(|name| fs::write(at(name), "0.5\n").unwrap());
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", &faults);
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let old = OTHERS.to_owned() + &output("fan", "one", "input = 0.25\nwrite = \"always\"");
    let mut running = run_in(folder, command, &old, &[]);
    running.wait_for("it is live", |_| read(&fan) == "0.25" && socket.exists());
    // The next write of a file waits.
    let hold = |name: &str| {
        ["held", "takes"].iter().for_each(|fault| fs::write(faults.join(format!("{name}.{fault}")), "").unwrap());
        faults.join(format!("{name}.takes"))
    };
    let let_go = |name: &str| fs::remove_file(faults.join(format!("{name}.held"))).unwrap();
    // Once another output begins, nothing refuses the reload any more.
    let begins = hold("pump");
    let new = OTHERS.to_owned() + &output("fan", "two", keys) + &output("pump", "two", "input = 0.25");
    fs::write(&config, new.replace(HERE, &place)).unwrap();
    let mut reload = Command::new(HERTZD);
    let mut reload = reload.args(["reload", "--socket"]).arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    running.wait_for("the second step", |_| !begins.exists());
    let writes = hold("fan");
    running.wait_for("the old task is in a write", |_| !writes.exists());
    let_go("pump");
    running.wait_for("the new one has written", |_| read(&fan) == holds);
    let_go("fan");
    assert!(reload.wait().unwrap().success());
    running.wait_for("it is as the new one has left it", |_| read(&fan) == holds);
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success(), "{}", ended.describe());
}

/// Moves `fan` from a worker that hangs to one where it holds what it finds, and moves slowly. Another thread writes the old safe value
/// before that. If it is `late`, it has begun to, and ends the write when the new task is live.
#[track_caller]
fn continues_from_the_safe_value(late: bool) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [fan, config, socket, faults] = ["fan", "test.toml", "status.sock", "faults"].map(at);
    let fault = |name: &str| faults.join(name);
    let [hangs, takes, held, counted] = ["pump.hangs", "fan.takes", "fan.held", "fan.counted"].map(fault);
    let place = folder.path().to_str().unwrap().to_owned();
    fs::create_dir(&faults).unwrap();
    let number = |path: &Path| fs::read_to_string(path).ok().and_then(|text| text.trim_end().parse::<f64>().ok());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", &faults);
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let pump = output("pump", "one", "input = 0.25\nwrite = \"always\"");
    let output = |worker: &str, keys: &str| {
        format!(
            "[task.fan]\nkind = \"output\"\nrate = 100\nworker = \"{worker}\"\npath = \"@HERE@/fan\"\ninput = 0.9\nsafe-after = \"300ms\"\n\
             recover-after = \"0s\"\n{keys}\n"
        )
    };
    let mut running = run_in(folder, command, &(OTHERS.to_owned() + &pump + &output("one", "safe = 0")), &[]);
    running.wait_for("it is live", |_| number(&fan) == Some(0.9) && socket.exists());
    fs::write(&hangs, "").unwrap();
    if late {
        // The task has nothing new to write, so the next write comes from another thread.
        [&held, &takes].iter().for_each(|fault| fs::write(fault, "").unwrap());
        running.wait_for("another thread makes it safe", |_| !takes.exists());
        fs::write(&counted, "").unwrap();
    } else {
        running.wait_for("another thread has made it safe", |_| number(&fan) == Some(0.0));
    }
    let new = OTHERS.to_owned() + &pump + &output("two", "safe = \"hold\"\nslew = 0.01");
    fs::write(&config, new.replace(HERE, &place)).unwrap();
    let mut reload = Command::new(HERTZD);
    let mut reload = reload.args(["reload", "--socket"]).arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    if late {
        running.wait_for("the new one writes", |_| !fs::read(&counted).unwrap().is_empty());
        fs::remove_file(&held).unwrap();
    }
    // It takes 50 s to get this far.
    let moves = |_: &Running| number(&fan).is_some_and(|number| number > 0.0 && number < 0.5);
    running.wait_for("it moves away from the safe value", moves);
    fs::remove_file(&hangs).unwrap();
    reload.wait().unwrap();
    running.signal("TERM");
    running.wait();
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn one_that_holds_continues_from_the_safe_value_that_another_thread_wrote() {
    continues_from_the_safe_value(false);
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn one_that_holds_continues_from_a_safe_value_that_another_thread_writes_late() {
    continues_from_the_safe_value(true);
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_late_write_of_the_old_task_is_written_over() {
    hands_over("input = 0.75", "0.75");
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_late_write_of_the_old_task_after_the_safe_value_is_written_over() {
    hands_over("input = \"source.value\"\nmax-age = \"100ms\"", "1");
}
