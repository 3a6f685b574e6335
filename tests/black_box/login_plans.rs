//! Plans of safe values below `/run/user/UID`, where a login's daemon has put them. Processes whose environment does not name that place
//! find them too, such as those of `sudo`, `cron` or another unit. Needs root, for a private `/run`.

use crate::program::copy_program;
use crate::runtime_directory::can_be_others;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const FAN: &str = "[task.fan]\nkind = \"output\"\nrate = 100\npath = \"@HERE@/fan\"\ninput = 0.75\nsafe = 1\n";

/// A login's daemon of user `$UID`, killed while its output holds 0.75.
const KILLED: &str = "\
mount -t tmpfs -o mode=755 none /run
mkdir -m 755 /run/user
mkdir -m 700 /run/user/$UID_OF_LOGIN
chown $UID_OF_LOGIN:$UID_OF_LOGIN /run/user/$UID_OF_LOGIN .
by_user() { setpriv --reuid=$UID_OF_LOGIN --regid=$UID_OF_LOGIN --clear-groups \"$@\"; }
XDG_RUNTIME_DIR=/run/user/$UID_OF_LOGIN setpriv --reuid=$UID_OF_LOGIN --regid=$UID_OF_LOGIN --clear-groups ./hertzd run a.toml >log 2>&1 &
pid=$!
until grep -qs 0.75 fan; do kill -0 $pid; sleep 0.05; done
kill -9 $pid
wait $pid || true
plan=/run/user/$UID_OF_LOGIN/hertzd/$pid/safe-plan.json
test -f $plan
";

/// Kills the daemon, and runs `then` without its environment. Returns the output of `then`, and the content of the output's file.
fn after_the_kill(user: u32, then: &str) -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(here.join("a.toml"), FAN.replace("@HERE@", here.to_str().unwrap())).unwrap();
    fs::write(here.join("none.toml"), "[task.t]\nkind = \"load\"\nrate = 100\n").unwrap();
    copy_program(&here.join("hertzd"));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &format!("{KILLED}{then}")]).current_dir(here);
    command.env("UID_OF_LOGIN", user.to_string());
    for variable in ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "SERVICE_RESULT"] {
        command.env_remove(variable);
    }
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let log = fs::read_to_string(here.join("log")).unwrap_or_default();
    assert!(said.contains("exit "), "{:?}: {said}{log}", done.status);
    let fan = fan(here);
    (folder, said, fan)
}

fn fan(folder: &Path) -> String {
    fs::read_to_string(folder.join("fan")).unwrap_or_default()
}

#[test]
fn root_and_the_user_find_the_plans_of_logins() {
    if !can_be_others() {
        return;
    }
    let cases = [
        (0, "status=0; ./hertzd safe || status=$?; echo exit $status"),
        (65_534, "status=0; ./hertzd safe || status=$?; echo exit $status"),
        (65_534, "status=0; by_user ./hertzd safe || status=$?; echo exit $status"),
    ];
    for (user, then) in cases {
        let (_folder, said, fan) = after_the_kill(user, then);
        assert!(said.contains("fan: wrote 1 to ") && said.contains("exit 0"), "{user} {then}: {said}");
        assert_eq!(fan, "1\n", "{user} {then}: {said}");
    }
}

#[test]
fn a_start_of_root_deals_with_what_a_login_of_root_has_left() {
    if !can_be_others() {
        return;
    }
    let start = "./hertzd run --for 100ms none.toml; echo exit $?; if test -e $plan; then echo it is there; else echo it is gone; fi";
    let (_folder, said, fan) = after_the_kill(0, start);
    assert!(fan == "1\n" && said.contains("it is gone"), "{fan}{said}");
    // Another user's plan is for that user, or for whoever asks for it.
    let (_folder, said, fan) = after_the_kill(65_534, start);
    assert!(fan == "0.75\n" && said.contains("it is there"), "{fan}{said}");
}

/// The results of root's own plans are printed before any other user's plan begins.
#[test]
fn root_prints_its_own_part_first() {
    if !can_be_others() {
        return;
    }
    let then = "mkdir -p /run/hertzd-root/9; chmod 700 /run/hertzd-root /run/hertzd-root/9; echo 0.5 >root
        sed \"s,/fan\\\",/root\\\",\" $plan >/run/hertzd-root/9/safe-plan.json; chmod 600 /run/hertzd-root/9/safe-plan.json
        status=0; ./hertzd safe >said || status=$?; cat said; echo exit $status";
    let (_folder, said, fan) = after_the_kill(65_534, then);
    let at = |text: &str| {
        said.lines().position(|line| line.starts_with("user ") == (text == "user") && line.contains("fan: wrote 1 to "))
    };
    assert!(said.contains("exit 0") && fan == "1\n", "{said}");
    assert!(at("root").is_some() && at("root") < at("user"), "{said}");
}

/// A user controls everything there.
#[test]
fn root_trusts_nothing_in_the_folder_of_a_login() {
    if !can_be_others() {
        return;
    }
    // A file of root's, in a plan of the user's; a plan in a folder reached through a link; a pipe as a plan.
    let then = "echo 5 >victim; chmod 600 victim
        mkdir -p theirs/8; sed \"s,/fan\\\",/victim\\\",\" $plan >theirs/8/safe-plan.json; grep -q victim theirs/8/safe-plan.json
        cp theirs/8/safe-plan.json $plan; mkdir /run/user/65534/hertzd/7; mkfifo /run/user/65534/hertzd/7/safe-plan.json
        mkdir -p -m 755 /run/user/65533; ln -s $PWD/theirs /run/user/65533/hertzd; chown -h 65533 /run/user/65533 /run/user/65533/hertzd
        chown -R 65534:65534 /run/user/65534/hertzd
        status=0; ./hertzd safe || status=$?; echo exit $status";
    let (folder, said, fan) = after_the_kill(65_534, then);
    assert!(said.contains("exit 1") && said.contains("victim") && said.contains("it is no regular file"), "{said}");
    assert!(!said.contains("theirs") && !said.contains("/65533/"), "{said}");
    assert_eq!((fs::read_to_string(folder.path().join("victim")).unwrap().as_str(), fan.as_str()), ("5\n", "0.75\n"));
}
