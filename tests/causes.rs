//! Faults of every kind are injected into a real daemon, and its verdict on each missed release is compared with what the
//! injector did. Prints the confusion matrix.
//!
//! This program is also the daemon under test (`causes run CONFIG`, with a kind of task that disturbs itself) and the
//! program that takes a CPU away (`causes hog …`), so it has no harness. Its arguments select scenarios by name.

mod faults;
mod program;

use faults::hog::{self, Hog, Share};
use faults::kind::Disturbed;
use faults::scenario::{Mode, Scenario, Source, User};
use faults::truth::Matrix;
use hertzd::internals::affinity;
use hertzd::time::Span;
use hertzd::{App, Kinds};
use program::is_root;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;

const LONG: &str = "fault = \"burn\"\nevery = 3\nlengths = [3000, 7000, 7000]";
const TOUCH: &str = "fault = \"touch\"\nevery = 3\nlengths = [3000, 7000]";
const READ: &str = "fault = \"read\"\nevery = 3\nlengths = [3000, 7000]";
const SLEEP: &str = "fault = \"sleep\"\nevery = 3\nlengths = [3000, 7000]";

const REAL_TIME: u8 = 60;

/// How long each daemon runs; under the kernel's trace for more than 1,000 ticks.
const LENGTH: Span = Span::from_millis(3_500);

/// Wake-ups and verdicts under the trace that must be comparable, though the kernel loses some events.
const FEW: u64 = 50;
const TRACED: Span = Span::from_millis(6_500);

/// How often a fault is injected, at most.
const ATTEMPTS: u32 = 3;

/// Percent of the verdicts that are to be right, and that must be even on a machine that others keep busy: there the cost of a
/// page, for one, is not what it was when the daemon started.
const AIM: u64 = 95;
const LEAST: u64 = 90;

/// Misses of each kind.
const ENOUGH: u64 = 200;

/// Every fault for a worker with this priority.
fn scenarios(user: User) -> Vec<Scenario> {
    let priority = if user == User::Root { REAL_TIME } else { 0 };
    let of = |name, word, source, burn| Scenario { name, word, source, burn, period: 4, priority, share: Share::First };
    let (busy, every) = (Span::from_millis(3), Span::from_micros(7_300));
    let hog = Hog { priority: REAL_TIME + 10, busy, every };
    let mut all = vec![
        of("long run", "ran-long", Source::Itself(LONG), 100),
        of("neighbour", "blocked", Source::Neighbour, 100),
        of("minor faults", "page-fault", Source::Itself(TOUCH), 100),
        of("major faults", "page-fault", Source::Itself(READ), 100),
        of("sleep", "waited", Source::Itself(SLEEP), 100),
        Scenario { period: 12, ..of("stop", "stalled", Source::Stop, 100) },
    ];
    let normal = of("normal hog", "preempted", Source::Hogs(1, Hog { priority: 0, ..hog }), 1_000);
    all.push(Scenario { priority: 0, share: Share::Second, ..normal });
    if user == User::Root {
        all.push(of("fifo hog", "preempted", Source::Hogs(1, hog), 1_000));
        all.push(of("worker", "preempted", Source::Worker, 1_000));
        all.push(of("throttle", "throttled", Source::Throttle, 1_400));
    }
    all
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(|word| &**word) {
        Some("run") => App::new(Kinds::empty().with::<Disturbed>("disturbed", "Disturbs itself.")).main(),
        Some(hog::HOG) => {
            hog::main(&arguments[1..]);
            ExitCode::SUCCESS
        }
        _ => {
            judge(&arguments);
            ExitCode::SUCCESS
        }
    }
}

/// Prints why something is not tested; where root must test everything, that is a failure.
fn skip(name: &str, why: &str) {
    println!("skipped: {name}: {why}");
    assert!(!is_root() || std::env::var_os("HERTZD_TEST_MUST_RUN").is_none(), "skipped: {name}: {why}");
}

/// What one run of the daemon adds up to.
type Job = (String, Box<dyn FnOnce(usize, &Results) + Send>);

/// The verdicts where each tick has evidence of its own, and where several ticks share it.
#[derive(Default)]
struct Results {
    own: Mutex<Matrix>,
    shared: Mutex<Matrix>,
    /// Jobs that have panicked.
    failed: Mutex<Vec<String>>,
}

/// Every job whose name contains all of `words`.
fn jobs(words: &[&String]) -> VecDeque<Job> {
    let mut jobs: VecDeque<Job> = VecDeque::new();
    let users: &[User] = if is_root() { &[User::Root, User::Ordinary] } else { &[User::Ordinary] };
    for user in users {
        for scenario in scenarios(*user) {
            for mode in Mode::ALL {
                let name = format!("{} {user:?} {mode:?}", scenario.name);
                let run = move |cpu, results: &Results| match scenario.run(cpu, *user, mode, LENGTH) {
                    Ok(found) => {
                        let matrix = if mode == Mode::Shared { &results.shared } else { &results.own };
                        matrix.lock().unwrap().join(found);
                    }
                    Err(why) => skip(scenario.name, &why),
                };
                jobs.push_back((name, Box::new(run)));
            }
        }
    }
    let traced = |scenario: Scenario| {
        let run = move |cpu, _: &Results| match scenario.compare_with_kernel(cpu, TRACED) {
            Ok(compared) => {
                println!("{}: the kernel's trace agrees: {compared:?}", scenario.name);
                let whole = compared.preempted + compared.ran_long;
                assert!(compared.wakes >= FEW && whole >= FEW, "the trace is too incomplete: {compared:?}");
            }
            Err(why) => skip("the kernel's trace", &why),
        };
        (format!("kernel trace {}", scenario.name), Box::new(run) as Box<dyn FnOnce(usize, &Results) + Send>)
    };
    if is_root() {
        let names = ["long run", "fifo hog"];
        jobs.extend(scenarios(User::Root).into_iter().filter(|scenario| names.contains(&scenario.name)).map(traced));
    } else {
        skip("faults of real-time threads, and the kernel's trace", "needs root");
    }
    jobs.retain(|(name, _)| words.iter().all(|word| name.contains(&***word)));
    jobs
}

/// Runs every job, and judges the results. Another program may take part in so much that a fault has too few misses of its own,
/// or too many verdicts on what it was not: then that fault is injected again, and judged by all its misses together.
fn judge(arguments: &[String]) {
    let words: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let results = Results::default();
    let mut todo = jobs(&words);
    let mut wrong = Vec::new();
    for attempt in 1..=ATTEMPTS {
        run_all(todo, &results);
        let failed = std::mem::take(&mut *results.failed.lock().unwrap());
        wrong = results.wrong(words.is_empty(), if attempt < ATTEMPTS { AIM } else { LEAST });
        println!("attempt {attempt}: {} rows are wrong, {} runs failed", wrong.len(), failed.len());
        let again = |job: &str| {
            failed.iter().any(|name| name == job) || wrong.iter().any(|(fault, _)| job.starts_with(fault.as_str()))
        };
        todo = jobs(&words).into_iter().filter(|(job, _)| again(job)).collect();
        wrong.extend(failed.into_iter().map(|name| (name, "panicked".to_owned())));
        if wrong.is_empty() {
            break;
        }
    }
    let texts: Vec<_> = wrong.into_iter().map(|(fault, row)| format!("{fault}: {row}")).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}

/// Runs every job, one at a time on each of two CPUs.
fn run_all(jobs: VecDeque<Job>, results: &Results) {
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        for cpu in affinity().unwrap().into_iter().take(2) {
            let jobs = &jobs;
            scope.spawn(move || {
                while let Some((name, run)) = { jobs.lock().unwrap().pop_front() } {
                    let done = catch_unwind(AssertUnwindSafe(|| run(cpu, results)));
                    if done.is_err() {
                        results.failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
}

impl Results {
    /// Prints the matrices. Returns the rows that are not as they must be, each with the beginning of the names of its jobs;
    /// `percent` of the verdicts must be right, and with `all` every kind of miss must have occurred often enough.
    fn wrong(&self, all: bool, percent: u64) -> Vec<(String, String)> {
        let [own, shared] = [&self.own, &self.shared].map(|matrix| matrix.lock().unwrap().clone());
        println!("one task, or evidence of each tick:\n{}\n", own.table());
        println!("three tasks with evidence of the wake-up:\n{}\n", shared.table());
        let mut wrong = Vec::new();
        for (matrix, own) in [(&own, true), (&shared, false)] {
            for (name, row) in matrix.rows() {
                let right = if own { row.right } else { row.judged() - row.wrong() };
                let right = right * 100 >= row.judged() * percent;
                let named = row.wrong_blockers * 100 <= row.judged() && row.wrong_workers * 20 <= row.judged();
                // Other rows are by-products of the fault: what waited behind it.
                let is_main = |scenario: &Scenario| name == format!("{} (root): {}", scenario.name, scenario.word);
                let enough = !own || !all || row.judged() >= ENOUGH || !scenarios(User::Root).iter().any(is_main);
                // Without a real-time priority, other programs may take part in most misses.
                let [judged, left_out] = matrix.of_fault(name);
                if !name.contains("(root)") && (left_out > judged || right && named) {
                    println!("{name}: {judged} misses of this fault were judged, {left_out} left out");
                } else if !name.contains("(root)") && named && row.wrong() * 100 <= row.judged() * (100 - percent) {
                    println!("{name}: {} of {} verdicts are unknown", row.unknown, row.judged());
                } else if !(right && named && enough) {
                    let (fault, user) = name.split_once(" (").unwrap();
                    let user = if user.starts_with("root") { User::Root } else { User::Ordinary };
                    wrong.push((format!("{fault} {user:?}"), format!("{name}: {row:#?}")));
                }
            }
        }
        wrong
    }
}
