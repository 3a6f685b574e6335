//! Plugins that crash, sleep, compute for too long or touch fresh memory: what is reported, and what happens to outputs.

use crate::plugin;
use crate::program;
use crate::program::emulation::{cannot_be_emulated, is_emulated};
use crate::program::{Ended, HERE, HERTZD, count, run_in, task};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use tempfile::TempDir;

fn section(library: &str, keys: &str) -> String {
    format!("[task.p]\nkind = \"plugin\"\nworker = \"a\"\nlibrary = \"{HERE}/{library}\"\nrate = 200\n{keys}\n")
}

/// An output on another worker. Its watchdog would notice a missing task only after an hour.
const OUTPUT: &str = "[worker.a]\n[worker.b]\n[task.fan]\nkind = \"output\"\nworker = \"b\"\nrate = 100\npath = \"@HERE@/fan\"\n\
                      input = 0.75\nsafe = 1\nstart = \"keep\"\nsafe-after = \"1h\"\n";

/// Runs the plugin until it crashes. Asserts that the process ended by this signal; returns the only log entry about it.
fn crash(folder: TempDir, library: &str, keys: &str, signal: (i32, &str), args: &[&str]) -> (Ended, Value) {
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    let config = OUTPUT.to_owned() + &section(library, keys);
    let mut command = Command::new("sh");
    command.env("RUNTIME_DIRECTORY", folder.path());
    // No core dump: it takes long.
    command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\"", HERTZD]);
    let args: Vec<&str> = ["--log-format", "json"].iter().chain(args).copied().collect();
    let ended = run_in(folder, command, &config, &args).wait();
    let wanted = if signal.0 == 0 { (None, Some(70)) } else { (Some(signal.0), None) };
    assert_eq!((ended.status.signal(), ended.status.code()), wanted, "{}", ended.describe());
    let entries = ended.stderr.lines().filter(|line| line.contains("4963a451511e412d87537a961b89d7fc"));
    let entries: Vec<Value> =
        entries.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let [entry] = &entries[..] else { panic!("not one entry: {}", ended.describe()) };
    assert_eq!([&entry["signal"], &entry["level"]], [signal.1, "error"]);
    assert!(entry["message_id"].is_string());
    assert!(entry["message"].as_str().unwrap().contains(signal.1), "{entry}");
    let entry = entry.clone();
    (ended, entry)
}

/// Asserts that the entry names this task, library and location.
fn says(ended: &Ended, entry: &Value, task: &str, library: &str, place: &str) {
    assert_eq!([&entry["task"], &entry["place"]], [task, place], "{entry}");
    let library = fs::canonicalize(ended.folder.path().join(library)).unwrap();
    assert_eq!(entry["library"], library.to_str().unwrap());
    let of_task = if task == "none" { String::new() } else { format!("{task}: ") };
    let message = entry["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("{of_task}the plugin /")), "{message}");
}

fn is_safe(ended: &Ended) {
    assert_eq!(fs::read_to_string(ended.folder.path().join("fan")).unwrap(), "1\n", "{}", ended.describe());
}

/// Asserts all of this, and that the output is safe.
fn crashes(folder: TempDir, library: &str, keys: &str, signal: (i32, &str), place: &str) {
    let (ended, entry) = crash(folder, library, keys, signal, &[]);
    says(&ended, &entry, "p", library, place);
    is_safe(&ended);
}

#[test]
fn a_crash_is_said_with_task_library_and_signal_and_leaves_outputs_safe() {
    let signals = [
        ("segv", libc::SIGSEGV, "SIGSEGV"),
        ("bus", libc::SIGBUS, "SIGBUS"),
        ("fpe", libc::SIGFPE, "SIGFPE"),
        ("ill", libc::SIGILL, "SIGILL"),
        ("abort", libc::SIGABRT, "SIGABRT"),
        ("deep", libc::SIGSEGV, "SIGSEGV"),
        ("trap", libc::SIGTRAP, "SIGTRAP"),
        ("sys", libc::SIGSYS, "SIGSYS"),
        ("sys-filter", libc::SIGSYS, "SIGSYS"),
    ];
    for (mode, number, name) in signals {
        let folder = tempfile::tempdir().unwrap();
        plugin::probe(folder.path());
        crashes(folder, "libprobe.so", &format!("gain = 1\nmode = \"{mode}\"\nevery = 50"), (number, name), "in tick");
    }
}

const SEGV: (i32, &str) = (libc::SIGSEGV, "SIGSEGV");

#[test]
fn so_is_one_where_it_is_made_and_given_back() {
    for (mode, place) in [("in-create", "in create"), ("in-destroy", "in destroy")] {
        let folder = tempfile::tempdir().unwrap();
        plugin::probe(folder.path());
        let keys = format!("gain = 1\nmode = \"{mode}\"");
        let (ended, entry) = crash(folder, "libprobe.so", &keys, SEGV, &["--for", "500ms"]);
        says(&ended, &entry, "p", "libprobe.so", place);
    }
}

/// The stderr, without the line that QEMU's user emulation adds.
fn said_at_the_end(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let own = said.find("qemu: uncaught target signal").filter(|_| is_emulated());
    said[..own.unwrap_or(said.len())].to_owned()
}

#[test]
fn one_where_it_is_loaded_or_unloaded_names_the_library() {
    for (when, place) in [("LOAD", "while it was loaded"), ("UNLOAD", "while it was unloaded")] {
        let folder = tempfile::tempdir().unwrap();
        plugin::build_c("probe.c", &folder.path().join("libprobe.so"), &[&format!("-DCRASH_AT_{when}")]);
        let (ended, entry) = crash(folder, "libprobe.so", "gain = 1", SEGV, &["--for", "500ms"]);
        says(&ended, &entry, "none", "libprobe.so", place);
        // As text, which another part writes: the entry itself, not the line of a handler that has waited for it in vain.
        let text = "ulimit -c 0; exec \"$0\" run test.toml --for 500ms --log-format text";
        let output = Command::new("sh").args(["-c", text, HERTZD]).current_dir(ended.folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("crashed with SIGSEGV {place} (")) && said.contains("ERROR"), "{said}");
        // A check writes no entries: the line is the handler's own.
        let check = "ulimit -c 0; exec \"$0\" check test.toml";
        let output = Command::new("sh").args(["-c", check, HERTZD]).current_dir(ended.folder.path()).output().unwrap();
        let said = said_at_the_end(&output);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
        assert!(said.contains("hertzd: the plugin /"), "{said}");
        assert!(said.ends_with(&format!("libprobe.so crashed with SIGSEGV {place}\n")), "{said}");
    }
}

#[test]
fn one_in_a_thread_of_the_plugin_blames_no_task() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let (ended, entry) = crash(folder, "libprobe.so", "gain = 1\nmode = \"own-thread\"\nevery = 50", SEGV, &[]);
    assert_eq!([&entry["task"], &entry["library"], &entry["place"]], ["none"; 3], "{entry}");
    assert!(entry["message"].as_str().unwrap().contains("outside of the functions of its plugins"), "{entry}");
    is_safe(&ended);
}

#[test]
fn a_call_of_exit_is_said_as_well_and_leaves_outputs_safe() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let keys = "gain = 1\nmode = \"exit\"\nevery = 50";
    let (ended, entry) = crash(folder, "libprobe.so", keys, (0, "exit()"), &[]);
    says(&ended, &entry, "p", "libprobe.so", "in tick");
    let message = entry["message"].as_str().unwrap();
    assert!(message.contains(" called exit() in tick ") && message.ends_with("ends with exit code 70"), "{message}");
    is_safe(&ended);
}

#[test]
fn a_process_that_a_plugin_forks_off_crashes_alone() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\"", HERTZD]);
    let config = "[worker.a]\n".to_owned() + &section("libprobe.so", "gain = 1\nmode = \"fork\"\nevery = 50");
    let ended = run_in(folder, command, &config, &["--for", "1s", "--json"]).wait();
    assert!(matches!(ended.status.code(), Some(0 | 1)) && !ended.stderr.contains("crashed"), "{}", ended.describe());
    assert!(count(task(&ended.summary(), "p"), "ran") > 50, "it ran on behind the first");
}

#[test]
fn a_table_that_leads_nowhere_names_the_library() {
    let folder = tempfile::tempdir().unwrap();
    plugin::build_c("bad.c", &folder.path().join("bad.so"), &["-DBAD=37"]);
    let path = folder.path().join("test.toml");
    fs::write(&path, section("bad.so", "").replace(HERE, folder.path().to_str().unwrap())).unwrap();
    let check = "ulimit -c 0; exec \"$0\" check \"$1\"";
    let output = Command::new("sh").args(["-c", check, HERTZD]).arg(path).output().unwrap();
    let said = said_at_the_end(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
    assert!(said.ends_with("bad.so crashed with SIGSEGV in hertzd_plugin_table\n"), "{said}");
}

#[test]
fn two_at_once_are_one_entry() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let (ended, entry) = crash(folder, "libprobe.so", "gain = 1\nmode = \"both\"\nevery = 50", SEGV, &[]);
    // Either of the two may come first.
    match entry["task"].as_str() {
        Some("p") => says(&ended, &entry, "p", "libprobe.so", "in tick"),
        _ => assert_eq!([&entry["task"], &entry["library"], &entry["place"]], ["none"; 3], "{entry}"),
    }
    is_safe(&ended);
}

#[test]
fn in_the_journal_it_is_an_entry_with_fields() {
    if !program::is_root() {
        return program::skip("needs a mount namespace");
    }
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    fs::write(folder.path().join("fan"), "0.5\n").unwrap();
    // This test listens there in place of journald.
    let socket = UnixDatagram::bind(folder.path().join("journal")).unwrap();
    let script = "ulimit -c 0; mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && : >/run/systemd/journal/socket && \
                  mount --bind \"$JOURNAL\" /run/systemd/journal/socket && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, HERTZD]).env("RUNTIME_DIRECTORY", folder.path());
    command.env("JOURNAL", folder.path().join("journal"));
    let config = OUTPUT.to_owned() + &section("libprobe.so", "gain = 1\nmode = \"segv\"\nevery = 50");
    let reader = std::thread::spawn(move || {
        let (mut entries, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
        while let length @ 1.. = socket.recv(&mut bytes).unwrap() {
            entries.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        entries
    });
    let ended = run_in(folder, command, &config, &["--log-format", "journal"]).wait();
    let done = UnixDatagram::unbound().unwrap();
    done.send_to(b"", ended.folder.path().join("journal")).unwrap();
    let entries = reader.join().unwrap();
    let crashed: Vec<&String> = entries.iter().filter(|entry| entry.contains("crashed")).collect();
    let [entry] = &crashed[..] else { panic!("not one entry: {entries:?}\n{}", ended.describe()) };
    let library = fs::canonicalize(ended.folder.path().join("libprobe.so")).unwrap();
    let library = format!("HERTZD_LIBRARY={}", library.display());
    for field in ["PRIORITY=3", "HERTZD_TASK=p", "HERTZD_SIGNAL=SIGSEGV", "HERTZD_PLACE=in tick", library.as_str()] {
        assert!(entry.lines().any(|line| line == field), "{field}: {entry}");
    }
    assert!(entry.lines().any(|line| line.starts_with("MESSAGE_ID=")), "{entry}");
    assert_eq!(ended.status.signal(), Some(libc::SIGSEGV), "{}", ended.describe());
    assert_eq!(fs::read_to_string(ended.folder.path().join("fan")).unwrap(), "1\n");
}

#[test]
fn so_is_a_panic_of_rust() {
    if !program::has_rust(plugin::rustc()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    plugin::rust_probe(folder.path());
    crashes(folder, "librust_probe.so", "panic-at = 50", (libc::SIGABRT, "SIGABRT"), "in tick");
}

#[test]
fn so_is_an_exception_of_cpp() {
    let folder = tempfile::tempdir().unwrap();
    if !program::works(Command::new("g++")) {
        return program::skip("there is no g++");
    }
    let library = folder.path().join("libthrows.so");
    let source = folder.path().join("throws.cpp");
    let text = "#include <hertzd.h>\n\
        static int32_t create(const hertzd_start *, void **) { return HERTZD_OK; }\n\
        static int32_t tick(void *, const hertzd_tick *t) { if (t->n >= 50) throw 1; return HERTZD_OK; }\n\
        static const hertzd_plugin table = {HERTZD_PLUGIN_ABI, 0, 0, 0, 0, 0, \"throws\", 0, 0, 0, 0, create, tick, 0};\n\
        const hertzd_plugin *hertzd_plugin_table(void) { return &table; }\n";
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("g++");
    compiler.args(["-fPIC", "-shared", "-I"]).arg(plugin::header_folder()).arg("-o").arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    crashes(folder, "libthrows.so", "", (libc::SIGABRT, "SIGABRT"), "in tick");
}

#[test]
fn one_that_crashes_where_nothing_runs_is_said_as_well() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let config = section("libprobe.so", "gain = 1\nmode = \"segv\"\nevery = 50").replace("worker = \"a\"\n", "");
    let path = folder.path().join("test.toml");
    fs::write(&path, config.replace(HERE, folder.path().to_str().unwrap())).unwrap();
    let simulate = "ulimit -c 0; exec \"$0\" simulate \"$1\" --for 10s";
    let output = Command::new("sh").args(["-c", simulate, HERTZD]).arg(path).output().unwrap();
    let said = said_at_the_end(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
    assert!(
        said.contains("hertzd: task p: the plugin /") && said.ends_with("crashed with SIGSEGV in tick\n"),
        "{said}"
    );
}

#[test]
fn a_signal_that_was_sent_ends_it_at_once_and_leaves_outputs_safe() {
    if cannot_be_emulated("it handles signals itself") {
        return;
    }
    // The standard library's handler would swallow the first two once.
    for (number, name) in [
        (libc::SIGSEGV, "SEGV"),
        (libc::SIGBUS, "BUS"),
        (libc::SIGFPE, "FPE"),
        (libc::SIGILL, "ILL"),
        (libc::SIGABRT, "ABRT"),
        (libc::SIGTRAP, "TRAP"),
        (libc::SIGSYS, "SYS"),
        // These signals are not crashes.
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGIO, "IO"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        // The tests' parent may ignore some signals.
        let mut command = Command::new("env");
        command.args(["--default-signal", "sh", "-c", "ulimit -c 0; exec \"$0\" \"$@\"", HERTZD]);
        let config = "[task.out]\nkind = \"output\"\nrate = 100\ninput = 7\npath = \"@HERE@/out\"\nsafe = 9\n";
        let mut running = run_in(folder, command, config, &[]);
        running.wait_until_granted();
        let out = running.folder().join("out");
        running.wait_for("the output is live", |_| fs::read_to_string(&out).is_ok_and(|text| text == "7\n"));
        running.signal("ALRM");
        running.signal(name);
        let ended = running.wait();
        assert_eq!(ended.status.signal(), Some(number), "{}", ended.describe());
        let said = format!("hertzd did not crash: SIG{name} was sent by process ");
        assert!(ended.stderr.contains(&said) && !ended.stderr.contains("crashed"), "{}", ended.describe());
        assert_eq!(fs::read_to_string(&out).unwrap(), "9\n", "{}", ended.describe());
    }
}

/// A shell without job control makes its background processes ignore SIGQUIT.
#[test]
fn a_signal_that_its_parent_ignores_does_not_end_it() {
    if cannot_be_emulated("it handles signals itself") {
        return;
    }
    let mut command = Command::new("env");
    command.args(["--ignore-signal=QUIT", HERTZD]);
    let mut running = run_in(tempfile::tempdir().unwrap(), command, "[task.a]\nkind = \"load\"\nrate = 100\n", &[]);
    running.wait_until_granted();
    running.signal("QUIT");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status.signal(), None, "{}", ended.describe());
    assert!(ended.stderr.contains("stopped") && !ended.stderr.contains("SIGQUIT"), "{}", ended.describe());
}

/// The causes of the misses of a plugin with this mode, over at most three runs, until one cause is `wanted`.
fn has_cause(mode: &str, wanted: &str, evidence: &str) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        plugin::probe(folder.path());
        let keys = format!("gain = 1\nmode = \"{mode}\"\nevery = 20\nlength = \"8ms\"\ndeadline = \"3ms\"");
        let config = format!("[worker.a]\n{evidence}\n{}", section("libprobe.so", &keys));
        let ended = run_in(folder, Command::new(HERTZD), &config, &["--for", "5s", "--json"]).wait();
        let summary = ended.summary();
        let of = task(&summary, "p");
        let causes = of["causes"].as_object().unwrap();
        let sum: u64 = causes.values().filter_map(Value::as_u64).sum();
        assert_eq!(sum, count(of, "missed"), "{of}");
        assert!(count(of, "overruns") > 0, "a tick of 8 ms never ends within 3 ms: {of}");
        if causes.get(wanted).and_then(Value::as_u64).is_some_and(|count| count > 0) {
            return;
        }
        seen.push(of["causes"].clone());
    }
    panic!("{mode}: {wanted} is not among {seen:?}");
}

const TICK: &str = "evidence = \"tick\"";

#[test]
fn the_causes_need_no_more_evidence_than_is_taken_by_default() {
    for (mode, cause) in [("touch", "page-fault"), ("sleep", "waited"), ("burn", "ran-long")] {
        has_cause(mode, cause, "");
    }
}

#[test]
fn one_that_sleeps_has_waited() {
    has_cause("sleep", "waited", TICK);
}

#[test]
fn one_that_computes_ran_long() {
    has_cause("burn", "ran-long", TICK);
}

#[test]
fn one_that_touches_or_allocates_fresh_memory_waits_for_pages() {
    has_cause("touch", "page-fault", TICK);
    has_cause("allocate", "page-fault", TICK);
}

#[test]
fn a_signal_from_another_process_is_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\"", HERTZD]);
    let config = "[worker.a]\n".to_owned() + &section("libprobe.so", "gain = 1");
    let mut running = run_in(folder, command, &config, &[]);
    running.wait_until_granted();
    // As the watchdog of a service manager does.
    running.signal("ABRT");
    let ended = running.wait();
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{}", ended.describe());
    assert!(!ended.stderr.contains("crashed"), "{}", ended.describe());
}
