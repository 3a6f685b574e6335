//! The effect of a stall: the program is stopped for two seconds. Afterwards no policy holds more debt than its limit.

use crate::program;
use crate::program::{Ended, HERTZD, Running, count, nanos, pause, run, run_in, start, stopwatch, task};
use hertzd::config::Kinds;
use hertzd::internals::{Embedded, Summary};
use hertzd::task::{Column, Task, Tick, TickError};
use hertzd::time::Span;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The shortest time for which the program is stopped.
const STALL: Span = Span::from_seconds(2);

/// Each policy, and the highest number of releases that may be given up late: those it keeps, and a few at the edges.
const POLICIES: [(&str, &str, u64); 5] = [
    ("drop", "overrun = \"drop\"", 1),
    ("keep-working", "overrun = \"keep-working\"", 1),
    ("catch-up", "overrun = \"catch-up\"\nmax-catch-up = 4", 4),
    ("credit", "overrun = \"credit\"\nmax-debt = \"100ms\"", 101),
    ("delay", "overrun = \"delay\"", u64::MAX),
];

/// A worker and a task for each policy.
fn config(kind: impl Fn(&str) -> String) -> String {
    let section = |(name, overrun, _): (&str, &str, u64)| {
        let kind = kind(name);
        format!("[worker.{name}]\n[task.{name}]\nworker = \"{name}\"\nrate = \"1 kHz\"\n{overrun}\n{kind}\n")
    };
    POLICIES.map(section).concat()
}

/// Stops the program for two seconds after about the first second, then lets it run for a while, and ends it. The run has no fixed length,
/// since a busy machine may delay this test for longer.
fn stall(mut running: Running, end: impl FnOnce(&Running)) -> Ended {
    pause(Span::from_seconds(1));
    running.hold(STALL);
    pause(Span::from_seconds(1));
    end(&running);
    running.wait()
}

#[test]
fn a_stall_shows_and_is_accounted_for() {
    let _turn = crate::turn(module_path!());
    let config = config(|_| "kind = \"load\"\nrun = \"20us\"".into());
    let mut running = run(&config, &["--json"]);
    running.wait_until_granted();
    let ended = stall(running, |running| running.signal("TERM"));
    assert!(ended.status.success(), "{}", ended.describe());
    let summary = ended.summary();
    let on_a_fixed_grid = count(task(&summary, "drop"), "due");
    for (name, _, kept) in POLICIES {
        let task = task(&summary, name);
        let (due, ran, skipped) = (count(task, "due"), count(task, "ran"), count(task, "skipped"));
        let overruns = count(task, "overruns");
        println!(
            "{name}: due {due}, ran {ran}, skipped {skipped}, overruns {overruns}, lateness {}",
            task["lateness_ns"]
        );
        assert!(nanos(task, "lateness_ns", "min") >= 0, "{name}: never early");
        assert!(nanos(task, "lateness_ns", "max") >= STALL.nanos() / 2, "{name}");
        if name == "delay" {
            // One tick was late, and the grid moved with it: the releases that other policies would owe never came up. If the worker wakes
            // late at the end of the run, releases after its last tick are given up.
            assert!(due + 1_000 <= on_a_fixed_grid, "{name}: {due} of {on_a_fixed_grid}");
            assert_eq!(due, ran + skipped);
            assert!(overruns >= 1);
            // One late tick, but the histogram also counts the releases that it delayed.
            assert!(nanos(task, "lateness_ns", "p99_9") >= STALL.nanos() / 2, "{name}");
            continue;
        }
        // 2,000 releases came up during the stall: they were late or never ran.
        assert!(due >= 2_000, "{name}: {due}");
        assert!(nanos(task, "lateness_ns", "p99_9") >= STALL.nanos() / 2, "{name}");
        assert!(skipped + kept + 2 >= 2_000, "{name}");
        if kept > 1 {
            assert!(overruns >= 1, "{name}: kept releases finish after their deadline");
        }
    }
}

/// The maximum number of freezes until the releases meanwhile were judged twice.
const FREEZES: u32 = 10;

/// A separate control group that freezes the process in it. Thawed and removed on drop.
struct Group(PathBuf);

impl Group {
    /// Every kernel with version 2 mounted can freeze a group, without any controller.
    fn new() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).ok_or(io::ErrorKind::NotFound)?;
        let folder = Path::new(mount[1]).join(format!("hertzd-stall-{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    fn freeze(&self, frozen: bool) {
        fs::write(self.0.join("cgroup.freeze"), if frozen { "1" } else { "0" }).unwrap();
    }

    fn is_frozen(&self) -> bool {
        fs::read_to_string(self.0.join("cgroup.events")).unwrap().contains("frozen 1")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// Releases during the freeze of the service's control group are `stalled`, and status says that no daemon answers meanwhile.
#[test]
fn what_is_missed_in_a_frozen_control_group_is_stalled() {
    let _turn = crate::turn(module_path!());
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => return program::skip(&format!("no control group can be made: {error}")),
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let of_cause = |snapshot: &Value, cause: &str| task(snapshot, "a")["causes"][cause].as_u64().unwrap_or(0);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.0.join("cgroup.procs")).arg(HERTZD);
    let config = "[task.a]\nkind = \"load\"\nrate = \"1 kHz\"\n";
    let mut running = run_in(folder, command, config, &["--json", "--status-socket", socket.to_str().unwrap()]);
    running.wait_until_granted();
    pause(Span::from_millis(500));
    // If other programs delay hertzd at the same time, the verdict may differ, but not each time.
    let mut judged = 0;
    for _ in 0..FREEZES {
        let before = program::snapshot(&socket);
        group.freeze(true);
        running.wait_for("it is frozen", |_| group.is_frozen());
        let frozen_for = stopwatch();
        let frozen = Command::new(HERTZD).args(["status", "--json", "--socket"]).arg(&socket).output().unwrap();
        assert_eq!(frozen.status.code(), Some(69), "{frozen:?}");
        assert!(String::from_utf8_lossy(&frozen.stderr).contains("frozen cgroup"), "{frozen:?}");
        let came_up = (frozen_for().nanos() / Span::from_millis(1).nanos()).unsigned_abs();
        group.freeze(false);
        let missed = |seen: &Value| count(task(seen, "a"), "missed") - count(task(&before, "a"), "missed");
        running.wait_for("status says what was missed", |_| {
            let output = program::status(&socket, &["--json"]);
            let seen = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
            let reason = String::from_utf8_lossy(&output.stdout).contains("task a missed ");
            reason && output.status.code() == Some(1) && missed(&seen) + 2 >= came_up
        });
        // Causes come from records, a little later: until then they are unknown.
        pause(Span::from_millis(300));
        let seen = program::snapshot(&socket);
        // Except a release before the freeze that was in progress, and one after it that was only late.
        let of = |cause: &str| of_cause(&seen, cause).saturating_sub(of_cause(&before, cause));
        println!(
            "{came_up} releases came up in the frozen group: {} stalled, {} unknown",
            of("stalled"),
            of("unknown")
        );
        judged += u32::from(came_up >= 100 && of("stalled") + 4 >= came_up);
        if judged == 2 {
            break;
        }
    }
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(judged, 2, "{}", ended.describe());
}

/// Reports the debt with which its ticks start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Probe {
    most: i64, // whole periods that a tick may be late
    #[serde(skip)]
    over: u32,
    #[serde(skip)]
    index: Option<usize>, // in TICKED, from its first tick on
}

/// The number of ticks of each probe, in the order of their first ticks; and the number of probes that have ticked.
static TICKED: [AtomicU64; POLICIES.len()] = [const { AtomicU64::new(0) }; POLICIES.len()];
static PROBES: AtomicUsize = AtomicUsize::new(0);

fn ticked() -> [u64; POLICIES.len()] {
    TICKED.each_ref().map(|ticks| ticks.load(Ordering::Relaxed))
}

impl Task for Probe {
    fn columns(&self) -> Vec<Column> {
        ["late", "over"].map(|name| Column { name: name.into(), unit: String::new() }).into()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let late = tick.lateness.nanos() / tick.period.nanos();
        self.over += u32::from(late > self.most);
        let index = *self.index.get_or_insert_with(|| PROBES.fetch_add(1, Ordering::Relaxed));
        TICKED[index].fetch_add(1, Ordering::Relaxed);
        values[0] = f64::from(i32::try_from(late).unwrap_or(i32::MAX));
        values[1] = f64::from(self.over);
        Ok(())
    }
}

/// Once this file exists, the child process ends its run after each probe has ticked again.
const ENOUGH: &str = "enough";

/// The child process creates this file when each probe has ticked: on a slow machine the first ticks take a while.
const BEGUN: &str = "begun";

/// Set in the child process, which is the one that is stopped.
const IN_CHILD: &str = "HERTZD_TEST_STALL_IN_CHILD";

/// Starts this test binary again as a child process, which can be stopped.
#[test]
fn no_policy_holds_more_debt_than_its_limit() {
    let _turn = crate::turn(module_path!());
    if let Some(path) = std::env::var_os(IN_CHILD) {
        let [enough, begun] = [ENOUGH, BEGUN].map(|name| Path::new(&path).with_file_name(name));
        let summary = run_probes(enough, begun);
        fs::write(path, serde_json::to_string(&summary).unwrap()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "stall::no_policy_holds_more_debt_than_its_limit", "--nocapture"]).env(IN_CHILD, &path);
    let mut running = start(folder, command);
    running.wait_for("each probe has ticked", |running| running.folder().join(BEGUN).exists());
    let ended = stall(running, |running| fs::write(running.folder().join(ENOUGH), "").unwrap());
    assert!(ended.status.success(), "{}", ended.describe());
    let summary = fs::read_to_string(&path).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    for (name, ..) in POLICIES {
        let task = task(&summary, name);
        let (late, over) = (&task["values"]["late"]["max"], task["values"]["over"]["max"].as_f64().unwrap());
        println!("{name}: at most {late} periods late when a tick started, over the bound {over} times");
        assert_eq!(count(task, "ran") + count(task, "skipped"), count(task, "due"), "{name}");
        assert!(nanos(task, "lateness_ns", "max") >= STALL.nanos() / 2, "{name}");
        // The policy decides some hundred nanoseconds before the tick starts. If another thread gets the CPU in between, the
        // tick starts with more debt; this is rare because the gap is short.
        assert!(over <= 3.0, "{name}: {over} ticks");
    }
}

/// Creates the file `begun` when each probe has ticked. Runs until the file `enough` exists and each probe has ticked again.
fn run_probes(enough: PathBuf, begun: PathBuf) -> Summary {
    let most = |name: &str| match name {
        "drop" | "keep-working" => 0,
        "catch-up" => 3,
        "credit" => 100,
        _ => i64::MAX,
    };
    let text = config(|name| format!("kind = \"probe\"\nmost = {}", most(name)));
    let kinds = Kinds::empty().with::<Probe>("probe", "Reports its debt.");
    let all_have_since = |before: [u64; POLICIES.len()]| ticked().iter().zip(before).all(|(now, then)| *now > then);
    let daemon = Embedded::of(kinds, text).start();
    daemon.until("each has ticked", || all_have_since([0; POLICIES.len()]));
    fs::write(begun, "").unwrap();
    daemon.until("the file is there", || enough.exists());
    let before = ticked();
    daemon.until("each has ticked again", || all_have_since(before));
    daemon.stop();
    daemon.end().summary
}
