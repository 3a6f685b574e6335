//! Injects faults of every kind into a real daemon, and compares its verdict on each missed release with what the injector did. Prints the
//! confusion matrix.
//!
//! A row of the matrix fails if more of its verdicts are wrong than chance explains; fewer than one run in a thousand fails by chance. On a
//! machine that others use, a failing row proves nothing about hertzd: then the test reports that it is inconclusive, and how busy the
//! machine was.
//!
//! This program is also the daemon under test (`causes run CONFIG`, with a kind of task that disturbs itself) and the
//! program that takes a CPU away (`causes hog …`), so it has no harness. Its arguments select scenarios by name.

#[path = "support/faults/mod.rs"]
mod faults;
#[path = "support/program/mod.rs"]
mod program;

use faults::confidence::{Others, too_few};
use faults::hog::{self, Hog, Share};
use faults::kind::Disturbed;
use faults::scenario::{Mode, Scenario, Source, User};
use faults::truth::Matrix;
use hertzd::time::Span;
use hertzd::{App, Kinds};
use program::{affinity, is_root};
use std::collections::{BTreeSet, VecDeque};
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

const TRACED: Span = Span::from_millis(6_500);

/// The maximum number of injections of a fault until enough of its effects were pure: nothing else contributed.
const ATTEMPTS: u32 = 8;

/// The percentage of verdicts on each kind of miss that must be right, and of preempting workers that must be named right.
const RIGHT: u32 = 95;

/// The percentage of the processors that others may use during a valid comparison.
const BUSY: u64 = 10;

/// The number of wake-ups to compare with the kernel's trace.
const WAKES: u64 = 1_000;

/// The number of misses of each kind, and of verdicts to compare with the kernel's trace.
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

/// Prints why something is not tested. If root must test everything, that is a failure.
fn skip(name: &str, why: &str) {
    println!("skipped: {name}: {why}");
    assert!(!is_root() || std::env::var_os("HERTZD_TEST_MUST_RUN").is_none(), "skipped: {name}: {why}");
}

/// One run of the daemon: its name, and the work that adds it to the results.
type Job = (String, Box<dyn FnOnce(usize, &Results) + Send>);

/// The verdicts when each tick has its own evidence, and when several ticks share it.
#[derive(Default)]
struct Results {
    own: Mutex<Matrix>,
    shared: Mutex<Matrix>,
    /// Jobs that have panicked.
    failed: Mutex<Vec<String>>,
    /// Scenarios that are impossible here, by name.
    skipped: Mutex<BTreeSet<&'static str>>,
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
                    Err(why) => {
                        results.skipped.lock().unwrap().insert(scenario.name);
                        skip(scenario.name, &why);
                    }
                };
                jobs.push_back((name, Box::new(run)));
            }
        }
    }
    jobs.retain(|(name, _)| words.iter().all(|word| name.contains(&***word)));
    jobs
}

/// Fails with `wrong`, unless others have used the machine since `others` was created: then reports that. Returns whether all is fine.
fn conclude(wrong: &[String], others: &Others) -> bool {
    let share = others.share();
    println!("others used {share} % of the processors");
    if wrong.is_empty() {
        return true;
    }
    assert!(share > BUSY, "{}", wrong.join("\n"));
    program::emulation::say_skipped(&format!(
        "inconclusive: the machine was busy: others used {share} % of its processors, and {BUSY} % is too much.\n{}",
        wrong.join("\n")
    ));
    false
}

/// Runs every job, and judges the results. If a fault left too few misses of its own, because other programs contributed, it is injected
/// again, and judged by all its misses together.
fn judge(arguments: &[String]) {
    let words: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let (results, others) = (Results::default(), Others::now());
    let mut todo = jobs(&words);
    for attempt in 1..=ATTEMPTS {
        run_all(todo, &results);
        let few = results.few(&words);
        println!("attempt {attempt}: {} faults left too few misses of their own", few.len());
        todo = jobs(&words).into_iter().filter(|(job, _)| few.iter().any(|fault| job.starts_with(fault))).collect();
        // If others use the machine, further runs would prove nothing more.
        if todo.is_empty() || others.share() > BUSY {
            break;
        }
    }
    results.print();
    let mut wrong = results.wrong();
    wrong.extend(todo.into_iter().map(|(job, _)| format!("{job}: other programs took part in too many of its misses")));
    let mut failed = std::mem::take(&mut *results.failed.lock().unwrap());
    // Blaming the wrong task is wrong on any machine.
    failed.extend(results.wrong_blockers());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    if conclude(&wrong, &others) {
        compare_with_kernel(&words);
    }
}

/// Lets the kernel trace some scenarios, on each CPU in turn until enough was compared: some kernels lose the switches from
/// one CPU's idle thread.
fn compare_with_kernel(words: &[&String]) {
    if !is_root() {
        return skip("faults of real-time threads, and the kernel's trace", "needs root");
    }
    let traced = |scenario: &Scenario| {
        let name = format!("kernel trace {}", scenario.name);
        ["long run", "fifo hog"].contains(&scenario.name) && words.iter().all(|word| name.contains(&***word))
    };
    for scenario in scenarios(User::Root).into_iter().filter(traced) {
        let (mut compared, mut preempted, mut waited, others) = ([0, 0], 0, 0, Others::now());
        for cpu in affinity() {
            match scenario.compare_with_kernel(cpu, TRACED) {
                Ok(on_cpu) => {
                    println!("{} on CPU {cpu}: the kernel's trace agrees: {on_cpu:?}", scenario.name);
                    compared[0] += on_cpu.wakes;
                    compared[1] += on_cpu.preempted + on_cpu.ran_long;
                    (preempted, waited) = (preempted + on_cpu.preempted, waited + on_cpu.waited);
                }
                Err(why) => return skip("the kernel's trace", &why),
            }
            if compared[0] >= WAKES && compared[1] >= ENOUGH {
                break;
            }
        }
        let [wakes, verdicts] = compared;
        let mut wrong = Vec::new();
        if wakes < WAKES || verdicts < ENOUGH {
            wrong
                .push(format!("{}: the trace is too incomplete: {wakes} wake-ups, {verdicts} verdicts", scenario.name));
        }
        // Only few misses can all be the host's.
        if preempted >= ENOUGH && too_few(waited, preempted, RIGHT) {
            wrong.push(format!("{}: {preempted} were preempted, of which only {waited} waited", scenario.name));
        }
        conclude(&wrong, &others);
    }
}

/// Runs every job, one at a time on each of two CPUs.
fn run_all(jobs: VecDeque<Job>, results: &Results) {
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        for cpu in affinity().into_iter().take(2) {
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
    fn matrices(&self) -> [Matrix; 2] {
        [&self.own, &self.shared].map(|matrix| matrix.lock().unwrap().clone())
    }

    fn print(&self) {
        let [own, shared] = self.matrices();
        println!("one task, or evidence of each tick:\n{}\n", own.table());
        println!("three tasks with evidence of the wake-up:\n{}\n", shared.table());
    }

    /// The faults with too few misses of their own kind in either matrix, by the first words of their jobs' names.
    fn few(&self, words: &[&String]) -> Vec<String> {
        let [mut own, mut shared] = self.matrices();
        // The arguments may select only jobs that go into one of them.
        let all: Vec<_> = jobs(words).into_iter().map(|(job, _)| job).collect();
        let faults = all.iter().filter_map(|job| job.rsplit_once(' ').map(|(fault, _)| fault.to_owned()));
        let few = |fault: &String| {
            let (name, user) = fault.rsplit_once(' ').unwrap();
            let user = if user == "Root" { User::Root } else { User::Ordinary };
            let scenario = scenarios(user).into_iter().find(|scenario| scenario.name == name).unwrap();
            let possible = !self.skipped.lock().unwrap().contains(name);
            let row = scenario.row(user, scenario.word);
            let asked = |mode: Mode| all.contains(&format!("{fault} {mode:?}"));
            let few = |matrix: &mut Matrix, asked| asked && matrix.row(&row).judged() < ENOUGH;
            let few =
                [few(&mut own, asked(Mode::Alone) || asked(Mode::EachTick)), few(&mut shared, asked(Mode::Shared))];
            possible && few.contains(&true)
        };
        faults.collect::<BTreeSet<_>>().into_iter().filter(few).collect()
    }

    /// The rows in which a task was blamed that did not delay the other.
    fn wrong_blockers(&self) -> Vec<String> {
        let [own, shared] = self.matrices();
        let rows = own.rows().chain(shared.rows()).filter(|(_, row)| row.wrong_blockers > 0);
        rows.map(|(name, row)| format!("{name}: {row:#?}")).collect()
    }

    /// The rows that are not as they must be.
    fn wrong(&self) -> Vec<String> {
        let [own, shared] = self.matrices();
        let mut wrong = Vec::new();
        for (matrix, own) in [(&own, true), (&shared, false)] {
            for (name, row) in matrix.rows() {
                // If several ticks share the evidence, `unknown` is not wrong.
                let right = if own { row.right } else { row.judged() - row.wrong() };
                let enough = |right: u64| !too_few(right, row.judged(), RIGHT);
                let named = enough(row.judged() - row.wrong_workers);
                if !(enough(right) && named) {
                    wrong.push(format!("{name}: {row:#?}"));
                }
            }
        }
        wrong
    }
}
