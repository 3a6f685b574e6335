//! Safe values when the output's own task cannot write them: a worker that hangs, a stop meanwhile, a second SIGTERM, SIGXCPU, kill -9.
//! Each test reads the file from outside.

use crate::program;
use crate::program::{Ended, HERTZD, Running, pause, run_in, stopwatch};
use hertzd::internals::lock_as_hertzd;
use hertzd::time::Span;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// An output, followed by a task that optionally hangs in its first tick.
fn config(safe_after: &str, hangs: bool) -> String {
    let fault = if hangs { "fault = \"hang\"\nfault-every = 1\n" } else { "" };
    format!(
        "[task.fan]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/fan\"\ninput = 0.75\nsafe = 1\nstart = \"keep\"\n\
         safe-after = \"{safe_after}\"\nrecover = \"latch\"\n[task.other]\nkind = \"load\"\nrate = 100\n{fault}"
    )
}

fn start(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let mut running = run_in(folder, command, config, &["--log-format", "json"]);
    running.wait_until_granted();
    running
}

fn fan(running: &Running) -> String {
    fs::read_to_string(running.folder().join("fan")).unwrap_or_default()
}

fn wait_until(running: &mut Running, holds: &str) {
    running.wait_for(&format!("the output is {holds}"), |running| fan(running) == format!("{holds}\n"));
}

/// Waits until the output has its value and its worker is in the tick that never returns.
fn wait_until_it_hangs(running: &mut Running) {
    wait_until(running, "0.75");
    let socket = running.folder().join("status.sock");
    running.wait_for("its worker hangs", |_| program::snapshot(&socket)["workers"][0]["stalled_ns"].is_number());
}

/// Kills the run, and waits for the end of its last thread: until then its files are locked.
fn kill(running: &mut Running) {
    running.signal("KILL");
    while !running.has_ended() {
        pause(Span::from_millis(5));
    }
}

fn left(ended: &Ended) -> String {
    fs::read_to_string(ended.folder.path().join("fan")).unwrap()
}

fn safe(running: &Running, args: &[&str]) -> Output {
    let plan = running.folder().join("safe-plan.json");
    let safe = || Command::new(HERTZD).arg("safe").arg("--plan").arg(&plan).args(args).output().unwrap();
    // On a busy machine a write may take longer than `hertzd safe` waits; then it reports that, and advises to run it again.
    let has_returned =
        |output: &Output| !String::from_utf8_lossy(&output.stderr).contains("it has not returned within");
    (0..30).map(|_| safe()).find(has_returned).expect("a write to a file returns")
}

#[test]
fn a_worker_that_hangs_and_then_a_stop() {
    let mut running = start(&config("200ms", true));
    wait_until(&mut running, "1");
    running.wait_for("it is said", |running| running.stderr().contains("so its safe value was written"));
    assert!(running.stderr().contains("fan: has not ticked for"), "{}", running.stderr());
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.status.code(), left(&ended).as_str()), (Some(70), "1\n"), "{}", ended.describe());
}

#[test]
fn a_stop_while_a_worker_hangs_and_a_second_one() {
    for signals in [1, 2] {
        let mut running = start(&config("1h", true));
        wait_until_it_hangs(&mut running);
        assert_eq!(fan(&running), "0.75\n");
        running.signal("TERM");
        if signals == 2 {
            running.wait_for("the stop is seen", |running| running.stderr().contains("stopping: waiting"));
            running.signal("TERM");
        }
        let ended = running.wait();
        let code = if signals == 2 { 143 } else { 70 };
        assert_eq!(
            (ended.status.code(), left(&ended).as_str()),
            (Some(code), "1\n"),
            "{signals}: {}",
            ended.describe()
        );
    }
}

#[test]
fn the_limit_of_processor_time_and_a_stop() {
    let mut running = start(&config("1h", false));
    wait_until(&mut running, "0.75");
    running.signal("XCPU");
    wait_until(&mut running, "1");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.status.code(), left(&ended).as_str()), (Some(0), "1\n"), "{}", ended.describe());
}

#[test]
fn a_process_that_is_killed_leaves_a_plan_that_another_carries_out() {
    let mut running = start(&config("1h", false));
    wait_until(&mut running, "0.75");
    let refused = safe(&running, &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(77), "{stderr}");
    assert!(stderr.contains(&format!("pid {}", running.pid())), "{stderr}");
    kill(&mut running);
    assert_eq!(fan(&running), "0.75\n");
    let dry = safe(&running, &["--dry-run"]);
    assert!(String::from_utf8_lossy(&dry.stdout).contains("fan: would write 1 to "), "{dry:?}");
    assert_eq!(fan(&running), "0.75\n");
    // Another hertzd has taken the target meanwhile.
    let path = running.folder().join("fan").display().to_string();
    let mut other = start(&config("1h", false).replace("@HERE@/fan", &path).replace("0.75", "0.625"));
    other.wait_for("it has its value", |_| fan(&running) == "0.625\n");
    let refused = safe(&running, &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(77) && stderr.contains("fan: 1 to "), "{stderr}");
    assert_eq!(fan(&running), "0.625\n");
    kill(&mut other);
    // A lock that needs no write permission does not prevent a safe value from being written.
    let locked = fs::File::open(running.folder().join("fan")).unwrap();
    locked.lock().unwrap();
    let plan = fs::File::open(running.folder().join("safe-plan.json")).unwrap();
    plan.lock().unwrap();
    let done = safe(&running, &[]);
    assert!(done.status.success() && String::from_utf8_lossy(&done.stdout).contains("fan: wrote 1 to "), "{done:?}");
    assert_eq!(fan(&running), "1\n");
    // The target is gone.
    fs::remove_file(running.folder().join("fan")).unwrap();
    let failed = safe(&running, &[]);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("not every output has its safe value: fan: 1 to "), "{stderr}");
    fs::write(running.folder().join("safe-plan.json"), "{").unwrap();
    assert_eq!(safe(&running, &[]).status.code(), Some(1));
}

/// A user who can only read the file prevents neither a start nor the file's safe value.
#[test]
fn what_a_reader_has_locked_is_written_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fan");
    fs::write(&file, "0.5\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let Some(reader) = Reader::of(&file) else { return program::skip("python3 is missing, which locks a file") };
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let mut running = run_in(folder, command, &config("1h", false), &["--log-format", "json"]);
    wait_until(&mut running, "0.75");
    // The message may take a while: nothing waits for the holder's name.
    let locked = format!("fan: {} is locked by ", running.folder().join("fan").display());
    running.wait_for("it says so", |running| running.stderr().contains(&locked));
    assert!(running.stderr().contains("continuing without the lock"), "{}", running.stderr());
    kill(&mut running);
    let done = safe(&running, &[]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("fan: wrote 1 to "), "{done:?}");
    // On a busy machine the name might not be found in time.
    let named = [format!("(pid {})", reader.0.id()), "another process".into()];
    assert!(
        text.contains(&locked) && named.iter().any(|by| text.contains(&format!("{by}, which keeps nobody out"))),
        "{text}"
    );
    assert_eq!(fan(&running), "1\n");
    // Another hertzd is still recognised.
    let start = |folder: &Path| {
        let mut command = Command::new(HERTZD);
        command.arg("run").arg(folder.join("test.toml")).env("RUNTIME_DIRECTORY", folder);
        command
    };
    let mut first = start(running.folder()).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while fan(&running) != "0.75\n" {
        assert!(first.try_wait().unwrap().is_none(), "it has ended");
        pause(Span::from_millis(5));
    }
    let other = tempfile::tempdir().unwrap();
    let second = start(running.folder()).env("RUNTIME_DIRECTORY", other.path()).output();
    let second = second.unwrap();
    let stderr = String::from_utf8_lossy(&second.stderr);
    let in_use = format!("fan is in use by hertzd (pid {})", first.id());
    assert!(second.status.code() == Some(78) && stderr.contains(&in_use), "{stderr}");
    // Once that lock is released, the first hertzd gets its own. A process that cannot see the open files of others learns it by that.
    drop(reader);
    let is_locked = || !lock_as_hertzd(&fs::File::options().write(true).open(running.folder().join("fan")).unwrap());
    let waited = stopwatch();
    while !is_locked() {
        assert!(waited() < Span::from_seconds(60), "its lock was not asked for again");
        pause(Span::from_millis(100));
    }
    program::signal(first.id(), "TERM");
    assert!(first.wait().unwrap().success());
    assert_eq!(fan(&running), "1\n");
}

/// A process, of an ordinary user where possible, that has a file open for reading and has locked it in every way it can. It makes what
/// `/proc` reports of its other descriptors as long as possible.
struct Reader(Child);

impl Reader {
    fn of(file: &Path) -> Option<Self> {
        let text = "import fcntl, os, resource, select, struct, sys, time\n\
                    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 24000)\n\
                    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n\
                    watch = select.epoll()\n\
                    copies = [os.dup(watch.fileno()) for _ in range(min(3000, most // 4))]\n\
                    event = os.pipe()[0]\n\
                    for _ in range(most // 2):\n\
                    \x20   watch.register(os.dup(event), select.EPOLLIN)\n\
                    file = open(sys.argv[1], 'rb')\n\
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
                    fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))\n\
                    print('locked', flush=True)\n\
                    time.sleep(1000)\n";
        let start = |words: &[&str]| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).args(["-c", text]).arg(file).stdout(Stdio::piped());
            let mut reader = Self(command.spawn().ok()?);
            let mut line = String::new();
            BufReader::new(reader.0.stdout.take()?).read_line(&mut line).ok()?;
            (line == "locked\n").then_some(reader)
        };
        // The first interpreter found may be one that only root can execute.
        let as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let python = if program::is_root() { &["/usr/bin/python3", "python3"][..] } else { &[] };
        python.iter().find_map(|python| start(&[&as_user[..], &[python]].concat())).or_else(|| start(&["python3"]))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_plan_that_nobody_has_carried_out_is_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    fs::write(place.join("fan"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", &place);
    let mut running = run_in(folder, command, &config("1h", false), &[]);
    wait_until(&mut running, "0.75");
    kill(&mut running);
    let plan = place.join(format!("hertzd/{}/safe-plan.json", running.pid()));
    assert!(plan.exists());
    let run = |command: &mut Command| command.env("XDG_RUNTIME_DIR", &place).output().unwrap();
    let text = fs::read_to_string(&plan).unwrap();
    let done = run(Command::new(HERTZD).arg("safe").arg("--plan").arg(&plan));
    assert!(done.status.success() && fan(&running) == "1\n", "{done:?}");
    assert!(!plan.exists(), "nothing is left to be told");
    // Without it, the next process there carries out the plan.
    fs::create_dir_all(plan.parent().unwrap()).unwrap();
    fs::write(&plan, &text).unwrap();
    fs::write(running.folder().join("fan"), "0.75\n").unwrap();
    fs::write(place.join("next.toml"), "[task.a]\nkind = \"load\"\nrate = 10\n").unwrap();
    let next = run(Command::new(HERTZD).arg("run").arg(place.join("next.toml")).args(["--for", "100ms"]));
    let stderr = String::from_utf8_lossy(&next.stderr);
    assert!(stderr.contains("fan: wrote its safe value, 1 to ") && fan(&running) == "1\n", "{stderr}");
    assert!(!plan.exists(), "its plan is over");
    // An output whose file was deleted is reported, and its plan is not kept.
    let nowhere = place.join("hertzd/1/safe-plan.json");
    fs::create_dir_all(nowhere.parent().unwrap()).unwrap();
    fs::write(&nowhere, text.replace("/fan\"", "/nowhere\"")).unwrap();
    let next = run(Command::new(HERTZD).arg("run").arg(place.join("next.toml")).args(["--for", "100ms"]));
    let stderr = String::from_utf8_lossy(&next.stderr);
    let said = "/nowhere, was left by an earlier run, and its file no longer exists";
    assert!(stderr.contains(said) && !nowhere.exists(), "{stderr}");
    // With no place to put a plan.
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", "/proc");
    let unplanned = tempfile::tempdir().unwrap();
    let ended = run_in(unplanned, command, &config("1h", false), &["--for", "100ms"]).wait();
    assert!(ended.describe().contains("and so no plan of safe values"), "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_second_and_a_third_request_where_the_device_takes_no_value() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults");
    fs::create_dir(&faults).unwrap();
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", &faults);
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    let mut running = run_in(folder, command, &config("1h", true), &["--stop-timeout", "1h"]);
    wait_until_it_hangs(&mut running);
    fs::write(faults.join("fan.broken"), "").unwrap();
    running.signal("TERM");
    running.wait_for("the stop is seen", |running| running.stderr().contains("stopping: waiting"));
    running.signal("TERM");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.status.code(), left(&ended).as_str()), (Some(143), "0.75\n"), "{}", ended.describe());
}

/// Like [`start`], with devices that misbehave on request: see `tests/support/program/device.c`.
fn start_with_faults(config: &str, files: &[&str]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults");
    fs::create_dir(&faults).unwrap();
    files.iter().for_each(|file| fs::write(folder.path().join(file), "0.5\n").unwrap());
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path()).env("DEVICE_FAULTS", &faults);
    command.env("LD_PRELOAD", program::preload(folder.path(), "device"));
    run_in(folder, command, config, &[])
}

/// Waits until the daemon reports this trouble; or, if not `said`, until it no longer does.
fn wait_until_said(running: &mut Running, text: &str, said: bool) {
    let socket = running.folder().join("status.sock");
    running.wait_for(&format!("it says {text}: {said}"), |_| {
        let reason = program::snapshot(&socket)["reason"].as_str().unwrap_or_default().to_owned();
        reason.contains(text) == said
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_device_that_does_not_respond_holds_up_no_other_output() {
    let output = |name: &str| {
        format!(
            "[task.{name}]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/{name}\"\ninput = 0.75\nsafe = 1\nstart = \"keep\"\n\
             safe-after = \"200ms\"\nrecover = \"latch\"\nwrite = \"always\"\n"
        )
    };
    // More hanging outputs than there are threads at first, all before the one that responds.
    let names = ["a", "b", "c", "fan"];
    let mut running = start_with_faults(&names.map(output).concat(), &names);
    wait_until(&mut running, "0.75");
    let fault = |name: &str| running.folder().join("faults").join(name).with_extension("hangs");
    let faults = ["a", "b", "c"].map(fault);
    faults.iter().for_each(|fault| fs::write(fault, "").unwrap());
    wait_until(&mut running, "1");
    wait_until_said(&mut running, "c: its safe value, 1 to ", true);
    wait_until_said(&mut running, "could not be written: the write does not return", true);
    faults.iter().for_each(|fault| fs::remove_file(fault).unwrap());
    wait_until_said(&mut running, "could not be written", false);
    for name in names {
        let file = running.folder().join(name);
        running.wait_for("each is safe", |_| fs::read_to_string(&file).unwrap() == "1\n");
    }
    running.signal("TERM");
    let ended = running.wait();
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_task_that_is_disabled_while_its_device_refuses_the_safe_value() {
    let config = config("1h", false).replace("recover =", "write = \"always\"\non-error = \"disable\"\nrecover =");
    let mut running = start_with_faults(&config, &["fan"]);
    wait_until(&mut running, "0.75");
    let fault = running.folder().join("faults/fan.broken");
    fs::write(&fault, "").unwrap();
    wait_until_said(&mut running, "could not be written: Input/output error", true);
    wait_until_said(&mut running, "fan: its safe value, 1 to ", true);
    assert_eq!(fan(&running), "0.75\n");
    fs::remove_file(&fault).unwrap();
    wait_until(&mut running, "1");
    wait_until_said(&mut running, "could not be written", false);
    running.wait_for("it is said", |running| running.stderr().contains(", was written at last"));
    running.signal("TERM");
    let ended = running.wait();
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", ended.describe());
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_run_that_ends_without_its_safe_value_is_no_success() {
    let mut running = start_with_faults(&config("1h", false), &["fan"]);
    wait_until(&mut running, "0.75");
    fs::write(running.folder().join("faults/fan.broken"), "").unwrap();
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.status.code(), left(&ended).as_str()), (Some(70), "0.75\n"), "{}", ended.describe());
    let summary = ended.stderr.contains("not all safe values were written")
        && ended.stderr.contains("fan: its safe value, 1 to ");
    assert!(summary, "{}", ended.describe());
    // The plan stays, for whoever fixes the problem.
    assert!(ended.folder.path().join("safe-plan.json").exists());
}

#[test]
fn without_a_plan_the_safe_values_of_a_configuration() {
    let mut running = start(&config("1h", false));
    wait_until(&mut running, "0.75");
    let folder = running.folder();
    let named = folder.join("test.toml");
    let anew = |config: &Path, args: &[&str]| {
        let output = Command::new(HERTZD).arg("safe").arg(config).args(args).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), stdout, stderr)
    };
    let (code, _, stderr) = anew(&named, &[]);
    assert_eq!(code, Some(77), "{stderr}");
    assert!(stderr.contains("fan: ") && stderr.contains("is in use by"), "{stderr}");
    kill(&mut running);
    let folder = running.folder();
    let (code, stdout, stderr) = anew(&named, &["--dry-run"]);
    assert!(code == Some(0) && stdout.contains("fan: would be made safe by 1: writes 1 to "), "{stdout}{stderr}");
    assert_eq!(fan(&running), "0.75\n");
    let (code, stdout, stderr) = anew(&named, &[]);
    assert!(code == Some(0) && stdout.contains("fan: wrote 1 to "), "{stdout}{stderr}");
    assert_eq!(fan(&running), "1\n");
    // The value before hertzd is unknown; this keeps no other output from its safe value.
    let output = |name: &str, safe: &str| {
        let path = folder.join(name).display().to_string();
        format!("[task.{name}]\nkind = \"output\"\nrate = 1\npath = \"{path}\"\ninput = 0\nsafe = {safe}\n")
    };
    let several = folder.join("several.toml");
    fs::write(folder.join("held"), "0.5\n").unwrap();
    fs::write(&several, output("fan", "\"restore\"") + &output("held", "\"hold\"") + &output("new", "7")).unwrap();
    let (code, stdout, stderr) = anew(&several, &[]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(
        stderr.contains("fan: safe = \"restore\"") && stdout.contains("held: left as it is: by safe = \"hold\""),
        "{stdout}{stderr}"
    );
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!([read("fan"), read("held"), read("new")], ["1\n", "0.5\n", "7\n"]);
    // Nor does a missing bus. A task that only receives has no safe value, and is ignored.
    let can = "interface = \"none\"\nrate = 1\nkind = \"can\"\n";
    let signal = "id = 1\nname = \"x\"\nstart-bit = 0\nlength = 8\n";
    let sends = format!("[task.sends]\n{can}[[task.sends.send]]\n{signal}input = 1\nsafe = 0\n");
    let receives = format!("[task.receives]\n{can}[[task.receives.receive]]\n{signal}");
    fs::write(&several, sends + &receives + &output("new", "8")).unwrap();
    let (code, stdout, stderr) = anew(&several, &[]);
    assert!(code == Some(1) && stderr.contains("sends: interface: "), "{stdout}{stderr}");
    assert!(!stderr.contains("receives") && !stdout.contains("receives"), "{stdout}{stderr}");
    assert_eq!(read("new"), "8\n");
    fs::write(&several, receives).unwrap();
    let (code, stdout, stderr) = anew(&several, &[]);
    assert!(code == Some(0) && stdout.contains("has no outputs: nothing to do"), "{stdout}{stderr}");
}
