//! Endless input from others is limited: connections to the status socket, and answers from it.

use crate::program::{HERE, HERTZD, Running, copy_program, emulation, is_root, pause, run_in, skip, status};
use hertzd::time::Span;
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Connects again and again until the test ends it, and holds the newest 2,000 connections without reading.
fn flood(socket: &Path, ends: &AtomicBool) -> usize {
    let (mut held, mut all) = (VecDeque::new(), 0);
    while !ends.load(Ordering::Relaxed) {
        match UnixStream::connect(socket) {
            Ok(stream) => {
                all += 1;
                // Leave processor time for others.
                if all % 100 == 0 {
                    pause(Span::from_millis(5));
                }
                held.push_back(stream);
                if held.len() > 2_000 {
                    held.pop_front();
                }
            }
            // This process has no descriptors left, or the daemon is not listening yet.
            Err(_) => drop(held.pop_front()),
        }
    }
    all
}

/// The copy of this program with which another user floods. It floods until it is killed, and reports once the daemon has no place for it.
#[test]
#[ignore = "floods the socket that FLOODED names: for the tests here that are several users"]
fn flood_as_another_user() {
    let _turn = crate::turn(module_path!());
    let Some(socket) = std::env::var_os("FLOODED") else { return };
    let (socket, ends) = (Path::new(&socket), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| flood(socket, &ends));
        // A refused connection is closed without a reply.
        let is_refused =
            || UnixStream::connect(socket).is_ok_and(|mut one| one.read(&mut [0]).is_ok_and(|read| read == 0));
        while !is_refused() {}
        println!("flooded");
    });
}

/// hertzd with places for 20 connections, 10 of them for one user.
fn with_few_descriptors() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 60 && ulimit -Hn 160 && exec \"$@\"", "sh", HERTZD]);
    command
}

/// A program with the rights of this user.
fn by_user(user: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]).arg(program);
    command
}

/// A process of another user that floods a socket. Killed on drop.
struct Flood(Child);

impl Flood {
    /// Starts a flood, and waits until it gets no more places.
    fn begin(folder: &Path, socket: &Path, user: u32) -> Self {
        let program = folder.join("floods");
        if !program.exists() {
            assert!(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap().success());
        }
        let mut command = by_user(user, &program);
        command.args(["floods::flood_as_another_user", "--exact", "--ignored", "--nocapture"]).env("FLOODED", socket);
        let mut flood = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(flood.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.contains("flooded")), "it has ended");
        flood
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_flood_by_one_user_keeps_no_other_user_from_the_status() {
    let _turn = crate::turn(module_path!());
    if !is_root() || emulation::cannot_be_emulated(emulation::OTHER_OWNERS) {
        return skip("only root can be several users");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (socket, program) = (folder.path().join("s"), folder.path().join("hertzd"));
    copy_program(&program);
    let config = "[worker.main]\npolicy = \"other\"\n[task.a]\nkind = \"load\"\nrate = 10\n";
    let mut running = run_in(folder, with_few_descriptors(), config, &["--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    running.wait_for("it listens", |_| UnixStream::connect(&socket).is_ok());
    // As if these users were members of the group that may query the status.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let is_answered = |user| {
        let mut command = by_user(user, &program);
        command.args(["status", "--json", "--socket"]).arg(&socket).output().unwrap().status.success()
    };
    for [floods, asks] in [[65_534, 0], [65_533, 65_534], [0, 65_534]] {
        let mut flood = Flood::begin(running.folder(), &socket, floods);
        running.wait_for("an answer during the flood", |_| is_answered(asks));
        assert!(flood.0.try_wait().unwrap().is_none(), "user {floods} floods it all the while");
        drop(flood);
        running.wait_for("an answer after the flood", |_| is_answered(floods));
    }
}

/// More tasks than this in place of the others open so many files.
fn sensors(prefix: &str) -> String {
    let sensor = |n| {
        format!(
            "[task.{prefix}{n}]\nkind = \"sensor\"\nrate = 10\npath = \"{HERE}/value\"\nmax-file-age = \"off\"\nname = \"v\"\n"
        )
    };
    "[worker.main]\npolicy = \"other\"\n".to_owned() + &(0..20).map(sensor).collect::<String>()
}

/// Ends a flood on drop, so that even a failing test ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_connections_keeps_no_reload_from_its_devices() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("value"), "1\n").unwrap();
    let socket = folder.path().join("s");
    // The soft limit is too low for one set of these tasks plus the next.
    let mut running =
        run_in(folder, with_few_descriptors(), &sensors("a"), &["--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    let limits = fs::read_to_string(format!("/proc/{}/limits", running.pid())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().take(2).collect::<Vec<_>>(), ["160", "160"], "the soft limit is raised");
    let ends = AtomicBool::new(false);
    let floods = std::thread::scope(|scope| {
        let _over = Over(&ends);
        let floods: Vec<_> = (0..2).map(|_| scope.spawn(|| flood(&socket, &ends))).collect();
        for round in 1..=4 {
            let config = sensors(["a", "b"][round % 2]).replace(HERE, running.folder().to_str().unwrap());
            fs::write(running.folder().join("test.toml"), config).unwrap();
            running.signal("HUP");
            let reloaded = |running: &Running| running.stderr().matches("reloaded:").count() == round;
            running.wait_for("it has reloaded", |running| {
                assert!(!running.stderr().contains("reload refused"), "{}", running.stderr());
                reloaded(running)
            });
        }
        ends.store(true, Ordering::Relaxed);
        floods.into_iter().map(|flood| flood.join().unwrap()).sum::<usize>()
    });
    // During the flood, it holds this user's places, which are half of all.
    running.wait_for("an answer", |_| status(&socket, &["--json"]).status.success());
    println!("{floods} connections");
    assert!(floods > 2_000);
    assert!(!running.stderr().contains("Too many open files"), "{}", running.stderr());
}

#[test]
fn an_answer_without_an_end_is_given_up_at_its_limit() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let piece = "0,".repeat(1 << 15);
                let mut stream = stream;
                let _ = stream.write_all(b"{\"tasks\":[");
                while stream.write_all(piece.as_bytes()).is_ok() {}
            });
        }
    });
    fs::write(folder.path().join("c.toml"), "[task.a]\nkind = \"load\"\nrate = 1\n").unwrap();
    let commands: [&[&str]; 5] = [
        &["status"],
        &["status", "--json"],
        &["reload"],
        &["report", "-o", "-"],
        &["check", "c.toml", "--against-running"],
    ];
    for arguments in commands {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 1000000; exec \"$@\"", "sh", HERTZD]).args(arguments);
        let output = command.arg("--socket").arg(&socket).current_dir(folder.path()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        // On a busy machine the time runs out before the answer is too long.
        let is_said =
            error.contains("is longer than 64 MiB, which no hertzd sends") || error.contains("no whole answer from");
        assert!(is_said && matches!(output.status.code(), Some(69 | 70)), "{arguments:?}: {output:?}");
    }
}
