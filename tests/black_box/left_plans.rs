//! What a killed run leaves behind: its safe values are written right afterwards, or stay owed until they are, whatever starts in between.
//! What its outputs held before is not forgotten.

use crate::program;
use crate::program::disk::Disk;
use crate::program::{HERTZD, Running, run_in};
use hertzd::internals::lock_as_hertzd;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// An output that restores what its file held before.
const RESTORES: &str = "\
[task.fan]
kind = \"output\"
rate = 100
input = 0.75
path = \"@HERE@/fan\"
safe = \"restore\"
safe-after = \"1h\"
";

/// A configuration without outputs.
const NONE: &str = "[task.t]\nkind = \"load\"\nrate = 100\n";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    folder
}

/// Starts hertzd with its folder as the runtime directory.
fn start_in(folder: TempDir, config: &str, args: &[&str]) -> Running {
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    run_in(folder, command, config, args)
}

/// The folder of a run that was killed while its output held 0.75.
fn killed(folder: TempDir, config: &str) -> TempDir {
    let at = folder.path().to_owned();
    killed_at(folder, config, &at)
}

/// Like [`killed`], with the output's file in another folder.
fn killed_at(folder: TempDir, config: &str, at: &Path) -> TempDir {
    let mut running = start_in(folder, config, &[]);
    running.wait_for("it is live", |_| fan(at) == "0.75\n");
    kill(running)
}

/// Kills the run, and waits for the end of its last thread: until then its files are locked.
fn kill(running: Running) -> TempDir {
    running.signal("KILL");
    running.wait().folder
}

fn fan(folder: &Path) -> String {
    fs::read_to_string(folder.join("fan")).unwrap_or_default()
}

fn safe(folder: &Path) -> Output {
    Command::new(HERTZD).arg("safe").env("RUNTIME_DIRECTORY", folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn plan(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("safe-plan.json")).unwrap_or_default()).unwrap_or_default()
}

fn reason(folder: &Path) -> String {
    program::snapshot(&folder.join("status.sock"))["reason"].as_str().unwrap_or_default().to_owned()
}

/// Whether no safe value is a reason for not being well. As an ordinary user there may be others.
fn owes_nothing(folder: &Path) -> bool {
    !["owed", "safe value"].iter().any(|word| reason(folder).contains(word))
}

/// While the kernel ends the process, its files stay locked and it no longer shows them.
#[test]
fn right_after_a_kill_the_safe_values_are_written() {
    let output = |number: u32| {
        format!("[task.o{number}]\nkind = \"output\"\nrate = 10\npath = \"@HERE@/o{number}\"\ninput = 0.75\nsafe = 1\n")
    };
    const OUTPUTS: u32 = 24;
    let config: String = (0..OUTPUTS).map(output).collect();
    for _ in 0..10 {
        let mut running = start_in(tempfile::tempdir().unwrap(), &config, &[]);
        let hold = |folder: &Path, text: &str| {
            (0..OUTPUTS).all(|number| fs::read_to_string(folder.join(format!("o{number}"))).is_ok_and(|it| it == text))
        };
        running.wait_for("all are live", |running| hold(running.folder(), "0.75\n"));
        let script = "kill -9 $0; exec \"$1\" safe";
        let mut command = Command::new("sh");
        command.args(["-c", script, &running.pid().to_string(), HERTZD]).env("RUNTIME_DIRECTORY", running.folder());
        let done = command.output().unwrap();
        assert!(done.status.success() && hold(running.folder(), "1\n"), "{}", said(&done));
    }
}

/// A run that was killed while it waits for a disk, so that it cannot end. `None`: impossible on this machine.
fn held_up(command: Command, folder: TempDir, config: &str) -> Option<(Running, Disk)> {
    let path = folder.path().join("disk");
    fs::create_dir(&path).unwrap();
    let owner = folder.path().metadata().unwrap().uid();
    let Some(disk) = Disk::mount(folder.path(), path.clone()) else {
        program::skip("to mount a disk of the test's own takes root, loop devices and mkfs.ext4");
        return None;
    };
    chown(&path, Some(owner), None).unwrap();
    let log = format!("[task.log]\nkind = \"load\"\nrate = 1000\nrecord = {:?}\n", path.join("log.csv"));
    let mut running = run_in(folder, command, &(config.to_owned() + &log), &[]);
    running.wait_for("it is live", |running| fan(running.folder()) == "0.75\n");
    running.wait_for("it records", |_| fs::metadata(path.join("log.csv")).is_ok_and(|file| file.len() > 0));
    assert!(disk.freeze());
    let hangs = |running: &Running| program::threads(running.pid()).any(|thread| program::state(&thread) == Some('D'));
    running.wait_for("it waits for its disk", hangs);
    running.signal("KILL");
    Some((running, disk))
}

/// No one can wait for it forever.
#[test]
fn a_killed_process_that_cannot_end_is_no_peer() {
    let folder = folder();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let config = RESTORES.replace("\"restore\"", "1");
    let Some((mut running, disk)) = held_up(command, folder, &config) else { return };
    let done = safe(running.folder());
    let (text, ended) = (said(&done), running.has_ended());
    assert!(disk.thaw());
    assert!(!ended && done.status.success() && fan(running.folder()) == "1\n", "{text}");
    assert!(text.contains(") was killed and has not ended yet, so a disk or a device holds it up"), "{text}");
}

/// Runs a program as another user, with these capabilities.
fn by_user(capabilities: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(format!("--inh-caps={capabilities}")).arg(format!("--ambient-caps={capabilities}")).arg(program);
    command
}

/// hertzd as another user, with a capability; the program is copied into the folder. `None`: impossible on this machine.
fn with_capability(folder: &Path) -> Option<Command> {
    let by_user = |program: &Path| by_user("+sys_nice", program);
    if !program::is_root() || !by_user(Path::new("true")).output().is_ok_and(|output| output.status.success()) {
        program::skip("to run as another user with a capability takes root and CAP_SYS_NICE");
        return None;
    }
    let program = folder.join("hertzd");
    program::copy_program(&program);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    Some(by_user(&program))
}

/// Root writes the safe values in a process without capabilities, which cannot see the open files of the killed process. Nor can it see
/// those of root's own process, which has the name of the program, and lives.
#[test]
fn root_makes_safe_what_a_killed_process_with_capabilities_has() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut command) = with_capability(place.path()) else { return };
    let folder = folder();
    [folder.path(), &folder.path().join("fan")].iter().for_each(|path| chown(path, Some(65534), Some(65534)).unwrap());
    command.env("RUNTIME_DIRECTORY", folder.path());
    let config = RESTORES.replace("\"restore\"", "1");
    let Some((mut running, disk)) = held_up(command, folder, &config) else { return };
    let plan = running.folder().join("safe-plan.json");
    let done = Command::new(place.path().join("hertzd")).args(["safe", "--plan"]).arg(plan).output().unwrap();
    let (text, ended) = (said(&done), running.has_ended());
    assert!(disk.thaw());
    assert!(!ended && done.status.success() && fan(running.folder()) == "1\n", "{text}");
    assert!(text.contains(", which was killed and has not ended yet, which keeps nobody out"), "{text}");
}

/// The next run has no capability, so it cannot see the open files of the killed process. Nor can it see those of another hertzd that
/// lives.
#[test]
fn a_start_with_fewer_capabilities_has_the_targets_of_one_that_cannot_end() {
    let place = tempfile::tempdir().unwrap();
    let config = RESTORES.replace("\"restore\"", "1");
    let mut other = start_in(tempfile::tempdir().unwrap(), NONE, &[]);
    other.wait_until_granted();
    for next in [&*config, NONE] {
        let Some(mut command) = with_capability(place.path()) else { return };
        let folder = folder();
        let files = [folder.path(), &folder.path().join("fan")];
        files.iter().for_each(|path| chown(path, Some(65534), Some(65534)).unwrap());
        command.env("RUNTIME_DIRECTORY", folder.path());
        let Some((mut running, disk)) = held_up(command, folder, &config) else { return };
        let here = running.folder();
        fs::write(here.join("next.toml"), next.replace(program::HERE, here.to_str().unwrap())).unwrap();
        let mut command = by_user("-all", &place.path().join("hertzd"));
        command.env("RUNTIME_DIRECTORY", here).args(["run", "--for", "3s"]).arg(here.join("next.toml"));
        let (text, ended) = (said(&command.output().unwrap()), running.has_ended());
        assert!(disk.thaw());
        assert!(!ended && fan(running.folder()) == "1\n", "{next}: {text}");
        assert!(text.contains("fan: ") && text.contains("which was killed and has not ended yet"), "{next}: {text}");
        assert!(!text.contains("also in use by"), "its lock is asked for every second: {text}");
    }
}

/// The runtime directory is still locked then.
#[test]
fn the_next_run_beside_one_that_cannot_end_knows_what_was_there_before() {
    let folder = folder();
    let command = in_foreground(folder.path());
    let Some((mut running, disk)) = held_up(command, folder, RESTORES) else { return };
    let here = running.folder();
    fs::write(here.join("next.toml"), RESTORES.replace(program::HERE, here.to_str().unwrap())).unwrap();
    let next = in_foreground(here).args(["run", "--for", "100ms"]).arg(here.join("next.toml")).output().unwrap();
    let (text, ended) = (said(&next), running.has_ended());
    assert!(disk.thaw());
    assert!(!ended && fan(running.folder()) == "0.5\n", "{text}");
}

#[test]
fn a_target_that_is_restored_after_a_kill_holds_what_status_says() {
    let folder = killed(folder(), RESTORES);
    fs::write(folder.path().join("in"), "0.75\n").unwrap();
    let source = "[task.source]\nkind = \"sensor\"\nperiod = \"1000s\"\nphase = \"900s\"\npath = \"@HERE@/in\"\nmax-file-age = \"off\"\n";
    let config = source.to_owned() + &RESTORES.replace("0.75", "\"source.value\"");
    let mut running = start_in(folder, &config, &[]);
    running.wait_until_granted();
    running.wait_for("it is restored", |running| fan(running.folder()) == "0.5\n");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(fan(ended.folder.path()), "0.5\n", "{}", ended.describe());
    let done = said(&safe(ended.folder.path()));
    assert_eq!(fan(ended.folder.path()), "0.5\n", "{done}");
}

/// The other hertzd may restore what it found there, which the killed run wrote.
#[test]
fn what_another_hertzd_has_by_now_is_written_once_that_has_ended() {
    for is_by_safe in [false, true] {
        let folder = killed(folder(), RESTORES);
        let path = folder.path().join("fan");
        let theirs = RESTORES.replace("@HERE@/fan", path.to_str().unwrap()).replace("0.75", "0.875");
        let mut other = start_in(tempfile::tempdir().unwrap(), &theirs, &[]);
        other.wait_for("it has the target", |_| fan(folder.path()) == "0.875\n");
        let mut running = start_in(folder, NONE, &[]);
        running.wait_until_granted();
        let owed = format!("owed since an earlier run: the target is in use by hertzd (pid {})", other.pid());
        running.wait_for("status says whose it is", |running| reason(running.folder()).contains(&owed));
        let original = |folder: &Path| plan(folder)["outputs"][0]["writes"][0]["original"].clone();
        assert_eq!(original(running.folder()), "0.5\n");
        let end = |running: Running| (running.signal("TERM"), running.wait()).1;
        if is_by_safe {
            let ended = end(running);
            let done = safe(ended.folder.path());
            assert!(done.status.code() == Some(77) && said(&done).contains("in use by hertzd"), "{}", said(&done));
            assert_eq!(original(ended.folder.path()), "0.5\n", "{}", ended.describe());
            end(other);
            let done = safe(ended.folder.path());
            assert!(done.status.success() && fan(ended.folder.path()) == "0.5\n", "{}", said(&done));
            continue;
        }
        end(other);
        running.wait_for("it is restored", |running| fan(running.folder()) == "0.5\n");
        running.wait_for("nothing is owed", |running| {
            plan(running.folder())["outputs"] == json!([]) && !reason(running.folder()).contains("owed")
        });
        let ended = end(running);
        assert!(ended.status.success(), "{}", ended.describe());
    }
}

/// The folder after a start that wrote its plan, and was then refused by the kernel: the other target does not accept that number.
fn refused(folder: TempDir) -> TempDir {
    let path = format!("/proc/{}/oom_score_adj", std::process::id());
    let other = format!("[task.other]\nkind = \"output\"\nrate = 10\npath = \"{path}\"\ninput = 1\nsafe = 5000\n");
    let ended = start_in(folder, &(RESTORES.to_owned() + &other), &[]).wait();
    assert!(!ended.status.success() && ended.stderr.contains("cannot write the safe value"), "{}", ended.describe());
    ended.folder
}

/// The plan is locked as by a running `hertzd safe`: trying again helps.
#[test]
fn a_start_beside_who_carries_the_plan_out_is_to_be_tried_again() {
    let folder = killed(folder(), RESTORES);
    let plan = fs::File::options().write(true).open(folder.path().join("safe-plan.json")).unwrap();
    assert!(lock_as_hertzd(&plan));
    let ended = start_in(folder, RESTORES, &[]).wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let holder = format!("process {} has had it locked", std::process::id());
    assert!(ended.stderr.contains(&holder) && fan(ended.folder.path()) == "0.75\n", "{}", ended.describe());
    drop(plan);
    let mut running = start_in(ended.folder, RESTORES, &[]);
    running.wait_until_granted();
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success() && fan(ended.folder.path()) == "0.5\n", "{}", ended.describe());
}

#[test]
fn a_start_that_is_refused_forgets_no_original() {
    for is_carried_out in [false, true] {
        let folder = killed(folder(), RESTORES);
        // Here the safe value differs from what the file held before.
        if is_carried_out {
            let done = safe(folder.path());
            assert!(done.status.success() && fan(folder.path()) == "0.5\n", "{}", said(&done));
        }
        let before = plan(folder.path());
        let folder = refused(folder);
        let after = plan(folder.path());
        let original = |plan: &Value| plan["outputs"][0]["writes"][0]["original"].clone();
        assert_eq!((original(&before), original(&after)), ("0.5\n".into(), "0.5\n".into()), "{after}");
    }
}

#[test]
fn a_start_without_outputs_keeps_nothing_that_was_carried_out() {
    let folder = killed(folder(), RESTORES);
    let done = safe(folder.path());
    assert!(done.status.success() && plan(folder.path())["outputs"][0]["written"] == true, "{}", said(&done));
    let mut running = start_in(folder, NONE, &[]);
    running.wait_until_granted();
    running.wait_for("its plan is empty", |running| plan(running.folder())["outputs"] == json!([]));
    running.signal("TERM");
    let ended = running.wait();
    let done = safe(ended.folder.path());
    assert!(ended.status.success() && done.status.success(), "{}{}", ended.describe(), said(&done));
}

/// The folder of a killed foreground run, with a plan of this output.
fn left_in_foreground(place: &Path, pid: u32, output: &Value) -> PathBuf {
    use std::os::unix::fs::DirBuilderExt;
    let folder = place.join("hertzd").join(pid.to_string());
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder).unwrap();
    fs::write(folder.join("safe-plan.json"), json!({"version": 1, "pid": pid, "outputs": [output]}).to_string())
        .unwrap();
    folder
}

fn in_foreground(place: &Path) -> Command {
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", place);
    command
}

#[test]
fn what_a_device_owes_that_is_away_is_not_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let away = "/sys/class/hwmon/hwmon4000000/pwm1";
    let write = json!({"to": "file", "path": away, "witness": null, "text": "255\n", "cut": false});
    left_in_foreground(place.path(), 4_000_000_001, &json!({"task": "fan", "writes": [write]}));
    let owed = |place: &Path| -> Vec<String> {
        let folders = fs::read_dir(place.join("hertzd")).unwrap().flatten().map(|entry| entry.path());
        let tasks = folders.filter(|folder| plan(folder)["outputs"][0]["writes"][0]["path"] == away);
        tasks.map(|folder| folder.display().to_string()).collect()
    };
    let config = place.path().join("test.toml");
    fs::write(&config, NONE).unwrap();
    for _ in 0..2 {
        let run = in_foreground(place.path()).args(["run", "--for", "100ms", "--json"]).arg(&config).output().unwrap();
        let text = said(&run);
        assert!(text.contains("fan: its safe value, 255 to /sys/"), "{text}");
        assert_eq!(owed(place.path()).len(), 1, "{text}");
        let done = in_foreground(place.path()).arg("safe").output().unwrap();
        assert!(done.status.code() == Some(1) && said(&done).contains(away), "{}", said(&done));
    }
}

/// Kills a foreground run of this place while its output holds 0.75. Returns its files, and the folder with its plan.
fn killed_in_foreground(place: &Path) -> (TempDir, PathBuf) {
    let mut running = run_in(folder(), in_foreground(place), RESTORES, &[]);
    running.wait_for("it is live", |running| fan(running.folder()) == "0.75\n");
    let left = place.join("hertzd").join(running.pid().to_string());
    (kill(running), left)
}

/// The configuration of the next run, which drives the output with another value.
fn next() -> String {
    RESTORES.replace("0.75", "0.875")
}

fn is_live(running: &Running) -> bool {
    fan(running.folder()) == "0.875\n"
}

fn end(running: Running) {
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success() && fan(ended.folder.path()) == "0.5\n", "{}", ended.describe());
}

#[test]
fn a_start_waits_for_one_that_takes_over_what_is_left() {
    let place = tempfile::tempdir().unwrap();
    let (files, _) = killed_in_foreground(place.path());
    let turn = fs::File::open(place.path().join("hertzd")).unwrap();
    turn.lock().unwrap();
    let mut running = run_in(files, in_foreground(place.path()), &next(), &[]);
    running
        .wait_for("it waits", |running| running.stderr().contains("waiting for another start of hertzd, which has "));
    turn.unlock().unwrap();
    running.wait_for("it is live", is_live);
    running.wait_for("it keeps no other waiting", |_| turn.try_lock().is_ok());
    end(running);
}

/// The other run was killed after this one began.
#[test]
fn a_reload_gives_its_output_what_was_there_before_a_kill() {
    let place = tempfile::tempdir().unwrap();
    let mut other = run_in(folder(), in_foreground(place.path()), NONE, &[]);
    other.wait_for("it has started", |running| running.stderr().contains("granted"));
    let (files, left) = killed_in_foreground(place.path());
    let output = next().replace(program::HERE, files.path().to_str().unwrap());
    fs::write(other.folder().join("test.toml"), format!("{NONE}{output}")).unwrap();
    other.signal("HUP");
    other.wait_for("it is live", |_| fan(files.path()) == "0.875\n");
    other.wait_for("the plan is its own", |_| !left.join("safe-plan.json").exists());
    other.signal("TERM");
    let ended = other.wait();
    assert!(ended.status.success() && fan(files.path()) == "0.5\n", "{}", ended.describe());
}

/// It searched for left plans while the owner still lived.
#[test]
fn a_start_under_which_the_owner_of_its_target_is_killed_is_to_be_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let mut owner = run_in(folder(), in_foreground(place.path()), RESTORES, &[]);
    owner.wait_for("it is live", |running| fan(running.folder()) == "0.75\n");
    let started = tempfile::tempdir().unwrap();
    let (path, config) =
        (started.path().join("config"), next().replace(program::HERE, owner.folder().to_str().unwrap()));
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut command = in_foreground(place.path());
    command.arg("run").arg(&path);
    let mut start = program::start(started, command);
    let mut writer = program::block_reader(&mut start, &path);
    let files = kill(owner);
    writer.write_all(config.as_bytes()).unwrap();
    drop(writer);
    let refused = start.wait();
    assert_eq!(refused.status.code(), Some(70), "{}", refused.describe());
    assert!(
        refused.stderr.contains("fan: a hertzd that had the target of its output was killed"),
        "{}",
        refused.describe()
    );
    assert_eq!(fan(files.path()), "0.75\n", "it is owed");
    let mut again = run_in(files, in_foreground(place.path()), &next(), &[]);
    again.wait_for("it is live", is_live);
    end(again);
}

/// The plan is locked as by a running `hertzd safe`.
#[test]
fn a_start_beside_who_has_a_plan_of_the_foreground_knows_what_was_there_before() {
    let place = tempfile::tempdir().unwrap();
    let (files, left) = killed_in_foreground(place.path());
    let held = fs::File::options().write(true).open(left.join("safe-plan.json")).unwrap();
    assert!(lock_as_hertzd(&held));
    let mut running = run_in(files, in_foreground(place.path()), &next(), &[]);
    running.wait_for("it is live", is_live);
    let said = format!("process {} still has the plan of safe values locked", std::process::id());
    assert!(running.stderr().contains(&said), "{}", running.stderr());
    end(running);
    assert_eq!(plan(&left)["outputs"][0]["writes"][0]["original"], "0.5\n");
}

/// One start has taken over both plans, and hangs for longer than the other waits: the configuration that it reads is never written.
#[test]
fn of_two_starts_each_gives_back_what_was_there_before_a_kill() {
    let place = tempfile::tempdir().unwrap();
    let (first, _) = killed_in_foreground(place.path());
    let (second, _) = killed_in_foreground(place.path());
    let (path, config) = (first.path().join("config"), next().replace(program::HERE, first.path().to_str().unwrap()));
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut command = in_foreground(place.path());
    command.arg("run").arg(&path).args(["--stop-timeout", "60s"]);
    let mut first = program::start(first, command);
    let mut writer = program::block_reader(&mut first, &path);
    let mut second = run_in(second, in_foreground(place.path()), &next(), &[]);
    second.wait_for("it does not wait for ever", is_live);
    writer.write_all(config.as_bytes()).unwrap();
    drop(writer);
    first.wait_for("it is live", is_live);
    end(second);
    let plan_of_first = place.path().join("hertzd").join(first.pid().to_string());
    let planned = |folder: &Path| plan(folder)["outputs"].as_array().map(Vec::len);
    first.wait_for("it owes no other output's value", |_| planned(&plan_of_first) == Some(1));
    end(first);
}

#[test]
fn what_is_owed_is_tried_once_more_at_the_end() {
    let folder = killed(folder(), RESTORES);
    let path = folder.path().join("fan");
    let theirs = next().replace("@HERE@/fan", path.to_str().unwrap());
    let mut other = start_in(tempfile::tempdir().unwrap(), &theirs, &[]);
    other.wait_for("it has the target", |_| fan(folder.path()) == "0.875\n");
    let mut running = start_in(folder, NONE, &[]);
    running.wait_until_granted();
    running.wait_for("it has failed", |running| reason(running.folder()).contains("owed since an earlier run"));
    // Stop it until the next try.
    running.signal("STOP");
    other.signal("TERM");
    other.wait();
    running.signal("TERM");
    running.signal("CONT");
    let ended = running.wait();
    let is_safe = ended.status.success() && fan(ended.folder.path()) == "0.5\n";
    // On a busy machine the write may be given up.
    let is_said = ended.status.code() == Some(1) && ended.stderr.contains("the write has not returned");
    assert!(is_safe || is_said, "{}", ended.describe());
}

/// The kernel gives a returning device another number, and may give its old number to another device.
#[test]
fn what_a_device_is_left_with_is_written_under_its_new_number() {
    let start = |folder: &Path| {
        fs::write(folder.join("test.toml"), NONE).unwrap();
        let run = ["run", "test.toml", "--for", "100ms", "--json"];
        Command::new(HERTZD).current_dir(folder).env("RUNTIME_DIRECTORY", folder).args(run).output().unwrap()
    };
    let ways: [fn(&Path) -> Output; 2] = [safe, start];
    for carry_out in ways {
        let folder = tempfile::tempdir().unwrap();
        let chip = |chip: &str| folder.path().canonicalize().unwrap().join("usb1").join(chip);
        for (at, name) in [("hwmon3", "other"), ("hwmon7", "fan")] {
            fs::create_dir_all(chip(at)).unwrap();
            fs::write(chip(at).join("name"), format!("{name}\n")).unwrap();
            fs::write(chip(at).join("pwm1"), "100\n").unwrap();
        }
        let (path, name) = (chip("hwmon3").join("pwm1"), chip("hwmon3").join("name"));
        let write = json!({"to": "file", "path": path, "witness": [name, "fan"], "text": "255\n", "cut": false});
        let outputs = json!([{"task": "fan", "writes": [write]}]);
        let plan = json!({"version": 1, "pid": 4_000_000_001_u32, "outputs": outputs});
        let at = folder.path().join("safe-plan.json");
        fs::write(&at, plan.to_string()).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o600)).unwrap();
        let text = said(&carry_out(folder.path()));
        let held = ["hwmon3", "hwmon7"].map(|at| fs::read_to_string(chip(at).join("pwm1")).unwrap());
        assert_eq!(held, ["100\n", "255\n"], "{text}");
    }
}

#[test]
fn all_plans_that_cannot_be_read_are_named() {
    let place = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for pid in [4_000_000_001, 4_000_000_002] {
        let folder = left_in_foreground(place.path(), pid, &Value::Null);
        all.push(folder.join("safe-plan.json").display().to_string());
    }
    let names_all = |text: &str| all.iter().all(|path| text.contains(path.as_str()));
    let done = in_foreground(place.path()).arg("safe").output().unwrap();
    assert!(done.status.code() == Some(1) && names_all(&said(&done)), "{}", said(&done));
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("s");
    let mut running = run_in(files, in_foreground(place.path()), NONE, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    let reason = || program::snapshot(&socket)["reason"].as_str().unwrap_or_default().to_owned();
    running.wait_for("status names them", |_| socket.exists() && names_all(&reason()));
    all.iter().for_each(|path| fs::remove_file(path).unwrap());
    running.wait_for("it is well without them", |_| !reason().contains("plan"));
}

#[test]
fn a_plan_that_was_kept_in_the_directory_of_a_dead_run_stays() {
    let place = tempfile::tempdir().unwrap();
    let dead = left_in_foreground(place.path(), 4_000_000_001, &Value::Null);
    let kept = dead.join("safe-plan.json.prev");
    fs::rename(dead.join("safe-plan.json"), &kept).unwrap();
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("s");
    let mut running = run_in(files, in_foreground(place.path()), NONE, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    let reason = || program::snapshot(&socket)["reason"].as_str().unwrap_or_default().to_owned();
    let is_named = |_: &Running| socket.exists() && reason().contains(&kept.display().to_string());
    running.wait_for("status names it", is_named);
    assert!(kept.exists());
    fs::remove_file(&kept).unwrap();
    running.wait_for("it is well without it", |_| !reason().contains("plan"));
    let next =
        in_foreground(place.path()).args(["run", "--for", "100ms"]).arg(running.folder().join("test.toml")).output();
    assert!(!dead.exists(), "{}", said(&next.unwrap()));
}

#[test]
fn status_names_the_plan_that_a_start_has_kept() {
    let folder = folder();
    fs::write(folder.path().join("safe-plan.json"), "{").unwrap();
    let mut running = start_in(folder, NONE, &[]);
    running.wait_until_granted();
    let kept = running.folder().join("safe-plan.json.prev");
    running.wait_for("it is named", |running| reason(running.folder()).contains(&kept.display().to_string()));
    fs::remove_file(&kept).unwrap();
    running.wait_for("it is well", |running| !reason(running.folder()).contains("plan"));
}

/// A write that no output makes does not make hertzd forget its output, and keeps no other output from its safe value.
#[test]
fn a_plan_with_a_write_that_is_refused_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let files = folder();
    fs::write(files.path().join("valve"), "0.75\n").unwrap();
    let write = |name: &str, text: &str| {
        let path = files.path().canonicalize().unwrap().join(name);
        json!({"to": "file", "path": path, "witness": null, "text": text, "cut": true, "original": null})
    };
    let outputs = json!([
        {"task": "fan", "writes": [write("fan", "3\u{b}\n")]},
        {"task": "valve", "writes": [write("valve", "1\n")]},
    ]);
    let plan = json!({"version": 1, "pid": 4_000_000_001_u32, "outputs": outputs});
    let dead = left_in_foreground(place.path(), 4_000_000_001, &Value::Null);
    fs::write(dead.join("safe-plan.json"), plan.to_string()).unwrap();
    let (own, kept) = (folder(), dead.join("safe-plan.json.prev"));
    fs::write(own.path().join("safe-plan.json"), plan.to_string()).unwrap();
    let valve = files.path().join("valve");
    let is_kept = |reason: &str, kept: &Path| {
        reason.contains(&kept.display().to_string())
            && reason.contains("fan: no output writes that: \"3\\u{b}\\n\" is no number")
    };
    // In a service's runtime directory.
    let mut running = start_in(own, NONE, &[]);
    running.wait_until_granted();
    running.wait_for("the other one is written", |_| fs::read_to_string(&valve).unwrap() == "1\n");
    let its = running.folder().join("safe-plan.json.prev");
    running.wait_for("it is kept", |running| is_kept(&reason(running.folder()), &its));
    assert_eq!(fan(files.path()), "0.5\n");
    running.signal("TERM");
    assert_eq!(running.wait().status.code(), Some(1));
    // In the foreground, twice.
    for start in 0..2 {
        fs::write(&valve, "0.75\n").unwrap();
        let own = tempfile::tempdir().unwrap();
        let socket = own.path().join("s");
        let mut running =
            run_in(own, in_foreground(place.path()), NONE, &["--status-socket", socket.to_str().unwrap()]);
        running.wait_until_granted();
        let reason = || program::snapshot(&socket)["reason"].as_str().unwrap_or_default().to_owned();
        let known = if start == 0 { "fan: no output writes that" } else { "an earlier start has kept it as" };
        let names = |_: &Running| reason().contains(known) && reason().contains(&kept.display().to_string());
        running.wait_for("it is named", |running| socket.exists() && names(running));
        assert_eq!(fs::read_to_string(&valve).unwrap(), ["1\n", "0.75\n"][start], "it was written once");
        running.signal("TERM");
        running.wait();
    }
    assert!(kept.exists());
}

/// A text that a plan could not restore is not accepted.
#[test]
fn a_text_that_no_plan_takes_is_refused_at_the_start() {
    let folder = folder();
    for text in ["3\u{b}\n", "\u{a0}3\n", "\n"] {
        fs::write(folder.path().join("fan"), text).unwrap();
        let config = folder.path().join("test.toml");
        fs::write(&config, RESTORES.replace("@HERE@", folder.path().to_str().unwrap())).unwrap();
        for command in [&["run", "--for", "1s"][..], &["check"]] {
            let mut refused = Command::new(HERTZD);
            let refused = refused.args(command).arg(&config).env("RUNTIME_DIRECTORY", folder.path()).output().unwrap();
            let text = said(&refused);
            assert!(refused.status.code() == Some(78) && text.contains("error: task.fan: "), "{command:?}: {text}");
        }
        assert_eq!(fan(folder.path()), text);
    }
}

/// White space around a number belongs to the original text.
#[test]
fn the_very_text_is_restored_after_a_kill() {
    for text in ["42\r\n", " 42\n\n", "42"] {
        let folder = folder();
        fs::write(folder.path().join("fan"), text).unwrap();
        let folder = killed(folder, RESTORES);
        let done = safe(folder.path());
        assert!(done.status.success() && fan(folder.path()) == text, "{text:?}: {}", said(&done));
    }
}

#[test]
#[cfg_attr(not(feature = "i2c"), ignore = "without the feature i2c no register is an output")]
fn an_output_that_no_other_process_could_make_safe_is_refused() {
    let folder = folder();
    let bus = folder.path().join("i2c-9");
    fs::write(&bus, "").unwrap();
    let config = format!(
        "[task.dac]\nkind = \"output\"\nrate = 10\nbus = {bus:?}\naddress = 0x48\nregister = 1\ntype = \"u8\"\ninput = 1\nsafe = 0\n"
    );
    fs::write(folder.path().join("test.toml"), &config).unwrap();
    for command in ["run", "check"] {
        let refused = Command::new(HERTZD).arg(command).arg(folder.path().join("test.toml")).output().unwrap();
        let text = said(&refused);
        assert!(refused.status.code() == Some(78) && text.contains("error: task.dac: bus"), "{text}");
        assert!(
            text.contains("`hertzd safe` could not make register 0x01 of chip 0x48 on ")
                && text.contains("is not in /dev"),
            "{text}"
        );
    }
}

/// An output to the file of the same name: its safe value is 1, its input 0.75.
fn output(name: &str) -> String {
    format!("[task.{name}]\nkind = \"output\"\nrate = 100\ninput = 0.75\npath = \"@HERE@/{name}\"\nsafe = 1\n")
}

/// Like [`start_in`], with devices that misbehave according to the files in its folder "faults", and with a log of the builder's actions.
fn start_with_faults(folder: TempDir, config: &str) -> Running {
    let command = with_faults(folder.path());
    run_in(folder, command, config, &["--log-level", "debug"])
}

fn with_faults(folder: &Path) -> Command {
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder).env("DEVICE_FAULTS", folder.join("faults"));
    command.env("LD_PRELOAD", program::preload(folder, "device"));
    command
}

/// A folder with faults, and with these files, which hold 0.75. A killed run has left the first file.
fn left_with_faults(files: &[&str], faults: &[&str]) -> TempDir {
    let folder = killed(folder(), &output("fan"));
    files.iter().for_each(|file| fs::write(folder.path().join(file), "0.75\n").unwrap());
    fs::create_dir(folder.path().join("faults")).unwrap();
    faults.iter().for_each(|fault| fs::write(folder.path().join("faults").join(fault), "").unwrap());
    folder
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_stop_during_a_start_makes_safe_what_is_left_or_says_that_it_is_not() {
    let folder = left_with_faults(&["fan", "slow"], &["slow.hangs"]);
    let mut running = start_with_faults(folder, &(output("fan") + &output("slow")));
    running.wait_for("it opens the slow one", |running| running.stderr().contains("opening what task slow uses"));
    running.signal("TERM");
    fs::remove_file(running.folder().join("faults/slow.hangs")).unwrap();
    let ended = running.wait();
    // On a busy machine the write may be given up.
    let is_safe = fan(ended.folder.path()) == "1\n" && ended.status.success();
    let is_said = ended.status.code() == Some(1) && ended.stderr.contains("still owed, those of fan: `hertzd safe`");
    assert!(is_safe || is_said, "{}", ended.describe());
}

/// Its configuration is never written.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_stop_writes_what_is_left_or_says_it_also_before_the_configuration_is_read() {
    program::at_once([false, true], |is_broken| {
        let folder = left_with_faults(&["fan"], if is_broken { &["fan.broken"] } else { &[] });
        let path = folder.path().join("config");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut command = with_faults(folder.path());
        command.arg("run").arg(&path);
        let mut running = program::start(folder, command);
        let _writer = program::block_reader(&mut running, &path);
        running.signal("TERM");
        let ended = running.wait();
        let owed = "still owed, those of fan: `hertzd safe` writes them, or the next start";
        let is_owed = ended.status.code() == Some(1) && ended.stderr.contains(owed);
        let is_safe = ended.status.success() && fan(ended.folder.path()) == "1\n";
        assert_eq!((is_owed, is_safe), (is_broken, !is_broken), "{}", ended.describe());
        let done = safe(ended.folder.path());
        assert!(done.status.success() && fan(ended.folder.path()) == "1\n", "{}", said(&done));
    });
}

fn held(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// The folder of a run with these outputs that was killed while they held 0.75; before, they held 0.5. Reading the first one hangs.
fn left_beside_one_that_hangs(config: &str, names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    names.iter().for_each(|name| fs::write(folder.path().join(name), "0.5\n").unwrap());
    let mut running = start_in(folder, config, &[]);
    running.wait_for("all are live", |running| names.iter().all(|name| held(running.folder(), name) == "0.75\n"));
    let folder = kill(running);
    fs::create_dir(folder.path().join("faults")).unwrap();
    fs::write(folder.path().join("faults").join(names[0]).with_extension("rhangs"), "").unwrap();
    folder
}

/// Neither outputs that are opened after it, nor open ones, nor those that no section has any more.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_device_that_hangs_while_it_is_opened_keeps_no_other_from_its_safe_value() {
    let restores = |name: &str| output(name).replace("safe = 1", "safe = \"restore\"");
    let keeps = output("keeps") + "start = \"keep\"\n";
    let all = output("slow") + &restores("fan") + &keeps + &output("gone");
    for is_first in [true, false] {
        let folder = left_beside_one_that_hangs(&all, &["slow", "fan", "keeps", "gone"]);
        let left_by = plan(folder.path())["pid"].as_u64().unwrap();
        let [slow, others] = [output("slow"), restores("fan") + &keeps].map(|text| text.replace("0.75", "0.875"));
        let mut running = start_with_faults(folder, &if is_first { slow + &others } else { others + &slow });
        running.wait_for("the others are safe", |running| {
            (held(running.folder(), "fan"), held(running.folder(), "gone")) == ("0.5\n".into(), "1\n".into())
        });
        // The value it continues from was read earlier.
        running.wait_for("it is not started with its safe value", |running| {
            held(running.folder(), "keeps") == if is_first { "1\n" } else { "0.75\n" }
        });
        running.wait_for("status names the one that hangs", |running| {
            let left = if is_first { "slow" } else { "slow, keeps" };
            reason(running.folder())
                .starts_with(&format!("{left}: the safe values that an earlier run has left are not written yet"))
        });
        let socket = running.folder().join("status.sock");
        assert_eq!(program::status(&socket, &[]).status.code(), Some(1));
        let done = safe(running.folder());
        let locked = format!("process {} has the plan locked that process {left_by} has left", running.pid());
        assert!(done.status.code() == Some(77) && said(&done).contains(&locked), "{}", said(&done));
        assert!(!said(&done).contains("when it is stopped"), "{}", said(&done));
        fs::remove_file(running.folder().join("faults/slow.rhangs")).unwrap();
        running.wait_for("all are live", |running| {
            ["slow", "fan", "keeps"].iter().all(|name| held(running.folder(), name) == "0.875\n")
        });
        running.wait_for("status names no output", |running| owes_nothing(running.folder()));
        assert_eq!(plan(running.folder())["outputs"].as_array().map(Vec::len), Some(3), "nothing is owed");
        running.signal("TERM");
        let ended = running.wait();
        let [slow, fan, gone] = ["slow", "fan", "gone"].map(|name| held(ended.folder.path(), name));
        assert_eq!([slow, fan, gone], ["1\n", "0.5\n", "1\n"], "{}", ended.describe());
        assert!(ended.status.success(), "{}", ended.describe());
    }
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_stop_of_a_start_that_hangs_writes_what_it_can() {
    let all = output("slow") + &output("fan");
    program::at_once([false, true], |is_attribute| {
        let folder = left_beside_one_that_hangs(&all, &["slow", "fan"]);
        if is_attribute {
            // A file's content is not checked before a write, so this also writes to the target that is being opened.
            let (path, text) = (folder.path().join("safe-plan.json"), plan(folder.path()).to_string());
            fs::write(path, text.replace("\"cut\":true", "\"cut\":false")).unwrap();
        }
        let mut running = start_with_faults(folder, &all);
        running.wait_for("it hangs", |running| running.stderr().contains("opening what task slow uses"));
        running.signal("TERM");
        let ended = running.wait();
        let is_safe = |name: &str| held(ended.folder.path(), name).starts_with("1\n");
        let holds = (ended.status.code(), is_safe("slow"), is_safe("fan"));
        assert_eq!(holds, (Some(i32::from(!is_attribute)), is_attribute, true), "{}", ended.describe());
        let is_said = ended.stderr.contains("still owed, those of slow: `hertzd safe`");
        assert_eq!(is_said, !is_attribute, "{}", ended.describe());
        if !is_attribute {
            let done = safe(ended.folder.path());
            assert!(done.status.success() && held(ended.folder.path(), "slow") == "1\n", "{}", said(&done));
        }
    });
}

/// The builder thread waits for a device, and retries nothing.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_reload_that_hangs_keeps_nothing_from_its_safe_value() {
    let mut running = start_with_faults(left_with_faults(&["fan", "slow"], &["fan.broken", "slow.rhangs"]), NONE);
    running.wait_for("it is owed", |running| reason(running.folder()).contains("owed since an earlier run"));
    let config = NONE.to_owned() + &output("slow");
    let here = running.folder();
    fs::write(here.join("test.toml"), config.replace(program::HERE, here.to_str().unwrap())).unwrap();
    running.signal("HUP");
    running.wait_for("it hangs", |running| running.stderr().contains("opening what task slow uses"));
    fs::remove_file(running.folder().join("faults/fan.broken")).unwrap();
    running.wait_for("it is safe", |running| fan(running.folder()) == "1\n");
    running.wait_for("nothing is owed", |running| owes_nothing(running.folder()));
    fs::remove_file(running.folder().join("faults/slow.rhangs")).unwrap();
    running.wait_for("the new one is live", |running| held(running.folder(), "slow") == "0.75\n");
    running.wait_for("nothing is planned twice", |running| {
        plan(running.folder())["outputs"].as_array().map(Vec::len) == Some(1)
    });
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success() && fan(ended.folder.path()) == "1\n", "{}", ended.describe());
}

/// One plan has a target that accepts a write, and whose read then hangs.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_read_that_hangs_keeps_safe_from_no_other_plan() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path().canonicalize().unwrap();
    fs::create_dir(here.join("faults")).unwrap();
    let plans = [4_000_000_001_u32, 4_000_000_002, 4_000_000_003].map(|pid| {
        let path = here.join(format!("pwm{pid}"));
        fs::write(&path, "128\n").unwrap();
        let write =
            json!({"to": "file", "path": path, "witness": null, "text": "255\n", "cut": false, "original": "9"});
        let output = json!({"task": format!("fan{pid}"), "writes": [write]});
        (path, left_in_foreground(place.path(), pid, &output))
    });
    fs::write(here.join("faults/pwm4000000002.rhangs"), "").unwrap();
    let mut command = in_foreground(place.path());
    command.env("DEVICE_FAULTS", here.join("faults")).env("LD_PRELOAD", program::preload(&here, "device"));
    let done = command.arg("safe").output().unwrap();
    let text = said(&done);
    for (path, _) in &plans {
        assert_eq!(fs::read_to_string(path).unwrap(), "255\n", "{text}");
        assert!(text.contains(&format!("wrote 255 to {}", path.display())), "{text}");
    }
    assert!(done.status.code() == Some(1) && text.contains("fan4000000002: its safe value was written, but"), "{text}");
    assert!(text.contains("a read has not returned within 4.00 s") && !text.contains("fan4000000001: its"), "{text}");
    assert_eq!(plans.map(|(_, folder)| folder.join("safe-plan.json").exists()), [false, true, false], "{text}");
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn an_output_that_hangs_at_the_start_holds_up_no_other_and_a_stop_says_what_is_owed() {
    let folder = left_with_faults(&["fan", "valve"], &["fan.takes", "fan.held"]);
    let mut running = start_with_faults(folder, &(output("fan") + &output("valve")));
    let valve = |folder: &Path| fs::read_to_string(folder.join("valve")).unwrap();
    running.wait_for("the other one is safe", |running| valve(running.folder()) == "1\n");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.status.code(), valve(ended.folder.path())), (Some(1), "1\n".into()), "{}", ended.describe());
    let owed = "still owed, those of fan: `hertzd safe` writes them, or the next start";
    assert!(ended.stderr.contains(owed) && ended.stderr.contains("is stuck while"), "{}", ended.describe());
    let done = safe(ended.folder.path());
    assert!(done.status.success() && fan(ended.folder.path()) == "1\n", "{}", said(&done));
}

#[test]
fn a_start_that_is_refused_says_what_is_left() {
    let folder = killed(folder(), &output("fan"));
    let ended = start_in(folder, "[task.t]\nkind = \"nonsense\"\nrate = 1\n", &[]).wait();
    assert_eq!((ended.status.code(), fan(ended.folder.path())), (Some(78), "0.75\n".into()), "{}", ended.describe());
    assert!(ended.stderr.contains("are still owed, those of fan: `hertzd safe` writes them"), "{}", ended.describe());
    let done = safe(ended.folder.path());
    assert!(done.status.success() && fan(ended.folder.path()) == "1\n", "{}", said(&done));
    let ended = start_in(ended.folder, "[task.t]\nkind = \"nonsense\"\nrate = 1\n", &[]).wait();
    assert!(ended.status.code() == Some(78) && !ended.stderr.contains("owed"), "{}", ended.describe());
}

#[test]
fn a_target_that_a_heartbeat_has_now_is_not_owed() {
    let folder = killed(folder(), &output("fan"));
    let pulse = "[task.pulse]\nkind = \"heartbeat\"\nrate = 100\npath = \"@HERE@/fan\"\n";
    let mut running = start_in(folder, &(output("other") + pulse), &[]);
    for wanted in ["1\n", "0\n", "1\n"] {
        running.wait_for(&format!("it beats: {wanted:?}"), |running| fan(running.folder()) == wanted);
    }
    let planned = |folder: &Path| plan(folder)["outputs"].as_array().map(Vec::len);
    running.wait_for("one output is planned", |running| planned(running.folder()) == Some(1));
    assert!(!reason(running.folder()).contains("owed"), "{}", reason(running.folder()));
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success() && !ended.stderr.contains("owed"), "{}", ended.describe());
}

/// The file of a left output is missing. Either its folder is missing, or the folder is empty, as an unmounted mount point is; or only the
/// file is gone.
#[test]
fn a_file_on_a_file_system_that_is_away_is_owed_and_one_that_was_deleted_is_not() {
    let away: [fn(&Path); 3] = [
        |folder| fs::remove_dir_all(folder).unwrap(),
        |folder| fs::remove_file(folder.join("fan")).unwrap(),
        |folder| fs::rename(folder.join("fan"), folder.join("other")).unwrap(),
    ];
    for (is_owed, away) in [false, true, false].into_iter().zip(away) {
        let folder = tempfile::tempdir().unwrap();
        let mounted = folder.path().join("mounted");
        fs::create_dir(&mounted).unwrap();
        let config = output("fan").replace("@HERE@/fan", "@HERE@/mounted/fan");
        let mut running = start_in(folder, &config, &[]);
        running.wait_for("it is live", |_| fan(&mounted) == "0.75\n");
        let folder = kill(running);
        away(&mounted);
        let ended = start_in(folder, NONE, &["--for", "100ms"]).wait();
        let is_planned = plan(ended.folder.path())["outputs"] != json!([]);
        assert_eq!((is_planned, ended.status.success()), (is_owed, !is_owed), "{}", ended.describe());
        fs::create_dir_all(&mounted).unwrap();
        fs::write(mounted.join("fan"), "0.75\n").unwrap();
        let done = safe(ended.folder.path());
        let holds = if is_owed { "1\n" } else { "0.75\n" };
        assert_eq!((fan(&mounted).as_str(), done.status.code()), (holds, Some(0)), "{}", said(&done));
    }
}

/// A file system mounted at two paths, one of which comes and goes.
struct Stick {
    kept: PathBuf,
    path: PathBuf,
}

impl Stick {
    fn new(folder: &Path) -> Option<Self> {
        let stick = Self { kept: folder.join("kept"), path: folder.join("media/stick") };
        [&stick.kept, &stick.path, &folder.join("media/other")]
            .iter()
            .for_each(|path| fs::create_dir_all(path).unwrap());
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "hertzd-test"]).arg(&stick.kept);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            program::skip("mounting a file system of the test's own needs root");
            return None;
        }
        Some(stick)
    }

    fn plug_in(&self) {
        let mut mount = Command::new("mount");
        assert!(mount.arg("--bind").args([&self.kept, &self.path]).status().unwrap().success());
    }

    fn unplug(&self) {
        assert!(Command::new("umount").arg("-l").arg(&self.path).status().unwrap().success());
    }
}

impl Drop for Stick {
    fn drop(&mut self) {
        for path in [&self.path, &self.kept] {
            let _ = Command::new("umount").arg("-l").arg(path).output();
        }
    }
}

/// The mount point vanishes too, beside another one that stays; or it stays, with other files in it.
#[test]
fn a_file_on_a_file_system_that_is_away_is_owed_beside_other_files_too() {
    for with_mount_point in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let Some(stick) = Stick::new(folder.path()) else { return };
        fs::write(stick.path.join("below"), "").unwrap();
        stick.plug_in();
        let config = output("fan").replace("@HERE@/fan", "@HERE@/media/stick/fan");
        let mut running = start_in(folder, &config, &[]);
        running.wait_for("it is live", |_| fan(&stick.path) == "0.75\n");
        let folder = kill(running);
        stick.unplug();
        if with_mount_point {
            fs::remove_dir_all(&stick.path).unwrap();
        }
        let ended = start_in(folder, NONE, &["--for", "100ms"]).wait();
        let planned = plan(ended.folder.path())["outputs"][0]["task"].clone();
        assert_eq!((planned, ended.status.success()), (json!("fan"), false), "{}", ended.describe());
        fs::create_dir_all(&stick.path).unwrap();
        stick.plug_in();
        let done = safe(ended.folder.path());
        assert_eq!((fan(&stick.path).as_str(), done.status.code()), ("1\n", Some(0)), "{}", said(&done));
        // A file that was deleted from the file system is not owed.
        let folder = killed_at(ended.folder, &config, &stick.path);
        fs::rename(stick.path.join("fan"), stick.path.join("other")).unwrap();
        let ended = start_in(folder, NONE, &["--for", "100ms"]).wait();
        assert!(ended.status.success() && plan(ended.folder.path())["outputs"] == json!([]), "{}", ended.describe());
        drop(stick); // before its folder is removed
    }
}

/// A file made there would not be on the file system that still holds a live value.
#[test]
fn no_file_is_made_in_a_mount_point_while_its_file_system_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let Some(stick) = Stick::new(folder.path()) else { return };
    stick.plug_in();
    let config = output("fan").replace("@HERE@/fan", "@HERE@/media/stick/fan");
    let mut running = start_in(folder, &config, &[]);
    running.wait_for("it is live", |_| fan(&stick.path) == "0.75\n");
    stick.unplug();
    running.wait_for("it is lost", |running| reason(running.folder()).contains("its target is gone"));
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.status.code(), stick.path.join("fan").exists()), (Some(70), false), "{}", ended.describe());
    stick.plug_in();
    assert_eq!(fan(&stick.path), "0.75\n");
    let done = safe(ended.folder.path());
    assert_eq!((fan(&stick.path).as_str(), done.status.code()), ("1\n", Some(0)), "{}", said(&done));
    drop(stick); // before its folder is removed
}

/// Owed since a run was killed, or since a reload removed the output.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_heartbeat_stands_still_while_a_safe_value_is_owed() {
    let folder = left_with_faults(&["fan"], &["fan.broken"]);
    let pulse = "[worker.main]\n[worker.pulse]\n[task.pulse]\nkind = \"heartbeat\"\nrate = 100\npath = \"@HERE@/pulse\"\nworker = \"pulse\"\n";
    let mains = |name: &str| output(name) + "worker = \"main\"\n";
    let config = pulse.to_owned() + &mains("valve");
    let mut running = start_with_faults(folder, &config);
    let pulse = |folder: &Path| fs::read_to_string(folder.join("pulse")).unwrap_or_default();
    // The heartbeat's values: whether it beats, and how many outputs are not live.
    let values = |folder: &Path| {
        let snapshot = program::snapshot(&folder.join("status.sock"));
        let tasks = snapshot["tasks"].as_array().cloned().unwrap_or_default();
        let task = tasks.into_iter().find(|task| task["task"] == "pulse").unwrap_or_default();
        ["beating", "not-live"].map(|name| task["values"][name]["last"].as_f64().unwrap_or(f64::NAN))
    };
    let stands = |running: &mut Running| {
        let valve = |folder: &Path| fs::read_to_string(folder.join("valve")).unwrap_or_default();
        running.wait_for("the other output follows", |running| valve(running.folder()) == "0.75\n");
        running.wait_for("it stands still", |running| values(running.folder()) == [0.0, 1.0]);
    };
    let beats = |running: &mut Running| {
        for wanted in ["1\n", "0\n", "1\n"] {
            running.wait_for(&format!("it beats: {wanted:?}"), |running| pulse(running.folder()) == wanted);
        }
    };
    running.wait_for("it is owed", |running| reason(running.folder()).contains("owed since an earlier run"));
    stands(&mut running);
    fs::remove_file(running.folder().join("faults/fan.broken")).unwrap();
    running.wait_for("it is safe", |running| fan(running.folder()) == "1\n");
    beats(&mut running);
    // The same through a reload.
    let reload = |running: &Running, config: &str| {
        let here = running.folder();
        fs::write(here.join("test.toml"), config.replace(program::HERE, here.to_str().unwrap())).unwrap();
        let socket = here.join("status.sock");
        let done = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
    };
    reload(&running, &(config.clone() + &mains("fan")));
    running.wait_for("it is live", |running| fan(running.folder()) == "0.75\n");
    beats(&mut running);
    fs::write(running.folder().join("faults/fan.broken"), "").unwrap();
    reload(&running, &config);
    running.wait_for("it is owed", |running| reason(running.folder()).contains("was closed by a reload"));
    stands(&mut running);
    fs::remove_file(running.folder().join("faults/fan.broken")).unwrap();
    running.wait_for("it is safe", |running| fan(running.folder()) == "1\n");
    beats(&mut running);
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.status.success(), "{}", ended.describe());
}
