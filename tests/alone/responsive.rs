//! Main reacts at once, no matter what hangs: a flood of signals, a frozen file system, a configuration that cannot be read, a stalled
//! reader of the log, a tick that never returns.

use crate::program;
use crate::program::disk::Disk;
use crate::program::{Ended, HERE, HERTZD, Running, count, fill, pause, run_in, start, stopwatch, task, thread_named};
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The longest time that a stop may take, far above the limit that "Stopping" in docs/running.md states: the machine may delay the stop at
/// any point, and a real hang takes longer. The test prints the time.
const STOP: Span = Span::from_seconds(60);

/// A task that records its value at 1 kHz, and a second one at this rate.
fn recording(rate: u32) -> String {
    format!(
        "[worker.main]\n[task.uptime]\nkind = \"sensor\"\nworker = \"main\"\nrate = \"1 kHz\"\npath = \"/proc/uptime\"\nrecord = \"{HERE}/disk/uptime.csv\"\n\
         [worker.beside]\n[task.beside]\nkind = \"load\"\nworker = \"beside\"\nrate = {rate}\n"
    )
}

/// A folder that contains a folder `disk`.
fn folder_with_disk() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    (folder, disk)
}

/// Starts hertzd with a status socket, and waits until its workers run.
fn run_with_socket(folder: tempfile::TempDir, config: &str) -> Running {
    run_with_socket_and(folder, config, &[])
}

fn run_with_socket_and(folder: tempfile::TempDir, config: &str, args: &[&str]) -> Running {
    let socket = folder.path().join("status.sock");
    let args = [&["--json", "--status-socket", socket.to_str().unwrap()], args].concat();
    let mut running = run_in(folder, Command::new(HERTZD), config, &args);
    running.wait_until_granted();
    running
}

fn run_client(running: &Running, args: &[&str]) -> Output {
    Command::new(HERTZD).args(args).arg("--socket").arg(running.folder().join("status.sock")).output().unwrap()
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

/// Waits until `seen` is true of a snapshot; every request in the meantime must be answered.
fn wait_for_snapshot(running: &mut Running, what: &str, seen: impl Fn(&Value) -> bool) {
    running.wait_for(what, |running| seen(&snapshot(running)));
}

/// Stops hertzd with SIGTERM, within `limit`; prints how long that took.
fn stop_with_sigterm(running: Running, limit: Span) -> Ended {
    running.signal("TERM");
    let passed = stopwatch();
    let ended = running.wait();
    let took = passed();
    println!("ended {took} after SIGTERM");
    assert!(took < limit, "{took}: {}", ended.describe());
    ended
}

fn lines(path: &Path) -> u64 {
    fs::read_to_string(path).map_or(0, |text| text.lines().count() as u64)
}

#[test]
fn ten_thousand_reloads_do_not_hold_up_a_stop() {
    let _turn = crate::turn(module_path!());
    let (folder, disk) = folder_with_disk();
    let running = run_with_socket(folder, &recording(100));
    let flood = format!(
        "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); j=0; \
         while [ $j -lt 50 ]; do j=$((j + 1)); kill -HUP {0} || exit 1; done; sleep 0.02; done",
        running.pid()
    );
    let passed = stopwatch();
    assert!(Command::new("sh").args(["-c", &flood]).status().unwrap().success());
    let ended = stop_with_sigterm(running, STOP);
    let (reloads, took) = (ended.stderr.matches("reloaded: ").count() as i64, passed());
    assert!(reloads <= 2 + took.nanos() / Span::from_millis(100).nanos(), "{reloads} in {took}");
    ended.assert_no_fault();
    assert!(ended.stderr.contains("reloaded: tasks: 2 kept"), "{}", ended.describe());
    let summary = ended.summary();
    let (uptime, records) = (task(&summary, "uptime"), &summary["records"]);
    let recorded = &uptime["recorded"];
    assert_eq!(count(recorded, "rows") + count(recorded, "lost"), count(uptime, "ran"));
    assert_eq!(lines(&disk.join("uptime.csv")), count(recorded, "rows") + 1);
    let ran = count(uptime, "ran") + count(task(&summary, "beside"), "ran");
    assert_eq!(count(records, "sent") + count(records, "dropped"), ran);
}

/// Thaws the file system on drop, before the test waits for the blocked program.
struct Thawed<'a>(&'a Disk);

impl Drop for Thawed<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

/// The state of a thread; `D` is an uninterruptible wait in the kernel.
fn state(pid: u32, thread: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_frozen_file_system_holds_up_its_recording_and_nothing_else() {
    let _turn = crate::turn(module_path!());
    let (folder, path) = folder_with_disk();
    let Some(disk) = Disk::mount(folder.path(), path.clone()) else {
        program::skip("making and mounting a file system needs root, loop devices and mkfs.ext4");
        return;
    };
    let mut running = run_with_socket(folder, &recording(100));
    running.wait_for("it records", |_| lines(&path.join("uptime.csv")) > 100);
    assert!(disk.freeze());
    let thawed = Thawed(&disk);
    let (pid, recorder) = (running.pid(), thread_named(running.pid(), "hertzd-recorder").unwrap());
    running.wait_for("the recorder hangs", |_| state(pid, recorder) == Some('D'));
    let ran = |seen: &Value, name: &str| count(task(seen, name), "ran");
    let seen = snapshot(&running);
    for name in ["uptime", "beside"] {
        let before = ran(&seen, name);
        wait_for_snapshot(&mut running, "both tasks tick", |seen| ran(seen, name) > before + 50);
    }
    // Rows that do not fit in the queue are counted and reported while the disk still hangs.
    let lost = |seen: &Value| count(&task(seen, "uptime")["recorded"], "lost");
    wait_for_snapshot(&mut running, "the status shows the loss", |seen| lost(seen) > 0);
    running.wait_for("the log reports it", |running| {
        running.stderr().contains("waiting for the file system of a recording of uptime in ")
    });
    assert_eq!(state(pid, recorder), Some('D'));

    running.signal("TERM");
    let passed = stopwatch();
    // The process has exited, but the kernel keeps the thread that waits for the file system.
    running.wait_for("it ends", |running| matches!(state(pid, running.pid()), None | Some('Z')));
    let took = passed();
    println!("ended {took} after SIGTERM");
    assert!(took < STOP, "{took}");
    assert_eq!(state(pid, recorder), Some('D'), "the file system was frozen throughout");
    drop(thawed);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let summary = ended.summary();
    let (uptime, recorded) = (task(&summary, "uptime"), &task(&summary, "uptime")["recorded"]);
    println!("ran {}, recorded {recorded}", count(uptime, "ran"));
    assert_eq!(count(recorded, "rows") + count(recorded, "lost"), count(uptime, "ran"));
    assert!(count(recorded, "rows") >= 100 && count(recorded, "lost") > 0);
    assert!(
        lines(&path.join("uptime.csv")) > count(recorded, "rows"),
        "what counts as written is there, and the header"
    );
    assert!(ended.stderr.contains("a file system has not responded for 4"), "{}", ended.describe());
    drop(disk);
}

/// The stop gives up the safe value. Its process is gone, except for the thread that the kernel keeps, with the process's locks. The next
/// run no longer has the output.
#[test]
fn a_safe_value_that_a_frozen_file_system_kept_out_is_written_once_it_is_thawed() {
    let _turn = crate::turn(module_path!());
    let (folder, path) = folder_with_disk();
    let Some(disk) = Disk::mount(folder.path(), path) else {
        program::skip("making and mounting a file system needs root, loop devices and mkfs.ext4");
        return;
    };
    let (fan, place) = (disk.path.join("fan"), folder.path().to_owned());
    fs::write(&fan, "0.5\n").unwrap();
    let hertzd = || {
        let mut command = Command::new(HERTZD);
        command.env("RUNTIME_DIRECTORY", &place);
        command
    };
    let config = "[task.fan]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/disk/fan\"\ninput = 0.75\nsafe = 1\n";
    let mut running = run_in(folder, hertzd(), config, &["--stop-timeout", "2s"]);
    running.wait_for("it has its value", |_| fs::read_to_string(&fan).is_ok_and(|text| text == "0.75\n"));
    assert!(disk.freeze(), "it was not frozen");
    let thawed = Thawed(&disk);
    running.signal("TERM");
    running.wait_for("it ends", |running| matches!(state(running.pid(), running.pid()), None | Some('Z')));
    let plan = || fs::read_to_string(place.join("safe-plan.json")).unwrap_or_default();
    assert!(plan().contains("disk/fan"), "{}", plan());

    let mut next = run_in(tempfile::tempdir().unwrap(), hertzd(), "[task.a]\nkind = \"load\"\nrate = 10\n", &[]);
    let socket = place.join("status.sock");
    let reason = |wanted: &str| program::snapshot(&socket)["reason"].as_str().unwrap_or_default().contains(wanted);
    next.wait_until_granted();
    next.wait_for("it is said to be owed", |_| reason("fan: its safe value, 1 to "));
    assert!(plan().contains("disk/fan"), "{}", plan());
    drop(thawed);
    next.wait_for("it is written", |_| fs::read_to_string(&fan).is_ok_and(|text| text == "1\n"));
    next.wait_for("it is owed no longer", |_| !reason("fan: ") && !plan().contains("disk/fan"));
    assert_eq!(running.wait().status.code(), Some(70));
    next.signal("TERM");
    let ended = next.wait();
    assert!(ended.status.success(), "{}", ended.describe());
    drop(disk);
}

/// Freezes the disk with the log. Returns once the log's thread has run into that. A task misses each release, so there is a line each
/// second.
fn frozen_under_the_log<'disk>(running: &mut Running, disk: &'disk Disk) -> Thawed<'disk> {
    assert!(disk.freeze(), "it was not frozen");
    let thawed = Thawed(disk);
    let (pid, log) = (running.pid(), thread_named(running.pid(), "hertzd-log").unwrap());
    running.wait_for("the log hangs", |_| state(pid, log) == Some('D'));
    thawed
}

/// hertzd with its log in a file on this disk.
fn logging_to(disk: &Disk) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>>\"$0\""]).arg(disk.path.join("log")).arg(HERTZD);
    command
}

const MISSES: &str = "[task.a]\nkind = \"load\"\nrate = 100\ndeadline = \"1ns\"\nmax-missed = \"100%\"\n";

#[test]
fn a_log_on_a_frozen_file_system_is_a_reason_until_it_is_thawed_and_holds_up_nothing() {
    let _turn = crate::turn(module_path!());
    let (folder, path) = folder_with_disk();
    let Some(disk) = Disk::mount(folder.path(), path) else {
        program::skip("making and mounting a file system needs root, loop devices and mkfs.ext4");
        return;
    };
    let socket = folder.path().join("status.sock");
    let mut running = run_in(folder, logging_to(&disk), MISSES, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_for("it is well", |running| run_client(running, &["status"]).status.success());
    let thawed = frozen_under_the_log(&mut running, &disk);
    let reason = |seen: &Value| seen["reason"].as_str().unwrap_or_default().to_owned();
    wait_for_snapshot(&mut running, "status says so", |seen| reason(seen).contains("the log hangs: a write to stderr"));
    running.signal("HUP");
    wait_for_snapshot(&mut running, "a reload, which is logged", |seen| seen["daemon"]["reloads"] == 1);
    let ran = count(task(&snapshot(&running), "a"), "ran");
    wait_for_snapshot(&mut running, "the counts are new", |seen| count(task(seen, "a"), "ran") > ran + 100);
    drop(thawed);
    running.wait_for("it is well again", |running| run_client(running, &["status"]).status.success());
    let log = || fs::read_to_string(disk.path.join("log")).unwrap();
    running.wait_for("nothing is missing", |_| log().contains("reloaded: tasks: 1 kept"));

    let thawed = frozen_under_the_log(&mut running, &disk);
    running.signal("TERM");
    running.wait_for("it ends", |running| matches!(state(running.pid(), running.pid()), None | Some('Z')));
    drop(thawed);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    assert!(ended.stdout.contains("\na "), "the summary: {}", ended.describe());
}

/// A tick of each worker hangs on the disk that also holds the log. Each guarded output beside it must still become safe. When hertzd
/// crashes, another output must become safe and stay so.
#[test]
fn a_log_on_a_frozen_file_system_keeps_no_output_from_its_safe_value() {
    let _turn = crate::turn(module_path!());
    let (folder, path) = folder_with_disk();
    let Some(disk) = Disk::mount(folder.path(), path.clone()) else {
        program::skip("making and mounting a file system needs root, loop devices and mkfs.ext4");
        return;
    };
    let place = folder.path().to_owned();
    let holds = |name: &str, value: &str| fs::read_to_string(place.join(name)).is_ok_and(|text| text.trim() == value);
    let output = |name: &str, path: &str, worker: &str, rate: &str| {
        fs::write(place.join(path), "3\n").unwrap();
        format!(
            "[task.{name}]\nkind = \"output\"\nworker = \"{worker}\"\nrate = \"{rate}\"\ninput = 5\npath = \"{}/{path}\"\nsafe = 0\n\
             write = \"always\"\n",
            place.display()
        )
    };
    // The second worker's ticks hang later: by then the log has run into the frozen disk.
    let config = [
        "[worker.a]\n[worker.b]\n".into(),
        output("fa", "fa", "a", "20 Hz"),
        output("da", "disk/da", "a", "20 Hz"),
        output("fb", "fb", "b", "20 Hz"),
        output("db", "disk/db", "b", "0.3 Hz"),
    ]
    .concat();
    let mut running = run_in(folder, logging_to(&disk), &config, &[]);
    running
        .wait_for("all have their values", |_| ["fa", "fb", "disk/da", "disk/db"].iter().all(|name| holds(name, "5")));
    assert!(disk.freeze(), "it was not frozen");
    let thawed = Thawed(&disk);
    for name in ["fa", "fb"] {
        running.wait_for("it becomes safe", |_| holds(name, "0"));
    }
    drop(thawed);
    running.wait_for("both are back", |_| holds("fa", "5") && holds("fb", "5"));
    running.signal("TERM");
    running.wait();

    let folder = tempfile::tempdir_in(&place).unwrap();
    let config = format!("{MISSES}{}", output("fa", "fa", "main", "20 Hz"));
    let mut running = run_in(folder, logging_to(&disk), &config, &[]);
    running.wait_for("it has its value", |_| holds("fa", "5"));
    let thawed = frozen_under_the_log(&mut running, &disk);
    running.signal("SEGV");
    // With a core dump, the process ends only after its thread that waits for the disk.
    running.wait_for("it becomes safe", |_| holds("fa", "0"));
    pause(Span::from_seconds(2));
    drop(thawed);
    assert_eq!(running.wait().status.signal(), Some(11));
    assert!(holds("fa", "0"), "nothing was written after that");
    drop(disk);
}

/// After the signal both files take several writes of 3 s each: together that exceeds the patience for a hanging disk.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_slow_disk_is_waited_for_until_it_has_taken_everything() {
    let _turn = crate::turn(module_path!());
    let (folder, disk) = folder_with_disk();
    let (library, slow, manager) =
        (folder.path().join("slow_disk.so"), folder.path().join("slow"), folder.path().join("manager"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/program/slow_disk.c");
    let built = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.unwrap().success());
    let messages = program::messages_to(&manager);
    let again = "[task.again]\nkind = \"sensor\"\nworker = \"main\"\nrate = \"1 kHz\"\npath = \"/proc/uptime\"\n";
    let config = recording(100) + again + "record = \"@HERE@/disk/again.mcap\"\n";
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", &library).env("SLOW_DISK", &slow);
    command.env("NOTIFY_SOCKET", &manager).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let mut running = run_in(folder, command, &config, &["--json"]);
    running.wait_for("it records", |_| lines(&disk.join("uptime.csv")) > 500 && ends_of(&disk.join("again.mcap")).0);
    fs::write(&slow, "").unwrap();
    running.signal("TERM");
    let passed = stopwatch();
    let ended = running.wait();
    println!("ended {} after SIGTERM", passed());
    assert!(passed() > Span::from_seconds(4), "the disk was slow");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    let summary = ended.summary();
    for name in ["uptime", "again"] {
        let (task, recorded) = (task(&summary, name), &task(&summary, name)["recorded"]);
        assert_eq!((count(recorded, "rows"), count(recorded, "lost")), (count(task, "ran"), 0), "{task}");
    }
    assert_eq!(lines(&disk.join("uptime.csv")), count(task(&summary, "uptime"), "ran") + 1);
    assert_eq!(ends_of(&disk.join("again.mcap")), (true, true));
    UnixDatagram::unbound().unwrap().send_to(&[], &manager).unwrap();
    let messages = messages.join().unwrap();
    let (before, after) = messages.split_once("STOPPING=1\n").unwrap();
    assert!(before.contains("WATCHDOG=1\n"), "{messages}");
    assert!(after.contains("EXTEND_TIMEOUT_USEC=") && !after.contains("WATCHDOG=1\n"), "{messages}");
}

/// Whether an MCAP file has its beginning, and its end.
fn ends_of(path: &Path) -> (bool, bool) {
    let bytes = fs::read(path).unwrap_or_default();
    let magic = b"\x89MCAP0\r\n";
    (bytes.starts_with(magic), bytes.len() > magic.len() && bytes.ends_with(magic))
}

/// Makes a FIFO that is never written to.
fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_configuration_that_cannot_be_read_does_not_hold_up_a_stop() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo.toml");
    fifo(&path);
    let mut command = Command::new(HERTZD);
    command.arg("run").arg(&path).arg("--json");
    let mut running = start(folder, command);
    let _writer = program::block_reader(&mut running, &path);
    let ended = stop_with_sigterm(running, STOP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    assert_eq!(ended.summary()["tasks"], serde_json::json!([]));
    assert!(
        ended.stderr.contains("exiting without it") && ended.stderr.contains("reading the configuration"),
        "{}",
        ended.describe()
    );
}

#[test]
fn a_reload_that_hangs_holds_up_neither_status_nor_stop() {
    let _turn = crate::turn(module_path!());
    let (folder, _disk) = folder_with_disk();
    let mut running = run_with_socket(folder, &recording(100));
    let (path, config) = (running.folder().join("fifo"), running.folder().join("test.toml"));
    fifo(&path);
    fs::rename(&path, &config).unwrap();
    running.signal("HUP");
    let _writer = program::block_reader(&mut running, &config);
    let before = count(task(&snapshot(&running), "uptime"), "ran");
    wait_for_snapshot(&mut running, "it ticks", |seen| count(task(seen, "uptime"), "ran") > before + 50);
    let ended = stop_with_sigterm(running, STOP);
    ended.assert_no_fault();
    let summary = ended.summary();
    let uptime = task(&summary, "uptime");
    assert_eq!(count(&uptime["recorded"], "rows") + count(&uptime["recorded"], "lost"), count(uptime, "ran"));
    assert!(ended.stderr.contains("the builder thread is stuck while"), "{}", ended.describe());
}

#[test]
fn a_run_with_a_length_ends_while_a_reload_hangs() {
    let _turn = crate::turn(module_path!());
    let (folder, _disk) = folder_with_disk();
    let mut running = run_with_socket_and(folder, &recording(100), &["--for", "16s"]);
    wait_for_snapshot(&mut running, "the start is over", |seen| seen["daemon"]["busy"].is_null());
    let (path, config) = (running.folder().join("fifo"), running.folder().join("test.toml"));
    fifo(&path);
    fs::rename(&path, &config).unwrap();
    running.signal("HUP");
    let _writer = program::block_reader(&mut running, &config);
    let busy = &snapshot(&running)["daemon"]["busy"];
    assert_eq!(busy["activity"], "reading the configuration");
    assert!(busy["since_ns"].as_i64().unwrap() > 0);
    running.wait_for("a warning", |running| running.stderr().contains("still reading the configuration after "));
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.describe());
    assert_eq!(count(task(&ended.summary(), "beside"), "due"), 1_600);
}

/// A worker whose only task hangs in its tick 19, and a reload that changes this task and one on another worker.
fn reload_beside_a_tick_that_hangs(args: &[&str]) -> Running {
    let hanging = "[worker.stuck]\n[task.stuck]\nworker = \"stuck\"\nkind = \"load\"\nrate = 100\nfault = \"hang\"\nfault-every = 20\n\
        overrun = \"credit\"\nmax-debt = \"1h\"\n";
    let (folder, _disk) = folder_with_disk();
    let config = format!("{hanging}{}", recording(100)).replace("uptime.csv", "uptime.mcap");
    let mut running = run_with_socket_and(folder, &config, args);
    let has_begun = |seen: &Value| seen["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty());
    wait_for_snapshot(&mut running, "a tick hangs", |seen| has_begun(seen) && count(task(seen, "beside"), "ran") > 40);
    // The reload changes the hanging task and a task on another worker, which continues.
    let edited = config.replace("rate = 100\n", "rate = 200\n").replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), edited).unwrap();
    running.signal("HUP");
    wait_for_snapshot(&mut running, "the reload is under way", |seen| task(seen, "beside")["rate"] == "200/1");
    running
}

/// The hanging task keeps running, so its numbers are those of the tick that hangs.
fn assert_stuck(ended: &Ended) {
    assert_eq!(ended.status.code(), Some(70), "{}", ended.describe());
    let summary = ended.summary();
    let stuck = task(&summary, "stuck");
    assert_eq!((&stuck["rate"], count(stuck, "ran")), (&"100/1".into(), 19), "{stuck}");
    assert!(ended.stderr.contains("tick 19 of task stuck has not returned for"), "{}", ended.describe());
}

#[test]
fn a_run_with_a_length_ends_while_a_reload_waits_for_a_tick() {
    let _turn = crate::turn(module_path!());
    assert_stuck(&reload_beside_a_tick_that_hangs(&["--for", "12s"]).wait());
}

#[test]
fn a_tick_that_never_returns_holds_up_neither_status_nor_stop() {
    let _turn = crate::turn(module_path!());
    let mut running = reload_beside_a_tick_that_hangs(&[]);
    wait_for_snapshot(&mut running, "other tasks tick", |seen| count(task(seen, "beside"), "ran") > 100);
    assert_eq!(count(&snapshot(&running)["daemon"], "reloads"), 0, "the reload cannot finish");
    running.wait_for("the stall is reported", |running| running.stderr().contains("stuck: stalled, tick 19 "));
    let ended = stop_with_sigterm(running, STOP);
    assert_stuck(&ended);
    let summary = ended.summary();
    assert!(count(task(&summary, "uptime"), "ran") > 0 && count(task(&summary, "beside"), "ran") > 0);
    assert!(ended.stderr.contains("stopping: waiting up to "), "{}", ended.describe());
    // The reload had ended this task by then, and the summary does not describe it.
    assert!(ended.stderr.contains("beside: ended by the reload; "), "{}", ended.describe());
    assert_eq!(ended.stderr.matches("ended by the reload").count(), 1, "{}", ended.describe());
    let (path, uptime) = (ended.folder.path().join("disk/uptime.mcap"), task(&summary, "uptime"));
    assert_eq!(ends_of(&path), (true, true));
    assert_eq!(count(&uptime["recorded"], "rows"), count(uptime, "ran"));
}

#[test]
fn a_fault_is_reported_to_a_stalled_reader_for_a_limited_time() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    let talks = |n| format!("[task.t{n}]\nkind = \"load\"\nrate = 20\nfault = \"error\"\nfault-every = 1\n");
    let ends = "[task.ends]\nkind = \"load\"\nrate = 1\nphase = \"900ms\"\nfault = \"error\"\nfault-every = 3\non-error = \"exit\"\n";
    fs::write(&path, (0..1_000).map(talks).collect::<String>() + ends).unwrap();
    // The length of the text that can be read after the end.
    let said = |format: &str, shared: bool| {
        let mut command = Command::new(HERTZD);
        command.args(["run", "--json", "--log-format", format]).arg(&path);
        // A pipe that no one reads is full within a second. `shared`: the summary goes there too.
        let (mut reader, writer) = std::io::pipe().unwrap();
        command.stdout(if shared { Stdio::from(writer.try_clone().unwrap()) } else { Stdio::null() }).stderr(writer);
        assert_eq!(code_in_time(command), Some(70), "{format}");
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        read.len()
    };
    for (format, shared) in [("text", false), ("json", false), ("text", true)] {
        // If the machine stalls, hertzd has no time to write that much; but this does not happen each time.
        assert!((0..10).any(|_| said(format, shared) > 4_096), "the pipe was full");
    }
}

#[test]
fn an_error_before_the_start_does_not_wait_for_a_reader() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    fs::write(&path, "[task.a]\nkind = \"load\"\n").unwrap();
    for args in [&["run"][..], &["run", "--log-format", "json"], &["check"]] {
        let (_reader, writer) = std::io::pipe().unwrap();
        fill(&writer);
        let mut command = Command::new(HERTZD);
        command.args(args).arg(&path).stdout(Stdio::null()).stderr(writer);
        assert_eq!(code_in_time(command), Some(78), "{args:?}");
    }
}

/// Runs the command to its end, which must come in time. Returns its exit code.
fn code_in_time(mut command: Command) -> Option<i32> {
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    drop(command);
    let passed = stopwatch();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if passed() > STOP {
            let _ = child.kill();
            panic!("still running, {} after its start", passed());
        }
        pause(Span::from_millis(5));
    }
}

#[test]
fn a_service_manager_that_takes_nothing_delays_nothing() {
    let _turn = crate::turn(module_path!());
    let (folder, _disk) = folder_with_disk();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.send_to(b"WATCHDOG=1", &path).is_ok() {}
    let mut command = Command::new(HERTZD);
    // Sent every 10 ms: if each message waited, no query would be answered in time.
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "40000");
    let socket = folder.path().join("status.sock");
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, command, &recording(100), &args);
    running.wait_until_granted();
    wait_for_snapshot(&mut running, "it ticks", |seen| count(&seen["tasks"][0], "ran") > 0);
    let passed = stopwatch();
    (0..20).for_each(|_| _ = snapshot(&running));
    println!("20 answers took {}", passed());
    // Queued messages are sent in order once there is room.
    let mut received = Vec::new();
    manager.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut message = [0; 512];
    running.wait_for("READY was sent", |_| {
        let length = manager.recv(&mut message).unwrap_or(0);
        received.push(String::from_utf8_lossy(&message[..length]).into_owned());
        received.last().unwrap().starts_with("READY=1")
    });
    let ended = stop_with_sigterm(running, STOP);
    assert!(ended.status.success(), "{}", ended.describe());
}
