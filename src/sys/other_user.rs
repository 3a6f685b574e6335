//! Child processes with another user's rights and nothing of root's: no capability, no way to gain any, no descriptor but the three
//! streams, no terminal. For root; may block and allocate.

use super::clock::{KernelClock, pause};
use super::from_minus_one;
use super::user::{Identity, is_root, service_user, working_directory};
use crate::time::{Clock, Span};
use std::env;
use std::ffi::{CStr, OsString};
use std::io::{self, Read};
use std::mem::{self, MaybeUninit};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::ptr;
use std::sync::mpsc;

/// Arguments of prctl, which are all of this width.
const NO: libc::c_ulong = 0;
const YES: libc::c_ulong = 1;
const END: libc::c_ulong = libc::SIGTERM as libc::c_ulong;

/// Makes `command` run with a user's rights: its groups in the user database and, for the service's user, the groups that the unit adds.
/// `gid`: the only group of a user that is not in the database.
pub(crate) fn run_as(command: &mut Command, uid: u32, gid: u32) {
    let identity = identity(uid, gid);
    let become_it = move || {
        // SAFETY: it takes nothing. If it fails, this process already leads a session.
        unsafe { libc::setsid() };
        no_descriptors();
        identity.assume()?;
        no_capabilities()?;
        no_new_rights()?;
        end_with_parent()
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(become_it) };
}

/// Makes `command`, which is this program, run detached from this process's terminal and descriptors. It keeps root's rights until it gives
/// them up by [`become_user`]: that user might not be allowed to execute the program.
pub(crate) fn run_apart(command: &mut Command) {
    let leave = || {
        // SAFETY: it takes nothing. If it fails, this process already leads a session.
        unsafe { libc::setsid() };
        no_descriptors();
        no_new_rights()
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(leave) };
}

/// Switches this process, which runs as root with a single thread, to this user's rights for good; see [`run_as`].
///
/// # Errors
/// The kernel refused, or other threads exist, which would keep root's rights.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("it has several threads"));
    }
    identity(uid, gid).assume()?;
    no_capabilities()?;
    no_new_rights()?;
    end_with_parent()?;
    keep_from_others();
    Ok(())
}

/// Ensures that no program this process executes gains more rights.
fn no_new_rights() -> io::Result<()> {
    // SAFETY: numbers only.
    from_minus_one(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, YES, NO, NO, NO) }).map(drop)
}

/// Requests SIGTERM when the parent of this process ends. A change of user cancels the request, so call this afterwards.
fn end_with_parent() -> io::Result<()> {
    // SAFETY: numbers only.
    from_minus_one(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, END) }).map(drop)
}

/// Runs this program with these arguments as the service's user and returns its output. It runs in a child, so nothing of root's, and no
/// terminal, is within that user's reach. `None`: this process is not root, or the user does not exist. `in_its_folder`: start it in the
/// unit's working directory, if that can be entered.
///
/// # Errors
/// The kernel refused, and nothing has run. `TimedOut`: the child was killed, because it had not ended after 10 s.
pub(crate) fn run_as_service(arguments: &[OsString], in_its_folder: bool) -> io::Result<Option<Output>> {
    let root = Path::new("/");
    let service = Identity::of_service(root).filter(|service| is_root() && service.uid != 0);
    let Some((uid, gid)) = service.and_then(|service| Some((service.uid, *service.gids.first()?))) else {
        return Ok(None);
    };
    let folder = working_directory(root).filter(|folder| in_its_folder && folder.is_dir());
    let again = |file: &Path| {
        let mut command = Command::new(file);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_clear().envs(KEPT.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        folder.iter().for_each(|folder| _ = command.current_dir(folder));
        run_as(&mut command, uid, gid);
        command.spawn()
    };
    // Started by its path, the child keeps the name by which others recognise a hertzd. The folder of a fresh build may be closed to that
    // user.
    let child = match env::current_exe().and_then(|file| again(&file)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => again(Path::new("/proc/self/exe"))?,
        started => started?,
    };
    answer(child, ANSWERS_WITHIN).map(Some)
}

/// The environment variables that affect its output.
const KEPT: [&str; 6] = ["PATH", "LANG", "LC_ALL", "NO_COLOR", "COLUMNS", "HERTZD_LOG"];

/// The most bytes read from each of its two streams.
const LONGEST: u64 = 16 << 20;

/// How long the child may run: it opens files that its user could replace by something that never answers.
const ANSWERS_WITHIN: Span = Span::from_seconds(10);

/// How often it is checked for its end.
const BETWEEN: Span = Span::from_millis(5);

/// A child's output until its end. The child and its group are killed if it takes longer than `within`, or if another process keeps its
/// output open.
///
/// # Errors
/// `TimedOut`; or the system's reason.
fn answer(mut child: Child, within: Span) -> io::Result<Output> {
    let (texts, streams) = mpsc::channel();
    let read = |nth: usize, from: Option<Box<dyn Read + Send>>| {
        let texts = texts.clone();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            from.map(|from| from.take(LONGEST).read_to_end(&mut text));
            let _ = texts.send((nth, text));
        });
    };
    read(0, child.stdout.take().map(|stream| Box::new(stream) as _));
    read(1, child.stderr.take().map(|stream| Box::new(stream) as _));
    let (clock, mut printed) = (KernelClock::monotonic(), [None, None]);
    let end = clock.now() + within;
    loop {
        streams.try_iter().for_each(|(nth, text): (usize, Vec<u8>)| printed[nth] = Some(text));
        if let ([Some(stdout), Some(stderr)], Some(status)) = (&mut printed, child.try_wait()?) {
            return Ok(Output { status, stdout: mem::take(stdout), stderr: mem::take(stderr) });
        }
        if clock.now() >= end {
            break;
        }
        pause(BETWEEN);
    }
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: two numbers; either it leads a group of its own, or no group has this number, and it was not waited for.
        let _ = unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
    let _ = child.kill();
    let text = format!(
        "it has not ended within {within}, and was killed: it waits for a device, a pipe or a file system that does not answer"
    );
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Closes this process's memory and descriptors to other processes of its user. If that fails, they only see what their user owns anyway.
pub(crate) fn keep_from_others() {
    // SAFETY: numbers only.
    let _ = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, NO, NO, NO, NO) };
}

/// Asks a child to end, by SIGTERM.
pub(crate) fn ask_to_end(child: &Child) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: two numbers; the child was not waited for, so the number is still its own.
        let _ = unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

/// Whether this user is a group's only member: many systems create such a group for each user.
pub(crate) fn is_private_group(gid: u32, uid: u32) -> bool {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    is_private(&groups, &users, gid, uid)
}

fn is_private(groups: &str, users: &str, gid: u32, uid: u32) -> bool {
    let field = |line: &str, at: usize| line.split(':').nth(at).and_then(|text| text.parse::<u32>().ok());
    let name = users.lines().find(|line| field(line, 2) == Some(uid)).and_then(|line| line.split(':').next());
    let has_members = groups.lines().filter(|line| field(line, 2) == Some(gid)).any(|line| {
        let members = line.split(':').nth(3).unwrap_or_default().split(',');
        members.filter(|member| !member.is_empty()).any(|member| Some(member) != name)
    });
    let is_of_others = users.lines().any(|line| field(line, 3) == Some(gid) && field(line, 2) != Some(uid));
    let is_own = users.lines().any(|line| field(line, 3) == Some(gid) && field(line, 2) == Some(uid));
    is_own && !is_of_others && !has_members
}

fn identity(uid: u32, gid: u32) -> Identity {
    let Some((name, gid)) = user(uid) else { return Identity { uid, gids: vec![gid] } };
    let mut gids = groups(&name, gid);
    if name.to_str() == Ok(service_user())
        && let Some(service) = Identity::of_service(Path::new("/"))
    {
        gids.extend(service.gids.into_iter().filter(|gid| *gid != 0));
        gids[1..].sort_unstable();
        gids.dedup();
    }
    Identity { uid, gids }
}

/// A user's name and primary group.
fn user(uid: u32) -> Option<(std::ffi::CString, u32)> {
    let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
    let mut text = vec![0; 64 << 10];
    // SAFETY: the entry and its text outlive the call, and the length passed is that of the text.
    let failed = unsafe { libc::getpwuid_r(uid, entry.as_mut_ptr(), text.as_mut_ptr(), text.len(), &raw mut found) };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: an entry was found, so it is in `entry`.
    let entry = unsafe { entry.assume_init() };
    // SAFETY: its name is a text in `text`, which still exists.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    Some((name.to_owned(), entry.pw_gid))
}

/// A user's groups, `gid` first.
fn groups(name: &CStr, gid: u32) -> Vec<u32> {
    let mut gids: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(gids.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the name and the list outlive the call, and `count` is the length of the list.
        let fits = unsafe { libc::getgrouplist(name.as_ptr(), gid, gids.as_mut_ptr(), &raw mut count) } >= 0;
        let count = usize::try_from(count).unwrap_or_default();
        if fits || gids.len() > 1 << 16 {
            gids.truncate(count);
            gids.retain(|other| *other != gid);
            gids.insert(0, gid);
            return gids;
        }
        gids.resize(count.max(gids.len() * 2), 0);
    }
}

/// Closes all descriptors but the three streams when the program is executed. They stay open until then: one of them reports a failure.
fn no_descriptors() {
    // SAFETY: three numbers; only descriptors above the three streams are marked.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done != 0 {
        // Linux before 5.11.
        for fd in 3..1024 {
            // SAFETY: numbers only.
            let _ = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Drops all capabilities, in case something kept them across the change of user.
fn no_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    let header = Header { version: 0x2008_0522, pid: 0 }; // the third version, and this thread
    let none = [0_u32; 6];
    // SAFETY: the kernel reads the header and, in this version, six words; both outlive the call.
    from_minus_one(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child whose output another process keeps open is not waited for either.
    #[test]
    fn a_child_that_does_not_end_is_not_waited_for() {
        let start = |line: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.process_group(0).spawn().unwrap()
        };
        for line in ["exec sleep 1000", "sleep 1000 & exit 3", "exec >&- 2>&-; sleep 1000"] {
            let error = answer(start(line), Span::from_millis(200)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{line}: {error}");
        }
        let output = answer(start("echo out; echo err >&2; exit 3"), Span::from_seconds(60)).unwrap();
        assert_eq!((output.status.code(), &*output.stdout, &*output.stderr), (Some(3), &b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn a_group_is_private_if_nobody_else_is_in_it() {
        let users =
            "root:x:0:0::/:\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\ncat:x:1002:100::/:\ndan:x:1003:100::/:\n";
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\nusers:x:100:\neve:x:1000:\n";
        assert!(is_private(groups, users, 1000, 1000));
        assert!(!is_private(groups, users, 1001, 1001), "ann is in it");
        assert!(!is_private(groups, users, 100, 1002), "dan has it too");
        assert!(!is_private(groups, users, 1000, 1001) && !is_private(groups, users, 7, 7));
    }

    /// What a program that runs with a user's rights sees of itself.
    #[test]
    fn a_child_has_the_rights_of_its_user_and_nothing_of_roots() {
        use crate::sys::dir::effective_user;
        use crate::sys::emulation::{OTHER_OWNERS, cannot_be_emulated};
        if effective_user() != 0 || cannot_be_emulated(OTHER_OWNERS) {
            return crate::sys::emulation::say_skipped("only root can give another user's rights");
        }
        let secret = std::fs::File::open("/dev/null").unwrap();
        // Without the flag that closes it in a child, as a shell may have left it.
        // SAFETY: numbers only; the descriptor is open.
        from_minus_one(unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&secret), libc::F_SETFD, 0) }).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cat /proc/self/status; ls /proc/$$/fd"]).env_clear();
        run_as(&mut command, 65_534, 7);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let has = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(output.status.success(), "{output:?}");
        assert_eq!([has("Uid:"), has("NoNewPrivs:")], ["65534 65534 65534 65534", "1"]);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(has(set), "0000000000000000", "{set}");
        }
        assert!(!has("Groups:").split(' ').any(|group| group == "0"), "{text}");
        let open: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(open.contains(&0) && !open.iter().any(|fd| (3..10).contains(fd)), "{open:?}");
    }

    #[test]
    fn root_has_a_name_and_its_group() {
        let (name, gid) = user(0).unwrap();
        assert_eq!((name.to_str(), gid, groups(&name, 0)[0]), (Ok("root"), 0, 0));
        assert_eq!(identity(4_000_000_000, 7), Identity { uid: 4_000_000_000, gids: vec![7] });
    }
}
