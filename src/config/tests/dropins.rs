//! Configurations in several files: which files are read and in which order, what a later file changes, and that each
//! problem is shown in the file that caused it.

use crate::config::{Blueprint, BuildError, Config, Facts, Key, Kind, Kinds, Problems, Section, Value};
use crate::pacing::Rate;
use crate::site::Site;
use crate::sys::emulation;
use crate::task::{Task, Tick, TickError};
use crate::time::Span;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

const MAIN: &str = "[task.imu]\nkind = \"count\"\nrate = 100\n";

fn kinds() -> Kinds {
    const STEP: Key = Key::new("step", Value::Integer { min: 1, max: 10 }, "").default("1");
    Kinds::empty().add(Kind::new("count", "Counts.", &[STEP], |section: &mut Section<'_>| {
        let step = section.integer(&STEP)?;
        let build = |_: &mut Site| Err(BuildError { key: "step", message: "only read".to_owned() });
        Some(Blueprint::new(build).taking(vec![Span::from_micros(step)]))
    }))
}

fn facts() -> Facts {
    Facts { online_cpus: vec![0, 1], cpu_set_size: 1024 }
}

/// A folder with `hertzd.toml` and its drop-ins.
struct Etc(TempDir);

impl Etc {
    fn new(main: &str) -> Self {
        let etc = Self(tempfile::tempdir().unwrap());
        etc.write("hertzd.toml", main)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn drop_in(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(&format!("hertzd.d/{name}"), text)
    }

    fn try_load(&self) -> Result<Config, Problems> {
        Config::load(&self.path("hertzd.toml"), &kinds(), &facts())
    }

    fn load(&self) -> Config {
        self.try_load().unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The report, with the folder's path removed.
    fn refused(&self) -> String {
        let report = self.try_load().expect_err("the configuration is invalid").to_string();
        report.replace(&format!("{}/", self.0.path().display()), "")
    }

    fn read(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.strip_prefix(self.0.path()).unwrap().to_str().unwrap().to_owned();
        self.load().files.iter().map(name).collect()
    }
}

fn hertz(rate: u64) -> Rate {
    Rate::new(rate, 1).unwrap()
}

#[test]
fn without_drop_ins_only_the_file_is_read() {
    let etc = Etc::new(MAIN);
    assert_eq!(etc.read(), ["hertzd.toml"]);
    let parsed = Config::parse(MAIN, "hertzd.toml", &kinds(), &facts()).unwrap();
    assert!(parsed.files.is_empty());
    assert_eq!(parsed.tasks[0].identity, etc.load().tasks[0].identity);

    fs::write(etc.path("hertzd.d"), "hertzd.toml: a build's dependencies\n").unwrap();
    assert_eq!(etc.read(), ["hertzd.toml"], "not a folder");
    let etc = Etc::new(MAIN).write("hertzd.toml.d/a.toml", "=").write("hertz.d/a.toml", "=").write("a.toml", "=");
    assert_eq!(etc.read(), ["hertzd.toml"], "folders of other names");
    let mut etc = etc.write("a.b.toml", MAIN).write("a.b.d/a.toml", "task.imu.rate = 7\n");
    assert_eq!(Config::load(&etc.path("a.b.toml"), &kinds(), &facts()).unwrap().tasks[0].rate, hertz(7));
    for name in ["plain", "plain.conf", "plain.TOML", ".toml"] {
        etc = etc.write(name, MAIN).write("plain.d/a.toml", "=").write(".toml.d/a.toml", "=").write(".d/a.toml", "=");
        let config = Config::load(&etc.path(name), &kinds(), &facts()).unwrap();
        assert_eq!(config.files, [etc.path(name)], "a name without the ending");
    }
}

#[test]
fn drop_ins_are_merged_in_the_order_of_their_names() {
    let etc = Etc::new(MAIN)
        .drop_in("9.toml", "task.imu.rate = 9\n")
        .drop_in("10.toml", "task.imu.rate = 10\ntask.imu.step = 10\n")
        .drop_in("Z.toml", "task.imu.step = 3\n")
        .drop_in("ä.toml", "task.imu.phase = \"1ms\"\n")
        .drop_in(".hidden.toml", "=")
        .drop_in(".toml", "=")
        .drop_in("a.toml~", "=")
        .drop_in("a.toml.rpmsave", "=")
        .drop_in("a.TOML", "=")
        .drop_in("README", "=")
        .drop_in("folder/a.toml", "=");
    assert_eq!(
        etc.read(),
        ["hertzd.toml", "hertzd.d/10.toml", "hertzd.d/9.toml", "hertzd.d/Z.toml", "hertzd.d/ä.toml"]
    );
    let task = &etc.load().tasks[0];
    assert_eq!((task.rate, task.phase), (hertz(9), Span::from_millis(1)));
    assert_eq!(task.blueprint.run(), [Span::from_micros(3)]);
}

#[test]
fn a_drop_in_changes_adds_and_completes() {
    let etc = Etc::new(
        "[worker.main]\ncpus = [0, 1]\nsimulate.oversleep = [\"1us\", \"2us\"]\n\
         [task.imu]\nkind = \"count\"\nworker = \"late\"\nrate = 100\n\
         [task.log]\nkind = \"count\"\nworker = \"main\"\nrate = 1\n",
    )
    .drop_in("1.toml", "worker = { main = { cpus = [1], priority = 70 }, late = {} }\n")
    .drop_in("2.toml", "[task.new]\nkind = \"count\"\nworker = \"main\"\nrate = 5\n")
    .drop_in("3.toml", "[worker.main.simulate]\noversleep = \"5us\"\n[task.new]\nrate = 6\n");
    let config = etc.load();
    let workers: Vec<_> = config.workers.iter().map(|worker| worker.name.as_str()).collect();
    let tasks: Vec<_> = config.tasks.iter().map(|task| (task.name.as_str(), task.worker)).collect();
    assert_eq!(workers, ["main", "late"]);
    assert_eq!(tasks, [("imu", 1), ("log", 0), ("new", 0)]);
    assert_eq!(config.workers[0].cpus, [1], "a list is replaced as a whole");
    assert_eq!(config.workers[0].simulated_oversleep, [Span::from_micros(5)]);
    assert_eq!(config.tasks[2].rate, hertz(6));
}

#[test]
fn the_main_file_may_be_empty() {
    for main in ["", "# see hertzd.d\n"] {
        assert_eq!(Etc::new(main).drop_in("a.toml", MAIN).load().tasks[0].rate, hertz(100));
    }
    let nothing = Etc::new("").drop_in("a.toml", "[worker.main]\n").refused();
    assert!(nothing.starts_with("error: task: a configuration needs at least one task"), "{nothing}");
    assert!(nothing.contains("\n --> hertzd.toml:1:1\n"), "{nothing}");
}

#[test]
fn empty_files_and_links_to_dev_null_add_nothing() {
    let etc = Etc::new(MAIN).drop_in("1.toml", "").drop_in("3.toml", "task.imu.rate = 3\n");
    symlink("/dev/null", etc.path("hertzd.d/2.toml")).unwrap();
    symlink(etc.path("hertzd.d/3.toml"), etc.path("hertzd.d/4.toml")).unwrap();
    assert_eq!(etc.load().tasks[0].rate, hertz(3));
    assert_eq!(etc.read().len(), 5, "masks are read as well");
    fs::remove_file(etc.path("hertzd.d/4.toml")).unwrap();
    fs::write(etc.path("hertzd.d/3.toml"), "").unwrap();
    assert_eq!(etc.load().tasks[0].rate, hertz(100));
}

#[test]
fn a_problem_is_shown_in_its_file() {
    let etc = Etc::new("[task.imu]\nkind = \"count\"\n")
        .drop_in("1.toml", "# größer\n[task.imu]\nphase = \"5 fortnights\"\nstpe = 2\n")
        .drop_in("2.toml", "\n[task.b]\nkind = \"count\"\nrate = 0\nstep = 11");
    assert_eq!(
        etc.refused(),
        "error: task.imu: rate: missing; write rate (\"1 kHz\") or period (\"1ms\")\n --> hertzd.toml:1:7\n  |\n\
         1 | [task.imu]\n  |       ^^^\n\n\
         error: task.imu: phase = \"5 fortnights\"; must be one number with one of the units ns, us, µs, ms, s, min, h\n \
         --> hertzd.d/1.toml:3:9\n  |\n3 | phase = \"5 fortnights\"\n  |         ^^^^^^^^^^^^^^\n\n\
         error: task.imu: stpe: unknown key\n --> hertzd.d/1.toml:4:1\n  |\n4 | stpe = 2\n  | ^^^^\n  |\n  \
         = help: did you mean `step`?\n\n\
         error: task.b: rate = 0; must be above 0 (at least one tick in 24 hours) and at most 1 MHz\n \
         --> hertzd.d/2.toml:4:8\n  |\n4 | rate = 0\n  |        ^\n\n\
         error: task.b: step = 11; must be a whole number from 1 to 10\n \
         --> hertzd.d/2.toml:5:8\n  |\n5 | step = 11\n  |        ^^\n\n\
         5 problems; nothing was started"
    );
}

#[test]
fn all_unparsable_files_are_named() {
    let etc = Etc::new("[task.imu\n")
        .drop_in("1.toml", b"# \xc3\xa4\n[task.a]\nkind = \"\xff\"\n")
        .drop_in("2.toml", "\u{feff}[task.b]\n")
        .drop_in("3.toml", "task.c.rate =")
        .drop_in("4.toml", "task.c.rate = 0\n")
        .drop_in("5.toml", vec![b'#'; (1 << 20) + 1])
        .drop_in("7.toml/file", "");
    symlink("nowhere", etc.path("hertzd.d/6.toml")).unwrap();
    let report = etc.refused();
    let titles: Vec<_> = report.lines().filter(|line| line.starts_with("error: ") || line.contains("-->")).collect();
    assert_eq!(
        titles,
        [
            "error: hertzd.d/5.toml is larger than the limit of 1 MiB",
            "error: hertzd.d/6.toml cannot be read: No such file or directory (os error 2)",
            "error: hertzd.d/7.toml is not a file",
            "error: not TOML: unclosed table, expected `]`",
            " --> hertzd.toml:1:10",
            "error: byte 0xFF is not UTF-8; save the file as UTF-8",
            " --> hertzd.d/1.toml:3:9",
            "error: starts with a byte order mark; save the file as UTF-8 without one",
            " --> hertzd.d/2.toml:1:1",
            "error: the value is missing",
            " --> hertzd.d/3.toml:1:14",
        ],
        "{report}"
    );
    assert!(report.ends_with("7 problems; nothing was started"), "{report}");

    let etc = Etc::new(MAIN).drop_in("a\n\u{1b}[2J.toml", "=").drop_in("b\n.toml/file", "");
    let report = etc.refused();
    assert!(report.contains("hertzd.d/b\\n.toml is not a file"), "{report}");
    assert!(report.contains(" --> hertzd.d/a\\n\\u{1b}[2J.toml:1:1\n"), "{report}");

    let etc = Etc::new("").drop_in("a.toml", "=");
    fs::remove_file(etc.path("hertzd.toml")).unwrap();
    let report = etc.refused();
    assert!(report.starts_with("error: hertzd.toml cannot be read: No such file"), "{report}");
    assert!(report.contains(" --> hertzd.d/a.toml:1:1\n"), "{report}");
}

#[test]
fn a_folder_that_cannot_be_read_is_refused() {
    let etc = Etc::new(MAIN).drop_in("a.toml", "");
    let folder = etc.path("hertzd.d");
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o000);
    if fs::read_dir(&folder).is_ok() {
        mode(0o755);
        emulation::say_skipped("root reads every folder");
        return;
    }
    let unlisted = etc.refused();
    mode(0o444);
    let unopened = etc.refused();
    mode(0o755);
    let end = "cannot be read: Permission denied (os error 13)\n\n1 problem; nothing was started";
    assert_eq!(unlisted, format!("error: hertzd.d {end}"));
    assert_eq!(unopened, format!("error: hertzd.d/a.toml {end}"));
}

#[test]
fn two_keys_that_exclude_each_other_are_refused_at_the_later_one() {
    let report = Etc::new(MAIN).drop_in("a.toml", "[task.imu]\nperiod = \"2ms\"\n").refused();
    assert_eq!(
        report,
        "error: task.imu: period = \"2ms\"; write either rate or period, not both\n --> hertzd.d/a.toml:2:10\n  |\n\
         2 | period = \"2ms\"\n  |          ^^^^^\n  |\n  \
         = help: to change what an earlier file says, override the same key: `rate`\n\n\
         1 problem; nothing was started"
    );
    let main = "[worker.main]\ncpus = [0]\n[task.imu]\nkind = \"count\"\nperiod = \"10ms\"\n";
    let report = Etc::new(main).drop_in("a.toml", "worker.main.cpu = 1\ntask.imu.rate = 1\n").refused();
    assert!(report.contains("worker.main: cpu = 1; write either cpu or cpus, not both\n --> hertzd.d/a.toml:1:19\n"));
    assert!(report.contains("task.imu: rate = 1; write either rate or period, not both\n --> hertzd.d/a.toml:2:17\n"));
    let within = Etc::new("[task.imu]\nkind = \"count\"\nperiod = \"10ms\"\nrate = 1\n").refused();
    assert!(within.contains("task.imu: rate = 1; write either") && !within.contains("help"), "{within}");
}

#[test]
fn a_table_replaced_by_a_value_is_refused_in_the_later_file() {
    let report = Etc::new(MAIN).drop_in("a.toml", "\ntask.imu = 5\n").refused();
    assert!(report.contains("task: imu = 5; must be a table: each task has a name"), "{report}");
    assert!(report.contains(" --> hertzd.d/a.toml:2:12\n"), "{report}");
    let mended = Etc::new(&format!("worker = 5\n{MAIN}")).drop_in("a.toml", "[worker.main]\ncpu = 1\n");
    assert_eq!(mended.load().workers[0].cpus, [1]);
}

#[test]
fn a_problem_found_after_merging_is_shown_at_the_value() {
    let etc = Etc::new(MAIN).drop_in("a.toml", "task.imu.step = 3\n");
    let section = &etc.load().tasks[0].section;
    let at = |key| Problems::at(section, key, "no good").to_string();
    assert!(at("step").contains("hertzd.d/a.toml:1:17\n"));
    assert!(at("rate").contains("hertzd.toml:3:8\n"));
    assert!(at("phase").contains("hertzd.toml:1:7\n"));
    assert!(format!("{section:?}").ends_with("/hertzd.toml: task.imu"), "{section:?}");
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Filter {
    taps: Taps,
    gain: f64,
}

#[derive(serde::Deserialize)]
struct Taps {
    left: u8,
    right: u8,
}

impl Task for Filter {
    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        values.fill(self.gain * f64::from(self.taps.left.max(self.taps.right)));
        Ok(())
    }
}

#[test]
fn an_error_of_serde_is_shown_in_its_file() {
    let kinds = Kinds::empty().with::<Filter>("filter", "Filters.");
    let refused = |main: &str, drop_in: &str| {
        let etc = Etc::new(&format!("[task.f]\nkind = \"filter\"\nrate = 1\n{main}")).drop_in("a.toml", drop_in);
        let report = Config::load(&etc.path("hertzd.toml"), &kinds, &facts()).unwrap_err().to_string();
        report.replace(&format!("{}/", etc.0.path().display()), "")
    };
    let report = refused("gain = 1\ntaps.left = 1\n", "\n[task.f.taps]\nright = 256\n");
    assert!(report.starts_with("error: task.f: taps = 256; invalid value: integer `256`, expected u8\n"), "{report}");
    assert!(report.contains(" --> hertzd.d/a.toml:3:9\n"), "{report}");
    let report = refused("taps = { left = 1, right = 2 }\n", "task.f.phase = \"1ms\"\n");
    assert!(report.starts_with("error: task.f: missing field `gain`\n --> hertzd.toml:1:7\n"), "{report}");
}

/// One line for each table; together they are valid.
const LINES: &[(&str, &str)] = &[
    ("worker.main", "priority = 70"),
    ("worker.main", "cpus = [0, 1]"),
    ("worker.main.simulate", "oversleep = [\"60us\", \"0s\"]"),
    ("task.imu", "kind = \"count\""),
    ("task.imu", "rate = \"30000/1001 Hz\""),
    ("task.imu", "step = 3"),
    ("task.imu", "overrun = \"catch-up\""),
    ("task.imu", "max-catch-up = 7"),
    ("task.imu.simulate", "run = \"1ms\""),
    ("task.log", "kind = \"count\""),
    ("task.log", "period = \"2.5ms\""),
    ("task.log", "overrun-limit = 0x10"),
];

fn write_lines<'a>(lines: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    lines.map(|(table, line)| format!("{table}.{line} # here\n")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Neither moving keys between files nor overriding an earlier value changes the result.
    #[test]
    fn it_does_not_matter_which_file_sets_a_key(
        order in Just(LINES.to_vec()).prop_shuffle(),
        places in prop::collection::vec(0..3_usize, LINES.len()),
        overridden in prop::collection::vec(any::<bool>(), LINES.len()),
    ) {
        let of = |place| write_lines(order.iter().zip(&places).filter(move |(_, at)| **at == place).map(|(line, _)| line));
        let earlier: String = order
            .iter()
            .zip(&places)
            .zip(&overridden)
            .filter(|((_, at), overridden)| **at > 0 && **overridden)
            .map(|(((table, line), _), _)| format!("{table}.{} = 99\n", line.split(' ').next().unwrap()))
            .collect();
        let etc = Etc::new(&(of(0) + &earlier)).drop_in("a.toml", of(1)).drop_in("b.toml", of(2));
        let split = etc.load();
        let whole = Config::parse(write_lines(LINES.iter()), "whole.toml", &kinds(), &facts()).unwrap();
        let identities = |config: &Config| {
            let workers = config.workers.iter().map(|worker| (worker.name.clone(), worker.identity.clone()));
            let tasks = config.tasks.iter().map(|task| (task.name.clone(), task.identity.clone()));
            let mut all: Vec<_> = workers.chain(tasks).collect();
            all.sort();
            all
        };
        prop_assert_eq!(identities(&split), identities(&whole));
    }

    /// Random files never panic, and every problem points into one of them.
    #[test]
    fn random_files_are_read_or_refused(texts in prop::collection::vec(
        prop::collection::vec(prop::sample::select(&[
            "[task.imu]\n", "[task.log]\n", "[worker.main]\n", "task", ".", "imu", " = ", "5", "{", "}", "[", "]",
            "\"µ\"", "\n", "\r", "kind = \"count\"\n", "rate = 100\n", "rate = 0\n", "step = 2\n", "period = \"1ms\"\n",
            "'''", "\u{feff}", "simulate.run = [\"1ms\", 5]\n",
        ][..]), 0..12), 1..4)) {
        let mut etc = Etc::new(&texts[0].concat());
        for (index, text) in texts[1..].iter().enumerate() {
            etc = etc.drop_in(&format!("{index}.toml"), text.concat());
        }
        match etc.try_load() {
            Ok(config) => prop_assert_eq!(config.files.len(), texts.len()),
            Err(problems) => {
                for problem in problems.iter() {
                    let span = problem.span.clone().unwrap();
                    prop_assert!(problems.text().get(span).is_some(), "{problem:?}");
                }
                prop_assert!(problems.to_string().ends_with("nothing was started"));
            }
        }
    }
}
