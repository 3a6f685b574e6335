//! The runtime directory: its owner, who can read its files, and what others can do to it. As root, the tests use real other users.

use crate::program::{HERTZD, Running, copy_program, is_root, run_in, skip};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const CONFIG: &str = "[worker.w]\n[task.t]\nkind = \"load\"\nrate = 100\n\n[task.o]\nkind = \"output\"\nrate = 100\n\
    path = \"@HERE@/level\"\ninput = 3\nsafe = 1\n";

/// Any other user.
const USER: u32 = 65_534;
/// The group `hertzd-status` of these tests.
const STATUS_GROUP: u32 = 64_990;

fn folder_with_target() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("level"), "0\n").unwrap();
    folder
}

/// Starts hertzd with its folder as the runtime directory, and waits until all files exist.
fn start_service(mut command: Command) -> Running {
    let folder = folder_with_target();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let mut running = run_in(folder, command, CONFIG, &[]);
    running.wait_until_granted();
    running.wait_for("its flight file is there", |running| running.folder().join("flight").exists());
    running
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Whether this process can have a mount namespace, and act as several users.
pub(crate) fn can_be_others() -> bool {
    let there = Command::new("unshare").args(["-m", "setpriv", "--reuid=65534", "true"]).output();
    let can = is_root() && there.is_ok_and(|output| output.status.success());
    if !can {
        skip("only root, with unshare and setpriv, can be several users");
    }
    can
}

/// A command by another user, who is optionally a member of this group.
fn by_user(group: Option<u32>) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    command.arg(group.map_or("--clear-groups".into(), |group| format!("--groups={group}")));
    command
}

#[test]
fn a_second_daemon_with_the_same_directory_is_refused_and_names_the_first() {
    let first = start_service(Command::new(HERTZD));
    let inode = |name: &str| fs::metadata(first.folder().join(name)).unwrap().ino();
    let before = [inode("flight"), inode("safe-plan.json")];
    let other = tempfile::tempdir().unwrap();
    let second = Command::new(HERTZD)
        .args(["run", "--for", "1s", "--status-socket"])
        .arg(other.path().join("s"))
        .env("RUNTIME_DIRECTORY", first.folder())
        .output()
        .unwrap();
    let said = text(&second);
    assert_eq!(second.status.code(), Some(77), "{said}");
    assert!(said.contains(&format!("belongs to another daemon that runs (pid {})", first.pid())), "{said}");
    assert_eq!([inode("flight"), inode("safe-plan.json")], before, "plan and flight file are the first one's");
}

#[test]
fn a_service_shows_its_files_to_a_group_and_a_foreground_run_to_its_user() {
    let service = start_service(Command::new(HERTZD));
    let modes = ["status.sock", "flight", "lock"].map(|name| mode(&service.folder().join(name)));
    assert_eq!(modes, [0o660, 0o640, 0o600]);

    let folder = folder_with_target();
    let mut command = Command::new(HERTZD);
    command.env_remove("RUNTIME_DIRECTORY").env("XDG_RUNTIME_DIR", folder.path());
    let mut running = run_in(folder, command, CONFIG, &[]);
    let own = running.folder().join("hertzd").join(running.pid().to_string());
    running.wait_for("its files are there", |_| own.join("flight").exists() && own.join("status.sock").exists());
    running.wait_until_granted();
    let modes = ["", "status.sock", "flight", "lock"].map(|name| mode(&own.join(name)));
    assert_eq!(modes, [0o700, 0o600, 0o600, 0o600]);
    assert_eq!(mode(&running.folder().join("hertzd")), 0o700);
}

#[test]
fn a_directory_in_which_others_could_exchange_files_is_refused() {
    let start = |folder: &Path| {
        let mut command = Command::new(HERTZD);
        command.args(["run", "--for", "10ms"]).env("RUNTIME_DIRECTORY", folder);
        let output = command.output().unwrap();
        (output.status.code(), text(&output))
    };
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (code, said) = start(folder.path());
    assert!(code == Some(77) && said.contains("others may write to it (mode 0777)"), "{code:?} {said}");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let link = folder.path().join("link");
    symlink(tempfile::tempdir().unwrap().path(), &link).unwrap();
    if is_root() {
        std::os::unix::fs::lchown(&link, Some(USER), None).unwrap();
    }
    let (code, said) = start(&link);
    assert!(code == Some(70) && said.contains("it is a link"), "{code:?} {said}");
    if is_root() {
        std::os::unix::fs::chown(folder.path(), Some(USER), None).unwrap();
        let (code, said) = start(folder.path());
        assert!(code == Some(77) && said.contains("it belongs to user 65534"), "{code:?} {said}");
    }
}

#[test]
fn a_directory_that_others_could_put_another_one_in_place_of_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (outer, inner) = (folder.path().join("outer"), folder.path().join("outer/between/inner"));
    fs::create_dir_all(&inner).unwrap();
    let start = |variable: &str, value: &Path| {
        let mut command = Command::new(HERTZD);
        command.args(["run", "--for", "10ms"]).env_remove("RUNTIME_DIRECTORY").env_remove("XDG_RUNTIME_DIR");
        let output = command.env(variable, value).output().unwrap();
        (output.status.code(), text(&output))
    };
    let with_mode = |mode| fs::set_permissions(&outer, fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o755, 0o1777] {
        with_mode(mode);
        let (code, said) = start("RUNTIME_DIRECTORY", &inner);
        assert!(code == Some(0), "{mode:o}: {code:?} {said}");
    }
    with_mode(0o777);
    let wanted = format!(
        "another user could replace it: the folder {} may be written by everyone (mode 0777): `sudo chmod go-w ",
        outer.display()
    );
    let (code, said) = start("RUNTIME_DIRECTORY", &inner);
    assert!(code == Some(77) && said.contains(&wanted), "{code:?} {said}");
    // Through a link that can be changed later.
    symlink(&inner, folder.path().join("link")).unwrap();
    let (code, said) = start("RUNTIME_DIRECTORY", &folder.path().join("link/../inner"));
    assert!(code == Some(77) && said.contains(&wanted), "{code:?} {said}");
    let (code, said) = start("XDG_RUNTIME_DIR", &inner);
    let is_elsewhere = is_root() && !said.contains(&wanted);
    let is_left_out = said.contains("no runtime directory in ") && said.contains(&wanted);
    assert!(code == Some(0) && (is_elsewhere || is_left_out), "{code:?} {said}");
    assert_eq!(fs::read_dir(&inner).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count(), 0);
    if is_root() {
        with_mode(0o755);
        std::os::unix::fs::chown(&outer, Some(USER), None).unwrap();
        let (code, said) = start("RUNTIME_DIRECTORY", &inner);
        assert!(code == Some(77) && said.contains("who could change it"), "{code:?} {said}");
    }
}

/// Runs hertzd as root on a private /run, which `prepare` fills; `$VICTIM` is a folder of root's. `$$` is hertzd's process.
fn root_in_foreground(prepare: &str) -> (Running, PathBuf) {
    let folder = folder_with_target();
    let victim = folder.path().join("victim");
    fs::create_dir(&victim).unwrap();
    for name in ["flight", "safe-plan.json", "status.sock", "shadow"] {
        fs::write(victim.join(name), "precious").unwrap();
        fs::set_permissions(victim.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let script = format!("mount -t tmpfs none /run && mkdir /run/hertzd && chown {USER} /run/hertzd && {prepare}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &format!("{script}; exec {HERTZD} \"$@\""), "sh"]);
    command.env("VICTIM", &victim).env_remove("RUNTIME_DIRECTORY").env_remove("XDG_RUNTIME_DIR");
    let mut running = run_in(folder, command, CONFIG, &[]);
    running.wait_until_granted();
    (running, victim)
}

fn assert_untouched(victim: &Path) {
    let mut names: Vec<_> = fs::read_dir(victim).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["flight", "safe-plan.json", "shadow", "status.sock"]);
    for name in names {
        assert_eq!(fs::read_to_string(victim.join(&name)).unwrap(), "precious", "{name:?}");
        assert_eq!(mode(&victim.join(&name)), 0o600, "{name:?}");
    }
}

/// A path in the private /run of the process that `unshare` started and that has become hertzd.
fn in_its_run(running: &Running, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root/run/{path}", running.pid()))
}

#[test]
fn root_follows_no_link_that_the_services_user_planted() {
    if !can_be_others() {
        return;
    }
    let plants = [
        "ln -s $VICTIM /run/hertzd/$$",
        "mkdir /run/hertzd/$$; for n in flight flight.new flight.prev safe-plan.new status.sock; do ln -s $VICTIM/shadow /run/hertzd/$$/$n; \
         done; chown -Rh 65534 /run/hertzd",
    ];
    for plant in plants {
        let (mut running, victim) = root_in_foreground(plant);
        let own = in_its_run(&running, &format!("hertzd-root/{}", running.pid()));
        running.wait_for("its flight file is there", |_| own.join("flight").exists());
        assert_untouched(&victim);
        let modes = ["..", "", "status.sock", "flight"].map(|name| mode(&own.join(name)));
        assert_eq!(modes, [0o700, 0o700, 0o600, 0o600]);
        running.signal("TERM");
        let _ended = running.wait();
        assert_untouched(&victim);
    }
}

#[test]
fn roots_place_is_refused_if_it_is_a_link_or_anothers() {
    if !can_be_others() {
        return;
    }
    let plants = [
        ("ln -s $VICTIM /run/hertzd-root", "it is a link"),
        ("mkdir /run/hertzd-root; chown 65534 /run/hertzd-root", "it belongs to user 65534"),
        ("touch /run/hertzd-root", "Not a directory"),
    ];
    for (plant, why) in plants {
        let (running, victim) = root_in_foreground(plant);
        let said = running.stderr();
        assert!(said.contains("no runtime directory in /run/hertzd-root") && said.contains(why), "{said}");
        assert_untouched(&victim);
    }
    // A login's directory that root has kept belongs to that user.
    let (mut running, _) =
        root_in_foreground("mkdir /run/user; chown 65534 /run/user; export XDG_RUNTIME_DIR=/run/user");
    let own = in_its_run(&running, &format!("hertzd-root/{}", running.pid()));
    running.wait_for("its flight file is there", |_| own.join("flight").exists());
    assert_eq!(fs::read_dir(in_its_run(&running, "user")).unwrap().count(), 0);
}

#[test]
fn root_finds_its_own_daemon_and_those_of_earlier_versions() {
    if !can_be_others() {
        return;
    }
    let (mut running, _) = root_in_foreground("true");
    let pid = running.pid().to_string();
    let inside = |args: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &pid, HERTZD]).args(args);
        text(&command.env_remove("XDG_RUNTIME_DIR").env_remove("RUNTIME_DIRECTORY").output().unwrap())
    };
    assert!(inside(&["status"]).contains(&format!("process {pid}")), "{}", inside(&["status"]));
    assert!(inside(&["stop"]).contains(&pid), "{}", inside(&["stop"]));
    // The earlier place of root's directories.
    let (old, new) = (in_its_run(&running, "hertzd"), in_its_run(&running, "hertzd-root"));
    running.wait_for("its files are there", |_| new.join(&pid).join("flight").exists());
    fs::rename(new.join(&pid), old.join(&pid)).unwrap();
    assert!(inside(&["status"]).contains(&format!("process {pid}")), "{}", inside(&["status"]));
}

#[test]
fn another_user_holds_nothing_that_keeps_a_daemon_out() {
    if !can_be_others() {
        return;
    }
    let folder = folder_with_target();
    let path = folder.path().to_path_buf();
    // Any user could lock the directory, since everyone can enter it.
    let mut held = by_user(None)
        .args(["flock", "--no-fork"])
        .arg(&path)
        .args(["sleep", "1000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_locked = || Command::new("flock").arg("-n").arg(&path).arg("true").status().unwrap().code() == Some(1);
    while !is_locked() {
        assert!(held.try_wait().unwrap().is_none(), "it holds the lock");
    }
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", &path);
    let mut running = run_in(folder, command, CONFIG, &[]);
    running.wait_until_granted();
    let lock = path.join("lock");
    for flags in ["<", ">>"] {
        let tried = by_user(None).args(["sh", "-c", &format!("exec 9{flags}{}", lock.display())]).output().unwrap();
        assert!(text(&tried).contains("Permission denied") || text(&tried).contains("cannot"), "{}", text(&tried));
    }
    held.kill().unwrap();
    held.wait().unwrap();
}

/// The groups of this machine, with one more.
#[test]
fn members_of_the_group_may_read_the_status_and_others_learn_how() {
    if !can_be_others() {
        return;
    }
    let etc = tempfile::tempdir().unwrap();
    fs::set_permissions(etc.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (groups, program) = (etc.path().join("group"), etc.path().join("hertzd"));
    let more = format!("hertzd-status:x:{STATUS_GROUP}:\n");
    fs::write(&groups, fs::read_to_string("/etc/group").unwrap() + &more).unwrap();
    copy_program(&program);
    let script = format!("mount --bind {} /etc/group; exec {HERTZD} \"$@\"", groups.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &script, "sh"]);
    let running = start_service(command);
    let socket = running.folder().join("status.sock");
    for name in ["status.sock", "flight"] {
        assert_eq!(fs::metadata(running.folder().join(name)).unwrap().gid(), STATUS_GROUP, "{name}");
    }
    let status = |group| {
        let mut by_user = by_user(group);
        let script = format!("mount --bind {} /etc/group; exec \"$@\"", groups.display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", &script, "sh"]).arg(by_user.get_program()).args(by_user.get_args());
        by_user = command;
        by_user.arg(&program).args(["status", "--socket"]).arg(&socket).output().unwrap()
    };
    let (stranger, member) = (status(None), status(Some(STATUS_GROUP)));
    assert_eq!(stranger.status.code(), Some(77), "{}", text(&stranger));
    assert!(
        text(&stranger).contains("`sudo usermod -aG hertzd-status $USER`, then log in again"),
        "{}",
        text(&stranger)
    );
    assert!(text(&member).contains(&format!("process {}", running.pid())), "{}", text(&member));
    let reload = by_user(Some(STATUS_GROUP)).arg(&program).args(["reload", "--socket"]).arg(&socket).output().unwrap();
    assert_eq!(reload.status.code(), Some(77), "a member reads, and does not command: {}", text(&reload));
    let flight = |group| by_user(group).arg("cat").arg(running.folder().join("flight")).output().unwrap().status;
    assert!(!flight(None).success() && flight(Some(STATUS_GROUP)).success());

    // The directory of a foreground run is private to its user.
    let own = start_service(Command::new(HERTZD));
    fs::set_permissions(own.folder().join("status.sock"), fs::Permissions::from_mode(0o600)).unwrap();
    let socket = own.folder().join("status.sock");
    let refused = text(&by_user(None).arg(&program).args(["status", "--socket"]).arg(socket).output().unwrap());
    assert!(refused.contains("run this as root or as the daemon's user, root"), "{refused}");
}
