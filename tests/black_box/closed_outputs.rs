//! Outputs of the real program that a reload removes while their device refuses the safe value: who retries it, what is reported, and what
//! ends it. Also the outputs of a killed process, which the next one deals with. Faults come from `tests/support/program/device.c`; the
//! tests read the files from outside.

use crate::program;
use crate::program::{Ended, HERE, HERTZD, Running, pause, run_in};
use hertzd::internals::lock_as_hertzd;
use hertzd::time::Span;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

/// An output of a file, by its task.
fn output(task: &str, file: &str, keys: &str) -> String {
    format!(
        "[task.{task}]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/{file}\"\ninput = \"source.value\"\nmax-age = \"100h\"\n\
         safe-after = \"100h\"\nrecover-after = \"0s\"\n{keys}\n"
    )
}

/// An output that stays.
fn others() -> String {
    format!(
        "[task.source]\nkind = \"sensor\"\nrate = 100\npath = \"@HERE@/in\"\nmax-file-age = \"off\"\n{}",
        output("pump", "pump", "safe = 1")
    )
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap().trim_end().to_owned()
}

fn wait_until(running: &mut Running, name: &str, holds: &str) {
    running.wait_for(&format!("{name} is {holds}"), |running| read(running.folder(), name) == holds);
}

fn wait_until_said(running: &mut Running, text: &str, said: bool) {
    running.wait_for(&format!("it says {text}: {said}"), |running| {
        snapshot(running)["reason"].as_str().unwrap_or_default().contains(text) == said
    });
}

fn set_broken(running: &Running, broken: bool) {
    let fault = running.folder().join("faults/fan.broken");
    if broken { fs::write(fault, "").unwrap() } else { fs::remove_file(fault).unwrap() }
}

fn reload(running: &Running, config: &str) -> Output {
    let text = config.replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), text).unwrap();
    let socket = running.folder().join("status.sock");
    Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap()
}

/// Whether another hertzd could have the target.
fn is_free(running: &Running, name: &str) -> bool {
    lock_as_hertzd(&File::options().write(true).open(running.folder().join(name)).unwrap())
}

/// The tasks in the plan of safe values, and the texts it writes to their files.
fn planned(folder: &Path) -> Vec<(String, String)> {
    let plan: Value = serde_json::from_slice(&fs::read(folder.join("safe-plan.json")).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().trim_end().to_owned();
    let outputs = plan["outputs"].as_array().unwrap().iter();
    outputs.map(|output| (text(&output["task"]), text(&output["writes"][0]["text"]))).collect()
}

fn plans(folder: &Path, wanted: &[(&str, &str)]) -> bool {
    planned(folder).iter().map(|(task, text)| (task.as_str(), text.as_str())).eq(wanted.iter().copied())
}

const CLOSED: &str = "fan: was closed by a reload ";

/// A run whose output `fan` was removed while its device refused the safe value.
fn removed() -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("faults")).unwrap();
    [("in", "0.75\n"), ("fan", "0.5\n"), ("pump", "0.5\n")]
        .iter()
        .for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let mut running = run_in(folder, command, &(others() + &output("fan", "fan", "safe = 1")), &[]);
    wait_until(&mut running, "fan", "0.75");
    wait_until(&mut running, "pump", "0.75");
    set_broken(&running, true);
    let done = reload(&running, &others());
    assert!(done.status.success(), "{done:?}");
    wait_until_said(&mut running, CLOSED, true);
    running
}

fn stop(running: Running) -> Ended {
    running.signal("TERM");
    running.wait()
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_removed_output_gets_its_safe_value_when_its_device_takes_it() {
    let mut running = removed();
    let reason = snapshot(&running)["reason"].as_str().unwrap().to_owned();
    let parts =
        ["its safe value, 1 to ", "could not be written: Input/output error", "tried again every 100 ms: look at"];
    assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
    // hertzd does not give it up, however long that lasts.
    pause(Span::from_millis(1_500));
    fs::write(running.folder().join("faults/fan.counted"), "").unwrap();
    let counted = |running: &Running| fs::read(running.folder().join("faults/fan.counted")).unwrap().len();
    running.wait_for("two more writes", |running| counted(running) >= 2);
    assert_eq!(read(running.folder(), "fan"), "0.75");
    assert!(plans(running.folder(), &[("pump", "1"), ("fan", "1")]), "{:?}", planned(running.folder()));
    assert!(!is_free(&running, "fan"), "it is locked for as long");
    set_broken(&running, false);
    wait_until(&mut running, "fan", "1");
    wait_until_said(&mut running, CLOSED, false);
    running.wait_for("the plan follows", |running| plans(running.folder(), &[("pump", "1")]));
    running.wait_for("it is closed", |running| is_free(running, "fan"));
    let ended = stop(running);
    assert!(ended.status.success(), "{}", ended.describe());
    let entries = |text: &str| {
        ended.stderr.lines().filter(|line| line.contains("fan: its safe value, 1 to ") && line.contains(text)).count()
    };
    assert_eq!([entries("could not be written: "), entries("was written at last")], [1, 1], "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn what_a_removed_output_is_owed_is_written_after_a_crash() {
    let running = removed();
    running.signal("KILL");
    let ended = running.wait();
    assert_eq!((read(ended.folder.path(), "fan"), read(ended.folder.path(), "pump")), ("0.75".into(), "0.75".into()));
    let plan = ended.folder.path().join("safe-plan.json");
    let safe = Command::new(HERTZD).args(["safe", "--plan"]).arg(plan).output().unwrap();
    assert!(safe.status.success(), "{safe:?}");
    assert_eq!((read(ended.folder.path(), "fan"), read(ended.folder.path(), "pump")), ("1".into(), "1".into()));
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_stop_without_it_is_a_fault() {
    let ended = stop(removed());
    assert_eq!(
        (ended.status.code(), read(ended.folder.path(), "fan")),
        (Some(70), "0.75".into()),
        "{}",
        ended.describe()
    );
    assert!(planned(ended.folder.path()).contains(&("fan".into(), "1".into())), "it is left for whoever mends that");
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn another_output_that_takes_the_target_over_ends_it() {
    let mut running = removed();
    // An output that begins with its safe value cannot start: the device refuses the write. So the old one stays in charge.
    let refused = reload(&running, &(others() + &output("blower", "fan", "safe = 9")));
    assert!(!refused.status.success(), "{refused:?}");
    running.wait_for("it says why", |running| running.stderr().contains("cannot write the safe value to"));
    wait_until_said(&mut running, CLOSED, true);
    assert!(plans(running.folder(), &[("pump", "1"), ("fan", "1")]), "{:?}", planned(running.folder()));
    // An output that begins with what is there.
    let keeps = others()
        + &output("blower", "fan", "safe = 9\nstart = \"keep\"\nrecover = \"latch\"")
            .replace("recover-after = \"0s\"\n", "");
    let done = reload(&running, &keeps);
    assert!(done.status.success(), "{done:?}");
    wait_until_said(&mut running, CLOSED, false);
    running.wait_for("it has the target", |running| plans(running.folder(), &[("pump", "1"), ("blower", "9")]));
    assert!(running.stderr().contains("blower: has the target now that fan left without its safe value"));
    set_broken(&running, false);
    fs::write(running.folder().join("new-in"), "0.25\n").unwrap();
    fs::rename(running.folder().join("new-in"), running.folder().join("in")).unwrap();
    wait_until(&mut running, "fan", "0.25");
    let ended = stop(running);
    assert_eq!((ended.status.success(), read(ended.folder.path(), "fan")), (true, "9".into()), "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_reload_that_is_refused_after_a_takeover_gives_the_target_back() {
    let mut running = removed();
    fs::write(running.folder().join("other"), "0.5\n").unwrap();
    fs::write(running.folder().join("faults/other.broken"), "").unwrap();
    // The first of the two takes the target over without a write; the second is refused its own target.
    let keeps = output("fan", "fan", "safe = \"hold\"\nstart = \"keep\"");
    let done = reload(&running, &(others() + &keeps + &output("other", "other", "safe = 7")));
    assert_eq!(done.status.code(), Some(78), "{done:?}");
    wait_until_said(&mut running, CLOSED, true);
    running.wait_for("the plan has it again", |running| plans(running.folder(), &[("pump", "1"), ("fan", "1")]));
    assert_eq!(read(running.folder(), "fan"), "0.75");
    set_broken(&running, false);
    wait_until(&mut running, "fan", "1");
    wait_until_said(&mut running, CLOSED, false);
    let ended = stop(running);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("has the target now"), "{}", ended.stderr);
}

/// An output to a file that has its value from the start.
fn own(task: &str, safe: &str) -> String {
    format!(
        "[task.{task}]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/{task}\"\ninput = 0.75\nsafe = {safe}\nstart = \"keep\"\nsafe-after = \"100h\"\n"
    )
}

/// Runs hertzd in a folder that is also its runtime directory.
fn start_in(folder: tempfile::TempDir, config: &str) -> Running {
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let mut running = run_in(folder, command, config, &[]);
    running.wait_until_granted();
    running
}

/// The folder of a run that was killed while `fan` and `pump` had 0.75; before, they had 0.5.
fn killed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    ["fan", "pump"].iter().for_each(|name| fs::write(folder.path().join(name), "0.5\n").unwrap());
    let mut running = start_in(folder, &(own("fan", "1") + &own("pump", "1")));
    wait_until(&mut running, "fan", "0.75");
    wait_until(&mut running, "pump", "0.75");
    running.signal("KILL");
    running.wait().folder
}

fn safe(folder: &Path) -> Output {
    Command::new(HERTZD).args(["safe", "--plan"]).arg(folder.join("safe-plan.json")).output().unwrap()
}

#[test]
fn a_start_writes_what_was_left_and_keeps_what_was_there_before() {
    let folder = killed();
    // `pump` is no longer an output, and `fan` restores its value from before the killed run.
    let mut running = start_in(folder, &own("fan", "\"restore\""));
    wait_until(&mut running, "pump", "1");
    let planned = |running: &Running| plans(running.folder(), &[("fan", "0.5")]);
    running.wait_for("the plan has one output", planned);
    let text = running.stderr();
    assert!(text.contains("pump: wrote its safe value, 1 to ") && !text.contains("fan: wrote its safe"), "{text}");
    // The same again, after another kill.
    running.signal("KILL");
    let folder = running.wait().folder;
    let running = start_in(folder, &own("fan", "\"restore\""));
    let ended = stop(running);
    assert_eq!(read(ended.folder.path(), "fan"), "0.5", "{}", ended.describe());
    assert_eq!(planned_by(ended.folder.path()), 0);
    // Nothing is left, not even the earlier record of its target.
    let ended = stop(start_in(ended.folder, &own("other", "2")));
    assert_eq!([read(ended.folder.path(), "fan"), read(ended.folder.path(), "pump")], ["0.5", "1"]);
}

/// The file as another program leaves it, whose write came between hertzd's query of the file's length and its last write.
#[test]
fn digits_of_another_program_behind_the_number_do_not_outlast_the_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut running = start_in(folder, &own("fan", "\"hold\""));
    wait_until(&mut running, "fan", "0.75");
    fs::write(running.folder().join("fan"), "0.75\n75\n").unwrap();
    let ended = stop(running);
    assert!(ended.status.success(), "{}", ended.describe());
    assert_eq!(fs::read_to_string(ended.folder.path().join("fan")).unwrap(), "0.75\n");
}

/// An output that holds its value has the target as well.
#[test]
fn what_was_left_is_not_written_to_an_output_that_holds() {
    let mut running = start_in(killed(), &(own("fan", "\"hold\"") + &own("pump", "1")));
    wait_until(&mut running, "fan", "0.75");
    running.wait_for("the plan follows", |running| plans(running.folder(), &[("pump", "1")]));
    let ended = stop(running);
    assert!(ended.status.success() && !ended.stderr.contains("fan: its safe value"), "{}", ended.describe());
    assert_eq!(read(ended.folder.path(), "fan"), "0.75");
}

fn planned_by(folder: &Path) -> usize {
    planned(folder).len()
}

#[test]
fn what_was_carried_out_is_not_written_again_and_what_was_changed_since_is_restored() {
    let folder = killed();
    assert!(safe(folder.path()).status.success());
    assert_eq!([read(folder.path(), "fan"), read(folder.path(), "pump")], ["1", "1"]);
    // Someone else has written to them meanwhile.
    ["fan", "pump"].iter().for_each(|name| fs::write(folder.path().join(name), "0.25\n").unwrap());
    let mut running = start_in(folder, &own("fan", "\"restore\""));
    wait_until(&mut running, "fan", "0.75");
    let ended = stop(running);
    assert_eq!([read(ended.folder.path(), "fan"), read(ended.folder.path(), "pump")], ["0.25", "0.25"]);
    // After `hertzd safe` alone, the original is the value before hertzd.
    let folder = killed();
    assert!(safe(folder.path()).status.success());
    let ended = stop(start_in(folder, &own("fan", "\"restore\"")));
    assert_eq!([read(ended.folder.path(), "fan"), read(ended.folder.path(), "pump")], ["0.5", "1"]);
}

#[test]
fn what_cannot_be_written_stays_owed_and_is_said_until_it_is() {
    let folder = killed();
    let secret = "what nobody wants to lose";
    fs::write(folder.path().join("pump"), secret).unwrap();
    let mut running = start_in(folder, &own("fan", "1"));
    let owed = "pump: its safe value, 1 to ";
    wait_until_said(&mut running, owed, true);
    let reason = snapshot(&running)["reason"].as_str().unwrap().to_owned();
    let parts =
        ["is owed since an earlier run: it holds something else than a number", "tried again every 2.00 s: look at"];
    assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
    assert!(plans(running.folder(), &[("fan", "1"), ("pump", "1")]), "{:?}", planned(running.folder()));
    // It outlives this process as well, and is reported at its end.
    let ended = stop(running);
    assert!(!ended.status.success() && ended.stderr.contains(owed), "{}", ended.describe());
    assert!(plans(ended.folder.path(), &[("pump", "1")]), "{:?}", planned(ended.folder.path()));
    let failed = safe(ended.folder.path());
    assert_eq!((failed.status.code(), read(ended.folder.path(), "pump")), (Some(1), secret.into()), "{failed:?}");
    let mut running = start_in(ended.folder, &own("fan", "1"));
    wait_until_said(&mut running, owed, true);
    fs::write(running.folder().join("pump"), "0.75\n").unwrap();
    wait_until(&mut running, "pump", "1");
    wait_until_said(&mut running, owed, false);
    running.wait_for("the plan follows", |running| plans(running.folder(), &[("fan", "1")]));
    let ended = stop(running);
    assert_eq!(read(ended.folder.path(), "pump"), "1");
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_write_that_does_not_return_is_owed_until_it_does() {
    let folder = killed();
    fs::create_dir(folder.path().join("faults")).unwrap();
    fs::write(folder.path().join("faults/pump.hangs"), "").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let mut running = run_in(folder, command, &own("fan", "1"), &[]);
    wait_until(&mut running, "fan", "0.75");
    wait_until_said(&mut running, "pump: its safe value, 1 to ", true);
    wait_until_said(&mut running, "the write has not returned for 2.00 s", true);
    assert_eq!(read(running.folder(), "pump"), "0.75");
    fs::remove_file(running.folder().join("faults/pump.hangs")).unwrap();
    wait_until(&mut running, "pump", "1");
    wait_until_said(&mut running, "pump: its safe value", false);
    running.wait_for("the plan follows", |running| plans(running.folder(), &[("fan", "1")]));
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_safe_value_that_was_given_up_at_a_stop_is_written_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("faults")).unwrap();
    ["fan", "pump"].iter().for_each(|name| fs::write(folder.path().join(name), "0.5\n").unwrap());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let mut running = run_in(folder, command, &own("fan", "1"), &["--stop-timeout", "2s"]);
    wait_until(&mut running, "fan", "0.75");
    fs::write(running.folder().join("faults/fan.hangs"), "").unwrap();
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert_eq!(read(ended.folder.path(), "fan"), "0.75");
    assert!(plans(ended.folder.path(), &[("fan", "1")]), "{:?}", planned(ended.folder.path()));
    // Its device responds again, and it is no longer an output.
    let mut running = start_in(ended.folder, &own("pump", "1"));
    wait_until(&mut running, "fan", "1");
    running.wait_for("the plan follows", |running| plans(running.folder(), &[("pump", "1")]));
    assert!(stop(running).status.success());
}

/// A run whose output `fan` a reload restarts as this section says; the reload waits for the device of another output.
fn reloading(fan: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("faults")).unwrap();
    for (file, text) in [("fan", "0.5\n"), ("other", "0.5\n"), ("faults/other.takes", ""), ("faults/other.held", "")] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", folder.path().join("faults"));
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let mut running = run_in(folder, command, &own("fan", "1"), &[]);
    wait_until(&mut running, "fan", "0.75");
    let config = fan.to_owned() + &own("other", "7").replace("start = \"keep\"\n", "");
    let config = config.replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), config).unwrap();
    running.signal("HUP");
    running.wait_for("it writes the other", |running| !running.folder().join("faults/other.takes").exists());
    running
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_safe_value_that_fails_at_a_stop_during_a_reload_is_a_fault_too() {
    let running = reloading(&own("fan", "1").replace("rate = 100", "rate = 50"));
    set_broken(&running, true);
    let ended = stop(running);
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    assert!(ended.stderr.contains("not all safe values were written"), "{}", ended.stderr);
    assert!(ended.stderr.contains("fan: its safe value, 1 to "), "{}", ended.stderr);
    assert!(planned(ended.folder.path()).contains(&("fan".into(), "1".into())), "{:?}", planned(ended.folder.path()));
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_stop_during_a_reload_writes_the_safe_value_of_the_task_that_ticks() {
    let running = reloading(&own("fan", "5"));
    assert!(planned(running.folder()).contains(&("fan".into(), "1".into())), "{:?}", planned(running.folder()));
    let ended = stop(running);
    assert_eq!(read(ended.folder.path(), "fan"), "1", "{}", ended.describe());
}

#[test]
fn a_second_process_in_the_same_runtime_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut running = start_in(folder, &own("fan", "1"));
    wait_until(&mut running, "fan", "0.75");
    let plan = || fs::read_to_string(running.folder().join("safe-plan.json")).unwrap();
    let before = plan();
    let config = running.folder().join("second.toml");
    fs::write(&config, own("second", "1").replace(HERE, running.folder().to_str().unwrap())).unwrap();
    let mut second = Command::new(HERTZD);
    second.env("RUNTIME_DIRECTORY", running.folder()).arg("run").arg(&config).args(["--for", "1s", "--status-socket"]);
    let refused = second.arg(running.folder().join("s")).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(77), "{text}");
    assert!(text.contains(&running.pid().to_string()) && text.contains("RUNTIME_DIRECTORY"), "{text}");
    assert!(plan() == before && !running.folder().join("second").exists());
    assert!(stop(running).status.success());
}

#[test]
fn a_plan_that_cannot_be_read_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut folder = folder;
    for (left, kept) in [("{", "prev"), ("{\"version\": 7, \"pid\": 1, \"outputs\": []}", "prev2")] {
        fs::write(folder.path().join("safe-plan.json"), left).unwrap();
        let mut running = start_in(folder, &own("fan", "1"));
        running.wait_for("it is said", |running| running.stderr().contains(&format!("safe-plan.json.{kept}")));
        wait_until(&mut running, "fan", "0.75");
        folder = stop(running).folder;
        assert_eq!(read(folder.path(), &format!("safe-plan.json.{kept}")), left);
    }
}
