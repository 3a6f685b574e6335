//! How to grant the privileges of a real-time process, depending on how this process was started.
//!
//! For setup only: reads the environment and /proc. No clock is read.

use super::memory::status;
use super::rights::{IPC_LOCK, SYS_NICE};
use super::user;
use crate::program;
use std::env;
use std::path::Path;
use std::process;

/// A privilege that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// `fifo` or `rr` at up to this priority.
    Priority(u8),
    /// The policy `deadline`.
    Deadline,
    /// Unlimited locked memory.
    LockedMemory,
}

/// Where this process's privileges come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surroundings {
    /// A systemd unit starts it.
    Unit,
    /// A container or another sandbox that its processes cannot leave.
    Container,
    /// A shell, or anything else that passes on its own privileges.
    Shell,
}

/// Where a remedy's line belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Run it in a shell.
    Shell,
    /// A file in /etc/security/limits.d: it applies from the next login on.
    Login,
    /// The section [Service] of the unit.
    Unit,
    /// The command that starts the container.
    Container,
}

/// How to be granted this privilege.
pub(crate) fn remedy(privilege: Privilege) -> String {
    let surroundings = surroundings(privilege);
    remedy_in(surroundings, &lines(surroundings, privilege))
}

/// The lines that grant it, the best first; each is sufficient alone.
pub(crate) fn remedies(privilege: Privilege) -> Vec<(Place, String)> {
    lines(surroundings(privilege), privilege)
}

/// Whether systemd started this process itself, by a unit.
pub(crate) fn is_started_by_unit() -> bool {
    // systemd sets this to the id of the process that it starts; a process that merely inherits it has another id.
    env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == process::id().to_string())
}

fn surroundings(privilege: Privilege) -> Surroundings {
    let needed = if privilege == Privilege::LockedMemory { IPC_LOCK } else { SYS_NICE };
    let bounds = status("CapBnd:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    match (is_started_by_unit(), bounds) {
        (true, _) => Surroundings::Unit,
        (false, Some(bounds)) if bounds >> needed & 1 == 0 => Surroundings::Container,
        _ => Surroundings::Shell,
    }
}

/// The line for a unit.
pub(crate) fn unit_line(privilege: Privilege) -> String {
    match privilege {
        Privilege::Priority(priority) => format!("LimitRTPRIO={priority}"),
        Privilege::Deadline => "AmbientCapabilities=CAP_SYS_NICE".into(),
        Privilege::LockedMemory => "LimitMEMLOCK=infinity".into(),
    }
}

fn lines(surroundings: Surroundings, privilege: Privilege) -> Vec<(Place, String)> {
    let (container, limit) = match privilege {
        Privilege::Priority(priority) => ("--cap-add=SYS_NICE", Some(format!("rtprio {priority}"))),
        Privilege::Deadline => ("--cap-add=SYS_NICE", None),
        Privilege::LockedMemory => ("--ulimit memlock=-1", Some("memlock unlimited".into())),
    };
    match surroundings {
        Surroundings::Unit => vec![(Place::Unit, unit_line(privilege))],
        Surroundings::Container => vec![(Place::Container, container.into())],
        Surroundings::Shell => {
            let limit = limit.map(|limit| (Place::Login, format!("USER - {limit}")));
            let program = env::current_exe().unwrap_or_else(|_| "hertzd".into());
            limit.into_iter().chain([(Place::Shell, capable(&program, &user::own_group()))]).collect()
        }
    }
}

/// Lines that give the program's file both capabilities; setcap replaces what the file had. Everyone who may execute such a file gets them,
/// as does everything that the program runs for them. So the file is first closed to all but one group.
fn capable(program: &Path, group: &str) -> String {
    let setcap = "sudo setcap cap_sys_nice,cap_ipc_lock+ep";
    // A package's file is for all users, and the next version replaces it: use a copy.
    match program.file_name().filter(|_| program.starts_with("/usr/bin")) {
        Some(name) => {
            let copy = Path::new("/usr/local/bin").join(name);
            let (program, copy) = (program.display(), copy.display());
            format!("sudo install -g {group} -m 0750 {program} {copy}\n{setcap} {copy}")
        }
        None => {
            let program = program.display();
            format!("sudo chgrp {group} {program}\nsudo chmod 0750 {program}\n{setcap} {program}")
        }
    }
}

fn remedy_in(surroundings: Surroundings, lines: &[(Place, String)]) -> String {
    let clause = |(place, line): &(Place, String)| match place {
        Place::Unit => format!("with {line} under [Service] of the unit"),
        Place::Container => format!("with {line} where the container is started"),
        // That remedy has several lines.
        Place::Shell => "by capabilities of the program's file".to_owned(),
        Place::Login => format!("with \"{line}\" in /etc/security/limits.d and a new login"),
    };
    let clauses = lines.iter().map(clause).collect::<Vec<_>>().join(", or ");
    match surroundings {
        Surroundings::Shell => format!("grant it {clauses}; see `{} doctor`", program::name()),
        _ => format!("grant it {clauses}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_remedy_fits_where_the_process_runs() {
        use Privilege::{Deadline, LockedMemory, Priority};
        let of = |surroundings, privilege| remedy_in(surroundings, &lines(surroundings, privilege));
        for (privilege, unit, container, shell) in [
            (Priority(80), "LimitRTPRIO=80", "--cap-add=SYS_NICE", "\"USER - rtprio 80\" in"),
            (Deadline, "AmbientCapabilities=CAP_SYS_NICE", "--cap-add=SYS_NICE", "grant it by capabilities"),
            (LockedMemory, "LimitMEMLOCK=infinity", "--ulimit memlock=-1", "memlock unlimited"),
        ] {
            let [in_unit, in_container, in_shell] =
                [Surroundings::Unit, Surroundings::Container, Surroundings::Shell].map(|at| of(at, privilege));
            assert!(in_unit.contains(unit) && !in_unit.contains("capabilities of"), "{in_unit}");
            assert!(in_container.contains(container), "{in_container}");
            assert!(
                in_shell.contains(shell) && in_shell.contains("capabilities of the program's file; see `"),
                "{in_shell}"
            );
        }
    }

    #[test]
    fn a_file_gets_capabilities_only_once_it_is_closed_to_others() {
        let own = capable(Path::new("/home/ada/hertzd"), "ada");
        assert_eq!(
            own,
            "sudo chgrp ada /home/ada/hertzd\nsudo chmod 0750 /home/ada/hertzd\n\
             sudo setcap cap_sys_nice,cap_ipc_lock+ep /home/ada/hertzd"
        );
        let of_package = capable(Path::new("/usr/bin/hertzd"), "ada");
        assert_eq!(
            of_package,
            "sudo install -g ada -m 0750 /usr/bin/hertzd /usr/local/bin/hertzd\n\
             sudo setcap cap_sys_nice,cap_ipc_lock+ep /usr/local/bin/hertzd"
        );
    }
}
