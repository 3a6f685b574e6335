//! Everything that `hertzd doctor` tries and reads before drawing conclusions. May block; builds no tasks.

use super::capacity::capacities;
use super::look::look;
use super::trial::try_start;
use crate::config::{Config, Problems};
use crate::doctor::{Demand, Facts, Look, Mend, Place, Refused, ServiceView, Unit};
use crate::kinds::device::access::{Owner, group_lines, owner, rule};
use crate::program;
use crate::sys::clock::{Ahead, KernelClock, pause};
use crate::sys::entry::resolve;
use crate::sys::grant;
use crate::sys::machine::Machine;
use crate::sys::rights::Rights;
use crate::sys::trust;
use crate::sys::user::{self, service_user};
use crate::time::{Clock, Span};
use std::fs;
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// systemd answers at once or not at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Unit properties that may keep hertzd from something.
const PROPERTIES: &str = "LoadState,User,DynamicUser,LimitRTPRIO,LimitMEMLOCK,LimitRTTIME,AmbientCapabilities,\
    CapabilityBoundingSet,RestrictRealtime,PrivateUsers,PrivateDevices,DevicePolicy,DeviceAllow,AllowedCPUs,CPUAffinity,\
    SystemCallFilter,ProtectSystem,StateDirectory,ReadWritePaths";

/// Waits, for a limited time, until the threads that looked with the service user's rights have ended. Once memory is locked, they could
/// get no more of it than their limit.
fn await_ends() {
    const EVERY: Span = Span::from_millis(5);
    let are_others = || fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1);
    let _ = (0..60).any(|_| !are_others() || (pause(EVERY), false).1);
}

/// Examines this machine for `config`. `again`: the same configuration once more, because each can be examined only once; `None`: it can be
/// read only once. `is_of_service`: it is the service's configuration. `view`: what a process of the service's user found.
pub(crate) fn examined(
    config: &mut Config,
    again: Option<Config>,
    is_of_service: bool,
    view: Option<ServiceView>,
) -> Facts {
    let (machine, rights) = (Machine::read_under(Path::new("/")), Rights::read_under(Path::new("/")));
    let unit = unit(rights.service.as_deref());
    let demand = |capacity: crate::daemon::Capacity| {
        let fails: Vec<_> =
            capacity.findings.iter().filter(|finding| finding.fails).map(|finding| &*finding.text).collect();
        Demand { too_much: (!fails.is_empty()).then(|| fails.join("; ")), label: capacity.label, sum: capacity.sum }
    };
    let demands = capacities(config, &machine.host.online_cpus).into_iter().map(demand).collect();
    let is_own = unit.as_ref().is_ok_and(|unit| unit.is_own);
    let mut look = look_as("this user", false, config, |path| permits(path, rights.uid));
    if is_own || !is_of_service {
        // This user would be the one to start it.
        refuse_what_only_the_service_may(&mut look, |path| permits(path, rights.uid));
    }
    let service = as_service(again, &rights, view);
    // Root would not start the service's configuration, nor load its plugins, so only the service's view counts.
    let is_only_for_service = is_of_service && !is_own && rights.uid == 0 && service.tasks.is_ok();
    let looks = if is_only_for_service { vec![service] } else { vec![look, service] };
    await_ends();
    // Last, because it locks the memory.
    let trial = try_start(config);
    let (clock_read, clock_call) = clock_reads();
    Facts {
        is_for_service: is_own || is_of_service,
        machine,
        rights,
        trial,
        unit,
        looks,
        demands,
        tai_ahead: Span::from_wide(Ahead::measure(KernelClock::tai(), KernelClock::realtime()).least),
        clock_read,
        clock_call,
    }
}

/// The time to read the monotonic clock, and the time by a system call.
///
/// Measured in batches, because a reading may be shorter than the clock's resolution. The best batch counts: other load only makes batches
/// longer.
fn clock_reads() -> (Span, Option<Span>) {
    const BATCHES: usize = 20;
    const READINGS: i64 = 50;
    let clock = KernelClock::monotonic();
    let batch = |read: &dyn Fn()| {
        let before = clock.now();
        (0..READINGS).for_each(|_| read());
        Span::from_nanos((clock.now() - before).nanos() / READINGS)
    };
    let by_library = || _ = black_box(clock.now());
    let by_call = || _ = clock.read_by_call();
    let batches: Vec<_> = (0..BATCHES).map(|_| (batch(&by_library), batch(&by_call))).collect();
    let call = clock.read_by_call().ok().and_then(|()| batches.iter().map(|(_, call)| *call).min());
    (batches.iter().map(|(read, _)| *read).min().unwrap_or_default(), call)
}

/// What the calling thread's rights let it find out. `permits` returns what would let it open a file that is closed to it.
fn look_as(who: &str, is_service: bool, config: &mut Config, permits: impl Fn(&Path) -> Vec<Mend>) -> Look {
    let tasks = Ok(config.tasks.len());
    let looked = look(config, |_| true, None);
    let refused = looked.problems.iter().flat_map(|problems| problems.iter()).map(|problem| Refused {
        mend: denied(&problem.message).map_or_else(Vec::new, |path| permits(&path)),
        what: problem.message.clone(),
    });
    let messages = |problems: &Problems| problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>();
    let mut warnings: Vec<_> = looked.warnings.iter().flat_map(messages).collect();
    warnings
        .extend(looked.taken.iter().map(|taken| format!("{taken}; a reload hands it over, a second start is refused")));
    Look { who: who.into(), is_service, refused: refused.collect(), tasks, warnings, unknown: looked.unknown }
}

/// Turns warnings about files that only the service's user may open into refusals. A plain look leaves open who will start hertzd.
fn refuse_what_only_the_service_may(look: &mut Look, permits: impl Fn(&Path) -> Vec<Mend>) {
    let only = format!("only the service's user {} may ", service_user());
    let (refused, others): (Vec<_>, Vec<_>) = look.warnings.drain(..).partition(|warning| warning.contains(&only));
    look.warnings = others;
    look.refused.extend(
        refused
            .into_iter()
            .map(|what| Refused { mend: denied(&what).map_or_else(Vec::new, |path| permits(&path)), what }),
    );
}

/// Looks with the rights of the service's user, if root can take them on. Skips recordings, because the service keeps them in another
/// folder. A `view` by a process of that user says more: it has that folder, and the plugins that root does not load.
fn as_service(again: Option<Config>, rights: &Rights, view: Option<ServiceView>) -> Look {
    let who = format!("the service's user {}", service_user());
    let unseen = |why: &str| {
        let (refused, warnings, unknown) = (Vec::new(), Vec::new(), Vec::new());
        Look { who: who.clone(), is_service: true, tasks: Err(why.into()), refused, warnings, unknown }
    };
    if !user::has_service() {
        return unseen("there is no such user here");
    }
    if rights.uid != 0 {
        return unseen("only root can look by its rights");
    }
    let Some(mut config) = again else {
        return unseen("a configuration from standard input can be read only once");
    };
    config.tasks.iter_mut().for_each(|task| task.record = None);
    let looked = user::as_service(|| look_as(&who, true, &mut config, permits_service));
    let mut look = match looked {
        Ok(look) => look,
        Err(error) => return unseen(&format!("its rights could not be taken on: {error}")),
    };
    if let Some(ServiceView { tasks, refused, warnings, unknown }) = view {
        // Use only remedies that root itself found.
        let mend = |what: &String| look.refused.iter().find(|refused| refused.what == *what).map(|it| it.mend.clone());
        let refused = refused.into_iter().map(|what| Refused { mend: mend(&what).unwrap_or_default(), what }).collect();
        return Look { tasks: Ok(tasks), refused, warnings, unknown, ..look };
    }
    let is_only_roots = |refused: &mut Refused| refused.what.contains(trust::AS_ROOT);
    look.unknown.extend(look.refused.extract_if(.., is_only_roots).map(|refused| refused.what));
    look
}

/// What this process finds in the configuration, reported to root. It runs with the rights of the service's user. `records`: it also has
/// the folder of the service's recordings.
pub(crate) fn service_view(config: Result<Config, Problems>, records: bool) -> ServiceView {
    let mut config = match config {
        Ok(config) => config,
        Err(problems) => {
            let refused = problems.iter().map(|problem| problem.message.clone()).collect();
            return ServiceView { tasks: 0, refused, warnings: Vec::new(), unknown: Vec::new() };
        }
    };
    config.tasks.iter_mut().filter(|_| !records).for_each(|task| task.record = None);
    let Look { refused, warnings, unknown, .. } = look_as("", true, &mut config, |_| Vec::new());
    let refused = refused.into_iter().map(|refused| refused.what).collect();
    ServiceView { tasks: config.tasks.len(), refused, warnings, unknown }
}

/// The file named in a refusal, if the kernel confirms that the calling thread cannot open it. Excludes files behind a link that root does
/// not follow: the proposed remedy would be applied to another file.
fn denied(message: &str) -> Option<PathBuf> {
    let path = subject(message)?;
    let is_closed = || user::is_denied(&path, false) || user::is_denied(&path, true);
    // If the error has an errno, the kernel closed the path, and no such link is the reason.
    let is_behind_link = resolve(&path).is_err_and(|error| error.raw_os_error().is_none());
    (path.ancestors().any(Path::exists) && !is_behind_link && is_closed()).then_some(path)
}

/// The file that a refusal is about, if hertzd names it in its own words: "cannot open PATH", "PATH: ...". Later words may come from
/// elsewhere: a file's content, the user of a GPIO line, a camera's name. Excludes names that a shell would not take literally.
fn subject(message: &str) -> Option<PathBuf> {
    // It may be preceded by the setting: `path = "x"; `.
    let mut message = message.split_once("; ").filter(|(key, _)| key.contains(" = ")).map_or(message, |(_, said)| said);
    // And by what it is about: `task.x: chip: `.
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    while let Some((_, said)) = message.split_once(": ").filter(|(name, _)| is_name(name)) {
        message = said;
    }
    let only = format!("only the service's user {} may ", service_user());
    let said = ["cannot ", &only].iter().find_map(|begin| message.strip_prefix(begin));
    let is_verb = |word: &&str| said.is_some() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let named = said.unwrap_or(message).split_whitespace().find(|word| !is_verb(word))?;
    let first = named.trim_matches([':', ';', ',', '"', '`', '(', ')']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._:+@-".contains(c);
    (first.starts_with('/') && first.chars().all(is_plain)).then(|| first.into())
}

fn permits(path: &Path, uid: u32) -> Vec<Mend> {
    let name = user::name_of(uid).unwrap_or_else(|| format!("USER (with the number {uid}, which has no name)"));
    let mut lines = permitting(path, &name);
    if grant::is_started_by_unit() {
        lines.sort_by_key(|mend| mend.place != Place::Unit); // the first is the one that fits
    }
    lines
}

fn permits_service(path: &Path) -> Vec<Mend> {
    let mut lines = permitting(path, service_user());
    lines.retain(|mend| !mend.line.contains("usermod")); // systemd adds groups through the unit
    lines
}

/// Remedies that let a user open a file closed to them. None if anyone but root could put a link in its place: root's command would then
/// change a file of their choice.
fn permitting(path: &Path, name: &str) -> Vec<Mend> {
    // The outermost folder that the user cannot enter comes first.
    let folders: Vec<_> = path.ancestors().skip(1).filter(|folder| user::may_not_enter(folder)).collect();
    if !trust::only_root_could_exchange(folders.last().unwrap_or(&path)) {
        return Vec::new();
    }
    if let Some(folder) = folders.last() {
        return vec![Mend::shell(format!("sudo chmod o+x {}", folder.display())).noted("for every user")];
    }
    let is_device = path.starts_with("/dev");
    let is_lasting = |mend: Mend| {
        if path.starts_with("/sys") || is_device {
            mend.noted("for every user, until the next boot")
        } else {
            mend.noted("for every user")
        }
    };
    match owner(path) {
        Some(Owner::Group(group)) => {
            let [shell, unit] = group_lines(&group, name);
            vec![Mend::shell(format!("sudo {shell}")).noted("from the next login on"), Mend::unit(unit)]
        }
        Some(Owner::Root) => {
            let mode = match user::is_denied(path, false) {
                _ if is_device => "o+rw",
                true => "o+r",
                false => "o+w", // it can be read, so the missing right is to write
            };
            let chmod = is_lasting(Mend::shell(format!("sudo chmod {mode} {}", path.display())));
            let rule = is_device
                .then(|| Mend::new(Place::Udev, rule(path), format!("for the users of the group {}", service_user())));
            [chmod].into_iter().chain(rule).collect()
        }
        None => Vec::new(),
    }
}

/// The unit that this process is part of, else the installed one; or why it cannot be seen.
fn unit(own: Option<&str>) -> Result<Unit, String> {
    if !Path::new("/run/systemd/system").exists() {
        return Err("systemd does not run here".into());
    }
    let is_own = grant::is_started_by_unit();
    let installed = program::unit();
    let name = own.filter(|_| is_own).unwrap_or(&installed);
    let text = asked(name).map_err(|why| format!("systemctl show {name}: {why}"))?;
    let unit = Unit::parse(name, is_own, &text);
    match unit.get("LoadState") {
        "loaded" => Ok(unit),
        "not-found" => Err(format!("{name} is not installed")),
        other => Err(format!("{name} is not loaded ({other})")),
    }
}

/// The unit's properties. A systemctl that hangs is left behind.
fn asked(name: &str) -> Result<String, String> {
    let mut child = Command::new("systemctl")
        .args(["show", "--no-pager", &format!("--property={PROPERTIES}"), "--", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (say, said) = mpsc::channel();
    thread::spawn(move || say.send((all(output), all(errors))));
    let answer = said.recv_timeout(ANSWER_WITHIN);
    let Ok((text, why)) = answer else {
        let _ = child.kill();
        return Err(format!("no answer within {} s", ANSWER_WITHIN.as_secs()));
    };
    match child.wait() {
        Ok(status) if status.success() => Ok(text),
        _ => Err(why.lines().next().unwrap_or("it failed").to_owned()),
    }
}

fn all(from: Option<impl Read>) -> String {
    let mut text = String::new();
    // Text read before an error is still useful.
    let _ = from.map(|mut from| from.read_to_string(&mut text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::emulation::{OTHER_OWNERS, cannot_be_emulated};

    #[test]
    fn only_a_file_that_the_kernel_denies_is_given_a_line() {
        assert_eq!(denied("cannot open /dev/null: Permission denied"), None, "the kernel does not deny it");
        assert_eq!(denied("path = \"x\": there is no such thing"), None);
        let of = |message: &str| subject(message).map(|path| path.display().to_string());
        assert_eq!(of("cannot open /dev/i2c-1: Permission denied").as_deref(), Some("/dev/i2c-1"));
        // Text from a file's content must not be taken as its path.
        assert_eq!(of("/srv/x holds \"/root/.ssh/authorized_keys\", which is no number").as_deref(), Some("/srv/x"));
        let only = format!("only the service's user {} may write to /srv/x", service_user());
        assert_eq!(of(&only).as_deref(), Some("/srv/x"));
        assert_eq!(of("task.x: chip: cannot open /srv/in: Permission denied").as_deref(), Some("/srv/in"));
        // Nor must the consumer of a line, or the name of a device.
        for others in [
            "gpiochip0: line 3 (\"x /etc/passwd\") is in use",
            "no camera is named \"x\"; there are /etc/passwd: Permission denied",
        ] {
            assert_eq!(of(others), None, "{others}");
        }
        assert_eq!(of("cannot open /srv/x;id>y: Permission denied"), None, "a shell would run it");
        assert_eq!(of("cannot open `/srv/$(id)`: Permission denied"), None);
        if cannot_be_emulated(OTHER_OWNERS) {
            return;
        }
        let lines = permitting(Path::new("/dev/null"), "me");
        assert_eq!(lines[0].line, "sudo chmod o+rw /dev/null");
        assert_eq!(lines[1].place, Place::Udev);
    }

    #[test]
    fn a_unit_that_does_not_exist_is_not_shown_as_one() {
        match unit(None) {
            Ok(unit) => assert!(!unit.get("LoadState").is_empty()),
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
