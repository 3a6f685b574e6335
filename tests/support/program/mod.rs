//! Starts the real program in a test, sends it signals, waits for it, and reads what it wrote.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

#[path = "../emulation.rs"]
pub(crate) mod emulation;
#[path = "../time.rs"]
mod time;

pub(crate) use time::{pause, stopwatch};

pub(crate) mod disk;

use hertzd::time::Span;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// The program under test.
pub(crate) const HERTZD: &str = env!("CARGO_BIN_EXE_hertzd");

/// Placeholder in a configuration for the folder of the test's files.
pub(crate) const HERE: &str = "@HERE@";

/// A started program. Killed on drop.
pub(crate) struct Running {
    child: Child,
    folder: TempDir,
}

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) folder: TempDir,
}

/// Starts `hertzd run CONFIG ARGS`.
pub(crate) fn run(config: &str, args: &[&str]) -> Running {
    run_by(Command::new(HERTZD), config, args)
}

/// Starts `command run CONFIG ARGS`, where `command` starts hertzd.
pub(crate) fn run_by(command: Command, config: &str, args: &[&str]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder, command, config, args)
}

/// Starts `command run CONFIG ARGS` with its files in `folder`.
pub(crate) fn run_in(folder: TempDir, mut command: Command, config: &str, args: &[&str]) -> Running {
    let path = folder.path().join("test.toml");
    fs::write(&path, config.replace(HERE, folder.path().to_str().unwrap())).unwrap();
    command.arg("run").arg(path).args(args);
    // The default stop timeout applies only to tests of a hang. A busy machine may delay a worker for longer than that.
    if !args.contains(&"--stop-timeout") && !config.contains("\"hang\"") {
        command.args(["--stop-timeout", "60s"]);
    }
    start(folder, command)
}

/// Starts `command` with its output in files in `folder`, because a full pipe would block it.
pub(crate) fn start(folder: TempDir, mut command: Command) -> Running {
    let file = |name| File::create(folder.path().join(name)).unwrap();
    let command = command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).env_remove("HERTZD_LOG");
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Running { child, folder }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    /// Waits until it has logged what its workers were granted; the first release follows within milliseconds.
    pub(crate) fn wait_until_granted(&mut self) {
        self.wait_for("it is set up", |running| running.stderr().contains("granted"));
    }

    /// Waits until `seen` is true. Fails if the program ends first.
    pub(crate) fn wait_for(&mut self, what: &str, mut seen: impl FnMut(&Self) -> bool) {
        let waited = stopwatch();
        loop {
            let looked = stopwatch();
            if seen(self) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            let patient = waited() < PATIENCE;
            assert!(ended.is_none() && patient, "timed out before {what}: {ended:?}\n{}", self.stderr());
            // Tests that look by `hertzd status` would otherwise keep a CPU busy.
            let took = looked();
            pause((took + took + took).clamp(Span::from_millis(5), Span::from_millis(100)));
        }
    }

    /// Sends it a signal by name, `INT`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Stops it for at least `span`, then lets it continue.
    pub(crate) fn hold(&mut self, span: Span) {
        self.signal("STOP");
        self.wait_for("every thread has stopped", |running| {
            let threads: Vec<_> = threads(running.pid()).collect();
            !threads.is_empty() && threads.iter().all(|thread| state(thread) == Some('T'))
        });
        pause(span);
        self.signal("CONT");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends. The limit detects a hang and leaves room for a slow machine.
    pub(crate) fn wait(mut self) -> Ended {
        let waited = stopwatch();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(waited() < PATIENCE, "still running:\n{}", self.stderr());
            pause(Span::from_millis(5));
        };
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
        Ended { status, stdout: read("stdout"), stderr: read("stderr"), folder }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Parses the single line on stdout. Asserts that its counts add up and that the exit code matches it.
    pub(crate) fn summary(&self) -> Value {
        let lines: Vec<_> = self.stdout.lines().collect();
        let &[line] = &lines[..] else { panic!("not one line but {}: {}", lines.len(), self.describe()) };
        let summary: Value = serde_json::from_str(line).unwrap();
        assert_eq!(summary["version"], 1);
        for task in summary["tasks"].as_array().unwrap() {
            assert_eq!(count(task, "ran") + count(task, "skipped"), count(task, "due"), "{task}");
        }
        match summary["reason"].as_str() {
            None => assert_eq!((self.status.code(), &summary["well"]), (Some(0), &true.into()), "{}", self.describe()),
            Some(reason) => {
                assert!(matches!(self.status.code(), Some(1 | 70)) && summary["well"] == false, "{}", self.describe());
                assert!(self.status.code() == Some(70) || self.stderr.contains(reason), "{}", self.describe());
            }
        }
        summary
    }

    /// Asserts that it ran and that nothing went wrong beyond what its summary says, such as rows that a slow disk lost.
    pub(crate) fn assert_no_fault(&self) {
        assert!(matches!(self.status.code(), Some(0 | 1)), "{}", self.describe());
        self.summary();
    }

    /// The exit status and all output, for the message of an assertion.
    pub(crate) fn describe(&self) -> String {
        format!("{}\n--- stdout\n{}\n--- stderr\n{}", self.status, self.stdout, self.stderr)
    }
}

/// The time after which a program counts as hanging.
pub(crate) const PATIENCE: Span = Span::from_seconds(120);

/// The output of `hertzd status ARGS` for the daemon at `socket`, once the answer is complete. `hertzd status` gives up after two seconds,
/// and a busy machine may delay it or the daemon for that long.
pub(crate) fn status(socket: &Path, args: &[&str]) -> Output {
    let waited = stopwatch();
    loop {
        let output = Command::new(HERTZD).arg("status").args(args).arg("--socket").arg(socket).output().unwrap();
        let cut_off = String::from_utf8_lossy(&output.stdout).contains("(there was no time to show more");
        if output.status.code() != Some(69) && !output.stdout.is_empty() && !cut_off {
            return output;
        }
        assert!(waited() < PATIENCE, "timed out before it answers: {output:?}");
        pause(Span::from_millis(5));
    }
}

/// Receives as a service manager at `path`, and returns all messages up to an empty one.
pub(crate) fn messages_to(path: &Path) -> JoinHandle<String> {
    let manager = UnixDatagram::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut all, mut message) = (String::new(), [0; 4_096]);
        while let length @ 1.. = manager.recv(&mut message).unwrap() {
            all += str::from_utf8(&message[..length]).unwrap();
        }
        all
    })
}

/// The snapshot of the daemon at `socket`, once it answers.
pub(crate) fn snapshot(socket: &Path) -> Value {
    let output = status(socket, &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Sends `signal` to `pid`, with the built-in `kill` of the shell.
pub(crate) fn signal(pid: u32, signal: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap();
    assert!(status.success(), "kill -{signal} {pid}");
}

/// Waits until the FIFO is opened for reading. The reader blocks for as long as the returned file is open.
pub(crate) fn block_reader(running: &mut Running, path: &Path) -> File {
    let mut writer = None;
    running.wait_for("it reads the FIFO", |_| {
        writer = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).ok();
        writer.is_some()
    });
    writer.unwrap()
}

/// Builds the C file `tests/support/program/NAME.c` into `folder`, as a library for LD_PRELOAD.
pub(crate) fn preload(folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(name).with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/program").join(name).with_extension("c");
    let built = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.unwrap().success());
    library
}

/// Fills a pipe. Returns whether there was room in it.
pub(crate) fn fill(pipe: &impl AsRawFd) -> bool {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut writer = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    let mut written = 0;
    while let Ok(more) = writer.write(&[b'.'; 4_096]) {
        written += more;
    }
    written > 0
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> Vec<usize> {
    cpus(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap())
}

/// The CPUs that this thread may use.
pub(crate) fn affinity() -> Vec<usize> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let online = online_cpus();
    cpus(allowed).into_iter().filter(|cpu| online.contains(cpu)).collect()
}

/// Parses a list in the kernel's format: `0-3,6`.
fn cpus(list: &str) -> Vec<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap()..=last.parse::<usize>().unwrap()
    };
    list.trim().split(',').flat_map(range).collect()
}

/// The folders of a process's threads.
pub(crate) fn threads(pid: u32) -> impl Iterator<Item = PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.filter_map(|entry| Some(entry.ok()?.path()))
}

/// The id of the thread of a process whose name starts with `prefix`.
pub(crate) fn thread_named(pid: u32, prefix: &str) -> Option<u32> {
    let named = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with(prefix));
    threads(pid).find(named)?.file_name()?.to_str()?.parse().ok()
}

/// The state of a thread, given its folder. `D`: it waits in the kernel and cannot be killed.
pub(crate) fn state(thread: &Path) -> Option<char> {
    fs::read_to_string(thread.join("stat")).ok()?.rsplit_once(") ")?.1.chars().next()
}

/// The part of a summary about task `name`.
pub(crate) fn task<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let tasks = summary["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["task"] == name).unwrap_or_else(|| panic!("no task {name}: {summary}"))
}

/// The count `key` in a part of a summary.
pub(crate) fn count(part: &Value, key: &str) -> u64 {
    part[key].as_u64().unwrap_or_else(|| panic!("no count {key}: {part}"))
}

/// The nanoseconds of `key` in a distribution.
pub(crate) fn nanos(part: &Value, distribution: &str, key: &str) -> i64 {
    part[distribution][key].as_i64().unwrap_or_else(|| panic!("no {distribution}.{key}: {part}"))
}

/// Tests all cases at once, each on a thread of its own, since most of the time they wait.
pub(crate) fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    std::thread::scope(|scope| {
        for case in cases {
            let test = &test;
            std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, move || test(case)).unwrap();
        }
    });
}

/// Prints why something is not tested. As root in CI, where everything must be tested, this is a failure.
pub(crate) fn skip(why: &str) {
    emulation::say_skipped(why);
    let required = is_root() && std::env::var_os("HERTZD_TEST_MUST_RUN").is_some();
    assert!(!required, "HERTZD_TEST_MUST_RUN is set, but skipped: {why}");
}

/// Whether this command runs here.
pub(crate) fn works(mut command: Command) -> bool {
    command.arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether a Rust compiler is available to this user and for this test's machine. If not, prints why the test is skipped.
pub(crate) fn has_rust(rustc: Command) -> bool {
    if emulation::cannot_be_emulated(emulation::NO_RUST) {
        return false;
    }
    let has = works(rustc) && works(Command::new("cargo"));
    if !has {
        skip("no Rust compiler that this user may run");
    }
    has
}

/// hertzd for an ordinary user without real-time limits, who may write to `folder`. The program is copied there, where any user may run it.
pub(crate) fn of_ordinary_user(folder: &Path) -> Command {
    let mut command = Command::new("prlimit");
    command.args(["--rtprio=0", "--memlock=0"]);
    if !is_root() {
        command.arg(HERTZD);
        return command;
    }
    let program = folder.join("hertzd");
    copy_program(&program);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command
}

/// Copies hertzd to `to`, in a separate process. If this process had the file open for writing, a child that another test starts meanwhile
/// would inherit it until its exec. Starting the copy would then fail with "Text file busy".
pub(crate) fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(HERTZD).arg(to).status().unwrap().success());
}

/// Writes a shell script that anyone may run, in a separate process (see [`copy_program`]).
pub(crate) fn script(to: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-ec", "printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(to).arg(text);
    assert!(command.status().unwrap().success());
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// The policy granted to the first worker.
pub(crate) fn granted(summary: &Value) -> &str {
    summary["workers"][0]["granted"]["policy"].as_str().unwrap()
}
