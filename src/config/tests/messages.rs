//! Each case in `fixtures/refused` is rejected with exactly its message (`UPDATE=1` rewrites the messages), and valid configurations get
//! the values they state. The machine is simulated: it has CPUs 0 and 1.

use super::cases;
use crate::channels::Queue;
use crate::config::types::OverrunLimit;
use crate::config::{Blueprint, Kind, Kinds};
use crate::config::{
    ClockKind, Config, Facts, Key, LimitAction, OnError, Problems, RecordConfig, RecordFormat, Scheduling, Section,
    Spin, TASK_KEYS, Value, WORKER_KEYS, schema,
};
use crate::pacing::{Overrun, Rate, Target};
use crate::task::{Task, Tick, TickError};
use crate::time::Span;
use std::fs;
use std::path::{Path, PathBuf};

struct Count;

impl Task for Count {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        Ok(())
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Echo {
    from_file: PathBuf,
    #[serde(default)]
    gain: f64,
}

impl Task for Echo {
    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values.fill(self.gain);
        if self.from_file.as_os_str().is_empty() { Err(TickError::new("no file")) } else { Ok(()) }
    }
}

#[derive(serde::Deserialize)]
struct Open {
    #[serde(flatten)]
    rest: std::collections::BTreeMap<String, i64>,
}

impl Task for Open {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        if tick.n == 0 && self.rest.is_empty() { Err(TickError::new("empty")) } else { Ok(()) }
    }
}

fn kinds() -> Kinds {
    const STEP: Key = Key::new("step", Value::Integer { min: 1, max: 10 }, "Counts by this.").default("1");
    let parse = |section: &mut Section<'_>| {
        let step = section.integer(&STEP)?;
        Some(Blueprint::new(|_| Ok(Count.into())).taking(vec![Span::from_micros(step)]))
    };
    Kinds::empty()
        .add(Kind::new("count", "Counts.", &[STEP], parse))
        .with::<Echo>("echo", "Echoes.")
        .with::<Open>("open", "Takes any number.")
}

fn facts() -> Facts {
    Facts { online_cpus: vec![0, 1], cpu_set_size: 1024 }
}

fn parse(text: impl AsRef<[u8]>) -> Result<Config, Problems> {
    Config::parse(text, "hertzd.toml", &kinds(), &facts())
}

/// Asserts that every case of a file of `fixtures/refused` is rejected with its message; returns the number of cases. Skips cases of kinds
/// that this build does not include.
fn refuse_all(topic: &str, kinds: &Kinds) -> usize {
    let update = std::env::var_os("UPDATE").is_some();
    let mut cases = cases::read("refused", topic);
    let (mut seen, mut changed) = (0, Vec::new());
    for case in &mut cases {
        let left_out = kinds.left_out().find(|kind| case.toml.contains(&format!("kind = \"{kind}\"")));
        if topic != "without-audio" && left_out.is_some()
            || !cfg!(feature = "mcap") && case.name == "record-contradiction"
        {
            crate::sys::emulation::say_skipped(&format!("{}, which this build was made without", case.name));
            continue;
        }
        seen += 1;
        let name = format!("{}.toml", case.name);
        let problems = Config::parse(&case.toml, &name, kinds, &facts()).expect_err(&name);
        let message = format!("{problems}\n");
        let printable = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
        assert!(printable(&message), "{name}: control characters reach the terminal");
        assert!(problems.render(true).contains("\u{1b}["), "{name}: no colour");
        if case.message != message {
            changed.push(message.clone());
            case.message = message;
        }
    }
    if update {
        cases::write("refused", topic, &cases);
    } else {
        assert!(changed.is_empty(), "changed; run with UPDATE=1 and read the difference:\n{}", changed.join("\n"));
    }
    seen
}

/// Topics whose cases need hertzd's own kinds.
const BUILT_IN: &[&str] = &[
    "sensor",
    "i2c",
    "gpio",
    "video",
    "audio",
    "output",
    "can",
    "value-names",
    "pid",
    "filter",
    "expr",
    "profile",
    "process",
];

#[test]
fn bad_configurations_are_refused_with_these_messages() {
    let topics = cases::topics("refused").into_iter();
    let topics = topics.filter(|topic| !BUILT_IN.contains(&topic.as_str()) && topic != "without-audio");
    let seen: usize = topics.map(|topic| refuse_all(&topic, &kinds())).sum();
    assert!(seen >= 160, "only {seen} cases");
}

#[test]
fn bad_tasks_of_the_built_in_kinds_are_refused_with_these_messages() {
    let seen: usize = BUILT_IN.iter().map(|topic| refuse_all(topic, &Kinds::builtin())).sum();
    assert!(seen >= 26, "only {seen} cases");
}

#[test]
#[cfg(not(feature = "audio"))]
fn a_kind_left_out_of_the_build_is_refused_with_how_to_get_it() {
    assert_eq!(refuse_all("without-audio", &Kinds::builtin()), 1);
}

#[test]
fn files_that_are_not_text_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let problems = Config::load(path, &kinds(), &facts()).unwrap_err();
        problems.to_string().replace(directory.path().to_str().unwrap(), "")
    };
    let written = |bytes: &[u8]| {
        let path = directory.path().join("a.toml");
        fs::write(&path, bytes).unwrap();
        refused(&path)
    };
    let end = "\n\n1 problem; nothing was started";
    let missing = refused(&directory.path().join("none.toml"));
    assert_eq!(missing, format!("error: /none.toml cannot be read: No such file or directory (os error 2){end}"));
    let message = refused(directory.path());
    assert_eq!(message, format!("error:  cannot be read: Is a directory (os error 21){end}"));

    let message = written(b"[task.a]\nkind = \"\xff\"\n");
    assert!(
        message.starts_with("error: byte 0xFF is not UTF-8; save the file as UTF-8\n --> /a.toml:2:9\n"),
        "{message}"
    );
    let message = written(b"\xef\xbb\xbf[task.a]\n");
    assert!(
        message.starts_with("error: starts with a byte order mark; save the file as UTF-8 without one"),
        "{message}"
    );
    assert!(message.contains(" --> /a.toml:1:1\n"), "{message}");
    assert!(written(b"\xff\xfe[\0t\0").contains("/a.toml:1:1\n"));
    let message = written(b"[task.a]\nkind = \"\0\0\"\n");
    assert!(message.contains(" --> /a.toml:2:9\n"), "{message}");
    assert!(written(&vec![b'#'; (1 << 20) + 1]).contains("is larger than the limit of 1 MiB"));
    assert!(refused(Path::new("/dev/zero")).contains("is larger than the limit of 1 MiB"));
    assert!(refused(Path::new("/dev/null")).contains("needs at least one task"));
    let many = written("=\n".repeat(5_000).as_bytes());
    assert!(many.ends_with("5000 problems, of which the first 50; nothing was started"), "{many}");
    // This would take a minute or more if each of these were examined as closely as a slip.
    let line = written(format!("x = [{}]\ny = \"\\q\"\n", "\"\\q\",".repeat(200_000)).as_bytes());
    assert!(line.ends_with("2 problems; nothing was started"), "{line}");
    let keys: String = (0..90_000).map(|n| format!("k{n}=1\n")).collect();
    let refused = parse(format!("[task.a]\nkind = \"count\"\nrate = 100\n{keys}")).unwrap_err();
    let with_help = refused.iter().filter(|problem| problem.help.is_some()).count();
    assert_eq!((refused.iter().count(), with_help), (90_000, 100));
}

#[test]
fn omitted_keys_have_their_defaults() {
    let config = parse("[task.imu]\nkind = \"count\"\nrate = 100\n").unwrap();
    let (worker, task) = (&config.workers[0], &config.tasks[0]);
    assert_eq!((worker.name.as_str(), worker.cpus.len()), ("main", 0));
    assert_eq!(worker.scheduling, Scheduling::Fifo { priority: 80 });
    assert_eq!((worker.spin, worker.clock, worker.require_realtime), (Spin::Off, ClockKind::Monotonic, false));
    assert!(worker.simulated_oversleep.is_empty());
    assert_eq!((task.name.as_str(), task.kind, task.worker), ("imu", "count", 0));
    assert_eq!((task.rate, task.phase), (Rate::new(100, 1).unwrap(), Span::ZERO));
    assert_eq!((task.overrun, task.deadline, task.budget), (Overrun::KeepWorking, Span::from_millis(10), None));
    assert_eq!(
        (task.on_error, task.overrun_limit, &task.record, &task.simulated_run),
        (OnError::Continue, None, &None, &None)
    );
    let limited = parse("[task.imu]\nkind = \"count\"\nrate = 100\noverrun-limit = 5\n").unwrap();
    let limit = OverrunLimit { count: 5, leak: Span::from_seconds(1), action: LimitAction::Warn };
    assert_eq!(limited.tasks[0].overrun_limit, Some(limit));
    assert_eq!(task.blueprint.run(), [Span::from_micros(1)]);
    assert!(parse("[task.imu]\nkind = \"count\"\nrate = 100\nworker = \"main\"\n").is_ok());
}

#[test]
fn keys_set_the_values_they_state() {
    let text = r#"
        [worker.fast]
        cpus = [1, 0]
        policy = "rr"
        priority = 99
        spin = "auto"
        spin-cpu-max = "12.5%"
        spin-target = "p99.5 < 1us"
        clock = "tai"
        require-realtime = true
        simulate.oversleep = ["60us", "0s"]

        [worker.edf]
        policy = "deadline"
        spin = "50us"

        [task.b]
        kind = "count"
        worker = "fast"
        rate = "30000/1001 Hz"
        phase = "250us"
        overrun = "catch-up"
        max-catch-up = 7
        deadline = "800us"
        budget = "200µs"
        on-error = "exit"
        overrun-limit = 1_000_000
        overrun-leak = "20ms"
        on-overrun-limit = "disable"
        record = "b.csv"
        step = 3
        simulate.run = "18ms"

        [task.a]
        kind = "echo"
        worker = "edf"
        period = "1.5ms"
        overrun = "credit"
        max-debt = "2s"
        from-file = "x"

        [task.c]
        kind = "open"
        worker = "edf"
        rate = 0.2
        anything = 5
    "#;
    let config = parse(text).unwrap();
    let [fast, edf] = &config.workers[..] else { panic!("{:?}", config.workers) };
    assert_eq!((&fast.cpus[..], fast.scheduling), (&[0, 1][..], Scheduling::Rr { priority: 99 }));
    let target = Some(Target { thousandths: 995, below: Span::from_micros(1) });
    assert_eq!(
        (fast.spin, fast.clock, fast.require_realtime),
        (Spin::Auto { cpu_max: 0.125, target }, ClockKind::Tai, true)
    );
    assert_eq!(fast.simulated_oversleep, [Span::from_micros(60), Span::ZERO]);
    // Half the period, plus for each of the two tasks a spin tail and the 10 µs that are too short for a sleep.
    let (runtime, period) = (Span::from_micros(750 + 2 * 60), Span::from_micros(1_500));
    assert_eq!(
        (edf.scheduling, edf.spin),
        (Scheduling::Deadline { runtime, period }, Spin::Fixed(Span::from_micros(50)))
    );

    let [b, a, c] = &config.tasks[..] else { panic!("{:?}", config.tasks) };
    assert_eq!((b.name.as_str(), a.name.as_str(), c.name.as_str()), ("b", "a", "c"), "the order of the file");
    assert_eq!((b.worker, b.rate, b.phase), (0, Rate::new(30_000, 1_001).unwrap(), Span::from_micros(250)));
    assert_eq!((b.overrun, b.deadline), (Overrun::CatchUp { max: 7 }, Span::from_micros(800)));
    let limit = OverrunLimit { count: 1_000_000, leak: Span::from_millis(20), action: LimitAction::Disable };
    assert_eq!(b.overrun_limit, Some(limit));
    assert_eq!((b.budget, b.on_error), (Some(Span::from_micros(200)), OnError::Exit));
    assert_eq!(
        (b.record.as_ref().map(|record| &*record.path), b.simulated_run.as_deref()),
        (Some(Path::new("b.csv")), Some(&[Span::from_millis(18)][..]))
    );
    assert_eq!(b.blueprint.run(), [Span::from_micros(3)]);
    assert_eq!((a.worker, a.rate), (1, Rate::new(2_000, 3).unwrap()));
    assert_eq!(a.overrun, Overrun::Credit { max_debt: Span::from_seconds(2) });
    assert_eq!(c.rate, Rate::new(1, 5).unwrap());
}

#[test]
fn a_section_is_unchanged_when_its_identity_is() {
    let identities = |text: &str| {
        let config = parse(text).unwrap_or_else(|problems| panic!("{problems}"));
        (config.workers[0].identity.clone(), config.tasks[0].identity.clone())
    };
    let first = identities("[task.a]\nkind = \"count\"\nrate = 100\nstep = 2\n");
    assert_eq!(first, identities("[worker.main]\n[task.a]\nstep = 2 # two\n\nrate=100\nkind = 'count'\n"));
    let explicit =
        "task = { a = { worker = \"main\", kind = \"count\", rate = 100, step = 2, simulate.run = \"1s\" } }\n";
    assert_eq!(first, identities(explicit));
    assert_eq!(first, identities(&format!("{explicit}worker.main.simulate.oversleep = \"1us\"")));

    let (worker, task) = identities("[worker.main]\npriority = 70\n[task.a]\nkind = \"count\"\nrate = 100\nstep = 2\n");
    assert_ne!(worker, first.0);
    assert_eq!(task, first.1, "the worker's keys are the worker's");
    for changed in
        ["rate = 101\nstep = 2", "rate = 100\nstep = 3", "rate = 100", "rate = 100\nstep = 2\nphase = \"0s\""]
    {
        assert_ne!(identities(&format!("[task.a]\nkind = \"count\"\n{changed}\n")).1, first.1, "{changed}");
    }
    let moved = identities("[worker.other]\n[task.a]\nkind = \"count\"\nrate = 100\nstep = 2\n");
    assert_ne!(moved.1, first.1, "another worker, though neither text names one");
}

#[test]
fn a_problem_found_after_parsing_is_shown_with_its_line() {
    let config = parse("[task.imu]\nkind = \"echo\"\nrate = 100\nfrom-file = \"/nix\"\n").unwrap();
    let message = Problems::at(&config.tasks[0].section, "from-file", "no such file").to_string();
    assert!(
        message.starts_with("error: task.imu: from-file = \"/nix\"; no such file\n --> hertzd.toml:4:13\n"),
        "{message}"
    );
    let message = Problems::at(&config.tasks[0].section, "gain", "too low").to_string();
    assert!(message.starts_with("error: task.imu: gain: too low\n --> hertzd.toml:1:7\n"), "{message}");
    let message = Problems::at(&config.workers[0].section, "cpu", "is busy").to_string();
    assert!(message.starts_with("error: worker.main: cpu: is busy\n --> hertzd.toml:1:1\n"), "{message}");
    let at = |key| Problems::at(&config.tasks[0].section, key, "no good");
    let both = at("from-file").and(at("gain"));
    assert_eq!(both.iter().map(|problem| problem.key.as_str()).collect::<Vec<_>>(), ["gain", "from-file"]);
    assert!(both.to_string().ends_with("2 problems; nothing was started"), "{both}");
}

#[test]
fn recordings() {
    let parsed = |keys: &str| parse(format!("[task.a]\nkind = \"count\"\nrate = 1\n{keys}\n")).unwrap();
    let keys = "record = \"./a/./x.WAV\"\nrecord-max-size = \"1.5 MB\"\nrecord-max-time = \"1h\"\nrecord-keep = 3\nqueue = \"mailbox\"";
    let config = parsed(keys);
    let (task, hour) = (&config.tasks[0], Span::from_seconds(3_600));
    let wanted = RecordConfig {
        path: "a/x.WAV".into(),
        format: RecordFormat::Wav,
        max_size: Some(1_500_000),
        max_time: Some(hour),
        keep: Some(3),
    };
    assert_eq!((task.record.as_ref(), task.queue), (Some(&wanted), Queue::Mailbox));
    let config = parsed("record = \"x.Csv\"");
    let wanted =
        RecordConfig { path: "x.Csv".into(), format: RecordFormat::Csv, max_size: None, max_time: None, keep: None };
    assert_eq!((config.tasks[0].record.as_ref(), config.tasks[0].queue), (Some(&wanted), Queue::Fifo));
}

#[test]
fn tasks_that_share_an_mcap_share_its_limits() {
    if !cfg!(feature = "mcap") {
        crate::sys::emulation::say_skipped("built without MCAP");
        return;
    }
    let task =
        |name: &str, keys: &str| format!("[task.{name}]\nkind = \"count\"\nrate = 1\nrecord = \"x.mcap\"\n{keys}\n");
    let text =
        task("a", "") + &task("b", "record-keep = 3") + &task("c", "record-keep = 3\nrecord-max-size = \"1 MiB\"");
    for task in parse(text).unwrap().tasks {
        let record = task.record.unwrap();
        assert_eq!((record.keep, record.max_size, record.max_time), (Some(3), Some(1 << 20), None), "{}", task.name);
    }
}

#[test]
fn a_fixed_spin_tail_may_use_four_fifths_of_a_cpu() {
    let spun =
        |rate: &str| parse(format!("[worker.a]\nspin = \"80us\"\n[task.a]\nkind = \"count\"\nrate = {rate}\n")).is_ok();
    assert!(spun("10000") && !spun("10001"));
}

#[test]
fn the_schema_knows_every_kind() {
    let schema = schema(&kinds());
    let of_kinds = schema["$defs"]["task"]["allOf"].as_array().unwrap().iter();
    let of_kinds: Vec<_> = of_kinds.filter(|rule| rule["then"]["description"].is_string()).collect();
    let names: Vec<_> = of_kinds.iter().map(|kind| &kind["if"]["properties"]["kind"]["const"]).collect();
    assert_eq!(names, ["count", "echo", "open"]);
    assert_eq!(of_kinds[0]["then"]["properties"]["step"]["maximum"], 10);
    assert!(of_kinds[1]["then"]["properties"]["from-file"].is_object());
    assert_eq!(of_kinds[2]["then"]["additionalProperties"], true);
    assert_eq!(schema["$defs"]["task"]["properties"]["kind"]["enum"], serde_json::json!(names));
    for (table, keys) in [("worker", WORKER_KEYS), ("task", TASK_KEYS)] {
        let properties = schema["$defs"][table]["properties"].as_object().unwrap();
        assert_eq!(properties.len(), keys.len() + 1, "the keys and simulate");
        for key in keys {
            let about = properties[key.name]["description"].as_str().unwrap();
            assert!(about.starts_with(&key.text()), "{table}.{}", key.name);
        }
    }
}
