//! The kind heartbeat: it switches while its outputs are live, and stops when one of them is not, for any reason.

use crate::program;
use crate::program::{HERTZD, Running, run_in};
use std::fs;
use std::process::Command;

fn start(config: &str) -> Running {
    start_with(config, |_| {})
}

/// Like `start`, with a command changed by `add`.
fn start_with(config: &str, add: impl FnOnce(&mut Command)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("want"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    add(command.current_dir(folder.path()));
    let mut running = run_in(folder, command, config, &[]);
    running.wait_until_granted();
    running
}

fn pulse(running: &Running) -> String {
    fs::read_to_string(running.folder().join("pulse")).unwrap_or_default()
}

/// A value of the heartbeat, and its number of ticks.
fn value(running: &Running, name: &str) -> (f64, u64) {
    let snapshot = program::snapshot(&running.folder().join("status.sock"));
    let task = snapshot["tasks"].as_array().unwrap().iter().find(|task| task["task"] == "pulse").unwrap().clone();
    (task["values"][name]["last"].as_f64().unwrap_or(f64::NAN), task["ran"].as_u64().unwrap_or(0))
}

fn wait_until_it_beats(running: &mut Running) {
    for wanted in ["1\n", "0\n", "1\n", "0\n"] {
        running.wait_for(&format!("it is {wanted:?}"), |running| pulse(running) == wanted);
    }
}

/// Asserts that it stops once an output is not live, and stays so while observed.
fn stands_still(running: &mut Running) {
    running.wait_for("an output is not live", |running| value(running, "not-live").0 == 1.0);
    let (held, (_, before)) = (pulse(running), value(running, "beating"));
    running.wait_for("it has ticked on", |running| value(running, "beating").1 > before + 20);
    assert_eq!((pulse(running), value(running, "beating").0), (held, 0.0));
}

const OUTPUTS: &str = "[worker.main]\n[worker.other]\n\
    [task.want]\nkind = \"sensor\"\nworker = \"main\"\nrate = 100\npath = \"@HERE@/want\"\nmax-file-age = \"off\"\n\
    [task.a]\nkind = \"output\"\nworker = \"main\"\nrate = 100\ninput = \"want.value\"\npath = \"@HERE@/a\"\nsafe = 0\n\
    max-age = \"1h\"\nrecover-after = \"0s\"\nsafe-after = \"SAFE\"\n\
    [task.b]\nkind = \"output\"\nworker = \"main\"\nrate = 100\ninput = 1\npath = \"@HERE@/b\"\nsafe = 0\nsafe-after = \"SAFE\"\n\
    [task.pulse]\nkind = \"heartbeat\"\nworker = \"other\"\nrate = 100\npath = \"@HERE@/pulse\"\n";

#[test]
fn it_beats_while_all_outputs_follow_and_not_while_one_is_safe() {
    let mut running = start(&OUTPUTS.replace("SAFE", "1h"));
    wait_until_it_beats(&mut running);
    fs::write(running.folder().join("want"), "bad\n").unwrap();
    stands_still(&mut running);
    fs::write(running.folder().join("want"), "0.7\n").unwrap();
    wait_until_it_beats(&mut running);
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
}

#[test]
fn it_asks_for_those_that_it_names_alone() {
    let mut running = start(&(OUTPUTS.replace("SAFE", "1h") + "outputs = [\"b\"]\n"));
    let other = |running: &Running| fs::read_to_string(running.folder().join("a")).unwrap_or_default();
    running.wait_for("the other output follows", |running| other(running) == "0.5\n");
    fs::write(running.folder().join("want"), "bad\n").unwrap();
    running.wait_for("it is safe", |running| other(running) == "0\n");
    wait_until_it_beats(&mut running);
    running.signal("TERM");
    assert_eq!(running.wait().status.code(), Some(0));
}

#[test]
fn it_stands_still_when_the_worker_of_its_outputs_hangs() {
    let hang = "[task.hangs]\nkind = \"load\"\nworker = \"main\"\nrate = 100\nfault = \"hang\"\nfault-every = 1\n";
    let mut running = start(&(OUTPUTS.replace("SAFE", "200ms") + "outputs = [\"b\"]\n" + hang));
    let socket = running.folder().join("status.sock");
    running.wait_for("its worker hangs", |_| program::snapshot(&socket)["workers"][0]["stalled_ns"].is_number());
    // For longer than `safe-after`, by the heartbeat's own ticks.
    let before = value(&running, "beating").1;
    running.wait_for("it has ticked on", |running| value(running, "beating").1 > before + 60);
    stands_still(&mut running);
    running.signal("TERM");
    running.wait();
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn it_beats_on_while_a_reload_waits_for_the_device_of_another_output() {
    let mut running = start_with(&OUTPUTS.replace("SAFE", "1h"), |command| {
        let folder = command.get_current_dir().unwrap().to_owned();
        fs::create_dir(folder.join("faults")).unwrap();
        for file in ["slow", "faults/slow.takes", "faults/slow.held"] {
            fs::write(folder.join(file), "").unwrap();
        }
        command.env("DEVICE_FAULTS", folder.join("faults")).env("LD_PRELOAD", program::preload(&folder, "device"));
    });
    wait_until_it_beats(&mut running);
    let new = "[task.new]\nkind = \"output\"\nworker = \"main\"\nrate = 100\ninput = 1\npath = \"@HERE@/new\"\nsafe = 0\nsafe-after = \"1h\"\n";
    let slow = "[task.slow]\nkind = \"output\"\nworker = \"main\"\nrate = 100\ninput = 1\npath = \"@HERE@/slow\"\nsafe = 0\nsafe-after = \"1h\"\n";
    let config = (OUTPUTS.replace("SAFE", "1h") + new + slow).replace("@HERE@", running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), config).unwrap();
    running.signal("HUP");
    running.wait_for("the device is written", |running| !running.folder().join("faults/slow.takes").exists());
    let before = value(&running, "beating").1;
    running.wait_for("it has ticked on", |running| value(running, "beating").1 > before + 20);
    assert_eq!(value(&running, "not-live").0, 0.0);
    wait_until_it_beats(&mut running);
    fs::remove_file(running.folder().join("faults/slow.held")).unwrap();
    running.wait_for("it follows", |running| fs::read(running.folder().join("slow")).is_ok_and(|text| text == b"1\n"));
    wait_until_it_beats(&mut running);
    running.signal("TERM");
    assert_eq!(running.wait().status.code(), Some(0));
}
