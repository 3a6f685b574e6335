//! A daemon with one fault: its configuration, its injectors, and the results.

use super::hog::{Hog, RunningHog, Share};
use super::kernel;
use super::kind::{FORGOTTEN, FORGOTTEN_LENGTH, TickNote, notes, now};
use super::ticks::{event_sums, tick_lines};
use super::truth::{Injection, Matrix, Scene};
use crate::program::{Ended, HERE, Running, count, is_root, pause, run_in, task};
use hertzd::time::Span;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How long each stop of the process lasts. It is longer than the metrics thread sleeps, so that this thread notices it.
const STOP: Span = Span::from_millis(60);

/// For how long a worker's wait may show in the evidence of a later tick. The metrics thread reads the evidence every 20 ms, or later on a
/// busy machine.
const LOOK: Span = Span::from_millis(60);

/// Who runs the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

/// How many tasks share a wake-up, and when the worker takes evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One task, evidence before the sleep.
    Alone,
    /// Three tasks, evidence after each tick.
    EachTick,
    /// Three tasks, evidence before the sleep.
    Shared,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Alone, Self::EachTick, Self::Shared];
}

/// The source of the fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// A task disturbs itself; with the keys of its fault.
    Itself(&'static str),
    /// A task disturbs its neighbours on the worker.
    Neighbour,
    /// Other programs on the same CPU.
    Hogs(usize, Hog),
    /// Another worker on the same CPU.
    Worker,
    /// The process is stopped repeatedly.
    Stop,
    /// Its control group limits its real-time use of the CPU.
    Throttle,
}

/// One fault, with the cause that a hit tick should get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) word: &'static str,
    pub(crate) source: Source,
    /// Microseconds of processor time used by the ticks of a wake-up.
    pub(crate) burn: i64,
    /// The period of the tasks in milliseconds; their deadline is half of it.
    pub(crate) period: i64,
    /// The worker's FIFO priority; 0: none.
    pub(crate) priority: u8,
    /// The daemon's share of the CPU while it has no priority.
    pub(crate) share: Share,
}

/// The control group for [`Source::Throttle`]. Removed on drop.
struct Group(std::path::PathBuf);

impl Group {
    /// A group with 20 ms of real time in every 100 ms. Returns the reason if there is none.
    fn new(cpu: usize) -> Result<Self, String> {
        let folder = std::path::PathBuf::from(format!("/sys/fs/cgroup/cpu/hertzd-causes-{}-{cpu}", std::process::id()));
        let made = fs::create_dir(&folder).and_then(|()| {
            let group = Self(folder.clone());
            fs::write(folder.join("cpu.rt_period_us"), "100000")?;
            fs::write(folder.join("cpu.rt_runtime_us"), "20000")?;
            Ok(group)
        });
        made.map_err(|error| format!("no control group with a budget of real time: {}: {error}", folder.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A daemon that has been started.
pub(crate) struct Started {
    pub(crate) hertzd: Running,
    _group: Option<Group>, // removed after the daemon has ended
}

impl Scenario {
    /// Starts it for `length` on `cpu`. Returns the reason if this is impossible.
    pub(crate) fn start(&self, cpu: usize, user: User, mode: Mode, length: Span) -> Result<Started, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let group = matches!(self.source, Source::Throttle).then(|| Group::new(cpu)).transpose()?;
        if self.name == "major faults" {
            let file = fs::File::create(folder.path().join(FORGOTTEN)).unwrap();
            (&file).write_all(&vec![1; FORGOTTEN_LENGTH]).unwrap();
            file.sync_all().unwrap();
            kernel::forget(&file);
        }
        let tasks = group.as_ref().map_or_else(|| "/dev/null".into(), |group| group.0.join("tasks"));
        let mut command = self.share.command();
        command.args(["sh", "-c", &format!("echo $$ >{} && exec \"$@\"", tasks.display()), "sh"]);
        if user == User::Ordinary && is_root() {
            command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.arg(std::env::current_exe().unwrap());
        let length = format!("{}ms", length.nanos() / 1_000_000);
        let args = ["--for", &length, "--json", "--log-level", "trace", "--log-format", "json"];
        Ok(Started { hertzd: run_in(folder, command, &self.config(cpu, mode), &args), _group: group })
    }

    /// Injects its fault until the daemon has ended. Returns the times of injections from outside.
    pub(crate) fn finish(&self, mut started: Started, cpu: usize) -> (Ended, Vec<[i64; 2]>) {
        let (hogs, mut outside) = self.inject(&mut started.hertzd, cpu);
        let Started { hertzd, _group } = started;
        let ended = hertzd.wait();
        outside.extend(hogs.into_iter().flat_map(RunningHog::finish));
        let code = ended.status.code();
        assert!(matches!(code, Some(0 | 1)) || is_starved(&ended), "{self:?}: {}", ended.describe());
        (ended, outside)
    }

    /// Runs it for `length` on `cpu`, and judges hertzd's verdicts. Returns the reason if this is impossible.
    pub(crate) fn run(&self, cpu: usize, user: User, mode: Mode, length: Span) -> Result<Matrix, String> {
        let (ended, outside) = self.finish(self.start(cpu, user, mode, length)?, cpu);
        if is_starved(&ended) {
            println!("{} {user:?} {mode:?}: other programs left hertzd no processor time", self.name);
            return Ok(Matrix::default());
        }
        let summary = ended.summary();
        let scene = self.scene(&summary, ended.folder.path(), outside);
        let mut matrix = Matrix::default();
        let log = ended.folder.path().join("stderr");
        let lines = tick_lines(&log);
        for name in scene.notes.keys() {
            assert_counts(task(&summary, name), event_sums(&log, name));
        }
        for miss in scene.misses(&lines) {
            match scene.truth(&miss) {
                None => matrix.row(&self.row(user, self.word)).unexplained += 1,
                Some(truth) => matrix.enter(&self.row(user, truth.words[0]), &miss, &truth),
            }
        }
        Ok(matrix)
    }

    /// The name of the row for misses whose true cause is `word`.
    pub(crate) fn row(&self, user: User, word: &str) -> String {
        let user = if user == User::Root { "root" } else { "user" };
        format!("{} ({user}): {word}", self.name)
    }

    fn config(&self, cpu: usize, mode: Mode) -> String {
        let policy = |priority: u8| match priority {
            0 => "policy = \"other\"".into(),
            priority => format!("policy = \"fifo\"\npriority = {priority}"),
        };
        let evidence = if mode == Mode::EachTick { "tick" } else { "wake" };
        let mut text = format!("[worker.main]\ncpu = {cpu}\n{}\nevidence = \"{evidence}\"\n", policy(self.priority));
        let with_period = |name: &str, micros: i64, keys: &str| {
            format!(
                "[task.{name}]\nkind = \"disturbed\"\nperiod = \"{micros}us\"\ndeadline = \"{}us\"\n\
                 notes = \"{HERE}/{name}.notes\"\n{keys}\n",
                micros / 2
            )
        };
        let task =
            |name: &str, keys: &str| with_period(name, self.period * 1_000, &format!("worker = \"main\"\n{keys}"));
        let names: &[&str] = if mode == Mode::Alone { &["task"] } else { &["before", "task", "after"] };
        let burn = format!("burn = {}", self.burn / i64::try_from(names.len()).unwrap());
        for name in names {
            let keys = match self.source {
                Source::Itself(keys) if *name == "task" => format!("{burn}\n{keys}"),
                // It is released shortly after its neighbour has begun.
                Source::Neighbour => format!("{burn}\nphase = \"500us\""),
                _ => burn.clone(),
            };
            text += &task(name, &keys);
        }
        match self.source {
            Source::Neighbour => {
                text += &task("neighbour", &format!("{burn}\nfault = \"burn\"\nevery = 3\nlengths = [3000, 7000]"))
            }
            Source::Worker => {
                text += &format!("[worker.other]\ncpu = {cpu}\n{}\n", policy(self.priority + 10));
                text += &with_period("high", 7_300, "worker = \"other\"\nburn = 3000");
            }
            _ => {}
        }
        text
    }

    /// Disturbs the daemon from outside until it has ended.
    fn inject(&self, hertzd: &mut Running, cpu: usize) -> (Vec<RunningHog>, Vec<[i64; 2]>) {
        let mut stops = Vec::new();
        match self.source {
            Source::Hogs(number, hog) => {
                hertzd.wait_until_granted();
                let start = |index| hog.start(cpu, &hertzd.folder().join(format!("hog-{index}")));
                return ((0..number).map(start).collect(), stops);
            }
            Source::Stop => {
                hertzd.wait_until_granted();
                while !hertzd.has_ended() {
                    pause(Span::from_micros(39_300));
                    let from = now();
                    kernel::stop(hertzd.pid());
                    pause(STOP);
                    kernel::resume(hertzd.pid());
                    stops.push([from, now()]);
                }
            }
            _ => {}
        }
        (Vec::new(), stops)
    }

    fn scene(&self, summary: &Value, folder: &Path, outside: Vec<[i64; 2]>) -> Scene {
        let names = summary["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap().to_owned());
        let mut notes: BTreeMap<_, _> =
            names.map(|name| (name.clone(), notes(&folder.join(format!("{name}.notes"))))).collect();
        let worker = matches!(self.source, Source::Worker).then_some("worker other");
        let injection = |[from, to]: [i64; 2]| Injection { word: self.word, from, to, by: None, worker };
        let period = self.period * 1_000_000;
        let mut injections: Vec<_> = outside.into_iter().map(injection).collect();
        let all: Vec<_> = notes.values().flatten().copied().collect();
        let usual = usual_fault(&all);
        // Without real-time priority, a thread waits too often to look back that many ticks.
        let before = if self.priority > 0 { (LOOK.nanos() / period).try_into().unwrap_or(1) } else { 3 };
        for (name, notes) in &notes {
            for (index, note) in notes.iter().enumerate() {
                match self.source {
                    Source::Worker if name == "high" => injections.push(injection([note.started, note.finished])),
                    // Nothing else keeps a real-time thread off the CPU for that long.
                    Source::Throttle => {
                        let spans = [note.gap, [note.release, note.started]];
                        injections.extend(spans.into_iter().filter(|[from, to]| to - from > period).map(injection));
                    }
                    _ if note.injected && self.is_pure(&notes[index.saturating_sub(before)..=index], &all, usual) => {
                        let word = if name == "neighbour" { "ran-long" } else { self.word };
                        let by = Some((name.clone(), note.n));
                        injections.push(Injection { word, from: note.started, to: note.finished, by, worker: None });
                    }
                    _ => {}
                }
            }
        }
        // The other worker's task is an injector and is not judged.
        notes.remove("high");
        injections.sort_by_key(|injection| injection.from);
        Scene { injections, notes, deadline: period / 2, usual: self.burn * 1_000 }
    }

    /// Whether the last of these ticks was delayed only by its own fault. The same must hold for the ticks of `all` shortly before, and for
    /// those that share its wake-up and evidence. `usual`: the cost of a page fault in most ticks.
    fn is_pure(&self, notes: &[TickNote], all: &[TickNote], usual: i64) -> bool {
        let (Some(note), Some(first)) = (notes.last(), notes.first()) else { return false };
        let length = note.finished - note.started;
        // With a disk that answers immediately, no thread sleeps: time off the processor was then taken by the host.
        let waits = self.word == "waited" || self.name == "major faults" && note.slept > 0;
        let away = if waits { 0 } else { length - note.cpu };
        let until = note.finished + self.period * 1_000_000;
        let near = all.iter().filter(|other| (first.started..until).contains(&other.started));
        // All of these ticks ran on one thread, which also waits between ticks.
        let queued = near.map(|note| note.queued[1]).max().unwrap_or(i64::MAX) - first.queued[0];
        // A host takes a CPU without notice, and the time counts as the thread's own. That shows as a gap if each step is short. If it
        // happens often and briefly, or in each fault while the host finds memory, it shows as a higher cost per fault. hertzd knows that
        // cost within a factor of two.
        let is_minor = self.name == "minor faults";
        let stolen = if is_minor { note.gap[1] - note.gap[0] } else { 0 };
        let is_dear = is_minor && 2 * fault(note) > 3 * usual;
        queued.max(away).max(stolen) < length / 8 && !is_dear
    }
}

/// An upper bound on the cost of a page fault in a tick, in nanoseconds of processor time.
fn fault(note: &TickNote) -> i64 {
    note.cpu / note.faults[0].max(1)
}

/// The median cost over the ticks with injected faults.
fn usual_fault(notes: &[TickNote]) -> i64 {
    let mut costs: Vec<_> = notes.iter().filter(|note| note.injected).map(fault).collect();
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied().unwrap_or(0)
}

/// Whether the daemon reported that it gave up because its own threads got no processor time for seconds.
fn is_starved(ended: &Ended) -> bool {
    let log = fs::read_to_string(ended.folder.path().join("stderr")).unwrap();
    ended.status.code() == Some(70)
        && log.contains("hertzd had no processor time for ")
        && log.contains(" did not answer ")
}

/// Asserts that the counts of a task add up, and so do its events in the log.
fn assert_counts(task: &Value, (event_causes, events): (BTreeMap<String, u64>, [u64; 2])) {
    let causes = task["causes"].as_object().unwrap();
    let causes: BTreeMap<_, _> = causes.iter().map(|(cause, count)| (cause.clone(), count.as_u64().unwrap())).collect();
    let counts = ["due", "met", "missed", "pending", "overruns", "skipped"].map(|key| count(task, key));
    let [due, met, missed, pending, overruns, skipped] = counts;
    assert_eq!((met + missed + pending, overruns + skipped), (due, missed), "{task}");
    assert_eq!(causes.values().sum::<u64>(), missed, "{task}");
    assert_eq!((events, event_causes), ([overruns, skipped], causes), "{task}");
}
