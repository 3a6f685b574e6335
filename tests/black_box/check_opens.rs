//! `hertzd check` previews everything that a start would open: it refuses what `run` refuses, and changes nothing.

use crate::program;
use crate::program::{HERE, HERTZD, Running, is_root, run_in};
use hertzd::internals::lock_as_hertzd;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILE: &str = "kind = \"sensor\"\nrate = 10\npath = \"/proc/loadavg\"";

/// A task with these keys.
fn task(name: &str, keys: &str) -> String {
    format!("[task.{name}]\n{keys}\n")
}

fn recorded(name: &str, path: &str) -> String {
    task(name, &format!("{FILE}\nrecord = \"{HERE}/{path}\""))
}

fn write(folder: &Path, config: &str) -> PathBuf {
    let path = folder.join("check.toml");
    fs::write(&path, config.replace(HERE, folder.to_str().unwrap())).unwrap();
    path
}

fn hertzd(command: &str, folder: &Path, config: &str, args: &[&str]) -> Output {
    let path = write(folder, config);
    Command::new(HERTZD).arg(command).arg(path).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// stdout, stderr and the exit status of a check.
fn check(folder: &Path, config: &str, args: &[&str]) -> (String, String, Option<i32>) {
    let output = hertzd("check", folder, config, args);
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_sensor_that_may_freeze_before_an_actuator_is_listed_and_is_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let config = |also| {
        let sensor =
            "kind = \"sensor\"\nrate = 10\nhwmon = \"no such device\"\nfile = \"temp1_input\"\nmissing = \"wait\"";
        task("oven", &format!("{sensor}\n{also}"))
            + &task("heat", "kind = \"pid\"\nrate = 10\ninput = \"oven.temp1\"\nsetpoint = 1\nkp = 1")
    };
    let heading = "Sensors that may freeze unnoticed:\n  task oven: if its readings freeze they stay good, and task heat acts on them";
    let (out, err, code) = check(folder.path(), &config(""), &[]);
    assert!(out.contains(heading) && code == Some(0), "{out}{err}");
    assert!(!out.split("Warnings:").nth(1).unwrap_or_default().contains("freeze"), "{out}");
    let (out, err, _) = check(folder.path(), &config("stuck-after = \"10s\""), &[]);
    assert!(!out.contains("freeze"), "{out}{err}");
}

/// Every file of a folder with its content.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// A configuration in which every task would be refused, and the number of problems.
fn all_wrong(folder: &Path) -> (String, usize) {
    fs::write(folder.join("other.csv"), "something else\n").unwrap();
    fs::create_dir(folder.join("folder.csv")).unwrap();
    symlink("cycle.csv", folder.join("cycle.csv")).unwrap();
    let mut all = vec![
        task("no-file", "kind = \"sensor\"\nrate = 10\npath = \"@HERE@/nothing\""),
        task("no-line", "kind = \"sensor\"\nrate = 10\npath = \"/proc/meminfo\"\nline = \"Nothing:\""),
        task("no-field", "kind = \"sensor\"\nrate = 10\npath = \"/proc/version\"\nfield = 50"),
        task("no-number", "kind = \"sensor\"\nrate = 10\npath = \"/proc/version\""),
        task("no-hwmon", "kind = \"sensor\"\nrate = 10\nhwmon = \"no such device\""),
        task("no-iio", "kind = \"sensor\"\nrate = 10\niio = \"no such device\"\nbuffered = true"),
        task("no-sound", &format!("{FILE}\nrecord = \"@HERE@/x.wav\"")),
        task("no-values", "kind = \"load\"\nrate = 10\nqueue = \"mailbox\""),
        recorded("no-folder", "nothing/x.csv"),
        recorded("other", "other.csv"),
        recorded("folder", "folder.csv"),
        recorded("cycle", "cycle.csv"),
        recorded("first", "x.csv"),
        recorded("second", "./folder.csv/../x.csv"),
    ];
    if cfg!(feature = "i2c") {
        let chip = "address = 0x48\nregister = 0\ntype = \"u8\"";
        all.push(task("no-bus", &format!("kind = \"i2c\"\nrate = 10\nbus = \"no such bus\"\n{chip}")));
        all.push(task("no-i2c", &format!("kind = \"i2c\"\nrate = 10\nbus = \"/dev/null\"\n{chip}")));
    }
    if cfg!(feature = "gpio") {
        all.push(task("no-chip", "kind = \"gpio\"\nrate = 10\nchip = \"no such chip\"\nlines = [1]"));
        all.push(task("no-gpio", "kind = \"gpio\"\nrate = 10\nchip = \"/dev/null\"\nlines = [1]"));
    }
    if cfg!(feature = "video") {
        all.push(task("no-node", "kind = \"video\"\nrate = 10\ndevice = \"/dev/nothing\""));
        all.push(task("no-camera", "kind = \"video\"\nrate = 10\ndevice = \"/dev/null\""));
    }
    // The second of the two tasks that share a file is refused; the first is fine.
    (all.concat(), all.len() - 1)
}

#[test]
fn check_refuses_all_that_run_refuses_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let (config, wrong) = all_wrong(folder.path());
    let before = content(folder.path());
    let (_, checked, code) = check(folder.path(), &config, &[]);
    assert_eq!(code, Some(78), "{checked}");
    let end = format!("{wrong} problems; a start with this configuration would be refused\n");
    assert!(checked.ends_with(&end), "{checked}");
    let run = hertzd("run", folder.path(), &config, &["--for", "1s"]);
    let problems =
        |text: &str| text.lines().skip_while(|line| !line.starts_with("error: ")).map(str::to_owned).collect();
    let (mut checked, mut run): (Vec<_>, Vec<_>) = (problems(&checked), problems(&text(&run.stderr)));
    checked.pop();
    assert!(run.pop().unwrap().ends_with(" problems; nothing was started"));
    assert_eq!(checked, run);
    let mut after = content(folder.path());
    let written = write(folder.path(), &config);
    after.remove(&written);
    assert_eq!(after, before);
    // The file is for another machine.
    let (printed, error, code) = check(folder.path(), &config, &["--no-open"]);
    assert!(code == Some(0) && printed.contains("check.toml: ok\n"), "{printed}{error}");
}

#[test]
fn check_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    // The beginning of an older recording by hertzd: its header record, with an empty profile and the library's name.
    let library = b"hertzd 0.1.0";
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    let header = [&[0; 4], &length(library.len())[..], library].concat();
    let old = [b"\x89MCAP0\r\n\x01", &length(header.len())[..], &[0; 4], &header].concat();
    fs::write(folder.path().join("old.mcap"), old).unwrap();
    let header = "tick,release_utc,lateness_ns,value\n";
    fs::write(
        folder.path().join("old.csv"),
        header.to_owned() + "1,2026-01-01T00:00:00.000000000Z,5,0.5\n2,2026-01-01T00",
    )
    .unwrap();
    let mut config = recorded("a", "new.csv") + &recorded("b", "old.csv");
    if cfg!(feature = "mcap") {
        config += &recorded("c", "new.mcap");
        config += &recorded("d", "old.mcap");
    }
    write(folder.path(), &config);
    let before = content(folder.path());
    let (printed, error, code) = check(folder.path(), &config, &[]);
    assert!(code == Some(0) && error.is_empty() && !printed.contains("Warnings"), "{printed}{error}");
    assert_eq!(content(folder.path()), before);
}

/// The link's user decides where it leads: to numbers that only root can read, or to something that never answers.
#[test]
fn root_reads_through_no_link_of_another_user() {
    if !is_root() {
        return program::skip("only root can make links of others");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("theirs")).unwrap();
    fs::write(at("secret"), "42\n").unwrap();
    fs::write(at("course.csv"), "0,1\n1,2\n").unwrap();
    symlink(at("secret"), at("theirs/link")).unwrap();
    symlink(at("course.csv"), at("theirs/link.csv")).unwrap();
    let sensor = |path: &str| task("a", &format!("kind = \"sensor\"\nrate = 10\npath = \"{HERE}/{path}\""));
    let profile = |path: &str| {
        task(
            "b",
            &format!(
                "kind = \"profile\"\nrate = 10\nshape = \"csv\"\nfile = \"{HERE}/{path}\"\ntime-column = 1\ncolumn = 2"
            ),
        )
    };
    let config = sensor("theirs/link") + &profile("theirs/link.csv");
    assert_eq!(check(folder.path(), &config, &[]).2, Some(0), "links of root");
    for name in ["theirs/link", "theirs/link.csv"] {
        lchown(at(name), Some(65_534), None).unwrap();
    }
    for (command, args) in [("check", &[][..]), ("run", &["--for", "100ms"])] {
        let output = hertzd(command, folder.path(), &config, args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{command}: {error}");
        for link in ["theirs/link is", "theirs/link.csv is"] {
            let said = format!(
                "{link} a symbolic link of user 65534, and root follows only root's links; name its target instead"
            );
            assert!(error.contains(&said), "{command}: {error}");
        }
        assert!(!error.contains("needs permission"), "{error}");
    }
    // A link of root's that its user could have moved there is no better.
    for name in ["theirs/link", "theirs/link.csv"] {
        lchown(at(name), Some(0), None).unwrap();
    }
    lchown(at("theirs"), Some(65_534), None).unwrap();
    let (_, error, code) = check(folder.path(), &config, &[]);
    assert!(code == Some(78) && error.contains("theirs/link is a symbolic link in a folder of user 65534"), "{error}");
    let there = sensor("secret") + &profile("course.csv");
    assert_eq!(check(folder.path(), &there, &[]).2, Some(0), "without links");
}

#[test]
fn a_folder_that_takes_no_files_is_refused() {
    if is_root() {
        return; // root may write to any folder of a disk
    }
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    let (_, error, code) = check(folder.path(), &recorded("a", "closed/x.csv"), &[]);
    assert!(code == Some(78) && error.contains("x.csv: Permission denied"), "{error}");
    // If there is a service, it starts in another folder.
    let relative = check(folder.path(), &task("a", &format!("{FILE}\nrecord = \"closed/x.csv\"")), &[]);
    let has_service = fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("hertzd:"));
    assert_eq!(relative.2, Some(if has_service { 0 } else { 78 }), "{relative:?}");
}

/// Opening a device may have an effect, and opening a pipe lets its writer continue.
#[test]
fn what_is_no_file_is_left_to_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = task("a", "kind = \"sensor\"\nrate = 10\npath = \"@HERE@/pipe\"");
    let (printed, error, code) = check(folder.path(), &config, &[]);
    let unknown = format!("Only a start finds out:\n  task a: whether {} can be read: it is no file\n", pipe.display());
    assert!(code == Some(0) && printed.contains(&unknown), "{printed}{error}");
}

#[test]
fn a_device_that_may_come_later_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = "kind = \"sensor\"\nrate = 10\npath = \"@HERE@/nothing\"\nmissing = \"wait\"";
    let (printed, error, code) = check(folder.path(), &task("a", file), &[]);
    let warning = "/nothing: No such file or directory (os error 2); the task would wait for it\n --> ";
    assert!(
        code == Some(0) && printed.contains("Warnings:\nwarning: task.a: ") && printed.contains(warning),
        "{printed}{error}"
    );
}

/// A daemon that records to `x.csv`, with a status socket.
fn running(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let mut running =
        run_in(folder, Command::new(HERTZD), config, &["--json", "--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    running.wait_for("its file", |running| running.folder().join("x.csv").exists());
    running
}

fn check_against(running: &Running, config: &str) -> (String, String, Option<i32>) {
    let socket = running.folder().join("status.sock");
    check(running.folder(), config, &["--against-running", "--socket", socket.to_str().unwrap()])
}

#[test]
fn what_a_running_hertzd_has_is_no_problem_and_what_another_program_has_is_one() {
    let running = running(&recorded("a", "x.csv"));
    let in_use = format!("x.csv is in use by hertzd (pid {})", running.pid());
    let (printed, error, code) = check(running.folder(), &recorded("b", "x.csv"), &[]);
    assert!(code == Some(0) && printed.contains(&in_use), "{printed}{error}");
    // The daemon hands the file over to a new task.
    let (printed, error, code) = check_against(&running, &recorded("b", "x.csv"));
    assert!(code == Some(0) && !printed.contains("is in use"), "{printed}{error}");

    let file = File::create(running.folder().join("y.csv")).unwrap();
    assert!(lock_as_hertzd(&file));
    for (_, error, code) in
        [check(running.folder(), &recorded("b", "y.csv"), &[]), check_against(&running, &recorded("b", "y.csv"))]
    {
        let holder = format!("(pid {}); stop that process", std::process::id());
        assert!(code == Some(78) && error.contains("y.csv: in use by ") && error.contains(&holder), "{error}");
    }
    running.signal("TERM");
    running.wait().assert_no_fault();
}

#[test]
fn check_against_running_finds_what_the_reload_would_refuse_and_names_what_changed() {
    let old = recorded("a", "x.csv") + &task("b", "kind = \"load\"\nrate = 10");
    let running = running(&old);
    let broken = old.clone() + &task("c", "kind = \"sensor\"\nrate = 10\npath = \"@HERE@/nothing\"");
    let (printed, error, code) = check_against(&running, &broken);
    assert!(code == Some(78) && error.contains("nothing: No such file"), "{printed}{error}");
    // A reload does not reopen the files of running tasks.
    let edited = old
        .replace("rate = 10\n[", "rate = 10\nphase = \"1ms\"\n[")
        .replace("kind = \"load\"\nrate = 10", "kind = \"load\"\nrate = 20\nbudget = \"1ms\"");
    let (printed, error, code) = check_against(&running, &edited);
    assert!(code == Some(0) && printed.contains("task b restarts: budget, rate changed\n"), "{printed}{error}");
    assert!(printed.contains("task a is unchanged") && printed.contains("worker main is unchanged"), "{printed}");
    // The daemon reads the file that it was started with.
    let other = format!("But it would read {}/test.toml, which is another file.", running.folder().display());
    assert!(printed.contains(&other), "{printed}");
    let new_worker = format!("[worker.main]\npriority = 20\n{old}");
    let (printed, error, code) = check_against(&running, &new_worker);
    assert!(code == Some(0) && printed.contains("task b restarts with its worker\n"), "{printed}{error}");
    assert!(printed.contains("worker main restarts: priority changed\n"), "{printed}");
    let unknown = "Only the reload itself finds out:\n  worker main: whether the kernel grants";
    assert!(printed.contains(unknown), "{printed}");
    running.signal("TERM");
    running.wait().assert_no_fault();
}

/// With a service's user created for the test: `hertzd` gets the number 64998, and `nobody` checks.
#[test]
fn what_only_the_services_user_may_open_is_a_warning() {
    let there = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|output| output.status.success());
    if !is_root() || !there {
        program::skip("another user's files take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(inside("passwd"), "root:x:0:0::/:/bin/sh\nhertzd:x:64998:64998::/:/bin/sh\n").unwrap();
    fs::write(inside("group"), "root:x:0:\ndevices:x:64997:hertzd\n").unwrap();
    fs::create_dir(inside("state")).unwrap();
    let closed = [("service", 64_998, 0, 0o600), ("member", 0, 64_997, 0o640), ("root", 0, 0, 0o600)];
    for (name, uid, gid, mode) in closed.into_iter().chain([("state", 64_998, 64_998, 0o750)]) {
        if name != "state" {
            fs::write(inside(name), "7\n").unwrap();
        }
        std::os::unix::fs::chown(inside(name), Some(uid), Some(gid)).unwrap();
        fs::set_permissions(inside(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(inside("hertzd"), "").unwrap();
    let of = |name: &str| task(name, &format!("kind = \"sensor\"\nrate = 10\npath = \"@HERE@/{name}\""));
    let may = of("service") + &of("member") + &recorded("state", "state/x.csv");
    // The program is reached through the folder: `nobody` may have no access to the folder it was built in.
    let script = format!(
        "cd {0} && mount --bind {HERTZD} hertzd && mount --bind passwd /etc/passwd && mount --bind group /etc/group && \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups ./hertzd check check.toml",
        folder.path().display()
    );
    let check = |config: &str| {
        write(folder.path(), config);
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
    };
    let output = check(&may);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    for warning in [
        format!("task.service: only the service's user hertzd may open {}/service", folder.path().display()),
        format!("task.member: only the service's user hertzd may open {}/member", folder.path().display()),
        format!("task.state: only the service's user hertzd may write to {}/state", folder.path().display()),
    ] {
        assert!(printed.contains(&warning), "{warning}: {printed}");
    }
    let output = check(&(may + &of("root")));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{error}");
    assert!(error.ends_with("\n1 problem; a start with this configuration would be refused\n"), "{error}");
    assert!(
        error.contains("root: Permission denied (os error 13); hertzd's user needs permission to read it"),
        "{error}"
    );
}
