//! A running program: its start with everything it is given, and its end. Used only by the relay's thread, and the program ends with that
//! thread. May block for as long as the program's file system does.

use super::program::{environment, find};
use super::settings::ProgramSettings;
use crate::sys::fd::set_nonblocking;
use crate::sys::process::{Child, Launch, Packets, Refused, Step};
use crate::sys::thread;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::process::ExitStatus;

/// Bytes of frames that may wait for a program, if the kernel allows that many.
const SOCKET_ROOM: i32 = 1 << 20;

/// Added to hertzd's own OOM score adjustment, so that the kernel kills the program first when memory runs out.
const OOM_SCORE: i32 = 300;

/// Limits for one poll of the program's output: bytes per read, and reads.
const READ_AT_ONCE: usize = 8_192;
const READS: usize = 8;

/// A started program.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    pub(super) socket: Packets,
    printed: PipeReader,
    cpus: Vec<usize>, // this thread's CPUs at the last check; at first the ones the program started with
}

impl Program {
    /// Starts the program. Also returns what the kernel refused, each as a sentence with its remedy.
    ///
    /// # Errors
    /// The reason why it was not started, and what to do.
    pub(super) fn start(settings: &ProgramSettings) -> Result<(Self, Vec<String>), String> {
        let environment = environment(settings);
        let path = find(settings, &environment)?;
        let cpus = thread::affinity().unwrap_or_default();
        let text = |text: &OsStr| CString::new(text.as_encoded_bytes()).map_err(|_| "it has a NUL byte".to_owned());
        let program = text(path.as_os_str())?;
        let arguments = settings.command.iter().map(|part| text(part.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let pair =
            |(name, value): (&_, &_)| text(&[name, OsStr::new("="), value].into_iter().collect::<std::ffi::OsString>());
        let environment: Vec<CString> = environment
            .iter()
            .map(|(name, value)| pair((name.as_os_str(), value.as_os_str())))
            .collect::<Result<_, _>>()?;
        let folder = settings.folder.as_ref().map(|folder| text(folder.as_os_str())).transpose()?;
        let made = || -> io::Result<_> {
            let (socket, theirs) = Packets::pair()?;
            socket.make_room(SOCKET_ROOM);
            let (printed, prints) = io::pipe()?;
            set_nonblocking(&printed)?;
            Ok((socket, theirs, printed, prints, File::open("/dev/null")?))
        };
        let (socket, theirs, printed, prints, null) = made()
            .map_err(|error| format!("cannot make the socket and the pipe to it: {error}; raise LimitNOFILE="))?;
        let launch = Launch {
            program: &program,
            arguments: &arguments,
            environment: &environment,
            folder: folder.as_deref(),
            files: [null.as_fd(), prints.as_fd(), prints.as_fd(), theirs.as_fd()],
            memory: settings.memory,
        };
        let (child, unmet) = launch.start().map_err(|refused| why(&path.display().to_string(), &refused))?;
        let mut told: Vec<String> = unmet.iter().map(|(step, error)| without(*step, error)).collect();
        if let Err(error) = child.yield_memory(OOM_SCORE) {
            told.push(format!(
                "it could not be made the first to end when memory runs out (oom_score_adj): {error}; hertzd itself may be chosen"
            ));
        }
        Ok((Self { child, socket, printed, cpus }, told))
    }

    pub(super) fn id(&self) -> i32 {
        self.child.id()
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How the program ended, once it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.look()
    }

    /// Keeps the program, and everything that it has started, off the CPUs of pinned workers by moving it to this thread's CPUs. Other CPUs
    /// that a thread chose for itself stay, as long as no worker's CPU is among them.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(super) fn keep_off_workers(&mut self) -> io::Result<()> {
        let cpus = thread::affinity()?;
        let before = std::mem::replace(&mut self.cpus, cpus);
        self.child.keep_off(&thread::reserved(), &self.cpus, &before)
    }

    /// Passes on what the program has printed. A part may be left for the next poll.
    pub(super) fn read(&mut self, mut take: impl FnMut(&[u8])) {
        let mut bytes = [0; READ_AT_ONCE];
        for _ in 0..READS {
            match self.printed.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(count) => take(&bytes[..count]),
            }
        }
    }
}

fn why(path: &str, Refused { step, error }: &Refused) -> String {
    let remedy = match (step, error.raw_os_error()) {
        (Step::Run, Some(libc::ENOENT)) => "; the interpreter that its first line names, or its loader, is not there",
        (Step::Run, Some(libc::ENOEXEC)) => "; it is no program and has no first line such as #!/usr/bin/python3",
        (Step::Run, Some(libc::EACCES)) => "; let the daemon's user run it",
        (Step::Run | Step::Memory, Some(libc::ENOMEM)) => "; raise memory-limit",
        (Step::Clone, _) => "; the limit of processes may be reached: raise LimitNPROC= or TasksMax=",
        (Step::Memory, Some(libc::EPERM)) => "; the service already has a lower limit: raise LimitAS=",
        _ => "",
    };
    let what = match step {
        Step::Clone => "no process could be made for it",
        Step::EndWithParent => "it could not be made to end with hertzd",
        Step::Group => "it could not be given a group of its own",
        Step::Descriptors => "it could not be given its socket",
        Step::Folder => "its folder could not be entered",
        Step::Memory => "its memory could not be limited",
        Step::Run | Step::Policy | Step::NoRealtime | Step::NoCapabilities => "the kernel does not run it",
    };
    format!("cannot run {path}: {what}: {error}{remedy}")
}

fn without(step: Step, error: &io::Error) -> String {
    match step {
        Step::Policy => format!(
            "it could not be given the normal policy at nice 0: {error}; it runs with that of hertzd: start hertzd without one of its own"
        ),
        Step::NoCapabilities => {
            format!("it inherits capabilities of hertzd: {error}; allow capset, in a unit by SystemCallFilter=capset")
        }
        _ => format!("it may still become real-time: {error}; allow prctl and setrlimit"),
    }
}
