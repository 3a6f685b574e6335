//! How the privileges of a real-time process are granted, in the surroundings that this one runs in.
//!
//! For setting up only: reads the environment and /proc. No clock is read.

use super::memory::status;
use std::env;
use std::process;

/// A privilege that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// `fifo` or `rr` at up to this priority.
    Priority(u8),
    /// The policy `deadline`.
    Deadline,
    /// Locked memory without a limit.
    LockedMemory,
}

/// Where the privileges of this process come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surroundings {
    /// systemd starts it, by a unit.
    Unit,
    /// A container or another sandbox, which no process in it can leave.
    Container,
    /// A shell, or anything else that passes on its own.
    Shell,
}

/// What to do to be granted it.
pub(crate) fn remedy(privilege: Privilege) -> String {
    const CAP_IPC_LOCK: u32 = 14;
    const CAP_SYS_NICE: u32 = 23;
    // systemd tells this to the process that it starts, and to no other that inherits its environment.
    let unit = env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == process::id().to_string());
    let needed = if privilege == Privilege::LockedMemory { CAP_IPC_LOCK } else { CAP_SYS_NICE };
    let bounds = status("CapBnd:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    let surroundings = match (unit, bounds) {
        (true, _) => Surroundings::Unit,
        (false, Some(bounds)) if bounds >> needed & 1 == 0 => Surroundings::Container,
        _ => Surroundings::Shell,
    };
    let program = env::current_exe().map_or_else(|_| "hertzd".into(), |path| path.display().to_string());
    remedy_in(surroundings, privilege, &program)
}

fn remedy_in(surroundings: Surroundings, privilege: Privilege, program: &str) -> String {
    let (unit, container, limit) = match privilege {
        Privilege::Priority(priority) => {
            (format!("LimitRTPRIO={priority}"), "--cap-add=SYS_NICE", Some(format!("rtprio {priority}")))
        }
        Privilege::Deadline => ("AmbientCapabilities=CAP_SYS_NICE".into(), "--cap-add=SYS_NICE", None),
        Privilege::LockedMemory => {
            ("LimitMEMLOCK=infinity".into(), "--ulimit memlock=-1", Some("memlock unlimited".into()))
        }
    };
    // Always both capabilities: setcap replaces what the file had.
    let setcap = format!("`sudo setcap cap_sys_nice,cap_ipc_lock+ep {program}`");
    match (surroundings, limit) {
        (Surroundings::Unit, _) => format!("grant it with {unit} under [Service] of the unit"),
        (Surroundings::Container, _) => format!("grant it with {container} where the container is started"),
        (Surroundings::Shell, Some(limit)) => {
            format!("grant it with {setcap}, or with \"USER - {limit}\" in /etc/security/limits.d and a new login")
        }
        (Surroundings::Shell, None) => format!("grant it with {setcap}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_remedy_fits_where_the_process_runs() {
        use Privilege::{Deadline, LockedMemory, Priority};
        let of = |surroundings, privilege| remedy_in(surroundings, privilege, "/usr/bin/hertzd");
        for (privilege, unit, container, shell) in [
            (Priority(80), "LimitRTPRIO=80", "--cap-add=SYS_NICE", "rtprio 80"),
            (Deadline, "AmbientCapabilities=CAP_SYS_NICE", "--cap-add=SYS_NICE", "cap_ipc_lock+ep /usr/bin/hertzd"),
            (LockedMemory, "LimitMEMLOCK=infinity", "--ulimit memlock=-1", "memlock unlimited"),
        ] {
            let [in_unit, in_container, in_shell] =
                [Surroundings::Unit, Surroundings::Container, Surroundings::Shell].map(|at| of(at, privilege));
            assert!(in_unit.contains(unit) && !in_unit.contains("setcap"), "{in_unit}");
            assert!(in_container.contains(container), "{in_container}");
            assert!(
                in_shell.contains(shell) && in_shell.contains("setcap") && !in_shell.contains("unit"),
                "{in_shell}"
            );
        }
    }
}
