//! The plan of safe values: it holds what targets held before, and is written again after someone has removed it. `hertzd safe` reads back
//! what it writes by the plan, and carries the plan out with the rights of its owner.

use crate::program;
use crate::program::{HERTZD, Running, pause, run_in};
use hertzd::time::Span;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

const CONFIG: &str = "\
[task.fan]
kind = \"output\"
rate = 100
input = 0.75
path = \"@HERE@/fan\"
safe = 1
safe-after = \"1h\"
";

/// Starts hertzd with a separate runtime directory. Returns also the paths of its plan, and of its status socket, which is elsewhere.
fn start() -> (Running, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, socket) = (folder.path().join("run"), folder.path().join("s"));
    fs::create_dir(&runtime).unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", &runtime);
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, command, CONFIG, &args);
    running.wait_for("it is live", |running| read(&running.folder().join("fan")) == "0.75\n");
    running.wait_for("it can be asked", |_| socket.exists());
    (running, runtime.join("safe-plan.json"), socket)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Kills the run, and waits for the end of its last thread: until then its files are locked.
fn kill(running: &mut Running) {
    running.signal("KILL");
    while !running.has_ended() {
        pause(Span::from_millis(5));
    }
}

fn safe(args: &[&str]) -> Output {
    Command::new(HERTZD).arg("safe").args(args).output().unwrap()
}

fn reason(socket: &Path) -> String {
    program::snapshot(socket)["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_plan_that_was_removed_is_written_again_and_without_one_it_is_not_well() {
    let (mut running, plan, socket) = start();
    let (text, runtime) = (read(&plan), plan.parent().unwrap());
    fs::remove_file(&plan).unwrap();
    running.wait_for("the plan is there again", |_| read(&plan) == text);
    let again = "the plan of safe values was removed, and is written again";
    running.wait_for("it is said", |running| running.stderr().contains(again));
    // The runtime directory is replaced by a file, so nothing can be created there.
    fs::rename(runtime, running.folder().join("away")).unwrap();
    fs::write(runtime, "").unwrap();
    let trouble = "the plan of safe values is gone, or does not have all outputs: it could not be written: ";
    running.wait_for("it is not well", |_| reason(&socket).contains(trouble));
    fs::remove_file(runtime).unwrap();
    running.wait_for("the plan is there again", |_| read(&plan) == text);
    running.wait_for("it is well", |_| !reason(&socket).contains("the plan of safe values"));
    running
        .wait_for("it is said", |running| running.stderr().contains("the plan of safe values could be written again"));
    // The new plan is locked like any other, and complete.
    let held = safe(&["--plan", plan.to_str().unwrap()]);
    assert_eq!(held.status.code(), Some(77), "{held:?}");
    kill(&mut running);
    let done = safe(&["--plan", plan.to_str().unwrap()]);
    assert!(done.status.success() && read(&running.folder().join("fan")) == "1\n", "{done:?}");
}

#[test]
fn what_was_there_before_lies_in_the_plan() {
    let (mut running, plan, _) = start();
    let found: Value = serde_json::from_str(&read(&plan)).unwrap();
    let write = &found["outputs"][0]["writes"][0];
    assert_eq!((&write["original"], &write["text"]), (&"0.5\n".into(), &"1\n".into()), "{found}");
    kill(&mut running);
    let dry = safe(&["--dry-run", "--plan", plan.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&dry.stdout);
    assert!(text.contains("fan; before hertzd wrote to it, it held 0.5\n"), "{dry:?}");
    assert_eq!(read(&running.folder().join("fan")), "0.75\n");
}

/// An output that writes this number to a file.
fn output(task: &str, path: &Path, text: &str) -> Value {
    json!({"task": task, "writes": [{"to": "file", "path": path, "witness": null, "text": text, "cut": true}]})
}

fn plan_of(outputs: &[Value]) -> String {
    json!({"version": 1, "pid": 0, "outputs": outputs}).to_string()
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn writes_that_do_not_return_are_named_and_hold_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let slow: Vec<_> = (0..40).map(|number| format!("hangs{number}")).collect();
    let paths: Vec<_> = slow.iter().map(String::as_str).chain(["takes"]).map(|name| folder.path().join(name)).collect();
    paths.iter().for_each(|path| fs::write(path, "0.75\n").unwrap());
    let faults = folder.path().join("faults");
    fs::create_dir(&faults).unwrap();
    slow.iter().for_each(|name| fs::write(faults.join(name).with_extension("hangs"), "").unwrap());
    let plan = folder.path().join("plan.json");
    let outputs: Vec<_> = slow
        .iter()
        .map(String::as_str)
        .chain(["quick"])
        .zip(&paths)
        .map(|(task, path)| output(task, path, "1\n"))
        .collect();
    fs::write(&plan, plan_of(&outputs)).unwrap();
    // One after another, the writes would take 80 s.
    let mut command = Command::new("timeout");
    command
        .args(["60", HERTZD])
        .env("DEVICE_FAULTS", &faults)
        .env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let done = command.args(["safe", "--plan"]).arg(&plan).output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text.contains("hangs0: 1 to ") && text.contains("it has not returned within 2.00 s: look at"), "{done:?}");
    assert_eq!(read(paths.last().unwrap()), "1\n");
    let noted: Value = serde_json::from_str(&read(&plan)).unwrap();
    assert_eq!([&noted["outputs"][0]["written"], &noted["outputs"][40]["written"]], [&Value::Null, &true.into()]);
}

/// The same holds without a plan.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn an_output_of_a_configuration_that_does_not_return_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let [hangs, takes, config] = ["hangs", "takes", "c.toml"].map(|name| folder.path().join(name));
    [&hangs, &takes].iter().for_each(|path| fs::write(path, "0.75\n").unwrap());
    let faults = folder.path().join("faults");
    fs::create_dir(&faults).unwrap();
    fs::write(faults.join("hangs.hangs"), "").unwrap();
    let of = |task: &str, path: &Path| {
        format!("[task.{task}]\nkind = \"output\"\nrate = 5\ninput = 0.75\npath = \"{}\"\nsafe = 1\n", path.display())
    };
    fs::write(&config, of("slow", &hangs) + &of("quick", &takes)).unwrap();
    let mut command = Command::new("timeout");
    command
        .args(["60", HERTZD])
        .env("DEVICE_FAULTS", &faults)
        .env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let done = command.arg("safe").arg(&config).env("RUNTIME_DIRECTORY", folder.path()).output().unwrap();
    let (text, wrote) = (String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text.contains("slow: it has not returned within 12.0 s: look at"), "{done:?}");
    assert!(wrote.contains("quick: wrote 1 "), "{done:?}");
    assert_eq!(read(&takes), "1\n");
}

/// If no thread can be created, the main thread does the work.
#[test]
fn safe_values_are_written_where_no_thread_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let [plan, one, two] = ["plan.json", "one", "two"].map(|name| folder.path().join(name));
    [&one, &two].iter().for_each(|path| fs::write(path, "0.75\n").unwrap());
    fs::write(&plan, plan_of(&[output("a", &one, "1\n"), output("b", &two, "1\n")])).unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--nproc=1:1"]);
    let mut hertzd = PathBuf::from(HERTZD);
    if program::is_root() {
        if program::emulation::cannot_be_emulated(program::emulation::OTHER_OWNERS) {
            return;
        }
        // The limit does not apply to root, and counts all threads of a user: this user has no others.
        hertzd = folder.path().join("hertzd");
        program::copy_program(&hertzd);
        for path in [folder.path(), &plan, &one, &two] {
            std::os::unix::fs::chown(path, Some(65_532), Some(65_532)).unwrap();
        }
        command.args(["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"]);
    }
    let done = command.arg(&hertzd).args(["safe", "--plan"]).arg(&plan).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!([&one, &two].map(|path| read(path)), ["1\n", "1\n"]);
}

#[test]
fn a_plan_of_very_many_outputs_is_carried_out() {
    let folder = tempfile::tempdir().unwrap();
    let [plan, fan] = ["plan.json", "fan"].map(|name| folder.path().join(name));
    fs::write(&fan, "0.75\n").unwrap();
    let outputs: Vec<_> = (0..5_000).map(|number| output(&format!("t{number}"), &fan, "1\n")).collect();
    fs::write(&plan, plan_of(&outputs)).unwrap();
    let done = safe(&["--dry-run", "--plan", plan.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("t4999: would write 1 to "), "{:?}", done.stderr);
}

/// An ordinary user, who owns a folder with a plan.
const USER: u32 = 65_534;

/// Writes that a plan must not cause, whoever carries it out: each output's name, its file, the text to write, and the reason for the
/// refusal.
fn plant(folder: &Path) -> Vec<(&'static str, PathBuf, &'static str, &'static str)> {
    let path = |name: &str| folder.join(name);
    fs::write(path("number"), "0.5\n").unwrap();
    std::os::unix::fs::symlink(path("number"), path("link")).unwrap();
    std::os::unix::fs::symlink(folder, path("folder")).unwrap();
    fs::create_dir(path("sticky")).unwrap();
    fs::set_permissions(path("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(path("sticky/twice"), "0.5\n").unwrap();
    fs::hard_link(path("sticky/twice"), path("again")).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    fs::write(path("keys"), "ssh-ed25519 AAAA\n").unwrap();
    fs::write(path("large"), vec![b'7'; 13 << 20]).unwrap();
    vec![
        ("link", path("link"), "1\n", "is a symbolic link"),
        ("through", path("folder/number"), "1\n", "is a symbolic link, or no folder"),
        ("twice", path("sticky/twice"), "1\n", "it has another name too"),
        ("pipe", path("pipe"), "1\n", "it is no file that holds a number"),
        ("keys", path("keys"), "1\n", "it holds something else than a number"),
        ("large", path("large"), "1\n", "it holds more than a number"),
        ("text", path("number"), "ssh-rsa AAAA\n", "\"ssh-rsa AAAA\\n\" is no number"),
        ("dots", folder.join("../x"), "1\n", "is no path that was resolved"),
    ]
}

fn contents(folder: &Path) -> Vec<(PathBuf, u64, String)> {
    let files = ["number", "sticky/twice", "keys", "large"].map(|name| folder.join(name));
    let of = |path: PathBuf| {
        let text: String = read(&path).chars().take(32).collect();
        (path.clone(), fs::metadata(path).unwrap().len(), text)
    };
    files.map(of).into()
}

#[test]
fn only_a_number_is_written_and_only_to_what_an_output_writes_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (planted, plan, fan) = (plant(&folder), folder.join("plan.json"), folder.join("fan"));
    fs::write(&fan, "0.5\n").unwrap();
    let mut outputs: Vec<_> = planted.iter().map(|(task, path, text, _)| output(task, path, text)).collect();
    outputs.push(output("fan", &fan, "1\n"));
    let device = |to: &str, key: &str, rest: Value| {
        let mut write = json!({"to": to, key: "/dev/null", "original": null});
        write.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"task": to, "writes": [write]})
    };
    outputs.push(device("line", "chip", json!({"label": "x", "offset": 1, "high": true})));
    outputs.push(device("register", "bus", json!({"adapter": null, "address": 1, "force": true, "bytes": [1, 2]})));
    fs::write(&plan, plan_of(&outputs)).unwrap();
    let before = contents(&folder);
    let done = safe(&["--plan", plan.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{text}");
    for (task, _, _, why) in &planted {
        let named = text.split("; ").any(|part| part.contains(&format!("{task}: ")) && part.contains(why));
        assert!(named, "{task}: {why}: {text}");
    }
    assert!(text.contains("/dev/null is no I\u{b2}C bus") && text.contains("/dev/null is no GPIO chip"), "{text}");
    assert_eq!((contents(&folder), read(&fan)), (before, "1\n".into()));
    // A plan that is malformed, or might be another user's, is refused too.
    for (make, why) in [
        ("truncate -s 17M", "no plan has more than 16"),
        ("ln -sf /dev/null", "is a symbolic link"),
        ("rm -f; mkfifo", "it is no regular file"),
    ] {
        let other = folder.join("other.json");
        let script = make.replace("; ", " \"$0\" && ") + " \"$0\"";
        assert!(Command::new("sh").args(["-c", &script]).arg(&other).status().unwrap().success());
        let done = safe(&["--plan", other.to_str().unwrap()]);
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && text.contains(why), "{make}: {text}");
    }
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(shared.join("plan.json"), plan_of(&[output("fan", &fan, "2\n")])).unwrap();
    let done = safe(&["--plan", shared.join("plan.json").to_str().unwrap()]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && text.contains("others than its owner may write to"), "{text}");
    assert_eq!(read(&fan), "1\n");
}

/// If `fs.protected_hardlinks` is 0, anyone can make a hard link. In a folder where others can create names, the file may not be the
/// owner's.
#[test]
fn a_second_name_keeps_a_plan_and_a_target_from_nobody_in_a_folder_of_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (plan, fan, others) = (folder.join("plan.json"), folder.join("fan"), folder.join("others"));
    fs::write(&fan, "0.5\n").unwrap();
    fs::create_dir(&others).unwrap();
    fs::set_permissions(&others, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(&plan, plan_of(&[output("fan", &fan, "1\n")])).unwrap();
    for file in [&plan, &fan] {
        fs::hard_link(file, others.join(file.file_name().unwrap())).unwrap();
    }
    let done = safe(&["--plan", others.join("plan.json").to_str().unwrap()]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.code() == Some(1) && text.contains("it has another name too, and may be another user's"),
        "{text}"
    );
    assert_eq!(read(&fan), "0.5\n");
    let done = safe(&["--plan", plan.to_str().unwrap()]);
    assert!(done.status.success() && read(&fan) == "1\n", "{done:?}");
    if !program::is_root() || program::emulation::cannot_be_emulated(program::emulation::OTHER_OWNERS) {
        return program::skip("only root can make folders of others");
    }
    // A file of root's, linked by another user into their own folder.
    std::os::unix::fs::chown(&others, Some(USER), Some(USER)).unwrap();
    fs::set_permissions(&others, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&plan, plan_of(&[output("fan", &others.join("fan"), "2\n")])).unwrap();
    let done = safe(&["--plan", plan.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.code() == Some(1) && text.contains("fan: 2 to ") && text.contains("another name too"),
        "{text}"
    );
    assert_eq!(read(&fan), "1\n");
}

#[test]
fn root_carries_a_plan_out_with_the_rights_of_its_owner() {
    if !program::is_root() || program::emulation::cannot_be_emulated(program::emulation::OTHER_OWNERS) {
        return program::skip("only root can have a plan carried out by another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (theirs, roots, hertzd) = (folder.join("theirs"), folder.join("roots"), folder.join("hertzd"));
    program::copy_program(&hertzd);
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&roots, "0.5\n").unwrap();
    let (fan, plan) = (theirs.join("fan"), theirs.join("safe-plan.json"));
    fs::write(&fan, "0.5\n").unwrap();
    fs::write(&plan, plan_of(&[output("fan", &fan, "1\n"), output("roots", &roots, "1\n")])).unwrap();
    for path in [&theirs, &fan, &plan] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    let safe = |args: &[&str]| Command::new(&hertzd).args(["safe", "--plan"]).arg(&plan).args(args).output().unwrap();
    let dry = safe(&["--dry-run"]);
    assert!(
        dry.status.success() && String::from_utf8_lossy(&dry.stdout).contains("roots: would write 1 to"),
        "{dry:?}"
    );
    let done = safe(&[]);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stdout.contains("fan: wrote 1 to "), "{stdout}{stderr}");
    assert!(stderr.contains("roots: 1 to ") && stderr.contains("Permission denied"), "{stderr}");
    assert_eq!((read(&fan), read(&roots)), ("1\n".into(), "0.5\n".into()));
    let facts = fs::metadata(&plan).unwrap();
    assert_eq!((facts.uid(), facts.mode() & 0o777), (USER, 0o640), "what it has noted there belongs to the owner");
    // The same if that user is not allowed to execute the program.
    fs::set_permissions(&hertzd, fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(&fan, "0.5\n").unwrap();
    let done = safe(&[]);
    assert!(String::from_utf8_lossy(&done.stdout).contains("fan: wrote 1 to "), "{done:?}");
    assert_eq!((read(&fan), read(&roots)), ("1\n".into(), "0.5\n".into()));
    fs::set_permissions(&hertzd, fs::Permissions::from_mode(0o755)).unwrap();
    // Root's own plan, in a folder of root's.
    fs::write(folder.join("plan.json"), plan_of(&[output("roots", &roots, "2\n")])).unwrap();
    let own = Command::new(&hertzd).args(["safe", "--plan"]).arg(folder.join("plan.json")).output().unwrap();
    assert!(own.status.success() && read(&roots) == "2\n", "{own:?}");
    // The same plan in a folder of another user, who may have put it there.
    fs::write(theirs.join("root.json"), plan_of(&[output("roots", &roots, "3\n")])).unwrap();
    let planted = Command::new(&hertzd).args(["safe", "--plan"]).arg(theirs.join("root.json")).output().unwrap();
    let text = String::from_utf8_lossy(&planted.stderr);
    assert!(planted.status.code() == Some(1) && text.contains("others than its owner may write to"), "{text}");
    // Any other user carries out only their own plans.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]).arg(&hertzd).args(["safe", "--plan"]);
    let other = command.arg(&plan).output().unwrap();
    assert_eq!((other.status.code(), read(&roots)), (Some(77), "2\n".into()), "{other:?}");
}

/// The results of another user's plan are printed line by line, each with that user's number.
#[test]
fn another_users_plan_forges_no_lines_and_is_cut_short() {
    if !program::is_root() || program::emulation::cannot_be_emulated(program::emulation::OTHER_OWNERS) {
        return program::skip("only root can have a plan carried out by another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (theirs, hertzd) = (folder.join("theirs"), folder.join("hertzd"));
    program::copy_program(&hertzd);
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let plan = theirs.join("safe-plan.json");
    let owned = |path: &Path| std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    owned(&theirs);
    let safe = |text: &str, args: &[&str]| {
        fs::write(&plan, text).unwrap();
        owned(&plan);
        let done = Command::new(&hertzd).args(["safe", "--plan"]).arg(&plan).args(args).output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), said(&done.stdout), said(&done.stderr))
    };
    let forged = "a\nfan: wrote 255 to /sys/class/hwmon/hwmon0/pwm1\nb";
    let held = |holds: &[&str]| json!({"version": 1, "pid": 1, "outputs": [], "holds": holds}).to_string();
    let (code, stdout, stderr) = safe(&held(&[forged]), &[]);
    assert!(code == Some(1) && stdout.is_empty() && stderr.contains("as none can be called"), "{stdout}{stderr}");
    // A path may contain any character.
    let named = theirs.join(forged.replace('/', "_"));
    fs::write(&named, "0.5\n").unwrap();
    owned(&named);
    let (code, stdout, stderr) = safe(&plan_of(&[output("valve", &named, "1\n")]), &[]);
    assert_eq!((code, stdout.lines().count()), (Some(0), 1), "{stdout}{stderr}");
    assert!(stdout.starts_with("user ") && stdout.contains(": valve: wrote 1 to "), "{stdout}");
    // Output beyond the limit is cut off.
    let many: Vec<_> = (0..20_000).map(|number| format!("valve-{number}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let (code, stdout, stderr) = safe(&held(&many), &["--dry-run"]);
    assert!(code == Some(0) && stdout.len() < 80 << 10, "{} bytes: {stderr}", stdout.len());
    assert!(
        stdout.lines().all(|line| line.starts_with("user ")) && stdout.contains("valve-0: left as it is"),
        "{stdout}"
    );
    assert!(stdout.lines().last().unwrap().contains("not shown"), "{stdout}");
}

#[test]
fn a_runtime_directory_that_cannot_be_looked_into_is_not_taken_for_empty() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().join("run");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("safe-plan.json"), plan_of(&[])).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o0)).unwrap();
    let mut command = program::of_ordinary_user(folder.path());
    let safe = command.arg("safe").env("RUNTIME_DIRECTORY", &hidden).output().unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
    let text = String::from_utf8_lossy(&safe.stderr);
    assert!(safe.status.code() == Some(77) && text.contains("Permission denied"), "{safe:?}");
}

/// This process has a single such file; only one test may write it at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A file that reads back differently from what was written: the kernel shows 33 as 00000021. Only for the holder of [`ALONE`].
fn reads_otherwise() -> String {
    format!("/proc/{}/coredump_filter", std::process::id())
}

#[test]
fn what_reads_otherwise_than_it_was_written_is_said() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (plan, fan) = (folder.path().join("plan.json"), folder.path().join("fan"));
    fs::write(&fan, "0.5\n").unwrap();
    let write =
        |path: &str, text: &str| json!({"to": "file", "path": path, "witness": null, "text": text, "cut": false});
    let one = |task: &str, write: Value| json!({"task": task, "writes": [write]});
    let carry_out = |outputs: Vec<Value>| {
        fs::write(&plan, json!({"version": 1, "pid": 1, "outputs": outputs}).to_string()).unwrap();
        safe(&["--plan", plan.to_str().unwrap()])
    };
    let wrong = one("wrong", write(&reads_otherwise(), "33\n"));
    let right = output("right", &fan, "0.7\n");
    let done = carry_out(vec![wrong, right.clone()]);
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    let what =
        format!("wrong: {} reads 00000021 in place of 33, which was written to it just now; either", reads_otherwise());
    assert!(stderr.contains(&what) && !stderr.contains("right: "), "{stderr}");
    assert!(stdout.contains("right: wrote 0.7 to ") && read(&fan) == "0.7\n", "{stdout}");
    let done = carry_out(vec![right]);
    assert!(done.status.success(), "{done:?}");
    // A write-only target is written without a warning.
    let only = format!("/proc/{}/clear_refs", std::process::id());
    let done = carry_out(vec![one("only", write(&only, "1\n"))]);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn by_a_configuration_too() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (folder.path().join("hertzd.toml"), reads_otherwise());
    fs::write(
        &config,
        format!("[task.wrong]\nkind = \"output\"\nrate = 10\ninput = 1\npath = \"{path}\"\nsafe = 33\n"),
    )
    .unwrap();
    let done = safe(&[config.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("wrong: {path} reads 00000021 in place of 33, which was written")), "{stderr}");
}

const FAN: &str = "\
[task.fan]
kind = \"output\"
rate = 100
input = 0.75
hwmon = \"chip\"
file = \"pwm1\"
safe = \"restore\"
";

/// Starts hertzd where its chip is the only one, with the folder as its runtime directory.
fn start_with_a_fan(folder: tempfile::TempDir, config: &str) -> Running {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", "mount --bind \"$1\" /sys/class; shift; exec \"$@\"", "sh"]);
    command.arg(folder.path().join("class")).arg(HERTZD).env("RUNTIME_DIRECTORY", folder.path());
    let mut running = run_in(folder, command, config, &[]);
    running.wait_until_granted();
    running
}

/// The folder of a chip that drives its fan by itself; `None`: hertzd cannot be shown such a chip here.
fn chip(folder: &Path) -> Option<PathBuf> {
    if !program::is_root() || !program::works(Command::new("unshare")) {
        program::skip("a chip of the test's own takes root");
        return None;
    }
    let chip = folder.join("class/hwmon/hwmon3");
    fs::create_dir_all(&chip).unwrap();
    for (file, text) in [("name", "chip\n"), ("pwm1", "100\n"), ("pwm1_enable", "5\n")] {
        fs::write(chip.join(file), text).unwrap();
    }
    Some(chip)
}

/// The chip's fan: its duty, and its mode, which says who sets the duty.
fn fan(chip: &Path) -> [String; 2] {
    [read(&chip.join("pwm1")), read(&chip.join("pwm1_enable"))]
}

/// The next run knows what the target held before the killed run.
fn restores(running: Running, chip: &Path) {
    let mut running = start_with_a_fan(running.wait().folder, FAN);
    running.wait_for("it is live", |_| fan(chip) == ["191\n", "1\n"]);
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((fan(chip), ended.status.code()), (["100\n", "5\n"].map(String::from), Some(0)), "{}", ended.describe());
}

#[test]
fn a_fan_whose_chip_has_another_number_now_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = chip(folder.path()) else { return };
    let mut running = start_with_a_fan(folder, FAN);
    running.wait_for("it is live", |_| fan(&old) == ["191\n", "1\n"]);
    kill(&mut running);
    let new = old.with_file_name("hwmon7");
    fs::rename(&old, &new).unwrap();
    restores(running, &new);
}

#[test]
fn what_is_left_of_a_fan_may_be_one_file_of_two() {
    let folder = tempfile::tempdir().unwrap();
    let Some(chip) = chip(folder.path()) else { return };
    let path = "path = \"/sys/class/hwmon/hwmon3/pwm1_enable\"";
    let mode = FAN.replace("0.75", "1").replace("hwmon = \"chip\"\nfile = \"pwm1\"", path);
    let mut running = start_with_a_fan(folder, &mode);
    running.wait_for("it is live", |_| fan(&chip) == ["100\n", "1\n"]);
    kill(&mut running);
    restores(running, &chip);
}

#[test]
fn an_output_that_only_its_own_process_could_make_safe_is_named_until_it_has_begun_again_or_is_given_up() {
    let (mut running, plan, socket) = start();
    kill(&mut running);
    let mut text: Value = serde_json::from_str(&read(&plan)).unwrap();
    text["own"] = json!(["lamp"]); // as of a daemon with such an output
    fs::write(&plan, text.to_string()).unwrap();
    let runtime = plan.parent().unwrap().to_owned();
    let safe = || Command::new(HERTZD).arg("safe").env("RUNTIME_DIRECTORY", &runtime).output().unwrap();
    let done = safe();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), read(&running.folder().join("fan")).as_str()), (Some(1), "1\n"), "{said}");
    let unknown = "lamp: what it puts out may be as it was: only its own process could write its safe value, and has tried that if it crashed";
    assert!(said.contains(unknown), "{said}");
    // A start without that task cannot write the value either.
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", &runtime);
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(running.wait().folder, command, CONFIG, &args);
    let left = "lamp: what it puts out may be as an earlier run has left it";
    running.wait_for("it is not well", |_| socket.exists() && reason(&socket).contains(left));
    running.wait_for("it is said", |running| running.stderr().contains(left));
    let planned: Value = serde_json::from_str(&read(&plan)).unwrap();
    assert_eq!(planned["own"], json!(["lamp"]), "{planned}");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.describe());
    assert_eq!(safe().status.code(), Some(1), "it is as it was");
    // Someone has checked the output by hand.
    fs::remove_file(&plan).unwrap();
    assert_eq!(safe().status.code(), Some(0));
}
