//! `readback` of the real program: the log, the status and the summary when the target of an output does not hold what was written to it.
//! The targets are regular files.

use crate::program;
use crate::program::{Running, count, run_in};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

const CONFIG: &str = "\
[task.fan]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/target\"
safe = 255
safe-after = \"1h\"
readback = \"100ms\"
";

/// The snapshot's readback of the only output that has one.
fn readback(socket: &Path) -> Value {
    program::snapshot(socket)["readbacks"][0].clone()
}

/// The level and the text of each entry of this kind.
fn entries(log: &str, id: &str) -> Vec<String> {
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).ok()?;
        let of = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (of("message_id") == id).then(|| format!("{} {}", of("level"), of("message")))
    };
    log.lines().filter_map(entry).collect()
}

fn start(config: &str, args: &[&str]) -> (Running, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let args = [&["--log-format", "json", "--json", "--status-socket", socket.to_str().unwrap()], args].concat();
    let mut running = run_in(folder, Command::new(program::HERTZD), config, &args);
    running.wait_until_granted();
    (running, socket)
}

#[test]
fn a_difference_has_one_entry_when_it_begins_and_one_when_it_ends() {
    let (mut running, socket) = start(CONFIG, &[]);
    running.wait_for("it was compared", |_| readback(&socket)["state"] == "agrees");
    let target = running.folder().join("target");
    // In one step, and of the same length: a concurrent reader finds neither an empty file nor 128.
    let put = |text: &str| File::options().write(true).open(&target).unwrap().write_all_at(text.as_bytes(), 0).unwrap();
    running.wait_for("it is live", |_| fs::read_to_string(&target).unwrap() == "128\n");
    put("140\n");
    running.wait_for("the difference", |_| readback(&socket)["read"] == "140");
    let snapshot = program::snapshot(&socket);
    let seen = &snapshot["readbacks"][0];
    assert_eq!((&seen["task"], &seen["state"], &seen["written"]), (&"fan".into(), &"differs".into(), &128.0.into()));
    assert_eq!((count(seen, "differences"), count(seen, "every_ns")), (1, 100_000_000), "{seen}");
    let target_shown = target.canonicalize().unwrap();
    let target_shown = target_shown.display();
    let what = format!("{target_shown} reads 140 in place of 128, the raw number that was written last");
    let reason = snapshot["reason"].as_str().unwrap_or_default();
    assert!(snapshot["well"] == false && reason.contains(&format!("task fan: {what}, noticed ")), "{reason}");
    put("128\n");
    running.wait_for("its end", |_| readback(&socket)["state"] == "agrees");
    let reason = program::snapshot(&socket)["reason"].clone();
    assert!(!reason.as_str().unwrap_or_default().contains("in place of"), "{reason}");
    let text = String::from_utf8(program::status(&socket, &[]).stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(" times; what was read began to differ from what was written once"), "{text}");
    running.signal("TERM");
    let ended = running.wait();
    let seen = ended.summary()["readbacks"][0].clone();
    assert_eq!((count(&seen, "differences"), count(&seen, "unreadable")), (1, 0), "{seen}");
    let failed = entries(&ended.stderr, "60f140c47fcf4ba3871dcaf8dd5b1977");
    let begins = "error fan: ";
    let [failed] = &failed[..] else { panic!("{failed:?}") };
    assert!(failed.starts_with(&format!("{begins}{target_shown} reads 1")), "{failed}");
    assert!(failed.ends_with(
        "in place of 128, the raw number that was written last; look at the device, and at what else writes to it"
    ));
    let passed = entries(&ended.stderr, "74c5c37270a34afda135a485eb426c0f");
    let [passed] = &passed[..] else { panic!("{passed:?}") };
    assert!(passed.starts_with(&format!("info fan: {target_shown} reads 128 again, as written, after ")), "{passed}");
}

#[test]
fn a_target_that_cannot_be_read_is_no_difference() {
    let (mut running, socket) = start(CONFIG, &[]);
    running.wait_for("it was compared", |_| readback(&socket)["state"] == "agrees");
    let target = running.folder().join("target");
    let put = |bytes: &[u8]| File::options().write(true).open(&target).unwrap().write_all_at(bytes, 0).unwrap();
    running.wait_for("it is live", |_| fs::read(&target).unwrap() == b"128\n");
    put(b"\xff28\n"); // not text
    running.wait_for("it is noticed", |_| readback(&socket)["state"] == "unreadable");
    let reason = program::snapshot(&socket)["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("cannot be read back: "), "{reason}");
    put(b"128\n");
    running.wait_for("it is back", |_| readback(&socket)["state"] == "agrees");
    running.signal("TERM");
    let ended = running.wait();
    let seen = ended.summary()["readbacks"][0].clone();
    assert!(count(&seen, "differences") == 0 && count(&seen, "unreadable") > 0, "{seen}");
    let [failed, passed] = ["60f140c47fcf4ba3871dcaf8dd5b1977", "74c5c37270a34afda135a485eb426c0f"]
        .map(|id| entries(&ended.stderr, id).len());
    assert_eq!((failed, passed), (1, 1));
}

#[test]
fn of_a_file_that_has_become_huge_only_the_first_bytes_are_read() {
    let (mut running, socket) = start(CONFIG, &[]);
    running.wait_for("it was compared", |_| readback(&socket)["state"] == "agrees");
    let target = running.folder().join("target");
    running.wait_for("it is live", |_| fs::read(&target).unwrap() == b"128\n");
    // 1 GiB that begins with the number; almost all of it is a hole, which takes no disk space but reads as zeros.
    File::options().write(true).open(&target).unwrap().set_len(1 << 30).unwrap();
    running.wait_for("it is noticed", |_| readback(&socket)["state"] == "unreadable");
    let reason = program::snapshot(&socket)["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("cannot be read back: it holds more than one number (1073741824 bytes)"), "{reason}");
    let process = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let peak = process.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse().ok());
    let peak: u32 = peak.unwrap();
    assert!(peak < 512 << 10, "{peak} kB were in memory");
    File::options().write(true).open(&target).unwrap().set_len(4).unwrap();
    running.wait_for("it is back", |_| readback(&socket)["state"] == "agrees");
    running.signal("TERM");
    running.wait();
}

#[test]
fn what_is_written_while_it_is_read_is_no_difference() {
    let changes = "\
[task.wave]
kind = \"profile\"
rate = 2000
shape = \"sine\"
offset = 500
amplitude = 499
frequency = \"7 Hz\"
";
    let config = format!(
        "{changes}{}",
        CONFIG.replace("input = 128", "input = \"wave.out\"").replace("rate = 100\n", "rate = 2000\n")
    );
    let (mut running, socket) = start(&config, &[]);
    running.wait_for("it was compared", |_| readback(&socket)["compared"].as_u64() >= Some(10));
    running.signal("TERM");
    let ended = running.wait();
    let seen = ended.summary()["readbacks"][0].clone();
    assert_eq!((count(&seen, "differences"), count(&seen, "unreadable")), (0, 0), "{seen}\n{}", ended.stderr);
}

#[test]
fn a_shadow_run_and_the_desk_read_nothing_back() {
    let (mut running, socket) = start(CONFIG, &["--shadow"]);
    running.wait_for("it ticks", |_| program::snapshot(&socket)["tasks"][0]["ran"].as_u64() > Some(0));
    assert!(program::snapshot(&socket).get("readbacks").is_none());
    assert!(!running.folder().join("target").exists());
    running.signal("TERM");
    let config = running.folder().join("test.toml");
    let simulated = Command::new(program::HERTZD).args(["simulate", "--json"]).arg(&config).output().unwrap();
    assert!(simulated.status.success(), "{simulated:?}");
    assert!(!String::from_utf8(simulated.stdout).unwrap().contains("readbacks"));
    running.wait();
}

#[test]
fn check_refuses_a_target_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    // The kernel lets no one read this file. For the test's own file, this holds for everyone but root.
    let (attribute, own) = (Path::new("/sys/bus/platform/drivers_probe"), folder.path().join("own"));
    fs::write(&own, "0\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o200)).unwrap();
    let is_unreadable = |path: &&Path| {
        let is = |read: bool| File::options().read(read).write(!read).open(path).is_ok();
        is(false) && !is(true)
    };
    let Some(target) = [attribute, &own].into_iter().find(is_unreadable) else {
        eprintln!("no file here can be written and not read: nothing was tested");
        return;
    };
    let path = folder.path().join("test.toml");
    let check = |text: &str| {
        fs::write(&path, text.replace("@HERE@/target", target.to_str().unwrap())).unwrap();
        let output = Command::new(program::HERTZD).arg("check").arg(&path).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (accepted, said) = check(CONFIG);
    let wanted = format!(
        ": readback = \"100ms\"; {} cannot be read: Permission denied (os error 13); remove the key",
        target.display()
    );
    assert!(!accepted && said.contains(&wanted), "{said}");
    let (_, said) = check(&CONFIG.replace("readback = \"100ms\"\n", ""));
    assert!(!said.contains("cannot be read"), "{said}");
}
