//! Why a right is missing, and the lines that grant it: in a shell, in a unit, or where a container is started.

use super::facts::{Facts, Unit};
use super::finding::Mend;
use crate::sys::grant::{self, Privilege};
use crate::sys::rights::Rights;
use std::path::PathBuf;

pub(super) fn lacks(rights: &Rights, capability: u32, name: &str) -> String {
    match rights.effective >> capability & 1 == 1 {
        true => format!("{name} does not count in this user namespace"),
        false => format!("{name} is not effective"),
    }
}

/// What grants this privilege here.
pub(super) fn granting(privilege: Privilege, rights: &Rights, unit: Option<&Unit>) -> Vec<Mend> {
    let capability = if privilege == Privilege::LockedMemory { "CAP_IPC_LOCK" } else { "CAP_SYS_NICE" };
    if let Some(unit) = unit.filter(|unit| unit.is_own) {
        return vec![unit_mend(privilege, capability, unit, rights.limits_are_final)];
    }
    let lines = grant::remedies(privilege).into_iter().map(Mend::from);
    // If programs gain no privileges from their files, only the limit remains.
    lines.filter(|mend| !(rights.no_new_privileges && mend.line.contains("setcap"))).collect()
}

/// The line of a unit that grants a privilege. Uses a capability if systemd itself cannot raise limits.
pub(super) fn unit_mend(privilege: Privilege, capability: &str, unit: &Unit, limits_are_final: bool) -> Mend {
    if unit.says_yes("PrivateUsers") {
        return Mend::unit("PrivateUsers=no");
    }
    if privilege != Privilege::Deadline && !limits_are_final {
        return Mend::unit(grant::unit_line(privilege));
    }
    let bounds = unit.get("CapabilityBoundingSet");
    let bound = !bounds.split_whitespace().any(|name| name.eq_ignore_ascii_case(capability));
    let first = if bound { format!("CapabilityBoundingSet={capability}\n") } else { String::new() };
    Mend::unit(format!("{first}AmbientCapabilities={capability}"))
}

/// The lines that give every group its bandwidth, outermost group first.
pub(super) fn group_bandwidth(rights: &Rights) -> Vec<Mend> {
    if rights.no_bandwidth.iter().any(|(_, free)| *free == 0) {
        return Vec::new(); // sibling groups have all of it
    }
    let line = |(file, free): &(PathBuf, u64)| format!("echo {free} | sudo tee {}", file.display());
    vec![Mend::until_boot(rights.no_bandwidth.iter().map(line).collect::<Vec<_>>().join("\n"))]
}

/// Explains a right that exists but is still refused: by a system call filter, or by the unit's setting `switch`.
pub(super) fn filtered(facts: &Facts, calls: &[&str], switch: Option<&str>) -> (String, Vec<Mend>) {
    let calls_line = || Mend::unit(format!("SystemCallFilter={}", calls.join(" ")));
    if let Some(unit) = facts.unit.as_ref().ok().filter(|unit| unit.is_own) {
        if let Some(switch) = switch.filter(|switch| unit.says_yes(switch)) {
            return (format!("{switch}=yes of {} forbids it", unit.name), vec![Mend::unit(format!("{switch}=no"))]);
        }
        if let Some(call) = calls.iter().find(|call| !unit.allows_call(call)) {
            return (format!("SystemCallFilter= of {} refuses {call}", unit.name), vec![calls_line()]);
        }
    }
    let there = "the rights are there";
    match (facts.rights.is_filtered, grant::is_started_by_unit()) {
        (true, true) => {
            let switch = switch.map(|switch| Mend::unit(format!("{switch}=no")).noted("if the unit says yes"));
            let calls = calls_line().noted("if the unit's filter lacks them");
            (format!("{there}, but a filter of system calls refuses it"), switch.into_iter().chain([calls]).collect())
        }
        (true, false) => {
            (format!("{there}, but a filter of system calls (seccomp), as containers have, refuses it"), Vec::new())
        }
        (false, _) => (format!("{there}; a security module of the kernel may refuse it"), Vec::new()),
    }
}
