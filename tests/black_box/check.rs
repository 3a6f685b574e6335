//! The output of `hertzd check`.

use crate::program;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The output of `hertzd COMMAND FILE ARGS` for a configuration: stdout, stderr and exit status.
fn hertzd(command: &str, config: &str, args: &[&str]) -> (String, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    fs::write(&path, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).arg(command).arg(&path).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// A worker on CPU 0 with these keys, and its only task with the other keys.
fn worker(name: &str, keys: &str, task: &str) -> String {
    format!("[worker.{name}]\ncpu = 0\n{keys}\n[task.of-{name}]\nkind = \"load\"\nworker = \"{name}\"\n{task}\n")
}

/// Two workers on one CPU whose tasks have neither budget nor spin tail.
#[test]
fn a_share_that_is_not_known_is_not_called_zero() {
    let (printed, _, code) = hertzd("check", &(worker("a", "", "rate = 10") + &worker("b", "", "rate = 10")), &[]);
    let shares = "\nCPU 0 (a, b): no budget is given for of-a, of-b\n  a: no task has a budget: ";
    assert!(code == Some(0) && printed.contains(shares), "{printed}");
}

#[test]
fn what_a_kind_knows_counts_as_a_budget() {
    let known = worker("a", "", "rate = 10\nrun = \"60ms\"");
    let (printed, _, code) = hertzd("check", &known, &[]);
    let sum =
        "CPU 0 (a): 60.0 % of its time: 60.0 % by budgets and known runs, 0.0 % by spin tails\n  every deadline holds";
    assert!(code == Some(0) && printed.contains(sum), "{printed}");
    let (printed, _, _) = hertzd("check", &(known.clone() + &worker("b", "", "rate = 10")), &[]);
    assert!(
        printed.contains("CPU 0 (a, b): at least 60.0 % of its time: ") && printed.contains("given for of-b\n"),
        "{printed}"
    );
    // On average there is enough time.
    let (printed, error, code) = hertzd("check", &worker("a", "", "rate = 10\nrun = [\"60ms\", \"120ms\"]"), &[]);
    assert!(
        code == Some(1) && error.contains("90.0 % of its time") && error.contains("as long as the longest"),
        "{printed}{error}"
    );
}

/// The faulty tick takes `fault-run` in place of `run`.
#[test]
fn a_fault_counts_with_the_time_that_it_takes() {
    let faulty = |priority, fault: &str, run| {
        let task = format!("rate = 100\nrun = \"50us\"\nfault = \"{fault}\"\nfault-run = \"{run}\"");
        worker("a", &format!("priority = {priority}"), &task)
    };
    for fault in ["long-run", "page-faults", "sleep", "error", "panic"] {
        let (printed, error, code) = hertzd("check", &faulty(80, fault, "22ms"), &[]);
        assert!(code == Some(1) && error.contains("as long as the longest"), "{fault}: {printed}{error}");
    }
    let (printed, error, code) = hertzd("check", &faulty(80, "long-run", "2ms"), &[]);
    assert!(code == Some(0) && printed.contains("tightest is of-a, with 8.00 ms left"), "{printed}{error}");
    // A busy fault takes time from others; a sleeping one does not.
    let busy = worker("b", "priority = 50", "rate = 100\nrun = \"6ms\"");
    let (printed, error, code) = hertzd("check", &(faulty(80, "long-run", "5ms") + &busy), &[]);
    assert!(code == Some(1) && error.contains("b: "), "{printed}{error}");
    let (printed, error, code) = hertzd("check", &(faulty(80, "sleep", "5ms") + &busy), &[]);
    assert!(code == Some(0) && printed.contains("b: every deadline holds"), "{printed}{error}");
    // Even if the run time of the other ticks is unknown.
    let (_, error, code) = hertzd("check", &faulty(80, "long-run", "22ms").replace("run = \"50us\"\n", ""), &[]);
    assert!(code == Some(1) && error.contains("more work than time"), "{error}");
}

/// While the task sleeps, its CPU is free for others, but its worker is not.
#[test]
fn a_tick_that_sleeps_takes_no_processor_time_and_holds_up_its_worker() {
    let asleep = |priority, run| {
        worker("a", &format!("priority = {priority}"), &format!("rate = 100\nmode = \"sleep\"\nrun = \"{run}\""))
    };
    let busy = worker("b", "priority = 50", "rate = 100\nrun = \"6ms\"");
    let (printed, error, code) = hertzd("check", &(asleep(80, "8ms") + &busy), &[]);
    let sum = "CPU 0 (a, b): 60.0 % of its time: 60.0 % by budgets and known runs, 0.0 % by spin tails; the ticks of of-a sleep, \
               and take none\n  a: every deadline holds; tightest is of-a, with 2.00 ms left\n  b: every deadline holds";
    assert!(code == Some(0) && printed.contains(sum), "{printed}{error}");
    // The worker of higher priority may run within the sleep or not: this is not known to be too much.
    let (printed, error, code) = hertzd("check", &(asleep(40, "8ms") + &busy), &[]);
    assert!(
        code == Some(0) && printed.contains("a: whether the deadlines hold is unknown: its ticks sleep"),
        "{printed}{error}"
    );
    // A sleep longer than the period is too long whatever the CPU does. So is the sleep of a neighbour on the same worker.
    let (printed, error, code) = hertzd("check", &(asleep(40, "11ms") + &busy), &[]);
    assert!(code == Some(1) && error.contains("a: more work than time"), "{printed}{error}");
    let neighbour = "[task.n]\nkind = \"load\"\nworker = \"a\"\nrate = 100\nrun = \"4ms\"\n";
    let (printed, error, code) = hertzd("check", &(asleep(80, "8ms") + neighbour), &[]);
    assert!(code == Some(1) && error.contains("more work than time"), "{printed}{error}");
    // The kernel does not count sleeps against a runtime. A busy fault does not sleep.
    let limited =
        worker("a", "policy = \"deadline\"\nruntime = \"1ms\"", "rate = 100\nmode = \"sleep\"\nrun = \"8ms\"");
    let (printed, error, code) = hertzd("check", &limited.replace("cpu = 0", ""), &[]);
    assert!(code == Some(0) && printed.contains("every deadline holds"), "{printed}{error}");
    let (printed, error, _) = hertzd("check", &(asleep(80, "8ms") + "fault = \"long-run\"\n"), &[]);
    assert!(printed.contains(": 80.0 % by budgets and known runs"), "{printed}{error}");
}

/// Each task meets its deadlines alone. The worker of higher priority takes half of the time that the other needs.
#[test]
fn the_verdict_on_a_cpu_is_over_all_its_workers() {
    let fast = |priority| worker("fast", &format!("priority = {priority}"), "rate = 1_000\nbudget = \"500us\"");
    let slow = worker("slow", "priority = 50", "rate = 100\nbudget = \"4ms\"\ndeadline = \"7ms\"");
    let (printed, error, code) = hertzd("check", &(fast(80) + &slow), &[]);
    let sum = "CPU 0 (fast, slow): 90.0 % of its time: 90.0 % by budgets, 0.0 % by spin tails";
    let missed = "slow: of-slow can miss its deadline: the work due within 7.00 ms is 500 µs too much";
    assert!(code == Some(1) && printed.contains(sum) && printed.contains(missed), "{printed}");
    assert!(
        printed.contains("fast: every deadline holds")
            && printed.contains(": valid, but its deadlines cannot all hold\n"),
        "{printed}"
    );
    assert!(error.contains(sum) && error.contains(missed), "{error}");
    // Now slow has precedence and meets its deadlines, but its tick lasts longer than fast can wait.
    let (printed, _, code) = hertzd("check", &(fast(30) + &slow), &[]);
    assert!(code == Some(1) && printed.contains("fast: of-fast can miss its deadline"), "{printed}");
    assert!(printed.contains("slow: every deadline holds"), "{printed}");
    // On separate CPUs both meet their deadlines.
    let (printed, _, code) = hertzd("check", &(fast(80) + &slow).replace("cpu = 0", ""), &[]);
    assert!(code == Some(0) && printed.matches("every deadline holds").count() == 2, "{printed}");
    // Twice as many workers as CPUs need more time than exists, wherever they run.
    let cpus = std::thread::available_parallelism().unwrap().get();
    let many: String = (0..2 * cpus)
        .map(|n| worker(&format!("w{n}"), "policy = \"other\"", "rate = 100\nbudget = \"9ms\"").replace("cpu = 0", ""))
        .collect();
    let (printed, error, code) = hertzd("check", &many, &[]);
    assert!(code == Some(1) && error.contains(" CPUs together ("), "{printed}{error}");
}

/// With 10 µs left before its tail, a worker does not sleep: it spins all the time, and the kernel stops it.
#[test]
fn a_spin_tail_counts_at_what_it_costs() {
    let (printed, error, code) = hertzd("check", &worker("a", "spin = \"10us\"", "rate = \"50 kHz\""), &[]);
    let sum = "CPU 0 (a): at least 100.0 % of its time, by spin tails; no budget is given for of-a; real-time threads may use 95 %";
    assert!(code == Some(1) && error.contains(sum), "{printed}{error}");
    let (printed, error, code) = hertzd("check", &worker("a", "spin = \"50us\"", "rate = \"1 kHz\""), &[]);
    assert!(code == Some(0) && printed.contains("at least 6.0 % of its time, by spin tails"), "{printed}{error}");
    // It really does so: it sleeps until its epoch, and then never again, as at most 10 µs are left.
    let spinning = worker("a", "spin = \"10us\"", "rate = \"50 kHz\"");
    let (printed, error, _) = hertzd("run", &spinning, &["--for", "100ms", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{error}"));
    let wakes = summary["workers"][0]["wakes"].as_u64().unwrap();
    assert!(wakes <= 1 && summary["tasks"][0]["due"] == 5_000, "{summary}");
    // It prevents another worker of the CPU from working.
    let spinning = worker("a", "priority = 80\nspin = \"300us\"", "rate = \"1 kHz\"\nbudget = \"200us\"");
    let beside = worker("b", "priority = 70", "rate = \"1 kHz\"\nbudget = \"500us\"");
    let (printed, error, code) = hertzd("check", &(spinning + &beside), &[]);
    assert!(code == Some(1) && error.contains("101.0 % of its time: 70.0 % by budgets, 31.0 % by"), "{printed}{error}");
}

#[test]
fn a_runtime_has_the_work_and_the_spin_tail_in_it() {
    let check = |runtime: &str| {
        let keys = format!("policy = \"deadline\"\nspin = \"100us\"\nruntime = \"{runtime}\"");
        hertzd("check", &worker("a", &keys, "rate = \"1 kHz\"\nbudget = \"250us\"").replace("cpu = 0", ""), &[])
    };
    let (printed, error, code) = check("300us");
    let sum =
        "runtime = 300 µs in every 1.00 ms is less than the 360 µs that can come up in that time: 250 µs by budgets";
    assert!(code == Some(1) && error.contains(sum), "{printed}{error}");
    let (printed, error, code) = check("360us");
    assert!(code == Some(0) && printed.contains("every deadline holds"), "{printed}{error}");
    let keys = "policy = \"deadline\"\nspin = \"off\"\nruntime = \"5ms\"";
    let known = worker("a", keys, "rate = 50\nrun = \"10ms\"").replace("cpu = 0", "");
    let (printed, error, code) = hertzd("check", &known, &[]);
    let sum =
        "less than the 10.0 ms that can come up in that time: 10.0 ms by budgets and known runs, 0 ns by spin tails";
    assert!(code == Some(1) && error.contains(sum), "{printed}{error}");
}

#[test]
fn simulate_runs_a_task_at_its_budget_where_no_run_time_is_scripted() {
    let runs = |task: &str| {
        let (printed, error, code) = hertzd("simulate", &worker("a", "", task), &["--for", "5ms", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        let runs = printed.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            Some(line["finished_ns"].as_i64()? - line["started_ns"].as_i64()?)
        });
        runs.collect::<Vec<_>>()
    };
    assert_eq!(runs("rate = 1_000\nbudget = \"250us\""), [250_000; 5]);
    assert_eq!(runs("rate = 1_000\nbudget = \"250us\"\nrun = \"20us\""), [20_000; 5], "the kind knows better");
    assert_eq!(runs("rate = 1_000\nbudget = \"250us\"\nsimulate.run = [\"30us\"]"), [30_000; 5]);
    assert_eq!(runs("rate = 1_000"), [0; 5]);
}

/// The stderr of a failing command, and its exit code.
fn refused(args: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).args(args).output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn a_refusal_says_what_follows_for_this_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    fs::write(&path, "[task.a]\nkind = \"load\"\n").unwrap();
    let path = path.to_str().unwrap();
    let (text, code) = refused(&["check", path]);
    let end = "1 problem; a start with this configuration would be refused\n";
    assert!(code == Some(78) && text.ends_with(end), "{text}");
    let (text, code) = refused(&["run", path]);
    assert!(code == Some(78) && text.ends_with("1 problem; nothing was started\n"), "{text}");
}

#[test]
fn an_explanation_leaves_the_problems_to_the_start_that_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    let check = |options: &[&str]| {
        let args = [&["check", path.to_str().unwrap()], options].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    fs::write(&path, "[task.a]\nkind = \"load\"\n").unwrap();
    assert_eq!(check(&["--explain"]), (Some(78), String::new(), String::new()));
    fs::write(&path, "[task.a]\nkind = \"load\"\nrate = 10\n").unwrap();
    let explained = check(&["--explain"]);
    assert!(explained.1.contains("10 Hz") && explained == check(&[]), "{explained:?}");
}

#[test]
fn a_wrong_argument_is_named_with_one_remedy() {
    let (text, code) = refused(&["run", "--for", "10"]);
    assert!(code == Some(64) && text.matches("10s").count() == 1, "{text}");
    let (text, code) = refused(&["run", "--for", "1s", "--status-socket", "/nonexistent/s"]);
    let named = text.contains("/nonexistent/s: No such file") && text.contains("with --status-socket");
    assert!(code == Some(70) && named, "{text}");
}

/// clap would wrap longer lines, which could not be pasted into a shell; terminals have 80 columns or more.
#[test]
fn examples_in_the_help_fit_a_terminal() {
    for command in ["run", "check", "doctor", "simulate", "status", "reload", "devices", "plan"] {
        let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let examples: Vec<_> = examples.lines().take_while(|line| !line.is_empty()).collect();
        assert!(!examples.is_empty(), "{command}: {help}");
        for line in examples {
            assert!(line.chars().count() < 80, "{command}: {line}");
        }
    }
}

/// A sensor on a file, its controller, and an actuator on another worker whose values close the loop.
fn chain(input: &str, valid: &str) -> String {
    format!(
        "[worker.main]\npolicy = \"other\"\n[worker.out]\npolicy = \"other\"\n\
         [task.act]\nkind = \"pid\"\nworker = \"out\"\nrate = 100\ninput = \"control.out\"\nsetpoint = 0\nkp = 1\n\
         [task.control]\nkind = \"pid\"\nworker = \"main\"\nrate = 100\ninput = \"{input}\"\nsetpoint = 1\nki = 1\n\
         track = {{ previous = \"act.out\", initial = 0 }}\n\
         [task.board]\nkind = \"sensor\"\nworker = \"main\"\nrate = 100\npath = \"/proc/loadavg\"\n{valid}\n"
    )
}

#[test]
fn a_chain_is_shown_and_what_a_start_would_refuse_of_it_is_refused() {
    let (printed, error, code) = hertzd("check", &chain("board.value", ""), &[]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{printed}");
    let chain_of = "\nchain board, control, act: what act uses is up to 20.0 ms old at its release, ";
    let link = "  control takes input from board.value  same tick; stale when older than 60.0 ms\n";
    assert!(printed.contains(chain_of) && printed.contains(link), "{printed}");
    let wrong = chain("board.valu", "valid = { vaule = [0, 1] }");
    // Each problem's message and location, without the folder.
    let problems = |error: &str| {
        let place = |line: &str| Some(line.split_once("test.toml")?.1.to_owned());
        let told = |line: &&str| line.starts_with("error: ") || line.trim_start().starts_with("--> ");
        let told = error.lines().filter(told).map(|line| place(line).unwrap_or_else(|| line.to_owned()));
        told.collect::<Vec<_>>()
    };
    let (_, checked, code) = hertzd("check", &wrong, &[]);
    let (_, refused, run) = hertzd("run", &wrong, &["--for", "1s"]);
    assert_eq!((code, run), (Some(78), Some(78)), "{checked}{refused}");
    assert!(checked.contains("task board has no value \"valu\"; did you mean \"value\"?"), "{checked}");
    assert_eq!((problems(&checked).len(), problems(&checked)), (4, problems(&refused)), "{checked}{refused}");
    // Without opening the file, the value is unknown, and not a problem.
    let (printed, error, code) = hertzd("check", &wrong, &["--no-open"]);
    assert!(code == Some(0) && printed.contains("\nchain board, control, act: "), "{printed}{error}");
}

#[test]
fn a_latency_that_can_never_hold_is_refused_and_one_that_does_not_hold_is_told() {
    let chain = |control: &str, act: &str| {
        chain("board.value", "phase = \"4ms\"")
            .replace("track =", &format!("max-latency = \"{control}\"\ntrack ="))
            .replace("\nkp = 1", &format!("\nkp = 1\nmax-latency = \"{act}\""))
    };
    for (command, args) in [("check", &[][..]), ("run", &["--for", "1s"])] {
        let (_, error, code) = hertzd(command, &chain("6ms", "1h"), args);
        let wanted = "task.control: max-latency = \"6ms\"; can never hold: what control uses is at least 6.00 ms old at its release";
        assert!(code == Some(78) && error.contains(wanted), "{error}");
    }
    let (printed, error, code) = hertzd("check", &chain("7ms", "20ms"), &[]);
    let doubt = "warning: task.act: max-latency = \"20ms\"; may not hold: what the task uses can be 26.0 ms old at its release while";
    assert!(
        code == Some(0) && printed.contains(doubt) && !printed.contains("task.control: max-latency"),
        "{printed}{error}"
    );
    assert!(printed.contains("; above 20.0 ms at the end of its tick it is a late chain\n"), "{printed}");

    if program::emulation::cannot_be_emulated("a run of 100 ms is too short for so slow a machine") {
        return;
    }
    // A tick of `control` comes after the tick of `board` that it reads, and ends later.
    let config = chain("1us", "1h").replace("phase = \"4ms\"", "");
    let args = ["--for", "100ms", "--json", "--log-format", "json", "--fail-if", "control.late_chains > 0"];
    let (printed, error, code) = hertzd("run", &config, &args);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("--fail-if 'control.late_chains > 0': control.late_chains is"), "{error}");
    let summary: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let of = |name: &str| summary["tasks"].as_array().unwrap().iter().find(|task| task["task"] == name).unwrap();
    let (control, act) = (of("control"), of("act"));
    let late = control["late_chains"].as_u64().unwrap();
    assert_eq!(
        (&control["age_ns"]["count"], &control["late_chains_by"]["board"]),
        (&late.into(), &late.into()),
        "{control}"
    );
    assert_eq!(
        (&act["late_chains"], act.get("late_chains_by"), &act["max_latency_ns"]),
        (&0.into(), None, &3_600_000_000_000_u64.into())
    );
    let entries = error.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let entries: Vec<_> = entries.filter(|entry| entry["cause"] == "late-chain").collect();
    let told: u64 = entries.iter().filter_map(|entry| entry["late_chains"].as_u64()).sum();
    assert_eq!(told, late, "{error}");
    for entry in entries {
        let has = [&entry["task"], &entry["blocker"], &entry["message_id"]];
        assert_eq!(has, ["control", "board", "686aa5f963224280936b33efad7c0e4b"], "{entry}");
        assert!(entry["age_ns"].as_u64() > Some(1_000) && entry["max_latency_ns"] == 1_000, "{entry}");
    }
}

/// A box for each task inside its worker's box, and an arrow for each value, in both languages; Graphviz reads its own.
#[test]
fn the_graph_is_drawn_with_every_task_and_every_link() {
    let config = chain("board.value", "");
    let (mermaid, error, code) = hertzd("check", &config, &["--graph"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert_eq!(mermaid, hertzd("check", &config, &["--graph=mermaid"]).0);
    let lines: Vec<_> = mermaid.lines().map(str::trim).collect();
    assert_eq!(lines[0], "flowchart LR");
    for line in
        ["subgraph w0[\"worker main\"]", "t1[\"control<br>pid, 100 Hz\"]", "t2 -->|\"value to input<br>same tick\"| t1"]
    {
        assert!(lines.contains(&line), "{line}: {mermaid}");
    }
    let across = "t1 ==>|\"out to input<br>adds up to 20.0 ms, a period and the deadline of control\"| t0";
    assert!(
        lines.contains(&across) && lines.iter().any(|line| line.starts_with("t0 -.->|\"out to track<br>")),
        "{mermaid}"
    );
    let count = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("subgraph"), count("end"), count("t")), (2, 2, 3 + 3), "{mermaid}");

    let (dot, _, code) = hertzd("check", &config, &["--graph=dot"]);
    assert_eq!(code, Some(0));
    let (nodes, arrows) = (dot.matches(" [label=").count() - dot.matches(" -> ").count(), dot.matches(" -> ").count());
    assert_eq!((nodes, arrows, dot.matches("subgraph cluster_").count()), (3, 3, 2), "{dot}");
    assert!(dot.contains("style=bold") && dot.contains("style=dashed"), "{dot}");
    assert_eq!(dot.matches(['{', '[']).count(), dot.matches(['}', ']']).count());
    let graphviz = Command::new("dot").arg("-Tplain").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut graphviz) = graphviz else {
        eprintln!("Graphviz is not installed: dot has not read it");
        return;
    };
    graphviz.stdin.take().unwrap().write_all(dot.as_bytes()).unwrap();
    let read = graphviz.wait_with_output().unwrap();
    let plain = String::from_utf8(read.stdout).unwrap();
    let of = |what: &str| plain.lines().filter(|line| line.starts_with(what)).count();
    assert!(read.status.success() && (of("node"), of("edge")) == (3, 3), "{plain}");
}
