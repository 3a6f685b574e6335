//! The three processes and their folder: started, looked at, and ended, whatever happens to any of them.
//!
//! Each process that is started holds one end of something of which this process holds the other: the plant a socket, the daemon and the
//! busy loops a pipe. When this process ends, by `kill -9` too, the kernel closes these ends, and the others end by themselves: the daemon as after
//! SIGTERM, with the output safe. So no process stays, and no signal has to be sent.

use crate::row::Row;
use hertzd::time::Span;
use signal_hook::consts::SIGTERM;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// In the environment of a daemon that ends when its standard input does.
const ENDS_WITH_INPUT: &str = "PENDULUM_ENDS_WITH_INPUT";

/// The name of the configuration in the folder.
const CONFIG: &str = "pendulum.toml";

/// The thread of the worker `main`.
const WORKER: &str = "hz-main";

/// Everything that runs.
pub(crate) struct Parts {
    folder: TempDir,
    plant: Child,
    rows: Rows,
    daemon: Child,
    daemon_input: Option<ChildStdin>,
    summary: File,
    log: File,
    busy: Option<Child>, // ends with its standard input
}

/// What the daemon has written.
pub(crate) struct Said {
    pub(crate) summary: String,
    pub(crate) log: String,
}

/// How many busy loops there are to be, and on which CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    pub(crate) loops: NonZeroUsize,
    pub(crate) cpu: usize,
}

impl Parts {
    /// Starts the plant, and the daemon with the configuration `text`.
    pub(crate) fn start(text: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("hertzd-pendulum-").tempdir_in(place())?;
        std::fs::write(folder.path().join(CONFIG), text)?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut plant = itself()?;
        let mut plant = plant.arg("plant").arg(folder.path()).stdin(OwnedFd::from(theirs)).spawn()?;
        let rows = Rows { stream: ours, text: Vec::new(), ended: false };
        // They have no name, so they are gone when the last process that has them open is.
        let (summary, log) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let started = wait_for(&folder.path().join(crate::row::POLE), &mut plant)
            .and_then(|()| daemon(folder.path(), &summary, &log));
        match started {
            Ok(mut daemon) => {
                let daemon_input = daemon.stdin.take();
                Ok(Self { folder, plant, rows, daemon, daemon_input, summary, log, busy: None })
            }
            Err(error) => {
                drop(rows);
                let _ = plant.wait();
                Err(error)
            }
        }
    }

    /// Starts busy loops beside the worker, and gives its thread the lowest weight that there is: as a background job would have, and of no
    /// effect under a real-time policy.
    pub(crate) fn compete(&mut self, busy: Busy) -> io::Result<()> {
        let worker = worker(self.daemon.id())?.to_string();
        let reniced = Command::new("renice").args(["-n", "19", "-p", &worker]).stdout(Stdio::null()).status()?;
        if !reniced.success() {
            return Err(io::Error::other(format!("renice of thread {worker}: {reniced}")));
        }
        let mut command = itself()?;
        command.args(["busy", &busy.cpu.to_string(), &busy.loops.to_string()]).stdin(Stdio::piped());
        self.busy = Some(command.spawn()?);
        Ok(())
    }

    /// The latest row that the plant has sent since this was last asked.
    pub(crate) fn row(&mut self) -> Option<Row> {
        self.rows.latest()
    }

    /// Sends the plant a key.
    pub(crate) fn press(&mut self, key: u8) {
        // A plant that is gone is noticed elsewhere.
        let _ = self.rows.stream.write(&[key]);
    }

    /// How the plant ended, if it has.
    pub(crate) fn plant_ended(&mut self) -> Option<ExitStatus> {
        self.plant.try_wait().ok().flatten()
    }

    /// How the daemon ended, if it has.
    pub(crate) fn daemon_ended(&mut self) -> Option<ExitStatus> {
        self.daemon.try_wait().ok().flatten()
    }

    pub(crate) fn daemon_id(&self) -> u32 {
        self.daemon.id()
    }

    pub(crate) fn plant_id(&self) -> u32 {
        self.plant.id()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The end of what the daemon has logged.
    pub(crate) fn log_end(&self) -> String {
        text(&self.log, 2_048)
    }

    /// Ends everything in good order, first who acts and then what is acted on.
    pub(crate) fn end(mut self) -> io::Result<Said> {
        // Before the daemon: its worker has to get the CPU to end.
        if let Some(mut busy) = self.busy.take() {
            drop(busy.stdin.take());
            busy.wait()?;
        }
        drop(self.daemon_input.take());
        self.daemon.wait()?;
        let said = Said { summary: text(&self.summary, u64::MAX), log: text(&self.log, u64::MAX) };
        let Self { mut plant, rows, folder, .. } = self;
        drop(rows);
        plant.wait()?;
        // Where the plant was killed it has not removed it.
        match folder.close() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(said),
        }
    }
}

/// What the plant sends.
struct Rows {
    stream: UnixStream,
    text: Vec<u8>,
    ended: bool,
}

impl Rows {
    fn latest(&mut self) -> Option<Row> {
        let mut buffer = [0; 4_096];
        while !self.ended {
            match self.stream.read(&mut buffer) {
                Ok(count @ 1..) => self.text.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                _ => self.ended = true,
            }
        }
        let end = self.text.iter().rposition(|byte| *byte == b'\n')? + 1;
        let lines: Vec<u8> = self.text.drain(..end).collect();
        Row::read(str::from_utf8(&lines).ok()?.lines().last()?)
    }
}

/// A folder in memory, if there is one: a disk has no place in a loop.
fn place() -> PathBuf {
    let memory = [Some("/dev/shm".into()), std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)];
    let is_ours = |path: &PathBuf| tempfile::tempfile_in(path).is_ok();
    memory.into_iter().flatten().find(is_ours).unwrap_or_else(std::env::temp_dir)
}

/// Waits until the plant has made its file.
fn wait_for(file: &Path, plant: &mut Child) -> io::Result<()> {
    while !file.exists() {
        if let Some(status) = plant.try_wait()? {
            return Err(io::Error::other(format!("the plant ended at once: {status}")));
        }
        crate::time::sleep(Span::from_millis(1));
    }
    Ok(())
}

/// This program, in a process group of its own: Ctrl-C is for the process that started it.
fn itself() -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.process_group(0);
    Ok(command)
}

/// `hertzd run` in the folder, by the example itself.
fn daemon(folder: &Path, summary: &File, log: &File) -> io::Result<Child> {
    let mut command = itself()?;
    command.args(["run", CONFIG, "--log-format", "text"]).current_dir(folder).env(ENDS_WITH_INPUT, "1");
    // Without a runtime directory there is no status socket but this one.
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() && std::fs::metadata("/run/hertzd").is_err() {
        command.arg("--status-socket").arg(folder.join("status.sock"));
    }
    command.stdin(Stdio::piped()).stdout(summary.try_clone()?).stderr(log.try_clone()?).spawn()
}

/// The daemon's thread of the worker that all configurations of this example have.
fn worker(daemon: u32) -> io::Result<u32> {
    for thread in std::fs::read_dir(format!("/proc/{daemon}/task"))? {
        let thread = thread?;
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if let (WORKER, Ok(id)) = (name.trim_end(), thread.file_name().to_string_lossy().parse()) {
            return Ok(id);
        }
    }
    Err(io::Error::other(format!("the daemon has no thread {WORKER}")))
}

/// In the daemon: has it end when the process that started it has.
pub(crate) fn end_with_input() -> io::Result<()> {
    if std::env::var_os(ENDS_WITH_INPUT).is_none() {
        return Ok(());
    }
    let wait = || {
        read_to_end();
        let _ = signal_hook::low_level::raise(SIGTERM);
    };
    std::thread::Builder::new().name("input".into()).stack_size(64 * 1_024).spawn(wait).map(drop)
}

/// In the process of the busy loops: so many of them on one CPU, until the process that started this one has ended.
pub(crate) fn keep_busy(busy: Busy) {
    for _ in 0..busy.loops.get() {
        std::thread::spawn(move || {
            core_affinity::set_for_current(core_affinity::CoreId { id: busy.cpu });
            loop {
                std::hint::spin_loop();
            }
        });
    }
    read_to_end();
}

/// Returns when the other end of the standard input is closed.
fn read_to_end() {
    let mut buffer = [0; 64];
    while io::stdin().read(&mut buffer).is_ok_and(|count| count > 0) {}
}

/// At most so many bytes at the end of a file which a child writes to; the position, which both share, stays.
fn text(file: &File, most: u64) -> String {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = vec![0; usize::try_from(length.min(most)).unwrap_or(0)];
    let read = file.read_at(&mut bytes, length.saturating_sub(most)).unwrap_or(0);
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).into_owned()
}
