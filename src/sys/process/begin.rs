//! What a child does before it executes its program, in its parent's memory: it makes system calls and takes notes in its [`Plan`]. It must
//! not allocate, panic or take a lock, because another thread of the parent may hold that lock.

use super::super::from_minus_one;
use std::ffi::{c_char, c_int, c_void};
use std::{io, mem, ptr};

/// The C library's type for the kinds of limits.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = c_int;

/// The steps of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Clone,
    EndWithParent,
    Group,
    Descriptors,
    Folder,
    Memory,
    Run,
    /// A child continues without this step and the following ones if they fail.
    Policy,
    NoRealtime,
    NoCapabilities,
}

/// The steps that a child can do without, in the order of [`Plan::unmet`].
const OPTIONAL: [Step; 3] = [Step::Policy, Step::NoRealtime, Step::NoCapabilities];

const CAP_SYS_NICE: libc::c_ulong = 23;

/// The bytes of memory that a program may lock: the kernel's default for every process.
const MOST_LOCKED: u64 = 8 << 20;

/// One step; returns the error number on failure.
type CarryOut = fn(&Plan) -> Result<(), c_int>;

/// The number of descriptors that a program begins with: an input, two outputs and its socket.
const FILES: libc::c_uint = 4;

/// What the child does after the clone. Everything that it points to belongs to the parent, which waits.
pub(super) struct Plan {
    parent: libc::pid_t,
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    folder: *const c_char,
    files: [c_int; FILES as usize],
    memory: Option<u64>,
    failed: Option<(Step, c_int)>,
    unmet: [c_int; OPTIONAL.len()], // errno; 0: done
}

impl Plan {
    pub(super) fn new(
        program: *const c_char,
        (arguments, environment): (*const *const c_char, *const *const c_char),
        folder: *const c_char,
        files: [c_int; 4],
        memory: Option<u64>,
    ) -> Self {
        // SAFETY: takes nothing, touches no memory and cannot fail.
        let parent = unsafe { libc::getpid() };
        let (failed, unmet) = (None, [0; OPTIONAL.len()]);
        Self { parent, program, arguments, environment, folder, files, memory, failed, unmet }
    }

    /// The required step that failed and ended the child, and the error number.
    pub(super) fn failed(&self) -> Option<(Step, c_int)> {
        self.failed
    }

    /// The optional steps that failed.
    pub(super) fn unmet(&self) -> Vec<(Step, io::Error)> {
        let all = OPTIONAL.into_iter().zip(self.unmet);
        all.filter(|(_, errno)| *errno != 0).map(|(step, errno)| (step, io::Error::from_raw_os_error(errno))).collect()
    }

    fn does_without(&mut self, step: Step, done: Result<(), c_int>) {
        if let (Err(errno), Some(at)) = (done, OPTIONAL.iter().position(|optional| *optional == step)) {
            self.unmet[at] = errno;
        }
    }

    /// Returns only if something failed.
    fn carry_out(&mut self) -> (Step, c_int) {
        let needed: [(Step, CarryOut); 5] = [
            (Step::EndWithParent, |plan| end_with(plan.parent)),
            // SAFETY: no memory is involved.
            (Step::Group, |_| done(unsafe { libc::setpgid(0, 0) })),
            (Step::Descriptors, Self::place_files),
            (Step::Folder, Self::go_to_folder),
            (Step::Memory, Self::limit_memory),
        ];
        for (step, carry_out) in needed {
            if let Err(errno) = carry_out(self) {
                return (step, errno);
            }
        }
        self.does_without(Step::Policy, normal_policy());
        self.does_without(Step::NoRealtime, no_realtime());
        self.does_without(Step::NoCapabilities, no_inheritable());
        default_signals();
        // SAFETY: the path and both lists are the parent's, end with NUL and null, and stay until this has returned or succeeded.
        (Step::Run, done(unsafe { libc::execve(self.program, self.arguments, self.environment) }).err().unwrap_or(0))
    }

    /// Puts the files at 0, 1, 2 and the socket's number, and closes all other descriptors.
    fn place_files(&self) -> Result<(), c_int> {
        for (at, file) in (0..).zip(self.files) {
            // SAFETY: no memory is involved. The table of descriptors is the child's own; the files lie above the numbers that are replaced.
            done(unsafe { libc::dup2(file, at) })?;
        }
        // If the kernel lacks this call or a sandbox forbids it, the descriptors still close on exec: each was opened with that flag.
        // SAFETY: no memory is involved; the table of descriptors is the child's own.
        let _ = unsafe { libc::syscall(libc::SYS_close_range, FILES, libc::c_uint::MAX, 0) };
        Ok(())
    }

    fn go_to_folder(&self) -> Result<(), c_int> {
        if self.folder.is_null() {
            return Ok(());
        }
        // SAFETY: the path is the parent's, and ends with a NUL byte. Without CLONE_FS the folder is the child's own.
        done(unsafe { libc::chdir(self.folder) })
    }

    fn limit_memory(&self) -> Result<(), c_int> {
        self.memory.map_or(Ok(()), |bytes| limit(libc::RLIMIT_AS, bytes))
    }
}

/// The child's entry point; its argument is a [`Plan`].
pub(super) extern "C" fn begin(plan: *mut c_void) -> c_int {
    // SAFETY: it is the plan of the parent, which waits until this has ended.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    let failed = plan.carry_out();
    plan.failed = Some(failed);
    127
}

fn done<T: PartialEq + From<i8>>(returned: T) -> Result<(), c_int> {
    // Creates no error value of its own: only the number is used.
    from_minus_one(returned).map(drop).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

/// Asks for SIGKILL when the parent's thread ends. If the parent ended before this request, the child now has another parent, and this
/// fails.
fn end_with(parent: libc::pid_t) -> Result<(), c_int> {
    // SAFETY: PR_SET_PDEATHSIG takes one unsigned long and no pointer.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) })?;
    // SAFETY: takes nothing, touches no memory and cannot fail.
    if unsafe { libc::getppid() } == parent { Ok(()) } else { Err(libc::ESRCH) }
}

fn limit(resource: Resource, most: u64) -> Result<(), c_int> {
    let most = limit_of(most);
    let limits = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limits` outlives the call; the limits are the child's own.
    done(unsafe { libc::setrlimit(resource, &raw const limits) })
}

/// Converts a limit. Where the C library's limits have 32 bits, a larger one becomes unlimited: no program there has that much memory.
fn limit_of(most: u64) -> libc::rlim_t {
    // Converted through 128 bits, because the width of the type depends on the platform.
    libc::rlim_t::try_from(u128::from(most)).unwrap_or(libc::RLIM_INFINITY)
}

/// Sets the normal policy, no better than nice 0, with the default timer slack.
fn normal_policy() -> Result<(), c_int> {
    // SAFETY: sched_param is made of integers, for which all-zero bytes are valid; SCHED_OTHER wants priority 0.
    let parameters: libc::sched_param = unsafe { mem::zeroed() };
    // The libc function of this name is not used: musl's always fails.
    // SAFETY: `parameters` outlives the call; 0 is the child itself.
    done(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const parameters) })?;
    // SAFETY: no memory is involved; 0 is the child itself.
    if unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) } < 0 {
        // SAFETY: as above.
        done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) })?;
    }
    // SAFETY: PR_SET_TIMERSLACK takes one unsigned long and no pointer; 0 is the usual one.
    done(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 0 as libc::c_ulong) })
}

/// Gives up everything that would let the program become real-time: the daemon's capabilities, and the limits.
fn no_realtime() -> Result<(), c_int> {
    let (clear, zero) = (libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong, 0 as libc::c_ulong);
    // SAFETY: PR_CAP_AMBIENT takes unsigned longs and no pointer.
    done(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, zero, zero, zero) })?;
    // Only a process that may change this set can lose anything by it, so a refusal is ignored.
    // SAFETY: PR_CAPBSET_DROP takes one unsigned long and no pointer.
    let _ = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE) };
    files_for_select()?;
    limit(libc::RLIMIT_RTPRIO, 0)?;
    limit(libc::RLIMIT_NICE, 0)?;
    // The daemon may lock all its memory. A program gets less: memory that it locks is lost to the rest of the machine.
    let mut locked = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `locked` is owned and of the type that the kernel fills.
    done(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut locked) })?;
    #[expect(clippy::unnecessary_cast, reason = "not on every architecture")]
    limit(libc::RLIMIT_MEMLOCK, MOST_LOCKED.min(locked.rlim_max as u64))
}

/// The header and the sets of `capset`, which the C library does not declare.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Two words of 32 capabilities each: `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Empties the inheritable set. Otherwise an executable could regain the capabilities in it through its own file capabilities.
fn no_inheritable() -> Result<(), c_int> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut sets = [CapabilitySets { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: both are owned and of the layout that the kernel fills; 0 is the child itself.
    done(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) })?;
    if sets.iter().all(|set| set.inheritable == 0) {
        return Ok(());
    }
    sets.iter_mut().for_each(|set| set.inheritable = 0);
    // SAFETY: both outlive the call, and are only read; 0 is the child itself.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) })
}

/// Lowers the limit of open files, which the daemon raised to its hard limit. A program that uses `select` cannot have a descriptor above
/// 1,023.
fn files_for_select() -> Result<(), c_int> {
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `files` is owned and of the type that the kernel fills.
    done(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) })?;
    files.rlim_cur = files.rlim_cur.min(1_024);
    // SAFETY: `files` outlives the call; the limits are the child's own.
    done(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files) })
}

/// Gives every signal its default action and unblocks all of them.
fn default_signals() {
    // Long enough for the kernel's structure on 64 and on 32 bits. All zero: SIG_DFL, no flags, an empty mask.
    let usual = [0_u64; 8];
    const MASK: usize = 8; // bytes of the kernel's mask
    for signal in 1..=64 {
        // The libc function is not used: it refuses libc's own two signals, and one of them that was ignored would stay ignored.
        // SAFETY: `usual` outlives the call, and is only read. The table of handlers is the child's own; a signal that cannot be set is
        // refused.
        let _ =
            unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, usual.as_ptr(), ptr::null_mut::<c_void>(), MASK) };
    }
    // SAFETY: sigset_t is made of integers, for which all-zero bytes are valid: no signal.
    let none: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `none` outlives the call; the mask is the child's own.
    let _ = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_beyond_what_the_c_library_can_say_is_none() {
        for most in [0, 1, 200 << 20, 1 << 31, u64::from(u32::MAX), 4 << 30, (4 << 30) + 1, u64::MAX] {
            let limit = limit_of(most);
            let fits = u128::from(most) <= u128::from(libc::rlim_t::MAX);
            assert_eq!(
                u128::from(limit),
                if fits { u128::from(most) } else { u128::from(libc::RLIM_INFINITY) },
                "{most}"
            );
        }
    }
}
