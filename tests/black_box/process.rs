//! Tasks that are programs: the data each tick gives them, when their answers take effect, and what happens to late and wrong answers. A
//! program ends when its task or hertzd does.

use crate::program;
use crate::program::{HERE, HERTZD, Running, count, pause, signal, skip, task};
use hertzd::time::Span;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The folder of the Python module.
fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds/process/python")
}

/// The first lines of every client here; its notes go to a file beside it.
const HEAD: &str = "import hertzd, os, sys, time, signal, socket, struct, math\nhere = sys.argv[1]\n\
                    def note(name, *what):\n    with open(os.path.join(here, name), 'a') as file: print(*what, file=file)\n";

/// Answers every tick with its index, and notes all that the tick reported.
const ECHO: &str = "for tick in hertzd.ticks():\n    answered = time.monotonic_ns()\n    hertzd.out(echo=tick.n)\n    \
                    note('seen', tick.n, tick.lateness, tick.skipped, tick.monotonic_ns, answered, tick.release_ns)\n";

/// Adds a section for each worker that the configuration names but does not define.
fn with_workers(config: &str) -> String {
    let names: BTreeSet<&str> =
        config.lines().filter_map(|line| line.strip_prefix("worker = \"")?.strip_suffix('"')).collect();
    let sections = names.iter().map(|name| format!("[worker.{name}]\n")).filter(|section| !config.contains(section));
    sections.collect::<String>() + config
}

fn run(config: &str, args: &[&str]) -> Running {
    program::run(&with_workers(config), args)
}

fn run_in(folder: TempDir, config: &str, args: &[&str]) -> Running {
    program::run_in(folder, Command::new(HERTZD), &with_workers(config), args)
}

/// A task named `name` on a separate worker. It runs a client in Python, and is recorded.
fn process(name: &str, client: &str, keys: &str) -> String {
    let (module, client) =
        (module(), format!("{HEAD}{client}").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    format!(
        "[task.{name}]\nkind = \"process\"\nworker = \"{name}\"\nrate = \"50 Hz\"\noverrun = \"credit\"\nmax-debt = \"1h\"\n\
         record = \"{HERE}/{name}.csv\"\nenv = [\"PYTHONPATH={}\"]\n\
         command = [\"python3\", \"-c\", \"{client}\", \"{HERE}\"]\n{keys}\n",
        module.display()
    )
}

/// Like [`process`], with one value called `echo`.
fn echo(name: &str, client: &str, keys: &str) -> String {
    let more = format!("{keys}\n[[task.{name}.value]]\nname = \"echo\"");
    process(name, client, &more)
}

/// A task beside them on a separate worker: it must lose no release.
const STEADY: &str =
    "[task.steady]\nkind = \"load\"\nworker = \"steady\"\nrate = \"1 kHz\"\noverrun = \"credit\"\nmax-debt = \"1h\"\n";

/// One row of a recording: the tick, and its values by name.
type Recorded = Vec<(u64, BTreeMap<String, f64>)>;

fn recorded(path: &Path) -> Recorded {
    let text = fs::read_to_string(path).unwrap_or_default();
    // While the file is being written, its last line may be incomplete.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut lines = whole.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').map(|name| name.trim_matches('"')).collect();
    let row = |line: &str| {
        let cells: BTreeMap<String, f64> = names
            .iter()
            .zip(line.split(','))
            .map(|(name, cell)| ((*name).split(" (").next().unwrap().to_owned(), cell.parse().unwrap_or(f64::NAN)))
            .collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        (cells["tick"] as u64, cells)
    };
    lines.map(row).collect()
}

/// Waits until the recording of task `name` has such a row: on a busy machine a program may be late for long.
fn wait_for_row(running: &mut Running, name: &str, what: &str, wanted: impl Fn(&BTreeMap<String, f64>) -> bool) {
    let path = running.folder().join(name).with_extension("csv");
    running.wait_for(what, |_| recorded(&path).iter().any(|(_, row)| wanted(row)));
}

/// The client's notes: lines of numbers.
fn noted(folder: &Path, name: &str) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect()
}

/// The counts add up at every tick: each earlier tick was answered, was answered late, or is missing.
fn assert_adds_up(rows: &Recorded) {
    for (at, (n, row)) in rows.iter().enumerate() {
        let sum = row["answers"] + row["late"] + row["missing"];
        assert_eq!(sum, f64::from(u32::try_from(at).unwrap()), "tick {n}: {row:?}");
    }
}

/// The answer to a tick takes effect at the next row and no other. Without an answer the last value is held, and is bad after a second.
fn assert_enters_at_the_next(rows: &Recorded, hertz: f64) -> usize {
    let (mut answered, mut latest) = (0, f64::INFINITY);
    for pair in rows.windows(2) {
        let [(before, last), (n, row)] = pair else { unreachable!() };
        let (echo, held) = (row["echo"], last["echo"]);
        #[expect(clippy::cast_precision_loss, reason = "an index")]
        let started = *n as f64 / hertz + row["lateness_ns"] / 1e9; // in seconds
        // A program that has ended since its answer has no value any more.
        if row["answers"] > last["answers"] && row["running"] > 0.0 {
            #[expect(clippy::cast_precision_loss, reason = "an index")]
            let wanted = *before as f64;
            assert_eq!(echo, wanted, "tick {n} after {before}");
            answered += 1;
            latest = started;
        } else {
            // The second counts from a reading of the clock within a tick, which may be interrupted before.
            let waits = started - latest;
            let is_over = row["running"] == 0.0 || waits > 0.9;
            assert!(
                echo == held || (echo.is_nan() && (held.is_nan() || is_over)),
                "tick {n}: {echo} after {held}, {waits} s after the last answer"
            );
            assert!(echo.is_nan() || waits < 1.5, "tick {n}: {echo} is still held after {waits} s");
        }
    }
    answered
}

/// Reloads `config`. Returns whether it was accepted, and the message.
fn reload(running: &Running, socket: &Path, config: &str) -> (bool, String) {
    let path = running.folder().join("test.toml");
    fs::write(&path, with_workers(config).replace(HERE, running.folder().to_str().unwrap())).unwrap();
    let output = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
    )
}

/// Starts hertzd with a status socket.
fn run_with_socket(config: &str) -> (Running, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let running = run_in(folder, config, &["--json", "--status-socket", socket.to_str().unwrap()]);
    (running, socket)
}

fn is_alive(pid: u32) -> bool {
    // A zombie has ended too.
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

/// Waits until a process has ended.
fn ends(pid: u32) -> bool {
    (0..12_000).any(|_| {
        pause(Span::from_millis(5));
        !is_alive(pid)
    })
}

fn pid_in(folder: &Path, name: &str) -> Option<u32> {
    fs::read_to_string(folder.join(name)).ok()?.lines().last()?.trim().parse().ok()
}

fn wait_for_pid(running: &mut Running, name: &str) -> u32 {
    running.wait_for(name, |running| pid_in(running.folder(), name).is_some());
    pid_in(running.folder(), name).unwrap()
}

/// Each release of the task beside the program is accounted for, and no other task of its worker delayed it.
fn assert_steady(summary: &Value) {
    assert_not_held_up(task(summary, "steady"));
}

fn assert_not_held_up(of: &Value) {
    // On a busy machine, releases are given up anyway.
    assert_eq!(count(of, "ran") + count(of, "skipped"), count(of, "due"), "{of}");
    assert!(count(of, "ran") > 0 && of["causes"].get("blocked").is_none(), "{of}");
}

fn every_tick_arrives(worker: &str) {
    let config = format!("{worker}{}{STEADY}", echo("brain", ECHO, ""));
    let mut running = run(&config, &["--json"]);
    wait_for_row(&mut running, "brain", "answers", |row| row["answers"] > 20.0);
    running.signal("TERM");
    let ended = running.wait();
    let summary = ended.summary();
    assert_steady(&summary);
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert_adds_up(&rows);
    assert!(assert_enters_at_the_next(&rows, 50.0) > 0, "{}", ended.describe());
    let seen = noted(ended.folder.path(), "seen");
    // The program received every recorded tick, in order, except those after its end, as the recording has them.
    let last = &rows.last().unwrap().1;
    assert_eq!((last["dropped"], last["errors"], last["restarts"]), (0.0, 0.0, 0.0), "{last:?}");
    for (note, (n, row)) in seen.iter().zip(&rows) {
        #[expect(clippy::cast_precision_loss, reason = "an index")]
        let n = *n as f64;
        assert_eq!(note[0], n);
        assert_eq!((note[1] * 1e9).round(), row["lateness_ns"], "tick {n}");
    }
    assert!(seen.len() <= rows.len(), "{} of {}", seen.len(), rows.len());
    // Every value used was answered before the tick that uses it began.
    for (note, pair) in seen.iter().zip(rows.windows(2)) {
        if pair[1].1["answers"] > pair[0].1["answers"]
            && let Some(next) = seen.iter().find(|next| next[0] > note[0])
        {
            assert!(note[4] < next[3], "{note:?} {next:?}");
        }
    }
}

#[test]
fn every_tick_arrives_in_order_and_its_answer_enters_at_the_next() {
    every_tick_arrives("");
}

#[test]
fn the_clock_of_the_worker_makes_no_difference() {
    every_tick_arrives("[worker.brain]\nclock = \"realtime\"\n");
}

#[test]
fn a_client_that_sleeps_misses_its_own_ticks_and_no_other() {
    let client = ECHO.replace(
        "    hertzd.out",
        "    if tick.n == 100: time.sleep(1); answered = time.monotonic_ns()\n    hertzd.out",
    );
    let config = format!("{}{STEADY}", echo("brain", &client, "")).replace("50 Hz", "200 Hz");
    let mut running = run(&config, &["--json"]);
    running.wait_for("it has slept", |running| noted(running.folder(), "seen").iter().any(|note| note[0] > 400.0));
    running.signal("TERM");
    let ended = running.wait();
    let summary = ended.summary();
    assert_steady(&summary);
    let brain = task(&summary, "brain");
    assert_not_held_up(brain);
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert_adds_up(&rows);
    assert_enters_at_the_next(&rows, 200.0);
    // Answers sent after the next tick had begun cannot have been in time, and were counted as late.
    let seen = noted(ended.folder.path(), "seen");
    let too_late: Vec<f64> = seen.windows(2).filter(|pair| pair[0][4] > pair[1][3]).map(|pair| pair[0][0]).collect();
    assert!(too_late.len() > 50, "a second has 200 ticks: {too_late:?}");
    for pair in rows.windows(2) {
        let [(n, last), (_, row)] = pair else { unreachable!() };
        #[expect(clippy::cast_precision_loss, reason = "an index")]
        let n = *n as f64;
        assert!(row["answers"] == last["answers"] || !too_late.contains(&n), "tick {n} was answered late, and used");
    }
    let last = &rows.last().unwrap().1;
    assert!(last["late"] + last["missing"] >= f64::from(u32::try_from(too_late.len()).unwrap()), "{last:?}");
    assert_eq!((last["errors"], last["restarts"]), (0.0, 0.0), "{last:?}");
}

#[test]
fn every_answer_of_a_client_that_sleeps_is_counted_once() {
    // From tick 300 on the client is silent: once that tick has begun, every answer it will ever send has been sent.
    let client = "for tick in hertzd.ticks():\n    if tick.n == 100: time.sleep(1)\n    \
                  if tick.n < 300: hertzd.out(echo=tick.n); note('answered', tick.n)\n    else: note('silent', tick.n)\n";
    let config = format!("{}{STEADY}", echo("brain", client, "")).replace("50 Hz", "200 Hz");
    let mut running = run(&config, &["--json"]);
    running.wait_for("it is silent", |running| !noted(running.folder(), "silent").is_empty());
    let answered = noted(running.folder(), "answered").len();
    let sent = f64::from(u32::try_from(answered).unwrap());
    wait_for_row(&mut running, "brain", "all are counted", |row| row["answers"] + row["late"] == sent);
    let silent = noted(running.folder(), "silent").len();
    running.wait_for("more ticks", |running| noted(running.folder(), "silent").len() > silent + 20);
    running.signal("TERM");
    let ended = running.wait();
    assert_steady(&ended.summary());
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert_adds_up(&rows);
    assert_enters_at_the_next(&rows, 200.0);
    let last = &rows.last().unwrap().1;
    let before = f64::from(u32::try_from(rows.len() - 1).unwrap());
    assert_eq!((last["answers"] + last["late"], last["missing"]), (sent, before - sent), "{last:?}");
    assert!(last["late"] > 0.0, "what waited for a second was late: {last:?}");
    assert_eq!((last["errors"], last["restarts"]), (0.0, 0.0), "{last:?}");
}

#[test]
fn an_answer_enters_at_the_next_tick_that_runs_also_beyond_skipped_ones() {
    // Another task on the worker delays it by two releases each time.
    let fellow =
        "[task.fellow]\nkind = \"load\"\nworker = \"brain\"\nrate = \"10 Hz\"\nrun = \"22ms\"\noverrun = \"drop\"\n";
    let config = echo("brain", ECHO, "").replace("50 Hz", "100 Hz");
    let config = config.replace("overrun = \"credit\"\nmax-debt = \"1h\"", "overrun = \"drop\"") + fellow;
    let mut running = run(&config, &["--json"]);
    let across = |rows: &Recorded| {
        let is_across = |pair: &&[(u64, BTreeMap<String, f64>)]| {
            pair[1].0 > pair[0].0 + 1 && pair[1].1["answers"] > pair[0].1["answers"]
        };
        rows.windows(2).filter(is_across).count()
    };
    let path = running.folder().join("brain.csv");
    running.wait_for("answers across skipped ticks", |_| across(&recorded(&path)) > 5);
    running.signal("TERM");
    let ended = running.wait();
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert_adds_up(&rows);
    assert!(assert_enters_at_the_next(&rows, 100.0) > 5 && across(&rows) > 5);
    // The program received the number of skipped releases.
    let seen: BTreeMap<u64, f64> = noted(ended.folder.path(), "seen")
        .iter()
        .map(|note| (format!("{}", note[0]).parse().unwrap(), note[2]))
        .collect();
    for pair in rows.windows(2) {
        if let Some(skipped) = seen.get(&pair[1].0) {
            assert_eq!(*skipped, f64::from(u32::try_from(pair[1].0 - pair[0].0 - 1).unwrap()), "tick {}", pair[1].0);
        }
    }
}

#[test]
fn what_a_late_program_held_goes_stale_and_the_output_safe_and_it_is_said() {
    let client = "for tick in hertzd.ticks(latest=True):\n    \
                  while os.path.exists(here + '/hold'): time.sleep(0.01)\n    hertzd.out(echo=5)\n";
    let fan = format!(
        "[worker.out]\n[task.fan]\nkind = \"output\"\nworker = \"out\"\nrate = \"100 Hz\"\ninput = \"brain.echo\"\nmax-age = \"300ms\"\n\
         path = \"{HERE}/fan\"\nsafe = -7\nrecover-after = \"0s\"\nsafe-after = \"1h\"\n"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fan"), "0\n").unwrap();
    let socket = folder.path().join("status.sock");
    let config = fan + &echo("brain", client, "max-missed = \"50%\"");
    let mut running = run_in(folder, &config, &["--json", "--status-socket", socket.to_str().unwrap()]);
    let put_out = |running: &Running| fs::read_to_string(running.folder().join("fan")).unwrap().trim().to_owned();
    running.wait_for("its value is put out", |running| put_out(running) == "5");
    fs::write(running.folder().join("hold"), "").unwrap();
    running.wait_for("the safe value", |running| put_out(running) == "-7");
    // It would be shown as good for ever, as the task still repeats it.
    running.wait_for("the value is stale", |_| {
        let snapshot = program::snapshot(&socket);
        let value = &task(&snapshot, "brain")["values"]["echo"];
        value["reason"] == "stale" && value["last"].is_null() && value["last_good"] == 5.0
    });
    running.wait_for("it is said", |running| running.stderr().contains("brain: its program left "));
    let status = || {
        let output = Command::new(HERTZD).args(["status", "--socket"]).arg(&socket).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let clause = "the program of task brain left ";
    running.wait_for("the status is not well", |_| status().contains(clause));
    fs::remove_file(running.folder().join("hold")).unwrap();
    running.wait_for("its value again", |running| put_out(running) == "5");
    running.wait_for("it is over", |running| running.stderr().contains("brain: its program answers in time again: "));
    running.wait_for("the status does not name it", |_| !status().contains(clause));
    running.signal("TERM");
    let ended = running.wait();
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert_adds_up(&rows);
    let last = &rows.last().unwrap().1;
    assert_eq!((last["restarts"], last["running"]), (0.0, 1.0), "it ran throughout: {last:?}");
    assert_eq!(count(task(&ended.summary(), "brain"), "errors"), 0);
}

#[test]
fn a_program_that_gets_back_what_was_put_out_goes_on_beyond_its_max_age() {
    let client = "for tick in hertzd.ticks():\n    hertzd.out(echo=tick.inputs['x'])\n";
    let chain = format!(
        "[task.file]\nkind = \"sensor\"\nworker = \"brain\"\nrate = \"50 Hz\"\npath = \"{HERE}/number\"\nmax-file-age = \"off\"\n\
         [task.fan]\nkind = \"output\"\nworker = \"brain\"\nrate = \"50 Hz\"\ninput = \"brain.echo\"\nmax-age = \"500ms\"\n\
         path = \"{HERE}/fan\"\nsafe = -7\nsafe-after = \"1h\"\n"
    );
    let inputs = "inputs = { x = \"file.value\", back = { previous = \"fan.applied\", initial = 0 } }";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("number"), "4\n").unwrap();
    fs::write(folder.path().join("fan"), "0\n").unwrap();
    let mut running = run_in(folder, &(chain + &echo("brain", client, inputs)), &[]);
    // Three times as long as the maximum age of the output's input.
    wait_for_row(&mut running, "brain", "many answers", |row| row["answers"] >= 75.0);
    running.wait_for("its value is put out", |running| {
        fs::read_to_string(running.folder().join("fan")).unwrap().trim() == "4"
    });
    running.signal("TERM");
    running.wait();
}

#[test]
fn inputs_come_with_their_age_and_worth() {
    let client = "for tick in hertzd.ticks():\n    speed, gain = tick.inputs['speed'], tick.inputs['gain']\n    \
                  note('inputs', int(speed.bad), speed.age_ns if speed.age_ns is not None else -1, speed, gain, int(gain.age is None))\n    hertzd.out(echo=0.0 if speed.bad else speed * gain)\n";
    let source = format!(
        "[task.file]\nkind = \"sensor\"\nworker = \"brain\"\nrate = \"200 Hz\"\npath = \"{HERE}/number\"\nmax-file-age = \"off\"\n"
    );
    let config = format!("{source}{}", echo("brain", client, "inputs = { speed = \"file.value\", gain = 2.5 }"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("number");
    fs::write(&path, "4\n").unwrap();
    let mut running = run_in(folder, &config, &["--json"]);
    wait_for_row(&mut running, "brain", "good inputs", |row| row["echo"] == 10.0);
    // Text that is not a number is a bad value.
    fs::write(running.folder().join("number"), "no number\n").unwrap();
    wait_for_row(&mut running, "brain", "bad inputs", |row| row["echo"] == 0.0);
    running.signal("TERM");
    let ended = running.wait();
    let notes = noted(ended.folder.path(), "inputs");
    for note in &notes {
        assert!(note[3] == 2.5 && note[4] == 1.0, "a number has no age: {note:?}");
        assert!(if note[0] == 0.0 { note[2] == 4.0 && note[1] >= 0.0 } else { note[2].is_nan() }, "{note:?}");
    }
}

#[test]
fn a_killed_program_is_started_again_and_its_values_are_bad_meanwhile() {
    let client = format!("note('pid', os.getpid())\n{ECHO}");
    let mut running = run(&echo("brain", &client, ""), &["--json"]);
    wait_for_row(&mut running, "brain", "answers", |row| row["echo"].is_finite());
    let first = pid_in(running.folder(), "pid").unwrap();
    signal(first, "KILL");
    running.wait_for("another process", |running| pid_in(running.folder(), "pid") != Some(first));
    wait_for_row(&mut running, "brain", "answers again", |row| row["restarts"] == 1.0 && row["echo"].is_finite());
    running.signal("TERM");
    let ended = running.wait();
    assert!(ended.stderr.contains("its program ended (signal: 9 (SIGKILL))"), "{}", ended.describe());
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert_adds_up(&rows);
    assert_enters_at_the_next(&rows, 50.0);
    let down: Vec<_> = rows.iter().filter(|(_, row)| row["running"] == 0.0).collect();
    assert!(!down.is_empty() && down.iter().all(|(_, row)| row["echo"].is_nan()));
    let last = &rows.last().unwrap().1;
    assert_eq!((last["restarts"], last["running"]), (1.0, 1.0));
    assert!(last["echo"].is_finite());
}

/// A program that never ends by itself, even if its socket is closed; and a child process of it.
const STUBBORN: &str = "import subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
                        other = subprocess.Popen(['sleep', '1000'])\nnote('grandchild', other.pid)\nnote('child', os.getpid())\n\
                        while True: time.sleep(1000)\n";

/// Starts hertzd with `command` and kills it while a stubborn program runs. Returns whether that program outlives it.
fn outlives(command: Command, folder: TempDir, looks: u32) -> bool {
    let config = with_workers(&echo("brain", STUBBORN, ""));
    let mut running = program::run_in(folder, command, &config, &["--json"]);
    let child = wait_for_pid(&mut running, "child");
    let grandchild = pid_in(running.folder(), "grandchild").unwrap();
    assert!(is_alive(child) && is_alive(grandchild));
    running.signal("KILL");
    while !running.has_ended() {
        pause(Span::from_millis(5));
    }
    // The kernel has sent its signal by now; the signal may take a while to arrive.
    for _ in 0..looks {
        if !is_alive(child) {
            break;
        }
        pause(Span::from_millis(5));
    }
    let outlives = is_alive(child);
    for pid in [child, grandchild] {
        // In the service, systemd ends a program's child processes.
        if is_alive(pid) {
            signal(pid, "KILL");
        }
    }
    outlives
}

#[test]
fn a_program_ends_when_hertzd_is_killed() {
    assert!(!outlives(Command::new(HERTZD), tempfile::tempdir().unwrap(), 10_000), "the program outlived hertzd");
}

/// What the test above would see if hertzd did not set the program's parent-death signal.
#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_program_would_outlive_hertzd_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(HERTZD);
    command.env("LD_PRELOAD", program::preload(folder.path(), "no_death_signal"));
    assert!(outlives(command, folder, 200));
}

#[test]
fn a_stop_leaves_nothing_of_a_program() {
    let mut running = run(&echo("brain", STUBBORN, ""), &["--json"]);
    let child = wait_for_pid(&mut running, "child");
    let grandchild = pid_in(running.folder(), "grandchild").unwrap();
    assert!(is_alive(child) && is_alive(grandchild));
    running.signal("TERM");
    let ended = running.wait();
    // On a busy machine the kernel may take a while to end a killed process.
    assert!(ends(child) && ends(grandchild), "{}", ended.describe());
    assert!(ended.stderr.contains("brain: its program was ended (signal: 9 (SIGKILL))"), "{}", ended.describe());
}

#[test]
fn a_program_that_listens_ends_by_itself() {
    let client = format!("note('up', 1)\n{ECHO}note('bye', 1)\n");
    // On a busy machine the program may get no processor time before the next, harder request.
    let ended_by_itself = || {
        let mut running = run(&echo("brain", &client, ""), &["--json"]);
        running.wait_for("it runs", |running| !noted(running.folder(), "seen").is_empty());
        running.signal("TERM");
        let ended = running.wait();
        let said = ended.stderr.contains("brain: its program was ended (exit status: 0)");
        assert!(!said || noted(ended.folder.path(), "bye").len() == 1, "{}", ended.describe());
        said
    };
    assert!((0..50).any(|_| ended_by_itself()));
}

#[test]
fn a_reload_exchanges_a_changed_program_and_no_other() {
    let client =
        |word: &str| format!("note('pid-{word}', os.getpid())\n{ECHO}").replace("'seen'", &format!("'seen-{word}'"));
    let config = |word: &str| format!("{}{}", echo("kept", &client("kept"), ""), echo("edited", &client(word), ""));
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("status.sock");
    let mut running = run_in(folder, &config("old"), &["--json", "--status-socket", socket.to_str().unwrap()]);
    let old = wait_for_pid(&mut running, "pid-old");
    let kept = wait_for_pid(&mut running, "pid-kept");
    running.wait_for("answers", |running| !noted(running.folder(), "seen-old").is_empty());
    let path = running.folder().join("test.toml");
    fs::write(&path, with_workers(&config("new")).replace(HERE, running.folder().to_str().unwrap())).unwrap();
    let output = Command::new(HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let new = wait_for_pid(&mut running, "pid-new");
    assert!(!is_alive(old), "the old one had ended before the new one began");
    let before = noted(running.folder(), "seen-kept").len();
    running.wait_for("the other one ticks on", |running| noted(running.folder(), "seen-kept").len() > before + 5);
    assert!(is_alive(kept) && is_alive(new));
    assert_eq!(fs::read_to_string(running.folder().join("pid-kept")).unwrap().lines().count(), 1);
    running.signal("TERM");
    let ended = running.wait();
    let rows = recorded(&ended.folder.path().join("kept.csv"));
    assert_adds_up(&rows);
    assert_enters_at_the_next(&rows, 50.0);
    assert!(!is_alive(kept) && !is_alive(new));
}

#[test]
fn a_reload_waits_for_the_old_program_without_an_error() {
    // The program ignores everything, so the replacing task ticks for long before its own program begins.
    let config = |keys: &str| echo("brain", &format!("note('up', os.getpid())\n{STUBBORN}"), keys);
    for on_error in ["exit", "disable"] {
        let keys = format!("on-error = \"{on_error}\"");
        let (mut running, socket) = run_with_socket(&config(&keys));
        let old = wait_for_pid(&mut running, "child");
        let (accepted, said) = reload(&running, &socket, &config(&format!("{keys}\ncpu-limit = 3")));
        assert!(accepted, "{said}");
        running.wait_for("the new program", |running| pid_in(running.folder(), "child") != Some(old));
        assert!(!is_alive(old));
        running.signal("TERM");
        let ended = running.wait();
        assert!(!ended.stderr.contains("the program is not running"), "{}", ended.describe());
        let brain = task(&ended.summary(), "brain").clone();
        assert_eq!((count(&brain, "errors"), &brain["disabled"]), (0, &Value::Bool(false)), "{brain}");
    }
}

#[test]
fn a_reload_with_a_program_that_is_not_there_is_refused_and_the_old_one_runs_on() {
    let good = echo("brain", &format!("note('pid', os.getpid())\n{ECHO}"), "on-error = \"exit\"");
    let (mut running, socket) = run_with_socket(&good);
    running.wait_for("answers", |running| !noted(running.folder(), "seen").is_empty());
    let pid = pid_in(running.folder(), "pid").unwrap();
    let (accepted, said) = reload(&running, &socket, &good.replace("[\"python3\"", "[\"no-such-program\""));
    assert!(!accepted && said.contains("there is no program \"no-such-program\" in PATH"), "{said}");
    let before = noted(running.folder(), "seen").len();
    running.wait_for("it ticks on", |running| noted(running.folder(), "seen").len() > before + 20);
    assert!(is_alive(pid));
    assert_eq!(noted(running.folder(), "pid").len(), 1, "{}", running.stderr());
    // A reload after a refused one works like any other.
    let (accepted, said) = reload(&running, &socket, &good.replace("on-error", "cpu-limit = 3\non-error"));
    assert!(accepted, "{said}");
    running.wait_for("the next program", |running| noted(running.folder(), "pid").len() == 2);
    let next = pid_in(running.folder(), "pid").unwrap();
    assert!(!is_alive(pid) && is_alive(next));
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(noted(ended.folder.path(), "pid").len(), 2, "{}", ended.describe());
    assert!(!is_alive(next));
}

/// Each program ends only once all of them have the request. It would never end if the next one got it only after its end.
#[test]
fn a_reload_tells_all_programs_before_it_waits_for_one() {
    let names = ["one", "two", "three"];
    let config = |word: &str| -> String {
        let client = |name: &str| {
            format!(
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nnote('up-{name}-{word}', 1)\nfor tick in hertzd.ticks(): hertzd.out(echo=1)\n\
                 note('told-{name}-{word}', 1)\n\
                 while not all(os.path.exists(here + '/told-' + name + '-{word}') for name in ['one', 'two', 'three']): time.sleep(0.001)\n"
            )
        };
        let all = names
            .map(|name| echo(name, &client(name), "").replace(&format!("worker = \"{name}\""), "worker = \"all\""));
        all.concat()
    };
    // On a busy machine a program may get no processor time until it is killed.
    let all_ended_by_themselves = || {
        let (mut running, socket) = run_with_socket(&config("old"));
        let is_up = |running: &Running, word: &str| {
            names.iter().all(|name| running.folder().join(format!("up-{name}-{word}")).exists())
        };
        running.wait_for("all run", |running| is_up(running, "old"));
        let (accepted, said) = reload(&running, &socket, &config("new"));
        assert!(accepted, "{said}");
        running.wait_for("the next ones run", |running| is_up(running, "new"));
        let ended = running.stderr().matches("its program was ended (exit status: 0)").count();
        running.signal("TERM");
        running.wait();
        ended == names.len()
    };
    assert!((0..20).any(|_| all_ended_by_themselves()));
}

/// Misbehaving clients, and whether they must cause errors.
const HOSTILE: [(&str, &str, bool); 14] = [
    ("garbage", "for tick in hertzd.ticks(): raw.send(os.urandom(tick.n % 60 + 1))\n", true),
    ("long", "for tick in hertzd.ticks(): raw.send(b'\\x03\\0\\0\\0' * 5000)\n", true),
    ("empty", "for tick in hertzd.ticks(): raw.send(b'')\n", true),
    ("short", "for tick in hertzd.ticks(): raw.send(struct.pack('<IIQ', 3, 1, tick.n))\n", true),
    ("future", "for tick in hertzd.ticks(): raw.send(struct.pack('<IIQd', 3, 1, tick.n + 10**6, 1.0))\n", true),
    (
        "past",
        "for tick in hertzd.ticks():\n    hertzd.out(echo=tick.n)\n    raw.send(struct.pack('<IIQd', 3, 1, max(0, tick.n - 1), 1.0))\n",
        true,
    ),
    (
        "repeated",
        "for tick in hertzd.ticks():\n    for _ in range(3): raw.send(struct.pack('<IIQd', 3, 1, tick.n, 1.0))\n",
        true,
    ),
    ("huge index", "for tick in hertzd.ticks(): raw.send(struct.pack('<IIQd', 3, 1, 2**64 - 1, 1.0))\n", true),
    ("infinity", "for tick in hertzd.ticks(): hertzd.out(echo=[math.inf, -math.inf][tick.n % 2])\n", true),
    (
        "flood",
        "raw.setblocking(False)\nwhile True:\n    try: raw.send(b'x' * 24)\n    except BlockingIOError: pass\n",
        true,
    ),
    ("deaf", "note('deaf', 1)\nwhile True: time.sleep(1000)\n", false),
    (
        "half closed",
        "for tick in hertzd.ticks():\n    hertzd.out(echo=tick.n)\n    raw.shutdown(socket.SHUT_WR)\n    while True: time.sleep(1000)\n",
        false,
    ),
    ("closing", "raw.close()\nwhile True: time.sleep(1000)\n", false),
    (
        "stopping",
        "for tick in hertzd.ticks():\n    hertzd.out(echo=tick.n)\n    if os.path.exists(here + '/stop'): os.kill(os.getpid(), signal.SIGSTOP)\n",
        false,
    ),
];

#[test]
fn a_program_that_has_no_value_yet_says_so_with_nan_and_that_is_no_error() {
    // However long the program takes to start.
    let client =
        "for tick in hertzd.ticks(): hertzd.out(echo=7 if os.path.exists(sys.argv[1] + '/go') else math.nan)\n";
    let mut running = run(&echo("brain", client, ""), &["--json"]);
    wait_for_row(&mut running, "brain", "an answer", |row| row["answers"] > 0.0);
    fs::write(running.folder().join("go"), "").unwrap();
    wait_for_row(&mut running, "brain", "a value", |row| row["echo"] == 7.0);
    running.signal("TERM");
    let ended = running.wait();
    let rows = recorded(&ended.folder.path().join("brain.csv"));
    assert!(rows.iter().any(|(_, row)| row["answers"] > 0.0 && row["echo"].is_nan()), "{rows:?}");
    assert_eq!(rows.last().unwrap().1["errors"], 0.0);
    assert!(!ended.stderr.contains("its program sent"), "{}", ended.stderr);
}

#[test]
fn a_hostile_client_is_counted_and_nothing_else() {
    for (name, client, has_errors) in HOSTILE {
        let client = client.replace("raw.", "hertzd.client()._socket.");
        let config = format!("{}{STEADY}", echo("brain", &client, ""));
        let mut running = run(&config, &["--json"]);
        let usable = ["past", "stopping"].contains(&name);
        if usable {
            wait_for_row(&mut running, "brain", name, |row| row["answers"] > 0.0);
        }
        fs::write(running.folder().join("stop"), "").unwrap();
        let closes = ["closing", "half closed"].contains(&name);
        if closes {
            wait_for_row(&mut running, "brain", name, |row| row["restarts"] > 0.0 && row["dropped"] > 0.0);
            assert!(running.stderr().contains("brain: its program closed its socket (descriptor 3) but kept running"));
        } else if has_errors {
            wait_for_row(&mut running, "brain", name, |row| row["errors"] > 3.0);
        } else {
            let path = running.folder().join("brain.csv");
            let before = recorded(&path).last().map_or(0.0, |(_, row)| row["missing"]);
            wait_for_row(&mut running, "brain", name, |row| row["missing"] > before + 50.0);
        }
        running.signal("TERM");
        let ended = running.wait();
        let summary = ended.summary();
        println!("{name}: {}", task(&summary, "brain")["values"]);
        assert_steady(&summary);
        let brain = task(&summary, "brain");
        assert_not_held_up(brain);
        let rows = recorded(&ended.folder.path().join("brain.csv"));
        assert_adds_up(&rows);
        let last = &rows.last().unwrap().1;
        assert_eq!(last["errors"] > 0.0, has_errors, "{name}: {}", ended.describe());
        match name {
            "repeated" => assert!(rows.iter().all(|(_, row)| row["echo"].is_nan() || row["echo"] == 1.0)),
            "half closed" => {}
            _ if usable => assert!(assert_enters_at_the_next(&rows, 50.0) > 0, "{name}"),
            _ => assert!(rows.iter().all(|(_, row)| row["echo"].is_nan()), "{name}"),
        }
        assert_eq!(last["restarts"] > 0.0, closes, "{name}: {}", ended.describe());
    }
}

#[test]
fn huge_values_are_values() {
    let client = "for tick in hertzd.ticks(): hertzd.out(echo=[1.7e308, -1.7e308, 5e-324][tick.n % 3])\n";
    let mut running = run(&echo("brain", client, ""), &["--json"]);
    wait_for_row(&mut running, "brain", "the value", |row| row["echo"] == 1.7e308);
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(recorded(&ended.folder.path().join("brain.csv")).last().unwrap().1["errors"], 0.0);
}

#[test]
fn memory_is_limited() {
    let client = "try: held = bytearray(1 << 30)\nexcept MemoryError: note('refused', 1)\nelse: note('refused', 0)\nfor tick in hertzd.ticks(): hertzd.out(echo=1)\n";
    let mut running = run(&echo("brain", client, "memory-limit = \"400 MiB\""), &["--json"]);
    running.wait_for("it was tried", |running| !noted(running.folder(), "refused").is_empty());
    assert_eq!(noted(running.folder(), "refused"), [[1.0]]);
    running.signal("TERM");
    running.wait();
}

#[test]
fn processor_time_is_limited_and_the_program_goes_on() {
    // A busy loop; it notes the processor time it has used, and the time since it began.
    let client = "note('pid', os.getpid())\nbegun = time.monotonic()\nbefore = time.process_time()\nwhile True:\n    \
                  [None for _ in range(100000)]\n    note('used', time.monotonic() - begun, time.process_time() - before)\n";
    let mut running = run(&format!("{}{STEADY}", echo("brain", client, "cpu-limit = 0.2")), &["--json"]);
    let pid = wait_for_pid(&mut running, "pid");
    running.wait_for("the kernel has stopped it", |_| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    running.wait_for("it was stopped", |running| {
        running.stderr().contains("uses more than its cpu-limit of 0.2: it was stopped")
    });
    let before = noted(running.folder(), "used").len();
    running.wait_for("it goes on", |running| noted(running.folder(), "used").len() > before + 50);
    running.signal("TERM");
    let ended = running.wait();
    let used = noted(ended.folder.path(), "used").pop().unwrap();
    println!("used {} s in {} s", used[1], used[0]);
    assert_steady(&ended.summary());
}

/// The rest of the line that begins like this.
fn line(text: &str, begins: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(begins));
    line.unwrap_or_else(|| panic!("no {begins} in {text}")).trim().to_owned()
}

#[test]
fn a_program_is_like_one_that_a_shell_has_started_and_can_delay_no_worker() {
    let online = program::online_cpus();
    let last = *online.last().unwrap();
    let client = format!("note('pid', os.getpid())\n{ECHO}");
    let config = format!("[worker.brain]\ncpu = {last}\n{}", echo("brain", &client, "memory-limit = \"1 GiB\""));
    let folder = tempfile::tempdir().unwrap();
    let gives = |inherited: &[&str]| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(inherited);
        setpriv
    };
    // As in the service; a user who cannot have these capabilities runs without them.
    let inherited = ["--inh-caps", "+sys_nice,+ipc_lock", "--ambient-caps", "+sys_nice"];
    let may = gives(&inherited).arg("true").output().is_ok_and(|output| output.status.success());
    let mut command = gives(if may { &inherited } else { &[] });
    command.arg(HERTZD);
    let told = ["RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY", "INVOCATION_ID"];
    command.envs(told.map(|name| (name, folder.path())));
    let mut running = program::run_in(folder, command, &with_workers(&config), &["--json"]);
    running.wait_for("answers", |running| noted(running.folder(), "seen").len() > 5);
    let pid = pid_in(running.folder(), "pid").unwrap();
    let read = |pid: u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    if online.len() > 1 {
        running.wait_for("it is off the worker's CPU", |_| {
            let allowed = line(&read(pid, "status"), "Cpus_allowed_list:");
            let parts = allowed.split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
            let mut ranges = parts.map(|(low, high)| low.parse::<usize>().unwrap()..=high.parse().unwrap());
            !ranges.any(|range| range.contains(&last))
        });
    }
    let status = read(pid, "status");
    for mask in ["SigBlk:", "SigIgn:"] {
        // Python itself ignores SIGPIPE (13) and SIGXFSZ (25); glibc makes its child processes ignore its own two signals (32, 33).
        let mask = u64::from_str_radix(&line(&status, mask), 16).unwrap() & !(1 << 12 | 1 << 24 | 3 << 31);
        assert_eq!(mask, 0, "{status}");
    }
    for set in ["CapInh:", "CapAmb:"] {
        assert_eq!(u64::from_str_radix(&line(&status, set), 16), Ok(0), "{status}");
        assert!(!may || line(&read(running.pid(), "status"), set) != line(&status, set), "hertzd has some");
    }
    let environment = read(pid, "environ");
    let found = |name: &&&str| environment.split('\0').any(|entry| entry.starts_with(&format!("{name}=")));
    assert_eq!(told.iter().find(found), None, "{environment}");
    let limits = read(pid, "limits");
    for (limit, wanted) in
        [("Max realtime priority", "0"), ("Max nice priority", "0"), ("Max address space", "1073741824")]
    {
        assert_eq!(line(&limits, limit).split_whitespace().next(), Some(wanted), "{limits}");
    }
    let locked: u64 = line(&limits, "Max locked memory").split_whitespace().next().unwrap().parse().unwrap();
    assert!(locked <= 8 << 20, "{limits}");
    let adjusted = |pid| read(pid, "oom_score_adj").trim().parse::<i32>().unwrap();
    assert_eq!(adjusted(pid), (adjusted(running.pid()) + 300).min(1000));
    let stat = read(pid, "stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(fields[2], pid.to_string(), "a group of its own: {stat}");
    assert_eq!((fields[16], fields[38]), ("0", "0"), "nice and policy: {stat}");
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|file| file.unwrap().path());
    // The client opened its own notes, and may have closed them again.
    let notes = |file: &PathBuf| fs::read_link(file).map_or(true, |target| target.starts_with(running.folder()));
    let mut files: Vec<u32> = open
        .filter(|file| !notes(file))
        .map(|file| file.file_name().unwrap().to_str().unwrap().parse().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(files, [0, 1, 2, 3]);
    running.signal("TERM");
    running.wait();
}

#[test]
fn what_a_program_prints_is_in_the_log_under_its_task() {
    let client = "print('from stdout')\nprint('from stderr', file=sys.stderr)\nprint('x' * 3000)\nfor _ in range(5000): print('flood')\nnote('done', 1)\n\
                  for tick in hertzd.ticks(): hertzd.out(echo=1)\n";
    let mut running = run(&echo("brain", client, ""), &["--json"]);
    running.wait_for("all is printed", |running| !noted(running.folder(), "done").is_empty());
    running.wait_for("all is said", |running| running.stderr().contains("were left out"));
    running.signal("TERM");
    let ended = running.wait();
    for line in ["brain: from stdout", "brain: from stderr", " … (2000 bytes more)"] {
        assert!(ended.stderr.contains(line), "{line}: {}", ended.describe());
    }
    let logged = ended.stderr.matches("brain: flood").count();
    let left_out: usize = ended
        .stderr
        .lines()
        .filter_map(|line| line.split_once(" lines that its program printed were left out"))
        .map(|(before, _)| before.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(logged + left_out, 5_000);
}

#[test]
fn a_program_that_cannot_be_run_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    fs::write(&path, "[task.brain]\nkind = \"process\"\nrate = 100\ncommand = [\"no-such-program\", \"x\"]\n").unwrap();
    for (command, code) in [("check", Some(78)), ("run", Some(78))] {
        let output = Command::new(HERTZD).arg(command).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("there is no program \"no-such-program\" in PATH") && said.contains("test.toml:4"),
            "{command}: {said}"
        );
        assert_eq!(output.status.code(), code, "{command}: {said}");
    }
    // A script whose interpreter is missing is refused too.
    let script = folder.path().join("script");
    program::script(&script, "x");
    let edited = Command::new("sed").args(["-i", "s,/bin/sh,/no/interpreter,"]).arg(&script).status().unwrap();
    assert!(edited.success());
    fs::write(&path, format!("[task.brain]\nkind = \"process\"\nrate = 100\ncommand = [\"{}\"]\n", script.display()))
        .unwrap();
    let output = Command::new(HERTZD).arg("run").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("its first line names the interpreter /no/interpreter, which is not there"), "{said}");
    assert_eq!(output.status.code(), Some(78), "{said}");
}

#[test]
fn a_shadow_run_starts_no_program() {
    let config = echo("brain", "note('started', 1)\nwhile True: time.sleep(1000)\n", "").replace("record = ", "# ");
    let ended = run(&config, &["--shadow", "--for", "1s", "--json"]).wait();
    assert!(noted(ended.folder.path(), "started").is_empty());
    assert!(ended.stderr.contains("its program is not started in a shadow run"), "{}", ended.describe());
}

#[test]
fn a_client_in_c_answers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/process");
    if !Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skip("there is no C compiler");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut compile = Command::new("cc");
    compile
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(folder.path().join("client"))
        .arg(source.join("client.c"));
    assert!(compile.status().unwrap().success());
    let config = fs::read_to_string(source.join("client.toml")).unwrap().replace("./client", &format!("{HERE}/client"));
    let config = config.replace("memory-limit", &format!("record = \"{HERE}/smooth.csv\"\nmemory-limit"));
    let mut running = run_in(folder, &config, &["--json"]);
    wait_for_row(&mut running, "smooth", "an answer", |row| row["load"].is_finite());
    running.signal("TERM");
    let ended = running.wait();
    let rows = recorded(&ended.folder.path().join("smooth.csv"));
    assert_adds_up(&rows);
    assert!(rows.last().unwrap().1["load"].is_finite(), "{}", ended.describe());
    assert_eq!(rows.last().unwrap().1["errors"], 0.0);
}

/// Runs Python with these arguments in `folder`. Returns its output, and whether it succeeded.
fn python(folder: &Path, args: &[&str]) -> (String, bool) {
    let mut command = Command::new("python3");
    command.args(args).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    (
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        output.status.success(),
    )
}

#[test]
fn the_module_passes_its_own_tests_and_is_typed() {
    let (said, well) = python(&module(), &["-m", "unittest", "discover", "-s", "tests"]);
    assert!(well && said.contains("OK"), "{said}");
    if !python(&module(), &["-c", "import mypy"]).1 {
        return skip("mypy is missing: python3 -m pip install --target target/python mypy");
    }
    let cache = tempfile::tempdir().unwrap();
    let (said, well) = python(
        &module(),
        &["-m", "mypy", "--strict", "--cache-dir", cache.path().to_str().unwrap(), "hertzd", "tests"],
    );
    assert!(well, "{said}");
}

#[test]
fn a_wheel_of_the_module_builds_and_installs_offline() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    if !python(here, &["-c", "import setuptools, wheel, pip"]).1 {
        return skip(
            "pip, setuptools or wheel is missing: python3 -m pip install --target target/python setuptools wheel",
        );
    }
    // The build writes files beside the source, so use a copy.
    let copied = Command::new("cp").arg("-r").arg(module()).arg(here.join("source")).status().unwrap();
    assert!(copied.success());
    let offline = ["-m", "pip", "--no-input", "--disable-pip-version-check"];
    let build = ["wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", "wheels", "./source"];
    let (said, well) = python(here, &[&offline[..], &build].concat());
    assert!(well, "{said}");
    let wheel = fs::read_dir(here.join("wheels")).unwrap().next().unwrap().unwrap().path();
    let install = ["install", "--no-index", "--no-deps", "--target", "installed", wheel.to_str().unwrap()];
    let (said, well) = python(here, &[&offline[..], &install].concat());
    assert!(well, "{said}");
    assert!(here.join("installed/hertzd/py.typed").exists());
    let (said, well) =
        python(&here.join("installed"), &["-c", "import hertzd; print(hertzd.__file__, hertzd.PROTOCOL_VERSION)"]);
    assert!(well && said.contains("installed/hertzd/__init__.py 1"), "{said}");
}
