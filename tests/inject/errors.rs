//! The errors that Linux documents for each system call, and the calls that are left alone.

/// The possible errors of a call: those on its manual page (section 2) that a correct call can meet.
pub(crate) fn errors_of(call: &str) -> Option<&'static [&'static str]> {
    Some(match call {
        "open" | "openat" | "openat2" | "creat" => &[
            "EACCES",
            "EAGAIN",
            "EBUSY",
            "EDQUOT",
            "EEXIST",
            "EINTR",
            "EISDIR",
            "ELOOP",
            "EMFILE",
            "ENFILE",
            "ENODEV",
            "ENOENT",
            "ENOMEM",
            "ENOSPC",
            "ENOTDIR",
            "ENXIO",
            "EOVERFLOW",
            "EPERM",
            "EROFS",
            "ETXTBSY",
        ],
        "read" | "pread64" | "readv" | "preadv" => &["EAGAIN", "EINTR", "EIO"],
        "write" | "pwrite64" | "writev" | "pwritev" => {
            &["EAGAIN", "EDQUOT", "EFBIG", "EINTR", "EIO", "ENOSPC", "EPIPE"]
        }
        "close" => &["EDQUOT", "EINTR", "EIO", "ENOSPC"],
        "fsync" | "fdatasync" | "sync_file_range" | "syncfs" => &["EDQUOT", "EINTR", "EIO", "ENOSPC"],
        // The call's number, for a strace older than the call.
        "cachestat" | "syscall_0x1c3" => &["ENOSYS", "EOPNOTSUPP"],
        "truncate" | "ftruncate" | "fallocate" => &["EFBIG", "EINTR", "EIO", "ENOSPC", "EPERM", "EROFS", "ETXTBSY"],
        "copy_file_range" => &["EIO", "ENOMEM", "ENOSPC"],
        "lseek" => &["EINVAL", "EOVERFLOW"],
        "rename" | "renameat" | "renameat2" => &[
            "EACCES", "EBUSY", "EDQUOT", "ELOOP", "EMLINK", "ENOENT", "ENOMEM", "ENOSPC", "ENOTDIR", "EPERM", "EROFS",
            "EXDEV",
        ],
        "link" | "linkat" | "symlinkat" => &["EACCES", "EEXIST", "EIO", "ENOENT", "ENOSPC", "EPERM", "EROFS"],
        "unlink" | "unlinkat" | "rmdir" => {
            &["EACCES", "EBUSY", "EIO", "EISDIR", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR", "EPERM", "EROFS"]
        }
        "mkdir" | "mkdirat" => &[
            "EACCES", "EDQUOT", "EEXIST", "ELOOP", "EMLINK", "ENOENT", "ENOMEM", "ENOSPC", "ENOTDIR", "EPERM", "EROFS",
        ],
        "chmod" | "fchmod" | "fchmodat" | "chown" | "fchown" | "fchownat" => {
            &["EACCES", "EIO", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR", "EPERM", "EROFS"]
        }
        "stat" | "lstat" | "fstat" | "newfstatat" | "statx" | "fstatfs" | "statfs" => {
            &["EACCES", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR", "EOVERFLOW"]
        }
        "access" | "faccessat" | "faccessat2" => {
            &["EACCES", "EIO", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR", "EPERM", "EROFS"]
        }
        // Its EINVAL is not an error: it reports that this is not a link.
        "readlink" | "readlinkat" => &["EACCES", "EIO", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR"],
        "getdents64" => &["ENOENT"],
        "getcwd" => &["EACCES", "ENOENT", "ENOMEM"],
        "getxattr" | "fgetxattr" | "lgetxattr" => &["ENODATA", "ENOTSUP", "EPERM"],
        "fcntl" => &["EACCES", "EAGAIN", "EINTR", "EINVAL", "EMFILE", "ENOLCK"],
        "flock" => &["EINTR", "ENOLCK", "EAGAIN"],
        "dup" | "dup2" | "dup3" => &["EBUSY", "EINTR", "EMFILE"],
        "pipe" | "pipe2" | "eventfd2" | "epoll_create1" | "timerfd_create" | "memfd_create" | "inotify_init1"
        | "signalfd4" => &["EMFILE", "ENFILE", "ENOMEM"],
        "inotify_add_watch" => &["EACCES", "ENOENT", "ENOMEM", "ENOSPC"],
        "epoll_ctl" => &["ENOMEM", "ENOSPC"],
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" => &["EINTR", "EINVAL", "ENOMEM"],
        "ioctl" => &["EINVAL", "EIO", "ENOTTY"],
        "socket" | "socketpair" => {
            &["EACCES", "EAFNOSUPPORT", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EPROTONOSUPPORT"]
        }
        "bind" => &["EACCES", "EADDRINUSE", "EADDRNOTAVAIL", "EINVAL", "ELOOP", "ENOENT", "ENOMEM", "ENOTDIR", "EROFS"],
        "listen" => &["EADDRINUSE", "EOPNOTSUPP"],
        "connect" => &["EACCES", "EAGAIN", "ECONNREFUSED", "EINTR", "ENOENT", "EPERM", "EPROTOTYPE", "ETIMEDOUT"],
        "accept" | "accept4" => {
            &["ECONNABORTED", "EINTR", "EINVAL", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EPERM", "EPROTO"]
        }
        "sendto" | "sendmsg" => &[
            "EACCES",
            "EAGAIN",
            "ECONNREFUSED",
            "ECONNRESET",
            "EINTR",
            "EMSGSIZE",
            "ENOBUFS",
            "ENOMEM",
            "ENOTCONN",
            "EPIPE",
        ],
        "recvfrom" | "recvmsg" => &["EAGAIN", "ECONNREFUSED", "ECONNRESET", "EINTR", "ENOMEM", "ENOTCONN"],
        "shutdown" => &["ENOTCONN"],
        "setsockopt" | "getsockopt" | "getsockname" => &["ENOBUFS", "ENOPROTOOPT"],
        "fork" | "vfork" | "clone" | "clone3" => &["EAGAIN", "ENOMEM", "EPERM"],
        "prctl" | "capget" | "capset" => &["EINVAL", "EPERM"],
        "setresuid" | "setresgid" | "setgroups" => &["EAGAIN", "EINVAL", "ENOMEM", "EPERM"],
        "sched_setscheduler" | "sched_setparam" | "sched_setaffinity" | "sched_getaffinity" | "sched_getscheduler"
        | "sched_getparam" | "sched_getattr" => &["EINVAL", "EPERM", "ESRCH"],
        "sched_setattr" => &["EBUSY", "EINVAL", "EPERM", "ESRCH"],
        "mlock" | "mlock2" | "mlockall" => &["EAGAIN", "ENOMEM", "EPERM"],
        "prlimit64" | "getrlimit" | "setrlimit" => &["EINVAL", "EPERM"],
        "getrandom" => &["EINTR", "ENOSYS"],
        "clock_nanosleep" | "nanosleep" => &["EINTR"],
        "wait4" | "waitid" => &["ECHILD", "EINTR"],
        "tgkill" => &["ESRCH"], // of its own process
        "kill" | "tkill" | "pidfd_send_signal" => &["EPERM", "ESRCH"],
        "pidfd_open" => &["EINVAL", "EMFILE", "ENFILE", "ENODEV", "ENOMEM", "ESRCH"],
        "perf_event_open" => &["EACCES", "EBUSY", "EMFILE", "ENOENT", "ENOSYS", "EOPNOTSUPP"],
        "uname" | "sysinfo" => &["EFAULT"],
        _ => return None,
    })
}

/// Calls that are left alone, and why.
pub(crate) fn left_alone(call: &str) -> Option<&'static str> {
    Some(match call {
        "mmap" | "mremap" | "munmap" | "mprotect" | "brk" | "madvise" => {
            "without memory Rust's standard library aborts, and says so"
        }
        "futex" => {
            "a lock or a condition of the standard library: what is injected loses a wake-up, which no kernel does"
        }
        "sigaltstack" | "rt_sigaction" | "rt_sigprocmask" | "rt_sigreturn" | "rt_sigsuspend" => {
            "fails only for a wrong call"
        }
        "clock_gettime" | "clock_getres" | "gettimeofday" | "getrusage" | "times" | "inotify_rm_watch" => {
            "fails only for a wrong call"
        }
        "execve" | "exit" | "exit_group" | "restart_syscall" | "arch_prctl" | "set_tid_address" | "set_robust_list"
        | "rseq" => "begins or ends a program or a thread",
        "sched_yield"
        | "getpid"
        | "gettid"
        | "getppid"
        | "getuid"
        | "geteuid"
        | "getgid"
        | "getegid"
        | "getgroups"
        | "umask"
        | "alarm"
        | "setitimer"
        | "membarrier"
        | "sched_get_priority_max"
        | "sched_get_priority_min"
        | "getcpu" => "does not fail",
        _ => return None,
    })
}
