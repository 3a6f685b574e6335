//! A start or a reload of the real program writes to no target before all of it is known to be good. The tests read the files of outputs
//! from outside: their content, and their modification time.

use crate::program;
use crate::program::{Ended, HERE, HERTZD, Running, run_in};
use hertzd::internals::lock_as_hertzd;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// An output to the file of the same name.
fn output(name: &str, keys: &str) -> String {
    let terms = "kind = \"output\"\nrate = 100\nmax-age = \"100h\"\nsafe-after = \"100h\"\nrecover-after = \"0s\"";
    format!("[task.{name}]\n{terms}\npath = \"@HERE@/{name}\"\ninput = \"source.value\"\nsafe = 1\n{keys}\n")
}

const SOURCE: &str = "[task.source]\nkind = \"sensor\"\nrate = 100\npath = \"@HERE@/in\"\nmax-file-age = \"off\"\n";

/// The modification time of all files that no one has written since.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

/// A folder with these files, which have held 0.5 for a long time.
fn folder(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("faults")).unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::write(&path, "0.5\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(long_ago()).unwrap();
    }
    folder
}

fn start(folder: TempDir, config: &str) -> Running {
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    run_in(folder, command, config, &[])
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap().trim_end().to_owned()
}

#[track_caller]
fn assert_untouched(folder: &Path, name: &str) {
    let path = folder.join(name);
    assert_eq!(fs::read_to_string(&path).unwrap(), "0.5\n", "{name}");
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago(), "{name} was written");
}

/// Starts hertzd, and waits until it is refused with this text.
#[track_caller]
fn refused(folder: TempDir, config: &str, text: &str) -> Ended {
    let ended = start(folder, config).wait();
    assert!(!ended.status.success() && ended.stderr.contains(text), "{}", ended.describe());
    ended
}

/// The names of the outputs in the plan of safe values.
fn planned(folder: &Path) -> Vec<String> {
    let plan: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("safe-plan.json")).unwrap()).unwrap();
    plan["outputs"].as_array().unwrap().iter().map(|output| output["task"].as_str().unwrap().to_owned()).collect()
}

/// A source whose first value comes after the test: until then, only the first writes of outputs happen.
const LATE: &str = "[task.source]\nkind = \"sensor\"\nperiod = \"20h\"\nphase = \"10h\"\npath = \"@HERE@/in\"\nmax-file-age = \"off\"\n";

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_start_that_is_refused_writes_to_no_target() {
    let config = format!("{LATE}{}{}", output("fan", ""), output("valve", ""));
    // Refused by a later task, whose target another process has.
    let own = folder(&["fan", "valve"]);
    set_input(own.path(), "0.75");
    let lock = File::options().write(true).open(own.path().join("valve")).unwrap();
    assert!(lock_as_hertzd(&lock));
    let ended = refused(own, &config, "valve is in use by");
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    ["fan", "valve"].iter().for_each(|name| assert_untouched(ended.folder.path(), name));
    drop(lock);
    // Refused by a later task, whose target does not exist.
    let elsewhere = config.replace("@HERE@/valve", "@HERE@/nowhere/valve");
    let ended = refused(ended.folder, &elsewhere, "nowhere/valve");
    assert_untouched(ended.folder.path(), "fan");
    // Refused after all targets were taken: the plan of safe values cannot be written.
    fs::create_dir(ended.folder.path().join("safe-plan.new")).unwrap();
    let ended = refused(ended.folder, &config, "writing the plan of safe values");
    ["fan", "valve"].iter().for_each(|name| assert_untouched(ended.folder.path(), name));
    fs::remove_dir(ended.folder.path().join("safe-plan.new")).unwrap();
    // Refused by a device, in the second step: earlier outputs were written.
    fs::write(ended.folder.path().join("faults/valve.broken"), "").unwrap();
    let ended = refused(ended.folder, &config, "cannot write the safe value to");
    assert_eq!((ended.status.code(), read(ended.folder.path(), "fan")), (Some(78), "1".into()), "{}", ended.describe());
    assert_untouched(ended.folder.path(), "valve");
    assert!(planned(ended.folder.path()).is_empty(), "nothing is left to be written");
    fs::remove_file(ended.folder.path().join("faults/valve.broken")).unwrap();
    // A good start. No good value has come, so it was the start that wrote.
    let mut running = start(ended.folder, &config);
    running
        .wait_for("both are safe", |running| ["fan", "valve"].iter().all(|name| read(running.folder(), name) == "1"));
    running.signal("TERM");
    running.wait();
}

fn reload(running: &Running, config: &str) -> std::process::Output {
    let text = config.replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), text).unwrap();
    let socket = running.folder().join("status.sock");
    Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap()
}

/// Replaces the file in one step: a reader finds either the old or the new text.
fn set_input(folder: &Path, text: &str) {
    fs::write(folder.join("new-in"), format!("{text}\n")).unwrap();
    fs::rename(folder.join("new-in"), folder.join("in")).unwrap();
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_safe_value_that_was_written_in_part_is_owed() {
    let folder = folder(&["fan"]);
    set_input(folder.path(), "0.75");
    fs::write(folder.path().join("faults/fan.uncut"), "").unwrap();
    let ended = refused(folder, &format!("{LATE}{}", output("fan", "")), "cannot write the safe value to ");
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(ended.stderr.contains("fan: its safe value, 1 to "), "{}", ended.describe());
    let folder = ended.folder.path();
    assert_eq!(
        (fs::read_to_string(folder.join("fan")).unwrap().as_str(), planned(folder)),
        ("1\n\n\n", vec!["fan".into()])
    );
    let safe = Command::new(HERTZD).arg("safe").env("RUNTIME_DIRECTORY", folder).output().unwrap();
    assert!(safe.status.success(), "{safe:?}");
    assert_eq!(fs::read_to_string(folder.join("fan")).unwrap(), "1\n");
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_reload_that_is_refused_writes_to_no_target_and_what_ran_goes_on() {
    let own = folder(&["fan", "pump", "valve"]);
    set_input(own.path(), "0.75");
    let mut running = start(own, &format!("{SOURCE}{}", output("fan", "")));
    running.wait_for("it is live", |running| read(running.folder(), "fan") == "0.75");
    // An output with another name and another safe value would take over the target of `fan`; `pump` and `valve` are new.
    let renamed = output("fan", "slew = 1000").replace("[task.fan]", "[task.blower]").replace("safe = 1", "safe = 9");
    let config = format!("{SOURCE}{renamed}{}{}", output("pump", ""), output("valve", "start = \"keep\""));
    let lock = File::options().write(true).open(running.folder().join("valve")).unwrap();
    assert!(lock_as_hertzd(&lock));
    let refused = reload(&running, &config);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success(), "{said}");
    running.wait_for("it says why", |running| running.stderr().contains("valve is in use by"));
    ["pump", "valve"].iter().for_each(|name| assert_untouched(running.folder(), name));
    set_input(running.folder(), "0.25");
    running.wait_for("the old one goes on", |running| read(running.folder(), "fan") == "0.25");
    assert_eq!(planned(running.folder()), ["fan"]);
    drop(lock);
    // A reload whose plan cannot be written was refused after all targets were taken.
    fs::create_dir(running.folder().join("safe-plan.new")).unwrap();
    assert!(!reload(&running, &config).status.success());
    ["pump", "valve"].iter().for_each(|name| assert_untouched(running.folder(), name));
    fs::remove_dir(running.folder().join("safe-plan.new")).unwrap();
    set_input(running.folder(), "0.125");
    running.wait_for("the old one goes on", |running| read(running.folder(), "fan") == "0.125");
    // A good reload.
    let done = reload(&running, &config);
    assert!(done.status.success(), "{done:?}");
    running.wait_for("all are live", |running| {
        ["fan", "pump", "valve"].iter().all(|name| read(running.folder(), name) == "0.125")
    });
    assert_eq!(planned(running.folder()), ["blower", "pump", "valve"]);
    running.signal("TERM");
    let ended = running.wait();
    let left = ["fan", "pump", "valve"].map(|name| read(ended.folder.path(), name));
    assert_eq!(left, ["9", "1", "1"], "{}", ended.describe());
}
