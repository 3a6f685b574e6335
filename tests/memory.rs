//! The memory use of tasks: a whole daemon runs in this process with an allocator that counts bytes, once with few tasks and once with
//! many, none of them recorded. The test limits what a task adds to the peak, from the reading of the configuration to the summary.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

#[path = "support/time.rs"]
mod time;

use hertzd::config::Kinds;
use hertzd::internals::Embedded;
use hertzd::time::Span;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use time::pause;

/// Bytes in use, and their peak.
static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The maximum that a task may add, in bytes.
const PER_TASK: usize = 4_000;

/// The maximum of the heap besides the tasks, in bytes. With the pages of the program and its libraries this stays below 8 MB.
const BESIDE: usize = 1_250_000;

/// The system's allocator; counts the bytes of all threads.
struct Counting;

/// The size that a block of this size takes in glibc's heap.
fn taken(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

fn allocated(size: usize) {
    let used = USED.fetch_add(taken(size), Ordering::Relaxed) + taken(size);
    PEAK.fetch_max(used, Ordering::Relaxed);
}

// SAFETY: every call is passed on to `System` with its arguments unchanged, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        allocated(size);
        USED.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: as above; `old` came from `System`, as every block here does.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        USED.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The peak number of bytes in use in a run with this many tasks. Each task ticks once, and misses nothing however busy the machine is:
/// misses, and the record of who caused them, take additional memory.
fn most_in_use(tasks: usize) -> usize {
    let mut text = "[worker.main]\npolicy = \"other\"\n".to_owned();
    for task in 0..tasks {
        writeln!(text, "[task.t{task}]\nkind = \"load\"\nperiod = \"1h\"").unwrap();
    }
    PEAK.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
    let outcome = Embedded::of(Kinds::builtin(), text).lasting(Span::from_millis(600)).telling(|| {}).run();
    assert_eq!(outcome.summary.tasks.len(), tasks);
    assert!(outcome.summary.tasks.iter().all(|task| task.counts.due == 1));
    PEAK.load(Ordering::Relaxed)
}

/// Both tests count the bytes of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Bytes in use after each of these numbers of reloads; `config` makes the text of the nth.
fn used_after(reloads: &[usize], config: fn(usize) -> String) -> Vec<usize> {
    let daemon = Embedded::of(Kinds::builtin(), config(0)).telling(|| {}).start();
    daemon.until("it has begun", || daemon.reads() > 0);
    let mut used = Vec::new();
    for reload in 1..=*reloads.last().unwrap() {
        daemon.reload(config(reload));
        daemon.until("it is read", || daemon.reads() > reload);
        if reloads.contains(&reload) {
            // By then, memory of tasks that the last reload ended is freed. The minimum of several readings is what stays in use.
            let looks = (0..100).map(|_| {
                pause(Span::from_millis(10));
                USED.load(Ordering::Relaxed)
            });
            used.push(looks.min().unwrap());
        }
    }
    daemon.stop();
    daemon.end();
    used
}

/// A sensor, an output that follows it, and a task with this rate.
fn with_output(name: &str, rate: usize) -> String {
    let path = std::env::temp_dir().join(format!("hertzd-memory-{}", std::process::id()));
    std::fs::write(&path, "0").unwrap();
    let path = path.display();
    format!(
        "[worker.main]\npolicy = \"other\"\n[task.s{name}]\nkind = \"sensor\"\nrate = 10\npath = \"/proc/uptime\"\nname = \"v\"\n\
         [task.o{name}]\nkind = \"output\"\nrate = 10\npath = \"{path}\"\ninput = \"s{name}.v\"\nsafe = 0\n\
         [task.l]\nkind = \"load\"\nrate = {rate}\n"
    )
}

/// The memory that a reload leaves, besides the histograms and the history, which grow with time anyway: the counts of each ended task, for
/// at most the 2,048 most recent names. `HERTZD_RELOADS` sets how many reloads to try.
#[test]
fn reloads_keep_little_memory() {
    let _one = ONE_AT_A_TIME.lock();
    let last = std::env::var("HERTZD_RELOADS").map_or(60, |text| text.parse().unwrap());
    for (what, most, config) in [
        ("the same", 1_200, (|_| with_output("", 10)) as fn(usize) -> String),
        ("another rate", 1_200, |n| with_output("", 10 + n % 2)),
        ("other names", 1_200, |n| with_output(["a", "b"][n % 2], 10)),
        ("new names", 4_000, |n| with_output(&n.to_string(), 10)),
    ] {
        // The minimum of several readings: while a busy machine makes ticks late, the history of misses grows too.
        let looks: Vec<_> = (1..=4).map(|part| last * part / 4).collect();
        let used = used_after(&looks, config);
        let each = used.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) / (last / 4)).min().unwrap();
        println!("{what}: {used:?}, {each} bytes a reload");
        assert!(each <= most, "{what}: {each} bytes a reload");
    }
}

#[test]
fn a_task_without_a_recording_takes_less_than_4_kb() {
    let _one = ONE_AT_A_TIME.lock();
    let [few, many] = [500, 3_000].map(most_in_use);
    let per_task = (many - few) / 2_500;
    let beside = few.saturating_sub(500 * per_task);
    println!("{few} bytes with 500 tasks, {many} with 3000: {per_task} for each, and {beside}");
    assert!(per_task <= PER_TASK, "{per_task} bytes for each task");
    assert!(beside <= BESIDE, "{beside} bytes beside the tasks");
}
