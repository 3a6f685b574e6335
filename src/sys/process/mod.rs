//! Other programs: starts a program that ends when this process does, watches it, limits it, and ends it with everything that it started.
//!
//! A start does not fork. The child borrows this process's memory until it executes its program, so no page of a real-time thread has to be
//! copied. Meanwhile only the starting thread waits. The child ends when *that thread* ends: keep the thread for as long as the program is
//! to run. The only clock read here is the child's own. Only a start blocks. Everything may allocate.

mod begin;
mod kin;
mod packets;

pub(crate) use begin::Step;
pub(crate) use packets::{Packets, Ready};

use super::from_minus_one;
use super::thread::{self, with_signals_blocked};
use crate::time::{NANOS_PER_SECOND, Span};
use begin::Plan;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::{fs, io, mem, ptr};

/// The descriptor at which the program finds its socket.
pub(crate) const SOCKET: i32 = 3;

/// Files are first duplicated to descriptors from here on, above 0 to [`SOCKET`].
const ASIDE: libc::c_int = 10;

/// The child's stack until it executes its program, in words of 16 bytes: 64 KiB.
const STACK: usize = 4096;

/// The most passes of [`Child::keep_off`] over a program's threads: it stops when no thread had to be moved.
const PASSES: usize = 4;

/// A program to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The program's file.
    pub(crate) program: &'a CStr,
    /// The arguments, the program's own name first.
    pub(crate) arguments: &'a [CString],
    /// The entire environment, each entry as `NAME=VALUE`.
    pub(crate) environment: &'a [CString],
    /// The working directory; `None`: this process's.
    pub(crate) folder: Option<&'a CStr>,
    /// Standard input, standard output, standard error and the socket.
    pub(crate) files: [BorrowedFd<'a>; 4],
    /// The limit of the address space, in bytes.
    pub(crate) memory: Option<u64>,
}

/// Why a program was not started.
#[derive(Debug)]
pub(crate) struct Refused {
    /// What was attempted.
    pub(crate) step: Step,
    /// The kernel's reason.
    pub(crate) error: io::Error,
}

/// A program that was started. Dropping it kills the program and its group.
#[derive(Debug)]
pub(crate) struct Child {
    pid: libc::pid_t,
    ended: Option<ExitStatus>,
}

impl Launch<'_> {
    /// Starts the program in a group of its own, at normal priority. Besides the child, returns the optional steps that the kernel refused.
    ///
    /// # Errors
    /// The step that failed; nothing runs then.
    pub(crate) fn start(&self) -> Result<(Child, Vec<(Step, io::Error)>), Refused> {
        let refused = |step| move |error| Refused { step, error };
        let pointers = |texts: &[CString]| {
            let mut all: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
            all.push(ptr::null());
            all
        };
        let (arguments, environment) = (pointers(self.arguments), pointers(self.environment));
        let aside = self.files.map(set_aside);
        let [Ok(input), Ok(out), Ok(err), Ok(socket)] = &aside else {
            let error = aside.into_iter().find_map(Result::err).unwrap_or_else(super::invalid);
            return Err(Refused { step: Step::Descriptors, error });
        };
        let files = [input, out, err, socket].map(AsRawFd::as_raw_fd);
        let mut plan = Plan::new(
            self.program.as_ptr(),
            (arguments.as_ptr(), environment.as_ptr()),
            self.folder.map_or(ptr::null(), CStr::as_ptr),
            files,
            self.memory,
        );
        let mut stack = vec![0_u128; STACK];
        let top: *mut libc::c_void = stack.as_mut_ptr_range().end.cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let given: *mut libc::c_void = (&raw mut plan).cast();
        // A handler of this process must not run in the child, which shares its memory.
        let started = with_signals_blocked(|| {
            // SAFETY: `begin` only makes system calls and writes to the plan. The plan, the stack and everything that the plan points to
            // outlive the child's use of them: with CLONE_VFORK the call returns when the child has executed its program or has ended.
            from_minus_one(unsafe { libc::clone(begin::begin, top, flags, given) })
        });
        let pid = started.and_then(|pid| pid).map_err(refused(Step::Clone))?;
        drop(stack);
        let mut child = Child { pid, ended: None };
        if let Some((step, errno)) = plan.failed() {
            child.reap();
            return Err(Refused { step, error: io::Error::from_raw_os_error(errno) });
        }
        Ok((child, plan.unmet()))
    }
}

/// Duplicates an open file to a high descriptor, which is closed when a program is executed.
fn set_aside(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open for as long as it is borrowed; no memory is involved.
    let fd = from_minus_one(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE) })?;
    // SAFETY: the kernel has just created it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Child {
    /// The process id, which is also the group's.
    pub(crate) fn id(&self) -> i32 {
        self.pid
    }

    /// The exit status, once the program has ended. What is left of its group is killed then.
    pub(crate) fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_some() {
            return self.ended;
        }
        // SAFETY: siginfo_t is made of integers and pointers that are not followed, for which all-zero bytes are valid.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is owned and outlives the call; the id is that of a child that has not been reaped.
        let asked = from_minus_one(unsafe { libc::waitid(libc::P_PID, self.pid.cast_unsigned(), &raw mut info, how) });
        // SAFETY: waitid has filled it in, or it is all zero.
        let has_ended = asked.is_ok() && unsafe { info.si_pid() } == self.pid;
        if has_ended {
            // The id cannot be reused until the child is reaped.
            self.signal(libc::SIGKILL);
            self.reap();
        }
        self.ended
    }

    /// Stops the program and its whole group.
    pub(crate) fn hold(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets the program and its group continue.
    pub(crate) fn release(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Asks the program and its whole group to end.
    pub(crate) fn ask_to_end(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Kills the program and its whole group.
    pub(crate) fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    fn signal(&self, signal: libc::c_int) {
        if self.ended.is_none() {
            // SAFETY: no memory is involved. The group's id is that of a child that has not been reaped, so no other group can have it.
            let _ = unsafe { libc::kill(-self.pid, signal) };
            // The child may have moved to another group.
            // SAFETY: takes a number and touches no memory.
            if unsafe { libc::getpgid(self.pid) } != self.pid {
                // SAFETY: no memory is involved. The id is that of a child that has not been reaped.
                let _ = unsafe { libc::kill(self.pid, signal) };
            }
        }
    }

    /// Collects the exit status if the child has ended.
    fn reap(&mut self) {
        let mut status = 0;
        // SAFETY: `status` is owned and outlives the call; the id is that of a child that has not been reaped.
        let reaped = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) };
        if reaped == self.pid {
            self.ended = Some(ExitStatus::from_raw(status));
        }
    }

    /// Processor time used by all threads of the program, without its own children; `None`: the kernel does not report it.
    pub(crate) fn cpu_time(&self) -> Option<Span> {
        let mut clock = 0;
        // SAFETY: `clock` is owned and outlives the call.
        let code = unsafe { libc::clock_getcpuclockid(self.pid, &raw mut clock) };
        // SAFETY: timespec is made of integers, for which all-zero bytes are valid.
        let mut time: libc::timespec = unsafe { mem::zeroed() };
        // SAFETY: `time` is owned and of the type that the kernel fills; an unknown clock is refused.
        let read = code == 0 && unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
        let nanos = i128::from(time.tv_sec) * i128::from(NANOS_PER_SECOND) + i128::from(time.tv_nsec);
        read.then(|| Span::from_wide(nanos))
    }

    /// Makes the kernel kill this program earlier than others when memory runs out: adds `more` to this process's OOM score adjustment (at
    /// most 1000).
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn yield_memory(&self, more: i32) -> io::Result<()> {
        let own = fs::read_to_string("/proc/self/oom_score_adj")?.trim().parse().unwrap_or(0);
        fs::write(format!("/proc/{}/oom_score_adj", self.pid), more.saturating_add(own).min(1000).to_string())
    }

    /// Keeps the program's threads, and those of everything that it started, off the CPUs `reserved`. A thread is moved to `cpus` if it may
    /// run on a reserved CPU, or if its CPUs are exactly `before`. Any other choice of CPUs is the thread's own and stays.
    ///
    /// # Errors
    /// The kernel's reason for the last thread that it refused to move.
    pub(crate) fn keep_off(&self, reserved: &[usize], cpus: &[usize], before: &[usize]) -> io::Result<()> {
        let (mut result, mut thorough) = (Ok(()), cpus != before);
        // Repeated, because a thread that was not moved yet may have started another one.
        for _ in 0..PASSES {
            let mut moved = false;
            for thread in kin::threads(self.pid, thorough) {
                match thread::keep_off(reserved, thread, cpus, before) {
                    Ok(was_moved) => moved |= was_moved,
                    Err(error) => result = Err(error),
                }
            }
            if !moved {
                break;
            }
            thorough = true;
        }
        result
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.reap(); // if it has not ended yet, the kernel reaps it when this process ends
    }
}

/// Whether this process may execute the file at `path`.
///
/// # Errors
/// The kernel's reason why not.
pub(crate) fn may_run(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: `path` ends with a NUL byte and outlives the call.
    from_minus_one(unsafe { libc::access(path.as_ptr(), libc::X_OK) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::pause;
    use crate::sys::emulation::{OWN_MEMORY, cannot_be_emulated};
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read};
    use std::os::fd::AsFd;
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    fn text(text: &str) -> CString {
        CString::new(text).unwrap()
    }

    /// Runs a shell script to its end; returns its output and its exit status.
    fn shell(script: &str, memory: Option<u64>) -> (String, ExitStatus) {
        let (mut reader, writer) = io::pipe().unwrap();
        let (_ours, theirs) = Packets::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let arguments = ["sh", "-c", script].map(text);
        let environment = [text("PATH=/usr/bin:/bin"), text("GIVEN=yes")];
        let launch = Launch {
            program: c"/bin/sh",
            arguments: &arguments,
            environment: &environment,
            folder: Some(c"/proc/self"),
            files: [null.as_fd(), writer.as_fd(), writer.as_fd(), theirs.as_fd()],
            memory,
        };
        let (mut child, _) = launch.start().map_err(|refused| refused.error).unwrap();
        drop(writer);
        let mut written = String::new();
        reader.read_to_string(&mut written).unwrap();
        loop {
            if let Some(status) = child.look() {
                return (written, status);
            }
            pause(Span::from_millis(1));
        }
    }

    #[test]
    fn a_child_has_what_it_was_given_and_nothing_else() {
        let held = File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is open; without the flag it would be inherited.
        from_minus_one(unsafe { libc::fcntl(held.as_raw_fd(), libc::F_SETFD, 0) }).unwrap();
        let script = "echo $GIVEN; for f in /proc/$$/fd/*; do echo ${f##*/}; done; \
                      while read k v; do case $k in Sig*|NSpgid:) echo $k $v;; esac; done < /proc/$$/status; echo $$; exit 7";
        let (written, status) = shell(script, None);
        let lines: Vec<_> = written.lines().collect();
        // The shell may keep a file of its own at 10 or above; 4 to 9 would be ours.
        let numbers: Vec<u32> = lines[1..].iter().map_while(|line| line.parse().ok()).collect();
        assert_eq!(lines[0], "yes");
        assert!(numbers.starts_with(&[0, 1]) || numbers.contains(&0), "{written}");
        assert!([0, 1, 2, 3].iter().all(|fd| numbers.contains(fd)), "{written}");
        assert!(!numbers.contains(&u32::try_from(held.as_raw_fd()).unwrap()) || numbers.len() <= 5, "{written}");
        for mask in ["SigBlk:", "SigIgn:"] {
            let line = lines.iter().find_map(|line| line.strip_prefix(mask)).unwrap();
            // The C library and QEMU keep signals 32 and 33 for themselves.
            let signals = u64::from_str_radix(line.trim(), 16).unwrap() & !(3 << 31);
            assert_eq!(signals, 0, "{mask}{line}");
        }
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn address_space_is_limited() {
        if cannot_be_emulated("it passes over a limit of the address space, which would be its own") {
            return;
        }
        let (written, _) = shell("ulimit -v", Some(300 << 20));
        assert_eq!(written.trim(), (300 << 10).to_string());
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_step() {
        if cannot_be_emulated(OWN_MEMORY) {
            return;
        }
        let (_ours, theirs) = Packets::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let start = |program: &CStr, folder| {
            let files = [null.as_fd(), null.as_fd(), null.as_fd(), theirs.as_fd()];
            let (arguments, environment) = (&[text("x")], &[]);
            let refused = Launch { program, arguments, environment, folder, files, memory: None }.start().unwrap_err();
            (refused.step, refused.error.raw_os_error())
        };
        assert_eq!(start(c"/nonexistent", None), (Step::Run, Some(libc::ENOENT)));
        assert_eq!(start(c"/dev/null", None), (Step::Run, Some(libc::EACCES)));
        assert_eq!(start(c"/bin/sh", Some(c"/nonexistent")), (Step::Folder, Some(libc::ENOENT)));
    }

    #[test]
    fn all_that_a_program_has_started_is_found() {
        let find = |program: i32, thorough| -> BTreeSet<i32> {
            kin::threads(program, thorough).iter().map(|thread| thread.number()).collect()
        };
        // A child with a child of its own, and a process whose parent has ended.
        let script = "(sleep 1000 & echo $!; wait) & (sleep 1000 & echo $!) & wait";
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", script]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let written = BufReader::new(shell.stdout.take().unwrap());
        let started: Vec<i32> = written.lines().take(2).map(|line| line.unwrap().parse().unwrap()).collect();
        let program = i32::try_from(shell.id()).unwrap();
        let found = find(program, true);
        // SAFETY: no memory is involved. The group's id is that of a child that has not been reaped.
        unsafe { libc::kill(-program, libc::SIGKILL) };
        shell.wait().unwrap();
        assert!(found.contains(&program) && started.iter().all(|one| found.contains(one)), "{found:?} {started:?}");
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!found.contains(&own), "{found:?}");
    }

    #[test]
    fn a_group_ends_with_its_first_process() {
        let (written, _) = shell("sleep 1000 >/dev/null 2>&1 & echo $!", None);
        let grandchild = format!("/proc/{}/stat", written.trim());
        let is_gone = || fs::read_to_string(&grandchild).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            pause(Span::from_millis(1));
        }
    }
}
