//! What the service's unit allows it to do. Read from the unit's properties: only starting the unit would test them.

use super::facts::{Facts, Unit};
use super::finding::{Finding, Mend, Weight};
use super::remedy::unit_mend;
use super::work::{Work, cpu_list};
use crate::sys::grant::Privilege;
use std::path::Path;

/// The devices of a kind: its class names in `DeviceAllow=`, the prefix of its nodes, and the line that allows them.
const DEVICES: [(&str, &[&str], &str, &str); 4] = [
    ("i2c", &["char-i2c", "char-89"], "/dev/i2c", "DeviceAllow=char-89 rw"),
    ("gpio", &["char-gpiochip"], "/dev/gpiochip", "DeviceAllow=char-gpiochip rw"),
    ("audio", &["char-alsa", "char-116"], "/dev/snd", "DeviceAllow=char-116 rw"),
    ("video", &["char-video4linux", "char-81"], "/dev/video", "DeviceAllow=char-81 rw"),
];

pub(super) fn findings(work: Work<'_>, facts: &Facts) -> Vec<Finding> {
    let unit = match &facts.unit {
        Err(why) => return vec![Finding::of("unit", "", "the service's unit, by systemctl show").unseen(why)],
        Ok(unit) => unit,
    };
    let mut found = devices(work, unit);
    if !unit.is_own {
        found.extend(rights(work, unit, facts.rights.limits_are_final));
        found.extend(calls(work, unit));
        found.extend(cpus(work, unit));
    }
    found.extend(recordings(work, unit));
    let draft = || Finding::of("unit", unit.name.clone(), format!("systemctl show {}", unit.name));
    if found.is_empty() {
        return vec![draft().well(match unit.is_own {
            true => "this process is part of it: its restrictions are those that were tried",
            false => "it restricts nothing that this configuration needs, as far as its properties show",
        })];
    }
    let weight = if unit.is_own || facts.is_for_service { Weight::Fails } else { Weight::Harms };
    let finding = |(found, matters, mend): Lacking| draft().is(weight, found, matters, vec![mend]);
    found.into_iter().map(finding).collect()
}

/// What is restricted, the consequence, and the fix.
type Lacking = (String, String, Mend);

fn rights(work: Work<'_>, unit: &Unit, limits_are_final: bool) -> Vec<Lacking> {
    let mut found = Vec::new();
    let (task, deadline) = work.tightest();
    let late = || {
        format!(
            "workers run at normal priority, and ticks may be milliseconds late; the shortest deadline is {deadline} ({task})"
        )
    };
    if work.is_realtime() && unit.says_yes("RestrictRealtime") {
        found.push((
            "RestrictRealtime=yes refuses every real-time policy".into(),
            late(),
            Mend::unit("RestrictRealtime=no"),
        ));
    }
    let limit = |key: &str| match unit.get(key) {
        "infinity" => u64::MAX,
        number => number.parse().unwrap_or(0),
    };
    if let Some(wanted) = work.priority()
        && !has(unit, "cap_sys_nice")
        && limit("LimitRTPRIO") < u64::from(wanted)
    {
        let mend = unit_mend(Privilege::Priority(wanted), "CAP_SYS_NICE", unit, limits_are_final);
        let text = format!(
            "priority {wanted} is asked for, LimitRTPRIO={}, and CAP_SYS_NICE is not given",
            unit.get("LimitRTPRIO")
        );
        found.push((text, late(), mend));
    }
    if work.has_deadline_policy() && !has(unit, "cap_sys_nice") {
        let mend = unit_mend(Privilege::Deadline, "CAP_SYS_NICE", unit, limits_are_final);
        found.push(("the policy deadline is asked for, and CAP_SYS_NICE is not given".into(), late(), mend));
    }
    if !has(unit, "cap_ipc_lock") && limit("LimitMEMLOCK") != u64::MAX {
        let mend = unit_mend(Privilege::LockedMemory, "CAP_IPC_LOCK", unit, limits_are_final);
        let text = format!("LimitMEMLOCK={}, and CAP_IPC_LOCK is not given", unit.get("LimitMEMLOCK"));
        found.push((text, "every task may wait for pages of memory in a tick".into(), mend));
    }
    found
}

/// Whether the service has this capability in effect.
fn has(unit: &Unit, capability: &str) -> bool {
    let lists = |key: &str| unit.get(key).split_whitespace().any(|name| name.eq_ignore_ascii_case(capability));
    let is_root = matches!(unit.get("User"), "" | "root" | "0") && !unit.says_yes("DynamicUser");
    !unit.says_yes("PrivateUsers") && lists("CapabilityBoundingSet") && (is_root || lists("AmbientCapabilities"))
}

fn calls(work: Work<'_>, unit: &Unit) -> Vec<Lacking> {
    let realtime: &[&str] = if work.is_realtime() { &["sched_setscheduler", "sched_setattr"] } else { &[] };
    let pinning: &[&str] = if work.pinned().is_empty() { &[] } else { &["sched_setaffinity"] };
    let refused: Vec<_> =
        [realtime, pinning, &["mlockall"]].concat().into_iter().filter(|call| !unit.allows_call(call)).collect();
    if refused.is_empty() {
        return Vec::new();
    }
    let list = refused.join(" ");
    let matters = "what a worker asks for by them is refused: policy, CPU or locked memory";
    vec![(format!("SystemCallFilter= refuses {list}"), matters.into(), Mend::unit(format!("SystemCallFilter={list}")))]
}

fn cpus(work: Work<'_>, unit: &Unit) -> Option<Lacking> {
    let allowed =
        crate::sys::host::parse_cpu_list(&unit.get("AllowedCPUs").replace(' ', ",")).filter(|list| !list.is_empty())?;
    let missing: Vec<_> = work.pinned().into_iter().filter(|cpu| !allowed.contains(cpu)).collect();
    if missing.is_empty() {
        return None;
    }
    let on = missing.iter().map(|cpu| work.on(*cpu)).collect::<Vec<_>>().join("; ");
    let all = cpu_list(allowed.iter().chain(&missing).copied());
    let text = format!("AllowedCPUs={} lacks CPU {}", cpu_list(allowed.iter().copied()), cpu_list(missing));
    Some((text, format!("{on} would run on any other CPU"), Mend::unit(format!("AllowedCPUs={all}"))))
}

/// Devices that a start could not open, regardless of file modes.
fn devices(work: Work<'_>, unit: &Unit) -> Vec<Lacking> {
    let policy = unit.get("DevicePolicy");
    // A list alone does not block other devices. A policy does, and PrivateDevices= implies one.
    let lists_decide = matches!(policy, "closed" | "strict") || unit.all("DeviceAllow").any(|line| !line.is_empty());
    let allows = |names: &[&str], prefix: &str| {
        let mut lines = unit.all("DeviceAllow").filter_map(|line| line.split_whitespace().next());
        lines.any(|name| names.contains(&name) || name == "char-*" || name.starts_with(prefix))
    };
    let mut found = Vec::new();
    for (kind, names, prefix, line) in DEVICES {
        let Some(task) = work.0.tasks.iter().find(|task| task.kind == kind) else { continue };
        let matters = format!("task {} and others of the kind {kind} cannot be started", task.name);
        if unit.says_yes("PrivateDevices") {
            let mend = Mend::unit("PrivateDevices=no");
            found.push((format!("PrivateDevices=yes hides {prefix}*"), matters, mend));
        } else if lists_decide && !allows(names, prefix) {
            found.push((format!("DeviceAllow= lacks {prefix}*"), matters, Mend::unit(line)));
        }
    }
    found
}

/// Recordings to paths that are read-only for the unit.
fn recordings(work: Work<'_>, unit: &Unit) -> Vec<Lacking> {
    if unit.get("ProtectSystem") != "strict" || unit.is_own {
        return Vec::new(); // the preview has already tried what a start tries
    }
    let states = unit.get("StateDirectory").split_whitespace().map(|name| format!("/var/lib/{name}"));
    let listed =
        unit.get("ReadWritePaths").split_whitespace().map(|path| path.trim_start_matches(['-', '+']).to_owned());
    let writable: Vec<_> = states.chain(listed).chain(["/tmp", "/var/tmp", "/dev"].map(str::to_owned)).collect();
    let recorded = work.0.tasks.iter().filter_map(|task| Some((task, &task.record.as_ref()?.path)));
    let closed =
        recorded.filter(|(_, path)| path.is_absolute() && !writable.iter().any(|folder| path.starts_with(folder)));
    closed
        .map(|(task, path)| {
            let folder = path.parent().unwrap_or(Path::new("/")).display();
            let text = format!("ProtectSystem=strict makes {folder} read-only");
            (
                text,
                format!("task {} cannot be recorded to {}", task.name, path.display()),
                Mend::unit(format!("ReadWritePaths={folder}")),
            )
        })
        .collect()
}
