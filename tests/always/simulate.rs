//! `hertzd simulate` end to end: the built binary, a configuration file, and the output.

use crate::random::SplitMix;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A line of `--json`. Instants past 292 years need more than 64 bits; floating-point numbers would round them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    task: String,
    n: u64,
    release_ns: i128,
    started_ns: i128,
    finished_ns: i128,
    skipped: u64,
}

impl Line {
    fn lateness(&self) -> i128 {
        self.started_ns - self.release_ns
    }
}

#[derive(Debug, Deserialize)]
struct Summary {
    version: u32,
    workers: Vec<WorkerSummary>,
    tasks: Vec<TaskSummary>,
    records: Records,
}

#[derive(Debug, Deserialize)]
struct WorkerSummary {
    worker: String,
    wakes: u64,
    oversleep_ns: Distribution,
}

#[derive(Debug, Deserialize)]
struct TaskSummary {
    task: String,
    rate: String,
    due: u64,
    met: u64,
    missed: u64,
    pending: u64,
    causes: BTreeMap<String, u64>,
    blockers: BTreeMap<String, u64>,
    ran: u64,
    skipped: u64,
    overruns: u64,
    lateness_ns: Distribution,
}

#[derive(Debug, Deserialize)]
struct Distribution {
    count: u64,
    min: i64,
    max: i64,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Records {
    sent: u64,
    dropped: u64,
}

/// A configuration in a temporary file.
struct Config {
    _dir: TempDir,
    path: PathBuf,
}

fn config(text: &str) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.toml");
    std::fs::write(&path, text).unwrap();
    Config { _dir: dir, path }
}

fn hertzd(config: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
    command.arg("simulate").arg(config).arg("--json").args(args);
    command
}

fn output(text: &str, args: &[&str]) -> Output {
    let config = config(text);
    let output = hertzd(&config.path, args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{args:?}: {}, {stderr}\n{text}", output.status);
    output
}

/// All lines except the last, and the last.
fn simulate(text: &str, args: &[&str]) -> (Vec<Line>, Summary) {
    let output = output(text, args);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with('\n'), "{stdout}");
    let mut lines: Vec<_> = stdout.lines().collect();
    let summary = lines.pop().unwrap();
    let line = |line: &&str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let summary: Summary = serde_json::from_str(summary).unwrap_or_else(|error| panic!("{error}: {summary}"));
    for task in &summary.tasks {
        assert_eq!((task.met + task.missed, task.pending), (task.due, 0), "{task:?}");
        assert_eq!((task.missed, task.missed), (task.skipped + task.overruns, task.causes.values().sum()), "{task:?}");
    }
    (lines.iter().map(line).collect(), summary)
}

/// `floor(n·den·10⁹/num)`.
fn offset(n: u64, num: u64, den: u64) -> i128 {
    i128::from(n) * i128::from(den) * 1_000_000_000 / i128::from(num)
}

#[test]
fn a_line_per_tick_and_the_summary_last() {
    let text = "[task.slow]\nkind = \"load\"\nrate = 10\nrun = [\"250ms\", \"40ms\"]\n\
                [task.slow.simulate]\nrun = [\"225ms\", \"30ms\"]\n";
    let (lines, summary) = simulate(text, &["--for", "600ms"]);
    let millis = |(n, release, started, finished, skipped): (u64, i128, i128, i128, u64)| Line {
        task: "slow".to_owned(),
        n,
        release_ns: release * 1_000_000,
        started_ns: started * 1_000_000,
        finished_ns: finished * 1_000_000,
        skipped,
    };
    // The simulate table takes precedence over the task's own run time. A tick of 225 ms swallows release 1, runs 2
    // at once and leaves 3 its slot, whose own tick of 225 ms ends at 525 ms: 4 is lost, 5 late.
    let wanted = [(0, 0, 0, 225, 1), (2, 200, 225, 255, 0), (3, 300, 300, 525, 1), (5, 500, 525, 555, 0)].map(millis);
    assert_eq!(lines, wanted);

    assert_eq!(summary.version, 1);
    let [worker] = &summary.workers[..] else { panic!("{summary:?}") };
    assert_eq!((worker.worker.as_str(), worker.wakes), ("main", 1), "{worker:?}");
    let [task] = &summary.tasks[..] else { panic!("{summary:?}") };
    assert_eq!((task.task.as_str(), task.rate.as_str()), ("slow", "10/1"));
    assert_eq!((task.due, task.ran, task.skipped, task.overruns), (6, 4, 2, 2), "{task:?}");
    // Releases that never ran count with the lateness that they would have had.
    assert_eq!(task.lateness_ns.count, 6, "{task:?}");
    assert_eq!(summary.records, Records { sent: 4, dropped: 0 });
}

/// Video at 30 Hz passes tick 10¹² after a thousand years, and its release is still exact.
#[test]
fn tick_1e12_is_exact() {
    const FIRST: u64 = 1_000_000_000_000;
    let rates = [("30000/1001", 30_000, 1_001), ("44.1 kHz", 44_100, 1), ("1 kHz", 1_000, 1), ("7/3", 7, 3)];
    for (rate, num, den) in rates {
        let text = format!("[task.far]\nkind = \"load\"\nrate = \"{rate}\"\n");
        let (lines, summary) = simulate(&text, &["--for", "5s", "--first-tick", &FIRST.to_string()]);
        let start = offset(FIRST, num, den);
        let due = (FIRST..).take_while(|&n| offset(n, num, den) < start + 5_000_000_000).count();
        assert_eq!(lines.len(), due, "{rate}");
        for (line, n) in lines.iter().zip(FIRST..) {
            assert_eq!((line.n, line.release_ns), (n, offset(n, num, den)), "{rate}");
            assert_eq!((line.lateness(), line.finished_ns), (0, line.started_ns), "{rate}: {line:?}");
        }
        assert_eq!((summary.tasks[0].due, summary.tasks[0].skipped), (due as u64, 0), "{rate}");
    }
    assert_eq!(offset(FIRST, 30_000, 1_001), 33_366_666_666_666_666_666, "more than 64 bits hold");
}

/// Both start at that tick on one worker; on its clock a thousand years lie between them.
#[test]
fn far_ticks_of_several_rates_share_a_worker() {
    const FIRST: u64 = 1_000_000_000_000;
    let text =
        "[task.video]\nkind = \"load\"\nrate = \"30000/1001\"\n[task.audio]\nkind = \"load\"\nrate = \"44.1 kHz\"\n";
    let (lines, summary) = simulate(text, &["--for", "100ms", "--first-tick", &FIRST.to_string()]);
    for (index, (task, num, den)) in [("video", 30_000, 1_001), ("audio", 44_100, 1)].into_iter().enumerate() {
        let end = offset(FIRST, num, den) + 100_000_000;
        let wanted: Vec<_> = (FIRST..).map(|n| (n, offset(n, num, den))).take_while(|tick| tick.1 < end).collect();
        let lines = lines.iter().filter(|line| line.task == task);
        let found: Vec<_> = lines.map(|line| (line.n, line.started_ns)).collect();
        assert_eq!(found, wanted, "{task}");
        assert_eq!(summary.tasks[index].due, wanted.len() as u64);
    }
}

/// A first tick whose indices (64 bits) or instants (128 bits) would overflow is refused; a run from the highest possible tick ends.
#[test]
fn a_run_at_the_highest_ticks_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    std::fs::write(&path, "[task.a]\nkind = \"load\"\nrate = \"1 kHz\"\n[task.b]\nkind = \"load\"\nrate = \"7/3\"\n")
        .unwrap();
    let simulate = |first: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
        command.arg("simulate").arg(&path).args(["--for", "100ms", "--json", "--first-tick", &first.to_string()]);
        command.output().unwrap()
    };
    let refused = simulate(u64::MAX);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{stderr}");
    let (text, highest) = stderr.trim_end().trim_end_matches(" at most").rsplit_once(' ').unwrap();
    let counted = "task.a could not count its ticks or their nanoseconds; start at";
    assert_eq!(text, format!("hertzd: --first-tick {}: {counted}", u64::MAX));
    let highest: u64 = highest.parse().unwrap();
    assert_eq!(simulate(highest + 1).status.code(), Some(64));
    let ended = simulate(highest);
    assert!(ended.status.success());
    let stdout = String::from_utf8(ended.stdout).unwrap();
    let ticks: Vec<Line> = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |task: &str| ticks.iter().filter(|tick| tick.task == task).map(|tick| tick.n).collect::<Vec<_>>();
    assert_eq!(of("a"), (highest..highest + 100).collect::<Vec<_>>());
    assert_eq!(of("b"), [highest]);

    let slow = "[task.slow]\nkind = \"load\"\nrate = \"1234567/100000000000\"\n";
    std::fs::write(&path, slow).unwrap();
    assert_eq!(simulate(u64::MAX / 2).status.code(), Some(64));
    let (lines, _) = self::simulate(slow, &["--for", "100000s", "--first-tick", "1000000000000000000"]);
    assert_eq!(lines.len(), 2);
}

#[test]
fn the_due_count_of_five_minutes_is_exact() {
    let text = "[task.fast]\nkind = \"load\"\nrate = \"1 kHz\"\n[task.frames]\nkind = \"load\"\nrate = \"60 Hz\"\n";
    let (lines, summary) = simulate(text, &["--for", "5m", "--summary-only"]);
    assert_eq!(lines, []);
    let due = summary.tasks.iter().map(|task| (task.task.as_str(), task.due, task.ran, task.skipped));
    assert_eq!(due.collect::<Vec<_>>(), [("fast", 300_000, 300_000, 0), ("frames", 18_000, 18_000, 0)]);
    assert_eq!(summary.records, Records { sent: 318_000, dropped: 0 });
}

#[test]
fn due_counts_follow_from_rate_phase_and_length() {
    // The rate as text and as a fraction, and the phase in ns.
    let tasks = [
        ("\"30000/1001\"", (30_000, 1_001), 0),
        ("\"44.1 kHz\"", (44_100, 1), 22_675),
        ("59.94", (2_997, 50), 16_683_350),
        ("\"7/3\"", (7, 3), 428_571_428),
        ("0.3", (3, 10), 3_333_333_333),
        ("\"0.999 kHz\"", (999, 1), 1),
        ("1", (1, 1), 999_999_999),
        ("3", (3, 1), 333_333_333),
    ];
    let policies = ["drop", "keep-working", "catch-up", "credit"];
    let mut text = "[worker.main.simulate]\noversleep = [\"0ns\", \"70us\", \"1.3s\", \"9us\"]\n".to_owned();
    for (index, (rate, _, phase)) in tasks.iter().enumerate() {
        let overrun = policies[index % policies.len()];
        text += &format!(
            "[task.t{index}]\nkind = \"load\"\nrate = {rate}\nphase = \"{phase}ns\"\noverrun = \"{overrun}\"\n"
        );
        text += &format!("[task.t{index}.simulate]\nrun = [\"3us\", \"0ns\", \"{}us\"]\n", 20 * index);
    }
    for (length, nanos) in [("1ns", 1), ("333333333ns", 333_333_333), ("1s", 1_000_000_000), ("3s 7ns", 3_000_000_007)]
    {
        let (lines, summary) = simulate(&text, &["--for", length]);
        for (index, (task, (_, (num, den), phase))) in summary.tasks.iter().zip(tasks).enumerate() {
            let due = (0..).take_while(|&n| offset(n, num, den) + phase < nanos).count();
            assert_eq!(task.rate, format!("{num}/{den}"));
            assert_eq!((task.due, task.ran + task.skipped), (due as u64, due as u64), "{length}: {task:?}\n{text}");
            let lines: Vec<_> = lines.iter().filter(|line| line.task == format!("t{index}")).collect();
            assert_eq!(task.ran, lines.len() as u64, "{length}: {task:?}");
            for line in lines {
                assert_eq!(line.release_ns, offset(line.n, num, den) + phase, "{length}: {line:?}\n{text}");
                assert!(line.lateness() >= 0, "{length}: {line:?}\n{text}");
            }
        }
    }
}

#[test]
fn a_closed_pipe_ends_the_output_quietly_unless_a_rule_waits_for_the_end() {
    let config = config("[task.many]\nkind = \"load\"\nrate = \"100 kHz\"\n");
    for (rule, code, says) in
        [(&[][..], 0, ""), (&["--fail-if", "any.missed > 0"], 1, "no rule of --fail-if was judged")]
    {
        let mut command = hertzd(&config.path, &["--for", "24h"]);
        let mut child = command.args(rule).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap(); // the pipe is closed here
        assert_eq!(serde_json::from_str::<Line>(&first).unwrap().n, 0);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.is_empty()), (Some(code), says.is_empty()), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
}

#[test]
fn each_sleep_uses_up_one_oversleep() {
    let text = |simulated: &str| {
        format!(
            "[worker.main.simulate]\noversleep = [\"1ms\", \"2ms\", \"3ms\"]\n\
             [task.late]\nkind = \"load\"\nrate = 10\n{simulated}"
        )
    };
    let late = |text: &str| -> (Vec<i128>, Summary) {
        let (lines, summary) = simulate(text, &["--for", "800ms"]);
        (lines.iter().map(|line| line.lateness() / 1_000_000).collect(), summary)
    };
    let (lateness, summary) = late(&text(""));
    assert_eq!(lateness, [0, 1, 2, 3, 1, 2, 3, 1], "no sleep precedes the first tick");
    let worker = &summary.workers[0];
    assert_eq!((worker.wakes, worker.oversleep_ns.count), (7, 7), "{worker:?}");
    assert_eq!((worker.oversleep_ns.min, worker.oversleep_ns.max), (1_000_000, 3_000_000), "{worker:?}");
    // Tick 1 runs from 101 ms to 211 ms: there is no sleep before tick 2, so no oversleep is used up.
    let (lateness, summary) = late(&text(
        "[task.late.simulate]\nrun = [\"0s\", \"110ms\", \"0s\", \"0s\", \"0s\", \"0s\", \"0s\", \"0s\"]\n",
    ));
    assert_eq!(lateness, [0, 1, 11, 2, 3, 1, 2, 3]);
    assert_eq!(summary.workers[0].wakes, 6);
}

// ms           0.9        0.96                1.0
// spin 100us   asked      woke - - spin - - - release     an oversleep of 60 us never reaches the task
/// The counts of each summary are checked in `simulate`.
#[test]
fn the_causes_of_random_traces_add_up_to_what_was_missed() {
    let mut random = SplitMix(8);
    let mut blocked = 0;
    for _ in 0..24 {
        let spans = |random: &mut SplitMix, most: i64| {
            let list = random.some_below(6, most).into_iter().map(|micros| format!("\"{micros}us\""));
            list.collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("[worker.main]\n[worker.main.simulate]\noversleep = [{}]\n", spans(&mut random, 5_000));
        for task in 0..=random.below(3) {
            let overrun =
                ["drop", "keep-working", "catch-up", "credit", "delay"][usize::try_from(random.below(5)).unwrap()];
            let rate = 20 + random.below(1_000);
            text += &format!("[task.t{task}]\nkind = \"load\"\nrate = {rate}\noverrun = \"{overrun}\"\n");
            text += &format!("[task.t{task}.simulate]\nrun = [{}]\n", spans(&mut random, 9_000));
        }
        let (_, summary) = simulate(&text, &["--for", "1s"]);
        for task in &summary.tasks {
            let by: u64 = task.blockers.values().sum();
            assert_eq!(task.causes.get("blocked").copied().unwrap_or_default(), by, "{task:?}\n{text}");
            assert!(!task.blockers.contains_key(&task.task), "{task:?}\n{text}");
            blocked += by;
        }
    }
    assert!(blocked > 0, "the traces have tasks in each other's way");
}

#[test]
fn every_release_that_a_late_wake_up_costs_is_woken_late() {
    let task = |keys: &str| format!("[task.a]\nkind = \"load\"\nrate = 100\n{keys}");
    let worker = |oversleep: &str| format!("[worker.main]\n[worker.main.simulate]\noversleep = [{oversleep}]\n");
    let causes = |oversleep: &str, keys: &str| simulate(&(worker(oversleep) + &task(keys)), &["--for", "1s"]).1;
    // Only the first tick, which no sleep precedes, is within `max-debt`.
    let credit = "overrun = \"credit\"\nmax-debt = \"10us\"\n";
    let summary = causes("\"60us\"", credit);
    assert_eq!((summary.tasks[0].ran, &summary.tasks[0].causes), (1, &BTreeMap::from([("woken-late".into(), 99)])));
    let mixed = causes("\"60us\", \"5us\", \"7ms\"", credit);
    assert_eq!((mixed.tasks[0].ran, mixed.tasks[0].causes["woken-late"]), (34, 66));
    // The wake-up for the last release is past the end of the run.
    for overrun in ["drop", "keep-working", "catch-up", "credit", "delay"] {
        let summary = causes("\"0s\", \"985ms\"", &format!("overrun = \"{overrun}\"\n"));
        let task = &summary.tasks[0];
        assert_eq!(task.causes.get("unknown"), None, "{task:?}");
    }
}

#[test]
fn a_spin_tail_hides_the_oversleep() {
    // Least and greatest lateness after the first tick, which no sleep precedes.
    let late = |spin: &str, oversleep: &str, more: &str| {
        let text = format!(
            "[worker.main]\nspin = \"{spin}\"\n[worker.main.simulate]\noversleep = [\"{oversleep}\"]\n\
             [task.steady]\nkind = \"load\"\nrate = \"1 kHz\"\n{more}"
        );
        let (lines, _) = simulate(&text, &["--for", "1s"]);
        let slept_for = lines.iter().filter(|line| line.n > 0).map(Line::lateness);
        slept_for.clone().min().zip(slept_for.max()).unwrap()
    };
    let odd = "[task.odd]\nkind = \"load\"\nrate = \"30000/1001\"\n";
    assert_eq!(late("100us", "60us", ""), (0, 0));
    assert_eq!(late("100us", "60us", odd), (0, 0));
    assert_eq!(late("100us", "100us", odd), (0, 0));
    assert_eq!(late("100us", "130us", ""), (30_000, 30_000));
    // If the two tasks are closer together than the length of the tail, there is no sleep and thus no lateness.
    assert_eq!(late("100us", "130us", odd), (0, 30_000));
    assert_eq!(late("off", "60us", ""), (60_000, 60_000));
}

#[test]
fn a_rule_that_is_broken_fails_with_what_was_found() {
    let config = config(
        "[task.control]\nkind = \"load\"\nrate = 100\n[task.control.simulate]\nrun = [\"1ms\", \"25ms\"]\n\
         [task.report]\nkind = \"load\"\nrate = 10\n",
    );
    // One release in three is given up; --for counts 100.
    for (rules, code, wanted) in [
        (&["control.skipped > 33", "any.over_budget > 0", "records.dropped != 0"][..], 0, ""),
        (&["control.skipped >= 33"], 1, "not well: --fail-if 'control.skipped >= 33': control.skipped is 33"),
        (
            &["report.due == 10", "any.run.max > 24999us"],
            1,
            "not well: --fail-if 'report.due == 10': report.due is 10; \
             --fail-if 'any.run.max > 24999us': control.run.max is 25ms",
        ),
        (
            &["contrl.skipped > 0"],
            64,
            "there is no task \"contrl\"; did you mean \"control\"? Known tasks: control, report",
        ),
        (&["control.blockers.reprot > 0"], 64, "there is no task \"reprot\"; did you mean \"report\"?"),
        (&["control.recorded.lost > 0"], 64, "nothing is recorded: the section has no `record`"),
        (&["control.skip > 0"], 64, "there is no number \"skip\"; did you mean \"skipped\"?"),
    ] {
        let rules = rules.iter().flat_map(|rule| ["--fail-if", rule]);
        let args: Vec<_> = ["--for", "1s", "--summary-only"].into_iter().chain(rules).collect();
        let output = hertzd(&config.path, &args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(wanted) && (code > 0 || stderr.is_empty()), "{args:?}: {stderr}");
        if code < 64 {
            let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let reason = summary["reason"].as_str().unwrap_or_default();
            assert_eq!((&summary["well"], format!("not well: {reason}").contains(wanted)), (&(code == 0).into(), true));
        }
    }
}

/// Otherwise a file that the simulation reads would be lost.
#[test]
fn a_csv_takes_the_place_of_nothing_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let course = "seconds,level\n0,1\n10,2\n";
    let recorded = "tick,release_utc,lateness_ns,v\n0,2026-01-01T00:00:00Z,0,1\n1,2026-01-01T00:00:01Z,0,2\n";
    let text = "[task.course]\nkind = \"profile\"\nrate = 1\nshape = \"csv\"\nfile = \"course.csv\"\n\
                time-column = \"seconds\"\ncolumn = \"level\"\n\
                [task.board]\nkind = \"sensor\"\nrate = 1\npath = \"/nowhere\"\nsimulate.values = \"day.csv\"\n";
    let drop_in = "[task.course]\nrate = 2\n";
    std::fs::create_dir(at("test.d")).unwrap();
    let all = [("course.csv", course), ("day.csv", recorded), ("test.toml", text), ("test.d/one.toml", drop_in)];
    for (name, text) in all {
        std::fs::write(at(name), text).unwrap();
    }
    std::fs::hard_link(at("course.csv"), at("hard.csv")).unwrap();
    let simulate = |config: &str, csv: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
        command.args(["simulate", config, "--for", "2s", "--summary-only", "--force", "--csv", csv]);
        command.current_dir(folder.path()).stdin(std::fs::File::open(at("test.toml")).unwrap()).output().unwrap()
    };
    for (config, csv) in [
        ("test.toml", "course.csv"),
        ("test.toml", "hard.csv"),
        ("test.toml", "day.csv"),
        ("test.toml", "test.toml"),
        ("test.toml", "test.d/one.toml"),
        ("-", "test.toml"),
    ] {
        let output = simulate(config, csv);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let refused = format!("--csv {csv}: this command reads that file, which would be lost");
        assert!(output.status.code() == Some(64) && stderr.contains(&refused), "{config} {csv}: {stderr}");
    }
    for (name, text) in all {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), text, "{name}");
    }
    let output = simulate("test.toml", "new.csv");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
