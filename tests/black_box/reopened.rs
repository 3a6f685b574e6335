//! Targets of outputs that go away while hertzd runs and come back: their content afterwards, read from outside.

use crate::program;
use crate::program::run_in;
use std::fs;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = "\
[task.follows]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/follows\"
safe = 255
safe-after = \"1h\"
recover-after = \"0s\"
readback = \"100ms\"
[task.latched]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/latched\"
safe = 255
safe-after = \"1h\"
recover = \"latch\"
[task.restores]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/folder/restores\"
safe = \"restore\"
safe-after = \"1h\"
recover-after = \"0s\"
";

/// The text without the newlines that may follow it while it gets shorter.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn a_file_that_was_replaced_or_removed_is_written_again_and_safe_at_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let paths = [at("follows"), at("latched"), at("folder/restores")];
    let [follows, latched, restores] = &paths;
    let (new, inner, away, socket) = (at("new"), at("folder"), at("away"), at("s"));
    fs::create_dir(&inner).unwrap();
    fs::write(restores, "42\n").unwrap();
    let args = ["--log-format", "json", "--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), CONFIG, &args);
    running.wait_for("all are live", |_| paths.iter().all(|path| read(path) == "128"));
    for path in [latched, follows] {
        fs::write(&new, "7\n").unwrap();
        fs::rename(&new, path).unwrap();
    }
    running.wait_for("the new file is written", |_| read(follows) == "128");
    running.wait_for("the latched one is safe", |_| read(latched) == "255");
    fs::remove_file(follows).unwrap();
    running.wait_for("it is made again", |_| read(follows) == "128");
    running.wait_for("it is read back again", |_| program::snapshot(&socket)["readbacks"][0]["state"] == "agrees");
    // Its folder is replaced by another one.
    fs::rename(&inner, &away).unwrap();
    let trouble = "restores: its target is gone, and is looked for";
    running.wait_for("it is noticed", |_| {
        program::snapshot(&socket)["reason"].as_str().is_some_and(|reason| reason.contains(trouble))
    });
    running.wait_for("failed writes are counted", |_| {
        let snapshot = program::snapshot(&socket);
        let errors = &program::task(&snapshot, "restores")["values"]["write-errors"]["last"];
        errors.as_f64() > Some(0.0)
    });
    assert_eq!(read(&away.join("restores")), "128", "what was written last stays");
    fs::create_dir(&inner).unwrap();
    fs::write(&new, "9\n").unwrap();
    fs::rename(&new, restores).unwrap();
    running.wait_for("it is written again", |_| read(restores) == "128");
    running.wait_for("all is well with it", |_| {
        let reason = program::snapshot(&socket)["reason"].clone();
        !reason.as_str().unwrap_or_default().contains(trouble)
    });
    assert_eq!(read(latched), "255", "nothing has reset it");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!([read(follows), read(restores)], ["255", "42"], "{}", ended.describe());
    assert_eq!(read(&away.join("restores")), "128", "it is not the target any more");
    for text in [
        "task follows stopped working; trying to reopen it",
        "task latched was reopened after",
        "task restores cannot be reopened yet",
    ] {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
}

/// The ending task has yet to reopen the target, and would do so after the new task.
#[test]
fn a_target_that_has_just_come_back_has_one_holder_after_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (one, new, socket, config) = (at("one"), at("new"), at("s"), at("test.toml"));
    let place = folder.path().to_str().unwrap().to_owned();
    let output = |rate: u32| {
        format!(
            "[task.a]\nkind = \"output\"\nrate = {rate}\ninput = 128\npath = \"@HERE@/one\"\nsafe = 255\nsafe-after = \"1h\"\n\
             recover-after = \"0s\"\n[task.beat]\nkind = \"load\"\nrate = 10\n"
        )
    };
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), &output(50), &args);
    running.wait_for("it is live", |_| read(&one) == "128" && socket.exists());
    for rate in [100, 200, 50, 100] {
        fs::write(&new, "7\n").unwrap();
        fs::write(&config, output(rate).replace(program::HERE, &place)).unwrap();
        fs::rename(&new, &one).unwrap();
        let reload = Command::new(program::HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
        assert!(reload.status.success(), "{reload:?}");
        running.wait_for("it is live again", |_| read(&one) == "128");
        running.wait_for("nobody looks for it", |_| {
            !program::snapshot(&socket)["reason"].as_str().unwrap_or_default().contains("its target is gone")
        });
    }
    running.signal("TERM");
    let ended = running.wait();
    assert!(read(&one) == "255" && ended.status.success(), "{}", ended.describe());
}

/// The job that reopens the target is older than the reload, and must not use the old settings.
#[test]
fn a_reload_is_seen_by_what_opens_the_target_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (one, socket, config) = (at("one"), at("s"), at("test.toml"));
    ["one", "two"].iter().for_each(|name| fs::write(at(name), "7\n").unwrap());
    let place = folder.path().to_str().unwrap().to_owned();
    let output = |task: &str, file: &str, rate: u32, safe: &str| {
        format!(
            "[task.{task}]\nkind = \"output\"\nrate = {rate}\ninput = 128\npath = \"@HERE@/{file}\"\nsafe = {safe}\n\
             safe-after = \"1h\"\nrecover-after = \"0s\"\n"
        )
    };
    let text = output("a", "one", 100, "\"hold\"") + &output("b", "two", 100, "255");
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), &text, &args);
    running.wait_for("it is live", |_| read(&one) == "128" && socket.exists());
    let reload = |text: String| {
        fs::write(&config, text.replace(program::HERE, &place)).unwrap();
        let reload = Command::new(program::HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
        assert!(reload.status.success(), "{reload:?}");
    };
    reload(output("a", "one", 100, "255") + &output("b", "two", 100, "255"));
    fs::remove_file(&one).unwrap();
    running.wait_for("it is made, as it has a safe value by now", |_| read(&one) == "128");
    // The names are swapped; then the task that has the target now restarts, and the other one continues.
    reload(output("b", "one", 100, "255") + &output("a", "two", 100, "255"));
    reload(output("b", "one", 50, "255") + &output("a", "two", 100, "255"));
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(read(&one), "255", "{}", ended.describe());
}
